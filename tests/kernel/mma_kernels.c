/* mma_kernels.c -- one tile product each: who holds which element.  A[16 i][16 k] at WEIGHT(0), B at WEIGHT(1), both 16-bit and row-major
 * with 32-byte rows; D[16][16] f32 to the arena.  One group of one wave; LDS: 4096 bytes. */
#include "kernel.h"
#include "templates/gpu/mma.h"

enum { PADDED = 48, PLACE_A = 0, PLACE_B = 1024 };         /* swizzled tiles take 2048 bytes: A first, then B */

DEVICE void copy16(uint8_t *to, const uint8_t *from, const uint32_t valid)
{
    struct copy c;
    copy_begin(&c, to, from, valid);
    copy_end(&c, to);
}
DEVICE void wide_f16(struct mma_acc *c, const struct mma_wide_a *a, const struct mma_wide_b *b)
{
    for (uint32_t n = 0; n < MMA_WIDE; n++) mma_f16(c, &a->k[n], &b->k[n]);
}
DEVICE void wide_bf16(struct mma_acc *c, const struct mma_wide_a *a, const struct mma_wide_b *b)
{
    for (uint32_t n = 0; n < MMA_WIDE; n++) mma_bf16(c, &a->k[n], &b->k[n]);
}
DEVICE void tile_to_lds(uint8_t *to, const uint8_t *from, const uint32_t stride)
{
    for (uint32_t n = lane_id(); n < 32; n += WAVE) copy16(to + n / 2 * stride + n % 2 * 16, from + 16 * n, 1);
}
DEVICE void wait_for_tiles(void)
{
    copy_commit();
    copy_wait(0);
    barrier();
}
DEVICE void tile_to_arena(const struct forge_kernel_args a, const struct mma_acc *d)
{
    for (uint32_t e = 0; e < MMA_ACC; e++) FLOATS(0)[mma_row(e) * 16 + mma_col(e)] = d->x[e];
}
/* kind 0: B stored [j][k]; 1: stored [k][j]; 2: as 0, the product in bf16. */
DEVICE void product(const struct forge_kernel_args a, struct mma_acc *d, const uint32_t kind)
{
    struct mma_a fa;
    struct mma_b fb;
    tile_to_lds(lds() + PLACE_A, WEIGHT(0), PADDED);
    tile_to_lds(lds() + PLACE_B, WEIGHT(1), PADDED);
    wait_for_tiles();
    mma_zero(d);
    mma_load_a(&fa, lds() + PLACE_A, PADDED);
    if (kind == 1) mma_load_b_trans(&fb, lds() + PLACE_B, PADDED);
    else mma_load_b(&fb, lds() + PLACE_B, PADDED);
    if (kind == 2) mma_bf16(d, &fa, &fb);
    else mma_f16(d, &fa, &fb);
}

