/* gemm_tmpl.c -- products of several tokens (prefill): Y = X W^T.  Included once per format with FORMAT defined, after gemv_tmpl.c for
 * the same format.  Contract: docs/kernels.md.  A panel of rows is decoded once for all tokens, then multiplied by register tiles. */
#ifndef FORMAT
#include "gemv_tmpl.c"
#endif
#include "int_tiles.h"

#define F(name) PASTE2(name, FORMAT)

#if F(IS_FLOAT)
/* Without a panel, for few tokens or for groups that do not fill a panel. */
SHARED void F(gemm_direct)(float *y, uint32_t y_stride, const uint8_t *p, const uint8_t *x, uint32_t n_tokens, uint32_t n_rows,
                           uint32_t cols)
{
    for (uint32_t r = 0; r < n_rows; r += 16, p += F(group_bytes)(cols))
        for (uint32_t t = 0; t < n_tokens; t += FEW_TOKENS)
            F(stream_few)(y + (uint64_t)t * y_stride + r, y_stride, p, x + t * XF_STRIDE((uint64_t)cols), cols, n_tokens - t);
}
SHARED void F(gemm_groups)(float *y, uint32_t y_stride, const uint8_t *p, const uint8_t *x, uint32_t n_tokens, uint32_t n_rows,
                           uint32_t cols, uint8_t *scratch)
{
    for (uint32_t r = 0; r < n_rows; r += 16 * GEMM_GROUPS, p += GEMM_GROUPS * F(group_bytes)(cols))
        for (uint32_t c0 = 0; c0 < cols; c0 += GEMM_FLOAT_COLS) {
            const uint32_t n = cols - c0 < GEMM_FLOAT_COLS ? cols - c0 : GEMM_FLOAT_COLS;
            for (uint32_t g = 0; g < GEMM_GROUPS; g++)
                for (uint32_t c = 0; c < n; c++) {
                    const vf v = F(weight)(p + g * F(group_bytes)(cols) + (uint64_t)(c0 + c) * 16 * F(ELEMENT_BYTES));
                    __builtin_memcpy(scratch + 64 * ((uint64_t)c * GEMM_GROUPS + g), &v, 64);
                }
            float_tiles(y + r, y_stride, scratch, x + 4 * (uint64_t)c0, XF_STRIDE((uint64_t)cols), n, c0 > 0, n_tokens);
        }
}
/* gemm() is defined once per case so that a source with float formats only contains nothing of the other case. */
DEVICE void F(gemm)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row, uint32_t n_rows,
                    uint32_t cols, uint8_t *scratch)
{
    const uint8_t *p = w + first_row / 16 * F(group_bytes)(cols);
    const uint32_t rows = n_tokens <= 2 * FEW_TOKENS ? 0 : n_rows / (16 * GEMM_GROUPS) * (16 * GEMM_GROUPS);
    F(gemm_groups)(y, y_stride, p, x, n_tokens, rows, cols, scratch);
    F(gemm_direct)(y + rows, y_stride, p + rows / 16 * F(group_bytes)(cols), x, n_tokens, n_rows - rows, cols);
}
DEVICE void F(gemm_exact)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row,
                          uint32_t n_rows, uint32_t cols, uint8_t *scratch)
{
    F(gemm)(y, y_stride, w, x, n_tokens, first_row, n_rows, cols, scratch);
}
#else
SHARED void F(gemm_exact_groups)(float *y, uint32_t y_stride, const uint8_t *p, const uint8_t *x, uint32_t n_tokens, uint32_t n_rows,
                                 uint32_t cols, uint8_t *scratch)
{
    for (uint32_t r = 0; r < n_rows; r += 16 * GEMM_GROUPS, p += GEMM_GROUPS * F(group_bytes)(cols))
        for (uint32_t c0 = 0; c0 < cols; c0 += GEMM_FLOAT_COLS) {
            const uint32_t n = cols - c0 < GEMM_FLOAT_COLS ? cols - c0 : GEMM_FLOAT_COLS;
            for (uint32_t g = 0; g < GEMM_GROUPS; g++) {
                const uint8_t *group = p + g * F(group_bytes)(cols), *scales = F(group_scales)(group, cols);
                _Alignas(64) int8_t room[512];
                const int8_t *s_small = 0;
                for (uint32_t b = c0 / 32; b < (c0 + n) / 32; b++) {
                    const uint8_t *s = F(scales_of)(&s_small, room, scales, b);
                    F(decode)((vf *)(void *)(scratch + 64 * ((uint64_t)(32 * b - c0) * GEMM_GROUPS + g)), GEMM_GROUPS,
                              group + (uint64_t)b * F(CODE_BYTES), s, s_small, b % (F(BLOCK) / 32));
                }
            }
            float_tiles(y + r, y_stride, scratch, x + 4 * (uint64_t)c0, XF_STRIDE((uint64_t)cols), n, c0 > 0, n_tokens);
        }
}
DEVICE void F(gemm_exact)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row,
                          uint32_t n_rows, uint32_t cols, uint8_t *scratch)
{
    const uint8_t *p = w + first_row / 16 * F(group_bytes)(cols);
    const uint32_t rows = n_rows / (16 * GEMM_GROUPS) * (16 * GEMM_GROUPS);
    F(gemm_exact_groups)(y, y_stride, p, x, n_tokens, rows, cols, scratch);
    for (uint32_t t = 0; t < n_tokens && rows < n_rows; t++)                 /* groups that do not fill a panel */
        F(gemv_exact_groups)(y + (uint64_t)t * y_stride + rows, p + rows / 16 * F(group_bytes)(cols),
                             (const uint8_t *)x + t * XF_STRIDE((uint64_t)cols), n_rows - rows, cols);
}
/* Decodes blocks b0 .. b0 + n - 1 of group g of a panel. */
DEVICE void F(panel)(uint8_t *panel, const uint8_t *group, const uint32_t cols, const uint32_t b0, const uint32_t n, const uint32_t g)
{
    const struct code_format f = F(code);
    const uint32_t groups = GEMM_GROUPS;
    const uint8_t *p = group + (uint64_t)b0 * F(CODE_BYTES), *scales = F(group_scales)(group, cols);
    _Alignas(64) int8_t room[512];
    const int8_t *s_small = 0;
    for (uint32_t b = b0; b < b0 + n; b++, p += F(CODE_BYTES), panel += PANEL_BYTES(groups, f)) {
        vi codes[8];
        vf scale[2], min[2];
        const uint8_t *s = F(scales_of)(&s_small, room, scales, b);
        F(codes_at)(codes, p, s_small, b % (F(BLOCK) / 32));
        F(scales_at)(scale, min, s, s_small, b % (F(BLOCK) / 32));
        panel_put(panel, codes, scale, min, g, groups, f);
    }
}
/* Without a panel, for few tokens or for groups that do not fill a panel. */
SHARED void F(gemm_direct)(float *y, uint32_t y_stride, const uint8_t *p, const uint8_t *x, uint32_t n_tokens, uint32_t n_rows,
                           uint32_t cols)
{
    for (uint32_t r = 0; r < n_rows; r += 16, p += F(group_bytes)(cols))
        for (uint32_t t = 0; t < n_tokens; t += FEW_TOKENS)
            F(stream)(y + (uint64_t)t * y_stride + r, y_stride, p, x + t * XQ_STRIDE((uint64_t)cols), cols, n_tokens - t, FEW_TOKENS, 1);
}
SHARED void F(gemm_groups)(float *y, uint32_t y_stride, const uint8_t *p, const uint8_t *x, uint32_t n_tokens, uint32_t n_rows,
                           uint32_t cols, uint8_t *scratch)
{
    const struct code_format f = F(code);
    const uint64_t x_stride = XQ_STRIDE((uint64_t)cols);
    for (uint32_t r = 0; r < n_rows; r += 16 * GEMM_GROUPS, p += GEMM_GROUPS * F(group_bytes)(cols))
        for (uint32_t b0 = 0; b0 < cols / 32; b0 += GEMM_COLS / 32) {
            const uint32_t n = cols / 32 - b0 < GEMM_COLS / 32 ? cols / 32 - b0 : GEMM_COLS / 32;
            for (uint32_t g = 0; g < GEMM_GROUPS; g++) F(panel)(scratch, p + g * F(group_bytes)(cols), cols, b0, n, g);
            /* Prefetches the packed weights of the next panel while this panel is used. */
            const uint64_t step = b0 + n < cols / 32 ? (uint64_t)(b0 + n) * F(CODE_BYTES) : GEMM_GROUPS * F(group_bytes)(cols);
            uint32_t fetched = 0, t = 0;
            for (; INT_TOKENS > FEW_TOKENS && t + INT_TOKENS <= n_tokens; t += INT_TOKENS) {
                const uint32_t until = n * F(CODE_BYTES) / 64 * (t + INT_TOKENS) / n_tokens * 64;
                for (; fetched < until; fetched += 64)
                    UNROLL for (uint32_t g = 0; g < GEMM_GROUPS; g++)
                        __builtin_prefetch(p + g * F(group_bytes)(cols) + step + fetched, 0, 2);
                int_tile(y + (uint64_t)t * y_stride + r, y_stride, scratch, x + t * x_stride, b0, n, cols, INT_TOKENS, INT_TOKENS,
                         GEMM_GROUPS, f);
            }
            for (; t < n_tokens; t += FEW_TOKENS)
                int_tile(y + (uint64_t)t * y_stride + r, y_stride, scratch, x + t * x_stride, b0, n, cols, n_tokens - t, FEW_TOKENS,
                         GEMM_GROUPS, f);
        }
}
DEVICE void F(gemm)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row, uint32_t n_rows,
                    uint32_t cols, uint8_t *scratch)
{
    const uint8_t *p = w + first_row / 16 * F(group_bytes)(cols);
    const uint32_t rows = n_tokens <= 2 * FEW_TOKENS ? 0 : n_rows / (16 * GEMM_GROUPS) * (16 * GEMM_GROUPS);
    F(gemm_groups)(y, y_stride, p, x, n_tokens, rows, cols, scratch);
    F(gemm_direct)(y + rows, y_stride, p + rows / 16 * F(group_bytes)(cols), x, n_tokens, n_rows - rows, cols);
}
#endif
#undef F
