/* gemv_sizes.h -- bytes of LDS that acts.h fills and gemv_tmpl.c reads.  Constant expressions of C, for the compiler's plan too.
 * All offsets are multiples of 16.
 *
 * acts:   128 bytes of scratch, then [digit][c 0..3][units of a plane][16]: 16 int8 of columns 64 unit + 16 c .., then [units + 1][4] f32
 *         {d0, d1, s0, s1}, then with sums16 [units + 1][4] f32.  The entry after the last unit is all 0, for lanes without a unit.
 * floats: 128 bytes of scratch, then two planes [pieces + 4][4] f32: columns 8 piece .. + 3 in the first, + 4 .. + 7 in the second.
 *         The piece after the last is 0.
 *
 * A plane of acts is 2 units longer than a multiple of 8, and a plane of floats is 64 bytes longer than a multiple of 128.  So a wave's
 * writes, and its reads of pieces of 4 columns, use different banks. */
#ifndef FORGE_GEMV_SIZES_H
#define FORGE_GEMV_SIZES_H

#define ACTS_SCRATCH_BYTES 128                   /* one sum for each wave of the group */

/* The divisor of head_normed(): the root mean square, the length, or, for a head less its mean, the standard deviation. */
enum { HEADS_RMS, HEADS_UNIT, HEADS_CENTERED };

#define ACTS_UNITS(cols) (((cols) + 63u) / 64u)
#define ACTS_PLANE_UNITS(cols) ((ACTS_UNITS(cols) + 6u) / 8u * 8u + 2u)
#define ACTS_SCALES(cols, digits) (ACTS_SCRATCH_BYTES + 64u * (digits) * ACTS_PLANE_UNITS(cols))
#define ACTS_SUMS(cols, digits) (ACTS_SCALES(cols, digits) + 16u * (ACTS_UNITS(cols) + 1u))
/* digits: 1, 2 or 3; sums16: 1 if a format that reads the row has SUMS16, else 0. */
#define ACTS_BYTES(cols, digits, sums16) (ACTS_SUMS(cols, digits) + 16u * (sums16) * (ACTS_UNITS(cols) + 1u))

#define FLOATS_PLANE_BYTES(cols) (128u * ACTS_UNITS(cols) + 64u)
#define FLOATS_BYTES(cols) (ACTS_SCRATCH_BYTES + 2u * FLOATS_PLANE_BYTES(cols))

/* For gemv_matrix_tmpl.c: rows of a tile; waves that share a tile, of `waves` in the group, which has lanes / 4 / ranks quads of classes;
 * columns of activations of a group; LDS bytes of a wave's sums, [8 tokens][16], and of sums that groups of a cluster exchange. */
#define MATRIX_TILE 16u
#define MATRIX_SPLIT(waves, quads) ((waves) >= (quads) ? (quads) : (waves) >= 4u ? 4u : (waves) >= 2u ? 2u : 1u)
#define MATRIX_COLS(cols, lanes, ranks) \
    ((ranks) == 1u ? (cols) : (ACTS_UNITS(cols) + (lanes) - 1u) / (lanes) * ((lanes) / (ranks)) * 64u)
#define MEET_BYTES 8u                            /* LDS for waves that wait for each other (dialect.h) */
#define MATRIX_PART_BYTES (8u * MATRIX_TILE * 4u)
#define MATRIX_EXCHANGE_BYTES(slots, ranks) ((ranks) == 1u ? 32u * MEET_BYTES : 2u * (slots) * 8u * MATRIX_TILE * 4u)
/* The used bytes at the end of ACTS_SCRATCH_BYTES, which precede a token's activations; the rest may hold the end of the previous token.
 * MATRIX_X_BYTES: from a token's activations, of ACTS_BYTES, to the next token's.  It is an odd number of pieces of 16 bytes, so that eight
 * tokens lie in different banks. */
#define MATRIX_SCRATCH_BYTES(threads) (((threads) / 8u + 15u) / 16u * 16u)
#define MATRIX_X_BYTES(bytes, threads) ((((bytes) - ACTS_SCRATCH_BYTES + MATRIX_SCRATCH_BYTES(threads)) / 16u | 1u) * 16u)

/* Groups of embed_tmpl.c per row: four waves for each `wave` units of 64 columns. */
#define EMBED_GROUPS(cols, wave, threads) (((ACTS_UNITS(cols) + (wave) - 1u) / (wave) * 4u * (wave) + (threads) - 1u) / (threads))
#endif
