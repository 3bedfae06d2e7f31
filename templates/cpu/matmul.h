/* matmul.h -- shared by the matrix product templates of all formats: tile sizes, the scratch panel, the register tiles.
 * A panel holds the decoded weights of GEMM_GROUPS groups of 16 rows over a range of columns.  It is small enough for L1 or L2, and all
 * tokens use it before the next panel is decoded. */
#ifndef FORGE_MATMUL_H
#define FORGE_MATMUL_H
#include "bf16.h"
#include "planes.h"
#include "quantize.h"

#ifndef GEMM_TOKENS                 /* register tile: tokens (at least 4) x groups of 16 rows; a target sets both */
#if defined(FORGE_SIMD_AVX512)
#define GEMM_TOKENS 12
#define GEMM_GROUPS 2
#else
#define GEMM_TOKENS 4
#define GEMM_GROUPS 1
#endif
#endif
#ifndef GEMM_COLS
#define GEMM_COLS 512               /* columns of an integer panel, a multiple of 256 */
#endif
#ifndef GEMM_FLOAT_COLS
#define GEMM_FLOAT_COLS 256         /* columns of a float panel, a multiple of 256 */
#endif
#ifndef GEMM_PAIRS_COLS
#define GEMM_PAIRS_COLS 1024        /* columns of a panel of pairs, a multiple of 256 */
#endif
#define GEMM_FLOAT_CHAIN 64         /* columns summed in one register before they are added to y: short chains round less */
/* Per 32 columns and group: 512 bytes of codes, and at most 2 scale and 2 minimum vectors, which SMMLA needs twice. */
#define GEMM_INT_SCRATCH   (GEMM_GROUPS * (GEMM_COLS / 32) * (512 + 8 * 64))
#define GEMM_FLOAT_SCRATCH (GEMM_GROUPS * GEMM_FLOAT_COLS * 64)
#define GEMM_PAIRS_SCRATCH (2 * GEMM_GROUPS * (GEMM_PAIRS_COLS / 32) * 1024)      /* two panels */
#define GEMM_LARGER(a, b)  ((a) > (b) ? (a) : (b))
#define GEMM_SCRATCH       GEMM_LARGER(GEMM_INT_SCRATCH, GEMM_LARGER(GEMM_FLOAT_SCRATCH, GEMM_PAIRS_SCRATCH))

#define FEW_TOKENS 4                /* tokens of the small tiles */
/* 1: the matrices stream from memory because no cache holds them all.  Many cache lines must then be requested at once: from several
 * streams and further ahead than hardware prefetchers go, which stop at the end of a page. */
#ifndef FROM_MEMORY
#define FROM_MEMORY 0
#endif
#ifdef GEMV_GROUPS
#elif defined(FORGE_SIMD_AVX512)
#define GEMV_GROUPS (FROM_MEMORY ? 4 : 2)       /* groups of 16 rows that share the loads of x */
#else
#define GEMV_GROUPS 1
#endif
/* Compiled once per program: emitted code calls these kernels from many places with many sizes. */
#define SHARED static __attribute__((noinline, unused))

