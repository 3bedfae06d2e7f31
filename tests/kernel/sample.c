/* sample.c -- templates/gpu/sample_tmpl.c must draw the same tokens as runtime/run/sample.c for the same options, history, random numbers
 * and logits.
 * Sums in another order and exponentials with an error of an ulp may move a border between two tokens: a different token is accepted only
 * if a cut or the draw lies within 1e-6 of a border, and for fewer than 1 in 1000 draws. */
#pragma STDC FP_CONTRACT OFF                     /* the penalties of sample.c as written */
#include "runtime/run/sample.c"
#include "machine.h"
#include "templates/gpu/dialect.h"
#include "templates/gpu/sample_math.h"
#include "templates/gpu/sample_sizes.h"
#include "cases.h"
#include <stdio.h>

enum { MAX_CTX = 300, MARK = 7 };

static float real(void) { return (float)(random_u32() >> 8) * 0x1p-24f; }
static float normal(void) { float s = -6; for (int i = 0; i < 12; i++) s += real(); return s; }
static float pick(const float *x, uint32_t n) { return x[random_below(n)]; }

/* ---- a case ---- */

struct test_case {
    uint32_t n_vocab, n_ctx, groups, threads, n_prompt, kind;
    uint32_t mask, rows, row;                    /* rows: simultaneous draws; draw `row` is the case */
    struct forge_sample_options o;
    struct forge_bias biases[256];
};

static const char *const kinds[] = { "normal", "ties", "equal", "nan", "half -inf", "all nan", "all -inf", "an inf", "huge", "peak",
                                     "narrow", "zeros", "falling", "flat", "one nan", "one -inf", "last nan", "two values", "steps" };
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static const char *const masks[] = { "no", "all", "half", "one", "few", "no best", "tail", "one segment", "last" };
enum { N_MASKS = sizeof masks / sizeof *masks };

static void fill(float *x, uint32_t n, uint32_t kind)
{
    static const float widths[] = { 0.5f, 1, 3, 10 };
    const float width = pick(widths, 4), inf = INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        const float g = normal() * width;
        switch (kind) {
        case 1:  x[i] = roundf(g * 2) / 2; break;
        case 2:  x[i] = 1.5f; break;
        case 3:  x[i] = random_below(8) ? g : NAN; break;
        case 4:  x[i] = random_below(2) ? g : -inf; break;
        case 5:  x[i] = NAN; break;
        case 6:  x[i] = random_below(50) ? -inf : NAN; break;
        case 7:  x[i] = i == n / 3 ? inf : g; break;
        case 8:  x[i] = random_below(3) ? g : g * 5e37f; break;
        case 9:  x[i] = g - 20; break;
        case 10: x[i] = 7 + g * 1e-6f; break;
        case 11: x[i] = random_below(2) ? 0.0f : random_below(2) ? -0.0f : -real(); break;
        case 12: x[i] = 9 - 0.01f * (float)i; break;
        case 13: x[i] = g * 0.01f; break;
        case 14: x[i] = i == n / 2 ? NAN : g; break;
        case 15: x[i] = i == n / 5 ? -inf : g; break;
        case 16: x[i] = i == n - 1 ? -NAN : g; break;
        case 17: x[i] = random_below(2) ? 1.5f : -2.25f; break;
        case 18: x[i] = -0.01f * (float)(i % 1024); break;         /* all blocks are alike */
        default: x[i] = g;
        }
    }
    if (kind == 9) x[random_below(n)] = 5;
}

static void describe(const struct test_case *t)
{
    const struct forge_sample_options *o = &t->o;
    case_is("vocab %u, ctx %u, groups %u x %u, row %u of %u, %s logits, %s mask, prompt %u, temp %g top-k %d top-p %.9g min-p %g repeat %g "
            "last %d presence %g frequency %g biases %zu seed %llu", t->n_vocab, t->n_ctx, t->groups, t->threads, t->row, t->rows,
            kinds[t->kind], masks[t->mask], t->n_prompt, (double)o->temp,
            o->top_k, (double)o->top_p, (double)o->min_p, (double)o->repeat_penalty, o->repeat_last_n, (double)o->presence_penalty,
            (double)o->frequency_penalty, o->n_biases, (unsigned long long)o->seed);
}

static void set_bit(uint32_t *bits, uint32_t i) { bits[i / 32] |= 1u << i % 32; }

