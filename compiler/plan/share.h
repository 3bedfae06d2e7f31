/* share.h -- what one of several GPUs computes of a model: tensor parallelism (Shoeybi et al. 2019, arXiv:1909.08053), decided on the
 * graph.  Knows no targets. */
#ifndef FORGEC_SHARE_H
#define FORGEC_SHARE_H
#include "compiler/front/graph.h"

enum { SHARE_COLUMNS = 64 };
/* The graph of GPU `rank` of `ranks`, which all run theirs side by side.
 *
 * A product whose input is made column by column, from the rows of other products on, is shared: each GPU has some of these columns (heads
 * of attention, columns of a feed-forward part, of each expert) with the rows and columns of weights that belong to them, gives its part of
 * the product's sum to all (`give`) and takes the sum of all parts (`take`).  So is the vocabulary: each has some rows of the head, and
 * gathers the logits of all (`gather`).  What cannot be cut so (recurrences, latent attention) all compute alike.
 * Two sums of a layer that are only added are given as one.
 *
 * Fewer KV heads than GPUs are copied: neighbouring ranks have the same one, with its keys and values, and share its query heads.  No GPU
 * has query heads of several KV heads but all of theirs; where a KV head's columns of the product behind have fewer units than it has GPUs,
 * all compute alike.
 *
 * Units that are cut are as small as heads and the blocks of a weight's format allow, and of a product's columns so many at least
 * (SHARE_COLUMNS: packed rows are read in such units; so all GPUs have the same launches); of U units rank r has those from U r / ranks up
 * to before U (r + 1) / ranks.  Dies where nothing can be shared.  The block that drafts tokens is left out. */
const struct graph *share_graph(struct arena *a, const struct graph *g, uint32_t rank, uint32_t ranks,
                                uint32_t columns);
#endif
