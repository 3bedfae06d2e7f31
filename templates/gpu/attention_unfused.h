/* attention_unfused.h -- attention as four kernels, for `--fuse none`, decode and prefill alike.  Fused kernels are compared with it.
 * Keys and values of the step are in the cache.  A group computes head group_x() of the step's token t: grid_x n_head, grid_y tokens.
 * scores: [n_head][rows][n_ctx] f32; rows: most tokens of a step; the first n_past + n_tokens scores of each row are used.
 * window, ring: kv.h; with a window the first scores of a row are neither written nor read.
 * Rows of K and V are read as in attention_decode_tmpl.c: by ATTENTION_LANES neighbouring lanes, 8 columns each; wider heads 256 columns
 * at a time.  Heads of V may have another size than heads of K. */
#ifndef FORGE_ATTENTION_UNFUSED_H
#define FORGE_ATTENTION_UNFUSED_H
#include "kv.h"
#include "functions.h"

enum { UNFUSED_TURNS = 4 };                      /* most runs of 256 columns in a head */

DEVICE uint32_t unfused_positions(const struct forge_kernel_args a) { return uniform(a.step->n_past) + uniform(a.step->n_tokens); }
/* The first position that token t attends. */
DEVICE uint32_t unfused_begin(const struct forge_kernel_args a, uint32_t t, const uint32_t window)
{
    return window ? kv_window_begin(uniform(a.step->n_past) + t, window) : 0;
}
DEVICE float *unfused_row(float *scores, uint32_t t, const uint32_t rows, const uint32_t n_ctx)
{
    return scores + ((uint64_t)group_x() * rows + t) * n_ctx;
}
/* First of this lane's columns in a turn; lanes beyond head_dim repeat the first columns, and their results are not used. */
DEVICE uint32_t unfused_column(const uint32_t head_dim, const uint32_t turn)
{
    const uint32_t column = (turn * ATTENTION_LANES(head_dim) + lane_id() % ATTENTION_LANES(head_dim)) * 8;
    return column < head_dim ? column : 0;
}
DEVICE uint32_t unfused_idle(const uint32_t head_dim, const uint32_t turn)
{
    return (turn * ATTENTION_LANES(head_dim) + lane_id() % ATTENTION_LANES(head_dim)) * 8 >= head_dim;
}
DEVICE uint32_t unfused_turns(const uint32_t head_dim) { return (head_dim + 255) / 256; }

/* scores = scale * q . k, then softcapped if there is a cap.  q: the token's row, [n_head][head_dim]. */
DEVICE void attention_scores(const struct forge_kernel_args a, float *scores, const float *q, uint32_t t, const uint32_t rows,
                             const uint32_t n_head,
                             const uint32_t n_head_kv, const uint32_t head_dim, const uint32_t n_ctx, const float scale, const float cap,
                             const uint32_t threads, const uint32_t window, const uint32_t ring)
{
    const uint32_t lanes = ATTENTION_LANES(head_dim), slots = threads / lanes, n_kv = unfused_positions(a);
    const uint32_t begin = unfused_begin(a, t, window), kv_head = group_x() / (n_head / n_head_kv);
    float *row = unfused_row(scores, t, rows, n_ctx);
    float mine[UNFUSED_TURNS][8];
    UNROLL
    for (uint32_t turn = 0; turn < unfused_turns(head_dim); turn++)
        UNROLL
        for (uint32_t i = 0; i < 8; i++)
            mine[turn][i] = unfused_idle(head_dim, turn) ? 0.0f : q[group_x() * head_dim + unfused_column(head_dim, turn) + i] * scale;
    for (uint32_t first = begin; first < n_kv; first += slots) {
        const uint32_t p = first + thread_x() / lanes;
        f32x4 k[2];
        float s = 0.0f;
        UNROLL
        for (uint32_t turn = 0; turn < unfused_turns(head_dim); turn++) {
            kv_load(k, kv_k(a), kv_head, kv_row(p < n_kv ? p : begin, ring), unfused_column(head_dim, turn), n_head_kv,
                    kv_rows(n_ctx, ring), head_dim);
            UNROLL
            for (uint32_t i = 0; i < 8; i++) s += mine[turn][i] * k[i / 4][i % 4];
        }
        s = lanes_sum_f32(s, lanes);
        if (cap != 0.0f) s = softcap_f32(s, cap);
        if (p < n_kv && lane_id() % lanes == 0) row[p] = s;
    }
}

/* Sets the scores of positions after the token's own to minus infinity. */
DEVICE void attention_mask(const struct forge_kernel_args a, float *scores, uint32_t t, const uint32_t rows, const uint32_t n_ctx,
                           const uint32_t threads)
{
    float *row = unfused_row(scores, t, rows, n_ctx);
    for (uint32_t p = uniform(a.step->n_past) + t + 1 + thread_x(); p < unfused_positions(a); p += threads) row[p] = -__builtin_inff();
}

