/* mma.h -- products of 16 x 16 x 16 tiles on the matrix unit, one wave per tile: D[16 i][16 j] += A[16 i][16 k] B[16 k][16 j], A and B f16
 * or bf16, sums f32.  A tile is spread over the lanes of a wave.  The family's layout, at the head of machine/wmma.h, mfma.h or mma_sync.h,
 * says which lane holds what; templates use mma_row() and mma_col(), and mma_load_*() to read LDS.  Every lane of the wave calls all
 * functions.  Also here: copies from global memory to LDS, which some families do without registers.
 *
 * A machine file has a layout (described in machine/fragments.h) and
 *   mma_f16(c, a, b), mma_bf16        the product
 *   mma_narrow_f16(c, a, b)           where sums are operands A (FAMILY_MMA_SUMS_ARE_A): the product with the first 8 columns of B alone,
 *                                     the first two words of a lane; sums are the first four
 *   mma_bytes32(d, a, b), mma_bytes16 where there are products of bytes (FAMILY_MMA_BYTES): MMA_BYTES_ZERO + 16 rows of A, int8, times 8
 *                                     columns of B; of 32 k, or 16.  Lane 4g + q has word q of 16 bytes of k: for A of row g and of row
 *                                     g + 8, then of the second 16 k; for B of column g; sums e: row g + 8 (e / 2), column 2q + e % 2.
 *                                     ldmatrix(x, row, 0) loads them: lanes 8m .. pass the addresses of eight rows of 16 bytes for word m
 *   mma_pin(c)                        the sum is complete here: its products are not sunk below the code that follows, which would keep
 *                                     the registers of their operands in use
 *   copy_begin() .. copy_end()        16 bytes from global memory to LDS.  The destination must be free from copy_begin() on; it is filled
 *                                     after copy_end(), copy_wait() and a barrier.  In between the bytes are in flight: to LDS where
 *                                     COPIES_REACH_LDS, which needs no copy_end(), elsewhere to the registers of struct copy.  valid 0:
 *                                     stores zeros and does not read `from`
 *   copy_commit, copy_wait(n)         closes a group of copies of this thread; waits for all but its last n groups */
#ifndef FORGE_MMA_H
#define FORGE_MMA_H
#include "dialect.h"

enum { COPIES_REACH_LDS = FAMILY_COPIES_REACH_LDS(FAMILY) };

DEVICE void mma_zero(struct mma_acc *c)
{
    for (uint32_t e = 0; e < MMA_ACC; e++) c->x[e] = 0.0f;
}

/* ---- operands from LDS ---- */
/* tile: in LDS, 16-byte aligned; stride: bytes between its rows, a multiple of 16.  A: element (i, k) at tile + i stride + 2 k.
 * B: element (k, j) at tile + j stride + 2 k, as rows of a weight matrix lie; transposed (mma_load_b_trans): at tile + k stride + 2 j. */
DEVICE void mma_load_a(struct mma_a *f, const uint8_t *tile, const uint32_t stride) { mma_rows_a(f, tile, stride, 0, 0); }
DEVICE void mma_load_b(struct mma_b *f, const uint8_t *tile, const uint32_t stride) { mma_rows_b(f, tile, stride, 0, 0); }

/* The same for wide operands.  swizzled: from rows of SWIZZLED_ROW_BYTES with pieces where lds_piece() puts them.  tile: the first row, a
 * multiple of 8 in the swizzled area, which is 128-byte aligned; piece: the first of the 2 MMA_WIDE pieces that hold these columns, a
 * multiple of that. */
