/* exchange_kernels.c -- kernels of exchange.c, by the functions that programs use.  `exchanges`: of the first round; state_at: rounds. */
#include "templates/gpu/exchange.h"

#include "exchange.h"

#ifdef SIMT_LANES
extern __attribute__((visibility("default"))) const uint32_t forge_simt_wave;
const uint32_t forge_simt_wave = WAVE;
#endif

DEVICE void pairs_summed(const struct forge_kernel_args a, const uint32_t n)
{
    const uint32_t c = group_x() * EXCHANGE_THREADS + thread_x();
    struct forge_kernel_args round = a;
    float x = FLOATS(0)[c];
    for (uint32_t k = 0; k < (uint32_t)a.state_at; k++) {
        round.exchanges = a.exchanges + k;
        exchange_give(round, HALF, 1, n, 0, c, x);
        x = (float)EXCHANGE_NEXT((uint32_t)exchange_sum(round, HALF, 1, n, 0, c), a.rank, c);
    }
    FLOATS(0)[c] = x;
}

/* A round's last launch: its sums become the rows that the next one gives. */
DEVICE void rows_taken(const struct forge_kernel_args a, const struct exchange_rows of)
{
    const uint32_t r = group_x() * EXCHANGE_THREADS + thread_x();
    float sums[EXCHANGE_TOKENS];
    if (r >= of.cols) return;
    exchange_take_rows(a, of, FLOATS(0), of.cols, r, sums);
    UNROLL
    for (uint32_t i = 0; i < EXCHANGE_TOKENS; i++) {
        if (i >= exchange_piece(a)) break;
        const uint32_t at = (group_y() * EXCHANGE_TOKENS + i) * of.cols + r;
        FLOATS(0)[at] = (float)EXCHANGE_NEXT((uint32_t)sums[i], a.rank, at);
    }
}

#define OF(tokens, cols) struct exchange_rows of = { HALF, FLAGS_AT, VALUES_AT, tokens, cols, EXCHANGE_THREADS }
#define PAIRS(n) KERNEL(EXCHANGE_THREADS, 1) pairs_##n(const struct forge_kernel_args a) { pairs_summed(a, n); }
#define ROWS(tokens, cols) \
    KERNEL(EXCHANGE_THREADS, 1) give_##tokens##_##cols(const struct forge_kernel_args a) \
    { \
        const OF(tokens, cols); \
        exchange_give_rows(a, of, FLOATS(0), cols); \
    } \
    KERNEL(EXCHANGE_THREADS, 1) sum_##tokens##_##cols(const struct forge_kernel_args a) \
    { \
        const OF(tokens, cols); \
        exchange_sum_rows(a, of, FLOATS(0), cols); \
    } \
    KERNEL(EXCHANGE_THREADS, 1) take_##tokens##_##cols(const struct forge_kernel_args a) \
    { \
        const OF(tokens, cols); \
        rows_taken(a, of); \
    }
EACH_PAIRS
EACH_ROWS
