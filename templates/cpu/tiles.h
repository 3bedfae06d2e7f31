/* tiles.h -- products of a panel of weights, as pairs of columns, with rows of bfloat16.  With FORGE_MATRIX_TILES they use AMX tiles; with
 * FORGE_MATRIX_DOT BFMMLA if Arm's BF16 has it, otherwise dot products of pairs.  A panel holds 32 columns after 32 columns as
 * [groups][16 pairs][16 rows] pairs: 32 columns of a group are one AMX tile, and each pair of columns is one vector.  For BFMMLA it is
 * [groups][8 times 4 columns][16 rows] of two pairs.
 * (Intel SDM volume 1, chapter 18; volume 2, TDPBF16PS and VDPBF16PS.  Arm ARM DDI 0487, C7.2, BFMMLA.) */
#ifndef FORGE_TILES_H
#define FORGE_TILES_H
#include "matmul.h"

/* Bytes of 32 columns of a panel. */
#define PAIRS_BYTES(groups) ((groups) * 1024u)
/* Distance from the first part of a two-part panel to its second part, which lies after the double buffer of first parts. */
#define PARTS_LEFT (GEMM_PAIRS_SCRATCH / 2)

#if defined(FORGE_MATRIX_DOT) && BF16_OF_ARM
#define PAIRS_BY_BFMMLA 1
#else
#define PAIRS_BY_BFMMLA 0
#endif
/* Stores columns 2 k to 2 k + 3 of a group into its panel; k is even. */
DEVICE void pairs_put(uint8_t *panel, const uint32_t k, const vi one, const vi two)
{
#if PAIRS_BY_BFMMLA
    UNROLL for (uint32_t i = 0; i < 4; i++) {
        const int32x4_t low = vi_quarter(one, i), high = vi_quarter(two, i);
        vst1q_u8(panel + 64 * k + 32 * i, vreinterpretq_u8_s32(vzip1q_s32(low, high)));
        vst1q_u8(panel + 64 * k + 32 * i + 16, vreinterpretq_u8_s32(vzip2q_s32(low, high)));
    }
#else
    __builtin_memcpy(panel + 64 * k, &one, 64);
    __builtin_memcpy(panel + 64 * k + 64, &two, 64);
#endif
}

#ifdef FORGE_MATRIX_TILES
/* ---- AMX tiles 0 to 3: sums, [16 tokens][16 rows], for two tiles of tokens by two groups; 4 and 5: rows of x, [16 tokens][32 columns];
 * 6 and 7: weights of a group, [16 pairs][16 rows] ---- */
#ifdef __AMX_BF16__
#include <immintrin.h>
struct tiles { uint8_t none; };
#define TILE_CLEAR(r, i)             _tile_zero(i)
#define TILE_LOAD(r, i, p, stride)   _tile_loadd(i, p, stride)
#define TILE_STORE(r, i, p, stride)  _tile_stored(i, p, stride)
#define TILE_DOT(r, sum, x, weights) _tile_dpbf16ps(sum, x, weights)

/* Tiles 0, 1 and 4 hold `few` tokens, tiles 2, 3 and 5 `high` tokens; both are 1 to 16. */
DEVICE void tiles_begin(struct tiles *r, const uint32_t few, const uint32_t high)
{
    _Alignas(64) struct { uint8_t palette, start, reserved[14]; uint16_t row_bytes[16]; uint8_t rows[16]; } c = { .palette = 1 };
    const uint8_t low = (uint8_t)few, more = (uint8_t)high, rows[8] = { low, low, more, more, low, more, 16, 16 };
    for (uint32_t i = 0; i < 8; i++) {
        c.row_bytes[i] = 64;
        c.rows[i] = rows[i];
    }
    (void)r;
    _tile_loadconfig(&c);
}
DEVICE void tiles_end(struct tiles *r)
{
    (void)r;
    _tile_release();
}
#else
/* The same in plain C, so that the surrounding code can be tested on machines without AMX. */
struct tiles { uint32_t rows[8]; _Alignas(64) uint8_t bytes[8][1024]; };
#define TILE_CLEAR(r, i)             __builtin_memset((r)->bytes[i], 0, 1024)
#define TILE_LOAD(r, i, p, stride)   tile_load(r, i, p, stride)
#define TILE_STORE(r, i, p, stride)  tile_copy(r, i, p, stride)
#define TILE_DOT(r, sum, x, weights) tile_dot(r, sum, x, weights)

