/* functions.h -- functions of single values of a row, and rows with other norms than those of acts.h.  All arguments but pointers and
 * values are constants. */
#ifndef FORGE_FUNCTIONS_H
#define FORGE_FUNCTIONS_H
#include "launch.h"
#include "acts.h"
#include "stage.h"

/* ---- functions of a value ---- */

DEVICE float sigmoid_f32(float x) { return rcp_f32(1.0f + exp2_f32(-1.44269504f * x)); }
/* ln(1 + e) for e from 0 to 1; corrects the rounding error of 1 + e. */
DEVICE float log1p_f32(float e)
{
    const float u = 1.0f + e;
    return u == 1.0f ? e : 0.69314718f * log2_f32(u) * (e / (u - 1.0f));
}
DEVICE float softplus_f32(float x) { return max_f32(x, 0.0f) + log1p_f32(exp2_f32(-1.44269504f * abs_f32(x))); }
DEVICE float relu_sqr_f32(float x) { return x > 0.0f ? x * x : 0.0f; }
/* GELU as x times the normal distribution function; as vf_gelu_erf() of templates/cpu/activation_tmpl.c. */
DEVICE float gelu_erf_f32(float x)
{
    const float t = rcp_f32(1.0f + 0.282842712f * abs_f32(x));
    float p = 0.0256732426f;
    p = p * t - 0.0936627526f;
    p = p * t + 0.0882139631f;
    p = p * t - 0.00598078629f;
    p = p * t + 0.072240668f;
    p = p * t + 0.0838731429f;
    p = p * t + 0.103972329f;
    p = p * t + 0.112832314f;
    p = p * t + 0.112837951f;
    return max_f32(x, 0.0f) - abs_f32(x) * (p * t * exp2_f32(-0.72134752f * x * x));
}
DEVICE float tanh_f32(float x)
{
    const float square = x * x, small = x * (1.0f - square * (0.333333333f - square * 0.133333333f));
    return square < 0.01f ? small : 1.0f - 2.0f * rcp_f32(1.0f + exp2_f32(2.88539008f * x));
}
DEVICE float softcap_f32(float x, const float cap) { return cap * tanh_f32(x * (1.0f / cap)); }
DEVICE float glu_oai_f32(float gate, float up, const float alpha, const float limit)
{
    const float g = min_f32(gate, limit);
    return g * sigmoid_f32(alpha * g) * (clamp_f32(up, limit) + 1.0f);
}
/* The factor of attention scores at a position, 1 up to n_ctx_orig. */
DEVICE float temperature_f32(uint32_t position, const float by, const uint32_t n_ctx_orig)
{
    return 1.0f + by * (0.69314718f * log2_f32((float)(1 + position / n_ctx_orig)));
}
/* Column r of the heads of x, rotated: n_rot columns of each head from `first` on.  Tables: rope.h. */
DEVICE float rotated_f32(const float *x, uint32_t r, const float *hi, const float *lo, uint32_t position, const uint32_t n_rot,
                         const uint32_t neox, const uint32_t block, const uint32_t head_dim, const uint32_t first)
{
    const uint32_t at = r % head_dim - first, half = n_rot / 2;
    if (r % head_dim < first || at >= n_rot) return ((const GLOBAL float *)x)[r];
    const uint32_t pair = neox ? at % half : at / 2, second = neox ? at >= half : at % 2;
    const uint32_t apart = neox ? half : 1, other = second ? r - apart : r + apart;
    const f32x2 h = *(const GLOBAL f32x2 *)(const void *)(hi + (uint64_t)(position / block) * n_rot + 2 * pair);
    const f32x2 l = *(const GLOBAL f32x2 *)(const void *)(lo + (uint64_t)(position % block) * n_rot + 2 * pair);
    const float c = h.x * l.x - h.y * l.y, s = h.y * l.x + h.x * l.y, mine = ((const GLOBAL float *)x)[r],
                its = ((const GLOBAL float *)x)[other];
    return second ? its * s + mine * c : mine * c - its * s;
}

/* ---- functions of heads ---- */

/* Norm of head `item` of x by one wave.  how (gemv_sizes.h): divides by the root mean square, or by the length (at least eps), or
 * subtracts the mean and divides by the standard deviation.  Then multiplies by weight: NULL, of one head or, with whole 1, of all heads.
 * `sink` gets each value. */
DEVICE void head_normed(const struct forge_kernel_args a, uint32_t t, const float *x, const float *weight, const uint32_t whole,
                        const uint32_t how, const float eps, uint32_t item, const uint32_t head_dim, row_sink *sink)
{
    enum { AHEAD = 8 };                          /* values of a lane that are loaded before the first of them is stored */
    const uint32_t first = item * head_dim;
    float mean = 0.0f, squares = 0.0f;
    if (how == HEADS_CENTERED) {
        for (uint32_t c = lane_id(); c < head_dim; c += WAVE) mean += ((const GLOBAL float *)x)[first + c];
        mean = lanes_sum_f32(mean, WAVE) * (1.0f / (float)head_dim);
    }
    for (uint32_t c = lane_id(); c < head_dim; c += WAVE) {
        const float v = ((const GLOBAL float *)x)[first + c] - mean;
        squares += v * v;
    }
    const float sum = lanes_sum_f32(squares, WAVE);
    const float factor = how == HEADS_UNIT ? min_f32(rsqrt_f32(sum), 1.0f / eps) : rsqrt_f32(sum * (1.0f / (float)head_dim) + eps);
    for (uint32_t begin = lane_id(); begin < head_dim; begin += AHEAD * WAVE) {
        float v[AHEAD];
        UNROLL for (uint32_t i = 0; i < AHEAD; i++) {
            const uint32_t c = begin + i * WAVE < head_dim ? begin + i * WAVE : lane_id();
            v[i] = (((const GLOBAL float *)x)[first + c] - mean) * factor;
            if (weight) v[i] *= ((const GLOBAL float *)weight)[whole ? first + c : c];
        }
        UNROLL for (uint32_t i = 0; i < AHEAD; i++) if (begin + i * WAVE < head_dim) sink(a, t, first + begin + i * WAVE, v[i]);
    }
}

