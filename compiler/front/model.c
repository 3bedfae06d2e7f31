/* model.c -- models/ARCH.yaml + GGUF metadata -> struct model. */
#include "model.h"
#include "keys.h"
#include "params.h"
#include "expr.h"
#include "compiler/base/resource.h"
#include "runtime/model/pool.h"
#include "templates/ref/dequant.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct role {
    const char       *name;
    struct place      at;
    const char       *pattern;        /* tensor name with {l} */
    const char       *dims[3];
    uint32_t          n_dims;
    const struct yaml *rows;          /* {every:, first:}: which rows of the tensor, or NULL: all */
    const struct yaml *row;           /* of a vector: the row of a matrix that it is, or NULL */
    bool              optional, in_layer;
    const char       *alternative;    /* role used instead where absent ("else"), or NULL */
    struct weight   **weights;        /* [n_described] or [1]; NULL entries where absent */
};

/* ---- names with {arch} and {l} ---- */

const char *described_name(const struct described *d, const char *pattern, uint32_t layer)
{
    struct text t = { .arena = d->arena };
    for (const char *p = pattern; *p; ) {
        if (strncmp(p, "{arch}", 6) == 0) { text_puts(&t, d->architecture); p += 6; }
        else if (strncmp(p, "{l}", 3) == 0) { text_printf(&t, "%u", layer); p += 3; }
        else text_append(&t, p++, 1);
    }
    return text_str(&t);
}

/* ---- the YAML and what it inherits ---- */

static struct yaml *model_file(struct arena *a, const char *directory, const char *name, struct bytes *text)
{
    const char *path = arena_printf(a, "models/%s.yaml", name);
    if (!resource_find(a, directory, path, text)) return NULL;
    return yaml_parse(a, resource_place(a, directory, path), (const char *)text->data, text->size);
}

static const char *const top_keys[] = { "architecture", "inherits", "parameters", "harmless", "neutral", "tensors", "left_out",
                                       "fused", "blocks", "graph", NULL };

/* files[0] and texts[0] are there. */
static void read_files(struct described *d)
{
    for (;;) {
        struct yaml *y = d->files[d->n_files++];
        yaml_only(y, top_keys);
        struct yaml *base = yaml_get(y, "inherits");
        if (!base) return;
        if (d->n_files == COUNT_OF(d->files)) die_at(base->at, "inherits goes deeper than %zu files", COUNT_OF(d->files));
        d->files[d->n_files] = model_file(d->arena, d->directory, yaml_string(base), &d->texts[d->n_files]);
        if (!d->files[d->n_files]) die_at(base->at, "there is no models/%s.yaml", yaml_string(base));
    }
}

struct yaml *described_entry(const struct described *d, const char *section, const char *name)
{
    for (uint32_t i = 0; i < d->n_files; i++) {
        struct yaml *y = yaml_get(yaml_get(d->files[i], section), name);
        if (y) return y;
    }
    return NULL;
}

/* ---- tensor roles ---- */

/* n_q = n_head * head_dim and its like; false where the name is none of them. */
static bool product(const struct layer_shape *s, const char *name, uint64_t *out)
{
    if (strcmp(name, "n_q") == 0)        *out = (uint64_t)s->n_head * s->head_dim;
    else if (strcmp(name, "n_kv") == 0)  *out = (uint64_t)s->n_head_kv * s->head_dim;
    else if (strcmp(name, "n_v") == 0)   *out = (uint64_t)s->n_head_kv * s->value_dim;
    else if (strcmp(name, "n_kqv") == 0) *out = (uint64_t)s->n_head * s->value_dim;
    else return false;
    return true;
}

static bool is_half(const char *name) { return strcmp(name, "n_rot_half") == 0; }

/* What a name is in a layer, of those that dimensions may name; NO_LAYER: what is the same in all of them. */
struct dimensions { const struct model *m; uint32_t layer; };

