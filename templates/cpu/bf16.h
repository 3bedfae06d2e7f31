/* bf16.h -- rows of x rounded to bfloat16, and dot products of pairs of neighbouring columns (docs/kernels.md).
 * With AVX512-BF16 or Arm's BF16 the processor rounds and multiplies.  Otherwise integer operations round and float FMAs multiply, for any
 * vector of vec.h. */
#ifndef FORGE_BF16_H
#define FORGE_BF16_H
#include "vec.h"
#if defined(FORGE_SIMD_AVX512) && defined(__AVX512BF16__)
#define BF16_OF_AVX512 1
#include <immintrin.h>
#else
#define BF16_OF_AVX512 0
#endif
#if defined(FORGE_SIMD_NEON) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define BF16_OF_ARM 1
#include "quarters.h"
#else
#define BF16_OF_ARM 0
#endif

/* A row: bfloat16 x[cols], cols a multiple of 32.  Its stride is an odd multiple of 64 bytes, as in quantize.h. */
#define XB_STRIDE(cols)   ((((cols) * 2 + 63) / 64 | 1) * 64)
/* A row in two parts: bfloat16 x[cols], then at XB_LEFT the rounding remainders of x as bfloat16, of the same size. */
#define XB_LEFT(cols)         ((cols) * 2)
#define XB_PARTS_STRIDE(cols) ((((cols) * 4 + 63) / 64 | 1) * 64)

/* The nearest bfloat16, ties to even, in the low half of each lane; NaN stays NaN. */
DEVICE vi vi_bf16(vf x)
{
    vi bits;
    __builtin_memcpy(&bits, &x, 64);
    const vi odd = vi_and(vi_shr(bits, 16), vi_set1(1)), near = vi_shr(vi_add(bits, vi_add(odd, vi_set1(0x7fff))), 16);
    const vi none = vi_less(vi_set1(0x7f800000), vi_and(bits, vi_set1(0x7fffffff))), quiet = vi_or(vi_shr(bits, 16), vi_set1(0x40));
    return vi_or(vi_and(none, quiet), vi_and(vi_xor(none, vi_set1(-1)), near));
}
/* Each lane: a rounded to bfloat16 in the low half, b in the high half. */
DEVICE vi pairs_of(vf a, vf b)
{
#if BF16_OF_AVX512
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3,
                                           18, 2, 17, 1, 16, 0);
    return (vi)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a));
#elif BF16_OF_ARM
    uint16x8_t near[8];
    UNROLL for (uint32_t i = 0; i < 4; i++) {
        near[i] = vreinterpretq_u16_bf16(vcvtq_low_bf16_f32(vf_quarter(a, i)));
        near[4 + i] = vreinterpretq_u16_bf16(vcvtq_low_bf16_f32(vf_quarter(b, i)));
    }
#define PAIRS(i) vreinterpretq_s32_u16(vzip1q_u16(near[i], near[4 + i]))
    return vi_quarters(PAIRS(0), PAIRS(1), PAIRS(2), PAIRS(3));
#undef PAIRS
#else
    return vi_or(vi_bf16(a), vi_shl(vi_bf16(b), 16));
#endif
}
/* The remainders of a and b after rounding, as pairs, for more precision; near: pairs_of(a, b). */
DEVICE vi pairs_left(vi near, vf a, vf b)
{
    return pairs_of(vf_sub(a, vf_bits(vi_shl(near, 16))), vf_sub(b, vf_bits(vi_and(near, vi_set1((int32_t)0xffff0000u)))));
}
/* Two columns of 16 rows at p, [2][16] bfloat16, as pairs. */
DEVICE vi pairs_beside(const uint8_t *p)
{
#if BF16_OF_AVX512
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3,
                                           18, 2, 17, 1, 16, 0);
    return (vi)_mm512_permutexvar_epi16(order, _mm512_loadu_si512(p));
#elif BF16_OF_ARM
    const int16x8_t low = vreinterpretq_s16_u8(vld1q_u8(p)), high = vreinterpretq_s16_u8(vld1q_u8(p + 32));
    const int16x8_t low_8 = vreinterpretq_s16_u8(vld1q_u8(p + 16)), high_8 = vreinterpretq_s16_u8(vld1q_u8(p + 48));
    return vi_quarters(vreinterpretq_s32_s16(vzip1q_s16(low, high)), vreinterpretq_s32_s16(vzip2q_s16(low, high)),
                       vreinterpretq_s32_s16(vzip1q_s16(low_8, high_8)), vreinterpretq_s32_s16(vzip2q_s16(low_8, high_8)));
