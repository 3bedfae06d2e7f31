/* sequence.h -- operations with a state that passes from position to position: the causal convolution of columns, the previous row, and the
 * recurrence of gated delta nets and Mamba-2  (Yang et al. 2024, arXiv:2412.06464; Dao & Gu 2024, arXiv:2405.21060).
 * Decode and prefill use the same kernels: a step reads its state once and writes it once.  At the start of a sequence the state counts
 * as zero.
 *
 * Everywhere: slot_bytes > 0 if the program speculates.  A state then has slots, slot_bytes apart.  A step reads the slot that *step names
 * and writes the new state to slot 0; in a step with drafts slot 0 gets the state before the drafts, and slot i the state after i drafts.
 * single: the step has decode's one token, whatever *step says (drafts.h). */
#ifndef FORGE_SEQUENCE_H
#define FORGE_SEQUENCE_H
#include "launch.h"
#include "slices_sizes.h"

DEVICE uint32_t sequence_begins(const struct forge_kernel_args a) { return uniform(a.step->n_past) == 0; }
DEVICE uint32_t sequence_tokens(const struct forge_kernel_args a, const uint32_t single) { return single ? 1 : a.step->n_tokens; }
DEVICE uint32_t sequence_drafts(const struct forge_kernel_args a, const uint32_t slot_bytes, const uint32_t single)
{
    return slot_bytes && !single ? a.step->n_drafts : 0;
}
DEVICE float *sequence_state(const struct forge_kernel_args a, uint32_t slot, const uint32_t slot_bytes)
{
    return (float *)(void *)(a.state + a.state_at + (uint64_t)slot * slot_bytes);
}
/* The slot to read. */
DEVICE const float *sequence_held(const struct forge_kernel_args a, const uint32_t slot_bytes)
{
    return sequence_state(a, slot_bytes ? uniform(a.step->slot) : 0, slot_bytes);
}

/* ---- convolution ---- */

/* Input of column c at token t.  Tokens down to -(n_taps - 1) lie before the step, in the state: [n_taps - 1][cols], oldest first. */
DEVICE float conv_input(const struct forge_kernel_args a, const float *x, const uint32_t x_stride, int32_t t, uint32_t c,
                        const uint32_t cols, const uint32_t n_taps, uint32_t begins, const uint32_t slot_bytes)
{
    if (t >= 0) return ((const GLOBAL float *)x)[(uint64_t)(uint32_t)t * x_stride + c];
    return begins ? 0.0f : ((const GLOBAL float *)sequence_held(a, slot_bytes))[(uint32_t)(t + (int32_t)n_taps - 1) * cols + c];
}
/* Stores the state after the step. */
DEVICE void conv_keep(const struct forge_kernel_args a, const float *x, const uint32_t x_stride, const uint32_t cols, const uint32_t n_taps,
                      const uint32_t slot_bytes, const uint32_t threads)
{
    const uint32_t c = group_x() * threads + thread_x(), begins = sequence_begins(a);
    float last[CONV_MOST];
    if (c >= cols) return;
    UNROLL
    for (uint32_t k = 0; k + 1 < n_taps; k++)
        last[k] = conv_input(a, x, x_stride, (int32_t)(a.step->n_tokens + k + 1) - (int32_t)n_taps, c, cols, n_taps, begins, slot_bytes);
    UNROLL
    for (uint32_t k = 0; k + 1 < n_taps; k++) ((GLOBAL float *)sequence_state(a, 0, slot_bytes))[k * cols + c] = last[k];
}
/* CONV_TOKENS tokens from group_y() * CONV_TOKENS on, one column per thread.  x: row of token 0; x_stride: floats between rows.  taps:
 * [n_taps][tap_stride], the last one for the token itself.  keep: one group covers all tokens of the step and stores the new state;
 * otherwise a launch of conv_keep() follows, and the step has no drafts. */
