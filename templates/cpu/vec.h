/* vec.h -- vectors of sixteen floats or sixteen 32-bit integers, the unit of all CPU kernels.
 * A vector is one 512-bit, two 256-bit or four 128-bit registers, or (FORGE_SIMD_C) an array that any C11 compiler accepts. */
#ifndef FORGE_VEC_H
#define FORGE_VEC_H
#include <stdint.h>

/* The emitter names the instruction set; a template that is compiled alone uses the best one that the compiler's options enable. */
#if !defined(FORGE_SIMD_C) && !defined(FORGE_SIMD_AVX2) && !defined(FORGE_SIMD_AVX512) && !defined(FORGE_SIMD_NEON) && \
    !defined(FORGE_SIMD_WASM)
#if !defined(__clang__)
#define FORGE_SIMD_C
#elif defined(__AVX512VNNI__)
#define FORGE_SIMD_AVX512
#elif defined(__AVX2__)
#define FORGE_SIMD_AVX2
#elif defined(__ARM_FEATURE_DOTPROD)
#define FORGE_SIMD_NEON
#elif defined(__wasm_simd128__)
#define FORGE_SIMD_WASM
#else
#define FORGE_SIMD_C
#endif
#endif

#define DEVICE static inline __attribute__((always_inline, unused))
#define PASTE2_(a, b) a##_##b
#define PASTE2(a, b)  PASTE2_(a, b)
/* Loops over register tiles must be unrolled fully, otherwise the tile is kept in memory. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
enum { VEC = 16 };

DEVICE float f32_from_f16_bits(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 0x3ffu;
    uint32_t bits;
    if (exponent == 31) bits = sign | 0x7f800000u | mantissa << 13;
    else if (exponent)  bits = sign | (exponent + 112) << 23 | mantissa << 13;
    else {                                       /* subnormal: mantissa * 2^-24, exact */
        float value = (float)mantissa * 0x1p-24f;
        return sign ? -value : value;
    }
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
}

/* Rounds to nearest even; overflow gives infinity, NaN stays NaN. */
DEVICE uint16_t f16_bits_from_f32(float value)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &value, 4);
    const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)  return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {               /* result is subnormal or zero: let the float adder round at 2^-24 */
        float m, half = 0.5f;
        __builtin_memcpy(&m, &magnitude, 4);
        m += half;
        uint32_t r;
        __builtin_memcpy(&r, &m, 4);
        return (uint16_t)(sign | (r - 0x3f000000u));
    }
    const uint32_t odd = (magnitude >> 13) & 1u;
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

DEVICE float f32_from_bf16_bits(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
}

