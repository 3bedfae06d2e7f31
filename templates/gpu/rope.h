/* rope.h -- operations on the heads of a token between their projection and attention: RMS norm of a head, and rotary position embedding.
 * (Su et al. 2021, arXiv:2104.09864; Zhang & Sennrich 2019, arXiv:1910.07467)
 * One wave works on one head; a lane holds the pairs that rotate together, so only the norm's sum moves between lanes.
 * The image holds rotations, computed in double precision (compiler/build/image.c): hi [..][n_rot/2][2] cos, sin of position block * k
 * times the attention factor, lo [block][n_rot/2][2] of position k; the rotation of a position is the complex product of one row of each.
 * neox: pairs (i, i + n_rot/2), else (2i, 2i + 1); dimensions from n_rot on stay unchanged.  n_rot 0: no rotation, tables may be NULL. */
#ifndef FORGE_ROPE_H
#define FORGE_ROPE_H
#include "kv.h"

enum { HEAD_DIM_MAX = 256, HEAD_PAIRS = HEAD_DIM_MAX / 2 / WAVE };

/* a[k], b[k]: pair lane + WAVE * k; pairs beyond the head are 0. */
struct head { float a[HEAD_PAIRS], b[HEAD_PAIRS]; };
/* Rows of the two tables as loaded. */
struct rotation { f32x2 hi[HEAD_PAIRS], lo[HEAD_PAIRS]; };

DEVICE uint32_t head_pairs(const uint32_t head_dim) { return (head_dim / 2 + WAVE - 1) / WAVE; }
/* Whether pair lane + WAVE * k is one of n pairs.  A constant if this holds in every lane, so that loads are not conditional. */
DEVICE uint32_t pair_exists(const uint32_t k, const uint32_t n) { return WAVE * (k + 1) <= n || lane_id() + WAVE * k < n; }
/* The two dimensions of pair i. */
DEVICE uint32_t pair_a(uint32_t i, const uint32_t n_rot, const uint32_t neox) { return neox && i < n_rot / 2 ? i : 2 * i; }
DEVICE uint32_t pair_b(uint32_t i, const uint32_t n_rot, const uint32_t neox) { return neox && i < n_rot / 2 ? i + n_rot / 2 : 2 * i + 1; }

/* x: [head_dim], global. */
DEVICE void head_load(struct head *h, const float *x, const uint32_t head_dim, const uint32_t n_rot, const uint32_t neox)
{
    UNROLL
    for (uint32_t k = 0; k < head_pairs(head_dim); k++) {
        const uint32_t exists = pair_exists(k, head_dim / 2), i = exists ? lane_id() + WAVE * k : 0;
        const float a = ((const GLOBAL float *)x)[pair_a(i, n_rot, neox)], b = ((const GLOBAL float *)x)[pair_b(i, n_rot, neox)];
        h->a[k] = exists ? a : 0.0f;
        h->b[k] = exists ? b : 0.0f;
    }
}

DEVICE void rotation_load(struct rotation *r, const float *hi, const float *lo, uint32_t position, const uint32_t block,
                          const uint32_t head_dim, const uint32_t n_rot)
{
    if (n_rot == 0) return;
    const GLOBAL f32x2 *h = (const GLOBAL f32x2 *)(const void *)(hi + (uint64_t)(position / block) * n_rot);
    const GLOBAL f32x2 *l = (const GLOBAL f32x2 *)(const void *)(lo + (uint64_t)(position % block) * n_rot);
    UNROLL
    for (uint32_t k = 0; k < head_pairs(head_dim); k++) {
        const uint32_t i = pair_exists(k, n_rot / 2) ? lane_id() + WAVE * k : 0;
        r->hi[k] = h[i];
        r->lo[k] = l[i];
    }
}

/* x = x / sqrt(mean(x^2) + eps) * weight, over the head. */
DEVICE void head_norm(struct head *h, const struct head *weight, float eps, const uint32_t head_dim)
{
    float sum = 0.0f;
    UNROLL
    for (uint32_t k = 0; k < head_pairs(head_dim); k++) sum += h->a[k] * h->a[k] + h->b[k] * h->b[k];
    const float factor = rsqrt_f32(lanes_sum_f32(sum, WAVE) * (1.0f / (float)head_dim) + eps);
    UNROLL
    for (uint32_t k = 0; k < head_pairs(head_dim); k++) {
        h->a[k] *= factor * weight->a[k];
        h->b[k] *= factor * weight->b[k];
    }
}

DEVICE void head_rotate(struct head *h, const struct rotation *r, const uint32_t head_dim, const uint32_t n_rot)
{
    UNROLL
    for (uint32_t k = 0; k < head_pairs(head_dim); k++) {
        if (!pair_exists(k, n_rot / 2)) continue;
        const float c = r->hi[k].x * r->lo[k].x - r->hi[k].y * r->lo[k].y, s = r->hi[k].y * r->lo[k].x + r->hi[k].x * r->lo[k].y;
        const float a = h->a[k], b = h->b[k];
        h->a[k] = a * c - b * s;
        h->b[k] = a * s + b * c;
    }
}

