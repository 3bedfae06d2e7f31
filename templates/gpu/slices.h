/* slices.h -- products with matrices of a stack, as those of experts: which of them a token picks, the input that is cut into a piece for
 * each, and what becomes of their rows.  (Shazeer et al. 2017, arXiv:1701.06538; DeepSeek-AI 2024, arXiv:2412.19437)
 *
 * A choice is a row of 2 * used floats: the shares of the experts that the token uses, then their numbers, best first. */
#ifndef FORGE_SLICES_H
#define FORGE_SLICES_H
#include "launch.h"
#include "acts.h"
#include "slices_sizes.h"

/* ---- which ---- */

/* Lane l's is the number of the lth expert; lanes beyond the last one have that of the last. */
DEVICE uint32_t picked_ids(const float *choice, const uint32_t used)
{
    return (uint32_t)((const GLOBAL float *)choice)[used + (lane_id() < used ? lane_id() : used - 1)];
}
/* The kth expert's number. */
DEVICE uint32_t picked_id(const float *choice, const uint32_t used,
                          uint32_t k) { return (uint32_t)((const GLOBAL float *)choice)[used + k]; }
/* Lane l's is the share of the lth expert, times the factor of that expert where times is one for each; 0 in lanes beyond. */
DEVICE float picked_shares(const float *choice, const float *times, const uint32_t used)
{
    const uint32_t k = lane_id() < used ? lane_id() : used - 1;
    float share = ((const GLOBAL float *)choice)[k];
    if (times) share *= ((const GLOBAL float *)times)[picked_id(choice, used, k)];
    return lane_id() < used ? share : 0.0f;
}

/* ---- the input ---- */

/* Columns 4 e .. of pieces of `cols` columns that stand one behind the other in the row, each filled up to whole units in e's numbering. */
DEVICE f32x4 piece_quad(const float *row, uint32_t e, const uint32_t cols, const uint32_t pieces)
{
    const uint32_t quads = 16 * ACTS_UNITS(cols), piece = e / quads, at = e % quads * 4;
    const GLOBAL float *from = (const GLOBAL float *)row + (uint64_t)piece * cols + at;
    f32x4 v = { 0, 0, 0, 0 };
    if (piece >= pieces) return v;
    if (cols % 4 == 0) return at < cols ? *(const GLOBAL f32x4 *)(const void *)from : v;
    if (at + 0 < cols) v.x = from[0];
    if (at + 1 < cols) v.y = from[1];
    if (at + 2 < cols) v.z = from[2];
    if (at + 3 < cols) v.w = from[3];
    return v;
}
/* A row of pieces into LDS (gemv_sizes.h), as a row of pieces * 64 * ACTS_UNITS(cols) columns; with weighted 1 piece k times what lane k
 * has as share.
 * row: 16-byte aligned.  digits 0: floats. */
DEVICE void slices_to_lds(uint8_t *x_lds, const float *row, float share, const uint32_t weighted, const uint32_t cols,
                          const uint32_t pieces, const uint32_t digits, const uint32_t sums16, const uint32_t threads)
{
    const uint32_t all = pieces * 64 * ACTS_UNITS(cols), quads = 16 * ACTS_UNITS(cols);
    row_put_end(x_lds, all, digits, sums16);
#pragma unroll 1
    for (uint32_t first = 0; first * threads < 16 * ACTS_UNITS(all); first += ROW_QUADS) {
        struct row_quads q;
        UNROLL
        for (uint32_t i = 0; i < ROW_QUADS; i++) {
            const uint32_t e = (first + i) * threads + row_thread(threads), piece = e / quads;
            q.v[i] = (f32x4)(0.0f);
            if ((first + i) * threads >= 16 * ACTS_UNITS(all)) continue;
            q.v[i] = piece_quad(row, e, cols, pieces);
            if (weighted) q.v[i] *= f32_of_bits(lane_get_u32(bits_of_f32(share), piece < pieces ? piece : pieces - 1));
        }
        row_put(x_lds, &q, 1.0f, (const struct row_quads *)0, first, all, digits, sums16, threads);
    }
    barrier();
}

/* ---- the router ---- */

enum { ROUTE_EACH = ROUTE_MOST / WAVE };         /* experts of a lane */
#define ROUTE_NONE (-3.0e38f)                    /* below what any expert can have */

/* What a wave knows of a token's experts: lane l has those l, l + WAVE, .. */
struct route { float share[ROUTE_EACH], select[ROUTE_EACH]; };
/* What lane l knows of those chosen: the lth. */
struct routed { float share; uint32_t number; };

/* The best expert that is left of those whose order is in `order`, which then is 0: in all lanes the same.  Of equals the one with the
 * lower number. */
