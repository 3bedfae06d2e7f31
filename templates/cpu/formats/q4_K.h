/* q4_K.h -- 4-bit codes; per 256 columns half-float d and dmin, per 32 columns a six-bit scale and minimum (values 0-7 and 8-15). */
#ifndef FORGE_FORMAT_q4_K
#define FORGE_FORMAT_q4_K
#include "templates/cpu/planes.h"

#define IS_FLOAT_q4_K 0
#define IS_SUPER_q4_K 1
enum { BLOCK_q4_K = 256, CODE_BYTES_q4_K = 256, SCALE_BYTES_q4_K = 256, SUB_q4_K = 32, BITS_q4_K = 4, OFFSET_q4_K = 0,
       HAS_MIN_q4_K = 1, DIVIDE_q4_K = 1 };
DEVICE void codes_q4_K(vi c[8], const uint8_t *p)
{
    plane_4(c, p);
}
DEVICE const int8_t *factors_q4_K(int8_t *room, const uint8_t *p)
{
    six_bits(room, p + 64, 16);
    return room;
}
#endif
