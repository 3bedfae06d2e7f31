/* q6_K.h -- 6-bit codes, offset 32; per 256 columns half-float d, per 16 columns a signed byte scale. */
#ifndef FORGE_FORMAT_q6_K
#define FORGE_FORMAT_q6_K
#include "templates/cpu/planes.h"

#define IS_FLOAT_q6_K 0
#define IS_SUPER_q6_K 1
enum { BLOCK_q6_K = 256, CODE_BYTES_q6_K = 384, SCALE_BYTES_q6_K = 288, SUB_q6_K = 16, BITS_q6_K = 6, OFFSET_q6_K = 32,
       HAS_MIN_q6_K = 0, DIVIDE_q6_K = 1 };
DEVICE void codes_q6_K(vi c[8], const uint8_t *p)
{
    plane_4(c, p);
    plane_2_top(c, p + 256, 4);
}
DEVICE const int8_t *factors_q6_K(int8_t *room, const uint8_t *p)
{
    (void)room;
    return (const int8_t *)p + 32;
}
#endif
