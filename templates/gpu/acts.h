/* acts.h -- a row of activations into LDS, where the products of decode read it: as int8 digits with a scale per 32 columns, or as floats.
 * The places of both: gemv_sizes.h.
 *
 * Every function that fills LDS is called by all `threads` threads of the group and ends with barrier(); nobody else may still use those bytes.
 * Columns from cols to the next multiple of 64 are zero.  Rows: f32, 16-byte aligned, written by an earlier kernel. */
#ifndef FORGE_ACTS_H
#define FORGE_ACTS_H
#include "dialect.h"
#include "gemv_sizes.h"
#include "acts_unit.h"

#define ROW_QUADS 8                              /* a thread keeps so many times 4 columns of a row in registers */

/* A thread's part of a row: entry i is columns 4 e .. 4 e + 3, e = i * threads + thread. */
struct row_quads { f32x4 v[ROW_QUADS]; };

/* thread_x(), which the compiler then knows to be below `threads`: where a turn is complete it needs no comparisons. */
DEVICE uint32_t row_thread(const uint32_t threads)
{
    const uint32_t thread = thread_x();
    __builtin_assume(thread < threads);
    return thread;
}

DEVICE f32x4 row_quad(const float *row, uint32_t e, const uint32_t cols)
{
    f32x4 v = { 0, 0, 0, 0 };
    if (4 * e + 4 <= cols) return *((const GLOBAL f32x4 *)row + e);
    if (4 * e + 0 < cols) v.x = ((const GLOBAL float *)row)[4 * e + 0];
    if (4 * e + 1 < cols) v.y = ((const GLOBAL float *)row)[4 * e + 1];
    if (4 * e + 2 < cols) v.z = ((const GLOBAL float *)row)[4 * e + 2];
    return v;
}

/* The quads of turns first .. first + ROW_QUADS - 1, zeros beyond the row. */
DEVICE void row_load(struct row_quads *q, const float *row, uint32_t first, const uint32_t cols, const uint32_t threads)
{
#pragma unroll
    for (uint32_t i = 0; i < ROW_QUADS; i++) {
        if ((first + i) * threads * 4 < cols) q->v[i] = row_quad(row, (first + i) * threads + row_thread(threads), cols);
        else q->v[i] = (f32x4)(0.0f);
    }
}
DEVICE void norm_weight_load(struct row_quads *q, const float *weight, uint32_t first, const uint32_t cols, const uint32_t threads)
{
#pragma unroll
    for (uint32_t i = 0; i < ROW_QUADS; i++) q->v[i] = (f32x4)(1.0f);
    if (weight) row_load(q, weight, first, cols, threads);
}

/* What can be loaded ahead of its use: of the activations after pdl_wait(), of the weights of a norm ([cols] f32, or NULL: all 1) before it. */
DEVICE void row_begin(struct row_quads *q, const float *row, const uint32_t cols, const uint32_t threads) { row_load(q, row, 0, cols, threads); }
DEVICE void norm_begin(struct row_quads *q, const float *weight, const uint32_t cols, const uint32_t threads)
{
    norm_weight_load(q, weight, 0, cols, threads);
}

/* The sum of x over all threads, the same bits in each.  scratch: ACTS_SCRATCH_BYTES, read until the next barrier(). */
DEVICE float group_sum_f32(float x, uint8_t *scratch, const uint32_t threads)
{
    const uint32_t waves = threads / WAVE, fours = waves / 4;
    const f32x4 *sums4 = (const f32x4 *)(const void *)scratch;
    float *sums = (float *)(void *)scratch, sum = 0;
    x = lanes_sum_f32(x, WAVE);
    if (lane_id() == 0) sums[wave_id()] = x;
    barrier();
#pragma unroll
    for (uint32_t i = 0; i < fours; i++) sum += (sums4[i].x + sums4[i].y) + (sums4[i].z + sums4[i].w);
#pragma unroll
    for (uint32_t i = 4 * fours; i < waves; i++) sum += sums[i];
    return sum;
}

