/* embed_tmpl.c -- rows of the embedding table as f32.  Included once per format with FORMAT defined, after formats/FORMAT.h; defines
 * embed_row_FORMAT.
 * A weight is computed as the product of its unit with activations that are 0 except for a single 1.  So the format's own arithmetic
 * applies, which is exact up to f32 rounding; its decoding for the matrix unit rounds to f16. */
#ifndef FORMAT
#define FORMAT q8_0
#include "formats/q8_0.h"
#endif
#include "row_stride.h"
#include "stage.h"

#ifndef FORGE_EMBED_COMMON
#define FORGE_EMBED_COMMON
#define EMBED_JOIN2(name, format) name##format
#define EMBED_JOIN(name, format)  EMBED_JOIN2(name, format)

/* A thread computes columns 16 piece .. of a row: of one unit of 64 columns, or of some smaller units.  A wave has the same quarter of WAVE
 * units, so that the bits of a column are known at compile time.  EMBED_GROUPS (gemv_sizes.h) has as many threads. */
struct embed_piece { uint32_t unit, quarter; };
DEVICE struct embed_piece embed_piece(const uint32_t threads)
{
    const uint32_t wave = group_x() * (threads / WAVE) + wave_id();
    const struct embed_piece p = { wave / 4 * WAVE + lane_id(), wave % 4 };
    return p;
}
#endif

#define F(name) EMBED_JOIN(name, FORMAT)

#if F(UNIT_COLS_) == 64
/* The weight in column c, a constant, of a unit. */
DEVICE float F(embed_)(const struct F(unit_) *u, const uint32_t c, const uint32_t unit)
{
    struct acts_unit x;
    x.one = c + 1;
    x.scale.x = 1.0f;
    x.scale.y = 1.0f;
    x.scale.z = c < 32 ? 1.0f : 0.0f;
    x.scale.w = c < 32 ? 0.0f : 1.0f;
    UNROLL
    for (uint32_t i = 0; i < 4; i++) x.sum16[i] = c / 16 == i ? 1.0f : 0.0f;
    return F(dot_)(u, &x, unit, 1);
}

/* The quarter of a unit that begins with column c, a constant. */
DEVICE void F(embed_quarter_)(float *out, const struct F(unit_) *u, const uint32_t c, const uint32_t unit, const uint32_t cols)
{
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        f32x4 v;
        UNROLL
        for (uint32_t k = 0; k < 4; k++) v[k] = F(embed_)(u, c + 4 * i + k, unit);
        row_quad_put(out, v, 16 * unit + c / 4 + i, cols);
    }
}
#endif

/* out: [cols] f32, 16-byte aligned.  table: packed rows of cols weights, one per token.  grid_x: EMBED_GROUPS(cols, WAVE, threads).  cols,
 * threads: constants; threads: whole waves. */
DEVICE void F(embed_row_)(float *out, const uint8_t *table, const int32_t token, const uint32_t cols, const uint32_t threads)
{
    const uint8_t *row = table + (uint64_t)(uint32_t)token * ROW_STRIDE(F(ROW_BYTES_)(cols));
    const uint32_t units = (cols + F(UNIT_COLS_) - 1) / F(UNIT_COLS_);
    const struct embed_piece p = embed_piece(threads);
    struct F(unit_) u;
#if F(UNIT_COLS_) == 64
    if (p.unit >= units) return;
    F(load_)(&u, row, p.unit, units);
    F(pin_)(&u);                                 /* before the branches: all loads at once */
    if (p.quarter == 0) F(embed_quarter_)(out, &u, 0, p.unit, cols);
    if (p.quarter == 1) F(embed_quarter_)(out, &u, 16, p.unit, cols);
    if (p.quarter == 2) F(embed_quarter_)(out, &u, 32, p.unit, cols);
    if (p.quarter == 3) F(embed_quarter_)(out, &u, 48, p.unit, cols);
#else
    UNROLL
    for (uint32_t i = 0; i < 16 / F(UNIT_COLS_); i++) {
        const uint32_t unit = (4 * p.unit + p.quarter) * (16 / F(UNIT_COLS_)) + i;
        if (unit >= units) return;
        F(load_)(&u, row, unit, units);
        UNROLL
        for (uint32_t c = 0; c < F(UNIT_COLS_); c += 4) {
            f32x4 v;
            UNROLL
            for (uint32_t k = 0; k < 4; k++) {
                f32x4 x[2] = { (f32x4)(0.0f), (f32x4)(0.0f) };
                x[c / 4][k] = 1.0f;
                v[k] = F(dotf_)(&u, x);
            }
            row_quad_put(out, v, unit * (F(UNIT_COLS_) / 4) + c / 4, cols);
        }
    }
#endif
}
#undef F
