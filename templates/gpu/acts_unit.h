/* acts_unit.h -- a unit of 64 columns in a lane's registers: its activations, and shared functions by which the weight formats unpack and
 * multiply their weights.
 * Layout of the packed rows: docs/gpu_internals.md. */
#ifndef FORGE_ACTS_UNIT_H
#define FORGE_ACTS_UNIT_H
#include "dialect.h"

/* 64 activations.  One digit: x = d q.  Two: x = d (256 q[1] + q[0]), three: x = d (65536 q[2] + 256 q[1] + q[0]), all int8.
 * d: one scale per block of 32 columns. */
struct acts_unit {
    u32x4 q[3][4];                               /* [digit][columns 16c .. 16c+15], int8 */
    f32x4 scale;                                 /* d0, d1, s0, s1: s_b = d_b * (sum of block b's quantised x) */
    f32x4 sum16;                                 /* [i] = d * (sum of columns 16i .. 16i+15); read by formats with SUMS16 only */
    uint32_t one;                                /* a constant.  0: normal.  1 + c: only column c is not 0; it is 1, in one digit,
                                                  * and q is not read */
};

/* Bytes of a plane, the same in kernels, plan and packer.  U: units of a row.  S: superblocks of 256 columns. */
#define UNITS_OF(cols)  (((cols) + 63) / 64)
#define SUPERS_OF(cols) (((cols) + 255) / 256)
#define PLANE_BYTES(n)  (((n) + 15) / 16 * 16)

/* Pin loaded registers.  On AMD a pin waits for its load: place it directly before the use of the unit, after the loads of the next
 * unit. */
DEVICE void pin16(u32x4 *v)
{
    uint32_t x = v->x, y = v->y, z = v->z, w = v->w;
    PIN(x); PIN(y); PIN(z); PIN(w);
    v->x = x; v->y = y; v->z = z; v->w = w;
}
DEVICE void pin8(u32x2 *v)
{
    uint32_t x = v->x, y = v->y;
    PIN(x); PIN(y);
    v->x = x; v->y = y;
}

/* ---- integer products ---- */
/* sum + the products of 16 codes with piece c of a digit. */
DEVICE int32_t dot16(const u32x4 w, const struct acts_unit *x, const uint32_t digit, const uint32_t c, const int32_t sum)
{
    if (x->one) return (x->one - 1) / 16 == c ? sum + (int32_t)(int8_t)(w[(x->one - 1) / 4 % 4] >> 8 * ((x->one - 1) % 4)) : sum;
    const u32x4 q = x->q[digit][c];
    return dot4(w.w, q.w, dot4(w.z, q.z, dot4(w.y, q.y, dot4(w.x, q.x, sum))));
}
/* Sum over 16 columns (piece c of the unit), or over the 32 columns of block b, of int8 codes times quantised x.
 * |code| <= 128 and |256 q[1] + q[0]| <= 32896, so a sum is below 32 * 128 * 32896 < 2^28. */
DEVICE float dot_piece(const u32x4 w, const struct acts_unit *x, const uint32_t c, const uint32_t digits)
{
    int32_t low = dot16(w, x, 0, c, 0);
    if (digits > 1) low += 256 * dot16(w, x, 1, c, 0);
    return digits > 2 ? (float)low + 65536.0f * (float)dot16(w, x, 2, c, 0) : (float)low;
}
DEVICE float dot_block(const u32x4 w0, const u32x4 w1, const struct acts_unit *x, const uint32_t b, const uint32_t digits)
{
    int32_t low = dot16(w1, x, 0, 2 * b + 1, dot16(w0, x, 0, 2 * b, 0));
    if (digits > 1) low += 256 * dot16(w1, x, 1, 2 * b + 1, dot16(w0, x, 1, 2 * b, 0));
    return digits > 2 ? (float)low + 65536.0f * (float)dot16(w1, x, 2, 2 * b + 1, dot16(w0, x, 2, 2 * b, 0)) : (float)low;
}

/* Converts sums of the matrix unit (mma.h), int32 counted from MMA_BYTES_ZERO, to the results of dot_block() and dot_piece().  An integer
 * added to the bits of 1.5 2^23 is a float itself, and every operation but the last sum is exact. */