static bool dimension_named(void *context, struct place at, const char *name, double *out)
{
    const struct dimensions *d = context;
    uint64_t value;
    if (product(&d->m->layers[d->layer == NO_LAYER ? 0 : d->layer], name, &value)) { *out = (double)value; return true; }
    const struct param *p = model_param(d->m, is_half(name) ? "n_rot" : name);
    if (!p || p->type != VALUE_U32) return false;
    d->m->params[p - d->m->params].used = true;
    *out = param_value(d->m, p, at, d->layer);
    if (is_half(name)) *out /= 2;
    return true;
}

static uint64_t dimension(const struct model *m, struct place at, const char *text, uint32_t layer)
{
    struct dimensions d = { m, layer };
    double value;
    if (!expr_is_compound(text) && !isdigit((unsigned char)*text)) {
        if (dimension_named(&d, at, text, &value)) return (uint64_t)value;
        die_at(at, "unknown dimension %s; it is no parameter of type u32, nor n_q, n_kv, n_v, n_kqv or n_rot_half", text);
    }
    value = expr_value(at, text, dimension_named, &d);
    if (value < 0 || value > 0x1p52 || value != floor(value)) die_at(at, "the dimension %s comes to %g", text, value);
    return (uint64_t)value;
}

static const char *const tensor_keys[] = { "name", "shape", "rows", "row", "optional", "else", NULL };
static const char *const rows_keys[] = { "count", "first", "every", NULL };

static struct role *role_find(const struct model *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_roles; i++)
        if (strcmp(m->roles[i].name, name) == 0) return &m->roles[i];
    return NULL;
}

static void read_role(struct described *d, const struct model *m, struct role *r, const char *name, const struct yaml *y)
{
    yaml_only(y, tensor_keys);
    r->name = name;
    r->at = y->at;
    r->pattern = yaml_string(yaml_need(y, "name"));
    r->in_layer = strstr(r->pattern, "{l}") != NULL;
    const struct yaml *shape = yaml_need(y, "shape"), *optional = yaml_get(y, "optional"), *alternative = yaml_get(y, "else");
    if (shape->kind != YAML_LIST || shape->count < 1 || shape->count > COUNT_OF(r->dims))
        die_at(shape->at, "shape is a list of one to three dimensions");
    r->n_dims = shape->count;
    for (uint32_t s = 0; s < shape->count; s++) r->dims[s] = yaml_string(shape->items[s]);
    r->rows = yaml_get(y, "rows");
    if (r->rows) yaml_only(r->rows, rows_keys);
    if (r->rows && r->n_dims != 2) die_at(r->rows->at, "rows are those of a matrix");
    r->row = yaml_get(y, "row");
    if (r->row && r->n_dims != 1) die_at(r->row->at, "a row is a vector");
    r->optional = optional && yaml_bool(optional);
    r->alternative = alternative ? yaml_string(alternative) : NULL;
    r->weights = arena_array(d->arena, struct weight *, r->in_layer ? m->n_described : 1);
}

static void read_roles(struct described *d, struct model *m)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < d->n_files; i++) {
        struct yaml *tensors = yaml_get(d->files[i], "tensors");
        if (tensors) most += tensors->count;
    }
    m->roles = arena_array(d->arena, struct role, 2 * most);                      /* with its scales each */
    for (uint32_t i = 0; i < d->n_files; i++) {
        struct yaml *tensors = yaml_get(d->files[i], "tensors");
        for (uint32_t k = 0; tensors && k < tensors->count; k++)
            if (!role_find(m, tensors->keys[k]))                   /* else a derived file has its own */
                read_role(d, m, &m->roles[m->n_roles++], tensors->keys[k], tensors->items[k]);
    }
    for (uint32_t i = 0; i < m->n_roles; i++) {
        const struct role *r = &m->roles[i], *other = r->alternative ? role_find(m, r->alternative) : NULL;
        if (r->alternative && (!other || other->in_layer > r->in_layer))
            die_at(r->at, "else: %s: it must be a role of the same layer or outside the layers", r->alternative);
        for (uint32_t k = 0; other; other = other->alternative ? role_find(m, other->alternative) : NULL)
            if (k++ == m->n_roles) die_at(r->at, "else: %s leads back to itself", r->alternative);
    }
}

