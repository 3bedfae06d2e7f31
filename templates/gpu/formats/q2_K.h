/* q2_K.h -- 2-bit codes; per 256 columns half-float d and dmin, per 16 columns a four-bit scale and minimum: w = d sc code - dmin m. */
#ifndef FORGE_GPU_q2_K
#define FORGE_GPU_q2_K
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_q2_K(cols) (UNITS_OF(cols) * 16 + PLANE_BYTES(UNITS_OF(cols) * 4) + PLANE_BYTES(SUPERS_OF(cols) * 4))
#define UNIT_COLS_q2_K 64
#define SUMS16_q2_K 1
#define LOADS_q2_K 3

struct unit_q2_K { u32x4 pairs; uint32_t scales, d; };      /* codes; 4 bytes: scale low, minimum high; f16 d, dmin */

DEVICE void load_q2_K(struct unit_q2_K *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->pairs  = load_weights16(row + unit * 16);
    u->scales = load_weights4(plane_at(row, unit * 4, units * 16));
    u->d      = load_weights4(plane_at(row, unit / 4 * 4, units * 16 + PLANE_BYTES(units * 4)));
}
DEVICE void pin_q2_K(struct unit_q2_K *u) { pin16(&u->pairs); PIN(u->scales); PIN(u->d); }
DEVICE float dot_q2_K(const struct unit_q2_K *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    (void)unit;
    const uint32_t sc = u->scales & 0x0f0f0f0fu, m = u->scales >> 4 & 0x0f0f0f0fu;
    float p[4];
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) p[c] = byte_f32(sc, c) * dot_piece(bit_pairs(u->pairs, c, 0), x, c, digits);
    const float product = x->scale.x * (p[0] + p[1]) + x->scale.y * (p[2] + p[3]);
    const float minimum = byte_f32(m, 0) * x->sum16.x + byte_f32(m, 1) * x->sum16.y + byte_f32(m, 2) * x->sum16.z +
                          byte_f32(m, 3) * x->sum16.w;
    return f32_of_f16_bits(u->d) * product - f32_of_f16_bits(u->d >> 16) * minimum;
}
/* d sc and dmin m are rounded to f16: within 2^-10 (|d sc code| + |dmin m|) of the weight. */
DEVICE void decode_q2_K(uint32_t h[32], const struct unit_q2_K *u, const uint32_t unit)
{
    (void)unit;
    const uint32_t sc = u->scales & 0x0f0f0f0fu, m = u->scales >> 4 & 0x0f0f0f0fu;
    const float d256 = 256.0f * f32_of_f16_bits(u->d), less = -f32_of_f16_bits(u->d >> 16);
#pragma unroll
    for (uint32_t c = 0; c < 4; c++)
        decode16_add(h + 8 * c, bit_pairs(u->pairs, c, 0), 0.00390625f, splat_f16(d256 * byte_f32(sc, c)),
                     splat_f16(less * byte_f32(m, c)));
}
#endif