DEVICE float sums_value(const uint32_t low, const uint32_t middle, const uint32_t high, const uint32_t digits)
{
    if (digits == 1) return f32_of_bits(low) - 12582912.0f;
    const float two = (256.0f * f32_of_bits(middle) - 257.0f * 12582912.0f) + f32_of_bits(low);
    return digits > 2 ? two + 65536.0f * (f32_of_bits(high) - 12582912.0f) : two;
}

#define QUAD_EXTRA_BYTES 256                      /* stage of gemv_matrix_tmpl.c: gap between the pieces of a row's quad */
/* Word n % 4 of a piece of 16 bytes; and a piece with one word, for functions of whole pieces: the first words of their results belong to
 * it. */
DEVICE uint32_t word_at(const u32x4 v, uint32_t n) { return n & 2u ? (n & 1u ? v.w : v.z) : (n & 1u ? v.y : v.x); }
DEVICE u32x4 word_of_piece(const uint32_t w) { const u32x4 piece = { w, 0, 0, 0 }; return piece; }

/* ---- codes: 16 of them, one per byte ---- */
/* A plane of nibbles: byte j of a block's 16 has column j low, column 16 + j high.  _up: in the top four bits, which makes codes signed. */
DEVICE u32x4 low_nibbles(const u32x4 q)     { return q & 0x0f0f0f0fu; }
DEVICE u32x4 high_nibbles(const u32x4 q)    { return q >> 4u & 0x0f0f0f0fu; }
DEVICE u32x4 low_nibbles_up(const u32x4 q)  { return q << 4u & 0xf0f0f0f0u; }
DEVICE u32x4 high_nibbles_up(const u32x4 q) { return q & 0xf0f0f0f0u; }
/* A plane of bit pairs: bits 2c, 2c+1 of byte j have column 16c + j.  The result has them at bit `to`. */
DEVICE u32x4 bit_pairs(const u32x4 p, const uint32_t c, const uint32_t to)
{
    return (2 * c < to ? p << (to - 2 * c) : p >> (2 * c - to)) & 0x03030303u << to;
}
/* A word of single bits for a block: bit s of byte j has column 4s + j.  half: the block's first or second 16 columns. */
DEVICE uint32_t single_bit(const uint32_t bits, const uint32_t s, const uint32_t to)
{
    return (s < to ? bits << (to - s) : bits >> (s - to)) & 0x01010101u << to;
}
DEVICE u32x4 single_bits(const uint32_t bits, const uint32_t half, const uint32_t to)
{
    const uint32_t s = 4 * half;
    const u32x4 all = { single_bit(bits, s, to), single_bit(bits, s + 1, to), single_bit(bits, s + 2, to), single_bit(bits, s + 3, to) };
    return all;
}
/* A block of nibbles that index a table: word i has columns 4i .. 4i+3 in its lower half, 16 + 4i .. in its upper. */
DEVICE void table_codes(u32x4 c[2], const u32x4 q, const u32x4 table)
{
    uint32_t low[4], high[4];
    table16(&low[0], &high[0], q.x, table);
    table16(&low[1], &high[1], q.y, table);
    table16(&low[2], &high[2], q.z, table);
    table16(&low[3], &high[3], q.w, table);
    const u32x4 l = { low[0], low[1], low[2], low[3] }, h = { high[0], high[1], high[2], high[3] };
    c[0] = l;
    c[1] = h;
}
/* Columns 16c .. 16c+15 of a format in which a pair of bits, with a single bit above it, indexes a table of 8. */
DEVICE u32x4 table8_codes(const u32x4 pairs, const u32x2 bits, const uint32_t c, const uint32_t low, const uint32_t high)
{
    const u32x4 at = bit_pairs(pairs, c, 0) | single_bits(c < 2 ? bits.x : bits.y, c % 2, 2);
    const u32x4 codes = { table8(low, high, at.x), table8(low, high, at.y), table8(low, high, at.z), table8(low, high, at.w) };
    return codes;
}
/* The 24 bits of a unit in its superblock's 16 bytes (they begin at byte 4, units of 3 bytes); the top byte of the result is undefined. */
DEVICE uint32_t super_bits(const u32x4 head, const uint32_t unit)
{
    const uint32_t at = unit & 3u;
    return byte_align(at < 2 ? head.y : head.z, at < 2 ? head.z : head.w, 0x5230u >> 4 * at & 7u);
}
/* As floats: the six bits from bit `at`; byte i, unsigned; byte i, signed. */
DEVICE float six_bits_f32(const uint32_t bits, const uint32_t at) { return (float)(int32_t)(bits >> at & 63u); }
DEVICE float byte_f32(const uint32_t bytes, const uint32_t i)     { return (float)(bytes >> 8 * i & 255u); }
DEVICE float int8_f32(const uint32_t bytes, const uint32_t i)     { return (float)(int32_t)(int8_t)(bytes >> 8 * i); }

