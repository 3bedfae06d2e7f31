/* mma_sync.h -- the fragments of mma.sync m16n8k16, twice side by side (PTX ISA "Matrix Fragments for mma.m16n8k16"). 
 * l: lane of 32, g = l / 4, q = l % 4.
 *   A words 0..3: (row, k) = (g, 2q) (g + 8, 2q) (g, 2q + 8) (g + 8, 2q + 8), and k + 1 in the high half.
 *   B words 0, 1: (k, column) = (2q, g) (2q + 8, g); words 2, 3: the same of column g + 8.
 *   sums, register r: row g + 8 (r / 2 % 2), column 8 (r / 4) + 2q + r % 2.
 * Uses the machine's ldmatrix(x, row, transposed): four 8 x 8 matrices of 16-bit elements.  Lanes 8m .. 8m + 7 pass the row addresses of
 * matrix m, which goes to word m of all lanes: lane l gets elements (g, 2q) and the next; transposed, (2q, g) and the one below.  (PTX ISA
 * "ldmatrix") */
#ifndef FORGE_MMA_SYNC_H
#define FORGE_MMA_SYNC_H
#include "fragments.h"

DEVICE uint32_t mma_row(const uint32_t e) { return lane_id() / 4 + 8 * (e / 2 % 2); }
DEVICE uint32_t mma_col(const uint32_t e) { return 8 * (e / 4) + lane_id() % 4 * 2 + e % 2; }
enum { MMA_ROWS = 2 };
DEVICE uint32_t mma_of_row(const uint32_t g, const uint32_t n) { return 2 * g + n % 2 + 4 * (n / 2); }

/* Products of bytes: see mma.h.  int32 sums begin at MMA_BYTES_ZERO, the bits of 1.5 2^23. */
enum { MMA_BYTES_ZERO = 0x4b400000 };

/* Loads the matrices of A in the order (i, k), (i + 8, k), (i, k + 8), (i + 8, k + 8). */
DEVICE void mma_rows_a(struct mma_a *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    ldmatrix(f->x, tile + lds_piece(lane_id() % 16, stride, piece ^ lane_id() / 16, swizzle), 0);
}
DEVICE void mma_rows_b(struct mma_b *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    ldmatrix(f->x, tile + lds_piece(lane_id() % 8 + lane_id() / 16 * 8, stride, piece ^ lane_id() / 8 % 2, swizzle), 0);
}
DEVICE void mma_load_b_trans(struct mma_b *f, const uint8_t *tile, const uint32_t stride)
{
    ldmatrix(f->x, tile + lds_piece(lane_id() % 16, stride, lane_id() / 16, 0), 1);
}

/* Converts the sums to f16; the registers are in place already. */
DEVICE void mma_a_of_acc(struct mma_a *f, const struct mma_acc *c)
{
    for (uint32_t n = 0; n < 4; n++) f->x[n] = f16x2_bits(c->x[2 * n], c->x[2 * n + 1]);
}
#endif
