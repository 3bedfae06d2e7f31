/* test_tokenize.c -- compares the tokenizer with ids and texts of llama.cpp, and with ids of the tokenizers library.
 * The archives of tests/data/tokenizers have NAME.gguf, a vocabulary without tensors, NAME.jsonl, its cases, NAME.inp and .out,
 * llama.cpp's own, and NAME.own, the library's (tests/tokenizers/vectors.mjs): a text in hex and its ids.  In the large vocabularies a
 * token that occurs in no text of the cases has a placeholder as its text, and no merge.
 * bert-bge is cut down to the pieces that its cases need and some more; made-unigram is no model's, and its cases are a plain search over
 * all ways to cut a text; made-bert and made-bert-cased are no model's either.
 * Another folder of the same layout: FORGEC_TOKENIZERS=DIR.
 * FORGEC_TOKENIZER_BENCH=1 prints sizes and speed. */
#include "compiler/product/vocab.h"
#include "runtime/text/stream.h"
#include "runtime/text/tokenize.h"
#include "runtime/model/vocab.h"
#include "runtime/web/vocab.h"
#include "die_capture.h"
#include "made_gguf.h"
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <time.h>
#include <cmocka.h>

/* form: how llama_detokenize treats blanks; a program's output keeps them all. */
enum form { AS_IT_IS, CLEANED };
static const struct { const char *name; enum form form; } vocabularies[] = {
    { "llama-spm", AS_IT_IS },        { "gpt-2", CLEANED },             { "phi-3", AS_IT_IS },          { "deepseek-llm", AS_IT_IS },
    { "falcon", CLEANED },            { "fairytale", CLEANED },         { "tiny-llama-a", CLEANED },    { "tiny-qwen2-a", AS_IT_IS },
    { "tiny-gpt-oss-a", AS_IT_IS },   { "tiny-glm4-a", CLEANED },       { "tiny-command-r-a", AS_IT_IS }, { "tiny-granite-a", CLEANED },
    { "tiny-smollm3-a", AS_IT_IS },   { "tiny-olmo2-a", CLEANED },      { "tiny-gemma3-a", AS_IT_IS },  { "tiny-phi3-a", AS_IT_IS },
    { "bert-bge", CLEANED },          { "made-unigram", AS_IT_IS },
};

struct ids { int32_t *data; size_t n; };

static const char *data_path(struct arena *a, const char *name, const char *suffix)
{
    const char *folder = getenv("FORGEC_TOKENIZERS");
    if (folder) return arena_printf(a, "%s/%s%s", folder, name, suffix);
    return arena_printf(a, FORGEC_UNPACKED "/tokenizers/%s%s", name, suffix);
}

static const uint8_t *vocab_load(struct arena *a, const char *name, size_t *bytes)
{
    const struct bytes image = vocab_build_as(a, gguf_open(a, data_path(a, name, ".gguf"), true), 0, true, NULL);
    assert_non_null(image.data);
    *bytes = image.size;
    return image.data;
}

/* The buffers are on the heap with exactly the promised sizes, so that a sanitizer finds a byte too many. */
static struct ids tokenize(struct arena *a, const uint8_t *vocab, const uint8_t *text, size_t n, uint32_t flags)
{
    const size_t scratch_bytes = forge_tokenize_scratch(n), capacity = FORGE_TOK_MOST(n);
    void        *scratch = malloc(scratch_bytes);
    int32_t     *ids     = malloc(capacity * sizeof *ids);
    char        *copy    = malloc(n + 1);
    assert_true(scratch && ids && copy);
    memcpy(copy, text, n);
    char *exact = realloc(copy, n ? n : 1);
    const int64_t n_ids = forge_tokenize(vocab, exact, n, flags, ids, capacity, scratch, scratch_bytes);
    assert_true(n_ids >= 0);
    struct ids result = { arena_array(a, int32_t, (size_t)n_ids), (size_t)n_ids };
    if (n_ids) memcpy(result.data, ids, (size_t)n_ids * sizeof *ids);
    if (n_ids > 0) {
        assert_int_equal(forge_tokenize(vocab, exact, n, flags, ids, (size_t)n_ids, scratch, scratch_bytes), n_ids);
        assert_int_equal(forge_tokenize(vocab, exact, n, flags, ids, (size_t)n_ids - 1, scratch, scratch_bytes), FORGE_TOK_NO_ROOM);
    }
    assert_int_equal(forge_tokenize(vocab, exact, n, flags, ids, capacity, scratch, scratch_bytes - 1), FORGE_TOK_NO_SCRATCH);
    free(exact);
    free(ids);
    free(scratch);
    return result;
}

static size_t hex_decode(uint8_t *out, const char *hex)
{
    size_t n = 0;
    for (; hex[0] && hex[1]; hex += 2) out[n++] = (uint8_t)strtoul((char[]){ hex[0], hex[1], 0 }, NULL, 16);
    return n;
}

/* ---- golden cases ---- */

static unsigned differences;

static bool ids_equal(const char *name, int id, const char *mode, struct ids got, const cJSON *want)
{
    bool equal = (int)got.n == cJSON_GetArraySize(want);
    int  i     = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, want) { if (equal) equal = got.data[i++] == item->valueint; }
    if (equal) return true;
    fprintf(stderr, "%s: case %d, %s: got", name, id, mode);
    for (size_t k = 0; k < got.n; k++) fprintf(stderr, " %d", got.data[k]);
    char *text = cJSON_PrintUnformatted(want);
    fprintf(stderr, "; want %s\n", text);
    cJSON_free(text);
    differences++;
    return false;
}

/* A program's output for these tokens, through its stream, plus the control and unknown tokens that llama_detokenize prints and a program
 * leaves out. */
static struct text streamed(struct arena *a, const uint8_t *vocab, struct ids ids)
{
    struct forge_stream s;
    struct forge_error  error;
    struct text         t = { .arena = a };
    char                piece[4096];
    const int           fd = memfd_create("text", MFD_CLOEXEC);
    assert_true(fd >= 0);
    stream_open(&s, fd);
    for (size_t i = 0; i < ids.n; i++) {
        size_t n = forge_token_text(vocab, ids.data[i], false, piece, sizeof piece);
        if (n == 0) n = forge_token_text(vocab, ids.data[i], true, piece, sizeof piece);
        assert_true(n <= sizeof piece);
        assert_int_equal(stream_write(&s, piece, n, &error), FORGE_OK);
    }
    const size_t n_held = s.n_held;
    assert_int_equal(stream_end(&s, &error), FORGE_OK);
    const off_t size = lseek(fd, 0, SEEK_END);
    char *bytes = arena_alloc(a, (size_t)size + 1);
    assert_int_equal(pread(fd, bytes, (size_t)size, 0), size);
    close(fd);
    if (n_held > 0) assert_true(size >= 3 && memcmp(bytes + size - 3, "\xef\xbf\xbd", 3) == 0);
    text_append(&t, bytes, (size_t)size - (n_held > 0 ? 3 : 0));
    text_append(&t, s.held, n_held);                       /* the unfinished sequence at the end, instead of U+FFFD */
    return t;
}

