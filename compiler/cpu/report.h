/* report.h -- prints a CPU's plan for people (--emit plan). */
#ifndef FORGEC_CPU_REPORT_H
#define FORGEC_CPU_REPORT_H
#include "compiler/plan/plan.h"

/* Appends the kernels of decode and prefill with launches per token and per chunk, shapes, bytes and predicted times, then the prediction
 * for a token. */
void report_cpu(struct text *out, const struct plan *p);
#endif
