/* buffers.h -- places in the arena, by name: the section of an emitted source that its kernels' AT_, STRIDE_ and ARENA_ stand in. */
#ifndef FORGEC_SOURCE_BUFFERS_H
#define FORGEC_SOURCE_BUFFERS_H
#include "compiler/plan/plan.h"

/* The section's title, VALUE(name, t) as `row` has it, and AT_X and STRIDE_X of each place
 * that p has for values, with their columns and lifetimes. */
void emit_buffers(struct arena *a, struct text *t, const struct plan *p, const char *row);
/* Another place: ARENA_name; what: the comment. */
void emit_area(struct text *t, const char *name, uint64_t offset, const char *what);
#endif
