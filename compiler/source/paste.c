/* paste.c -- see paste.h. */
#include "paste.h"
#include "scan.h"
#include "compiler/base/resource.h"
#include <string.h>

enum { DEPTH_MOST = 32 };

/* The path of an included header: of #include "abi_gpu.h" in runtime/model/abi.h, runtime/model/abi_gpu.h. */
static const char *included(const struct paster *p, const struct record *r)
{
    const char *name = r->operand + 1, *quote = memchr(name, '"', r->operand_size - 1);
    const int folder = (int)(strrchr(r->file, '/') + 1 - r->file), n = (int)(quote ? quote - name : r->operand_size - 1);
    return arena_printf(p->arena, "%.*s%.*s", folder, r->file, n, name);
}

/* Counts conditions, except guards of headers. The compiler may skip a header that is included within a condition, so such a header does
 * not count as pasted. */
static void enter(struct paster *p, const struct record *r)
{
    if (p->depth == DEPTH_MOST) die("%s: conditions are nested deeper than %d", r->file, DEPTH_MOST);
    p->counts[p->depth++] = !r->is_guard;
    p->n_conditions += !r->is_guard;
}

static void leave(struct paster *p, const struct record *r)
{
    if (p->depth == 0) die("%s: #endif without #if", r->file);
    p->n_conditions -= p->counts[--p->depth];
}

void emit_paste(struct paster *p, const char *path)
{
    for (uint32_t i = 0; i < p->n_pasted; i++) if (strcmp(p->pasted[i], path) == 0) return;
    if (p->n_conditions == 0) {
        arena_room(p->arena, p->pasted, p->n_pasted, p->capacity);
        p->pasted[p->n_pasted++] = path;
    }
    const struct bytes text = resource_get(p->arena, p->templates, path);
    const struct records all = scan(p->arena, path, (const char *)text.data, text.size);
    text_printf(p->out, "/* ---- begin %s ---- */\n", path);
    for (uint32_t i = 0; i < all.n; i++) {
        const struct record *r = &all.list[i];
        if (r->kind == RECORD_IF) enter(p, r);
        if (r->kind == RECORD_ENDIF) leave(p, r);
        if (r->kind == RECORD_INCLUDE) emit_paste(p, included(p, r));
        else text_printf(p->out, "%.*s\n", (int)r->size, r->text);
    }
    text_printf(p->out, "/* ---- end %s ---- */\n\n", path);
}
