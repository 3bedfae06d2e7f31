/* test_library.c -- model libraries on this machine: every function, every status, golden tokens, budgets, threads, saved states.
 * alpha: q-llama-Q8_0 --exact; beta: qwen3-a; delta: x-none-novocab, with its weights in a file; kappa: q-llama-Q8_0 with default options,
 * which must give the tokens of the program of the same model.
 * test_library GOLDEN_DIR DELTA_WEIGHTS [KAPPA_EXECUTABLE] */
#include "library_help.h"
#include "library_models.h"
#include "alpha.h"
#include "beta.h"
#include "delta.h"
#include "kappa.h"
#include <math.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

LIBRARY(alpha, ALPHA, "q-llama-Q8_0");
LIBRARY(beta, BETA, "qwen3-a");
LIBRARY(delta, DELTA, "x-none-novocab");
LIBRARY(kappa, KAPPA, "q-llama-Q8_0");

enum { PROMPT = 48, GREEDY = 40, MORE = ALPHA_MORE };

struct instance {
    const struct library *l;
    void    *m, *workspace;
    float   *logits;
    int32_t  prompt[PROMPT], greedy[GREEDY];
};
static const char *golden_dir, *program;          /* program: kappa's executable or NULL */
static uint8_t *delta_weights;
static size_t delta_bytes;

static int32_t kappa_greedy[GREEDY];

/* Runs a program that must succeed; returns its output. */
static void output_of(const char *command, char *out, size_t capacity)
{
    FILE *p = popen(command, "r");
    const size_t n = p ? fread(out, 1, capacity - 1, p) : 0;
    CHECK(p && pclose(p) == 0, "%s", command);
    out[n] = 0;
}

/* Opens an instance with exactly the memory for n sequences; 0: like programs that do not set n_sequences. */
static struct instance instance_of(const struct library *l, struct crew *crew, uint32_t n)
{
    const size_t bytes = l->workspace_bytes + (n > 1 ? (n - 1) * l->sequence_bytes : 0);
    struct instance i = { .l = l, .workspace = aligned_memory(bytes), .logits = malloc(l->n_vocab * sizeof(float)) };
    struct alpha_options o = { .size = sizeof o, .n_sequences = n };
    if (!l->embedded) { o.weights = delta_weights; o.weights_bytes = delta_bytes; }
    if (crew != NULL) { o.parallel_for = crew_for; o.parallel_context = crew; }
    const int status = l->open(&i.m, i.workspace, bytes, &o);
    CHECK(status == 0, "%s: %s", l->name, l->strerror(status));
    if (status != 0) exit(1);
    CHECK(file_ids(golden_dir, l->golden, "tokens", i.prompt, PROMPT) == PROMPT, "%s", l->golden);
    CHECK(file_ids(golden_dir, l->golden, "greedy", i.greedy, GREEDY) == GREEDY, "%s", l->golden);
    if (l == &kappa_library) memcpy(i.greedy, kappa_greedy, sizeof i.greedy);
    return i;
}

static struct instance instance_open(const struct library *l, struct crew *crew) { return instance_of(l, crew, 0); }

static void instance_close(struct instance *i)
{
    i->l->close(i->m);
    free(i->workspace);
    free(i->logits);
}

/* ---- golden ---- */

/* With as many threads as the library has workers, the program computes the same sums.  Without the program, the library's own tokens are
 * expected. */
static void read_kappa_greedy(void)
{
    char command[1200], out[4096];
    if (program == NULL) {
        struct instance i = instance_open(&kappa_library, NULL);
        CHECK(kappa_library.prefill(i.m, i.prompt, PROMPT, i.logits) == 0, "-");
        for (uint32_t k = 0; k < GREEDY; k++) {
            kappa_greedy[k] = kappa_library.sample(i.m, i.logits, NULL);
            CHECK(kappa_library.step(i.m, kappa_greedy[k], i.logits) == 0, "-");
        }
        instance_close(&i);
        return;
    }
    snprintf(command, sizeof command, "%s -q --tokens @%s/q-llama-Q8_0.tokens --print-tokens --temp 0 --repeat-penalty 1 "
             "-n %d --ignore-eos -t %u", program, golden_dir, GREEDY, KAPPA_WORKERS);
    output_of(command, out, sizeof out);
    char *at = out;
    for (uint32_t k = 0; k < GREEDY; k++) kappa_greedy[k] = (int32_t)strtol(at, &at, 10);
}

static void test_greedy(const struct library *l, struct crew *crew)
{
    struct instance i = instance_open(l, crew);
    CHECK(l->prefill(i.m, i.prompt, PROMPT, i.logits) == 0, "%s", l->name);
    for (uint32_t k = 0; k < GREEDY; k++) {
        const int32_t token = l->sample(i.m, i.logits, NULL);
        CHECK(token == i.greedy[k], "%s: token %u is %d, not %d", l->name, k, token, i.greedy[k]);
        if (token != i.greedy[k]) break;
        CHECK(l->step(i.m, token, i.logits) == 0 && l->n_past(i.m) == PROMPT + k + 1, "%s", l->name);
    }
    instance_close(&i);
}

/* The golden data has positions 2, 5, 8, ...; row r has the ids r % EVERY, r % EVERY + EVERY, ... */
static void test_logits(const struct library *l, double tolerance)
{
    struct instance i = instance_open(l, NULL);
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.logits.f32", golden_dir, l->golden);
    size_t size;
    const float *golden = (const void *)file_bytes(path, 0, &size);
    double worst = 0;
    enum { EVERY = 8 };
    const uint32_t width = (l->n_vocab + EVERY - 1) / EVERY;
    CHECK(size == PROMPT / 3 * width * sizeof(float), "%s: %zu bytes of logits", l->golden, size);
    for (uint32_t p = 0, row = 0; p < PROMPT; p++) {
        CHECK(l->step(i.m, i.prompt[p], p % 3 == 2 ? i.logits : NULL) == 0, "%s", l->name);
        if (p % 3 != 2 || (row + 1) * width * sizeof(float) > size) continue;
        for (uint32_t k = 0; k < width; k++)
            worst = fmax(worst, fabs((double)i.logits[(row % EVERY + EVERY * k) % l->n_vocab] - (double)golden[row * width + k]));
        row++;
    }
    CHECK(worst < tolerance, "%s: logits differ by %g", l->name, worst);
    free((void *)(uintptr_t)golden);
    instance_close(&i);
}

/* ---- tiles and threads ---- */

/* Computes the prompt and three more tokens with the budget; 0: whole steps.  out: [4][n_vocab]; calls: the calls of each step. */
static void run_with(struct instance *i, uint32_t budget, float *out, uint32_t calls[4])
{
    const struct library *l = i->l;
    CHECK(l->reset(i->m, 0) == 0, "-");
    for (uint32_t step = 0; step < 4; step++) {
        const int32_t *tokens = step == 0 ? i->prompt : &i->greedy[step];
        const uint32_t n = step == 0 ? PROMPT : 1;
        calls[step] = 0;
        if (budget == 0) {
            CHECK(l->prefill(i->m, tokens, n, out) == 0, "-");
        } else {
            CHECK(l->begin(i->m, tokens, n, out) == 0, "-");
            int status;
            do { status = l->step_budget(i->m, budget); calls[step]++; } while (status == MORE);
            CHECK(status == 0, "%s", l->strerror(status));
        }
        out += l->n_vocab;
    }
}

