/* attention_pairs.h -- sizes of attention in products of bfloat16 pairs, for the kernel and for the plan that gives it scratch. */
#ifndef FORGE_ATTENTION_PAIRS_H
#define FORGE_ATTENTION_PAIRS_H
#include "bf16.h"

/* Queries, heads times tokens: so many share keys and values that were made pairs, unless one token has more; a step of fewer than
 * PAIRS_FEW gains less than making them costs; PAIRS_TOGETHER, a multiple of 32, go from scores to values at once. */
enum { PAIRS_QUERIES = 128, PAIRS_FEW = 32, PAIRS_TOGETHER = 64 };

/* Bytes from the start of a thread's scratch: rows of q in bfloat16, sums of values, of weights [16 lanes], largest scores; pairs of a
 * block of keys and of values; scores and weights of PAIRS_TOGETHER queries. */
struct pairs_room { uint64_t q, out, sum, max, k, v, score, weight, end; };

DEVICE struct pairs_room pairs_room(uint32_t queries, uint32_t head_dim, uint32_t value_dim, uint32_t block)
{
    const uint64_t rows = (queries + 15) / 16 * 16, dims = (head_dim + 31) / 32 * 32, values = (value_dim + 15) / 16 * 16;
    struct pairs_room r = { .q = 0, .out = rows * XB_STRIDE(dims) };
    r.sum = r.out + rows * values * 4;
    r.max = r.sum + rows * 64;
    r.k = r.max + rows * 4;
    r.v = r.k + block * dims * 2;
    r.score = r.v + block * values * 2;
    r.weight = r.score + PAIRS_TOGETHER * (uint64_t)block * 4;
    r.end = r.weight + PAIRS_TOGETHER * XB_STRIDE((uint64_t)block);
    return r;
}

/* Tokens whose queries a thread takes at once. */
DEVICE uint32_t pairs_tokens(uint32_t group) { return group < PAIRS_QUERIES ? PAIRS_QUERIES / group : 1; }
/* Tokens of the least step that is not too few. */
DEVICE uint32_t pairs_few(uint32_t group) { return (PAIRS_FEW + group - 1) / group; }
/* The same of n_tokens, less where threads would have fewer than two such units; results do not depend on it. */
DEVICE uint32_t pairs_share(uint32_t n_tokens, uint32_t group, uint32_t n_head_kv, uint32_t n_threads)
{
    uint32_t tokens = pairs_tokens(group);
    while (tokens * group > PAIRS_FEW && tokens > 1 && (n_tokens + tokens - 1) / tokens * n_head_kv < 2 * n_threads)
        tokens = (tokens + 1) / 2;
    return tokens;
}
#endif
