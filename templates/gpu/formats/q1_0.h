/* q1_0.h -- bits for 1 and -1, a half-float scale per 128 columns. */
#ifndef FORGE_GPU_q1_0
#define FORGE_GPU_q1_0
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_q1_0(cols) (PLANE_BYTES(UNITS_OF(cols) * 8) + PLANE_BYTES(UNITS_OF(cols)))
#define UNIT_COLS_q1_0 64
#define SUMS16_q1_0 0
#define LOADS_q1_0 2

struct unit_q1_0 { u32x2 bits; uint32_t d; };               /* of the two blocks; f16 of four units */

DEVICE void load_q1_0(struct unit_q1_0 *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->bits = load_weights8(row + unit * 8);
    u->d    = load_weights4(plane_at(row, unit / 4 * 4, PLANE_BYTES(units * 8)));
}
DEVICE void pin_q1_0(struct unit_q1_0 *u) { pin8(&u->bits); PIN(u->d); }
/* Loaded with its neighbour: a 16-bit load would be widened, so the wave would wait for it before its use. */
DEVICE float d_q1_0(const struct unit_q1_0 *u, const uint32_t unit) { return f32_of_f16_bits(u->d >> (unit * 8 & 16u)); }
/* The product of 2 bit - 1 with x; the sums of x are subtracted at the end. */
DEVICE float dot_q1_0(const struct unit_q1_0 *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    const float p0 = dot_block(single_bits(u->bits.x, 0, 1), single_bits(u->bits.x, 1, 1), x, 0, digits);
    const float p1 = dot_block(single_bits(u->bits.y, 0, 1), single_bits(u->bits.y, 1, 1), x, 1, digits);
    return d_q1_0(u, unit) * ((p0 * x->scale.x - x->scale.z) + (p1 * x->scale.y - x->scale.w));
}
/* The exact weight. */
DEVICE void decode_q1_0(uint32_t h[32], const struct unit_q1_0 *u, const uint32_t unit)
{
    const f16x2 d = splat_f16(d_q1_0(u, unit));
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) decode16(h + 8 * c, single_bits(c < 2 ? u->bits.x : u->bits.y, c % 2, 1), 1.0f, 1.0f, d);
}
#endif
