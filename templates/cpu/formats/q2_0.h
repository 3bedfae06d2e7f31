/* q2_0.h -- 2-bit codes, offset 1, a half-float scale per 64. */
#ifndef FORGE_FORMAT_q2_0
#define FORGE_FORMAT_q2_0
#include "templates/cpu/planes.h"

#define IS_FLOAT_q2_0 0
#define IS_SUPER_q2_0 1
enum { BLOCK_q2_0 = 64, CODE_BYTES_q2_0 = 128, SCALE_BYTES_q2_0 = 32, SUB_q2_0 = 32, BITS_q2_0 = 2,
       OFFSET_q2_0 = 1, HAS_MIN_q2_0 = 0, DIVIDE_q2_0 = 1 };
DEVICE void codes_q2_0(vi c[8], const uint8_t *p)
{
    plane_2(c, p);
}
DEVICE const int8_t *factors_q2_0(int8_t *room, const uint8_t *p)
{
    (void)p;
    return small_ones(room);
}
#endif
