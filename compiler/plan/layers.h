/* layers.h -- pipeline parallelism: each GPU is a stage and has some of the layers (Huang et al. 2019, arXiv:1811.06965). The graph alone
 * decides; targets play no part. */
#ifndef FORGEC_LAYERS_H
#define FORGEC_LAYERS_H
#include "compiler/front/graph.h"

enum { LAYERS_RANKS = 8 };
/* Where the graph is cut into stages: stage r has the nodes first[r] .. first[r + 1] - 1 and layers[r] layers. */
struct layers_cuts { uint32_t ranks, first[LAYERS_RANKS + 1], layers[LAYERS_RANKS]; };

/* Cuts g into `ranks` stages. layers: [ranks] layers of each stage; NULL: the weight bytes that a token reads are divided in proportion to
 * speeds [ranks]. Dies if there are too few places for a cut. Only rows of values may pass a cut: layers that read keys and values of
 * earlier layers stay on the same GPU as these. */
struct layers_cuts layers_cut(struct arena *a, const struct graph *g, uint32_t ranks, const uint32_t *layers, const double *speeds);

/* The graph of stage `rank`: its nodes of g, `receive` nodes for values of the previous stage and `send` nodes for values that the next
 * stage needs, in the same order on both sides. Only the last stage has an output. The block that drafts tokens is left out. */
const struct graph *layers_graph(struct arena *a, const struct graph *g, const struct layers_cuts *cuts, uint32_t rank);
#endif
