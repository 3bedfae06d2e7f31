/* iq4_xs.h -- 4-bit indices into a table of signed bytes; per 256 columns half-float d, per 32 a six-bit scale: w = d (sc - 32) value. */
#ifndef FORGE_GPU_iq4_xs
#define FORGE_GPU_iq4_xs
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_iq4_xs(cols) (UNITS_OF(cols) * 32 + PLANE_BYTES(SUPERS_OF(cols) * 8))
#define UNIT_COLS_iq4_xs 64
#define SUMS16_iq4_xs 0
#define LOADS_iq4_xs 3

struct unit_iq4_xs { u32x4 q[2]; u32x2 head; };             /* nibbles of the two blocks; d, upper scale bits (2 x 8), lower (4 x 8) */

DEVICE void load_iq4_xs(struct unit_iq4_xs *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->q[0] = load_weights16(row + unit * 16);
    u->q[1] = load_weights16(quants_at(row, unit * 16, units * 16));
    u->head = load_weights8(plane_at(row, unit / 4 * 8, units * 32));
}
DEVICE void pin_iq4_xs(struct unit_iq4_xs *u) { pin16(&u->q[0]); pin16(&u->q[1]); pin8(&u->head); }
/* kvalues_iq4nl in ggml-common.h: -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113. */
DEVICE u32x4 table_iq4_xs(void) { const u32x4 t = { 0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u }; return t; }
/* sc - 32 of block b of the unit. */
DEVICE float scale_iq4_xs(const struct unit_iq4_xs *u, const uint32_t unit, const uint32_t b)
{
    const uint32_t block = 2 * (unit & 3u) + b;
    return (float)(int32_t)((u->head.y >> 4 * block & 15u) | (u->head.x >> (16 + 2 * block) & 3u) << 4) - 32.0f;
}
DEVICE float dot_iq4_xs(const struct unit_iq4_xs *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    u32x4 c0[2], c1[2];
    table_codes(c0, u->q[0], table_iq4_xs());
    table_codes(c1, u->q[1], table_iq4_xs());
    const float p0 = dot_block(c0[0], c0[1], x, 0, digits), p1 = dot_block(c1[0], c1[1], x, 1, digits);
    return f32_of_f16_bits(u->head.x) * (p0 * (scale_iq4_xs(u, unit, 0) * x->scale.x) + p1 * (scale_iq4_xs(u, unit, 1) * x->scale.y));
}
/* d (sc - 32) is rounded to f16: within 2^-10 of the weight. */
DEVICE void decode_iq4_xs(uint32_t h[32], const struct unit_iq4_xs *u, const uint32_t unit)
{
    const float d256 = 256.0f * f32_of_f16_bits(u->head.x);
#pragma unroll
    for (uint32_t b = 0; b < 2; b++) {
        const f16x2 scale = splat_f16(d256 * scale_iq4_xs(u, unit, b));
        u32x4 c[2];
        table_codes(c, u->q[b], table_iq4_xs() ^ 0x80808080u);
        decode16(h + 16 * b,     c[0], 128.0f, 0.00390625f, scale);
        decode16(h + 16 * b + 8, c[1], 128.0f, 0.00390625f, scale);
    }
}
#endif
