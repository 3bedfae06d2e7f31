/* role.c -- tensor roles as the YAML has them: names, shapes, which may be absent. See role.h. */
#include "role.h"
#include "expr.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

/* n_q = n_head * head_dim and similar sizes; false if the name is not one of them. */
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

/* The values of names in dimensions, for a layer; NO_LAYER: values that all layers share. */
struct dimensions { const struct model *m; uint32_t layer; };

static bool dimension_named(void *context, struct place at, const char *name, double *out)
{
    const struct dimensions *d = context;
    uint64_t value;
    if (product(&d->m->layers[d->layer == NO_LAYER ? 0 : d->layer], name, &value)) { *out = (double)value; return true; }
    const struct param *p = model_param(d->m, is_half(name) ? "n_rot" : name);
    if (!p || p->type != VALUE_U32) return false;
    d->m->params[p - d->m->params].used = true;
    *out = param_size(d->m, p, at, d->layer);
    if (is_half(name)) *out /= 2;
    return true;
}

uint64_t role_dimension(const struct model *m, struct place at, const char *text, uint32_t layer)
{
    struct dimensions d = { m, layer };
    double value;
    if (!expr_is_compound(text) && !isdigit((unsigned char)*text)) {
        if (dimension_named(&d, at, text, &value)) return (uint64_t)value;
        die_at(at, "unknown dimension %s; it is not a parameter of type u32, nor n_q, n_kv, n_v, n_kqv or n_rot_half", text);
    }
    value = expr_value(at, text, dimension_named, &d);
    if (value < 0 || value > 0x1p52 || value != floor(value)) die_at(at, "the dimension %s comes to %g", text, value);
    return (uint64_t)value;
}

static const char *const tensor_keys[] = { "name", "shape", "rows", "row", "optional", "where", "else", "part_of", NULL };
static const char *const part_keys[] = { "name", "count", "first", "every", "transposed", NULL };
static const char *const rows_keys[] = { "count", "first", "every", NULL };

struct role *role_find(const struct model *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_roles; i++)
        if (strcmp(m->roles[i].name, name) == 0) return &m->roles[i];
    return NULL;
}

static enum absence read_absence(const struct yaml *y)
{
    if (!y) return ABSENT_NEVER;
    if (strcmp(yaml_string(y), "all-or-none") == 0) return ABSENT_EVERYWHERE;
    if (strcmp(yaml_string(y), "true"))
        die_at(y->at, "the value of optional must be true or all-or-none; leave it out for a tensor that is always needed");
    return ABSENT_ANYWHERE;
}

static void read_role(struct described *d, const struct model *m, struct role *r, const char *name, const struct yaml *y)
{
    yaml_only(y, tensor_keys);
    r->name = name;
    r->at = y->at;
    r->pattern = yaml_string(yaml_need(y, "name"));
    r->in_layer = strstr(r->pattern, "{l}") != NULL;
    const struct yaml *shape = yaml_need(y, "shape"), *where = yaml_get(y, "where"), *alternative = yaml_get(y, "else");
    if (shape->kind != YAML_LIST || shape->count < 1 || shape->count > COUNT_OF(r->dims))
        die_at(shape->at, "shape must be a list of one to three dimensions");
    r->n_dims = shape->count;
    for (uint32_t s = 0; s < shape->count; s++) r->dims[s] = yaml_string(shape->items[s]);
    r->rows = yaml_get(y, "rows");
    if (r->rows) yaml_only(r->rows, rows_keys);
    if (r->rows && r->n_dims != 2) die_at(r->rows->at, "rows is for a matrix, but the shape does not have two dimensions");
    r->row = yaml_get(y, "row");
    if (r->row && r->n_dims != 1) die_at(r->row->at, "row is for a vector, but the shape has more than one dimension");
    r->part_of = yaml_get(y, "part_of");
    if (r->part_of) yaml_only(r->part_of, part_keys);
    if (r->part_of && r->n_dims != 3)
        die_at(r->part_of->at, "part_of is for a stack of matrices, but the shape does not have three dimensions");
    r->absence = read_absence(yaml_get(y, "optional"));
    r->where = where ? yaml_string(where) : NULL;
    r->alternative = alternative ? yaml_string(alternative) : NULL;
    r->weights = arena_array(d->arena, struct weight *, r->in_layer ? m->n_described : 1);
    r->asked = arena_array(d->arena, bool, r->in_layer ? m->n_described : 1);
}

static void check_where(const struct model *m, const struct role *r)
{
    const struct param *p = model_param(m, r->where);
    const struct role *other = role_find(m, r->where);
    if (!p && (!other || other == r || other->in_layer > r->in_layer))
        die_at(r->at, "where: %s: it must be a parameter, or a role of the same layer or outside the layers", r->where);
    if (r->alternative) die_at(r->at, "where cannot be combined with else");
    if (p) m->params[p - m->params].used = true;
}

static void read_all(struct described *d, struct model *m)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < d->n_files; i++) {
        struct yaml *tensors = yaml_get(d->files[i], "tensors");
        if (tensors) most += tensors->count;
    }
    m->roles = arena_array(d->arena, struct role, 2 * most);                      /* each may have a scale */
    for (uint32_t i = 0; i < d->n_files; i++) {
        struct yaml *tensors = yaml_get(d->files[i], "tensors");
        for (uint32_t k = 0; tensors && k < tensors->count; k++)
            if (!role_find(m, tensors->keys[k]))                   /* else a derived file has its own entry */
                read_role(d, m, &m->roles[m->n_roles++], tensors->keys[k], tensors->items[k]);
    }
    for (uint32_t i = 0; i < m->n_roles; i++) {
        const struct role *r = &m->roles[i], *other = r->alternative ? role_find(m, r->alternative) : NULL;
        if (r->alternative && (!other || other->in_layer > r->in_layer))
            die_at(r->at, "else: %s: it must be a role of the same layer or outside the layers", r->alternative);
        for (uint32_t k = 0; other; other = other->alternative ? role_find(m, other->alternative) : NULL)
            if (k++ == m->n_roles) die_at(r->at, "else: %s refers to itself", r->alternative);
        if (r->where) check_where(m, r);
    }
}

/* Any number is good enough: mistakes are reported even if no file has the tensor. */
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
                role_dimension(m, r->at, r->dims[k], 0);
        }
}

bool model_shapes(const struct model *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_roles; i++)
        for (uint32_t k = 0; k < m->roles[i].n_dims; k++) if (expr_names(m->roles[i].dims[k], name)) return true;
    return false;
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

void roles_read(struct described *d, struct model *m)
{
    read_all(d, m);
    check_dimensions(m);
    check_fused(d, m);
}
