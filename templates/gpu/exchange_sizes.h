/* exchange_sizes.h -- the memory in which a GPU gets what others give it (exchange.h).  Constant expressions of C, for the compiler's plan
 * too.
 *
 * A half is: pairs of a value and its tag; flags; rows of a prompt, whose flags those are.  Flags lie where no row and no pair ever does: a
 * float may have the bits of any tag.
 *
 * Rows come in pieces, EXCHANGE_TOKENS tokens x EXCHANGE_RUN columns, each with one flag.  A slot is the place of so many tokens.  Of two
 * GPUs each has one for all tokens of both.  More GPUs share the tokens: those of number y are summed by rank y % ranks, which has a slot
 * for them from each; behind those are the slots of the sums, rank by rank. */
#ifndef FORGE_EXCHANGE_SIZES_H
#define FORGE_EXCHANGE_SIZES_H

#define EXCHANGE_TOKENS 4u
/* threads: of the group that gives a piece. */
#define EXCHANGE_RUN(threads)         (4u * (threads))
#define EXCHANGE_RUNS(cols, threads)  (((cols) + EXCHANGE_RUN(threads) - 1u) / EXCHANGE_RUN(threads))
/* Sums of each are passed on by one of them: (n - 1) / n of the rows go out twice, where all rows for all others would be n - 1 times. */
#define EXCHANGE_SHARED(ranks)        ((ranks) > 2u)
#define EXCHANGE_PIECES(tokens)       (((tokens) + EXCHANGE_TOKENS - 1u) / EXCHANGE_TOKENS)
/* most: tokens at most; of a rank's parts, of all. */
#define EXCHANGE_PARTS(ranks, most)   (EXCHANGE_SHARED(ranks) ? (EXCHANGE_PIECES(most) + (ranks) - 1u) / (ranks) : EXCHANGE_PIECES(most))
#define EXCHANGE_SLOTS(ranks, most)   ((ranks) * EXCHANGE_PARTS(ranks, most) * (EXCHANGE_SHARED(ranks) ? 2u : 1u))
/* Floats of a row: values go two at a time. */
#define EXCHANGE_STRIDE(cols)         (((cols) + 1u) / 2u * 2u)

#define EXCHANGE_PAIRS_BYTES(ranks, rows, cols)           (8ull * (ranks) * (rows) * (cols))
#define EXCHANGE_FLAGS_BYTES(ranks, most, cols, threads)  (4ull * EXCHANGE_SLOTS(ranks, most) * EXCHANGE_RUNS(cols, threads))
#define EXCHANGE_ROWS_BYTES(ranks, most, cols)            (4ull * EXCHANGE_SLOTS(ranks, most) * EXCHANGE_TOKENS * EXCHANGE_STRIDE(cols))
#endif
