/* make_gguf.c -- writes a GGUF (v3) of any shape and format with random weights, for tests and measurements.
 * A row consists of runs of up to 256 weights, which are taken at random from a pool of two million normally distributed weights; the pool
 * is quantised once per format and row length.  So a file is written at the speed of the disk.  The same seed gives the same bytes, and
 * files with the same shape and seed have the same weights in any format. */
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "templates/ref/dequant.h"
#include "normal.h"
#include "quantize.h"
#include "recipes.h"

enum { ALIGNMENT = 32, POOL = 1 << 21, RUN = 256, SHORT_ROW = 2 * RUN, BYTE_TOKENS = 256, SPECIAL_TOKENS = 2 };

/* ---- what to make ---- */

struct shape {
    const char *name, *arch;
    uint32_t n_embd, n_layer, n_ff, n_head, n_head_kv, head_dim, n_vocab;
    bool     tied;
    uint32_t n_ctx;
    double   rope_base;
    bool     llama3_rope;            /* a rope_freqs tensor, as in Llama 3.1 and 3.2 */
};
static const struct shape shapes[] = {
    /* name            arch    n_embd layers  n_ff  heads kv  dim  vocab   tied   n_ctx   rope_base  rope_freqs */
    { "fairytale",    "llama",   256,  8,   768,   4,  2,  64,   4096, true,   1024,     10000, false },
    { "110m",         "llama",   768, 12,  2048,  12, 12,  64,  32000, true,   1024,     10000, false },
    { "tinyllama",    "llama",  2048, 22,  5632,  32,  4,  64,  32000, false,  2048,     10000, false },
    { "llama-3.2-1b", "llama",  2048, 16,  8192,  32,  8,  64, 128256, true, 131072,    500000, true },
    { "llama-3.2-3b", "llama",  3072, 28,  8192,  24,  8, 128, 128256, true, 131072,    500000, true },
    { "llama-3.1-8b", "llama",  4096, 32, 14336,  32,  8, 128, 128256, false, 131072,   500000, true },
    { "llama-3.1-70b", "llama", 8192, 80, 28672,  64,  8, 128, 128256, false, 131072,   500000, true },
    { "mistral-7b",   "llama",  4096, 32, 14336,  32,  8, 128,  32768, false,  32768,  1000000, false },
    { "qwen2.5-0.5b", "qwen2",   896, 24,  4864,  14,  2,  64, 151936, true,  32768,   1000000, false },
    { "qwen2.5-1.5b", "qwen2",  1536, 28,  8960,  12,  2, 128, 151936, true,  32768,   1000000, false },
    { "qwen2.5-7b",   "qwen2",  3584, 28, 18944,  28,  4, 128, 152064, false, 32768,   1000000, false },
    { "qwen3-0.6b",   "qwen3",  1024, 28,  3072,  16,  8, 128, 151936, true,  40960,   1000000, false },
    { "qwen3-4b",     "qwen3",  2560, 36,  9728,  32,  8, 128, 151936, true,  40960,   1000000, false },
    { "qwen3-8b",     "qwen3",  4096, 36, 12288,  32,  8, 128, 151936, false, 40960,   1000000, false },
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* llama-quantize's file types: name, general.file_type, format of most matrices. */
struct mix { const char *name; uint32_t file_type; enum quant quant; };
static const struct mix mixes[] = {
    { "F32",     0, QUANT_F32 },    { "F16",     1, QUANT_F16 },    { "BF16",   32, QUANT_BF16 },   { "Q4_0",    2, QUANT_Q4_0 },
    { "Q4_1",    3, QUANT_Q4_1 },   { "Q5_0",    8, QUANT_Q5_0 },   { "Q5_1",    9, QUANT_Q5_1 },   { "Q8_0",    7, QUANT_Q8_0 },
    { "Q2_K",   10, QUANT_Q2_K },   { "Q2_K_S", 21, QUANT_Q2_K },   { "Q3_K_S", 11, QUANT_Q3_K },   { "Q3_K_M", 12, QUANT_Q3_K },
    { "Q3_K_L", 13, QUANT_Q3_K },   { "Q4_K_S", 14, QUANT_Q4_K },   { "Q4_K_M", 15, QUANT_Q4_K },   { "Q5_K_S", 16, QUANT_Q5_K },
    { "Q5_K_M", 17, QUANT_Q5_K },   { "Q6_K",   18, QUANT_Q6_K },   { "IQ4_NL", 25, QUANT_IQ4_NL }, { "IQ4_XS", 30, QUANT_IQ4_XS },
    { "MXFP4",  38, QUANT_MXFP4 },
};
enum { N_MIXES = sizeof mixes / sizeof *mixes, FILE_TYPE_GUESSED = 1024 };

/* Optional tensors of a block, by their roles in models/transformer.yaml. */
enum optional { OUTPUT_BIAS, ROPE_FREQS, ATTN_Q_BIAS, ATTN_K_BIAS, ATTN_V_BIAS, ATTN_Q_NORM, ATTN_K_NORM, ATTN_OUTPUT_BIAS, FFN_GATE_BIAS,
                FFN_UP_BIAS, FFN_DOWN_BIAS, N_OPTIONAL };
static const char *const optional_names[N_OPTIONAL] = { "output_bias", "rope_freqs", "attn_q_bias", "attn_k_bias", "attn_v_bias",
                                                        "attn_q_norm", "attn_k_norm", "attn_output_bias", "ffn_gate_bias", "ffn_up_bias",
                                                        "ffn_down_bias" };

static struct options {
    struct shape      shape;
    const struct recipe *recipe;     /* or NULL: a llama with that shape */
    const struct mix *mix;
    const char       *real;           /* a file of recipes; all keys are its keys; or NULL */
    bool              pure, each, scales, header_only, hole, tokenizer, wordpieces;
    uint64_t          seed;
    const char       *out;
    uint32_t          with;          /* 1 << enum optional */
    const char       *keys[16];      /* [n_keys] KEY=VALUE */
    uint32_t          n_keys;
} opt;

static _Noreturn void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("make_gguf: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static void *allocate(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (!p) die("no memory for %zu bytes", bytes);
    return p;
}

/* ---- random weights ---- */

/* Quantised normal weights of deviation 1/sqrt(cols). */
struct pool { enum quant quant; uint64_t cols; uint8_t *blocks; struct pool *next; };

static const uint8_t *pool_of(enum quant quant, uint64_t cols)
{
    static struct pool *pools;
    for (struct pool *p = pools; p; p = p->next) if (p->quant == quant && p->cols == cols) return p->blocks;
    const struct format *q = format_of(quant);
    struct pool *p = allocate(sizeof *p);
    *p = (struct pool){ quant, cols, allocate((size_t)POOL / q->block_weights * q->block_bytes), pools };
    uint64_t state = opt.seed * 1000003 + cols;
    const float deviation = 1 / sqrtf((float)cols);
    float x[RUN];
    for (uint32_t i = 0; i < POOL; i += RUN) {
        for (int k = 0; k < RUN; k++) x[k] = random_normal(&state) * deviation;
        quantize_row(quant, p->blocks + (size_t)i / q->block_weights * q->block_bytes, x, RUN);
    }
    return (pools = p)->blocks;
}

/* ---- which tensors, in which format ---- */

enum fill { FILL_WEIGHTS, FILL_NORM, FILL_BIAS, FILL_DECAY, FILL_ROPE_FREQS, FILL_SCALE, FILL_SMALL, FILL_EYE };
/* rows 0: a vector of cols; slices 0: not three-dimensional, else rows is the number of rows of all slices */
struct tensor { char name[80]; enum quant quant; uint64_t cols, rows, slices; enum fill fill; };
static struct tensor *tensors;
static uint32_t n_tensors;
static uint32_t n_attn_v;            /* attn_v tensors so far: llama-quantize counts them */

static bool more_bits(uint32_t i, uint32_t n) { return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2; }
/* A file type of llama-quantize, or any format of format.def. */
static const struct mix *mix_named(const char *name)
{
    static struct mix plain;
    for (int k = 0; k < N_MIXES; k++) if (strcmp(mixes[k].name, name) == 0) return &mixes[k];
    for (int k = 0; k < FORMAT_COUNT; k++) {
        plain = (struct mix){ format_table[k].name, FILE_TYPE_GUESSED, format_table[k].id };
        if (strcmp(plain.name, name) == 0) return &plain;
    }
    die("no type \"%s\"; see --help", name);
}
/* --each: each matrix has the next format; in every second layer ffn_up has the format of ffn_gate, so that GPUs compute them in one
 * kernel. */
static enum quant next_quant(const char *role, uint32_t layer)
{
    static uint32_t at;
    static enum quant last;
    if (strcmp(role, "ffn_up") != 0 || layer % 2) last = format_table[at++ % FORMAT_COUNT].id;
    return last;
}

static bool is_mix(const char *name) { return strcmp(opt.mix->name, name) == 0; }

/* For rows that are not a multiple of 256: a format with blocks of 32 instead of 256. */
static enum quant narrower(enum quant quant)
{
    static const struct { enum quant from, to; } rows[] = {
        { QUANT_Q4_K, QUANT_Q5_0 }, { QUANT_Q5_K, QUANT_Q5_1 }, { QUANT_Q6_K, QUANT_Q8_0 },
    };
    if (format_of(quant)->block_weights != 256) return quant;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) if (rows[i].from == quant) return rows[i].to;
    return QUANT_IQ4_NL;
}
/* llama_tensor_get_type() in llama-quant.cpp (ggml-org/llama.cpp), without an importance matrix; experts are treated like dense matrices of
 * the same name.  With file type MXFP4 only experts have that format, if the model has experts. */
