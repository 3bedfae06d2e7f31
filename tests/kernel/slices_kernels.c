/* slices_kernels.c -- templates/gpu/slices.h, and products of all formats with slices, with the sizes of the case. */
#include "templates/gpu/dialect.h"
#undef DEVICE                                    /* plain functions: inlined into each other, all formats take minutes to compile */
#ifdef __CUDA__
#define DEVICE static __attribute__((device, unused))
#else
#define DEVICE static __attribute__((unused))
#endif
#define SLICES 1
#include "kernel.h"
#include "templates/gpu/slices.h"
#include "cases.h"

#define C CASE(struct slices_case)

TEST_KERNEL(WAVE, route_tokens)
{
    const struct slices_case c = *C;
    route_token(c.choice + group_y() * 2 * c.used, c.logits + group_y() * c.experts, c.bias, lds(), c.experts, c.used, c.gating, c.n_sets,
                c.n_sets_used, c.norm, c.by);
}
/* Every workgroup computes the choice of one token.  picked: the lanes' expert numbers, a row per wave; n_picked: the numbers in LDS, a row
 * per workgroup. */
TEST_KERNEL(128, route_everywhere)
{
    const struct slices_case c = *C;
    const uint32_t id = route_group(0, c.logits, c.bias, c.experts, c.used, c.gating, c.n_sets, c.n_sets_used);
    route_keep(c.choice, c.logits, id, c.experts, c.used, c.gating, c.norm, c.by, c.groups, 128);
    c.picked[(group_x() * (128 / WAVE) + wave_id()) * WAVE + lane_id()] = id;
    if (thread_x() < c.used) c.n_picked[group_x() * c.used + thread_x()] = route_ids_at(0)[thread_x()];
}
TEST_KERNEL(256, picked_tokens)
{
    const struct slices_case c = *C;
    picked_list(c.n_picked, c.picked, c.choice, c.stride, first_token(a), a.step->n_tokens, c.used, c.most, c.threads);
}

DEVICE void store(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y)
{
    const uint64_t at = (uint64_t)t * C->y_stride + r;
    C->y[0][at] = y;
    C->calls[at]++;
}
DEVICE float addend(const struct forge_kernel_args a, uint32_t t, uint32_t r) { (void)a; return (float)((t + r) % 5); }
DEVICE void store_added(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y) { store(a, t, r, y - addend(a, t, r)); }
DEVICE void store_pair(const struct forge_kernel_args a, uint32_t t, uint32_t r, float gate, float up)
{
    store(a, t, r, gate);
    C->y[1][(uint64_t)t * C->y_stride + r] = up;
}

#define EACH_FORMAT "tests/kernel/slices_instance.h"
#include "compiler/format/format.def"

/* Decode: one row of output for each slice. */
#define EACH_KERNEL(format, lanes) \
    TEST_KERNEL(128, each_##format) \
    { \
        const struct slices_case c = *C; \
        const uint32_t digits = UNIT_COLS_##format == 64 ? c.digits : 0, stride = c.groups * c.threads / lanes; \
        const uint32_t id = picked_ids(c.choice, c.used), slot = gemv_slot(c.groups, lanes); \
        struct first_each_##format##_2x8 first; \
        gemv_begin_each_##format##_2x8(&first, c.w[0], c.pair ? c.w[1] : 0, id, c.used, c.apart, c.rows, c.cols, slot); \
        if (c.apart) slices_to_lds(lds(), c.x, 0.0f, 0, c.cols, c.used, digits, SUMS16_##format, c.threads); \
        else if (digits) acts_of_row(lds(), c.x, c.cols, digits, SUMS16_##format, c.threads); \
        else floats_of_row(lds(), c.x, c.cols, c.threads); \
        if (c.pair) \
            gemv_pair_each_##format##_2x8(a, &first, c.w[0], c.w[1], id, c.used, c.apart, c.rows, c.cols, lds(), digits, slot, stride, \
                                          store_pair); \
        else \
            gemv_each_##format##_2x8(a, &first, c.w[0], id, c.used, c.apart, c.rows, c.cols, lds(), digits, slot, stride, addend, \
                                     store_added); \
    }
/* Decode: the sum of the slices. */
#define SUM_KERNEL(format, lanes) \
    TEST_KERNEL(128, sum_##format) \
    { \
        const struct slices_case c = *C; \
        const uint32_t digits = UNIT_COLS_##format == 64 ? c.digits : 0, stride = c.groups * c.threads / lanes; \
        const uint32_t id = picked_ids(c.choice, c.used), slot = gemv_slot(c.groups, lanes), all = c.used * 64 * ACTS_UNITS(c.cols); \
        const float share = picked_shares(c.choice, c.times, c.used); \
        struct first_sum_##format##_3x16 first; \
        gemv_begin_sum_##format##_3x16(&first, c.w[0], 0, id, c.used, SLICES_APART, c.rows, all, slot); \
        slices_to_lds(lds(), c.x, share, 1, c.cols, c.used, digits, SUMS16_##format, c.threads); \
        gemv_sum_##format##_3x16(a, &first, c.w[0], id, c.used, SLICES_APART, c.rows, all, lds(), digits, slot, stride, addend, \
                                 store_added); \
    }
#define GEMM_KERNEL(format) \
    TEST_KERNEL(128, tokens_##format) \
    { \
        const struct slices_case c = *C; \
        const uint32_t t0 = first_token(a), n = a.step->n_tokens; \
        if (c.pair) \
            gemm_pair_slices_##format##_32x64_128(a, c.w[0], c.w[1], c.rows, c.cols, c.x16, c.x_stride, c.used, c.shared, c.n_picked, \
                                                  c.picked, c.most, group_y(), t0, n, store_pair); \
        else \
            gemm_slices_##format##_32x64_128(a, c.w[0], c.rows, c.cols, c.x16, c.x_stride, c.used, c.shared, c.n_picked, c.picked, c.most, \
                                             group_y(), t0, n, store); \
    }
#define QUANT(name, file, ...) EACH_KERNEL(file, 8) SUM_KERNEL(file, 16) GEMM_KERNEL(file)
#include "compiler/format/format.def"