/* Any number will do: mistakes show even where no file has the tensor. */
static bool dimension_known(void *context, struct place at, const char *name, double *out)
{
    const struct model *m = context;
    uint64_t value;
    (void)at;
    *out = 2;
    const struct param *p = model_param(m, is_half(name) ? "n_rot" : name);
    return product(&m->layers[0], name, &value) || (p && p->type == VALUE_U32);
}

static void check_dimensions(struct model *m)
{
    for (uint32_t i = 0; i < m->n_roles; i++)
        for (uint32_t k = 0; k < m->roles[i].n_dims; k++) {
            const struct role *r = &m->roles[i];
            double any;
            if (expr_is_compound(r->dims[k])) expr_value(r->at, r->dims[k], dimension_known, m);
            else if (!isdigit((unsigned char)*r->dims[k]) && !dimension_known(m, r->at, r->dims[k], &any))
                dimension(m, r->at, r->dims[k], 0);
        }
}

static void check_fused(const struct described *d, const struct model *m)
{
    for (uint32_t i = 0; i < d->n_files; i++) {
        const struct yaml *fused = yaml_get(d->files[i], "fused");
        for (uint32_t k = 0; fused && k < fused->count; k++) {
            const struct yaml *parts = fused->items[k];
            if (parts->kind != YAML_LIST) die_at(parts->at, "a list of tensor roles is needed here");
            for (uint32_t n = 0; n < parts->count; n++)
                if (!role_find(m, yaml_string(parts->items[n])))
                    die_at(parts->items[n]->at, "there is no tensor role %s", yaml_string(parts->items[n]));
        }
    }
}

static const char *shape_text(struct arena *a, const struct gguf_tensor *t)
{
    struct text s = { .arena = a };
    for (uint32_t i = t->n_dims; i-- > 0; ) text_printf(&s, "%llu%s", (unsigned long long)t->ne[i], i ? " x " : "");
    return text_str(&s);
}

static bool has_part(const struct yaml *parts, const char *role)
{
    for (uint32_t n = 0; n < parts->count; n++) if (strcmp(yaml_string(parts->items[n]), role) == 0) return true;
    return false;
}

/* Rows of all parts; *row0: where those of the role begin. */
static uint64_t fused_rows(const struct model *m, const struct yaml *parts, const struct role *r, uint32_t layer, uint64_t *row0)
{
    uint64_t row = 0;
    for (uint32_t n = 0; n < parts->count; n++) {
        const struct role *part = role_find(m, yaml_string(parts->items[n]));
        if (part == r) *row0 = row;
        row += dimension(m, part->at, part->dims[part->n_dims == 3], layer);
    }
    return row;
}

/* The fused tensor that holds this role's rows, and at which row they begin. */
static const struct gguf_tensor *find_fused(struct described *d, const struct model *m, const struct role *r, uint32_t layer,
                                            uint64_t *row0, uint64_t *total)
{
    for (uint32_t i = 0; i < d->n_files; i++) {
        struct yaml *fused = yaml_get(d->files[i], "fused");
        for (uint32_t k = 0; fused && k < fused->count; k++) {
            if (!has_part(fused->items[k], r->name) || described_entry(d, "fused", fused->keys[k]) != fused->items[k]) continue;
            const struct gguf_tensor *t = gguf_tensor_find(d->gguf, described_name(d, fused->keys[k], layer));
            if (!t) continue;
            *total = fused_rows(m, fused->items[k], r, layer, row0);
            return t;
        }
    }
    return NULL;
}

