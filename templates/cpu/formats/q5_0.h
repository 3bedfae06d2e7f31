/* q5_0.h -- 5-bit codes, offset 16, a half-float scale per 32. */
#ifndef FORGE_FORMAT_q5_0
#define FORGE_FORMAT_q5_0
#include "templates/cpu/planes.h"

#define IS_FLOAT_q5_0 0
#define IS_SUPER_q5_0 0
enum { BLOCK_q5_0 = 32, CODE_BYTES_q5_0 = 320, SCALE_BYTES_q5_0 = 32, SUB_q5_0 = 32, BITS_q5_0 = 5, OFFSET_q5_0 = 16, HAS_MIN_q5_0 = 0 };
DEVICE void codes_q5_0(vi c[8], const uint8_t *p)
{
    plane_4(c, p);
    plane_1_top(c, p + 256, 4);
}
DEVICE void scales_q5_0(vf *scale, vf *min, const uint8_t *p)
{
    (void)min;
    scale[0] = vf_load_f16(p);
}
#endif
