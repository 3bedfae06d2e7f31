/* emit.h -- writes the plan as one self-contained C source that a person can read and compile alone. Runs no programs. */
#ifndef FORGEC_CPU_EMIT_H
#define FORGEC_CPU_EMIT_H
#include "compiler/source/program.h"

/* The model's source for p->target; the text lies in a. The same inputs give the same bytes. */
struct bytes emit_cpu(struct arena *a, const struct plan *p, const struct emit_options *o);
#endif
