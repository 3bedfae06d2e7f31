/* launch.h -- what an emitted kernel says about its place in a launch: shares of the work, buffers, weights, scratch.
 * In every kernel `a` is the step, `l` the launch, `thread` and `n_threads` the caller. */
#ifndef FORGE_LAUNCH_H
#define FORGE_LAUNCH_H
#include "vec.h"

#define KERNEL(name) static void name(const struct forge_args *a, const struct forge_launch *l, uint32_t thread, uint32_t n_threads)
#define BUFFER(offset)       (a->arena + (offset))
#define FLOATS(offset)       ((float *)(void *)(a->arena + (offset)))
#define ROW(buffer, stride, t)       ((buffer) + (uint64_t)(stride) * (t))
#define FLOAT_ROW(buffer, stride, t) ((float *)(void *)((uint8_t *)(buffer) + (uint64_t)(stride) * (t)))
#define WEIGHT(i)            (a->weights + l->weight[i])
#define VECTOR(i)            ((const float *)(const void *)(a->weights + l->weight[i]))
#define STATE                (a->state + l->state)
#define STATE_OF(t)          ((a->columns ? a->columns[t].state : a->state) + l->state)
#define POSITION_OF(t)       (a->columns ? a->columns[t].n_past : a->n_past + (t))
#define PARTS(offset)        ((float *)(void *)(a->parts + (offset)))
#define SCRATCH(offset)      (a->arena + SCRATCH_OFFSET + (uint64_t)SCRATCH_STRIDE * thread + (offset))
#define UNUSED               (void)a, (void)l, (void)thread, (void)n_threads

struct span { uint32_t first, last; };

/* This thread's part of `total` pieces of equal work. */
DEVICE struct span share(uint32_t total, uint32_t thread, uint32_t n_threads)
{
    const struct span s = { (uint32_t)((uint64_t)total * thread / n_threads), (uint32_t)((uint64_t)total * (thread + 1) / n_threads) };
    return s;
}
/* Where a run of pieces begin .. begin + n - 1 meets the share, counted from begin. */
DEVICE uint32_t span_from(struct span s, uint32_t begin)             { return s.first > begin ? s.first - begin : 0; }
DEVICE uint32_t span_to(struct span s, uint32_t begin, uint32_t n)
{
    return s.last > begin ? (s.last - begin < n ? s.last - begin : n) : 0;
}

/* First token a kernel has to work on: behind the last KV append only those count whose logits are asked for. */
DEVICE uint32_t first_token(const struct forge_args *a, const struct forge_launch *l) { return l->tail ? a->n_tokens - a->n_logits : 0; }

/* Ranges of positions that decode attention cuts each KV head into: 1 where the heads divide evenly among the threads or the
 * context is short; else at least two pieces of work a thread, none below 64 positions, at most 16. */
DEVICE uint32_t attention_parts(uint32_t n_kv, uint32_t n_head_kv, uint32_t n_threads)
{
    const uint32_t wanted = n_head_kv % n_threads ? (2 * n_threads + n_head_kv - 1) / n_head_kv : 1, most = n_kv / 64 < 16 ? n_kv / 64 : 16;
    return wanted < most ? wanted : most ? most : 1;
}

/* Where the n_vocab logits of token t go. */
DEVICE float *logits_of(const struct forge_args *a, uint32_t t, uint32_t n_vocab)
{
    return a->columns ? a->columns[t].logits : a->logits + (uint64_t)n_vocab * (t - (a->n_tokens - a->n_logits));
}

DEVICE uint32_t round_up_16(uint32_t n) { return (n + 15) / 16 * 16; }
DEVICE void copy(float *y, const float *x, uint32_t n) { for (uint32_t i = 0; i < n; i++) y[i] = x[i]; }
#endif
