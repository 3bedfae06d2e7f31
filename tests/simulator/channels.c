/* channels.c -- kernels that read rows like products, for test_channels.c: `rows` reads a row per wave, `lanes` a row per lane. */
#include "templates/gpu/dialect.h"

enum { THREADS = 512 };
/* w: rows of `bytes` bytes, a multiple of a wave's bytes, at distances of `stride`; a lane reads `piece` contiguous bytes. */
struct rows_args { const uint8_t *w; uint32_t *out; uint64_t stride; uint32_t rows, bytes, piece, groups; };

KERNEL(THREADS, 1) rows(const struct rows_args a)
{
    const uint32_t waves = a.groups * (THREADS / WAVE);
    u32x4 sum = { 0, 0, 0, 0 };
    for (uint32_t r = group_x() + a.groups * wave_id(); r < a.rows; r += waves)
        for (uint32_t at = 0; at < a.bytes; at += WAVE * a.piece)
            for (uint32_t k = 0; k < a.piece; k += 16)
                sum ^= *(const u32x4 *)(const void *)(a.w + r * a.stride + at + lane_id() * a.piece + k);
    a.out[group_x() * THREADS + thread_x()] = sum.x ^ sum.y ^ sum.z ^ sum.w;
}

/* Each lane reads 4 bytes of its own row. */
KERNEL(THREADS, 1) lanes(const struct rows_args a)
{
    const uint32_t row = group_x() * THREADS + thread_x();
    uint32_t sum = 0;
    for (uint32_t at = 0; at < a.bytes && row < a.rows; at += 64)
        sum ^= *(const uint32_t *)(const void *)(a.w + row * a.stride + at);
    a.out[row] = sum;
}