static void test_tiles(const struct library *l)
{
    static const uint32_t budgets[] = { 1, 2, 3, 5, 8, 100, UINT32_MAX };
    const size_t bytes = 4 * l->n_vocab * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    uint32_t calls[4], all = 0;
    struct instance one = instance_open(l, NULL);
    run_with(&one, 0, want, calls);
    for (uint32_t k = 0; k < sizeof budgets / sizeof *budgets; k++) {
        const uint32_t b = budgets[k];
        run_with(&one, b, got, calls);
        if (b == 1) all = calls[0];
        CHECK(calls[1] == (l->tiles - 1) / b + 1 && calls[2] == calls[1], "%s: %u calls with a budget of %u, %u tiles", l->name, calls[1],
              b, l->tiles);
        CHECK(calls[0] == (all - 1) / b + 1, "%s: prefill in %u calls with %u, %u tiles", l->name, calls[0], b, all);
        CHECK(memcmp(want, got, bytes) == 0, "%s: other logits with a budget of %u", l->name, b);
    }
    instance_close(&one);
    for (uint32_t n = 1; n <= 4; n += 3) {
        struct crew crew = { .n_threads = n };
        struct instance many = instance_open(l, &crew);
        run_with(&many, 0, got, calls);
        CHECK(memcmp(want, got, bytes) == 0, "%s: other logits with %u threads", l->name, n);
        const uint32_t jobs = atomic_load(&crew.jobs);
        CHECK(jobs == all + 3 * l->tiles, "%s: %u jobs, not %u", l->name, jobs, all + 3 * l->tiles);
        run_with(&many, 3, got, calls);
        CHECK(memcmp(want, got, bytes) == 0, "%s: other logits with %u threads and budgets", l->name, n);
        instance_close(&many);
    }
    free(want);
    free(got);
}

/* A prompt in any pieces gives nearly the same logits and the same token. */
static void test_pieces(const struct library *l)
{
    struct instance i = instance_open(l, NULL);
    for (uint32_t piece = 1; piece <= PROMPT; piece += 7) {
        CHECK(l->reset(i.m, 0) == 0, "-");
        for (uint32_t at = 0; at < PROMPT; at += piece)
            CHECK(l->prefill(i.m, i.prompt + at, PROMPT - at < piece ? PROMPT - at : piece, at + piece < PROMPT ? NULL : i.logits) == 0,
                  "-");
        CHECK(l->sample(i.m, i.logits, NULL) == i.greedy[0], "%s: pieces of %u", l->name, piece);
    }
    /* longer than a micro-batch, up to the last position; then no token fits */
    int32_t *many = malloc(l->n_ctx * sizeof *many);
    for (uint32_t k = 0; k < l->n_ctx; k++) many[k] = i.prompt[k % PROMPT];
    CHECK(l->reset(i.m, 0) == 0 && l->prefill(i.m, many, l->n_ctx, i.logits) == 0 && l->n_past(i.m) == l->n_ctx, "%s", l->name);
    CHECK(l->step(i.m, 1, NULL) == ALPHA_CONTEXT_FULL && l->n_past(i.m) == l->n_ctx, "%s", l->name);
    CHECK(l->reset(i.m, l->n_ctx - 2) == 0 && l->prefill(i.m, many, 3, NULL) == ALPHA_CONTEXT_FULL, "%s", l->name);
    CHECK(l->prefill(i.m, many + l->n_ctx - 2, 2, NULL) == 0, "%s", l->name);
    free(many);
    instance_close(&i);
}

/* ---- saved states ---- */

static void test_state(const struct library *l, const struct library *other)
{
    struct instance a = instance_open(l, NULL), b = instance_open(l, NULL), c = instance_open(other, NULL);
    uint8_t *state = malloc(l->state_bytes + 1);
    size_t written = 7, empty = 0;
    float *want = malloc(l->n_vocab * sizeof(float));
    CHECK(l->save(a.m, state, l->state_bytes, &empty) == 0 && empty > 0 && empty < 4096, "%zu", empty);
    CHECK(l->prefill(a.m, a.prompt, PROMPT, a.logits) == 0, "-");
    CHECK(l->save(a.m, state, 100, &written) == ALPHA_NO_ROOM && written == 7, "-");
    CHECK(l->save(a.m, state + 1, l->state_bytes, &written) == 0, "-");                      /* need not be aligned */
    CHECK(written > empty && written < l->state_bytes && written < empty + l->kv_bytes / 2, "%s: %zu bytes of %zu for %u tokens", l->name,
          written, l->state_bytes, PROMPT);
    CHECK(l->step(a.m, a.greedy[0], want) == 0, "-");
    CHECK(l->prefill(b.m, b.prompt + 5, 20, NULL) == 0, "-");                                /* the context has another text */
    CHECK(l->restore(b.m, state + 1, written) == 0 && l->n_past(b.m) == PROMPT, "-");
    CHECK(l->step(b.m, b.greedy[0], b.logits) == 0 && memcmp(want, b.logits, l->n_vocab * sizeof(float)) == 0,
          "%s: other logits after restoring", l->name);
    CHECK(other->restore(c.m, state + 1, written) == ALPHA_BAD_STATE && other->n_past(c.m) == 0, "a state of another model");
    for (size_t at = 0; at < written; at += at < 120 ? 1 : 997) {
        state[1 + at] ^= 4;
        CHECK(l->restore(b.m, state + 1, written) == ALPHA_BAD_STATE && l->n_past(b.m) == 0, "%s: damage in byte %zu", l->name, at);
        state[1 + at] ^= 4;
    }
    for (size_t n = 0; n < written; n += n < 100 ? 1 : 1009) CHECK(l->restore(b.m, state + 1, n) == ALPHA_BAD_STATE, "cut to %zu", n);
    CHECK(l->restore(b.m, state + 1, written) == 0 && l->n_past(b.m) == PROMPT, "-");
    CHECK(l->restore(b.m, NULL, written) == ALPHA_BAD_ARGUMENT && l->n_past(b.m) == PROMPT, "-");
    CHECK(l->save(b.m, NULL, written, &written) == ALPHA_BAD_ARGUMENT && l->save(b.m, state, written, NULL) == ALPHA_BAD_ARGUMENT, "-");
    free(want);
    free(state);
    instance_close(&a);
    instance_close(&b);
    instance_close(&c);
}

/* A full context fits into STATE_BYTES. */
static void test_full_state(const struct library *l)
{
    struct instance i = instance_open(l, NULL);
    size_t written = 0;
    uint8_t *state = malloc(l->state_bytes);
    for (uint32_t k = 0; k < l->n_ctx; k++) CHECK(l->step(i.m, i.prompt[k % PROMPT], NULL) == 0, "-");
    CHECK(l->save(i.m, state, l->state_bytes, &written) == 0 && written <= l->state_bytes && l->restore(i.m, state, written) == 0, "%s",
          l->name);
    free(state);
    instance_close(&i);
}

