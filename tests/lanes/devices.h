/* devices.h -- sizes and values shared by devices_kernels.c and test_devices.c. */
#ifndef FORGE_DEVICES_H
#define FORGE_DEVICES_H
#include <stdint.h>

#ifndef STEPS
#define STEPS 200
#endif
enum { COLS = 192, THREADS = 64, GROUPS = COLS / THREADS, HALF = 8 * 2 * COLS, COLLECTIVES = 2 * STEPS };

/* sum[n]: sums of the collective with tag n + 1. */
struct devices_arena { float x[COLS], sum[COLLECTIVES][COLS]; };

/* Whole numbers below 2^16, so that the sum of two is exact. */
static inline float devices_next(float sum, uint32_t rank, uint32_t column)
{
    return (float)(((uint32_t)sum * 5 + 3 * column + 7 * rank + 1) % 65536);
}
#endif
