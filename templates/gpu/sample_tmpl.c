/* sample_tmpl.c -- from the logits of one token to the next one, in one launch: what runtime/run/sample.c does,
 * and the token it would draw.
 *
 * The vocabulary is cut into segments.  A wave applies biases and penalties to a segment and keeps its maximum.
 * The group that arrives last has all maxima:
 *
 *   greedy       the largest maximum.
 *   top-k        the k-th largest maximum bounds the k-th largest logit from below, and only segments whose maximum reaches it are read
 *                again.  What reaches it there is sorted in LDS (a few dozen tokens more than k),
 *                and one thread goes through the chain in the order of sample.c.
 *   top-p alone  the same with a guess in place of k; the waves have also summed exp(logit) of their segments, so the whole is known.
 *   neither      tokens are drawn in the order of ids: by the segments' sums, then within one segment.
 *   otherwise    (a large k, a flat distribution, many equal logits): bisection over the keys, every step of it a pass over the vocabulary.
 *
 * Sums are in double, as there.  Differences to sample.c: exp and log of sample_math.h against libm's (an ulp), sample.c's float exp in the
 * total of top-p without top-k (1e-7), and the order of additions in the last two ways (1e-15).  A cut or a draw that falls that close to
 * the border between two tokens may take the other one. */
#ifndef FORGE_SAMPLE_TMPL
#define FORGE_SAMPLE_TMPL
#include "launch.h"
#include "sample_math.h"
#include "sample_sizes.h"

/* LDS: what is used all the time, then values [segments] f32, then what differs. */
DEVICE uint32_t *sample_words(void)  { return (uint32_t *)(void *)lds(); }                       /* [8]: see the enum */
DEVICE uint64_t *sample_maxima(void) { return (uint64_t *)(void *)(lds() + 64); }                /* [2][32]: of the waves, in turns */
DEVICE double   *sample_sums(void)   { return (double *)(void *)(lds() + 64 + 512); }            /* [waves][8] */
/* [segments] maxima; +0 never -0, NaN is -inf */
DEVICE float    *sample_values(void) { return (float *)(void *)(lds() + SAMPLE_LDS_VALUES); }
STATIC_ASSERT(SAMPLE_LDS_FIXED == 64 + 512 + 32 * 8 * 8, "LDS of sample_tmpl.c");
enum { SAMPLE_FLAG, SAMPLE_CUT, SAMPLE_N_PICKED, SAMPLE_N_LISTED, SAMPLE_TOKEN, SAMPLE_BOUND };

/* What the last group needs of *step, read at once. */
struct sample_step {
    uint32_t  n_past, n_tokens, n_drawn;
    int32_t  *history;
    uint64_t *ring;
    int32_t   top_k;
    float     temp, top_p, min_p;
    uint64_t  random[4];
};

/* The largest x of the group, in all threads.  A barrier stands between two calls with the same turn. */
DEVICE uint64_t sample_group_max(uint64_t x, const uint32_t turn, const uint32_t threads)
{
    uint64_t *maxima = sample_maxima() + 32 * turn;
    x = sample_wave_max(x);
    if (lane_id() == 0) maxima[wave_id()] = x;
    barrier();
#pragma unroll
    for (uint32_t w = 0; w < threads / WAVE; w++) x = maxima[w] > x ? maxima[w] : x;
    return x;
}
DEVICE uint32_t sample_count(uint32_t *count, uint32_t n) { return __atomic_fetch_add(count, n, __ATOMIC_RELAXED); }     /* in LDS */

/* ---- all groups: biases, penalties, maxima of the segments ---- */

/* x: [segment / WAVE] logits of the wave's segment s, element i at token s segment + i WAVE + lane; NaN beyond the vocabulary. */
DEVICE void sample_load(float *x, const float *logits, const uint32_t n_vocab, uint32_t s)
{
    for (uint32_t i = 0; i < SAMPLE_SEGMENT(n_vocab) / WAVE; i++) {
        const uint32_t id = s * SAMPLE_SEGMENT(n_vocab) + i * WAVE + lane_id();
        x[i] = id < n_vocab ? ((const GLOBAL float *)logits)[id] : f32_of_bits(0x7fc00000u);
    }
}

