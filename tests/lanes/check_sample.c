/* check_sample.c -- templates/gpu/sample_tmpl.c on the host against runtime/run/sample.c: the same tokens for the same options, history,
 * random numbers and logits.
 *
 *   check_sample            all checks
 *   check_sample CASES      that many random cases
 *
 * Sums in another order and exponentials off by an ulp may move a border between two tokens: a differing token counts as such only when a
 * cut or the draw lies within 1e-6 of a border; fewer than 1 in 1000 may. */
#pragma STDC FP_CONTRACT OFF                     /* the penalties of sample.c as written */
#include "runtime/run/sample.c"
#include "runtime/run/status.c"
#include "templates/gpu/sample_tmpl.c"
#include "simt.h"
#include <stdio.h>

enum { GUARD = 64, GUARD_BYTE = 0x5a, MAX_CTX = 300 };

static uint64_t seed = 88172645463325252u;
static uint64_t rnd(void) { seed ^= seed << 13; seed ^= seed >> 7; return seed ^= seed << 17; }
static uint32_t below(uint32_t n) { return (uint32_t)(rnd() >> 33) % n; }
static float real(void) { return (float)(rnd() >> 40) * 0x1p-24f; }
static float normal(void) { float s = -6; for (int i = 0; i < 12; i++) s += real(); return s; }
static float pick(const float *x, uint32_t n) { return x[below(n)]; }

/* ---- the device ---- */

static struct { uint32_t n_vocab, n_ctx, groups, threads; float *logits; uint8_t *scratch; uint32_t counter; } at;

static void kernel(const struct forge_kernel_args a)
{
    pdl_launch();
    pdl_wait();
    mark(a);
    sample(a, at.logits, at.n_vocab, at.n_ctx, at.scratch, &at.counter, at.groups, at.threads);
}

static uint8_t *guarded(size_t bytes)
{
    uint8_t *p = malloc(bytes + 2 * GUARD);
    if (!p) abort();
    memset(p, GUARD_BYTE, bytes + 2 * GUARD);
    return p + GUARD;
}

static int guards_intact(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++)
        if (p[bytes + i] != GUARD_BYTE || p[-1 - (ptrdiff_t)i] != GUARD_BYTE) return 0;
    return 1;
}

/* ---- a case ---- */

struct test_case {
    uint32_t n_vocab, n_ctx, groups, threads, n_prompt, kind;
    struct forge_sample_options o;
    struct forge_bias biases[256];
};

static const char *const kinds[] = { "normal", "ties", "equal", "nan", "half -inf", "all nan", "all -inf", "an inf", "huge", "peak",
                                     "narrow", "zeros", "falling", "flat", "one nan", "one -inf", "last nan" };
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static void fill(float *x, uint32_t n, uint32_t kind)
{
    static const float widths[] = { 0.5f, 1, 3, 10 };
    const float width = pick(widths, 4), inf = INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        const float g = normal() * width;
        switch (kind) {
        case 1:  x[i] = roundf(g * 2) / 2; break;
        case 2:  x[i] = 1.5f; break;
        case 3:  x[i] = below(8) ? g : NAN; break;
        case 4:  x[i] = below(2) ? g : -inf; break;
        case 5:  x[i] = NAN; break;
        case 6:  x[i] = below(50) ? -inf : NAN; break;
        case 7:  x[i] = i == n / 3 ? inf : g; break;
        case 8:  x[i] = below(3) ? g : g * 5e37f; break;
        case 9:  x[i] = g - 20; break;
        case 10: x[i] = 7 + g * 1e-6f; break;
        case 11: x[i] = below(2) ? 0.0f : below(2) ? -0.0f : -real(); break;
        case 12: x[i] = 9 - 0.01f * (float)i; break;
        case 13: x[i] = g * 0.01f; break;
        case 14: x[i] = i == n / 2 ? NAN : g; break;
        case 15: x[i] = i == n / 5 ? -inf : g; break;
        case 16: x[i] = i == n - 1 ? -NAN : g; break;
        default: x[i] = g;
        }
    }
    if (kind == 9) x[below(n)] = 5;
}

static void describe(const struct test_case *t, uint32_t step)
{
    const struct forge_sample_options *o = &t->o;
    printf("vocab %u, ctx %u, groups %u x %u, %s logits, prompt %u, draw %u, ", t->n_vocab, t->n_ctx, t->groups, t->threads, kinds[t->kind],
           t->n_prompt, step);
    printf("temp %g top-k %d top-p %.9g min-p %g repeat %g last %d presence %g frequency %g biases %zu seed %llu: ", (double)o->temp,
           o->top_k, (double)o->top_p, (double)o->min_p, (double)o->repeat_penalty, o->repeat_last_n, (double)o->presence_penalty,
           (double)o->frequency_penalty, o->n_biases, (unsigned long long)o->seed);
}

