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
DEVICE uint64_t F(group_bytes)(uint32_t cols)                 { return ROUND_UP_64((uint64_t)(cols / 32) * F(CODE_BYTES) + (uint64_t)(cols / F(BLOCK)) * F(SCALE_BYTES)); }
DEVICE const uint8_t *F(group_scales)(const uint8_t *group, uint32_t cols) { return group + (uint64_t)(cols / 32) * F(CODE_BYTES); }
#endif
DEVICE uint64_t F(packed_bytes)(uint32_t rows, uint32_t cols) { return (uint64_t)((rows + 15) / 16) * F(group_bytes)(cols); }

#if F(IS_FLOAT)
/* Up to 4 tokens, straight from the packed weights; `chains` sums per token hide the latency of the multiply-add. */
DEVICE void F(gemv_tokens)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t x_stride, uint32_t first_row, uint32_t n_rows, uint32_t cols,
                           const uint32_t tokens)
{
    enum { CHAINS = 8 };
    const uint32_t chains = CHAINS / tokens;
    for (uint32_t r = 0; r < n_rows; r += 16) {
        const uint8_t *p = w + (first_row + r) / 16 * F(group_bytes)(cols), *xs = x;
        vf sum[CHAINS];
        UNROLL for (uint32_t i = 0; i < CHAINS; i++) sum[i] = vf_set1(0);
        uint32_t c = 0;
        for (; c + chains <= cols; c += chains)
            UNROLL for (uint32_t i = 0; i < chains; i++) {
                const vf weight = F(weight)(p + (uint64_t)(c + i) * 16 * F(ELEMENT_BYTES));
                UNROLL for (uint32_t t = 0; t < tokens; t++)
                    sum[i * tokens + t] = vf_fma(weight, vf_set1(f32_at(xs + (uint64_t)t * x_stride + 4 * (c + i))), sum[i * tokens + t]);
            }
        for (; c < cols; c++) {
            const vf weight = F(weight)(p + (uint64_t)c * 16 * F(ELEMENT_BYTES));
            UNROLL for (uint32_t t = 0; t < tokens; t++) sum[t] = vf_fma(weight, vf_set1(f32_at(xs + (uint64_t)t * x_stride + 4 * c)), sum[t]);
        }
        UNROLL for (uint32_t t = 0; t < tokens; t++) {
            vf total = sum[t];
            UNROLL for (uint32_t i = 1; i < chains; i++) total = vf_add(total, sum[i * tokens + t]);
            vf_store(y + (uint64_t)t * y_stride + r, total);
        }
    }
}
DEVICE void F(gemv)(float *y, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols)
{
    F(gemv_tokens)(y, 0, w, x, 0, first_row, n_rows, cols, 1);
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
/* Up to 4 tokens, straight from the packed weights. */
DEVICE void F(gemv_tokens)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols, const uint32_t tokens)
{
    const struct code_format f = { F(SUB), F(BITS), F(OFFSET), F(HAS_MIN) };
    for (uint32_t r = 0; r < n_rows; r += 16) {
        const uint8_t *p = w + (first_row + r) / 16 * F(group_bytes)(cols), *s = F(group_scales)(p, cols);
        vf sum[4];
        UNROLL for (uint32_t t = 0; t < tokens; t++) sum[t] = vf_set1(0);
        for (uint32_t b = 0; b < cols / 32; b += F(BLOCK) / 32, s += F(SCALE_BYTES))
            UNROLL for (uint32_t i = 0; i < F(BLOCK) / 32; i++, p += F(CODE_BYTES)) {
                vi codes[8];
                vf scale[2], min[2];
                F(codes)(codes, p);
                F(scales)(scale, min, s, i);
                block_dot(sum, codes, scale, min, x, b + i, cols, tokens, 1, f);
            }
        UNROLL for (uint32_t t = 0; t < tokens; t++) vf_store(y + (uint64_t)t * y_stride + r, sum[t]);
    }
}
DEVICE void F(gemv)(float *y, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols)
{
    F(gemv_tokens)(y, 0, w, x, first_row, n_rows, cols, 1);
}
/* The i-th 32 columns of a block as floats [32][16 rows], columns `stride` vectors apart; ggml's order of operations. */
DEVICE void F(decode)(vf *out, const uint32_t stride, const uint8_t *p, const uint8_t *s, const uint32_t i)
{
    vi codes[8];
    vf scale[2], min[2];
    F(codes)(codes, p);
    F(scales)(scale, min, s, i);
    UNROLL for (uint32_t c = 0; c < 32; c++) {
        const vi code = vi_sub(code_column(codes[c / 4], c % 4, F(BITS)), vi_set1(F(OFFSET)));
        const vf v = vf_mul(vf_from_vi(code), scale[c / F(SUB)]);
        out[c * stride] = F(HAS_MIN) ? vf_add(v, min[c / F(SUB)]) : v;
    }
}
DEVICE void F(gemv_exact)(float *y, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols)
{
    for (uint32_t r = 0; r < n_rows; r += 16) {
        const uint8_t *p = w + (first_row + r) / 16 * F(group_bytes)(cols), *s = F(group_scales)(p, cols), *xs = x;
        vf total = vf_set1(0);
        for (uint32_t b = 0; b < cols / 32; b++, p += F(CODE_BYTES)) {
            vf weight[32], sum[4] = { vf_set1(0), vf_set1(0), vf_set1(0), vf_set1(0) };
            F(decode)(weight, 1, p, s + b / (F(BLOCK) / 32) * F(SCALE_BYTES), b % (F(BLOCK) / 32));
            UNROLL for (uint32_t c = 0; c < 32; c++) sum[c % 4] = vf_fma(weight[c], vf_set1(f32_at(xs + 128 * (uint64_t)b + 4 * c)), sum[c % 4]);
            total = vf_add(total, vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
        }
        vf_store(y + r, total);
    }
}
DEVICE void F(row)(float *out, const uint8_t *w, uint32_t row, uint32_t cols)
{
    const uint8_t *p = w + row / 16 * F(group_bytes)(cols), *s = F(group_scales)(p, cols);
    for (uint32_t b = 0; b < cols / 32; b++, p += F(CODE_BYTES)) {
        vf weight[32];
        float v[32 * 16];
        F(decode)(weight, 1, p, s + b / (F(BLOCK) / 32) * F(SCALE_BYTES), b % (F(BLOCK) / 32));
        __builtin_memcpy(v, weight, sizeof v);
        for (uint32_t c = 0; c < 32; c++) out[32 * b + c] = v[16 * c + row % 16];
    }
}
#endif
#undef F
