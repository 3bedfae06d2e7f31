/* acts.h -- loads a row of activations into LDS, where decode's products read it: as int8 digits with a scale per 32 columns, or as floats.
 * gemv_sizes.h has the layout of both.
 *
 * Every function that fills LDS is called by all `threads` threads of the group and ends with barrier(); before the call nothing else may
 * use those bytes.
 * Columns from cols to the next multiple of 64 become zero.  Rows are f32, 16-byte aligned, written by an earlier kernel. */
#ifndef FORGE_ACTS_H
#define FORGE_ACTS_H
#include "dialect.h"
#include "gemv_sizes.h"
#include "acts_unit.h"

/* Quads (4 columns) of a row that a thread keeps in registers.  More if loads complete in order: a later load of the row would wait for the
 * weights requested in the meantime. */
#define ROW_QUADS (LOADS_IN_ORDER ? 16 : 8)

/* A thread's part of a row: entry i is columns 4 e .. 4 e + 3, e = i * threads + thread. */
struct row_quads { f32x4 v[ROW_QUADS]; };

/* thread_x(), with the compiler told that it is below `threads`: full turns then need no comparisons. */
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

/* Loads the quads of turns first .. first + ROW_QUADS - 1; zeros beyond the row. */
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

/* Loads ahead of use: row_begin() the activations, after pdl_wait(); norm_begin() the weights of a norm ([cols] f32, or NULL: all 1),
 * before it. */
DEVICE void row_begin(struct row_quads *q, const float *row, const uint32_t cols, const uint32_t threads)
{
    row_load(q, row, 0, cols, threads);
}
DEVICE void norm_begin(struct row_quads *q, const float *weight, const uint32_t cols, const uint32_t threads)
{
    norm_weight_load(q, weight, 0, cols, threads);
}

/* The sum of the values that the waves stored in scratch. */
DEVICE float waves_sum_f32(const uint8_t *scratch, const uint32_t threads)
{
    const uint32_t waves = threads / WAVE, fours = waves / 4;
    const f32x4 *sums4 = (const f32x4 *)(const void *)scratch;
    const float *sums = (const float *)(const void *)scratch;
    float sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < fours; i++) sum += (sums4[i].x + sums4[i].y) + (sums4[i].z + sums4[i].w);
#pragma unroll
    for (uint32_t i = 4 * fours; i < waves; i++) sum += sums[i];
    return sum;
}
/* The sum of x over all threads, with the same bits in each thread.  scratch: ACTS_SCRATCH_BYTES, read until the next barrier(). */
DEVICE float group_sum_f32(float x, uint8_t *scratch, const uint32_t threads)
{
    x = lanes_sum_f32(x, WAVE);
    if (lane_id() == 0) ((float *)(void *)scratch)[wave_id()] = x;
    barrier();
    return waves_sum_f32(scratch, threads);
}

/* This thread's part of the sum of squares of a row; q: its first turns, as row_load() loaded them. */
DEVICE float row_squares(const struct row_quads *q, const float *row, const uint32_t cols, const uint32_t threads)
{
    f32x4 squares = q->v[0] * q->v[0];
    UNROLL
    for (uint32_t i = 1; i < ROW_QUADS; i++) if (i * threads * 4 < cols) squares += q->v[i] * q->v[i];
#pragma unroll 1
    for (uint32_t e = ROW_QUADS * threads + row_thread(threads); 4 * e < cols; e += threads) {
        const f32x4 v = row_quad(row, e, cols);
        squares += v * v;
    }
    return (squares.x + squares.y) + (squares.z + squares.w);
}
/* 1 / sqrt(mean(x^2) + eps) of a row, from the sum of its squares. */
DEVICE float norm_factor(const float squares, const uint32_t cols, const float eps)
{
    return rsqrt_f32(squares * (1.0f / (float)cols) + eps);
}
/* norm_factor() of a row, the same in all threads; q as in row_squares(), scratch as in group_sum_f32(). */
DEVICE float row_norm_factor(const struct row_quads *q, const float *row, const uint32_t cols, const float eps, uint8_t *scratch,
                             const uint32_t threads)
{
    return norm_factor(group_sum_f32(row_squares(q, row, cols, threads), scratch, threads), cols, eps);
}

/* Byte n of four integers. */
DEVICE uint32_t bytes_of(const u32x4 q, const uint32_t n)
{
    const uint32_t pair = 0x0400u + 0x0101u * n;
    return byte_perm(byte_perm(q.x, q.y, pair), byte_perm(q.z, q.w, pair), 0x05040100);
}
/* Bytes 0 and 1 of four integers. */
DEVICE void two_bytes_of(uint32_t bytes[2], const u32x4 q)
{
    const uint32_t xy = byte_perm(q.x, q.y, 0x05040100), zw = byte_perm(q.z, q.w, 0x05040100);
    bytes[0] = byte_perm(xy, zw, 0x06040200);
    bytes[1] = byte_perm(xy, zw, 0x07050301);
}