/* Low bytes of four integers. */
DEVICE uint32_t bytes_of(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    return byte_perm(byte_perm(a, b, 0x04000400), byte_perm(c, d, 0x04000400), 0x05040100);
}

/* Columns 4 e .. of the row become digits, q = x / d to nearest even.  Eight lanes share a block of 32 columns.  d = max|x| / 127; with two digits / 32639, the
 * largest whose high digit fits; with three / 8355000: x / d is itself rounded, to a whole number more than that at worst.
 * A block below 1e-30, whose 1 / d could overflow, counts as zero. */
DEVICE void acts_put(uint8_t *x_lds, f32x4 v, uint32_t e, const uint32_t cols, const uint32_t digits, const uint32_t sums16)
{
    const float most = digits == 3 ? 8355000.0f : digits == 2 ? 32639.0f : 127.0f;
    const float top = lanes_max_f32(max_f32(max_f32(abs_f32(v.x), abs_f32(v.y)), max_f32(abs_f32(v.z), abs_f32(v.w))), 8);
    const uint32_t zero = top < 1e-30f;
    const float to_q_or_inf = most * rcp_f32(top), to_q = zero ? 0.0f : to_q_or_inf, d = zero ? 0.0f : top * (1.0f / most);
    const float x = round_f32(v.x * to_q), y = round_f32(v.y * to_q), z = round_f32(v.z * to_q), w = round_f32(v.w * to_q);
    const float sum4 = lanes_sum_f32((x + y) + (z + w), 4), sum8 = sum4 + lane_xor_f32(sum4, 4);     /* whole numbers; up to two digits below 2^24: exact */
    if (e >= 16 * ACTS_UNITS(cols)) return;

    const uint32_t qx = (uint32_t)(int32_t)x, qy = (uint32_t)(int32_t)y, qz = (uint32_t)(int32_t)z, qw = (uint32_t)(int32_t)w;
    const uint32_t unit = e / 16, plane_bytes = 16 * ACTS_PLANE_UNITS(cols);
    uint8_t *place = x_lds + ACTS_SCRATCH_BYTES + e / 4 % 4 * plane_bytes + 16 * unit + 4 * (e % 4);
    *(uint32_t *)(void *)place = bytes_of(qx, qy, qz, qw);
    if (digits > 1) *(uint32_t *)(void *)(place + 4 * plane_bytes) = bytes_of((qx + 128) >> 8, (qy + 128) >> 8, (qz + 128) >> 8, (qw + 128) >> 8);
    if (digits > 2) *(uint32_t *)(void *)(place + 8 * plane_bytes) = bytes_of((qx + 32896) >> 16, (qy + 32896) >> 16, (qz + 32896) >> 16, (qw + 32896) >> 16);
    float *scale = (float *)(void *)(x_lds + ACTS_SCALES(cols, digits)) + 4 * unit, *sums = (float *)(void *)(x_lds + ACTS_SUMS(cols, digits)) + 4 * unit;
    if (e % 8 == 0) {
        scale[e / 8 % 2] = d;
        scale[e / 8 % 2 + 2] = d * sum8;
    }
    if (sums16 && e % 4 == 0) sums[e / 4 % 4] = d * sum4;
}

/* The same for a row that stays floats. */
DEVICE void floats_put(uint8_t *x_lds, f32x4 v, uint32_t e, const uint32_t cols)
{
    if (e < 16 * ACTS_UNITS(cols)) *(f32x4 *)(void *)(x_lds + ACTS_SCRATCH_BYTES + e % 2 * FLOATS_PLANE_BYTES(cols) + e / 2 * 16) = v;
}

