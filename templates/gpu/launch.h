/* launch.h -- used by every emitted GPU kernel: where its work begins, and where the rows of a product go. */
#ifndef FORGE_LAUNCH_H
#define FORGE_LAUNCH_H
#include "dialect.h"

/* Receives one value of a product: token t of the step, row r of the matrix (the column of the result).  Emitted per kernel, inlined. */
typedef void row_sink(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y);
/* Returns the value to add to it; loaded early, while the product is computed. */
typedef float row_addend(const struct forge_kernel_args a, uint32_t t, uint32_t r);
/* The same as row_sink for row r of two matrices at once: gate and up of a GLU. */
typedef void pair_sink(const struct forge_kernel_args a, uint32_t t, uint32_t r, float gate, float up);

/* Tail launches of a prefill step work on its last n_logits tokens only. */
DEVICE uint32_t first_token(const struct forge_kernel_args a) { return a.first ? a.step->n_tokens - a.step->n_logits : 0; }

/* Whether this row of the grid, which takes `tokens` tokens, has no tokens of the step: in a step with drafts the grid has rows for the
 * maximum number of drafts.  Known before pdl_wait(), because an earlier step set the number. */
DEVICE uint32_t is_idle(const struct forge_kernel_args a, const uint32_t tokens)
{
    return group_y() * tokens >= load_settled4(a.first ? &a.step->n_logits : &a.step->n_tokens);
}

/* Token t of the step: its position in its text, its number, and the offset of its sequence's state from a.state.  SEVERAL: in a step
 * of a few tokens each token may be of another sequence.  _settled: known before pdl_wait(); t < FORGE_GPU_MAX_APART. */
#ifdef SEVERAL
DEVICE uint32_t position_of(const struct forge_kernel_args a, uint32_t t)
{
    return a.step->apart ? a.step->rows[t].n_past : uniform(a.step->n_past) + t;
}
DEVICE int32_t token_of(const struct forge_kernel_args a, uint32_t t)
{
    return a.step->apart ? a.step->rows[t].token : a.step->history[a.step->n_past + t];
}
DEVICE uint64_t state_of(const struct forge_kernel_args a, uint32_t t) { return a.step->apart ? a.step->rows[t].state : 0; }
DEVICE uint32_t position_settled(const struct forge_kernel_args a, uint32_t t)
{
    const uint32_t own = load_settled4(&a.step->rows[t].n_past), n_past = load_settled4(&a.step->n_past);
    return load_settled4(&a.step->apart) ? own : n_past + t;
}
DEVICE uint64_t state_settled(const struct forge_kernel_args a, uint32_t t)
{
    const u32x2 own = load_settled8(&a.step->rows[t].state);
    return load_settled4(&a.step->apart) ? (uint64_t)own.y << 32 | own.x : 0;
}
#else
DEVICE uint32_t position_of(const struct forge_kernel_args a, uint32_t t) { return uniform(a.step->n_past) + t; }
DEVICE int32_t token_of(const struct forge_kernel_args a, uint32_t t) { return a.step->history[a.step->n_past + t]; }
DEVICE uint64_t state_of(const struct forge_kernel_args a, uint32_t t) { (void)a; (void)t; return 0; }
DEVICE uint32_t position_settled(const struct forge_kernel_args a, uint32_t t) { return load_settled4(&a.step->n_past) + t; }
DEVICE uint64_t state_settled(const struct forge_kernel_args a, uint32_t t) { (void)a; (void)t; return 0; }
#endif

/* 1: token t belongs to a long text, for which rotations have tables of their own, after the others.  Constant during a run of draws. */
DEVICE uint32_t far_of(const struct forge_kernel_args a, uint32_t t) { return load_settled4(&a.step->far) >> (t & 31) & 1; }

/* After pdl_wait(): tells the host which launch runs, for its message after a fault. */
DEVICE void mark(const struct forge_kernel_args a)
{
    if (group_x() == 0 && group_y() == 0 && thread_x() == 0) store_host_u32(a.mark_at, a.mark);
}

/* Activations of prefill's products are f16 times 2^-6: range 4 million, resolution 4e-6. */
#define STAGE_SCALE 0.015625f
#define STAGE_UNSCALE 64.0f
DEVICE float clamp_f32(float x, const float limit) { return x > limit ? limit : x < -limit ? -limit : x; }
/* The stored form of x. */
DEVICE uint32_t stage_f16(float x) { return f16_bits(clamp_f32(x * STAGE_SCALE, 65504.0f)); }
DEVICE uint32_t stage_bf16(float x) { return bf16_bits(x); }
#endif