/* Drops the blank in " ?" " !" " ." " ,"; then both in " ' "; then the one in " 's" " 'm" " 're" " 've", as
 * clean_up_tokenization_spaces does.  In place; returns the new length. */
static size_t clean_spaces(char *t, size_t n)
{
    size_t w = n ? 1 : 0;
    for (size_t i = 1; i < n; i++) {
        const char c = t[i];
        if (t[i - 1] == ' ' && (c == '?' || c == '!' || c == '.' || c == ',')) w--;
        t[w++] = c;
    }
    n = w;
    w = n ? 1 : 0;
    for (size_t i = 1; i < n; i++) {
        if (t[i] == '\'' && i + 1 < n && t[i - 1] == ' ' && t[i + 1] == ' ') {
            t[w - 1] = '\'';
            t[++i]   = '\0';                                /* so that it does not count as a blank again */
        } else {
            t[w++] = t[i];
        }
    }
    n = w;
    w = n ? 1 : 0;
    for (size_t i = 1; i < n; i++) {
        const char c = t[i], c1 = i + 1 < n ? t[i + 1] : 0, c2 = i + 2 < n ? t[i + 2] : 0;
        if (t[i - 1] == ' ' && c == '\'' && (c1 == 's' || c1 == 'm' || ((c1 == 'r' || c1 == 'v') && c2 == 'e'))) w--;
        t[w++] = c;
    }
    return w;
}

/* llama_detokenize sees the text as a whole and changes it: no blank in front (SentencePiece's own), and for some vocabularies none in " ."
 * and the like. */
static void whole_text(struct text *t, const uint8_t *vocab, enum form form)
{
    struct forge_vocab_header h;
    memcpy(&h, vocab, sizeof h);
    if (h.flags & FORGE_VOCAB_SPACE_PREFIX && t->size > 0 && t->data[0] == ' ') {
        memmove(t->data, t->data + 1, t->size);
        t->size--;
    }
    if (form == CLEANED) t->size = clean_spaces(t->data, t->size);
}

static void check_case(struct arena *a, const char *name, enum form form, const uint8_t *vocab, const cJSON *c, unsigned agree[4])
{
    const char *hex  = cJSON_GetObjectItem(c, "hex")->valuestring;
    const int   id   = cJSON_GetObjectItem(c, "id")->valueint;
    uint8_t    *text = arena_alloc(a, strlen(hex) / 2 + 1);
    const size_t n   = hex_decode(text, hex);
    const struct ids plain   = tokenize(a, vocab, text, n, 0);
    const struct ids special = tokenize(a, vocab, text, n, FORGE_TOK_SPECIAL);
    const struct ids bos     = tokenize(a, vocab, text, n, FORGE_TOK_SPECIAL | FORGE_TOK_ADD);
    if (cJSON_GetObjectItem(c, "error")) return;
    agree[0] += ids_equal(name, id, "plain", plain, cJSON_GetObjectItem(c, "plain"));
    agree[1] += ids_equal(name, id, "special", special, cJSON_GetObjectItem(c, "special"));
    agree[2] += ids_equal(name, id, "bos", bos, cJSON_GetObjectItem(c, "bos"));

    const char   *want_hex = cJSON_GetObjectItem(c, "detok_plain_hex")->valuestring;
    uint8_t      *want     = arena_alloc(a, strlen(want_hex) / 2 + 1);
    const size_t  n_want   = hex_decode(want, want_hex);
    struct text   got      = streamed(a, vocab, plain);
    whole_text(&got, vocab, form);
    const bool    equal    = got.size == n_want && memcmp(text_str(&got), want, n_want) == 0;
    if (!equal) { fprintf(stderr, "%s: case %d, text: want %s got %zu bytes\n", name, id, want_hex, got.size); differences++; }
    agree[3] += equal;
}

static void check_vocabulary(const char *name, enum form form)
{
    struct arena *a = arena_create();
    if (!file_exists(data_path(a, name, ".gguf"))) {
        assert_string_equal(name, "falcon");               /* its vocabulary is too large for the repository */
        print_message("%s: not here, left out\n", name);
        arena_destroy(a);
        return;
    }
    size_t             bytes;
    unsigned           n = 0, errors = 0, agree[4] = { 0 };
    const uint8_t     *vocab = vocab_load(a, name, &bytes);
    const struct bytes cases = file_read(a, data_path(a, name, ".jsonl"));
    char              *line  = arena_strndup(a, (const char *)cases.data, cases.size);
    for (char *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        cJSON *c = cJSON_Parse(line);
        assert_non_null(c);
        n++;
        errors += cJSON_GetObjectItem(c, "error") != NULL;
        check_case(a, name, form, vocab, c, agree);
        cJSON_Delete(c);
    }
    print_message("%s: of %u cases (%u without answer) plain %u, special %u, bos %u, text %u; image %zu bytes\n", name, n,
                  errors, agree[0], agree[1], agree[2], agree[3], bytes);
    for (size_t i = 0; i < 4; i++) assert_int_equal(agree[i] + errors, n);
    arena_destroy(a);
}

