/* attention_wide_sizes.h -- sizes of attention_wide.h, shared by the plan and the kernels; constant macros.
 * kind: KV_KIND_*; dim, value_dim: columns of a head of K and of V; view: V is the first columns of K; rows: queries of a group, 16, 32 or
 * 64; heads: queries that exist; digits: of f16 that represent a query or a weight; family: FAMILY_*. */
#ifndef FORGE_ATTENTION_WIDE_SIZES_H
#define FORGE_ATTENTION_WIDE_SIZES_H
#include "attention_prefill_sizes.h"

/* Waves of a group.  In scores a wave has a tile of 16 positions, a share of the queries and a share of the columns; in sums it has a share
 * of the queries and of the columns of V, in units. */
#define WIDE_WAVES 8u
#define WIDE_THREADS(family) (WIDE_WAVES * FAMILY_WAVE(family))
#define WIDE_UNIT  64u
/* Shares of the queries, and of the columns, in scores: four together. */
#define WIDE_SCORE_SLICES(rows, family) ((rows) >= (FAMILY_COPIES_REACH_LDS(family) ? 64u : 32u) ? 2u : 1u)
#define WIDE_SCORE_PARTS(rows, family)  (4u / WIDE_SCORE_SLICES(rows, family))
/* Shares of the columns of V, a power of two, and of the queries in sums. */
#define WIDE_UNITS(value_dim) (((value_dim) + WIDE_UNIT - 1u) / WIDE_UNIT)
#define WIDE_SUM_PARTS(value_dim) \
    (WIDE_UNITS(value_dim) >= 8u ? 8u : WIDE_UNITS(value_dim) >= 4u ? 4u : WIDE_UNITS(value_dim) >= 2u ? 2u : 1u)
#define WIDE_SUM_SLICES(rows, value_dim) \
    ((rows) / 16u < WIDE_WAVES / WIDE_SUM_PARTS(value_dim) ? (rows) / 16u : WIDE_WAVES / WIDE_SUM_PARTS(value_dim))
/* Units of a wave. */
#define WIDE_TURNS(value_dim) ((WIDE_UNITS(value_dim) + WIDE_SUM_PARTS(value_dim) - 1u) / WIDE_SUM_PARTS(value_dim))

/* LDS in bytes: rows of f16 of queries, of K and V, partial scores of f32, weights of f16, a float for each query. */
#define WIDE_STRIDE(n)       ATTENTION_PREFILL_STRIDE(n)
#define WIDE_SCORE_STRIDE(n) (((n) + 4u) * 4u)
/* Copies that reach LDS fill a second place for K and V while the first is read; otherwise K and V take turns in one place. */
#define WIDE_STAGES(kind, family) (FAMILY_COPIES_REACH_LDS(family) && (kind) == KV_KIND_f16 ? 2u : 1u)
#define WIDE_Q_BYTES(dim, rows, digits) ((rows) * (digits) * WIDE_STRIDE(dim))
#define WIDE_KV_BYTES(kind, dim, value_dim, view, positions, family) \
    ((positions) * ((view) ? WIDE_STAGES(kind, family) * WIDE_STRIDE(dim) \
                    : WIDE_STAGES(kind, family) > 1u ? 2u * (WIDE_STRIDE(dim) + WIDE_STRIDE(value_dim)) \
                    : ATTENTION_PREFILL_MOST(WIDE_STRIDE(dim), WIDE_STRIDE(value_dim))))
#define WIDE_SCORE_BYTES(rows, positions, family) (WIDE_SCORE_PARTS(rows, family) * (rows) * WIDE_SCORE_STRIDE(positions))
#define WIDE_WEIGHT_BYTES(rows, digits, positions) ((rows) * (digits) * WIDE_STRIDE(positions))
#define WIDE_BYTES(kind, dim, value_dim, view, rows, digits, positions, family) \
    (WIDE_Q_BYTES(dim, rows, digits) + WIDE_KV_BYTES(kind, dim, value_dim, view, positions, family) \
     + WIDE_SCORE_BYTES(rows, positions, family) + WIDE_WEIGHT_BYTES(rows, digits, positions) + (rows) * 4u)
#define WIDE_LDS_MOST(family) (FAMILY_COPIES_REACH_LDS(family) ? 232448u : 65536u)