/* Which tensor rows a role's rows are.  `total`: rows of a slice of the tensor. */
static void place_rows(const struct model *m, const struct role *r, uint32_t layer, uint64_t slice_rows, uint64_t *total, struct weight *w)
{
    w->run = w->slices ? slice_rows : w->rows;
    w->stride = w->slices ? *total : w->rows;
    if (!r->rows) return;
    const char *word[] = { "count", "first", "every" };
    uint64_t number[COUNT_OF(word)];
    for (uint32_t i = 0; i < COUNT_OF(word); i++) {
        const struct yaml *y = yaml_need(r->rows, word[i]);
        number[i] = dimension(m, y->at, yaml_string(y), layer);
    }
    const bool small = w->rows <= UINT32_MAX && number[2] <= UINT32_MAX;
    if (!number[0] || number[1] + number[0] > number[2] || w->rows % number[0] || !small)
        die_at(r->rows->at, "%s: its %llu rows cannot be %llu of every %llu, from %llu", r->name, (unsigned long long)w->rows,
               (unsigned long long)number[0], (unsigned long long)number[2], (unsigned long long)number[1]);
    w->run = number[0];
    w->row0 = number[1];
    w->stride = number[2];
    *total = w->rows / number[0] * number[2];
}

/* A vector that is one row of a matrix of any number of rows. */
static void place_row(const struct described *d, const struct model *m, const struct role *r, uint32_t layer, struct weight *w)
{
    const struct gguf_tensor *t = w->tensor;
    const uint64_t row = dimension(m, r->row->at, yaml_string(r->row), layer);
    if (t->ne[0] != w->cols || row >= t->ne[1] || t->ne[2] * t->ne[3] != 1)
        die("%s: tensor %s is %s; its row %llu of %llu columns is needed", d->gguf->path, t->name, shape_text(d->arena, t),
            (unsigned long long)row, (unsigned long long)w->cols);
    w->row0 = row * w->cols;
}

static bool has_shape(const struct gguf_tensor *t, const struct weight *w, uint64_t total)
{
    if (w->is_vector) return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3] == total;
    return t->ne[0] == w->cols && t->ne[1] == total && t->ne[2] == (w->slices ? w->slices : 1) && t->ne[3] == 1;
}

/* Sizes are asked for only where there is a tensor: a role that the file has not may name one that differs by layer. */
static void bind(struct described *d, struct model *m, struct role *r, uint32_t layer, bool *used)
{
    uint64_t row0 = 0, total = 0, shape[COUNT_OF(r->dims)] = { 0 };
    const char *name = described_name(d, r->pattern, layer);
    const struct gguf_tensor *t = gguf_tensor_find(d->gguf, name);
    const bool whole = t != NULL;
    if (!t) t = find_fused(d, m, r, layer, &row0, &total);
    if (!t) {
        if (r->optional || r->alternative) return;
        die("%s: tensor %s is missing", d->gguf->path, name);
    }
    for (uint32_t i = 0; i < r->n_dims; i++) shape[i] = dimension(m, r->at, r->dims[i], layer);
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
    place_rows(m, r, layer, slice_rows, &total, &w);
    if (r->row) place_row(d, m, r, layer, &w);
    else if (!has_shape(t, &w, total)) {
        struct text needed = { .arena = d->arena };
        if (w.slices) text_printf(&needed, "%u x ", w.slices);
        text_printf(&needed, "%llu", (unsigned long long)total);
        if (!w.is_vector) text_printf(&needed, " x %llu", (unsigned long long)cols);
        die("%s: tensor %s is %s; the hyperparameters ask for %s", d->gguf->path, t->name, shape_text(d->arena, t), text_str(&needed));
    }
    if (r->n_dims == 1 && t->quant->block_weights != 1)
        die("%s: tensor %s is %s; a vector must be F32, F16 or BF16", d->gguf->path, t->name, t->quant->name);
    m->weights[m->n_weights] = w;
    r->weights[layer == NO_LAYER ? 0 : layer] = &m->weights[m->n_weights++];
    m->n_parameters += w.rows * cols;
    used[t - d->gguf->tensors] = true;
}

/* ---- NAME.scale beside NAME.weight ---- */

