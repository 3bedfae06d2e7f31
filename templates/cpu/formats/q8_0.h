/* q8_0.h -- 32 signed bytes and a half-float scale. */
#ifndef FORGE_FORMAT_q8_0
#define FORGE_FORMAT_q8_0
#include "templates/cpu/planes.h"

#define IS_FLOAT_q8_0 0
#define IS_SUPER_q8_0 0
enum { BLOCK_q8_0 = 32, CODE_BYTES_q8_0 = 512, SCALE_BYTES_q8_0 = 32, SUB_q8_0 = 32, BITS_q8_0 = 8, OFFSET_q8_0 = DOT_FLIP,
       HAS_MIN_q8_0 = 0 };
DEVICE void codes_q8_0(vi c[8], const uint8_t *p)
{
    plane_8(c, p);
}
DEVICE void scales_q8_0(vf *scale, vf *min, const uint8_t *p)
{
    (void)min;
    scale[0] = vf_load_f16(p);
}
#endif
