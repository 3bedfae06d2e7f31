/* q2_K.h -- 2-bit codes; per 256 columns half-float d and dmin, per 16 columns a byte: scale (low nibble) and minimum. */
#ifndef FORGE_FORMAT_q2_K
#define FORGE_FORMAT_q2_K
#include "../planes.h"

#define IS_FLOAT_q2_K 0
enum { BLOCK_q2_K = 256, CODE_BYTES_q2_K = 128, SCALE_BYTES_q2_K = 320, SUB_q2_K = 16, BITS_q2_K = 2, OFFSET_q2_K = 0, HAS_MIN_q2_K = 1 };
DEVICE void codes_q2_K(vi c[8], const uint8_t *p)
{
    plane_2(c, p);
}
DEVICE void scales_q2_K(vf *scale, vf *min, const uint8_t *p, const uint32_t i)
{
    const vf d = vf_load_f16(p), m = vf_load_f16(p + 32);
    UNROLL for (uint32_t j = 0; j < 2; j++) {
        const vi b = vi_load_u8(p + 64 + 16 * (2 * i + j));
        scale[j] = vf_mul(d, vf_from_vi(vi_and(b, vi_set1(15))));
        min[j]   = vf_sub(vf_set1(-0.0f), vf_mul(m, vf_from_vi(vi_shr(b, 4))));
    }
}
#endif