/* Stores the two dimensions of a pair; without neox they are neighbours. */
DEVICE void head_put(float *a_at, float *b_at, float a, float b, const uint32_t neox)
{
    const f32x2 both = { a, b };
    if (!neox) *(f32x2 *)(void *)a_at = both;
    else *a_at = a, *b_at = b;
}

/* x: [head_dim], global or LDS. */
DEVICE void head_store(float *x, const struct head *h, const uint32_t head_dim, const uint32_t n_rot, const uint32_t neox)
{
    UNROLL
    for (uint32_t k = 0; k < head_pairs(head_dim); k++) {
        const uint32_t i = lane_id() + WAVE * k;
        if (!pair_exists(k, head_dim / 2)) continue;
        head_put(x + pair_a(i, n_rot, neox), x + pair_b(i, n_rot, neox), h->a[k], h->b[k], neox);
    }
}

/* Norm, if there are weights ([head_dim], or NULL), then rotation. */
DEVICE void head_finish(struct head *h, const float *weight, float eps, const float *hi, const float *lo, uint32_t position,
                        const uint32_t block, const uint32_t head_dim, const uint32_t n_rot, const uint32_t neox)
{
    struct rotation r;
    rotation_load(&r, hi, lo, position, block, head_dim, n_rot);
    if (weight) {
        struct head w;
        head_load(&w, weight, head_dim, n_rot, neox);
        head_norm(h, &w, eps, head_dim);
    }
    head_rotate(h, &r, head_dim, n_rot);
}

/* Prefill, a kernel's body for token t of the step: query heads are normed and rotated in place; keys are normed, rotated and stored in the
 * cache; values are stored there.  q: [n_head][head_dim], k, v: [n_head_kv][head_dim], the token's rows, f32.  q_norm, k_norm: [head_dim]
 * or NULL.  ring: kv.h.
 * grid_x: HEAD_GROUPS(n_head + 2 * n_head_kv, WAVE, threads); LDS: threads / WAVE * head_dim * 4 bytes. */
DEVICE void qkv_finish(const struct forge_kernel_args a, uint32_t t, float *q, const float *k, const float *v, const float *q_norm,
                       const float *k_norm, float eps, const float *hi, const float *lo, const uint32_t n_rot, const uint32_t neox,
                       const uint32_t block, const uint32_t n_head, const uint32_t n_head_kv, const uint32_t head_dim, const uint32_t n_ctx,
                       const uint32_t threads, const uint32_t ring)
{
    const uint32_t item = group_x() * (threads / WAVE) + wave_id(), position = position_of(a, t), rows = kv_rows(n_ctx, ring);
    struct head h;
    if (item < n_head) {
        float *head = q + (uint64_t)item * head_dim;
        head_load(&h, head, head_dim, n_rot, neox);
        head_finish(&h, q_norm, eps, hi, lo, position, block, head_dim, n_rot, neox);
        head_store(head, &h, head_dim, n_rot, neox);
    } else if (item < n_head + n_head_kv) {
        float *row = (float *)(void *)lds() + wave_id() * head_dim;
        head_load(&h, k + (uint64_t)(item - n_head) * head_dim, head_dim, n_rot, neox);
        head_finish(&h, k_norm, eps, hi, lo, position, block, head_dim, n_rot, neox);
        head_store(row, &h, head_dim, n_rot, neox);
        wave_barrier();
        kv_store_row(kv_k(a) + state_of(a, t), item - n_head, kv_row(position, ring), row, n_head_kv, rows, head_dim);
    } else if (item < n_head + 2 * n_head_kv) {
        const uint32_t kv_head = item - n_head - n_head_kv;
        kv_store_row(kv_v(a, n_head_kv, rows, head_dim) + state_of(a, t), kv_head, kv_row(position, ring),
                     v + (uint64_t)kv_head * head_dim, n_head_kv, rows, head_dim);
    }
}

/* Single operations on head `item` of a token, by one wave: out, x: [heads][head_dim] f32; out may be x. */
DEVICE void headnorm_row(float *out, const float *x, const float *weight, float eps, uint32_t item, const uint32_t head_dim)
{
    struct head h, w;
    head_load(&h, x + (uint64_t)item * head_dim, head_dim, 0, 0);
    head_load(&w, weight, head_dim, 0, 0);
    head_norm(&h, &w, eps, head_dim);
    head_store(out + (uint64_t)item * head_dim, &h, head_dim, 0, 0);
}

DEVICE void rope_row(float *out, const float *x, const float *hi, const float *lo, uint32_t position, const uint32_t n_rot,
                     const uint32_t neox, const uint32_t block, uint32_t item, const uint32_t head_dim)
{
    struct head h;
    head_load(&h, x + (uint64_t)item * head_dim, head_dim, n_rot, neox);
    head_finish(&h, 0, 0.0f, hi, lo, position, block, head_dim, n_rot, neox);
    head_store(out + (uint64_t)item * head_dim, &h, head_dim, n_rot, neox);
}
#endif
