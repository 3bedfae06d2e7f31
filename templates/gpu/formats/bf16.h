/* bf16.h -- bfloat16 weights, 16-byte pieces of 8 columns. */
#ifndef FORGE_GPU_bf16
#define FORGE_GPU_bf16
#include "templates/gpu/acts_unit.h"

#define ROW_BYTES_bf16(cols) (UNITS_OF(cols) * 128)
#define UNIT_COLS_bf16 8
#define SUMS16_bf16 0
#define LOADS_bf16 1

struct unit_bf16 { u32x4 q; };

DEVICE void load_bf16(struct unit_bf16 *u, const uint8_t *row, const uint32_t unit, const uint32_t units)
{
    (void)units;
    u->q = load_weights16(row + unit * 16);
}
DEVICE void pin_bf16(struct unit_bf16 *u) { pin16(&u->q); }
DEVICE float dotf_bf16(const struct unit_bf16 *u, const f32x4 x[2])
{
    float sum = f32_of_bf16_bits(u->q.x) * x[0].x;
    sum += f32_of_bits(u->q.x & 0xffff0000u) * x[0].y;
    sum += f32_of_bf16_bits(u->q.y) * x[0].z;
    sum += f32_of_bits(u->q.y & 0xffff0000u) * x[0].w;
    sum += f32_of_bf16_bits(u->q.z) * x[1].x;
    sum += f32_of_bits(u->q.z & 0xffff0000u) * x[1].y;
    sum += f32_of_bf16_bits(u->q.w) * x[1].z;
    sum += f32_of_bits(u->q.w & 0xffff0000u) * x[1].w;
    return sum;
}
/* The file's bits: bfloat16, whose products run as such. */
DEVICE void decode_bf16(uint32_t h[4], const struct unit_bf16 *u, const uint32_t unit)
{
    (void)unit;
    h[0] = u->q.x; h[1] = u->q.y; h[2] = u->q.z; h[3] = u->q.w;
}
#endif