/* The role of the scales of role r, which no YAML has to name. */
static struct role *scale_role(struct described *d, struct model *m, const struct role *r)
{
    const char *name = arena_printf(d->arena, "%s_scale", r->name);
    struct role *found = role_find(m, name);
    if (found && found->pattern)
        die_at(found->at, "%s is the name of the role that NAME.scale beside the tensors of %s has; choose another one", name, r->name);
    if (found) return found;
    struct role *made = &m->roles[m->n_roles++];
    *made = (struct role){ .name = name, .at = r->at, .in_layer = r->in_layer, .optional = true,
                           .weights = arena_array(d->arena, struct weight *, r->in_layer ? m->n_described : 1) };
    return made;
}

/* Formats whose scales are small numbers (NVFP4) have the rest of their scale in a tensor of its own, which converters write for a whole
 * tensor or for each expert.  One that the architecture has a role for means what that says (gemma4). */
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
            shape_text(d->arena, t), w->name, (unsigned long long)numbers);
    struct role *role = scale_role(d, m, r);
    struct weight *scale = &m->weights[m->n_weights];
    *scale = (struct weight){ .role = role->name, .name = t->name, .tensor = t, .layer = w->layer, .rows = 1, .cols = numbers, .run = 1,
                              .stride = 1, .is_vector = true, .index = m->n_weights++ };
    role->weights[w->layer == NO_LAYER ? 0 : w->layer] = scale;
    w->scale = scale;
    used[t - d->gguf->tensors] = true;
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

/* Of a block behind the layers that is not computed, which only drafts tokens that the model would have to check. */
static bool is_draft(const struct model *m, const char *name)
{
    unsigned block;
    int length = 0;
    const struct param *p = model_param(m, "n_nextn");
    return p && p->values[0] > 0 && sscanf(name, "blk.%u.%n", &block, &length) == 1 && length > 0 && block >= m->n_described;
}

static void bind_all(struct described *d, struct model *m)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < m->n_roles; i++) most += m->roles[i].in_layer ? m->n_described : 1;
    m->weights = arena_array(d->arena, struct weight, 2 * most);                  /* with a scale each */
    bool *used = arena_array(d->arena, bool, d->gguf->n_tensors);
    for (uint32_t i = 0; i < m->n_roles; i++) {
        struct role *r = &m->roles[i];
        if (!r->in_layer) bind(d, m, r, NO_LAYER, used);
        else for (uint32_t l = 0; l < m->n_described; l++) bind(d, m, r, l, used);
    }
    bind_scales(d, m, used);
}

/* ---- tensors that no wiring reads ---- */

/* "*" stands for any letters, "{l}" for the number of any layer. */
static bool matches(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL;
    for (;;) {
        if (*pattern == '*') { star = ++pattern; from = name; }
        else if (strncmp(pattern, "{l}", 3) == 0 && isdigit((unsigned char)*name)) { pattern += 3; name += strspn(name, "0123456789"); }
        else if (*pattern != *name) {
            if (!star || !*from) return false;
            pattern = star;
            name = ++from;
        }
        else if (!*pattern) return true;
        else { pattern++; name++; }
    }
}

/* Sections hold what they should, so that a mistake shows even where no file has the tensor. */
static void check_left_out(const struct described *d)
{
    for (uint32_t i = 0; i < d->n_files; i++) {
        const struct yaml *all = yaml_get(d->files[i], "left_out");
        if (all && all->kind != YAML_MAP) die_at(all->at, "left_out is a map of tensors' names and reasons");
        for (uint32_t k = 0; all && k < all->count; k++)
            if (!*yaml_string(all->items[k])) die_at(all->items[k]->at, "the reason why %s is left out is needed here", all->keys[k]);
    }
}

static bool is_left_out(const struct described *d, const char *name)
{
    for (uint32_t i = 0; i < d->n_files; i++) {
        const struct yaml *all = yaml_get(d->files[i], "left_out");
        for (uint32_t k = 0; all && k < all->count; k++) if (matches(all->keys[k], name)) return true;
    }
    return false;
}

