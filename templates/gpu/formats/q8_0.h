/* q8_0.h -- int8 codes, a half-float scale per 32 columns. */
#ifndef FORGE_GPU_q8_0
#define FORGE_GPU_q8_0
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_q8_0(cols) (UNITS_OF(cols) * 64 + PLANE_BYTES(UNITS_OF(cols) * 4))
#define UNIT_COLS_q8_0 64
#define SUMS16_q8_0 0
#define LOADS_q8_0 5
#define HALVES_q8_0 1

struct unit_q8_0 { u32x4 q[4]; uint32_t scales; };          /* columns 16c .. 16c+15; f16 d0, d1 */

DEVICE void load_q8_0(struct unit_q8_0 *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) u->q[c] = load_weights16(quants_at(row, unit * 16, c * units * 16));
    u->scales = load_weights4(plane_at(row, unit * 4, units * 64));
}
DEVICE void pin_q8_0(struct unit_q8_0 *u)
{
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) pin16(&u->q[c]);
    PIN(u->scales);
}
DEVICE u32x4 codes_q8_0(const struct unit_q8_0 *u, const uint32_t c) { return u->q[c]; }
DEVICE float value_q8_0(const struct unit_q8_0 *u, const float p[2], const struct acts_unit *x, const uint32_t unit)
{
    (void)unit;
    return p[0] * (f32_of_f16_bits(u->scales) * x->scale.x) + p[1] * (f32_of_f16_bits(u->scales >> 16) * x->scale.y);
}
DEVICE float dot_q8_0(const struct unit_q8_0 *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    const float p[2] = { dot_block(u->q[0], u->q[1], x, 0, digits), dot_block(u->q[2], u->q[3], x, 1, digits) };
    return value_q8_0(u, p, x, unit);
}
/* On the matrix unit. */
#define QUAD_PLANES_q8_0 4
#define SUM_COLS_q8_0 32
DEVICE uint32_t quad_extra_q8_0(const uint32_t e, uint32_t quad, const uint32_t units) { (void)e; return units * 64 + quad * 16; }
struct quad_q8_0 { u32x4 scales; };
DEVICE void quad_load_q8_0(struct quad_q8_0 *e, const uint8_t *extras, uint32_t quad)
{
    (void)quad;
    e->scales = *(const u32x4 *)(const void *)extras;
}
DEVICE void quad_unit_q8_0(struct unit_q8_0 *u, const uint32_t *w, const struct quad_q8_0 *e, const uint32_t unit)
{
    for (uint32_t c = 0; c < 4; c++) u->q[c] = word_of_piece(w[c]);
    u->scales = word_at(e->scales, unit);
}
/* The exact weight, rounded once. */
DEVICE void decode_q8_0(uint32_t h[32], const struct unit_q8_0 *u, const uint32_t unit)
{
    (void)unit;
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) decode16(h + 8 * c, u->q[c] ^ 0x80808080u, 128.0f, 1.0f, both_f16(u->scales, c / 2));
}
/* Half a unit, the block `half`, for a lane that decodes only this: 32 columns to h, as decode_q8_0() gives them. */
DEVICE void load_half_q8_0(struct unit_q8_0 *u, const uint8_t *row, const uint32_t unit, const uint32_t units, const uint32_t half)
{
#pragma unroll
    for (uint32_t c = 0; c < 2; c++) u->q[c] = load_weights16(row + ((2 * half + c) * units + unit) * 16);
    u->scales = load_weights4(row + units * 64 + unit * 4);
}
DEVICE void decode_half_q8_0(uint32_t h[16], const struct unit_q8_0 *u, const uint32_t unit, const uint32_t half)
{
    (void)unit;
#pragma unroll
    for (uint32_t c = 0; c < 2; c++) decode16(h + 8 * c, u->q[c] ^ 0x80808080u, 128.0f, 1.0f, both_f16(u->scales >> 16 * half, 0));
}
#endif