/* ---- sequences ---- */

enum { TEXTS = 3, STEPS = 6 };

/* Step `at` of text k in the current sequence: a prompt, then tokens drawn from the previous row.  rows: [STEPS][n_vocab]. */
static void text_step(struct instance *i, uint32_t k, uint32_t at, float *rows)
{
    const struct library *l = i->l;
    float *row = rows + (size_t)at * l->n_vocab;
    const struct alpha_sampling s = { .size = sizeof s, .temperature = 1.5f, .repeat_penalty = 1.3f, .repeat_last_n = 64,
                                      .seed = at == 1 && k > 0 ? 7 + k : 0 };
    if (at == 0) {
        CHECK(l->prefill(i->m, i->prompt + 5 * k, 20 + 3 * k, row) == 0, "%s: text %u", l->name, k);
        return;
    }
    memcpy(i->logits, row - l->n_vocab, l->n_vocab * sizeof *row);
    const int32_t token = l->sample(i->m, i->logits, &s);
    CHECK(token >= 0 && l->step(i->m, token, row) == 0, "%s: text %u, step %u", l->name, k, at);
}

/* The logits [TEXTS][STEPS][n_vocab], each text in its own instance. */
static float *texts_alone(const struct library *l)
{
    const size_t values = STEPS * (size_t)l->n_vocab;
    float *rows = malloc(TEXTS * values * sizeof *rows);
    for (uint32_t k = 0; k < TEXTS; k++) {
        struct instance one = instance_open(l, NULL);
        for (uint32_t at = 0; at < STEPS; at++) text_step(&one, k, at, rows + k * values);
        instance_close(&one);
    }
    return rows;
}

/* Sequences that alternate give the same bits as each alone. */
static void test_turns(const struct library *l, struct crew *crew, const float *want)
{
    const size_t values = STEPS * (size_t)l->n_vocab;
    float *got = malloc(TEXTS * values * sizeof *got);
    struct instance i = instance_of(l, crew, TEXTS);
    for (uint32_t at = 0; at < STEPS; at++)
        for (uint32_t k = 0; k < TEXTS; k++) {
            CHECK(l->sequence_use(i.m, k) == 0 && l->n_past(i.m) == (at == 0 ? 0 : 19 + 3 * k + at), "%s", l->name);
            text_step(&i, k, at, got + k * values);
        }
    for (uint32_t k = 0; k < TEXTS; k++)
        CHECK(memcmp(want + k * values, got + k * values, values * sizeof *got) == 0, "%s: text %u has other logits in turns", l->name, k);
    const size_t end = l->workspace_bytes + 2 * l->sequence_bytes;
    for (size_t k = end; k < (end + 127) / 64 * 64; k++) CHECK(((uint8_t *)i.workspace)[k] == 0xee, "%s: written behind it", l->name);
    instance_close(&i);
    free(got);
}

/* Continues text 0 in sequence k from step `at`. */
static void goes_on(struct instance *i, uint32_t k, uint32_t at, const float *want, const char *what)
{
    const size_t n = i->l->n_vocab;
    float *got = malloc(STEPS * n * sizeof *got);
    memcpy(got, want, STEPS * n * sizeof *got);
    CHECK(i->l->sequence_use(i->m, k) == 0, "%s", what);
    for (; at < STEPS; at++) text_step(i, 0, at, got);
    CHECK(memcmp(want, got, STEPS * n * sizeof *got) == 0, "%s: %s has other logits", i->l->name, what);
    free(got);
}

static void test_fork(const struct library *l, const float *want)
{
    struct instance i = instance_of(l, NULL, TEXTS);
    const size_t n = l->n_vocab;
    float *rows = malloc(STEPS * n * sizeof *rows);
    uint8_t *state = malloc(l->state_bytes);
    size_t written = 0;
    CHECK(l->sequence_use(i.m, 1) == 0 && l->prefill(i.m, i.prompt, 40, NULL) == 0 && l->sequence_use(i.m, 0) == 0, "-");
    for (uint32_t at = 0; at < 3; at++) text_step(&i, 0, at, rows);
    CHECK(l->sequence_copy(i.m, 1, 0) == 0 && l->sequence_copy(i.m, 2, 0) == 0 && l->save(i.m, state, l->state_bytes, &written) == 0, "-");
    CHECK(l->prefill(i.m, i.prompt, 9, NULL) == 0 && l->n_past(i.m) == 31, "-");           /* the fork does not see it */
    goes_on(&i, 1, 3, want, "a fork");
    CHECK(l->sequence_use(i.m, 1) == 0 && l->n_past(i.m) == 19 + STEPS && l->sequence_copy(i.m, 0, 2) == 0, "-");
    CHECK(l->n_past(i.m) == 19 + STEPS, "a copy changes no other sequence");
    goes_on(&i, 0, 3, want, "a snapshot");
    CHECK(l->sequence_use(i.m, 1) == 0 && l->restore(i.m, state, written) == 0, "-");
    goes_on(&i, 1, 3, want, "what was saved of another sequence");
    CHECK(l->reset(i.m, 0) == 0 && l->sequence_use(i.m, 2) == 0 && l->n_past(i.m) == 22, "a reset is of one sequence");
    struct instance fresh = instance_of(l, NULL, 2);
    CHECK(l->prefill(fresh.m, fresh.prompt, 30, NULL) == 0 && l->sequence_copy(fresh.m, 0, 1) == 0 && l->n_past(fresh.m) == 0, "-");
    goes_on(&fresh, 0, 0, want, "the copy of an empty one");
    instance_close(&fresh);
    instance_close(&i);
    free(state);
    free(rows);
}