/* The scale of a block, d times the sum of its 32 digits, and d times the sum of this thread's half of them. */
struct acts_block { float d, sum32, sum16; };

/* Quantises four columns to digits, q = x / d to nearest even.  Eight lanes share a block of 32 columns.  One digit: d = max|x| / 127; two:
 * / 32639, the largest number with a high digit that fits; three: / 8355000, because x / d is itself rounded and may exceed this by an
 * integer.  max|x| counts as at least 1e-30, so that 1 / d does not overflow.  Without their sign bits, floats have the order of integers,
 * and a NaN is above all numbers.
 * place: of the first digit's four bytes; stored: whether this thread stores its digits. */
DEVICE struct acts_block acts_put(uint8_t *place, const f32x4 v, const uint32_t stored, const uint32_t cols, const uint32_t digits)
{
    const float most = digits == 3 ? 8355000.0f : digits == 2 ? 32639.0f : 127.0f;
    const uint32_t sign = 0x80000000u, x = bits_of_f32(v.x) & ~sign, y = bits_of_f32(v.y) & ~sign, z = bits_of_f32(v.z) & ~sign,
                   w = bits_of_f32(v.w) & ~sign;
    const float top = f32_of_bits(max_u32(lanes_max_u32(max_u32(max_u32(x, y), max_u32(z, w)), 8), 0x0da24260u));       /* 1e-30 */
    const float to_q = most * rcp_f32(top), d = top * (1.0f / most);
    const uint32_t plane_bytes = 64 * ACTS_PLANE_UNITS(cols);
    uint32_t bytes[3], sum;
    u32x4 q;
    if (digits == 3) {
        UNROLL
        for (uint32_t i = 0; i < 4; i++) q[i] = (uint32_t)(int32_t)round_f32(v[i] * to_q);
        sum = q.x + q.y + q.z + q.w;
        bytes[0] = bytes_of(q, 0);
        bytes[1] = bytes_of(q + 128u, 1);
        bytes[2] = bytes_of(q + 32896u, 2);
    } else {                           /* 1.5 2^23 + q has q in its low bits; two digits: 128 more, to round the second one */
        const float one = digits == 2 ? 12583040.0f : 12582912.0f;
        UNROLL
        for (uint32_t i = 0; i < 4; i++) q[i] = bits_of_f32(v[i] * to_q + one);
        sum = q.x + q.y + q.z + q.w - 4 * bits_of_f32(one);
        if (digits == 2) {
            two_bytes_of(bytes, q);
            bytes[0] ^= 0x80808080u;
        }
        else bytes[0] = bytes_of(q, 0);
    }
    if (stored)
        UNROLL
        for (uint32_t i = 0; i < digits; i++) *(uint32_t *)(void *)(place + i * plane_bytes) = bytes[i];
    const uint32_t sum16 = lanes_sum_u32(sum, 4), sum32 = sum16 + lane_other_u32(sum16, 4);
    const struct acts_block b = { d, d * (float)(int32_t)sum32, d * (float)(int32_t)sum16 };
    return b;
}

/* The same for a row that stays in floats. */
DEVICE void floats_put(uint8_t *x_lds, f32x4 v, uint32_t e, const uint32_t cols)
{
    if (e < 16 * ACTS_UNITS(cols)) *(f32x4 *)(void *)(x_lds + ACTS_SCRATCH_BYTES + e % 2 * FLOATS_PLANE_BYTES(cols) + e / 2 * 16) = v;
}

/* Stores the zeros that lanes without columns read. */
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

/* Stores turns first .. of a row, which q holds, times factor and, if w is not NULL, times w.  All scales are stored at the end: without
 * branches between the digits of successive turns, the turns overlap. */
