/* sequence_tmpl.c -- operations with a state that passes from position to position: one position per call, in the order of the text. */
#include "vec.h"

/* n columns of a causal convolution: y = taps[n_taps - 1] x + the sum of earlier inputs times their taps.  x, y: [n], not overlapping;
 * earlier: [n_taps - 1][cols], oldest first, is shifted by one position; taps: [n_taps][stride]. */
DEVICE void conv_step(float *y, const float *x, float *earlier, const float *taps, uint32_t n_taps, uint32_t cols, uint32_t stride,
                      uint32_t n)
{
    for (uint32_t c = 0; c < n; c += 16) {
        const uint32_t m = n - c < 16 ? n - c : 16, last = n_taps - 1;
        const vf now = m < 16 ? vf_load_n(x + c, m) : vf_load(x + c);
        vf sum = vf_mul(now, m < 16 ? vf_load_n(taps + (uint64_t)last * stride + c, m) : vf_load(taps + (uint64_t)last * stride + c));
        for (uint32_t k = 0; k < last; k++) {
            float *const at = earlier + (uint64_t)k * cols + c, *const before = at - cols;
            const vf e = m < 16 ? vf_load_n(at, m) : vf_load(at);
            sum = vf_fma(e, m < 16 ? vf_load_n(taps + (uint64_t)k * stride + c, m) : vf_load(taps + (uint64_t)k * stride + c), sum);
            if (k && m < 16) vf_store_n(before, e, m);
            else if (k) vf_store(before, e);
        }
        float *const newest = earlier + (uint64_t)(last - 1) * cols + c;
        if (m < 16) vf_store_n(newest, now, m), vf_store_n(y + c, sum, m);
        else        vf_store(newest, now), vf_store(y + c, sum);
    }
}

/* Up to 16 columns of a recurrence; S: at the first of these columns, rows of `stride` floats. */
DEVICE void recur_columns(float *y, float *S, uint32_t stride, const float *q, const float *k, vf v, const float *decay,
                          uint32_t by_channel, float beta, uint32_t delta, uint32_t head_dim, uint32_t m)
{
    vf held[2] = { vf_set1(0), vf_set1(0) }, out[2] = { vf_set1(0), vf_set1(0) };
    const float whole = by_channel ? 0 : f32_exp(*decay);
    if (delta)
        for (uint32_t i = 0; i < head_dim; i++) {
            float *const row = S + (uint64_t)i * stride;
            const vf s = vf_mul(m < 16 ? vf_load_n(row, m) : vf_load(row), vf_set1(by_channel ? f32_exp(decay[i]) : whole));
            held[i % 2] = vf_fma(s, vf_set1(k[i]), held[i % 2]);
            if (m < 16) vf_store_n(row, s, m);
            else        vf_store(row, s);
        }
    const vf d = vf_mul(vf_sub(v, vf_add(held[0], held[1])), vf_set1(beta));
    for (uint32_t i = 0; i < head_dim; i++) {
        float *const row = S + (uint64_t)i * stride;
        vf s = m < 16 ? vf_load_n(row, m) : vf_load(row);
        if (!delta) s = vf_mul(s, vf_set1(by_channel ? f32_exp(decay[i]) : whole));
        s = vf_fma(vf_set1(k[i]), d, s);
        out[i % 2] = vf_fma(s, vf_set1(q[i]), out[i % 2]);
        if (m < 16) vf_store_n(row, s, m);
        else        vf_store(row, s);
    }
    const vf sum = vf_add(out[0], out[1]);
    if (m < 16) vf_store_n(y, sum, m);
    else        vf_store(y, sum);
}

/* n columns of a head's values v: S = exp(decay) S; d = beta (v - [delta] S^T k); S = S + k d^T; y = S^T q.  S: [head_dim][stride], at the
 * first of these columns; q, k: [head_dim]; decay: one number, or (by_channel) one for each row of S.
 * (Yang et al. 2024, arXiv:2412.06464; Dao & Gu 2024, arXiv:2405.21060) */
DEVICE void recur_step(float *y, float *S, uint32_t stride, const float *q, const float *k, const float *v, const float *decay,
                       uint32_t by_channel, float beta, uint32_t delta, uint32_t head_dim, uint32_t n)
{
    for (uint32_t c = 0; c < n; c += 16) {
        const uint32_t m = n - c < 16 ? n - c : 16;
        const vf values = m < 16 ? vf_load_n(v + c, m) : vf_load(v + c);
        recur_columns(y + c, S + c, stride, q, k, values, decay, by_channel, beta, delta, head_dim, m);
    }
}
