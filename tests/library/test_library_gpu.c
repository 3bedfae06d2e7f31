/* test_library_gpu.c -- model libraries for GPUs, on the simulator: golden tokens, several instances, budgets, sequences, saved states,
 * every failure of the driver.  gamma: q-llama-Q8_0 for a gfx1151 with micro-batches of 20 tokens; omega: the same for gfx942; zeta: gamma
 * with its weights in a file.  test_library_gpu GOLDEN_DIR LIBGFXSIM.so ZETA_WEIGHTS; FORGEC_TIER=full: runs on both chips the cases that
 * run on one chip by default. */
#include "library_help.h"
#include "library_models.h"
#include "gamma.h"
#include "omega.h"
#include "zeta.h"
#include <dlfcn.h>

enum { PROMPT = 48, GREEDY = 8 };

LIBRARY(gamma, GAMMA, "q-llama-Q8_0");
LIBRARY(omega, OMEGA, "q-llama-Q8_0");
LIBRARY(zeta, ZETA, "q-llama-Q8_0");

static int32_t prompt[PROMPT], greedy[GREEDY];
static void *simulator;
static uint8_t *zeta_weights;
static size_t zeta_bytes;

/* ---- the driver's functions, as an application may pass them ---- */

static uint32_t n_memory;                        /* allocated blocks: of the device and pinned */
static int (*real_alloc)(void **, size_t), (*real_free)(void *), (*real_host_alloc)(void **, size_t, unsigned), (*real_host_free)(void *);

static int counting_alloc(void **out, size_t bytes) { const int code = real_alloc(out, bytes); n_memory += code == 0; return code; }
static int counting_free(void *address) { n_memory--; return real_free(address); }
static int counting_host_alloc(void **out, size_t bytes, unsigned flags)
{
    const int code = real_host_alloc(out, bytes, flags);
    n_memory += code == 0;
    return code;
}
static int counting_host_free(void *host) { n_memory--; return real_host_free(host); }

/* The function that fails, the first call that fails (-1: the function is missing), and its code: 719 is hipErrorLaunchFailure, 2
 * hipErrorOutOfMemory. */
struct driver { const char *failing; int after, code; };
static int calls_left, code_now;
static int fails(void) { return code_now; }      /* takes any arguments */
static int (*real_function)(void *, void *, void *, void *, void *, void *);
static int fails_later(void *a, void *b, void *c, void *d, void *e, void *f)
{
    return calls_left-- > 0 ? real_function(a, b, c, d, e, f) : code_now;
}

/* Functions as data pointers, as dlsym returns them. */
#define DATA(to, from) memcpy(&(to), &(from), sizeof(to))

static void *symbol(void *context, const char *name)
{
    const struct driver *d = context;
    void *found = dlsym(simulator, name), *other = NULL;
    if (d != NULL && d->failing != NULL && strcmp(name, d->failing) == 0) {
        int (*always)(void) = fails, (*later)(void *, void *, void *, void *, void *, void *) = fails_later;
        if (d->after < 0) return NULL;
        calls_left = d->after;
        code_now = d->code;
        DATA(real_function, found);
        if (d->after == 0) DATA(other, always);
        else DATA(other, later);
        return other;
    }
#define COUNTED(function, real, ours)                                                                                                      \
    if (strcmp(name, function) == 0) { __typeof__(real) counting_ = ours; DATA(real, found); DATA(other, counting_); return other; }
    COUNTED("hipMalloc", real_alloc, counting_alloc)
    COUNTED("hipFree", real_free, counting_free)
    COUNTED("hipHostMalloc", real_host_alloc, counting_host_alloc)
    COUNTED("hipHostFree", real_host_free, counting_host_free)
    return found;
}

static void *no_symbol(void *context, const char *name) { (void)context, (void)name; return NULL; }

/* ---- instances ---- */

struct instance { const struct library *l; void *m, *workspace; float *logits; int status; };

