/* q5_K.h -- 5-bit codes; per 256 columns half-float d and dmin, per 32 columns a six-bit scale and minimum: w = d sc code - dmin m. */
#ifndef FORGE_GPU_q5_K
#define FORGE_GPU_q5_K
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_q5_K(cols) (UNITS_OF(cols) * 32 + PLANE_BYTES(UNITS_OF(cols) * 8) + SUPERS_OF(cols) * 16)
#define UNIT_COLS_q5_K 64
#define SUMS16_q5_K 0
#define LOADS_q5_K 4

struct unit_q5_K { u32x4 q[2], head; u32x2 bits; };         /* lower four bits of the two blocks; d, dmin, 4 units x 24 bits; top bits */

DEVICE void load_q5_K(struct unit_q5_K *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->q[0] = load_weights16(row + unit * 16);
    u->q[1] = load_weights16(quants_at(row, unit * 16, units * 16));
    u->bits = load_weights8(plane_at(row, unit * 8, units * 32));
    u->head = load_weights16(plane_at(row, unit / 4 * 16, units * 32 + PLANE_BYTES(units * 8)));
}
DEVICE void pin_q5_K(struct unit_q5_K *u) { pin16(&u->q[0]); pin16(&u->q[1]); pin16(&u->head); pin8(&u->bits); }
/* Columns 16c .. 16c+15. */
DEVICE u32x4 codes_q5_K(const struct unit_q5_K *u, const uint32_t c)
{
    const u32x4 lower = c % 2 ? high_nibbles(u->q[c / 2]) : low_nibbles(u->q[c / 2]);
    return lower | single_bits(c / 2 ? u->bits.y : u->bits.x, c % 2, 4);
}
DEVICE float dot_q5_K(const struct unit_q5_K *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    const uint32_t bits = super_bits(u->head, unit);
    const float p0 = dot_block(codes_q5_K(u, 0), codes_q5_K(u, 1), x, 0, digits);
    const float p1 = dot_block(codes_q5_K(u, 2), codes_q5_K(u, 3), x, 1, digits);
    const float product = p0 * (six_bits_f32(bits, 0) * x->scale.x) + p1 * (six_bits_f32(bits, 12) * x->scale.y);
    const float minimum = six_bits_f32(bits, 6) * x->scale.z + six_bits_f32(bits, 18) * x->scale.w;
    return f32_of_f16_bits(u->head.x) * product - f32_of_f16_bits(u->head.x >> 16) * minimum;
}
/* d sc and dmin m are rounded to f16: within 2^-10 (|d sc code| + |dmin m|) of the weight. */
DEVICE void decode_q5_K(uint32_t h[32], const struct unit_q5_K *u, const uint32_t unit)
{
    const uint32_t bits = super_bits(u->head, unit);
    const float d256 = 256.0f * f32_of_f16_bits(u->head.x), less = -f32_of_f16_bits(u->head.x >> 16);
#pragma unroll
    for (uint32_t b = 0; b < 2; b++) {
        const f16x2 scale = splat_f16(d256 * six_bits_f32(bits, 12 * b)), add = splat_f16(less * six_bits_f32(bits, 12 * b + 6));
        decode16_add(h + 16 * b,     codes_q5_K(u, 2 * b),     0.00390625f, scale, add);
        decode16_add(h + 16 * b + 8, codes_q5_K(u, 2 * b + 1), 0.00390625f, scale, add);
    }
}
#endif
