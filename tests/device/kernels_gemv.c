/* kernels_gemv.c -- the decode products as a program has them, for tests/device/compile.sh: registers, spills, what the loop became.
 * -DGEMV_ROWS=2 -DGEMV_LANES=32 -DGEMV_THREADS=512 -DGEMV_GROUPS=1: the shape; -DONLY -DONLY_q4_K: one format; -DGEMV_DEPTH=2. */
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
DEVICE void glu_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float gate, float up) { FLOATS(1 << 20)[t + r] = silu_f32(gate) * up; }

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

#if !defined(ONLY) || defined(ONLY_f32)
#define FORMAT f32
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/f32.h"
#include "templates/gpu/gemv_tmpl.c"
KERNELS(f32, 1)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_f16)
#define FORMAT f16
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/f16.h"
#include "templates/gpu/gemv_tmpl.c"
KERNELS(f16, 1)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_bf16)
#define FORMAT bf16
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/bf16.h"
#include "templates/gpu/gemv_tmpl.c"
KERNELS(bf16, 1)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_q4_0)
#define FORMAT q4_0
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/q4_0.h"
#include "templates/gpu/gemv_tmpl.c"
ALL_DIGITS(q4_0)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_q4_1)
#define FORMAT q4_1
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/q4_1.h"
#include "templates/gpu/gemv_tmpl.c"
ALL_DIGITS(q4_1)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_q5_0)
#define FORMAT q5_0
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/q5_0.h"
#include "templates/gpu/gemv_tmpl.c"
ALL_DIGITS(q5_0)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_q5_1)
#define FORMAT q5_1
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/q5_1.h"
#include "templates/gpu/gemv_tmpl.c"
ALL_DIGITS(q5_1)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_q8_0)
#define FORMAT q8_0
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/q8_0.h"
#include "templates/gpu/gemv_tmpl.c"
ALL_DIGITS(q8_0)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_q2_K)
#define FORMAT q2_K
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/q2_K.h"
#include "templates/gpu/gemv_tmpl.c"
ALL_DIGITS(q2_K)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_q3_K)
#define FORMAT q3_K
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/q3_K.h"
#include "templates/gpu/gemv_tmpl.c"
ALL_DIGITS(q3_K)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_q4_K)
#define FORMAT q4_K
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/q4_K.h"
#include "templates/gpu/gemv_tmpl.c"
ALL_DIGITS(q4_K)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_q5_K)
#define FORMAT q5_K
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/q5_K.h"
#include "templates/gpu/gemv_tmpl.c"
ALL_DIGITS(q5_K)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_q6_K)
#define FORMAT q6_K
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/q6_K.h"
#include "templates/gpu/gemv_tmpl.c"
ALL_DIGITS(q6_K)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_iq4_nl)
#define FORMAT iq4_nl
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/iq4_nl.h"
#include "templates/gpu/gemv_tmpl.c"
ALL_DIGITS(iq4_nl)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_iq4_xs)
#define FORMAT iq4_xs
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/iq4_xs.h"
#include "templates/gpu/gemv_tmpl.c"
ALL_DIGITS(iq4_xs)
#undef FORMAT
#endif
#if !defined(ONLY) || defined(ONLY_mxfp4)
#define FORMAT mxfp4
#define ROWS GEMV_ROWS
#define LANES GEMV_LANES
#ifdef GEMV_DEPTH
#define DEPTH GEMV_DEPTH
#endif
#include "templates/gpu/formats/mxfp4.h"
#include "templates/gpu/gemv_tmpl.c"
ALL_DIGITS(mxfp4)
#undef FORMAT
#endif