static void test_sequence_errors(const struct library *l)
{
    struct instance i = instance_of(l, NULL, 2), one = instance_open(l, NULL);
    CHECK(l->workspace_of_three == l->workspace_bytes + 2 * l->sequence_bytes && l->sequence_bytes > l->kv_bytes, "%s", l->name);
    CHECK(l->sequence_use(i.m, 2) == ALPHA_NO_SEQUENCE && l->sequence_use(i.m, UINT32_MAX) == ALPHA_NO_SEQUENCE, "-");
    CHECK(l->sequence_copy(i.m, 2, 0) == ALPHA_NO_SEQUENCE && l->sequence_copy(i.m, 0, 2) == ALPHA_NO_SEQUENCE, "-");
    CHECK(l->sequence_use(NULL, 0) == ALPHA_BAD_ARGUMENT && l->sequence_copy(NULL, 0, 0) == ALPHA_BAD_ARGUMENT, "-");
    CHECK(l->sequence_use(one.m, 0) == 0 && l->sequence_copy(one.m, 0, 0) == 0 && l->sequence_use(one.m, 1) == ALPHA_NO_SEQUENCE, "-");
    CHECK(l->begin(i.m, i.prompt, 5, NULL) == 0 && l->sequence_use(i.m, 1) == ALPHA_BUSY && l->sequence_copy(i.m, 1, 0) == ALPHA_BUSY, "-");
    l->cancel(i.m);
    CHECK(l->sequence_use(i.m, 1) == 0 && l->prefill(i.m, i.prompt, 5, NULL) == 0 && l->n_past(i.m) == 5, "-");

    struct alpha_options o = { .size = sizeof o, .n_sequences = 3 };
    void *m = NULL;
    if (!l->embedded) { o.weights = delta_weights; o.weights_bytes = delta_bytes; }
    uint8_t *w = aligned_memory(l->workspace_of_three);
    CHECK(l->open(&m, w, l->workspace_of_three - 1, &o) == ALPHA_BAD_WORKSPACE && l->open(&m, w, l->workspace_of_three, &o) == 0, "-");
    o.n_sequences = UINT32_MAX;
    CHECK(l->open(&m, w, l->workspace_of_three, &o) == ALPHA_BAD_WORKSPACE, "-");
    o.size = offsetof(struct alpha_options, n_sequences);
    CHECK(l->open(&m, w, l->workspace_bytes, &o) == 0 && l->sequence_use(m, 1) == ALPHA_NO_SEQUENCE,
          "options of before there were sequences");
    free(w);
    instance_close(&one);
    instance_close(&i);
}

static void test_sequences(const struct library *l, struct crew *crew)
{
    float *want = texts_alone(l);
    test_turns(l, NULL, want);
    test_turns(l, crew, want);
    test_fork(l, want);
    test_sequence_errors(l);
    free(want);
}

/* ---- statuses ---- */