/* Of the output matrix, which turns what the model thinks into words: where it gives vectors of texts nobody asks for those. */
static bool is_head(const struct model *m, const char *name)
{
    static const char *const roles[] = { "output", "output_bias" };
    for (uint32_t i = 0; m->pooling && i < COUNT_OF(roles); i++) {
        const struct role *r = role_find(m, roles[i]);
        if (r && strcmp(r->pattern, name) == 0) return true;
    }
    return false;
}

/* One --ignore-tensor. */
static void ignore_tensors(const struct described *d, struct model *m, const char *pattern)
{
    const char *shown = printable(d->arena, pattern, strlen(pattern));
    uint64_t n = 0, last = 0;
    for (uint64_t i = 0; i < d->gguf->n_tensors; i++) {
        if (!matches(pattern, d->gguf->tensors[i].name)) continue;
        m->unread[last = i] = UNREAD_IGNORED;
        n++;
    }
    if (!n) die("--ignore-tensor %s: %s has no such tensor", shown, d->gguf->path);
    const struct gguf_tensor *t = &d->gguf->tensors[last];
    const char *value = n == 1 ? arena_printf(d->arena, "%s %s", t->quant->name, shape_text(d->arena, t))
                               : arena_printf(d->arena, "%llu tensors", (unsigned long long)n);
    m->ignored[m->n_ignored++] = (struct ignored){ "--ignore-tensor", shown, value };
    warn("%s: %s, %s, may be left out, as --ignore-tensor says: the program's results can be wrong", d->gguf->path, shown, value);
}

static void find_unread(const struct described *d, struct model *m, const struct model_options *o)
{
    uint64_t drafts = 0;
    check_left_out(d);
    m->unread = arena_array(d->arena, enum unread, d->gguf->n_tensors);
    for (uint64_t i = 0; i < d->gguf->n_tensors; i++) {
        const char *name = d->gguf->tensors[i].name;
        m->unread[i] = is_draft(m, name) ? UNREAD_DRAFT : is_left_out(d, name) || is_head(m, name) ? UNREAD_HARMLESS : UNREAD_NEVER;
        drafts += m->unread[i] == UNREAD_DRAFT;
    }
    if (drafts && o->drafts)
        warn("%s: %llu tensors of further draft (nextn) blocks are left out; the first one drafts all tokens", d->gguf->path,
             (unsigned long long)drafts);
    else if (drafts)
        warn("%s: %llu tensors of the draft (nextn) blocks are left out; on GPUs --spec mtp drafts with them", d->gguf->path,
             (unsigned long long)drafts);
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
    die("%s: models/%s.yaml does not compute with tensor%s %s: the program would be another model; convert the model again with a current "
        "converter, or --ignore-tensor NAME (* for any letters) insists", g->path, m->architecture, n > 1 ? "s" : "", text_str(&names));
}

/* Where the first line of a literal block of text begins: it loses its indentation. */
static struct place text_place(const struct described *d, uint32_t file, const struct yaml *y)
{
    struct place at = y->at;
    const char *line = (const char *)d->texts[file].data;                  /* a NUL follows: resource.h */
    at.line++;
    for (uint32_t k = 0; k < y->at.line && line; k++) if ((line = strchr(line, '\n'))) line++;
    at.column = 1 + (line ? (uint32_t)strspn(line, " ") : 0);
    return at;
}

const struct block *model_block(const struct model *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_blocks; i++) if (strcmp(m->blocks[i].name, name) == 0) return &m->blocks[i];
    return NULL;
}

static void read_blocks(const struct described *d, struct model *m)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < d->n_files; i++) {
        const struct yaml *all = yaml_get(d->files[i], "blocks");
        if (all && all->kind != YAML_MAP) die_at(all->at, "blocks is a map of names and lines");
        if (all) most += all->count;
    }
    m->blocks = arena_array(d->arena, struct block, most);
    for (uint32_t i = 0; i < d->n_files; i++) {
        const struct yaml *all = yaml_get(d->files[i], "blocks");
        for (uint32_t k = 0; all && k < all->count; k++) {
            if (model_block(m, all->keys[k])) continue;                    /* a derived file has its own */
            const struct yaml *y = all->items[k];
            m->blocks[m->n_blocks++] = (struct block){ all->keys[k], yaml_string(y), text_place(d, i, y) };
        }
    }
}

