/* q3_K.h -- 3-bit codes, offset 4; per 256 columns half-float d and 16 six-bit scales, offset 32. */
#ifndef FORGE_FORMAT_q3_K
#define FORGE_FORMAT_q3_K
#include "templates/cpu/planes.h"

#define IS_FLOAT_q3_K 0
#define IS_SUPER_q3_K 1
enum { BLOCK_q3_K = 256, CODE_BYTES_q3_K = 192, SCALE_BYTES_q3_K = 224, SUB_q3_K = 16, BITS_q3_K = 3, OFFSET_q3_K = 4,
       HAS_MIN_q3_K = 0, DIVIDE_q3_K = 1 };
DEVICE void codes_q3_K(vi c[8], const uint8_t *p)
{
    plane_2(c, p);
    plane_1_top(c, p + 128, 2);
}
DEVICE const int8_t *factors_q3_K(int8_t *room, const uint8_t *p)
{
    six_bits(room, p + 32, 16);
    less_32(room, 256);
    return room;
}
#endif