/* What lanes without columns of their own read. */
DEVICE void row_put_end(uint8_t *x_lds, const uint32_t cols, const uint32_t digits, const uint32_t sums16)
{
    const f32x4 zero = { 0, 0, 0, 0 };
    const uint32_t units = ACTS_UNITS(cols);
    if (thread_x() < 4 * digits) *(f32x4 *)(void *)(x_lds + ACTS_SCRATCH_BYTES + 16 * (thread_x() * ACTS_PLANE_UNITS(cols) + units)) = zero;
    if (thread_x() != 0) return;
    if (digits == 0) {
        *(f32x4 *)(void *)(x_lds + ACTS_SCRATCH_BYTES + 128 * units) = zero;
        *(f32x4 *)(void *)(x_lds + ACTS_SCRATCH_BYTES + FLOATS_PLANE_BYTES(cols) + 128 * units) = zero;
    } else {
        *(f32x4 *)(void *)(x_lds + ACTS_SCALES(cols, digits) + 16 * units) = zero;
        if (sums16) *(f32x4 *)(void *)(x_lds + ACTS_SUMS(cols, digits) + 16 * units) = zero;
    }
}

/* The turns first .. of a row that q holds, times factor and, where w is not NULL, times w. */
DEVICE void row_put(uint8_t *x_lds, const struct row_quads *q, float factor, const struct row_quads *w, uint32_t first, const uint32_t cols,
                    const uint32_t digits, const uint32_t sums16, const uint32_t threads)
{
#pragma unroll
    for (uint32_t i = 0; i < ROW_QUADS; i++) {
        const uint32_t e = (first + i) * threads + row_thread(threads);
        if ((first + i) * threads >= 16 * ACTS_UNITS(cols)) continue;
        const f32x4 v = w ? q->v[i] * factor * w->v[i] : q->v[i] * factor;
        if (digits == 0) floats_put(x_lds, v, e, cols);
        else acts_put(x_lds, v, e, cols, digits, sums16);
    }
}

/* The row into LDS; q: as row_begin() left it.  digits 0: as floats. */
DEVICE void row_to_lds(uint8_t *x_lds, const struct row_quads *q, const float *row, const uint32_t cols, const uint32_t digits, const uint32_t sums16,
                       const uint32_t threads)
{
    row_put_end(x_lds, cols, digits, sums16);
    row_put(x_lds, q, 1.0f, (const struct row_quads *)0, 0, cols, digits, sums16, threads);
#pragma unroll 1
    for (uint32_t first = ROW_QUADS; first * threads < 16 * ACTS_UNITS(cols); first += ROW_QUADS) {
        struct row_quads more;
        row_load(&more, row, first, cols, threads);
        row_put(x_lds, &more, 1.0f, (const struct row_quads *)0, first, cols, digits, sums16, threads);
    }
    barrier();
}

/* The same after RMS norm: x / sqrt(mean(x^2) + eps) * weight  (Zhang & Sennrich 2019, arXiv:1910.07467).
 * w: as norm_begin() left it for the same weight. */
