/* gemv_tmpl.c -- products of one token (decode): y = W x, and one row of W.  Included once per format with FORMAT defined, after
 * formats/FORMAT.h.  Contract: docs/kernels.md.  The packed weights stream through registers once, at the speed of memory. */
#ifndef FORMAT                      /* alone: for editors, linters and tests */
#define FORMAT q8_0
#include "formats/q8_0.h"
#endif
#include "matmul.h"

#define F(name) PASTE2(name, FORMAT)

#if F(IS_FLOAT)
DEVICE uint64_t F(group_bytes)(uint32_t cols)                 { return ROUND_UP_64((uint64_t)cols * 16 * F(ELEMENT_BYTES)); }
#else
DEVICE uint64_t F(group_bytes)(uint32_t cols)
{
    return ROUND_UP_64((uint64_t)(cols / 32) * F(CODE_BYTES) + (uint64_t)(cols / F(BLOCK)) * F(SCALE_BYTES));
}
DEVICE const uint8_t *F(group_scales)(const uint8_t *group, uint32_t cols) { return group + (uint64_t)(cols / 32) * F(CODE_BYTES); }
#endif
DEVICE uint64_t F(packed_bytes)(uint32_t rows, uint32_t cols) { return (uint64_t)((rows + 15) / 16) * F(group_bytes)(cols); }

#if F(IS_FLOAT)
/* One token and `groups` groups, directly from the packed weights; several sums hide the latency of FMA. */
DEVICE void F(stream)(float *y, const uint8_t *p, const uint8_t *x, const uint32_t cols, const uint32_t groups)
{
    enum { CHAINS = 8, BYTES = 16 * F(ELEMENT_BYTES) };
    const uint32_t chains = CHAINS / groups;
    const uint64_t group_bytes = F(group_bytes)(cols);
    const uint8_t *const end = p + group_bytes;
    vf sum[CHAINS];
    UNROLL for (uint32_t i = 0; i < CHAINS; i++) sum[i] = vf_set1(0);
    uint32_t c = 0;
    for (; c + chains <= cols; c += chains, p += chains * BYTES) {
        const uint8_t *const next = ahead(p, GEMV_AHEAD, end, (groups - 1) * group_bytes);
        UNROLL for (uint32_t i = 0; i < chains; i++)
            UNROLL for (uint32_t g = 0; g < groups; g++) {
                const uint64_t at = i * BYTES + g * group_bytes;
                if (FROM_MEMORY && i * BYTES % 64 == 0) prefetch(next + at, BYTES);
                sum[i * groups + g] = vf_fma(F(weight)(p + at), vf_set1(f32_at(x + 4 * (uint64_t)(c + i))), sum[i * groups + g]);
            }
    }
    for (; c < cols; c++, p += BYTES)
        UNROLL for (uint32_t g = 0; g < groups; g++)
            sum[g] = vf_fma(F(weight)(p + g * group_bytes), vf_set1(f32_at(x + 4 * (uint64_t)c)), sum[g]);
    UNROLL for (uint32_t g = 0; g < groups; g++) {
        UNROLL for (uint32_t i = 1; i < chains; i++) sum[g] = vf_add(sum[g], sum[i * groups + g]);
        vf_store(y + 16 * g, sum[g]);
    }
}
/* total[token] += n columns from here on and, if `chains` is 2, the n columns that begin APART further.  Each range is summed from zero. */
DEVICE void F(few_columns)(vf *total, const int add, const uint8_t *p, struct tile_rows *rows, const uint32_t n, const uint32_t chains)
{
    enum { BYTES = 16 * F(ELEMENT_BYTES), APART = GEMM_FLOAT_CHAIN };
    vf sum[2 * FEW_TOKENS];
    UNROLL for (uint32_t i = 0; i < chains * FEW_TOKENS; i++) sum[i] = vf_set1(0);
    for (uint32_t c = 0; c < n; c++, p += BYTES) {
        UNROLL for (uint32_t i = 0; i < chains; i++) {
            const vf weight = F(weight)(p + i * APART * BYTES);
            UNROLL for (uint32_t t = 0; t < FEW_TOKENS; t++)
                sum[i * FEW_TOKENS + t] = vf_fma(weight, vf_set1(f32_at(tile_row(rows, t, FEW_TOKENS) + 4 * i * APART)),
                                                 sum[i * FEW_TOKENS + t]);
        }
        tile_rows_next(rows, 4, FEW_TOKENS);
    }
    if (chains > 1) tile_rows_next(rows, 4 * APART, FEW_TOKENS);
    UNROLL for (uint32_t t = 0; t < FEW_TOKENS; t++) {
        total[t] = add ? vf_add(total[t], sum[t]) : sum[t];
        if (chains > 1) total[t] = vf_add(total[t], sum[FEW_TOKENS + t]);
    }
}
/* One group and up to FEW_TOKENS tokens, of which n exist, directly from the packed weights.  The order of sums is that of a panel's tiles,
 * so a token gets the same bits whatever the number of tokens. */
