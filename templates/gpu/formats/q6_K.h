/* q6_K.h -- 6-bit signed codes; per 256 columns half-float d, per 16 columns a signed byte scale: w = d sc (code - 32). */
#ifndef FORGE_GPU_q6_K
#define FORGE_GPU_q6_K
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_q6_K(cols) (UNITS_OF(cols) * 48 + PLANE_BYTES(UNITS_OF(cols) * 4) + PLANE_BYTES(SUPERS_OF(cols) * 2))
#define UNIT_COLS_q6_K 64
#define SUMS16_q6_K 0
#define LOADS_q6_K 5
#define HALVES_q6_K 1

struct unit_q6_K { u32x4 q[2], pairs; uint32_t scales, d; };        /* upper four bits of the two blocks; lower two bits; 4 x int8;
                                                                     * f16 of two superblocks */

DEVICE void load_q6_K(struct unit_q6_K *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->q[0] = load_weights16(row + unit * 16);
    u->q[1] = load_weights16(quants_at(row, unit * 16, units * 16));
    u->pairs  = load_weights16(quants_at(row, unit * 16, units * 32));
    u->scales = load_weights4(plane_at(row, unit * 4, units * 48));
    u->d      = load_weights4(plane_at(row, unit / 8 * 4, units * 48 + PLANE_BYTES(units * 4)));
}
/* Loaded with its neighbour: a 16-bit load would be widened, so the wave would wait for it before its use. */
DEVICE float d_q6_K(const struct unit_q6_K *u, const uint32_t unit) { return f32_of_f16_bits(u->d >> (unit * 4 & 16u)); }
DEVICE void pin_q6_K(struct unit_q6_K *u) { pin16(&u->q[0]); pin16(&u->q[1]); pin16(&u->pairs); PIN(u->scales); PIN(u->d); }
/* Columns 16c .. 16c+15 as 4 (code - 32), signed. */
DEVICE u32x4 codes_q6_K(const struct unit_q6_K *u, const uint32_t c)
{
    return (c % 2 ? high_nibbles_up(u->q[c / 2]) : low_nibbles_up(u->q[c / 2])) | bit_pairs(u->pairs, c, 2);
}
DEVICE float value_q6_K(const struct unit_q6_K *u, const float sums[4], const struct acts_unit *x, const uint32_t unit)
{
    float p[4];
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) p[c] = int8_f32(u->scales, c) * sums[c];
    return 0.25f * d_q6_K(u, unit) * (x->scale.x * (p[0] + p[1]) + x->scale.y * (p[2] + p[3]));
}
DEVICE float dot_q6_K(const struct unit_q6_K *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    float sums[4];
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) sums[c] = dot_piece(codes_q6_K(u, c), x, c, digits);
    return value_q6_K(u, sums, x, unit);
}
/* On the matrix unit.  The d of eight quads are in one piece. */
#define QUAD_PLANES_q6_K 3
#define SUM_COLS_q6_K 16
DEVICE uint32_t quad_extra_q6_K(const uint32_t e, uint32_t quad, const uint32_t units)
{
    return units * 48 + (e ? PLANE_BYTES(units * 4) + quad / 8 * 16 : quad * 16);
}
struct quad_q6_K { u32x4 scales; uint32_t d; };
DEVICE void quad_load_q6_K(struct quad_q6_K *e, const uint8_t *extras, uint32_t quad)
{
    e->scales = *(const u32x4 *)(const void *)extras;
    e->d = *(const uint32_t *)(const void *)(extras + QUAD_EXTRA_BYTES + quad / 2 % 4 * 4);
}
DEVICE void quad_unit_q6_K(struct unit_q6_K *u, const uint32_t *w, const struct quad_q6_K *e, const uint32_t unit)
{
    u->q[0] = word_of_piece(w[0]);
    u->q[1] = word_of_piece(w[1]);
    u->pairs = word_of_piece(w[2]);
    u->scales = word_at(e->scales, unit);
    u->d = e->d;
}
/* d sc is rounded to f16: within 2^-10 of the weight. */
DEVICE void decode_q6_K(uint32_t h[32], const struct unit_q6_K *u, const uint32_t unit)
{
    const float d256 = 256.0f * d_q6_K(u, unit);
#pragma unroll
    for (uint32_t c = 0; c < 4; c++)
        decode16(h + 8 * c, codes_q6_K(u, c) ^ 0x80808080u, 128.0f, 0.25f / 256.0f, splat_f16(d256 * int8_f32(u->scales, c)));
}
/* Half a unit, the block `half`, for a lane that decodes only this: 32 columns to h, as decode_q6_K() gives them. */
DEVICE void load_half_q6_K(struct unit_q6_K *u, const uint8_t *row, const uint32_t unit, const uint32_t units, const uint32_t half)
{
    u->q[0] = load_weights16(row + (half * units + unit) * 16);
    u->pairs  = load_weights16(row + (2 * units + unit) * 16);
    u->scales = load_weights4(row + units * 48 + unit * 4);
    u->d      = load_weights4(row + units * 48 + PLANE_BYTES(units * 4) + unit / 8 * 4);
}
DEVICE void decode_half_q6_K(uint32_t h[16], const struct unit_q6_K *u, const uint32_t unit, const uint32_t half)
{
    struct unit_q6_K first = *u;
    const float d256 = 256.0f * d_q6_K(u, unit);
    first.pairs >>= 4 * half;
    first.scales >>= 16 * half;
#pragma unroll
    for (uint32_t c = 0; c < 2; c++)
        decode16(h + 8 * c, codes_q6_K(&first, c) ^ 0x80808080u, 128.0f, 0.25f / 256.0f, splat_f16(d256 * int8_f32(first.scales, c)));
}
#endif
