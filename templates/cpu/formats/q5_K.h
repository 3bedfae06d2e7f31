/* q5_K.h -- 5-bit codes; per 256 columns half-float d and dmin, per 32 columns a six-bit scale and minimum (values 0-7 and 8-15). */
#ifndef FORGE_FORMAT_q5_K
#define FORGE_FORMAT_q5_K
#include "templates/cpu/planes.h"

#define IS_FLOAT_q5_K 0
#define IS_SUPER_q5_K 1
enum { BLOCK_q5_K = 256, CODE_BYTES_q5_K = 320, SCALE_BYTES_q5_K = 256, SUB_q5_K = 32, BITS_q5_K = 5, OFFSET_q5_K = 0,
       HAS_MIN_q5_K = 1, DIVIDE_q5_K = 1 };
DEVICE void codes_q5_K(vi c[8], const uint8_t *p)
{
    plane_4(c, p);
    plane_1_top(c, p + 256, 4);
}
DEVICE const int8_t *factors_q5_K(int8_t *room, const uint8_t *p)
{
    six_bits(room, p + 64, 16);
    return room;
}
#endif