DEVICE void F(stream_few)(float *y, const uint32_t y_stride, const uint8_t *p, const uint8_t *x, const uint32_t cols, const uint32_t n)
{
    enum { BYTES = 16 * F(ELEMENT_BYTES), RANGE = GEMM_FLOAT_CHAIN };
    struct tile_rows rows = tile_rows_of(x, XF_STRIDE((uint64_t)cols), n, FEW_TOKENS);
    vf total[FEW_TOKENS];
    UNROLL for (uint32_t t = 0; t < FEW_TOKENS; t++) total[t] = vf_set1(0);
    uint32_t c = 0;
    for (; c + 2 * RANGE <= cols; c += 2 * RANGE) F(few_columns)(total, c > 0, p + (uint64_t)c * BYTES, &rows, RANGE, 2);
    for (; c < cols; c += RANGE) F(few_columns)(total, c > 0, p + (uint64_t)c * BYTES, &rows, cols - c < RANGE ? cols - c : RANGE, 1);
    tile_store(y, y_stride, total, 0, n, FEW_TOKENS, 1);
}
SHARED void F(gemv_groups)(float *y, const uint8_t *p, const void *x, uint32_t n_rows, uint32_t cols)
{
    enum { GROUPS = GEMV_GROUPS };
    uint32_t r = 0;
    for (; r + 16 * GROUPS <= n_rows; r += 16 * GROUPS, p += GROUPS * F(group_bytes)(cols)) F(stream)(y + r, p, x, cols, GROUPS);
    for (; r < n_rows; r += 16, p += F(group_bytes)(cols)) F(stream)(y + r, p, x, cols, 1);
}
DEVICE void F(gemv)(float *y, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols)
{
    F(gemv_groups)(y, w + first_row / 16 * F(group_bytes)(cols), x, n_rows, cols);
}
DEVICE void F(gemv_exact)(float *y, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols)
{
    F(gemv)(y, w, x, first_row, n_rows, cols);
}
DEVICE void F(row)(float *out, const uint8_t *w, uint32_t row, uint32_t cols)
{
    const uint8_t *p = w + row / 16 * F(group_bytes)(cols);
    for (uint32_t c = 0; c < cols; c++) {
        float v[16];
        vf_store(v, F(weight)(p + (uint64_t)c * 16 * F(ELEMENT_BYTES)));
        out[c] = v[row % 16];
    }
}
#else
static const struct code_format F(code) = { F(SUB), F(BITS), F(OFFSET), F(HAS_MIN) };

#define BLOCKS (F(BLOCK) / 32)                               /* groups of 32 columns per block of scales */
#if F(IS_SUPER)
/* The block's scale or minimum, which multiplies the sub-block scales. */
DEVICE vf F(super)(const uint8_t *s) { return vf_mul(vf_load_f16(s), vf_set1(1.0f / F(DIVIDE))); }
#endif
/* The codes of the i-th 32 columns of a block; s_small: the result of factors() for the block. */
DEVICE void F(codes_at)(vi c[8], const uint8_t *p, const int8_t *s_small, const uint32_t i)
{
    F(codes)(c, p);
#if F(IS_SUPER) == 2
    F(shift)(c, s_small + 512 / F(SUB) * i);
#else
    (void)s_small; (void)i;
#endif
}
/* Scales and minimums of the i-th 32 columns of the block with scales at s; s_small: the result of factors() for the block. */
DEVICE void F(scales_at)(vf *scale, vf *min, const uint8_t *s, const int8_t *s_small, const uint32_t i)
{
#if F(IS_SUPER)
    const uint32_t subs = 32 / F(SUB), n = F(BLOCK) / F(SUB);
    UNROLL for (uint32_t j = 0; j < subs; j++) {
        scale[j] = vf_mul(F(super)(s), vf_from_vi(vi_load_i8(s_small + 16 * (subs * i + j))));
        if (F(HAS_MIN))
            min[j] = vf_sub(vf_set1(-0.0f), vf_mul(F(super)(s + 32), vf_from_vi(vi_load_i8(s_small + 16 * (n + subs * i + j)))));
    }
#else
    (void)s_small; (void)i;
    F(scales)(scale, min, s);
#endif
}

