/* iq3_s.h -- odd values -15 .. 15 as 4-bit codes; per 256 columns half-float d and 8 odd scales below 32: w = d scale (2 code - 15). */
#ifndef FORGE_FORMAT_iq3_s
#define FORGE_FORMAT_iq3_s
#include "templates/cpu/planes.h"

#define IS_FLOAT_iq3_s 0
#define IS_SUPER_iq3_s 1
enum { BLOCK_iq3_s = 256, CODE_BYTES_iq3_s = 256, SCALE_BYTES_iq3_s = 128, SUB_iq3_s = 32, BITS_iq3_s = 5,
       OFFSET_iq3_s = 15, HAS_MIN_iq3_s = 0, DIVIDE_iq3_s = 1 };
DEVICE void codes_iq3_s(vi c[8], const uint8_t *p)
{
    plane_4(c, p);
    UNROLL for (uint32_t s = 0; s < 8; s++) c[s] = vi_shl(c[s], 1);
}
DEVICE const int8_t *factors_iq3_s(int8_t *room, const uint8_t *p)
{
    six_bits(room, p + 32, 8);
    return room;
}
#endif
