/* bind.c -- binds tensor roles to rows of the file's tensors, with all shapes checked. See role.h. */
#include "role.h"
#include "absent.h"
#include "transposed.h"
#include <string.h>

/* ---- fused tensors ---- */

enum { MOST_FUSED = 4 };

static bool has_part(const struct yaml *parts, const char *role)
{
    for (uint32_t n = 0; n < parts->count; n++) if (strcmp(yaml_string(parts->items[n]), role) == 0) return true;
    return false;
}

/* Rows of all parts together; *row0: the first row of the role's part. */
static uint64_t fused_rows(const struct model *m, const struct yaml *parts, const struct role *r, uint32_t layer, uint64_t *row0)
{
    uint64_t row = 0;
    for (uint32_t n = 0; n < parts->count; n++) {
        const struct role *part = role_find(m, yaml_string(parts->items[n]));
        if (part == r) *row0 = row;
        row += role_dimension(m, part->at, part->dims[part->n_dims == 3], layer);
    }
    return row;
}

/* Finds the names of fused tensors that may contain this role's rows. */
static void find_fused_names(const struct described *d, struct role *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->n_files; i++) {
        const struct yaml *fused = yaml_get(d->files[i], "fused");
        if (fused && !r->fused) r->fused = arena_array(d->arena, const char *, MOST_FUSED + 1);
        for (uint32_t k = 0; fused && k < fused->count && n < MOST_FUSED; k++)
            if (has_part(fused->items[k], r->name) && described_entry(d, "fused", fused->keys[k]) == fused->items[k])
                r->fused[n++] = fused->keys[k];
    }
}

/* The fused tensor that contains this role's rows; *row0: the first of them. */
static const struct gguf_tensor *find_fused(struct described *d, const struct model *m, const struct role *r, uint32_t layer,
                                            uint64_t *row0, uint64_t *total)
{
    for (const char **name = r->fused; name && *name; name++) {
        const struct gguf_tensor *t = gguf_tensor_find(d->gguf, described_name(d, *name, layer));
        if (!t) continue;
        *total = fused_rows(m, described_entry(d, "fused", *name), r, layer, row0);
        return t;
    }
    return NULL;
}

/* ---- rows and shapes ---- */

/* Sets which tensor rows belong to a role. `total`: rows of a slice of the tensor. */
static void place_rows(struct arena *a, const struct model *m, const struct role *r, uint32_t layer, uint64_t slice_rows, uint64_t *total,
                       struct weight *w)
{
    w->run = w->slices ? slice_rows : w->rows;
    w->stride = w->slices ? *total : w->rows;
    if (!r->rows) return;
    const char *word[] = { "count", "first", "every" };
    uint64_t number[COUNT_OF(word)];
    for (uint32_t i = 0; i < COUNT_OF(word); i++) {
        const struct yaml *y = yaml_need(r->rows, word[i]);
        number[i] = role_dimension(m, y->at, yaml_string(y), layer);
    }
    if (!w->rows) die_of_keys(a, m, r->rows->at, r->dims[0], "tensor %s would have no rows", w->name);
    const bool small = w->rows <= UINT32_MAX && number[2] <= UINT32_MAX;
    if (!number[0] || number[1] + number[0] > number[2] || w->rows % number[0] || !small)
        die_at(r->rows->at, "%s: its %llu rows cannot be %llu of every %llu, from %llu", r->name, (unsigned long long)w->rows,
               (unsigned long long)number[0], (unsigned long long)number[2], (unsigned long long)number[1]);
    w->run = number[0];
    w->row0 = number[1];
    w->stride = number[2];
    *total = w->rows / number[0] * number[2];
}

/* A vector that is one row of a matrix; the matrix may have any number of rows. */
static void place_row(const struct described *d, const struct model *m, const struct role *r, uint32_t layer, struct weight *w)
{
    const struct gguf_tensor *t = w->tensor;
    const uint64_t row = role_dimension(m, r->row->at, yaml_string(r->row), layer);
    if (t->ne[0] != w->cols || row >= t->ne[1] || t->ne[2] * t->ne[3] != 1)
        die("%s: tensor %s is %s; its row %llu of %llu columns is needed", d->gguf->path, t->name, gguf_shape(d->arena, t),
            (unsigned long long)row, (unsigned long long)w->cols);
    w->row0 = row * w->cols;
}

static bool has_shape(const struct gguf_tensor *t, const struct weight *w, uint64_t total)
{
    if (w->is_vector) return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3] == total;
    return t->ne[0] == w->cols && t->ne[1] == total && t->ne[2] == (w->slices ? w->slices : 1) && t->ne[3] == 1;
}

/* ---- a stack of matrices that are rows of another tensor ---- */

