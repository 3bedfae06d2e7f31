/* lifetimes.h -- places for values in one arena. Values of the same name in different layers share a place, so that layers share kernels.
 * Values of different names may overlap if they never live at the same time. */
#ifndef FORGEC_LIFETIMES_H
#define FORGEC_LIFETIMES_H
#include "plan.h"

struct lifetime { uint32_t born, dies; struct buffer *buffer; };
/* A place. name: of the values; unique: of the place, "name", or "name_2" if two values of that name live at the same time. */
struct arena_slot { const char *name, *unique; uint64_t bytes, offset; struct lifetime *lives; uint32_t n, capacity; };
/* A place with one of the strides (bytes) of its values: "GLU"; if layers differ in stride, "GLU_3072" for the other strides. */
struct arena_symbol { const char *text; uint32_t slot; uint64_t stride; };
/* A value that lies in the rows of another value: its buffer begins `first` bytes after that of `of`. */
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

/* Adds value `name` (without its layer). It lives from group born to group dies and takes rows * b->stride bytes. Sets b->name and
 * b->symbol; arena_place sets b->offset. Values must be added in order of birth. */
void arena_add(struct arena_plan *ap, const char *name, struct buffer *b, uint32_t born, uint32_t dies, uint64_t rows);
/* Adds value `name` as `cols` columns of the rows of `of`, from column `first` on. Fills b; arena_place sets b->offset. */
void arena_view(struct arena_plan *ap, const char *name, struct buffer *b, const struct buffer *of, uint32_t first, uint32_t cols);
/* Places all values by first fit, in order of birth. Sets ap->bytes and p->arena_bytes to the size of all of them, and p->places to a copy
 * of ap. */
void arena_place(struct arena_plan *ap, struct plan *p);
#endif
