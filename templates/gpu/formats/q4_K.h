/* q4_K.h -- 4-bit codes; per 256 columns half-float d and dmin, per 32 columns a six-bit scale and minimum: w = d sc code - dmin m. */
#ifndef FORGE_GPU_q4_K
#define FORGE_GPU_q4_K
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_q4_K(cols) (UNITS_OF(cols) * 32 + SUPERS_OF(cols) * 16)
#define UNIT_COLS_q4_K 64
#define SUMS16_q4_K 0
#define LOADS_q4_K 3
#define HALVES_q4_K 1

struct unit_q4_K { u32x4 q[2], head; };          /* nibbles of the two blocks; d, dmin, 4 units x 24 bits */

DEVICE void load_q4_K(struct unit_q4_K *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->q[0] = load_weights16(row + unit * 16);
    u->q[1] = load_weights16(quants_at(row, unit * 16, units * 16));
    u->head = load_weights16(plane_at(row, unit / 4 * 16, units * 32));
}
DEVICE void pin_q4_K(struct unit_q4_K *u) { pin16(&u->q[0]); pin16(&u->q[1]); pin16(&u->head); }
/* Columns 16c .. 16c+15. */
DEVICE u32x4 codes_q4_K(const struct unit_q4_K *u, const uint32_t c)
{
    return c % 2 ? high_nibbles(u->q[c / 2]) : low_nibbles(u->q[c / 2]);
}
DEVICE float value_q4_K(const struct unit_q4_K *u, const float p[2], const struct acts_unit *x, const uint32_t unit)
{
    const uint32_t bits = super_bits(u->head, unit);
    const float product = p[0] * (six_bits_f32(bits, 0) * x->scale.x) + p[1] * (six_bits_f32(bits, 12) * x->scale.y);
    const float minimum = six_bits_f32(bits, 6) * x->scale.z + six_bits_f32(bits, 18) * x->scale.w;
    return f32_of_f16_bits(u->head.x) * product - f32_of_f16_bits(u->head.x >> 16) * minimum;
}
DEVICE float dot_q4_K(const struct unit_q4_K *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    float p[2];
#pragma unroll
    for (uint32_t b = 0; b < 2; b++) p[b] = dot_block(codes_q4_K(u, 2 * b), codes_q4_K(u, 2 * b + 1), x, b, digits);
    return value_q4_K(u, p, x, unit);
}
/* On the matrix unit. */
#define QUAD_PLANES_q4_K 2
#define SUM_COLS_q4_K 32
DEVICE uint32_t quad_extra_q4_K(const uint32_t e, uint32_t quad, const uint32_t units) { (void)e; return units * 32 + quad * 16; }
struct quad_q4_K { u32x4 head; };
DEVICE void quad_load_q4_K(struct quad_q4_K *e, const uint8_t *extras, uint32_t quad)
{
    (void)quad;
    e->head = *(const u32x4 *)(const void *)extras;
}
DEVICE void quad_unit_q4_K(struct unit_q4_K *u, const uint32_t *w, const struct quad_q4_K *e, const uint32_t unit)
{
    (void)unit;
    u->q[0] = word_of_piece(w[0]);
    u->q[1] = word_of_piece(w[1]);
    u->head = e->head;
}
/* d sc and dmin m are rounded to f16: within 2^-10 (|d sc code| + |dmin m|) of the weight. */
DEVICE void decode_q4_K(uint32_t h[32], const struct unit_q4_K *u, const uint32_t unit)
{
    const uint32_t bits = super_bits(u->head, unit);
    const float d256 = 256.0f * f32_of_f16_bits(u->head.x), less = -f32_of_f16_bits(u->head.x >> 16);
#pragma unroll
    for (uint32_t b = 0; b < 2; b++) {
        const f16x2 scale = splat_f16(d256 * six_bits_f32(bits, 12 * b)), add = splat_f16(less * six_bits_f32(bits, 12 * b + 6));
        decode16_add(h + 16 * b, low_nibbles(u->q[b]), 0.00390625f, scale, add);
        decode16_add(h + 16 * b + 8, high_nibbles(u->q[b]), 0.00390625f, scale, add);
    }
}
/* Half a unit, the block `half`, for a lane that decodes only this: 32 columns to h, as decode_q4_K() gives them. */
DEVICE void load_half_q4_K(struct unit_q4_K *u, const uint8_t *row, const uint32_t unit, const uint32_t units, const uint32_t half)
{
    u->q[0] = load_weights16(row + (half * units + unit) * 16);
    u->head = load_weights16(row + units * 32 + unit / 4 * 16);
}
DEVICE void decode_half_q4_K(uint32_t h[16], const struct unit_q4_K *u, const uint32_t unit, const uint32_t half)
{
    const uint32_t bits = super_bits(u->head, unit) >> 12 * half;
    const f16x2 scale = splat_f16(256.0f * f32_of_f16_bits(u->head.x) * six_bits_f32(bits, 0));
    const f16x2 add = splat_f16(-f32_of_f16_bits(u->head.x >> 16) * six_bits_f32(bits, 6));
    decode16_add(h, low_nibbles(u->q[0]), 0.00390625f, scale, add);
    decode16_add(h + 8, high_nibbles(u->q[0]), 0.00390625f, scale, add);
}
#endif
