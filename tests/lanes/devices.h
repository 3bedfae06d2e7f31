/* devices.h -- what devices_kernels.c and test_devices.c share. */
#ifndef FORGE_DEVICES_H
#define FORGE_DEVICES_H
#include <stdint.h>

#ifndef STEPS
#define STEPS 200
#endif
enum { COLS = 192, THREADS = 64, GROUPS = COLS / THREADS, HALF = 8 * 2 * COLS, EXCHANGES = 2 * STEPS };

/* sum: of exchange tag - 1. */
struct devices_arena { float x[COLS], sum[EXCHANGES][COLS]; };

/* Whole numbers below 2^16: sums of two are exact. */
static inline float devices_next(float sum, uint32_t rank, uint32_t column)
{
    return (float)(((uint32_t)sum * 5 + 3 * column + 7 * rank + 1) % 65536);
}
#endif
