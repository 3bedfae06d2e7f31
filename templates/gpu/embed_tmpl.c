/* embed_tmpl.c -- rows of the embedding table as f32.  Included once per format with FORMAT defined and formats/FORMAT.h included before; gives embed_row_FORMAT.
 * A weight is the product of its unit with activations of a single 1: the format's own arithmetic, which is exact to f32's rounding, where its decoding for
 * the matrix unit rounds to f16. */
#ifndef FORMAT
#define FORMAT q8_0
#include "formats/q8_0.h"
#endif
#include "launch.h"
#include "acts_unit.h"

#ifndef FORGE_EMBED_COMMON
#define FORGE_EMBED_COMMON
#define EMBED_JOIN2(name, format) name##format
#define EMBED_JOIN(name, format)  EMBED_JOIN2(name, format)


/* 1 in column c of the unit, 0 elsewhere, with scales of 1. */
DEVICE void acts_one(struct acts_unit *x, uint32_t c)
{
#pragma unroll
    for (uint32_t i = 0; i < 16; i++) x->q[0][i / 4][i % 4] = c / 4 == i ? 1u << 8 * (c % 4) : 0u;
    x->scale.x = 1.0f;
    x->scale.y = 1.0f;
    x->scale.z = c < 32 ? 1.0f : 0.0f;
    x->scale.w = c < 32 ? 0.0f : 1.0f;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) x->sum16[i] = c / 16 == i ? 1.0f : 0.0f;
}
#endif

#define F(name) EMBED_JOIN(name, FORMAT)

/* Weight in column c of a unit. */
DEVICE float F(embed_)(const struct F(unit_) *u, uint32_t c, const uint32_t unit)
{
#if F(UNIT_COLS_) == 64
    struct acts_unit x;
    acts_one(&x, c);
    return F(dot_)(u, &x, unit, 1);
#else
    f32x4 x[2];
    (void)unit;
    for (uint32_t i = 0; i < 8; i++) x[i / 4][i % 4] = c == i ? 1.0f : 0.0f;
    return F(dotf_)(u, x);
#endif
}

/* out: [cols] f32.  table: packed rows of cols weights, one per token.  A thread unpacks one column: grid_x = ceil(cols / threads).  cols, threads: constants. */
DEVICE void F(embed_row_)(float *out, const uint8_t *table, const int32_t token, const uint32_t cols, const uint32_t threads)
{
    const uint8_t *row = table + (uint64_t)(uint32_t)token * F(ROW_BYTES_)(cols);
    const uint32_t units = (cols + F(UNIT_COLS_) - 1) / F(UNIT_COLS_), column = group_x() * threads + thread_x();
    struct F(unit_) u;
    if (column >= cols) return;
    F(load_)(&u, row, column / F(UNIT_COLS_), units);
    ((GLOBAL float *)out)[column] = F(embed_)(&u, column % F(UNIT_COLS_), column / F(UNIT_COLS_));
}
#undef F
