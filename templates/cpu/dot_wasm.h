/* dot_wasm.h -- integer dot products with WebAssembly's 128-bit SIMD.  Bytes are widened to 16 bits; i32x4.dot_i16x8_s then adds products
 * of neighbours in 32 bits, so nothing saturates.  Engines compile this to vpmovsxbw and vpmaddwd, or to sxtl, smull and addp. */
#ifndef FORGE_DOT_H
#define FORGE_DOT_H
#include "quarters.h"

#define DOT_FLIP 0
#define DOT_RUN(bits) 8

/* Contract: dot_c.h.  A row's four products are in two neighbouring lanes of `low` or `high`; the end adds them. */
DEVICE vi dot(vi acc, const vi *codes, const int8_t *x, const uint32_t steps, const uint32_t bits)
{
    v128_t sum[4];
    (void)bits;
    UNROLL for (uint32_t i = 0; i < 4; i++) {
        v128_t low = wasm_i32x4_const_splat(0), high = low;
        UNROLL for (uint32_t s = 0; s < steps; s++) {
            const v128_t xs = wasm_i16x8_extend_low_i8x16(wasm_v128_load32_splat(x + 4 * s)), c = vi_quarter(codes[s], i);
            low = wasm_i32x4_add(low, wasm_i32x4_dot_i16x8(wasm_i16x8_extend_low_i8x16(c), xs));
            high = wasm_i32x4_add(high, wasm_i32x4_dot_i16x8(wasm_i16x8_extend_high_i8x16(c), xs));
        }
        sum[i] = wasm_i32x4_add(wasm_i32x4_shuffle(low, high, 0, 2, 4, 6), wasm_i32x4_shuffle(low, high, 1, 3, 5, 7));
    }
    return vi_add(acc, vi_quarters(sum[0], sum[1], sum[2], sum[3]));
}
DEVICE vi bytes_lookup(const int8_t *table, vi index)
{
    const v128_t t = wasm_v128_load(table);
    v128_t r[4];
    UNROLL for (uint32_t i = 0; i < 4; i++) r[i] = wasm_i8x16_swizzle(t, vi_quarter(index, i));
    return vi_quarters(r[0], r[1], r[2], r[3]);
}
#endif
