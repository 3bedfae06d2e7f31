/* quantize.h -- activation rows: where their parts lie, and float -> int8 blocks of 32. */
#ifndef FORGE_QUANTIZE_H
#define FORGE_QUANTIZE_H
#include "vec.h"

/* A quantised row: int8 q[cols], float d[cols/32], int32 sum[cols/16] (of 16 q's each).  cols is a multiple of 32.
 * Strides are odd multiples of 64 bytes, so that the rows of a token tile fall into different cache sets. */
#define ROW_STRIDE(bytes) ((((bytes) + 63) / 64 | 1) * 64)
#define XQ_SCALES(cols)   (cols)
#define XQ_SUMS(cols)     ((cols) + (cols) / 8)
#define XQ_STRIDE(cols)   ROW_STRIDE((cols) + (cols) / 8 + (cols) / 4)
#define XF_STRIDE(cols)   ROW_STRIDE((cols) * 4)

/* Block `block` of a row from 32 floats: d = max|x| / 127, q = x / d to nearest, ties to even; |q| <= 127.
 * A block whose largest value is below 2^-100 counts as zero: 127 / max|x| must stay finite. */
DEVICE void quantize_block(void *xq, const float *x32, uint32_t block, uint32_t cols)
{
    uint8_t *row = xq;
    const vf a = vf_load(x32), b = vf_load(x32 + 16);
    const float top = vf_hmax(vf_max(vf_abs(a), vf_abs(b)));
    const int zero = top < 0x1p-100f;
    const vf inverse = vf_set1(zero ? 0.0f : 127.0f / top);
    const vi qa = vi_from_vf(vf_mul(a, inverse)), qb = vi_from_vf(vf_mul(b, inverse));
    vi_store_i8((int8_t *)row + 32 * block, qa);
    vi_store_i8((int8_t *)row + 32 * block + 16, qb);
    const float d = zero ? 0.0f : top * (1.0f / 127);
    const int32_t sum[2] = { vi_sum(qa), vi_sum(qb) };
    __builtin_memcpy(row + XQ_SCALES(cols) + 4 * block, &d, 4);
    __builtin_memcpy(row + XQ_SUMS(cols) + 8 * block, sum, 8);
}
/* xq: XQ_STRIDE(cols) bytes, 64-byte aligned.  x: [cols]. */
DEVICE void quantize_row(void *xq, const float *x, uint32_t cols)
{
    for (uint32_t block = 0; block < cols / 32; block++) quantize_block(xq, x + 32 * block, block, cols);
}
#endif
