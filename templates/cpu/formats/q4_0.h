/* q4_0.h -- 4-bit codes, offset 8, a half-float scale per 32. */
#ifndef FORGE_FORMAT_q4_0
#define FORGE_FORMAT_q4_0
#include "templates/cpu/planes.h"

#define IS_FLOAT_q4_0 0
#define IS_SUPER_q4_0 0
enum { BLOCK_q4_0 = 32, CODE_BYTES_q4_0 = 256, SCALE_BYTES_q4_0 = 32, SUB_q4_0 = 32, BITS_q4_0 = 4, OFFSET_q4_0 = 8, HAS_MIN_q4_0 = 0 };
DEVICE void codes_q4_0(vi c[8], const uint8_t *p)
{
    plane_4(c, p);
}
DEVICE void scales_q4_0(vf *scale, vf *min, const uint8_t *p)
{
    (void)min;
    scale[0] = vf_load_f16(p);
}
#endif
