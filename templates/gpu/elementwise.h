/* elementwise.h -- elementwise operations on one row of a token by the `threads` threads of a group: out, x, y [cols] f32, 16-byte
 * aligned; out may be x or y.
 * All arguments but pointers are constants.  Called after pdl_wait(). */
#ifndef FORGE_ELEMENTWISE_H
#define FORGE_ELEMENTWISE_H
#include "stage.h"

enum elementwise { ELEMENTWISE_ADD, ELEMENTWISE_SILU, ELEMENTWISE_GELU };

DEVICE float elementwise_f32(float x, float y, const uint32_t what)
{
    return what == ELEMENTWISE_ADD ? x + y : what == ELEMENTWISE_SILU ? silu_f32(x) * y : gelu_f32(x) * y;
}
DEVICE void elementwise_row(float *out, const float *x, const float *y, const uint32_t what, const uint32_t cols, const uint32_t threads)
{
#pragma unroll 1
    for (uint32_t first = 0; 4 * first * threads < cols; first += ROW_QUADS) {
        struct row_quads v, w;
        row_load(&v, x, first, cols, threads);
        row_load(&w, y, first, cols, threads);
#pragma unroll
        for (uint32_t i = 0; i < ROW_QUADS; i++) {
            f32x4 z;
            for (uint32_t k = 0; k < 4; k++) z[k] = elementwise_f32(v.v[i][k], w.v[i][k], what);
            row_quad_put(out, z, (first + i) * threads + thread_x(), cols);
        }
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