static enum quant matrix_quant(const char *role, uint32_t layer, uint64_t cols)
{
    const struct shape *s = &opt.shape;
    const bool is_expert = strstr(role, "_exps") != NULL;
    if (opt.recipe && !opt.pure && opt.mix->quant == QUANT_MXFP4 && !is_expert) return QUANT_Q8_0;
    if (strcmp(role, "ffn_down_exps") == 0) role = "ffn_down";
    const bool output = strcmp(role, "output") == 0 || (s->tied && strcmp(role, "token_embd") == 0);
    enum quant quant = opt.each ? next_quant(role, layer) : opt.mix->quant;
    if (opt.each && cols % format_of(quant)->block_weights == 0) return quant;
    if (format_of(quant)->block_weights == 1) return quant;
    if (!opt.pure) {
        const uint32_t gqa = s->n_head / s->n_head_kv;
        const bool small_iq4 = is_mix("IQ4_NL") || is_mix("IQ4_XS");
        if (output) {
            if (quant == QUANT_MXFP4 || cols % format_of(quant)->block_weights) quant = QUANT_Q8_0;
            else if (quant != QUANT_Q8_0) quant = QUANT_Q6_K;
        } else if (strcmp(role, "token_embd") == 0) {
            if (quant == QUANT_MXFP4) quant = QUANT_Q8_0;
        } else if (strcmp(role, "attn_v") == 0) {
            if (is_mix("Q2_K")) quant = gqa >= 4 ? QUANT_Q4_K : QUANT_Q3_K;
            else if (is_mix("Q2_K_S") && gqa >= 4) quant = QUANT_Q4_K;
            else if (is_mix("Q3_K_M")) quant = n_attn_v < 2 ? QUANT_Q5_K : QUANT_Q4_K;
            else if (is_mix("Q3_K_L")) quant = QUANT_Q5_K;
            else if (small_iq4 && gqa >= 4) quant = QUANT_Q5_K;
            else if ((is_mix("Q4_K_M") || is_mix("Q5_K_M")) && more_bits(n_attn_v, s->n_layer)) quant = QUANT_Q6_K;
            else if (is_mix("Q4_K_S") && n_attn_v < 4) quant = QUANT_Q5_K;
            const bool is_70b = strcmp(s->arch, "llama") == 0 && s->n_layer == 80 && s->n_head != s->n_head_kv;
            if (is_70b && (quant == QUANT_Q3_K || quant == QUANT_Q4_K)) quant = QUANT_Q5_K;
            n_attn_v++;
        } else if (strcmp(role, "ffn_down") == 0) {
            if (is_mix("Q2_K")) quant = QUANT_Q3_K;
            else if (is_mix("Q2_K_S")) quant = layer < s->n_layer / 8 ? QUANT_Q4_K : quant;
            else if (is_mix("Q3_K_M")) quant = layer < s->n_layer / 16 ? QUANT_Q5_K : QUANT_Q4_K;
            else if (is_mix("Q3_K_L")) quant = QUANT_Q5_K;
            else if ((is_mix("Q4_K_M") || is_mix("Q5_K_M")) && more_bits(layer, s->n_layer)) quant = QUANT_Q6_K;
            else if ((is_mix("Q4_K_S") || small_iq4) && layer < s->n_layer / 8) quant = QUANT_Q5_K;
        } else if (strcmp(role, "attn_output") == 0) {
            if (is_mix("Q2_K")) quant = QUANT_Q3_K;
            else if (is_mix("Q3_K_M")) quant = QUANT_Q4_K;
            else if (is_mix("Q3_K_L")) quant = QUANT_Q5_K;
        }
    }
    if (cols % format_of(quant)->block_weights)
        quant = narrower(quant);
    return cols % format_of(quant)->block_weights ? QUANT_F16 : quant;
}