/* ---- layer norm of a row: (x - mean) / sqrt(variance + eps) * weight  (Ba et al. 2016, arXiv:1607.06450) ---- */

/* Quad e of the row less the mean; 0 beyond the row. */
DEVICE f32x4 quad_centered(f32x4 v, float mean, uint32_t e, const uint32_t cols)
{
    UNROLL
    for (uint32_t k = 0; k < 4; k++) v[k] = 4 * e + k < cols ? v[k] - mean : 0.0f;
    return v;
}
struct row_moments { float mean, factor; };
DEVICE struct row_moments row_moments(const float *row, const uint32_t cols, const float eps, uint8_t *scratch, const uint32_t threads)
{
    struct row_moments m;
    float sum = 0.0f, squares = 0.0f;
#pragma unroll 1
    for (uint32_t e = row_thread(threads); 4 * e < cols; e += threads) {
        const f32x4 v = row_quad(row, e, cols);
        sum += (v.x + v.y) + (v.z + v.w);
    }
    m.mean = group_sum_f32(sum, scratch, threads) * (1.0f / (float)cols);
    barrier();
#pragma unroll 1
    for (uint32_t e = row_thread(threads); 4 * e < cols; e += threads) {
        const f32x4 v = quad_centered(row_quad(row, e, cols), m.mean, e, cols), s = v * v;
        squares += (s.x + s.y) + (s.z + s.w);
    }
    m.factor = rsqrt_f32(group_sum_f32(squares, scratch, threads) * (1.0f / (float)cols) + eps);
    barrier();
    return m;
}
/* Loads turns first .. of a row, less its mean. */
DEVICE void row_load_centered(struct row_quads *q, const float *row, float mean, uint32_t first, const uint32_t cols,
                              const uint32_t threads)
{
    row_load(q, row, first, cols, threads);
    UNROLL
    for (uint32_t i = 0; i < ROW_QUADS; i++) q->v[i] = quad_centered(q->v[i], mean, (first + i) * threads + row_thread(threads), cols);
}
/* Stores the row in LDS as norm_to_lds() does.  weight: [cols] f32, or NULL. */
DEVICE void layernorm_to_lds(uint8_t *x_lds, const float *row, const float *weight, const uint32_t cols, const float eps,
                             const uint32_t digits, const uint32_t sums16, const uint32_t threads)
{
    const struct row_moments m = row_moments(row, cols, eps, x_lds, threads);
    row_put_end(x_lds, cols, digits, sums16);
#pragma unroll 1
    for (uint32_t first = 0; first * threads < 16 * ACTS_UNITS(cols); first += ROW_QUADS) {
        struct row_quads q, w;
        row_load_centered(&q, row, m.mean, first, cols, threads);
        norm_weight_load(&w, weight, first, cols, threads);
        row_put(x_lds, &q, m.factor, &w, first, cols, digits, sums16, threads);
    }
    barrier();
}
/* As stage_rows() with a norm, and the same in f32. */
DEVICE void stage_layernorm(uint8_t *out, const float *x, const float *weight, const uint32_t cols, const float eps, const uint32_t bf16,
                            const uint32_t threads)
{
    const struct row_moments m = row_moments(x, cols, eps, lds(), threads);
#pragma unroll 1
    for (uint32_t first = 0; first * threads < 16 * UNITS_OF(cols); first += ROW_QUADS) {
        struct row_quads q, w;
        row_load_centered(&q, x, m.mean, first, cols, threads);
        norm_weight_load(&w, weight, first, cols, threads);
        UNROLL
        for (uint32_t i = 0; i < ROW_QUADS; i++) {
            const uint32_t e = (first + i) * threads + thread_x();
            if (e < 16 * UNITS_OF(cols)) stage_put(out, q.v[i] * m.factor * w.v[i], e, bf16);
        }
    }
}
DEVICE void layernorm_row(float *out, const float *x, const float *weight, const uint32_t cols, const float eps, const uint32_t threads)
{
    const struct row_moments m = row_moments(x, cols, eps, lds(), threads);
#pragma unroll 1
    for (uint32_t first = 0; first * threads * 4 < cols; first += ROW_QUADS) {
        struct row_quads q, w;
        row_load_centered(&q, x, m.mean, first, cols, threads);
        norm_weight_load(&w, weight, first, cols, threads);
        UNROLL
        for (uint32_t i = 0; i < ROW_QUADS; i++) row_quad_put(out, q.v[i] * m.factor * w.v[i], (first + i) * threads + thread_x(), cols);
    }
}
#endif
