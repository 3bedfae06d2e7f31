/* planes.h -- unpacks codes and scales of packed weights (docs/kernels.md) into vectors; the files in formats/ are built from these.
 * A code vector holds 4 columns of 16 rows, one byte each; 32 columns are 8 vectors. */
#ifndef FORGE_PLANES_H
#define FORGE_PLANES_H
#include "vec.h"
#if defined(FORGE_SIMD_AVX512)
#include "dot_avx512.h"
#elif defined(FORGE_SIMD_AVX2)
#include "dot_avx2.h"
#elif defined(FORGE_SIMD_NEON)
#include "dot_neon.h"
#elif defined(FORGE_SIMD_WASM)
#include "dot_wasm.h"
#else
#include "dot_c.h"
#endif

DEVICE vi bytes_load(const uint8_t *p)   { vi r; __builtin_memcpy(&r, p, 64); return r; }
DEVICE vi bytes_set1(const uint32_t b)   { return vi_set1((int32_t)(b * 0x01010101u)); }

DEVICE void plane_8(vi c[8], const uint8_t *p)                     /* signed bytes; xored with DOT_FLIP where dot() needs unsigned ones */
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
/* One bit per code, shifted left by `at`. */
DEVICE void plane_1(vi c[8], const uint8_t *p, const uint32_t at)
{
    const vi b = bytes_load(p), mask = bytes_set1(1u << at);
    UNROLL for (uint32_t s = 0; s < 8; s++) c[s] = vi_and(s > at ? vi_shr(b, s - at) : vi_shl(b, at - s), mask);
}
/* ORs a plane of top bits (two or one per code) onto c, shifted left by `at`. */
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
/* Two bits select 8, 25 or 43; one bit in the plane that follows selects the sign.  Adds 43. */
DEVICE void plane_2_levels(vi c[8], const uint8_t *p)
{
    static const int8_t table[16] = { 43 + 8, 43 + 25, 43 + 43, 0, 43 - 8, 43 - 25, 43 - 43 };
    plane_2(c, p);
    plane_1_top(c, p + 128, 2);
    UNROLL for (uint32_t s = 0; s < 8; s++) c[s] = bytes_lookup(table, c[s]);
}
/* Each writes 16 six-bit values: low_bits() the low six bits of q[0 .. 15], top_bits() the top two bits of q, q + 16 and q + 32. */
DEVICE void low_bits(int8_t *out, const uint8_t *q)
{
#ifdef FORGE_SIMD_C
    for (uint32_t i = 0; i < 16; i++) out[i] = (int8_t)(q[i] & 63);
#else
    *(vec_u8_unaligned *)(void *)out = *(const vec_u8_unaligned *)q & 63;
#endif
}
DEVICE void top_bits(int8_t *out, const uint8_t *q)
{
#ifdef FORGE_SIMD_C
    for (uint32_t i = 0; i < 16; i++) out[i] = (int8_t)(q[i] >> 6 | q[16 + i] >> 6 << 2 | q[32 + i] >> 6 << 4);
#else
    const vec_u8 a = *(const vec_u8_unaligned *)q, b = *(const vec_u8_unaligned *)(q + 16), c = *(const vec_u8_unaligned *)(q + 32);
    *(vec_u8_unaligned *)(void *)out = a >> 6 | (b >> 4 & 12) | (c >> 2 & 48);
#endif
}
/* out: [n][16 rows], n is 8 or 16.  Four six-bit values are packed in three byte vectors. */
DEVICE void six_bits(int8_t *out, const uint8_t *p, const uint32_t n)
{
    const uint32_t whole = n / 4 * 3 * 16, wide = whole / 64 * 64;
    UNROLL for (uint32_t k = 0; k < wide; k += 64) {
        const vi v = vi_and(bytes_load(p + k), bytes_set1(63));
        __builtin_memcpy(out + k, &v, 64);
    }
    UNROLL for (uint32_t k = wide; k < whole; k += 16) low_bits(out + k, p + k);
    UNROLL for (uint32_t i = 0; i < n / 4; i++) top_bits(out + whole + 16 * i, p + 48 * i);
}
/* out: [16][16 rows] = 2 * nibble + 1; byte vector j holds the nibbles of values 2j and 2j + 1. */
DEVICE void odd_nibbles(int8_t *out, const uint8_t *p)
{
    const vi mask = bytes_set1(30), one = bytes_set1(1);
    UNROLL for (uint32_t k = 0; k < 2; k++) {
        const vi b = bytes_load(p + 64 * k);
        const vi low = vi_or(vi_and(vi_shl(b, 1), mask), one), high = vi_or(vi_and(vi_shr(b, 3), mask), one);
        UNROLL for (uint32_t j = 0; j < 4; j++) {
            __builtin_memcpy(out + 128 * k + 32 * j, (const uint8_t *)&low + 16 * j, 16);
            __builtin_memcpy(out + 128 * k + 32 * j + 16, (const uint8_t *)&high + 16 * j, 16);
        }
    }
}
/* Sub-block scales of 1, for up to eight blocks of a format without such scales. */
DEVICE const int8_t *small_ones(int8_t *room)
{
    const vi ones = bytes_set1(1);
    UNROLL for (uint32_t k = 0; k < 128; k += 64) __builtin_memcpy(room + k, &ones, 64);
    return room;
}
/* Writes 64 bytes each: scales = 2 n + 1 where n is the low three bits of a byte, signs = the two bits above. */
DEVICE void scales_and_signs(int8_t *scales, int8_t *signs, const vi bytes)
{
    const vi odd = vi_or(vi_and(vi_shl(bytes, 1), bytes_set1(14)), bytes_set1(1)), above = vi_and(vi_shr(bytes, 3), bytes_set1(3));
    __builtin_memcpy(scales, &odd, 64);
    __builtin_memcpy(signs, &above, 64);
}
/* 2 in all four bytes of each row in whose number this bit (1 or 2) is set, else 0. */
DEVICE vi two_where(const vi numbers, const uint32_t bit)
{
    const vi one = bit == 1 ? vi_and(numbers, vi_set1(1)) : vi_shr(vi_and(numbers, vi_set1(2)), 1);
    return vi_and(vi_sub(vi_set1(0), one), bytes_set1(2));
}
/* Subtracts 32 from six-bit values in place; the results are signed bytes. */
DEVICE void less_32(int8_t *s, const uint32_t bytes)
{
    UNROLL for (uint32_t k = 0; k < bytes; k += 64) {
        vi v;
        __builtin_memcpy(&v, s + k, 64);
        v = vi_sub(vi_xor(v, bytes_set1(0x80)), bytes_set1(32));     /* six bits + 128 - 32: no borrow between bytes */
        v = vi_xor(v, bytes_set1(0x80));
        __builtin_memcpy(s + k, &v, 64);
    }
}
#endif