/* The options of all headers are the same. */
static struct instance instance_open(const struct library *l, const struct gamma_options *options)
{
    struct gamma_options o = { .size = sizeof o };
    if (options != NULL) o = *options;
    const size_t bytes = l->workspace_bytes + (o.n_sequences > 1 ? (o.n_sequences - 1) * l->sequence_bytes : 0);
    struct instance i = { .l = l, .workspace = aligned_memory(bytes), .logits = malloc(l->n_vocab * sizeof(float)) };
    if (l == &zeta_library && o.weights == NULL) { o.weights = zeta_weights; o.weights_bytes = zeta_bytes; }
    i.status = l->open(&i.m, i.workspace, bytes, &o);
    return i;
}

static void instance_free(struct instance *i)
{
    if (i->status == 0) i->l->close(i->m);
    free(i->workspace);
    free(i->logits);
}

static struct instance opened(const struct library *l, const struct gamma_options *o)
{
    const struct instance i = instance_open(l, o);
    CHECK(i.status == 0, "%s: %s", l->name, gamma_strerror(i.status));
    if (i.status != 0) exit(1);
    return i;
}

static int status_of_open(const struct library *l, const struct gamma_options *o)
{
    struct instance i = instance_open(l, o);
    const int status = i.status;
    instance_free(&i);
    return status;
}

/* ---- golden ---- */

static void test_greedy(const struct library *l, const struct gamma_options *o)
{
    struct instance i = opened(l, o);
    CHECK(l->prefill(i.m, prompt, PROMPT, i.logits) == 0 && l->n_past(i.m) == PROMPT, "%s", l->name);
    for (uint32_t k = 0; k < GREEDY; k++) {
        const int32_t token = l->sample(i.m, i.logits, NULL);
        CHECK(token == greedy[k], "%s: token %u is %d, not %d", l->name, k, token, greedy[k]);
        CHECK(l->step(i.m, token, i.logits) == 0 && l->n_past(i.m) == PROMPT + k + 1, "%s", l->name);
    }
    instance_free(&i);
}

/* Two instances of one model and one of another alternate. */
static void test_together(void)
{
    struct instance all[] = { opened(&gamma_library, NULL), opened(&gamma_library, NULL), opened(&omega_library, NULL) };
    enum { N = sizeof all / sizeof *all };
    CHECK(all[0].l->prefill(all[0].m, prompt, PROMPT, all[0].logits) == 0, "-");
    CHECK(all[1].l->prefill(all[1].m, prompt, 30, NULL) == 0, "-");
    CHECK(all[2].l->prefill(all[2].m, prompt, PROMPT, all[2].logits) == 0, "-");
    CHECK(all[1].l->prefill(all[1].m, prompt + 30, PROMPT - 30, all[1].logits) == 0, "-");
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t n = 0; n < N; n++) {
            const int32_t token = all[n].l->sample(all[n].m, all[n].logits, NULL);
            CHECK(token == greedy[k], "%s, instance %u: token %u is %d, not %d", all[n].l->name, n, k, token, greedy[k]);
            CHECK(all[n].l->step(all[n].m, token, all[n].logits) == 0, "-");
        }
    for (uint32_t n = 0; n < N; n++) instance_free(&all[n]);
}

/* ---- sequences ---- */

enum { TEXTS = 3, STEPS = 5 };

/* Step `at` of text k in the current sequence: a prompt, then the most probable token of the previous row.  rows: [STEPS][n_vocab]. */
static void text_step(struct instance *i, uint32_t k, uint32_t at, float *rows)
{
    const struct library *l = i->l;
    float *row = rows + (size_t)at * l->n_vocab;
    const int status = at == 0 ? l->prefill(i->m, prompt + 3 * k, 30 + 2 * k, row)
        : l->step(i->m, l->sample(i->m, row - l->n_vocab, NULL), row);
    CHECK(status == 0, "%s: text %u, step %u: %s", l->name, k, at, gamma_strerror(status));
}

