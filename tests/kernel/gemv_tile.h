/* gemv_tile.h -- gemv_tmpl.c for FORMAT, SLOT_ROWS x SLOT_LANES and, if it is defined, SLOT_DEPTH, and a kernel with the sizes of the case:
 * product_FORMAT_ROWSxLANES. */
#define ROWS SLOT_ROWS
#define LANES SLOT_LANES
#ifdef SLOT_DEPTH
#define DEPTH SLOT_DEPTH
#define N(name) GEMV_PASTE_DEPTH(name, FORMAT, SLOT_ROWS, SLOT_LANES, SLOT_DEPTH)
#else
#define N(name) GEMV_PASTE(name, FORMAT, SLOT_ROWS, SLOT_LANES)
#endif
#include "templates/gpu/gemv_tmpl.c"

DEVICE void N(gemv_of)(const struct forge_kernel_args a, const struct gemv_case c)
{
    const uint32_t digits = GEMV_OF(UNIT_COLS, FORMAT) == 64 ? c.digits : 0, sums16 = GEMV_OF(SUMS16, FORMAT),
        stride = c.groups * c.threads / SLOT_LANES, s0 = gemv_slot(c.groups, SLOT_LANES);
    uint8_t *x = lds();
    struct N(first) f;
    pdl_launch();
    if (c.begin) N(gemv_begin)(&f, c.w[0], c.mode == GEMV_PAIR ? c.w[1] : 0, c.rows[0], c.cols, s0);
    pdl_wait();
    row_into_lds(&c, x, digits, sums16);
    if (c.seen && group_x() == 0 && thread_x() == 0) {
        if (digits) read_acts(&c, x, digits, sums16);
        else read_floats(&c, x);
    }
    const struct N(first) *begun = c.begin ? &f : 0;
    if (c.mode == GEMV_PAIR) {
#if SLOT_ROWS % 2 == 0
        N(gemv_pair)(a, begun, c.w[0], c.w[1], c.rows[0], c.cols, x, digits, s0, stride, store_pair);
#endif
    } else {
        uint32_t s = N(gemv)(a, begun, c.w[0], c.rows[0], c.cols, x, digits, s0, stride, addend, store0);
        if ((s + (c.rows[0] + SLOT_ROWS - 1) / SLOT_ROWS) % stride != s0 || s >= stride) c.wrong[GEMV_WRONG_SLOT] = 1;
        if (c.mode == GEMV_CHAIN) s = N(gemv)(a, 0, c.w[1], c.rows[1], c.cols, x, digits, s, stride, 0, store1);
        if (c.mode == GEMV_CHAIN) N(gemv)(a, 0, c.w[2], c.rows[2], c.cols, x, digits, s, stride, 0, store2);
    }
}
#ifndef MODELS
TEST_KERNEL(256, GEMV_PASTE(product, FORMAT, SLOT_ROWS, SLOT_LANES)) { N(gemv_of)(a, *CASE(struct gemv_case)); }
#endif
#undef N
#undef SLOT_ROWS
#undef SLOT_LANES
#undef SLOT_DEPTH