#ifdef FORGE_SIMD_C
/* ---- portable: arrays and loops; compilers vectorise them where they can ---- */
typedef struct { float   v[16]; } vf;
typedef struct { int32_t v[16]; } vi;
#define VEC_LOOP for (uint32_t i = 0; i < 16; i++)
DEVICE vf vf_load(const float *p)              { vf r; __builtin_memcpy(&r, p, 64); return r; }
DEVICE void vf_store(float *p, vf x)           { __builtin_memcpy(p, &x, 64); }
DEVICE vf vf_set1(float x)                     { vf r; VEC_LOOP r.v[i] = x; return r; }
DEVICE vf vf_add(vf a, vf b)                   { VEC_LOOP a.v[i] += b.v[i]; return a; }
DEVICE vf vf_sub(vf a, vf b)                   { VEC_LOOP a.v[i] -= b.v[i]; return a; }
DEVICE vf vf_mul(vf a, vf b)                   { VEC_LOOP a.v[i] *= b.v[i]; return a; }
DEVICE vf vf_div(vf a, vf b)                   { VEC_LOOP a.v[i] /= b.v[i]; return a; }
DEVICE vf vf_fma(vf a, vf b, vf c)             { VEC_LOOP c.v[i] += a.v[i] * b.v[i]; return c; }   /* a * b + c */
DEVICE vf vf_max(vf a, vf b)                   { VEC_LOOP a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i]; return a; }
DEVICE vf vf_min(vf a, vf b)                   { VEC_LOOP a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i]; return a; }
DEVICE vf vf_abs(vf a)                         { VEC_LOOP a.v[i] = a.v[i] < 0 ? -a.v[i] : a.v[i]; return a; }
DEVICE vf vf_load_f16(const void *p)
{
    uint16_t h[16];
    vf r;
    __builtin_memcpy(h, p, 32);
    VEC_LOOP r.v[i] = f32_from_f16_bits(h[i]);
    return r;
}
DEVICE void vf_store_f16(void *p, vf x)        { uint16_t h[16]; VEC_LOOP h[i] = f16_bits_from_f32(x.v[i]); __builtin_memcpy(p, h, 32); }
DEVICE vf vf_load_bf16(const void *p)
{
    uint16_t h[16];
    vf r;
    __builtin_memcpy(h, p, 32);
    VEC_LOOP r.v[i] = f32_from_bf16_bits(h[i]);
    return r;
}
DEVICE vf vf_from_vi(vi a)                     { vf r; VEC_LOOP r.v[i] = (float)a.v[i]; return r; }
/* To the nearest integer, ties to even; |x| < 2^22. */
DEVICE vi vi_from_vf(vf a)
{
    vi r;
    VEC_LOOP { float t = a.v[i] + 0x1.8p23f; __builtin_memcpy(&r.v[i], &t, 4); r.v[i] -= 0x4b400000; }
    return r;
}
DEVICE vf vf_bits(vi a)                        { vf r; __builtin_memcpy(&r, &a, 64); return r; }
DEVICE vi vi_load(const int32_t *p)            { vi r; __builtin_memcpy(&r, p, 64); return r; }
DEVICE void vi_store(int32_t *p, vi x)         { __builtin_memcpy(p, &x, 64); }
DEVICE vi vi_set1(int32_t x)                   { vi r; VEC_LOOP r.v[i] = x; return r; }
DEVICE vi vi_add(vi a, vi b)                   { VEC_LOOP a.v[i] = (int32_t)((uint32_t)a.v[i] + (uint32_t)b.v[i]); return a; }
DEVICE vi vi_sub(vi a, vi b)                   { VEC_LOOP a.v[i] = (int32_t)((uint32_t)a.v[i] - (uint32_t)b.v[i]); return a; }
DEVICE vi vi_mul(vi a, vi b)                   { VEC_LOOP a.v[i] = (int32_t)((uint32_t)a.v[i] * (uint32_t)b.v[i]); return a; }
DEVICE vi vi_and(vi a, vi b)                   { VEC_LOOP a.v[i] &= b.v[i]; return a; }
DEVICE vi vi_or(vi a, vi b)                    { VEC_LOOP a.v[i] |= b.v[i]; return a; }
DEVICE vi vi_shl(vi a, uint32_t n)             { VEC_LOOP a.v[i] = (int32_t)((uint32_t)a.v[i] << n); return a; }
DEVICE vi vi_shr(vi a, uint32_t n)             { VEC_LOOP a.v[i] = (int32_t)((uint32_t)a.v[i] >> n); return a; }   /* logical */
DEVICE vi vi_sar(vi a, uint32_t n)             { VEC_LOOP a.v[i] >>= n; return a; }                                  /* arithmetic */
DEVICE vi vi_xor(vi a, vi b)                   { VEC_LOOP a.v[i] ^= b.v[i]; return a; }
DEVICE vi vi_less(vi a, vi b)                  { VEC_LOOP a.v[i] = -(a.v[i] < b.v[i]); return a; }               /* all ones or all zeros */
DEVICE vi vi_load_u8(const uint8_t *p)         { vi r; VEC_LOOP r.v[i] = p[i]; return r; }
DEVICE vi vi_load_i8(const int8_t *p)          { vi r; VEC_LOOP r.v[i] = p[i]; return r; }
DEVICE vi vi_load_u16(const void *p)           { uint16_t h[16]; vi r; __builtin_memcpy(h, p, 32); VEC_LOOP r.v[i] = h[i]; return r; }
DEVICE void vi_store_u16(void *p, vi x)        { uint16_t h[16]; VEC_LOOP h[i] = (uint16_t)x.v[i]; __builtin_memcpy(p, h, 32); }
DEVICE vi vi_load_i16(const void *p)           { int16_t h[16]; vi r; __builtin_memcpy(h, p, 32); VEC_LOOP r.v[i] = h[i]; return r; }
DEVICE void vi_store_i8(int8_t *p, vi x)       { VEC_LOOP p[i] = (int8_t)x.v[i]; }      /* truncates */
DEVICE float vf_sum(vf a)                      { float s[8]; for (uint32_t i = 0; i < 8; i++) s[i] = a.v[i] + a.v[i + 8];
                                                 for (uint32_t n = 4; n; n /= 2) for (uint32_t i = 0; i < n; i++) s[i] += s[i + n];
                                                 return s[0]; }
