/* kernels_gemm.c -- products of all formats at the sizes of an 8B model: single and paired.  For tests/device/compile.sh,
 * which shows registers and spills; shapes by -DTILE_TOKENS= and so on, groups of a compute unit by -DGROUPS=. */
/* The shape of the instances; other ones by -D. */
#ifndef TILE_TOKENS
#define TILE_TOKENS 128
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 128
#endif
#ifndef TILE_THREADS
#define TILE_THREADS 128
#endif
#define EACH_FORMAT "tests/device/gemm_instance.h"
#include "compiler/format/format.def"

#ifndef GROUPS
#define GROUPS 1
#endif
enum { COLS = 4096, X_STRIDE = 2 * COLS, OUT = 512 * X_STRIDE, HIDDEN = 14336 };

DEVICE void store_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    FLOAT_ROW(OUT, 4 * COLS, t)[r] = y;
}
DEVICE void store_pair(const struct forge_kernel_args a, uint32_t t, uint32_t r, float gate, float up)
{
    ((uint16_t *)(void *)ROW(OUT, 2 * HIDDEN, t))[r] = (uint16_t)stage_f16(silu_f32(gate) * up);
}
#define PRODUCTS2(format, shape) \
    KERNEL(TILE_THREADS, GROUPS) product_##format(const struct forge_kernel_args a) \
    { \
        pdl_launch(); \
        pdl_wait(); \
        gemm_##format##_##shape(a, WEIGHT(0), COLS, COLS, BUFFER(0), X_STRIDE, group_y(), 0, a.step->n_tokens, store_row); \
    } \
    PAIR(format, shape)
#if GEMM_SHARES_PAIRS(TILE_TOKENS, TILE_ROWS, TILE_THREADS, FAMILY)
#define PAIR(format, shape) \
    KERNEL(TILE_THREADS, GROUPS) pair_##format(const struct forge_kernel_args a) \
    { \
        pdl_launch(); \
        pdl_wait(); \
        gemm_pair_##format##_##shape(a, WEIGHT(0), WEIGHT(1), HIDDEN, COLS, BUFFER(0), X_STRIDE, group_y(), 0, a.step->n_tokens,           \
                                     store_pair);                                                                                          \
    }
#else
#define PAIR(format, shape)
#endif
#define PRODUCTS1(format, shape)      PRODUCTS2(format, shape)
#define SHAPE2(tokens, rows, threads) tokens##x##rows##_##threads
#define SHAPE(tokens, rows, threads)  SHAPE2(tokens, rows, threads)
#define PRODUCTS(format)              PRODUCTS1(format, SHAPE(TILE_TOKENS, TILE_ROWS, TILE_THREADS))
#define QUANT(name, file, ...) PRODUCTS(file)
#include "compiler/format/format.def"
