/* int_tiles.h -- integer products of a panel of weights with quantised rows, by SMMLA on Armv8.6 and by dot() elsewhere.
 * SMMLA multiplies 8 columns of 2 tokens by 8 columns of 2 rows, twice as many as a dot product.  (Arm ARM DDI 0487, C7.2, SMMLA.) */
#ifndef FORGE_INT_TILES_H
#define FORGE_INT_TILES_H
#include "matmul.h"

#if defined(FORGE_SIMD_NEON) && defined(__ARM_FEATURE_MATMUL_INT8)
#define INT_TOKENS FEW_TOKENS       /* per tile: sums and rows of x of four tokens fill the registers */
/* Bytes of 32 columns of a panel.  Each group has 8 pairs of rows; each pair has codes [4][2 rows][8 columns], then 32 / sub scales and,
 * with has_min, as many minimums, as floats [twice][2 rows]: one float for each sum of SMMLA. */
#define PAIR_BYTES(f)          (64 + 16 * (32 / (f).sub) * (1 + (f).has_min))
#define PANEL_BYTES(groups, f) ((groups) * 8 * PAIR_BYTES(f))

DEVICE void panel_factors(uint8_t *to, const vf *factors, const struct code_format f)
{
    UNROLL for (uint32_t j = 0; j < 32 / f.sub; j++)
        UNROLL for (uint32_t r = 0; r < 8; r++) {
            const float64x2_t four = vreinterpretq_f64_f32(vf_quarter(factors[j], r / 2));
            const float64x2_t two = r % 2 == 0 ? vzip1q_f64(four, four) : vzip2q_f64(four, four);
            vst1q_u8(to + PAIR_BYTES(f) * r + 16 * j, vreinterpretq_u8_f64(two));
        }
}
/* Stores 32 columns of group g. */
DEVICE void panel_put(uint8_t *panel, const vi *codes, const vf *scale, const vf *min, const uint32_t g, const uint32_t groups,
                      const struct code_format f)
{
    uint8_t *to = panel + g * PANEL_BYTES(1, f);
    (void)groups;
    UNROLL for (uint32_t k = 0; k < 4; k++)
        UNROLL for (uint32_t r = 0; r < 8; r++) {
            const int32x4_t low = vi_quarter(codes[2 * k], r / 2), high = vi_quarter(codes[2 * k + 1], r / 2);
            vst1q_u8(to + PAIR_BYTES(f) * r + 16 * k, vreinterpretq_u8_s32(r % 2 == 0 ? vzip1q_s32(low, high) : vzip2q_s32(low, high)));
        }
    panel_factors(to + 64, scale, f);
    if (f.has_min) panel_factors(to + 64 + 16 * (32 / f.sub), min, f);
}

/* The values of tile_prepare() for INT_TOKENS tokens, interleaved: d[block][token], start and ds [sub-block][token].  The bits of the float
 * 1.5 * 2^23 are added to start: sums of products are below 2^22, so the result has the bits of a float too, and one subtraction yields the
 * sum as a float.  This is faster than a conversion.  at[token]: the quantised row. */
