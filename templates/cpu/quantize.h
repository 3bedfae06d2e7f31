/* quantize.h -- activation rows: the layout of their parts, and float -> int8 in blocks of 32. */
#ifndef FORGE_QUANTIZE_H
#define FORGE_QUANTIZE_H
#include "vec.h"
#if defined(FORGE_SIMD_AVX512) || defined(FORGE_SIMD_AVX2)
#include <immintrin.h>
#endif

/* A quantised row: int8 q[cols], float d[cols/32], int16 sums of 16 q's [cols/16], int16 sums of 32 q's [cols/32], then padding so that
 * whole vectors of each part can be read.  cols is a multiple of 32.
 * Strides are odd multiples of 64 bytes, so that the rows of a token tile fall into different cache sets. */
#define ROW_STRIDE(bytes) ((((bytes) + 63) / 64 | 1) * 64)
#define XQ_SCALES(cols)   (cols)
#define XQ_SUMS(cols)     ((cols) + (cols) / 8)
#define XQ_SUMS_32(cols)  ((cols) + (cols) / 4)
#define XQ_STRIDE(cols)   ROW_STRIDE((cols) + (cols) / 4 + (cols) / 16 + 64)
#define XF_STRIDE(cols)   ROW_STRIDE((cols) * 4)

/* Quantises 32 floats to block `block` of a row: d = max|x| / 127, q = x / d to nearest, ties to even; |q| <= 127.
 * A block with max|x| below 2^-100 becomes zero, because 127 / max|x| must stay finite. */
DEVICE void quantize_block(void *xq, const float *x32, uint32_t block, uint32_t cols)
{
    uint8_t *row = xq;
    const vf a = vf_load(x32), b = vf_load(x32 + 16);
    const float top = vf_hmax(vf_max(vf_abs(a), vf_abs(b)));
    const int zero = top < 0x1p-100f;
    const vf inverse = vf_set1(zero ? 0.0f : 127.0f / top);
    const vi qa = vi_from_vf(vf_mul(a, inverse)), qb = vi_from_vf(vf_mul(b, inverse));
    vi_store_i8((int8_t *)row + 32 * block, qa);
    vi_store_i8((int8_t *)row + 32 * block + 16, qb);
    const float d = zero ? 0.0f : top * (1.0f / 127);
#if defined(FORGE_SIMD_AVX512) || defined(FORGE_SIMD_AVX2)
    /* vpsadbw adds eight unsigned bytes in one step */
    const __m128i bytes_a = (__m128i)__builtin_convertvector(qa, vec_i8), bytes_b = (__m128i)__builtin_convertvector(qb, vec_i8);
    const __m128i flip = _mm_set1_epi8(-128), none = _mm_setzero_si128();
    const __m128i pair_a = _mm_sad_epu8(_mm_xor_si128(bytes_a, flip), none), pair_b = _mm_sad_epu8(_mm_xor_si128(bytes_b, flip), none);
    const __m128i both = _mm_add_epi32(_mm_unpacklo_epi64(pair_a, pair_b), _mm_unpackhi_epi64(pair_a, pair_b));
    const int16_t sum[2] = { (int16_t)(_mm_cvtsi128_si32(both) - 16 * 128), (int16_t)(_mm_extract_epi16(both, 4) - 16 * 128) };
#else
    const int16_t sum[2] = { (int16_t)vi_sum(qa), (int16_t)vi_sum(qb) };
#endif
    const int16_t sum_32 = (int16_t)(sum[0] + sum[1]);
    __builtin_memcpy(row + XQ_SCALES(cols) + 4 * block, &d, 4);
    __builtin_memcpy(row + XQ_SUMS(cols) + 4 * block, sum, 4);
    __builtin_memcpy(row + XQ_SUMS_32(cols) + 2 * block, &sum_32, 2);
}
/* xq: XQ_STRIDE(cols) bytes, 64-byte aligned.  x: [cols]. */
DEVICE void quantize_row(void *xq, const float *x, uint32_t cols)
{
    for (uint32_t block = 0; block < cols / 32; block++) quantize_block(xq, x + 32 * block, block, cols);
}
#endif