static void add(const char *role, const char *ending, int64_t layer, uint64_t cols, uint64_t rows, enum fill fill)
{
    struct tensor *t = &tensors[n_tensors++];
    if (layer < 0) snprintf(t->name, sizeof t->name, "%s%s", role, ending);
    else snprintf(t->name, sizeof t->name, "blk.%" PRId64 ".%s%s", layer, role, ending);
    t->cols = cols;
    t->rows = rows;
    t->fill = fill;
    t->quant = rows ? matrix_quant(role, (uint32_t)layer, cols) : QUANT_F32;
}

static bool has(enum optional o) { return opt.with >> o & 1; }
static void add_bias(enum optional o, const char *role, int64_t layer, uint64_t cols)
{
    if (has(o)) add(role, ".bias", layer, cols, 0, FILL_BIAS);
}

static void list_recipe(void)
{
    static const enum fill fill[] = { [RECIPE_WEIGHTS] = FILL_WEIGHTS, [RECIPE_NORM] = FILL_NORM, [RECIPE_BIAS] = FILL_BIAS,
                                      [RECIPE_DECAY] = FILL_DECAY, [RECIPE_SMALL] = FILL_SMALL, [RECIPE_EYE] = FILL_EYE };
    const struct recipe *r = opt.recipe;
    uint32_t n_lines = 1;
    for (const char *p = r->tensors; *p; p++) n_lines += *p == '\n';
    tensors = allocate(((uint64_t)opt.shape.n_layer + 1) * n_lines * sizeof *tensors);
    for (int64_t l = -1; l < (int64_t)opt.shape.n_layer; l++) {
        struct recipe_tensor t;
        bool wanted;
        for (const char *text = r->tensors; recipe_tensor(r, opt.shape.n_vocab, &text, l, &t, &wanted); ) {
            if (!wanted) continue;
            struct tensor *to = &tensors[n_tensors++];
            const uint64_t rows = t.slices ? t.rows * t.slices : t.rows;
            *to = (struct tensor){ .cols = t.cols, .rows = rows, .slices = t.slices, .fill = fill[t.fill] };
            snprintf(to->name, sizeof to->name, "%s", t.name);
            to->quant = t.rows && !t.f32 ? matrix_quant(t.role, (uint32_t)l, t.cols) : QUANT_F32;
        }
    }
}

static void list_tensors(void)
{
    const struct shape *s = &opt.shape;
    if (opt.recipe) { list_recipe(); return; }
    const uint64_t n_q = (uint64_t)s->n_head * s->head_dim, n_kv = (uint64_t)s->n_head_kv * s->head_dim;
    tensors = allocate((s->n_layer * (9u + N_OPTIONAL) + 5u) * sizeof *tensors);
    add("token_embd", ".weight", -1, s->n_embd, s->n_vocab, FILL_WEIGHTS);
    if (has(ROPE_FREQS)) add("rope_freqs", ".weight", -1, s->head_dim / 2, 0, FILL_ROPE_FREQS);
    for (uint32_t l = 0; l < s->n_layer; l++) {
        add("attn_norm", ".weight", l, s->n_embd, 0, FILL_NORM);
        add("attn_q", ".weight", l, s->n_embd, n_q, FILL_WEIGHTS);
        add("attn_k", ".weight", l, s->n_embd, n_kv, FILL_WEIGHTS);
        add("attn_v", ".weight", l, s->n_embd, n_kv, FILL_WEIGHTS);
        add_bias(ATTN_Q_BIAS, "attn_q", l, n_q);
        add_bias(ATTN_K_BIAS, "attn_k", l, n_kv);
        add_bias(ATTN_V_BIAS, "attn_v", l, n_kv);
        if (has(ATTN_Q_NORM)) add("attn_q_norm", ".weight", l, s->head_dim, 0, FILL_NORM);
        if (has(ATTN_K_NORM)) add("attn_k_norm", ".weight", l, s->head_dim, 0, FILL_NORM);
        add("attn_output", ".weight", l, n_q, s->n_embd, FILL_WEIGHTS);
        add_bias(ATTN_OUTPUT_BIAS, "attn_output", l, s->n_embd);
        add("ffn_norm", ".weight", l, s->n_embd, 0, FILL_NORM);
        add("ffn_gate", ".weight", l, s->n_embd, s->n_ff, FILL_WEIGHTS);
        add_bias(FFN_GATE_BIAS, "ffn_gate", l, s->n_ff);
        add("ffn_up", ".weight", l, s->n_embd, s->n_ff, FILL_WEIGHTS);
        add_bias(FFN_UP_BIAS, "ffn_up", l, s->n_ff);
        add("ffn_down", ".weight", l, s->n_ff, s->n_embd, FILL_WEIGHTS);
        add_bias(FFN_DOWN_BIAS, "ffn_down", l, s->n_embd);
    }
    add("output_norm", ".weight", -1, s->n_embd, 0, FILL_NORM);
    if (!s->tied) add("output", ".weight", -1, s->n_embd, s->n_vocab, FILL_WEIGHTS);
    add_bias(OUTPUT_BIAS, "output", -1, s->n_vocab);
}

/* --scales: the factors that converters of NVFP4 write with a matrix: for its results (one, or one per expert) and for its input. */
static void add_scales(void)
{
    const uint32_t n = n_tensors;
    struct tensor *all = allocate((uint64_t)n * 3 * sizeof *all);
    n_tensors = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct tensor *t = &tensors[i];
        const char *ending = strstr(t->name, ".weight");
        all[n_tensors++] = *t;
        if (!ending || !t->rows || t->quant == QUANT_F32 || strcmp(t->name, "token_embd.weight") == 0) continue;
        static const char *const names[] = { "scale", "input_scale" };
        for (int k = 0; k < 2; k++) {
            struct tensor *to = &all[n_tensors++];
            *to = (struct tensor){ .quant = QUANT_F32, .cols = t->slices ? t->slices : 1, .fill = FILL_SCALE };
            snprintf(to->name, sizeof to->name, "%.*s.%s", (int)(ending - t->name), t->name, names[k]);
        }
    }
    tensors = all;
}