DEVICE void sample_bias(float *x, const struct forge_gpu_step *step, const uint32_t segment, uint32_t s)
{
    for (uint32_t k = 0; k < step->n_biases; k++) {
        const uint32_t at = (uint32_t)step->biases[k].id - s * segment - lane_id();
        for (uint32_t i = 0; i < segment / WAVE; i++)
            if (at == i * WAVE) x[i] += step->biases[k].bias;
    }
}

/* A negative logit is multiplied: dividing it would make the token likelier.  In double and rounded at every step: so these are the float
 * operations of sample.c, neither fused nor approximate. */
DEVICE float sample_penalised(float x, const struct forge_gpu_step *step, uint32_t count)
{
    const double penalty = (double)step->repeat_penalty;
    x = (float)(x <= 0 ? (double)x * penalty : (double)x / penalty);
    const float frequency = (float)((double)count * (double)step->frequency_penalty);
    return (float)((double)x - (double)(float)((double)frequency + (double)step->presence_penalty));
}

/* counts: [segment] of LDS, this wave's own. */
DEVICE void sample_penalise(float *x, const struct forge_gpu_step *step, const uint32_t n_ctx, const uint32_t segment, uint32_t s,
                            uint32_t *counts)
{
    const uint32_t end = step->n_past + step->n_tokens, asked = (uint32_t)step->repeat_last_n;      /* -1: more than any context */
    const uint32_t window = asked < n_ctx ? asked : n_ctx;
    for (uint32_t i = 0; i < segment / WAVE; i++) counts[i * WAVE + lane_id()] = 0;
    wave_barrier();
    for (uint32_t p = end - (window < end ? window : end) + lane_id(); p < end; p += WAVE) {
        const uint32_t at = (uint32_t)((const GLOBAL int32_t *)step->history)[p] - s * segment;
        if (at < segment) sample_count(&counts[at], 1);
    }
    wave_barrier();
    for (uint32_t i = 0; i < segment / WAVE; i++) {
        const uint32_t count = counts[i * WAVE + lane_id()];
        if (count > 0) x[i] = sample_penalised(x[i], step, count);
    }
    wave_barrier();
}

/* Over the lane's elements and the wave: the sum of e^((x - origin) inverse) of what is at least `least`. */
DEVICE double sample_segment_sum(const float *x, const uint32_t segment, float least, float origin, double inverse)
{
    double sum = 0;
    for (uint32_t i = 0; i < segment / WAVE; i++)
        if (x[i] >= least && x[i] > -__builtin_inff()) sum += sample_exp(((double)x[i] - (double)origin) * inverse);
    return sample_wave_sum(sum);
}

/* Scratch, shared by the groups: of every segment the two parts of the maximum's key,
 * and of the double sum of e^((x - maximum) inverse). */
DEVICE float *sample_shared(uint8_t *scratch, const uint32_t n_vocab, const uint32_t plane, uint32_t s)
{
    return (float *)(void *)scratch + plane * SAMPLE_SEGMENTS(n_vocab) + s;
}
DEVICE void sample_put(uint8_t *scratch, const uint32_t n_vocab, const uint32_t plane, uint32_t s, uint32_t bits)
{
    store_shared_f32(sample_shared(scratch, n_vocab, plane, s), f32_of_bits(bits));
}
DEVICE uint32_t sample_get(uint8_t *scratch, const uint32_t n_vocab, const uint32_t plane, uint32_t s)
{
    return bits_of_f32(load_shared_f32(sample_shared(scratch, n_vocab, plane, s)));
}