#else
    const vi low = vi_load_u16(p), high = vi_load_u16(p + 32);
    return vi_or(low, vi_shl(high, 16));
#endif
}
/* acc[row] + the dot product of each row's pair with the pair of x at p, in float. */
DEVICE vf dot_pairs(vf acc, vi pairs, const uint8_t *p)
{
    int32_t x;
    __builtin_memcpy(&x, p, 4);
#if BF16_OF_AVX512
    return (vf)_mm512_dpbf16_ps((__m512)acc, (__m512bh)pairs, (__m512bh)_mm512_set1_epi32(x));
#elif BF16_OF_ARM
    const bfloat16x8_t xs = vreinterpretq_bf16_s32(vdupq_n_s32(x));
    float32x4_t sum[4];
    UNROLL for (uint32_t i = 0; i < 4; i++) sum[i] = vbfdotq_f32(vf_quarter(acc, i), vreinterpretq_bf16_s32(vi_quarter(pairs, i)), xs);
    return vf_quarters(sum[0], sum[1], sum[2], sum[3]);
#else
    const vf low = vf_bits(vi_shl(pairs, 16)), high = vf_bits(vi_and(pairs, vi_set1((int32_t)0xffff0000u)));
    const vf x_low = vf_bits(vi_shl(vi_set1(x), 16)), x_high = vf_bits(vi_and(vi_set1(x), vi_set1((int32_t)0xffff0000u)));
    return vf_fma(high, x_high, vf_fma(low, x_low, acc));
#endif
}

/* 32 columns of a row: the 16 lanes of a, then those of b; neighbouring columns form a pair. */
DEVICE vi bf16_two(vf a, vf b)
{
#if BF16_OF_AVX512
    return (vi)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a);
#elif BF16_OF_ARM
#define NEAR(x, i) vreinterpretq_s32_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(vf_quarter(x, i)), vf_quarter(x, (i) + 1)))
    return vi_quarters(NEAR(a, 0), NEAR(a, 2), NEAR(b, 0), NEAR(b, 2));
#undef NEAR
#else
    uint8_t row[64];
    vi both;
    vi_store_u16(row, vi_bf16(a));
    vi_store_u16(row + 32, vi_bf16(b));
    __builtin_memcpy(&both, row, 64);
    return both;
#endif
}
/* Stores 32 columns at `near` and their rounding remainders at `left`. */
DEVICE void bf16_parts(uint8_t *near, uint8_t *left, vf a, vf b)
{
    const vi first = bf16_two(a, b);
    __builtin_memcpy(near, &first, 64);
    const vi second = bf16_two(vf_sub(a, vf_load_bf16(near)), vf_sub(b, vf_load_bf16(near + 32)));
    __builtin_memcpy(left, &second, 64);
}
/* Stores 32 columns as block `block` of a row. */
DEVICE void bf16_block(void *row, const float *x32, uint32_t block)
{
    const vi both = bf16_two(vf_load(x32), vf_load(x32 + 16));
    __builtin_memcpy((uint8_t *)row + 64 * (uint64_t)block, &both, 64);
}
/* row: XB_STRIDE(cols) bytes, 64-byte aligned.  x: [cols]. */
DEVICE void bf16_row(void *row, const float *x, uint32_t cols)
{
    for (uint32_t block = 0; block < cols / 32; block++) bf16_block(row, x + 32 * block, block);
}
/* The same for a row in two parts, of XB_PARTS_STRIDE(cols) bytes. */
DEVICE void bf16_parts_block(void *row, const float *x32, uint32_t block, uint32_t cols)
{
    uint8_t *const at = (uint8_t *)row + 64 * (uint64_t)block;
    bf16_parts(at, at + XB_LEFT((uint64_t)cols), vf_load(x32), vf_load(x32 + 16));
}
DEVICE void bf16_parts_row(void *row, const float *x, uint32_t cols)
{
    for (uint32_t block = 0; block < cols / 32; block++) bf16_parts_block(row, x + 32 * block, block, cols);
}
#endif