static void read_graph(const struct described *d, struct model *m)
{
    for (uint32_t i = 0; i < d->n_files && !m->graph_text; i++) {
        const struct yaml *graph = yaml_get(d->files[i], "graph");
        if (!graph) continue;
        m->graph_text = yaml_string(graph);
        m->graph_at = text_place(d, i, graph);
    }
    if (!m->graph_text) die_at(d->files[0]->at, "graph is missing");
}

uint32_t model_context(uint32_t n_ctx_train, uint32_t n_ctx)
{
    const uint32_t most = 8192;
    return n_ctx ? n_ctx : n_ctx_train < most ? n_ctx_train : most;
}

/* What the model has learnt to look back over.  A scaled rotation stretches the original context; context_length may or may not
 * count that in.  Where layers rotate differently, the one that reaches farthest counts. */
static void check_context(const struct described *d, const struct model *m, uint32_t n_ctx)
{
    const double *factor = model_param(m, "rope_factor")->values, *n_ctx_orig = model_param(m, "rope_n_ctx_orig")->values;
    uint32_t best = 0;
    for (uint32_t l = 1; l < m->n_layer; l++) if (factor[l] * n_ctx_orig[l] > factor[best] * n_ctx_orig[best]) best = l;
    const double stretched = factor[best] > 1 ? factor[best] * n_ctx_orig[best] : 0;
    const double trained = stretched > m->n_ctx_train ? stretched : m->n_ctx_train;
    if (n_ctx <= trained) return;
    struct text how = { .arena = d->arena };
    if (trained > m->n_ctx_train)
        text_printf(&how, " (%.0f, stretched %g times by its %s scaling)", n_ctx_orig[best], factor[best],
                    m->rope_scaling == ROPE_YARN ? "YaRN" : "linear");
    warn("%s: a context of %u tokens is longer than the %.0f%s that the model was trained for; beyond them its answers get worse;"
         " --ctx %.0f keeps within", d->gguf->path, n_ctx, trained, text_str(&how), trained);
}

/* general.architecture, which becomes part of paths and of C names. */
static const char *read_architecture(struct arena *a, const struct gguf *g)
{
    struct gguf_string arch;
    if (!gguf_get_string(g, "general.architecture", &arch)) die("%s: the key general.architecture is missing", g->path);
    for (uint64_t i = 0; i < arch.size; i++) {
        const char c = arch.data[i];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
        if (!plain || arch.size > 40)
            die("%s: general.architecture is \"%s\", which is no architecture's name", g->path, printable(a, arch.data, arch.size));
    }
    return arena_strndup(a, arch.data, arch.size);
}

_Noreturn static void unsupported(const struct described *d)
{
    struct text known = { .arena = d->arena };
    for (const char **n = model_names(d->arena, d->directory); *n; n++) text_printf(&known, "%s%s", known.size ? ", " : "", *n);
    bool causal = true;
    gguf_get_bool(d->gguf, arena_printf(d->arena, "%s.attention.causal", d->architecture), &causal);
    die("%s: architecture \"%s\" is not supported%s; forgec knows %s", d->gguf->path, d->architecture,
        causal ? "" : ": it is an encoder (its attention sees later tokens)", text_str(&known));
}

/* The YAML of the file's architecture, with all that it inherits. */
static void find_files(struct described *d)
{
    d->architecture = read_architecture(d->arena, d->gguf);
    d->files[0] = model_file(d->arena, d->directory, d->architecture, &d->texts[0]);
    const struct yaml *name = yaml_get(d->files[0], "architecture");
    if (!name) unsupported(d);
    if (strcmp(yaml_string(name), d->architecture))
        die_at(name->at, "the architecture is \"%s\" but the file is named after %s", yaml_string(name), d->architecture);
    read_files(d);
}

