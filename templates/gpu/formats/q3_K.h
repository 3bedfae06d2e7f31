/* q3_K.h -- 3-bit signed codes; per 256 columns half-float d, per 16 columns a six-bit scale: w = d (sc - 32) (code - 4). */
#ifndef FORGE_GPU_q3_K
#define FORGE_GPU_q3_K
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_q3_K(cols) (UNITS_OF(cols) * 16 + PLANE_BYTES(UNITS_OF(cols) * 8) + SUPERS_OF(cols) * 16)
#define UNIT_COLS_q3_K 64
#define SUMS16_q3_K 0
#define LOADS_q3_K 3

struct unit_q3_K { u32x4 pairs, head; u32x2 bits; };        /* upper two bits; d, 0, 4 units x 24 bits; lowest bits */

DEVICE void load_q3_K(struct unit_q3_K *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->pairs = load_weights16(row + unit * 16);
    u->bits  = load_weights8(plane_at(row, unit * 8, units * 16));
    u->head  = load_weights16(plane_at(row, unit / 4 * 16, units * 16 + PLANE_BYTES(units * 8)));
}
DEVICE void pin_q3_K(struct unit_q3_K *u) { pin16(&u->pairs); pin16(&u->head); pin8(&u->bits); }
/* Columns 16c .. 16c+15 as 32 (code - 4), signed. */
DEVICE u32x4 codes_q3_K(const struct unit_q3_K *u, const uint32_t c)
{
    return bit_pairs(u->pairs, c, 6) | single_bits(c / 2 ? u->bits.y : u->bits.x, c % 2, 5);
}
DEVICE float dot_q3_K(const struct unit_q3_K *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    const uint32_t bits = super_bits(u->head, unit);
    float p[4];
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) p[c] = (six_bits_f32(bits, 6 * c) - 32.0f) * dot_piece(codes_q3_K(u, c), x, c, digits);
    return 0.03125f * f32_of_f16_bits(u->head.x) * (x->scale.x * (p[0] + p[1]) + x->scale.y * (p[2] + p[3]));
}
/* d (sc - 32) is rounded to f16: within 2^-10 of the weight. */
DEVICE void decode_q3_K(uint32_t h[32], const struct unit_q3_K *u, const uint32_t unit)
{
    const uint32_t bits = super_bits(u->head, unit);
    const float d256 = 256.0f * f32_of_f16_bits(u->head.x);
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) {
        const f16x2 scale = splat_f16(d256 * (six_bits_f32(bits, 6 * c) - 32.0f));
        decode16(h + 8 * c, codes_q3_K(u, c) ^ 0x80808080u, 128.0f, 0.03125f / 256.0f, scale);
    }
}
#endif