/* Text of 41 scripts, decomposed text, marks, capitals: as the models' own tokenizers have it. */
static void own_cases(void **state)
{
    (void)state;
    static const char *const names[] = { "tiny-gpt-oss-a", "tiny-qwen2-a", "made-bert", "made-bert-cased" };
    struct arena *a = arena_create();
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct gguf *g      = gguf_open(a, data_path(a, names[i], ".gguf"), true);
        const uint8_t     *vocab  = vocab_build(a, g, 0).data, *other = vocab_build_as(a, g, 0, true, NULL).data;
        const struct bytes file   = file_read(a, data_path(a, names[i], ".own"));
        char              *line   = arena_strndup(a, (const char *)file.data, file.size);
        size_t             n      = 0, differ = 0;
        for (char *next; line && *line; line = next, n++) {
            if ((next = strchr(line, '\n'))) *next++ = 0;
            char *item = line + strcspn(line, " ");
            if (*item) *item++ = 0;
            uint8_t     *text = arena_alloc(a, strlen(line) / 2 + 1);
            const size_t size = hex_decode(text, line);
            const struct ids got = tokenize(a, vocab, text, size, 0), llama_cpp = tokenize(a, other, text, size, 0);
            size_t k = 0;
            for (; *item; k++) {
                const long want = strtol(item, &item, 10);
                if (k >= got.n || got.data[k] != want) fail_msg("%s: line %zu, token %zu is not %ld", names[i], n + 1, k, want);
            }
            if (k != got.n) fail_msg("%s: line %zu has %zu tokens, not %zu", names[i], n + 1, got.n, k);
            differ += got.n != llama_cpp.n || memcmp(got.data, llama_cpp.data, got.n * sizeof *got.data) != 0;
        }
        print_message("%s: %zu texts as the model's own tokenizer has them, %zu otherwise than llama.cpp\n", names[i], n, differ);
        assert_true(n >= 50 && (differ > 0 || i == 0));         /* it has too few tokens for words to matter */
    }
    arena_destroy(a);
}

static void golden_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(vocabularies); i++) check_vocabulary(vocabularies[i].name, vocabularies[i].form);
    assert_int_equal(differences, 0);
}

/* NAME.inp, or gpt-2's: texts separated by a line __ggml_vocab_test__; NAME.out: a line of ids for each text. */
static void check_pairs(struct arena *a, const char *name)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    if (!file_exists(data_path(a, name, ".gguf")) || !file_exists(data_path(a, name, ".out"))) return;
    size_t             bytes;
    const uint8_t     *vocab = vocab_load(a, name, &bytes);
    const char        *texts = data_path(a, name, ".inp");
    const struct bytes in = file_read(a, file_exists(texts) ? texts : data_path(a, "gpt-2", ".inp")),
        out = file_read(a, data_path(a, name, ".out"));
    const char        *text = (const char *)in.data, *text_end = text + in.size;
    char              *ids  = arena_strndup(a, (const char *)out.data, out.size);
    unsigned           n    = 0;
    for (;; n++) {
        const char *end = memmem(text, (size_t)(text_end - text), separator, sizeof separator - 1);
        if (!end) break;
        const struct ids got = tokenize(a, vocab, (const uint8_t *)text, (size_t)(end - text), 0);
        for (size_t i = 0; i < got.n; i++) assert_int_equal(got.data[i], strtol(ids, &ids, 10));
        while (*ids == ' ') ids++;
        assert_true(*ids == '\n' || !*ids);
        ids += *ids == '\n';
        text = end + sizeof separator - 1;
    }
    print_message("%s: %u pairs agree\n", name, n);
    assert_true(n >= 40);
}

static void pairs(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    for (size_t i = 0; i < COUNT_OF(vocabularies); i++) check_pairs(a, vocabularies[i].name);
    arena_destroy(a);
}

/* ---- single facts ---- */

static void accessors(void **state)
{
    (void)state;
    struct arena  *a = arena_create();
    size_t         bytes, again;
    const uint8_t *v = vocab_load(a, "llama-spm", &bytes), *w = vocab_load(a, "llama-spm", &again);
    assert_int_equal(bytes, again);
    assert_memory_equal(v, w, bytes);
    assert_int_equal(forge_vocab_n_tokens(v), 32000);
    assert_int_equal(forge_vocab_bos(v), 1);
    assert_int_equal(forge_vocab_eos(v), 2);
    assert_int_equal(forge_vocab_unk(v), 0);
    assert_true(forge_vocab_add_bos(v));
    assert_false(forge_vocab_add_eos(v));
    assert_true(forge_vocab_is_eog(v, 2));
    assert_false(forge_vocab_is_eog(v, 1));
    assert_false(forge_vocab_is_eog(v, -1));
    assert_false(forge_vocab_is_eog(v, 32000));
    assert_int_equal(forge_vocab_find(v, "</s>", 4), 2);
    assert_int_equal(forge_vocab_find(v, "no such token", 13), -1);
    char text[8];
    assert_int_equal(forge_token_text(v, 1, false, text, sizeof text), 0);
    assert_int_equal(forge_token_text(v, 1, true, text, 2), 3);              /* truncated, full length returned */
    assert_memory_equal(text, "<s", 2);
    assert_int_equal(forge_token_text(v, 13, false, text, sizeof text), 1);  /* <0x0A> */
    assert_int_equal(text[0], '\n');
    assert_int_equal(forge_token_text(v, 99999, true, text, sizeof text), 0);

    const uint8_t *g = vocab_load(a, "tiny-gpt-oss-a", &bytes);
    assert_true(forge_vocab_eos(g) < 0 || forge_vocab_is_eog(g, forge_vocab_eos(g)));
    arena_destroy(a);
}

/* A megabyte without a split must not take quadratic time. */
static void long_texts(void **state)
{
    (void)state;
    static const char *const fill[] = { "a", " ", "\n", "\xff", "a ", "!", "\t\n", "1", "<|", "' ", "\xe4\xb8\x80", " x" };
    static const char *const names[] = { "llama-spm", "gpt-2", "deepseek-llm", "tiny-gpt-oss-a", "tiny-gemma3-a", "tiny-llama-a",
                                         "bert-bge", "made-unigram" };
    const size_t  n    = 1 << 20, scratch_bytes = forge_tokenize_scratch(n);
    char         *text = malloc(n);
    int32_t      *ids  = malloc(FORGE_TOK_MOST(n) * sizeof *ids);
    void         *scratch = malloc(scratch_bytes);
    assert_true(text && ids && scratch);
    for (size_t k = 0; k < COUNT_OF(names); k++) {
        struct arena  *a = arena_create();
        size_t         bytes;
        const uint8_t *v = vocab_load(a, names[k], &bytes);
        for (size_t f = 0; f < COUNT_OF(fill); f++) {
            const size_t  m     = strlen(fill[f]);
            const clock_t start = clock();
            for (size_t i = 0; i < n; i++) text[i] = fill[f][i % m];
            assert_true(forge_tokenize(v, text, n, FORGE_TOK_SPECIAL, ids, FORGE_TOK_MOST(n), scratch, scratch_bytes) >= 0);
            const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
            if (seconds > 2) print_message("%s: 1 MiB of '%s' took %.1f s\n", names[k], fill[f], seconds);
            assert_true(seconds < 60);                     /* generous: sanitizers, busy machines */
        }
        arena_destroy(a);
    }
    free(scratch);
    free(ids);
    free(text);
}

