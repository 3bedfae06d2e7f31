/* cost.h -- what launches of a step need at least, from struct forge_cost: programs and libraries ask it, it needs no libc. */
#ifndef FORGE_COST_H
#define FORGE_COST_H
#include <stdbool.h>

#include "abi.h"

/* The launches of a step of n tokens: of decode, where the draw stands behind them; of a few tokens; of prefill.  number: launches are
 * counted from 1 through decode, the draw, prefill, columns, the draw of drafts, a pass of the block that drafts and what takes its draft,
 * and the first of these has this one. */
struct cost_launches { const struct forge_gpu_launch *list; uint32_t n, number; };
static inline struct cost_launches cost_launches(const struct forge_gpu *p, uint32_t n)
{
    if (n == 1) return (struct cost_launches){ p->decode, p->n_decode, 1 };
    if (n <= p->most_columns) return (struct cost_launches){ p->columns, p->n_columns, p->n_decode + 2 + p->n_prefill };
    return (struct cost_launches){ p->prefill, p->n_prefill, p->n_decode + 2 };
}

/* The same of a CPU: of n tokens of a prompt; of any n. */
struct step_launches { const struct forge_launch *list; uint32_t n; };
static inline struct step_launches prompt_launches(const struct forge_program *p, uint32_t n)
{
    return n <= p->few ? (struct step_launches){ p->columns, p->n_columns } : (struct step_launches){ p->prefill, p->n_prefill };
}
static inline struct step_launches step_launches(const struct forge_program *p, uint32_t n)
{
    return n == 1 ? (struct step_launches){ p->decode, p->n_decode } : prompt_launches(p, n);
}

/* Has the launch nothing to do in a step behind n_past tokens, for so many threads? */
static inline bool launch_left_out(const struct forge_launch *l, uint32_t n_past, uint32_t n_threads)
{
    return (l->unless_divides > 0 && l->unless_divides % n_threads == 0) || n_past + 1 < l->from_positions;
}

/* Is the launch one of a step of n tokens, n_rows of them with logits? */
static inline bool cost_launch_runs(const struct forge_gpu_launch *l, uint32_t n, uint32_t n_rows)
{
    /* A part of a prompt whose logits nobody reads only has to leave its state. */
    if (n_rows == 0 && l->tail) return false;
    const uint32_t tokens = l->tail ? n_rows : n;
    return l->tokens_most == 0 || (tokens >= l->tokens_least && tokens <= l->tokens_most);
}

/* Launch i of a step of n tokens, behind them the draw: of GPUs in a row that of the one that has it. */
static inline const struct forge_gpu_launch *cost_gpu_launch(const struct forge_gpu *first, uint32_t n, uint32_t i)
{
    for (uint32_t rank = 0;; rank++) {
        const struct forge_gpu *g = rank == 0 ? first : first->ranks[rank]->gpu;
        const struct cost_launches all = cost_launches(g, n);
        if (!first->in_row || rank + 1 == first->n_ranks || (i < all.n && all.list[i].name)) return i < all.n ? &all.list[i] : &g->sample;
    }
}

/* Launch i of a step of either kind of program; of a GPU's decode number n_decode is the draw. */
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

/* Tokens at positions first .. first + n - 1 of a step, those that a launch works on. */
struct cost_tokens { uint32_t first, n; };

/* Those of a launch in a step of n_tokens behind n_past: of a tail launch the last n_rows. */
static inline struct cost_tokens cost_tokens(uint32_t n_past, uint32_t n_tokens, uint32_t n_rows, uint32_t tail)
{
    return tail ? (struct cost_tokens){ n_past + n_tokens - n_rows, n_rows } : (struct cost_tokens){ n_past, n_tokens };
}

/* Does every token see the whole text?  It is one step then, from position 0. */
static inline uint32_t cost_whole(const struct forge_program *p) { return p->embedding && p->embedding->whole; }

/* Bytes of weights, and of the state those of the positions that some of the tokens attend, each once. */
static inline uint64_t cost_bytes(const struct forge_program *p, const struct forge_cost *c, struct cost_tokens t)
{
    if (c->attention == 0 || t.n == 0) return c->weight_bytes + c->state_bytes;
    const uint64_t end = (uint64_t)t.first + t.n, near = c->window > 0 ? (uint64_t)c->window + t.n - 1 : end;
    const uint32_t most = c->window > 0 ? c->window : p->n_ctx;
    return c->weight_bytes + c->state_bytes / most * (near < end ? near : end);
}

/* A token at position i attends i + 1 positions, or the window, or the text; what attention does not attend costs nothing. */
static inline uint64_t cost_operations(const struct forge_program *p, const struct forge_cost *c, struct cost_tokens t)
{
    const uint64_t first = t.first, n = t.n, window = c->window > 0 ? c->window : UINT32_MAX;
    const uint64_t all = first + n <= window ? n : first < window ? window - first : 0;      /* tokens of which the window hides nothing */
    const uint64_t pairs = cost_whole(p) ? n * (first + n) : all * first + all * (all + 1) / 2 + (n - all) * window;
    return c->operations * n + c->attention * pairs;
}
#endif