static uint64_t row_bytes(const struct tensor *t)
{
    const struct format *q = format_of(t->quant);
    return t->cols / q->block_weights * q->block_bytes;
}
static uint64_t tensor_bytes(const struct tensor *t) { return row_bytes(t) * (t->rows ? t->rows : 1); }
static uint64_t padded(uint64_t n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* ---- the file ---- */

static FILE    *out;
static uint64_t written;
static uint64_t n_pairs;

static void put(const void *bytes, uint64_t n)
{
    if (fwrite(bytes, 1, n, out) != n) die("cannot write %s", opt.out);
    written += n;
}
static void put_uint(uint64_t value, int bytes)
{
    uint8_t b[8];
    for (int i = 0; i < bytes; i++) b[i] = (uint8_t)(value >> 8 * i);
    put(b, (uint64_t)bytes);
}
static void put_string(const char *s) { put_uint(strlen(s), 8); put(s, strlen(s)); }
static void put_f32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    put_uint(bits, 4);
}
static void pad(void) { while (written % ALIGNMENT) put("", 1); }

enum { U32 = 4, I32 = 5, FLOAT32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };       /* GGUF value types */

static void key(const char *name, uint32_t type)                                /* "%" means the architecture */
{
    char full[80];
    if (*name == '%') snprintf(full, sizeof full, "%s%s", opt.shape.arch, name + 1);
    else snprintf(full, sizeof full, "%s", name);
    put_string(full);
    put_uint(type, 4);
    n_pairs++;
}
static void pair_u32(const char *name, uint64_t value)       { key(name, U32); put_uint(value, 4); }
static void pair_f32(const char *name, double value)         { key(name, FLOAT32); put_f32((float)value); }
static void pair_string(const char *name, const char *value) { key(name, STRING); put_string(value); }
static void pair_array(const char *name, uint32_t item, uint64_t count) { key(name, ARRAY); put_uint(item, 4); put_uint(count, 8); }

/* ---- the vocabulary: 256 bytes, then all words of two, three, ... small letters, each one letter more than an earlier token ---- */

static char *byte_token(char *text, uint32_t byte)           /* GPT-2's printable character for a byte, as UTF-8 */
{
    uint32_t c = byte, shifted = 0;
    const bool plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    if (!plain) {
        for (uint32_t b = 0; b < byte; b++) shifted += !((b >= 33 && b <= 126) || (b >= 161 && b != 173));
        c = 256 + shifted;
    }
    if (c < 0x80) snprintf(text, 3, "%c", (int)c);
    else { text[0] = (char)(0xc0 | c >> 6); text[1] = (char)(0x80 | (c & 63)); text[2] = 0; }
    return text;
}

static char *word_token(char *text, uint32_t number)         /* 0: "aa", 676: "aaa" */
{
    uint32_t length = 2, count = 26 * 26;
    while (number >= count) { number -= count; count *= 26; length++; }
    text[length] = 0;
    for (uint32_t i = length; i-- > 0; number /= 26) text[i] = (char)('a' + number % 26);
    return text;
}

static void put_bytes_vocabulary(const char *pre)
{
    const uint32_t n_words = opt.shape.n_vocab - BYTE_TOKENS - SPECIAL_TOKENS;
    char text[16];
    pair_string("tokenizer.ggml.model", "gpt2");
    pair_string("tokenizer.ggml.pre", pre);
    pair_array("tokenizer.ggml.tokens", STRING, opt.shape.n_vocab);
    for (uint32_t i = 0; i < BYTE_TOKENS; i++) put_string(byte_token(text, i));
    for (uint32_t i = 0; i < n_words; i++) put_string(word_token(text, i));
    put_string("<|begin_of_text|>");
    put_string("<|end_of_text|>");
    pair_array("tokenizer.ggml.token_type", I32, opt.shape.n_vocab);
    for (uint32_t i = 0; i < opt.shape.n_vocab; i++) put_uint(i < BYTE_TOKENS + n_words ? 1 : 3, 4);        /* normal, control */
    pair_array("tokenizer.ggml.merges", STRING, n_words);
    for (uint32_t i = 0; i < n_words; i++) {
        word_token(text, i);
        const size_t n = strlen(text);
        text[n + 1] = 0;
        text[n] = text[n - 1];
        text[n - 1] = ' ';
        put_string(text);
    }
}

static void put_vocabulary(void)
{
    const bool qwen = strncmp(opt.shape.arch, "qwen", 4) == 0;
    put_bytes_vocabulary(qwen ? "qwen2" : "llama-bpe");
    pair_u32("tokenizer.ggml.bos_token_id", opt.shape.n_vocab - 2);
    pair_u32("tokenizer.ggml.eos_token_id", opt.shape.n_vocab - 1);
    key("tokenizer.ggml.add_bos_token", BOOL);
    put_uint(!qwen, 1);
}

/* Vocabularies of SentencePiece (llama, t5, gemma4): <unk>, <s>, </s>, bytes, then words; shorter words have higher scores. */
static void put_pieces(const char *model, const char *pre)
{
    enum { N_SPECIAL = 3 };
    const uint32_t n_vocab = opt.shape.n_vocab;
    static const char *const special[N_SPECIAL] = { "<unk>", "<s>", "</s>" };
    char text[16];
    pair_string("tokenizer.ggml.model", model);
    if (*pre) pair_string("tokenizer.ggml.pre", pre);
    pair_array("tokenizer.ggml.tokens", STRING, n_vocab);
    for (uint32_t i = 0; i < n_vocab; i++) {
        const uint32_t word = i - N_SPECIAL - BYTE_TOKENS;
        if (i < N_SPECIAL) { put_string(special[i]); continue; }
        if (i < N_SPECIAL + BYTE_TOKENS) snprintf(text, sizeof text, "<0x%02X>", i - N_SPECIAL);
        else if (word == 0) snprintf(text, sizeof text, "\xe2\x96\x81");
        else if (word <= 26) snprintf(text, sizeof text, "%c", (int)('a' + word - 1));
        else word_token(text, word - 27);
        put_string(text);
    }
    pair_array("tokenizer.ggml.scores", FLOAT32, n_vocab);
    for (uint32_t i = 0; i < n_vocab; i++) put_f32(i < N_SPECIAL + BYTE_TOKENS ? 0 : -(float)(i - N_SPECIAL - BYTE_TOKENS));
    pair_array("tokenizer.ggml.token_type", I32, n_vocab);
    for (uint32_t i = 0; i < n_vocab; i++) put_uint(i == 0 ? 2 : i < N_SPECIAL ? 3 : i < N_SPECIAL + BYTE_TOKENS ? 6 : 1, 4);
    if (strcmp(model, "gemma4")) return;
    pair_array("tokenizer.ggml.merges", STRING, 1);            /* gemma4 is BPE with a vocabulary like SentencePiece's */
    put_string("a a");
}