DEVICE struct routed route_best(const struct route *r, uint32_t *order, const uint32_t experts)
{
    struct routed best = { 0.0f, 0 };
    uint32_t top = 0, at = 0;
    UNROLL
    for (uint32_t i = 0; i * WAVE < experts; i++) if (order[i] > top) top = order[i], best.share = r->share[i], at = i;
    const uint32_t most = wave_max_u32(top), mine = lane_id() + at * WAVE;
    best.number = ~wave_max_u32(top == most ? ~mine : 0);
    best.number = best.number < experts ? best.number : 0;
    best.share = f32_of_bits(lane_get_u32(bits_of_f32(best.share), best.number % WAVE));
    UNROLL
    for (uint32_t i = 0; i * WAVE < experts; i++) if (lane_id() + i * WAVE == best.number) order[i] = 0;
    return best;
}

/* Leaves the experts of the groups whose two best sum to most.  A lane for each group, at most WAVE of them.  scratch: LDS of the wave,
 * [experts]. */
DEVICE void route_groups(struct route *r, float *scratch, const uint32_t experts, const uint32_t groups, const uint32_t used)
{
    const uint32_t size = experts / groups;
    float one = ROUTE_NONE, two = ROUTE_NONE, sum = ROUTE_NONE;
    uint32_t kept = 0;
    UNROLL
    for (uint32_t i = 0; i * WAVE < experts; i++) if (lane_id() + i * WAVE < experts) scratch[lane_id() + i * WAVE] = r->select[i];
    wave_barrier();
    for (uint32_t k = 0; lane_id() < groups && k < size; k++) {
        const float x = scratch[lane_id() * size + k];
        if (x > one) two = one, one = x;
        else if (x > two) two = x;
    }
    if (lane_id() < groups) sum = one + two;
    for (uint32_t k = 0; k < used; k++) {
        float most = sum;
        uint32_t number = lane_id();
        for (uint32_t mask = 1; mask < WAVE; mask *= 2) {
            const float other = lane_xor_f32(most, mask);
            const uint32_t other_number = lane_xor_u32(number, mask);
            if (other > most || (other == most && other_number < number)) most = other, number = other_number;
        }
        if (number == lane_id()) kept = 1, sum = ROUTE_NONE;
    }
    UNROLL
    for (uint32_t i = 0; i * WAVE < experts; i++) {
        const uint32_t of = (lane_id() + i * WAVE) / size;
        if (!lane_get_u32(kept, of < groups ? of : 0)) r->select[i] = ROUTE_NONE;
    }
}

/* Logits of a token -> its choice, by one wave.  gating: 1: softmax, 2: sigmoid, 3: softmax of the chosen ones.  bias: [experts], added
 * to what selects, or NULL.  norm: shares are divided by their sum, at least 2^-14; by: multiplies them.  At most ROUTE_MOST experts, of
 * which at most 32 are used; lanes beyond have share 0 and expert 0.
 * scratch: ROUTE_LDS_BYTES of the wave. */
DEVICE struct routed route_choose(const float *logits, const float *bias, uint8_t *scratch, const uint32_t experts, const uint32_t used,
                                  const uint32_t gating, const uint32_t groups, const uint32_t groups_used, const uint32_t norm,
                                  const float by)
{
    struct route r;
    struct routed mine = { 0.0f, 0 };
    uint32_t order[ROUTE_EACH];
    float top = ROUTE_NONE, sum = 0.0f, total = 0.0f;
    UNROLL
    for (uint32_t i = 0; i * WAVE < experts; i++) {
        const uint32_t e = lane_id() + i * WAVE;
        r.share[i] = ((const GLOBAL float *)logits)[e < experts ? e : experts - 1];
        top = max_f32(top, r.share[i]);
    }
    if (gating != 2) top = lanes_max_f32(top, WAVE);
    UNROLL
    for (uint32_t i = 0; i * WAVE < experts; i++) {
        const float x = r.share[i];
        if (gating == 1) {
            r.share[i] = exp2_f32((x - top) * 1.44269504f);
            if (lane_id() + i * WAVE < experts) sum += r.share[i];
        }
        if (gating == 2) r.share[i] = rcp_f32(1.0f + exp2_f32(-1.44269504f * x));
    }
    const float whole = gating == 1 ? 1.0f / lanes_sum_f32(sum, WAVE) : 1.0f;
    UNROLL
    for (uint32_t i = 0; i * WAVE < experts; i++) {
        const uint32_t e = lane_id() + i * WAVE;
        if (gating == 1) r.share[i] *= whole;
        r.select[i] = r.share[i];
        if (bias) r.select[i] += ((const GLOBAL float *)bias)[e < experts ? e : experts - 1];
    }
    if (groups > 1) route_groups(&r, (float *)(void *)scratch, experts, groups, groups_used);
    UNROLL
    for (uint32_t i = 0; i * WAVE < experts; i++) order[i] = lane_id() + i * WAVE < experts ? order_of_f32(r.select[i]) : 0;
    for (uint32_t k = 0; k < used; k++) {
        struct routed best = route_best(&r, order, experts);
        if (gating == 3) best.share = exp2_f32((best.share - top) * 1.44269504f);
        total += best.share;
        if (lane_id() == k) mine = best;
    }
    mine.share = mine.share / (gating == 3 ? total : norm ? max_f32(total, 6.103515625e-5f) : 1.0f) * by;
    return mine;
}
DEVICE void route_store(float *choice, const struct routed *r, const uint32_t used)
{
    if (lane_id() >= used) return;
    ((GLOBAL float *)choice)[lane_id()] = r->share;
    ((GLOBAL float *)choice)[used + lane_id()] = (float)r->number;
}
DEVICE void route_token(float *choice, const float *logits, const float *bias, uint8_t *scratch, const uint32_t experts,
                        const uint32_t used, const uint32_t gating, const uint32_t groups, const uint32_t groups_used,
                        const uint32_t norm, const float by)
{
    const struct routed r = route_choose(logits, bias, scratch, experts, used, gating, groups, groups_used, norm, by);
    route_store(choice, &r, used);
}