/* Allows at least one token of the vocabulary; bits beyond its end are random. */
static void fill_mask(uint32_t *bits, const float *x, uint32_t n, uint32_t kind)
{
    const uint32_t words = (n + 31) / 32, one = random_below(n), segment = one / SAMPLE_SEGMENT(n);
    const float best = x[argmax(x, n)], middle = x[random_below(n)];
    for (uint32_t i = 0; i < words; i++) bits[i] = kind == 1 ? ~0u : kind == 2 ? random_u32() : 0;
    for (uint32_t i = 0; i < n && kind >= 5 && kind <= 7; i++)
        if (kind == 5 ? x[i] < best : kind == 6 ? x[i] < middle : i / SAMPLE_SEGMENT(n) == segment) set_bit(bits, i);
    for (uint32_t i = 0; i < 5 && kind == 4; i++) set_bit(bits, random_below(n));
    set_bit(bits, kind == 8 ? n - 1 : one);
    if (n % 32) bits[words - 1] ^= random_u32() << n % 32;
}

/* Does a value that decides the draw lie within 1e-6 of a border?  logits: after biases and penalties, without NaN.  unit: the random
 * number of the draw. */
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

enum { FIRST_COLLECTIVE = 7, STEP_COLLECTIVES = 5 };      /* of GPUs that share a model */
static uint32_t n_differ, n_draws, n_not_finite;

/* Compares the bits of the adjusted logits, except NaN: sample.c replaces NaN by -inf. */
static int same_logits(const float *device, const float *host, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (bits_of_f32(device[i]) != bits_of_f32(host[i]) && !isnan(device[i])) return 0;
    return 1;
}

/* A case's rooms. */
static struct { struct room *step, *history, *ring, *logits, *mask, *rows, *scratch, *counter, *mark, *c; } on;

/* The memory of draw `row`. */
static struct forge_gpu_step *step_of(uint32_t row) { return (struct forge_gpu_step *)(void *)on.step->bytes + row; }
static int32_t *history_of(const struct test_case *t, uint32_t row) { return (int32_t *)(void *)on.history->bytes + row * (t->n_ctx + 1); }
static float *logits_of(const struct test_case *t, uint32_t row) { return room_floats(on.logits) + (size_t)row * t->n_vocab; }

/* Initialises a draw; the other draws' numbers are far from the case's. */
static void begin_row(const struct test_case *t, uint32_t row)
{
    *step_of(row) = (struct forge_gpu_step){
        .n_past = 0, .n_tokens = 1, .n_logits = 1, .n_drawn = row == t->row ? 0 : 100 * (row + 1), .n_draws = t->rows,
        .collective_base = FIRST_COLLECTIVE, .collectives = STEP_COLLECTIVES,
        .history = (int32_t *)(void *)((uint8_t *)on.history->at + (size_t)row * (t->n_ctx + 1) * sizeof(int32_t)), .ring = on.ring->at,
        .row = t->rows > 1 ? (struct forge_gpu_row *)(void *)((uint8_t *)on.rows->at + row * sizeof(struct forge_gpu_row)) : NULL,
        .top_p = 1, .repeat_penalty = 1 };
}

static void begin_step(const struct test_case *t)
{
    const struct forge_sample_options *o = &t->o;
    struct forge_gpu_step *s = step_of(t->row);
    struct forge_random random;
    for (uint32_t row = 0; row < t->rows; row++) begin_row(t, row);
    s->n_past = t->n_prompt / 3;
    s->n_tokens = t->n_prompt - t->n_prompt / 3;
    s->mask = t->mask ? on.mask->at : NULL;
    s->temp = o->temp;
    s->top_p = o->top_p;
    s->min_p = o->min_p;
    s->repeat_penalty = o->repeat_penalty;
    s->presence_penalty = o->presence_penalty;
    s->frequency_penalty = o->frequency_penalty;
    s->top_k = o->top_k;
    s->repeat_last_n = o->repeat_last_n;
    s->n_biases = (uint32_t)o->n_biases;
    random_seed(&random, o->seed);
    memcpy(s->random, random.s, sizeof s->random);
    for (size_t i = 0; i < o->n_biases; i++) { s->biases[i].id = t->biases[i].id; s->biases[i].bias = t->biases[i].bias; }
}

