/* glu_tmpl.c -- gated linear units: y = act(gate) * up.  (Shazeer 2020, arXiv:2002.05202)
 * y, gate, up: [n] for any n; y may be gate or up. */
#include "vec.h"

/* x * sigmoid(x) */
DEVICE vf vf_silu(vf x)
{
    return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(vf_sub(vf_set1(0), x))));
}

/* GELU in its tanh form: 0.5 x (1 + tanh(u)) = x / (1 + e^-2u), which does not subtract nearly equal numbers for negative x. */
DEVICE vf vf_gelu(vf x)
{
    const vf cubic = vf_fma(vf_mul(x, x), vf_set1(0.044715f), vf_set1(1.0f));
    const vf minus_2u = vf_mul(vf_mul(x, cubic), vf_set1(-1.59576912f));        /* 2 sqrt(2 / pi) */
    return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(minus_2u)));
}

DEVICE void glu_silu(float *y, const float *gate, const float *up, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) vf_store(y + i, vf_mul(vf_silu(vf_load(gate + i)), vf_load(up + i)));
    if (i < n) vf_store_n(y + i, vf_mul(vf_silu(vf_load_n(gate + i, n - i)), vf_load_n(up + i, n - i)), n - i);
}

DEVICE void glu_gelu(float *y, const float *gate, const float *up, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) vf_store(y + i, vf_mul(vf_gelu(vf_load(gate + i)), vf_load(up + i)));
    if (i < n) vf_store_n(y + i, vf_mul(vf_gelu(vf_load_n(gate + i, n - i)), vf_load_n(up + i, n - i)), n - i);
}
