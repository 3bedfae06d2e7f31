/* gemm_sizes.h -- sizes of prefill's products, shared by the plan and the kernels.  Constant expressions of C, for the host too. */
#ifndef FORGE_GEMM_SIZES_H
#define FORGE_GEMM_SIZES_H
#include "machine/families.h"

/* LDS rows are 64 columns of 16 bits: 128 bytes, swizzled instead of padded, so that two groups of 128 x 128 with one stage fit into AMD's
 * 64 KiB. */
#define GEMM_STEP_COLS 64
#define GEMM_ROW_LDS   128

/* Slots of a group's ring.  A group that has a compute unit to itself, with products of four waves and copied weights (f16 and bf16), has
 * more slots and two steps of products under way, because no other group fills its waiting time.  Groups that decode weights gain nothing
 * by this. */
#define GEMM_IS_ALONE(joined, copied, threads) ((joined) && (copied) && (threads) == 256)
#define GEMM_RING(stages, alone, tokens)       ((alone) ? ((tokens) > 128 ? 4 : 6) : (stages))
/* Slots of weights.  Float formats are copied, one slot per stage.  Packed units are decoded unit_steps (1 or 2) steps ahead while as many
 * slots are read; f32 one step ahead.  f32 weights need two planes, a high and a low f16. */
#define GEMM_WEIGHT_SLOTS(ring, copied, weight_digits, unit_steps) \
    ((copied) || (ring) < 2 ? (ring) : (weight_digits) == 2 ? 2 : 2 * (unit_steps))

/* LDS bytes of a group.  tokens, rows: of its tile; stages: slots of the ring (GEMM_STAGES);
 * weight_digits: 2 for f32, else 1; copied: 1 for f16 and bf16, else 0; unit_steps: GEMM_UNIT_STEPS; alone: GEMM_IS_ALONE. */
#define GEMM_LDS_BYTES(tokens, rows, stages, weight_digits, copied, unit_steps, alone) \
    (GEMM_ROW_LDS * (GEMM_RING(stages, alone, tokens) * (tokens) \
                     + GEMM_WEIGHT_SLOTS(GEMM_RING(stages, alone, tokens), copied, weight_digits, unit_steps) * (weight_digits) * (rows)))

/* ---- how the waves of a group share its tile ----
 * GEMM_TOKEN_WAVES waves along the tokens, GEMM_K_WAVES along the columns of a step, the others along the rows.  Each wave has a whole
 * number of tiles of 16 x 16, and the group reads the least from LDS: per step row_waves times x and token_waves times the weights.  Waves
 * that share columns add up their sums at the end; this pays for small tiles, in some families only (FAMILY_GEMM_K_WAVES).
 * All macros take a group's tokens, rows and threads and the family (machine/families.h).  Where four waves multiply together (sm_90a), the
 * tile is shared differently (gemm_tmpl.c).
 *
 * t, r: tiles of 16 along tokens and rows; w: waves; n: tiles along rows that stay together, 2 if rows of a pair alternate. */
#define GEMM_DIVIDES(t, r, w, token_waves, k_waves, n) \
    ((w) % ((token_waves) * (k_waves)) == 0 && (t) % (token_waves) == 0 && (r) * (token_waves) * (k_waves) % ((w) * (n)) == 0)
/* Token waves, plus 16 with two waves along the columns; 0: none.  Two such waves must need no more LDS at the end (t >= r) and no more
 * registers than 4 x 4 tiles. */
#define GEMM_SPLIT_OF(t, r, w, family, n) \
    (FAMILY_GEMM_K_WAVES(family) > 1 && (t) * (r) < 16 * (w) && (t) >= (r) && GEMM_DIVIDES(t, r, w, 2, 2, n) ? 18 \
     : FAMILY_GEMM_K_WAVES(family) > 1 && (t) * (r) < 16 * (w) && GEMM_DIVIDES(t, r, w, 1, 2, n) ? 17 \
     : (w) >= 8 && (r) < (t) && GEMM_DIVIDES(t, r, w, 4, 1, n) ? 4 \
     : ((w) >= 4 || (r) < (t)) && GEMM_DIVIDES(t, r, w, 2, 1, n) ? 2 \
     : GEMM_DIVIDES(t, r, w, 1, 1, n) ? 1 : GEMM_DIVIDES(t, r, w, 2, 1, n) ? 2 : GEMM_DIVIDES(t, r, w, 4, 1, n) ? 4 \
     : GEMM_DIVIDES(t, r, w, 8, 1, n) ? 8 : 0)
/* 1: a tile can be shared so that the rows of a pair stay together; otherwise it serves single matrices at most. */
#define GEMM_SHARES_PAIRS(tokens, rows, threads, family) \
    (GEMM_SPLIT_OF((tokens) / 16, (rows) / 16, (threads) / FAMILY_WAVE(family), family, 2) != 0)
#define GEMM_SPLIT(tokens, rows, threads, family) \
    (GEMM_SHARES_PAIRS(tokens, rows, threads, family) \
     ? GEMM_SPLIT_OF((tokens) / 16, (rows) / 16, (threads) / FAMILY_WAVE(family), family, 2) \
     : GEMM_SPLIT_OF((tokens) / 16, (rows) / 16, (threads) / FAMILY_WAVE(family), family, 1))
/* 0: the tile cannot be shared. */
#define GEMM_TOKEN_WAVES(tokens, rows, threads, family) (GEMM_SPLIT(tokens, rows, threads, family) % 16)
#define GEMM_K_WAVES(tokens, rows, threads, family)     (1 + GEMM_SPLIT(tokens, rows, threads, family) / 16)

/* Stages if copies reach LDS without registers, and if they pass through registers (2 halves the barriers, if LDS allows). */
#define GEMM_STAGES_OF(family) (FAMILY_COPIES_REACH_LDS(family) ? 3 : 1)
#endif