/* True when something that decides lies within 1e-6 of a border.  logits: after biases and penalties, without NaN.  unit: the random number
 * of the draw. */
static int is_near_border(const struct forge_sample_options *o, const float *logits, uint32_t n, double unit)
{
    if (o->temp <= 0) return 0;
    const double near = 1e-6;
    struct candidate *c = malloc(n * sizeof *c);
    if (!c) abort();
    for (uint32_t i = 0; i < n; i++) c[i] = (struct candidate){ logits[i], (int32_t)i };
    sort_candidates(c, n);
    const double best = c[0].logit, bound = o->min_p > 0 ? best + log(fmin((double)o->min_p, 1)) : -INFINITY;
    size_t kept = o->top_k > 0 && (uint32_t)o->top_k < n ? (size_t)o->top_k : n;
    double total = 0, sum = 0;
    int found = 0;
    for (size_t i = 0; i < kept; i++) total += exp(c[i].logit - best);
    for (size_t i = 0; i < kept && o->top_p < 1; i++) {
        sum += exp(c[i].logit - best);
        found |= fabs(sum / total - (double)o->top_p) < near;
        if (sum >= (double)o->top_p * total) kept = i + 1;
    }
    for (size_t i = 0; i < kept; i++) found |= fabs(c[i].logit - bound) < near * (1 + fabs(bound));
    while (kept > 1 && c[kept - 1].logit < bound) kept--;
    total = sum = 0;
    for (size_t i = 0; i < kept; i++) total += exp((c[i].logit - best) / (double)o->temp);
    for (size_t i = 0; i < kept; i++) {
        sum += exp((c[i].logit - best) / (double)o->temp);
        found |= fabs(sum / total - unit) < near;
    }
    free(c);
    return found;
}

static uint32_t n_cases, n_failed, n_differ, n_draws, n_not_finite, mark_word;

static void fail(const struct test_case *t, uint32_t draw, const char *what)
{
    if (n_failed++ < 20) { describe(t, draw); puts(what); }
}

/* The adjusted logits have the same bits; sample.c has made NaN -inf when it draws. */
static int same_logits(const float *device, const float *host, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (bits_of_f32(device[i]) != bits_of_f32(host[i]) && !isnan(device[i])) return 0;
    return 1;
}

static struct forge_gpu_step *begin_step(const struct test_case *t, int32_t *history, uint64_t *ring)
{
    const struct forge_sample_options *o = &t->o;
    struct forge_gpu_step *s = (struct forge_gpu_step *)(void *)guarded(sizeof *s);
    *s = (struct forge_gpu_step){ .n_past = t->n_prompt / 3, .n_tokens = t->n_prompt - t->n_prompt / 3, .n_logits = 1 + t->n_prompt % 2,
                                  .history = history, .ring = ring, .temp = o->temp, .top_p = o->top_p, .min_p = o->min_p,
                                  .repeat_penalty = o->repeat_penalty, .presence_penalty = o->presence_penalty,
                                  .frequency_penalty = o->frequency_penalty, .top_k = o->top_k, .repeat_last_n = o->repeat_last_n,
                                  .n_biases = (uint32_t)o->n_biases };
    struct forge_random random;
    random_seed(&random, o->seed);
    memcpy(s->random, random.s, sizeof s->random);
    for (size_t i = 0; i < o->n_biases; i++) { s->biases[i].id = t->biases[i].id; s->biases[i].bias = t->biases[i].bias; }
    return s;
}

static int all_finite(const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return 0;
    return 1;
}

