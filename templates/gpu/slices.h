/* slices.h -- products with some matrices of a stack, such as experts: the matrices that a token uses, an input that is cut into a piece
 * for each, and the combination of the results.  (Shazeer et al. 2017, arXiv:1701.06538; DeepSeek-AI 2024, arXiv:2412.19437)
 *
 * A choice is a row of 2 * used floats: the shares of the experts that the token uses, then their numbers, best first. */
#ifndef FORGE_SLICES_H
#define FORGE_SLICES_H
#include "launch.h"
#include "acts.h"
#include "slices_sizes.h"

/* ---- the choice ---- */

/* The number of expert l of the choice in lane l; lanes after the last have the last one's. */
DEVICE uint32_t picked_ids(const float *choice, const uint32_t used)
{
    return (uint32_t)((const GLOBAL float *)choice)[used + (lane_id() < used ? lane_id() : used - 1)];
}
/* The number of expert k of the choice. */
DEVICE uint32_t picked_id(const float *choice, const uint32_t used,
                          uint32_t k) { return (uint32_t)((const GLOBAL float *)choice)[used + k]; }
/* The share of expert l of the choice in lane l, times that expert's factor if `times` (one for each expert) is not NULL; 0 in lanes after
 * the last. */
DEVICE float picked_shares(const float *choice, const float *times, const uint32_t used)
{
    const uint32_t k = lane_id() < used ? lane_id() : used - 1;
    float share = ((const GLOBAL float *)choice)[k];
    if (times) share *= ((const GLOBAL float *)times)[picked_id(choice, used, k)];
    return lane_id() < used ? share : 0.0f;
}

/* ---- the input ---- */

/* Columns 4 e .. of a row of concatenated pieces of `cols` columns; e counts each piece as filled up to whole units. */
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
/* Stores a row of pieces in LDS (gemv_sizes.h), as a row of pieces * 64 * ACTS_UNITS(cols) columns; with weighted 1, piece k is multiplied
 * by lane k's share.  row: 16-byte aligned.  digits 0: floats. */
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

/* A wave chooses the experts of a token: lane l has `each` experts from l * each on. */
#define ROUTE_EACH(experts) (((experts) + WAVE - 1) / WAVE)
#define ROUTE_NONE (-3.0e38f)                    /* below the score of every expert */

/* A share before a softmax is divided by its sum.  gating: 1: softmax, 2: sigmoid, 3: softmax of the chosen experts. */
DEVICE float route_share(float x, float top, const uint32_t gating)
{
    return gating == 2 ? rcp_f32(1.0f + exp2_f32(-1.44269504f * x)) : exp2_f32((x - top) * 1.44269504f);
}
/* Maximum and sum of a softmax over all experts; x: the lane's logits. */
struct route_sums { float top, whole; };
DEVICE struct route_sums route_sums(const float *x, const uint32_t experts)
{
    const uint32_t first = lane_id() * ROUTE_EACH(experts);
    struct route_sums s = { ROUTE_NONE, 0.0f };
    UNROLL
    for (uint32_t i = 0; i < ROUTE_EACH(experts); i++) s.top = max_f32(s.top, x[i]);
    s.top = lanes_max_f32(s.top, WAVE);
    UNROLL
    for (uint32_t i = 0; i < ROUTE_EACH(experts); i++) s.whole += first + i < experts ? route_share(x[i], s.top, 1) : 0.0f;
    s.whole = lanes_sum_f32(s.whole, WAVE);
    return s;
}
/* Loads the lane's part of a row with one number per expert, 16-byte aligned; entries after the last expert repeat it. */
DEVICE void route_load(float *x, const float *row, const uint32_t experts)
{
    const uint32_t first = lane_id() * ROUTE_EACH(experts);
    if (experts % (4 * WAVE) == 0) {
        UNROLL
        for (uint32_t i = 0; i < ROUTE_EACH(experts); i += 4) {
            const f32x4 v = *(const GLOBAL f32x4 *)(const void *)(row + first + i);
            UNROLL
            for (uint32_t k = 0; k < 4; k++) x[i + k] = v[k];
        }
        return;
    }
    UNROLL
    for (uint32_t i = 0; i < ROUTE_EACH(experts); i++)
        x[i] = ((const GLOBAL float *)row)[first + i < experts ? first + i : experts - 1];
}

