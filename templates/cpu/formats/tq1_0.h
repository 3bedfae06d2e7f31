/* tq1_0.h -- -1, 0, 1 as 2-bit codes, a half-float scale per 256; packed wider than in the file. */
#ifndef FORGE_FORMAT_tq1_0
#define FORGE_FORMAT_tq1_0
#include "templates/cpu/planes.h"

#define IS_FLOAT_tq1_0 0
#define IS_SUPER_tq1_0 1
enum { BLOCK_tq1_0 = 256, CODE_BYTES_tq1_0 = 128, SCALE_BYTES_tq1_0 = 32, SUB_tq1_0 = 32, BITS_tq1_0 = 2,
       OFFSET_tq1_0 = 1, HAS_MIN_tq1_0 = 0, DIVIDE_tq1_0 = 1 };
DEVICE void codes_tq1_0(vi c[8], const uint8_t *p)
{
    plane_2(c, p);
}
DEVICE const int8_t *factors_tq1_0(int8_t *room, const uint8_t *p)
{
    (void)p;
    return small_ones(room);
}
#endif