/* One draw on both; false when the sequence cannot go on. */
static int check_draw(struct test_case *t, uint32_t draw, struct forge_sampler *sampler, struct forge_gpu_step *step, float *host_logits)
{
    const uint32_t n = t->n_vocab, position = t->n_prompt + draw;
    fill(host_logits, n, t->kind);
    memcpy(at.logits, host_logits, n * sizeof(float));
    memset(at.scratch, 0xff, SAMPLE_SCRATCH_BYTES(n, t->groups));
    const int finite = all_finite(host_logits, n);
    n_not_finite += !finite;
    const int32_t want = sampler_draw(sampler, host_logits);
    struct forge_random before_draw = { { step->random[0], step->random[1], step->random[2], step->random[3] } };
    const struct forge_kernel_args args = { .step = step, .mark_at = &mark_word, .mark = 7 };
    simt_launch(kernel, &args, t->groups, 1, t->threads, WAVE, SAMPLE_LDS_BYTES(n), below(4) ? (uint32_t)rnd() | 1u : 0);
    n_draws++;
    const uint32_t told = (uint32_t)step->ring[(draw + 1) % FORGE_GPU_RING];
    const int32_t got = position <= t->n_ctx ? step->history[position] : (int32_t)told;
    if (!same_logits(at.logits, host_logits, n)) { fail(t, draw, "adjusted logits differ"); return 0; }
    const int advanced = step->n_past == position && step->n_tokens == 1 && step->n_logits == 1 && step->n_drawn == draw + 1;
    if (!advanced) { fail(t, draw, "the step is not advanced"); return 0; }
    if (step->ring[(draw + 1) % FORGE_GPU_RING] >> 32 != draw + 1 || (finite && told != (uint32_t)got)) {
        fail(t, draw, "wrong entry of the ring");
        return 0;
    }
    if (at.counter != 0) { fail(t, draw, "the counter is not 0"); return 0; }
    if ((told == FORGE_GPU_NOT_FINITE) == finite) {
        fail(t, draw, finite ? "finite logits are refused" : "logits that are not finite are drawn from");
        return 0;
    }
    if (!finite && position <= t->n_ctx && got != 0) { fail(t, draw, "no token for the steps that follow"); return 0; }
    if (!finite) return 0;
    if (memcmp(step->random, sampler->random.s, sizeof step->random)) { fail(t, draw, "the random state differs"); return 0; }
    if (got == want) return 1;
    char text[80];
    snprintf(text, sizeof text, "token %d (%g), not %d (%g)", got, (double)host_logits[(uint32_t)got % n], want, (double)host_logits[want]);
    if (!is_near_border(&t->o, host_logits, n, random_unit(&before_draw))) { fail(t, draw, text); return 0; }
    n_differ++;
    describe(t, draw);
    printf("%s: near a border\n", text);
    return 0;
}

static void check_case(struct test_case *t, uint32_t draws)
{
    struct forge_error error;
    struct forge_sampler *sampler;
    t->o.biases = t->biases;
    if (sampler_open(&sampler, &t->o, t->n_vocab, t->n_ctx, &error) != FORGE_OK) abort();
    const size_t history_bytes = (t->n_ctx + 1) * sizeof(int32_t), logits_bytes = t->n_vocab * sizeof(float);
    const size_t scratch_bytes = SAMPLE_SCRATCH_BYTES(t->n_vocab, t->groups);
    uint8_t *history = guarded(history_bytes), *logits = guarded(logits_bytes), *scratch = guarded(scratch_bytes);
    static uint64_t ring[FORGE_GPU_RING];
    mark_word = 0;
    for (uint32_t i = 0; i < t->n_prompt; i++) {
        const int32_t token = (int32_t)below(t->n_vocab < 12 ? t->n_vocab : below(2) ? 12 : t->n_vocab);
        ((int32_t *)(void *)history)[i] = token;
        sampler_accept(sampler, token);
    }
    struct forge_gpu_step *step = begin_step(t, (int32_t *)(void *)history, ring);
    at.n_vocab = t->n_vocab;
    at.n_ctx = t->n_ctx;
    at.groups = t->groups;
    at.threads = t->threads;
    at.logits = (float *)(void *)logits;
    at.scratch = scratch;
    float *host_logits = malloc(logits_bytes);
    if (!host_logits) abort();
    for (uint32_t i = 0; i < draws && check_draw(t, i, sampler, step, host_logits); i++) {
        const uint32_t position = t->n_prompt + i;
        if (position > t->n_ctx) break;          /* one draw that finds no place in the history, and no more */
        sampler_accept(sampler, ((int32_t *)(void *)history)[position]);
    }
    if (mark_word != 7) fail(t, 0, "mark was not written");
    const int intact = guards_intact(history, history_bytes) && guards_intact(logits, logits_bytes) &&
        guards_intact(scratch, scratch_bytes);
    if (!intact || !guards_intact((uint8_t *)step, sizeof *step)) fail(t, 0, "wrote beyond a buffer");
    n_cases++;
    sampler_close(sampler);
    free(history - GUARD);
    free(logits - GUARD);
    free(scratch - GUARD);
    free((uint8_t *)step - GUARD);
    free(host_logits);
}

/* ---- which cases ---- */

