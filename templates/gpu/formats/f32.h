/* f32.h -- float weights, 16-byte pieces of 4 columns. */
#ifndef FORGE_GPU_f32
#define FORGE_GPU_f32
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_f32(cols) (UNITS_OF(cols) * 256)
#define UNIT_COLS_f32 4
#define SUMS16_f32 0
#define LOADS_f32 1

struct unit_f32 { u32x4 q; };

DEVICE void load_f32(struct unit_f32 *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    (void)units;
    u->q = load_weights16(row + unit * 16);
}
DEVICE void pin_f32(struct unit_f32 *u) { pin16(&u->q); }
DEVICE float dotf_f32(const struct unit_f32 *u, const f32x4 x[1])
{
    float sum = f32_of_bits(u->q.x) * x[0].x;
    sum += f32_of_bits(u->q.y) * x[0].y;
    sum += f32_of_bits(u->q.z) * x[0].z;
    sum += f32_of_bits(u->q.w) * x[0].w;
    return sum;
}
/* The weights rounded to f16, for magnitudes below 65520. */
DEVICE void decode_f32(uint32_t h[2], const struct unit_f32 *u, const uint32_t unit)
{
    (void)unit;
    h[0] = f16x2_bits(f32_of_bits(u->q.x), f32_of_bits(u->q.y));
    h[1] = f16x2_bits(f32_of_bits(u->q.z), f32_of_bits(u->q.w));
}
/* The rounding remainder as f16: both together are within 2^-22 of the weight, or 2^-25 absolute. */
DEVICE void decode_rest_f32(uint32_t h[2], const struct unit_f32 *u, const uint32_t unit)
{
    uint32_t w[2];
    decode_f32(w, u, unit);
    h[0] = f16x2_bits(f32_of_bits(u->q.x) - f32_of_f16_bits(w[0]), f32_of_bits(u->q.y) - f32_of_f16_bits(w[0] >> 16));
    h[1] = f16x2_bits(f32_of_bits(u->q.z) - f32_of_f16_bits(w[1]), f32_of_bits(u->q.w) - f32_of_f16_bits(w[1] >> 16));
}
#endif
