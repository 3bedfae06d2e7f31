/* sample_tmpl.c -- draws the next token from the logits of one token, in one launch.  It does what runtime/run/sample.c does and draws the
 * same token.
 *
 * The vocabulary is cut into segments.  A wave applies biases, penalties and the mask to a segment and keeps its maximum.  Successive
 * segments form a block, which one group processes.
 * The group that arrives last has all maxima:
 *
 *   greedy       the largest maximum.
 *   top-k        the k-th largest maximum is a lower bound of the k-th largest logit, so only segments with a maximum of at least this
 * bound
 *                are read again.  Their logits that reach the bound are sorted in LDS (a few dozen tokens more than k), and one thread
 *                applies the chain in the order of sample.c.
 *   top-p alone  the same with a guess in place of k; the waves have also summed exp(logit) of their segments, so the total is known.
 *   neither      tokens are drawn in the order of ids: by the segments' sums, then within one segment.
 *   otherwise    (a large k, a flat distribution): blocks of the vocabulary are sorted, with running sums, and all of them are searched for
 *                the border at once.  If the options make this probable, each group sorts its blocks before it arrives.  If not, and it is
 *                needed all the same (many equal logits), the last group sorts them all.
 *
 * Sums are in double, as in sample.c.  Differences to sample.c: exp and log of sample_math.h instead of libm's (an ulp), sample.c's float
 * exp in the total of top-p without top-k (1e-7), and the order of additions in the last two cases (1e-15).  A cut or a draw that close to
 * the border between two tokens may take the other token. */
#ifndef FORGE_SAMPLE_TMPL
#define FORGE_SAMPLE_TMPL
#include "launch.h"
#include "sample_math.h"
#include "sample_sizes.h"

/* LDS: memory in constant use, then values [segments] f32, then memory with various uses. */
DEVICE uint32_t *sample_words(void)  { return (uint32_t *)(void *)lds(); }                       /* [8]: see the enum */
DEVICE uint64_t *sample_maxima(void) { return (uint64_t *)(void *)(lds() + 64); }                /* [2][32]: of the waves, alternating */
DEVICE double   *sample_sums(void)   { return (double *)(void *)(lds() + 64 + 512); }            /* [waves][8] */
/* [segments] maxima; +0 never -0, NaN is -inf */
DEVICE float    *sample_values(void) { return (float *)(void *)(lds() + SAMPLE_LDS_VALUES); }
STATIC_ASSERT(SAMPLE_LDS_FIXED == 64 + 512 + 32 * 8 * 8, "LDS of sample_tmpl.c");
enum { SAMPLE_FLAG, SAMPLE_CUT, SAMPLE_N_PICKED, SAMPLE_N_LISTED, SAMPLE_TOKEN, SAMPLE_BOUND };

/* The parts of *step that all groups need, and those that the last group needs, each read at once. */
struct sample_chances { float temp, top_p; int32_t top_k; };
struct sample_step {
    uint32_t  n_past, n_tokens, n_drawn, n_draws;
    int32_t  *history;
    uint64_t *ring;
    struct forge_gpu_row *row;
    struct sample_chances chances;
    float     min_p;
    uint64_t  random[4];
    uint32_t  collective_base;                   /* after the step */
};

/* Number of tokens before the first drawn one: drafts are drawn again. */
DEVICE uint32_t sample_end(const struct forge_gpu_step *step) { return step->n_past + step->n_tokens - step->n_drafts; }

