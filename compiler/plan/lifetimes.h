/* lifetimes.h -- places for values in one arena: values of one name in different layers share a place, so that layers share kernels;
 * values of different names overlap when they never live at the same time. */
#ifndef FORGEC_PLAN_ARENA_H
#define FORGEC_PLAN_ARENA_H
#include "plan.h"

struct arena_slot;
struct arena_plan { struct arena *arena; struct arena_slot *slots; uint32_t n, capacity; uint64_t align, bytes; };

/* Value `name` (without its layer) lives from group born to group dies and takes rows * b->stride bytes.  b->offset is set by arena_place.
 * Calls come in order of birth. */
void arena_add(struct arena_plan *ap, const char *name, struct buffer *b, uint32_t born, uint32_t dies, uint64_t rows);
/* First fit in order of birth; then ap->bytes is what all of them take. */
void arena_place(struct arena_plan *ap);
#endif
