/* q1_0.h -- bits for 1 and -1, a half-float scale per 128: w = d (2 bit - 1). */
#ifndef FORGE_FORMAT_q1_0
#define FORGE_FORMAT_q1_0
#include "templates/cpu/planes.h"

#define IS_FLOAT_q1_0 0
#define IS_SUPER_q1_0 1
enum { BLOCK_q1_0 = 128, CODE_BYTES_q1_0 = 64, SCALE_BYTES_q1_0 = 32, SUB_q1_0 = 32, BITS_q1_0 = 2,
       OFFSET_q1_0 = 1, HAS_MIN_q1_0 = 0, DIVIDE_q1_0 = 1 };
DEVICE void codes_q1_0(vi c[8], const uint8_t *p)
{
    plane_1(c, p, 1);
}
DEVICE const int8_t *factors_q1_0(int8_t *room, const uint8_t *p)
{
    (void)p;
    return small_ones(room);
}
#endif