/* Letters at the beginning of words and inside words, then words of two letters and more, as converters write BERT's vocabulary. */
static void put_pieces_of_words(const char *pre)
{
    static const char *const special[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" };
    enum { N_SPECIAL = 5, LETTERS = 26 };
    char text[16], piece[24];
    pair_string("tokenizer.ggml.model", "bert");
    pair_string("tokenizer.ggml.pre", pre);
    pair_array("tokenizer.ggml.tokens", STRING, opt.shape.n_vocab);
    for (uint32_t i = 0; i < opt.shape.n_vocab; i++) {
        const uint32_t letter = i - N_SPECIAL;
        if (letter < 2 * LETTERS) { text[0] = (char)('a' + letter % LETTERS); text[1] = 0; }
        else if (i >= N_SPECIAL) word_token(text, letter - 2 * LETTERS);
        snprintf(piece, sizeof piece, "%s%s", letter >= LETTERS && letter < 2 * LETTERS ? "" : "\xe2\x96\x81", text);
        put_string(i < N_SPECIAL ? special[i] : piece);
    }
    pair_array("tokenizer.ggml.token_type", I32, opt.shape.n_vocab);
    for (uint32_t i = 0; i < opt.shape.n_vocab; i++) put_uint(i < N_SPECIAL ? 3 : 1, 4);
}

static void put_wordpieces(void)
{
    put_pieces_of_words("jina-v2-en");
    pair_u32("tokenizer.ggml.token_type_count", 2);
    pair_u32("tokenizer.ggml.padding_token_id", 0);
    pair_u32("tokenizer.ggml.unknown_token_id", 1);
    pair_u32("tokenizer.ggml.bos_token_id", 2);
    pair_u32("tokenizer.ggml.seperator_token_id", 3);
    pair_u32("tokenizer.ggml.mask_token_id", 4);
}

enum { VALUE_TYPES = 13 };
static const char *const type_names[VALUE_TYPES] = { "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64",
                                                      "f64" };

static uint32_t guessed_type(const char *value, size_t n)
{
    if ((n == 4 && memcmp(value, "true", 4) == 0) || (n == 5 && memcmp(value, "false", 5) == 0)) return BOOL;
    if (n == 0 || strspn(value, "0123456789.-") < n) return STRING;
    return memchr(value, '.', n) ? FLOAT32 : U32;
}

static void put_value(uint32_t type, const char *value, size_t n)
{
    static const uint8_t bytes[VALUE_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    if (type == STRING) { put_uint(n, 8); put(value, n); }
    else if (type == FLOAT32) put_f32((float)strtod(value, NULL));
    else if (type == BOOL) put_uint(*value == 't', 1);
    else if (n == 1 && *value == 'N') put_uint(n_tensors, bytes[type]);
    else put_uint((uint64_t)strtoll(value, NULL, 10), bytes[type]);
}

/* "[8,8,2]"; "[8,8,2,...]" repeats the items until every layer has one. */
static void put_array(const char *name, const char *list, int type)
{
    const char *repeated = strstr(list, ",...]"), *end = repeated ? repeated : strchr(list, ']'), *p = list + 1;
    if (!end) die("\"%s\": no ] ends the array", list);
    uint64_t n = p < end;
    for (const char *c = p; c < end; c++) n += *c == ',';
    if (repeated) n = opt.shape.n_layer;
    uint32_t item = type >= 0 ? (uint32_t)type : guessed_type(p, strcspn(p, ",]"));
    if (type < 0 && item == U32) item = I32;                   /* converters write Python's integers as i32 */
    pair_array(name, item, n);
    for (uint64_t i = 0; i < n; i++) {
        const size_t length = strcspn(p, ",]");
        put_value(item, p, length);
        p = p + length < end ? p + length + 1 : list + 1;
    }
}

/* VALUE: true and false are bool, digits u32, digits with a point f32, text in brackets an array, anything else a string.  TYPE:VALUE has
 * that type; for an array it is the type of the items. */
static void put_key(const char *text)
{
    char name[80];
    const char *value = strchr(text, '=');
    snprintf(name, sizeof name, "%.*s", (int)(value - text), text);
    value++;
    int type = -1;
    for (int i = 0; i < VALUE_TYPES; i++) {
        const size_t n = strlen(type_names[i]);
        if (strncmp(value, type_names[i], n) == 0 && value[n] == ':') { type = i; value += n + 1; break; }
    }
    if (*value == '[') { put_array(name, value, type); return; }
    const size_t n = strlen(value);
    const uint32_t is = type >= 0 ? (uint32_t)type : guessed_type(value, n);
    key(name, is);
    put_value(is, value, n);
}

/* Lines KEY=VALUE, or "tokenizer MODEL PRE" at the place of the vocabulary. */
static void put_keys(const char *keys)
{
    char line[512], model[16], pre[32];
    for (const char *p = keys; *p; p += strcspn(p, "\n") + 1) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(p, "\n"), p);
        *pre = 0;
        if (strcmp(line, "%.vocab_size=V") == 0) continue;         /* written after block_count */
        if (sscanf(line, "tokenizer%*1[ ]%15s %31s", model, pre) < 1) put_key(line);
        else if (strcmp(model, "gpt2") == 0) put_bytes_vocabulary(pre);
        else if (strcmp(model, "bert") == 0) put_pieces_of_words(pre);
        else put_pieces(model, pre);
    }
}

