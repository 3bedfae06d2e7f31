/* matmul.h -- what the matmul templates of all formats share: tile sizes, the scratch panel, the two register tiles.
 * A panel is the decoded form of GEMM_GROUPS groups of 16 rows over a range of columns, small enough for L1 or L2, and is
 * used by all tokens before the next one is decoded. */
#ifndef FORGE_MATMUL_H
#define FORGE_MATMUL_H
#include "planes.h"
#include "quantize.h"

#ifndef GEMM_TOKENS                 /* register tile: tokens (at least 4) x groups of 16 rows; a profile sets both */
#if defined(FORGE_SIMD_AVX512)
#define GEMM_TOKENS 12
#define GEMM_GROUPS 2
#else
#define GEMM_TOKENS 4
#define GEMM_GROUPS 1
#endif
#endif
#ifndef GEMM_COLS
#define GEMM_COLS 1024              /* columns of an integer panel, a multiple of 256 */
#endif
#ifndef GEMM_FLOAT_COLS
#define GEMM_FLOAT_COLS 256         /* columns of a float panel, a multiple of 256 */
#endif
#define GEMM_FLOAT_CHAIN 64         /* columns summed in one register before they join y: short chains round less */
/* Per 32 columns and group: 512 bytes of codes, at most 2 scale and 2 minimum vectors. */
#define GEMM_INT_SCRATCH   (GEMM_GROUPS * (GEMM_COLS / 32) * (512 + 4 * 64))
#define GEMM_FLOAT_SCRATCH (GEMM_GROUPS * GEMM_FLOAT_COLS * 64)
#define GEMM_SCRATCH       (GEMM_INT_SCRATCH > GEMM_FLOAT_SCRATCH ? GEMM_INT_SCRATCH : GEMM_FLOAT_SCRATCH)

#define ROUND_UP_64(bytes) (((uint64_t)(bytes) + 63) / 64 * 64)

DEVICE float f32_at(const uint8_t *p)   { float r; __builtin_memcpy(&r, p, 4); return r; }
DEVICE int32_t i32_at(const uint8_t *p) { int32_t r; __builtin_memcpy(&r, p, 4); return r; }

/* What a tile needs to know of a format; all constants. */
struct code_format { uint32_t sub, bits, offset, has_min; };

/* Sum of the 16 or 32 quantised activations of sub-block j of block b. */
DEVICE int32_t activation_sum(const uint8_t *xq, const uint32_t cols, const uint32_t b, const uint32_t j, const uint32_t sub)
{
    const uint8_t *sum = xq + XQ_SUMS(cols) + 8 * b;
    return sub == 16 ? i32_at(sum + 4 * j) : i32_at(sum) + i32_at(sum + 4);
}

/* sum[token][group] += 32 columns: codes [8 steps][groups], scale and min [32 / sub][groups].
 * xq: the quantised rows of the tokens, XQ_STRIDE(cols) apart; b: their block. */
DEVICE void block_dot(vf *sum, const vi *codes, const vf *scale, const vf *min, const uint8_t *xq, const uint32_t b, const uint32_t cols,
                      const uint32_t tokens, const uint32_t groups, const struct code_format f)
{
    const uint32_t steps = f.sub / 4, run = DOT_RUN(f.bits) < steps ? DOT_RUN(f.bits) : steps;
    UNROLL for (uint32_t j = 0; j < 32 / f.sub; j++) {
        vi acc[GEMM_TOKENS * GEMM_GROUPS];
        UNROLL for (uint32_t t = 0; t < tokens; t++) {
            const int32_t start = f.offset ? -(int32_t)f.offset * activation_sum(xq + t * XQ_STRIDE(cols), cols, b, j, f.sub) : 0;
            UNROLL for (uint32_t g = 0; g < groups; g++) acc[t * groups + g] = vi_set1(start);
        }
        UNROLL for (uint32_t s = 0; s < steps; s += run)
            UNROLL for (uint32_t t = 0; t < tokens; t++)
                UNROLL for (uint32_t g = 0; g < groups; g++) {
                    vi c[8];
                    UNROLL for (uint32_t i = 0; i < run; i++) c[i] = codes[(j * steps + s + i) * groups + g];
                    acc[t * groups + g] = dot(acc[t * groups + g], c, (const int8_t *)xq + t * XQ_STRIDE(cols) + 32 * b + 4 * (j * steps + s), run, f.bits);
                }
        UNROLL for (uint32_t t = 0; t < tokens; t++) {
            const float d = f32_at(xq + t * XQ_STRIDE(cols) + XQ_SCALES(cols) + 4 * b);
            UNROLL for (uint32_t g = 0; g < groups; g++)
                sum[t * groups + g] = vf_fma(vf_mul(vf_from_vi(acc[t * groups + g]), vf_set1(d)), scale[j * groups + g], sum[t * groups + g]);
            if (f.has_min) {
                const vf dx = vf_set1(d * (float)activation_sum(xq + t * XQ_STRIDE(cols), cols, b, j, f.sub));
                UNROLL for (uint32_t g = 0; g < groups; g++) sum[t * groups + g] = vf_fma(min[j * groups + g], dx, sum[t * groups + g]);
            }
        }
    }
}

