/* tq2_0.h -- -1, 0, 1 as 2-bit codes, a half-float scale per 256 columns. */
#ifndef FORGE_GPU_tq2_0
#define FORGE_GPU_tq2_0
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_tq2_0(cols) (UNITS_OF(cols) * 16 + PLANE_BYTES(SUPERS_OF(cols) * 2))
#define UNIT_COLS_tq2_0 64
#define SUMS16_tq2_0 0
#define LOADS_tq2_0 2

struct unit_tq2_0 { u32x4 pairs; uint32_t d; };             /* codes; f16 of two superblocks */

DEVICE void load_tq2_0(struct unit_tq2_0 *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->pairs = load_weights16(row + unit * 16);
    u->d     = load_weights4(plane_at(row, unit / 8 * 4, units * 16));
}
DEVICE void pin_tq2_0(struct unit_tq2_0 *u) { pin16(&u->pairs); PIN(u->d); }
/* Loaded with its neighbour: a 16-bit load would be widened, so the wave would wait for it before its use. */
DEVICE float d_tq2_0(const struct unit_tq2_0 *u, const uint32_t unit) { return f32_of_f16_bits(u->d >> (unit * 4 & 16u)); }
/* Columns 16c .. as 64 (1 - code): with its lowest bit flipped a pair is 1 - code in two's complement. */
DEVICE u32x4 codes_tq2_0(const struct unit_tq2_0 *u, const uint32_t c) { return bit_pairs(u->pairs, c, 6); }
DEVICE float dot_tq2_0(const struct unit_tq2_0 *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    const float p0 = dot_block(codes_tq2_0(u, 0), codes_tq2_0(u, 1), x, 0, digits);
    const float p1 = dot_block(codes_tq2_0(u, 2), codes_tq2_0(u, 3), x, 1, digits);
    return -0.015625f * d_tq2_0(u, unit) * (p0 * x->scale.x + p1 * x->scale.y);
}
/* The exact weight, rounded once. */
DEVICE void decode_tq2_0(uint32_t h[32], const struct unit_tq2_0 *u, const uint32_t unit)
{
    const f16x2 d = splat_f16(d_tq2_0(u, unit));
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) decode16(h + 8 * c, bit_pairs(u->pairs, c, 0) ^ 0x01010101u, 1.0f, 1.0f, d);
}
#endif
