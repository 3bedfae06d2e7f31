/* iq2_xs.h -- magnitudes 8, 25, 43 in two bits, a sign in a third; per 256 columns half-float d, per 16 a nibble:
 * w = d / 8 (2 nibble + 1) value. */
#ifndef FORGE_GPU_iq2_xs
#define FORGE_GPU_iq2_xs
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_iq2_xs(cols) \
    (UNITS_OF(cols) * 16 + PLANE_BYTES(UNITS_OF(cols) * 8) + PLANE_BYTES(UNITS_OF(cols) * 2) + PLANE_BYTES(SUPERS_OF(cols) * 2))
#define UNIT_COLS_iq2_xs 64
#define SUMS16_iq2_xs 0
#define LOADS_iq2_xs 4

struct unit_iq2_xs { u32x4 pairs; u32x2 signs; uint32_t scales, d; };      /* scales: 4 nibbles each of two units; f16 of two superblocks */

DEVICE void load_iq2_xs(struct unit_iq2_xs *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    const uint32_t scales_at = units * 16 + PLANE_BYTES(units * 8);
    u->pairs  = load_weights16(row + unit * 16);
    u->signs  = load_weights8(plane_at(row, unit * 8, units * 16));
    u->scales = load_weights4(plane_at(row, unit / 2 * 4, scales_at));
    u->d      = load_weights4(plane_at(row, unit / 8 * 4, scales_at + PLANE_BYTES(units * 2)));
}
DEVICE void pin_iq2_xs(struct unit_iq2_xs *u) { pin16(&u->pairs); pin8(&u->signs); PIN(u->scales); PIN(u->d); }
/* Loaded with neighbours: a 16-bit load would be widened, so the wave would wait for it before its use. */
DEVICE float d_iq2_xs(const struct unit_iq2_xs *u, const uint32_t unit) { return f32_of_f16_bits(u->d >> (unit * 4 & 16u)); }
DEVICE float scale_iq2_xs(const struct unit_iq2_xs *u, const uint32_t unit, const uint32_t c)
{
    return (float)(int32_t)(2 * (u->scales >> (unit * 16 & 16u) >> 4 * c & 15u) + 1);
}
/* Columns 16c .. as signed bytes: 8 25 43, -8 -25 -43. */
DEVICE u32x4 codes_iq2_xs(const struct unit_iq2_xs *u, const uint32_t c)
{
    return table8_codes(u->pairs, u->signs, c, 0x002b1908u, 0x00d5e7f8u);
}
DEVICE float dot_iq2_xs(const struct unit_iq2_xs *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    float p[4];
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) p[c] = scale_iq2_xs(u, unit, c) * dot_piece(codes_iq2_xs(u, c), x, c, digits);
    return 0.125f * d_iq2_xs(u, unit) * (x->scale.x * (p[0] + p[1]) + x->scale.y * (p[2] + p[3]));
}
/* d (2 nibble + 1) is rounded to f16: within 2^-10 of the weight. */
DEVICE void decode_iq2_xs(uint32_t h[32], const struct unit_iq2_xs *u, const uint32_t unit)
{
    const float d256 = 256.0f * d_iq2_xs(u, unit);
#pragma unroll
    for (uint32_t c = 0; c < 4; c++)
        decode16(h + 8 * c, codes_iq2_xs(u, c) ^ 0x80808080u, 128.0f, 0.125f / 256.0f, splat_f16(d256 * scale_iq2_xs(u, unit, c)));
}
#endif