DEVICE void tiles_begin(struct tiles *r, const uint32_t few, const uint32_t high)
{
    const uint32_t rows[8] = { few, few, high, high, few, high, 16, 16 };
    __builtin_memset(r, 0xff, sizeof *r);
    __builtin_memcpy(r->rows, rows, sizeof rows);
}
DEVICE void tiles_end(struct tiles *r) { __builtin_memset(r, 0xff, sizeof *r); }
DEVICE void tile_load(struct tiles *r, const uint32_t i, const void *p, const uint64_t stride)
{
    for (uint32_t k = 0; k < r->rows[i]; k++) __builtin_memcpy(r->bytes[i] + 64 * k, (const uint8_t *)p + k * stride, 64);
}
DEVICE void tile_copy(const struct tiles *r, const uint32_t i, void *p, const uint64_t stride)
{
    for (uint32_t k = 0; k < r->rows[i]; k++) __builtin_memcpy((uint8_t *)p + k * stride, r->bytes[i] + 64 * k, 64);
}
DEVICE void tile_dot(struct tiles *r, const uint32_t sum, const uint32_t x, const uint32_t weights)
{
    for (uint32_t t = 0; t < r->rows[sum]; t++) {
        float *at = (float *)(void *)(r->bytes[sum] + 64 * t);
        vf v = vf_load(at);
        for (uint32_t k = 0; k < 16; k++) {
            vi pairs;
            __builtin_memcpy(&pairs, r->bytes[weights] + 64 * k, 64);
            v = dot_pairs(v, pairs, r->bytes[x] + 64 * t + 4 * k);
        }
        vf_store(at, v);
    }
}
#endif

