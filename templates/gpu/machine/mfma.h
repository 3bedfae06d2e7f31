/* mfma.h -- the fragments of CDNA 3's MFMA, 16 x 16 x 16 (AMD "CDNA3 Instruction Set Architecture").  l: lane of 64.
 *   A word n: row l % 16, k = 4 (l / 16) + 2 n and, in the high half, the next.  B: column l % 16 in the same way.
 *   sums, register r: row 4 (l / 16) + r, column l % 16. */
#ifndef FORGE_MFMA_H
#define FORGE_MFMA_H
#include "fragments.h"

DEVICE uint32_t mma_row(const uint32_t e) { return 4 * (lane_id() / 16) + e; }
DEVICE uint32_t mma_col(const uint32_t e) { (void)e; return lane_id() % 16; }
enum { MMA_ROWS = MMA_ACC };
DEVICE uint32_t mma_of_row(const uint32_t g, const uint32_t n) { return g + n; }

DEVICE void mma_rows(uint32_t x[2], const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    const uint32_t row = lane_id() % 16;
    const u32x2 v = *(const u32x2 *)(const void *)(tile + lds_piece(row, stride, piece ^ lane_id() / 32, swizzle) + lane_id() / 16 % 2 * 8);
    x[0] = v.x;
    x[1] = v.y;
}
DEVICE void mma_rows_a(struct mma_a *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows(f->x, tile, stride, piece, swizzle);
}
DEVICE void mma_rows_b(struct mma_b *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows(f->x, tile, stride, piece, swizzle);
}
/* Loads the operands of two products by one read: lane l has columns 8 (l / 16) .. + 7, of which the first four go to the first product.
 * Lanes that read at the same time use different banks. */
DEVICE void mma_rows_wide(uint32_t first[2], uint32_t second[2], const uint8_t *tile, const uint32_t stride, const uint32_t piece,
                          const uint32_t swizzle)
{
    const u32x4 v = *(const u32x4 *)(const void *)(tile + lds_piece(lane_id() % 16, stride, piece ^ lane_id() / 16, swizzle));
    first[0] = v.x;
    first[1] = v.y;
    second[0] = v.z;
    second[1] = v.w;
}
DEVICE void mma_rows_wide_a(struct mma_wide_a *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows_wide(f->k[0].x, f->k[1].x, tile, stride, piece, swizzle);
}
DEVICE void mma_rows_wide_b(struct mma_wide_b *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows_wide(f->k[0].x, f->k[1].x, tile, stride, piece, swizzle);
}
DEVICE void mma_load_b_trans(struct mma_b *f, const uint8_t *tile, const uint32_t stride)
{
    const uint32_t k = lane_id() / 16 * 4;
    for (uint32_t n = 0; n < 2; n++) {
        const uint8_t *p = tile + (k + 2 * n) * stride + lane_id() % 16 * 2;
        f->x[n] = *(const uint16_t *)(const void *)p | (uint32_t)*(const uint16_t *)(const void *)(p + stride) << 16;
    }
}

/* The four rows of a lane are four k of one product; a wide operand A has eight columns in a lane, of two products. */
DEVICE uint32_t mma_k_of_acc(const uint32_t slot) { return slot / 32 * 32 + slot / 4 % 2 * 16 + slot / 8 % 4 * 4 + slot % 4; }
DEVICE uint32_t mma_row_together(const uint32_t i) { return i; }
/* Converts the sums to f16; the registers are in place already.  Returns sum plus this lane's elements as rounded. */
DEVICE float mma_b_of_acc(struct mma_b *f, const struct mma_acc *c, float sum)
{
    for (uint32_t n = 0; n < 2; n++) {
        f->x[n] = f16x2_bits_cut(c->x[2 * n], c->x[2 * n + 1]);
        sum = dot2_f16(f->x[n], 0x3c003c00u, sum);
    }
    return sum;
}
#endif