/* Bytes of codes and of scales that gemv prefetches ahead of their use. */
#ifndef GEMV_AHEAD
#define GEMV_AHEAD 4096
#endif
#define GEMV_AHEAD_SCALES 1024
/* p + distance; if that is at or beyond `end`, `skip` bytes more. */
DEVICE const uint8_t *ahead(const uint8_t *p, const uint32_t distance, const uint8_t *end, const uint64_t skip)
{
    return p + distance + ((uint64_t)(end - p) > distance ? 0 : skip);
}
DEVICE void prefetch(const uint8_t *p, const uint32_t bytes)
{
    UNROLL for (uint32_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
}

#define ROUND_UP_64(bytes) (((uint64_t)(bytes) + 63) / 64 * 64)

DEVICE float f32_at(const uint8_t *p)   { float r; __builtin_memcpy(&r, p, 4); return r; }

/* The properties of a format that a tile depends on; all are constants. */
struct code_format { uint32_t sub, bits, offset, has_min; };

/* ---- rows of x ---- */
/* Rows of a tile.  Up to FEW_TOKENS rows are at any addresses at[t]; more rows lie `stride` bytes apart, at[t / 3] being row t / 3 * 3.
 * An address is then one of few registers plus one or two strides; otherwise compilers keep a pointer per row and spill most of them. */
struct tile_rows { const uint8_t *at[(GEMM_TOKENS + 2) / 3 > FEW_TOKENS ? (GEMM_TOKENS + 2) / 3 : FEW_TOKENS]; uint64_t stride; };
/* Rows 0 .. tokens - 1 starting at x; rows from n on repeat row n - 1 (tokens <= FEW_TOKENS only). */
DEVICE struct tile_rows tile_rows_of(const uint8_t *x, const uint64_t stride, const uint32_t n, const uint32_t tokens)
{
    struct tile_rows r;
    r.stride = stride;
    if (tokens <= FEW_TOKENS) { UNROLL for (uint32_t t = 0; t < tokens; t++) r.at[t] = x + (t < n ? t : n - 1) * stride; }
    else                      { UNROLL for (uint32_t t = 0; t < tokens; t += 3) r.at[t / 3] = x + t * stride; }
    return r;
}
DEVICE const uint8_t *tile_row(const struct tile_rows *r, const uint32_t t, const uint32_t tokens)
{
    return tokens <= FEW_TOKENS ? r->at[t] : r->at[t / 3] + t % 3 * r->stride;
}
/* Advances all rows.  The compiler must not see through this, or it makes pointers for all rows again. */
DEVICE void tile_rows_next(struct tile_rows *r, const uint32_t bytes, const uint32_t tokens)
{
    UNROLL for (uint32_t i = 0; i < (tokens <= FEW_TOKENS ? tokens : (tokens + 2) / 3); i++) {
        r->at[i] += bytes;
        if (tokens > FEW_TOKENS) __asm__("" : "+r"(r->at[i]));
    }
}

/* ---- integer tiles ---- */
/* For blocks b0 .. b0 + n - 1 of a quantised row, rounded up to 16 blocks: d[block], and per sub-block start (-offset * sum of q, the
 * initial value of the dot product) or ds (d * sum of q, which multiplies the minimum). */
DEVICE void tile_prepare(float *d, int32_t *start, float *ds, const uint8_t *xq, const uint32_t cols, const uint32_t b0, const uint32_t n,
                         const struct code_format f)
{
    for (uint32_t b = 0; b < n; b += 16) {
        const vf scale = vf_load((const float *)(const void *)(xq + XQ_SCALES(cols) + 4 * (b0 + b)));
        vf_store(d + b, scale);
        if (!f.offset && !f.has_min) continue;
        UNROLL for (uint32_t h = 0; h < 32 / f.sub; h++) {
            const vi sum = vi_load_i16(xq + (f.sub == 32 ? XQ_SUMS_32(cols) + 2 * (b0 + b) : XQ_SUMS(cols) + 4 * (b0 + b) + 32 * h));
            const uint32_t at = b * (32 / f.sub) + 16 * h;
            if (!f.has_min) vi_store(start + at, vi_mul(sum, vi_set1(-(int32_t)f.offset)));
            else            vf_store(ds + at, vf_mul(vf_from_vi(sum), f.sub == 32 ? scale : vf_pairs8(d + b + 8 * h)));
        }
    }
}

/* sum[token][group] += the products of 32 columns: codes [8 steps][groups], scale [32 / sub][groups].  least (may be sum) += the part of
 * the minimums.  rows: at these columns.  d, start, ds: of this block; entries of the next token are `blocks` blocks further. */
DEVICE void block_dot(vf *sum, vf *least, const vi *codes, const vf *scale, const vf *min, const struct tile_rows *rows, const float *d,
                      const int32_t *start, const float *ds, const uint32_t blocks, const uint32_t tokens, const uint32_t groups,
                      const struct code_format f)
{
    const uint32_t subs = 32 / f.sub, steps = f.sub / 4, run = DOT_RUN(f.bits) < steps ? DOT_RUN(f.bits) : steps;
    vf part[GEMM_TOKENS * GEMM_GROUPS];              /* of the first sub-block */
    UNROLL for (uint32_t j = 0; j < subs; j++) {
        vi acc[GEMM_TOKENS * GEMM_GROUPS];
        UNROLL for (uint32_t t = 0; t < tokens; t++)
            UNROLL for (uint32_t g = 0; g < groups; g++) acc[t * groups + g] = vi_set1(f.offset ? start[t * blocks * subs + j] : 0);
        UNROLL for (uint32_t s = 0; s < steps; s += run)
            UNROLL for (uint32_t t = 0; t < tokens; t++)
                UNROLL for (uint32_t g = 0; g < groups; g++) {
                    vi c[8];
                    UNROLL for (uint32_t i = 0; i < run; i++) c[i] = codes[(j * steps + s + i) * groups + g];
                    acc[t * groups + g] = dot(acc[t * groups + g], c, (const int8_t *)tile_row(rows, t, tokens) + 4 * (j * steps + s), run,
                                              f.bits);
                }
        UNROLL for (uint32_t t = 0; t < tokens; t++)
            UNROLL for (uint32_t g = 0; g < groups; g++) {
                const uint32_t i = t * groups + g;
                const vf a = vf_from_vi(acc[i]), dx = vf_set1(d[t * blocks]);
                if (subs == 1)   sum[i] = vf_fma(vf_mul(a, dx), scale[g], sum[i]);
                else if (j == 0) part[i] = vf_mul(a, scale[g]);
                else             sum[i] = vf_fma(vf_fma(a, scale[groups + g], part[i]), dx, sum[i]);
                if (f.has_min) least[i] = vf_fma(min[j * groups + g], vf_set1(ds[t * blocks * subs + j]), least[i]);
            }
    }
}

/* y (+)= sum [tokens][groups] for the first n tokens.  Each range of columns is summed from zero,
 * which keeps the rounding error of long rows small. */
DEVICE void tile_store(float *y, const uint32_t y_stride, const vf *sum, const int add, const uint32_t n, const uint32_t tokens,
                       const uint32_t groups)
{
    UNROLL for (uint32_t t = 0; t < tokens; t++) {
        if (tokens <= FEW_TOKENS && t >= n) break;
        UNROLL for (uint32_t g = 0; g < groups; g++) {
            float *at = y + (uint64_t)t * y_stride + 16 * g;
            vf_store(at, add ? vf_add(vf_load(at), sum[t * groups + g]) : sum[t * groups + g]);
        }
    }
}

/* ---- float tiles ---- */
/* y[t][16 * groups] (+)= a float panel [cols of this range][groups][16] times x[t]; rows of x are x_stride bytes apart.
 * Only the first n tokens of the tile exist. */
DEVICE void float_tile(float *y, const uint32_t y_stride, const uint8_t *panel, const uint8_t *x, const uint64_t x_stride,
                       const uint32_t cols, const int add, const uint32_t n, const uint32_t tokens, const uint32_t groups)
{
    struct tile_rows rows = tile_rows_of(x, x_stride, n, tokens);
    for (uint32_t c = 0; c < cols;) {
        const uint32_t end = cols - c < GEMM_FLOAT_CHAIN ? cols : c + GEMM_FLOAT_CHAIN;
        const int add_here = add || c;
        vf sum[GEMM_TOKENS * GEMM_GROUPS];
        UNROLL for (uint32_t i = 0; i < tokens * groups; i++) sum[i] = vf_set1(0);
        for (; c < end; c++) {
            UNROLL for (uint32_t t = 0; t < tokens; t++) {
                const vf xt = vf_set1(f32_at(tile_row(&rows, t, tokens)));
                UNROLL for (uint32_t g = 0; g < groups; g++)
                    sum[t * groups + g] = vf_fma(vf_load((const float *)(const void *)panel + 16 * g), xt, sum[t * groups + g]);
            }
            tile_rows_next(&rows, 4, tokens);
            panel += groups * 64;
        }
        tile_store(y, y_stride, sum, add_here, n, tokens, groups);
    }
}
/* The same for all tokens. */
SHARED void float_tiles(float *y, const uint32_t y_stride, const uint8_t *panel, const uint8_t *x, const uint64_t x_stride,
                        const uint32_t cols, const int add, const uint32_t n_tokens)
{
    uint32_t t = 0;
    for (; GEMM_TOKENS > FEW_TOKENS && t + GEMM_TOKENS <= n_tokens; t += GEMM_TOKENS)
        float_tile(y + (uint64_t)t * y_stride, y_stride, panel, x + t * x_stride, x_stride, cols, add, GEMM_TOKENS, GEMM_TOKENS,
                   GEMM_GROUPS);
    for (; t < n_tokens; t += FEW_TOKENS)
        float_tile(y + (uint64_t)t * y_stride, y_stride, panel, x + t * x_stride, x_stride, cols, add, n_tokens - t, FEW_TOKENS,
                   GEMM_GROUPS);
}
/* Column `column` (0 to 3) of a code vector as integers; bits as in dot(). */
DEVICE vi code_column(vi codes, const uint32_t column, const uint32_t bits)
{
    if (bits == 8 && !DOT_FLIP) return vi_sar(vi_shl(codes, 24 - 8 * column), 24);
    return vi_and(vi_shr(codes, 8 * column), vi_set1(255));
}
#endif
