/* attention_sizes.h -- sizes of the KV cache and of decode attention, for the plan and for the kernels: macros of constants.
 * Counts are u32, bytes u64.  wave, threads: lanes of a wave and threads of a group of the target. */
#ifndef FORGE_ATTENTION_SIZES_H
#define FORGE_ATTENTION_SIZES_H

/* How a cache keeps its values; numbered as enum kv_type of compiler/plan/plan.h. */
#define KV_KIND_f16  0u
#define KV_KIND_f32  1u
#define KV_KIND_q8_0 2u

/* Bytes of a row's values without its scales; of K, or of V, of all heads of a layer, where K is followed by V (docs/gpu.md). */
#define KV_VALUE_BYTES(kind, head_dim) ((head_dim) * ((kind) == KV_KIND_f16 ? 2u : (kind) == KV_KIND_f32 ? 4u : 1u))
#define KV_SCALE_BYTES(kind, head_dim) ((kind) == KV_KIND_q8_0 ? (head_dim) / 32u * 2u : 0u)
#define KV_PLANE_BYTES(kind, n_head_kv, n_ctx, head_dim) \
    (((uint64_t)(n_head_kv) * (n_ctx) * (KV_VALUE_BYTES(kind, head_dim) + KV_SCALE_BYTES(kind, head_dim)) + 15u) / 16u * 16u)

/* A wave finishes one head at a time (rope.h): groups for the heads of one token. */
#define HEAD_GROUPS(heads, wave, threads) (((heads) + (threads) / (wave) - 1u) / ((threads) / (wave)))

/* Decode attention.  The query heads of a KV head are done together, as many as registers hold: 8, or 4 of more than 128 dimensions;
 * more are cut into equal parts. */
#define ATTENTION_MAX_HEADS(head_dim) ((head_dim) > 128u ? 4u : 8u)
#define ATTENTION_CUTS(n_head, n_head_kv, head_dim) \
    (((n_head) / (n_head_kv) + ATTENTION_MAX_HEADS(head_dim) - 1u) / ATTENTION_MAX_HEADS(head_dim))
/* Query heads of a group (the last cut may have fewer). */
#define ATTENTION_HEADS(n_head, n_head_kv, head_dim) \
    (((n_head) / (n_head_kv) + ATTENTION_CUTS(n_head, n_head_kv, head_dim) - 1u) / ATTENTION_CUTS(n_head, n_head_kv, head_dim))
/* KV heads times cuts: each is merged by itself.  Groups of the launch: one span after another, whose groups are those of its units. */
#define ATTENTION_UNITS(n_head, n_head_kv, head_dim) ((n_head_kv) * ATTENTION_CUTS(n_head, n_head_kv, head_dim))
#define ATTENTION_GROUPS(n_head, n_head_kv, head_dim, splits, spans) (ATTENTION_UNITS(n_head, n_head_kv, head_dim) * (splits) * (spans))

/* Neighbouring lanes that share a row of K or V, 8 columns each; a few idle when head_dim is not a power of two. */
#define ATTENTION_LANES(head_dim) ((head_dim) <= 32u ? 4u : (head_dim) <= 64u ? 8u : (head_dim) <= 128u ? 16u : 32u)
/* Positions that a span has at least: two rows of every lane. */
#define ATTENTION_SPAN_LEAST(head_dim, threads, splits) (2u * (threads) / ATTENTION_LANES(head_dim) * (splits))
/* Rows in flight per lane: what registers hold besides the sums of the heads; at most; floats of LDS that a wave has to itself. */
#define ATTENTION_ROWS(kind, heads, family) \
    (((heads) > ((family) == FAMILY_CDNA3 ? 3u : 4u) ? 4u : 8u) \
     / ((kind) == KV_KIND_f32 || ((heads) > 7u && (family) == FAMILY_RDNA3) ? 2u : 1u))
