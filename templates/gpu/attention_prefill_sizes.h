/* attention_prefill_sizes.h -- sizes of prefill attention, shared by the plan and the kernels; constant macros.
 * kind: KV_KIND_*; digits: of activations, 1 or 2; family: FAMILY_*; threads: per group; fours: 1 for products of four waves. */
#ifndef FORGE_ATTENTION_PREFILL_SIZES_H
#define FORGE_ATTENTION_PREFILL_SIZES_H
#include "attention_sizes.h"
#include "machine/families.h"

/* 1: f32 products instead of the matrix unit.  With an f32 cache the user asks for its precision. */
#define ATTENTION_PREFILL_EXACT(kind, digits) ((digits) > 1u || (kind) == KV_KIND_f32)

/* Whether products can be those of four waves if the target has these (mma.h).  They need two sets of four waves, which alternate. */
#define ATTENTION_PREFILL_IN_FOURS(kind, digits, head_dim, threads) \
    (!ATTENTION_PREFILL_EXACT(kind, digits) && (kind) == KV_KIND_f16 && ((head_dim) == 64u || (head_dim) == 128u) \
     && (threads) == ATTENTION_PREFILL_FOURS_THREADS)
#define ATTENTION_PREFILL_FOURS_THREADS 256u

/* The query heads of a KV head are stacked with the tokens into the rows of one tile, up to 16 heads; more heads are cut into equal
 * parts. */
#define ATTENTION_PREFILL_CUTS(n_head, n_head_kv)  (((n_head) / (n_head_kv) + 15u) / 16u)
#define ATTENTION_PREFILL_HEADS(n_head, n_head_kv) \
    (((n_head) / (n_head_kv) + ATTENTION_PREFILL_CUTS(n_head, n_head_kv) - 1u) / ATTENTION_PREFILL_CUTS(n_head, n_head_kv))

/* Tiles of 16 rows per wave.  With 2, a wave uses each K and V that it reads from LDS twice, if registers can hold both sums. */
#define ATTENTION_PREFILL_TILES(head_dim, family, fours) ((head_dim) <= 128u && !(fours) ? FAMILY_PREFILL_TILES(family) : 1u)
/* Rows per group, and positions whose K and V it loads at a time: as many as registers, and on AMD LDS, can hold. */
#define ATTENTION_PREFILL_EXACT_ROWS 32u
#define ATTENTION_PREFILL_ROWS(kind, digits, head_dim, family, threads, fours) \
    (ATTENTION_PREFILL_EXACT(kind, digits) ? ATTENTION_PREFILL_EXACT_ROWS \
     : (threads) / FAMILY_WAVE(family) * 16u * ATTENTION_PREFILL_TILES(head_dim, family, fours))
#define ATTENTION_PREFILL_POSITIONS(kind, digits, head_dim, family, fours) \
    ((fours) ? 128u \
     : ATTENTION_PREFILL_EXACT(kind, digits) ? ((head_dim) > 128u ? 16u : 32u) \
     : FAMILY_COPIES_REACH_LDS(family) ? ((kind) == KV_KIND_f16 && (head_dim) <= 64u ? 64u : 32u) \
     : (head_dim) > 128u ? FAMILY_PREFILL_FEW(family) : 32u)

/* The launch: grid_x groups, and tokens per group (grid_y = ceil(tokens / this)). */
#define ATTENTION_PREFILL_GROUPS(n_head, n_head_kv) ((n_head_kv) * ATTENTION_PREFILL_CUTS(n_head, n_head_kv))
#define ATTENTION_PREFILL_TOKENS(kind, digits, n_head, n_head_kv, head_dim, family, threads, fours) \
    (ATTENTION_PREFILL_ROWS(kind, digits, head_dim, family, threads, fours) / ATTENTION_PREFILL_HEADS(n_head, n_head_kv))

/* Resident groups per compute unit, for KERNEL(): leaves 256 registers per lane.  If a lane could use more, gfx942 would place sums where
 * only its matrix unit can access them. */
#define ATTENTION_PREFILL_RESIDENT(family, threads) (FAMILY_WAVE(family) * 8u / (threads))

