/* fragments.h -- tiles of the matrix unit in registers: the common part of the layouts (wmma.h, mfma.h, mma_sync.h).  A layout says which
 * lane and register has which row and column, and defines
 *   mma_row(), mma_col()                    row and column of an element of the sums;
 *   MMA_ROWS, mma_of_row()                  number of rows in which a lane has elements, and the elements of each row;
 *   mma_rows_a(), mma_rows_b()              operands from rows of LDS;
 *   mma_rows_wide_a(), mma_rows_wide_b()    operands of FAMILY_MMA_WIDE products, if that is more than one;
 *   mma_load_b_trans()                      operand B from rows of k;
 *   mma_a_of_acc() or mma_b_of_acc()        operands from sums (FAMILY_MMA_SUMS_ARE_A);
 * and, if sums become operand B, for the attention of prefill,
 *   mma_k_of_acc()                          the order that mma_b_of_acc() gives k: the row of the sums that is k number `slot`, if wide
 *                                           operands combine with MMA_WIDE tiles of sums one below the other;
 *   mma_row_together()                      the place of row i when rows are sorted by lanes: mma_row(e) goes to MMA_ACC (l / 16) + e;
 *   mma_b_of_halves()                       if lanes hold an operand twice (FAMILY_MMA_COPIES): B from the parts of the wave's two
 * halves. */
#ifndef FORGE_FRAGMENTS_H
#define FORGE_FRAGMENTS_H
#include "words.h"

#define MMA_ACC   (256 / WAVE)                   /* elements of the sums per lane */
enum { MMA_WORDS = FAMILY_MMA_WORDS(FAMILY) };    /* 32-bit words of an operand tile per lane */
STATIC_ASSERT(WAVE == FAMILY_WAVE(FAMILY), "a family's fragments are spread over its waves");

struct mma_acc { float x[MMA_ACC]; };
struct mma_a   { uint32_t x[MMA_WORDS]; };
struct mma_b   { uint32_t x[MMA_WORDS]; };
/* Operands of MMA_WIDE_COLS columns of k, as many as a lane reads with 16 bytes.  The columns of the first product are the same for A and B
 * but not specified: mma_load_wide_*() loads both. */
enum { MMA_WIDE = FAMILY_MMA_WIDE(FAMILY), MMA_WIDE_COLS = 16 * MMA_WIDE };
struct mma_wide_a { struct mma_a k[MMA_WIDE]; };
struct mma_wide_b { struct mma_b k[MMA_WIDE]; };

/* Byte offset of 16-byte piece `piece` of row `row` in LDS.  With swizzle, the pieces of neighbouring rows are in different banks although
 * rows are 128 bytes apart (SWIZZLED_ROW_BYTES); without it, the caller pads rows to an odd number of pieces. */
enum { SWIZZLED_ROW_BYTES = 128 };
DEVICE uint32_t lds_piece(const uint32_t row, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    return row * stride + (swizzle ? piece ^ row % 8 : piece) * 16;
}
#endif
