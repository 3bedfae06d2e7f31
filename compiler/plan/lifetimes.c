/* lifetimes.c -- see lifetimes.h. */
#include "lifetimes.h"
#include <string.h>

static bool symbol_taken(const struct arena_plan *ap, const char *text)
{
    for (uint32_t i = 0; i < ap->n_symbols; i++) if (strcmp(ap->symbols[i].text, text) == 0) return true;
    for (uint32_t i = 0; i < ap->n_views; i++) if (strcmp(ap->views[i].symbol, text) == 0) return true;
    return false;
}

static const char *new_symbol(const struct arena_plan *ap, uint32_t slot, uint64_t stride)
{
    const char *text = kernel_symbol(ap->arena, "", ap->slots[slot].unique), *s;
    for (uint32_t i = 0; i < ap->n_symbols; i++)
        if (ap->symbols[i].slot == slot) {
            text = arena_printf(ap->arena, "%s_%llu", text, (unsigned long long)stride);
            break;
        }
    s = text;
    for (uint32_t n = 2; symbol_taken(ap, s); n++) s = arena_printf(ap->arena, "%s_%u", text, n);
    return s;
}

static const char *symbol_of(struct arena_plan *ap, uint32_t slot, uint64_t stride)
{
    for (uint32_t i = 0; i < ap->n_symbols; i++)
        if (ap->symbols[i].slot == slot && ap->symbols[i].stride == stride) return ap->symbols[i].text;
    const char *text = new_symbol(ap, slot, stride);
    arena_room(ap->arena, ap->symbols, ap->n_symbols, ap->symbol_capacity);
    ap->symbols[ap->n_symbols++] = (struct arena_symbol){ text, slot, stride };
    return text;
}

void arena_add(struct arena_plan *ap, const char *name, struct buffer *b, uint32_t born, uint32_t dies, uint64_t rows)
{
    struct arena_slot *s = NULL;
    uint32_t n_named = 0;
    for (uint32_t i = 0; i < ap->n && !s; i++) {
        struct arena_slot *have = &ap->slots[i];
        bool alive = false;
        for (uint32_t k = have->n; k-- > 0 && !alive; ) alive = have->lives[k].dies >= born;
        const bool named = strcmp(have->name, name) == 0;
        n_named += named;
        if (named && !alive) s = have;
    }
    if (!s) {
        arena_room(ap->arena, ap->slots, ap->n, ap->capacity);
        s = &ap->slots[ap->n++];
        s->name = name;
        s->unique = n_named ? arena_printf(ap->arena, "%s_%u", name, n_named + 1) : name;
    }
    const uint64_t bytes = plan_align(rows * b->stride, ap->align);
    if (bytes > s->bytes) s->bytes = bytes;
    arena_room(ap->arena, s->lives, s->n, s->capacity);
    s->lives[s->n++] = (struct lifetime){ born, dies, b };
    b->name = s->unique;
    b->symbol = symbol_of(ap, (uint32_t)(s - ap->slots), b->stride);
}

/* The symbol of a view with the same name and place, else a new symbol. */
static const char *view_symbol(const struct arena_plan *ap, const char *name, const struct buffer *of, uint64_t first)
{
    for (uint32_t i = 0; i < ap->n_views; i++) {
        const struct arena_view *v = &ap->views[i];
        if (strcmp(v->name, name) == 0 && strcmp(v->of->symbol, of->symbol) == 0 && v->first == first) return v->symbol;
    }
    const char *text = kernel_symbol(ap->arena, "", name), *s = text;
    for (uint32_t n = 2; symbol_taken(ap, s); n++) s = arena_printf(ap->arena, "%s_%u", text, n);
    return s;
}

void arena_view(struct arena_plan *ap, const char *name, struct buffer *b, const struct buffer *of, uint32_t first, uint32_t cols)
{
    const char *symbol = view_symbol(ap, name, of, 4ull * first);
    *b = (struct buffer){ .name = name, .symbol = symbol, .exists = true, .is_view = true, .stride = of->stride, .cols = cols,
                          .pieces = 1 };
    arena_room(ap->arena, ap->views, ap->n_views, ap->view_capacity);
    ap->views[ap->n_views++] = (struct arena_view){ name, symbol, b, of, 4ull * first };
}

static bool slots_meet(const struct arena_slot *a, const struct arena_slot *b)
{
    for (uint32_t i = 0, k = 0; i < a->n && k < b->n; ) {                  /* both are sorted by birth */
        if (a->lives[i].dies < b->lives[k].born) i++;
        else if (b->lives[k].dies < a->lives[i].born) k++;
        else return true;
    }
    return false;
}

void arena_place(struct arena_plan *ap, struct plan *p)
{
    for (uint32_t i = 0; i < ap->n; i++) {
        struct arena_slot *me = &ap->slots[i];
        for (bool moved = true; moved; ) {
            moved = false;
            for (uint32_t k = 0; k < i; k++) {
                const struct arena_slot *other = &ap->slots[k];
                if (me->offset < other->offset + other->bytes && other->offset < me->offset + me->bytes && slots_meet(me, other)) {
                    me->offset = other->offset + other->bytes;
                    moved = true;
                }
            }
        }
        for (uint32_t k = 0; k < me->n; k++) me->lives[k].buffer->offset = me->offset;
        if (me->offset + me->bytes > ap->bytes) ap->bytes = me->offset + me->bytes;
    }
    for (uint32_t i = 0; i < ap->n_views; i++) ap->views[i].buffer->offset = ap->views[i].of->offset + ap->views[i].first;
    struct arena_plan *kept = arena_new(ap->arena, struct arena_plan);
    *kept = *ap;
    p->places = kept;
    p->arena_bytes = ap->bytes;
}