#if FAMILY_MMA_WIDE(FAMILY) == 1
DEVICE void mma_rows_wide_a(struct mma_wide_a *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows_a(&f->k[0], tile, stride, piece, swizzle);
}
DEVICE void mma_rows_wide_b(struct mma_wide_b *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows_b(&f->k[0], tile, stride, piece, swizzle);
}
#endif
DEVICE void mma_load_wide_a(struct mma_wide_a *f, const uint8_t *tile, const uint32_t stride) { mma_rows_wide_a(f, tile, stride, 0, 0); }
DEVICE void mma_load_wide_b(struct mma_wide_b *f, const uint8_t *tile, const uint32_t stride) { mma_rows_wide_b(f, tile, stride, 0, 0); }
DEVICE void mma_load_wide_a_swizzled(struct mma_wide_a *f, const uint8_t *tile, const uint32_t piece)
{
    mma_rows_wide_a(f, tile, SWIZZLED_ROW_BYTES, piece, 1);
}
DEVICE void mma_load_wide_b_swizzled(struct mma_wide_b *f, const uint8_t *tile, const uint32_t piece)
{
    mma_rows_wide_b(f, tile, SWIZZLED_ROW_BYTES, piece, 1);
}

/* ---- between two products: reductions over the lanes that share rows of an accumulator that becomes operand A, or columns of one that
 * becomes operand B ---- */
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)
/* Over the lanes that hold the same rows: over 16 columns if each lane has first reduced its own elements of a row (mma_of_row). */
DEVICE float mma_rows_max(float x) { return lanes_max_f32(x, 4); }
DEVICE float mma_rows_sum(float x) { return lanes_sum_f32(x, 4); }
#else
/* Over the lanes that hold the same column: over 16 rows if each lane has first reduced its own elements. */
DEVICE float mma_cols_max(float x)
{
    for (uint32_t mask = 16; mask < WAVE; mask *= 2) x = max_f32(x, lane_xor_f32(x, mask));
    return x;
}
DEVICE float mma_cols_sum(float x)
{
    for (uint32_t mask = 16; mask < WAVE; mask *= 2) x += lane_xor_f32(x, mask);
    return x;
}
#endif

/* ---- products of four waves at once, directly from LDS ---- */
/* Waves 4n .. 4n + 3 of a group multiply 64 rows of A by 128 of B.  Wave w has rows 16 (w % 4) .. of the result, as eight tiles of 16 x 16
 * side by side with the layout of single-wave tiles.  Both operands are swizzled rows (SWIZZLED_ROW_BYTES) that begin at multiples of
 * 1024 bytes.
 * LDS writes of the group are visible after mma_group_written() in every thread that wrote and a barrier().  Then: mma_group_begin(),
 * products, mma_group_commit().  The sums and the operands belong to the caller again after mma_group_wait(n), which leaves the last n
 * commits in flight, and mma_group_sum() for each tile.
 * mma_group_f16(c, a, b, piece): c[8]: this wave's tiles; a, b: the first rows; piece: even, the first of the two that hold these 16 k.
 * mma_group_half_f16: the same with 64 rows of B: c[4].
 * mma_group_weights_f16(c, a, rows, apart, tiles): A is this wave's 16 rows, in registers; B is the 16 swizzled rows of k at `rows`, of 64
 * columns each, with the next 64 columns `apart` bytes further; tiles of 16 columns: 4 or 8. */
enum { MMA_GROUP_WAVES = 4, MMA_GROUP_A = 64, MMA_GROUP_B = 128 };   /* rows of A and of B */
#ifndef MMA_GROUP                                /* on machines without it: never called */
#define MMA_GROUP 0
DEVICE void mma_group_written(void) { }
DEVICE void mma_group_begin(void)   { }
DEVICE void mma_group_commit(void)  { }
DEVICE void mma_group_wait(const uint32_t n) { (void)n; }
DEVICE void mma_group_sum(struct mma_acc *c) { (void)c; }
DEVICE void mma_group_f16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece)
{
    (void)c; (void)a; (void)b; (void)piece;
}
DEVICE void mma_group_half_f16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece)
{
    (void)c; (void)a; (void)b; (void)piece;
}
DEVICE void mma_group_bf16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece)
{
    (void)c; (void)a; (void)b; (void)piece;
}
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)
DEVICE void mma_group_weights_f16(struct mma_acc *c, const struct mma_a *a, const uint8_t *rows, const uint32_t apart,
                                  const uint32_t tiles)
{
    (void)c; (void)a; (void)rows; (void)apart; (void)tiles;
}
#endif
#endif
#endif
