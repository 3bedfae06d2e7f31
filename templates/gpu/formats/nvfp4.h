/* nvfp4.h -- 4-bit floats (E2M1) and unsigned scale bytes (E4M3) per 16 columns. */
#ifndef FORGE_GPU_nvfp4
#define FORGE_GPU_nvfp4
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_nvfp4(cols) (UNITS_OF(cols) * 32 + PLANE_BYTES(UNITS_OF(cols) * 4))
#define UNIT_COLS_nvfp4 64
#define SUMS16_nvfp4 0
#define LOADS_nvfp4 3

struct unit_nvfp4 { u32x4 q[2]; uint32_t scales; };         /* nibbles of the two blocks; E4M3 of each half of them */

DEVICE void load_nvfp4(struct unit_nvfp4 *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->q[0] = load_weights16(row + unit * 16);
    u->q[1] = load_weights16(quants_at(row, unit * 16, units * 16));
    u->scales = load_weights4(plane_at(row, unit * 4, units * 32));
}
DEVICE void pin_nvfp4(struct unit_nvfp4 *u) { pin16(&u->q[0]); pin16(&u->q[1]); PIN(u->scales); }
/* Twice the values 0 0.5 1 1.5 2 3 4 6 and their negatives. */
DEVICE u32x4 table_nvfp4(void) { const u32x4 t = { 0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu }; return t; }
/* Half the scale of columns 16c .., because the table holds doubled values; a half float's exponent is 8 more than E4M3's. */
DEVICE float scale_nvfp4(const struct unit_nvfp4 *u, const uint32_t c)
{
    return 128.0f * f32_of_f16_bits((u->scales >> 8 * c & 255u) << 7);
}
DEVICE float dot_nvfp4(const struct unit_nvfp4 *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    (void)unit;
    u32x4 c[4];
    float p[4];
    table_codes(c, u->q[0], table_nvfp4());
    table_codes(c + 2, u->q[1], table_nvfp4());
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) p[i] = scale_nvfp4(u, i) * dot_piece(c[i], x, i, digits);
    return x->scale.x * (p[0] + p[1]) + x->scale.y * (p[2] + p[3]);
}
/* The exact weight. */
DEVICE void decode_nvfp4(uint32_t h[32], const struct unit_nvfp4 *u, const uint32_t unit)
{
    (void)unit;
#pragma unroll
    for (uint32_t b = 0; b < 2; b++) {
        u32x4 c[2];
        table_codes(c, u->q[b], table_nvfp4() ^ 0x80808080u);
        decode16(h + 16 * b,     c[0], 128.0f, 1.0f, splat_f16(scale_nvfp4(u, 2 * b)));
        decode16(h + 16 * b + 8, c[1], 128.0f, 1.0f, splat_f16(scale_nvfp4(u, 2 * b + 1)));
    }
}
#endif