/* The largest x of the group, in all threads.  Two calls with the same turn need a barrier between them. */
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
/* The sum of x over the group, in all threads.  Two calls need a barrier between them. */
DEVICE double sample_group_sum(double x, const uint32_t threads)
{
    double *sums = sample_sums();
    x = sample_wave_sum(x);
    if (lane_id() == 0) sums[wave_id()] = x;
    barrier();
    x = 0;
    for (uint32_t w = 0; w < threads / WAVE; w++) x += sums[w];
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

/* A negative logit is multiplied: dividing it would make the token more probable.  Computed in double and rounded at every step, which
 * gives the float operations of sample.c, neither fused nor approximate. */
DEVICE float sample_penalised(float x, const struct forge_gpu_step *step, uint32_t count)
{
    const double penalty = (double)step->repeat_penalty;
    x = (float)(x <= 0 ? (double)x * penalty : (double)x / penalty);
    const float frequency = (float)((double)count * (double)step->frequency_penalty);
    return (float)((double)x - (double)(float)((double)frequency + (double)step->presence_penalty));
}

/* counts: [segment] of LDS, this wave's own. */
DEVICE void sample_penalise(float *x, const struct forge_gpu_step *step, uint32_t row, const uint32_t n_ctx, const uint32_t segment,
                            uint32_t s, uint32_t *counts)
{
    const uint32_t end = sample_end(step) + row, asked = (uint32_t)step->repeat_last_n;      /* -1: more than any context */
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

/* Bit i of words: whether the i-th token of the block may be drawn.  In LDS for all threads.  Each word is read once from the host's
 * memory, by neighbouring threads at a time. */
DEVICE uint32_t *sample_mask_words(const uint32_t n_vocab) { return (uint32_t *)(void *)(lds() + SAMPLE_LDS_MASK(n_vocab)); }
DEVICE void sample_mask_load(const uint32_t *mask, const uint32_t n_vocab, uint32_t b, const uint32_t threads)
{
    const uint32_t from = b * (SAMPLE_BLOCK(n_vocab) / 32), all = (n_vocab + 31) / 32;
    barrier();                                   /* the previous block has been masked */
    for (uint32_t i = thread_x(); i < SAMPLE_BLOCK(n_vocab) / 32; i += threads)
        if (from + i < all)
            sample_mask_words(n_vocab)[i] = bits_of_f32(load_shared_f32((const float *)(const void *)mask + from + i));
    barrier();
}
DEVICE void sample_mask(float *x, const uint32_t n_vocab, uint32_t s)
{
    const uint32_t segment = SAMPLE_SEGMENT(n_vocab), at = s % SAMPLE_BLOCK_SEGMENTS * segment;
    for (uint32_t i = 0; i < segment / WAVE; i++) {
        const uint32_t bit = at + i * WAVE + lane_id();
        const uint32_t allowed = sample_mask_words(n_vocab)[bit / 32] >> bit % 32 & 1;
        if (s * segment + i * WAVE + lane_id() < n_vocab && !allowed) x[i] = -__builtin_inff();
    }
}

/* The sum, over the lane's elements and the wave, of e^((x - origin) inverse) for x of at least `least`. */
DEVICE double sample_segment_sum(const float *x, const uint32_t segment, float least, float origin, double inverse)
{
    double sum = 0;
    for (uint32_t i = 0; i < segment / WAVE; i++)
        if (x[i] >= least && x[i] > -__builtin_inff()) sum += sample_exp(((double)x[i] - (double)origin) * inverse);
    return sample_wave_sum(sum);
}

/* Scratch, shared by the groups: for every segment the two halves of the maximum's key, and of the double sum of
 * e^((x - maximum) inverse). */
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

/* 1 / temp; called only where it is needed. */
DEVICE double sample_inverse(float temp)
{
    PIN_F32(temp);
    return 1.0 / (double)temp;
}

DEVICE uint32_t sample_has_top_k(const struct sample_chances o, const uint32_t n_vocab)
{
    return o.top_k > 0 && o.top_k < (int32_t)n_vocab;
}

/* masked: the mask of the segment's block is in LDS. */
DEVICE void sample_segment(float *x, float *logits, const struct forge_gpu_step *step, uint32_t row, const struct sample_chances o,
                           uint32_t masked, const uint32_t n_vocab, const uint32_t n_ctx, uint8_t *scratch, uint32_t s)
{
    const uint32_t segment = SAMPLE_SEGMENT(n_vocab);
    uint32_t bad = 0;                            /* a bias may be infinite, but the model's logits may not */
    for (uint32_t i = 0; i < segment / WAVE; i++) {
        const uint32_t beyond = s * segment + i * WAVE + lane_id() >= n_vocab;
        bad |= !beyond && (bits_of_f32(x[i]) & 0x7fffffffu) >= 0x7f800000u;
    }
    const uint32_t penalties = step->repeat_last_n != 0 &&
                               (step->repeat_penalty != 1.0f || step->presence_penalty != 0 || step->frequency_penalty != 0);
    if (step->n_biases > 0 || penalties || masked) {
        float was[SAMPLE_MAX_SEGMENT / WAVE];
        for (uint32_t i = 0; i < segment / WAVE; i++) was[i] = x[i];
        sample_bias(x, step, segment, s);
        if (penalties) sample_penalise(x, step, row, n_ctx, segment, s, (uint32_t *)(void *)lds() + segment * wave_id());
        if (masked) sample_mask(x, n_vocab, s);
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
    if (o.temp > 0 && !sample_has_top_k(o, n_vocab))
        sum = sample_segment_sum(x, segment, -__builtin_inff(), sample_value_of(best), o.top_p < 1 ? 1.0 : sample_inverse(o.temp));
    if (lane_id() == 0) {
        uint64_t bits;
        __builtin_memcpy(&bits, &sum, 8);
        sample_put(scratch, n_vocab, 0, s, (uint32_t)(best >> 24));
        sample_put(scratch, n_vocab, 1, s, (uint32_t)(best & 0xffffffu));
        sample_put(scratch, n_vocab, 2, s, (uint32_t)bits);
        sample_put(scratch, n_vocab, 3, s, (uint32_t)(bits >> 32));
    }
}

/* ---- sorted blocks: their parts of scratch ---- */

enum { SAMPLE_FLAT, SAMPLE_SHARP, SAMPLE_COUNT };
/* [blocks][block] keys, each block's best first; keys beyond the vocabulary are 0. */
DEVICE uint64_t *sample_sorted(uint8_t *scratch, const uint32_t n_vocab)
{
    return (uint64_t *)(void *)(scratch + SAMPLE_SCRATCH_SORTED(n_vocab));
}
/* [blocks][block]: for each key the sum over its block up to this key, itself included: SAMPLE_FLAT of e^(x - first), SAMPLE_SHARP of
 * e^((x - first) / temp), where first is the block's largest logit. */
DEVICE double *sample_running(uint8_t *scratch, const uint32_t n_vocab, uint32_t what)
{
    return (double *)(void *)(sample_sorted(scratch, n_vocab) + (1 + what) * SAMPLE_BLOCKS(n_vocab) * SAMPLE_BLOCK(n_vocab));
}

/* Not through a pointer to uint64_t: clang would load the four bytes of a logit at an address that is not a multiple of 4. */
DEVICE uint64_t sample_sorted_at(const uint64_t *sorted, uint32_t i)
{
    const u32x2 key = ((const GLOBAL u32x2 *)(const void *)sorted)[i];
    return (uint64_t)key.y << 32 | key.x;
}

DEVICE void sample_swap(uint64_t *x, uint64_t *y, uint32_t larger_first)
{
    const uint64_t a = *x, b = *y;
    const uint32_t swap = (a < b) == larger_first;
    *x = swap ? b : a;
    *y = swap ? a : b;
}
/* Sorts keys in LDS, the largest first, by Batcher's bitonic network, two stages at a time in registers.  n: a power of two. */
DEVICE void sample_sort(uint64_t *keys, const uint32_t n, const uint32_t threads)
{
#pragma unroll 1
    for (uint32_t run = 2; run <= n; run *= 2) {
        uint32_t d = run / 2;
#pragma unroll 1
        for (; d > 1; d /= 4) {
            const uint32_t h = d / 2;
            barrier();
            for (uint32_t i = thread_x(); i < n / 4; i += threads) {
                const uint32_t at = 4 * i - 3 * (i & (h - 1)), larger_first = (at & run) == 0;
                uint64_t a = keys[at], b = keys[at + h], c = keys[at + 2 * h], e = keys[at + 3 * h];
                sample_swap(&a, &c, larger_first);
                sample_swap(&b, &e, larger_first);
                sample_swap(&a, &b, larger_first);
                sample_swap(&c, &e, larger_first);
                keys[at] = a;
                keys[at + h] = b;
                keys[at + 2 * h] = c;
                keys[at + 3 * h] = e;
            }
        }
        if (d == 0) continue;
        barrier();
        for (uint32_t i = thread_x(); i < n / 2; i += threads) {
            uint64_t a = keys[2 * i], b = keys[2 * i + 1];
            sample_swap(&a, &b, (2 * i & run) == 0);
            keys[2 * i] = a;
            keys[2 * i + 1] = b;
        }
    }
    barrier();
}

/* sums: each thread's FLAT and SHARP sum become the sums over the threads up to this one, plus `before`; before: plus the sums over all. */
DEVICE void sample_scan(double *sums, double *before, const uint32_t threads)
{
    double *of_waves = sample_sums();
    for (uint32_t what = SAMPLE_FLAT; what <= SAMPLE_SHARP; what++) {
        for (uint32_t d = 1; d < WAVE; d *= 2) {
            const double y = sample_lane_f64(sums[what], (lane_id() - d) & (WAVE - 1));
            if (lane_id() >= d) sums[what] += y;
        }
        if (lane_id() == WAVE - 1) of_waves[8 * wave_id() + what] = sums[what];
    }
    barrier();
    double start[2] = { 0, 0 };
#pragma unroll 4
    for (uint32_t w = 0; w < threads / WAVE; w++)
        for (uint32_t what = SAMPLE_FLAT; what <= SAMPLE_SHARP; what++) {
            start[what] = w == wave_id() ? before[what] : start[what];
            before[what] += of_waves[8 * w + what];
        }
    for (uint32_t what = SAMPLE_FLAT; what <= SAMPLE_SHARP; what++) sums[what] += start[what];
    barrier();
}

/* Sorts block b, after this group has adjusted its logits.  inverse: 1 / temp. */
DEVICE void sample_order(const float *logits, double inverse, const uint32_t n_vocab, uint8_t *scratch, uint32_t b, const uint32_t threads)
{
    const uint32_t block = SAMPLE_BLOCK(n_vocab), from = b * block;
    uint64_t *keys = (uint64_t *)(void *)(lds() + SAMPLE_LDS_WORK(n_vocab));
    for (uint32_t i = thread_x(); i < block; i += 4 * threads) {
        float x[4];
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t id = from + i + k * threads;
            x[k] = load_shared_f32(logits + (id < n_vocab ? id : 0));
        }
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t at = i + k * threads;
            if (at < block) keys[at] = from + at < n_vocab ? sample_key(x[k], from + at) : 0;
        }
    }
    sample_sort(keys, block, threads);
    const double first = (double)sample_value_of(keys[0]);
    double before[2] = { 0, 0 };
#pragma unroll 1
    for (uint32_t start = 0; start < block; start += threads) {
        const uint32_t i = start + thread_x();
        const uint64_t key = i < block ? keys[i] : 0;
        const double x = (double)sample_value_of(key) - first;               /* NaN, and not used, if there is no finite logit */
        double sums[2] = { sample_exp(x), sample_exp(x * inverse) };
        sample_scan(sums, before, threads);
        if (i >= block) continue;
        ((GLOBAL uint64_t *)sample_sorted(scratch, n_vocab))[from + i] = key;
        ((GLOBAL double *)sample_running(scratch, n_vocab, SAMPLE_FLAT))[from + i] = sums[SAMPLE_FLAT];
        ((GLOBAL double *)sample_running(scratch, n_vocab, SAMPLE_SHARP))[from + i] = sums[SAMPLE_SHARP];
    }
}

/* Whether these options may need sorted blocks.  The list in LDS suffices for usual k, and if a few tokens have most of the weight. */
DEVICE uint32_t sample_orders(const struct sample_chances o, const uint32_t n_vocab)
{
    const uint32_t half = SAMPLE_SEGMENTS(n_vocab) < SAMPLE_LIST ? SAMPLE_SEGMENTS(n_vocab) / 2 : SAMPLE_LIST / 2;
    if (!(o.temp > 0) || n_vocab <= SAMPLE_LIST) return 0;
    return sample_has_top_k(o, n_vocab) ? (uint32_t)o.top_k > half : o.top_p < 1;
}

/* row: in a step with drafts, the number of the token that is drawn from these logits. */
DEVICE void sample_segments(float *logits, const struct forge_gpu_step *step, uint32_t row, const uint32_t n_vocab, const uint32_t n_ctx,
                            uint8_t *scratch, const uint32_t groups, const uint32_t threads)
{
    const uint32_t waves = threads / WAVE;
    float x[SAMPLE_MAX_SEGMENT / WAVE];
    uint32_t s = group_x() * SAMPLE_BLOCK_SEGMENTS + wave_id();
    sample_load(x, logits, n_vocab, s);          /* before *step is read, so that both loads are in flight at once */
    const struct sample_chances o = { step->temp, step->top_p, step->top_k };
    const uint32_t *mask = step->mask;
    const uint32_t in_order = sample_orders(o, n_vocab);
    for (uint32_t b = group_x(); b < SAMPLE_BLOCKS(n_vocab); b += groups) {
        if (mask) sample_mask_load(mask, n_vocab, b, threads);
        for (uint32_t i = wave_id(); i < SAMPLE_BLOCK_SEGMENTS; i += waves) {
            if (s < SAMPLE_SEGMENTS(n_vocab)) sample_segment(x, logits, step, row, o, mask != 0, n_vocab, n_ctx, scratch, s);
            s = i + waves < SAMPLE_BLOCK_SEGMENTS ? s + waves : (b + groups) * SAMPLE_BLOCK_SEGMENTS + wave_id();
            sample_load(x, logits, n_vocab, s);
        }
        if (!in_order) continue;
        stores_done();
        barrier();
        sample_order(logits, sample_inverse(o.temp), n_vocab, scratch, b, threads);
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

/* The key of the most probable token; fills values. */
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

/* Bins of logits from best downwards: 0 .. 255 down to the smallest maximum, 256 below.  Monotonic in x. */
DEVICE uint32_t sample_bin(float x, float best, float scale)
{
    const float d = (best - x) * scale;
    return d < (float)SAMPLE_BINS ? (uint32_t)d : SAMPLE_BINS;
}

/* The sum of e^(x - best) over the segments with maxima in bins 0 .. cut. */
DEVICE double sample_total(uint8_t *scratch, uint32_t cut, float best, float scale, const uint32_t n_vocab, const uint32_t threads)
{
    double sum = 0;
    for (uint32_t s = thread_x(); s < SAMPLE_SEGMENTS(n_vocab); s += threads)
        if (sample_bin(sample_values()[s], best, scale) <= cut)
            sum += sample_sum_of(scratch, n_vocab, s) * sample_exp((double)sample_values()[s] - (double)best);
    return sample_group_sum(sum, threads);
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

/* Finds the first bin up to which there are `want` maxima, SAMPLE_BINS if there are fewer; it is in the word SAMPLE_CUT after a barrier.
 * Called by wave 0. */
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

/* Bins 0 .. cut hold `want` maxima; collects the segments there with maxima >= least, in LDS and SAMPLE_N_PICKED.  Returns cut. */
DEVICE uint32_t sample_pick(uint32_t want, float best, float least, float scale, const uint32_t n_vocab, const uint32_t threads)
{
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
    const uint32_t cut = words[SAMPLE_CUT];
    for (uint32_t s = thread_x(); s < SAMPLE_SEGMENTS(n_vocab); s += threads)
        if (sample_values()[s] >= least && sample_values()[s] > -__builtin_inff() && sample_bin(sample_values()[s], best, scale) <= cut)
            picked[sample_count(&words[SAMPLE_N_PICKED], 1)] = s;
    barrier();
    return cut;
}

/* Stores the keys of all tokens in bins 0 .. cut with logits >= least in keys; returns their number, which may exceed SAMPLE_LIST. */
DEVICE uint32_t sample_list(uint64_t *keys, uint32_t cut, const float *logits, float best, float least, float scale,
                            const uint32_t n_vocab, const uint32_t threads)
{
    const uint32_t segment = SAMPLE_SEGMENT(n_vocab);
    uint32_t *words = sample_words(), *picked = (uint32_t *)(void *)(lds() + SAMPLE_LDS_WORK(n_vocab) + SAMPLE_LDS_PICKED);
    const uint32_t n = words[SAMPLE_N_PICKED] * segment;
    for (uint32_t e = thread_x(); e < n; e += 8 * threads) {
        uint32_t id[8];
        float x[8];
        for (uint32_t i = 0; i < 8; i++)
            id[i] = e + i * threads < n ? picked[(e + i * threads) / segment] * segment + (e + i * threads) % segment : n_vocab;
        for (uint32_t i = 0; i < 8; i++) x[i] = load_shared_f32(logits + (id[i] < n_vocab ? id[i] : 0));
        for (uint32_t i = 0; i < 8; i++) {
            if (id[i] >= n_vocab || !(x[i] >= least && x[i] > -__builtin_inff()) || sample_bin(x[i], best, scale) > cut) continue;
            const uint32_t at = sample_count(&words[SAMPLE_N_LISTED], 1);
            if (at < SAMPLE_LIST) keys[at] = sample_key(x[i], id[i]);
        }
    }
    barrier();
    return words[SAMPLE_N_LISTED];
}

/* The options that remain to be applied when the most probable token is known. */
struct sample_chain {
    float    best, bound, top_p;                 /* bound: of min-p, or -inf */
    uint32_t k;                                  /* 0: no top-k */
    double   inverse, total, unit;               /* 1 / temp; total: e^(x - best) over the vocabulary, when k is 0;
                                                  * unit: the random number */
};

/* Applies the options in sample.c's order, by one thread.  sorted: [n] keys, best first, flat: [n] e^(x - best), sharp:
 * [n] e^((x - best) / temp).  complete: no token that matters is missing.  SAMPLE_NOTHING: more than these n tokens are needed. */
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

/* Draws from a list in LDS; SAMPLE_NOTHING if the list does not hold enough.  Known to all threads. */
DEVICE uint32_t sample_listed(const struct sample_chain *c, const float *logits, uint8_t *scratch, const uint32_t n_vocab,
                              const uint32_t threads)
{
    uint64_t *keys = (uint64_t *)(void *)(lds() + SAMPLE_LDS_WORK(n_vocab) + SAMPLE_LDS_KEYS(n_vocab)), *sorted = keys + SAMPLE_LIST;
    double *sharp = (double *)(void *)keys, *flat = (double *)(void *)(sorted + SAMPLE_LIST);
    const uint32_t quarter = (SAMPLE_SEGMENTS(n_vocab) + 3) / 4, guess = quarter < 256 ? quarter : 256;
    const uint32_t want = n_vocab <= SAMPLE_LIST ? 0 : c->k > 0 ? c->k : guess;        /* 0: all */
    const float scale = sample_scale(c->best, n_vocab, threads), least = c->k > 0 ? -__builtin_inff() : c->bound;
    const uint32_t cut = sample_pick(want, c->best, least, scale, n_vocab, threads);
    const uint32_t complete = c->k > 0 || sample_bin(c->bound, c->best, scale) <= cut;
    if (!complete && sample_total(scratch, cut, c->best, scale, n_vocab, threads) < (double)c->top_p * c->total) return SAMPLE_NOTHING;
    uint32_t n = sample_list(keys, cut, logits, c->best, least, scale, n_vocab, threads);
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
    const uint32_t s = sample_find(weights, segments, c->unit, 0, 0, &rest);
    for (uint32_t i = lane_id(); i < segment; i += WAVE) {
        const uint32_t id = s * segment + i;
        const float x = load_shared_f32(logits + (id < n_vocab ? id : 0));
        tokens[i] = id < n_vocab && x >= c->bound && x > -__builtin_inff() ? sample_exp(((double)x - (double)c->best) * c->inverse) : 0;
    }
    wave_barrier();
    return s * segment + sample_find(tokens, segment, 0, rest, 0, &rest);
}

/* ---- the border in sorted blocks ----
 * The border is the first token, best first, at which the weight of the tokens from the best on reaches a target: the k-th token, the token
 * that completes top-p, the token that is drawn.  Each block keeps a range of its keys that may contain the border.  In each round some
 * evenly spread keys of all ranges are sorted, and some of these become pivots.  For every pivot and block a thread counts the keys above;
 * the running sums then give the weight above the pivot.  The ranges shrink to the part between the two pivots around the border, to about
 * a ninth.  When the remaining keys fit a list that can be sorted, the border is found in it.  128,256 tokens take three rounds and the
 * list. */

/* The state of a search: for every block a range of its sorted keys.  The arrays are in LDS. */
struct sample_lists {
    const uint64_t *sorted;                      /* [blocks][block] in scratch */
    const double   *running;                     /* the running sums of the weights, in the same places */
    uint32_t what;                               /* what weighs; SAMPLE_COUNT: every token weighs 1 */
    uint32_t *low, *high;                        /* [blocks] */
    double   *scale;                             /* [blocks] factors of the blocks' sums */
    uint64_t *heads;                             /* [SAMPLE_HEADS] */
    double   *mass;                              /* [pivots][blocks]; at the end [SAMPLE_HEADS] */
    uint32_t *rank;                              /* [pivots][blocks] */
};

DEVICE void sample_open(struct sample_lists *l, uint8_t *scratch, const uint32_t n_vocab)
{
    const uint32_t blocks = SAMPLE_BLOCKS(n_vocab);
    l->sorted = sample_sorted(scratch, n_vocab);
    l->heads = (uint64_t *)(void *)(lds() + SAMPLE_LDS_WORK(n_vocab));
    l->scale = (double *)(void *)(l->heads + SAMPLE_HEADS(n_vocab));
    l->low = (uint32_t *)(void *)(l->scale + blocks);
    l->high = l->low + blocks;
    l->mass = (double *)(void *)(l->high + blocks);
    l->rank = (uint32_t *)(void *)(l->mass + SAMPLE_PIVOTS * blocks);
}

/* The number of keys of a list that are >= pivot, between low and high. */
DEVICE uint32_t sample_rank(const uint64_t *list, uint32_t low, uint32_t high, uint64_t pivot)
{
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        const uint32_t above = sample_sorted_at(list, middle) >= pivot;
        low = above ? middle + 1 : low;
        high = above ? high : middle;
    }
    return low;
}

/* The weight of the first n keys of block s. */
DEVICE double sample_weight(const struct sample_lists *l, const uint32_t n_vocab, uint32_t s, uint32_t n)
{
    if (n == 0 || l->what == SAMPLE_COUNT) return (double)n;
    return l->scale[s] * ((const GLOBAL double *)l->running)[s * SAMPLE_BLOCK(n_vocab) + n - 1];
}

/* The sum of mass[blocks], in all lanes of a wave. */
DEVICE double sample_mass(const double *mass, const uint32_t blocks)
{
    double sum = 0;
    for (uint32_t s = lane_id(); s < blocks; s += WAVE) sum += mass[s];
    return sample_wave_sum(sum);
}

/* Selects `what` as the weight; returns the weight of all ranges, from the best key on. */
DEVICE double sample_weigh(struct sample_lists *l, uint32_t what, float best, double inverse, uint8_t *scratch, const uint32_t n_vocab,
                           const uint32_t threads)
{
    l->what = what;
    l->running = sample_running(scratch, n_vocab, what == SAMPLE_SHARP ? SAMPLE_SHARP : SAMPLE_FLAT);
    for (uint32_t s = thread_x(); s < SAMPLE_BLOCKS(n_vocab); s += threads) {
        const float first = sample_value_of(sample_sorted_at(l->sorted, s * SAMPLE_BLOCK(n_vocab)));
        l->scale[s] = sample_exp(((double)first - (double)best) * inverse);
        l->mass[s] = sample_weight(l, n_vocab, s, l->high[s]);
    }
    barrier();
    return sample_mass(l->mass, SAMPLE_BLOCKS(n_vocab));
}

/* Collects every stride-th key of the ranges and sorts them; returns their number. */
DEVICE uint32_t sample_heads(const struct sample_lists *l, uint32_t stride, const uint32_t n_vocab, const uint32_t threads)
{
    const uint32_t blocks = SAMPLE_BLOCKS(n_vocab), waves = threads / WAVE;
    uint32_t *count = &sample_words()[SAMPLE_N_LISTED];
    if (thread_x() == 0) *count = 0;
    barrier();
#pragma unroll 1
    for (uint32_t from = wave_id(); from < blocks; from += 4 * waves) {
        uint32_t longest = 0;
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t s = from + k * waves;
            if (s < blocks) longest = max_u32(longest, l->high[s] - l->low[s]);
        }
        for (uint32_t i = lane_id() * stride; i < longest; i += WAVE * stride) {
            uint64_t key[4];
            for (uint32_t k = 0; k < 4; k++) {
                const uint32_t s = from + k * waves, list = s < blocks ? s : 0, at = l->low[list] + i;
                key[k] = s < blocks && at < l->high[list] ? sample_sorted_at(l->sorted, list * SAMPLE_BLOCK(n_vocab) + at) : 0;
            }
            for (uint32_t k = 0; k < 4; k++)
                if (key[k] > 0) l->heads[sample_count(count, 1)] = key[k];
        }
    }
    barrier();
    const uint32_t n = *count;
    uint32_t size = 2;
    while (size < n) size *= 2;
    for (uint32_t i = n + thread_x(); i < size; i += threads) l->heads[i] = 0;
    sample_sort(l->heads, size, threads);
    return n;
}

/* The index of pivot p among n heads. */
DEVICE uint32_t sample_pivot(uint32_t n, uint32_t p) { return (p + 1) * n / (SAMPLE_PIVOTS + 1); }

/* Narrows the ranges to the part between two of the pivots, which are taken from n heads; returns the weight above the ranges. */
DEVICE double sample_narrow(const struct sample_lists *l, uint32_t n, uint32_t stride, double above, double asked, uint32_t or_equal,
                            const uint32_t n_vocab, const uint32_t threads)
{
    const uint32_t blocks = SAMPLE_BLOCKS(n_vocab), all = SAMPLE_PIVOTS * blocks;
    double *sums = sample_sums();
    uint32_t *counts = (uint32_t *)(void *)l->mass;        /* of the heads from one pivot to the next, by block */
    for (uint32_t i = thread_x(); i < all; i += threads) counts[i] = 0;
    barrier();
    for (uint32_t i = thread_x(); i < n; i += threads) {
        uint32_t p = 0;
        while (p < SAMPLE_PIVOTS && sample_pivot(n, p) < i) p++;
        if (p < SAMPLE_PIVOTS) sample_count(&counts[p * blocks + sample_id_of(l->heads[i]) / SAMPLE_BLOCK(n_vocab)], 1);
    }
    barrier();
#pragma unroll 1
    for (uint32_t i = thread_x(); i < all; i += threads) {
        const uint32_t s = i % blocks;
        uint32_t heads = 0;
        for (uint32_t k = s; k <= i; k += blocks) heads += counts[k];
        const uint32_t low = l->low[s], end = low + heads * stride, high = end < l->high[s] ? end : l->high[s];
        l->rank[i] = sample_rank(l->sorted + s * SAMPLE_BLOCK(n_vocab), heads > 0 ? end - stride + 1 : low, high,
                                 l->heads[sample_pivot(n, i / blocks)]);
    }
    barrier();
    for (uint32_t i = thread_x(); i < all; i += threads) l->mass[i] = sample_weight(l, n_vocab, i % blocks, l->rank[i]);
    barrier();
    for (uint32_t p = wave_id(); p < SAMPLE_PIVOTS; p += threads / WAVE) {
        const double sum = sample_mass(l->mass + p * blocks, blocks);
        if (lane_id() == 0) sums[p] = sum;
    }
    barrier();
    uint32_t first = 0;                          /* the first pivot that reaches the target */
    for (uint32_t p = 0; p < SAMPLE_PIVOTS; p++) first += first == p && !(sums[p] > asked || (or_equal && sums[p] == asked));
    for (uint32_t s = thread_x(); s < blocks; s += threads) {
        if (first < SAMPLE_PIVOTS) l->high[s] = l->rank[first * blocks + s];
        if (first > 0) l->low[s] = l->rank[(first - 1) * blocks + s];
    }
    above = first > 0 ? sums[first - 1] : above;
    barrier();
    return above;
}

/* The first token, best first, at which the weight of all tokens from the best on exceeds `asked` (or_equal: reaches it).  The ranges must
 * begin at 0; afterwards they end after this token. */
DEVICE uint64_t sample_select(const struct sample_lists *l, double asked, uint32_t or_equal, float best, double inverse,
                              const uint32_t n_vocab, const uint32_t threads)
{
    const uint32_t blocks = SAMPLE_BLOCKS(n_vocab), room = SAMPLE_HEADS(n_vocab);
    double above = 0, rest;
    uint32_t n;
    for (uint32_t s = thread_x(); s < blocks; s += threads) l->low[s] = 0;
    barrier();
#pragma unroll 1
    for (;;) {
        uint32_t left = 0;
        for (uint32_t s = lane_id(); s < blocks; s += WAVE) left += l->high[s] - l->low[s];
        left = lanes_sum_u32(left, WAVE);
        const uint32_t stride = left <= room ? 1 : (left + room - blocks - 1) / (room - blocks);
        n = sample_heads(l, stride, n_vocab, threads);
        if (stride == 1) break;
        above = sample_narrow(l, n, stride, above, asked, or_equal, n_vocab, threads);
    }
    for (uint32_t i = thread_x(); i < n; i += threads)
        l->mass[i] = l->what == SAMPLE_COUNT ? 1 : sample_exp(((double)sample_value_of(l->heads[i]) - (double)best) * inverse);
    barrier();
    const uint32_t found = sample_find(l->mass, n, 0, asked - above, or_equal, &rest);
    for (uint32_t s = thread_x(); s < blocks; s += threads) l->high[s] = l->low[s];
    barrier();
    for (uint32_t i = thread_x(); i <= found; i += threads) sample_count(&l->high[sample_id_of(l->heads[i]) / SAMPLE_BLOCK(n_vocab)], 1);
    barrier();
    return l->heads[found];
}

/* Draws with any options that depend on the order of logits.  Known to all threads. */
DEVICE uint32_t sample_ordered(const struct sample_chain *c, uint8_t *scratch, const uint32_t n_vocab, const uint32_t threads)
{
    const uint32_t block = SAMPLE_BLOCK(n_vocab);
    struct sample_lists l;
    uint64_t key = 0;
    sample_open(&l, scratch, n_vocab);
    for (uint32_t s = thread_x(); s < SAMPLE_BLOCKS(n_vocab); s += threads) {
        const uint32_t left = n_vocab - s * block;
        l.high[s] = left < block ? left : block;
    }
    barrier();
#pragma unroll 1
    for (uint32_t stage = 0; stage < 3; stage++) {         /* top-k; top-p; the bound and the draw */
        const uint32_t what = stage == 0 ? SAMPLE_COUNT : stage == 1 ? SAMPLE_FLAT : SAMPLE_SHARP;
        if (what == SAMPLE_COUNT && c->k == 0) continue;
        if (what == SAMPLE_FLAT && !(c->top_p < 1)) continue;
        if (what == SAMPLE_SHARP && c->bound > -__builtin_inff())
            for (uint32_t s = thread_x(); s < SAMPLE_BLOCKS(n_vocab); s += threads)
                l.high[s] = sample_rank(l.sorted + s * block, 0, l.high[s], (uint64_t)order_of_f32(c->bound) << 24);
        const double inverse = what == SAMPLE_SHARP ? c->inverse : 1;
        const double total = sample_weigh(&l, what, c->best, inverse, scratch, n_vocab, threads);
        const double asked = what == SAMPLE_COUNT ? (double)c->k : what == SAMPLE_FLAT ? (double)c->top_p * total : c->unit * total;
        key = sample_select(&l, asked, what != SAMPLE_SHARP, c->best, inverse, n_vocab, threads);
    }
    return sample_id_of(key);
}

/* ---- the kernel ---- */

/* Stores min-p's bound in the word SAMPLE_BOUND and, without top-k, gives all threads the sum over the vocabulary. */
DEVICE void sample_prepare(struct sample_chain *c, const struct sample_step *step, uint8_t *scratch, const uint32_t n_vocab,
                           const uint32_t threads)
{
    if (thread_x() == 0) {
        float bound = -__builtin_inff();
        if (step->min_p > 0) bound = c->best + (step->min_p < 1 ? (float)sample_log((double)step->min_p) : 0.0f);
        sample_words()[SAMPLE_BOUND] = bits_of_f32(bound);
    }
    c->total = c->k == 0 && c->top_p < 1 ? sample_total(scratch, SAMPLE_BINS, c->best, 0, n_vocab, threads) : 0;
    barrier();
    c->bound = f32_of_bits(sample_words()[SAMPLE_BOUND]);
}

DEVICE uint32_t sample_draw(struct sample_step *step, const float *logits, uint8_t *scratch, const uint32_t n_vocab, const uint32_t threads)
{
    const uint64_t best = sample_best(scratch, n_vocab, threads);
    const uint32_t value = (uint32_t)(best >> 24);
    if (value > SAMPLE_KEY_INFINITE) return FORGE_GPU_NOT_FINITE;
    const struct sample_chances o = step->chances;
    if (!(o.temp > 0) || value <= SAMPLE_KEY_NEGATIVE || value >= SAMPLE_KEY_INFINITE) return sample_id_of(best);
    struct sample_chain c;
    c.best = sample_value_of(best);
    c.top_p = o.top_p;
    c.k = sample_has_top_k(o, n_vocab) ? (uint32_t)o.top_k : 0;
    c.inverse = 1.0 / (double)o.temp;
    c.unit = sample_random(step->random);
    sample_prepare(&c, step, scratch, n_vocab, threads);
    if (c.k == 0 && !(c.top_p < 1)) return sample_by_id(&c, logits, scratch, n_vocab, threads);
    const uint32_t in_order = sample_orders(o, n_vocab);
    if (!in_order || c.k == 0) {
        const uint32_t token = sample_listed(&c, logits, scratch, n_vocab, threads);
        if (token != SAMPLE_NOTHING || n_vocab <= SAMPLE_LIST) return token;
    }
    if (!in_order) {
        for (uint32_t b = 0; b < SAMPLE_BLOCKS(n_vocab); b++) sample_order(logits, c.inverse, n_vocab, scratch, b, threads);
        stores_done();
        barrier();
        acquire();
    }
    return sample_ordered(&c, scratch, n_vocab, threads);
}

/* Stores the token at its position, advances the random state and the counts of *step, and informs the host last.  Steps that are already
 * queued read the history, so it gets a token even if the draw failed. */
DEVICE void sample_finish(struct forge_gpu_step *step, const struct sample_step *was, uint32_t token, const uint32_t n_ctx)
{
    const uint32_t at = was->n_past + was->n_tokens, number = was->n_drawn + 1;
    if (at <= n_ctx) ((GLOBAL int32_t *)was->history)[at] = token == FORGE_GPU_NOT_FINITE ? 0 : (int32_t)token;
    step->n_past = at;
    step->n_tokens = 1;
    step->n_logits = 1;
    step->slot = 0;
    step->n_drawn = was->n_drawn + was->n_draws;
    step->collective_base = was->collective_base;
    if (was->row) {
        ((GLOBAL struct forge_gpu_row *)was->row)->n_past = at;
        ((GLOBAL struct forge_gpu_row *)was->row)->token = token == FORGE_GPU_NOT_FINITE ? 0 : (int32_t)token;
    }
    step->random[0] = was->random[0];
    step->random[1] = was->random[1];
    step->random[2] = was->random[2];
    step->random[3] = was->random[3];
    ((volatile GLOBAL uint64_t *)was->ring)[number % FORGE_GPU_RING] = (uint64_t)number << 32 | token;
}

DEVICE struct sample_step sample_step_of(const struct forge_gpu_step *step)
{
    const struct sample_step was = { step->n_past, step->n_tokens, step->n_drawn, step->n_draws, step->history, step->ring, step->row,
                                     { step->temp, step->top_p, step->top_k }, step->min_p,
                                     { step->random[0], step->random[1], step->random[2], step->random[3] },
                                     step->collective_base + step->collectives };
    return was;
}

/* Draws the token that follows the step from the logits of its last token, and advances *step to the decode step of that token.  In a
 * launch of several sequences, row r draws from row r of the logits by a.step[r], with its own scratch and counters.  The random state
 * advances as in sample.c, which does not use it if temp <= 0.  If logits are NaN or infinite before biases and penalties, the result is
 * FORGE_GPU_NOT_FINITE.  Called after pdl_wait() by all threads.
 * logits: [n_vocab <= SAMPLE_MAX_VOCAB] f32 in the arena, changed by biases, penalties and the mask, which sets forbidden tokens to minus
 * infinity.  scratch: SAMPLE_SCRATCH_BYTES of the arena, 16-byte aligned.
 * counters: SAMPLE_COUNTERS u32, 0 before and after.  The launch has `groups` groups of `threads` threads; fastest with
 * SAMPLE_BLOCKS(n_vocab) groups of SAMPLE_BLOCK_SEGMENTS waves.  At most 1024 threads; up to 512 need no more registers than there are.
 * LDS: SAMPLE_LDS_BYTES(n_vocab).  Returns the token in the thread that has it, SAMPLE_ELSEWHERE in others. */
DEVICE uint32_t sample(const struct forge_kernel_args a, float *logits, const uint32_t n_vocab, const uint32_t n_ctx, uint8_t *scratch,
                       uint32_t *counters, const uint32_t groups, const uint32_t threads)
{
    const uint32_t row = group_y();
    struct forge_gpu_step *own = a.step + row;
    logits += (uint64_t)row * n_vocab;
    scratch += (uint64_t)row * SAMPLE_SCRATCH_BYTES(n_vocab, groups);
    sample_segments(logits, own, 0, n_vocab, n_ctx, scratch, groups, threads);
    if (!last_to_arrive(counters + row * SAMPLE_COUNTERS, groups, &sample_words()[SAMPLE_FLAG])) return SAMPLE_ELSEWHERE;
    struct sample_step step = sample_step_of(own);
    const uint32_t token = sample_draw(&step, logits, scratch, n_vocab, threads);
    if (thread_x() > 0) return SAMPLE_ELSEWHERE;
    sample_finish(own, &step, token, n_ctx);
    return token;
}
#endif
