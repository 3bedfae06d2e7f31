/* collective_sizes.h -- the memory that other GPUs store into (collective.h).  Constant expressions of C, used by the compiler's plan too.
 *
 * A half consists of pairs of a value and its tag, then flags, then rows of a prompt, to which the flags belong.  Flags lie where rows and
 * pairs are never stored, because a float may have the bits of any tag.
 *
 * Rows come in pieces of COLLECTIVE_TOKENS tokens x COLLECTIVE_RUN columns, each with one flag.  A slot is the place of COLLECTIVE_TOKENS
 * tokens.  With two GPUs, each has slots for all tokens from both.  More GPUs share the tokens: rank y % ranks sums those of number y and
 * has a slot for them from each rank; after these come the slots of the sums, rank by rank. */
#ifndef FORGE_COLLECTIVE_SIZES_H
#define FORGE_COLLECTIVE_SIZES_H

#define COLLECTIVE_TOKENS 4u
/* threads: of the group that pushes a piece. */
#define COLLECTIVE_RUN(threads)         (4u * (threads))
#define COLLECTIVE_RUNS(cols, threads)  (((cols) + COLLECTIVE_RUN(threads) - 1u) / COLLECTIVE_RUN(threads))
/* Whether each GPU sums a part of the tokens and sends the sums: (n - 1) / n of the rows are sent twice, instead of all rows n - 1
 * times. */
#define COLLECTIVE_SHARED(ranks)        ((ranks) > 2u)
#define COLLECTIVE_PIECES(tokens)       (((tokens) + COLLECTIVE_TOKENS - 1u) / COLLECTIVE_TOKENS)
/* most: most tokens; slots per rank, and in all. */
#define COLLECTIVE_PARTS(ranks, most)   (COLLECTIVE_SHARED(ranks) ? (COLLECTIVE_PIECES(most) + (ranks) - 1u) / (ranks) \
                                                                  : COLLECTIVE_PIECES(most))
#define COLLECTIVE_SLOTS(ranks, most)   ((ranks) * COLLECTIVE_PARTS(ranks, most) * (COLLECTIVE_SHARED(ranks) ? 2u : 1u))
/* Floats of a row: values are sent in pairs. */
#define COLLECTIVE_STRIDE(cols)         (((cols) + 1u) / 2u * 2u)

#define COLLECTIVE_PAIRS_BYTES(ranks, rows, cols)           (8ull * (ranks) * (rows) * (cols))
#define COLLECTIVE_FLAGS_BYTES(ranks, most, cols, threads)  (4ull * COLLECTIVE_SLOTS(ranks, most) * COLLECTIVE_RUNS(cols, threads))
#define COLLECTIVE_ROWS_BYTES(ranks, most, cols) \
    (4ull * COLLECTIVE_SLOTS(ranks, most) * COLLECTIVE_TOKENS * COLLECTIVE_STRIDE(cols))
#endif
