/* work.h -- properties of a launch's work that are known once its kernel is compiled. */
#ifndef FORGEC_GPU_WORK_H
#define FORGEC_GPU_WORK_H
#include "compiler/build/code_object.h"
#include "compiler/plan/plan.h"

/* Microseconds that the vector ALU of the busiest compute unit needs for a product of decode. counted: issues in the kernel's code. Returns
 * 0 (unknown) for all other kernels, for code without exactly one loop for each run of matrices, and for targets without rates. */
double gpu_issue_micros(const struct plan *p, const struct kernel *k, const struct kernel_issues *counted);
#endif