DEVICE void sample_segment(float *x, float *logits, const struct forge_gpu_step *step, const uint32_t n_vocab, const uint32_t n_ctx,
                           uint8_t *scratch, uint32_t s)
{
    const uint32_t segment = SAMPLE_SEGMENT(n_vocab);
    uint32_t bad = 0;                            /* a bias may be infinite, what the model computes may not */
    for (uint32_t i = 0; i < segment / WAVE; i++) {
        const uint32_t beyond = s * segment + i * WAVE + lane_id() >= n_vocab;
        bad |= !beyond && (bits_of_f32(x[i]) & 0x7fffffffu) >= 0x7f800000u;
    }
    const uint32_t penalties = step->repeat_last_n != 0 &&
                               (step->repeat_penalty != 1.0f || step->presence_penalty != 0 || step->frequency_penalty != 0);
    if (step->n_biases > 0 || penalties) {
        float was[SAMPLE_MAX_SEGMENT / WAVE];
        for (uint32_t i = 0; i < segment / WAVE; i++) was[i] = x[i];
        sample_bias(x, step, segment, s);
        if (penalties) sample_penalise(x, step, n_ctx, segment, s, (uint32_t *)(void *)lds() + segment * wave_id());
        for (uint32_t i = 0; i < segment / WAVE; i++)
            if (bits_of_f32(x[i]) != bits_of_f32(was[i])) store_shared_f32(logits + s * segment + i * WAVE + lane_id(), x[i]);
    }
    uint64_t best = 0;
    for (uint32_t i = 0; i < segment / WAVE; i++) {
        const uint64_t key = sample_key(x[i], s * segment + i * WAVE + lane_id());
        best = key > best ? key : best;
    }
    best = sample_wave_max(bad ? SAMPLE_NOT_FINITE : best);
    double sum = 0;
    if (step->temp > 0 && (step->top_k <= 0 || step->top_k >= (int32_t)n_vocab))
        sum = sample_segment_sum(x, segment, -__builtin_inff(), sample_value_of(best), step->top_p < 1 ? 1.0 : 1.0 / (double)step->temp);
    if (lane_id() == 0) {
        uint64_t bits;
        __builtin_memcpy(&bits, &sum, 8);
        sample_put(scratch, n_vocab, 0, s, (uint32_t)(best >> 24));
        sample_put(scratch, n_vocab, 1, s, (uint32_t)(best & 0xffffffu));
        sample_put(scratch, n_vocab, 2, s, (uint32_t)bits);
        sample_put(scratch, n_vocab, 3, s, (uint32_t)(bits >> 32));
    }
}

DEVICE void sample_segments(float *logits, const struct forge_gpu_step *step, const uint32_t n_vocab, const uint32_t n_ctx,
                            uint8_t *scratch, const uint32_t groups, const uint32_t threads)
{
    float x[SAMPLE_MAX_SEGMENT / WAVE];
    uint32_t s = group_x() + groups * wave_id();
    sample_load(x, logits, n_vocab, s);          /* before *step is looked at: both are on their way at once */
    while (s < SAMPLE_SEGMENTS(n_vocab)) {
        sample_segment(x, logits, step, n_vocab, n_ctx, scratch, s);
        s += groups * (threads / WAVE);
        sample_load(x, logits, n_vocab, s);
    }
}

/* ---- the last group ---- */

DEVICE double sample_sum_of(uint8_t *scratch, const uint32_t n_vocab, uint32_t s)
{
    const uint64_t low = sample_get(scratch, n_vocab, 2, s), high = sample_get(scratch, n_vocab, 3, s), bits = high << 32 | low;
    double sum;
    __builtin_memcpy(&sum, &bits, 8);
    return sum;
}

/* The key of the likeliest token; fills values. */
DEVICE uint64_t sample_best(uint8_t *scratch, const uint32_t n_vocab, const uint32_t threads)
{
    uint64_t best = 0;
    for (uint32_t s = thread_x(); s < SAMPLE_SEGMENTS(n_vocab); s += threads) {
        const uint32_t value = sample_get(scratch, n_vocab, 0, s), id = sample_get(scratch, n_vocab, 1, s);
        const uint64_t key = (uint64_t)value << 24 | id;
        best = key > best ? key : best;
        sample_values()[s] = value > SAMPLE_KEY_NEGATIVE ? sample_value_of(key) : -__builtin_inff();
    }
    return sample_group_max(best, 0, threads);
}