DEVICE void row_put(uint8_t *x_lds, const struct row_quads *q, float factor, const struct row_quads *w, uint32_t first, const uint32_t cols,
                    const uint32_t digits, const uint32_t sums16, const uint32_t threads)
{
    const uint32_t thread = row_thread(threads), pieces = 16 * ACTS_UNITS(cols), turn_bytes = threads;
    uint8_t *place = x_lds + ACTS_SCRATCH_BYTES + thread / 4 % 4 * 16 * ACTS_PLANE_UNITS(cols) + 16 * (thread / 16) + 4 * (thread % 4) +
                     first * turn_bytes;
    struct acts_block block[ROW_QUADS];
    UNROLL
    for (uint32_t i = 0; i < ROW_QUADS; i++) {
        const uint32_t e = (first + i) * threads + thread;
        if ((first + i) * threads >= pieces) continue;
        const f32x4 v = w ? q->v[i] * factor * w->v[i] : q->v[i] * factor;
        if (digits == 0) floats_put(x_lds, v, e, cols);
        else block[i] = acts_put(place + i * turn_bytes, v, e < pieces, cols, digits);
    }
    if (digits == 0) return;
    float *scale = (float *)(void *)(x_lds + ACTS_SCALES(cols, digits) + 16 * (thread / 16) + first * turn_bytes);
    float *sums = (float *)(void *)(x_lds + ACTS_SUMS(cols, digits) + 16 * (thread / 16) + first * turn_bytes);
    if (thread % 8 == 0)
        UNROLL
        for (uint32_t i = 0; i < ROW_QUADS; i++) {
            if ((first + i) * threads + thread >= pieces) continue;
            scale[i * turn_bytes / 4 + thread / 8 % 2] = block[i].d;
            scale[i * turn_bytes / 4 + thread / 8 % 2 + 2] = block[i].sum32;
        }
    if (sums16 && thread % 4 == 0)
        UNROLL
        for (uint32_t i = 0; i < ROW_QUADS; i++)
            if ((first + i) * threads + thread < pieces) sums[i * turn_bytes / 4 + thread / 4 % 4] = block[i].sum16;
}

/* Stores the row in LDS; q: as row_begin() loaded it.  digits 0: as floats. */
DEVICE void row_to_lds(uint8_t *x_lds, const struct row_quads *q, const float *row, const uint32_t cols, const uint32_t digits,
                       const uint32_t sums16, const uint32_t threads)
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
 * w: as norm_begin() loaded it for the same weight. */