static void speed(void **state)
{
    (void)state;
    if (!getenv("FORGEC_TOKENIZER_BENCH")) return;
    static const char *const names[] = { "gpt-2", "llama-spm", "deepseek-llm" };
    static const char sentence[] = "It was the best of times, it was the worst of times; in 1859 they didn't know which.\n\n  \"Yes!\" ";
    const size_t n = 1 << 20, scratch_bytes = forge_tokenize_scratch(n);
    char        *text = malloc(n);
    int32_t     *ids  = malloc(FORGE_TOK_MOST(n) * sizeof *ids);
    void        *scratch = malloc(scratch_bytes);
    assert_true(text && ids && scratch);
    const char *prose = getenv("FORGEC_TOKENIZER_TEXT");
    for (size_t k = 0; k < COUNT_OF(names); k++) {
        struct arena  *a     = arena_create();
        const clock_t  built = clock();
        size_t         bytes;
        const uint8_t *v     = vocab_load(a, names[k], &bytes);
        const double   build = (double)(clock() - built) / CLOCKS_PER_SEC;
        const struct bytes source = prose ? file_read(a, prose) : (struct bytes){ (const uint8_t *)sentence, sizeof sentence - 1 };
        for (size_t i = 0; i < n; i++) text[i] = (char)source.data[i % source.size];
        double  best = 1e9;
        int64_t n_ids = 0;
        for (int run = 0; run < 5; run++) {
            const clock_t start = clock();
            n_ids = forge_tokenize(v, text, n, FORGE_TOK_SPECIAL, ids, FORGE_TOK_MOST(n), scratch, scratch_bytes);
            const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
            if (seconds < best) best = seconds;
        }
        print_message("%s: %" PRId64 " tokens, %.2f million tokens/s, %.1f MB/s; image %zu bytes, opened and built in %.0f ms\n", names[k],
                      n_ids, (double)n_ids / best * 1e-6, (double)n / best * 1e-6, bytes, build * 1e3);
        arena_destroy(a);
    }
    free(scratch);
    free(ids);
    free(text);
}

/* ---- refusals of the builder, with GGUF files made here ---- */

#define MODEL  "tokenizer.ggml.model"
#define TOKENS "tokenizer.ggml.tokens"
#define TYPES  "tokenizer.ggml.token_type"

static char warned[1024];
static void keep_warning(const char *message) { snprintf(warned, sizeof warned, "%s", message); }

static void warnings(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    const struct gguf *g = GGUF(MODEL "=llama", TOKENS ":a|b|c");
    warn_handler = keep_warning;
    warned[0] = '\0';
    vocab_build(a, g, 3);
    vocab_build(a, g, 0);
    assert_string_equal(warned, "");
    vocab_build(a, g, 4);
    assert_non_null(strstr(warned, "has 3 tokens for the model's 4 rows: the tokens from 3 on have no text"));
    warned[0] = '\0';
    warn_handler = NULL;
    arena_destroy(a);
}

/* Does the text, with bytes [from, to) from a user, have this token? */
static bool has_token(struct arena *a, const uint8_t *v, const char *text, size_t from, size_t to, int32_t token)
{
    const size_t n = strlen(text), scratch_bytes = forge_tokenize_scratch(n);
    uint8_t *input = arena_alloc(a, n);
    int32_t *ids = arena_array(a, int32_t, FORGE_TOK_MOST(n));
    memset(input + from, 1, to - from);
    const int64_t n_ids = forge_tokenize_marked(v, text, input, n, FORGE_TOK_SPECIAL, ids, FORGE_TOK_MOST(n), arena_alloc(a, scratch_bytes),
                                                scratch_bytes);
    assert_true(n_ids >= 0);
    for (int64_t i = 0; i < n_ids; i++) if (ids[i] == token) return true;
    return false;
}

/* Only a template writes special tokens. */
static void marked(void **state)
{
    (void)state;
    enum { CONTROL = 1, DEFINED, LINES };
    struct arena *a = arena_create();
    warn_handler = keep_warning;
    const struct gguf *g = GGUF(MODEL "=llama", TOKENS ":<unk>|<x>|<y>|\n\n|a", TYPES "%2|3|4|4|1");
    const uint8_t *v = vocab_build(a, g, 5).data;
    warn_handler = NULL;
    assert_true(has_token(a, v, "a<x>a", 0, 0, CONTROL));
    assert_true(has_token(a, v, "a<x>a", 0, 1, CONTROL));
    for (size_t i = 1; i < 4; i++) assert_false(has_token(a, v, "a<x>a", i, i + 1, CONTROL));
    assert_true(has_token(a, v, "a<x>a", 4, 5, CONTROL));
    assert_true(has_token(a, v, "<x>a<x>", 0, 4, CONTROL));
    assert_false(has_token(a, v, "<x>a<x>", 0, 7, CONTROL));
    assert_true(has_token(a, v, "<y>", 0, 0, DEFINED));
    assert_false(has_token(a, v, "<y>", 2, 3, DEFINED));
    assert_true(has_token(a, v, "a\n\na", 0, 4, LINES));
    arena_destroy(a);
}

/* Each once, in order, without values that are not tokens. */
static void suppressed(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    uint32_t n;
    const uint32_t *ids = vocab_image_suppressed(vocab_build(a, GGUF(MODEL "=llama", TOKENS ":a|b|c|d",
                                                                     "tokenizer.ggml.suppress_tokens%3|1|4|-1|3|900"), 0).data, &n);
    assert_int_equal(n, 2);
    assert_true(ids[0] == 1 && ids[1] == 3);
    vocab_image_suppressed(vocab_build(a, GGUF(MODEL "=llama", TOKENS ":a|b"), 0).data, &n);
    assert_int_equal(n, 0);
    assert_null(vocab_image_suppressed(NULL, &n));
    arena_destroy(a);
}

/* The additional tokens of a list; without the list there are no more than before. */
static void endings(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    const uint8_t *v = vocab_build(a, GGUF(MODEL "=llama", TOKENS ":a|b|c|d", "tokenizer.ggml.eos_token_id#1",
                                              "tokenizer.ggml.eos_token_ids%3|0|3|-1|4"), 0).data;
    for (int32_t id = 0; id < 4; id++) assert_int_equal(forge_vocab_is_eog(v, id), id != 2);
    v = vocab_build(a, GGUF(MODEL "=llama", TOKENS ":a|b|c|d", "tokenizer.ggml.eos_token_id#1"), 0).data;
    for (int32_t id = 0; id < 4; id++) assert_int_equal(forge_vocab_is_eog(v, id), id == 1);
    static const char *const others[] = { "tokenizer.ggml.eos_token_ids#3", "tokenizer.ggml.eos_token_ids:a|b" };
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        v = vocab_build(a, GGUF(MODEL "=llama", TOKENS ":a|b|c|d", "tokenizer.ggml.eos_token_id#1", others[i]), 0).data;
        for (int32_t id = 0; id < 4; id++) assert_int_equal(forge_vocab_is_eog(v, id), id == 1);
    }
    arena_destroy(a);
}

