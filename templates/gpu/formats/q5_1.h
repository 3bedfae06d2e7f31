/* q5_1.h -- 5-bit codes; per 32 columns a half-float scale and minimum: w = d code + m. */
#ifndef FORGE_GPU_q5_1
#define FORGE_GPU_q5_1
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_q5_1(cols) (UNITS_OF(cols) * 32 + 2 * PLANE_BYTES(UNITS_OF(cols) * 8))
#define UNIT_COLS_q5_1 64
#define SUMS16_q5_1 0
#define LOADS_q5_1 4

struct unit_q5_1 { u32x4 q[2]; u32x2 bits, scales; };       /* lower four bits of the two blocks; top bits; f16 d0, m0, d1, m1 */

DEVICE void load_q5_1(struct unit_q5_1 *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->q[0] = load_weights16(row + unit * 16);
    u->q[1] = load_weights16(quants_at(row, unit * 16, units * 16));
    u->bits   = load_weights8(plane_at(row, unit * 8, units * 32));
    u->scales = load_weights8(plane_at(row, unit * 8, units * 32 + PLANE_BYTES(units * 8)));
}
DEVICE void pin_q5_1(struct unit_q5_1 *u) { pin16(&u->q[0]); pin16(&u->q[1]); pin8(&u->bits); pin8(&u->scales); }
/* Columns 16c .. 16c+15. */
DEVICE u32x4 codes_q5_1(const struct unit_q5_1 *u, const uint32_t c)
{
    const u32x4 lower = c % 2 ? high_nibbles(u->q[c / 2]) : low_nibbles(u->q[c / 2]);
    return lower | single_bits(c / 2 ? u->bits.y : u->bits.x, c % 2, 4);
}
DEVICE float dot_q5_1(const struct unit_q5_1 *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    (void)unit;
    const float p0 = dot_block(codes_q5_1(u, 0), codes_q5_1(u, 1), x, 0, digits);
    const float p1 = dot_block(codes_q5_1(u, 2), codes_q5_1(u, 3), x, 1, digits);
    return p0 * (f32_of_f16_bits(u->scales.x) * x->scale.x) + p1 * (f32_of_f16_bits(u->scales.y) * x->scale.y)
         + (f32_of_f16_bits(u->scales.x >> 16) * x->scale.z + f32_of_f16_bits(u->scales.y >> 16) * x->scale.w);
}
/* The exact weight, rounded once. */
DEVICE void decode_q5_1(uint32_t h[32], const struct unit_q5_1 *u, const uint32_t unit)
{
    (void)unit;
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) {
        const uint32_t dm = c / 2 ? u->scales.y : u->scales.x;
        decode16_add(h + 8 * c, codes_q5_1(u, c), 1.0f, both_f16(dm, 0), both_f16(dm, 1));
    }
}
#endif