DEVICE void norm_to_lds(uint8_t *x_lds, const struct row_quads *q, const float *row, const struct row_quads *w, const float *weight,
                        const uint32_t cols, const float eps, const uint32_t digits, const uint32_t sums16, const uint32_t threads)
{
    const float factor = row_norm_factor(q, row, cols, eps, x_lds, threads);

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

/* The following functions load and store in one call.  x_lds: ACTS_BYTES(cols, digits, sums16). */
DEVICE void acts_of_row(uint8_t *x_lds, const float *row, const uint32_t cols, const uint32_t digits, const uint32_t sums16,
                        const uint32_t threads)
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
DEVICE void floats_of_norm(uint8_t *x_lds, const float *row, const float *weight, const uint32_t cols, const float eps,
                           const uint32_t threads)
{
    acts_of_norm(x_lds, row, weight, cols, eps, 0, 0, threads);
}

/* For gemv_matrix_tmpl.c, which computes rows of several tokens: quad e of the MATRIX_COLS columns of rank `rank` of `ranks` in a cluster.
 * These are the units of classes rank * lanes / ranks .. of `lanes`. */
DEVICE f32x4 part_quad(const float *row, uint32_t e, const uint32_t cols, const uint32_t lanes, const uint32_t ranks, uint32_t rank)
{
    const uint32_t each = lanes / ranks, unit = e / 16, whole = ranks == 1 ? unit : unit / each * lanes + rank * each + unit % each;
    return row_quad(row, whole * 16 + e % 16, cols);
}
DEVICE void part_load(struct row_quads *q, const float *row, uint32_t first, const uint32_t cols, const uint32_t lanes,
                      const uint32_t ranks, uint32_t rank, const uint32_t threads)
{
#pragma unroll
    for (uint32_t i = 0; i < ROW_QUADS; i++) {
        if ((first + i) * threads * 4 < MATRIX_COLS(cols, lanes, ranks))
            q->v[i] = part_quad(row, (first + i) * threads + row_thread(threads), cols, lanes, ranks, rank);
        else q->v[i] = (f32x4)(0.0f);
    }
}

/* Stores rows of n tokens, row_bytes apart, in LDS at multiples of x_bytes; with `norm` after RMS norm (weight may be NULL).  Only this
 * rank's columns, MATRIX_COLS(cols, lanes, ranks), in their order and without the entry of zeros at the end.  At most `columns` tokens, as
 * many at a time as registers hold.  The bits are those of acts_of_row() and acts_of_norm() with as many threads.  All arguments but rows,
 * n and rank are constants. */
DEVICE void columns_to_lds(const uint32_t x_bytes, const uint8_t *rows, const uint64_t row_bytes, uint32_t n, const uint32_t norm,
                           const float *weight, const uint32_t cols, const float eps, const uint32_t digits, const uint32_t sums16,
                           const uint32_t columns, const uint32_t lanes, const uint32_t ranks, uint32_t rank, const uint32_t threads)
{
    const uint32_t own = MATRIX_COLS(cols, lanes, ranks), turns = (own + 4 * threads - 1) / (4 * threads),
                   batch = turns >= 16 ? 1 : 16 / turns < 8 ? 16 / turns : 8,
                   scratch = ACTS_SCRATCH_BYTES - MATRIX_SCRATCH_BYTES(threads);
    struct row_quads w;
    const struct row_quads *of_norm = weight ? &w : (const struct row_quads *)0;
    if (weight) part_load(&w, weight, 0, cols, lanes, ranks, rank, threads);
    UNROLL
    for (uint32_t first = 0; first < columns; first += batch) {
        struct row_quads q[8];
        float factor[8];
        if (first >= n) break;
        UNROLL
        for (uint32_t c = 0; c < 8; c++) {
            const float *row = (const float *)(const void *)(rows + row_bytes * (first + c < n ? first + c : n - 1));
            factor[c] = 1.0f;
            if (c >= batch || first + c >= columns) continue;
            if (norm && ranks > 1) row_load(&q[c], row, 0, cols, threads);
            else part_load(&q[c], row, 0, cols, lanes, ranks, rank, threads);
        }
        if (norm) {
            UNROLL
            for (uint32_t c = 0; c < 8; c++)
                if (c < batch && first + c < columns)
                    factor[c] = row_squares(&q[c], (const float *)(const void *)(rows + row_bytes * (first + c < n ? first + c : n - 1)),
                                            cols, threads);
            lanes_sums_f32(factor, batch, WAVE);
            UNROLL
            for (uint32_t c = 0; c < 8; c++)
                if (c < batch && first + c < n && lane_id() == 0)
                    ((float *)(void *)(lds() + (first + c) * x_bytes + scratch))[wave_id()] = factor[c];
            barrier();
        }
        UNROLL
        for (uint32_t c = 0; c < 8; c++) {
            const float *row = (const float *)(const void *)(rows + row_bytes * (first + c));
            uint8_t *x_lds = lds() + (first + c) * x_bytes;
            if (c >= batch || first + c >= n) continue;
            if (norm) factor[c] = norm_factor(waves_sum_f32(x_lds + scratch, threads), cols, eps);
            if (norm && ranks > 1) part_load(&q[c], row, 0, cols, lanes, ranks, rank, threads);
            row_put(x_lds, &q[c], factor[c], of_norm, 0, own, digits, sums16, threads);
#pragma unroll 1
            for (uint32_t turn = ROW_QUADS; turn * threads < 16 * ACTS_UNITS(own); turn += ROW_QUADS) {
                struct row_quads more, more_weight;
                part_load(&more, row, turn, cols, lanes, ranks, rank, threads);
                if (weight) part_load(&more_weight, weight, turn, cols, lanes, ranks, rank, threads);
                row_put(x_lds, &more, factor[c], weight ? &more_weight : of_norm, turn, own, digits, sums16, threads);
            }
        }
    }
    barrier();
}

/* Loads unit 0 .. units of a row of `units` units in LDS; the last one, unit == units, is zero. */
DEVICE void acts_load(struct acts_unit *x, const uint8_t *x_lds, uint32_t unit, const uint32_t units, const uint32_t digits,
                      const uint32_t sums16)
{
    const uint32_t cols = 64 * units, plane_bytes = 16 * ACTS_PLANE_UNITS(cols);
    const uint8_t *place = x_lds + 16 * unit;
    x->one = 0;
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) {
        x->q[0][c] = *(const u32x4 *)(const void *)(place + ACTS_SCRATCH_BYTES + c * plane_bytes);
        if (digits > 1) x->q[1][c] = *(const u32x4 *)(const void *)(place + ACTS_SCRATCH_BYTES + (4 + c) * plane_bytes);
        if (digits > 2) x->q[2][c] = *(const u32x4 *)(const void *)(place + ACTS_SCRATCH_BYTES + (8 + c) * plane_bytes);
    }
    x->scale = *(const f32x4 *)(const void *)(place + ACTS_SCALES(cols, digits));
    if (sums16) x->sum16 = *(const f32x4 *)(const void *)(place + ACTS_SUMS(cols, digits));
}
/* Loads a piece of 8 or 4 columns of a row of floats in LDS; the piece after the last, from column `cols` on, is zero. */
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