/* Logits from best downwards in bins: 0 .. 255 as far as the smallest maximum, 256 beyond.  Never decreases as x does. */
DEVICE uint32_t sample_bin(float x, float best, float scale)
{
    const float d = (best - x) * scale;
    return d < (float)SAMPLE_BINS ? (uint32_t)d : SAMPLE_BINS;
}

/* Bins per unit of logit. */
DEVICE float sample_scale(float best, const uint32_t n_vocab, const uint32_t threads)
{
    uint64_t low = 0;
    for (uint32_t s = thread_x(); s < SAMPLE_SEGMENTS(n_vocab); s += threads) {
        const uint32_t key = order_of_f32(sample_values()[s]);
        if (key > SAMPLE_KEY_NEGATIVE && ~key > low) low = ~key;
    }
    low = sample_group_max(low, 1, threads);
    const float range = best - sample_value_of((uint64_t)~(uint32_t)low << 24);
    return ((float)SAMPLE_BINS - 1.0f) / (range > 1e-30f ? range : 1e-30f);
}

/* The first bin up to which there are `want` maxima, SAMPLE_BINS when there are fewer; in the word SAMPLE_CUT after a barrier.
 * By wave 0. */
DEVICE void sample_cut(const uint32_t *bins, uint32_t want)
{
    const uint32_t lane = lane_id(), run = SAMPLE_BINS / WAVE;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < run; i++) sum += bins[lane * run + i];
    const uint32_t mine = sum;
    for (uint32_t d = 1; d < WAVE; d *= 2) {
        const uint32_t y = lane_get_u32(sum, (lane - d) & (WAVE - 1));
        if (lane >= d) sum += y;
    }
    if (lane == WAVE - 1 && sum < want) sample_words()[SAMPLE_CUT] = SAMPLE_BINS;
    uint32_t before = sum - mine;
    if (before >= want || sum < want) return;
    for (uint32_t i = 0; i < run; i++) {
        before += bins[lane * run + i];
        if (before < want) continue;
        sample_words()[SAMPLE_CUT] = lane * run + i;
        return;
    }
}

/* Puts the keys of all tokens in bins 0 .. cut with logits >= least into keys; returns how many there are,
 * which may be more than SAMPLE_LIST, and cut. */
DEVICE uint32_t sample_list(uint64_t *keys, uint32_t *cut, const float *logits, uint32_t want, float best, float least, float scale,
                            const uint32_t n_vocab, const uint32_t threads)
{
    const uint32_t segment = SAMPLE_SEGMENT(n_vocab);
    uint32_t *words = sample_words(), *bins = (uint32_t *)(void *)(lds() + SAMPLE_LDS_WORK(n_vocab)),
             *picked = bins + SAMPLE_LDS_PICKED / 4;
    for (uint32_t i = thread_x(); i < SAMPLE_BINS; i += threads) bins[i] = 0;
    if (thread_x() == 0) words[SAMPLE_CUT] = SAMPLE_BINS;
    if (thread_x() == 0) words[SAMPLE_N_PICKED] = 0;
    if (thread_x() == 0) words[SAMPLE_N_LISTED] = 0;
    barrier();
    for (uint32_t s = thread_x(); s < SAMPLE_SEGMENTS(n_vocab) && want > 0; s += threads) {
        const uint32_t bin = sample_bin(sample_values()[s], best, scale);
        if (bin < SAMPLE_BINS) sample_count(&bins[bin], 1);
    }
    barrier();
    if (wave_id() == 0 && want > 0) sample_cut(bins, want);
    barrier();
    *cut = words[SAMPLE_CUT];
    for (uint32_t s = thread_x(); s < SAMPLE_SEGMENTS(n_vocab); s += threads)
        if (sample_values()[s] >= least && sample_bin(sample_values()[s], best, scale) <= *cut)
            picked[sample_count(&words[SAMPLE_N_PICKED], 1)] = s;
    barrier();
    const uint32_t n = words[SAMPLE_N_PICKED] * segment;
    for (uint32_t e = thread_x(); e < n; e += 8 * threads) {
        uint32_t id[8];
        float x[8];
        for (uint32_t i = 0; i < 8; i++)
            id[i] = e + i * threads < n ? picked[(e + i * threads) / segment] * segment + (e + i * threads) % segment : n_vocab;
        for (uint32_t i = 0; i < 8; i++) x[i] = load_shared_f32(logits + (id[i] < n_vocab ? id[i] : 0));
        for (uint32_t i = 0; i < 8; i++) {
            if (id[i] >= n_vocab || !(x[i] >= least && x[i] > -__builtin_inff()) || sample_bin(x[i], best, scale) > *cut) continue;
            const uint32_t at = sample_count(&words[SAMPLE_N_LISTED], 1);
            if (at < SAMPLE_LIST) keys[at] = sample_key(x[i], id[i]);
        }
    }
    barrier();
    return words[SAMPLE_N_LISTED];
}

