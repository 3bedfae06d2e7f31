/* dot_avx512.h -- integer dot products with AVX-512 VNNI: vpdpbusd multiplies unsigned weights with signed activations. */
#ifndef FORGE_DOT_H
#define FORGE_DOT_H
#include "vec.h"
#include <immintrin.h>

#define DOT_FLIP 128                                   /* see dot_c.h: signed codes become unsigned ones */
#define DOT_RUN(bits) 1

/* Contract: dot_c.h. */
DEVICE vi dot(vi acc, const vi *codes, const int8_t *x, const uint32_t steps, const uint32_t bits)
{
    (void)bits;
    UNROLL for (uint32_t s = 0; s < steps; s++) {
        int32_t x4;
        __builtin_memcpy(&x4, x + 4 * s, 4);
        acc = (vi)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)codes[s], _mm512_set1_epi32(x4));
    }
    return acc;
}
DEVICE vi bytes_lookup(const int8_t *table, vi index)
{
    const __m512i t = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i_u *)(const void *)table));
    return (vi)_mm512_shuffle_epi8(t, (__m512i)index);
}
#endif
