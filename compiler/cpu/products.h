/* products.h -- the text of kernels of products and of their stages. */
#ifndef FORGEC_CPU_PRODUCTS_H
#define FORGEC_CPU_PRODUCTS_H
#include "writer.h"

void put_products(struct writer *w);
/* Prefill's kernel that norms and quantises the rows that products read. */
void put_stage(struct writer *w);
#endif
