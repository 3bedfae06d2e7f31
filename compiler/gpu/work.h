/* work.h -- what is known of a launch's work once its kernel is compiled. */
#ifndef FORGEC_GPU_WORK_H
#define FORGEC_GPU_WORK_H
#include "compiler/build/code_object.h"
#include "compiler/plan/plan.h"

/* Time that the vector ALU of the busiest compute unit takes for decode's products, in microseconds; counted: in the
 * kernel's code.  0: not known, as of all other kernels, of code whose loops are not one for each run of matrices, and where the target
 * gives no rates. */
double gpu_issue_micros(const struct plan *p, const struct kernel *k, const struct kernel_issues *counted);
#endif