/* A library tells what its header says, and refuses the header of another build. */
#define TEST_FACTS(p, P) do { \
    const struct p##_facts *f = p##_facts(), wanted = { \
        sizeof *f, P##_ABI_VERSION, P##_INTERFACE, P##_N_VOCAB, P##_EMBEDDINGS, P##_N_EMBD, P##_N_CTX, P##_CHUNK, P##_ALIGN, \
        P##_WORKSPACE_BYTES, P##_SEQUENCE_BYTES, P##_KV_BYTES, P##_STATE_BYTES, P##_WEIGHTS_BYTES, P##_WEIGHTS_EMBEDDED, P##_N_TENSORS, \
        P##_STACK_BYTES, P##_WORKERS, P##_TILES, P##_DEVICE_BYTES, P##_SEQUENCE_DEVICE_BYTES, P##_TIMINGS, P##_HAS_TOKENIZER, \
        P##_ENCODE_SCRATCH(0), P##_ENCODE_SCRATCH(1) - P##_ENCODE_SCRATCH(0), P##_HAS_CHAT, P##_CHAT_BYTES(0), \
        P##_CHAT_BYTES(1) - P##_CHAT_BYTES(0), P##_CHAT_STACK(0), P##_CHAT_STACK(1) - P##_CHAT_STACK(0), P##_ANSWER_BYTES, \
        P##_ANSWER_LEAST, P##_HAS_GRAMMAR, P##_LEXICON_BYTES, P##_GRAMMAR_BYTES(0), P##_GRAMMAR_BYTES(1) - P##_GRAMMAR_BYTES(0), \
        P##_SCHEMA_BYTES(0), P##_SCHEMA_BYTES(1) - P##_SCHEMA_BYTES(0), P##_MASK_BYTES, P##_MASK_LEAST, P##_MASK_WORDS }; \
    CHECK(memcmp(f, &wanted, sizeof wanted) == 0, "facts of " #p); \
    struct p *m = NULL; \
    void *w = aligned_memory(P##_WORKSPACE_BYTES); \
    struct p##_options o = { .size = sizeof o }; \
    if (!P##_WEIGHTS_EMBEDDED) { o.weights = delta_weights; o.weights_bytes = delta_bytes; } \
    CHECK(p##_open_checked(&m, w, P##_WORKSPACE_BYTES, &o, P##_INTERFACE + 1) == P##_BAD_ARGUMENT && m == NULL, #p); \
    CHECK(p##_open_checked(&m, w, P##_WORKSPACE_BYTES, &o, P##_INTERFACE) == P##_OK, #p); \
    p##_close(m); \
    CHECK(p##_open(&m, w, P##_WORKSPACE_BYTES, &(struct p##_options){ .size = sizeof o, .weights = o.weights, \
                                                                     .weights_bytes = o.weights_bytes }) == P##_OK, #p); \
    p##_close(m); \
    free(w); \
} while (0)

static void test_facts(void)
{
    TEST_FACTS(alpha, ALPHA);
    TEST_FACTS(beta, BETA);
    TEST_FACTS(delta, DELTA);
    CHECK(ALPHA_INTERFACE != BETA_INTERFACE && ALPHA_INTERFACE != DELTA_INTERFACE, "other sizes, the same interface");
}

static void test_open_errors(const struct library *l)
{
    void *m = NULL;
    uint8_t *w = aligned_memory(l->workspace_bytes + 64);
    struct alpha_options o = { .size = sizeof o };
    const size_t n = l->workspace_bytes;
    if (!l->embedded) { o.weights = delta_weights; o.weights_bytes = delta_bytes; }
    CHECK(l->open(NULL, w, n, &o) == ALPHA_BAD_ARGUMENT && l->open(&m, NULL, n, &o) == ALPHA_BAD_ARGUMENT, "-");
    CHECK(l->open(&m, w, n - 1, &o) == ALPHA_BAD_WORKSPACE && l->open(&m, w + 32, n, &o) == ALPHA_BAD_WORKSPACE &&
          l->open(&m, w, 0, &o) == ALPHA_BAD_WORKSPACE, "-");
    o.size--;
    CHECK(l->open(&m, w, n, &o) == ALPHA_BAD_ARGUMENT, "-");
    o.size++;
    o.verify = 2;
    CHECK(l->open(&m, w, n, &o) == ALPHA_BAD_ARGUMENT, "-");
    o.verify = ALPHA_VERIFY_OPEN;
    CHECK(l->open(&m, w, n, &o) == 0 && m == w, "-");
    l->close(m);
    CHECK(l->step(m, 1, NULL) == ALPHA_BAD_ARGUMENT && l->n_past(m) == 0, "after close");
    o.weights = delta_weights;
    o.weights_bytes = l->weights_bytes - 1;
    CHECK(l->open(&m, w, n, &o) == ALPHA_BAD_WEIGHTS, "-");
    o.weights = delta_weights + 4;
    o.weights_bytes = l->weights_bytes;
    CHECK(l->open(&m, w, n, &o) == ALPHA_BAD_WEIGHTS, "not aligned");
    CHECK(l->open(&m, w, n, NULL) == (l->embedded ? 0 : ALPHA_BAD_WEIGHTS), "-");
    l->close(NULL);
    free(w);
}

static void test_errors(const struct library *l)
{
    struct instance i = instance_open(l, NULL);
    const int32_t bad[] = { 1, (int32_t)l->n_vocab, -1 };
    size_t written;
    uint32_t at = 0;
    CHECK(l->prefill(NULL, i.prompt, 1, NULL) == ALPHA_BAD_ARGUMENT && l->prefill(i.m, NULL, 1, NULL) == ALPHA_BAD_ARGUMENT, "-");
    CHECK(l->prefill(i.m, i.prompt, 0, NULL) == ALPHA_BAD_ARGUMENT && l->prefill(i.m, bad, 2, NULL) == ALPHA_BAD_ARGUMENT, "-");
    CHECK(l->step(i.m, bad[1], NULL) == ALPHA_BAD_ARGUMENT && l->step(i.m, bad[2], NULL) == ALPHA_BAD_ARGUMENT && l->n_past(i.m) == 0, "-");
    CHECK(l->prefill(i.m, i.prompt, UINT32_MAX, NULL) < 0 || l->n_ctx == UINT32_MAX, "-");
    CHECK(l->step_budget(i.m, 1) == ALPHA_NOT_BUSY && l->step_budget(NULL, 1) == ALPHA_BAD_ARGUMENT, "-");
    CHECK(l->reset(i.m, 1) == ALPHA_BAD_ARGUMENT && l->reset(NULL, 0) == ALPHA_BAD_ARGUMENT && l->n_past(NULL) == 0, "-");
    CHECK(l->verify(i.m, NULL, 1, NULL) == ALPHA_BAD_ARGUMENT && l->verify(i.m, &at, 0, NULL) == ALPHA_BAD_ARGUMENT &&
          l->verify(NULL, &at, 1, NULL) == ALPHA_BAD_ARGUMENT, "-");
    at = l->n_tensors + 1;
    CHECK(l->verify(i.m, &at, 1, NULL) == ALPHA_BAD_ARGUMENT, "-");
    CHECK(l->sample(i.m, NULL, NULL) == ALPHA_BAD_ARGUMENT && l->sample(NULL, i.logits, NULL) == ALPHA_BAD_ARGUMENT, "-");

    CHECK(l->prefill(i.m, i.prompt, 3, i.logits) == 0 && l->begin(i.m, i.prompt, 2, i.logits) == 0 && l->step_budget(i.m, 1) == ALPHA_MORE,
          "-");
    CHECK(l->begin(i.m, i.prompt, 1, NULL) == ALPHA_BUSY && l->step(i.m, 1, NULL) == ALPHA_BUSY &&
          l->prefill(i.m, i.prompt, 1, NULL) == ALPHA_BUSY, "-");
    CHECK(l->reset(i.m, 0) == ALPHA_BUSY && l->sample(i.m, i.logits, NULL) == ALPHA_BUSY &&
          l->save(i.m, &written, 8, &written) == ALPHA_BUSY, "-");
    at = 0;
    CHECK(l->restore(i.m, &written, 8) == ALPHA_BUSY && l->verify(i.m, &at, 1, NULL) == ALPHA_BUSY &&
          l->step_budget(i.m, 0) == ALPHA_BAD_ARGUMENT, "-");
    CHECK(l->n_past(i.m) == 3, "-");
    l->cancel(i.m);
    l->cancel(NULL);
    CHECK(l->n_past(i.m) == 3 && l->step_budget(i.m, 1) == ALPHA_NOT_BUSY, "after a cancel");
    instance_close(&i);
}

/* A number of tokens that cannot fit is refused before any token is read: there is no memory after the only token. */
static void test_room(const struct library *l)
{
    struct instance i = instance_open(l, NULL);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0, "no guarded memory");
    int32_t *const token = (int32_t *)(void *)(pages + page) - 1;
    *token = i.prompt[0];
    CHECK(l->prefill(i.m, token, l->n_ctx + 1, NULL) == ALPHA_CONTEXT_FULL &&
          l->prefill(i.m, token, UINT32_MAX, i.logits) == ALPHA_CONTEXT_FULL, "-");
    CHECK(l->prefill(i.m, token, 1, NULL) == 0 && l->begin(i.m, token, l->n_ctx, NULL) == ALPHA_CONTEXT_FULL && l->n_past(i.m) == 1, "-");
    munmap(pages, 2 * page);
    instance_close(&i);
}

/* A cancelled step leaves no trace. */
static void test_cancel(const struct library *l)
{
    struct instance a = instance_open(l, NULL), b = instance_open(l, NULL);
    CHECK(l->prefill(a.m, a.prompt, 20, NULL) == 0 && l->prefill(b.m, b.prompt, 20, NULL) == 0, "-");
    CHECK(l->begin(b.m, b.prompt + 30, 7, b.logits) == 0, "-");
    for (int k = 0; k < 30; k++) CHECK(l->step_budget(b.m, 2) == MORE, "-");
    l->cancel(b.m);
    CHECK(l->prefill(a.m, a.prompt + 20, 10, a.logits) == 0 && l->prefill(b.m, b.prompt + 20, 10, b.logits) == 0, "-");
    CHECK(memcmp(a.logits, b.logits, l->n_vocab * sizeof(float)) == 0, "%s", l->name);
    /* back to an earlier position, then other tokens */
    CHECK(l->reset(a.m, 25) == 0 && l->prefill(a.m, a.prompt, 4, a.logits) == 0, "-");
    CHECK(l->reset(b.m, 0) == 0 && l->prefill(b.m, b.prompt, 20, NULL) == 0 && l->prefill(b.m, b.prompt + 20, 5, NULL) == 0 &&
          l->prefill(b.m, b.prompt, 4, b.logits) == 0, "-");
    for (uint32_t k = 0; k < l->n_vocab; k++) CHECK(fabsf(a.logits[k] - b.logits[k]) < 1e-2f, "%s", l->name);
    instance_close(&a);
    instance_close(&b);
}

static void test_sampling_errors(const struct library *l)
{
    struct instance i = instance_open(l, NULL);
    for (uint32_t k = 0; k < l->n_vocab; k++) i.logits[k] = 0;
    const struct alpha_sampling good = { .size = sizeof good, .temperature = 1, .seed = 3 };
    struct alpha_sampling bad[9];
    for (int k = 0; k < 9; k++) bad[k] = good;
    bad[0].size = 4;
    bad[1].temperature = -1;
    bad[2].top_k = -1;
    bad[3].top_p = 1.5f;
    bad[4].min_p = -0.1f;
    bad[5].repeat_penalty = NAN;
    bad[6].repeat_last_n = 65;
    bad[7].temperature = INFINITY;
    bad[8].top_p = NAN;
    for (int k = 0; k < 9; k++) CHECK(l->sample(i.m, i.logits, &bad[k]) == ALPHA_BAD_ARGUMENT, "%d", k);
    const int32_t drawn = l->sample(i.m, i.logits, &good);
    CHECK(drawn >= 0 && (uint32_t)drawn < l->n_vocab && drawn == l->sample(i.m, i.logits, &good), "the same seed draws the same");
    instance_close(&i);
}

static void test_strerror(const struct library *l)
{
    for (int s = 1; s >= -16; s--) CHECK(strlen(l->strerror(s)) > 3 && strcmp(l->strerror(s), "unknown status") != 0, "%d", s);
    CHECK(strcmp(l->strerror(-20), "unknown status") == 0 && strcmp(l->strerror(99), "unknown status") == 0, "-");
}

/* ---- profiles ---- */

/* A clock that advances by one at each read. */
static uint64_t reads(void *context)
{
    return atomic_fetch_add((atomic_ullong *)context, 1u);
}

struct measured { struct alpha_profiling profile; struct alpha_timing *timings; atomic_ullong clock; };

static int measure(struct instance *i, uint32_t n, uint32_t n_steps, uint32_t n_threads, struct measured *r)
{
    r->profile = (struct alpha_profiling){ .size = sizeof r->profile, .n_steps = n_steps, .n_threads = n_threads, .clock = reads,
                                         .clock_context = &r->clock, .timings = r->timings };
    return i->l->profile(i->m, i->prompt + 8, n, i->logits, &r->profile);
}

/* If jobs run one after the other, a launch takes one tick, and so does a whole step; with threads, launches also wait for their jobs. */
static void test_target(const struct library *l, struct crew *crew)
{
    enum { DEPTH = 8, PREFILL = 12 };
    struct instance i = instance_open(l, crew);
    float *want = malloc(l->n_vocab * sizeof *want);
    struct measured r = { .timings = calloc(l->timings, sizeof *r.timings) };
    CHECK(l->prefill(i.m, i.prompt, DEPTH, want) == 0 && l->step(i.m, i.prompt[DEPTH], want) == 0 && l->reset(i.m, DEPTH) == 0, "-");
    for (uint32_t n = 1; n <= PREFILL; n += PREFILL - 1) {
        const uint32_t before = crew ? atomic_load(&crew->calls) : 0;
        CHECK(measure(&i, n, STEPS, 0, &r) == 0 && r.profile.n_steps == STEPS && l->n_past(i.m) == DEPTH, "%s: %u tokens", l->name, n);
        const uint32_t calls = crew ? (atomic_load(&crew->calls) - before) / (2 * STEPS + 1) : 0;
        uint32_t launches = 0;
        uint64_t bytes = 0, operations = 0;
        for (uint32_t k = 0; k < r.profile.n_timings; k++) {
            const struct alpha_timing *timing = &r.timings[k];
            launches += timing->launches;
            bytes += timing->bytes;
            operations += timing->operations;
            CHECK(timing->launches > 0 && strlen(timing->name) > 0, "%s: row %u", l->name, k);
            for (uint32_t other = 0; other < k; other++) CHECK(strcmp(timing->name, r.timings[other].name) != 0, "%s twice", timing->name);
            if (crew == NULL) CHECK(timing->work == timing->launches && timing->wait == 0, "%s: %d, %d", timing->name, (int)timing->work,
                                    (int)timing->wait);
            /* a job reads the clock at its begin and end, and other jobs may read it in between; both means are rounded down */
            else CHECK(timing->work >= timing->launches && timing->work + timing->wait + 2 >= timing->launches *
                       (2 * (int64_t)l->workers + 1), "%s: %d, %d", timing->name, (int)timing->work, (int)timing->wait);
        }
        CHECK(n > 1 || launches * l->workers == l->tiles, "%s: %u launches", l->name, launches);
        CHECK(crew == NULL || calls == launches, "%s: %u launches, %u calls of parallel_for", l->name, launches, calls);
        CHECK(r.profile.step == 1 && bytes > l->weights_bytes / 2 && operations > 1000 * n, "%s: the step", l->name);
        CHECK(r.profile.n_timings <= l->timings && launches <= l->timings, "%s: %u launches", l->name, launches);
    }
    CHECK(l->step(i.m, i.prompt[DEPTH], i.logits) == 0 && memcmp(i.logits, want, l->n_vocab * sizeof *want) == 0,
          "%s: a step behind what was measured", l->name);
    CHECK(l->reset(i.m, 0) == 0 && measure(&i, 2, 0, 3, &r) == 0 && r.profile.n_steps == 8 && l->n_past(i.m) == 0, "%s", l->name);
    free(r.timings);
    free(want);
    instance_close(&i);
}

static void test_profile_errors(const struct library *l)
{
    struct instance i = instance_open(l, NULL);
    struct measured r = { .timings = calloc(l->timings, sizeof *r.timings) };
    const int32_t bad[] = { 1, (int32_t)l->n_vocab };
    CHECK(measure(&i, 1, 1, 0, &r) == 0 && measure(&i, 0, 1, 0, &r) == ALPHA_BAD_ARGUMENT &&
          measure(&i, l->chunk + 1, 1, 0, &r) == ALPHA_BAD_ARGUMENT, "-");
    struct alpha_profiling p = r.profile;
    CHECK(l->profile(NULL, i.prompt, 1, i.logits, &p) == ALPHA_BAD_ARGUMENT &&
          l->profile(i.m, NULL, 1, i.logits, &p) == ALPHA_BAD_ARGUMENT && l->profile(i.m, i.prompt, 1, NULL, &p) == ALPHA_BAD_ARGUMENT &&
          l->profile(i.m, i.prompt, 1, i.logits, NULL) == ALPHA_BAD_ARGUMENT && l->profile(i.m, bad, 2, i.logits, &p) == ALPHA_BAD_ARGUMENT,
          "-");
    p.size--;
    CHECK(l->profile(i.m, i.prompt, 1, i.logits, &p) == ALPHA_BAD_ARGUMENT, "another struct");
    p = r.profile;
    p.clock = NULL;
    CHECK(l->profile(i.m, i.prompt, 1, i.logits, &p) == ALPHA_BAD_ARGUMENT, "no clock");
    p = r.profile;
    p.timings = NULL;
    CHECK(l->profile(i.m, i.prompt, 1, i.logits, &p) == ALPHA_BAD_ARGUMENT, "no rows");
    int32_t *tokens = calloc(l->n_ctx, sizeof *tokens);
    CHECK(l->prefill(i.m, tokens, l->n_ctx - 1, NULL) == 0 && measure(&i, 2, 1, 0, &r) == ALPHA_CONTEXT_FULL &&
          l->n_past(i.m) == l->n_ctx - 1 && measure(&i, 1, 1, 0, &r) == 0, "the last token of a context");
    CHECK(l->begin(i.m, tokens, 1, i.logits) == 0 && measure(&i, 1, 1, 0, &r) == ALPHA_BUSY, "-");
    free(tokens);
    free(r.timings);
    instance_close(&i);
}

/* Compares with the rows of the program of the same model, with the same number of threads. */
static void test_profile_program(const struct library *l)
{
    enum { DEPTH = 9, PREFILL = 5 };
    char command[1200], out[8192];
    if (program == NULL) return;
    snprintf(command, sizeof command, "%s --profile -o csv -n 1 -p %d -d %d -t %u", program, PREFILL, DEPTH, l->workers);
    output_of(command, out, sizeof out);
    struct instance i = instance_open(l, NULL);
    struct measured r = { .timings = calloc(l->timings, sizeof *r.timings) };
    CHECK(l->prefill(i.m, i.prompt, DEPTH, NULL) == 0, "-");
    for (uint32_t n = 1; n <= PREFILL; n += PREFILL - 1) {
        uint32_t rows = 0;
        CHECK(measure(&i, n, 1, 0, &r) == 0, "-");
        for (const char *line = out; *line; line += strcspn(line, "\n"), line += *line == '\n') {
            char name[64];
            unsigned tokens, depth, launches;
            unsigned long long bytes, operations;
            if (sscanf(line, "%*[a-z],%u,%u,%63[^,],%u,%*[^,],%*[^,],%llu,%*[^,],%*[^,],%llu", &tokens, &depth, name, &launches, &bytes,
                       &operations) != 6 || tokens != n) continue;
            uint32_t k = 0;
            while (k < r.profile.n_timings && strcmp(r.timings[k].name, name) != 0) k++;
            CHECK(k < r.profile.n_timings, "no row %s", name);
            if (k == r.profile.n_timings) continue;
            CHECK(depth == DEPTH && r.timings[k].launches == launches && r.timings[k].bytes == bytes &&
                  r.timings[k].operations == operations,
                  "%s of %u tokens: %u launches, %llu bytes, %llu operations", name, n, launches, bytes, operations);
            rows++;
        }
        /* At such an early position the program leaves out the merge of attention's parts; a library does not, because all its decode steps
         * have the same number of tiles. */
        uint32_t expected = 0;
        for (uint32_t k = 0; k < r.profile.n_timings; k++) expected += n > 1 || strcmp(r.timings[k].name, "attention_merge") != 0;
        CHECK(rows > 4 && rows == expected, "%u rows of %u", rows, expected);
    }
    free(r.timings);
    instance_close(&i);
}

/* ---- text ---- */

static const char *const texts[] = { "", "Hello, world", " two  blanks", "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac 12345 it's", "\xff\xfe bad",
                                     "<s>a</s> <|im_end|>", "line\nline\r\n\n  x" };

static void test_text(const struct library *l)
{
    int32_t ids[256];
    uint8_t *scratch = aligned_memory(ALPHA_ENCODE_SCRATCH(64));
    char out[64];
    if (!l->has_tokenizer) {
        CHECK(l->encode("a", 1, 0, ids, 256, scratch, ALPHA_ENCODE_SCRATCH(64)) == ALPHA_NO_TOKENIZER &&
              l->decode(1, out, 8) == ALPHA_NO_TOKENIZER, "-");
        CHECK(l->bos() == -1 && l->eos() == -1 && l->is_end(-5) && !l->is_end(1), "-");
        free(scratch);
        return;
    }
    for (uint32_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        const size_t n = strlen(texts[t]);
        const int64_t count = l->encode(texts[t], n, ALPHA_ADD_BOS, ids, 256, scratch, ALPHA_ENCODE_SCRATCH(n));
        CHECK(count >= 0, "%s: text %u: %s", l->name, t, l->strerror((int)count));
        if (program == NULL || l != &kappa_library) continue;
        char command[1200], line[4096] = "";
        FILE *in = fopen("library_text.tmp", "wb");
        if (in == NULL || fwrite(texts[t], 1, n, in) != n || fclose(in) != 0) { perror("library_text.tmp"); exit(2); }
        snprintf(command, sizeof command, "%s -q --tokenize --no-parse-special -f library_text.tmp", program);
        output_of(command, line, sizeof line);
        char *at = line;
        for (int64_t k = 0; k < count; k++) {
            char *end;
            const long id = strtol(at, &end, 10);
            CHECK(end != at && id == ids[k], "%s: text %u: token %d is %d, the program says %ld", l->name, t, (int)k, ids[k], id);
            at = end;
        }
        CHECK(strtol(at, NULL, 10) == 0 || count == 0, "%s: text %u: the program has more tokens: %s", l->name, t, at);
    }
    remove("library_text.tmp");
    const char *text = texts[1];
    const size_t n = strlen(text), room = ALPHA_ENCODE_SCRATCH(n);
    CHECK(l->encode(NULL, 1, 0, ids, 256, scratch, room) == ALPHA_BAD_ARGUMENT &&
          l->encode(text, n, 4, ids, 256, scratch, room) == ALPHA_BAD_ARGUMENT, "-");
    CHECK(l->encode(text, n, 0, NULL, 1, scratch, room) == ALPHA_BAD_ARGUMENT &&
          l->encode(text, n, 0, ids, 256, NULL, room) == ALPHA_BAD_ARGUMENT, "-");
    CHECK(l->encode(text, n, 0, ids, 256, scratch + 4, room) == ALPHA_BAD_ARGUMENT &&
          l->encode(text, SIZE_MAX, 0, ids, 256, scratch, room) == ALPHA_BAD_ARGUMENT, "-");
    CHECK(l->encode(text, n, 0, ids, 1, scratch, room) == ALPHA_NO_ROOM && l->encode(text, n, 0, ids, 256, scratch, 100) == ALPHA_NO_ROOM,
          "-");
    const int64_t count = l->encode(text, n, 0, ids, 256, scratch, room);
    char joined[256];
    size_t length = 0;
    for (int64_t k = 0; k < count; k++) length += (size_t)l->decode(ids[k], joined + length, sizeof joined - length);
    joined[length] = 0;
    CHECK(strstr(joined, text) != NULL && length <= n + 1, "%s: \"%s\"", l->name, joined);
    CHECK(l->decode(-1, out, 8) == ALPHA_BAD_ARGUMENT && l->decode((int32_t)l->n_vocab, out, 8) == ALPHA_BAD_ARGUMENT &&
          l->decode(ids[0], NULL, 8) == ALPHA_BAD_ARGUMENT, "-");
    CHECK(l->decode(ids[0], NULL, 0) == l->decode(ids[0], out, 64), "-");
    CHECK(l->is_end(-1) && l->is_end(l->eos()), "-");
    free(scratch);
}

/* ---- weights ---- */

/* The step that computes NaN reports it, in pieces of any size, and leaves the context empty. */
static void test_not_finite(const struct library *l)
{
    struct instance i = instance_open(l, NULL);
    uint8_t *good = malloc(delta_bytes);
    memcpy(good, delta_weights, delta_bytes);
    memset(delta_weights, 0xff, delta_bytes);
    CHECK(l->prefill(i.m, i.prompt, 5, NULL) == 0 && l->n_past(i.m) == 5, "logits nobody asked for");
    CHECK(l->step(i.m, i.prompt[5], i.logits) == ALPHA_NOT_FINITE && l->n_past(i.m) == 0, "-");
    CHECK(l->sample(i.m, i.logits, NULL) == ALPHA_NOT_FINITE, "-");
    CHECK(l->prefill(i.m, i.prompt, PROMPT, i.logits) == ALPHA_NOT_FINITE && l->n_past(i.m) == 0, "-");
    int status = l->begin(i.m, i.prompt, 3, i.logits);
    while (status == 0 || status == MORE) status = l->step_budget(i.m, 7);
    CHECK(status == ALPHA_NOT_FINITE && l->step_budget(i.m, 1) == ALPHA_NOT_BUSY, "%s", l->strerror(status));
    memcpy(delta_weights, good, delta_bytes);
    CHECK(l->prefill(i.m, i.prompt, PROMPT, i.logits) == 0 && l->sample(i.m, i.logits, NULL) == i.greedy[0],
          "after good weights came back");
    free(good);
    instance_close(&i);
}

static void test_verify(const struct library *l)
{
    struct alpha_options o = { .size = sizeof o, .weights = delta_weights, .weights_bytes = delta_bytes };
    void *m, *w = aligned_memory(l->workspace_bytes);
    uint32_t at = 0, calls = 0, found = 0;
    const char *name = NULL;
    int status;
    CHECK(l->open(&m, w, l->workspace_bytes, &o) == 0, "-");
    do { status = l->verify(m, &at, 2, &name); calls++; } while (status == ALPHA_MORE);
    CHECK(status == 0 && at == l->n_tensors && calls == (l->n_tensors + 1) / 2 && name == NULL, "%u calls, %s", calls, l->strerror(status));
    /* Flips bits one at a time; each is in exactly one tensor. */
    for (size_t bit = 0; bit < 40; bit++) {
        const size_t byte = bit * (delta_bytes / 40);
        delta_weights[byte] ^= (uint8_t)(1u << bit % 8);
        at = 0;
        if (l->verify(m, &at, UINT32_MAX, &name) == ALPHA_BAD_WEIGHTS) {
            found++;
            CHECK(name != NULL && strlen(name) > 0 && at > 0, "-");
            status = l->verify(m, &at, UINT32_MAX, NULL);
            CHECK(status == 0, "only one is damaged: %s", l->strerror(status));
            o.verify = ALPHA_VERIFY_OPEN;
            void *m2, *w2 = aligned_memory(l->workspace_bytes);
            CHECK(l->open(&m2, w2, l->workspace_bytes, &o) == ALPHA_BAD_WEIGHTS, "-");
            free(w2);
        }
        delta_weights[byte] ^= (uint8_t)(1u << bit % 8);
    }
    if (found == 0) puts("weights: this build has no hashes, damage cannot be found");
    else CHECK(found >= 39, "%u of 40 flipped bits were found", found);            /* one bit may lie between two tensors */
    free(w);
}

/* ---- stack ---- */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SANITIZED)      /* sanitizers use their own stacks */
static void test_stack(const struct library *l) { (void)l; }
#else
enum { STACK = 1 << 20, PAINT = 0xa5 };
static struct { struct instance i; uint8_t *scratch, *state; struct measured measured; int what; int status; } in_stack;
static ucontext_t caller;

static void stack_body(void)
{
    struct instance *i = &in_stack.i;
    const struct library *l = i->l;
    const struct alpha_sampling s = { .size = sizeof s, .temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .min_p = 0.01f,
                                      .repeat_penalty = 1.1f, .repeat_last_n = 64, .seed = 1 };
    int32_t ids[64];
    size_t written;
    uint32_t at = 0;
    switch (in_stack.what) {
    case 0: break;
    case 1: in_stack.status = l->prefill(i->m, i->prompt, PROMPT, i->logits); break;
    case 2: in_stack.status = l->step(i->m, 1, i->logits); break;
    case 3: in_stack.status = l->sample(i->m, i->logits, &s) < 0; break;
    case 4:
        in_stack.status = l->has_tokenizer &&
                          l->encode(texts[3], strlen(texts[3]), 3, ids, 64, in_stack.scratch, ALPHA_ENCODE_SCRATCH(64)) < 0;
        break;
    case 5: in_stack.status = l->save(i->m, in_stack.state, l->state_bytes, &written) || l->restore(i->m, in_stack.state, written); break;
    case 6: in_stack.status = l->verify(i->m, &at, UINT32_MAX, NULL); break;
    case 7: in_stack.status = measure(i, 2, 1, 0, &in_stack.measured); break;
    }
}

static size_t stack_of(int what)
{
    static uint8_t stack[STACK] __attribute__((aligned(64)));
    ucontext_t context;
    memset(stack, PAINT, sizeof stack);
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = sizeof stack;
    context.uc_link = &caller;
    in_stack.what = what;
    makecontext(&context, stack_body, 0);
    swapcontext(&caller, &context);
    size_t untouched = 0;
    while (untouched < sizeof stack && stack[untouched] == PAINT) untouched++;
    return sizeof stack - untouched;
}

static void test_stack(const struct library *l)
{
    static const char *const names[] = { "nothing", "prefill", "step", "sample", "encode", "save", "verify", "profile" };
    in_stack.i = instance_open(l, NULL);
    in_stack.measured.timings = calloc(l->timings, sizeof *in_stack.measured.timings);
    in_stack.scratch = aligned_memory(ALPHA_ENCODE_SCRATCH(64));
    in_stack.state = malloc(l->state_bytes);
    const size_t base = stack_of(0);
    printf("%s: stack", l->name);
    for (int what = 1; what <= 7; what++) {
        const size_t used = stack_of(what) - base;
        printf(" %s %zu", names[what], used);
        CHECK(in_stack.status == 0, "%s: %s", l->name, names[what]);
        CHECK(used <= l->stack_bytes, "%s: %s uses %zu bytes of stack, %zu are stated", l->name, names[what], used, l->stack_bytes);
    }
    printf(", stated %zu\n", l->stack_bytes);
    free(in_stack.scratch);
    free(in_stack.state);
    free(in_stack.measured.timings);
    instance_close(&in_stack.i);
}
#endif

int main(int argc, char **argv)
{
    if (argc < 3) { fputs("usage: test_library GOLDEN_DIR DELTA_WEIGHTS [KAPPA_EXECUTABLE]\n", stderr); return 2; }
    golden_dir = argv[1];
    delta_weights = file_bytes(argv[2], 4096, &delta_bytes);
    program = argc > 3 ? argv[3] : NULL;
    read_kappa_greedy();
    static const struct library *const all[] = { &alpha_library, &beta_library, &delta_library, &kappa_library };
    struct crew crew = { .n_threads = 4 };
    test_logits(&alpha_library, 0.02);
    test_logits(&beta_library, 0.02);
    test_logits(&delta_library, 0.02);
    for (uint32_t i = 0; i < 4; i++) {
        const struct library *l = all[i];
        test_greedy(l, NULL);
        test_greedy(l, &crew);
        test_tiles(l);
        test_pieces(l);
        test_state(l, all[(i + 1) % 4]);
        test_full_state(l);
        test_sequences(l, &crew);
        test_open_errors(l);
        test_errors(l);
        test_room(l);
        test_cancel(l);
        test_sampling_errors(l);
        test_strerror(l);
        test_target(l, NULL);
        test_target(l, &crew);
        test_profile_errors(l);
        test_text(l);
        test_stack(l);
    }
    test_facts();
    test_profile_program(&kappa_library);
    test_not_finite(&delta_library);
    test_verify(&delta_library);
    const unsigned n = atomic_load(&failures);
    printf("test_library: %u failure%s\n", n, n == 1 ? "" : "s");
    return n > 0;
}
