/* q6_K.h -- 6-bit codes, offset 32; per 256 columns half-float d, per 16 columns a signed byte scale. */
#ifndef FORGE_FORMAT_q6_K
#define FORGE_FORMAT_q6_K
#include "../planes.h"

#define IS_FLOAT_q6_K 0
enum { BLOCK_q6_K = 256, CODE_BYTES_q6_K = 384, SCALE_BYTES_q6_K = 288, SUB_q6_K = 16, BITS_q6_K = 6, OFFSET_q6_K = 32, HAS_MIN_q6_K = 0 };
DEVICE void codes_q6_K(vi c[8], const uint8_t *p)
{
    plane_4(c, p);
    plane_2_top(c, p + 256, 4);
}
DEVICE void scales_q6_K(vf *scale, vf *min, const uint8_t *p, const uint32_t i)
{
    (void)min;
    UNROLL for (uint32_t j = 0; j < 2; j++)
        scale[j] = vf_mul(vf_load_f16(p), vf_from_vi(vi_load_i8((const int8_t *)p + 32 + 16 * (2 * i + j))));
}
#endif
