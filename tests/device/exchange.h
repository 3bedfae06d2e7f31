/* exchange.h -- what exchange_kernels.c and exchange.c share: sums of all GPUs, alone.  RANKS: how many there are.
 *
 * PAIRS(n): n floats as decode gives them, values with their tags, all rounds in one launch.  ROWS(tokens, cols): those of a prompt, two or
 * three launches a round, as a program makes them. */
#ifndef FORGE_TESTS_EXCHANGE_H
#define FORGE_TESTS_EXCHANGE_H
#include <stdint.h>

#include "templates/gpu/exchange_sizes.h"

#ifdef SMALL                                     /* for the emulator: pieces and runs that are whole, cut and few */
#define EACH_PAIRS PAIRS(256) PAIRS(2048)
#define EACH_ROWS  ROWS(1, 64) ROWS(10, 2120) ROWS(17, 1024)
#else
#define EACH_PAIRS PAIRS(2048) PAIRS(8192) PAIRS(16384) PAIRS(65536)
#define EACH_ROWS  ROWS(16, 4096) ROWS(128, 4096) ROWS(512, 4096) ROWS(512, 8192)
#endif

enum { EXCHANGE_THREADS = 256 };
#define ALIGNED(bytes) (((bytes) + 255u) / 256u * 256u)
/* One behind the other, which is more than they need. */
enum {
#define PAIRS(n) + EXCHANGE_PAIRS_BYTES(RANKS, 1, n)
    FLAGS_AT = ALIGNED(0 EACH_PAIRS),
#undef PAIRS
#define ROWS(tokens, cols) + EXCHANGE_FLAGS_BYTES(RANKS, tokens, cols, EXCHANGE_THREADS)
    VALUES_AT = FLAGS_AT + ALIGNED(0 EACH_ROWS),
#undef ROWS
#define ROWS(tokens, cols) + EXCHANGE_ROWS_BYTES(RANKS, tokens, cols)
    HALF = VALUES_AT + ALIGNED(0 EACH_ROWS)
#undef ROWS
};

/* Values are whole numbers below 2^16, so that sums are exact: a GPU's first ones, and what becomes of a sum. */
static inline float exchange_first(uint32_t rank, uint32_t at) { return (float)((rank * 1009 + at) % 65536); }
#define EXCHANGE_NEXT(sum, rank, at) (((sum) * 5 + 3 * (at) + 7 * (rank) + 1) % 65536)
#endif