static void put_hyperparameters(void)
{
    const struct shape *s = &opt.shape;
    const bool llama = strncmp(s->arch, "qwen", 4) != 0, bare = !opt.tokenizer && !opt.wordpieces;
    const bool told = opt.recipe ? strstr(opt.recipe->keys, "%.vocab_size=") != NULL : llama;
    pair_u32("%.block_count", s->n_layer);
    if (bare || told) pair_u32("%.vocab_size", s->n_vocab);        /* in other files the vocabulary gives the size */
    if (opt.recipe) {
        put_keys(opt.recipe->keys);
        return;
    }
    pair_u32("%.context_length", s->n_ctx);
    pair_u32("%.embedding_length", s->n_embd);
    pair_u32("%.feed_forward_length", s->n_ff);
    pair_u32("%.attention.head_count", s->n_head);
    pair_u32("%.attention.head_count_kv", s->n_head_kv);
    if (strcmp(s->arch, "qwen2") || s->head_dim != s->n_embd / s->n_head) {
        pair_u32("%.attention.key_length", s->head_dim);
        pair_u32("%.attention.value_length", s->head_dim);
    }
    if (llama) pair_u32("%.rope.dimension_count", s->head_dim);
    pair_f32("%.rope.freq_base", s->rope_base);
    pair_f32("%.attention.layer_norm_rms_epsilon", strncmp(s->arch, "qwen", 4) == 0 ? 1e-6 : 1e-5);
}

static void put_header(void)
{
    const struct shape *s = &opt.shape;
    char title[96];
    snprintf(title, sizeof title, "%s random %s%s", s->name, opt.mix->name, opt.pure ? " pure" : "");
    put("GGUF", 4);
    put_uint(3, 4);
    put_uint(n_tensors, 8);
    const uint64_t count_at = written;
    put_uint(0, 8);
    pair_string("general.architecture", s->arch);
    if (opt.real) {
        pair_u32("%.block_count", s->n_layer);
        put_keys(opt.recipe->keys);
    }
    else {
        pair_string("general.name", title);
        pair_u32("general.file_type", opt.mix->file_type);
        pair_u32("general.quantization_version", 2);
        put_hyperparameters();
    }
    for (uint32_t i = 0; i < opt.n_keys; i++) put_key(opt.keys[i]);
    if (opt.real) {}                                           /* its keys contain the vocabulary */
    else if (opt.wordpieces) put_wordpieces();
    else if (opt.tokenizer) put_vocabulary();
    else pair_string("tokenizer.ggml.model", "none");

    uint64_t offset = 0;
    for (uint32_t i = 0; i < n_tensors; i++) {
        const struct tensor *t = &tensors[i];
        put_string(t->name);
        put_uint(t->slices ? 3 : t->rows ? 2 : 1, 4);
        put_uint(t->cols, 8);
        if (t->rows) put_uint(t->rows / (t->slices ? t->slices : 1), 8);
        if (t->slices) put_uint(t->slices, 8);
        put_uint(t->quant, 4);
        put_uint(offset, 8);
        offset += padded(tensor_bytes(t));
    }
    pad();
    const uint64_t end = written;
    if (fseek(out, (long)count_at, SEEK_SET) != 0) die("cannot write %s", opt.out);
    put_uint(n_pairs, 8);
    if (fseek(out, 0, SEEK_END) != 0) die("cannot write %s", opt.out);
    written = end;
}

static void put_vector(const struct tensor *t, uint64_t *state)
{
    for (uint64_t i = 0; i < t->cols; i++) {
        float x = random_normal(state) * 0.1f;
        if (t->fill == FILL_NORM) x += 1;
        if (t->fill == FILL_DECAY) x = -0.05f - 5 * fabsf(x);
        if (t->fill == FILL_SCALE) x = 0.5f + 5 * fabsf(x);
        if (t->fill == FILL_ROPE_FREQS) {            /* Llama 3.1: factor 8, wave lengths 2048 .. 8192 interpolated */
            const double wave = 2 * 3.14159265358979 * pow(opt.shape.rope_base, (double)i / (double)t->cols);
            const double smooth = (8192 / wave - 1) / 3;
            x = wave < 2048 ? 1.0f : wave > 8192 ? 8.0f : (float)(1 / ((1 - smooth) / 8 + smooth));
        }
        put_f32(x);
    }
}

static void put_matrix(const struct tensor *t, uint64_t *state)
{
    const struct format *q = format_of(t->quant);
    const bool is_short = t->cols <= SHORT_ROW;               /* too few runs for many different rows: every weight is new */
    const uint8_t *pool = is_short ? NULL : pool_of(t->quant, t->cols);
    const uint64_t run = RUN / q->block_weights, n = t->cols / q->block_weights;    /* blocks */
    const uint64_t run_bytes = RUN / q->block_weights * q->block_bytes, bytes = row_bytes(t);
    const uint64_t rows_at_once = bytes < 1 << 20 ? (1 << 20) / bytes : 1;
    const float deviation = (t->fill == FILL_SMALL ? 1 / 32.0f : 1.0f) / sqrtf((float)t->cols);
    const bool norm = t->fill == FILL_NORM, eye = t->fill == FILL_EYE, decay = t->fill == FILL_DECAY;
    uint8_t *buffer = allocate(bytes * rows_at_once);
    for (uint64_t row = 0; row < t->rows; ) {
        uint64_t rows = t->rows - row < rows_at_once ? t->rows - row : rows_at_once;
        uint8_t *p = buffer;
        row += rows;
        for (; rows > 0 && is_short; rows--, p += bytes) {
            float x[SHORT_ROW];
            for (uint64_t i = 0; i < t->cols; i++) x[i] = norm ? 1 + random_normal(state) * 0.1f : random_normal(state) * deviation;
            for (uint64_t i = 0; i < t->cols && eye; i++) x[i] = i == row - rows;
            for (uint64_t i = 0; i < t->cols && decay; i++) x[i] = -0.05f - 0.5f * fabsf(x[i]);
            quantize_row(t->quant, p, x, t->cols);
        }
        for (; rows > 0; rows--)
            for (uint64_t i = 0; i < n; i += run) {
                const uint64_t blocks = n - i < run ? n - i : run;
                memcpy(p, pool + random_u64(state) % (POOL / RUN) * run_bytes, blocks * q->block_bytes);
                p += blocks * q->block_bytes;
            }
        put(buffer, (uint64_t)(p - buffer));
    }
    free(buffer);
}

/* ---- --self-test: every format against the reference that reads it ---- */