/* What is left of the options when the likeliest token is known. */
struct sample_chain {
    float    best, bound, top_p;                 /* bound: min-p's, or -inf */
    uint32_t k;                                  /* 0: no top-k */
    double   inverse, total, unit;               /* 1 / temp; total: e^(x - best) over the vocabulary, when k is 0;
                                                  * unit: the random number */
};

/* By one thread, in sample.c's order.  sorted: [n] keys, best first, flat: [n] e^(x - best), sharp: [n] e^((x - best) / temp).  complete:
 * nothing that counts is missing.  SAMPLE_NOTHING: more than these n tokens are needed. */
DEVICE uint32_t sample_walk(const struct sample_chain *c, const uint64_t *sorted, const double *flat, const double *sharp, uint32_t n,
                            uint32_t complete)
{
    uint32_t kept = n;
    if (c->top_p < 1) {
        double total = c->total, sum = 0;
        if (c->k > 0) {
            total = 0;
            for (uint32_t i = 0; i < n; i++) total += flat[i];
        }
        const double enough = (double)c->top_p * total;
        for (kept = 0; kept < n; ) {
            sum += flat[kept++];
            if (sum >= enough) break;
        }
        if (sum < enough && !complete) return SAMPLE_NOTHING;
    }
    while (kept > 1 && sample_value_of(sorted[kept - 1]) < c->bound) kept--;
    double total = 0;
    for (uint32_t i = 0; i < kept; i++) total += sharp[i];
    double at = c->unit * total;
    for (uint32_t i = 0; i < kept; i++)
        if ((at -= sharp[i]) < 0) return sample_id_of(sorted[i]);
    return sample_id_of(sorted[kept - 1]);
}

/* Of a list in LDS, or SAMPLE_NOTHING when it does not hold enough; known to all threads. */
DEVICE uint32_t sample_listed(const struct sample_chain *c, const float *logits, const uint32_t n_vocab, const uint32_t threads)
{
    uint64_t *keys = (uint64_t *)(void *)(lds() + SAMPLE_LDS_WORK(n_vocab) + SAMPLE_LDS_KEYS(n_vocab)), *sorted = keys + SAMPLE_LIST;
    double *sharp = (double *)(void *)keys, *flat = (double *)(void *)(sorted + SAMPLE_LIST);
    const uint32_t quarter = (SAMPLE_SEGMENTS(n_vocab) + 3) / 4, guess = quarter < 256 ? quarter : 256;
    const uint32_t want = n_vocab <= SAMPLE_LIST ? 0 : c->k > 0 ? c->k : guess;        /* 0: all */
    const float scale = sample_scale(c->best, n_vocab, threads), least = c->k > 0 ? -__builtin_inff() : c->bound;
    uint32_t cut, n = sample_list(keys, &cut, logits, want, c->best, least, scale, n_vocab, threads);
    if (n > SAMPLE_LIST) return SAMPLE_NOTHING;
    for (uint32_t i = thread_x(); i < n; i += threads) {
        const uint64_t key = keys[i];
        uint32_t rank = 0;
        for (uint32_t j = 0; j < n; j++) rank += keys[j] > key;
        sorted[rank] = key;
    }
    barrier();
    if (c->k > 0 && n > c->k) n = c->k;
    for (uint32_t i = thread_x(); i < n; i += threads) {
        const float x = sample_value_of(sorted[i]);
        flat[i] = c->top_p < 1 ? sample_exp((double)(x - c->best)) : 0;
        sharp[i] = sample_exp(((double)x - (double)c->best) * c->inverse);
    }
    barrier();
    const uint32_t complete = c->k > 0 || sample_bin(c->bound, c->best, scale) <= cut;
    if (thread_x() == 0) sample_words()[SAMPLE_TOKEN] = sample_walk(c, sorted, flat, sharp, n, complete);
    barrier();
    return sample_words()[SAMPLE_TOKEN];
}