/* Sets the weight of role r in the layer to rows of another tensor; false if the file lacks that tensor too. */
static bool find_part(const struct described *d, const struct model *m, const struct role *r, uint32_t layer, struct weight *w)
{
    const char *name = r->part_of ? described_name(d, yaml_string(yaml_need(r->part_of, "name")), layer) : NULL;
    const struct gguf_tensor *of = name ? gguf_tensor_find(d->gguf, name) : NULL;
    if (!of) return false;
    static const char *const word[] = { "count", "first", "every" };
    uint64_t shape[3], number[COUNT_OF(word)];
    for (uint32_t i = 0; i < COUNT_OF(shape); i++) shape[i] = role_dimension(m, r->at, r->dims[i], layer);
    for (uint32_t i = 0; i < COUNT_OF(word); i++) {
        const struct yaml *y = yaml_need(r->part_of, word[i]);
        number[i] = role_dimension(m, y->at, yaml_string(y), layer);
    }
    const struct yaml *turned = yaml_get(r->part_of, "transposed");
    const bool transposed = turned && yaml_bool(turned);
    const uint64_t slices = shape[0], rows = shape[1 + transposed], cols = shape[2 - transposed];
    if (!rows) die_of_keys(d->arena, m, r->part_of->at, r->dims[1 + transposed], "tensor %s would have no rows", of->name);
    if (slices > UINT32_MAX || number[0] != rows || number[1] + number[0] > number[2])
        die_at(r->part_of->at, "%s: its %llu rows cannot be %llu of every %llu, from %llu", r->name, (unsigned long long)rows,
               (unsigned long long)number[0], (unsigned long long)number[2], (unsigned long long)number[1]);
    if (of->ne[0] != cols || of->ne[1] != slices * number[2] || of->ne[2] * of->ne[3] != 1)
        die("%s: tensor %s is %s; the hyperparameters ask for %llu x %llu", d->gguf->path, of->name, gguf_shape(d->arena, of),
            (unsigned long long)(slices * number[2]), (unsigned long long)cols);
    *w = (struct weight){ .role = r->name, .name = of->name, .tensor = of, .layer = layer, .row0 = number[1], .rows = slices * rows,
                          .cols = cols, .run = rows, .stride = number[2], .slices = (uint32_t)slices, .index = m->n_weights };
    if (!transposed) return true;
    w->tensor = transposed_part(d->arena, of, slices, number[0], number[1], number[2]);
    w->row0 = 0;
    w->rows = slices * cols;
    w->cols = rows;
    w->run = w->stride = cols;
    return true;
}

/* ---- one role in one layer ---- */

static void keep(const struct described *d, struct model *m, struct role *r, uint32_t layer, const struct weight *w, bool *used)
{
    m->weights[m->n_weights] = *w;
    r->weights[layer == NO_LAYER ? 0 : layer] = &m->weights[m->n_weights++];
    m->n_parameters += w->rows * w->cols;
    used[gguf_tensor_index(d->gguf, w->tensor)] = true;
}

/* Sizes are computed only if there is a tensor: a role that the file lacks may name a size that differs by layer. */
static void bind(struct described *d, struct model *m, struct role *r, uint32_t layer, bool *used)
{
    uint64_t row0 = 0, total = 0, shape[COUNT_OF(r->dims)] = { 0 };
    const char *name = described_name(d, r->pattern, layer);
    const struct gguf_tensor *t = gguf_tensor_find(d->gguf, name);
    const bool whole = t != NULL;
    if (!t) t = find_fused(d, m, r, layer, &row0, &total);
    if (!t) {                              /* the wiring decides whether it may be absent */
        struct weight part;
        if (find_part(d, m, r, layer, &part)) keep(d, m, r, layer, &part, used);
        return;
    }
    for (uint32_t i = 0; i < r->n_dims; i++) shape[i] = role_dimension(m, r->at, r->dims[i], layer);
    const uint64_t slice_rows = r->n_dims == 1 ? 1 : shape[r->n_dims - 2], cols = shape[r->n_dims - 1];
    struct weight w = { .role = r->name, .name = t->name, .tensor = t, .layer = layer, .row0 = row0, .rows = slice_rows, .cols = cols,
                        .is_vector = r->n_dims == 1, .index = m->n_weights };
    if (r->n_dims == 3) {
        if (shape[0] > UINT32_MAX)
            die_at(r->at, "%s has %llu matrices; forgec counts to %u", r->name, (unsigned long long)shape[0], UINT32_MAX);
        w.slices = (uint32_t)shape[0];
        w.rows *= shape[0];
    }
    if (whole) total = r->n_dims == 1 ? cols : slice_rows;
    place_rows(d->arena, m, r, layer, slice_rows, &total, &w);
    if (r->row) place_row(d, m, r, layer, &w);
    else if (!has_shape(t, &w, total)) {
        struct text needed = { .arena = d->arena };
        if (w.slices) text_printf(&needed, "%u x ", w.slices);
        text_printf(&needed, "%llu", (unsigned long long)total);
        if (!w.is_vector) text_printf(&needed, " x %llu", (unsigned long long)cols);
        die("%s: tensor %s is %s; the hyperparameters ask for %s%s", d->gguf->path, t->name, gguf_shape(d->arena, t), text_str(&needed),
            absent_default(d, m, r, whole));
    }
    if (r->n_dims == 1 && t->quant->block_weights != 1)
        die("%s: tensor %s is %s; a vector must be F32, F16 or BF16", d->gguf->path, t->name, t->quant->name);
    keep(d, m, r, layer, &w, used);
}

