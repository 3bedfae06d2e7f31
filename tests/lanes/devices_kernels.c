/* devices_kernels.c -- kernels of two GPUs that wait for each other's values, for test_devices.c: a module of libsimt. */
#define RANKS 2
#include "templates/gpu/exchange.h"
#include "devices.h"

extern __attribute__((visibility("default"))) const uint32_t forge_simt_wave;
const uint32_t forge_simt_wave = WAVE;

static uint32_t column(void) { return group_x() * THREADS + thread_x(); }

/* This GPU's values for both, this one too. */
KERNEL(THREADS, 1) give(const struct forge_kernel_args a)
{
    exchange_give(a, HALF, 1, COLS, 0, column(), ((const struct devices_arena *)(const void *)a.arena)->x[column()]);
}

/* Their sums, which are kept, and the next values, which hang on them. */
KERNEL(THREADS, 1) take(const struct forge_kernel_args a)
{
    struct devices_arena *arena = (void *)a.arena;
    const float sum = exchange_sum(a, HALF, 1, COLS, 0, column());
    arena->sum[exchange_tag(a) - 1][column()] = sum;
    arena->x[column()] = devices_next(sum, a.rank, column());
}

/* As the draw does at the end of a step. */
KERNEL(THREADS, 1) advance(const struct forge_kernel_args a)
{
    if (thread_x() == 0) a.step->exchanged += a.step->exchanges;
}

/* One group, all in one launch: each lane waits for what the other GPU's next lane gives, so lanes that wait let others go on. */
KERNEL(THREADS, 1) give_and_take(const struct forge_kernel_args a)
{
    struct devices_arena *arena = (void *)a.arena;
    const uint32_t c = thread_x(), next = (c + 1) % THREADS;
    exchange_give(a, HALF, 1, COLS, 0, c, arena->x[c]);
    const float sum = exchange_sum(a, HALF, 1, COLS, 0, next);
    barrier();
    arena->sum[exchange_tag(a) - 1][next] = sum;
    arena->x[next] = devices_next(sum, a.rank, next);
}

/* How often this copy of the module has been asked. */
KERNEL(THREADS, 1) count(const struct forge_kernel_args a)
{
    static uint32_t times;
    if (thread_x() == 0) ((struct devices_arena *)(void *)a.arena)->x[0] = (float)++times;
}
