/* report.h -- prints the result of a GPU build for people: kernels, their resources, bytes, and a prediction. */
#ifndef FORGEC_REPORT_H
#define FORGEC_REPORT_H
#include "compiler/build/code_object.h"
#include "compiler/plan/plan.h"

/* resources: [n_resources] of the code object, found by kernel name; NULL: the kernels are not compiled. uncounted: why issues of the
 * vector ALU were not counted; NULL: they were. */
void report_print(struct arena *a, struct text *out, const struct plan *p, const struct kernel_resources *resources, size_t n_resources,
                  const char *uncounted);
/* "attention of 5 layers ..": which operations of p have only kernels that are not fused although --fuse asks for fused kernels, and what
 * they cost at a full context. NULL: all are fused. */
const char *report_unfused(struct arena *a, const struct plan *p);
#endif
