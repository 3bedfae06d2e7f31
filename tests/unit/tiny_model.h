/* tiny_model.h -- a model of two small layers in memory, without tensor data, for tests of the stages up to emit.
 * One test program includes it once, after die_capture.h. */
#ifndef FORGEC_TINY_MODEL_H
#define FORGEC_TINY_MODEL_H
#include "compiler/front/gguf.h"
#include "compiler/front/model.h"
#include <stdlib.h>
#include <unistd.h>

struct tiny {
    const char *arch;
    uint32_t    n_embd, n_ff, n_head, n_head_kv, head_dim, n_vocab;
    enum quant  matrix;                       /* of all matrices */
    uint32_t    n_layer;
    void      (*extra)(struct text *pairs);   /* more metadata, n_extra pairs; or NULL */
    uint32_t    n_extra;
    const char *omit;                         /* a key to leave out, without the architecture; or NULL */
    bool        has_data;                     /* all tensors have data and are F32 (matrix: QUANT_F32) */
};
static const struct tiny tiny_llama = { "llama", 64, 96, 4, 2, 32, 100, QUANT_Q8_0, 2, NULL, 0, NULL, false };

static void tiny_u32(struct text *t, uint32_t x) { text_append(t, (const char *)&x, sizeof x); }
static void tiny_u64(struct text *t, uint64_t x) { text_append(t, (const char *)&x, sizeof x); }
static void tiny_string(struct text *t, const char *s) { tiny_u64(t, strlen(s)); text_puts(t, s); }
static void tiny_key(struct text *t, const char *key, enum gguf_type type) { tiny_string(t, key); tiny_u32(t, type); }
static inline void tiny_pair_f32(struct text *t, const char *key, float x)
{
    tiny_key(t, key, GGUF_F32);
    text_append(t, (const char *)&x, sizeof x);
}

static struct { struct text text; uint32_t n; uint64_t offset; } tiny_tensors;
static const char *tiny_scalar;                /* one more tensor, of one number; or NULL */
static bool tiny_reads_all;                    /* the wirings of tiny_yaml must read every tensor */
static bool tiny_drafts;                       /* read the models of tiny_yaml with the MTP block */
static void (*tiny_more)(void);                /* adds tensors, by tiny_tensor and tiny_slices; or NULL */

/* slices 0: a matrix; slices and rows 0: a vector. */
static void tiny_slices(const char *name, enum quant quant, uint64_t slices, uint64_t rows, uint64_t cols)
{
    struct text *t = &tiny_tensors.text;
    const struct format *q = format_of(quant);
    tiny_string(t, name);
    tiny_u32(t, slices ? 3 : rows ? 2 : 1);
    tiny_u64(t, cols);
    if (rows) tiny_u64(t, rows);
    if (slices) tiny_u64(t, slices);
    tiny_u32(t, quant);
    tiny_u64(t, tiny_tensors.offset);
    tiny_tensors.offset += ((slices ? slices : 1) * (rows ? rows : 1) * (cols / q->block_weights) * q->block_bytes + 31) / 32 * 32;
    tiny_tensors.n++;
}

static void tiny_tensor(const char *name, enum quant quant, uint64_t rows, uint64_t cols) { tiny_slices(name, quant, 0, rows, cols); }

static void tiny_layer(struct arena *a, const struct tiny *s, uint32_t layer)
{
    const uint64_t n_q = (uint64_t)s->n_head * s->head_dim, n_kv = (uint64_t)s->n_head_kv * s->head_dim;
    const struct { const char *name; uint64_t rows, cols; bool given; } rows[] = {
        { "attn_norm.weight", 0, s->n_embd, true },      { "attn_q.weight", n_q, s->n_embd, true },
        { "attn_k.weight", n_kv, s->n_embd, true },      { "attn_v.weight", n_kv, s->n_embd, true },
        { "attn_output.weight", s->n_embd, n_q, true },  { "ffn_norm.weight", 0, s->n_embd, true },
        { "ffn_gate.weight", s->n_ff, s->n_embd, true }, { "ffn_up.weight", s->n_ff, s->n_embd, true },
        { "ffn_down.weight", s->n_embd, s->n_ff, true }, { "attn_q.bias", 0, n_q, strcmp(s->arch, "qwen2") == 0 },
        { "attn_k.bias", 0, n_kv, strcmp(s->arch, "qwen2") == 0 }, { "attn_v.bias", 0, n_kv, strcmp(s->arch, "qwen2") == 0 },
        { "attn_q_norm.weight", 0, s->head_dim, strcmp(s->arch, "qwen3") == 0 },
        { "attn_k_norm.weight", 0, s->head_dim, strcmp(s->arch, "qwen3") == 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].given)
            tiny_tensor(arena_printf(a, "blk.%u.%s", layer, rows[i].name), rows[i].rows ? s->matrix : QUANT_F32, rows[i].rows,
                        rows[i].cols);
}

static void tiny_data(struct text *t)        /* in -1/4 .. 1/4, the same in every run */
{
    uint32_t random = 1;
    while (t->size % 32) text_append(t, "", 1);
    for (uint64_t i = 0; i < tiny_tensors.offset / 4; i++) {
        random = random * 1664525 + 1013904223;
        const float x = (float)(random >> 8) * 0x1p-25f - 0.25f;
        text_append(t, (const char *)&x, sizeof x);
    }
}

