/* cpu_matmul_instance.h -- the always-inline kernels of FORMAT as functions, for cpu_matmul.c. */
#include "tests/format_file.h"
#include FORMAT_FILE(cpu)
#include "templates/cpu/gemv_tmpl.c"
#include "templates/cpu/gemm_tmpl.c"
static uint64_t PASTE2(check_bytes, FORMAT)(uint32_t rows, uint32_t cols) { return PASTE2(packed_bytes, FORMAT)(rows, cols); }
static void PASTE2(check_row, FORMAT)(float *out, const uint8_t *w, uint32_t row, uint32_t cols) { PASTE2(row, FORMAT)(out, w, row, cols); }
static void PASTE2(check_gemv, FORMAT)(float *y, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols)
{
#define CALL(cols) PASTE2(gemv, FORMAT)(y, w, x, first_row, n_rows, cols)
    EACH_COLS(cols, CALL);
#undef CALL
}
static void PASTE2(check_gemv_exact, FORMAT)(float *y, const uint8_t *w, const void *x, uint32_t first_row, uint32_t n_rows, uint32_t cols)
{
    PASTE2(gemv_exact, FORMAT)(y, w, x, first_row, n_rows, cols);
}
static void PASTE2(check_gemm, FORMAT)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens, uint32_t first_row,
                                       uint32_t n_rows, uint32_t cols, uint8_t *scratch)
{
#define CALL(cols) PASTE2(gemm, FORMAT)(y, y_stride, w, x, n_tokens, first_row, n_rows, cols, scratch)
    EACH_COLS(cols, CALL);
#undef CALL
}
static void PASTE2(check_gemm_exact, FORMAT)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens,
                                             uint32_t first_row, uint32_t n_rows, uint32_t cols, uint8_t *scratch)
{
    PASTE2(gemm_exact, FORMAT)(y, y_stride, w, x, n_tokens, first_row, n_rows, cols, scratch);
}
