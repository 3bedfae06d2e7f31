/* gemv_matrix_instance.h -- products of FORMAT for gemv_matrix_kernels.c, in a shape of cases.h: of one token (alone_FORMAT_LANES) and of
 * several (together_FORMAT_LANES). */
#include "gpu_format.h"
#define ROWS 2
#define LANES SHAPE_LANES
#include "templates/gpu/gemv_tmpl.c"
#define LANES SHAPE_LANES
#define STAGES SHAPE_STAGES
#define COLUMNS SHAPE_COLUMNS
#include "templates/gpu/gemv_matrix_tmpl.c"
#define N(name) GEMV_PASTE(name, FORMAT, 2, SHAPE_LANES)
#define M(name) GEMV_MATRIX_PASTE(name, SHAPE_COLUMNS, FORMAT, SHAPE_LANES, SHAPE_STAGES)
#define SUMS GEMV_OF(SUMS16, FORMAT)

TEST_KERNEL(256, GEMV_MATRIX_ALONE(FORMAT, SHAPE_LANES))
{
    const struct gemv_matrix_case c = *C;
    const float *row = c.x + c.token * c.x_stride, *weight = c.norm == 2 ? c.norm_weight : 0;
    const uint32_t stride = c.groups * c.threads / SHAPE_LANES;
    uint32_t slot = gemv_slot(c.groups, SHAPE_LANES);
    if (c.norm) acts_of_norm(lds(), row, weight, c.cols, c.eps, c.digits, SUMS, c.threads);
    else acts_of_row(lds(), row, c.cols, c.digits, SUMS, c.threads);
    if (c.mode == GEMV_PAIR) N(gemv_pair)(a, 0, c.w[0], c.w[1], c.rows[0], c.cols, lds(), c.digits, slot, stride, store_pair);
    else slot = N(gemv)(a, 0, c.w[0], c.rows[0], c.cols, lds(), c.digits, slot, stride, addend, store0);
    if (c.mode == GEMV_CHAIN) slot = N(gemv)(a, 0, c.w[1], c.rows[1], c.cols, lds(), c.digits, slot, stride, 0, store1);
    if (c.mode == GEMV_CHAIN) N(gemv)(a, 0, c.w[2], c.rows[2], c.cols, lds(), c.digits, slot, stride, 0, store2);
}
TEST_KERNEL(256, GEMV_MATRIX_TOGETHER(FORMAT, SHAPE_LANES))
{
    const struct gemv_matrix_case c = *C;
    const struct gemv_matrix k = { c.groups, c.threads, c.ranks, SHAPE_LANES, c.x_bytes, c.parts_at, c.exchange_at, c.ring_at,
                                   c.ring_bytes };
    struct gemv_ahead ahead = gemv_matrix_start(&k);
    uint32_t slot = gemv_matrix_slot(&k);
    M(gemv_begin)(&ahead, &k, c.w[0], c.mode == GEMV_PAIR ? c.w[1] : 0, c.rows[0], c.cols, slot);
    columns_to_lds(c.x_bytes, (const uint8_t *)c.x, 4 * c.x_stride, c.n, c.norm > 0, c.norm == 2 ? c.norm_weight : 0, c.cols, c.eps,
                   c.digits, SUMS, SHAPE_COLUMNS, SHAPE_LANES, c.ranks, group_x() % c.ranks, c.threads);
    if (c.mode == GEMV_PAIR) M(gemv_pair)(a, &ahead, &k, c.w[0], c.w[1], c.rows[0], c.cols, c.digits, 0, c.n, slot, store_pair);
    else slot = M(gemv)(a, &ahead, &k, c.w[0], c.rows[0], c.cols, c.digits, 0, c.n, slot, addend, store0);
    for (uint32_t m = 1; c.mode == GEMV_CHAIN && m < GEMV_MATRICES; m++) {
        M(gemv_begin)(&ahead, &k, c.w[m], 0, c.rows[m], c.cols, slot);
        slot = M(gemv)(a, &ahead, &k, c.w[m], c.rows[m], c.cols, c.digits, 0, c.n, slot, 0, m == 1 ? store1 : store2);
    }
}
#undef N
#undef M
#undef SUMS
#undef SHAPE_LANES
#undef SHAPE_STAGES
#undef SHAPE_COLUMNS
