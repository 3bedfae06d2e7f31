/* devices_kernels.c -- kernels of two GPUs that wait for each other's values, for test_devices.c: a module of libsimt. */
#define RANKS 2
#include "templates/gpu/collective.h"
#include "devices.h"

extern __attribute__((visibility("default"))) const uint32_t forge_simt_wave;
const uint32_t forge_simt_wave = WAVE;

static uint32_t column(void) { return group_x() * THREADS + thread_x(); }

/* Pushes this GPU's values to both GPUs. */
KERNEL(THREADS, 1) give(const struct forge_kernel_args a)
{
    collective_push(a, HALF, 1, COLS, 0, column(), ((const struct devices_arena *)(const void *)a.arena)->x[column()]);
}

/* Stores the sums and computes the next values from them. */
KERNEL(THREADS, 1) take(const struct forge_kernel_args a)
{
    struct devices_arena *arena = (void *)a.arena;
    const float sum = all_reduce_value(a, HALF, 1, COLS, 0, column());
    arena->sum[collective_tag(a) - 1][column()] = sum;
    arena->x[column()] = devices_next(sum, a.rank, column());
}

/* Increments the collective's number, as the sampler's kernel does at the end of a step. */
KERNEL(THREADS, 1) advance(const struct forge_kernel_args a)
{
    if (thread_x() == 0) a.step->collective_base += a.step->collectives;
}

/* Push and all-reduce in one launch of one workgroup: each lane waits for the value of the other GPU's next lane, so a waiting lane must
 * let other lanes run. */
KERNEL(THREADS, 1) give_and_take(const struct forge_kernel_args a)
{
    struct devices_arena *arena = (void *)a.arena;
    const uint32_t c = thread_x(), next = (c + 1) % THREADS;
    collective_push(a, HALF, 1, COLS, 0, c, arena->x[c]);
    const float sum = all_reduce_value(a, HALF, 1, COLS, 0, next);
    barrier();
    arena->sum[collective_tag(a) - 1][next] = sum;
    arena->x[next] = devices_next(sum, a.rank, next);
}

/* Counts the launches of this kernel in this copy of the module. */
KERNEL(THREADS, 1) count(const struct forge_kernel_args a)
{
    static uint32_t times;
    if (thread_x() == 0) ((struct devices_arena *)(void *)a.arena)->x[0] = (float)++times;
}
