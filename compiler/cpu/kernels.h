/* kernels.h -- writes the functions of an emitted source, in the order of the plan's list. */
#ifndef FORGEC_CPU_KERNELS_H
#define FORGEC_CPU_KERNELS_H
#include "compiler/plan/plan.h"

/* Appends the functions of p->kernels, each with a comment that says what it does and reads. */
void emit_cpu_kernels(struct arena *a, struct text *out, const struct plan *p);
/* The text between the braces of the kernel of launch l. All launches of one kernel give the same text. */
const char *emit_cpu_body(struct arena *a, const struct plan *p, const struct launch *l);
#endif