static void rooms_of(const struct test_case *t)
{
    on.step = room_new("the step", t->rows * sizeof(struct forge_gpu_step));
    on.history = room_new("history", t->rows * (t->n_ctx + 1) * sizeof(int32_t));
    on.ring = room_new("the ring", FORGE_GPU_RING * sizeof(uint64_t));
    on.logits = room_new("logits", (size_t)t->rows * t->n_vocab * sizeof(float));
    on.mask = room_new("the mask", (t->n_vocab + 31) / 32 * sizeof(uint32_t));
    on.rows = room_new("rows", t->rows * sizeof(struct forge_gpu_row));
    on.scratch = room_new("scratch", t->rows * SAMPLE_SCRATCH_BYTES(t->n_vocab, t->groups));
    on.counter = room_new("the counters", t->rows * sizeof(uint32_t));
    on.mark = room_new("the mark", sizeof(uint32_t));
    on.c = room_new("the case", sizeof(struct sample_case));
    const struct sample_case c = { t->n_vocab, t->n_ctx, t->groups, t->threads, on.logits->at, on.scratch->at, on.counter->at };
    memcpy(on.c->bytes, &c, sizeof c);
    memset(on.counter->bytes, 0, t->rows * sizeof(uint32_t));
}

static struct launch launch_of(const struct test_case *t, char name[32])
{
    if (variant_has("models")) snprintf(name, 32, "sample_%u", t->n_vocab);
    else snprintf(name, 32, "sample_any");
    return (struct launch){ name, t->groups, t->rows, t->threads, SAMPLE_LDS_BYTES(t->n_vocab), 0 };
}
static struct forge_kernel_args args_of(void)
{
    return (struct forge_kernel_args){ .weights = on.c->at, .step = on.step->at, .mark_at = on.mark->at, .mark = MARK };
}

static int all_finite(const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return 0;
    return 1;
}

/* Checks the state after a draw, except the token; false: something is wrong. */
static bool check_step(const struct test_case *t, uint32_t draw, int finite, const struct forge_sampler *sampler)
{
    const struct forge_gpu_step *step = step_of(t->row);
    const uint32_t position = t->n_prompt + draw, number = draw * t->rows + 1;
    const uint64_t told = ((const uint64_t *)(const void *)on.ring->bytes)[number % FORGE_GPU_RING];
    const int32_t *history = history_of(t, t->row);
    if (step->n_past != position || step->n_tokens != 1 || step->n_logits != 1 || step->n_drawn != number - 1 + t->rows)
        return bad("draw %u: the step is not advanced", draw);
    if (step->collective_base != FIRST_COLLECTIVE + (draw + 1) * STEP_COLLECTIVES) return bad("draw %u: the collectives do not go on",
                                                                                              draw);
    if (told >> 32 != number || (finite && position <= t->n_ctx && (uint32_t)told != (uint32_t)history[position]))
        return bad("draw %u: wrong entry of the ring", draw);
    for (uint32_t r = 0; r < t->rows; r++)
        if (((const uint32_t *)(const void *)on.counter->bytes)[r] != 0) return bad("draw %u: a counter is not 0", draw);
    if (*(const uint32_t *)(const void *)on.mark->bytes != MARK) return bad("draw %u: mark was not written", draw);
    if (((uint32_t)told == FORGE_GPU_NOT_FINITE) == finite)
        return bad("draw %u: %s", draw, finite ? "finite logits are refused" : "logits that are not finite are drawn from");
    if (!finite && position <= t->n_ctx && history[position] != 0) return bad("draw %u: no token for the steps that follow", draw);
    if (finite && memcmp(step->random, sampler->random.s, sizeof step->random)) return bad("draw %u: the random state differs", draw);
    return true;
}

/* The other draws take the most probable token, and each draw reports the position of its sequence. */
static bool check_rows(const struct test_case *t, uint32_t draw, const float *others)
{
    const uint64_t *ring = (const uint64_t *)(const void *)on.ring->bytes;
    const struct forge_gpu_row *rows = (const struct forge_gpu_row *)(const void *)on.rows->bytes;
    for (uint32_t r = 0; r < t->rows && t->rows > 1; r++) {
        const uint32_t number = 100 * (r + 1) + draw * t->rows + 1, at = r == t->row ? t->n_prompt + draw : draw + 1;
        const int32_t want = argmax(others + (size_t)r * t->n_vocab, t->n_vocab);
        if (rows[r].n_past != at || (at <= t->n_ctx && rows[r].token != history_of(t, r)[at]))
            return bad("draw %u: row %u is not told", draw, r);
        if (r == t->row) continue;
        if (ring[number % FORGE_GPU_RING] != ((uint64_t)number << 32 | (uint32_t)want) || rows[r].token != want)
            return bad("draw %u: the draw of row %u is not %d", draw, r, want);
    }
    return true;
}

