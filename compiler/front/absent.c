/* absent.c -- see absent.h. */
#include "absent.h"
#include <ctype.h>
#include <string.h>

/* ---- keys that a file lacks ---- */

static const struct { const char *name, *of; } made_of[] = {
    { "n_q", "n_head head_dim" }, { "n_kv", "n_head_kv head_dim" }, { "n_v", "n_head_kv value_dim" }, { "n_kqv", "n_head value_dim" },
    { "n_rot_half", "n_rot" }, { "n_embd_per_head", "n_embd n_head" },
};

const char *model_made_of(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(made_of); i++) if (strcmp(made_of[i].name, name) == 0) return made_of[i].of;
    return NULL;
}

/* True if key is in a list "A, B". */
static bool has_word(const char *list, const char *key)
{
    const size_t n = strlen(key);
    for (const char *p = list; (p = strstr(p, key)); p += n)
        if ((p == list || p[-1] == ' ') && (!p[n] || p[n] == ',')) return true;
    return false;
}

/* Adds keys that the file lacks and that defaults replace, for the names in the text and, recursively, for the parameters they depend
 * on. */
static void add_absent(const struct described *d, struct text *out, const char *text, uint32_t depth)
{
    static const char *const parts[] = { "default", "where", "otherwise" };
    char name[64];
    if (depth == 12) return;
    for (const char *p = text; *p; ) {
        size_t n = 0;
        while (isalnum((unsigned char)p[n]) || p[n] == '_') n++;
        if (!n || n >= sizeof name || isdigit((unsigned char)*p)) { p += n ? n : 1; continue; }
        memcpy(name, p, n);
        name[n] = '\0';
        p += n;
        if (model_made_of(name)) add_absent(d, out, model_made_of(name), depth + 1);
        const struct yaml *entry = described_entry(d, "parameters", name);
        const struct yaml *key = entry && entry->kind == YAML_MAP ? yaml_get(entry, "key") : NULL;
        const char *filled = key ? described_name(d, yaml_string(key), 0) : NULL;
        if (filled && !gguf_find(d->gguf, filled) && !has_word(text_str(out), filled))
            text_printf(out, "%s%s", out->size ? ", " : "", filled);
        for (size_t i = 0; entry && entry->kind == YAML_MAP && i < COUNT_OF(parts); i++) {
            const struct yaml *part = yaml_get(entry, parts[i]);
            const bool unused = i == 0 && filled && gguf_find(d->gguf, filled);
            if (part && part->kind == YAML_SCALAR && !unused) add_absent(d, out, yaml_string(part), depth + 1);
        }
        if (entry && entry->kind == YAML_SCALAR) add_absent(d, out, yaml_string(entry), depth + 1);
    }
}

void absent_keys(const struct described *d, struct model *m)
{
    for (uint32_t i = 0; i < m->n_params; i++) {
        struct text t = { .arena = d->arena };
        add_absent(d, &t, m->params[i].name, 0);
        m->params[i].absent = t.size ? text_str(&t) : NULL;
    }
}

const char *absent_default(const struct described *d, const struct model *m, const struct role *r, bool whole)
{
    struct text t = { .arena = d->arena };
    for (uint32_t i = 0; i < r->n_dims; i++) add_absent(d, &t, r->dims[i], 0);
    for (const char **name = r->fused; !whole && name && *name; name++) {
        const struct yaml *parts = described_entry(d, "fused", *name);
        for (uint32_t n = 0; n < parts->count; n++) {
            const struct role *part = role_find(m, yaml_string(parts->items[n]));
            for (uint32_t i = 0; i < part->n_dims; i++) add_absent(d, &t, part->dims[i], 0);
        }
    }
    return t.size ? arena_printf(d->arena, " (with the default of %s)", text_str(&t)) : "";
}

/* ---- tensors that a file lacks ---- */

static uint32_t slot(const struct role *r, uint32_t layer) { return r->in_layer ? layer : 0; }

/* The pattern of the tensor that contains the role's rows, from the first layer that has them; NULL: no layer has them. */
static const char *pattern_elsewhere(struct arena *a, const struct model *m, const struct role *r)
{
    for (uint32_t l = 0; l < (r->in_layer ? m->n_described : 1); l++) {
        if (!r->weights[l]) continue;
        for (const char **name = r->fused; name && *name; name++)
            if (strcmp(r->weights[l]->name, described_fill(a, m->architecture, *name, l)) == 0) return *name;
        return r->part_of && r->weights[l]->tensor->made_of ? yaml_string(yaml_need(r->part_of, "name")) : r->pattern;
    }
    return NULL;
}

