/* slices.h -- the text of kernels of products with slices of a tensor: of experts, of heads; and of what they need beside. */
#ifndef FORGEC_CPU_SLICES_H
#define FORGEC_CPU_SLICES_H
#include "writer.h"

void put_slices(struct writer *w);
void put_gather(struct writer *w);
void put_route(struct writer *w);
void put_order(struct writer *w);
/* A map on the rows of experts alone. */
void put_expert_map(struct writer *w);
#endif