/* Sequences that alternate give the same bits as each alone; forks and saved sequences continue like the original. */
static void test_sequences(const struct library *l)
{
    const struct gamma_options o = { .size = sizeof o, .n_sequences = TEXTS };
    const size_t n = l->n_vocab, bytes = STEPS * n * sizeof(float);
    float *want[TEXTS], *got = malloc(TEXTS * bytes);
    uint8_t *state = malloc(l->state_bytes);
    size_t written = 0;
    for (uint32_t k = 0; k < TEXTS; k++) {
        struct instance one = opened(l, NULL);
        want[k] = malloc(bytes);
        for (uint32_t at = 0; at < STEPS; at++) text_step(&one, k, at, want[k]);
        CHECK(l->sequence_use(one.m, 1) == GAMMA_NO_SEQUENCE && l->sequence_use(one.m, 0) == 0, "-");
        instance_free(&one);
    }
    struct instance i = opened(l, &o);
    for (uint32_t at = 0; at < STEPS; at++) {
        for (uint32_t k = 0; k < TEXTS; k++) {
            CHECK(l->sequence_use(i.m, k) == 0 && l->n_past(i.m) == (at == 0 ? 0 : 29 + 2 * k + at), "-");
            text_step(&i, k, at, got + k * STEPS * n);
        }
        if (at == 2) CHECK(l->save(i.m, state, l->state_bytes, &written) == 0, "-");         /* of the last */
    }
    for (uint32_t k = 0; k < TEXTS; k++)
        CHECK(memcmp(want[k], got + k * STEPS * n, bytes) == 0, "%s: other logits in turns: %u", l->name, k);

    CHECK(l->sequence_use(i.m, 0) == 0 && l->restore(i.m, state, written) == 0 && l->sequence_copy(i.m, 1, 0) == 0, "-");
    CHECK(l->step(i.m, prompt[0], NULL) == 0, "the fork does not see it");
    memcpy(got, want[2], bytes);
    CHECK(l->sequence_use(i.m, 1) == 0 && l->n_past(i.m) == 36, "%u", l->n_past(i.m));
    for (uint32_t at = 3; at < STEPS; at++) text_step(&i, 2, at, got);
    CHECK(memcmp(want[2], got, bytes) == 0, "%s: a fork has other logits", l->name);
    CHECK(l->sequence_use(i.m, TEXTS) == GAMMA_NO_SEQUENCE && l->sequence_copy(i.m, 0, TEXTS) == GAMMA_NO_SEQUENCE, "-");
    CHECK(l->sequence_device_bytes > 0 && l->sequence_device_bytes < l->device_bytes, "-");
    instance_free(&i);
    for (uint32_t k = 0; k < TEXTS; k++) free(want[k]);
    free(state);
    free(got);
}

/* ---- budgets ---- */

static void test_budgets(void)
{
    const struct library *l = &gamma_library;
    struct instance i = opened(l, NULL);
    const size_t bytes = l->n_vocab * sizeof(float);
    float *want = malloc(bytes);
    CHECK(l->chunk == 20 && l->tiles == 1 && l->workers == 1, "%u %u %u", l->chunk, l->tiles, l->workers);
    CHECK(l->prefill(i.m, prompt, PROMPT, want) == 0, "-");
    for (uint32_t budget = 1; budget <= 4; budget++) {
        int status;
        uint32_t calls = 0;
        CHECK(l->reset(i.m, 0) == 0 && l->begin(i.m, prompt, PROMPT, i.logits) == 0, "-");
        CHECK(l->step(i.m, 1, NULL) == GAMMA_BUSY && l->reset(i.m, 0) == GAMMA_BUSY, "-");
        do { status = l->step_budget(i.m, budget); calls++; } while (status == GAMMA_MORE);
        CHECK(status == 0 && calls == (3 + budget - 1) / budget && l->n_past(i.m) == PROMPT, "%d after %u calls of %u", status, calls,
              budget);
        CHECK(memcmp(want, i.logits, bytes) == 0, "other logits with a budget of %u", budget);
        CHECK(l->step_budget(i.m, 1) == GAMMA_NOT_BUSY, "-");
    }
    CHECK(l->reset(i.m, 10) == 0 && l->begin(i.m, prompt + 10, PROMPT - 10, i.logits) == 0 && l->step_budget(i.m, 1) == GAMMA_MORE, "-");
    l->cancel(i.m);
    CHECK(l->n_past(i.m) == 10 && l->prefill(i.m, prompt + 10, PROMPT - 10, i.logits) == 0 && l->sample(i.m, i.logits, NULL) == greedy[0],
          "after a cancelled step");
    int32_t *many = malloc(l->n_ctx * sizeof *many);
    for (uint32_t k = 0; k < l->n_ctx; k++) many[k] = prompt[k % PROMPT];
    CHECK(l->prefill(i.m, many, l->n_ctx, NULL) == GAMMA_CONTEXT_FULL && l->n_past(i.m) == PROMPT, "-");
    CHECK(l->reset(i.m, 0) == 0 && l->prefill(i.m, many, l->n_ctx, i.logits) == 0 && l->step(i.m, 1, NULL) == GAMMA_CONTEXT_FULL, "-");
    free(many);
    free(want);
    instance_free(&i);
}

