/* q2_K.h -- 2-bit codes; per 256 columns half-float d and dmin, per 16 columns a byte: scale (low nibble) and minimum. */
#ifndef FORGE_FORMAT_q2_K
#define FORGE_FORMAT_q2_K
#include "templates/cpu/planes.h"

#define IS_FLOAT_q2_K 0
#define IS_SUPER_q2_K 1
enum { BLOCK_q2_K = 256, CODE_BYTES_q2_K = 128, SCALE_BYTES_q2_K = 320, SUB_q2_K = 16, BITS_q2_K = 2, OFFSET_q2_K = 0,
       HAS_MIN_q2_K = 1, DIVIDE_q2_K = 1 };
DEVICE void codes_q2_K(vi c[8], const uint8_t *p)
{
    plane_2(c, p);
}
DEVICE const int8_t *factors_q2_K(int8_t *room, const uint8_t *p)
{
    const vi mask = bytes_set1(15);
    UNROLL for (uint32_t k = 0; k < 256; k += 64) {
        const vi b = bytes_load(p + 64 + k), scale = vi_and(b, mask), min = vi_and(vi_shr(b, 4), mask);
        __builtin_memcpy(room + k, &scale, 64);
        __builtin_memcpy(room + 256 + k, &min, 64);
    }
    return room;
}
#endif