#define SUM_BITS 0x4b400000
DEVICE void tokens_prepare(float *d, int32_t *start, float *ds, const uint8_t *const *at, const uint32_t cols, const uint32_t b0,
                           const uint32_t n, const struct code_format f)
{
    const uint32_t subs = 32 / f.sub;
    for (uint32_t b = 0; b < n; b += 4) {
        float32x4x4_t scale;
        UNROLL for (uint32_t t = 0; t < INT_TOKENS; t++)
            scale.val[t] = vld1q_f32((const float *)(const void *)(at[t] + XQ_SCALES(cols) + 4 * (b0 + b)));
        vst4q_f32(d + INT_TOKENS * b, scale);
        if (!f.offset && !f.has_min) continue;
        UNROLL for (uint32_t h = 0; h < subs; h++) {
            int32x4x4_t starts;
            float32x4x4_t sums;
            UNROLL for (uint32_t t = 0; t < INT_TOKENS; t++) {
                const uint8_t *of = at[t] + (subs == 1 ? XQ_SUMS_32(cols) + 2 * (b0 + b) : XQ_SUMS(cols) + 4 * (b0 + b) + 8 * h);
                const int32x4_t sum = vmovl_s16(vld1_s16((const int16_t *)(const void *)of));
                const float32x4_t dx = subs == 1 ? scale.val[t] : h == 0 ? vzip1q_f32(scale.val[t], scale.val[t])
                                                                         : vzip2q_f32(scale.val[t], scale.val[t]);
                if (f.has_min) sums.val[t] = vmulq_f32(vcvtq_f32_s32(sum), dx);
                else           starts.val[t] = vmlaq_n_s32(vdupq_n_s32(SUM_BITS), sum, -(int32_t)f.offset);
            }
            const uint32_t to = INT_TOKENS * (subs * b + 4 * h);
            if (f.has_min) vst4q_f32(ds + to, sums);
            else           vst4q_s32(start + to, starts);
        }
    }
}
/* The values of tokens 0 and 1 (pair 0) or 2 and 3 (pair 1), each twice. */
DEVICE float32x4_t pair_of(const float32x4_t tokens, const uint32_t pair)
{
    return pair == 0 ? vzip1q_f32(tokens, tokens) : vzip2q_f32(tokens, tokens);
}
/* sum[pair of rows][pair of tokens] += 32 columns of a group.  d, start, ds: of this block. */
DEVICE void mmla_block(float32x4_t sum[8][2], const uint8_t *panel, const struct tile_rows *rows, const float *d, const int32_t *start,
                       const float *ds, const struct code_format f)
{
    const uint32_t subs = 32 / f.sub, steps = 4 / subs;
    const float32x4_t four = vld1q_f32(d), dx[2] = { pair_of(four, 0), pair_of(four, 1) };
    const float32x4_t bias = vreinterpretq_f32_s32(vdupq_n_s32(SUM_BITS));
    int8x16_t x[2][4];                               /* 8 columns of two tokens each */
    UNROLL for (uint32_t p = 0; p < 2; p++)
        UNROLL for (uint32_t k = 0; k < 4; k += 2) {
            const int64x2_t one = vreinterpretq_s64_u8(vld1q_u8(tile_row(rows, 2 * p, INT_TOKENS) + 8 * k));
            const int64x2_t two = vreinterpretq_s64_u8(vld1q_u8(tile_row(rows, 2 * p + 1, INT_TOKENS) + 8 * k));
            x[p][k] = vreinterpretq_s8_s64(vzip1q_s64(one, two));
            x[p][k + 1] = vreinterpretq_s8_s64(vzip2q_s64(one, two));
        }
    UNROLL for (uint32_t r = 0; r < 8; r++) {
        const uint8_t *at = panel + PAIR_BYTES(f) * r;
        float32x4_t part[2];                         /* of the first sub-block */
        UNROLL for (uint32_t j = 0; j < subs; j++) {
            int32x4_t acc[2] = { vdupq_n_s32(SUM_BITS), vdupq_n_s32(SUM_BITS) };
            if (f.offset) {
                const float32x4_t first = vreinterpretq_f32_s32(vld1q_s32(start + INT_TOKENS * j));
                UNROLL for (uint32_t p = 0; p < 2; p++) acc[p] = vreinterpretq_s32_f32(pair_of(first, p));
            }
            UNROLL for (uint32_t k = 0; k < steps; k++) {
                const int8x16_t w = vreinterpretq_s8_u8(vld1q_u8(at + 16 * (j * steps + k)));
                UNROLL for (uint32_t p = 0; p < 2; p++) acc[p] = vmmlaq_s32(acc[p], x[p][j * steps + k], w);
            }
            const float *scale = (const float *)(const void *)(at + 64 + 16 * j);
            UNROLL for (uint32_t p = 0; p < 2; p++) {
                const float32x4_t a = vsubq_f32(vreinterpretq_f32_s32(acc[p]), bias);
                if (subs == 1)   sum[r][p] = vfmaq_f32(sum[r][p], vmulq_f32(a, dx[p]), vld1q_f32(scale));
                else if (j == 0) part[p] = vmulq_f32(a, vld1q_f32(scale));
                else             sum[r][p] = vfmaq_f32(sum[r][p], vfmaq_f32(part[p], a, vld1q_f32(scale)), dx[p]);
                if (f.has_min) sum[r][p] = vfmaq_f32(sum[r][p], vld1q_f32(scale + 4 * subs), pair_of(vld1q_f32(ds + INT_TOKENS * j), p));
            }
        }
        __asm__("" : "+r"(panel) : "w"(sum[r][0]), "w"(sum[r][1]));      /* without this, compilers interleave the pairs and spill sums */
    }
}
/* y[t][16 * groups] (+)= an integer panel of `blocks` times 32 columns times xq; its first block is block b0 of the activations.
 * Only the first n tokens of the tile exist. */
