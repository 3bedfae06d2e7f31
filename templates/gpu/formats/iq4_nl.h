/* iq4_nl.h -- 4-bit indices into a table of signed bytes, a half-float scale per 32 columns. */
#ifndef FORGE_GPU_iq4_nl
#define FORGE_GPU_iq4_nl
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_iq4_nl(cols) (UNITS_OF(cols) * 32 + PLANE_BYTES(UNITS_OF(cols) * 4))
#define UNIT_COLS_iq4_nl 64
#define SUMS16_iq4_nl 0
#define LOADS_iq4_nl 3

struct unit_iq4_nl { u32x4 q[2]; uint32_t scales; };        /* nibbles of the two blocks; f16 d0, d1 */

DEVICE void load_iq4_nl(struct unit_iq4_nl *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->q[0] = load_weights16(row + unit * 16);
    u->q[1] = load_weights16(quants_at(row, unit * 16, units * 16));
    u->scales = load_weights4(plane_at(row, unit * 4, units * 32));
}
DEVICE void pin_iq4_nl(struct unit_iq4_nl *u) { pin16(&u->q[0]); pin16(&u->q[1]); PIN(u->scales); }
/* kvalues_iq4nl in ggml-common.h: -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113. */
DEVICE u32x4 table_iq4_nl(void) { const u32x4 t = { 0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u }; return t; }
DEVICE float dot_iq4_nl(const struct unit_iq4_nl *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    (void)unit;
    u32x4 c0[2], c1[2];
    table_codes(c0, u->q[0], table_iq4_nl());
    table_codes(c1, u->q[1], table_iq4_nl());
    const float p0 = dot_block(c0[0], c0[1], x, 0, digits), p1 = dot_block(c1[0], c1[1], x, 1, digits);
    return p0 * (f32_of_f16_bits(u->scales) * x->scale.x) + p1 * (f32_of_f16_bits(u->scales >> 16) * x->scale.y);
}
/* The exact weight, rounded once. */
DEVICE void decode_iq4_nl(uint32_t h[32], const struct unit_iq4_nl *u, const uint32_t unit)
{
    (void)unit;
#pragma unroll
    for (uint32_t b = 0; b < 2; b++) {
        u32x4 c[2];
        table_codes(c, u->q[b], table_iq4_nl() ^ 0x80808080u);
        decode16(h + 16 * b,     c[0], 128.0f, 1.0f, both_f16(u->scales, b));
        decode16(h + 16 * b + 8, c[1], 128.0f, 1.0f, both_f16(u->scales, b));
    }
}
#endif
