/* attention_prefill_tmpl.c -- attention of the tokens of a prefill step over the KV cache, with an online softmax.
 * (Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135; Dao 2023, arXiv:2307.08691)
 *
 *   attention_prefill(a, out, ..)   causal: token t, at position n_past + t, attends positions 0 .. n_past + t, or the last
 *                                   `window` of them
 *   attention_prefill_all(..)       every token attends all positions of the cache and of the step
 *
 * The step's own K and V are in the cache already; nothing after position n_past + n_tokens - 1 is read.
 * A group takes one KV head and some successive tokens, by group_y().  Its rows are (token, query head) with heads varying fastest, so that
 * K and V are read once for all heads that share them.  The latest tokens, which attend most positions, come first.
 * ATTENTION_PREFILL_EXACT(KV_KIND, digits) selects one of two ways to compute: f16 products on the matrix unit, where each wave has 16 or
 * 32 rows (as columns of the products on AMD, as their rows on NVIDIA, on sm_90a four waves together); or f32 products, where threads / 16
 * neighbouring lanes share two rows.
 * LDS, grid and tokens of a group: attention_prefill_sizes.h. */
#include "attention_prefill.h"
#include "attention_prefill_columns.h"
#include "attention_prefill_exact.h"
#include "attention_prefill_fours.h"
#include "attention_prefill_rows.h"

#ifndef FORGE_ATTENTION_PREFILL
#define FORGE_ATTENTION_PREFILL

/* ---- the kernel's body ---- */
/* causal: a constant, 1 or 0; a window needs 1.  Other parameters as below. */
DEVICE void attention_prefill_of(const struct forge_kernel_args a, uint8_t *out, const uint64_t out_stride, const uint32_t kind,
                                 const uint8_t *q, const uint64_t q_stride, const uint32_t n_head, const uint32_t n_head_kv,
                                 const uint32_t head_dim, const uint32_t n_ctx, const float scale, const uint32_t digits,
#ifdef ATTENTION_MORE
                                 const float cap, const float *sinks,
#endif
                                 const uint32_t threads, const uint32_t fours, const uint32_t causal, const uint32_t window,
                                 const uint32_t ring)
{
    const struct prefill_out to = { out, out_stride, kind };
    struct prefill p;
    p.n_head = n_head, p.n_head_kv = n_head_kv, p.head_dim = head_dim, p.n_ctx = kv_rows(n_ctx, ring), p.threads = threads;
    p.causal = causal, p.window = window, p.ring = ring, p.fours = fours;
    p.exact = ATTENTION_PREFILL_EXACT(KV_KIND, digits);
    p.tiles = ATTENTION_PREFILL_TILES(head_dim, FAMILY, fours);
    p.positions = ATTENTION_PREFILL_POSITIONS(KV_KIND, digits, head_dim, FAMILY, fours);
    p.heads = ATTENTION_PREFILL_HEADS(n_head, n_head_kv);
    p.tokens = ATTENTION_PREFILL_TOKENS(KV_KIND, digits, n_head, n_head_kv, head_dim, FAMILY, threads, fours);
    p.q_registers = ATTENTION_PREFILL_Q_IN_REGISTERS(KV_KIND, digits, head_dim, FAMILY);
    p.stride = p.exact ? ATTENTION_PREFILL_EXACT_STRIDE(head_dim) : ATTENTION_PREFILL_STRIDE(head_dim);
    p.v_stride = p.exact ? ATTENTION_PREFILL_EXACT_STRIDE(p.positions) : ATTENTION_PREFILL_STRIDE(p.positions);
    p.scale = scale * PREFILL_LOG2E;
#ifdef ATTENTION_MORE
    p.cap = cap * PREFILL_LOG2E;
    p.sinks = sinks;
#endif
    if (!prefill_begin(&p, a, group_x())) return;
    if (p.exact) prefill_f32(&p, a, &to, q, q_stride);
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)
    else if (fours) prefill_fours(&p, a, &to, q, q_stride);
#endif
    else prefill_matrix(&p, a, &to, q, q_stride);
    prefill_pad(&p, &to);
}

/* out: rows of [n_head][head_dim], row t of the step at out + t out_stride: f32 (kind 0), or f16 or bf16 for a product (kind 1, 2), with
 * zeros up to a multiple of 64 columns.  q: rows f32 [n_head][head_dim], normed and rotated, row t at q + t q_stride.
 * Strides in bytes, multiples of 16.  head_dim: a multiple of 16 up to 256 (q8_0: of 32).  scale: of q . k.
 * digits: 2 selects f32 products.
 * threads: 128 or 256, all of the group; 128 on gfx11 with more than 128 dimensions.  fours: 1 for products of four waves, if
 * ATTENTION_PREFILL_IN_FOURS and the machine has them.  window, ring: kv.h.  All arguments but pointers are constants.
 * Called after pdl_wait(). */
DEVICE void attention_prefill(const struct forge_kernel_args a, uint8_t *out, const uint64_t out_stride, const uint32_t kind,
                              const uint8_t *q, const uint64_t q_stride, const uint32_t n_head, const uint32_t n_head_kv,
                              const uint32_t head_dim, const uint32_t n_ctx, const float scale, const uint32_t digits,
#ifdef ATTENTION_MORE                            /* cap: of scores, 0: none; sinks: [n_head] a score without a value, or NULL */
                              const float cap, const float *sinks,
#endif
                              const uint32_t threads, const uint32_t fours, const uint32_t window, const uint32_t ring)
{
#ifdef ATTENTION_MORE
    attention_prefill_of(a, out, out_stride, kind, q, q_stride, n_head, n_head_kv, head_dim, n_ctx, scale, digits, cap, sinks, threads,
                         fours, 1, window, ring);
#else
    attention_prefill_of(a, out, out_stride, kind, q, q_stride, n_head, n_head_kv, head_dim, n_ctx, scale, digits, threads, fours, 1,
                         window, ring);
#endif
}
DEVICE void attention_prefill_all(const struct forge_kernel_args a, uint8_t *out, const uint64_t out_stride, const uint32_t kind,
                                  const uint8_t *q, const uint64_t q_stride, const uint32_t n_head, const uint32_t n_head_kv,
                                  const uint32_t head_dim, const uint32_t n_ctx, const float scale, const uint32_t digits,
                                  const uint32_t threads, const uint32_t fours)
{
#ifdef ATTENTION_MORE
    attention_prefill_of(a, out, out_stride, kind, q, q_stride, n_head, n_head_kv, head_dim, n_ctx, scale, digits, 0.0f, 0, threads,
                         fours, 0, 0, 0);
#else
    attention_prefill_of(a, out, out_stride, kind, q, q_stride, n_head, n_head_kv, head_dim, n_ctx, scale, digits, threads, fours, 0, 0,
                         0);
#endif
}
#endif
