/* gemm_tmpl.c -- several tokens (prefill): Y = X W^T.  Included once per format with FORMAT defined, after gemv_tmpl.c for
 * the same format.  Contract: docs/kernels.md.  A panel of rows is decoded once for all tokens, then multiplied by register tiles. */
#ifndef FORMAT
#include "gemv_tmpl.c"
#endif
#include "matmul.h"

#define F(name) PASTE2(name, FORMAT)

#if F(IS_FLOAT)
DEVICE void F(gemm)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row, uint32_t n_rows, uint32_t cols,
                    uint8_t *scratch)
{
    if (n_tokens == 1) { F(gemv_tokens)(y, y_stride, w, x, XF_STRIDE(cols), first_row, n_rows, cols, 1); return; }
    if (n_tokens == 2) { F(gemv_tokens)(y, y_stride, w, x, XF_STRIDE(cols), first_row, n_rows, cols, 2); return; }
    for (uint32_t r = 0, groups; r < n_rows; r += 16 * groups) {
        const uint8_t *p = w + (first_row + r) / 16 * F(group_bytes)(cols);
        groups = (n_rows - r) / 16 < GEMM_GROUPS ? 1 : GEMM_GROUPS;
        for (uint32_t c0 = 0; c0 < cols; c0 += GEMM_FLOAT_COLS) {
            const uint32_t n = cols - c0 < GEMM_FLOAT_COLS ? cols - c0 : GEMM_FLOAT_COLS;
            for (uint32_t g = 0; g < groups; g++)
                for (uint32_t c = 0; c < n; c++) {
                    const vf v = F(weight)(p + g * F(group_bytes)(cols) + (uint64_t)(c0 + c) * 16 * F(ELEMENT_BYTES));
                    __builtin_memcpy(scratch + 64 * ((uint64_t)c * groups + g), &v, 64);
                }
            const uint8_t *xs = (const uint8_t *)x + 4 * (uint64_t)c0;
            if (groups == GEMM_GROUPS) float_tiles(y + r, y_stride, scratch, xs, XF_STRIDE(cols), n, c0 > 0, n_tokens, GEMM_GROUPS);
            else                       float_tiles(y + r, y_stride, scratch, xs, XF_STRIDE(cols), n, c0 > 0, n_tokens, 1);
        }
    }
}
DEVICE void F(gemm_exact)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row, uint32_t n_rows, uint32_t cols,
                          uint8_t *scratch)
{
    F(gemm)(y, y_stride, w, x, n_tokens, first_row, n_rows, cols, scratch);
}
#else
DEVICE void F(gemm_exact)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row, uint32_t n_rows, uint32_t cols,
                          uint8_t *scratch)
{
    for (uint32_t r = 0, groups; r < n_rows; r += 16 * groups) {
        const uint8_t *p = w + (first_row + r) / 16 * F(group_bytes)(cols);
        groups = (n_rows - r) / 16 < GEMM_GROUPS ? 1 : GEMM_GROUPS;
        for (uint32_t c0 = 0; c0 < cols; c0 += GEMM_FLOAT_COLS) {
            const uint32_t n = cols - c0 < GEMM_FLOAT_COLS ? cols - c0 : GEMM_FLOAT_COLS;
            for (uint32_t g = 0; g < groups; g++) {
                const uint8_t *group = p + g * F(group_bytes)(cols), *scales = F(group_scales)(group, cols);
                for (uint32_t b = c0 / 32; b < (c0 + n) / 32; b++)
                    F(decode)((vf *)(void *)(scratch + 64 * ((uint64_t)(32 * b - c0) * groups + g)), groups, group + (uint64_t)b * F(CODE_BYTES),
                              scales + b / (F(BLOCK) / 32) * F(SCALE_BYTES), b % (F(BLOCK) / 32));
            }
            const uint8_t *xs = (const uint8_t *)x + 4 * (uint64_t)c0;
            if (groups == GEMM_GROUPS) float_tiles(y + r, y_stride, scratch, xs, XF_STRIDE(cols), n, c0 > 0, n_tokens, GEMM_GROUPS);
            else                       float_tiles(y + r, y_stride, scratch, xs, XF_STRIDE(cols), n, c0 > 0, n_tokens, 1);
        }
    }
}
/* Decodes blocks b0 .. b0 + n - 1 of group g of a panel. */
DEVICE void F(panel)(uint8_t *panel, const uint8_t *group, const uint32_t cols, const uint32_t b0, const uint32_t n, const uint32_t g, const uint32_t groups)
{
    const struct code_format f = { F(SUB), F(BITS), F(OFFSET), F(HAS_MIN) };
    const uint32_t subs = 32 / f.sub;
    const uint8_t *p = group + (uint64_t)b0 * F(CODE_BYTES), *s = F(group_scales)(group, cols) + b0 / (F(BLOCK) / 32) * F(SCALE_BYTES);
    for (uint32_t b = 0; b < n; b += F(BLOCK) / 32, s += F(SCALE_BYTES))
        UNROLL for (uint32_t i = 0; i < F(BLOCK) / 32; i++, p += F(CODE_BYTES), panel += PANEL_BYTES(groups, f)) {
            vi codes[8];
            vf scale[2], min[2];
            F(codes)(codes, p);
            F(scales)(scale, min, s, i);
            UNROLL for (uint32_t k = 0; k < 8; k++) __builtin_memcpy(panel + 64 * (k * groups + g), &codes[k], 64);
            UNROLL for (uint32_t j = 0; j < subs; j++) __builtin_memcpy(panel + 64 * ((8 + j) * groups + g), &scale[j], 64);
            if (f.has_min) UNROLL for (uint32_t j = 0; j < subs; j++) __builtin_memcpy(panel + 64 * ((8 + subs + j) * groups + g), &min[j], 64);
        }
}
DEVICE void F(int_tiles)(float *y, const uint32_t y_stride, const uint8_t *panel, const uint8_t *x, const uint32_t b0, const uint32_t n, const uint32_t cols,
                         const uint32_t n_tokens, const uint32_t groups)
{
    const struct code_format f = { F(SUB), F(BITS), F(OFFSET), F(HAS_MIN) };
    uint32_t t = 0;
    for (; t + GEMM_TOKENS <= n_tokens; t += GEMM_TOKENS)
        int_tile(y + (uint64_t)t * y_stride, y_stride, panel, x + (uint64_t)t * XQ_STRIDE(cols), b0, n, cols, GEMM_TOKENS, groups, f);
    if (GEMM_TOKENS > 4)
        for (; t + 4 <= n_tokens; t += 4)
            int_tile(y + (uint64_t)t * y_stride, y_stride, panel, x + (uint64_t)t * XQ_STRIDE(cols), b0, n, cols, 4, groups, f);
    for (; t < n_tokens; t++)
        int_tile(y + (uint64_t)t * y_stride, y_stride, panel, x + (uint64_t)t * XQ_STRIDE(cols), b0, n, cols, 1, groups, f);
}
DEVICE void F(gemm)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row, uint32_t n_rows, uint32_t cols,
                    uint8_t *scratch)
{
    if (n_tokens == 1) { F(gemv_tokens)(y, y_stride, w, x, first_row, n_rows, cols, 1); return; }
    if (n_tokens == 2) { F(gemv_tokens)(y, y_stride, w, x, first_row, n_rows, cols, 2); return; }
    for (uint32_t r = 0, groups; r < n_rows; r += 16 * groups) {
        const uint8_t *p = w + (first_row + r) / 16 * F(group_bytes)(cols);
        groups = (n_rows - r) / 16 < GEMM_GROUPS ? 1 : GEMM_GROUPS;
        for (uint32_t b0 = 0; b0 < cols / 32; b0 += GEMM_COLS / 32) {
            const uint32_t n = cols / 32 - b0 < GEMM_COLS / 32 ? cols / 32 - b0 : GEMM_COLS / 32;
            if (groups == GEMM_GROUPS) {
                for (uint32_t g = 0; g < GEMM_GROUPS; g++) F(panel)(scratch, p + g * F(group_bytes)(cols), cols, b0, n, g, GEMM_GROUPS);
                F(int_tiles)(y + r, y_stride, scratch, x, b0, n, cols, n_tokens, GEMM_GROUPS);
            } else {
                F(panel)(scratch, p, cols, b0, n, 0, 1);
                F(int_tiles)(y + r, y_stride, scratch, x, b0, n, cols, n_tokens, 1);
            }
        }
    }
}
#endif
#undef F
