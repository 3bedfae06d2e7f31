/* elementwise.h -- operations without neighbours, on one row of a token by the `threads` threads of a group: out, x, y [cols] f32, 16-byte aligned; out may be x or y.
 * All but pointers constants.  After pdl_wait(). */
#ifndef FORGE_ELEMENTWISE_H
#define FORGE_ELEMENTWISE_H
#include "stage.h"

enum elementwise { ELEMENTWISE_ADD, ELEMENTWISE_SILU, ELEMENTWISE_GELU };

DEVICE float elementwise_f32(float x, float y, const uint32_t what)
{
    return what == ELEMENTWISE_ADD ? x + y : what == ELEMENTWISE_SILU ? silu_f32(x) * y : gelu_f32(x) * y;
}
/* Loads of several turns are under way together. */
DEVICE void elementwise_row(float *out, const float *x, const float *y, const uint32_t what, const uint32_t cols, const uint32_t threads)
{
#pragma unroll 4
    for (uint32_t e = thread_x(); 4 * e < cols; e += threads) {
        const f32x4 v = row_quad(x, e, cols), w = row_quad(y, e, cols);
        const f32x4 z = { elementwise_f32(v.x, w.x, what), elementwise_f32(v.y, w.y, what), elementwise_f32(v.z, w.z, what), elementwise_f32(v.w, w.w, what) };
        row_quad_put(out, z, e, cols);
    }
}

/* x + y; x + b with b a vector of the model; silu(gate) * up and gelu(gate) * up  (Shazeer 2020, arXiv:2002.05202). */
DEVICE void add_row(float *out, const float *x, const float *y, const uint32_t cols, const uint32_t threads)
{
    elementwise_row(out, x, y, ELEMENTWISE_ADD, cols, threads);
}
DEVICE void bias_row(float *out, const float *x, const float *b, const uint32_t cols, const uint32_t threads)
{
    elementwise_row(out, x, b, ELEMENTWISE_ADD, cols, threads);
}
DEVICE void glu_silu_row(float *out, const float *gate, const float *up, const uint32_t cols, const uint32_t threads)
{
    elementwise_row(out, gate, up, ELEMENTWISE_SILU, cols, threads);
}
DEVICE void glu_gelu_row(float *out, const float *gate, const float *up, const uint32_t cols, const uint32_t threads)
{
    elementwise_row(out, gate, up, ELEMENTWISE_GELU, cols, threads);
}
#endif