struct model *model_describe(struct arena *a, const struct gguf *g, const struct model_options *options)
{
    static const struct model_options defaults = { 0 };
    const struct model_options *o = options ? options : &defaults;
    struct described d = { .arena = a, .gguf = g, .directory = o->directory };
    find_files(&d);
    struct model *m = arena_new(a, struct model);
    m->gguf = g;
    m->architecture = d.architecture;
    struct gguf_string name;
    m->name = gguf_get_string(g, "general.name", &name) ? printable(a, name.data, name.size) : "unnamed";
    params_read(&d, m, o->n_ctx, o->drafts);
    const uint32_t n_ctx = model_context(m->n_ctx_train, o->n_ctx);
    keys_check(&d, m, o, n_ctx);
    read_roles(&d, m);
    check_dimensions(m);
    check_fused(&d, m);
    bind_all(&d, m);
    find_unread(&d, m, o);
    read_blocks(&d, m);
    read_graph(&d, m);
    check_context(&d, m, n_ctx);
    return m;
}

const struct weight *model_weight(const struct model *m, struct place at, const char *role, uint32_t layer)
{
    const struct role *r = role_find(m, role);
    if (!r) die_at(at, "there is no tensor role %s", role);
    if (r->in_layer && layer == NO_LAYER) die_at(at, "%s is a tensor of a layer", role);
    const struct weight *w = r->weights[r->in_layer ? layer : 0];
    return w || !r->alternative ? w : model_weight(m, at, r->alternative, layer);
}

const uint8_t *weight_bytes(const struct weight *w, uint64_t r)
{
    const struct format *q = w->tensor->quant;
    if (w->is_vector) return w->tensor->data + w->row0 * q->block_bytes;
    return w->tensor->data + weight_row(w, r) * format_row_bytes(q, w->tensor->ne[0]) + w->col0 / q->block_weights * q->block_bytes;
}

void weight_to_float(float *out, const struct weight *w, uint64_t first_row, uint64_t n_rows)
{
    const uint32_t id = w->tensor->quant->id;
    if (w->is_vector) {
        dequantize_row_ref(id, out, weight_bytes(w, 0), w->cols);
        return;
    }
    for (uint64_t r = first_row, n; n_rows > 0; r += n, n_rows -= n, out += n * w->cols) {
        n = w->run - r % w->run < n_rows ? w->run - r % w->run : n_rows;
        if (!weight_is_wide(w)) n = 1;
        dequantize_row_ref(id, out, weight_bytes(w, r), n * w->cols);
    }
}

const char *model_embeddings(struct arena *a, const struct model *m)
{
    static const char *const rows[] = { [FORGE_POOL_MEAN] = "the mean of its tokens' rows", [FORGE_POOL_CLS] = "the row of its first token",
                                        [FORGE_POOL_LAST] = "the row of its last token" };
    return arena_printf(a, "the vector of a text is %s; a token sees %s", rows[m->pooling],
                        m->causal ? "those before it" : "all of the text, which is one chunk");
}

const char *model_formats(struct arena *a, const struct model *m)
{
    uint32_t count[QUANT_IDS] = { 0 };
    for (uint32_t i = 0; i < m->n_weights; i++) count[m->weights[i].tensor->quant->id]++;
    struct text t = { .arena = a };
    for (;;) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < QUANT_IDS; i++) if (count[i] > count[best]) best = i;
        if (!count[best]) return text_str(&t);
        text_printf(&t, "%s%s %u", t.size ? ", " : "", quant_find(best)->name, count[best]);
        count[best] = 0;
    }
}

const char **model_names(struct arena *a, const char *directory)
{
    const char **names = resource_names(a, directory, "models/");
    size_t kept = 0;
    for (size_t i = 0; names[i]; i++) {
        struct bytes text;
        if (yaml_get(model_file(a, directory, names[i], &text), "architecture")) names[kept++] = names[i];
    }
    names[kept] = NULL;
    return names;
}