/* Whether a lane has registers for Q besides the sums of a wave; otherwise Q stays in LDS (FAMILY_MMA_*). */
#define ATTENTION_PREFILL_Q_IN_REGISTERS(kind, digits, head_dim, family) \
    (ATTENTION_PREFILL_TILES(head_dim, family, 0) \
     * (FAMILY_MMA_ACC(family) * ((head_dim) + ATTENTION_PREFILL_POSITIONS(kind, digits, head_dim, family, 0)) / 16u \
        + FAMILY_MMA_WORDS(family) * (head_dim) / 16u) <= 160u)

/* Bytes of an LDS row of f16: of one position or query or, where V is transposed (no asynchronous copies), of one dimension.  An odd number
 * of 16-byte pieces. */
#define ATTENTION_PREFILL_STRIDE(n) ((n) * 2u + 16u)
#define ATTENTION_PREFILL_V_GAP 64u              /* bytes after 8 dimensions of transposed V */
#define ATTENTION_PREFILL_K_V_BYTES(positions, head_dim, family) \
    (FAMILY_COPIES_REACH_LDS(family) ? 4u * (positions) * ATTENTION_PREFILL_STRIDE(head_dim) \
     : (positions) * ATTENTION_PREFILL_STRIDE(head_dim) \
       + (head_dim) * ATTENTION_PREFILL_STRIDE(positions) + (head_dim) / 8u * ATTENTION_PREFILL_V_GAP)
/* Bytes of Q if it stays in LDS.  Otherwise 16 rows of each wave pass through the memory of K and V on their way to registers. */
#define ATTENTION_PREFILL_Q_BYTES(kind, digits, head_dim, family, threads) \
    (ATTENTION_PREFILL_Q_IN_REGISTERS(kind, digits, head_dim, family) \
     ? 0u : ATTENTION_PREFILL_ROWS(kind, digits, head_dim, family, threads, 0) * ATTENTION_PREFILL_STRIDE(head_dim))
#define ATTENTION_PREFILL_MOST(a, b) ((a) > (b) ? (a) : (b))
#define ATTENTION_PREFILL_KV_BYTES(kind, digits, head_dim, family, threads) \
    (ATTENTION_PREFILL_MOST(ATTENTION_PREFILL_K_V_BYTES(ATTENTION_PREFILL_POSITIONS(kind, digits, head_dim, family, 0), head_dim, family), \
        ATTENTION_PREFILL_Q_IN_REGISTERS(kind, digits, head_dim, family) \
        ? (threads) / FAMILY_WAVE(family) * 16u * ATTENTION_PREFILL_STRIDE(head_dim) : 0u))
/* Floats of an LDS row of f32, for exact sums: an odd number of 16-byte pieces if n is a multiple of 8. */
#define ATTENTION_PREFILL_EXACT_STRIDE(n) ((n) + 4u)
#define ATTENTION_PREFILL_EXACT_LDS_BYTES(positions, head_dim) \
    (4u * ((ATTENTION_PREFILL_EXACT_ROWS + (positions)) * ATTENTION_PREFILL_EXACT_STRIDE(head_dim) \
           + ATTENTION_PREFILL_EXACT_ROWS * ATTENTION_PREFILL_EXACT_STRIDE(positions)))

/* Products of four waves: LDS holds Q and two steps of K and V. */
#define ATTENTION_PREFILL_FOURS_LDS_BYTES(kind, digits, head_dim, family, threads) \
    (2u * (head_dim) * (ATTENTION_PREFILL_ROWS(kind, digits, head_dim, family, threads, 1) \
                        + 4u * ATTENTION_PREFILL_POSITIONS(kind, digits, head_dim, family, 1)))
#define ATTENTION_PREFILL_LDS_BYTES(kind, digits, head_dim, family, threads, fours) \
    ((fours) ? ATTENTION_PREFILL_FOURS_LDS_BYTES(kind, digits, head_dim, family, threads) \
     : ATTENTION_PREFILL_EXACT(kind, digits) \
     ? ATTENTION_PREFILL_EXACT_LDS_BYTES(ATTENTION_PREFILL_POSITIONS(kind, digits, head_dim, family, 0), head_dim) \
     : ATTENTION_PREFILL_Q_BYTES(kind, digits, head_dim, family, threads) \
       + ATTENTION_PREFILL_KV_BYTES(kind, digits, head_dim, family, threads))
#endif