/* Keeps the experts of the groups with the largest sums of their two best scores and masks the others.  One lane per group, at most WAVE
 * groups.  scratch: LDS of the wave, [experts]. */
DEVICE void route_groups(float *select, float *scratch, const uint32_t experts, const uint32_t groups, const uint32_t used)
{
    const uint32_t size = experts / groups, first = lane_id() * ROUTE_EACH(experts);
    float one = ROUTE_NONE, two = ROUTE_NONE, sum = ROUTE_NONE;
    uint32_t kept = 0;
    UNROLL
    for (uint32_t i = 0; i < ROUTE_EACH(experts); i++) if (first + i < experts) scratch[first + i] = select[i];
    wave_barrier();
    for (uint32_t k = 0; lane_id() < groups && k < size; k++) {
        const float x = scratch[lane_id() * size + k];
        if (x > one) two = one, one = x;
        else if (x > two) two = x;
    }
    if (lane_id() < groups) sum = one + two;
    for (uint32_t k = 0; k < used; k++) {
        const uint32_t order = order_of_f32(sum);
        if (wave_first(order == wave_max_u32(order)) == lane_id()) kept = 1, sum = ROUTE_NONE;
    }
    UNROLL
    for (uint32_t i = 0; i < ROUTE_EACH(experts); i++) {
        const uint32_t of = (first + i) / size;
        if (!lane_get_u32(kept, of < groups ? of : 0)) select[i] = ROUTE_NONE;
    }
}

/* Chooses experts by the logits of a token: lane l gets the number of expert l of the choice, lanes after the last the last one's; of equal
 * scores the lower number comes first.  bias: [experts], added for the selection only, or NULL; without bias and groups the logits select,
 * because they have the order of the shares.  At most ROUTE_MOST experts, of which at most ROUTE_MOST_USED are used.  scratch:
 * ROUTE_LDS_BYTES of the wave. */
DEVICE uint32_t route_ids(const float *logits, const float *bias, uint8_t *scratch, const uint32_t experts, const uint32_t used,
                          const uint32_t gating, const uint32_t groups, const uint32_t groups_used)
{
    const uint32_t each = ROUTE_EACH(experts), first = lane_id() * each;
    float select[ROUTE_EACH(ROUTE_MOST)], more[ROUTE_EACH(ROUTE_MOST)];
    uint32_t order[ROUTE_EACH(ROUTE_MOST)], id = 0;
    route_load(select, logits, experts);
    if (bias) route_load(more, bias, experts);
    if (gating != 3 && (bias || groups > 1)) {
        const struct route_sums s = gating == 1 ? route_sums(select, experts) : (struct route_sums){ 0.0f, 1.0f };
        UNROLL
        for (uint32_t i = 0; i < each; i++) select[i] = route_share(select[i], s.top, gating) / s.whole;
    }
    UNROLL
    for (uint32_t i = 0; i < each && bias; i++) select[i] += more[i];
    if (groups > 1) route_groups(select, (float *)(void *)scratch, experts, groups, groups_used);
    UNROLL
    for (uint32_t i = 0; i < each; i++) order[i] = first + i < experts ? order_of_f32(select[i]) : 0;
    for (uint32_t k = 0; k < used; k++) {
        uint32_t best = 0, at = 0;
        UNROLL
        for (uint32_t i = 0; i < each; i++) best = max_u32(best, order[i]);
        const uint32_t most = wave_max_u32(best), lane = wave_first(best == most);
        UNROLL
        for (uint32_t i = 0; i < each; i++) if (order[each - 1 - i] == most) at = each - 1 - i;
        UNROLL
        for (uint32_t i = 0; i < each; i++) if (lane_id() == lane && at == i) order[i] = 0;
        const uint32_t number = lane_of_wave_u32(first + at, lane);
        if (lane_id() >= k) id = number;
    }
    return id;
}
/* Stores the choice: lane l's expert and its share.  norm: shares are divided by their sum, at least 2^-14; by: multiplies them. */
DEVICE void route_store(float *choice, const float *logits, uint32_t id, const uint32_t experts, const uint32_t used,
                        const uint32_t gating, const uint32_t norm, const float by)
{
    float x[ROUTE_EACH(ROUTE_MOST)];
    const float mine = ((const GLOBAL float *)logits)[id];
    struct route_sums s = { mine, 1.0f };
    if (gating == 1) {
        route_load(x, logits, experts);
        s = route_sums(x, experts);
    }
    if (gating == 3) s.top = lanes_max_f32(mine, WAVE);
    const float share = route_share(mine, s.top, gating) / s.whole, total = lanes_sum_f32(lane_id() < used ? share : 0.0f, WAVE);
    const float divisor = gating == 3 ? total : norm ? max_f32(total, 6.103515625e-5f) : 1.0f;
    if (lane_id() >= used) return;
    ((GLOBAL float *)choice)[lane_id()] = share / divisor * by;
    ((GLOBAL float *)choice)[used + lane_id()] = (float)id;
}
/* Chooses and stores, by one wave per token. */
DEVICE void route_token(float *choice, const float *logits, const float *bias, uint8_t *scratch, const uint32_t experts,
                        const uint32_t used, const uint32_t gating, const uint32_t groups, const uint32_t groups_used,
                        const uint32_t norm, const float by)
{
    const uint32_t id = route_ids(logits, bias, scratch, experts, used, gating, groups, groups_used);
    route_store(choice, logits, id, experts, used, gating, norm, by);
}

