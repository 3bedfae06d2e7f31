/* iq3_xxs.h -- 4-bit indices into a table of magnitudes with signs; per 256 columns half-float d, per 32 an odd scale:
 * w = d / 2 scale value. */
#ifndef FORGE_GPU_iq3_xxs
#define FORGE_GPU_iq3_xxs
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_iq3_xxs(cols) (UNITS_OF(cols) * 32 + PLANE_BYTES(SUPERS_OF(cols) * 8))
#define UNIT_COLS_iq3_xxs 64
#define SUMS16_iq3_xxs 0
#define LOADS_iq3_xxs 3

struct unit_iq3_xxs { u32x4 q[2]; u32x2 head; };            /* nibbles of the two blocks; d, upper scale bits (2 x 8), lower (4 x 8) */

DEVICE void load_iq3_xxs(struct unit_iq3_xxs *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->q[0] = load_weights16(row + unit * 16);
    u->q[1] = load_weights16(quants_at(row, unit * 16, units * 16));
    u->head = load_weights8(plane_at(row, unit / 4 * 8, units * 32));
}
DEVICE void pin_iq3_xxs(struct unit_iq3_xxs *u) { pin16(&u->q[0]); pin16(&u->q[1]); pin8(&u->head); }
/* Half of the levels of iq3xxs_grid in ggml-common.h: 2 6 10 14 18 22 26 31, and their negatives. */
DEVICE u32x4 table_iq3_xxs(void) { const u32x4 t = { 0x0e0a0602u, 0x1f1a1612u, 0xf2f6fafeu, 0xe1e6eaeeu }; return t; }
/* The scale of block b of the unit. */
DEVICE float scale_iq3_xxs(const struct unit_iq3_xxs *u, const uint32_t unit, const uint32_t b)
{
    const uint32_t block = 2 * (unit & 3u) + b;
    return (float)((u->head.y >> 4 * block & 15u) | (u->head.x >> (16 + 2 * block) & 3u) << 4);
}
DEVICE float dot_iq3_xxs(const struct unit_iq3_xxs *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    u32x4 c0[2], c1[2];
    table_codes(c0, u->q[0], table_iq3_xxs());
    table_codes(c1, u->q[1], table_iq3_xxs());
    const float p0 = dot_block(c0[0], c0[1], x, 0, digits), p1 = dot_block(c1[0], c1[1], x, 1, digits);
    const float d = 0.5f * f32_of_f16_bits(u->head.x);
    return d * (p0 * (scale_iq3_xxs(u, unit, 0) * x->scale.x) + p1 * (scale_iq3_xxs(u, unit, 1) * x->scale.y));
}
/* d scale is rounded to f16: within 2^-10 of the weight. */
DEVICE void decode_iq3_xxs(uint32_t h[32], const struct unit_iq3_xxs *u, const uint32_t unit)
{
    const float d256 = 256.0f * f32_of_f16_bits(u->head.x);
#pragma unroll
    for (uint32_t b = 0; b < 2; b++) {
        const f16x2 scale = splat_f16(d256 * scale_iq3_xxs(u, unit, b));
        u32x4 c[2];
        table_codes(c, u->q[b], table_iq3_xxs() ^ 0x80808080u);
        decode16(h + 16 * b,     c[0], 128.0f, 0.5f / 256.0f, scale);
        decode16(h + 16 * b + 8, c[1], 128.0f, 0.5f / 256.0f, scale);
    }
}
#endif