/* One draw on the device and on the host; false: the sequence cannot continue. */
static bool check_draw(const struct test_case *t, uint32_t draw, struct forge_sampler *sampler, float *host_logits)
{
    const uint32_t n = t->n_vocab, position = t->n_prompt + draw;
    const struct forge_gpu_step *step = step_of(t->row);
    uint32_t *bits = (uint32_t *)(void *)on.mask->bytes;
    float *others = host_logits + n;
    char name[32];
    fill(host_logits, n, t->kind);
    for (uint32_t r = 0; r < t->rows && t->rows > 1; r++) fill(others + (size_t)r * n, n, 0);
    if (t->rows > 1) memcpy(on.logits->bytes, others, (size_t)t->rows * n * sizeof(float));
    memcpy(logits_of(t, t->row), host_logits, n * sizeof(float));
    rooms_poison(on.scratch);
    if (t->mask) fill_mask(bits, host_logits, n, t->mask);
    const int finite = all_finite(host_logits, n);
    n_not_finite += !finite;
    for (uint32_t i = 0; i < n && t->mask; i++) if (!(bits[i / 32] >> i % 32 & 1)) host_logits[i] = -INFINITY;
    const int32_t want = sampler_draw(sampler, host_logits);
    struct forge_random before_draw = { { step->random[0], step->random[1], step->random[2], step->random[3] } };
    const struct launch launch = launch_of(t, name);
    const struct forge_kernel_args args = args_of();
    machine_launch(&launch, &args);
    n_draws++;
    if (!same_logits(logits_of(t, t->row), host_logits, n)) return bad("draw %u: adjusted logits differ", draw);
    if (!check_step(t, draw, finite, sampler) || !check_rows(t, draw, others) || !finite) return false;
    const int32_t got = position <= t->n_ctx ? history_of(t, t->row)[position]
        : (int32_t)((const uint64_t *)(const void *)on.ring->bytes)[(draw * t->rows + 1) % FORGE_GPU_RING];
    if (got == want) return true;
    if (!is_near_border(&t->o, host_logits, n, random_unit(&before_draw)))
        return bad("draw %u: token %d (%g), not %d (%g)", draw, got, (double)host_logits[(uint32_t)got % n], want,
                   (double)host_logits[want]);
    n_differ++;
    return false;
}

static void check_case(struct test_case *t, uint32_t draws)
{
    struct forge_error error;
    struct forge_sampler *sampler;
    t->o.biases = t->biases;
    describe(t);
    if (sampler_open(&sampler, &t->o, t->n_vocab, t->n_ctx, &error) != FORGE_OK) abort();
    rooms_of(t);
    int32_t *history = history_of(t, t->row);
    for (uint32_t i = 0; i < t->n_prompt; i++) {
        history[i] = (int32_t)random_below(t->n_vocab < 12 ? t->n_vocab : random_below(2) ? 12 : t->n_vocab);
        sampler_accept(sampler, history[i]);
    }
    begin_step(t);
    float *host_logits = malloc((size_t)(t->rows + 1) * t->n_vocab * sizeof *host_logits);
    if (!host_logits) abort();
    for (uint32_t i = 0; i < draws && check_draw(t, i, sampler, host_logits); i++) {
        const uint32_t position = t->n_prompt + i;
        if (position > t->n_ctx) break;          /* a single draw without room in the history */
        sampler_accept(sampler, history[position]);
    }
    sampler_close(sampler);
    rooms_free();
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
    struct test_case t = { .n_vocab = n_vocab, .n_ctx = 1 + random_below(random_below(4) ? MAX_CTX : 3), .groups = 1 + random_below(4),
                           .threads = thread_counts[random_below(3)], .kind = random_below(3) ? 0 : random_below(N_KINDS),
                           .mask = random_below(2) ? 0 : random_below(N_MASKS), .rows = 1 };
    if (n_vocab < 1000 && random_below(4) == 0) t.rows = 2 + random_below(2);
    t.row = random_below(t.rows);
    t.n_prompt = 1 + random_below(t.n_ctx);
    t.o = (struct forge_sample_options){ .temp = pick(temps, 6), .top_k = top_ks[random_below(10)], .top_p = pick(top_ps, 8),
                                         .min_p = pick(min_ps, 7), .repeat_penalty = pick(penalties, 5),
                                         .repeat_last_n = lasts[random_below(6)], .presence_penalty = pick(additions, 5),
                                         .frequency_penalty = pick(additions, 5), .seed = random_u64(),
                                         .n_biases = random_below(2) ? 0 : random_below(8) ? random_below(4) : 256 };
    if (random_below(4) == 0) { t.o.temp = 0.8f; t.o.top_k = 40; t.o.top_p = 0.95f; t.o.min_p = 0.05f; }
    if (random_below(8) == 0) t.o.top_k = t.o.temp > 0 ? 0 : 40;
    for (size_t i = 0; i < t.o.n_biases; i++) {
        t.biases[i].id = (int32_t)random_below(random_below(2) ? n_vocab : n_vocab < 5 ? n_vocab : 5);
        t.biases[i].bias = random_below(9) ? normal() : -INFINITY;
    }
    return t;
}

