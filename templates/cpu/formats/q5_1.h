/* q5_1.h -- 5-bit codes, half-float scale and minimum per 32. */
#ifndef FORGE_FORMAT_q5_1
#define FORGE_FORMAT_q5_1
#include "templates/cpu/planes.h"

#define IS_FLOAT_q5_1 0
#define IS_SUPER_q5_1 0
enum { BLOCK_q5_1 = 32, CODE_BYTES_q5_1 = 320, SCALE_BYTES_q5_1 = 64, SUB_q5_1 = 32, BITS_q5_1 = 5, OFFSET_q5_1 = 0, HAS_MIN_q5_1 = 1 };
DEVICE void codes_q5_1(vi c[8], const uint8_t *p)
{
    plane_4(c, p);
    plane_1_top(c, p + 256, 4);
}
DEVICE void scales_q5_1(vf *scale, vf *min, const uint8_t *p)
{
    scale[0] = vf_load_f16(p);
    min[0]   = vf_load_f16(p + 32);
}
#endif