#define LINE "\xef\xbd\x9c"                                     /* U+FF5C */
#define SPACE "\xe2\x96\x81"                                    /* U+2581 */

static void assert_fim(const uint8_t *v, const int32_t *want, bool suffix_first)
{
    for (uint32_t i = 0; i < FORGE_FIM_COUNT; i++) assert_int_equal(forge_vocab_fim(v, i), want[i]);
    assert_int_equal(forge_vocab_suffix_first(v), suffix_first);
}

/* Tokens for infill, by their texts in makers' vocabularies or by keys.  Mistral's vocabulary counts for Codestral alone. */
static void infill(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    static const struct { const char *tokens; int32_t want[FORGE_FIM_COUNT]; } makers[] = {
        { TOKENS ":<fim_prefix>|<fim_middle>|<fim_suffix>|<reponame>|a", { 0, 2, 1, 3, -1 } },     /* Granite, StarCoder */
        { TOKENS ":a|" SPACE "<PRE>|" SPACE "<MID>|" SPACE "<SUF>", { 1, 3, 2, -1, -1 } },              /* CodeLlama */
        { TOKENS ":a|<" LINE "fim" SPACE "hole" LINE ">|<" LINE "fim" SPACE "begin" LINE ">|<" LINE "fim" SPACE "end" LINE ">",
          { 2, 1, 3, -1, -1 } },                                                                          /* DeepSeek */
        { TOKENS ":a|[PREFIX]|[MIDDLE]|[SUFFIX]", { -1, -1, -1, -1, -1 } },
    };
    for (size_t i = 0; i < COUNT_OF(makers); i++)
        assert_fim(vocab_build(a, GGUF(MODEL "=llama", makers[i].tokens), 0).data, makers[i].want, false);
    assert_fim(vocab_build(a, GGUF(MODEL "=llama", TOKENS ":a|[PREFIX]|[MIDDLE]|[SUFFIX]", "general.name=Codestral-22B-v0.1"), 0).data,
               (const int32_t[]){ 1, 3, -1, -1, -1 }, true);
    assert_fim(vocab_build(a, GGUF(MODEL "=llama", TOKENS ":a|b|c|d|e", "tokenizer.ggml.fim_pre_token_id#1",
                                   "tokenizer.ggml.suffix_token_id#2", "tokenizer.ggml.fim_mid_token_id#3",
                                   "tokenizer.ggml.fim_sep_token_id#9"), 0).data,
               (const int32_t[]){ 1, 2, 3, -1, -1 }, false);
    arena_destroy(a);
}

static void refusals(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    assert_null(vocab_build(a, GGUF("general.name=x"), 9).data);
    assert_null(vocab_build(a, GGUF(MODEL "=none"), 9).data);
    assert_null(vocab_build(a, GGUF(MODEL "=no_vocab"), 9).data);
    assert_dies(vocab_build(a, GGUF(MODEL "=rwkv"), 9), "tokenizer 'rwkv' is not supported; forgec has gpt2");
    assert_dies(vocab_build(a, GGUF(MODEL "=plamo2"), 9), "tokenizer 'plamo2'");
    assert_dies(vocab_build(a, GGUF(MODEL "=llama"), 9), "missing");
    assert_dies(vocab_build(a, GGUF(MODEL "=llama", TOKENS ":"), 9), "empty");
    assert_dies(vocab_build(a, GGUF(MODEL "=llama", TOKENS "=a"), 9), "not an array");
    assert_dies(vocab_build(a, GGUF(MODEL "=llama", TOKENS "%1|2"), 9), "array of i32");
    assert_dies(vocab_build(a, GGUF(MODEL "=llama", TOKENS ":a|b|c"), 2), "3 tokens, the model only 2 rows");
    assert_dies(vocab_build(a, GGUF(MODEL "=llama", TOKENS ":a|b|c", TYPES "%1|1"), 3), "2 items for 3 tokens");
    assert_dies(vocab_build(a, GGUF(MODEL "=llama", TOKENS ":a|b|c", TYPES ":x|y|z"), 3), "array of str");
    assert_dies(vocab_build(a, GGUF(MODEL "=llama", TOKENS ":a|b|c", "tokenizer.ggml.scores~1"), 3), "1 items for 3 tokens");
    assert_dies(vocab_build(a, GGUF(MODEL "=llama", TOKENS ":a|b|c", "tokenizer.ggml.scores%1|2|3"), 3), "not of f32");
    assert_dies(vocab_build(a, GGUF(MODEL "=gpt2", TOKENS ":a|b|c"), 3), "merges' is missing");
    assert_dies(vocab_build(a, GGUF(MODEL "=gpt2", TOKENS ":a|b|c", "tokenizer.ggml.merges:a b", "tokenizer.ggml.pre=what"), 3),
                "pre-tokenizer 'what' is not supported; forgec has default, llama-bpe");
    char *const tokens = arena_alloc(a, (1 << 20) + sizeof TOKENS + 4);
    strcpy(tokens, TOKENS ":b|");
    memset(tokens + strlen(tokens), 'a', (1 << 20) + 1);
    assert_dies(vocab_build(a, GGUF(MODEL "=llama", tokens), 0),
                "made.gguf: 'tokenizer.ggml.tokens' has a text of 1048577 bytes, item 1; forgec supports at most 1 MiB");
    arena_destroy(a);
}

static void assert_ids(struct arena *a, const uint8_t *v, const char *text, uint32_t flags, const char *want)
{
    struct text t = { .arena = a };
    const struct ids got = tokenize(a, v, (const uint8_t *)text, strlen(text), flags);
    for (size_t i = 0; i < got.n; i++) text_printf(&t, "%s%d", i ? " " : "", got.data[i]);
    assert_string_equal(text_str(&t), want);
}

