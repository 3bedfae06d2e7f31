/* activation_tmpl.c -- activation functions, and products with factors.  Rows are [n] for any n, changed in place unless noted. */
#include "elementwise_tmpl.c"
#include "glu_tmpl.c"
#include "norm_tmpl.c"

DEVICE vf vf_sigmoid(vf x) { return vf_div(vf_set1(1.0f), vf_add(vf_set1(1.0f), vf_exp(vf_sub(vf_set1(0), x)))); }

/* max(0, x)^2; NaN stays NaN. */
DEVICE vf vf_relu_sqr(vf x)
{
    const vf m = vf_max(vf_set1(0), x);
    return vf_mul(m, m);
}

/* log(1 + x), 0 <= x <= 1: 2 artanh(x / (2 + x)); its series has odd powers of a number of at most 1/3. */
DEVICE vf vf_log1p_unit(vf x)
{
    const vf s = vf_div(x, vf_add(x, vf_set1(2.0f))), z = vf_mul(s, s);
    vf p = vf_set1(1.0f / 15);
    p = vf_fma(p, z, vf_set1(1.0f / 13));
    p = vf_fma(p, z, vf_set1(1.0f / 11));
    p = vf_fma(p, z, vf_set1(1.0f / 9));
    p = vf_fma(p, z, vf_set1(1.0f / 7));
    p = vf_fma(p, z, vf_set1(1.0f / 5));
    p = vf_fma(p, z, vf_set1(1.0f / 3));
    p = vf_fma(p, z, vf_set1(1.0f));
    return vf_mul(vf_add(s, s), p);
}

/* log(1 + e^x); large x do not overflow because only e^-|x| is computed. */
DEVICE vf vf_softplus(vf x)
{
    return vf_add(vf_max(vf_set1(0), x), vf_log1p_unit(vf_exp(vf_sub(vf_set1(0), vf_abs(x)))));
}

/* GELU as x times the normal distribution function: max(x, 0) - |x| erfc(|x| / sqrt(2)) / 2.  With t = 1 / (1 + 0.4 |x| / sqrt(2)), half of
 * erfc is e^(-x^2 / 2) times a polynomial in t that was fitted at Chebyshev nodes: relative error below 3e-7. */
DEVICE vf vf_gelu_erf(vf x)
{
    const vf size = vf_abs(x), t = vf_div(vf_set1(1.0f), vf_fma(size, vf_set1(0.282842712f), vf_set1(1.0f)));
    vf p = vf_set1(0.0256732426f);
    p = vf_fma(p, t, vf_set1(-0.0936627526f));
    p = vf_fma(p, t, vf_set1(0.0882139631f));
    p = vf_fma(p, t, vf_set1(-0.00598078629f));
    p = vf_fma(p, t, vf_set1(0.072240668f));
    p = vf_fma(p, t, vf_set1(0.0838731429f));
    p = vf_fma(p, t, vf_set1(0.103972329f));
    p = vf_fma(p, t, vf_set1(0.112832314f));
    p = vf_fma(p, t, vf_set1(0.112837951f));
    const vf half = vf_mul(vf_mul(p, t), vf_exp(vf_mul(vf_mul(x, x), vf_set1(-0.5f))));
    return vf_sub(vf_max(vf_set1(0), x), vf_mul(size, half));
}

#define MAP_ROW(name) \
    DEVICE void name(float *y, uint32_t n) \
    { \
        uint32_t i = 0; \
        for (; i + 16 <= n; i += 16) vf_store(y + i, vf_##name(vf_load(y + i))); \
        if (i < n) vf_store_n(y + i, vf_##name(vf_load_n(y + i, n - i)), n - i); \
    }
MAP_ROW(silu)
MAP_ROW(gelu)
MAP_ROW(gelu_erf)
MAP_ROW(sigmoid)
MAP_ROW(softplus)
MAP_ROW(relu_sqr)
#undef MAP_ROW

/* y = a * b */
DEVICE void multiply(float *y, const float *a, const float *b, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) vf_store(y + i, vf_mul(vf_load(a + i), vf_load(b + i)));
    if (i < n) vf_store_n(y + i, vf_mul(vf_load_n(a + i, n - i), vf_load_n(b + i, n - i)), n - i);
}

/* y holds columns r .. r + n - 1 of a row; each run of `each` columns is multiplied by its factor. */
DEVICE void multiply_runs(float *y, const float *factors, uint32_t r, uint32_t each, uint32_t n)
{
    for (uint32_t i = 0; i < n;) {
        const uint32_t left = each - (r + i) % each, m = left < n - i ? left : n - i;
        scale(y + i, y + i, factors[(r + i) / each], m);
        i += m;
    }
}

/* y = g sigmoid(alpha g) (u + 1), g = min(gate, limit), u = up clamped to -limit .. limit.  y may be gate or up. */
DEVICE vf vf_glu_oai(vf gate, vf up, float alpha, float limit)
{
    const vf most = vf_set1(limit), g = vf_min(most, gate), u = vf_max(vf_set1(-limit), vf_min(most, up));
    return vf_mul(vf_mul(g, vf_sigmoid(vf_mul(vf_set1(alpha), g))), vf_add(u, vf_set1(1.0f)));
}
DEVICE void glu_oai(float *y, const float *gate, const float *up, float alpha, float limit, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) vf_store(y + i, vf_glu_oai(vf_load(gate + i), vf_load(up + i), alpha, limit));
    if (i < n) vf_store_n(y + i, vf_glu_oai(vf_load_n(gate + i, n - i), vf_load_n(up + i, n - i), alpha, limit), n - i);
}

/* y = y / max(|y|, eps) */
DEVICE void l2norm(float *y, uint32_t n, float eps)
{
    const float squares = row_sum_squares(y, 0, n);
    scale(y, y, squares > eps * eps ? f32_rsqrt(squares) : 1.0f / eps, n);
}

/* The factor of attention scores that grows with the position: 1 + by log(1 + floor(position / n_ctx)). */
DEVICE float temperature(uint32_t position, float by, uint32_t n_ctx)
{
    const uint32_t n = 1 + position / n_ctx, exponent = 31u - (uint32_t)__builtin_clz(n);
    const float rest = (float)(n - (1u << exponent)) / (float)(1u << exponent);
    return 1.0f + by * ((float)exponent * 0.693147181f + vf_get(vf_log1p_unit(vf_set1(rest)), 0));
}

/* Alternates heads of x and z: each output head is x's followed by z's.  y[n] begins at head `head`; x [..][x_dim], z [..][z_dim]. */
DEVICE void join_heads(float *y, const float *x, const float *z, uint32_t head, uint32_t x_dim, uint32_t z_dim, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += x_dim + z_dim, head++) {
        for (uint32_t k = 0; k < x_dim; k++) y[i + k] = x[(uint64_t)head * x_dim + k];
        for (uint32_t k = 0; k < z_dim; k++) y[i + x_dim + k] = z[(uint64_t)head * z_dim + k];
    }
}

/* From every `every` columns of x takes `count`, beginning with piece number `piece`, and stores them without gaps. */
DEVICE void take_parts(float *y, const float *x, uint32_t piece, uint32_t count, uint32_t every, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += count, piece++)
        for (uint32_t k = 0; k < count && i + k < n; k++) y[i + k] = x[(uint64_t)piece * every + k];
}
