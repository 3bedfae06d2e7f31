/* test_sampler.c -- compares runtime/library/sample.c with its definition: a sorted vocabulary and doubles. */
#include "runtime/library/sample.c"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1000 };
static struct forge_program program = { .n_vocab = N, .n_ctx = 256 };
const struct forge_program *const forge_programs[] = { &program };
static struct model model;
static int32_t history[256];
static uint32_t failures;

#define CHECK(condition, ...)                                                                                                              \
    do { if (!(condition)) { failures++; fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); fprintf(stderr,                   \
        __VA_ARGS__); fputc('\n', stderr); } } while (0)

static uint64_t seeds[4];
static double unit(void) { return (double)(xoshiro_next(seeds) >> 11) * 0x1p-53; }

/* ---- the definition ---- */

static const float *sorting;
static int by_logit(const void *a, const void *b)
{
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return sorting[i] > sorting[j] ? -1 : sorting[i] < sorting[j] ? 1 : i < j ? -1 : i > j;
}

/* The kept tokens, best first; doubtful: a probability is so close to the limit of top-p or min-p that rounding decides. */
static uint32_t kept_by_definition(const float *logits, const struct model_sampling *o, uint32_t *ids, bool *doubtful)
{
    uint32_t n = N;
    for (uint32_t i = 0; i < N; i++) ids[i] = i;
    sorting = logits;
    qsort(ids, N, sizeof *ids, by_logit);
    const double best = (double)logits[ids[0]];
    *doubtful = false;
    if (o->top_k > 0 && o->top_k < N) n = (uint32_t)o->top_k;
    if (o->top_p > 0 && o->top_p < 1) {
        double total = 0, sum = 0;
        for (uint32_t i = 0; i < n; i++) total += exp((double)logits[ids[i]] - best);
        for (uint32_t i = 0; i < n; i++) {
            sum += exp((double)logits[ids[i]] - best);
            if (fabs(sum - (double)o->top_p * total) < 1e-6 * total) *doubtful = true;
            if (sum >= (double)o->top_p * total) { n = i + 1; break; }
        }
    }
    if (o->min_p > 0) {
        const double bound = best + log((double)o->min_p);
        for (uint32_t i = 0; i < n; i++) *doubtful |= fabs((double)logits[ids[i]] - bound) < 1e-5;
        while (n > 1 && (double)logits[ids[n - 1]] < bound) n--;
    }
    return n;
}

/* ---- kept tokens ---- */

static void fill(float *logits, int kind)
{
    for (uint32_t i = 0; i < N; i++) {
        const double u = unit(), v = unit();
        logits[i] = kind == 0 ? (float)(3 * sqrt(-2 * log(u + 1e-12)) * cos(6.2831853 * v)) : kind == 1 ? (float)floor(u * 8) - 4
            : kind == 2 ? (float)(u < 0.01 ? 20 * v : -30 * v) : (float)(u - 0.5) * 1e-3f;
        if (kind == 2 && i % 100 == 7) logits[i] = -INFINITY;
    }
}

static void test_kept(void)
{
    static float logits[N];
    static uint32_t ids[N];
    uint32_t compared = 0;
    for (uint32_t round = 0; round < 600; round++) {
        fill(logits, (int)(round % 4));
        struct model_sampling o = { .size = sizeof o, .temperature = 1 };
        if (round & 4)  o.top_k = (int32_t)(1 + unit() * (round & 32 ? N + 5 : 30));
        if (round & 8)  o.top_p = (float)(0.02 + 0.98 * unit());
        if (round & 16) o.min_p = (float)(round & 64 ? unit() * 0.1 : 1e-4 + unit() * 0.999);
        const struct sampler s = { model.mass, logits, N, logits[argmax(logits, N)] };
        const struct kept kept = keep(&s, &o);
        bool doubtful;
        const uint32_t n = kept_by_definition(logits, &o, ids, &doubtful);
        static bool want[N];
        for (uint32_t i = 0; i < N; i++) want[i] = false;
        for (uint32_t i = 0; i < n; i++) want[ids[i]] = true;
        if (doubtful) continue;
        struct scan scan = scan_begin(kept);
        uint32_t differ = 0;
        for (uint32_t i = 0; i < N; i++) {
            const bool got = scan_next(&scan, key_of(logits[i]));
            /* minus infinity and probabilities below 2^-40: kept or not, never drawn */
            differ += got != want[i] && weight_of(logits[i], s.best, LOG2_E) > 0;
        }
        CHECK(differ == 0, "round %u: %u of %u kept differ: top_k %d, top_p %g, min_p %g", round, differ, n, o.top_k, (double)o.top_p,
              (double)o.min_p);
        compared++;
    }
    CHECK(compared > 450, "%u compared", compared);
}

/* ---- exp ---- */

