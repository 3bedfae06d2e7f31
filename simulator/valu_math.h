/* valu_math.h -- computations of one lane of a vector instruction that are more than an expression; used by valu.def.
 *
 * min and max treat MODE.IEEE as set, as in compute kernels (LLVM AMDGPUUsage, ENABLE_IEEE_MODE defaults to 1): a signalling NaN gives a
 * quiet NaN, a quiet NaN and a number give the number, -0 is less than +0 (RDNA3 ISA 16.7, V_MIN_F32; CDNA3 ISA 12.7). */
#ifndef GFXSIM_VALU_MATH_H
#define GFXSIM_VALU_MATH_H
#include "numbers.h"

/* ---- integers ---- */
static inline uint32_t mask_if(int condition) { return 0u - (uint32_t)(condition != 0); }
static inline uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint32_t max_u32(uint32_t a, uint32_t b) { return a < b ? b : a; }
static inline int32_t  min_i32(int32_t a, int32_t b)   { return a < b ? a : b; }
static inline int32_t  max_i32(int32_t a, int32_t b)   { return a < b ? b : a; }
static inline uint32_t low24(uint32_t a)    { return a & 0xffffffu; }
static inline int32_t  signed24(uint32_t a) { return (int32_t)(a << 8) >> 8; }

static inline int32_t  saturate_i32(int64_t x)  { return (int32_t)(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x); }
static inline uint32_t saturate_u32(uint64_t x) { return (uint32_t)(x > UINT32_MAX ? UINT32_MAX : x); }
static inline uint32_t saturate_u16(int32_t x)  { return (uint32_t)(x < 0 ? 0 : x > 0xffff ? 0xffff : x); }
static inline int32_t  saturate_i16(int32_t x)  { return x < INT16_MIN ? INT16_MIN : x > INT16_MAX ? INT16_MAX : x; }

