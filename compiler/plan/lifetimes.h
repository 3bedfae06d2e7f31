/* lifetimes.h -- places for values in one arena: values of one name in different layers share a place, so that layers share kernels;
 * values of different names overlap when they never live at the same time. */
#ifndef FORGEC_LIFETIMES_H
#define FORGEC_LIFETIMES_H
#include "plan.h"

struct lifetime { uint32_t born, dies; struct buffer *buffer; };
/* name: of the values; unique: of the place, "name" or "name_2" where two of a name live at the same time. */
struct arena_slot { const char *name, *unique; uint64_t bytes, offset; struct lifetime *lives; uint32_t n, capacity; };
/* A place with one of the strides of its values: "GLU"; where layers differ, "GLU_3072" for the others. */
struct arena_symbol { const char *text; uint32_t slot; uint64_t stride; };
/* A value in the rows of another one: its buffer begins `first` bytes behind the other's. */
struct arena_view { const char *name, *symbol; struct buffer *buffer; const struct buffer *of; uint64_t first; };
struct arena_plan {
    struct arena        *arena;
    struct arena_view   *views;
    uint32_t             n_views, view_capacity;
    struct arena_slot   *slots;
    struct arena_symbol *symbols;
    uint32_t             n, capacity, n_symbols, symbol_capacity;
    uint64_t             align, bytes;
};

/* Value `name` (without its layer) lives from group born to group dies and takes rows * b->stride bytes.  b->name and b->symbol are set,
 * b->offset by arena_place.
 * Calls come in order of birth. */
void arena_add(struct arena_plan *ap, const char *name, struct buffer *b, uint32_t born, uint32_t dies, uint64_t rows);
/* Value `name` is columns of the rows of `of`, from column `first` on; b is filled but for its offset. */
void arena_view(struct arena_plan *ap, const char *name, struct buffer *b, const struct buffer *of, uint32_t first, uint32_t cols);
/* First fit in order of birth; then ap->bytes is what all of them take, and it becomes the plan's places. */
void arena_place(struct arena_plan *ap, struct plan *p);
#endif