static void test_exp(void)
{
    double worst = 0;
    for (double x = 0; x < 24; x += 1e-4) {
        const double want = exp2(-(double)(float)x), got = (double)exp2_minus((float)x) * 0x1p-40;
        worst = fmax(worst, (fabs(got - want) - 0x1p-40) / want);         /* the last bit is truncated */
    }
    CHECK(worst < 2.5e-7, "%g", worst);
    CHECK(exp2_minus(0) == 1ull << 40 && exp2_minus(41) == 0 && exp2_minus(INFINITY) == 0 && exp2_minus(NAN) == 0 &&
          exp2_minus(1) == 1ull << 39, "-");
    CHECK(weight_of(-INFINITY, 3, LOG2_E) == 0, "-");
}

/* ---- draws ---- */

static void test_draws(void)
{
    static float logits[N];
    static uint32_t ids[N], counts[N];
    const struct model_sampling o = { .size = sizeof o, .temperature = 0.7f, .top_k = 12, .top_p = 0.95f };
    enum { DRAWS = 20000 };
    for (uint32_t i = 0; i < N; i++) logits[i] = i % 83 == 5 ? 2.0f + 0.1f * (float)(i % 7) : -1;
    bool doubtful;
    const uint32_t n = kept_by_definition(logits, &o, ids, &doubtful);
    double total = 0, chi = 0;
    for (uint32_t i = 0; i < n; i++) total += exp((double)logits[ids[i]] / (double)o.temperature);
    for (uint32_t i = 0; i < DRAWS; i++) {
        const int32_t t = model_sample(&model, logits, &o);
        CHECK(t >= 0, "%d", t);
        if (t >= 0) counts[t]++;
    }
    uint32_t seen = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double want = (double)DRAWS * exp((double)logits[ids[i]] / (double)o.temperature) / total, d = counts[ids[i]] - want;
        chi += d * d / want;
        seen += counts[ids[i]];
    }
    CHECK(seen == DRAWS, "%u draws outside of what is kept", DRAWS - seen);
    CHECK(chi < 3.5 * n, "chi-square %g of %u tokens", chi, n);
}

static void test_special(void)
{
    static float logits[N];
    struct model_sampling o = { .size = sizeof o, .temperature = 1, .seed = 9 };
    for (uint32_t i = 0; i < N; i++) logits[i] = i == 77 ? 5 : -INFINITY;
    for (uint32_t k = 0; k < 50; k++) CHECK(model_sample(&model, logits, &o) == 77, "-");
    CHECK(model_sample(&model, logits, NULL) == 77, "the one that is allowed");
    const float none[] = { NAN, -NAN, INFINITY };
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t i = 0; i < N; i += 37) {
            const float was = logits[i];
            const uint64_t random = model.first.random[0];
            logits[i] = none[k];
            CHECK(model_sample(&model, logits, &o) == MODEL_NOT_FINITE && model_sample(&model, logits, NULL) == MODEL_NOT_FINITE, "%u: %g",
                  i, (double)none[k]);
            CHECK(model.first.random[0] == random, "a random number was taken");
            logits[i] = was;
        }
    logits[77] = -INFINITY;
    CHECK(model_sample(&model, logits, &o) == MODEL_NOT_FINITE && model_sample(&model, logits, NULL) == MODEL_NOT_FINITE,
          "all are forbidden");
    for (uint32_t i = 0; i < N; i++) logits[i] = i < 2 ? 1 : 0;
    o.temperature = 1e-38f;
    CHECK(model_sample(&model, logits, &o) == 0, "a temperature of nearly 0");
    o = (struct model_sampling){ .size = sizeof o, .repeat_penalty = 2, .repeat_last_n = 3 };
    model.first.n_past = 5;
    for (uint32_t i = 0; i < 5; i++) history[i] = (int32_t)(i == 4 ? 2 : i);          /* 0 1 2 3 2: the last three are 2 3 2 */
    for (uint32_t i = 0; i < N; i++) logits[i] = i == 2 ? 4 : i == 3 ? 3 : i == 500 ? 2.5f : i == 0 ? 2.2f : -1;
    CHECK(model_sample(&model, logits, &o) == 500, "-");
    CHECK(logits[2] == 2 && logits[3] == 1.5f && logits[0] == 2.2f, "%g %g: each token of the window once", (double)logits[2],
          (double)logits[3]);
    model.first.n_past = 0;
    /* the same numbers on every machine: a change of the sampler would change users' texts */
    o = (struct model_sampling){ .size = sizeof o, .temperature = 1, .seed = 42 };
    for (uint32_t i = 0; i < N; i++) logits[i] = (float)(i % 37) * 0.125f;
    const int32_t first = model_sample(&model, logits, &o);
    o.seed = 0;
    const int32_t second = model_sample(&model, logits, &o), third = model_sample(&model, logits, &o);
    CHECK(first == 100 && second == 395 && third == 695, "%d %d %d", first, second, third);
}

int main(void)
{
    model.magic = LIBRARY_OPEN;
    model.program = &program;
    model.sequence = &model.first;
    model.first.tokens = history;
    xoshiro_seed(model.first.random, 1);
    xoshiro_seed(seeds, 7);
    test_exp();
    test_kept();
    test_draws();
    test_special();
    printf("test_sampler: %u failure%s\n", failures, failures == 1 ? "" : "s");
    return failures > 0;
}
