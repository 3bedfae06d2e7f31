/* q4_1.h -- 4-bit codes; per 32 columns a half-float scale and minimum: w = d code + m. */
#ifndef FORGE_GPU_q4_1
#define FORGE_GPU_q4_1
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_q4_1(cols) (UNITS_OF(cols) * 32 + PLANE_BYTES(UNITS_OF(cols) * 8))
#define UNIT_COLS_q4_1 64
#define SUMS16_q4_1 0
#define LOADS_q4_1 3

struct unit_q4_1 { u32x4 q[2]; u32x2 scales; };             /* nibbles of the two blocks; f16 d0, m0, d1, m1 */

DEVICE void load_q4_1(struct unit_q4_1 *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->q[0] = load_weights16(row + unit * 16);
    u->q[1] = load_weights16(quants_at(row, unit * 16, units * 16));
    u->scales = load_weights8(plane_at(row, unit * 8, units * 32));
}
DEVICE void pin_q4_1(struct unit_q4_1 *u) { pin16(&u->q[0]); pin16(&u->q[1]); pin8(&u->scales); }
DEVICE float dot_q4_1(const struct unit_q4_1 *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    (void)unit;
    const float p0 = dot_block(low_nibbles(u->q[0]), high_nibbles(u->q[0]), x, 0, digits);
    const float p1 = dot_block(low_nibbles(u->q[1]), high_nibbles(u->q[1]), x, 1, digits);
    return p0 * (f32_of_f16_bits(u->scales.x) * x->scale.x) + p1 * (f32_of_f16_bits(u->scales.y) * x->scale.y)
         + (f32_of_f16_bits(u->scales.x >> 16) * x->scale.z + f32_of_f16_bits(u->scales.y >> 16) * x->scale.w);
}
/* The exact weight, rounded once. */
DEVICE void decode_q4_1(uint32_t h[32], const struct unit_q4_1 *u, const uint32_t unit)
{
    (void)unit;
#pragma unroll
    for (uint32_t b = 0; b < 2; b++) {
        const uint32_t dm = b ? u->scales.y : u->scales.x;
        const f16x2 d = both_f16(dm, 0), m = both_f16(dm, 1);
        decode16_add(h + 16 * b,     low_nibbles(u->q[b]),  1.0f, d, m);
        decode16_add(h + 16 * b + 8, high_nibbles(u->q[b]), 1.0f, d, m);
    }
}
#endif