DEVICE void int_tile(float *y, const uint32_t y_stride, const uint8_t *panel, const uint8_t *xq, const uint32_t b0, const uint32_t blocks,
                     const uint32_t cols, const uint32_t n, const uint32_t tokens, const uint32_t groups, const struct code_format f)
{
    enum { BLOCKS = GEMM_COLS / 32 };
    float d[INT_TOKENS * BLOCKS], ds[INT_TOKENS * BLOCKS * 2];
    int32_t start[INT_TOKENS * BLOCKS * 2];
    const uint32_t subs = 32 / f.sub;
    const struct tile_rows first = tile_rows_of(xq, XQ_STRIDE((uint64_t)cols), n, tokens);
    tokens_prepare(d, start, ds, first.at, cols, b0, blocks, f);
    for (uint32_t g = 0; g < groups; g++, panel += PANEL_BYTES(1, f)) {
        struct tile_rows rows = first;
        float32x4_t sum[8][2];
        vf out[INT_TOKENS];
        const uint8_t *at = panel;
        tile_rows_next(&rows, 32 * b0, tokens);
        UNROLL for (uint32_t r = 0; r < 8; r++) sum[r][0] = sum[r][1] = vdupq_n_f32(0);
        for (uint32_t b = 0; b < blocks; b++, at += PANEL_BYTES(groups, f)) {
            mmla_block(sum, at, &rows, d + INT_TOKENS * b, start + INT_TOKENS * subs * b, ds + INT_TOKENS * subs * b, f);
            tile_rows_next(&rows, 32, tokens);
        }
        UNROLL for (uint32_t t = 0; t < INT_TOKENS; t++) out[t] = vf_of_pairs(sum[0] + t / 2, 2, t % 2);
        tile_store(y + 16 * g, y_stride, out, b0 > 0, n, INT_TOKENS, 1);
    }
}
#else
#define INT_TOKENS GEMM_TOKENS
/* Bytes of 32 columns of a panel: codes [8][groups], scale [32 / sub][groups], and min in the same form if has_min. */
#define PANEL_BYTES(groups, f) ((groups) * (512 + 64 * (32 / (f).sub) * (1 + (f).has_min)))

/* Stores 32 columns of group g. */
DEVICE void panel_put(uint8_t *panel, const vi *codes, const vf *scale, const vf *min, const uint32_t g, const uint32_t groups,
                      const struct code_format f)
{
    const uint32_t subs = 32 / f.sub;
    UNROLL for (uint32_t k = 0; k < 8; k++) __builtin_memcpy(panel + 64 * (k * groups + g), &codes[k], 64);
    UNROLL for (uint32_t j = 0; j < subs; j++) {
        __builtin_memcpy(panel + 64 * ((8 + j) * groups + g), &scale[j], 64);
        if (f.has_min) __builtin_memcpy(panel + 64 * ((8 + subs + j) * groups + g), &min[j], 64);
    }
}
/* y[t][16 * groups] (+)= an integer panel of `blocks` times 32 columns times xq; its first block is block b0 of the activations.
 * Only the first n tokens of the tile exist. */
DEVICE void int_tile(float *y, const uint32_t y_stride, const uint8_t *panel, const uint8_t *xq, const uint32_t b0, const uint32_t blocks,
                     const uint32_t cols, const uint32_t n, const uint32_t tokens, const uint32_t groups, const struct code_format f)
{
    enum { BLOCKS = GEMM_COLS / 32 };
    _Alignas(64) float d[GEMM_TOKENS * BLOCKS], ds[GEMM_TOKENS * BLOCKS * 2];
    _Alignas(64) int32_t start[GEMM_TOKENS * BLOCKS * 2];
    const uint32_t subs = 32 / f.sub;
    for (uint32_t t = 0; t < tokens; t++)
        tile_prepare(d + t * BLOCKS, start + t * BLOCKS * subs, ds + t * BLOCKS * subs,
                     xq + (uint64_t)(t < n ? t : n - 1) * XQ_STRIDE((uint64_t)cols), cols, b0, blocks, f);
    struct tile_rows rows = tile_rows_of(xq + 32 * (uint64_t)b0, XQ_STRIDE((uint64_t)cols), n, tokens);
    vf sum[GEMM_TOKENS * GEMM_GROUPS];
    UNROLL for (uint32_t i = 0; i < tokens * groups; i++) sum[i] = vf_set1(0);
    for (uint32_t b = 0; b < blocks; b++) {
        const vf *scale = (const vf *)(const void *)(panel + 512 * groups);
        block_dot(sum, sum, (const vi *)(const void *)panel, scale, scale + subs * groups, &rows, d + b, start + b * subs, ds + b * subs,
                  BLOCKS, tokens, groups, f);
        tile_rows_next(&rows, 32, tokens);
        panel += PANEL_BYTES(groups, f);
    }
    tile_store(y, y_stride, sum, b0 > 0, n, tokens, groups);
}
#endif
#endif
