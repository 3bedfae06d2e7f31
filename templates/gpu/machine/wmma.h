/* wmma.h -- the fragments of RDNA 3's WMMA, 16 x 16 x 16 (AMD "RDNA3 Instruction Set Architecture").  l: lane of 32.
 *   A word n: row l % 16, k = 2 n and, in the high half, 2 n + 1; the same in lane l + 16.  B: column l % 16 in the same way.
 *   sums, register r: row 2 r + l / 16, column l % 16. */
#ifndef FORGE_WMMA_H
#define FORGE_WMMA_H
#include "fragments.h"

DEVICE uint32_t mma_row(const uint32_t e) { return 2 * e + lane_id() / 16; }
DEVICE uint32_t mma_col(const uint32_t e) { (void)e; return lane_id() % 16; }
enum { MMA_ROWS = MMA_ACC };
DEVICE uint32_t mma_of_row(const uint32_t g, const uint32_t n) { return g + n; }

DEVICE void mma_rows(uint32_t x[8], const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    const uint32_t row = lane_id() % 16;
    const u32x4 low = *(const u32x4 *)(const void *)(tile + lds_piece(row, stride, piece, swizzle));
    const u32x4 high = *(const u32x4 *)(const void *)(tile + lds_piece(row, stride, piece ^ 1, swizzle));
    for (uint32_t n = 0; n < 4; n++) {
        x[n] = low[n];
        x[n + 4] = high[n];
    }
}
DEVICE void mma_rows_a(struct mma_a *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows(f->x, tile, stride, piece, swizzle);
}
DEVICE void mma_rows_b(struct mma_b *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows(f->x, tile, stride, piece, swizzle);
}
DEVICE void mma_load_b_trans(struct mma_b *f, const uint8_t *tile, const uint32_t stride)
{
    for (uint32_t n = 0; n < 8; n++) {
        const uint8_t *p = tile + 2 * n * stride + lane_id() % 16 * 2;
        f->x[n] = *(const uint16_t *)(const void *)p | (uint32_t)*(const uint16_t *)(const void *)(p + stride) << 16;
    }
}

/* A lane has every second row: lanes of the lower half of the wave have even rows. */
DEVICE uint32_t mma_k_of_acc(const uint32_t slot) { return slot / 16 * 16 + slot % 8 * 2 + slot / 8 % 2; }
DEVICE uint32_t mma_row_together(const uint32_t i) { return i % 2 * 8 + i / 2; }
/* Makes operand B from the first eight k, in the lower half of the wave, and the others, in the upper half. */
DEVICE void mma_b_of_halves(struct mma_b *f, const uint32_t mine[4])
{
    const uint32_t upper = lane_id() & 16;
    for (uint32_t n = 0; n < 4; n++) {
        const uint32_t other = lane_xor_u32(mine[n], 16);
        f->x[n] = upper ? other : mine[n];
        f->x[n + 4] = upper ? mine[n] : other;
    }
}
/* Converts the sums to f16.  The order of k is 0, 2 .. 14, 1, 3 .. 15, because the lower half of the wave has even rows and the upper half
 * odd rows.  Returns sum plus this lane's elements as rounded. */
DEVICE float mma_b_of_acc(struct mma_b *f, const struct mma_acc *c, float sum)
{
    uint32_t mine[4];
    for (uint32_t n = 0; n < 4; n++) {
        mine[n] = f16x2_bits_cut(c->x[2 * n], c->x[2 * n + 1]);
        sum = dot2_f16(mine[n], 0x3c003c00u, sum);
    }
    mma_b_of_halves(f, mine);
    return sum;
}
#endif