#define ATTENTION_MAX_ROWS 8u
/* Query heads of a group up to which the vector unit keeps up with memory. */
#define ATTENTION_MAX_FLOATS 2u
/* Can decode's steps be tiles of 16 positions on the matrix unit (attention_decode_matrix.h)?  With so many rows at most. */
#define ATTENTION_MATRIX_ROWS(kind) ((kind) == KV_KIND_q8_0 ? 2u * ATTENTION_MAX_ROWS : ATTENTION_MAX_ROWS)
#define ATTENTION_ON_MATRIX(kind, head_dim, rows, wave, family) \
    (FAMILY_MMA_SUMS_ARE_A(family) && ((kind) == KV_KIND_f16 || (kind) == KV_KIND_q8_0) && ((head_dim) == 64u || (head_dim) == 128u) \
     && (rows) <= ATTENTION_MATRIX_ROWS(kind) && (rows) * ((wave) / ATTENTION_LANES(head_dim)) % 16u == 0)
#define ATTENTION_WAVE_FLOATS(heads, head_dim, wave) \
    ((heads) * ((head_dim) > (wave) / ATTENTION_LANES(head_dim) * ATTENTION_MAX_ROWS \
                ? (head_dim) : (wave) / ATTENTION_LANES(head_dim) * ATTENTION_MAX_ROWS))
/* Splits that can be a cluster, each of which merges a share of the fours of columns and gets that share from every split,
 * with maxima and totals. */
#define ATTENTION_MAX_CLUSTER 8u
#define ATTENTION_SHARE(heads, head_dim, splits) (((heads) * (head_dim) / 4u + (splits) - 1u) / (splits))
#define ATTENTION_RECEIVED_FLOATS(heads, head_dim, splits, cluster) \
    ((cluster) ? (splits) * (4u * ATTENTION_SHARE(heads, head_dim, splits) + 2u * (heads)) : 0u)
#define ATTENTION_LDS_FLOATS(heads, head_dim, wave, threads, splits, cluster) \
    ((heads) * ATTENTION_LANES(head_dim) * 8u + (threads) / (wave) * (ATTENTION_WAVE_FLOATS(heads, head_dim, wave) + 2u * (heads)) \
     + ATTENTION_RECEIVED_FLOATS(heads, head_dim, splits, cluster) + 4u)
/* cluster: 1 if the splits are one. */
#define ATTENTION_LDS_BYTES(n_head, n_head_kv, head_dim, wave, threads, splits, cluster) \
    (4u * ATTENTION_LDS_FLOATS(ATTENTION_HEADS(n_head, n_head_kv, head_dim), head_dim, wave, threads, splits, cluster))

/* In the arena: sums of the splits, or of the clusters, their maxima and totals, of each group, and the counters (zero before the first
 * launch), of each unit, or of each split of it where they are a cluster. */
#define ATTENTION_PARTS_BYTES(n_head, n_head_kv, head_dim, splits, spans, cluster) \
    ((uint64_t)ATTENTION_GROUPS(n_head, n_head_kv, head_dim, (cluster) ? 1u : (splits), spans) \
     * ATTENTION_HEADS(n_head, n_head_kv, head_dim) * (head_dim) * 4u)
#define ATTENTION_ML_BYTES(n_head, n_head_kv, head_dim, splits, spans) \
    ((uint64_t)ATTENTION_GROUPS(n_head, n_head_kv, head_dim, splits, spans) * ATTENTION_HEADS(n_head, n_head_kv, head_dim) * 8u)
#define ATTENTION_COUNTER_BYTES(n_head, n_head_kv, head_dim, splits, cluster) \
    (4u * ATTENTION_UNITS(n_head, n_head_kv, head_dim) * ((cluster) ? (splits) : 1u))

/* Attention by single ops (attention_unfused.h): the scores of a step of up to `rows` tokens, and LDS of the two kernels that use it. */
#define SCORES_BYTES(n_head, rows, n_ctx) ((uint64_t)(n_head) * (rows) * (n_ctx) * 4u)
#define SOFTMAX_LDS_BYTES(wave, threads) ((threads) / (wave) * 4u)
#define WEIGHTED_SUM_LDS_BYTES(head_dim, threads) ((threads) / ATTENTION_LANES(head_dim) * (head_dim) * 4u)
#endif