/* Numbers of those chosen, at byte `at` of LDS. */
DEVICE uint32_t *route_ids_at(const uint32_t at) { return (uint32_t *)(void *)(lds() + at); }
/* The same in every wave of a kernel that goes on with what is chosen; gives picked_ids().  The first group stores the choice for later
 * kernels; its own finds the numbers in LDS, behind the next barrier(): ids [used].  scratch: for each wave. */
DEVICE uint32_t route_ids(uint32_t *ids, float *choice, const float *logits, const float *bias, uint8_t *scratch, const uint32_t experts,
                          const uint32_t used, const uint32_t gating, const uint32_t groups, const uint32_t groups_used,
                          const uint32_t norm, const float by)
{
    const struct routed r = route_choose(logits, bias, scratch + wave_id() * ROUTE_LDS_BYTES(experts, groups), experts, used, gating,
                                         groups, groups_used, norm, by);
    if (wave_id() == 0 && group_x() == 0) route_store(choice, &r, used);
    if (wave_id() == 0 && lane_id() < used) ids[lane_id()] = r.number;
    return lane_get_u32(r.number, lane_id() < used ? lane_id() : used - 1);
}

/* ---- prefill: which tokens have an expert ---- */

/* A group for each expert group_x(), over the tokens t0 .. n_tokens - 1 of a step: picked[expert][most] gets the entries, token * used +
 * k, whose choice it is, in their order, and n_picked[expert] how many.  choice: row of token 0. */
DEVICE void picked_list(uint32_t *n_picked, uint32_t *picked, const float *choice, const uint32_t stride, uint32_t t0, uint32_t n_tokens,
                        const uint32_t used, const uint32_t most, const uint32_t threads)
{
    uint32_t *counts = (uint32_t *)(void *)lds(), *list = picked + (uint64_t)group_x() * most;
    const uint32_t n = n_tokens - t0, each = (n + threads - 1) / threads, first = thread_x() * each, end = first + each < n ? first + each
                   : n;
    uint32_t mine = 0, before = 0, all = 0;
    for (uint32_t t = first; t < end; t++)
        for (uint32_t k = 0; k < used; k++) mine += picked_id(choice + (uint64_t)(t0 + t) * stride, used, k) == group_x();
    counts[thread_x()] = mine;
    barrier();
    for (uint32_t i = 0; i < threads; i++) {
        if (i < thread_x()) before += counts[i];
        all += counts[i];
    }
    for (uint32_t t = first; t < end; t++)
        for (uint32_t k = 0; k < used; k++)
            if (picked_id(choice + (uint64_t)(t0 + t) * stride, used, k) == group_x()) ((GLOBAL uint32_t *)list)[before++] = (t0 + t)
                * used + k;
    if (thread_x() == 0) ((GLOBAL uint32_t *)n_picked)[group_x()] = all;
}

/* ---- what becomes of rows ---- */

/* Column r of the sum of experts' rows, each of `rows` columns, times their shares. */
DEVICE float picked_sum(const float *x, const float *choice, uint32_t r, const uint32_t rows, const uint32_t used)
{
    float sum = 0.0f;
    for (uint32_t k = 0; k < used; k++) sum += ((const GLOBAL float *)choice)[k] * ((const GLOBAL float *)x)[k * rows + r];
    return sum;
}
/* The same of what is added to them: rows of biases, `stride` floats apart; times: a factor for each expert, or NULL. */
DEVICE float picked_biases(const float *bias, const float *times, const float *choice, uint32_t r, const uint32_t stride,
                           const uint32_t used)
{
    float sum = 0.0f;
    for (uint32_t k = 0; k < used; k++) {
        const uint32_t id = picked_id(choice, used, k);
        const float share = ((const GLOBAL float *)choice)[k] * (times ? ((const GLOBAL float *)times)[id] : 1.0f);
        sum += share * ((const GLOBAL float *)bias)[(uint64_t)id * stride + r];
    }
    return sum;
}
/* What belongs to row r of the rows of expert `id`: in rows `stride` floats apart. */
DEVICE float picked_row(const float *of, uint32_t id, uint32_t r, const uint32_t stride)
{
    return ((const GLOBAL float *)of)[(uint64_t)id * stride + r];
}
#endif
