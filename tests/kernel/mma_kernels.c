/* mma_kernels.c -- kernels of one tile product each, to test which lane has which element.  A[16 i][16 k] at WEIGHT(0), B at WEIGHT(1),
 * both 16-bit and row-major with 32-byte rows; D[16][16] in f32 is written to the arena.  One workgroup of one wave; LDS: 4096 bytes. */
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

#if FAMILY_MMA_SUMS_ARE_A(FAMILY)
/* d = f16(A B) B, both times B stored [j][k]: the accumulator as operand A. */
DEVICE void chain(const struct forge_kernel_args a, struct mma_acc *d)
{
    struct mma_a fa;
    struct mma_b fb;
    product(a, d, 0);
    mma_a_of_acc(&fa, d);
    mma_load_b(&fb, lds() + PLACE_B, PADDED);
    mma_zero(d);
    mma_f16(d, &fa, &fb);
}
/* d[i][j] = the maximum (j even) or the sum (j odd) of row i of A B. */
DEVICE void reduce(const struct forge_kernel_args a, struct mma_acc *d)
{
    struct mma_acc c;
    product(a, &c, 0);
    for (uint32_t e = 0; e < MMA_ACC; e++) {
        float largest = c.x[e], sum = 0.0f;
        for (uint32_t o = 0; o < MMA_ACC; o++)
            if (mma_row(o) == mma_row(e)) {
                largest = max_f32(largest, c.x[o]);
                sum += c.x[o];
            }
        largest = mma_rows_max(largest);
        sum = mma_rows_sum(sum);
        d->x[e] = mma_col(e) % 2 ? sum : largest;
    }
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
/* d = (f16(A B) B)^T, both times B stored [j][k], as B^T f16(A B)^T: the accumulator as operand B. */
DEVICE void chain_of_columns(const struct forge_kernel_args a, struct mma_acc *d)
{
    struct mma_a rows, fa;
    struct mma_b fb;
    product_of_columns(a, d);
    (void)mma_b_of_acc(&fb, d, 0.0f);
    mma_load_a(&rows, lds() + PLACE_B, PADDED);
    fa = rows;
    for (uint32_t n = 0; n < MMA_WORDS / 2 && MMA_WORDS == 8; n++) {                  /* k = 0, 2 .. 14, 1, 3 .. 15 */
        fa.x[n] = byte_perm(rows.x[2 * n], rows.x[2 * n + 1], 0x05040100u);
        fa.x[n + MMA_WORDS / 2] = byte_perm(rows.x[2 * n], rows.x[2 * n + 1], 0x07060302u);
    }
    mma_zero(d);
    mma_f16(d, &fa, &fb);
}
/* d[j][i] = the maximum (j even) or the sum (j odd) of row i of A B. */
DEVICE void reduce_of_columns(const struct forge_kernel_args a, struct mma_acc *d)
{
    struct mma_acc c;
    product_of_columns(a, &c);
    float largest = c.x[0], sum = 0.0f;
    for (uint32_t e = 0; e < MMA_ACC; e++) {
        largest = max_f32(largest, c.x[e]);
        sum += c.x[e];
    }
    largest = mma_cols_max(largest);
    sum = mma_cols_sum(sum);
    for (uint32_t e = 0; e < MMA_ACC; e++) d->x[e] = mma_row(e) % 2 ? sum : largest;
}
#endif
/* d = A B with the tiles in swizzled rows of 64 columns, A in each 16 columns.  B in each 16 columns too gives four times the product; with
 * `once`, and in bf16, B is in the second 16 columns and the others are zero. */
DEVICE void swizzled(const struct forge_kernel_args a, struct mma_acc *d, const uint32_t once)
{
    struct mma_wide_a fa;
    struct mma_wide_b fb;
    mma_zero(d);
    for (uint32_t n = lane_id(); n < 16 * 8; n += WAVE) {
        const uint32_t row = n / 8, piece = n % 8, from = row * 32 + piece % 2 * 16;
        copy16(lds() + lds_piece(row, SWIZZLED_ROW_BYTES, piece, 1), WEIGHT(0) + from, 1);
        copy16(lds() + 2048 + lds_piece(row, SWIZZLED_ROW_BYTES, piece, 1), WEIGHT(1) + from, !once || piece / 2 == 1);
    }
    wait_for_tiles();
    for (uint32_t piece = 0; piece < 8; piece += 2 * MMA_WIDE) {
        mma_load_wide_a_swizzled(&fa, lds(), piece);
        mma_load_wide_b_swizzled(&fb, lds() + 2048, piece);
        if (once) wide_bf16(d, &fa, &fb);
        else wide_f16(d, &fa, &fb);
    }
}
/* d = A B by wide operands: A in each 16 columns, B in the last 16, zeros in the other columns of B. */
DEVICE void wide_rows(const struct forge_kernel_args a, struct mma_acc *d)
{
    enum { PIECES = 2 * MMA_WIDE, STRIDE = PIECES * 16 + 16 };
    struct mma_wide_a fa;
    struct mma_wide_b fb;
    mma_zero(d);
    for (uint32_t n = lane_id(); n < 16 * PIECES; n += WAVE) {
        const uint32_t row = n / PIECES, piece = n % PIECES;
        copy16(lds() + row * STRIDE + piece * 16, WEIGHT(0) + row * 32 + piece % 2 * 16, 1);
        copy16(lds() + 2048 + row * STRIDE + piece * 16, WEIGHT(1) + row * 32 + piece % 2 * 16, piece / 2 == MMA_WIDE - 1);
    }
    wait_for_tiles();
    mma_load_wide_a(&fa, lds(), STRIDE);
    mma_load_wide_b(&fb, lds() + 2048, STRIDE);
    wide_f16(d, &fa, &fb);
}

/* The kernel `name`: `computed` makes d, `stored` writes it to the arena. */
#define MMA_KERNEL(name, computed, stored) \
    TEST_KERNEL(WAVE, name) \
    { \
        struct mma_acc d; \
        pdl_launch(); \
        pdl_wait(); \
        computed; \
        stored(a, &d); \
    }
MMA_KERNEL(mma_rows_f16,      product(a, &d, 0),        tile_to_arena)
MMA_KERNEL(mma_trans_f16,     product(a, &d, 1),        tile_to_arena)
MMA_KERNEL(mma_rows_bf16,     product(a, &d, 2),        tile_to_arena)
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)
MMA_KERNEL(mma_chain_f16,     chain(a, &d),             tile_to_arena)
MMA_KERNEL(mma_reduce,        reduce(a, &d),            tile_to_arena)
#else
MMA_KERNEL(mma_chain_f16,     chain_of_columns(a, &d),  columns_to_arena)
MMA_KERNEL(mma_reduce,        reduce_of_columns(a, &d), columns_to_arena)
#endif
MMA_KERNEL(mma_swizzled,      swizzled(a, &d, 0),       tile_to_arena)
MMA_KERNEL(mma_wide_rows,     wide_rows(a, &d),         tile_to_arena)
MMA_KERNEL(mma_wide_swizzled, swizzled(a, &d, 1),       tile_to_arena)
