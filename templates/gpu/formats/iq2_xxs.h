/* iq2_xxs.h -- magnitudes 8, 25, 43 in two bits, a sign in a third; per 256 columns half-float d, per 32 an odd scale:
 * w = d / 8 scale value. */
#ifndef FORGE_GPU_iq2_xxs
#define FORGE_GPU_iq2_xxs
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_iq2_xxs(cols) (UNITS_OF(cols) * 16 + PLANE_BYTES(UNITS_OF(cols) * 8) + PLANE_BYTES(SUPERS_OF(cols) * 8))
#define UNIT_COLS_iq2_xxs 64
#define SUMS16_iq2_xxs 0
#define LOADS_iq2_xxs 3

struct unit_iq2_xxs { u32x4 pairs; u32x2 signs, head; };    /* head: d, upper scale bits (2 x 8), lower (4 x 8) */

DEVICE void load_iq2_xxs(struct unit_iq2_xxs *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->pairs = load_weights16(row + unit * 16);
    u->signs = load_weights8(plane_at(row, unit * 8, units * 16));
    u->head  = load_weights8(plane_at(row, unit / 4 * 8, units * 16 + PLANE_BYTES(units * 8)));
}
DEVICE void pin_iq2_xxs(struct unit_iq2_xxs *u) { pin16(&u->pairs); pin8(&u->signs); pin8(&u->head); }
/* The scale of block b of the unit. */
DEVICE float scale_iq2_xxs(const struct unit_iq2_xxs *u, const uint32_t unit, const uint32_t b)
{
    const uint32_t block = 2 * (unit & 3u) + b;
    return (float)((u->head.y >> 4 * block & 15u) | (u->head.x >> (16 + 2 * block) & 3u) << 4);
}
/* Columns 16c .. as signed bytes: 8 25 43, -8 -25 -43. */
DEVICE u32x4 codes_iq2_xxs(const struct unit_iq2_xxs *u, const uint32_t c)
{
    return table8_codes(u->pairs, u->signs, c, 0x002b1908u, 0x00d5e7f8u);
}
DEVICE float dot_iq2_xxs(const struct unit_iq2_xxs *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    const float p0 = dot_block(codes_iq2_xxs(u, 0), codes_iq2_xxs(u, 1), x, 0, digits);
    const float p1 = dot_block(codes_iq2_xxs(u, 2), codes_iq2_xxs(u, 3), x, 1, digits);
    const float d8 = 0.125f * f32_of_f16_bits(u->head.x);
    return d8 * (p0 * (scale_iq2_xxs(u, unit, 0) * x->scale.x) + p1 * (scale_iq2_xxs(u, unit, 1) * x->scale.y));
}
/* d scale is rounded to f16: within 2^-10 of the weight. */
DEVICE void decode_iq2_xxs(uint32_t h[32], const struct unit_iq2_xxs *u, const uint32_t unit)
{
    const float d256 = 256.0f * f32_of_f16_bits(u->head.x);
#pragma unroll
    for (uint32_t c = 0; c < 4; c++)
        decode16(h + 8 * c, codes_iq2_xxs(u, c) ^ 0x80808080u, 128.0f, 0.125f / 256.0f, splat_f16(d256 * scale_iq2_xxs(u, unit, c / 2)));
}
#endif
