/* elementwise_tmpl.c -- elementwise operations.  Rows are [n] for any n; y may be one of the inputs. */
#include "vec.h"

/* y = a + b */
DEVICE void add(float *y, const float *a, const float *b, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) vf_store(y + i, vf_add(vf_load(a + i), vf_load(b + i)));
    if (i < n) vf_store_n(y + i, vf_add(vf_load_n(a + i, n - i), vf_load_n(b + i, n - i)), n - i);
}

/* y += b */
DEVICE void add_bias(float *y, const float *b, uint32_t n) { add(y, y, b, n); }

/* y = x * factor */
DEVICE void scale(float *y, const float *x, float factor, uint32_t n)
{
    const vf f = vf_set1(factor);
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) vf_store(y + i, vf_mul(vf_load(x + i), f));
    if (i < n) vf_store_n(y + i, vf_mul(vf_load_n(x + i, n - i), f), n - i);
}

/* y = cap * tanh(x / cap), cap > 0 */
DEVICE void softcap(float *y, const float *x, float cap, uint32_t n)
{
    const vf c = vf_set1(cap), inverse = vf_set1(1.0f / cap);
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) vf_store(y + i, vf_mul(c, vf_tanh(vf_mul(vf_load(x + i), inverse))));
    if (i < n) vf_store_n(y + i, vf_mul(c, vf_tanh(vf_mul(vf_load_n(x + i, n - i), inverse))), n - i);
}
