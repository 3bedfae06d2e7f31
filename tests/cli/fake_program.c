/* A program without a model, to test the runtime alone: logits follow from the tokens by a rule, and every launch checks that all threads
 * have finished the previous launch. Text is one token per byte; token 256 begins a text, 257 ends it, 258 is "|". */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/model/abi.h"
#include "runtime/text/tokenize.h"
#include "runtime/model/vocab.h"
#include "fake_spoil.h"

#ifndef FAKE_FEATURES
#define FAKE_FEATURES NULL
#endif
#ifndef FAKE_WORK
#define FAKE_WORK 2000
#endif

enum { N_VOCAB = 300, N_CTX = 1024, CHUNK = 64, MAX_THREADS = 8, N_LAUNCHES = 40, BOS = 256, END = 257, BAR = 258 };

/* The arena: one counter per launch, so that a thread that passes a barrier early is detected. */
struct arena {
    _Atomic uint32_t arrived[N_LAUNCHES];
    uint32_t hash[N_CTX + 1];
};

static void die(const char *what)
{
    fprintf(stderr, "fake program: %s\n", what);
    abort();
}

static uint32_t mix(uint32_t h, uint32_t x)
{
    h = (h ^ x) * 0x9e3779b1u;
    return h ^ h >> 15;
}

static void work(const struct forge_args *a, const struct forge_launch *launch, uint32_t thread, uint32_t n_threads)
{
    struct arena *arena = (struct arena *)a->arena;
    const uint32_t i = (uint32_t)launch->weight[0];
    if (i > 0 && atomic_load(&arena->arrived[i - 1]) % n_threads != 0) die("a thread passed a barrier early");
    if (i == 0 && thread == 0 && getenv("FORGE_SLOW") != NULL) usleep(20000);      /* time for a Ctrl-C */
    volatile uint32_t sink = 0;
    for (uint32_t k = 0; k < FAKE_WORK / n_threads; k++) sink = mix(sink, k);
    /* The KV cache is plain memory: the barrier must order its accesses. */
    if (i == 0 && thread == 0)
        for (uint32_t t = 0; t < a->n_tokens; t++) {
            const uint32_t at = a->n_past + t;
            if (a->tokens[t] < 0 || a->tokens[t] >= N_VOCAB || at >= N_CTX) die("token or position out of range");
            ((uint32_t *)a->state)[at] = (uint32_t)a->tokens[t];
        }
    atomic_fetch_add(&arena->arrived[i], 1);
}

static void head(const struct forge_args *a, const struct forge_launch *launch, uint32_t thread, uint32_t n_threads)
{
    work(a, launch, thread, n_threads);
    for (uint32_t l = 0; l < a->n_logits; l++) {
        const uint32_t at = a->n_past + a->n_tokens - a->n_logits + l;
        uint32_t h = 1;
        for (uint32_t t = at < 8 ? 0 : at - 8; t <= at; t++) h = mix(h, ((const uint32_t *)a->state)[t]);
        for (uint32_t v = thread; v < N_VOCAB; v += n_threads) {
            float x = (float)(mix(h, v) >> 8) * 0x1p-24f * 4;
            if ((v >= 'a' && v <= 'z') || v == ' ') x += 6;
            if (v >= 128 && v != BAR) x -= 20;
            if (v == END && at > 200) x += 30;                    /* texts end */
            a->logits[(size_t)l * N_VOCAB + v] = fake_spoiled(x, at, v);
        }
    }
}

#define W(i) { .kernel = work, .name = "work", .layer = (i) / 10, .weight = { i }, .cost = { .state_bytes = 4 * N_CTX, .operations = 3, \
               .attention = 2 } }
#define W5(i) W(i), W(i + 1), W(i + 2), W(i + 3), W(i + 4)
static const struct forge_launch launches[N_LAUNCHES] = {
    W5(0), W5(5), W5(10), W5(15), W5(20), W5(25), W5(30), W(35), W(36), W(37), W(38),
    { .kernel = head, .name = "head", .layer = 0xffffffff, .weight = { 39 } },
};

/* Only the header of the vocabulary is used here; the functions below replace runtime/text/tokenize.c. */
static const struct forge_vocab_header vocab = { .n_tokens = N_VOCAB, .max_token_bytes = 1, .bos = BOS, .eos = END };

