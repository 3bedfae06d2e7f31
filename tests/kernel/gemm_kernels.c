/* gemm_kernels.c -- prefill's products (templates/gpu/gemm_tmpl.c), single and paired, of all formats in the tiles of cases.h.  The sizes
 * come from the case, or with -DMODELS from an 8B model as constants.  To see registers and spills, also with other tiles (-DTILE_TOKENS=
 * and so on) and workgroups resident on a compute unit (-DRESIDENT=):
 *   tests/device/compile.sh tests/kernel/gemm_kernels.c -DMODELS */
#include "kernel.h"
#include "cases.h"

#define EACH_FORMAT "tests/kernel/gemm_instance.h"
#include "compiler/format/format.def"
#ifndef MODELS                                   /* GEMM_MORE_TILES */
#define FORMAT bf16
#define GEMM_TOKENS 48
#define GEMM_ROWS 256
#define GEMM_THREADS 256
#include "templates/gpu/gemm_tmpl.c"
#undef FORMAT
#define FORMAT q4_K
#define GEMM_TOKENS 64
#define GEMM_ROWS 128
#define GEMM_THREADS 256
#include "templates/gpu/gemm_tmpl.c"
#undef FORMAT
#define FORMAT q6_K
#define GEMM_TOKENS 64
#define GEMM_ROWS 128
#define GEMM_THREADS 256
#include "templates/gpu/gemm_tmpl.c"
#undef FORMAT
#define FORMAT q8_0
#define GEMM_TOKENS 64
#define GEMM_ROWS 128
#define GEMM_THREADS 256
#include "templates/gpu/gemm_tmpl.c"
#undef FORMAT
#endif

#ifndef RESIDENT
#define RESIDENT 1
#endif
#define C CASE(struct gemm_case)

DEVICE void store_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    const uint64_t at = (uint64_t)t * C->rows + r;
    C->y[0][at] = y;
    C->calls[at]++;
}
DEVICE void store_pair(const struct forge_kernel_args a, uint32_t t, uint32_t r, float gate, float up)
{
    const uint64_t at = (uint64_t)t * C->rows + r;
    C->y[0][at] = gate;
    C->y[1][at] = up;
    C->calls[at]++;
}

#ifdef MODELS
#define SIZES(c) struct gemm_case c = *C; c.rows = GEMM_MODEL_ROWS, c.cols = GEMM_MODEL_COLS, c.x_stride = GEMM_MODEL_STRIDE, c.t0 = 0
#else
#define SIZES(c) const struct gemm_case c = *C
#endif
#define PRODUCTS3(format, shape, threads) \
    TEST_KERNELS(threads, RESIDENT, product_##format##_##shape) \
    { \
        SIZES(c); \
        pdl_launch(); \
        pdl_wait(); \
        gemm_##format##_##shape(a, c.w[0], c.rows, c.cols, c.x, c.x_stride, group_y(), c.t0, c.n_tokens, store_row); \
    }
#define PAIRS3(format, shape, threads) \
    TEST_KERNELS(threads, RESIDENT, pair_##format##_##shape) \
    { \
        SIZES(c); \
        pdl_launch(); \
        pdl_wait(); \
        gemm_pair_##format##_##shape(a, c.w[0], c.w[1], c.rows, c.cols, c.x, c.x_stride, group_y(), c.t0, c.n_tokens, store_pair); \
    }
#define PRODUCTS2(format, shape, threads)      PRODUCTS3(format, shape, threads)
#define PAIRS2(format, shape, threads)         PAIRS3(format, shape, threads)
#define SHAPE2(tokens, rows, threads)          tokens##x##rows##_##threads
#define SHAPE(tokens, rows, threads)           SHAPE2(tokens, rows, threads)
#define PRODUCTS(format, tokens, rows, threads) PRODUCTS2(format, SHAPE(tokens, rows, threads), threads)
#define PAIRS(format, tokens, rows, threads)   PAIRS2(format, SHAPE(tokens, rows, threads), threads)

#define QUANT(name, file, ...) PRODUCTS(file, TILE_TOKENS, TILE_ROWS, TILE_THREADS)
#include "compiler/format/format.def"
#if GEMM_SHARES_PAIRS(TILE_TOKENS, TILE_ROWS, TILE_THREADS, FAMILY)
#define QUANT(name, file, ...) PAIRS(file, TILE_TOKENS, TILE_ROWS, TILE_THREADS)
#include "compiler/format/format.def"
#endif
#ifndef MODELS
#define MORE(name, file, tokens, rows, threads) PRODUCTS(file, tokens, rows, threads) PAIRS(file, tokens, rows, threads)
GEMM_MORE_TILES(MORE)
#endif

/* The weights in LDS for 64 columns of a row: group_x() is the row, group_y() the matrix. */
#define DECODED(format) \
    TEST_KERNEL(64, decoded_##format) \
    { \
        const struct gemm_case *c = C; \
        const uint32_t units = UNITS_OF(c->cols); \
        const uint8_t *row = c->w[group_y()] + (uint64_t)group_x() * ROW_STRIDE(ROW_BYTES_##format(c->cols)); \
        for (uint32_t u = thread_x(); u < units; u += 64) { \
            struct unit_##format unit; \
            uint32_t h[32]; \
            float *w = c->decoded[group_y()] + ((uint64_t)group_x() * units + u) * 64; \
            load_##format(&unit, row, u, units); \
            decode_##format(h, &unit, u); \
            for (uint32_t k = 0; k < 64; k++) w[k] = f32_of_f16_bits(h[k / 2] >> 16 * (k % 2) & 0xffffu); \
        } \
    }
#define QUANT_FLOAT(name, file, ...)
#define QUANT_BLOCK(name, file, ...) DECODED(file)
#include "compiler/format/format.def"