/* The sum or maximum over all threads of the group, by LDS. */
DEVICE float unfused_reduce(float x, const uint32_t maximum, const uint32_t threads)
{
    float *all = (float *)(void *)lds();
    x = maximum ? lanes_max_f32(x, WAVE) : lanes_sum_f32(x, WAVE);
    barrier();
    if (lane_id() == 0) all[wave_id()] = x;
    barrier();
    x = all[0];
    for (uint32_t w = 1; w < threads / WAVE; w++) x = maximum ? max_f32(x, all[w]) : x + all[w];
    return x;
}

/* Turns a row of scores into weights with sum 1, or less with sinks ([n_head] scores without a value, or NULL).  LDS:
 * SOFTMAX_LDS_BYTES. */
DEVICE void attention_softmax(const struct forge_kernel_args a, float *scores, const float *sinks, uint32_t t, const uint32_t rows,
                              const uint32_t n_ctx, const uint32_t threads, const uint32_t window)
{
    const uint32_t n_kv = unfused_positions(a), begin = unfused_begin(a, t, window);
    float *row = unfused_row(scores, t, rows, n_ctx);
    float top = -__builtin_inff(), sum = 0.0f;
    for (uint32_t p = begin + thread_x(); p < n_kv; p += threads) top = max_f32(top, row[p]);
    top = unfused_reduce(top, 1, threads);
    const float sink = sinks ? sinks[group_x()] : 0.0f;
    if (sinks) top = max_f32(top, sink);
    for (uint32_t p = begin + thread_x(); p < n_kv; p += threads) {
        const float e = exp2_f32((row[p] - top) * 1.44269504f);
        row[p] = e;
        sum += e;
    }
    sum = unfused_reduce(sum, 0, threads);
    if (sinks) sum += exp2_f32((sink - top) * 1.44269504f);
    const float factor = 1.0f / sum;
    for (uint32_t p = begin + thread_x(); p < n_kv; p += threads) row[p] *= factor;
}

/* out = sum of weight * v.  out: the token's row, [n_head][head_dim]; values: the plane of V, heads of head_dim.  LDS:
 * WEIGHTED_SUM_LDS_BYTES. */
DEVICE void attention_weighted_sum(const struct forge_kernel_args a, float *out, const float *scores, const uint8_t *values, uint32_t t,
                                   const uint32_t rows, const uint32_t n_head, const uint32_t n_head_kv, const uint32_t head_dim,
#ifdef ATTENTION_VIEWS                           /* columns of a row of the plane: more than head_dim if V is a part of K */
                                   const uint32_t row_dim,
#endif
                                   const uint32_t n_ctx, const uint32_t threads, const uint32_t window, const uint32_t ring)
{
    const uint32_t lanes = ATTENTION_LANES(head_dim), slots = threads / lanes, slot = thread_x() / lanes;
    const uint32_t n_kv = unfused_positions(a), kept = kv_rows(n_ctx, ring);
    const float *row = unfused_row((float *)scores, t, rows, n_ctx);
    float *sums = (float *)(void *)lds(), acc[UNFUSED_TURNS][8];
    UNROLL
    for (uint32_t turn = 0; turn < unfused_turns(head_dim); turn++)
        UNROLL
        for (uint32_t i = 0; i < 8; i++) acc[turn][i] = 0.0f;
    for (uint32_t p = unfused_begin(a, t, window) + slot; p < n_kv; p += slots) {
        const float weight = row[p];
        UNROLL
        for (uint32_t turn = 0; turn < unfused_turns(head_dim); turn++) {
            f32x4 v[2];
#ifdef ATTENTION_VIEWS
            kv_load(v, values, group_x() / (n_head / n_head_kv), kv_row(p, ring), unfused_column(head_dim, turn), n_head_kv, kept,
                    row_dim);
#else
            kv_load(v, values, group_x() / (n_head / n_head_kv), kv_row(p, ring), unfused_column(head_dim, turn), n_head_kv, kept,
                    head_dim);
#endif
            UNROLL
            for (uint32_t i = 0; i < 8; i++) acc[turn][i] += weight * v[i / 4][i % 4];
        }
    }
    UNROLL
    for (uint32_t turn = 0; turn < unfused_turns(head_dim); turn++)
        UNROLL
        for (uint32_t i = 0; i < 8; i++)
            if (!unfused_idle(head_dim, turn)) sums[slot * head_dim + unfused_column(head_dim, turn) + i] = acc[turn][i];
    barrier();
    for (uint32_t c = thread_x(); c < head_dim; c += threads) {
        float sum = 0.0f;
        for (uint32_t s = 0; s < slots; s++) sum += sums[s * head_dim + c];
        out[group_x() * head_dim + c] = sum;
    }
}
#endif
