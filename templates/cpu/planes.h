/* planes.h -- codes and scales of packed weights (docs/kernels.md) as vectors: what the formats are made of.
 * A code vector holds 4 columns of 16 rows, one byte each; 32 columns are 8 of them. */
#ifndef FORGE_PLANES_H
#define FORGE_PLANES_H
#include "vec.h"
#if defined(FORGE_SIMD_AVX512)
#include "dot_avx512.h"
#elif defined(FORGE_SIMD_AVX2)
#include "dot_avx2.h"
#elif defined(FORGE_SIMD_NEON)
#include "dot_neon.h"
#else
#include "dot_c.h"
#endif

DEVICE vi bytes_load(const uint8_t *p)   { vi r; __builtin_memcpy(&r, p, 64); return r; }
DEVICE vi bytes_set1(const uint32_t b)   { return vi_set1((int32_t)(b * 0x01010101u)); }

DEVICE void plane_8(vi c[8], const uint8_t *p)                     /* signed bytes, flipped where the dot product wants it */
{
    UNROLL for (uint32_t s = 0; s < 8; s++) c[s] = DOT_FLIP ? vi_xor(bytes_load(p + 64 * s), bytes_set1(DOT_FLIP)) : bytes_load(p + 64 * s);
}
DEVICE void plane_4(vi c[8], const uint8_t *p)
{
    const vi mask = bytes_set1(15);
    UNROLL for (uint32_t v = 0; v < 4; v++) {
        const vi b = bytes_load(p + 64 * v);
        c[v]     = vi_and(b, mask);
        c[v + 4] = vi_and(vi_shr(b, 4), mask);
    }
}
DEVICE void plane_2(vi c[8], const uint8_t *p)
{
    const vi mask = bytes_set1(3);
    UNROLL for (uint32_t s = 0; s < 8; s++) c[s] = vi_and(vi_shr(bytes_load(p + 64 * (s / 4)), 2 * (s % 4)), mask);
}
/* The planes of the top bits are or-ed onto c, shifted up by `at`. */
DEVICE void plane_2_top(vi c[8], const uint8_t *p, const uint32_t at)
{
    const vi mask = bytes_set1(3u << at);
    UNROLL for (uint32_t s = 0; s < 8; s++) {
        const vi b = bytes_load(p + 64 * (s / 4));
        c[s] = vi_or(c[s], vi_and(2 * (s % 4) > at ? vi_shr(b, 2 * (s % 4) - at) : vi_shl(b, at - 2 * (s % 4)), mask));
    }
}
DEVICE void plane_1_top(vi c[8], const uint8_t *p, const uint32_t at)
{
    const vi b = bytes_load(p), mask = bytes_set1(1u << at);
    UNROLL for (uint32_t s = 0; s < 8; s++) c[s] = vi_or(c[s], vi_and(s > at ? vi_shr(b, s - at) : vi_shl(b, at - s), mask));
}
/* 4-bit indices into a table of 16 signed bytes. */
DEVICE void plane_4_table(vi c[8], const uint8_t *p, const int8_t *table)
{
    plane_4(c, p);
    UNROLL for (uint32_t s = 0; s < 8; s++) c[s] = bytes_lookup(table, c[s]);
}
/* Value i of n six-bit values kept four in three byte vectors (16 rows each). */
DEVICE vi six_bits(const uint8_t *p, const uint32_t i, const uint32_t n)
{
    const uint32_t whole = n / 4 * 3;
    if (i < whole) return vi_and(vi_load_u8(p + 16 * i), vi_set1(63));
    const uint8_t *q = p + 48 * (i - whole);
    return vi_or(vi_shr(vi_load_u8(q), 6), vi_or(vi_shl(vi_shr(vi_load_u8(q + 16), 6), 2), vi_shl(vi_shr(vi_load_u8(q + 32), 6), 4)));
}
#endif
