/* iq1_s.h -- -1, 0, 1 as 2-bit codes; per 256 columns half-float d; per 32 columns six bits: three of a scale, and one that adds 1/8:
 * w = d / 8 (2 scale + 1) (8 code + 2 added - 9). */
#ifndef FORGE_FORMAT_iq1_s
#define FORGE_FORMAT_iq1_s
#include "templates/cpu/planes.h"

#define IS_FLOAT_iq1_s 0
#define IS_SUPER_iq1_s 2
enum { BLOCK_iq1_s = 256, CODE_BYTES_iq1_s = 128, SCALE_BYTES_iq1_s = 128, SUB_iq1_s = 32, BITS_iq1_s = 5,
       OFFSET_iq1_s = 9, HAS_MIN_iq1_s = 0, DIVIDE_iq1_s = 8 };
DEVICE void codes_iq1_s(vi c[8], const uint8_t *p)
{
    plane_2(c, p);
    UNROLL for (uint32_t s = 0; s < 8; s++) c[s] = vi_shl(c[s], 3);
}
/* Scales of eight blocks, followed by the values that are added to their codes. */
DEVICE const int8_t *factors_iq1_s(int8_t *room, const uint8_t *p)
{
    six_bits(room, p + 32, 8);
    UNROLL for (uint32_t k = 0; k < 128; k += 64) scales_and_signs(room + k, room + 128 + k, bytes_load((const uint8_t *)room + k));
    return room;
}
DEVICE void shift_iq1_s(vi c[8], const int8_t *small)
{
    const vi two = two_where(vi_load_u8((const uint8_t *)small + 128), 1);
    UNROLL for (uint32_t s = 0; s < 8; s++) c[s] = vi_or(c[s], two);
}
#endif