/* Draws in the order of ids from all tokens >= bound.  Known to wave 0. */
DEVICE uint32_t sample_by_id(const struct sample_chain *c, const float *logits, uint8_t *scratch, const uint32_t n_vocab,
                             const uint32_t threads)
{
    const uint32_t segment = SAMPLE_SEGMENT(n_vocab), segments = SAMPLE_SEGMENTS(n_vocab);
    double *weights = (double *)(void *)(lds() + SAMPLE_LDS_WORK(n_vocab)), *tokens = weights + segments, rest;
    if (c->bound > -__builtin_inff()) {
        for (uint32_t s = wave_id(); s < segments; s += threads / WAVE) {
            double sum = 0;
            if (sample_values()[s] >= c->bound) {
                float x[SAMPLE_MAX_SEGMENT / WAVE];
                for (uint32_t i = 0; i < segment / WAVE; i++) {
                    const uint32_t id = s * segment + i * WAVE + lane_id();
                    x[i] = load_shared_f32(logits + (id < n_vocab ? id : 0));
                    if (id >= n_vocab) x[i] = -__builtin_inff();
                }
                sum = sample_segment_sum(x, segment, c->bound, c->best, c->inverse);
            }
            if (lane_id() == 0) weights[s] = sum;
        }
    } else
        for (uint32_t s = thread_x(); s < segments; s += threads)
            weights[s] = sample_sum_of(scratch, n_vocab, s) * sample_exp(((double)sample_values()[s] - (double)c->best) * c->inverse);
    barrier();
    if (wave_id() != 0) return SAMPLE_NOTHING;
    const uint32_t s = sample_find(weights, segments, c->unit, 0, &rest);
    for (uint32_t i = lane_id(); i < segment; i += WAVE) {
        const uint32_t id = s * segment + i;
        const float x = load_shared_f32(logits + (id < n_vocab ? id : 0));
        tokens[i] = id < n_vocab && x >= c->bound && x > -__builtin_inff() ? sample_exp(((double)x - (double)c->best) * c->inverse) : 0;
    }
    wave_barrier();
    return s * segment + sample_find(tokens, segment, 0, rest, &rest);
}

/* ---- bisection ---- */

/* m[i]: the sum of e^((x - best) inverse) over the tokens with low + i step <= key < high. */
DEVICE void sample_mass(double *m, const float *logits, uint64_t low, uint64_t high, uint64_t step, float best, double inverse,
                        const uint32_t n_vocab, const uint32_t threads)
{
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) m[i] = 0;
    for (uint32_t id = thread_x(); id < n_vocab; id += 4 * threads) {
        float x[4];
        for (uint32_t i = 0; i < 4; i++) x[i] = load_shared_f32(logits + (id + i * threads < n_vocab ? id + i * threads : 0));
        for (uint32_t i = 0; i < 4; i++) {
            const uint64_t key = sample_key(x[i], id + i * threads);
            if (id + i * threads >= n_vocab || key < low || key >= high) continue;
            const double w = sample_exp(((double)x[i] - (double)best) * inverse);
            for (uint32_t j = 0; j < 8; j++)
                if (key >= low + j * step) m[j] += w;
        }
    }
    double *sums = sample_sums();
    barrier();
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        m[i] = sample_wave_sum(m[i]);
        if (lane_id() == 0) sums[8 * wave_id() + i] = m[i];
    }
    barrier();
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) m[i] = 0;
#pragma unroll 1
    for (uint32_t w = 0; w < threads / WAVE; w++)
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) m[i] += sums[8 * w + i];
}

