/* iq3_s.h -- odd values -15 .. 15 as 4-bit signed codes; per 256 columns half-float d, per 32 an odd scale: w = d scale (2 code + 1). */
#ifndef FORGE_GPU_iq3_s
#define FORGE_GPU_iq3_s
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_iq3_s(cols) (UNITS_OF(cols) * 32 + PLANE_BYTES(SUPERS_OF(cols) * 8))
#define UNIT_COLS_iq3_s 64
#define SUMS16_iq3_s 0
#define LOADS_iq3_s 3

struct unit_iq3_s { u32x4 q[2]; u32x2 head; };              /* nibbles of the two blocks; d, upper scale bits (2 x 8), lower (4 x 8) */

DEVICE void load_iq3_s(struct unit_iq3_s *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->q[0] = load_weights16(row + unit * 16);
    u->q[1] = load_weights16(quants_at(row, unit * 16, units * 16));
    u->head = load_weights8(plane_at(row, unit / 4 * 8, units * 32));
}
DEVICE void pin_iq3_s(struct unit_iq3_s *u) { pin16(&u->q[0]); pin16(&u->q[1]); pin8(&u->head); }
/* The scale of block b of the unit. */
DEVICE float scale_iq3_s(const struct unit_iq3_s *u, const uint32_t unit, const uint32_t b)
{
    const uint32_t block = 2 * (unit & 3u) + b;
    return (float)((u->head.y >> 4 * block & 15u) | (u->head.x >> (16 + 2 * block) & 3u) << 4);
}
/* 8 (2 code + 1) as signed bytes: half a step is the bit below the nibble. */
DEVICE u32x4 low_codes_iq3_s(const struct unit_iq3_s *u, const uint32_t b)  { return low_nibbles_up(u->q[b]) | 0x08080808u; }
DEVICE u32x4 high_codes_iq3_s(const struct unit_iq3_s *u, const uint32_t b) { return high_nibbles_up(u->q[b]) | 0x08080808u; }
DEVICE float dot_iq3_s(const struct unit_iq3_s *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    const float p0 = dot_block(low_codes_iq3_s(u, 0), high_codes_iq3_s(u, 0), x, 0, digits);
    const float p1 = dot_block(low_codes_iq3_s(u, 1), high_codes_iq3_s(u, 1), x, 1, digits);
    const float d8 = 0.125f * f32_of_f16_bits(u->head.x);
    return d8 * (p0 * (scale_iq3_s(u, unit, 0) * x->scale.x) + p1 * (scale_iq3_s(u, unit, 1) * x->scale.y));
}
/* d scale is rounded to f16: within 2^-10 of the weight. */
DEVICE void decode_iq3_s(uint32_t h[32], const struct unit_iq3_s *u, const uint32_t unit)
{
    const float d256 = 256.0f * f32_of_f16_bits(u->head.x);
#pragma unroll
    for (uint32_t b = 0; b < 2; b++) {
        const f16x2 scale = splat_f16(d256 * scale_iq3_s(u, unit, b));
        decode16(h + 16 * b,     low_codes_iq3_s(u, b) ^ 0x80808080u,  128.0f, 0.125f / 256.0f, scale);
        decode16(h + 16 * b + 8, high_codes_iq3_s(u, b) ^ 0x80808080u, 128.0f, 0.125f / 256.0f, scale);
    }
}
#endif
