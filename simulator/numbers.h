/* numbers.h -- the number formats of the chips, in C that vectorises: f16, bf16, f32, f64, fp8.
 *
 * Each conversion rounds once, to nearest even unless its name says otherwise, and does not depend on MXCSR's flush bits: no step makes or
 * reads a denormal f32, unless the f32 argument is denormal, and f16 rounds every such argument to zero anyway.  NaN stays NaN and becomes
 * quiet, with the upper bits of its payload (RDNA3 ISA 7.2; x86's F16C does the same).
 *
 * Sums, products, quotients and roots of two f16 may be computed in f32 and then rounded by f32_to_f16: with 24 >= 2 * 11 + 2 bits the
 * second rounding is harmless (Figueroa, "When is double rounding innocuous?", 1995).  This is not true of a fused multiply-add:
 * f16_fma. */
#ifndef GFXSIM_NUMBERS_H
#define GFXSIM_NUMBERS_H
#include <math.h>
#include <stdint.h>

union bits32 { uint32_t u; int32_t i; float f; };
union bits64 { uint64_t u; int64_t i; double f; };

static inline float    bits_f32(uint32_t u) { return (union bits32){ .u = u }.f; }
static inline uint32_t f32_bits(float f)    { return (union bits32){ .f = f }.u; }
static inline double   bits_f64(uint64_t u) { return (union bits64){ .u = u }.f; }
static inline uint64_t f64_bits(double f)   { return (union bits64){ .f = f }.u; }

/* Selection by masks: gcc turns comparisons around floating-point operations, which may trap, into branches, and cannot vectorise them. */
static inline uint32_t choose(uint32_t mask, uint32_t a, uint32_t b) { return (a & ~mask) | (b & mask); }     /* mask 0: a; ~0: b */
static inline uint32_t less(uint32_t a, uint32_t b) { return (uint32_t)((int32_t)(a - b) >> 31); }              /* ~0 or 0; a, b < 2^31 */
static inline uint64_t choose64(uint64_t mask, uint64_t a, uint64_t b) { return (a & ~mask) | (b & mask); }
static inline uint64_t less64(uint64_t a, uint64_t b) { return 0 - ((a - b) >> 63); }                          /* a, b < 2^63 */

/* ---- f16: 1 sign, 5 exponent (bias 15), 10 mantissa ---- */

static inline float f16_to_f32(uint32_t h)           /* low 16 bits */
{
    uint32_t m = (h & 0x7fffu) << 13;
    uint32_t normal = m + (112u << 23);               /* bias 15 to 127 */
    uint32_t small = f32_bits(bits_f32(m + (113u << 23)) - bits_f32(113u << 23));  /* 2^-14 (1 + mantissa) - 2^-14 */
    uint32_t special = (m + (224u << 23)) | (less(0, m & 0x007fffffu) & 0x00400000u);
    uint32_t r = choose(less(m, 1u << 23), normal, small);
    r = choose(less(m, 31u << 23), special, r);
    return bits_f32(r | (h & 0x8000u) << 16);
}

static inline uint32_t f32_to_f16(float f)
{
    uint32_t u = f32_bits(f), x = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
    uint32_t normal = (x - (112u << 23) + 0xfffu + (x >> 13 & 1u)) >> 13;          /* 65520 and more carry into the exponent: infinity */
    uint32_t small = f32_bits(bits_f32(x) + 0.5f) - 0x3f000000u;                   /* the unit of 0.5f's mantissa is 2^-24, as f16's
                                                                                    * least */
    uint32_t special = 0x7c00u | (less(0x7f800000u, x) & (0x200u | (x >> 13 & 0x3ffu)));
    uint32_t r = choose(less(x, 113u << 23), normal, small);
    r = choose(less(x, 143u << 23), special, r);                               /* 65536 and more */
    return r | sign;
}

/* Toward zero; overflow gives the largest f16 (v_cvt_pkrtz_f16_f32). */
static inline uint32_t f32_to_f16_rtz(float f)
{
    uint32_t u = f32_bits(f), x = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
    uint32_t normal = (x - (112u << 23)) >> 13;
    uint32_t shift = 126u - (x >> 23);                                             /* denormal: mantissa with its leading one, in units of
                                                                                    * 2^-24 */
    uint32_t small = ((0x00800000u | (x & 0x007fffffu)) >> (shift & 31u)) & less(shift, 32u);
    uint32_t special = 0x7bffu + less(x, 0x7f800000u) + 1u;
    special |= less(0x7f800000u, x) & (0x200u | (x >> 13 & 0x3ffu));
    uint32_t r = choose(less(x, 113u << 23), normal, small);
    r = choose(less(x, 143u << 23), special, r);
    return r | sign;
}

static inline uint32_t f64_to_f16(double f)
{
    uint64_t u = f64_bits(f), x = u & 0x7fffffffffffffffull;
    uint32_t sign = (uint32_t)(u >> 48) & 0x8000u;
    uint64_t normal = (x - (1008ull << 52) + ((1ull << 41) - 1) + (x >> 42 & 1)) >> 42;
    uint64_t small = f64_bits(bits_f64(x) + 0x1p28) - f64_bits(0x1p28);            /* the unit of 2^28 is 2^-24 */
    uint64_t special = 0x7c00u | (less64(0x7ff0000000000000ull, x) & (0x200u | (x >> 42 & 0x3ffu)));
    uint64_t r = choose64(less64(x, 1009ull << 52), normal, small);
    return (uint32_t)choose64(less64(x, 1039ull << 52), special, r) | sign;
}