static const struct gguf *tiny_gguf(struct arena *a, const struct tiny *s)
{
    const struct { const char *key; uint32_t value; } numbers[] = {
        { "context_length", 64 }, { "embedding_length", s->n_embd }, { "block_count", s->n_layer }, { "feed_forward_length", s->n_ff },
        { "attention.head_count", s->n_head }, { "attention.head_count_kv", s->n_head_kv }, { "attention.key_length", s->head_dim },
    };
    struct text t = { .arena = a };
    memset(&tiny_tensors, 0, sizeof tiny_tensors);
    tiny_tensors.text.arena = a;
    tiny_tensor("token_embd.weight", s->matrix, s->n_vocab, s->n_embd);
    for (uint32_t l = 0; l < s->n_layer; l++) tiny_layer(a, s, l);
    tiny_tensor("output_norm.weight", QUANT_F32, 0, s->n_embd);
    if (tiny_scalar) tiny_tensor(tiny_scalar, QUANT_F32, 0, 1);
    if (tiny_more) tiny_more();
    text_puts(&t, "GGUF");
    tiny_u32(&t, 3);
    tiny_u64(&t, tiny_tensors.n);
    tiny_u64(&t, COUNT_OF(numbers) + 2 + s->n_extra - (s->omit != NULL));
    tiny_key(&t, "general.architecture", GGUF_STRING);
    tiny_string(&t, s->arch);
    tiny_pair_f32(&t, arena_printf(a, "%s.attention.layer_norm_rms_epsilon", s->arch), 1e-5f);
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        if (s->omit && strcmp(s->omit, numbers[i].key) == 0) continue;
        tiny_key(&t, arena_printf(a, "%s.%s", s->arch, numbers[i].key), GGUF_U32);
        tiny_u32(&t, numbers[i].value);
    }
    if (s->extra) s->extra(&t);
    text_append(&t, tiny_tensors.text.data, tiny_tensors.text.size);
    if (s->has_data) tiny_data(&t);
    return gguf_parse(a, "tiny", (const uint8_t *)t.data, t.size, !s->has_data);
}

static inline struct model *tiny_model(struct arena *a, const struct tiny *s) { return model_describe(a, tiny_gguf(a, s), NULL); }

/* The model s with this text as models/llama.yaml, which need not read every tensor.  The file is removed on return. */
static struct model *tiny_yaml(struct arena *a, const struct tiny *s, const char *yaml)
{
    char directory[] = "/tmp/forgec-test-XXXXXX";
    if (!mkdtemp(directory)) abort();
    const char *path = arena_printf(a, "%s/%s.yaml", directory, s->arch);
    struct model *volatile m = NULL;
    static char message[sizeof die_text];
    file_write(a, path, bytes_of(yaml));
    void (*handler)(const char *) = die_handler;
    jmp_buf outer;
    memcpy(&outer, &die_jump, sizeof outer);
    const char *all = "*";
    const struct model_options o = { .directory = directory, .ignored_tensors = &all, .n_ignored_tensors = tiny_reads_all ? 0 : 1,
                                     .drafts = tiny_drafts };
    const bool died = DIES(m = model_describe(a, tiny_gguf(a, s), &o));
    unlink(path);
    rmdir(directory);
    memcpy(&die_jump, &outer, sizeof outer);
    die_handler = handler;
    snprintf(message, sizeof message, "%s", die_text);
    if (died) die("%s", message);
    return m;
}

/* The same with another wiring; its first line is line 5 of the file, column 3. */
static inline struct model *tiny_wired(struct arena *a, const struct tiny *s, const char *wiring)
{
    struct text t = { .arena = a };
    text_printf(&t, "architecture: %s\ninherits: transformer\nparameters: {rope_neox: false}\ngraph: |\n", s->arch);
    for (const char *p = wiring; *p; p += strcspn(p, "\n"), p += *p == '\n')
        text_printf(&t, "  %.*s\n", (int)strcspn(p, "\n"), p);
    return tiny_yaml(a, s, text_str(&t));
}

/* Pieces of wirings. */
#define TINY_INPUT  "input:\n%x = embed token_embd\n"
#define TINY_OUTPUT "output:\n%norm = rmsnorm output_norm, %x\n%logits = matmul output, %norm\n"
#define TINY_ATTENTION(input)                                                                             \
    "%q = matmul attn_q, " input "\n%qr = rope %q\n%k = matmul attn_k, " input "\n%kr = rope %k\n"        \
    "%kc = store_k %kr\n%v = matmul attn_v, " input "\n%vc = store_v %v\n%kqv = attention %qr, %kc, %vc\n" \
    "%ao = matmul attn_output, %kqv\n"
/* Queries rotated by these lines, which read %q and define %qr; keys are rotated as usual. */
#define TURNS(lines)                                                                                                       \
    "%q = matmul attn_q, %x\n" lines "%k = matmul attn_k, %x\n%kr = rope %k\n%kc = store_k %kr\n%v = matmul attn_v, %x\n" \
    "%vc = store_v %v\n%kqv = attention %qr, %kc, %vc\n%ao = matmul attn_output, %kqv\n%x = add %ao, %x\n"
#define TINY_FFN(input) \
    "%g = matmul ffn_gate, " input "\n%u = matmul ffn_up, " input "\n%y = glu_silu %g, %u\n%d = matmul ffn_down, %y\n"

/* A model with these lines in its layers, which read and define %x; the input and output are as usual. */
static inline struct model *tiny_layers(struct arena *a, const char *layer)
{
    struct text t = { .arena = a };
    text_puts(&t, TINY_INPUT "layer:\n");
    text_puts(&t, layer);
    text_puts(&t, TINY_OUTPUT);
    return tiny_wired(a, &tiny_llama, text_str(&t));
}
#endif
