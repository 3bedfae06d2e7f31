/* slices.h -- writes the text of kernels for products with slices of a tensor (experts, heads), and of the kernels that these need. */
#ifndef FORGEC_CPU_SLICES_H
#define FORGEC_CPU_SLICES_H
#include "writer.h"

void put_slices(struct cpu_writer *w);
void put_gather(struct cpu_writer *w);
void put_route(struct cpu_writer *w);
void put_order(struct cpu_writer *w);
/* A map on the rows of experts. */
void put_expert_map(struct cpu_writer *w);
#endif