static int self_test(void)
{
    enum { N = 1 << 16 };
    static float x[N], y[N];
    static uint8_t blocks[N * 4];
    int failed = 0;
    uint64_t state = 1;
    for (int i = 0; i < N; i++) x[i] = random_normal(&state) * (1 / 64.0f);
    for (int i = 0; i < 512; i++) x[i] = 0;
    for (uint32_t place = 0; place < FORMAT_COUNT; place++) {
        const struct format *q = &format_table[place];
        quantize_row(q->id, blocks, x, N);
        dequantize_row_ref(q->id, y, blocks, N);
        double error = 0, power = 0;
        for (int i = 0; i < N; i++) { error += pow((double)x[i] - (double)y[i], 2); power += pow((double)x[i], 2); }
        const double relative = sqrt(error / power), bits = 8.0 * q->block_bytes / q->block_weights;
        /* An even grid of 2^bits steps over the range of a block has an error of about 2 * 2^-bits for a normal distribution. */
        const bool ok = relative < (bits > 8.6 ? 4e-3 : 2.5 * exp2(-bits));
        printf("%-7s %7.4f bits per weight, relative error %.2e%s\n", q->name, bits, relative, ok ? "" : "  TOO LARGE");
        failed += !ok;
    }
    return failed ? 1 : 0;
}

/* ---- command line ---- */

static void usage(FILE *to)
{
    fputs("usage: make_gguf [options] -o OUT.gguf\n"
          "  --shape NAME      of:", to);
    for (int i = 0; i < N_SHAPES; i++) fprintf(to, "%s%s", i % 6 == 0 && i ? "\n                    " : " ", shapes[i].name);
    for (uint32_t i = 0; i < n_recipes; i++) fprintf(to, "%s%s", i % 4 == 0 ? "\n                    " : " ", recipes[i].name);
    for (uint32_t i = 0; i < n_tiny_recipes; i++) fprintf(to, "%s%s", i % 5 == 0 ? "\n                    " : " ", tiny_recipes[i].name);
    fputs("\n                    (default fairytale); the following change parts of it, of those with experts --layers and --vocab alone\n"
          "  --arch NAME (what is not qwen2 or qwen3 has llama's tensors)  --layers N  --embd N  --ff N  --heads N  --kv-heads N  "
          "--head-dim N\n"
          "  --vocab N  --tied | --untied  --ctx N  --rope-base X\n"
          "  --type NAME       llama-quantize's file type, with its rule which tensor gets which format:\n"
          "                   ", to);
    for (int i = 0; i < N_MIXES; i++) fprintf(to, "%s%s", i == 12 ? "\n                    " : " ", mixes[i].name);
    fputs(" (default Q8_0)\n"
          "  --pure            the one format in all matrices\n"
          "  --each            every format in turn, as matrices come; in even layers ffn_up as ffn_gate\n"
          "  --scales          beside every matrix but token_embd NAME.scale and NAME.input_scale, as files of NVFP4 have\n"
          "  --with LIST       more tensors, of:", to);
    for (int i = 0; i < N_OPTIONAL; i++) fprintf(to, "%s%s", i % 6 == 3 ? "\n                    " : " ", optional_names[i]);
    fputs("\n"
          "  --real FILE       the shapes are those of FILE, as real.txt in keys.tar.xz; without --shape all of them, -o FOLDER/NAME.gguf\n"
          "  --key KEY=VALUE   one more key, up to 16 times; \"%\" at its beginning is the architecture\n"
          "  --tokenizer none  no vocabulary; wordpiece: as BERT has it (default: bpe, byte-level, of words of small letters)\n"
          "  --header-only     no tensor data\n"
          "  --hole            no tensor data, but a hole of that size\n"
          "  --seed N          (default 1)\n"
          "  --self-test       quantise and read back every format\n", to);
}

static uint32_t number(const char *name, const char *text)
{
    char *end;
    const unsigned long n = strtoul(text, &end, 10);
    if (*end || end == text || *text == '-' || n < 1 || n > 1u << 26)
        die("--%s: \"%s\" is not a number from 1 to %u", name, text, 1u << 26);
    return (uint32_t)n;
}

/* "output_bias,attn_q_norm" */
static void parse_with(const char *list)
{
    while (*list) {
        const size_t n = strcspn(list, ",");
        int k = 0;
        while (k < N_OPTIONAL && (strlen(optional_names[k]) != n || memcmp(optional_names[k], list, n))) k++;
        if (k == N_OPTIONAL) die("--with: no tensor \"%.*s\"; see --help", (int)n, list);
        opt.with |= 1u << k;
        list += n + (list[n] == ',');
    }
}

static const struct recipe *recipe_named(const char *name)
{
    for (uint32_t i = 0; i < n_recipes; i++) if (strcmp(recipes[i].name, name) == 0) return &recipes[i];
    for (uint32_t i = 0; i < n_tiny_recipes; i++) if (strcmp(tiny_recipes[i].name, name) == 0) return &tiny_recipes[i];
    die("no shape \"%s\"; see --help", name);
}

static void set_shape(const char *name)
{
    uint32_t k = 0;
    while (k < N_SHAPES && strcmp(shapes[k].name, name)) k++;
    if (k < N_SHAPES && !opt.real) { opt.shape = shapes[k]; return; }
    const struct recipe *recipe = opt.recipe = opt.real ? real_recipe(opt.real, name) : recipe_named(name);
    opt.shape = (struct shape){ .name = recipe->name, .arch = recipe->arch, .n_layer = recipe->n_layer, .n_vocab = recipe->n_vocab,
                                .n_head = recipe->n_head, .n_head_kv = recipe->n_head_kv, .head_dim = 2, .tied = recipe->tied };
}

/* The value of --NAME, or NULL. */
static const char *option_of(int argc, char **argv, const char *name)
{
    const size_t n = strlen(name);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) || strncmp(argv[i] + 2, name, n)) continue;
        if (argv[i][n + 2] == '=') return argv[i] + n + 3;
        if (!argv[i][n + 2] && i + 1 < argc) return argv[i + 1];
    }
    return NULL;
}

