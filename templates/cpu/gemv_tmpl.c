/* gemv_tmpl.c -- one token (decode): y = W x, and one row of W.  Included once per format with FORMAT defined, after
 * formats/FORMAT.h.  Contract: docs/kernels.md.  The packed weights stream through registers once, at the speed of the memory. */
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
/* `groups` groups, up to FEW_TOKENS tokens (n of them are there), straight from the packed weights;
 * several sums per token hide the latency of the multiply-add. */
DEVICE void F(stream)(float *y, const uint32_t y_stride, const uint8_t *p, const uint8_t *x, const uint32_t cols, const uint32_t n,
                      const uint32_t tokens, const uint32_t groups)
{
    enum { CHAINS = 8, BYTES = 16 * F(ELEMENT_BYTES) };
    const uint32_t chains = CHAINS / (tokens * groups);
    const uint64_t group_bytes = F(group_bytes)(cols);
    const uint8_t *const end = p + group_bytes;
    struct tile_rows rows = tile_rows_of(x, XF_STRIDE((uint64_t)cols), n, tokens);
    vf sum[CHAINS];
    UNROLL for (uint32_t i = 0; i < CHAINS; i++) sum[i] = vf_set1(0);
    uint32_t c = 0;
    for (; c + chains <= cols; c += chains) {
        const uint8_t *const next = ahead(p, GEMV_AHEAD, end, (groups - 1) * group_bytes);
        UNROLL for (uint32_t i = 0; i < chains; i++)
            UNROLL for (uint32_t g = 0; g < groups; g++) {
                const uint64_t at = i * BYTES + g * group_bytes;
                const vf weight = F(weight)(p + at);
                if (FROM_MEMORY && tokens == 1 && i * BYTES % 64 == 0) prefetch(next + at, BYTES);
                UNROLL for (uint32_t t = 0; t < tokens; t++) {
                    const uint32_t k = (i * groups + g) * tokens + t;
                    sum[k] = vf_fma(weight, vf_set1(f32_at(tile_row(&rows, t, tokens) + 4 * i)), sum[k]);
                }
            }
        p += chains * BYTES;
        tile_rows_next(&rows, 4 * chains, tokens);
    }
    for (; c < cols; c++) {
        UNROLL for (uint32_t g = 0; g < groups; g++) {
            const vf weight = F(weight)(p + g * group_bytes);
            UNROLL for (uint32_t t = 0; t < tokens; t++) {
                const uint32_t k = g * tokens + t;
                sum[k] = vf_fma(weight, vf_set1(f32_at(tile_row(&rows, t, tokens))), sum[k]);
            }
        }
        p += BYTES;
        tile_rows_next(&rows, 4, tokens);
    }
    UNROLL for (uint32_t g = 0; g < groups; g++) {
        vf one[FEW_TOKENS];
        UNROLL for (uint32_t t = 0; t < tokens; t++) {
            one[t] = sum[g * tokens + t];
            UNROLL for (uint32_t i = 1; i < chains; i++) one[t] = vf_add(one[t], sum[(i * groups + g) * tokens + t]);
        }
        tile_store(y + 16 * g, y_stride, one, 0, n, tokens, 1);
    }
}
SHARED void F(gemv_groups)(float *y, const uint8_t *p, const void *x, uint32_t n_rows, uint32_t cols)
{
    enum { GROUPS = GEMV_GROUPS };
    uint32_t r = 0;
    for (; r + 16 * GROUPS <= n_rows; r += 16 * GROUPS, p += GROUPS * F(group_bytes)(cols)) F(stream)(y + r, 0, p, x, cols, 1, 1, GROUPS);
    for (; r < n_rows; r += 16, p += F(group_bytes)(cols)) F(stream)(y + r, 0, p, x, cols, 1, 1, 1);
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

#define BLOCKS (F(BLOCK) / 32)                               /* times 32 columns that share a piece of scales */
#if F(IS_SUPER)
/* The scale of a block, or its minimum: what the small scales are multiplied with. */
DEVICE vf F(super)(const uint8_t *s) { return vf_mul(vf_load_f16(s), vf_set1(1.0f / F(DIVIDE))); }
#endif
/* The codes of the i-th 32 columns of a block; s_small: what factors() made of its scales. */
DEVICE void F(codes_at)(vi c[8], const uint8_t *p, const int8_t *s_small, const uint32_t i)
{
    F(codes)(c, p);
#if F(IS_SUPER) == 2
    F(shift)(c, s_small + 512 / F(SUB) * i);
#else
    (void)s_small; (void)i;
#endif
}
/* Scales (and minimums) of the i-th 32 columns of the block whose scales are at s; s_small: what factors() made of them. */
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

/* `groups` groups, up to FEW_TOKENS tokens (n of them are there), straight from the packed weights. */
DEVICE void F(stream)(float *y, const uint32_t y_stride, const uint8_t *p, const uint8_t *x, const uint32_t cols, const uint32_t n,
                      const uint32_t tokens, const uint32_t groups)
{
    enum { CHUNK = 16, TOKENS = FEW_TOKENS, GROUPS = GEMV_GROUPS };          /* blocks prepared at once */
    const struct code_format f = F(code);
    const uint32_t subs = 32 / F(SUB);
    const int ask = tokens == 1 && (FROM_MEMORY || F(CODE_BYTES) < 512);     /* in cache, few instructions per byte lose by it */
    const uint64_t group_bytes = F(group_bytes)(cols), x_stride = XQ_STRIDE((uint64_t)cols);
    const uint8_t *s = F(group_scales)(p, cols);
    const uint8_t *const end = p + group_bytes;
    const uint64_t scale_bytes = group_bytes - (uint64_t)(s - p);
    struct tile_rows rows = tile_rows_of(x, x_stride, n, tokens);
    vf sum[TOKENS * GROUPS];
    UNROLL for (uint32_t i = 0; i < tokens * groups; i++) sum[i] = vf_set1(0);
    for (uint32_t b0 = 0; b0 < cols / 32; b0 += CHUNK) {
        const uint32_t count = cols / 32 - b0 < CHUNK ? cols / 32 - b0 : CHUNK;
        _Alignas(64) float d[TOKENS * CHUNK], ds[TOKENS * CHUNK * 2];
        _Alignas(64) int32_t start[TOKENS * CHUNK * 2];
        UNROLL for (uint32_t t = 0; t < tokens; t++)
            tile_prepare(d + t * CHUNK, start + t * CHUNK * subs, ds + t * CHUNK * subs, x + (t < n ? t : n - 1) * x_stride, cols, b0, 1,
                         f);
#if F(IS_SUPER)
        for (uint32_t b = 0; b < count; s += F(SCALE_BYTES)) {
            _Alignas(64) int8_t room[GROUPS * 512];
            const int8_t *small[GROUPS];
            UNROLL for (uint32_t g = 0; g < groups; g++) {
                small[g] = F(factors)(room + 512 * g, s + g * group_bytes);
                if (ask) prefetch(ahead(s, GEMV_AHEAD_SCALES, end, groups * group_bytes - scale_bytes) + g * group_bytes, F(SCALE_BYTES));
            }
            vf part[TOKENS * GROUPS], least[TOKENS * GROUPS];                /* before d and dmin */
            UNROLL for (uint32_t i = 0; i < tokens * groups; i++) part[i] = least[i] = vf_set1(0);
            for (const uint32_t next = b + BLOCKS; b < next; b++, p += F(CODE_BYTES)) {
                vi codes[8 * GROUPS];
                vf scale[2 * GROUPS], min[2 * GROUPS];
                UNROLL for (uint32_t g = 0; g < groups; g++) {
                    vi c[8];
                    F(codes_at)(c, p + g * group_bytes, small[g], 0);
                    if (ask) prefetch(ahead(p, GEMV_AHEAD, end, (groups - 1) * group_bytes) + g * group_bytes, F(CODE_BYTES));
                    UNROLL for (uint32_t i = 0; i < 8; i++) codes[i * groups + g] = c[i];
                    UNROLL for (uint32_t j = 0; j < subs; j++) {
                        scale[j * groups + g] = vf_from_vi(vi_load_i8(small[g] + 16 * j));
                        if (F(HAS_MIN)) min[j * groups + g] = vf_from_vi(vi_load_i8(small[g] + F(BLOCK) / F(SUB) * 16 + 16 * j));
                    }
                    small[g] += 16 * subs;
                }
                block_dot(part, least, codes, scale, min, &rows, d + b, start + b * subs, ds + b * subs, CHUNK, tokens, groups, f);
                tile_rows_next(&rows, 32, tokens);
            }
            UNROLL for (uint32_t g = 0; g < groups; g++) {
                const vf super = F(super)(s + g * group_bytes), super_min = F(HAS_MIN) ? F(super)(s + g * group_bytes + 32) : super;
                UNROLL for (uint32_t i = g; i < tokens * groups; i += groups) {
                    sum[i] = vf_fma(super, part[i], sum[i]);
                    if (F(HAS_MIN)) sum[i] = vf_sub(sum[i], vf_mul(super_min, least[i]));
                }
            }
        }
#else
        for (uint32_t b = 0; b < count; b++, p += F(CODE_BYTES), s += F(SCALE_BYTES)) {
            vi codes[8 * GROUPS];
            vf scale[2 * GROUPS], min[2 * GROUPS];
            UNROLL for (uint32_t g = 0; g < groups; g++) {
                vi c[8];
                vf one[2], one_min[2];
                F(codes)(c, p + g * group_bytes);
                if (ask) prefetch(ahead(p, GEMV_AHEAD, end, (groups - 1) * group_bytes) + g * group_bytes, F(CODE_BYTES));
                UNROLL for (uint32_t i = 0; i < 8; i++) codes[i * groups + g] = c[i];
                F(scales)(one, one_min, s + g * group_bytes);
                UNROLL for (uint32_t j = 0; j < subs; j++) {
                    scale[j * groups + g] = one[j];
                    if (F(HAS_MIN)) min[j * groups + g] = one_min[j];
                }
                if (ask && b % 2 == 0) prefetch(ahead(s, GEMV_AHEAD_SCALES, end, groups * group_bytes - scale_bytes) + g * group_bytes, 64);
            }
            block_dot(sum, sum, codes, scale, min, &rows, d + b, start + b * subs, ds + b * subs, CHUNK, tokens, groups, f);
            tile_rows_next(&rows, 32, tokens);
        }
#endif
    }
    UNROLL for (uint32_t g = 0; g < groups; g++) {
        vf one[TOKENS];
        UNROLL for (uint32_t t = 0; t < tokens; t++) one[t] = sum[t * groups + g];
        tile_store(y + 16 * g, y_stride, one, 0, n, tokens, 1);
    }
}
SHARED void F(gemv_groups)(float *y, const uint8_t *p, const void *x, uint32_t n_rows, uint32_t cols)
{
    /* In cache whole bytes keep L2 busy by themselves, best as one stream. */
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
/* What decode() of block b wants to know of the scales: s, s_small. */
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
