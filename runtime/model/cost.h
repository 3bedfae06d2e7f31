/* cost.h -- the least that the launches of a step have to do, from struct forge_cost.  Used by programs and libraries; needs no libc. */
#ifndef FORGE_COST_H
#define FORGE_COST_H
#include <stdbool.h>

#include "abi.h"

/* The launches of a step of n tokens: those of decode (the draw comes after them), of columns for a few tokens, or of prefill.  number:
 * of the first of these launches.  Launches are numbered from 1 in this order: decode, the draw, prefill, columns, the draw with drafts,
 * a pass of the MTP block, and the launch that takes its draft. */
struct cost_launches { const struct forge_gpu_launch *list; uint32_t n, number; };
static inline struct cost_launches cost_launches(const struct forge_gpu *p, uint32_t n)
{
    if (n == 1) return (struct cost_launches){ p->decode, p->n_decode, 1 };
    if (n <= p->most_columns) return (struct cost_launches){ p->columns, p->n_columns, p->n_decode + 2 + p->n_prefill };
    return (struct cost_launches){ p->prefill, p->n_prefill, p->n_decode + 2 };
}

/* The same for a CPU: for n tokens of a prompt, and for any n. */
struct step_launches { const struct forge_launch *list; uint32_t n; };
/* of: tokens of the whole prompt; all its pieces use the same launches. */
static inline struct step_launches prompt_launches(const struct forge_program *p, size_t of)
{
    return of <= p->few ? (struct step_launches){ p->columns, p->n_columns } : (struct step_launches){ p->prefill, p->n_prefill };
}
static inline struct step_launches step_launches(const struct forge_program *p, uint32_t n)
{
    return n == 1 ? (struct step_launches){ p->decode, p->n_decode } : prompt_launches(p, n);
}

/* Is the launch skipped in a step after n_past tokens with this many threads? */
static inline bool launch_left_out(const struct forge_launch *l, uint32_t n_past, uint32_t n_threads)
{
    return (l->unless_divides > 0 && l->unless_divides % n_threads == 0) || n_past + 1 < l->from_positions;
}

/* Does the launch run in a step of n tokens of which n_rows get logits? */
static inline bool cost_launch_runs(const struct forge_gpu_launch *l, uint32_t n, uint32_t n_rows)
{
    /* A part of a prompt without logits only has to update the state. */
    if (n_rows == 0 && l->tail) return false;
    const uint32_t tokens = l->tail ? n_rows : n;
    return l->tokens_most == 0 || (tokens >= l->tokens_least && tokens <= l->tokens_most);
}

/* Launch i of a step of n tokens, followed by the draw.  Pipeline parallel: the launch of the stage that runs it. */
static inline const struct forge_gpu_launch *cost_gpu_launch(const struct forge_gpu *first, uint32_t n, uint32_t i)
{
    for (uint32_t rank = 0;; rank++) {
        const struct forge_gpu *g = rank == 0 ? first : first->ranks[rank]->gpu;
        const struct cost_launches all = cost_launches(g, n);
        if (!first->pipeline || rank + 1 == first->n_ranks || (i < all.n && all.list[i].name)) return i < all.n ? &all.list[i] : &g->sample;
    }
}

/* Launch i of a step of either kind of program; in decode on a GPU, launch number n_decode is the draw. */
struct cost_launch { const char *name; const struct forge_cost *cost; bool tail, runs; };
static inline struct cost_launch cost_launch(const struct forge_program *p, uint32_t i, uint32_t n_tokens, uint32_t n_past,
                                             uint32_t n_rows, uint32_t n_threads)
{
    const bool decode = n_tokens == 1;
    if (p->gpu) {
        const struct forge_gpu_launch *l = cost_gpu_launch(p->gpu, n_tokens, i);
        return (struct cost_launch){ l->name, &l->cost, !decode && l->tail, decode || cost_launch_runs(l, n_tokens, n_rows) };
    }
    const struct forge_launch *l = &step_launches(p, n_tokens).list[i];
    return (struct cost_launch){ l->name, &l->cost, !decode && l->tail, !launch_left_out(l, n_past, n_threads) };
}

/* The tokens at positions first .. first + n - 1 of a step, on which a launch works. */
struct cost_tokens { uint32_t first, n; };

/* The tokens of a launch in a step of n_tokens after n_past; a tail launch has only the last n_rows. */
static inline struct cost_tokens cost_tokens(uint32_t n_past, uint32_t n_tokens, uint32_t n_rows, uint32_t tail)
{
    return tail ? (struct cost_tokens){ n_past + n_tokens - n_rows, n_rows } : (struct cost_tokens){ n_past, n_tokens };
}

/* Does every token attend to the whole text?  Then the text is one step from position 0. */
static inline uint32_t cost_whole(const struct forge_program *p) { return p->embedding && p->embedding->whole; }

/* Bytes of weights, plus the state of all positions to which any of the tokens attends, each counted once. */
static inline uint64_t cost_bytes(const struct forge_program *p, const struct forge_cost *c, struct cost_tokens t)
{
    if (c->attention == 0 || t.n == 0) return c->weight_bytes + c->state_bytes;
    const uint64_t end = (uint64_t)t.first + t.n, near = c->window > 0 ? (uint64_t)c->window + t.n - 1 : end;
    const uint32_t most = c->window > 0 ? c->window : p->n_ctx;
    return c->weight_bytes + c->state_bytes / most * (near < end ? near : end);
}

/* The token at position i attends to i + 1 positions, or to the window, or to the whole text.  Positions that are not attended to cost
 * nothing. */
static inline uint64_t cost_operations(const struct forge_program *p, const struct forge_cost *c, struct cost_tokens t)
{
    const uint64_t first = t.first, n = t.n, window = c->window > 0 ? c->window : UINT32_MAX;
    const uint64_t all = first + n <= window ? n : first < window ? window - first : 0;      /* tokens from which the window hides
                                                                                              * nothing */
    const uint64_t pairs = cost_whole(p) ? n * (first + n) : all * first + all * (all + 1) / 2 + (n - all) * window;
    return c->operations * n + c->attention * pairs;
}
#endif