static void odd_vocabularies(void **state)
{
    (void)state;
    struct arena *a = arena_create();

    /* "ab" only exists inside merges: it is built and then spelt; merges without a blank are passed over. */
    const uint8_t *v = vocab_build(a, GGUF(MODEL "=gpt2", "tokenizer.ggml.pre=gpt-2", TOKENS ":a|b|c|abc|<x>|d", TYPES "%1|1|1|1|3|1",
                                           "tokenizer.ggml.merges:a b|ab|ab c|q r|b d| ", "tokenizer.ggml.bos_token_id#77"), 8).data;
    assert_ids(a, v, "abc", 0, "3");
    assert_ids(a, v, "ab", 0, "0 1");
    assert_ids(a, v, "bd", 0, "1 5");
    assert_ids(a, v, "az", 0, "0");
    assert_ids(a, v, "a<x>b", FORGE_TOK_SPECIAL, "0 4 1");
    assert_ids(a, v, "a<x>b", 0, "0 1");
    assert_int_equal(forge_vocab_bos(v), -1);

    /* of equal tokens the last is used; an empty token gets a name; a longer special token wins at any place */
    v = vocab_build(a, GGUF(MODEL "=llama", TOKENS ":<unk>|<s>|</s>|x|x||xx|<a>|<a><b>|<b>", TYPES "%2|3|3|1|1|1|1|3|3|3",
                            "tokenizer.ggml.scores~0|0|0|0|0|0|-1|0|0|0"), 0).data;
    assert_ids(a, v, "x", 0, "0 0 0 4");                   /* no U+2581, no byte tokens: unknown, byte by byte */
    assert_ids(a, v, "<a><a><b>xxx", FORGE_TOK_SPECIAL | FORGE_TOK_ADD, "1 7 8 0 0 0 6 4");
    assert_int_equal(forge_vocab_find(v, "[EMPTY_5]", 9), 5);

    /* phi-3: special tokens swallow the blanks to their right, except three of them */
    v = vocab_build(a, GGUF("general.name=Some Phi-3 mini", MODEL "=llama", TOKENS ":<unk>|<s>|</s>|▁|x|<end_of_turn>",
                            TYPES "%2|3|3|1|1|3"), 0).data;
    assert_ids(a, v, "<end_of_turn> \n x", FORGE_TOK_SPECIAL, "5 3 4");
    assert_ids(a, v, "<s> x", FORGE_TOK_SPECIAL, "1 3 3 4");
    assert_true(forge_vocab_is_eog(v, 5));
    arena_destroy(a);
}

/* Merges of characters, U+2581 for blanks (gemma4 and its like). */
static void merges_of_characters(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    /* 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14; "qz" only exists inside merges */
    static const char tokens[] = TOKENS ":<unk>|<bos>|▁|a|b|▁a|▁▁|ab|\n|\n\n|<0xC3>|<0xA9>|<0x71>|▁qzb|<0x0A>";
    static const char types[]  = TYPES "%2|3|1|1|1|1|1|1|1|1|6|6|6|1|6";
    static const char merges[] = "tokenizer.ggml.merges:▁ ▁|▁ a|a b|▁ q|▁q z|▁qz b|q z|\n \n";
    const struct gguf *g = GGUF(MODEL "=gemma4", "tokenizer.ggml.bos_token_id#1", "tokenizer.ggml.add_bos_token?0", tokens, types, merges);
    const uint8_t     *v = vocab_build(a, g, 0).data;
    assert_ids(a, v, "a", FORGE_TOK_ADD, "1 3");           /* BOS although the file says no; no blank in front */
    assert_ids(a, v, "  a", 0, "6 3");                      /* ranks: the two blanks go first */
    assert_ids(a, v, " ab", 0, "5 4");
    assert_ids(a, v, "ab", 0, "7");
    assert_ids(a, v, " qzb", 0, "13");                      /* through symbols that are no tokens */
    assert_ids(a, v, "qz\xc3\xa9", 0, "12 10 11");         /* spelt in bytes; z has no byte token */
    assert_ids(a, v, "\n\na\n\n\n", 0, "9 3 9 8");
    assert_ids(a, v, "a<bos>b", FORGE_TOK_SPECIAL, "3 1 4");
    assert_ids(a, v, "<bos>", 0, "4");                      /* b alone is known */
    assert_ids(a, v, "a\xff" "a", 0, "3 3");
    char text[8];
    assert_int_equal(forge_token_text(v, 5, false, text, sizeof text), 2);
    assert_memory_equal(text, " a", 2);
    assert_int_equal(forge_token_text(v, 10, false, text, sizeof text), 1);
    assert_memory_equal(text, "\xc3", 1);
    assert_int_equal(forge_vocab_eos(v), -1);
    v = vocab_build(a, GGUF(MODEL "=gemma4", "tokenizer.ggml.unknown_token_id#0", tokens, types, merges), 0).data;
    assert_ids(a, v, "qz\xc3\xa9", 0, "12 10 11");         /* a missing byte is not the unknown token */

    /* The same without gemma4's special rules: a run of newlines is a token, BOS is always added. */
    v = vocab_build(a, GGUF(MODEL "=gpt2", "tokenizer.ggml.pre=sarvam-moe", TOKENS ":a|\n|\n\n\n|\n\n",
                            "tokenizer.ggml.merges:\n \n"), 0).data;
    assert_ids(a, v, "a\n\n\n", FORGE_TOK_ADD, "0 3 1");
    v = vocab_build(a, GGUF(MODEL "=gemma4", TOKENS ":a|\n|\n\n\n|\n\n", "tokenizer.ggml.merges:\n \n"), 0).data;
    assert_ids(a, v, "a\n\n\n", FORGE_TOK_ADD, "0 2");
    arena_destroy(a);
}

/* ---- Unigram ---- */

#define CHARSMAP "tokenizer.ggml.precompiled_charsmap&"

/* A charsmap that replaces A by `replacement`, in hex with its zero: the units are the root, A's unit, and the unit of its offset. */
static const char *charsmap_of_a(struct arena *a, uint32_t offset, const char *replacement)
{
    const uint32_t units[256] = { [0] = 64u << 10, [64 ^ 'A'] = (1u ^ 128) << 10 | 0x100 | 'A', [128] = 1u << 31 | offset };
    struct text    t = { .arena = a };
    text_puts(&t, CHARSMAP "00040000");
    for (size_t i = 0; i < sizeof units; i++) text_printf(&t, "%02x", ((const uint8_t *)units)[i]);
    text_puts(&t, replacement);
    return text_str(&t);
}