/* ---- saved states ---- */

static void test_state(const struct library *l, const struct library *other)
{
    struct instance a = opened(l, NULL), b = opened(l, NULL), c = opened(other, NULL);
    uint8_t *state = malloc(l->state_bytes);
    const size_t bytes = l->n_vocab * sizeof(float);
    float *want = malloc(bytes);
    size_t written = 0, empty = 0;
    CHECK(l->save(a.m, state, l->state_bytes, &empty) == 0 && empty < 4096 && l->restore(b.m, state, empty) == 0 && l->n_past(b.m) == 0,
          "%zu", empty);
    CHECK(l->prefill(a.m, prompt, PROMPT, NULL) == 0, "-");
    CHECK(l->save(a.m, state, 100, &written) == GAMMA_NO_ROOM && written == 0, "-");
    CHECK(l->save(a.m, state, l->state_bytes, &written) == 0 && written < l->state_bytes / 4, "%zu of %zu", written, l->state_bytes);
    CHECK(l->step(a.m, greedy[0], want) == 0, "-");
    CHECK(l->prefill(b.m, prompt + 5, 30, NULL) == 0, "-");                                  /* the context has another text */
    CHECK(l->restore(b.m, state, written) == 0 && l->n_past(b.m) == PROMPT, "-");
    CHECK(l->step(b.m, greedy[0], b.logits) == 0 && memcmp(want, b.logits, bytes) == 0, "%s: other logits after restoring", l->name);
    CHECK(other->restore(c.m, state, written) == GAMMA_BAD_STATE, "a state of another target");
    state[written / 2] ^= 1;
    CHECK(l->restore(b.m, state, written) == GAMMA_BAD_STATE && l->n_past(b.m) == 0, "a damaged state");
    CHECK(l->prefill(b.m, prompt, PROMPT, b.logits) == 0 && l->sample(b.m, b.logits, NULL) == greedy[0], "-");
    free(want);
    free(state);
    instance_free(&a);
    instance_free(&b);
    instance_free(&c);
}

/* ---- missing things ---- */

static void with_variable(const char *name, const char *value, const struct library *l, int wanted)
{
    char *before = getenv(name) != NULL ? strdup(getenv(name)) : NULL;
    setenv(name, value, 1);
    const int status = status_of_open(l, NULL);
    CHECK(status == wanted, "%s=%s: %s", name, value, gamma_strerror(status));
    if (before != NULL) setenv(name, before, 1);
    else unsetenv(name);
    free(before);
}

static void test_missing(void)
{
    const struct gamma_options none = { .size = sizeof none, .device_symbol = no_symbol };
    with_variable("FORGE_HIP_LIBRARY", "/nonexistent/libamdhip64.so", &gamma_library, GAMMA_NO_DEVICE);
    with_variable("FORGE_HIP_LIBRARY", "libm.so.6", &gamma_library, GAMMA_NO_DEVICE);
    with_variable("FORGE_GFXSIM_CHIP", "gfx942", &gamma_library, GAMMA_NO_DEVICE);
    with_variable("FORGE_GFXSIM_CHIP", "gfx1151", &omega_library, GAMMA_NO_DEVICE);
    with_variable("FORGE_GFXSIM_CHIP", "no-chip", &gamma_library, GAMMA_NO_DEVICE);
    CHECK(status_of_open(&gamma_library, &none) == GAMMA_NO_DEVICE, "-");
    for (int after = 0; after < 4; after++)
        for (int pinned = 0; pinned < 2; pinned++) {
            struct driver full = { pinned ? "hipHostMalloc" : "hipMalloc", after, 2 };
            const struct gamma_options o = { .size = sizeof o, .device_symbol = symbol, .device_context = &full };
            const int status = status_of_open(&gamma_library, &o);
            CHECK(status == (pinned && after > 0 ? GAMMA_OK : GAMMA_NO_MEMORY), "%s after %d: %s", full.failing, after,
                  gamma_strerror(status));
        }
    n_memory = 0;
}