static void check_arithmetic(void)
{
    double worst = 0, worst_log = 0;
    if (!case_begin()) return;
    case_is("exp and log");
    for (uint32_t i = 0; i < 200000; i++) {
        const double x = -(double)real() * (i % 2 ? 1 : 700), want = exp(x), got = sample_exp(x);
        worst = fmax(worst, fabs(got - want) / (want * 0x1p-52));
        const float p = i % 3 ? real() : ldexpf(real(), -(int)random_below(100));
        if (p > 0) worst_log = fmax(worst_log, fabs(sample_log((double)p) - log((double)p)) / (fabs(log((double)p)) * 0x1p-52));
    }
    if (worst > 2 || worst_log > 4 || sample_exp(0) != 1 || sample_log(1) != 0 || sample_exp(-INFINITY) != 0)
        bad("exp or log is wrong: %.2f and %.2f ulp", worst, worst_log);
}

/* Vocabularies of real models, with the groups and threads of a real launch. */
static void check_large(void)
{
    static const uint32_t vocabs[] = { 130001, 151936, 32000 };
    for (uint32_t i = 0; i < 9; i++) {
        if (!case_begin()) continue;
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

/* Options in which the order of the whole vocabulary decides. */
static void check_in_order(uint32_t draws, const uint32_t *vocabs, uint32_t n_vocabs, uint32_t groups, uint32_t threads)
{
    static const uint32_t shapes[] = { 0, 1, 2, 9, 10, 11, 12, 13, 17, 18 };
    static const float top_ps[] = { 0.9f, 0.5f, 0.999f, 0.01f, 0.99999f, 1e-5f, 1 }, temps[] = { 1, 0.1f, 0.5f, 2, 5 };
    static const float min_ps[] = { 0, 0, 0.9f, 0.05f, 1e-4f };
    for (uint32_t i = 0; i < draws; i++) {
        if (!case_begin()) continue;
        const uint32_t n = vocabs[i % n_vocabs];
        struct test_case t = random_case(n);
        t.kind = shapes[i % 10];
        if (groups > 0) t.groups = groups;
        if (threads > 0) t.threads = threads;
        t.o.temp = pick(temps, 5);
        t.o.top_p = pick(top_ps, 7);
        t.o.min_p = pick(min_ps, 5);
        t.o.top_k = random_below(2) ? 0 : (int32_t)(random_below(4) ? n / 4 + random_below(3 * n / 4) : 513 + random_below(1000));
        if (random_below(6) == 0) t.o.top_k = 40;          /* with many equal logits: more than fit the list */
        if (random_below(4) == 0) t.o.n_biases = 256;
        for (size_t k = 0; k < t.o.n_biases && t.kind > 1; k++) {
            t.biases[k].id = (int32_t)random_below(n);
            t.biases[k].bias = random_below(2) ? -INFINITY : 3;
        }
        check_case(&t, 1);
    }
}

static const struct { uint32_t n_vocab, groups, threads; } models[] = {
#define MODEL(n_vocab, groups, threads) { n_vocab, groups, threads },
    SAMPLE_MODELS(MODEL)
#undef MODEL
};
enum { N_MODELS = sizeof models / sizeof *models };

static struct test_case model_case(uint32_t m, uint32_t kind)
{
    struct test_case t = random_case(models[m].n_vocab);
    t.n_ctx = SAMPLE_MODELS_CTX;
    t.groups = models[m].groups;
    t.threads = models[m].threads;
    t.kind = kind;
    return t;
}

static void check_models(void)
{
    for (uint32_t m = 0; m < N_MODELS; m++)
        for (uint32_t i = 0; i < rounds(models[m].n_vocab > 10000 ? 150 : 1000); i++) {
            if (!case_begin()) continue;
            struct test_case t = model_case(m, random_below(3) ? 0 : random_below(N_KINDS));
            check_case(&t, 1 + random_below(2));
        }
}

static void check_any(void)
{
    check_arithmetic();
    for (uint32_t i = 0; i < rounds(1200); i++) {
        if (!case_begin()) continue;
        struct test_case t = random_case(1 + random_below(i % 3 == 0 ? 20 : i % 3 == 1 ? 600 : 5000));
        check_case(&t, 1 + random_below(3));
    }
    for (uint32_t kind = 0; kind < N_KINDS; kind++)
        for (uint32_t i = 0; i < rounds(20); i++) {
            if (!case_begin()) continue;
            struct test_case t = random_case(1 + random_below(3000));
            t.kind = kind;
            check_case(&t, 1);
        }
    check_large();
    static const uint32_t small[] = { 1025, 2048, 2049, 5000, 10007 }, large[] = { 65536, 65537, 128256, 262144 };
    check_in_order(rounds(300), small, 5, 0, 0);
    check_in_order(rounds(12), large, 4, 64, 512);
}

void test_sample(void)
{
    if (variant_has("models")) check_models();
    else check_any();
    printf("%u draws, %u of logits that are not finite, %u differ near a border\n", n_draws, n_not_finite, n_differ);
    if (n_differ * 1000 > n_draws) bad("too many draws differ near a border");
}

/* ---- speed ---- */
void bench_sample(void)
{
    static const struct { const char *name; float width; struct forge_sample_options o; uint32_t mask, rows; } ways[] = {
        { "greedy",          3, { .top_p = 1, .repeat_penalty = 1 } },
        { "default",         3, { .temp = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1 } },
        { "penalties",       3, { .temp = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1.1f,
                                  .repeat_last_n = 64 } },
        { "top-p",           3, { .temp = 1, .top_p = 0.9f, .repeat_penalty = 1 } },
        { "temperature",     3, { .temp = 1, .top_p = 1, .repeat_penalty = 1 } },
        { "min-p",           3, { .temp = 1, .top_p = 1, .min_p = 0.1f, .repeat_penalty = 1 } },
        { "large k",         3, { .temp = 0.8f, .top_k = 5000, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1 } },
        { "top-p of a flat", 0.05f, { .temp = 1, .top_p = 0.9f, .repeat_penalty = 1 } },
        { "default, masked", 3, { .temp = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1 }, .mask = 2 },
        { "default, 8 at once", 3, { .temp = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1 }, .rows = 8 },
    };
    if (!variant_has("models")) return;
    for (uint32_t m = 0; m < N_MODELS; m++) {
        printf("%u tokens, us a launch:", models[m].n_vocab);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            char name[32];
            case_begin();
            struct test_case t = model_case(m, 0);
            t.o = ways[i].o;
            t.n_prompt = 100;
            t.mask = ways[i].mask;
            t.rows = ways[i].rows ? ways[i].rows : 1;
            t.row = 0;
            rooms_of(&t);
            memset(on.history->bytes, 0, on.history->size);
            begin_step(&t);
            for (uint32_t k = 0; k < t.rows * t.n_vocab; k++) room_floats(on.logits)[k] = normal() * ways[i].width;
            fill_mask((uint32_t *)(void *)on.mask->bytes, logits_of(&t, 0), t.n_vocab, 2);
            const struct launch launch = launch_of(&t, name);
            const struct forge_kernel_args args = args_of();
            printf("%s %s %.2f", i ? "," : "", ways[i].name, machine_us(&launch, &args, 300));
            rooms_free();
        }
        putchar('\n');
    }
}