/* The largest key of [low, high) such that the tokens from it upwards weigh at least (more: more than) what is asked for, which is `asked`
 * and `part` of all in the range; low when there is none.  Weights as sample_mass. */
DEVICE uint64_t sample_bisect(const float *logits, uint64_t low, uint64_t high, double asked, double part, uint32_t more, float best,
                              double inverse, const uint32_t n_vocab, const uint32_t threads)
{
    double above = 0;
#pragma unroll 1
    while (high - low > 1) {
        const uint64_t step = (high - low + 7) / 8, from = low, to = high;
        double m[8];
        sample_mass(m, logits, from, to, step, best, inverse, n_vocab, threads);
        asked += part * m[0];
        part = 0;
        double below = above;
#pragma unroll
        for (uint32_t i = 7; i > 0; i--) {       /* downwards: the first that is enough is the new low, the one before it the new high */
            const uint64_t key = from + i * step;
            const double sum = above + m[i];
            const uint32_t open = key < to && low == from, enough = more ? sum > asked : sum >= asked;
            if (open && enough) low = key;
            if (open && !enough) high = key;
            if (open && !enough) below = sum;
        }
        above = below;
    }
    return low;
}

/* Any options in which the order of logits matters.  Known to all threads. */
DEVICE uint32_t sample_slowly(const struct sample_chain *c, const float *logits, uint64_t best, const uint32_t n_vocab,
                              const uint32_t threads)
{
    const uint64_t bound = (uint64_t)order_of_f32(c->bound) << 24;
    uint64_t low = (uint64_t)(SAMPLE_KEY_NEGATIVE + 1u) << 24;
#pragma unroll 1
    for (uint32_t stage = 0; stage < 3; stage++) {         /* top-k, whose weights e^0 are counts; top-p and the bound; the draw */
        const uint32_t draws = stage == 2, counts = stage == 0;
        if (counts && c->k == 0) continue;
        if (stage == 1 && !(c->top_p < 1)) continue;
        if (draws && bound > low) low = bound;
        const double p = draws ? c->unit : (double)c->top_p, inverse = draws ? c->inverse : counts ? 0 : 1;
        const uint32_t known = counts || (!draws && c->k == 0);        /* else it is a part of what is still in the range */
        const double asked = counts ? (double)c->k : known ? p * c->total : 0;
        low = sample_bisect(logits, low, best + 1, asked, known ? 0 : p, draws, c->best, inverse, n_vocab, threads);
    }
    return sample_id_of(low);
}

/* ---- the kernel ---- */

/* min-p's bound in the word SAMPLE_BOUND, the sum over the vocabulary in all threads when there is no top-k. */
DEVICE void sample_prepare(struct sample_chain *c, const struct sample_step *step, uint8_t *scratch, const uint32_t n_vocab,
                           const uint32_t threads)
{
    if (thread_x() == 0) {
        float bound = -__builtin_inff();
        if (step->min_p > 0) bound = c->best + (step->min_p < 1 ? (float)sample_log((double)step->min_p) : 0.0f);
        sample_words()[SAMPLE_BOUND] = bits_of_f32(bound);
    }
    double sum = 0;
    if (c->k == 0 && c->top_p < 1) {
        for (uint32_t s = thread_x(); s < SAMPLE_SEGMENTS(n_vocab); s += threads)
            sum += sample_sum_of(scratch, n_vocab, s) * sample_exp((double)sample_values()[s] - (double)c->best);
        sum = sample_wave_sum(sum);
    }
    if (lane_id() == 0) sample_sums()[wave_id()] = sum;
    barrier();
    c->bound = f32_of_bits(sample_words()[SAMPLE_BOUND]);
    c->total = 0;
    for (uint32_t w = 0; w < threads / WAVE; w++) c->total += sample_sums()[w];
}

