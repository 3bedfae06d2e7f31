/* q5_0.h -- 5-bit signed codes, a half-float scale per 32 columns. */
#ifndef FORGE_GPU_q5_0
#define FORGE_GPU_q5_0
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_q5_0(cols) (UNITS_OF(cols) * 32 + PLANE_BYTES(UNITS_OF(cols) * 8) + PLANE_BYTES(UNITS_OF(cols) * 4))
#define UNIT_COLS_q5_0 64
#define SUMS16_q5_0 0
#define LOADS_q5_0 4

struct unit_q5_0 { u32x4 q[2]; u32x2 bits; uint32_t scales; };      /* upper four bits of the two blocks; lowest bits; f16 d0, d1 */

DEVICE void load_q5_0(struct unit_q5_0 *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->q[0] = load_weights16(row + unit * 16);
    u->q[1] = load_weights16(quants_at(row, unit * 16, units * 16));
    u->bits   = load_weights8(plane_at(row, unit * 8, units * 32));
    u->scales = load_weights4(plane_at(row, unit * 4, units * 32 + PLANE_BYTES(units * 8)));
}
DEVICE void pin_q5_0(struct unit_q5_0 *u) { pin16(&u->q[0]); pin16(&u->q[1]); pin8(&u->bits); PIN(u->scales); }
/* Columns 16c .. 16c+15 as 8 (code - 16), signed. */
DEVICE u32x4 codes_q5_0(const struct unit_q5_0 *u, const uint32_t c)
{
    const u32x4 upper = c % 2 ? high_nibbles_up(u->q[c / 2]) : low_nibbles_up(u->q[c / 2]);
    return upper | single_bits(c / 2 ? u->bits.y : u->bits.x, c % 2, 3);
}
DEVICE float dot_q5_0(const struct unit_q5_0 *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    (void)unit;
    const float p0 = dot_block(codes_q5_0(u, 0), codes_q5_0(u, 1), x, 0, digits);
    const float p1 = dot_block(codes_q5_0(u, 2), codes_q5_0(u, 3), x, 1, digits);
    return 0.125f * (p0 * (f32_of_f16_bits(u->scales) * x->scale.x) + p1 * (f32_of_f16_bits(u->scales >> 16) * x->scale.y));
}
/* The exact weight, rounded once. */
DEVICE void decode_q5_0(uint32_t h[32], const struct unit_q5_0 *u, const uint32_t unit)
{
    (void)unit;
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) decode16(h + 8 * c, codes_q5_0(u, c) ^ 0x80808080u, 128.0f, 0.125f, both_f16(u->scales, c / 2));
}
#endif