/* The f32 sum of a and b rounded to odd: if it is inexact, the neighbour with an odd mantissa.  Rounding this again, to at most 22 bits,
 * equals rounding the exact sum once (Boldo, Melquiond, "Emulation of FMA and correctly rounded sums", 2008).  No part may be denormal. */
static inline float f32_add_odd(float a, float b)
{
    float sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);    /* Knuth's two-sum: error is exact; NaN for infinite
                                                                                    * sums */
    uint32_t s = f32_bits(sum), e = f32_bits(error);
    uint32_t inexact = less(0, e & 0x7fffffffu) & less(e & 0x7fffffffu, 0x7f800000u);
    uint32_t step = 1u | less((s ^ e) >> 31 ^ 1u, 1u);                             /* 1: away from zero; -1: toward it */
    return bits_f32(s + (step & inexact & less(s & 1u, 1u)));
}

/* a * b + c rounded once.  The product is exact in f32 (22 bits, at least 2^-48), so only the sum can be inexact. */
static inline uint32_t f16_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return f32_to_f16(f32_add_odd(f16_to_f32(a) * f16_to_f32(b), f16_to_f32(c)));
}

/* ---- bf16: the upper half of an f32 ---- */

static inline float bf16_to_f32(uint32_t h) { return bits_f32(h << 16); }

static inline uint32_t f32_to_bf16(float f)
{
    uint32_t u = f32_bits(f), r = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    return choose(less(0x7f800000u, u & 0x7fffffffu), r, u >> 16 | 0x40u);
}

/* ---- fp8 of gfx942 (FNUZ: no infinity, no minus zero; 0x80 is NaN; CDNA3 ISA 7.2) ---- */

static inline float fp8_to_f32(uint32_t b)           /* E4M3, bias 8 */
{
    uint32_t e = b >> 3 & 15u, m = b & 7u, sign = (b & 0x80u) << 24;
    uint32_t u = choose(less(e, 1u), (e + 119u) << 23 | m << 20, f32_bits((float)(int32_t)m * 0x1p-10f));
    return bits_f32(choose(less((b & 0xffu) ^ 0x80u, 1u), u | sign, 0x7fc00000u));
}
static inline float bf8_to_f32(uint32_t b)           /* E5M2, bias 16 */
{
    uint32_t e = b >> 2 & 31u, m = b & 3u, sign = (b & 0x80u) << 24;
    uint32_t u = choose(less(e, 1u), (e + 111u) << 23 | m << 21, f32_bits((float)(int32_t)m * 0x1p-17f));
    return bits_f32(choose(less((b & 0xffu) ^ 0x80u, 1u), u | sign, 0x7fc00000u));
}

/* ---- integers: saturating, toward zero, NaN gives 0 (RDNA3 ISA, V_CVT_I32_F32 and similar) ----
 * The operand is first limited to the range in which C defines the conversion. */

static inline uint32_t f32_to_i32(float f)
{
    uint32_t u = f32_bits(f), x = u & 0x7fffffffu, big = ~less(x, 158u << 23), nan = less(0x7f800000u, x);   /* big: 2^31 and more */
    uint32_t r = (uint32_t)(int32_t)bits_f32(choose(big, u, 0));
    return choose(big, r, 0x7fffffffu + (u >> 31)) & ~nan;
}
static inline uint32_t f32_to_u32(float f)
{
    uint32_t u = f32_bits(f), mantissa = 0x00800000u | (u & 0x007fffffu), e = u >> 23;  /* e: 256 and more when negative */
    uint32_t left = mantissa << ((e - 150u) & 31u), right = mantissa >> ((150u - e) & 31u);
    uint32_t r = choose(less(e, 150u), left, right) & ~less(e, 127u) & less(e, 256u);
    return choose(less(158u, e) & less(e, 256u) & ~less(0x7f800000u, u & 0x7fffffffu), r, ~0u) & ~less(0x7f800000u, u & 0x7fffffffu);
}
/* |f| without its fraction; callers use it for |f| < 2^53 only. */
static inline uint64_t f64_integer(double f)
{
    uint64_t u = f64_bits(f), e = u >> 52 & 0x7ffu, mantissa = 1ull << 52 | (u & ((1ull << 52) - 1));
    return (mantissa >> ((1075u - e) & 63u)) & ~less64(e, 1023);
}
static inline uint32_t f64_to_i32(double f)
{
    uint64_t u = f64_bits(f), x = u & 0x7fffffffffffffffull, negative = 0 - (u >> 63), r = (f64_integer(f) ^ negative) - negative;
    return (uint32_t)(choose64(less64(x, 1054ull << 52), 0x7fffffffu + (u >> 63), r) & ~less64(0x7ff0000000000000ull, x));
}
static inline uint32_t f64_to_u32(double f)
{
    uint64_t u = f64_bits(f), x = u & 0x7fffffffffffffffull;
    return (uint32_t)(choose64(less64(x, 1055ull << 52), 0xffffffffu, f64_integer(f)) & ~less64(0x7ff0000000000000ull,
        x) & ((u >> 63) - 1));
}
static inline double u32_to_f64(uint32_t u) { return bits_f64(f64_bits(0x1p52) | u) - 0x1p52; }
#endif
