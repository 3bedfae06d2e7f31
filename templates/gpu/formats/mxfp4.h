/* mxfp4.h -- 4-bit floats (E2M1) and a power-of-two scale byte (E8M0) per 32 columns: OCP Microscaling Formats 1.0. */
#ifndef FORGE_GPU_mxfp4
#define FORGE_GPU_mxfp4
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_mxfp4(cols) (UNITS_OF(cols) * 32 + PLANE_BYTES(UNITS_OF(cols) * 2))
#define UNIT_COLS_mxfp4 64
#define SUMS16_mxfp4 0
#define LOADS_mxfp4 3

struct unit_mxfp4 { u32x4 q[2]; uint32_t scales; };         /* nibbles of the two blocks; E8M0 of each, with the neighbouring unit's */

DEVICE void load_mxfp4(struct unit_mxfp4 *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->q[0] = load_weights16(row + unit * 16);
    u->q[1] = load_weights16(quants_at(row, unit * 16, units * 16));
    u->scales = load_weights4(plane_at(row, unit / 2 * 4, units * 32));
}
DEVICE void pin_mxfp4(struct unit_mxfp4 *u) { pin16(&u->q[0]); pin16(&u->q[1]); PIN(u->scales); }
/* Twice the values 0 0.5 1 1.5 2 3 4 6 and their negatives. */
DEVICE u32x4 table_mxfp4(void) { const u32x4 t = { 0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu }; return t; }
/* 2^(e - 128) of block b: half the scale, because the table holds doubled values.  e = 0, 2^-127, counts as zero: a subnormal float. */
DEVICE float scale_mxfp4(const struct unit_mxfp4 *u, const uint32_t unit, const uint32_t b)
{
    /* A 16-bit load would be widened, so the wave would wait for it before its use. */
    return 0.5f * f32_of_bits((u->scales >> (unit * 16 & 16u) >> 8 * b & 255u) << 23);
}
DEVICE float dot_mxfp4(const struct unit_mxfp4 *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    u32x4 c0[2], c1[2];
    table_codes(c0, u->q[0], table_mxfp4());
    table_codes(c1, u->q[1], table_mxfp4());
    const float p0 = dot_block(c0[0], c0[1], x, 0, digits), p1 = dot_block(c1[0], c1[1], x, 1, digits);
    return p0 * (scale_mxfp4(u, unit, 0) * x->scale.x) + p1 * (scale_mxfp4(u, unit, 1) * x->scale.y);
}
/* The exact weight, rounded once; for scales from 2^-31 to 2^8. */
DEVICE void decode_mxfp4(uint32_t h[32], const struct unit_mxfp4 *u, const uint32_t unit)
{
#pragma unroll
    for (uint32_t b = 0; b < 2; b++) {
        const f16x2 scale = splat_f16(256.0f * scale_mxfp4(u, unit, b));
        u32x4 c[2];
        table_codes(c, u->q[b], table_mxfp4() ^ 0x80808080u);
        decode16(h + 16 * b,     c[0], 128.0f, 0.00390625f, scale);
        decode16(h + 16 * b + 8, c[1], 128.0f, 0.00390625f, scale);
    }
}
#endif
