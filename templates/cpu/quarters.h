/* quarters.h -- converts vectors of vec.h to and from their four 128-bit registers, for NEON and WebAssembly. */
#ifndef FORGE_QUARTERS_H
#define FORGE_QUARTERS_H
#include "vec.h"
#ifdef FORGE_SIMD_WASM
#include <wasm_simd128.h>
typedef v128_t quarter;
#else
#include <arm_neon.h>
typedef int32x4_t quarter;
#endif

typedef int32_t vec_quarter __attribute__((vector_size(16)));
DEVICE quarter vi_quarter(vi v, const uint32_t i)
{
    return i == 0 ? (quarter)__builtin_shufflevector(v, v, 0, 1, 2, 3)   : i == 1 ? (quarter)__builtin_shufflevector(v, v, 4, 5, 6, 7)
         : i == 2 ? (quarter)__builtin_shufflevector(v, v, 8, 9, 10, 11)
         :          (quarter)__builtin_shufflevector(v, v, 12, 13, 14, 15);
}
DEVICE vi vi_quarters(quarter a, quarter b, quarter c, quarter d)
{
    typedef int32_t vec_half __attribute__((vector_size(32)));
    const vec_half low  = __builtin_shufflevector((vec_quarter)a, (vec_quarter)b, 0, 1, 2, 3, 4, 5, 6, 7);
    const vec_half high = __builtin_shufflevector((vec_quarter)c, (vec_quarter)d, 0, 1, 2, 3, 4, 5, 6, 7);
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
#ifndef FORGE_SIMD_WASM
DEVICE float32x4_t vf_quarter(vf v, const uint32_t i) { return vreinterpretq_f32_s32(vi_quarter((vi)v, i)); }
DEVICE vf vf_quarters(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d)
{
    return (vf)vi_quarters(vreinterpretq_s32_f32(a), vreinterpretq_s32_f32(b), vreinterpretq_s32_f32(c), vreinterpretq_s32_f32(d));
}
/* The sixteen rows of token 0 or 1, from 8 sums of two tokens by two rows each; the sums are `stride` registers apart. */
DEVICE vf vf_of_pairs(const float32x4_t *sum, const uint32_t stride, const uint32_t token)
{
    float32x4_t four[4];
    UNROLL for (uint32_t i = 0; i < 4; i++) {
        const float64x2_t low = vreinterpretq_f64_f32(sum[2 * i * stride]), high = vreinterpretq_f64_f32(sum[(2 * i + 1) * stride]);
        four[i] = vreinterpretq_f32_f64(token == 0 ? vzip1q_f64(low, high) : vzip2q_f64(low, high));
    }
    return vf_quarters(four[0], four[1], four[2], four[3]);
}
#endif
#endif
