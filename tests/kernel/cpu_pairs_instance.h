/* cpu_pairs_instance.h -- the always-inline product of FORMAT as a function, for cpu_pairs.c. */
#include "tests/format_file.h"
#include FORMAT_FILE(cpu)
#include "templates/cpu/gemv_tmpl.c"
#include "templates/cpu/gemm_pairs_tmpl.c"
static void PASTE2(check_gemm_pairs, FORMAT)(float *y, uint32_t y_stride, const uint8_t *w, const void *x, uint32_t n_tokens,
                                             uint32_t first_row, uint32_t n_rows, uint32_t cols, uint8_t *scratch)
{
    PASTE2(gemm_pairs, FORMAT)(y, y_stride, w, x, n_tokens, first_row, n_rows, cols, scratch);
}
