/* pile.h -- for tests of WGSL kernels, which write files for run.mjs: bytes of a file, rows of activations, expected products. */
#ifndef FORGE_TESTS_WEBGPU_PILE_H
#define FORGE_TESTS_WEBGPU_PILE_H
#include "tests/kernel/blocks.h"
#include "compiler/base/base.h"

struct pile { uint8_t *bytes; size_t n, capacity; };
static inline void pile_add(struct arena *a, struct pile *p, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        arena_room(a, p->bytes, p->n, p->capacity);
        p->bytes[p->n++] = ((const uint8_t *)bytes)[i];
    }
}
static inline void pair_add(struct arena *a, struct pile *p, double want, double bound)
{
    pile_add(a, p, (const double[2]){ want, bound }, sizeof(double[2]));
}

/* WGSL may treat subnormal floats (below 2^-126) as zero.  tiny_weight bounds the loss for a weight, or for a scale that multiplies one of
 * MXFP4's levels (up to 12); tiny_product for a product of scales, which multiplies a block's sum of integers (below 2^16). */
static const double tiny_weight = 0x1p-122, tiny_product = 0x1p-110;


/* ---- rows and products with them ---- */
/* A norm's weights: a power of two per block, with random signs; without a norm all are 1. */
static inline void norm_fill(float *weight, uint32_t cols, bool norm)
{
    int power = 0;
    for (uint32_t i = 0; i < cols; i++) {
        if (i % 32 == 0) power = (int)random_below(7) - 3;
        weight[i] = norm ? random_sign() * ldexpf(1, power) : 1;
    }
}
/* A row of the arena.  x: its values as the product should read them, rounded to int8 if weights have codes; floats: without rounding.  The
 * row is d (q + e), with a column of q = +-127 in each block and |e| below 1/2, so that d and q are known; a norm's weights keep that. */
static inline void row_fill(float *row, const float *weight, double *x, double *floats, uint32_t cols, bool norm, bool coding)
{
    double squares = 0;
    for (uint32_t col = 0; col < cols; col += 32) {
        const float d = fabsf(random_between(-6, 2));
        const uint32_t there = cols - col < 32 ? cols - col : 32, top = random_below(there), zero = !random_below(8);
        for (uint32_t i = col; i < col + there; i++) {
            const int q = zero ? 0 : i == col + top ? (random_below(2) ? -127 : 127) : (int)random_below(253) - 126;
            const float e = zero || i == col + top ? 0 : 0.4f * random_sign() * random_f32();
            row[i] = d * ((float)q + e);
            floats[i] = (double)row[i];
            x[i] = coding ? (double)d * q : floats[i];
            squares += (double)row[i] * (double)row[i];
        }
    }
    const double factor = norm ? 1 / sqrt(squares / cols + 1e-5) : 1;
    for (uint32_t i = 0; i < cols; i++) {
        x[i] *= factor * (double)weight[i];
        floats[i] *= factor * (double)weight[i];
    }
}
/* Appends the products of all rows with x, each with its bound. */
static inline void sums_add(struct arena *a, struct pile *sum, const struct matrix *m, const double *x)
{
    double unseen = 2 * ((m->cols + 63) / 64) * tiny_product;
    for (uint32_t i = 0; i < m->cols; i++) unseen += tiny_weight * fabs(x[i]);
    for (uint32_t r = 0; r < m->rows; r++) {
        const struct dot want = dot_ref(m->weights + (uint64_t)r * m->cols, m->sizes + (uint64_t)r * m->cols, x, m->cols);
        pair_add(a, sum, want.sum, 4e-6 * want.size + unseen);
    }
}
#endif
