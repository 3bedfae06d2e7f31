/* buffers.h -- writes the section of an emitted source that defines places in the arena by name: AT_, STRIDE_ and ARENA_. */
#ifndef FORGEC_SOURCE_BUFFERS_H
#define FORGEC_SOURCE_BUFFERS_H
#include "compiler/plan/plan.h"

/* Appends the section's title, the macro VALUE(name, t) with `row` as its body, and AT_X and STRIDE_X (bytes) for each place of values in
 * p, with columns and lifetimes. */
void emit_buffers(struct arena *a, struct text *t, const struct plan *p, const char *row);
/* Appends another place, ARENA_name, at byte `offset`. what: its comment. */
void emit_area(struct text *t, const char *name, uint64_t offset, const char *what);
#endif
