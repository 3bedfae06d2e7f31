/* collective.h -- sizes and values shared by collective_kernels.c and collective.c.  RANKS: the number of GPUs.
 *
 * PAIRS(n): n floats as in decode, values with tags; all rounds in one launch.  ROWS(tokens, cols): rows of a prompt, two or three launches
 * per round, as in a program. */
#ifndef FORGE_TESTS_COLLECTIVE_H
#define FORGE_TESTS_COLLECTIVE_H
#include <stdint.h>

#include "templates/gpu/collective_sizes.h"

#ifdef SMALL                                     /* for the emulator: few pieces and runs, whole and cut */
#define EACH_PAIRS PAIRS(256) PAIRS(2048)
#define EACH_ROWS  ROWS(1, 64) ROWS(10, 2120) ROWS(17, 1024)
#else
#define EACH_PAIRS PAIRS(2048) PAIRS(8192) PAIRS(16384) PAIRS(65536)
#define EACH_ROWS  ROWS(16, 4096) ROWS(128, 4096) ROWS(512, 4096) ROWS(512, 8192)
#endif

enum { COLLECTIVE_THREADS = 256 };
#define ALIGNED(bytes) (((bytes) + 255u) / 256u * 256u)
/* The areas of all shapes one after the other, which is more than they need. */
enum {
#define PAIRS(n) + COLLECTIVE_PAIRS_BYTES(RANKS, 1, n)
    FLAGS_AT = ALIGNED(0 EACH_PAIRS),
#undef PAIRS
#define ROWS(tokens, cols) + COLLECTIVE_FLAGS_BYTES(RANKS, tokens, cols, COLLECTIVE_THREADS)
    VALUES_AT = FLAGS_AT + ALIGNED(0 EACH_ROWS),
#undef ROWS
#define ROWS(tokens, cols) + COLLECTIVE_ROWS_BYTES(RANKS, tokens, cols)
    HALF = VALUES_AT + ALIGNED(0 EACH_ROWS)
#undef ROWS
};

/* Values are whole numbers below 2^16, so that sums are exact: the first values of a GPU, and the next value after a sum. */
static inline float collective_first(uint32_t rank, uint32_t at) { return (float)((rank * 1009 + at) % 65536); }
#define COLLECTIVE_NEXT(sum, rank, at) (((sum) * 5 + 3 * (at) + 7 * (rank) + 1) % 65536)
#endif