/* ---- NAME.scale beside NAME.weight ---- */

/* The role for the scales of role r; no YAML has to name it. */
static struct role *scale_role(struct described *d, struct model *m, const struct role *r)
{
    const char *name = arena_printf(d->arena, "%s_scale", r->name);
    struct role *found = role_find(m, name);
    if (found && found->pattern)
        die_at(found->at, "%s is the name of the role that NAME.scale beside the tensors of %s has; choose another name", name, r->name);
    if (found) return found;
    struct role *made = &m->roles[m->n_roles++];
    *made = (struct role){ .name = name, .at = r->at, .in_layer = r->in_layer, .absence = ABSENT_ANYWHERE,
                           .weights = arena_array(d->arena, struct weight *, r->in_layer ? m->n_described : 1),
                           .asked = arena_array(d->arena, bool, r->in_layer ? m->n_described : 1) };
    return made;
}

/* Formats with small numbers as scales (NVFP4) keep the rest of the scale in a separate tensor, which converters write for a whole tensor
 * or for each expert. If the architecture has a role for that tensor, the role decides what it means (gemma4). */
static void bind_scale(struct described *d, struct model *m, const struct role *r, struct weight *w, const bool *named, bool *used)
{
    const size_t length = strlen(w->name);
    if (length < 7 || strcmp(w->name + length - 7, ".weight") != 0) return;
    const char *name = arena_printf(d->arena, "%.*s.scale", (int)(length - 7), w->name);
    const struct gguf_tensor *t = gguf_tensor_find(d->gguf, name);
    if (!t || named[t - d->gguf->tensors]) return;
    const uint64_t numbers = w->slices ? w->slices : 1;
    if (t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3] != numbers || t->quant->block_weights != 1)
        die("%s: tensor %s is %s %s; beside %s it has %llu of F32, F16 or BF16", d->gguf->path, name, t->quant->name,
            gguf_shape(d->arena, t), w->name, (unsigned long long)numbers);
    struct role *role = scale_role(d, m, r);
    struct weight *scale = &m->weights[m->n_weights];
    *scale = (struct weight){ .role = role->name, .name = t->name, .tensor = t, .layer = w->layer, .rows = 1, .cols = numbers, .run = 1,
                              .stride = 1, .is_vector = true, .index = m->n_weights++ };
    role->weights[w->layer == NO_LAYER ? 0 : w->layer] = scale;
    w->scale = scale;
    used[gguf_tensor_index(d->gguf, t)] = true;
}

static void bind_scales(struct described *d, struct model *m, bool *used)
{
    const uint32_t n_roles = m->n_roles, n_tensors = (uint32_t)d->gguf->n_tensors;
    bool *named = arena_array(d->arena, bool, n_tensors);
    memcpy(named, used, n_tensors * sizeof *named);
    for (uint32_t i = 0; i < n_roles; i++) {
        struct role *r = &m->roles[i];
        for (uint32_t l = 0; l < (r->in_layer ? m->n_described : 1); l++)
            if (r->weights[l]) bind_scale(d, m, r, r->weights[l], named, used);
    }
}

/* ---- all roles ---- */

void roles_bind(struct described *d, struct model *m)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < m->n_roles; i++) most += m->roles[i].in_layer ? m->n_described : 1;
    m->weights = arena_array(d->arena, struct weight, 2 * most);                  /* each may have a scale */
    bool *used = arena_array(d->arena, bool, d->gguf->n_tensors);
    for (uint32_t i = 0; i < m->n_roles; i++) {
        struct role *r = &m->roles[i];
        find_fused_names(d, r);
        if (!r->in_layer) bind(d, m, r, NO_LAYER, used);
        else for (uint32_t l = 0; l < m->n_described; l++) bind(d, m, r, l, used);
    }
    bind_scales(d, m, used);
}
