/* words.h -- types and conversions that are the same on all machines; every other file of this folder includes it. */
#ifndef FORGE_WORDS_H
#define FORGE_WORDS_H
#include "families.h"

#if defined(__HIP__) || defined(__CUDA__)
typedef __INT8_TYPE__ int8_t;   typedef __UINT8_TYPE__ uint8_t;   typedef __INT16_TYPE__ int16_t; typedef __UINT16_TYPE__ uint16_t;
typedef __INT32_TYPE__ int32_t; typedef __UINT32_TYPE__ uint32_t; typedef __INT64_TYPE__ int64_t; typedef __UINT64_TYPE__ uint64_t;
#define DEVICE static inline __attribute__((device, always_inline, unused))
#define restrict __restrict__
#define STATIC_ASSERT(c, m) static_assert(c, m)
#else
#include <stdbool.h>
#include <stdint.h>
#define DEVICE static inline __attribute__((always_inline, unused))
#define STATIC_ASSERT(c, m) _Static_assert(c, m)
#endif

typedef uint32_t u32x2 __attribute__((ext_vector_type(2)));
typedef uint32_t u32x4 __attribute__((ext_vector_type(4)));
typedef float    f32x2 __attribute__((ext_vector_type(2)));
typedef float    f32x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16;
typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));

/* Keeps the compiler from moving memory accesses across it. */
#define COMPILER_FENCE() __asm__ volatile("" ::: "memory")

DEVICE uint32_t bits_of_f32(float x) { uint32_t u; __builtin_memcpy(&u, &x, 4); return u; }
DEVICE float f32_of_bits(uint32_t u) { float x; __builtin_memcpy(&x, &u, 4); return x; }
/* From the low half of u. */
DEVICE float f32_of_f16_bits(uint32_t u) { const uint16_t h = (uint16_t)u; f16 x; __builtin_memcpy(&x, &h, 2); return (float)x; }
DEVICE float f32_of_bf16_bits(uint32_t u) { return f32_of_bits(u << 16); }
DEVICE uint32_t f16_bits(float x) { const f16 h = (f16)x; uint16_t u; __builtin_memcpy(&u, &h, 2); return u; }
/* Rounds to nearest even; does not preserve NaN. */
DEVICE uint32_t bf16_bits(float x) { uint32_t u = bits_of_f32(x); u += 0x7fffu + (u >> 16 & 1u); return u >> 16; }
DEVICE uint32_t f16x2_bits(float lo, float hi)
{
    f16x2 h = { (f16)lo, (f16)hi };
    uint32_t u;
    __builtin_memcpy(&u, &h, 4);
    return u;
}
DEVICE uint32_t bf16x2_bits(float lo, float hi) { return bf16_bits(lo) | bf16_bits(hi) << 16; }
#endif
