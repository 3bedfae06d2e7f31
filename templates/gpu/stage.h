/* stage.h -- converts rows to the form that the next kernel reads: 16-bit rows for prefill's products, with or without RMS norm, and normed
 * rows of f32.
 * One token per group.  LDS: ACTS_SCRATCH_BYTES. */
#ifndef FORGE_STAGE_H
#define FORGE_STAGE_H
#include "launch.h"
#include "acts.h"

/* Columns 4 e .. of a row as f16 or bf16. */
DEVICE void stage_put(uint8_t *out, const f32x4 v, uint32_t e, const uint32_t bf16)
{
    const u32x2 high = { bf16 ? stage_bf16(v.x) | stage_bf16(v.y) << 16 : stage_f16(v.x) | stage_f16(v.y) << 16,
                         bf16 ? stage_bf16(v.z) | stage_bf16(v.w) << 16 : stage_f16(v.z) | stage_f16(v.w) << 16 };
    *(GLOBAL u32x2 *)(void *)(out + 8 * e) = high;
}
/* Columns 4 e .. of a row of f32. */
DEVICE void row_quad_put(float *row, const f32x4 v, uint32_t e, const uint32_t cols)
{
    if (4 * e + 4 <= cols) {
        *((GLOBAL f32x4 *)row + e) = v;
        return;
    }
    if (4 * e + 0 < cols) ((GLOBAL float *)row)[4 * e + 0] = v.x;
    if (4 * e + 1 < cols) ((GLOBAL float *)row)[4 * e + 1] = v.y;
    if (4 * e + 2 < cols) ((GLOBAL float *)row)[4 * e + 2] = v.z;
}

/* Stores x [cols] f32 as f16 times 2^-6 or, with bf16, as bfloat16 (launch.h), with zeros up to a multiple of 64 columns.  With norm 1 it
 * stores x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich 2019, arXiv:1910.07467); weight: [cols] or NULL.
 * x, weight, out: 16-byte aligned.  All arguments but pointers are constants.  Called after pdl_wait(). */
DEVICE void stage_rows(uint8_t *out, const float *x, const float *weight, const uint32_t cols, const float eps, const uint32_t norm,
                       const uint32_t bf16, const uint32_t threads)
{
    struct row_quads q, w;
    float factor = 1.0f;
    row_load(&q, x, 0, cols, threads);
    if (norm) {
        norm_weight_load(&w, weight, 0, cols, threads);
        factor = row_norm_factor(&q, x, cols, eps, lds(), threads);
    }
#pragma unroll 1
    for (uint32_t first = 0; first * threads < 16 * UNITS_OF(cols); first += ROW_QUADS) {
        if (first > 0) {
            row_load(&q, x, first, cols, threads);
            if (norm) norm_weight_load(&w, weight, first, cols, threads);
        }
#pragma unroll
        for (uint32_t i = 0; i < ROW_QUADS; i++) {
            const uint32_t e = (first + i) * threads + thread_x();
            if (e < 16 * UNITS_OF(cols)) stage_put(out, norm ? q.v[i] * factor * w.v[i] : q.v[i], e, bf16);
        }
    }
}

/* The norm alone, in f32.  out: [cols], may be x. */
DEVICE void norm_row(float *out, const float *x, const float *weight, const uint32_t cols, const float eps, const uint32_t threads)
{
    struct row_quads q, w;
    row_load(&q, x, 0, cols, threads);
    norm_weight_load(&w, weight, 0, cols, threads);
    const float factor = row_norm_factor(&q, x, cols, eps, lds(), threads);
#pragma unroll 1
    for (uint32_t first = 0; first * threads * 4 < cols; first += ROW_QUADS) {
        if (first > 0) {
            row_load(&q, x, first, cols, threads);
            norm_weight_load(&w, weight, first, cols, threads);
        }
#pragma unroll
        for (uint32_t i = 0; i < ROW_QUADS; i++) row_quad_put(out, q.v[i] * factor * w.v[i], (first + i) * threads + thread_x(), cols);
    }
}
#endif
