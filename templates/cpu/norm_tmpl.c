/* norm_tmpl.c -- normalisation of one row. */
#include "vec.h"

/* Four partial vectors are enough chains to hide the latency of FMA; 64 partial sums keep the rounding error near 1e-7. */
DEVICE float row_sum_squares(const float *x, float mean, uint32_t n)
{
    const vf centre = vf_set1(mean);
    vf sum[4] = { vf_set1(0), vf_set1(0), vf_set1(0), vf_set1(0) };
    uint32_t i = 0;
    for (; i + 64 <= n; i += 64) {
        VEC_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            const vf d = vf_sub(vf_load(x + i + 16 * k), centre);
            sum[k] = vf_fma(d, d, sum[k]);
        }
    }
    for (; i + 16 <= n; i += 16) {
        const vf d = vf_sub(vf_load(x + i), centre);
        sum[0] = vf_fma(d, d, sum[0]);
    }
    if (i < n) {                                 /* unused lanes must give 0, not mean^2 */
        const vf d = vf_first(vf_sub(vf_load_n(x + i, n - i), centre), vf_set1(0), n - i);
        sum[1] = vf_fma(d, d, sum[1]);
    }
    return vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

DEVICE float row_sum(const float *x, uint32_t n)
{
    vf sum[4] = { vf_set1(0), vf_set1(0), vf_set1(0), vf_set1(0) };
    uint32_t i = 0;
    for (; i + 64 <= n; i += 64) {
        VEC_UNROLL
        for (uint32_t k = 0; k < 4; k++) sum[k] = vf_add(sum[k], vf_load(x + i + 16 * k));
    }
    for (; i + 16 <= n; i += 16) sum[0] = vf_add(sum[0], vf_load(x + i));
    if (i < n) sum[1] = vf_add(sum[1], vf_load_n(x + i, n - i));
    return vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

/* 1 / sqrt(x) to full float precision, x > 0, without libc: an integer estimate good to 3.5 % and four Newton steps. */
DEVICE float f32_rsqrt(float x)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    bits = 0x5f375a86u - (bits >> 1);
    float seed;
    __builtin_memcpy(&seed, &bits, 4);
    double y = (double)seed;
    const double half = 0.5 * (double)x;
    for (uint32_t i = 0; i < 4; i++) y *= 1.5 - half * y * y;
    return (float)y;
}

/* y = (x - mean) * factor * w + b; w and b may be NULL. */
DEVICE void row_scale(float *y, const float *x, const float *w, const float *b, float mean, float factor, uint32_t n)
{
    const vf centre = vf_set1(mean), f = vf_set1(factor);
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        vf v = vf_mul(vf_sub(vf_load(x + i), centre), f);
        if (w) v = vf_mul(v, vf_load(w + i));
        if (b) v = vf_add(v, vf_load(b + i));
        vf_store(y + i, v);
    }
    if (i < n) {
        vf v = vf_mul(vf_sub(vf_load_n(x + i, n - i), centre), f);
        if (w) v = vf_mul(v, vf_load_n(w + i, n - i));
        if (b) v = vf_add(v, vf_load_n(b + i, n - i));
        vf_store_n(y + i, v, n - i);
    }
}

/* y = x / sqrt(mean(x^2) + eps) * w.  y, x, w: [n], y may be x, w may be NULL (all ones).  (Zhang & Sennrich 2019, arXiv:1910.07467) */
DEVICE void rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps)
{
    const float factor = f32_rsqrt(row_sum_squares(x, 0, n) / (float)n + eps);
    row_scale(y, x, w, 0, 0, factor, n);
}

/* y = (x - mean(x)) / sqrt(var(x) + eps) * w + b.  Two passes over a row that is in L1, because the one-pass variance suffers cancellation.
 * y, x, w, b: [n]; y may be x; w and b may be NULL.  (Ba, Kiros & Hinton 2016, arXiv:1607.06450) */
DEVICE void layernorm(float *y, const float *x, const float *w, const float *b, uint32_t n, float eps)
{
    const float mean = row_sum(x, n) / (float)n;
    const float factor = f32_rsqrt(row_sum_squares(x, mean, n) / (float)n + eps);
    row_scale(y, x, w, b, mean, factor, n);
}