static void test_arguments(void)
{
    void *m = NULL;
    const struct library *l = &gamma_library;
    uint8_t *w = aligned_memory(l->workspace_bytes + 64);
    struct gamma_options o = { .size = sizeof o - 1 };
    CHECK(l->open(&m, w, l->workspace_bytes - 1, NULL) == GAMMA_BAD_WORKSPACE &&
          l->open(&m, w + 32, l->workspace_bytes, NULL) == GAMMA_BAD_WORKSPACE, "-");
    CHECK(l->open(&m, w, l->workspace_bytes, &o) == GAMMA_BAD_ARGUMENT && m == NULL, "-");
    CHECK(zeta_library.open(&m, w, l->workspace_bytes, NULL) == GAMMA_BAD_WEIGHTS, "-");
    o = (struct gamma_options){ .size = sizeof o, .weights = zeta_weights, .weights_bytes = zeta_bytes - 1 };
    CHECK(status_of_open(&zeta_library, &o) == GAMMA_BAD_WEIGHTS, "-");
    o = (struct gamma_options){ .size = sizeof o, .verify = GAMMA_VERIFY_OPEN };
    CHECK(status_of_open(&zeta_library, &o) == 0, "-");
    zeta_weights[zeta_bytes / 2] ^= 1;
    CHECK(status_of_open(&zeta_library, &o) == GAMMA_BAD_WEIGHTS, "a damaged tensor");
    zeta_weights[zeta_bytes / 2] ^= 1;
    l->close(NULL);
    free(w);
}

/* ---- a driver that fails ---- */

static const char *const driver_functions[] = {
#define SYMBOL(member, name) #name,
#include "runtime/device/hip.def"
#undef SYMBOL
};

/* One function fails from some call on: the library returns a status, has no other effect and frees all memory. */
static void test_failing(const char *function, int after)
{
    struct driver driver = { function, after, 719 };
    const struct gamma_options o = { .size = sizeof o, .device_symbol = symbol, .device_context = &driver, .n_sequences = 2 };
    const struct library *l = &gamma_library;
    size_t written;
    uint8_t *state = malloc(l->state_bytes);
    struct instance i = instance_open(l, &o);
    CHECK(i.status == 0 || (i.status <= GAMMA_NO_DEVICE && i.status >= GAMMA_NO_MEMORY), "%s: %s", function, gamma_strerror(i.status));
    if (after < 0) CHECK(i.status == GAMMA_NO_DEVICE, "without %s: %s", function, gamma_strerror(i.status));
    if (i.status == 0) {
        int status = l->prefill(i.m, prompt, 3, NULL);
        for (uint32_t k = 0; k < 2 && status == 0; k++) status = l->step(i.m, prompt[k], i.logits);
        if (status == 0) status = l->save(i.m, state, l->state_bytes, &written);
        if (status == 0) status = l->restore(i.m, state, written);
        if (status == 0) status = l->sequence_copy(i.m, 1, 0);
        if (status == 0) status = l->sequence_use(i.m, 1);
        if (status == 0) status = l->step(i.m, prompt[0], i.logits);
        CHECK(status == 0 || status == GAMMA_DEVICE_FAILED, "%s: %s", function, gamma_strerror(status));
        if (status != 0)
            CHECK(l->step(i.m, 1, NULL) == GAMMA_DEVICE_FAILED && l->save(i.m, state, l->state_bytes, &written) == GAMMA_DEVICE_FAILED,
                  "%s", function);
    }
    instance_free(&i);
    free(state);
    const bool of_memory = strcmp(function, "hipFree") == 0 || strcmp(function, "hipHostFree") == 0 || strcmp(function, "hipMalloc") == 0 ||
        strcmp(function, "hipHostMalloc") == 0;
    CHECK(n_memory == 0 || of_memory, "%s after %d: %u blocks of memory were kept", function, after, n_memory);
    n_memory = 0;
}

