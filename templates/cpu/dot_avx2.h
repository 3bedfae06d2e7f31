/* dot_avx2.h -- integer dot products with AVX2.  vpmaddubsw multiplies unsigned by signed bytes and adds pairs in 16 bits, saturating at
 * 32767.  Because |x| <= 127, sums of several steps with narrow codes fit before they are widened.
 * With AVX-VNNI, vpdpbusd is used as in dot_avx512.h. */
#ifndef FORGE_DOT_H
#define FORGE_DOT_H
#include "vec.h"
#include <immintrin.h>

#ifdef __AVXVNNI__
#define DOT_FLIP 128
#define DOT_RUN(bits) 1
#else
#define DOT_FLIP 0
/* 2 * 127 * (2^bits - 1) * steps <= 32767.  Eight bits: |code| * x with the sign of the code moved to x, 2 * 127 * 128 = 32512. */
#define DOT_RUN(bits) ((bits) <= 4 ? 8 : (bits) == 5 ? 4 : (bits) == 6 ? 2 : 1)
#endif

typedef int32_t vec_half __attribute__((vector_size(32)));
DEVICE __m256i vi_half(vi v, const uint32_t i)
{
    return i ? (__m256i)__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)
             : (__m256i)__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
}
DEVICE vi vi_halves(__m256i low, __m256i high)
{
    return __builtin_shufflevector((vec_half)low, (vec_half)high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
/* Contract: dot_c.h; steps <= DOT_RUN(bits). */
DEVICE vi dot(vi acc, const vi *codes, const int8_t *x, const uint32_t steps, const uint32_t bits)
{
#ifdef __AVXVNNI__
    (void)bits;
    UNROLL for (uint32_t s = 0; s < steps; s++) {
        int32_t x4;
        __builtin_memcpy(&x4, x + 4 * s, 4);
        const __m256i xs = _mm256_set1_epi32(x4);
        acc = vi_halves(_mm256_dpbusd_avx_epi32(vi_half(acc, 0), vi_half(codes[s], 0), xs),
                        _mm256_dpbusd_avx_epi32(vi_half(acc, 1), vi_half(codes[s], 1), xs));
    }
    return acc;
#else
    __m256i pairs[2] = { _mm256_setzero_si256(), _mm256_setzero_si256() };
    UNROLL for (uint32_t s = 0; s < steps; s++) {
        int32_t x4;
        __builtin_memcpy(&x4, x + 4 * s, 4);
        const __m256i xs = _mm256_set1_epi32(x4);
        UNROLL for (uint32_t i = 0; i < 2; i++) {
            const __m256i c = vi_half(codes[s], i);
            const __m256i p = bits == 8 ? _mm256_maddubs_epi16(_mm256_abs_epi8(c), _mm256_sign_epi8(xs, c)) : _mm256_maddubs_epi16(c, xs);
            pairs[i] = s ? _mm256_add_epi16(pairs[i], p) : p;
        }
    }
    const __m256i ones = _mm256_set1_epi16(1);
    return vi_add(acc, vi_halves(_mm256_madd_epi16(pairs[0], ones), _mm256_madd_epi16(pairs[1], ones)));
#endif
}
DEVICE vi bytes_lookup(const int8_t *table, vi index)
{
    const __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i_u *)(const void *)table));
    return vi_halves(_mm256_shuffle_epi8(t, vi_half(index, 0)), _mm256_shuffle_epi8(t, vi_half(index, 1)));
}
#endif