DEVICE void conv_rows(const struct forge_kernel_args a, const float *x, const uint32_t x_stride, const float *taps,
                      const uint32_t tap_stride,
                      const uint32_t cols, const uint32_t n_taps, const uint32_t keep, const uint32_t slot_bytes, const uint32_t single,
                      const uint32_t threads, row_sink *sink)
{
    const uint32_t c = group_x() * threads + thread_x(), first = group_y() * CONV_TOKENS, begins = sequence_begins(a);
    const uint32_t n = sequence_tokens(a, single), drafts = sequence_drafts(a, slot_bytes, single);
    const uint32_t end = first + CONV_TOKENS < n ? first + CONV_TOKENS : n;
    float w[CONV_MOST], earlier[CONV_MOST];
    if (c >= cols) return;
    UNROLL
    for (uint32_t k = 0; k < n_taps; k++) w[k] = ((const GLOBAL float *)taps)[k * tap_stride + c];
    UNROLL
    for (uint32_t k = 0; k + 1 < n_taps; k++)
        earlier[k] = conv_input(a, x, x_stride, (int32_t)(first + k + 1) - (int32_t)n_taps, c, cols, n_taps, begins, slot_bytes);
#pragma unroll 1
    for (uint32_t t = first; t < end; t++) {
        const float now = ((const GLOBAL float *)x)[(uint64_t)t * x_stride + c];
        float y = w[n_taps - 1] * now;
        UNROLL
        for (uint32_t k = 0; k + 1 < n_taps; k++) y += w[k] * earlier[k];
        sink(a, t, c, y);
        UNROLL
        for (uint32_t k = 0; k + 2 < n_taps; k++) earlier[k] = earlier[k + 1];
        earlier[n_taps - 2] = now;
        if (!keep || t + 1 + drafts < n) continue;
        UNROLL
        for (uint32_t k = 0; k + 1 < n_taps; k++)
            ((GLOBAL float *)sequence_state(a, t + 1 + drafts - n, slot_bytes))[k * cols + c] = earlier[k];
    }
}

/* ---- the previous row ---- */

/* As conv_rows(), but gives each token the previous row.  Before the step's first token this is the row in the state, or zeros at the start
 * of a sequence. */
DEVICE void previous_rows(const struct forge_kernel_args a, const float *x, const uint32_t x_stride, const uint32_t cols,
                          const uint32_t keep, const uint32_t slot_bytes, const uint32_t single, const uint32_t threads, row_sink *sink)
{
    const uint32_t c = group_x() * threads + thread_x(), first = group_y() * CONV_TOKENS;
    const uint32_t n = sequence_tokens(a, single), drafts = sequence_drafts(a, slot_bytes, single);
    const uint32_t end = first + CONV_TOKENS < n ? first + CONV_TOKENS : n;
    if (c >= cols) return;
    float before = conv_input(a, x, x_stride, (int32_t)first - 1, c, cols, 2, sequence_begins(a), slot_bytes);
#pragma unroll 1
    for (uint32_t t = first; t < end; t++) {
        const float now = ((const GLOBAL float *)x)[(uint64_t)t * x_stride + c];
        sink(a, t, c, before);
        if (keep && t + 1 + drafts >= n) ((GLOBAL float *)sequence_state(a, t + 1 + drafts - n, slot_bytes))[c] = now;
        before = now;
    }
}
/* Gives a token that the trunk did not compute the row in the state. */
DEVICE void recall_row(const struct forge_kernel_args a, const uint32_t cols, const uint32_t slot_bytes, const uint32_t threads,
                       row_sink *sink)
{
    const uint32_t c = group_x() * threads + thread_x();
    if (c < cols) sink(a, 0, c, sequence_begins(a) ? 0.0f : ((const GLOBAL float *)sequence_held(a, slot_bytes))[c]);
}

/* ---- recurrence ---- */

/* Constants of a launch; strides of q, k, v, decay and beta in floats from token to token. */
struct recur { uint32_t heads, qk_heads, head_dim, value_dim, delta, modulo, by_row, q_stride, k_stride, v_stride, g_stride, b_stride; };
/* A lane's inputs for one token. */
struct recur_token { float q[RECUR_ROWS], k[RECUR_ROWS], g[RECUR_ROWS], beta; f32x4 v; };

