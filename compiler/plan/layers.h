/* layers.h -- what one of several GPUs in a row computes of a model: some of its layers (Huang et al. 2019, arXiv:1811.06965), decided on
 * the graph.  Knows no targets. */
#ifndef FORGEC_LAYERS_H
#define FORGEC_LAYERS_H
#include "compiler/front/graph.h"

enum { LAYERS_RANKS = 8 };
/* Before which nodes of the graph a row of GPUs is cut: GPU r has those from first[r] up to before first[r + 1].  layers: of each. */
struct layers_cuts { uint32_t ranks, first[LAYERS_RANKS + 1], layers[LAYERS_RANKS]; };

/* Cuts for so many GPUs.  layers: [ranks] of each; NULL: so many that the bytes of weights which a token reads are shared out in the
 * proportion of speeds [ranks].  Dies where there are too few layers, or none between which only rows of values pass (keys and values that
 * later layers read again stay on one GPU). */
struct layers_cuts layers_cut(struct arena *a, const struct graph *g, uint32_t ranks, const uint32_t *layers, const double *speeds);

/* The graph of GPU `rank`: what it has of g, with the values that come from the GPU before (`receive`) and those for the one behind
 * (`send`), in the same order on both.  Only the last one's has an output.  The block that drafts tokens is left out. */
const struct graph *layers_graph(struct arena *a, const struct graph *g, const struct layers_cuts *cuts, uint32_t rank);
#endif
