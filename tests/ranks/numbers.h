/* numbers.h -- the model of ranks_program.c's programs and fake_driver.c's kernels: a few hashes.  Each of two GPUs has a part of a token's
 * state, in rows of different sizes, and two sums over both GPUs decide the next token. */
#ifndef RANKS_NUMBERS_H
#define RANKS_NUMBERS_H
#include <stdint.h>

enum {
    N_VOCAB = 97, N_CTX = 128, CHUNK = 16, LOGITS_ROWS = 4, MOST_COLUMNS = 4,
    STATE_AT = 64, ROW_BYTES_0 = 4, ROW_BYTES_1 = 12,                /* a token's row on either GPU */
    VALUES_AT = 0, LOGITS_AT = 4096,                                 /* arena */
    HALF_BYTES = 8 * 2 * CHUNK, COLLECTIVE_BYTES = 2 * HALF_BYTES,
    WEIGHT_BYTES_0 = 4096, WEIGHT_BYTES_1 = 8192,
};

static inline uint32_t mix(uint32_t h, uint32_t x)
{
    h = (h ^ x) * 0x9e3779b1u;
    return h ^ h >> 15;
}

/* The value that a GPU adds to the sum of `layer`; it depends on the last tokens and on the previous sum. */
static inline float part_of(uint32_t rank, uint32_t layer, uint32_t tokens, float before)
{
    return (float)(mix(mix(tokens, 7 * layer + rank), (uint32_t)before) % 1000);
}

static inline float logit_of(float sum, uint32_t token) { return (float)(mix((uint32_t)sum, token) >> 8) * 0x1p-24f; }

#endif