DEVICE void recur_load(struct recur_token *x, const struct recur *r, const float *q, const float *k, const float *v, const float *decay,
                       const float *beta, uint32_t t, uint32_t head, uint32_t column)
{
    const uint32_t parts = RECUR_PARTS(r->head_dim), p = lane_id() % parts;
    const uint32_t other = r->modulo ? head % r->qk_heads : head / (r->heads / r->qk_heads);
    const GLOBAL float *q_row = (const GLOBAL float *)q + (uint64_t)t * r->q_stride + other * r->head_dim + p;
    const GLOBAL float *k_row = (const GLOBAL float *)k + (uint64_t)t * r->k_stride + other * r->head_dim + p;
    const GLOBAL float *g_row = (const GLOBAL float *)decay + (uint64_t)t * r->g_stride + (r->by_row ? head * r->head_dim + p : head);
    UNROLL
    for (uint32_t i = 0; i < r->head_dim / parts; i++) {
        x->q[i] = q_row[i * parts];
        x->k[i] = k_row[i * parts];
        if (r->by_row || i == 0) x->g[i] = exp2_f32(1.44269504f * g_row[i * parts]);
    }
    x->beta = ((const GLOBAL float *)beta)[(uint64_t)t * r->b_stride + head];
    x->v = *(const GLOBAL f32x4 *)(const void *)((const GLOBAL float *)v + (uint64_t)t * r->v_stride + head * r->value_dim + column);
}
/* Advances S by one token; returns four columns of y, in all lanes that share them. */
DEVICE f32x4 recur_step(f32x4 *S, const struct recur_token *x, const struct recur *r)
{
    const uint32_t parts = RECUR_PARTS(r->head_dim), rows = r->head_dim / parts;
    f32x4 held = { 0, 0, 0, 0 }, out = { 0, 0, 0, 0 };
    UNROLL
    for (uint32_t i = 0; i < rows; i++) {
        S[i] *= x->g[r->by_row ? i : 0];
        if (r->delta) held += S[i] * x->k[i];
    }
    if (r->delta) {
        float h[4] = { held.x, held.y, held.z, held.w };
        lanes_sums_f32(h, 4, parts);
        held = (f32x4){ h[0], h[1], h[2], h[3] };
    }
    const f32x4 d = (x->v - held) * x->beta;
    UNROLL
    for (uint32_t i = 0; i < rows; i++) {
        S[i] += d * x->k[i];
        out += S[i] * x->q[i];
    }
    float y[4] = { out.x, out.y, out.z, out.w };
    lanes_sums_f32(y, 4, parts);
    return (f32x4){ y[0], y[1], y[2], y[3] };
}
/* All tokens of the step.  q, k, v, decay, beta: rows of token 0; v is 16-byte aligned, its stride and value_dim are multiples of 4.  The
 * state has S of every head, [heads][value_dim / 4][head_dim][4].  head_dim: at most RECUR_ROWS * RECUR_PARTS.  grid_x: RECUR_GROUPS. */
DEVICE void recur_rows(const struct forge_kernel_args a, const float *q, const float *k, const float *v, const float *decay,
                       const float *beta, const struct recur r, const uint32_t slot_bytes, const uint32_t single, const uint32_t threads,
                       row_sink *sink)
{
    const uint32_t parts = RECUR_PARTS(r.head_dim), quads = r.value_dim / 4, rows = r.head_dim / parts;
    const uint32_t n = sequence_tokens(a, single), drafts = sequence_drafts(a, slot_bytes, single);
    const uint32_t item = (group_x() * threads + thread_x()) / parts, live = item < r.heads * quads, at = live ? item : 0;
    const uint32_t head = at / quads, column = at % quads * 4, p = lane_id() % parts;
    const uint64_t place = (uint64_t)at * r.head_dim + p;
    const GLOBAL f32x4 *held = (const GLOBAL f32x4 *)(const void *)sequence_held(a, slot_bytes) + place;
    const uint32_t begins = sequence_begins(a);
    f32x4 S[RECUR_ROWS];
    struct recur_token now, next;
    UNROLL
    for (uint32_t i = 0; i < rows; i++) {
        S[i] = (f32x4)(0.0f);
        if (!begins) S[i] = held[i * parts];
    }
    recur_load(&now, &r, q, k, v, decay, beta, 0, head, column);
#pragma unroll 1
    for (uint32_t t = 0; t < n; t++) {
        if (t + 1 < n) recur_load(&next, &r, q, k, v, decay, beta, t + 1, head, column);
        const f32x4 y = recur_step(S, &now, &r);
        if (live && p < 4) sink(a, t, head * r.value_dim + column + p, p == 0 ? y.x : p == 1 ? y.y : p == 2 ? y.z : y.w);
        if (live && parts < 4)
            for (uint32_t c = parts; c < 4; c++) if (p == c % parts) sink(a, t, head * r.value_dim + column + c, y[c]);
        if (t + 1 < n) now = next;
        if (!live || t + 1 + drafts < n) continue;
        GLOBAL f32x4 *state = (GLOBAL f32x4 *)(void *)sequence_state(a, t + 1 + drafts - n, slot_bytes) + place;
        UNROLL
        for (uint32_t i = 0; i < rows; i++) state[i * parts] = S[i];
    }
}
#endif
