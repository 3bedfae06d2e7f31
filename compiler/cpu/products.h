/* products.h -- the text of kernels of products and of their stages. */
#ifndef FORGEC_CPU_PRODUCTS_H
#define FORGEC_CPU_PRODUCTS_H
#include "writer.h"

/* The function of a product with w that reads rows of this form: "gemv_q4_K", "gemm_exact_q8_0", "gemm_pairs_bf16". */
const char *product_call(const struct writer *w, const struct weight *m, enum row_form form);
void put_products(struct writer *w);
/* Prefill's kernel that norms and quantises the rows that products read. */
void put_stage(struct writer *w);
#endif