static inline uint32_t ones(uint32_t x)              /* by halves: this vectorises, popcnt does not */
{
    x -= x >> 1 & 0x55555555u;
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    return ((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}
/* The lanes below lane l among lanes first .. first + 31. */
static inline uint32_t lanes_below(uint32_t l, uint32_t first)
{
    return l <= first ? 0 : l - first >= 32 ? ~0u : (1u << (l - first)) - 1;
}
static inline uint32_t reverse_bits(uint32_t x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
static inline uint32_t leading_zeros(uint32_t x)  { return x == 0 ? ~0u : (uint32_t)__builtin_clz(x); }
static inline uint32_t trailing_zeros(uint32_t x) { return x == 0 ? ~0u : (uint32_t)__builtin_ctz(x); }
/* The number of leading bits equal to the sign; -1 if all are. */
static inline uint32_t sign_bits(int32_t x)       { return leading_zeros((uint32_t)(x ^ x >> 31)); }

static inline int32_t bit_field(int32_t x, uint32_t first, uint32_t width)
{
    const uint32_t up = 32 - width;
    return width == 0 ? 0 : (int32_t)((uint32_t)(x >> first) << up) >> (up & 31);
}
/* Sum of |a - b| over fields; masked: only where b's field is not 0. */
static inline uint32_t differences(uint32_t a, uint32_t b, uint32_t width, int masked)
{
    const uint32_t field = (1u << width) - 1;
    uint32_t sum = 0;
    for (uint32_t at = 0; at < 32; at += width) {
        const uint32_t x = a >> at & field, y = b >> at & field;
        sum += masked && y == 0 ? 0 : x > y ? x - y : y - x;
    }
    return sum;
}

/* ---- dot products of the fields of two words; a flag says whether fields are signed ---- */
static inline int64_t dot_fields(uint32_t a, uint32_t b, uint32_t width, int a_signed, int b_signed)
{
    const uint32_t up = 32 - width;
    int64_t sum = 0;
    for (uint32_t at = 0; at < 32; at += width) {
        const uint32_t x = a << (up - at), y = b << (up - at);
        const int64_t  p = a_signed ? (int32_t)x >> up : (int64_t)(x >> up), q = b_signed ? (int32_t)y >> up : (int64_t)(y >> up);
        sum += p * q;
    }
    return sum;
}
static inline int64_t  dot_signed(uint32_t a, uint32_t b, uint32_t width)   { return dot_fields(a, b, width, 1, 1); }
static inline uint64_t dot_unsigned(uint32_t a, uint32_t b, uint32_t width) { return (uint64_t)dot_fields(a, b, width, 0, 0); }

/* The ISA's order: adds the low product to c, then the high one; each product is exact in f32 (RDNA3 ISA 16.10, V_DOT2_F32_F16). */
static inline float dot2_f16(uint32_t a, uint32_t b, float c)
{
    const float low = f16_to_f32(a) * f16_to_f32(b), high = f16_to_f32(a >> 16) * f16_to_f32(b >> 16);
    return (c + low) + high;
}
static inline float dot2_bf16(uint32_t a, uint32_t b, float c)
{
    const float low = bf16_to_f32(a) * bf16_to_f32(b), high = bf16_to_f32(a >> 16) * bf16_to_f32(b >> 16);
    return (c + low) + high;
}

/* ---- minimum, maximum, median: on the bits, whose order as sign-magnitude integers is that of the numbers, with -0 before +0 ---- */
static inline uint32_t least_f32(uint32_t a, uint32_t b, uint32_t greatest)
{
    const int32_t  p = (int32_t)(a ^ ((uint32_t)((int32_t)a >> 31) >> 1)), q = (int32_t)(b ^ ((uint32_t)((int32_t)b >> 31) >> 1));
    const uint32_t a_nan = mask_if((a & 0x7fffffffu) > 0x7f800000u), b_nan = mask_if((b & 0x7fffffffu) > 0x7f800000u), quiet = 0x00400000u;
    uint32_t r = choose(mask_if(p < q) ^ greatest, b, a);
    r = choose(a_nan, r, b);
    r = choose(b_nan, r, a);
    r = choose(b_nan & mask_if((b & quiet) == 0), r, b | quiet);
    return choose(a_nan & mask_if((a & quiet) == 0), r, a | quiet);
}
static inline uint32_t least_f16(uint32_t a, uint32_t b, uint32_t greatest)
{
    const int32_t  p = a & 0x8000u ? (int32_t)(a ^ 0xffff7fffu) : (int32_t)a, q = b & 0x8000u ? (int32_t)(b ^ 0xffff7fffu) : (int32_t)b;
    const uint32_t a_nan = mask_if((a & 0x7fffu) > 0x7c00u), b_nan = mask_if((b & 0x7fffu) > 0x7c00u), quiet = 0x0200u;
    uint32_t r = choose(mask_if(p < q) ^ greatest, b, a);
    r = choose(a_nan, r, b);
    r = choose(b_nan, r, a);
    r = choose(b_nan & mask_if((b & quiet) == 0), r, b | quiet);
    return choose(a_nan & mask_if((a & quiet) == 0), r, a | quiet);
}
static inline uint64_t least_f64(uint64_t a, uint64_t b, uint64_t greatest)
{
    const int64_t  p = (int64_t)(a ^ ((uint64_t)((int64_t)a >> 63) >> 1)), q = (int64_t)(b ^ ((uint64_t)((int64_t)b >> 63) >> 1));
    const uint64_t magnitude = ~0ull >> 1, infinity = 0x7ffull << 52, quiet = 1ull << 51;
    uint64_t r = ((p < q ? ~0ull : 0) ^ greatest) != 0 ? a : b;
    if ((a & magnitude) > infinity) r = b;
    if ((b & magnitude) > infinity) r = a;
    if ((b & magnitude) > infinity && (b & quiet) == 0) r = b | quiet;
    if ((a & magnitude) > infinity && (a & quiet) == 0) r = a | quiet;
    return r;
}
static inline float    min_f32(float a, float b)       { return bits_f32(least_f32(f32_bits(a), f32_bits(b), 0)); }
static inline float    max_f32(float a, float b)       { return bits_f32(least_f32(f32_bits(a), f32_bits(b), ~0u)); }
static inline uint32_t min_f16(uint32_t a, uint32_t b) { return least_f16(a & 0xffffu, b & 0xffffu, 0); }
static inline uint32_t max_f16(uint32_t a, uint32_t b) { return least_f16(a & 0xffffu, b & 0xffffu, ~0u); }
static inline double   min_f64(double a, double b)     { return bits_f64(least_f64(f64_bits(a), f64_bits(b), 0)); }
static inline double   max_f64(double a, double b)     { return bits_f64(least_f64(f64_bits(a), f64_bits(b), ~0ull)); }

/* With a NaN the smallest of the three; otherwise the larger of the two that remain without the largest (RDNA3 ISA 16.12, V_MED3_F32). */
static inline float med3_f32(float a, float b, float c)
{
    const uint32_t x = f32_bits(a), y = f32_bits(b), z = f32_bits(c), greatest = least_f32(least_f32(x, y, ~0u), z, ~0u);
    const float    g = bits_f32(greatest);
    const uint32_t nan = mask_if(a != a) | mask_if(b != b) | mask_if(c != c);
    uint32_t r = choose(mask_if(g == b), least_f32(x, y, ~0u), least_f32(x, z, ~0u));
    r = choose(mask_if(g == a), r, least_f32(y, z, ~0u));
    return bits_f32(choose(nan, r, least_f32(least_f32(x, y, 0), z, 0)));
}
static inline uint32_t med3_f16(uint32_t a, uint32_t b, uint32_t c)
{
    const float    x = f16_to_f32(a), y = f16_to_f32(b), z = f16_to_f32(c), g = f16_to_f32(max_f16(max_f16(a, b), c));
    const uint32_t nan = mask_if(x != x) | mask_if(y != y) | mask_if(z != z);
    uint32_t r = choose(mask_if(g == y), max_f16(a, b), max_f16(a, c));
    r = choose(mask_if(g == x), r, max_f16(b, c));
    return choose(nan, r, min_f16(min_f16(a, b), c));
}

/* ---- parts of numbers ---- */
static inline float ldexp_f32(float x, int32_t n)    /* exact in f64, then rounded once */
{
    n = n < -400 ? -400 : n > 400 ? 400 : n;
    return (float)((double)x * bits_f64((uint64_t)(n + 1023) << 52));
}
static inline double ldexp_f64(double x, int32_t n)
{
    const int32_t e = (int32_t)(f64_bits(x) >> 52 & 0x7ff), sum = n < -4096 || n > 4096 ? 0 : e + n;
    if (e != 0 && e != 0x7ff && sum > 0 && sum < 0x7ff) return bits_f64(f64_bits(x) + ((uint64_t)(int64_t)n << 52));
    return ldexp(x, n);
}
static inline double frexp_mantissa(double x) { int n; return isinf(x) || isnan(x) ? x : frexp(x, &n); }
static inline int32_t frexp_exponent(double x) { int n = 0; return isinf(x) || isnan(x) || x == 0 ? 0 : (frexp(x, &n), n); }

/* ---- division (CDNA3 ISA 12.10, V_DIV_SCALE, V_DIV_FMAS, V_DIV_FIXUP) ----
 * LLVM uses these for division, rounded correctly over the whole range.  A literal reading of the pseudocode would not give this; where it
 * would not, this code follows the division (in doubt: not confirmed on a chip):
 *   v_div_scale  returns the source if nothing must be scaled; if the inverse and the quotient are both denormal, it makes the denominator
 *                smaller, like the neighbouring case, not infinite;
 *   v_div_fmas   undoes the scaling, by 2^64 or 2^128, not 2^32 or 2^64, in the direction of the quotient, and rounds once;
 *   v_div_fixup  replaces a NaN, left by the refinement of an overflowing quotient, by infinity. */
static inline uint32_t exponent_f32(float x)  { return f32_bits(x) >> 23 & 0xffu; }
static inline uint32_t exponent_f64(double x) { return (uint32_t)(f64_bits(x) >> 52) & 0x7ffu; }

/* x: the denominator or numerator: the operand to scale now.  Returns the lane's flag. */
static inline uint32_t div_scale_f64(double *out, double x, double denominator, double numerator)
{
    const int32_t e = (int32_t)exponent_f64(numerator), apart = e - (int32_t)exponent_f64(denominator);
    *out = x;                                        /* the common case: no scaling */
    if (exponent_f64(denominator) - 1 < 2044 && e > 53 && e < 2047 && apart > -1021 && apart < 768) return 0;
    const double inverse = fabs(1.0 / denominator), quotient = fabs(numerator / denominator), least = 0x1p-1022;
    const int    tiny_inverse = inverse > 0 && inverse < least, tiny_quotient = quotient > 0 && quotient < least;
    if (numerator == 0 || denominator == 0) { *out = NAN; return 0; }
    if (apart >= 768) { if (x == denominator) *out = ldexp_f64(x, 128); return 1; }
    if (exponent_f64(denominator) == 0) { *out = ldexp_f64(x, 128); return 0; }
    if (tiny_inverse && tiny_quotient) { if (x == denominator) *out = ldexp_f64(x, -128); return 1; }
    if (tiny_inverse) { *out = ldexp_f64(x, -128); return 0; }
    if (tiny_quotient) { if (x == numerator) *out = ldexp_f64(x, 128); return 1; }
    if (e <= 53) *out = ldexp_f64(x, 128);
    return 0;
}
static inline uint32_t div_scale_f32(float *out, float x, float denominator, float numerator)
{
    const int32_t e = (int32_t)exponent_f32(numerator), apart = e - (int32_t)exponent_f32(denominator);
    *out = x;
    if (exponent_f32(denominator) - 1 < 252 && e > 23 && e < 255 && apart > -125 && apart < 96) return 0;
    const double inverse = fabs(1.0 / denominator), quotient = fabs((double)numerator / denominator), least = 0x1p-126;
    const int    tiny_inverse = inverse > 0 && inverse < least, tiny_quotient = quotient > 0 && quotient < least;
    if (numerator == 0 || denominator == 0) { *out = NAN; return 0; }
    if (apart >= 96) { if (x == denominator) *out = ldexp_f32(x, 64); return 1; }
    if (exponent_f32(denominator) == 0) { *out = ldexp_f32(x, 64); return 0; }
    if (tiny_inverse && tiny_quotient) { if (x == denominator) *out = ldexp_f32(x, -64); return 1; }
    if (tiny_inverse) { *out = ldexp_f32(x, -64); return 0; }
    if (tiny_quotient) { if (x == numerator) *out = ldexp_f32(x, 64); return 1; }
    if (e <= 23) *out = ldexp_f32(x, 64);
    return 0;
}
static inline float div_fmas_f32(float a, float b, float c, uint32_t scaled)
{
    const double factor = exponent_f32(c) > 127 ? 0x1p64 : 0x1p-64;
    return !scaled ? fmaf(a, b, c) : (float)(((__float128)a * b + c) * factor);
}
static inline double div_fmas_f64(double a, double b, double c, uint32_t scaled)
{
    const double factor = exponent_f64(c) > 1023 ? 0x1p128 : 0x1p-128;
    return !scaled ? fma(a, b, c) : (double)(((__float128)a * b + c) * factor);
}
static inline double div_fixup_f64(double quotient, double denominator, double numerator)
{
    const int32_t apart = (int32_t)(exponent_f64(numerator) - exponent_f64(denominator));
    const int     negative = !signbit(denominator) != !signbit(numerator);
    double        r;
    if (exponent_f64(numerator) - 1 < 2046 && exponent_f64(denominator) - 1 < 2046 && apart >= -1075 && !isnan(quotient))
        return negative ? -fabs(quotient) : fabs(quotient);
    if (isnan(numerator)) return bits_f64(f64_bits(numerator) | 1ull << 51);
    if (isnan(denominator)) return bits_f64(f64_bits(denominator) | 1ull << 51);
    if ((denominator == 0 && numerator == 0) || (isinf(denominator) && isinf(numerator))) return bits_f64(0xfff8ull << 48);
    if (denominator == 0 || isinf(numerator)) r = INFINITY;
    else if (isinf(denominator) || numerator == 0 || apart < -1075) r = 0;
    else r = isnan(quotient) ? INFINITY : fabs(quotient);
    return negative ? -r : r;
}
static inline float div_fixup_f32(float quotient, float denominator, float numerator)
{
    const int32_t apart = (int32_t)(exponent_f32(numerator) - exponent_f32(denominator));
    const int     negative = !signbit(denominator) != !signbit(numerator);
    float         r;
    if (isnan(numerator)) return bits_f32(f32_bits(numerator) | 0x00400000u);
    if (isnan(denominator)) return bits_f32(f32_bits(denominator) | 0x00400000u);
    if ((denominator == 0 && numerator == 0) || (isinf(denominator) && isinf(numerator))) return bits_f32(0xffc00000u);
    if (denominator == 0 || isinf(numerator)) r = INFINITY;
    else if (isinf(denominator) || numerator == 0 || apart < -150) r = 0;
    else r = isnan(quotient) ? INFINITY : fabsf(quotient);
    return negative ? -r : r;
}
static inline uint32_t div_fixup_f16(uint32_t quotient, uint32_t denominator, uint32_t numerator)
{
    const uint32_t sign = (denominator ^ numerator) & 0x8000u, d = denominator & 0x7fffu, n = numerator & 0x7fffu, infinity = 0x7c00u;
    if (n > infinity) return numerator | 0x0200u;
    if (d > infinity) return denominator | 0x0200u;
    if ((d == 0 && n == 0) || (d == infinity && n == infinity)) return 0xfe00u;
    if (d == 0 || n == infinity) return sign | infinity;
    if (d == infinity || n == 0) return sign;
    return sign | (quotient & 0x7fffu);
}
#endif
