/* launch.h -- the place of an emitted kernel in a launch: shares of the work, buffers, weights, scratch.
 * In every kernel `a` is the step, `l` the launch, `thread` and `n_threads` describe the caller. */
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
#define FAR_OF(t)            (a->columns ? a->columns[t].far : a->far)
#define PARTS(offset)        ((float *)(void *)(a->parts + (offset)))
#define SCRATCH(offset)      (a->arena + SCRATCH_OFFSET + (uint64_t)SCRATCH_STRIDE * thread + (offset))
#define UNUSED               (void)a, (void)l, (void)thread, (void)n_threads

struct span { uint32_t first, last; };

/* This thread's share of `total` pieces of equal work. */
DEVICE struct span share(uint32_t total, uint32_t thread, uint32_t n_threads)
{
    const struct span s = { (uint32_t)((uint64_t)total * thread / n_threads), (uint32_t)((uint64_t)total * (thread + 1) / n_threads) };
    return s;
}
/* The intersection of pieces begin .. begin + n - 1 with the share, counted from begin. */
DEVICE uint32_t span_from(struct span s, uint32_t begin)             { return s.first > begin ? s.first - begin : 0; }
DEVICE uint32_t span_to(struct span s, uint32_t begin, uint32_t n)
{
    return s.last > begin ? (s.last - begin < n ? s.last - begin : n) : 0;
}

/* ---- work stealing ----
 * A thread takes the pieces of its share in small runs.  When its share is done and a->turns is set, it takes pieces that a slower thread
 * has not begun: cores differ in speed and may be shared with other processes.  Results are the same bits for any thread of a piece. */
struct work {
    struct span       span;                      /* pieces to do now */
    struct forge_turn *turns;                    /* NULL: the whole share at once */
    uint32_t          total, thread, n_threads, launch, done;
};

enum { TURN_PIECES = (1 << FORGE_TURN_BITS) - 1, TURN_TOKENS = 16, TURN_BYTES = 128 << 10 };

/* A share that only this thread works on. */
DEVICE struct work work_alone(uint32_t total, uint32_t thread, uint32_t n_threads)
{
    const struct work w = { { 0, 0 }, 0, total, thread, n_threads, 0, 0 };
    return w;
}
/* Work stealing is off in short launches, where checking the other threads costs more than it gains. */
DEVICE struct work work_of(const struct forge_args *a, const struct forge_launch *l, uint32_t total, uint32_t thread, uint32_t n_threads)
{
    const int in_turns = a->turns && total <= TURN_PIECES && n_threads > 1 &&
                         (a->n_tokens >= TURN_TOKENS || l->cost.weight_bytes >= (uint64_t)TURN_BYTES * n_threads);
    struct work w = work_alone(total, thread, n_threads);
    if (!in_turns) return w;
    w.turns = a->turns;
    w.launch = ++a->turns[thread].launches;
    return w;
}
/* Pieces of a thread's share that are begun; word: that thread's entry in turns.  The entry may still describe an earlier launch; then the
 * thread has begun nothing. */
DEVICE uint32_t work_begun(const struct work *w, uint32_t word)
{
    return (word ^ w->launch << FORGE_TURN_BITS) >> FORGE_TURN_BITS ? 0 : word & TURN_PIECES;
}
DEVICE int work_take(struct work *w, uint32_t of, uint32_t word)
{
    const struct span s = share(w->total, of, w->n_threads);
    const uint32_t begun = work_begun(w, word), left = s.last - s.first - begun, n = (left + 3) / 4;
    const uint32_t now = w->launch << FORGE_TURN_BITS | (begun + n);
    if (!__atomic_compare_exchange_n(&w->turns[of].word, &word, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return 0;
    w->span.first = s.first + begun;
    w->span.last = w->span.first + n;
    return n > 0;
}
static __attribute__((noinline, unused)) int work_turn(struct work *w)
{
    const struct span own = share(w->total, w->thread, w->n_threads);
    while (!w->done) {                           /* also marks an empty share as begun, so no entry is older than the previous launch */
        const uint32_t word = __atomic_load_n(&w->turns[w->thread].word, __ATOMIC_RELAXED);
        w->done = word == (w->launch << FORGE_TURN_BITS | (own.last - own.first));
        if (!w->done && work_take(w, w->thread, word)) return 1;
    }
    for (;;) {                                   /* helps the thread with the most pieces left */
        uint32_t most = 0, of = 0, its = 0;
        for (uint32_t i = 0; i < w->n_threads; i++) {
            const struct span s = share(w->total, i, w->n_threads);
            const uint32_t word = __atomic_load_n(&w->turns[i].word, __ATOMIC_RELAXED), left = s.last - s.first - work_begun(w, word);
            const int more = left > most;
            most = more ? left : most;
            of = more ? i : of;
            its = more ? word : its;
        }
        if (most == 0) return 0;
        if (work_take(w, of, its)) return 1;
    }
}
/* Sets w->span to the next pieces; returns 0 if there are no more. */
DEVICE int work_next(struct work *w)
{
    if (w->turns) return work_turn(w);
    if (w->done) return 0;
    w->done = 1;
    w->span = share(w->total, w->thread, w->n_threads);
    return 1;
}

/* Tokens per block when n tokens are cut into blocks because there are fewer than two of `units` per thread.  Blocks are whole tiles of
 * tokens and large enough that decoding the weights again for each block costs little. */
DEVICE uint32_t block_tokens(uint32_t n, uint32_t units, uint32_t n_threads)
{
    const uint32_t least = 64, blocks = units < 2 * n_threads ? (2 * n_threads + units - 1) / units : 1;
    const uint32_t each = (n + blocks - 1) / blocks;
    return each > least ? (each + 31) / 32 * 32 : n < least ? n : least;
}

/* First token that a kernel works on: after the last KV append only tokens whose logits are needed remain. */
DEVICE uint32_t first_token(const struct forge_args *a, const struct forge_launch *l) { return l->tail ? a->n_tokens - a->n_logits : 0; }

/* Parts into which decode attention cuts the positions of each KV head.  1 if the heads divide evenly among the threads or the context is
 * short; otherwise at least two pieces of work per thread, at least 64 positions per part, and at most 16 parts. */
DEVICE uint32_t attention_parts(uint32_t n_kv, uint32_t n_head_kv, uint32_t n_threads)
{
    const uint32_t wanted = n_head_kv % n_threads ? (2 * n_threads + n_head_kv - 1) / n_head_kv : 1, most = n_kv / 64 < 16 ? n_kv / 64 : 16;
    return wanted < most ? wanted : most ? most : 1;
}

/* Address of the n_vocab logits of token t. */
DEVICE float *logits_of(const struct forge_args *a, uint32_t t, uint32_t n_vocab)
{
    return a->columns ? a->columns[t].logits : a->logits + (uint64_t)n_vocab * (t - (a->n_tokens - a->n_logits));
}

DEVICE uint32_t round_up_16(uint32_t n) { return (n + 15) / 16 * 16; }
DEVICE void copy(float *y, const float *x, uint32_t n) { for (uint32_t i = 0; i < n; i++) y[i] = x[i]; }
#endif
