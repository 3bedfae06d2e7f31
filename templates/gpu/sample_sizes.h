/* sample_sizes.h -- bytes that sample_tmpl.c needs, and how it cuts the vocabulary.  Constant expressions of C,
 * for the compiler's plan too. */
#ifndef FORGE_SAMPLE_SIZES_H
#define FORGE_SAMPLE_SIZES_H

#define SAMPLE_MAX_VOCAB 524288u

/* A segment is a run of tokens whose maximum one wave finds at once.  Top-k needs more segments than k,
 * the group that arrives last reads all maxima. */
#define SAMPLE_MAX_SEGMENT 128u
#define SAMPLE_SEGMENT(n_vocab) ((n_vocab) <= 65536u ? 64u : SAMPLE_MAX_SEGMENT)
#define SAMPLE_SEGMENTS(n_vocab) (((n_vocab) + SAMPLE_SEGMENT(n_vocab) - 1u) / SAMPLE_SEGMENT(n_vocab))

/* Arena, 16-byte aligned; nothing in it is kept from step to step.  Any number of groups. */
#define SAMPLE_SCRATCH_BYTES(n_vocab, groups) (16u * SAMPLE_SEGMENTS(n_vocab))
#define SAMPLE_COUNTERS 1u                       /* u32 of the arena's zero part */

/* LDS.  Tokens that are sorted there: more are never needed for the usual options. */
#define SAMPLE_LIST 1024u
#define SAMPLE_BINS 256u
#define SAMPLE_LDS_FIXED 2624u                   /* words, maxima of the waves, eight sums of each wave */
#define SAMPLE_LDS_VALUES SAMPLE_LDS_FIXED
#define SAMPLE_LDS_WORK(n_vocab) (SAMPLE_LDS_VALUES + 8u * ((SAMPLE_SEGMENTS(n_vocab) + 1u) / 2u))
#define SAMPLE_LDS_PICKED (4u * (SAMPLE_BINS + 8u))
#define SAMPLE_LDS_KEYS(n_vocab) (SAMPLE_LDS_PICKED + 8u * ((SAMPLE_SEGMENTS(n_vocab) + 1u) / 2u))
/* Up to 1024 threads. */
#define SAMPLE_LDS_BYTES(n_vocab) (SAMPLE_LDS_WORK(n_vocab) + SAMPLE_LDS_KEYS(n_vocab) + 24u * SAMPLE_LIST)
#endif