static void parse(int argc, char **argv)
{
    enum { SHAPE = 1, ARCH, LAYERS, EMBD, FF, HEADS, KV_HEADS, HEAD_DIM, VOCAB, TIED, UNTIED, CTX, ROPE_BASE, TYPE, PURE, EACH, KEY,
           TOKENIZER, HEADER_ONLY, SEED, SELF_TEST, WITH, SCALES, REAL, HOLE };
    static const struct option table[] = {
        { "shape", 1, 0, SHAPE }, { "arch", 1, 0, ARCH }, { "layers", 1, 0, LAYERS }, { "embd", 1, 0, EMBD }, { "ff", 1, 0, FF },
        { "heads", 1, 0, HEADS }, { "kv-heads", 1, 0, KV_HEADS }, { "head-dim", 1, 0, HEAD_DIM }, { "vocab", 1, 0, VOCAB },
        { "tied", 0, 0, TIED }, { "untied", 0, 0, UNTIED }, { "ctx", 1, 0, CTX }, { "rope-base", 1, 0, ROPE_BASE }, { "type", 1, 0, TYPE },
        { "pure", 0, 0, PURE }, { "each", 0, 0, EACH }, { "key", 1, 0, KEY }, { "tokenizer", 1, 0, TOKENIZER },
        { "header-only", 0, 0, HEADER_ONLY }, { "hole", 0, 0, HOLE }, { "seed", 1, 0, SEED },
        { "self-test", 0, 0, SELF_TEST }, { "with", 1, 0, WITH }, { "scales", 0, 0, SCALES },
        { "real", 1, 0, REAL }, { "help", 0, 0, 'h' }, { 0, 0, 0, 0 } };
    struct shape *s = &opt.shape;
    *s = shapes[0];
    opt.mix = &mixes[7];
    opt.tokenizer = true;
    opt.seed = 1;
    /* Reads the shape first, at any place, because the other options change it. */
    const char *shape = option_of(argc, argv, "shape");
    opt.real = option_of(argc, argv, "real");
    if (shape) set_shape(shape);
    bool head_dim_given = false, size_given = false;
    for (int c, i = 0; (c = getopt_long(argc, argv, "o:h", table, &i)) != -1; ) {
        const char *name = c < 64 ? table[i].name : "";
        switch (c) {
        case SHAPE: case REAL: break;
        case ARCH:
            s->arch = optarg;
            if (strlen(optarg) > 40) die("--arch: a name of at most 40 letters");
            break;
        case LAYERS: s->n_layer = number(name, optarg); break;
        case EMBD: s->n_embd = number(name, optarg); size_given = true; break;
        case FF: s->n_ff = number(name, optarg); break;
        case HEADS: s->n_head = number(name, optarg); size_given = true; break;
        case KV_HEADS: s->n_head_kv = number(name, optarg); break;
        case HEAD_DIM: s->head_dim = number(name, optarg); head_dim_given = true; break;
        case VOCAB: s->n_vocab = number(name, optarg); break;
        case TIED: s->tied = true; break;
        case UNTIED: s->tied = false; break;
        case CTX: s->n_ctx = number(name, optarg); break;
        case ROPE_BASE: s->rope_base = atof(optarg); break;
        case TYPE: opt.mix = mix_named(optarg); break;
        case PURE: opt.pure = true; break;
        case EACH: opt.each = true; break;
        case SCALES: opt.scales = true; break;
        case KEY:
            if (opt.n_keys == sizeof opt.keys / sizeof *opt.keys || !strchr(optarg, '=')) die("--key KEY=VALUE, up to 16 times");
            opt.keys[opt.n_keys++] = optarg;
            break;
        case TOKENIZER:
            opt.wordpieces = strcmp(optarg, "wordpiece") == 0;
            opt.tokenizer = strcmp(optarg, "bpe") == 0;
            if (!opt.tokenizer && !opt.wordpieces && strcmp(optarg, "none")) die("--tokenizer is bpe, wordpiece or none");
            break;
        case HEADER_ONLY: opt.header_only = true; break;
        case HOLE: opt.header_only = opt.hole = true; break;
        case SEED: opt.seed = number(name, optarg); break;
        case SELF_TEST: exit(self_test());
        case WITH: parse_with(optarg); break;
        case 'o': opt.out = optarg; break;
        case 'h': usage(stdout); exit(0);
        default: usage(stderr); exit(2);
        }
    }
    if (!opt.out || optind != argc) { usage(stderr); exit(2); }
    if (s->llama3_rope) opt.with |= 1u << ROPE_FREQS;
    if (strcmp(s->arch, "qwen2") == 0) opt.with |= 1u << ATTN_Q_BIAS | 1u << ATTN_K_BIAS | 1u << ATTN_V_BIAS;
    if (strcmp(s->arch, "qwen3") == 0) opt.with |= 1u << ATTN_Q_NORM | 1u << ATTN_K_NORM;
    if (size_given && !head_dim_given) s->head_dim = s->n_embd / s->n_head;
    if (s->n_head_kv > s->n_head) s->n_head_kv = s->n_head;
    if (s->head_dim == 0 || s->n_head % s->n_head_kv)
        die("%u heads of %u, %u for keys and values: no such attention", s->n_head, s->head_dim, s->n_head_kv);
    if (opt.tokenizer && s->n_vocab <= BYTE_TOKENS + SPECIAL_TOKENS)
        die("a vocabulary of %u has no room for %d bytes; use --tokenizer none", s->n_vocab, BYTE_TOKENS);
}

static void write_file(const char *path)
{
    n_tensors = n_attn_v = 0;
    written = n_pairs = 0;
    list_tensors();
    if (opt.scales) add_scales();
    opt.out = path;
    out = fopen(path, "wb");
    if (!out) die("cannot write %s", path);
    put_header();
    uint64_t state = opt.seed * 7919;
    for (uint32_t i = 0; i < n_tensors && !opt.header_only; i++) {
        if (tensors[i].rows) put_matrix(&tensors[i], &state);
        else put_vector(&tensors[i], &state);
        pad();
    }
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n_tensors; i++) bytes += padded(tensor_bytes(&tensors[i]));
    if (opt.hole && (fflush(out) != 0 || ftruncate(fileno(out), (off_t)(written + bytes)) != 0)) die("cannot make %s large", path);
    if (fclose(out) != 0) die("cannot write %s", path);
    free(tensors);
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    if (!opt.real || opt.recipe) { write_file(opt.out); return 0; }
    const char *folder = opt.out, *name = NULL;
    char path[4096];
    while ((name = real_next(opt.real, name))) {
        set_shape(name);
        snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
        write_file(path);
    }
    return 0;
}