/* The name of the missing tensor: as in other layers, or together with the tensors that could replace it. */
static const char *missing_name(struct arena *a, const struct model *m, const struct role *r, uint32_t layer)
{
    struct text t = { .arena = a };
    for (const struct role *k = r; k; k = k->alternative ? role_find(m, k->alternative) : NULL) {
        const char *pattern = k->in_layer ? pattern_elsewhere(a, m, k) : NULL;
        if (pattern) return described_fill(a, m->architecture, pattern, layer);
    }
    text_puts(&t, described_fill(a, m->architecture, r->pattern, layer));
    for (const char **name = r->fused; name && *name; name++) text_printf(&t, " (or %s)", described_fill(a, m->architecture, *name, layer));
    if (r->part_of) text_printf(&t, " (or %s)", described_fill(a, m->architecture, yaml_string(yaml_need(r->part_of, "name")), layer));
    for (const struct role *k = r; k->alternative; ) {
        k = role_find(m, k->alternative);
        text_printf(&t, " (or %s)", described_fill(a, m->architecture, k->pattern, layer));
    }
    return text_str(&t);
}

_Noreturn static void missing(struct arena *a, const struct model *m, const struct role *r, uint32_t layer, const char *why)
{
    die("%s: tensor %s is missing, %s; the file was cut or edited: get it again, or convert the model again", m->gguf->path,
        missing_name(a, m, r, layer), why);
}

static const char *needed(struct arena *a, const struct model *m, const struct role *r, const char *in)
{
    return arena_printf(a, "which architecture %s needs%s", m->architecture, r->in_layer ? in : "");
}

static const char *beside(struct arena *a, const struct model *m, const struct weight *other)
{
    return arena_printf(a, "which architecture %s needs beside %s", m->architecture, other->name);
}

/* Checks that a role and the role it depends on are both present or both absent. */
static void check_pair(struct arena *a, const struct model *m, const struct role *r, uint32_t layer)
{
    const struct role *other = role_find(m, r->where);
    const struct weight *w = r->weights[slot(r, layer)], *partner = other->weights[slot(other, layer)];
    if (partner && !w) missing(a, m, r, layer, beside(a, m, partner));
    if (w && !partner && r->absence == ABSENT_NEVER) missing(a, m, other, layer, beside(a, m, w));
}

void absent_check_pairs(const struct described *d, const struct model *m)
{
    for (uint32_t i = 0; i < m->n_roles; i++)
        if (!m->roles[i].in_layer && m->roles[i].where && !model_param(m, m->roles[i].where))
            check_pair(d->arena, m, &m->roles[i], NO_LAYER);
}

const char *model_untold_draft(struct arena *a, const struct model *m)
{
    const char *begins = arena_printf(a, "blk.%u.nextn.", m->n_layer - 1), *absent = model_param(m, "n_layer")->absent;
    for (uint64_t i = 0; absent && i < m->gguf->n_tensors; i++)
        if (strncmp(m->gguf->tensors[i].name, begins, strlen(begins)) == 0) return absent;
    return NULL;
}

/* first: the role that the wiring names; the function may try other roles instead. */
static const struct weight *ask(struct arena *a, const struct model *m, const struct ask *q, const struct role *first)
{
    const struct role *r = role_find(m, q->role);
    if (!r) die_at(q->at, "there is no tensor role %s", q->role);
    if (r->in_layer && q->layer == NO_LAYER) die_at(q->at, "%s is a tensor of a layer", q->role);
    const struct param *p = r->where ? model_param(m, r->where) : NULL;
    const struct weight *w = r->weights[slot(r, q->layer)];
    const bool holds = p && param_value(m, p, q->at, r->in_layer ? q->layer : NO_LAYER) != 0;
    if (!first) first = r;
    r->asked[slot(r, q->layer)] |= q->may_be_absent;
    if (r->where && !p) check_pair(a, m, r, q->layer);
    if (w && p && !holds && r->absence == ABSENT_NEVER) return NULL;           /* nothing reads it: model_check_read */
    if (w) return w;
    if (r->alternative) {
        struct ask other = *q;
        other.role = r->alternative;
        return ask(a, m, &other, first);
    }
    if (holds || !q->may_be_absent || (r->absence == ABSENT_NEVER && !r->where))
        missing(a, m, first, q->layer,
                needed(a, m, r, holds && strcmp(q->in, EVERYWHERE) == 0 ? " in this layer" : q->in));
    return NULL;
}

const struct weight *model_ask(struct arena *a, const struct model *m, const struct ask *q) { return ask(a, m, q, NULL); }

void model_check_layers(struct arena *a, const struct model *m)
{
    for (uint32_t i = 0; i < m->n_roles; i++) {
        const struct role *r = &m->roles[i];
        uint32_t has = NO_LAYER, lacks = NO_LAYER;
        for (uint32_t l = 0; r->in_layer && r->where && !model_param(m, r->where) && l < m->n_described; l++)
            if (r->weights[l] && m->unread[gguf_tensor_index(m->gguf, r->weights[l]->tensor)] == UNREAD_NEVER) check_pair(a, m, r, l);
        for (uint32_t l = 0; r->in_layer && r->absence == ABSENT_EVERYWHERE && l < m->n_described; l++) {
            if (r->asked[l] && r->weights[l] && has == NO_LAYER) has = l;
            if (r->asked[l] && !r->weights[l] && lacks == NO_LAYER) lacks = l;
        }
        if (has == NO_LAYER || lacks == NO_LAYER) continue;
        missing(a, m, r, lacks, arena_printf(a, "though the file has %s: architecture %s has it in every such layer or in none",
                                             r->weights[has]->name, m->architecture));
    }
}
