/* q4_1.h -- 4-bit codes, half-float scale and minimum per 32. */
#ifndef FORGE_FORMAT_q4_1
#define FORGE_FORMAT_q4_1
#include "templates/cpu/planes.h"

#define IS_FLOAT_q4_1 0
#define IS_SUPER_q4_1 0
enum { BLOCK_q4_1 = 32, CODE_BYTES_q4_1 = 256, SCALE_BYTES_q4_1 = 64, SUB_q4_1 = 32, BITS_q4_1 = 4, OFFSET_q4_1 = 0, HAS_MIN_q4_1 = 1 };
DEVICE void codes_q4_1(vi c[8], const uint8_t *p)
{
    plane_4(c, p);
}
DEVICE void scales_q4_1(vf *scale, vf *min, const uint8_t *p)
{
    scale[0] = vf_load_f16(p);
    min[0]   = vf_load_f16(p + 32);
}
#endif