DEVICE void norm_to_lds(uint8_t *x_lds, const struct row_quads *q, const float *row, const struct row_quads *w, const float *weight, const uint32_t cols,
                        const float eps, const uint32_t digits, const uint32_t sums16, const uint32_t threads)
{
    float squares = 0;
#pragma unroll
    for (uint32_t i = 0; i < ROW_QUADS; i++) squares += q->v[i].x * q->v[i].x + q->v[i].y * q->v[i].y + q->v[i].z * q->v[i].z + q->v[i].w * q->v[i].w;
#pragma unroll 1
    for (uint32_t e = ROW_QUADS * threads + row_thread(threads); 4 * e < cols; e += threads) {
        const f32x4 v = row_quad(row, e, cols);
        squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    const float factor = rsqrt_f32(group_sum_f32(squares, x_lds, threads) * (1.0f / (float)cols) + eps);

    row_put_end(x_lds, cols, digits, sums16);
    row_put(x_lds, q, factor, w, 0, cols, digits, sums16, threads);
#pragma unroll 1
    for (uint32_t first = ROW_QUADS; first * threads < 16 * ACTS_UNITS(cols); first += ROW_QUADS) {
        struct row_quads more, more_weight;
        row_load(&more, row, first, cols, threads);
        norm_weight_load(&more_weight, weight, first, cols, threads);
        row_put(x_lds, &more, factor, &more_weight, first, cols, digits, sums16, threads);
    }
    barrier();
}

/* In one call, when nothing was begun.  x_lds: ACTS_BYTES(cols, digits, sums16). */
DEVICE void acts_of_row(uint8_t *x_lds, const float *row, const uint32_t cols, const uint32_t digits, const uint32_t sums16, const uint32_t threads)
{
    struct row_quads q;
    row_begin(&q, row, cols, threads);
    row_to_lds(x_lds, &q, row, cols, digits, sums16, threads);
}
/* weight: [cols] f32, or NULL. */
DEVICE void acts_of_norm(uint8_t *x_lds, const float *row, const float *weight, const uint32_t cols, const float eps, const uint32_t digits,
                         const uint32_t sums16, const uint32_t threads)
{
    struct row_quads q, w;
    row_begin(&q, row, cols, threads);
    norm_begin(&w, weight, cols, threads);
    norm_to_lds(x_lds, &q, row, &w, weight, cols, eps, digits, sums16, threads);
}
/* x_lds: FLOATS_BYTES(cols). */
DEVICE void floats_of_row(uint8_t *x_lds, const float *row, const uint32_t cols, const uint32_t threads)
{
    acts_of_row(x_lds, row, cols, 0, 0, threads);
}
DEVICE void floats_of_norm(uint8_t *x_lds, const float *row, const float *weight, const uint32_t cols, const float eps, const uint32_t threads)
{
    acts_of_norm(x_lds, row, weight, cols, eps, 0, 0, threads);
}

/* A unit, 0 .. units, of a row of `units` units in LDS; unit == units is zero. */
DEVICE void acts_load(struct acts_unit *x, const uint8_t *x_lds, uint32_t unit, const uint32_t units, const uint32_t digits, const uint32_t sums16)
{
    const uint32_t cols = 64 * units, plane_bytes = 16 * ACTS_PLANE_UNITS(cols);
    const uint8_t *place = x_lds + 16 * unit;
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) {
        x->q[0][c] = *(const u32x4 *)(const void *)(place + ACTS_SCRATCH_BYTES + c * plane_bytes);
        if (digits > 1) x->q[1][c] = *(const u32x4 *)(const void *)(place + ACTS_SCRATCH_BYTES + (4 + c) * plane_bytes);
        if (digits > 2) x->q[2][c] = *(const u32x4 *)(const void *)(place + ACTS_SCRATCH_BYTES + (8 + c) * plane_bytes);
    }
    x->scale = *(const f32x4 *)(const void *)(place + ACTS_SCALES(cols, digits));
    if (sums16) x->sum16 = *(const f32x4 *)(const void *)(place + ACTS_SUMS(cols, digits));
}
/* A piece of 8 or 4 columns of a row of floats in LDS; the one past the last, columns from `cols` on, is zero. */
DEVICE void floats_load8(f32x4 x[2], const uint8_t *x_lds, uint32_t piece, const uint32_t cols)
{
    const uint8_t *place = x_lds + ACTS_SCRATCH_BYTES + 16 * piece;
    x[0] = *(const f32x4 *)(const void *)place;
    x[1] = *(const f32x4 *)(const void *)(place + FLOATS_PLANE_BYTES(cols));
}
DEVICE void floats_load4(f32x4 x[1], const uint8_t *x_lds, uint32_t piece, const uint32_t cols)
{
    x[0] = *(const f32x4 *)(const void *)(x_lds + ACTS_SCRATCH_BYTES + piece % 2 * FLOATS_PLANE_BYTES(cols) + piece / 2 * 16);
}
#endif
