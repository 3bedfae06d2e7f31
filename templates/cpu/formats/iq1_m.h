/* iq1_m.h -- -1, 0, 1 as 2-bit codes; per 256 columns half-float d; per 16 columns a byte: three bits of a scale and, for each 8 columns,
 * a bit that adds 1/8: w = d / 8 (2 scale + 1) (8 code + 2 added - 9). */
#ifndef FORGE_FORMAT_iq1_m
#define FORGE_FORMAT_iq1_m
#include "templates/cpu/planes.h"

#define IS_FLOAT_iq1_m 0
#define IS_SUPER_iq1_m 2
enum { BLOCK_iq1_m = 256, CODE_BYTES_iq1_m = 128, SCALE_BYTES_iq1_m = 288, SUB_iq1_m = 16, BITS_iq1_m = 5,
       OFFSET_iq1_m = 9, HAS_MIN_iq1_m = 0, DIVIDE_iq1_m = 8 };
DEVICE void codes_iq1_m(vi c[8], const uint8_t *p)
{
    plane_2(c, p);
    UNROLL for (uint32_t s = 0; s < 8; s++) c[s] = vi_shl(c[s], 3);
}
/* Scales of 16 times 16 columns, followed by the values that are added to their codes. */
DEVICE const int8_t *factors_iq1_m(int8_t *room, const uint8_t *p)
{
    UNROLL for (uint32_t k = 0; k < 256; k += 64) scales_and_signs(room + k, room + 256 + k, bytes_load(p + 32 + k));
    return room;
}
DEVICE void shift_iq1_m(vi c[8], const int8_t *small)
{
    UNROLL for (uint32_t k = 0; k < 4; k++) {
        const vi two = two_where(vi_load_u8((const uint8_t *)small + 256 + 16 * (k / 2)), 1u << k % 2);
        c[2 * k]     = vi_or(c[2 * k], two);
        c[2 * k + 1] = vi_or(c[2 * k + 1], two);
    }
}
#endif