/* A charsmap that replaces a number of bytes 1 by "a": unit 2 k + 1 is the unit of the k-th byte. */
static const char *charsmap_of_ones(struct arena *a, uint32_t length)
{
    const uint32_t n = 2 * length + 3;
    uint32_t      *units = arena_array(a, uint32_t, n);
    struct text    t = { .arena = a };
    units[0] = 2u << 10;
    for (uint32_t k = 1; k <= length; k++) units[2 * k + 1] = ((2 * k + 1) ^ (2 * k + 2)) << 10 | (k == length ? 0x100 : 0) | 1;
    units[n - 1] = 1u << 31;
    const uint32_t bytes = 4 * n;
    text_puts(&t, CHARSMAP);
    for (size_t i = 0; i < 4; i++) text_printf(&t, "%02x", bytes >> 8 * i & 255);
    for (size_t i = 0; i < bytes; i++) text_printf(&t, "%02x", ((const uint8_t *)units)[i]);
    text_puts(&t, "6100");
    return text_str(&t);
}

static void unigram(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    /* 0 1 2 3 4 5 6 7 8 9; user-defined pieces cost nothing, unused ones are pieces, bytes and control tokens are not */
    static const char tokens[] = TOKENS ":<pad>|</s>|<unk>|▁|a|b|ab|▁ab|bb|<s>", types[] = TYPES "%3|3|2|1|1|1|1|4|5|6";
    static const char scores[] = "tokenizer.ggml.scores~0|0|0|-2|-3|-3|-7|-50|-1|0";
    const uint8_t    *v = vocab_build(a, GGUF(MODEL "=t5", tokens, types, scores), 0).data;
    assert_ids(a, v, "ab", FORGE_TOK_ADD, "4 5 1");         /* -6 is more than -7; EOS, no blank in front */
    assert_ids(a, v, "abb", 0, "4 8");
    assert_ids(a, v, "a ab", 0, "4 7");                     /* user-defined, as in the normalised text */
    assert_ids(a, v, "xya<s>", 0, "2 4 2");                 /* unknown characters are one token */
    assert_ids(a, v, " a  ", 0, "3 4 3 3");
    assert_ids(a, v, "A", 0, "2");
    v = vocab_build(a, GGUF(MODEL "=t5", tokens, types, "tokenizer.ggml.scores~0|0|0|-2|-3|-3|-6|-50|-1|0"), 0).data;
    assert_ids(a, v, "ab", 0, "6");                         /* of equal scores the piece that begins first, as in llama.cpp */
    v = vocab_build(a, GGUF(MODEL "=t5", tokens, types, scores, "tokenizer.ggml.remove_extra_whitespaces?1",
                            charsmap_of_a(a, 2, "780062206100")), 0).data;
    assert_ids(a, v, " a  ", 0, "3 4");
    assert_ids(a, v, "aA", 0, "7 3 4");                     /* "ab a" */
    v = vocab_build(a, GGUF(MODEL "=t5", tokens, types, scores, charsmap_of_ones(a, 255)), 0).data;
    char ones[256];
    memset(ones, 1, 255);
    ones[255] = 0;
    assert_ids(a, v, ones, 0, "4");
    assert_ids(a, v, ones + 1, 0, "2");
    v = vocab_build(a, GGUF(MODEL "=t5", tokens, types, scores, "tokenizer.ggml.add_space_prefix?1", "tokenizer.ggml.add_bos_token?1",
                            "tokenizer.ggml.bos_token_id#0", "tokenizer.ggml.add_eos_token?0"), 0).data;
    assert_ids(a, v, "b</s>b", FORGE_TOK_SPECIAL | FORGE_TOK_ADD, "0 3 5 1 3 5");
    char text[8];
    assert_int_equal(forge_token_text(v, 7, false, text, sizeof text), 5);
    assert_memory_equal(text, "\xe2\x96\x81" "ab", 5);     /* user-defined: unchanged */
    assert_int_equal(forge_token_text(v, 3, false, text, sizeof text), 1);

#define MADE(...) vocab_build(a, GGUF(MODEL "=t5", tokens, types, __VA_ARGS__), 0)
    assert_dies(MADE(scores, CHARSMAP "0400"), "damaged: of its 2 bytes 0 are units");
    assert_dies(MADE(scores, CHARSMAP "04000000000000006162"), "damaged: of its 10 bytes 4 are units");
    assert_dies(MADE(scores, CHARSMAP "08000000000000006100"), "the rest are not texts that end");
    assert_dies(MADE(scores, "tokenizer.ggml.precompiled_charsmap%1|2"), "is an array of i32, not of bytes");
    assert_dies(MADE(scores, charsmap_of_a(a, 9, "6100")), "damaged: a replacement at byte 9 of 2");
    assert_dies(MADE(scores, charsmap_of_a(a, 0, "61c200")), "is not UTF-8");
    assert_dies(MADE(scores, charsmap_of_a(a, 0, "6162636465666700")), "replaces 1 bytes by 7 characters");
    assert_dies(MADE(scores, charsmap_of_a(a, 0, "f09f8e89f09f8e89f09f8e89f09f8e8900")), "more than 6 a byte");
    assert_dies(MADE(scores, charsmap_of_ones(a, 256)), "replaces texts of more than 255 bytes");
    assert_dies(MADE("tokenizer.ggml.scores~0|0|0|0|nan|0|0|0|0|0"), "of token 4 is nan");
    arena_destroy(a);
}

/* ---- WordPiece ---- */