/* D = A B, B stored [j][k]. */
TEST_KERNEL(WAVE, mma_rows_f16)
{
    struct mma_acc d;
    pdl_launch();
    pdl_wait();
    product(a, &d, 0);
    tile_to_arena(a, &d);
}
/* D = A B, B stored [k][j]. */
TEST_KERNEL(WAVE, mma_trans_f16)
{
    struct mma_acc d;
    pdl_launch();
    pdl_wait();
    product(a, &d, 1);
    tile_to_arena(a, &d);
}
/* D = A B in bf16, B stored [j][k]. */
TEST_KERNEL(WAVE, mma_rows_bf16)
{
    struct mma_acc d;
    pdl_launch();
    pdl_wait();
    product(a, &d, 2);
    tile_to_arena(a, &d);
}
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)
/* D = f16(A B) B, both times B stored [j][k]: the accumulator as operand A. */
TEST_KERNEL(WAVE, mma_chain_f16)
{
    struct mma_acc d;
    struct mma_a fa;
    struct mma_b fb;
    pdl_launch();
    pdl_wait();
    product(a, &d, 0);
    mma_a_of_acc(&fa, &d);
    mma_load_b(&fb, lds() + PLACE_B, PADDED);
    mma_zero(&d);
    mma_f16(&d, &fa, &fb);
    tile_to_arena(a, &d);
}
/* D[i][j] = the largest (j even) or the sum (j odd) of row i of A B. */
TEST_KERNEL(WAVE, mma_reduce)
{
    struct mma_acc d, r;
    pdl_launch();
    pdl_wait();
    product(a, &d, 0);
    for (uint32_t e = 0; e < MMA_ACC; e++) {
        float largest = d.x[e], sum = 0.0f;
        for (uint32_t o = 0; o < MMA_ACC; o++)
            if (mma_row(o) == mma_row(e)) {
                largest = max_f32(largest, d.x[o]);
                sum += d.x[o];
            }
        largest = mma_rows_max(largest);
        sum = mma_rows_sum(sum);
        r.x[e] = mma_col(e) % 2 ? sum : largest;
    }
    tile_to_arena(a, &r);
}
#else
/* d = (A B)^T, B stored [j][k]. */
DEVICE void product_of_columns(const struct forge_kernel_args a, struct mma_acc *d)
{
    struct mma_a fa;
    struct mma_b fb;
    tile_to_lds(lds() + PLACE_A, WEIGHT(0), PADDED);
    tile_to_lds(lds() + PLACE_B, WEIGHT(1), PADDED);
    wait_for_tiles();
    mma_zero(d);
    mma_load_a(&fa, lds() + PLACE_B, PADDED);
    mma_load_b(&fb, lds() + PLACE_A, PADDED);
    mma_f16(d, &fa, &fb);
}
DEVICE void columns_to_arena(const struct forge_kernel_args a, const struct mma_acc *d)
{
    for (uint32_t e = 0; e < MMA_ACC; e++) FLOATS(0)[mma_col(e) * 16 + mma_row(e)] = d->x[e];
}
/* D = f16(A B) B, both times B stored [j][k], as D^T = B^T f16(A B)^T: the accumulator as operand B. */
TEST_KERNEL(WAVE, mma_chain_f16)
{
    struct mma_acc d;
    struct mma_a rows, fa;
    struct mma_b fb;
    pdl_launch();
    pdl_wait();
    product_of_columns(a, &d);
    (void)mma_b_of_acc(&fb, &d, 0.0f);
    mma_load_a(&rows, lds() + PLACE_B, PADDED);
    fa = rows;
    for (uint32_t n = 0; n < MMA_WORDS / 2 && MMA_WORDS == 8; n++) {                  /* k = 0, 2 .. 14, 1, 3 .. 15 */
        fa.x[n] = byte_perm(rows.x[2 * n], rows.x[2 * n + 1], 0x05040100u);
        fa.x[n + MMA_WORDS / 2] = byte_perm(rows.x[2 * n], rows.x[2 * n + 1], 0x07060302u);
    }
    mma_zero(&d);
    mma_f16(&d, &fa, &fb);
    columns_to_arena(a, &d);
}
/* D[i][j] = the largest (j even) or the sum (j odd) of row i of A B. */
TEST_KERNEL(WAVE, mma_reduce)
{
    struct mma_acc d, r;
    pdl_launch();
    pdl_wait();
    product_of_columns(a, &d);
    float largest = d.x[0], sum = 0.0f;
    for (uint32_t e = 0; e < MMA_ACC; e++) {
        largest = max_f32(largest, d.x[e]);
        sum += d.x[e];
    }
    largest = mma_cols_max(largest);
    sum = mma_cols_sum(sum);
    for (uint32_t e = 0; e < MMA_ACC; e++) r.x[e] = mma_row(e) % 2 ? sum : largest;
    columns_to_arena(a, &r);
}
#endif
/* D = A B with the tiles in swizzled rows, at all pieces in turn: four times the product. */
TEST_KERNEL(WAVE, mma_swizzled)
{
    struct mma_acc d;
    struct mma_wide_a fa;
    struct mma_wide_b fb;
    pdl_launch();
    pdl_wait();
    mma_zero(&d);
    for (uint32_t n = lane_id(); n < 16 * 8; n += WAVE) {
        copy16(lds() + lds_piece(n / 8, SWIZZLED_ROW_BYTES, n % 8, 1), WEIGHT(0) + n / 8 * 32 + n % 2 * 16, 1);
        copy16(lds() + 2048 + lds_piece(n / 8, SWIZZLED_ROW_BYTES, n % 8, 1), WEIGHT(1) + n / 8 * 32 + n % 2 * 16, 1);
    }
    wait_for_tiles();
    for (uint32_t piece = 0; piece < 8; piece += 2 * MMA_WIDE) {
        mma_load_wide_a_swizzled(&fa, lds(), piece);
        mma_load_wide_b_swizzled(&fb, lds() + 2048, piece);
        wide_f16(&d, &fa, &fb);
    }
    tile_to_arena(a, &d);
}
/* D = A B by wide operands: A in each 16 columns, B in the last ones, zeros in the others. */
TEST_KERNEL(WAVE, mma_wide_rows)
{
    enum { PIECES = 2 * MMA_WIDE, STRIDE = PIECES * 16 + 16 };
    struct mma_acc d;
    struct mma_wide_a fa;
    struct mma_wide_b fb;
    pdl_launch();
    pdl_wait();
    mma_zero(&d);
    for (uint32_t n = lane_id(); n < 16 * PIECES; n += WAVE) {
        const uint32_t row = n / PIECES, piece = n % PIECES;
        copy16(lds() + row * STRIDE + piece * 16, WEIGHT(0) + row * 32 + piece % 2 * 16, 1);
        copy16(lds() + 2048 + row * STRIDE + piece * 16, WEIGHT(1) + row * 32 + piece % 2 * 16, piece / 2 == MMA_WIDE - 1);
    }
    wait_for_tiles();
    mma_load_wide_a(&fa, lds(), STRIDE);
    mma_load_wide_b(&fb, lds() + 2048, STRIDE);
    wide_f16(&d, &fa, &fb);
    tile_to_arena(a, &d);
}
/* D = A B in bf16 by wide operands in swizzled rows: A in each 16 of 64 columns, B in the second, zeros in the others. */
TEST_KERNEL(WAVE, mma_wide_swizzled)
{
    struct mma_acc d;
    struct mma_wide_a fa;
    struct mma_wide_b fb;
    pdl_launch();
    pdl_wait();
    mma_zero(&d);
    for (uint32_t n = lane_id(); n < 16 * 8; n += WAVE) {
        copy16(lds() + lds_piece(n / 8, SWIZZLED_ROW_BYTES, n % 8, 1), WEIGHT(0) + n / 8 * 32 + n % 2 * 16, 1);
        copy16(lds() + 2048 + lds_piece(n / 8, SWIZZLED_ROW_BYTES, n % 8, 1), WEIGHT(1) + n / 8 * 32 + n % 2 * 16, n % 8 / 2 == 1);
    }
    wait_for_tiles();
    for (uint32_t piece = 0; piece < 8; piece += 2 * MMA_WIDE) {
        mma_load_wide_a_swizzled(&fa, lds(), piece);
        mma_load_wide_b_swizzled(&fb, lds() + 2048, piece);
        wide_bf16(&d, &fa, &fb);
    }
    tile_to_arena(a, &d);
}
