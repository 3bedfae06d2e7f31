/* attention_sizes.h -- sizes of the KV cache and of decode attention, shared by the plan and the kernels; constant macros.
 * Counts are u32, bytes u64.  wave, threads: the target's lanes per wave and threads per group. */
#ifndef FORGE_ATTENTION_SIZES_H
#define FORGE_ATTENTION_SIZES_H

/* Types of cache values, numbered as enum kv_type of compiler/plan/plan.h. */
#define KV_KIND_f16  0u
#define KV_KIND_f32  1u
#define KV_KIND_q8_0 2u

/* Bytes of a row's values without its scales; of its scales; of K or V of all heads of a layer.  V follows K (docs/gpu_internals.md). */
#define KV_VALUE_BYTES(kind, head_dim) ((head_dim) * ((kind) == KV_KIND_f16 ? 2u : (kind) == KV_KIND_f32 ? 4u : 1u))
#define KV_SCALE_BYTES(kind, head_dim) ((kind) == KV_KIND_q8_0 ? (head_dim) / 32u * 2u : 0u)
#define KV_PLANE_BYTES(kind, n_head_kv, n_ctx, head_dim) \
    (((uint64_t)(n_head_kv) * (n_ctx) * (KV_VALUE_BYTES(kind, head_dim) + KV_SCALE_BYTES(kind, head_dim)) + 15u) / 16u * 16u)

/* Groups for the heads of one token: a wave finishes one head at a time (rope.h). */
#define HEAD_GROUPS(heads, wave, threads) (((heads) + (threads) / (wave) - 1u) / ((threads) / (wave)))

/* Decode attention computes the query heads of a KV head together, as many as registers hold: 8, or 4 with more than 128 dimensions.  More
 * heads are cut into equal parts. */
#define ATTENTION_MAX_HEADS(head_dim) ((head_dim) > 128u ? 4u : 8u)
#define ATTENTION_CUTS(n_head, n_head_kv, head_dim) \
    (((n_head) / (n_head_kv) + ATTENTION_MAX_HEADS(head_dim) - 1u) / ATTENTION_MAX_HEADS(head_dim))
/* Query heads per group (the last cut may have fewer). */
#define ATTENTION_HEADS(n_head, n_head_kv, head_dim) \
    (((n_head) / (n_head_kv) + ATTENTION_CUTS(n_head, n_head_kv, head_dim) - 1u) / ATTENTION_CUTS(n_head, n_head_kv, head_dim))
/* Units, KV heads times cuts, are merged separately.  The launch has one span after another, and each span the groups of all its units. */
#define ATTENTION_UNITS(n_head, n_head_kv, head_dim) ((n_head_kv) * ATTENTION_CUTS(n_head, n_head_kv, head_dim))
#define ATTENTION_GROUPS(n_head, n_head_kv, head_dim, splits, spans) (ATTENTION_UNITS(n_head, n_head_kv, head_dim) * (splits) * (spans))

/* Neighbouring lanes that share a row of K or V, 8 columns each; a few idle if head_dim is not a power of two. */
#define ATTENTION_LANES(head_dim) ((head_dim) <= 32u ? 4u : (head_dim) <= 64u ? 8u : (head_dim) <= 128u ? 16u : 32u)
/* Fewest positions per span: two rows of every lane. */
#define ATTENTION_SPAN_LEAST(head_dim, threads, splits) (2u * (threads) / ATTENTION_LANES(head_dim) * (splits))
/* Rows in flight per lane: as many as registers hold besides the sums of the heads; the most for any target.  WAVE_FLOATS: floats of LDS
 * that each wave has for itself. */
#define ATTENTION_ROWS(kind, heads, family) \
    (((heads) > ((family) == FAMILY_CDNA3 ? 3u : 4u) ? 4u : 8u) \
     / ((kind) == KV_KIND_f32 || ((heads) > 7u && (family) == FAMILY_RDNA3) ? 2u : 1u))