/* ---- codes to f16 ---- */
DEVICE f16x2 f16x2_of_bits(const uint32_t u) { f16x2 h; __builtin_memcpy(&h, &u, 4); return h; }
DEVICE uint32_t bits_of_f16x2(const f16x2 h) { uint32_t u; __builtin_memcpy(&u, &h, 4); return u; }
/* Both halves are the low (0) or high (1) half of u. */
DEVICE f16x2 both_f16(const uint32_t u, const uint32_t half) { return f16x2_of_bits(byte_perm(u, u, half ? 0x03020302u : 0x01000100u)); }
DEVICE f16x2 splat_f16(const float x) { const f16 h = (f16)x; const f16x2 both = { h, h }; return both; }
/* Bytes 2 pair and 2 pair + 1 of u as 1024 + byte: 0x6400 is 1024 and its last bit is 1. */
DEVICE f16x2 bytes_f16(const uint32_t u, const uint32_t pair)
{
    return f16x2_of_bits(byte_perm(u, 0x64646464u, pair ? 0x04030402u : 0x04010400u));
}

/* Unsigned bytes to f16: h = code scale [+ add], rounded once, where code = (byte - offset) unit is exact; unit: a power of two.
 * A scale that is itself a product, d sc, is passed as f16(256 d sc) with a unit of 2^-8, so that small ones keep their bits.  It is finite
 * while |d sc| < 255, and h is within 2^-10 (|code d sc| + |add|) of the weight, or 2^-24 below f16's normal range. */
DEVICE void decode4(uint32_t h[2], const uint32_t bytes, const float offset, const float unit, const f16x2 scale)
{
    const f16x2 by = splat_f16(unit), less = splat_f16(-(1024.0f + offset) * unit);
    h[0] = bits_of_f16x2(__builtin_elementwise_fma(bytes_f16(bytes, 0), by, less) * scale);
    h[1] = bits_of_f16x2(__builtin_elementwise_fma(bytes_f16(bytes, 1), by, less) * scale);
}
DEVICE void decode4_add(uint32_t h[2], const uint32_t bytes, const float unit, const f16x2 scale, const f16x2 add)
{
    const f16x2 by = splat_f16(unit), less = splat_f16(-1024.0f * unit);
    h[0] = bits_of_f16x2(__builtin_elementwise_fma(__builtin_elementwise_fma(bytes_f16(bytes, 0), by, less), scale, add));
    h[1] = bits_of_f16x2(__builtin_elementwise_fma(__builtin_elementwise_fma(bytes_f16(bytes, 1), by, less), scale, add));
}
DEVICE void decode16(uint32_t h[8], const u32x4 bytes, const float offset, const float unit, const f16x2 scale)
{
    decode4(h,     bytes.x, offset, unit, scale);
    decode4(h + 2, bytes.y, offset, unit, scale);
    decode4(h + 4, bytes.z, offset, unit, scale);
    decode4(h + 6, bytes.w, offset, unit, scale);
}
DEVICE void decode16_add(uint32_t h[8], const u32x4 bytes, const float unit, const f16x2 scale, const f16x2 add)
{
    decode4_add(h,     bytes.x, unit, scale, add);
    decode4_add(h + 2, bytes.y, unit, scale, add);
    decode4_add(h + 4, bytes.z, unit, scale, add);
    decode4_add(h + 6, bytes.w, unit, scale, add);
}
#endif
