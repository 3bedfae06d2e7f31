/* unread.c -- see unread.h. */
#include "unread.h"
#include "role.h"
#include <stdio.h>
#include <string.h>

/* Checks the form of the sections, so that a mistake is found even if no file has the tensor. */
void check_left_out(const struct described *d)
{
    for (uint32_t i = 0; i < d->n_files; i++) {
        const struct yaml *all = yaml_get(d->files[i], "left_out");
        if (all && all->kind != YAML_MAP) die_at(all->at, "left_out is a map of tensors' names and reasons");
        for (uint32_t k = 0; all && k < all->count; k++)
            if (!*yaml_string(all->items[k])) die_at(all->items[k]->at, "the reason why %s is left out is needed here", all->keys[k]);
    }
}

static bool is_of_tower(const struct described *d, const char *name)
{
    for (uint32_t i = 0; i < d->n_files; i++) {
        const struct yaml *all = yaml_get(yaml_get(d->files[i], "towers"), "tensors");
        for (uint32_t k = 0; all && k < all->count; k++) if (described_matches(yaml_string(all->items[k]), name)) return true;
    }
    return false;
}

static bool is_left_out(const struct described *d, const char *name)
{
    for (uint32_t i = 0; i < d->n_files; i++) {
        const struct yaml *all = yaml_get(d->files[i], "left_out");
        for (uint32_t k = 0; all && k < all->count; k++) if (described_matches(all->keys[k], name)) return true;
    }
    return false;
}

/* True for tensors of the output matrix, which makes logits: a model that makes embeddings does not need them. */
static bool is_head(const struct model *m, const char *name)
{
    static const char *const roles[] = { "output", "output_bias" };
    for (uint32_t i = 0; m->pooling && i < COUNT_OF(roles); i++) {
        const struct role *r = role_find(m, roles[i]);
        if (r && strcmp(r->pattern, name) == 0) return true;
    }
    return false;
}

/* True for tensors of a block after the layers that is not computed: such a block only drafts tokens, which the model would have to
 * check. */
static bool is_draft(const struct model *m, const char *name)
{
    unsigned block;
    int length = 0;
    const struct param *p = model_param(m, "n_nextn");
    return p && p->values[0] > 0 && sscanf(name, "blk.%u.%n", &block, &length) == 1 && length > 0 && block >= m->n_described;
}

/* Handles one --ignore-tensor. */
static void ignore_tensors(const struct described *d, struct model *m, const char *pattern)
{
    const char *shown = printable(d->arena, pattern, strlen(pattern));
    uint64_t n = 0, last = 0;
    for (uint64_t i = 0; i < d->gguf->n_tensors; i++) {
        if (!described_matches(pattern, d->gguf->tensors[i].name)) continue;
        m->unread[last = i] = UNREAD_IGNORED;
        n++;
    }
    if (!n) die("--ignore-tensor %s: %s has no such tensor", shown, d->gguf->path);
    const struct gguf_tensor *t = &d->gguf->tensors[last];
    const char *value = n == 1 ? arena_printf(d->arena, "%s %s", t->quant->name, gguf_shape(d->arena, t))
                               : arena_printf(d->arena, "%llu tensors", (unsigned long long)n);
    m->ignored[m->n_ignored++] = (struct ignored){ "--ignore-tensor", shown, value };
    warn("%s: %s, %s, may be left out, as --ignore-tensor says: the program's results can be wrong", d->gguf->path, shown, value);
}

/* True if the wiring describes how a block drafts. */
static bool has_draft_section(const struct model *m)
{
    const char *line = strstr(m->graph_text, "\ndraft:");
    return line || strncmp(m->graph_text, "draft:", 6) == 0;
}

void unread_find(const struct described *d, struct model *m, const struct model_options *o)
{
    uint64_t drafts = 0, towers = 0;
    check_left_out(d);
    m->unread = arena_array(d->arena, enum unread, d->gguf->n_tensors);
    for (uint64_t i = 0; i < d->gguf->n_tensors; i++) {
        const char *name = d->gguf->tensors[i].name;
        m->unread[i] = is_draft(m, name) ? UNREAD_DRAFT : is_left_out(d, name) || is_head(m, name) ? UNREAD_HARMLESS : UNREAD_NEVER;
        if (m->unread[i] == UNREAD_NEVER && is_of_tower(d, name)) m->unread[i] = UNREAD_TOWER;
        drafts += m->unread[i] == UNREAD_DRAFT;
        towers += m->unread[i] == UNREAD_TOWER;
    }
    if (towers || m->n_tower_keys)
        warn("%s: its part for images or sound, %llu tensors and %u keys, is left out: the program reads text only", d->gguf->path,
             (unsigned long long)towers, m->n_tower_keys);
    if (drafts && o->drafts)
        warn("%s: %llu tensors of further draft (nextn) blocks are left out; the first one drafts all tokens", d->gguf->path,
             (unsigned long long)drafts);
    else if (drafts)
        warn("%s: %llu tensors of the draft (nextn) blocks are left out%s", d->gguf->path, (unsigned long long)drafts,
             has_draft_section(m) ? "; on GPUs --spec mtp drafts with them" : "");
    for (uint32_t i = 0; i < o->n_ignored_tensors; i++) ignore_tensors(d, m, o->ignored_tensors[i]);
}

void model_check_read(struct arena *a, const struct model *m, const bool *read)
{
    enum { SHOWN = 3 };
    const struct gguf *g = m->gguf;
    struct text names = { .arena = a };
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->n_ignored; i++) {
        const struct gguf_tensor *t = gguf_tensor_find(g, m->ignored[i].name);
        if (t && read[t - g->tensors] && strcmp(m->ignored[i].option, "--ignore-tensor") == 0)
            die("--ignore-tensor %s: architecture %s reads this tensor; it cannot be ignored", t->name, m->architecture);
    }
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        if (read[i] || m->unread[i] != UNREAD_NEVER) continue;
        if (n++ < SHOWN) text_printf(&names, "%s%s", names.size ? ", " : "", g->tensors[i].name);
    }
    if (!n) return;
    if (n > SHOWN) text_printf(&names, " and %llu more", (unsigned long long)(n - SHOWN));
    const char *untold = model_untold_draft(a, m);
    if (untold) text_printf(&names, " (with the default of %s)", untold);
    die("%s: models/%s.yaml does not compute with tensor%s %s: the program would be another model; convert the model again with a current "
        "converter, or give --ignore-tensor NAME (* for any letters) to build all the same", g->path, m->architecture, n > 1 ? "s" : "",
        text_str(&names));
}
