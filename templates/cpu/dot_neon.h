/* dot_neon.h -- integer dot products with NEON.  With the Armv8.2 dot product extension, sdot multiplies signed bytes, and its lane operand
 * lets one register of activations serve four steps.  Armv8.0 multiplies bytes into 16 bits, and pairs of these are then added. */
#ifndef FORGE_DOT_H
#define FORGE_DOT_H
#include "quarters.h"

#define DOT_FLIP 0
#define DOT_RUN(bits) 4

/* Contract: dot_c.h; steps is 4. */
DEVICE vi dot(vi acc, const vi *codes, const int8_t *x, const uint32_t steps, const uint32_t bits)
{
    (void)bits; (void)steps;
    int32x4_t sum[4] = { vi_quarter(acc, 0), vi_quarter(acc, 1), vi_quarter(acc, 2), vi_quarter(acc, 3) };
#ifdef __ARM_FEATURE_DOTPROD
    const int8x16_t xs = vld1q_s8(x);
#define DOT_STEP(s) UNROLL for (uint32_t i = 0; i < 4; i++) \
    sum[i] = vdotq_laneq_s32(sum[i], vreinterpretq_s8_s32(vi_quarter(codes[s], i)), xs, s);
    DOT_STEP(0) DOT_STEP(1) DOT_STEP(2) DOT_STEP(3)     /* the lane must be a literal */
#undef DOT_STEP
#else
    /* run: steps whose products are summed in 16 bits, two products per lane, before widening.  |x| <= 127, and 2 * 2 * 63 * 127 < 2^15,
     * 2 * 4 * 15 * 127 < 2^15; for signed bytes 2 * 128 * 127 < 2^15. */
    const uint32_t run = bits <= 4 ? 4 : bits <= 6 ? 2 : 1;
    UNROLL for (uint32_t i = 0; i < 4; i++)
        UNROLL for (uint32_t s = 0; s < 4; s += run) {
            int16x8_t low = vdupq_n_s16(0), high = low;
            UNROLL for (uint32_t k = s; k < s + run; k++) {
                int32_t four;
                __builtin_memcpy(&four, x + 4 * k, 4);
                const int8x16_t xs = vreinterpretq_s8_s32(vdupq_n_s32(four)), c = vreinterpretq_s8_s32(vi_quarter(codes[k], i));
                low = vmlal_s8(low, vget_low_s8(c), vget_low_s8(xs));
                high = vmlal_high_s8(high, c, xs);
            }
            sum[i] = vpadalq_s16(sum[i], vpaddq_s16(low, high));
        }
#endif
    return vi_quarters(sum[0], sum[1], sum[2], sum[3]);
}
DEVICE vi bytes_lookup(const int8_t *table, vi index)
{
    const int8x16_t t = vld1q_s8(table);
    int32x4_t r[4];
    UNROLL for (uint32_t i = 0; i < 4; i++) r[i] = vreinterpretq_s32_s8(vqtbl1q_s8(t, vreinterpretq_u8_s32(vi_quarter(index, i))));
    return vi_quarters(r[0], r[1], r[2], r[3]);
}
#endif