/* y (+)= sum [tokens][groups].  Each range of columns is summed from zero, which keeps the rounding error of long rows small. */
DEVICE void tile_store(float *y, const uint32_t y_stride, const vf *sum, const int add, const uint32_t tokens, const uint32_t groups)
{
    UNROLL for (uint32_t t = 0; t < tokens; t++)
        UNROLL for (uint32_t g = 0; g < groups; g++) {
            float *at = y + (uint64_t)t * y_stride + 16 * g;
            vf_store(at, add ? vf_add(vf_load(at), sum[t * groups + g]) : sum[t * groups + g]);
        }
}

/* Bytes of 32 columns of an integer panel: codes [8][groups], scale [32 / sub][groups], min likewise. */
#define PANEL_BYTES(groups, f) ((groups) * (512 + 64 * (32 / (f).sub) * (1 + (f).has_min)))

/* y[t][16 * groups] (+)= an integer panel of `blocks` times 32 columns, the first of them block b0 of the activations. */
DEVICE void int_tile(float *y, const uint32_t y_stride, const uint8_t *panel, const uint8_t *xq, const uint32_t b0, const uint32_t blocks, const uint32_t cols,
                     const uint32_t tokens, const uint32_t groups, const struct code_format f)
{
    vf sum[GEMM_TOKENS * GEMM_GROUPS];
    UNROLL for (uint32_t i = 0; i < tokens * groups; i++) sum[i] = vf_set1(0);
    for (uint32_t b = 0; b < blocks; b++) {
        const uint8_t *p = panel + (uint64_t)b * PANEL_BYTES(groups, f);
        const vf *scale = (const vf *)(const void *)(p + 512 * groups);
        block_dot(sum, (const vi *)(const void *)p, scale, scale + 32 / f.sub * groups, xq, b0 + b, cols, tokens, groups, f);
    }
    tile_store(y, y_stride, sum, b0 > 0, tokens, groups);
}

/* y[t][16 * groups] (+)= a float panel [cols of this range][groups][16] times x[t], rows x_stride bytes apart. */
DEVICE void float_tile(float *y, const uint32_t y_stride, const uint8_t *panel, const uint8_t *x, const uint32_t x_stride, const uint32_t n, const int add,
                       const uint32_t tokens, const uint32_t groups)
{
    for (uint32_t c = 0; c < n;) {
        const uint32_t end = n - c < GEMM_FLOAT_CHAIN ? n : c + GEMM_FLOAT_CHAIN;
        const int add_here = add || c;
        vf sum[GEMM_TOKENS * GEMM_GROUPS];
        UNROLL for (uint32_t i = 0; i < tokens * groups; i++) sum[i] = vf_set1(0);
        for (; c < end; c++) {
            const float *w = (const float *)(const void *)(panel + (uint64_t)c * groups * 64);
            UNROLL for (uint32_t t = 0; t < tokens; t++) {
                const vf xt = vf_set1(f32_at(x + (uint64_t)t * x_stride + 4 * c));
                UNROLL for (uint32_t g = 0; g < groups; g++) sum[t * groups + g] = vf_fma(vf_load(w + 16 * g), xt, sum[t * groups + g]);
            }
        }
        tile_store(y, y_stride, sum, add_here, tokens, groups);
    }
}
/* All tokens of a float panel. */
DEVICE void float_tiles(float *y, const uint32_t y_stride, const uint8_t *panel, const uint8_t *x, const uint32_t x_stride, const uint32_t n, const int add,
                        const uint32_t n_tokens, const uint32_t groups)
{
    uint32_t t = 0;
    for (; t + GEMM_TOKENS <= n_tokens; t += GEMM_TOKENS)
        float_tile(y + (uint64_t)t * y_stride, y_stride, panel, x + (uint64_t)t * x_stride, x_stride, n, add, GEMM_TOKENS, groups);
    if (GEMM_TOKENS > 4)
        for (; t + 4 <= n_tokens; t += 4)
            float_tile(y + (uint64_t)t * y_stride, y_stride, panel, x + (uint64_t)t * x_stride, x_stride, n, add, 4, groups);
    for (; t < n_tokens; t++)
        float_tile(y + (uint64_t)t * y_stride, y_stride, panel, x + (uint64_t)t * x_stride, x_stride, n, add, 1, groups);
}
/* Columns 4s .. 4s+3 of a code vector as integers; bits as in dot(). */
DEVICE vi code_column(vi codes, const uint32_t column, const uint32_t bits)
{
    if (bits == 8 && !DOT_FLIP) return vi_sar(vi_shl(codes, 24 - 8 * column), 24);
    return vi_and(vi_shr(codes, 8 * column), vi_set1(255));
}
#endif