DEVICE uint32_t sample_draw(struct sample_step *step, const float *logits, uint8_t *scratch, const uint32_t n_vocab, const uint32_t threads)
{
    const uint64_t best = sample_best(scratch, n_vocab, threads);
    const uint32_t value = (uint32_t)(best >> 24);
    if (value > SAMPLE_KEY_INFINITE) return FORGE_GPU_NOT_FINITE;
    if (!(step->temp > 0) || value <= SAMPLE_KEY_NEGATIVE || value >= SAMPLE_KEY_INFINITE) return sample_id_of(best);
    struct sample_chain c;
    c.best = sample_value_of(best);
    c.top_p = step->top_p;
    c.k = step->top_k > 0 && step->top_k < (int32_t)n_vocab ? (uint32_t)step->top_k : 0;
    c.inverse = 1.0 / (double)step->temp;
    c.unit = sample_random(step->random);
    sample_prepare(&c, step, scratch, n_vocab, threads);
    if (c.k == 0 && !(c.top_p < 1)) return sample_by_id(&c, logits, scratch, n_vocab, threads);
    const uint32_t token = sample_listed(&c, logits, n_vocab, threads);
    return token != SAMPLE_NOTHING ? token : sample_slowly(&c, logits, best, n_vocab, threads);
}

/* The token goes to its position, the random numbers and the counts of *step go on, and the host is told last.  Steps that are on the
 * stream already read the history: it gets a token whatever was drawn. */
DEVICE void sample_finish(struct forge_gpu_step *step, const struct sample_step *was, uint32_t token, const uint32_t n_ctx)
{
    const uint32_t at = was->n_past + was->n_tokens, number = was->n_drawn + 1;
    if (at <= n_ctx) ((GLOBAL int32_t *)was->history)[at] = token == FORGE_GPU_NOT_FINITE ? 0 : (int32_t)token;
    step->n_past = at;
    step->n_tokens = 1;
    step->n_logits = 1;
    step->n_drawn = number;
    step->random[0] = was->random[0];
    step->random[1] = was->random[1];
    step->random[2] = was->random[2];
    step->random[3] = was->random[3];
    ((volatile GLOBAL uint64_t *)was->ring)[number % FORGE_GPU_RING] = (uint64_t)number << 32 | token;
}

/* Draws the token that follows the step from the logits of its last token, and advances *step to the decode step of that token; the random
 * state goes on as in sample.c, which does not draw when temp <= 0; logits that are NaN or infinite before biases and penalties:
 * FORGE_GPU_NOT_FINITE.  To be called after pdl_wait() by all threads.
 * logits: [n_vocab <= SAMPLE_MAX_VOCAB] f32 in the arena, changed by biases and penalties.  scratch: SAMPLE_SCRATCH_BYTES of the arena,
 * 16-byte aligned.
 * counters: SAMPLE_COUNTERS u32, 0 before and after.  The launch has `groups` groups of `threads` threads; best is
 * groups threads / WAVE >= SAMPLE_SEGMENTS(n_vocab).  At most 1024 threads; 512 need no more registers than there are.
 * LDS: SAMPLE_LDS_BYTES(n_vocab). */
DEVICE void sample(const struct forge_kernel_args a, float *logits, const uint32_t n_vocab, const uint32_t n_ctx, uint8_t *scratch,
                   uint32_t *counters, const uint32_t groups, const uint32_t threads)
{
    sample_segments(logits, a.step, n_vocab, n_ctx, scratch, groups, threads);
    if (!last_to_arrive(counters, groups, &sample_words()[SAMPLE_FLAG])) return;
    struct sample_step step = { a.step->n_past, a.step->n_tokens, a.step->n_drawn, a.step->history, a.step->ring, a.step->top_k,
                                a.step->temp, a.step->top_p, a.step->min_p,
                                { a.step->random[0], a.step->random[1], a.step->random[2], a.step->random[3] } };
    const uint32_t token = sample_draw(&step, logits, scratch, n_vocab, threads);
    if (thread_x() == 0) sample_finish(a.step, &step, token, n_ctx);
}
#endif