/* ---- one or (with `high`) two tiles of tokens by `groups` groups of rows, y[t][16 * groups]; add: adds to the values in y ---- */
DEVICE void tiles_first(struct tiles *r, const float *y, const uint32_t y_stride, const int add, const int high, const uint32_t groups)
{
    const float *const y_high = y + 16 * (uint64_t)y_stride;
    const uint64_t y_bytes = 4 * (uint64_t)y_stride;
    (void)r;
    if (!add) {
        TILE_CLEAR(r, 0);
        TILE_CLEAR(r, 1);
        TILE_CLEAR(r, 2);
        TILE_CLEAR(r, 3);
        return;
    }
    TILE_LOAD(r, 0, y, y_bytes);
    if (groups > 1) TILE_LOAD(r, 1, y + 16, y_bytes);
    if (high) TILE_LOAD(r, 2, y_high, y_bytes);
    if (high && groups > 1) TILE_LOAD(r, 3, y_high + 16, y_bytes);
}
/* Multiplies 32 columns of a panel by the same columns of the rows at x, which are x_stride bytes apart. */
DEVICE void tiles_step(struct tiles *r, const uint8_t *panel, const uint8_t *x, const uint64_t x_stride, const int high,
                       const uint32_t groups)
{
    (void)r;
    TILE_LOAD(r, 6, panel, 64);
    TILE_LOAD(r, 4, x, x_stride);
    if (high) TILE_LOAD(r, 5, x + 16 * x_stride, x_stride);
    if (groups > 1) TILE_LOAD(r, 7, panel + 1024, 64);
    TILE_DOT(r, 0, 4, 6);
    if (high) TILE_DOT(r, 2, 5, 6);
    if (groups > 1) TILE_DOT(r, 1, 4, 7);
    if (high && groups > 1) TILE_DOT(r, 3, 5, 7);
}
DEVICE void tiles_last(struct tiles *r, float *y, const uint32_t y_stride, const int high, const uint32_t groups)
{
    float *const y_high = y + 16 * (uint64_t)y_stride;
    const uint64_t y_bytes = 4 * (uint64_t)y_stride;
    (void)r;
    TILE_STORE(r, 0, y, y_bytes);
    if (groups > 1) TILE_STORE(r, 1, y + 16, y_bytes);
    if (high) TILE_STORE(r, 2, y_high, y_bytes);
    if (high && groups > 1) TILE_STORE(r, 3, y_high + 16, y_bytes);
}
#elif PAIRS_BY_BFMMLA
/* ---- BFMMLA: 4 columns of 2 tokens times 4 columns of 2 rows; a register tile has an even number of tokens and one group ---- */
#define PAIRS_TOKENS (GEMM_TOKENS / 2 * 2)
/* sum[pair of rows][pair of tokens] += 8 columns. */
DEVICE void bfmmla_columns(float32x4_t sum[8][PAIRS_TOKENS / 2], const uint8_t *panel, const struct tile_rows *rows, const uint32_t tokens)
{
    bfloat16x8_t x[PAIRS_TOKENS / 2][2];
    UNROLL for (uint32_t p = 0; p < tokens / 2; p++) {
        const int64x2_t one = vreinterpretq_s64_u8(vld1q_u8(tile_row(rows, 2 * p, tokens)));
        const int64x2_t two = vreinterpretq_s64_u8(vld1q_u8(tile_row(rows, 2 * p + 1, tokens)));
        x[p][0] = vreinterpretq_bf16_s64(vzip1q_s64(one, two));
        x[p][1] = vreinterpretq_bf16_s64(vzip2q_s64(one, two));
    }
    UNROLL for (uint32_t k = 0; k < 2; k++)
        UNROLL for (uint32_t r = 0; r < 8; r++) {
            const bfloat16x8_t w = vreinterpretq_bf16_u8(vld1q_u8(panel + 128 * k + 16 * r));
            UNROLL for (uint32_t p = 0; p < tokens / 2; p++) sum[r][p] = vbfmmlaq_f32(sum[r][p], x[p][k], w);
        }
}
DEVICE void pairs_tile(float *y, const uint32_t y_stride, const uint8_t *panel, const uint8_t *x, const uint64_t x_stride,
                       const uint32_t blocks, const int add, const uint32_t n, const uint32_t tokens, const uint32_t groups)
{
    for (uint32_t g = 0; g < groups; g++) {
        struct tile_rows rows = tile_rows_of(x, x_stride, n, tokens);
        float32x4_t sum[8][PAIRS_TOKENS / 2];
        vf out[PAIRS_TOKENS];
        UNROLL for (uint32_t r = 0; r < 8; r++)
            UNROLL for (uint32_t p = 0; p < tokens / 2; p++) sum[r][p] = vdupq_n_f32(0);
        for (uint32_t b = 0; b < blocks; b++)
            for (uint32_t k = 0; k < 4; k++) {
                bfmmla_columns(sum, panel + PAIRS_BYTES(groups) * b + 1024 * g + 256 * k, &rows, tokens);
                tile_rows_next(&rows, 16, tokens);
            }
        UNROLL for (uint32_t t = 0; t < tokens; t++) out[t] = vf_of_pairs(sum[0] + t / 2, PAIRS_TOKENS / 2, t % 2);
        tile_store(y + 16 * g, y_stride, out, add, n, tokens, 1);
    }
}
#else
#define PAIRS_TOKENS GEMM_TOKENS
/* ---- dot products: a register tile of tokens x groups ---- */
DEVICE void pairs_tile(float *y, const uint32_t y_stride, const uint8_t *panel, const uint8_t *x, const uint64_t x_stride,
                       const uint32_t blocks, const int add, const uint32_t n, const uint32_t tokens, const uint32_t groups)
{
    struct tile_rows rows = tile_rows_of(x, x_stride, n, tokens);
    vf sum[GEMM_TOKENS * GEMM_GROUPS];
    UNROLL for (uint32_t i = 0; i < tokens * groups; i++) sum[i] = vf_set1(0);
    for (uint32_t b = 0; b < blocks; b++) {
        for (uint32_t k = 0; k < 16; k++) {
            UNROLL for (uint32_t t = 0; t < tokens; t++)
                UNROLL for (uint32_t g = 0; g < groups; g++)
                    sum[t * groups + g] = dot_pairs(sum[t * groups + g], bytes_load(panel + 64 * (16 * g + k)), tile_row(&rows, t, tokens));
            tile_rows_next(&rows, 4, tokens);
        }
        panel += PAIRS_BYTES(groups);
    }
    tile_store(y, y_stride, sum, add, n, tokens, groups);
}
#endif
#ifndef FORGE_MATRIX_TILES
/* y[t][16 * groups] (+)= `blocks` times 32 columns of a panel times n_tokens >= 1 rows of bfloat16, x_stride bytes apart. */
DEVICE void pairs_tiles(float *y, const uint32_t y_stride, const uint8_t *panel, const uint8_t *x, const uint64_t x_stride,
                        const uint32_t blocks, const int add, const uint32_t n_tokens, const uint32_t groups)
{
    uint32_t t = 0;
    for (; PAIRS_TOKENS > FEW_TOKENS && t + PAIRS_TOKENS <= n_tokens; t += PAIRS_TOKENS)
        pairs_tile(y + (uint64_t)t * y_stride, y_stride, panel, x + t * x_stride, x_stride, blocks, add, PAIRS_TOKENS, PAIRS_TOKENS,
                   groups);
    for (; t < n_tokens; t += FEW_TOKENS)
        pairs_tile(y + (uint64_t)t * y_stride, y_stride, panel, x + t * x_stride, x_stride, blocks, add, n_tokens - t, FEW_TOKENS, groups);
}
/* Not inlined: compiled once per program. */
SHARED void pairs_tiles_two(float *y, uint32_t y_stride, const uint8_t *panel, const uint8_t *x, uint64_t x_stride, uint32_t blocks,
                            int add, uint32_t n_tokens)
{
    pairs_tiles(y, y_stride, panel, x, x_stride, blocks, add, n_tokens, GEMM_GROUPS);
}
SHARED void pairs_tiles_one(float *y, uint32_t y_stride, const uint8_t *panel, const uint8_t *x, uint64_t x_stride, uint32_t blocks,
                            int add, uint32_t n_tokens)
{
    pairs_tiles(y, y_stride, panel, x, x_stride, blocks, add, n_tokens, 1);
}
#endif
#endif