#define ATTENTION_MAX_ROWS 8u
/* Most query heads per group for which the vector unit keeps up with memory. */
#define ATTENTION_MAX_FLOATS 2u
/* Most rows, and whether decode's steps can be tiles of 16 positions on the matrix unit (attention_decode_matrix.h). */
#define ATTENTION_MATRIX_ROWS(kind) ((kind) == KV_KIND_q8_0 ? 2u * ATTENTION_MAX_ROWS : ATTENTION_MAX_ROWS)
#define ATTENTION_ON_MATRIX(kind, head_dim, rows, wave, family) \
    (FAMILY_MMA_SUMS_ARE_A(family) && ((kind) == KV_KIND_f16 || (kind) == KV_KIND_q8_0) && ((head_dim) == 64u || (head_dim) == 128u) \
     && (rows) <= ATTENTION_MATRIX_ROWS(kind) && (rows) * ((wave) / ATTENTION_LANES(head_dim)) % 16u == 0)
#define ATTENTION_WAVE_FLOATS(heads, head_dim, wave) \
    ((heads) * ((head_dim) > (wave) / ATTENTION_LANES(head_dim) * ATTENTION_MAX_ROWS \
                ? (head_dim) : (wave) / ATTENTION_LANES(head_dim) * ATTENTION_MAX_ROWS))
/* Most splits in a cluster.  Each split merges its share of the columns (in fours), and every split sends it this share with maxima and
 * sums. */
#define ATTENTION_MAX_CLUSTER 8u
#define ATTENTION_SHARE(heads, head_dim, splits) (((heads) * (head_dim) / 4u + (splits) - 1u) / (splits))
#define ATTENTION_RECEIVED_FLOATS(heads, head_dim, splits, cluster) \
    ((cluster) ? (splits) * (4u * ATTENTION_SHARE(heads, head_dim, splits) + 2u * (heads)) : 0u)
#define ATTENTION_LDS_FLOATS(heads, head_dim, wave, threads, splits, cluster) \
    ((heads) * ATTENTION_LANES(head_dim) * 8u + (threads) / (wave) * (ATTENTION_WAVE_FLOATS(heads, head_dim, wave) + 2u * (heads)) \
     + ATTENTION_RECEIVED_FLOATS(heads, head_dim, splits, cluster) + 4u)
/* cluster: 1 if the splits form a cluster. */
#define ATTENTION_LDS_BYTES(n_head, n_head_kv, head_dim, wave, threads, splits, cluster) \
    (4u * ATTENTION_LDS_FLOATS(ATTENTION_HEADS(n_head, n_head_kv, head_dim), head_dim, wave, threads, splits, cluster))

/* In the arena: for each group the sums of the splits, or of the clusters, and their maxima and totals.  Counters, zero before the first
 * launch: one per unit, or one per split of a unit if splits form a cluster. */
#define ATTENTION_PARTS_BYTES(n_head, n_head_kv, head_dim, splits, spans, cluster) \
    ((uint64_t)ATTENTION_GROUPS(n_head, n_head_kv, head_dim, (cluster) ? 1u : (splits), spans) \
     * ATTENTION_HEADS(n_head, n_head_kv, head_dim) * (head_dim) * 4u)
#define ATTENTION_ML_BYTES(n_head, n_head_kv, head_dim, splits, spans) \
    ((uint64_t)ATTENTION_GROUPS(n_head, n_head_kv, head_dim, splits, spans) * ATTENTION_HEADS(n_head, n_head_kv, head_dim) * 8u)
#define ATTENTION_COUNTER_BYTES(n_head, n_head_kv, head_dim, splits, cluster) \
    (4u * ATTENTION_UNITS(n_head, n_head_kv, head_dim) * ((cluster) ? (splits) : 1u))

/* Attention by single operations (attention_unfused.h): the scores of a step of up to `rows` tokens, and LDS of two of its kernels. */
#define SCORES_BYTES(n_head, rows, n_ctx) ((uint64_t)(n_head) * (rows) * (n_ctx) * 4u)
#define SOFTMAX_LDS_BYTES(wave, threads) ((threads) / (wave) * 4u)
#define WEIGHTED_SUM_LDS_BYTES(head_dim, threads) ((threads) / ATTENTION_LANES(head_dim) * (head_dim) * 4u)
#endif