static struct test_case random_case(uint32_t n_vocab)
{
    static const float temps[] = { 0, 0.8f, 1, 0.1f, 2, 5 }, top_ps[] = { 1, 0.95f, 0.5f, 0.9f, 0.1f, 0.999f, 0, 1.5f };
    static const float min_ps[] = { 0, 0.05f, 0.5f, 0.001f, 1, 1e-6f, 2 };
    static const float penalties[] = { 1, 1, 1.1f, 1.7f, 0.8f }, additions[] = { 0, 0, 0.3f, -0.2f, 1.1f };
    static const int32_t top_ks[] = { 0, 40, 1, 2, 7, 100, 300, 1000, 4000, -1 }, lasts[] = { 0, 64, -1, 5, 1, 1000 };
    static const uint32_t thread_counts[] = { 64, 128, 256 };
    struct test_case t = { .n_vocab = n_vocab, .n_ctx = 1 + below(below(4) ? MAX_CTX : 3), .groups = 1 + below(4),
                           .threads = thread_counts[below(3)], .kind = below(3) ? 0 : below(N_KINDS) };
    t.n_prompt = 1 + below(t.n_ctx);
    t.o = (struct forge_sample_options){ .temp = pick(temps, 6), .top_k = top_ks[below(10)], .top_p = pick(top_ps, 8),
                                         .min_p = pick(min_ps, 7), .repeat_penalty = pick(penalties, 5), .repeat_last_n = lasts[below(6)],
                                         .presence_penalty = pick(additions, 5), .frequency_penalty = pick(additions, 5), .seed = rnd(),
                                         .n_biases = below(2) ? 0 : below(8) ? below(4) : 256 };
    if (below(4) == 0) { t.o.temp = 0.8f; t.o.top_k = 40; t.o.top_p = 0.95f; t.o.min_p = 0.05f; }
    if (below(8) == 0) t.o.top_k = t.o.temp > 0 ? 0 : 40;
    for (size_t i = 0; i < t.o.n_biases; i++) {
        t.biases[i].id = (int32_t)below(below(2) ? n_vocab : n_vocab < 5 ? n_vocab : 5);
        t.biases[i].bias = below(9) ? normal() : -INFINITY;
    }
    return t;
}

static void check_arithmetic(void)
{
    double worst = 0, worst_log = 0;
    for (uint32_t i = 0; i < 200000; i++) {
        const double x = -(double)real() * (i % 2 ? 1 : 700), want = exp(x), got = sample_exp(x);
        worst = fmax(worst, fabs(got - want) / (want * 0x1p-52));
        const float p = i % 3 ? real() : ldexpf(real(), -(int)below(100));
        if (p > 0) worst_log = fmax(worst_log, fabs(sample_log((double)p) - log((double)p)) / (fabs(log((double)p)) * 0x1p-52));
    }
    printf("largest error: exp %.2f, log %.2f ulp\n", worst, worst_log);
    if (worst > 2 || worst_log > 4 || sample_exp(0) != 1 || sample_log(1) != 0 || sample_exp(-INFINITY) != 0) {
        n_failed++;
        puts("exp or log is wrong");
    }
}

/* Vocabularies of real models, with the groups and threads of a real launch. */
static void check_large(void)
{
    static const uint32_t vocabs[] = { 130001, 151936, 32000 };
    for (uint32_t i = 0; i < 9; i++) {
        struct test_case t = random_case(vocabs[i % 3]);
        t.kind = 0;
        t.groups = i % 3 == 2 ? 40 : 64;
        t.threads = 512;
        t.o.top_k = i < 3 ? 40 : i < 6 ? 0 : 40;
        t.o.temp = i < 6 ? 0.8f : 0;
        t.o.top_p = i % 2 ? 0.95f : 1;
        t.o.min_p = i < 5 ? 0.05f : 0;
        check_case(&t, 1);
    }
}

int main(int argc, char **argv)
{
    const uint32_t cases = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1500;
    check_arithmetic();
    for (uint32_t i = 0; i < cases; i++) {
        struct test_case t = random_case(1 + below(i % 3 == 0 ? 20 : i % 3 == 1 ? 600 : 5000));
        check_case(&t, 1 + below(3));
    }
    for (uint32_t kind = 0; kind < N_KINDS; kind++)
        for (uint32_t i = 0; i < 20; i++) {
            struct test_case t = random_case(1 + below(3000));
            t.kind = kind;
            check_case(&t, 1);
        }
    check_large();
    printf("%u draws, %u of logits that are not finite, %u differ near a border, %u failed\n", n_draws, n_not_finite, n_differ, n_failed);
    if (n_failed || n_not_finite == 0 || n_differ * 1000 > n_draws) return 1;
    printf("check_sample: %u cases passed\n", n_cases);
    return 0;
}
