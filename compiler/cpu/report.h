/* report.h -- a CPU's plan for people. */
#ifndef FORGEC_CPU_REPORT_H
#define FORGEC_CPU_REPORT_H
#include "compiler/plan/plan.h"

/* Kernels with their launches per token and per chunk, shapes, bytes and predicted time; then what each does. */
void report_cpu(struct text *out, const struct plan *p);
#endif
