/* buffers.c -- see buffers.h. */
#include "buffers.h"
#include "compiler/plan/lifetimes.h"
#include <string.h>

typedef unsigned long long ull;

/* The first and the last group of a value's life: "attn_qkv .. ffn_down". */
static const char *life_text(struct arena *a, const struct plan *p, const struct lifetime *l)
{
    const char *born = p->fused->groups[l->born].name, *dies = p->fused->groups[l->dies].name;
    return l->born == l->dies ? born : arena_printf(a, "%s .. %s", born, dies);
}

/* The lives of a slot's values with this stride, without duplicates: they are the same in most layers. */
static const char *lives_text(struct arena *a, const struct plan *p, const struct arena_slot *s, uint64_t stride)
{
    const char *seen[8];
    uint32_t n = 0;
    struct text t = { .arena = a };
    for (uint32_t i = 0; i < s->n && n < COUNT_OF(seen); i++) {
        if (s->lives[i].buffer->stride != stride) continue;
        const char *life = life_text(a, p, &s->lives[i]);
        uint32_t k = 0;
        while (k < n && strcmp(seen[k], life)) k++;
        if (k < n) continue;
        seen[n++] = life;
        text_printf(&t, "%s%s", t.size ? ", " : "", life);
    }
    return text_str(&t);
}

static uint32_t columns_of(const struct arena_slot *s, uint64_t stride)
{
    uint32_t i = 0;
    while (s->lives[i].buffer->stride != stride) i++;
    return s->lives[i].buffer->cols;
}

/* Defines the places of views, which are columns of other values. */
static void emit_views(struct arena *a, struct text *t, const struct arena_plan *places)
{
    for (uint32_t i = 0; i < places->n_views; i++) {
        const struct arena_view *v = &places->views[i];
        bool said = false;
        for (uint32_t k = 0; k < i; k++) said |= strcmp(places->views[k].symbol, v->symbol) == 0;
        if (said) continue;
        const char *at = arena_printf(a, "(AT_%s + %llu)", v->of->symbol, (ull)v->first);
        const char *stride = arena_printf(a, "STRIDE_%s", v->of->symbol);
        text_printf(t, "#define AT_%-24s %s\n#define STRIDE_%-20s %-12s", v->symbol, at, v->symbol, stride);
        text_printf(t, " /* %s [%u]: columns of %s */\n", v->name, v->buffer->cols, v->of->name);
    }
}

void emit_buffers(struct arena *a, struct text *t, const struct plan *p, const char *row)
{
    const struct arena_plan *places = p->places;
    text_printf(t, "/* ==== buffers: the arena, %llu bytes ==== */\n", (ull)p->arena_bytes);
    text_puts(t, "/* A value has a row for each token of a step, in the same place in all layers; places overlap where they are not\n");
    text_puts(t, " * wanted at once.  Behind each: its name, the columns of a row, and from which launch to which it lives. */\n");
    text_printf(t, "#define VALUE(name, t) %s\n", row);
    for (uint32_t i = 0; i < places->n_symbols; i++) {
        const struct arena_symbol *symbol = &places->symbols[i];
        const struct arena_slot *s = &places->slots[symbol->slot];
        text_printf(t, "#define AT_%-24s %lluu\n#define STRIDE_%-20s %-12s", symbol->text, (ull)s->offset, symbol->text,
                    arena_printf(a, "%lluu", (ull)symbol->stride));
        text_printf(t, " /* %s [%u]: %s */\n", s->unique, columns_of(s, symbol->stride), lives_text(a, p, s, symbol->stride));
    }
    emit_views(a, t, places);
}

void emit_area(struct text *t, const char *name, uint64_t offset, const char *what)
{
    text_printf(t, "#define ARENA_%-21s %-12s /* %s */\n", name, arena_printf(t->arena, "%lluu", (ull)offset), what);
}
