/* products.h -- writes the text of product kernels and of their stages. */
#ifndef FORGEC_CPU_PRODUCTS_H
#define FORGEC_CPU_PRODUCTS_H
#include "writer.h"

/* The name of the function for a product with m that reads rows of this form: "gemv_q4_K", "gemm_exact_q8_0", "gemm_pairs_bf16". */
const char *product_call(const struct cpu_writer *w, const struct weight *m, enum row_form form);
void put_products(struct cpu_writer *w);
/* The prefill kernel that norms and packs the rows that products read. */
void put_stage(struct cpu_writer *w);
#endif
