/* report.h -- what a GPU build came to, for people: kernels, what they use, bytes, and a prediction. */
#ifndef FORGEC_REPORT_H
#define FORGEC_REPORT_H
#include "compiler/build/code_object.h"
#include "kernels.h"

/* resources: [n_resources] of the code object, by name; or NULL: not compiled. */
void report_print(struct text *out, const struct plan *p, const struct gpu_kernels *k, const struct kernel_resources *resources, size_t n_resources);
#endif
