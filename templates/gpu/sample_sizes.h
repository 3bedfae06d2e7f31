/* sample_sizes.h -- bytes that sample_tmpl.c needs, and how it divides the vocabulary.  Constant expressions of C, for the compiler's plan
 * too. */
#ifndef FORGE_SAMPLE_SIZES_H
#define FORGE_SAMPLE_SIZES_H

#define SAMPLE_MAX_VOCAB 524288u

/* A segment is a run of tokens whose maximum one wave finds at once.  Top-k needs more segments than k;
 * the group that arrives last reads all maxima. */
#define SAMPLE_MAX_SEGMENT 128u
#define SAMPLE_SEGMENT(n_vocab) ((n_vocab) <= 65536u ? 64u : SAMPLE_MAX_SEGMENT)
#define SAMPLE_SEGMENTS(n_vocab) (((n_vocab) + SAMPLE_SEGMENT(n_vocab) - 1u) / SAMPLE_SEGMENT(n_vocab))

/* A block is a run of segments that one group reads and, if the options may need it, sorts. */
#define SAMPLE_BLOCK_SEGMENTS 16u
#define SAMPLE_BLOCK(n_vocab) (SAMPLE_BLOCK_SEGMENTS * SAMPLE_SEGMENT(n_vocab))
#define SAMPLE_BLOCKS(n_vocab) (((n_vocab) + SAMPLE_BLOCK(n_vocab) - 1u) / SAMPLE_BLOCK(n_vocab))

/* In the arena, 16-byte aligned; its content is not kept from step to step.  For any number of groups.  Four words per segment, then a key
 * and two sums for each token of all blocks. */
#define SAMPLE_SCRATCH_SORTED(n_vocab) (16u * SAMPLE_SEGMENTS(n_vocab))
#define SAMPLE_SCRATCH_BYTES(n_vocab, groups) \
    (SAMPLE_SCRATCH_SORTED(n_vocab) + ((n_vocab) <= SAMPLE_LIST ? 0u : 24u * SAMPLE_BLOCK(n_vocab) * SAMPLE_BLOCKS(n_vocab)))
#define SAMPLE_COUNTERS 1u                       /* u32 in the zeroed part of the arena */
#define DRAFT_WORDS(rows) (3u * (rows) + 1u)     /* the same for a step with drafts (drafts.h) */

/* LDS.  Most tokens that are sorted there; the usual options never need more. */
#define SAMPLE_LIST 1024u
/* Keys that divide the remaining tokens of all blocks: at least four times the number of blocks. */
#define SAMPLE_HEADS(n_vocab) (SAMPLE_BLOCKS(n_vocab) <= 64u ? 512u : 1024u)
#define SAMPLE_PIVOTS 8u
#define SAMPLE_BINS 256u
#define SAMPLE_LDS_FIXED 2624u                   /* words, maxima of the waves, eight sums per wave */
#define SAMPLE_LDS_VALUES SAMPLE_LDS_FIXED
#define SAMPLE_LDS_WORK(n_vocab) (SAMPLE_LDS_VALUES + 8u * ((SAMPLE_SEGMENTS(n_vocab) + 1u) / 2u))
#define SAMPLE_LDS_PICKED (4u * (SAMPLE_BINS + 8u))
#define SAMPLE_LDS_KEYS(n_vocab) (SAMPLE_LDS_PICKED + 8u * ((SAMPLE_SEGMENTS(n_vocab) + 1u) / 2u))
#define SAMPLE_LDS_MASK(n_vocab) (SAMPLE_LDS_WORK(n_vocab) + SAMPLE_LDS_KEYS(n_vocab) + 24u * SAMPLE_LIST)
/* For up to 1024 threads. */
#define SAMPLE_LDS_BYTES(n_vocab) (SAMPLE_LDS_MASK(n_vocab) + SAMPLE_BLOCK(n_vocab) / 8u)
#endif
