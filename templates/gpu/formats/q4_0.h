/* q4_0.h -- 4-bit signed codes, a half-float scale per 32 columns. */
#ifndef FORGE_GPU_q4_0
#define FORGE_GPU_q4_0
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_q4_0(cols) (UNITS_OF(cols) * 32 + PLANE_BYTES(UNITS_OF(cols) * 4))
#define UNIT_COLS_q4_0 64
#define SUMS16_q4_0 0
#define LOADS_q4_0 3

struct unit_q4_0 { u32x4 q[2]; uint32_t scales; };          /* nibbles of the two blocks; f16 d0, d1 */

DEVICE void load_q4_0(struct unit_q4_0 *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->q[0] = load_weights16(row + unit * 16);
    u->q[1] = load_weights16(quants_at(row, unit * 16, units * 16));
    u->scales = load_weights4(plane_at(row, unit * 4, units * 32));
}
DEVICE void pin_q4_0(struct unit_q4_0 *u) { pin16(&u->q[0]); pin16(&u->q[1]); PIN(u->scales); }
DEVICE float dot_q4_0(const struct unit_q4_0 *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    (void)unit;
    const float p0 = dot_block(low_nibbles_up(u->q[0]), high_nibbles_up(u->q[0]), x, 0, digits);       /* of 16 code */
    const float p1 = dot_block(low_nibbles_up(u->q[1]), high_nibbles_up(u->q[1]), x, 1, digits);
    return 0.0625f * (p0 * (f32_of_f16_bits(u->scales) * x->scale.x) + p1 * (f32_of_f16_bits(u->scales >> 16) * x->scale.y));
}
/* The exact weight, rounded once. */
DEVICE void decode_q4_0(uint32_t h[32], const struct unit_q4_0 *u, const uint32_t unit)
{
    (void)unit;
#pragma unroll
    for (uint32_t b = 0; b < 2; b++) {
        const f16x2 d = both_f16(u->scales, b);
        decode16(h + 16 * b,     low_nibbles(u->q[b]) ^ 0x08080808u,  8.0f, 1.0f, d);
        decode16(h + 16 * b + 8, high_nibbles(u->q[b]) ^ 0x08080808u, 8.0f, 1.0f, d);
    }
}
#endif