/* FAKE_FORGETS: tokens cannot be undone, as if every token replaced the state. */
static struct forge_state states[1] = {
    { .kind = FORGE_STATE_KV, .offset = 0, .bytes = N_CTX * 4, .runs = 1, .rows = N_CTX, .row_bytes = 4, .back = UINT32_MAX } };
__attribute__((constructor)) static void forgets(void)
{
    if (getenv("FAKE_FORGETS") != NULL) states[0].back = 0;
}

static const char *const features[] = { FAKE_FEATURES, NULL };

/* "mute" has no tokenizer. */
#define FAKE(name, tokenizer) { \
    .abi_version = FORGE_ABI_VERSION, .n_vocab = N_VOCAB, .n_ctx = N_CTX, .n_embd = 8, .n_layer = 4, .chunk = CHUNK, .max_logits = CHUNK, \
    .max_threads = MAX_THREADS, .n_decode = N_LAUNCHES, .n_prefill = N_LAUNCHES, .decode = launches, .prefill = launches, \
    .arena_bytes = sizeof(struct arena), .state_bytes = N_CTX * 4, .n_states = 1, .states = states, .weights_bytes = 1 << 20, \
    .read_bytes = 1 << 20, \
    .state_bytes_per_token = 4, .n_parameters = 1000000, .model_name = "fake \"model\"", .architecture = "fake", .formats = "F32 1", \
    .model_hash = "0123456789abcdef0123456789abcdef", .weights_hash = "fedcba9876543210fedcba9876543210", .target = name, \
    .options = "--fuse layer", .compiler = "by hand", .features = features, .vocab = tokenizer, \
    .sampling = { -1, -1, -1, -1, -1, -1 }, \
}
static const struct forge_program fake = FAKE("fake", (const uint8_t *)&vocab), mute = FAKE("mute", NULL);
static const struct forge_program other = { .abi_version = FORGE_ABI_VERSION, .target = "elsewhere",
                                            .features = (const char *const[]){ "no-such-feature", NULL } };

const struct forge_program *const forge_programs[] = { &other, &fake, &mute };
const uint32_t forge_n_programs = 3;
const char *const forge_edited_source = "00112233445566778899aabbccddeeff";
#ifdef FAKE_EXTERNAL
const uint8_t *const forge_weights = NULL;
#else
static const _Alignas(64) uint8_t image[1 << 20] = { 1 };
const uint8_t *const forge_weights = image;
#endif

int32_t forge_vocab_bos(const uint8_t *v) { (void)v; return BOS; }
int32_t forge_vocab_eos(const uint8_t *v) { (void)v; return END; }
bool forge_vocab_add_bos(const uint8_t *v) { (void)v; return true; }
bool forge_vocab_is_eog(const uint8_t *v, int32_t id) { (void)v; return id == END; }
bool forge_vocab_differs(const uint8_t *v) { (void)v; return false; }
bool forge_vocab_is_llama_cpp(const uint8_t *v) { (void)v; return false; }
uint32_t forge_vocab_n_tokens(const uint8_t *v) { (void)v; return N_VOCAB; }
int32_t forge_vocab_find(const uint8_t *v, const char *text, size_t n) { (void)v; return n == 1 ? (unsigned char)*text : -1; }
size_t forge_tokenize_scratch(size_t n) { return n; }

int64_t forge_tokenize_marked(const uint8_t *v, const char *text, const uint8_t *input, size_t n, uint32_t flags, int32_t *out,
                              size_t capacity, void *scratch, size_t scratch_bytes)
{
    (void)v, (void)scratch, (void)scratch_bytes;
    size_t used = 0;
    if (flags & FORGE_TOK_ADD) out[used++] = BOS;
    for (size_t i = 0; i < n && used < capacity; i++)
        out[used++] = text[i] == '|' && (flags & FORGE_TOK_SPECIAL) && !(input && input[i]) ? BAR : (unsigned char)text[i];
    return (int64_t)used;
}

int64_t forge_tokenize(const uint8_t *v, const char *text, size_t n, uint32_t flags, int32_t *out, size_t capacity, void *scratch,
                       size_t scratch_bytes)
{
    return forge_tokenize_marked(v, text, NULL, n, flags, out, capacity, scratch, scratch_bytes);
}

size_t forge_token_text(const uint8_t *v, int32_t id, bool special, char *out, size_t capacity)
{
    (void)v, (void)special;
    if (id > 255) return 0;
    if (capacity > 0) *out = (char)id;
    return 1;
}