/* Decode of f16 where copies reach LDS: each wave holds its share of Q's columns in registers, and has all positions of a step.  K and V
 * have 4 places, so that two steps are loaded while two others are read, or 2 if LDS does not hold 4.  Q passes through the last place.
 * 0 places: Q stays in LDS.  heads: queries that exist; more: bytes of LDS besides those of steps. */
#define WIDE_HELD_POSITIONS 32u
#define WIDE_HELD_STRIDE    160u                 /* of scores: eight bytes of eight rows lie in different banks */
#define WIDE_HELD_BYTES(dim, value_dim, view, heads, places) \
    ((places) * WIDE_HELD_POSITIONS * (WIDE_STRIDE(dim) + ((view) ? 0u : WIDE_STRIDE(value_dim))) \
     + WIDE_WAVES * (heads) * WIDE_HELD_STRIDE + WIDE_WEIGHT_BYTES(WIDE_ROWS, 2u, WIDE_HELD_POSITIONS) + WIDE_ROWS * 4u)
#define WIDE_HELD(kind, dim, value_dim, view, heads, rows, digits, more, family) \
    (WIDE_STAGES(kind, family) < 2u || (rows) != WIDE_ROWS || (digits) != 2u || (dim) > 576u ? 0u \
     : WIDE_HELD_BYTES(dim, value_dim, view, heads, 4u) + (more) <= WIDE_LDS_MOST(family) ? 4u \
     : WIDE_HELD_BYTES(dim, value_dim, view, heads, 2u) + (more) <= WIDE_LDS_MOST(family) ? 2u : 0u)

/* Positions of a step: 32, or 16 if LDS (64 KiB on AMD) does not hold 32. */
#define WIDE_POSITIONS(kind, dim, value_dim, view, heads, rows, digits, more, family) \
    (WIDE_HELD(kind, dim, value_dim, view, heads, rows, digits, more, family) > 0u ? WIDE_HELD_POSITIONS \
     : WIDE_BYTES(kind, dim, value_dim, view, rows, digits, 32u, family) + (more) <= WIDE_LDS_MOST(family) ? 32u : 16u)
#define WIDE_LOOP_BYTES(kind, dim, value_dim, view, heads, rows, digits, more, family) \
    (WIDE_HELD(kind, dim, value_dim, view, heads, rows, digits, more, family) > 0u \
     ? WIDE_HELD_BYTES(dim, value_dim, view, heads, WIDE_HELD(kind, dim, value_dim, view, heads, rows, digits, more, family)) \
     : WIDE_BYTES(kind, dim, value_dim, view, rows, digits, \
                  WIDE_POSITIONS(kind, dim, value_dim, view, heads, rows, digits, more, family), family))

/* Decode: the query heads of a KV head are the queries of a group; more heads are cut into equal parts. */
#define WIDE_DIGITS 2u
#define WIDE_ROWS 16u
#define WIDE_CUTS(n_head, n_head_kv)   (((n_head) / (n_head_kv) + WIDE_ROWS - 1u) / WIDE_ROWS)
#define WIDE_HEADS(n_head, n_head_kv)  (((n_head) / (n_head_kv) + WIDE_CUTS(n_head, n_head_kv) - 1u) / WIDE_CUTS(n_head, n_head_kv))
#define WIDE_GROUPS(n_head, n_head_kv) ((n_head_kv) * WIDE_CUTS(n_head, n_head_kv))
/* Fewest positions per span: two steps of every split. */
#define WIDE_SPAN_LEAST(positions, splits) (2u * (positions) * (splits))
/* At most this is in LDS besides: see WIDE_DECODE_BYTES. */
#define WIDE_MORE_BYTES(heads, value_dim, family) \
    (FAMILY_COPIES_REACH_LDS(family) ? 4u * (heads) * (value_dim) + (8u * ATTENTION_MAX_CLUSTER + 8u) * (heads) + 256u : 256u)
/* After the steps the sums [heads][value_dim] replace what steps used.  Then follow, as in attention_decode_tmpl.c, what other
 * splits of a cluster send, maxima and totals, and a flag. */
