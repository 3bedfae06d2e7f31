/* attention_pairs.h -- sizes of attention with bfloat16 pairs, for the kernel and for the plan, which reserves its scratch. */
#ifndef FORGE_ATTENTION_PAIRS_H
#define FORGE_ATTENTION_PAIRS_H
#include "bf16.h"

/* A query is one head of one token.  PAIRS_QUERIES: queries that share converted keys and values (more if one token alone has more heads).
 * PAIRS_FEW: the number below which this share is not cut further to give every thread work.  PAIRS_TOGETHER: queries that go from scores
 * to values at once, a multiple of 32. */
enum { PAIRS_QUERIES = 128, PAIRS_FEW = 32, PAIRS_TOGETHER = 64 };

/* Byte offsets in a thread's scratch.  q: rows of q in bfloat16; out: sums of weighted values; sum: sums of weights [16 lanes]; max: the
 * largest scores; k, v: a block of keys and of values as pairs; score, weight: of PAIRS_TOGETHER queries.  With 2 parts the second part of
 * q, k, v and weight lies q_bytes, k_bytes, v_bytes and weight_bytes after the first. */
struct pairs_room { uint64_t q, out, sum, max, k, v, score, weight, end, q_bytes, k_bytes, v_bytes, weight_bytes; };

DEVICE struct pairs_room pairs_room(uint32_t queries, uint32_t head_dim, uint32_t value_dim, uint32_t block, uint32_t parts)
{
    const uint64_t rows = (queries + 15) / 16 * 16, dims = (head_dim + 31) / 32 * 32, values = (value_dim + 15) / 16 * 16;
    struct pairs_room r = { .q = 0, .q_bytes = rows * XB_STRIDE(dims), .k_bytes = block * dims * 2, .v_bytes = block * values * 2 };
    r.weight_bytes = PAIRS_TOGETHER * XB_STRIDE((uint64_t)block);
    r.out = parts * r.q_bytes;
    r.sum = r.out + rows * values * 4;
    r.max = r.sum + rows * 64;
    r.k = r.max + rows * 4;
    r.v = r.k + parts * r.k_bytes;
    r.score = r.v + parts * r.v_bytes;
    r.weight = r.score + PAIRS_TOGETHER * (uint64_t)block * 4;
    r.end = r.weight + parts * r.weight_bytes;
    return r;
}

/* Tokens that a thread takes at once; group: query heads per KV head. */
DEVICE uint32_t pairs_tokens(uint32_t group) { return group < PAIRS_QUERIES ? PAIRS_QUERIES / group : 1; }
/* The same for n_tokens tokens; fewer if threads would otherwise have less than two units each.  Results do not depend on it. */
DEVICE uint32_t pairs_share(uint32_t n_tokens, uint32_t group, uint32_t n_head_kv, uint32_t n_threads)
{
    uint32_t tokens = pairs_tokens(group);
    while (tokens * group > PAIRS_FEW && tokens > 1 && (n_tokens + tokens - 1) / tokens * n_head_kv < 2 * n_threads)
        tokens = (tokens + 1) / 2;
    return tokens;
}
#endif