/* For kernels that choose experts and use them: the first wave of every group chooses and stores the numbers at byte `at` of LDS,
 * ROUTE_IDS_BYTES; its scratch follows.  Called by every thread; returns what picked_ids() would. */
DEVICE uint32_t *route_ids_at(const uint32_t at) { return (uint32_t *)(void *)(lds() + at); }
DEVICE uint32_t route_group(const uint32_t at, const float *logits, const float *bias, const uint32_t experts, const uint32_t used,
                            const uint32_t gating, const uint32_t groups, const uint32_t groups_used)
{
    if (wave_id() == 0) {
        const uint32_t id = route_ids(logits, bias, lds() + at + ROUTE_IDS_BYTES(used), experts, used, gating, groups, groups_used);
        if (lane_id() < used) route_ids_at(at)[lane_id()] = id;
    }
    barrier();
    return route_ids_at(at)[lane_id() < used ? lane_id() : used - 1];
}
/* Stores the choice for later kernels; done by the wave of the grid with the fewest rows. */
DEVICE void route_keep(float *choice, const float *logits, uint32_t id, const uint32_t experts, const uint32_t used, const uint32_t gating,
                       const uint32_t norm, const float by, const uint32_t groups, const uint32_t threads)
{
    if (group_x() == groups - 1 && wave_id() == threads / WAVE - 1) route_store(choice, logits, id, experts, used, gating, norm, by);
}

/* ---- prefill: the tokens of each expert ---- */

/* One group for each expert group_x(), over tokens t0 .. n_tokens - 1 of a step: picked[expert][most] gets the entries (token * used + k)
 * that chose the expert, in order, and n_picked[expert] their number.  choice: row of token 0. */
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

/* ---- combining the results ---- */

/* Column r of the sum of the experts' rows, each of `rows` columns, times their shares. */
DEVICE float picked_sum(const float *x, const float *choice, uint32_t r, const uint32_t rows, const uint32_t used)
{
    float sum = 0.0f;
    for (uint32_t k = 0; k < used; k++) sum += ((const GLOBAL float *)choice)[k] * ((const GLOBAL float *)x)[k * rows + r];
    return sum;
}
/* The same for the experts' biases: rows `stride` floats apart; times: a factor for each expert, or NULL. */
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
/* Element r of the row of expert `id`; rows are `stride` floats apart. */
DEVICE float picked_row(const float *of, uint32_t id, uint32_t r, const uint32_t stride)
{
    return ((const GLOBAL float *)of)[(uint64_t)id * stride + r];
}
#endif