#define WIDE_SUMS_FLOATS(kind, dim, value_dim, view, heads, rows, family) \
    (ATTENTION_PREFILL_MOST(WIDE_LOOP_BYTES(kind, dim, value_dim, view, heads, rows, WIDE_DIGITS, \
                                             WIDE_MORE_BYTES(heads, value_dim, family), family), \
                             (heads) * (value_dim) * 4u) / 4u)
#define WIDE_DECODE_BYTES(kind, dim, value_dim, view, heads, rows, splits, cluster, family) \
    (4u * (WIDE_SUMS_FLOATS(kind, dim, value_dim, view, heads, rows, family) \
           + ATTENTION_RECEIVED_FLOATS(heads, value_dim, splits, cluster) + 2u * (heads) + 4u))
/* Parts of a unit in the arena: of each group, and without clusters of each bundle of groups; or of each cluster.  Their maxima and totals.
 * Counters: one per split of a cluster, or one per bundle and one for all. */
#define WIDE_BUNDLE 16u
#define WIDE_BUNDLES(splits, spans) (((splits) * (spans) + WIDE_BUNDLE - 1u) / WIDE_BUNDLE)
#define WIDE_PARTS(splits, spans, cluster) ((cluster) ? (spans) : (splits) * (spans) + WIDE_BUNDLES(splits, spans))
#define WIDE_COUNTERS(splits, spans, cluster) ((cluster) ? (splits) : 1u + WIDE_BUNDLES(splits, spans))
#define WIDE_PARTS_BYTES(units, heads, value_dim, splits, spans, cluster) \
    ((uint64_t)(units) * WIDE_PARTS(splits, spans, cluster) * (heads) * (value_dim) * 4u)
#define WIDE_ML_BYTES(units, heads, splits, spans, cluster) \
    ((uint64_t)(units) * ((cluster) ? (splits) * (spans) : WIDE_PARTS(splits, spans, 0u)) * (heads) * 8u)
#define WIDE_COUNTER_BYTES(units, splits, spans, cluster) (4u * (units) * WIDE_COUNTERS(splits, spans, cluster))

/* Prefill: as in attention_prefill_tmpl.c the queries of a group are (token, query head).  fours: 1 for products of four waves
 * (attention_wide_fours.h), if the target has them and WIDE_IN_FOURS; Q, K and V are then swizzled areas of 64 columns, of 64 rows each. */
#define WIDE_FOURS_POSITIONS 64u
#define WIDE_FOURS_VALUES    512u                /* most columns of V: the sums of half of them fit the registers */
#define WIDE_FOURS_BYTES(dim) (WIDE_FOURS_POSITIONS * 2u * (dim))
#define WIDE_IN_FOURS(kind, dim, value_dim, family) \
    (FAMILY_COPIES_REACH_LDS(family) && (kind) == KV_KIND_f16 && (dim) % 64u == 0u && (dim) <= 576u && (value_dim) % 128u == 0u \
     && (value_dim) <= WIDE_FOURS_VALUES && ((value_dim) <= 128u || (value_dim) % 256u == 0u))
#define WIDE_PREFILL_ROWS(dim, family) (FAMILY_COPIES_REACH_LDS(family) || (dim) <= 256u ? 64u : 32u)
#define WIDE_PREFILL_TOKENS(n_head, n_head_kv, dim, family) \
    (WIDE_PREFILL_ROWS(dim, family) / ATTENTION_PREFILL_HEADS(n_head, n_head_kv))
/* fours: the positions of a group's queries are cut into up to `splits` parts, of WIDE_FOURS_LEAST or more, for groups of their own.
 * The last one to arrive joins them.  Bytes of a part in the arena: the sums, maxima and totals of all threads as they lie in registers. */
#define WIDE_FOURS_LEAST 2048u
#define WIDE_FOURS_PART_BYTES(value_dim, family) (((value_dim) / 4u + 4u) * WIDE_THREADS(family) * 4u)
#define WIDE_PREFILL_BYTES(kind, dim, value_dim, view, family, fours) \
    ((fours) ? WIDE_FOURS_BYTES(2u * (dim) + ((view) ? (dim) : (value_dim))) \
     : WIDE_LOOP_BYTES(kind, dim, value_dim, view, WIDE_PREFILL_ROWS(dim, family), WIDE_PREFILL_ROWS(dim, family), 1u, 0u, family))
#endif