DEVICE float vf_hmax(vf a)                     { float m = a.v[0]; VEC_LOOP m = a.v[i] > m ? a.v[i] : m; return m; }
DEVICE int32_t vi_sum(vi a)                    { int32_t s = 0; VEC_LOOP s += a.v[i]; return s; }
DEVICE float vf_get(vf a, uint32_t i)          { return a.v[i]; }
/* Lane i < n ? a : b */
DEVICE vf vf_first(vf a, vf b, uint32_t n)     { VEC_LOOP a.v[i] = i < n ? a.v[i] : b.v[i]; return a; }
#undef VEC_LOOP
#else
/* ---- compiler vectors: clang splits them into the target's registers ---- */
typedef float    vf __attribute__((vector_size(64)));
typedef int32_t  vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));
typedef float    vf_unaligned __attribute__((vector_size(64), aligned(1), may_alias));
typedef int32_t  vi_unaligned __attribute__((vector_size(64), aligned(1), may_alias));
typedef uint16_t vec_u16 __attribute__((vector_size(32)));
typedef int16_t  vec_i16 __attribute__((vector_size(32)));
typedef uint8_t  vec_u8  __attribute__((vector_size(16)));
typedef int8_t   vec_i8  __attribute__((vector_size(16)));
typedef uint16_t vec_u16_unaligned __attribute__((vector_size(32), aligned(1), may_alias));
typedef int16_t  vec_i16_unaligned __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint8_t  vec_u8_unaligned  __attribute__((vector_size(16), aligned(1), may_alias));
typedef int8_t   vec_i8_unaligned  __attribute__((vector_size(16), aligned(1), may_alias));
DEVICE vf vf_load(const float *p)              { return *(const vf_unaligned *)p; }
DEVICE void vf_store(float *p, vf x)           { *(vf_unaligned *)p = x; }
DEVICE vf vf_set1(float x)                     { return (vf){ x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x }; }
DEVICE vf vf_add(vf a, vf b)                   { return a + b; }
DEVICE vf vf_sub(vf a, vf b)                   { return a - b; }
DEVICE vf vf_mul(vf a, vf b)                   { return a * b; }
DEVICE vf vf_div(vf a, vf b)                   { return a / b; }
#ifdef FORGE_SIMD_WASM                           /* without relaxed SIMD there is no FMA: fmaf would be called per lane */
DEVICE vf vf_fma(vf a, vf b, vf c)             { return a * b + c; }
#else
DEVICE vf vf_fma(vf a, vf b, vf c)             { return __builtin_elementwise_fma(a, b, c); }      /* a * b + c */
#endif
DEVICE vf vf_select(vi mask, vf a, vf b)       { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }  /* mask: all ones or all zeros */
DEVICE vf vf_max(vf a, vf b)                   { return vf_select(a > b, a, b); }
DEVICE vf vf_min(vf a, vf b)                   { return vf_select(a < b, a, b); }
DEVICE vf vf_abs(vf a)                         { return __builtin_elementwise_abs(a); }
#ifdef FORGE_SIMD_WASM
/* f32_from_f16_bits and f16_bits_from_f32 for all lanes; WebAssembly has no instruction for either. */
DEVICE vf vf_from_f16_bits(vi h)
{
    const vi low = (h & 0x7fff) << 13, exponent = low & 0x0f800000;
    const vi normal = low + 0x38000000, endless = normal + 0x38000000;
    const vf tiny = (vf)(normal + 0x00800000) - 0x1p-14f;                /* subnormal: the adder makes it normal */
    const vf value = vf_select(exponent == 0, tiny, (vf)((endless & (exponent == 0x0f800000)) | (normal & (exponent != 0x0f800000))));
    return (vf)((vi)value | (h & 0x8000) << 16);
}
DEVICE vi vf_to_f16_bits(vf x)
{
    const vi bits = (vi)x, low = bits & 0x7fffffff;
    const vi normal = (vi)((vu)(low - 0x38000000 + 0xfff + (low >> 13 & 1)) >> 13), tiny = (vi)((vf)low + 0.5f) - 0x3f000000;
    const vi most = (vi)vf_select(low > 0x7f800000, (vf)((vi){ 0 } + 0x7e00), (vf)((vi){ 0 } + 0x7c00));
    const vi value = (vi)vf_select(low < 0x38800000, (vf)tiny, vf_select(low >= 0x477ff000, (vf)most, (vf)normal));
    return value | (vi)((vu)bits >> 16 & 0x8000);
}
DEVICE vf vf_load_f16(const void *p)
{
    return vf_from_f16_bits(__builtin_convertvector((vec_u16)*(const vec_u16_unaligned *)p, vi));
}
DEVICE void vf_store_f16(void *p, vf x)        { *(vec_u16_unaligned *)p = __builtin_convertvector(vf_to_f16_bits(x), vec_u16); }
#else
typedef _Float16 vec_f16 __attribute__((vector_size(32)));
typedef _Float16 vec_f16_unaligned __attribute__((vector_size(32), aligned(1), may_alias));
DEVICE vf vf_load_f16(const void *p)           { return __builtin_convertvector((vec_f16)*(const vec_f16_unaligned *)p, vf); }
DEVICE void vf_store_f16(void *p, vf x)        { *(vec_f16_unaligned *)p = __builtin_convertvector(x, vec_f16); }
#endif
DEVICE vf vf_load_bf16(const void *p)          { return (vf)(__builtin_convertvector((vec_u16)*(const vec_u16_unaligned *)p, vu) << 16); }
DEVICE vf vf_from_vi(vi a)                     { return __builtin_convertvector(a, vf); }
/* To the nearest integer, ties to even; |x| < 2^22. */
DEVICE vi vi_from_vf(vf a)                     { return (vi)(a + vf_set1(0x1.8p23f)) - 0x4b400000; }
DEVICE vf vf_bits(vi a)                        { return (vf)a; }
DEVICE vi vi_load(const int32_t *p)            { return *(const vi_unaligned *)p; }
DEVICE void vi_store(int32_t *p, vi x)         { *(vi_unaligned *)p = x; }
DEVICE vi vi_set1(int32_t x)                   { return (vi){ x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x }; }
DEVICE vi vi_add(vi a, vi b)                   { return (vi)((vu)a + (vu)b); }
DEVICE vi vi_sub(vi a, vi b)                   { return (vi)((vu)a - (vu)b); }
DEVICE vi vi_mul(vi a, vi b)                   { return (vi)((vu)a * (vu)b); }
DEVICE vi vi_and(vi a, vi b)                   { return a & b; }
DEVICE vi vi_or(vi a, vi b)                    { return a | b; }
DEVICE vi vi_shl(vi a, uint32_t n)             { return (vi)((vu)a << n); }
DEVICE vi vi_shr(vi a, uint32_t n)             { return (vi)((vu)a >> n); }                        /* logical */
DEVICE vi vi_sar(vi a, uint32_t n)             { return a >> (int32_t)n; }                           /* arithmetic */
DEVICE vi vi_xor(vi a, vi b)                   { return a ^ b; }
DEVICE vi vi_less(vi a, vi b)                  { return a < b; }                                    /* all ones or all zeros */
DEVICE vi vi_load_u8(const uint8_t *p)         { return __builtin_convertvector((vec_u8)*(const vec_u8_unaligned *)p, vi); }
DEVICE vi vi_load_i8(const int8_t *p)          { return __builtin_convertvector((vec_i8)*(const vec_i8_unaligned *)p, vi); }
DEVICE vi vi_load_u16(const void *p)           { return __builtin_convertvector((vec_u16)*(const vec_u16_unaligned *)p, vi); }
DEVICE void vi_store_u16(void *p, vi x)        { *(vec_u16_unaligned *)p = __builtin_convertvector(x, vec_u16); }   /* truncates */
DEVICE vi vi_load_i16(const void *p)           { return __builtin_convertvector((vec_i16)*(const vec_i16_unaligned *)p, vi); }
DEVICE void vi_store_i8(int8_t *p, vi x)       { *(vec_i8_unaligned *)p = __builtin_convertvector(x, vec_i8); }   /* truncates */
DEVICE float vf_sum(vf a)                      /* same order as the portable version: halves, quarters, ... */
{
    typedef float f8 __attribute__((vector_size(32)));
    typedef float f4 __attribute__((vector_size(16)));
    const f8 s8 = __builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15);
    const f4 s4 = __builtin_shufflevector(s8, s8, 0, 1, 2, 3) + __builtin_shufflevector(s8, s8, 4, 5, 6, 7);
    return (s4[0] + s4[2]) + (s4[1] + s4[3]);
}
DEVICE float vf_hmax(vf a)                      /* by halves; __builtin_reduce_max handles NaN exactly and becomes 15 scalar steps */
{
    a = vf_max(a, __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1));
    a = vf_max(a, __builtin_shufflevector(a, a, 4, 5, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    a = vf_max(a, __builtin_shufflevector(a, a, 2, 3, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    return a[0] > a[1] ? a[0] : a[1];
}
DEVICE int32_t vi_sum(vi a)                    { return __builtin_reduce_add(a); }
DEVICE float vf_get(vf a, uint32_t i)          { return a[i]; }
/* Lane i < n ? a : b */
DEVICE vf vf_first(vf a, vf b, uint32_t n)
{
    const vi lane = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    return vf_select(lane < vi_set1((int32_t)n), a, b);
}
#endif

/* e^x = power * (1 + r + p r^2) per lane, power = 2^n; x is clamped to [-87.3, 88].
 * Cody-Waite reduction x = n ln2 + r and the Taylor polynomial of degree 6 on |r| <= ln2/2. */
DEVICE vf vf_exp_parts(vf x, vf *r, vf *power)
{
    x = vf_min(vf_max(x, vf_set1(-87.3f)), vf_set1(88.0f));
    const vi n = vi_from_vf(vf_mul(x, vf_set1(1.44269504f)));
    const vf nf = vf_from_vi(n);
    *r = vf_fma(nf, vf_set1(-1.42860677e-6f), vf_fma(nf, vf_set1(-0.693145752f), x));
    *power = vf_bits(vi_shl(vi_add(n, vi_set1(127)), 23));
    vf p = vf_set1(1.0f / 720);
    p = vf_fma(p, *r, vf_set1(1.0f / 120));
    p = vf_fma(p, *r, vf_set1(1.0f / 24));
    p = vf_fma(p, *r, vf_set1(1.0f / 6));
    return vf_fma(p, *r, vf_set1(0.5f));
}
/* e^x per lane, relative error below 3e-7; x <= -87.3 gives a value below 2e-38. */
DEVICE vf vf_exp(vf x)
{
    vf r, power;
    vf p = vf_exp_parts(x, &r, &power);
    p = vf_fma(p, r, vf_set1(1.0f));
    p = vf_fma(p, r, vf_set1(1.0f));
    return vf_mul(p, power);
}
DEVICE float f32_exp(float x) { return vf_get(vf_exp(vf_set1(x)), 0); }

/* ---- register budget, partial vectors, pairs, hyperbolic functions ---- */
/* Accumulators of 16 floats that a kernel may keep in registers besides its operands. */
#if defined FORGE_SIMD_AVX512 || (defined __AVX512F__ && !defined FORGE_SIMD_C)
enum { VEC_ACCUMULATORS = 16 };
#else
enum { VEC_ACCUMULATORS = 6 };                   /* AVX2: 12 of 16 registers; NEON: 24 of 32 */
#endif
/* Goes before a loop with a small constant count over an array of vectors that must stay in registers. */
#ifdef __clang__
#define VEC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define VEC_UNROLL                               /* gcc needs minutes for unrolled loops of portable vectors */
#endif
/* n <= 16 values; the other lanes are 0.  Memory of the other lanes is neither read nor written. */
DEVICE vf vf_load_n(const float *p, uint32_t n)
{
    float t[16];
    VEC_UNROLL
    for (uint32_t i = 0; i < 16; i++) t[i] = i < n ? p[i] : 0.0f;
    return vf_load(t);
}
DEVICE void vf_store_n(float *p, vf x, uint32_t n)
{
    VEC_UNROLL
    for (uint32_t i = 0; i < 16; i++) if (i < n) p[i] = vf_get(x, i);
}
/* vf_load8, vf_load8_f16: 8 values, the upper lanes are 0.  vf_store8 ...: stores the lower 8 lanes.
 * vf_pairs8: 8 values, each twice.  vf_rotate_pairs: lanes -1 0 -3 2 ... */
#ifdef FORGE_SIMD_C
DEVICE vf vf_load8(const float *p)             { vf r = { { 0 } }; for (uint32_t i = 0; i < 8; i++) r.v[i] = p[i]; return r; }
DEVICE vf vf_load8_f16(const void *p)
{
    uint16_t h[8];
    vf r = { { 0 } };
    __builtin_memcpy(h, p, 16);
    for (uint32_t i = 0; i < 8; i++) r.v[i] = f32_from_f16_bits(h[i]);
    return r;
}
DEVICE void vf_store8(float *p, vf x)          { __builtin_memcpy(p, &x, 32); }
DEVICE void vf_store8_f16(void *p, vf x)
{
    uint16_t h[8];
    for (uint32_t i = 0; i < 8; i++) h[i] = f16_bits_from_f32(x.v[i]);
    __builtin_memcpy(p, h, 16);
}
DEVICE vf vf_pairs8(const float *p)            { vf r; for (uint32_t i = 0; i < 16; i++) r.v[i] = p[i / 2]; return r; }
DEVICE vf vf_rotate_pairs(vf x)
{
    vf r;
    for (uint32_t i = 0; i < 16; i += 2) { r.v[i] = -x.v[i + 1]; r.v[i + 1] = x.v[i]; }
    return r;
}
#else
typedef float    vec_f8  __attribute__((vector_size(32)));
typedef float    vec_f8_unaligned __attribute__((vector_size(32), aligned(1), may_alias));
DEVICE vf vec_widen(vec_f8 x)
{
    return __builtin_shufflevector(x, (vec_f8){ 0 }, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
DEVICE vec_f8 vec_narrow(vf x)                 { return __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7); }
DEVICE vf vf_load8(const float *p)             { return vec_widen(*(const vec_f8_unaligned *)p); }
DEVICE void vf_store8(float *p, vf x)          { *(vec_f8_unaligned *)p = vec_narrow(x); }
#ifdef FORGE_SIMD_WASM
DEVICE vf vf_load8_f16(const void *p)
{
    vec_u16 h = { 0 };
    __builtin_memcpy(&h, p, 16);
    return vf_from_f16_bits(__builtin_convertvector(h, vi));
}
DEVICE void vf_store8_f16(void *p, vf x)
{
    const vec_u16 h = __builtin_convertvector(vf_to_f16_bits(x), vec_u16);
    __builtin_memcpy(p, &h, 16);
}
#else
typedef _Float16 vec_h8  __attribute__((vector_size(16)));
typedef _Float16 vec_h8_unaligned __attribute__((vector_size(16), aligned(1), may_alias));
DEVICE vf vf_load8_f16(const void *p)          { return vec_widen(__builtin_convertvector((vec_h8)*(const vec_h8_unaligned *)p, vec_f8)); }
DEVICE void vf_store8_f16(void *p, vf x)       { *(vec_h8_unaligned *)p = __builtin_convertvector(vec_narrow(x), vec_h8); }
#endif
DEVICE vf vf_pairs8(const float *p)
{
    const vec_f8 x = *(const vec_f8_unaligned *)p;
    return __builtin_shufflevector(x, x, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
}
DEVICE vf vf_rotate_pairs(vf x)
{
    return __builtin_shufflevector(x, -x, 17, 0, 19, 2, 21, 4, 23, 6, 25, 8, 27, 10, 29, 12, 31, 14);
}
#endif
/* e^x - 1 per lane; relative error below 1e-6, also near 0; x is clamped as in vf_exp. */
DEVICE vf vf_expm1(vf x)
{
    vf r, power;
    const vf p = vf_exp_parts(x, &r, &power);
    return vf_fma(power, vf_fma(vf_mul(p, r), r, r), vf_sub(power, vf_set1(1.0f)));
}
DEVICE vf vf_tanh(vf x)
{
    const vf e = vf_expm1(vf_add(x, x));
    return vf_div(e, vf_add(e, vf_set1(2.0f)));
}
#endif
