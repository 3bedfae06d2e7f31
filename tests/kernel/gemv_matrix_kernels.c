/* gemv_matrix_kernels.c -- products of a few tokens on the matrix unit (templates/gpu/gemv_matrix_tmpl.c), and of one of the tokens by
 * gemv_tmpl.c, with the sizes of the case. */
#include "templates/gpu/dialect.h"
#undef DEVICE                                    /* plain functions: inlined into each other, all formats take minutes to compile */
#define DEVICE static __attribute__((unused))
#include "kernel.h"
#include "templates/gpu/acts.h"
#include "cases.h"

#define C CASE(struct gemv_matrix_case)
#define PASTE3(what, format, lanes) what##_##format##_##lanes
#define GEMV_MATRIX_ALONE(format, lanes) PASTE3(alone, format, lanes)
#define GEMV_MATRIX_TOGETHER(format, lanes) PASTE3(together, format, lanes)

DEVICE void store(const struct gemv_matrix_case *c, uint32_t matrix, uint32_t t, uint32_t r, float y)
{
    const uint32_t at = (c->token + t) * c->rows[matrix] + r;
    c->y[matrix][at] = y;
    c->calls[matrix][at]++;
}
DEVICE float addend(const struct forge_kernel_args a, uint32_t t, uint32_t r) { return (float)((C->token + t + r) % 7); }
DEVICE void store0(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y) { store(C, 0, t, r, y); }
DEVICE void store1(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y) { store(C, 1, t, r, y); }
DEVICE void store2(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y) { store(C, 2, t, r, y); }
DEVICE void store_pair(const struct forge_kernel_args a, uint32_t t, uint32_t r, float gate, float up)
{
    store(C, 0, t, r, gate);
    store(C, 1, t, r, up);
}

#define FORMAT q4_K
#define SHAPE_LANES 32
#define SHAPE_STAGES 3
#define SHAPE_COLUMNS 8
#include "gemv_matrix_instance.h"
#define SHAPE_LANES 8
#define SHAPE_STAGES 4
#define SHAPE_COLUMNS 3
#include "gemv_matrix_instance.h"
#undef FORMAT
#define FORMAT q6_K
#define SHAPE_LANES 16
#define SHAPE_STAGES 2
#define SHAPE_COLUMNS 5
#include "gemv_matrix_instance.h"
#undef FORMAT
#define FORMAT q8_0
#define SHAPE_LANES 32
#define SHAPE_STAGES 2
#define SHAPE_COLUMNS 8
#include "gemv_matrix_instance.h"
#undef FORMAT
