/* iq1_m.h -- -1, 0, 1 as 2-bit codes; per 256 columns half-float d; per 16 columns a byte: three bits of a scale and, for each 8 columns,
 * a bit that adds 1/8: w = d / 8 (2 scale + 1) (8 code + 2 added - 9). */
#ifndef FORGE_GPU_iq1_m
#define FORGE_GPU_iq1_m
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_iq1_m(cols) (UNITS_OF(cols) * 16 + PLANE_BYTES(UNITS_OF(cols) * 4) + PLANE_BYTES(SUPERS_OF(cols) * 2))
#define UNIT_COLS_iq1_m 64
#define SUMS16_iq1_m 1
#define LOADS_iq1_m 3

struct unit_iq1_m { u32x4 pairs; uint32_t small, d; };       /* codes; 4 bytes; f16 of two superblocks */

DEVICE void load_iq1_m(struct unit_iq1_m *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    u->pairs = load_weights16(row + unit * 16);
    u->small = load_weights4(plane_at(row, unit * 4, units * 16));
    u->d     = load_weights4(plane_at(row, unit / 8 * 4, units * 16 + PLANE_BYTES(units * 4)));
}
DEVICE void pin_iq1_m(struct unit_iq1_m *u) { pin16(&u->pairs); PIN(u->small); PIN(u->d); }
/* Loaded with its neighbour: a 16-bit load would be widened, so the wave would wait for it before its use. */
DEVICE float d_iq1_m(const struct unit_iq1_m *u, const uint32_t unit) { return f32_of_f16_bits(u->d >> (unit * 4 & 16u)); }
DEVICE float scale_iq1_m(const struct unit_iq1_m *u, const uint32_t c) { return (float)(int32_t)(2 * (u->small >> 8 * c & 7u) + 1); }
/* Columns 16c .. in eighths, plus 9. */
DEVICE u32x4 codes_iq1_m(const struct unit_iq1_m *u, const uint32_t c)
{
    const uint32_t first = (u->small >> (8 * c + 3) & 1u) * 0x02020202u, second = (u->small >> (8 * c + 4) & 1u) * 0x02020202u;
    const u32x4 added = { first, first, second, second };
    return bit_pairs(u->pairs, c, 3) | added;
}
DEVICE float dot_iq1_m(const struct unit_iq1_m *u, const struct acts_unit *x, const uint32_t unit, const uint32_t digits)
{
    float y = 0;
#pragma unroll
    for (uint32_t c = 0; c < 4; c++)
        y += scale_iq1_m(u, c) * (dot_piece(codes_iq1_m(u, c), x, c, digits) * (c < 2 ? x->scale.x : x->scale.y) - 9.0f * x->sum16[c]);
    return 0.125f * d_iq1_m(u, unit) * y;
}
/* d (2 scale + 1) is rounded to f16: within 2^-10 of the weight. */
DEVICE void decode_iq1_m(uint32_t h[32], const struct unit_iq1_m *u, const uint32_t unit)
{
    const float d256 = 256.0f * d_iq1_m(u, unit);
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) decode16(h + 8 * c, codes_iq1_m(u, c), 9.0f, 0.125f / 256.0f, splat_f16(d256 * scale_iq1_m(u, c)));
}
#endif
