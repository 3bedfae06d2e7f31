/* collective_kernels.c -- kernels of collective.c, with the functions that programs use.  args.collectives: number of the first round's
 * collective; args.state_at: number of rounds. */
#include "templates/gpu/collective.h"

#include "collective.h"

#ifdef SIMT_LANES
extern __attribute__((visibility("default"))) const uint32_t forge_simt_wave;
const uint32_t forge_simt_wave = WAVE;
#endif

DEVICE void pairs_summed(const struct forge_kernel_args a, const uint32_t n)
{
    const uint32_t c = group_x() * COLLECTIVE_THREADS + thread_x();
    struct forge_kernel_args round = a;
    float x = FLOATS(0)[c];
    for (uint32_t k = 0; k < (uint32_t)a.state_at; k++) {
        round.collectives = a.collectives + k;
        collective_push(round, HALF, 1, n, 0, c, x);
        x = (float)COLLECTIVE_NEXT((uint32_t)all_reduce_value(round, HALF, 1, n, 0, c), a.rank, c);
    }
    FLOATS(0)[c] = x;
}

/* A round's last launch: computes the rows of the next round from the sums. */
DEVICE void rows_taken(const struct forge_kernel_args a, const struct collective_rows of)
{
    const uint32_t r = group_x() * COLLECTIVE_THREADS + thread_x();
    float sums[COLLECTIVE_TOKENS];
    if (r >= of.cols) return;
    collective_read_rows(a, of, FLOATS(0), of.cols, r, sums);
    UNROLL
    for (uint32_t i = 0; i < COLLECTIVE_TOKENS; i++) {
        if (i >= collective_piece(a)) break;
        const uint32_t at = (group_y() * COLLECTIVE_TOKENS + i) * of.cols + r;
        FLOATS(0)[at] = (float)COLLECTIVE_NEXT((uint32_t)sums[i], a.rank, at);
    }
}

#define OF(tokens, cols) struct collective_rows of = { HALF, FLAGS_AT, VALUES_AT, tokens, cols, COLLECTIVE_THREADS }
#define PAIRS(n) KERNEL(COLLECTIVE_THREADS, 1) pairs_##n(const struct forge_kernel_args a) { pairs_summed(a, n); }
#define ROWS(tokens, cols) \
    KERNEL(COLLECTIVE_THREADS, 1) give_##tokens##_##cols(const struct forge_kernel_args a) \
    { \
        const OF(tokens, cols); \
        collective_push_rows(a, of, FLOATS(0), cols); \
    } \
    KERNEL(COLLECTIVE_THREADS, 1) sum_##tokens##_##cols(const struct forge_kernel_args a) \
    { \
        const OF(tokens, cols); \
        collective_sum_rows(a, of, FLOATS(0), cols); \
    } \
    KERNEL(COLLECTIVE_THREADS, 1) take_##tokens##_##cols(const struct forge_kernel_args a) \
    { \
        const OF(tokens, cols); \
        rows_taken(a, of); \
    }
EACH_PAIRS
EACH_ROWS
