/* sequence_kernels.c -- templates/gpu/sequence.h and functions.h with the sizes of the case. */
#include "kernel.h"
#include "templates/gpu/sequence.h"
#include "templates/gpu/functions.h"
#include "cases.h"

#define C CASE(struct sequence_case)

DEVICE void store(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    const uint64_t at = (uint64_t)t * C->y_cols + r;
    C->y[at] = y;
    C->calls[at]++;
}

TEST_KERNEL(64, convolution)
{
    const struct sequence_case c = *C;
    conv_rows(a, c.in[0], c.stride[0], c.weight, c.tap_stride, c.cols, c.taps, c.keep, /* slots */ 0, 0, c.threads, store);
}
TEST_KERNEL(64, convolution_keep)
{
    const struct sequence_case c = *C;
    conv_keep(a, c.in[0], c.stride[0], c.cols, c.taps, /* slots */ 0, c.threads);
}
TEST_KERNEL(128, recurrence)
{
    const struct sequence_case c = *C;
    const struct recur r = { c.heads, c.qk_heads, c.head_dim, c.value_dim, c.delta, c.modulo, c.by_row, c.stride[0], c.stride[1],
                             c.stride[2], c.stride[3], c.stride[4] };
    recur_rows(a, c.in[0], c.in[1], c.in[2], c.in[3], c.in[4], r, /* slots */ 0, 0, c.threads, store);
}
TEST_KERNEL(256, norm_of_heads)
{
    const struct sequence_case c = *C;
    for (uint32_t item = wave_id(); item < c.heads; item += c.threads / WAVE)
        head_normed(a, 0, c.in[0], c.weight, c.whole, c.how, c.eps, item, c.head_dim, store);
}
TEST_KERNEL(256, layernorm)
{
    const struct sequence_case c = *C;
    layernorm_row(c.y, c.in[0], c.weight, c.cols, c.eps, c.threads);
}
TEST_KERNEL(256, layernorm_staged)
{
    const struct sequence_case c = *C;
    stage_layernorm(c.out16, c.in[0], c.weight, c.cols, c.eps, c.bf16, c.threads);
}
TEST_KERNEL(256, layernorm_in_lds)
{
    const struct sequence_case c = *C;
    layernorm_to_lds(lds(), c.in[0], c.weight, c.cols, c.eps, 0, 0, c.threads);
    for (uint32_t p = thread_x(); p < 16 * ACTS_UNITS(c.cols); p += c.threads) {
        f32x4 x[1];
        floats_load4(x, lds(), p, c.cols);
        for (uint32_t i = 0; i < 4; i++) {
            if (4 * p + i < c.cols) c.y[4 * p + i] = x[0][i];
            else if (x[0][i] != 0) c.calls[0] = 1;
        }
    }
}
/* One value per thread. */
TEST_KERNEL(64, rotations)
{
    const struct sequence_case c = *C;
    const uint32_t i = group_x() * 64 + thread_x();
    if (i < c.cols) c.y[i] = rotated_f32(c.in[0], i, c.hi, c.lo, c.position, c.n_rot, c.neox, c.block, c.head_dim, c.first);
}
TEST_KERNEL(64, functions)
{
    const struct sequence_case c = *C;
    const uint32_t i = group_x() * 64 + thread_x();
    if (i >= c.cols) return;
    const float x = c.in[0][i], u = c.in[1][i];
    float *y = c.y + i * SEQUENCE_FUNCTIONS;
    y[0] = sigmoid_f32(x), y[1] = softplus_f32(x), y[2] = relu_sqr_f32(x), y[3] = silu_f32(x), y[4] = gelu_f32(x);
    y[5] = softcap_f32(x, 0.5f + abs_f32(u) * 30.0f), y[6] = glu_oai_f32(x, u, 1.702f, 7.0f);
    y[7] = temperature_f32((uint32_t)abs_f32(x * 1000.0f), 0.1f, 128), y[8] = gelu_erf_f32(x);
}
