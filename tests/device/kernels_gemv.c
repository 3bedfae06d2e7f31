/* kernels_gemv.c -- the decode products as a program has them, for tests/device/compile.sh: registers, spills, what the loop became.
 * -DGEMV_ROWS=2 -DGEMV_LANES=32 -DGEMV_THREADS=512 -DGEMV_GROUPS=1: the shape; -DONLY=q4_K: one format; -DGEMV_DEPTH=2. */
#include "templates/gpu/launch.h"
#include "templates/gpu/acts.h"

#ifndef GEMV_ROWS
#define GEMV_ROWS 2
#endif
#ifndef GEMV_LANES
#define GEMV_LANES 32
#endif
#ifndef GEMV_THREADS
#define GEMV_THREADS 512
#endif
#ifndef GEMV_GROUPS
#define GEMV_GROUPS 1
#endif
#define STRIDE (132 * GEMV_GROUPS * GEMV_THREADS / GEMV_LANES)

DEVICE float residual(const struct forge_kernel_args a, uint32_t t, uint32_t r) { return FLOATS(1 << 20)[t + r]; }
DEVICE void store_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y) { FLOATS(1 << 20)[t + r] = y; }
DEVICE void glu_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float gate, float up)
{
    FLOATS(1 << 20)[t + r] = silu_f32(gate) * up;
}

#define N(name, format) GEMV_PASTE(name, format, GEMV_ROWS, GEMV_LANES)
#define ROW_TO_LDS(format, cols, digits) \
    if (UNIT_COLS_##format == 64) acts_of_row(lds(), FLOATS(0), cols, digits, SUMS16_##format, GEMV_THREADS); \
    else floats_of_row(lds(), FLOATS(0), cols, GEMV_THREADS)
#define NORM_TO_LDS(format, cols, digits, slot) \
    if (UNIT_COLS_##format == 64) acts_of_norm(lds(), FLOATS(0), VECTOR(slot), cols, 1e-5f, digits, SUMS16_##format, GEMV_THREADS); \
    else floats_of_norm(lds(), FLOATS(0), VECTOR(slot), cols, 1e-5f, GEMV_THREADS)

/* down: one matrix, long rows; gate_up: a pair after a norm; qkv: two matrices, one after the other. */
#define KERNELS(format, digits) KERNELS2(format, digits)
#define KERNELS2(format, digits) \
KERNEL(GEMV_THREADS, GEMV_GROUPS) down_##format##_##digits(const struct forge_kernel_args a) \
{ \
    pdl_launch(); \
    const uint32_t slot = gemv_slot(132 * GEMV_GROUPS, GEMV_LANES); \
    struct N(first, format) f; \
    N(gemv_begin, format)(&f, WEIGHT(0), 0, 4096, 14336, slot); \
    pdl_wait(); \
    mark(a); \
    ROW_TO_LDS(format, 14336, digits); \
    N(gemv, format)(a, &f, WEIGHT(0), 4096, 14336, lds(), digits, slot, STRIDE, residual, store_row); \
} \
KERNEL(GEMV_THREADS, GEMV_GROUPS) qkv_##format##_##digits(const struct forge_kernel_args a) \
{ \
    pdl_launch(); \
    uint32_t slot = gemv_slot(132 * GEMV_GROUPS, GEMV_LANES); \
    struct N(first, format) f; \
    N(gemv_begin, format)(&f, WEIGHT(0), 0, 5120, 4096, slot); \
    pdl_wait(); \
    mark(a); \
    NORM_TO_LDS(format, 4096, digits, 2); \
    slot = N(gemv, format)(a, &f, WEIGHT(0), 5120, 4096, lds(), digits, slot, STRIDE, 0, store_row); \
    N(gemv, format)(a, 0, WEIGHT(1), 1024, 4096, lds(), digits, slot, STRIDE, residual, store_row); \
} \
PAIR_KERNEL(format, digits)
#define PAIR_KERNEL(format, digits) \
KERNEL(GEMV_THREADS, GEMV_GROUPS) gate_up_##format##_##digits(const struct forge_kernel_args a) \
{ \
    pdl_launch(); \
    const uint32_t slot = gemv_slot(132 * GEMV_GROUPS, GEMV_LANES); \
    struct N(first, format) f; \
    N(gemv_begin, format)(&f, WEIGHT(0), WEIGHT(1), 14336, 4096, slot); \
    pdl_wait(); \
    mark(a); \
    NORM_TO_LDS(format, 4096, digits, 2); \
    N(gemv_pair, format)(a, &f, WEIGHT(0), WEIGHT(1), 14336, 4096, lds(), digits, slot, STRIDE, glu_row); \
}
#if GEMV_ROWS % 2
#undef PAIR_KERNEL
#define PAIR_KERNEL(format, digits)
#endif
#ifdef GEMV_DIGITS
#define ALL_DIGITS(format) KERNELS(format, GEMV_DIGITS)
#else
#define ALL_DIGITS(format) KERNELS(format, 1) KERNELS(format, 2)
#endif

#ifdef ONLY
#define FORMAT ONLY
#include "tests/device/gemv_instance.h"
#else
#define EACH_FORMAT "tests/device/gemv_instance.h"
#include "compiler/format/format.def"
#endif
