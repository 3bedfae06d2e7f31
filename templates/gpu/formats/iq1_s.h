/* iq1_s.h -- -1, 0, 1 as 2-bit codes; per 256 columns half-float d; per 32 columns a scale of three bits, and a bit that adds 1/8:
 * w = d (2 scale + 1) (code - 1 +- 1/8). */
#ifndef FORGE_GPU_iq1_s
#define FORGE_GPU_iq1_s
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_iq1_s(cols) (UNITS_OF(cols) * 16 + PLANE_BYTES(SUPERS_OF(cols) * 8))
#define UNIT_COLS_iq1_s 64
#define SUMS16_iq1_s 0
#define LOADS_iq1_s 2

struct unit_iq1_s { u32x4 pairs; u32x2 head; };              /* codes; x: f16 d, y: 8 nibbles */

DEVICE void load_iq1_s(struct unit_iq1_s *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->pairs = load_weights16(row + unit * 16);
    u->head  = load_weights8(plane_at(row, unit / 4 * 8, units * 16));
}
DEVICE void pin_iq1_s(struct unit_iq1_s *u) { pin16(&u->pairs); pin8(&u->head); }
/* The nibble of block b of the unit: three bits of scale and the bit for 1/8. */
DEVICE uint32_t small_iq1_s(const struct unit_iq1_s *u, const uint32_t unit, const uint32_t b)
{
    return u->head.y >> 4 * (2 * (unit & 3u) + b) & 15u;
}
DEVICE float scale_iq1_s(const uint32_t small) { return (float)(int32_t)(2 * (small & 7u) + 1); }
/* The number to subtract from a code, in eighths. */
DEVICE float less_iq1_s(const uint32_t small) { return small & 8u ? 7.0f : 9.0f; }
DEVICE float dot_iq1_s(const struct unit_iq1_s *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    const uint32_t s0 = small_iq1_s(u, unit, 0), s1 = small_iq1_s(u, unit, 1);
    const float p0 = dot_block(bit_pairs(u->pairs, 0, 3), bit_pairs(u->pairs, 1, 3), x, 0, digits);
    const float p1 = dot_block(bit_pairs(u->pairs, 2, 3), bit_pairs(u->pairs, 3, 3), x, 1, digits);
    const float d8 = 0.125f * f32_of_f16_bits(u->head.x);
    return d8 * (scale_iq1_s(s0) * (p0 * x->scale.x - less_iq1_s(s0) * x->scale.z) +
                 scale_iq1_s(s1) * (p1 * x->scale.y - less_iq1_s(s1) * x->scale.w));
}
/* d (2 scale + 1) is rounded to f16: within 2^-10 of the weight. */
DEVICE void decode_iq1_s(uint32_t h[32], const struct unit_iq1_s *u, const uint32_t unit)
{
    const float d256 = 256.0f * f32_of_f16_bits(u->head.x);
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) {
        const uint32_t small = small_iq1_s(u, unit, c / 2);
        decode16(h + 8 * c, bit_pairs(u->pairs, c, 3), less_iq1_s(small), 0.125f / 256.0f, splat_f16(d256 * scale_iq1_s(small)));
    }
}
#endif