static void wordpiece(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    static const char tokens[] = TOKENS ":[UNK]|[CLS]|[SEP]|▁un|aff|able|▁unaff|▁!|▁中|É|▁É|e|▁e|▁A";
    static const char types[]  = TYPES "%3|3|3|1|1|1|1|1|1|1|1|1|1|1", ids[] = "tokenizer.ggml.unknown_token_id#0",
                      bos[] = "tokenizer.ggml.bos_token_id#1", sep[] = "tokenizer.ggml.seperator_token_id#2";
    const uint8_t *v = vocab_build(a, GGUF(MODEL "=bert", tokens, types, ids, bos, sep, "tokenizer.ggml.add_bos_token?0",
                                           "tokenizer.ggml.add_eos_token?1", "tokenizer.ggml.eos_token_id#2"), 0).data;
    assert_ids(a, v, "unaffable", FORGE_TOK_ADD, "1 6 5 2");                 /* the longest; [CLS] and [SEP] despite the file */
    assert_ids(a, v, "UNAFFABLE unx", 0, "6 5 0");                           /* unknown as a whole */
    assert_ids(a, v, "un!\t\xe4\xb8\xad" "\xe4\xb8\xad", 0, "3 7 8 8");
    assert_ids(a, v, "\xc3\x89\xe2\x80\x8b" "e\xcc\x81 [SEP]", FORGE_TOK_SPECIAL, "12 11 2");      /* a zero-width space is dropped */
    v = vocab_build(a, GGUF(MODEL "=bert", tokens, types, ids, bos, sep, "tokenizer.ggml.normalizer.lowercase?0"), 0).data;
    assert_ids(a, v, "\xc3\x89\xc3\x89" " A a", 0, "10 9 13 0");
    v = vocab_build(a, GGUF(MODEL "=bert", tokens, types, ids, bos, sep, "tokenizer.ggml.normalizer.lowercase?0",
                            "tokenizer.ggml.normalizer.strip_accents?1"), 0).data;
    assert_ids(a, v, "\xc3\xa9" " A", 0, "12 13");
    char text[8];
    assert_int_equal(forge_token_text(v, 3, false, text, sizeof text), 3);
    assert_memory_equal(text, " un", 3);
    char e[102];                                                             /* a word has 100 letters at most; longer ones are unknown */
    memset(e, 'e', sizeof e);
    e[101] = 0;
    assert_ids(a, v, e, 0, "0");
    e[100] = 0;
    struct text ids_of = { .arena = a };
    for (uint32_t i = 0; i < 100; i++) text_puts(&ids_of, i ? " 11" : "12");
    assert_ids(a, v, e, 0, text_str(&ids_of));
    v = vocab_build(a, GGUF(MODEL "=bert", TOKENS ":▁a", TYPES "%1"), 0).data;        /* no [UNK], [CLS] and [SEP]: nothing instead */
    assert_ids(a, v, "a b", FORGE_TOK_ADD, "0");
    arena_destroy(a);
}

/* ---- texts chosen to collide ---- */

enum { CHOSEN_COUNT = 40000 };

/* A vocabulary of texts of 8 letters; chosen: their hashes are all in 1/32 of the range. */
static const struct gguf *gguf_of_letters(struct arena *a, bool chosen, const char *model)
{
    struct text tokens = { .arena = a }, merges = { .arena = a };
    text_puts(&tokens, TOKENS ":");
    text_puts(&merges, "tokenizer.ggml.merges:");
    uint64_t number = 0;
    for (uint32_t n = 0; n < CHOSEN_COUNT; number++) {
        char name[10] = "";
        for (uint64_t i = 0, x = number; i < 8; i++, x /= 26) name[i] = (char)('a' + x % 26);
        if (chosen && forge_hash_text((const uint8_t *)name, 8) >> 59) continue;
        text_printf(&tokens, "%s%s", n ? "|" : "", name);
        text_printf(&merges, "%s%.3s %s", n++ ? "|" : "", name, name + 3);
    }
    return GGUF(model, "tokenizer.ggml.pre=gpt-2", text_str(&tokens), text_str(&merges));
}

/* Seconds to build the vocabulary and to find every token. */
static double seconds_with(struct arena *a, const struct gguf *g)
{
    const struct gguf_value *tokens = gguf_find(g, TOKENS);
    const clock_t            begin  = clock();
    const uint8_t           *v      = vocab_build(a, g, 0).data;
    for (uint32_t i = 0; i < CHOSEN_COUNT; i++) assert_int_equal(forge_vocab_find(v, tokens->strings[i].data, 8), i);
    return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

static void chosen_texts_cost_no_more(void **state)
{
    (void)state;
    static const char *const models[] = { MODEL "=llama", MODEL "=gpt2" };
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        struct arena *a = arena_create();
        const double  usual = seconds_with(a, gguf_of_letters(a, false, models[i])),
            chosen = seconds_with(a, gguf_of_letters(a, true, models[i]));
        if (chosen > 5 * usual + 0.3) fail_msg("%s: %.2f s, with other texts %.2f s", models[i], chosen, usual);
        arena_destroy(a);
    }
}

/* The seed of the compiler's own tables differs in each run; its output does not. */
static void images_are_reproducible(void **state)
{
    (void)state;
    struct arena      *a = arena_create();
    const struct gguf *g = gguf_of_letters(a, false, MODEL "=gpt2");
    const struct bytes x = vocab_build(a, g, 0), y = vocab_build(a, g, 0);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    arena_destroy(a);
}

/* A module rebuilds the parts that its file leaves out, identical to the byte. */
static void modules_complete_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(vocabularies); i++) {
        struct arena *a = arena_create();
        size_t n = 0;
        if (!file_exists(data_path(a, vocabularies[i].name, ".gguf"))) {         /* reported above */
            arena_destroy(a);
            continue;
        }
        const uint8_t *whole = vocab_load(a, vocabularies[i].name, &n);
        uint8_t *image = arena_alloc(a, n);
        memcpy(image, whole, n);
        vocab_leave_out(image);
        assert_int_not_equal(memcmp(image, whole, n), 0);
        vocab_complete(image);
        assert_memory_equal(image, whole, n);
        arena_destroy(a);
    }
}

/* Texts with the same bucket, and duplicate texts, are rare in the vocabularies above: here there are many. */
static void modules_complete_crowded_ones(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    enum { TEXTS = 300 };
    struct text tokens = { .arena = a };
    for (int i = 0; i < TEXTS; i++) text_printf(&tokens, "%s%c%c", i ? "|" : "", 'a' + i % 7, 'a' + i % 5);
    const char *all = arena_printf(a, TOKENS ":%s", text_str(&tokens));
    const struct bytes image = vocab_build(a, GGUF(MODEL "=gpt2", all, "tokenizer.ggml.merges:a b|b c|c d|a c"), TEXTS);
    uint8_t *copy = arena_alloc(a, image.size);
    memcpy(copy, image.data, image.size);
    vocab_leave_out(copy);
    vocab_complete(copy);
    assert_memory_equal(copy, image.data, image.size);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_cases), cmocka_unit_test(own_cases), cmocka_unit_test(pairs), cmocka_unit_test(accessors),
        cmocka_unit_test(refusals),
        cmocka_unit_test(marked), cmocka_unit_test(suppressed), cmocka_unit_test(endings), cmocka_unit_test(infill),
        cmocka_unit_test(warnings),
        cmocka_unit_test(odd_vocabularies), cmocka_unit_test(merges_of_characters),
        cmocka_unit_test(unigram), cmocka_unit_test(wordpiece), cmocka_unit_test(chosen_texts_cost_no_more),
        cmocka_unit_test(images_are_reproducible), cmocka_unit_test(modules_complete_them),
        cmocka_unit_test(modules_complete_crowded_ones),
        cmocka_unit_test(long_texts), cmocka_unit_test(speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
