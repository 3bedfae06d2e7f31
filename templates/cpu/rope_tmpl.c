/* rope_tmpl.c -- rotary position embedding.  (Su et al. 2021, arXiv:2104.09864)
 * Angles reach position * 1 radian, where sine and cosine of floats lose digits; so none are computed at run time.  The build computes, in
 * double precision, the rotations by multiples of a block of positions and by the positions within a block; their complex product is the
 * rotation of a position, exact to rounding. */
#include "vec.h"

/* cs: receives [n_rot/2] cosines, then [n_rot/2] sines of `position` = a * block + b.
 * hi: [n_hi][n_rot/2][2] cos, sin of position a * block, times the attention factor;  lo: [block][n_rot/2][2] of position b. */
DEVICE void rope_table(float *cs, const float *hi, const float *lo, uint32_t position, uint32_t block, uint32_t n_rot)
{
    const uint32_t half = n_rot / 2;
    const float *h = hi + (uint64_t)(position / block) * n_rot, *l = lo + (uint64_t)(position % block) * n_rot;
    for (uint32_t i = 0; i < half; i++) {
        const float c = h[2 * i] * l[2 * i] - h[2 * i + 1] * l[2 * i + 1];
        const float s = h[2 * i + 1] * l[2 * i] + h[2 * i] * l[2 * i + 1];
        cs[i] = c;
        cs[half + i] = s;
    }
}

/* Pairs (i, i + n_rot/2). */
DEVICE void rope_apply_neox(float *head, const float *cs, uint32_t n_rot)
{
    const uint32_t half = n_rot / 2;
    uint32_t i = 0;
    for (; i + 16 <= half; i += 16) {
        const vf a = vf_load(head + i), b = vf_load(head + half + i), c = vf_load(cs + i), s = vf_load(cs + half + i);
        vf_store(head + i,        vf_sub(vf_mul(a, c), vf_mul(b, s)));
        vf_store(head + half + i, vf_fma(a, s, vf_mul(b, c)));
    }
    if (i < half) {
        const uint32_t n = half - i;
        const vf a = vf_load_n(head + i, n), b = vf_load_n(head + half + i, n), c = vf_load_n(cs + i, n), s = vf_load_n(cs + half + i, n);
        vf_store_n(head + i,        vf_sub(vf_mul(a, c), vf_mul(b, s)), n);
        vf_store_n(head + half + i, vf_fma(a, s, vf_mul(b, c)), n);
    }
}

/* Pairs (2i, 2i + 1). */
DEVICE void rope_apply_norm(float *head, const float *cs, uint32_t n_rot)
{
    const uint32_t half = n_rot / 2;
    uint32_t i = 0;
    for (; i + 8 <= half; i += 8) {
        const vf x = vf_load(head + 2 * i);
        vf_store(head + 2 * i, vf_fma(x, vf_pairs8(cs + i), vf_mul(vf_rotate_pairs(x), vf_pairs8(cs + half + i))));
    }
    for (; i < half; i++) {
        const float a = head[2 * i], b = head[2 * i + 1], c = cs[i], s = cs[half + i];
        head[2 * i]     = a * c - b * s;
        head[2 * i + 1] = a * s + b * c;
    }
}

/* Rotates one head [head_dim] in place; dimensions from n_rot on stay unchanged.  cs: from rope_table(). */
DEVICE void rope_apply(float *head, const float *cs, uint32_t n_rot, uint32_t head_dim, uint32_t neox)
{
    if (n_rot > head_dim) n_rot = head_dim;
    if (neox) rope_apply_neox(head, cs, n_rot);
    else      rope_apply_norm(head, cs, n_rot);
}
