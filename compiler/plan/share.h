/* share.h -- tensor parallelism: the part of a model that each of several GPUs computes (Shoeybi et al. 2019, arXiv:1909.08053). The graph
 * alone decides; targets play no part. */
#ifndef FORGEC_SHARE_H
#define FORGEC_SHARE_H
#include "compiler/front/graph.h"

enum { SHARE_COLUMNS = 64 };
/* The graph of GPU `rank` of `ranks` GPUs that run at the same time.
 *
 * A product is shared if its input is made column by column, beginning with the rows of other products. Each GPU has some of these columns
 * (heads of attention, columns of a feed-forward part or of each expert) and the rows and columns of weights that belong to them. It sends
 * its part of the product's sum to all GPUs (`push`) and adds all parts (`all_reduce`). The vocabulary is shared, too: each GPU has some
 * rows of the output head and gets the logits of all (`all_gather`). All GPUs compute the rest, which cannot be cut in this way
 * (recurrences, latent attention). If two sums of a layer are only added, they take one all_reduce.
 *
 * If there are fewer KV heads than GPUs, neighbouring ranks have a copy of the same KV head with its keys and values, and divide its query
 * heads among them. A GPU that has query heads of several KV heads has all query heads of each. If the columns of a KV head in the product
 * that follows have fewer units than the KV head has GPUs, all GPUs compute everything.
 *
 * A unit is as small as heads and the blocks of weight formats allow, and a unit of a product's columns has at least `columns` columns
 * (SHARE_COLUMNS: packed rows are read in such units, so all GPUs have the same launches). With U units, rank r has the units from
 * U r / ranks up to but not including U (r + 1) / ranks. Dies if nothing can be shared. The block that drafts tokens is left out. */
const struct graph *share_graph(struct arena *a, const struct graph *g, uint32_t rank, uint32_t ranks,
                                uint32_t columns);
#endif