/* `groups` groups and up to FEW_TOKENS tokens, of which n exist, directly from the packed weights.  The order of sums is that of a panel's
 * tiles, so a token gets the same bits whatever the number of tokens. */
DEVICE void F(stream)(float *y, const uint32_t y_stride, const uint8_t *p, const uint8_t *x, const uint32_t cols, const uint32_t n,
                      const uint32_t tokens, const uint32_t groups)
{
    enum { CHUNK = GEMM_COLS / 32, TOKENS = FEW_TOKENS, GROUPS = GEMV_GROUPS };      /* blocks prepared at once */
    const struct code_format f = F(code);
    const uint32_t subs = 32 / F(SUB);
    const int ask = tokens == 1 && (FROM_MEMORY || F(CODE_BYTES) < 512);     /* in cache, prefetches slow 8-bit codes down */
    const uint64_t group_bytes = F(group_bytes)(cols), x_stride = XQ_STRIDE((uint64_t)cols);
    const uint8_t *s = F(group_scales)(p, cols);
    const uint8_t *const end = p + group_bytes;
    const uint64_t scale_bytes = group_bytes - (uint64_t)(s - p);
    struct tile_rows rows = tile_rows_of(x, x_stride, n, tokens);
    vf total[TOKENS * GROUPS];
    for (uint32_t b0 = 0; b0 < cols / 32; b0 += CHUNK) {
        const uint32_t count = cols / 32 - b0 < CHUNK ? cols / 32 - b0 : CHUNK;
        _Alignas(64) float d[TOKENS * CHUNK], ds[TOKENS * CHUNK * 2];
        _Alignas(64) int32_t start[TOKENS * CHUNK * 2];
        vf sum[TOKENS * GROUPS];
        UNROLL for (uint32_t i = 0; i < tokens * groups; i++) sum[i] = vf_set1(0);
        UNROLL for (uint32_t t = 0; t < tokens; t++)
            tile_prepare(d + t * CHUNK, start + t * CHUNK * subs, ds + t * CHUNK * subs, x + (t < n ? t : n - 1) * x_stride, cols, b0, 1,
                         f);
        for (uint32_t b = 0; b < count; s += F(SCALE_BYTES)) {
            _Alignas(64) int8_t room[GROUPS * 512];
            const int8_t *small[GROUPS];
            UNROLL for (uint32_t g = 0; g < groups; g++) {
#if F(IS_SUPER)
                small[g] = F(factors)(room + 512 * g, s + g * group_bytes);
                if (ask) prefetch(ahead(s, GEMV_AHEAD_SCALES, end, groups * group_bytes - scale_bytes) + g * group_bytes, F(SCALE_BYTES));
#else
                small[g] = room;
                if (ask && b % 2 == 0) prefetch(ahead(s, GEMV_AHEAD_SCALES, end, groups * group_bytes - scale_bytes) + g * group_bytes, 64);
#endif
            }
            for (const uint32_t next = b + BLOCKS; b < next; b++, p += F(CODE_BYTES)) {
                vi codes[8 * GROUPS];
                vf scale[2 * GROUPS], min[2 * GROUPS];
                UNROLL for (uint32_t g = 0; g < groups; g++) {
                    vi c[8];
                    vf one[2], one_min[2];
                    F(codes_at)(c, p + g * group_bytes, small[g], 0);
                    if (ask) prefetch(ahead(p, GEMV_AHEAD, end, (groups - 1) * group_bytes) + g * group_bytes, F(CODE_BYTES));
                    UNROLL for (uint32_t i = 0; i < 8; i++) codes[i * groups + g] = c[i];
                    F(scales_at)(one, one_min, s + g * group_bytes, small[g], 0);
                    UNROLL for (uint32_t j = 0; j < subs; j++) {
                        scale[j * groups + g] = one[j];
                        if (F(HAS_MIN)) min[j * groups + g] = one_min[j];
                    }
                    small[g] += 16 * subs;
                }
                block_dot(sum, sum, codes, scale, min, &rows, d + b, start + b * subs, ds + b * subs, CHUNK, tokens, groups, f);
                tile_rows_next(&rows, 32, tokens);
            }
        }
        UNROLL for (uint32_t i = 0; i < tokens * groups; i++) total[i] = b0 ? vf_add(total[i], sum[i]) : sum[i];
    }
    UNROLL for (uint32_t g = 0; g < groups; g++) {
        vf one[TOKENS];
        UNROLL for (uint32_t t = 0; t < tokens; t++) one[t] = total[t * groups + g];
        tile_store(y + 16 * g, y_stride, one, 0, n, tokens, 1);
    }
}
SHARED void F(gemv_groups)(float *y, const uint8_t *p, const void *x, uint32_t n_rows, uint32_t cols)
{
    /* If in cache, formats with 8-bit codes keep L2 busy without help, and one stream is fastest. */
    enum { GROUPS = F(CODE_BYTES) < 512 || FROM_MEMORY ? GEMV_GROUPS : 1 };
    uint32_t r = 0;
    for (; r + 16 * GROUPS <= n_rows; r += 16 * GROUPS, p += GROUPS * F(group_bytes)(cols)) F(stream)(y + r, 0, p, x, cols, 1, 1, GROUPS);
    for (; r < n_rows; r += 16, p += F(group_bytes)(cols)) F(stream)(y + r, 0, p, x, cols, 1, 1, 1);
}
DEVICE void F(gemv)(float *y, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols)
{
    F(gemv_groups)(y, w + first_row / 16 * F(group_bytes)(cols), x, n_rows, cols);
}
/* The i-th 32 columns of a block as floats [32][16 rows], columns `stride` vectors apart; ggml's order of operations. */
DEVICE void F(decode)(vf *out, const uint32_t stride, const uint8_t *p, const uint8_t *s, const int8_t *s_small, const uint32_t i)
{
    vi codes[8];
    vf scale[2], min[2];
    F(codes_at)(codes, p, s_small, i);
    F(scales_at)(scale, min, s, s_small, i);
    UNROLL for (uint32_t c = 0; c < 32; c++) {
        const vi code = vi_sub(code_column(codes[c / 4], c % 4, F(BITS)), vi_set1(F(OFFSET)));
        const vf v = vf_mul(vf_from_vi(code), scale[c / F(SUB)]);
        out[c * stride] = F(HAS_MIN) ? vf_add(v, min[c / F(SUB)]) : v;
    }
}
/* Returns s and sets *s_small, the scales that decode() needs for block b. */
DEVICE const uint8_t *F(scales_of)(const int8_t **s_small, int8_t *room, const uint8_t *scales, const uint32_t b)
{
    const uint8_t *s = scales + b / BLOCKS * F(SCALE_BYTES);
#if F(IS_SUPER)
    if (b % BLOCKS == 0 || !*s_small) *s_small = F(factors)(room, s);
#else
    (void)room; (void)s_small;
#endif
    return s;
}
SHARED void F(gemv_exact_groups)(float *y, const uint8_t *w, const void *x, uint32_t n_rows, uint32_t cols)
{
    for (uint32_t r = 0; r < n_rows; r += 16) {
        const uint8_t *p = w + r / 16 * F(group_bytes)(cols), *scales = F(group_scales)(p, cols), *xs = x;
        _Alignas(64) int8_t room[512];
        const int8_t *s_small = 0;
        vf total = vf_set1(0);
        for (uint32_t b = 0; b < cols / 32; b++, p += F(CODE_BYTES)) {
            vf weight[32], sum[4] = { vf_set1(0), vf_set1(0), vf_set1(0), vf_set1(0) };
            const uint8_t *s = F(scales_of)(&s_small, room, scales, b);
            F(decode)(weight, 1, p, s, s_small, b % BLOCKS);
            UNROLL for (uint32_t c = 0; c < 32; c++)
                sum[c % 4] = vf_fma(weight[c], vf_set1(f32_at(xs + 128 * (uint64_t)b + 4 * c)), sum[c % 4]);
            total = vf_add(total, vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
        }
        vf_store(y + r, total);
    }
}
DEVICE void F(gemv_exact)(float *y, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols)
{
    F(gemv_exact_groups)(y, w + first_row / 16 * F(group_bytes)(cols), x, n_rows, cols);
}
DEVICE void F(row)(float *out, const uint8_t *w, uint32_t row, uint32_t cols)
{
    const uint8_t *p = w + row / 16 * F(group_bytes)(cols), *scales = F(group_scales)(p, cols);
    _Alignas(64) int8_t room[512];
    const int8_t *s_small = 0;
    for (uint32_t b = 0; b < cols / 32; b++, p += F(CODE_BYTES)) {
        vf weight[32];
        float v[32 * 16];
        const uint8_t *s = F(scales_of)(&s_small, room, scales, b);
        F(decode)(weight, 1, p, s, s_small, b % BLOCKS);
        __builtin_memcpy(v, weight, sizeof v);
        for (uint32_t c = 0; c < 32; c++) out[32 * b + c] = v[16 * c + row % 16];
    }
}
#undef BLOCKS
#endif
#undef F