static void test_driver(bool full)
{
    for (uint32_t i = 0; i < sizeof driver_functions / sizeof *driver_functions; i++) {
        const char *name = driver_functions[i];
        test_failing(name, -1);
        if (strcmp(name, "hipGetErrorString") == 0) continue;                                /* returns a text */
        test_failing(name, 0);
        /* functions of at most six arguments, all of them pointers or numbers */
        if (strcmp(name, "hipModuleLaunchKernel") == 0 || strcmp(name, "hipEventElapsedTime") == 0) continue;
        test_failing(name, 1);
        test_failing(name, 3);
        if (full) test_failing(name, 9);
    }
}

/* The step that computes NaN reports it, and the context is empty. */
static void test_not_finite(void)
{
    const struct library *l = &zeta_library;
    enum { END = 1 << 14 };                      /* the last bytes of the image, which are used last */
    uint8_t *bad = aligned_memory(zeta_bytes);
    memcpy(bad, zeta_weights, zeta_bytes - END);
    memset(bad + zeta_bytes - END, 0xff, END);
    const struct gamma_options o = { .size = sizeof o, .weights = bad, .weights_bytes = zeta_bytes };
    struct instance i = opened(l, &o);
    CHECK(l->prefill(i.m, prompt, 3, NULL) == 0 && l->n_past(i.m) == 3, "-");
    CHECK(l->step(i.m, prompt[3], i.logits) == ZETA_NOT_FINITE && l->n_past(i.m) == 0, "-");
    CHECK(l->prefill(i.m, prompt, 2, i.logits) == ZETA_NOT_FINITE && l->sample(i.m, i.logits, NULL) == ZETA_NOT_FINITE, "-");
    instance_free(&i);
    free(bad);
}

int main(int argc, char **argv)
{
    if (argc < 4) { fputs("usage: test_library_gpu GOLDEN_DIR LIBGFXSIM.so ZETA_WEIGHTS\n", stderr); return 2; }
    const char *tier = getenv("FORGEC_TIER");
    const bool full = tier && strcmp(tier, "full") == 0;
    simulator = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (simulator == NULL) { fprintf(stderr, "%s\n", dlerror()); return 2; }
    zeta_weights = file_bytes(argv[3], 4096, &zeta_bytes);
    CHECK(file_ids(argv[1], "q-llama-Q8_0", "tokens", prompt, PROMPT) == PROMPT, "-");
    CHECK(file_ids(argv[1], "q-llama-Q8_0", "greedy", greedy, GREEDY) == GREEDY, "-");
    CHECK(zeta_bytes == zeta_library.weights_bytes, "%zu", zeta_bytes);
    const struct driver good = { NULL, 0, 0 };
    const struct gamma_options given = { .size = sizeof given, .device_symbol = symbol, .device_context = (void *)(uintptr_t)&good };
    unsetenv("FORGE_HIP_LIBRARY");
    test_greedy(&gamma_library, &given);
    if (full) test_greedy(&omega_library, &given);
    CHECK(n_memory == 0, "%u", n_memory);
    setenv("FORGE_HIP_LIBRARY", argv[2], 1);
    if (full) test_greedy(&gamma_library, NULL);
    test_greedy(&omega_library, NULL);
    test_greedy(&zeta_library, NULL);
    test_together();
    test_sequences(&gamma_library);
    if (full) test_sequences(&omega_library);
    test_budgets();
    if (full) test_state(&gamma_library, &omega_library);
    test_state(&omega_library, &gamma_library);
    test_missing();
    test_arguments();
    test_not_finite();
    test_driver(full);
    const unsigned n = atomic_load(&failures);
    printf("test_library_gpu: %u failure%s\n", n, n == 1 ? "" : "s");
    return n > 0;
}
