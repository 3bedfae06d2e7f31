/* model.c -- models/ARCH.yaml + GGUF metadata -> struct model. */
#include "model.h"
#include "keys.h"
#include "compiler/base/resource.h"
#include "templates/ref/dequant.h"
#include <math.h>
#include <string.h>

struct role {
    const char       *name;
    struct place      at;
    const char       *pattern;        /* tensor name with {l} */
    const char       *dims[2];
    uint32_t          n_dims;
    bool              optional, in_layer;
    const char       *alternative;    /* role used instead where absent ("else"), or NULL */
    struct weight   **weights;        /* [n_layer] or [1]; NULL entries where absent */
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

static const char *const top_keys[] = { "architecture", "inherits", "rope", "parameters", "harmless", "neutral", "tensors", "fused", "graph", NULL };

/* files[0] and texts[0] are there. */
static void read_files(struct described *d, const char *directory)
{
    for (;;) {
        struct yaml *y = d->files[d->n_files++];
        yaml_only(y, top_keys);
        struct yaml *base = yaml_get(y, "inherits");
        if (!base) return;
        if (d->n_files == COUNT_OF(d->files)) die_at(base->at, "inherits goes deeper than %zu files", COUNT_OF(d->files));
        d->files[d->n_files] = model_file(d->arena, directory, yaml_string(base), &d->texts[d->n_files]);
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

/* ---- hyperparameters ---- */

static const char *const param_keys[] = { "key", "default", "per_layer", "values", NULL };

struct param { const char *name; struct yaml *entry; const char *key; const char *fallback; bool per_layer; };       /* per_layer: the file may have an array */

static struct param find_param(const struct described *d, const char *name)
{
    struct param p = { .name = name, .entry = described_entry(d, "parameters", name) };
    if (!p.entry) die_at(d->files[0]->at, "parameter %s is missing; add it under parameters", name);
    yaml_only(p.entry, param_keys);
    struct yaml *key = yaml_get(p.entry, "key"), *fallback = yaml_get(p.entry, "default");
    if (key) p.key = described_name(d, yaml_string(key), 0);
    struct yaml *per_layer = yaml_get(p.entry, "per_layer");
    if (fallback) p.fallback = yaml_string(fallback);
    p.per_layer = per_layer && yaml_bool(per_layer);
    return p;
}

_Noreturn static void missing_key(const struct described *d, const struct param *p)
{
    const char *other = p->key ? keys_other_prefix(d, p->key) : NULL;
    if (other) die("%s: the key %s is missing; the file has that of \"%s\", but general.architecture is \"%s\"; convert the model again",
                   d->gguf->path, p->key, printable(d->arena, other, strlen(other)), d->architecture);
    die("%s: the key %s is missing, which architecture %s needs; convert the model again with a current converter",
        d->gguf->path, p->key ? p->key : p->name, d->architecture);
}

/* Values that other parameters default to. */
static bool named_default(const struct described *d, const struct model *m, const char *name, uint32_t layer, double *out)
{
    const bool has_heads = m->layers && m->layers[layer].n_head;       /* false while the first parameters are read */
    if (strcmp(name, "n_head") == 0 && has_heads) *out = m->layers[layer].n_head;
    else if (strcmp(name, "n_embd_per_head") == 0 && has_heads) {
        if (m->n_embd % m->layers[0].n_head)
            die("%s: embedding_length %u is no multiple of head_count %u and attention.key_length is missing",
                d->gguf->path, m->n_embd, m->layers[0].n_head);
        *out = m->n_embd / m->layers[0].n_head;
    }
    else if (strcmp(name, "head_dim") == 0) *out = m->head_dim;
    else if (strcmp(name, "n_ctx_train") == 0) *out = m->n_ctx_train;
    else if (strcmp(name, "rows_of_token_embd") == 0) {
        const struct gguf_tensor *t = gguf_tensor_find(d->gguf, "token_embd.weight");
        if (!t) die("%s: tensor token_embd.weight is missing", d->gguf->path);
        *out = (double)t->ne[1];
    }
    else return false;
    return true;
}

static double fallback_number(const struct described *d, const struct model *m, const struct param *p, uint32_t layer)
{
    double value;
    if (!p->fallback) missing_key(d, p);
    if (named_default(d, m, p->fallback, layer, &value)) return value;
    return yaml_f64(yaml_get(p->entry, "default"));
}

static void check_range(const struct described *d, const struct param *p, double value, double least, double most)
{
    if (!(value >= least && value <= most))
        die("%s: %s is %.10g; forgec takes %.10g to %.10g", d->gguf->path, p->key ? p->key : p->name, value, least, most);
}

/* One number, or in per-layer parameters one array item.  Integers are exact in a double up to 2^53. */
static double read_param(const struct described *d, const struct model *m, const char *name, bool is_float, uint32_t layer,
                         bool per_layer, double least, double most)
{
    struct param p = find_param(d, name);
    const struct gguf_value *v = p.key ? gguf_find(d->gguf, p.key) : NULL;
    double value;
    if (!v) value = fallback_number(d, m, &p, layer);
    else if (v->type == GGUF_ARRAY) {
        if (!per_layer || !p.per_layer) die("%s: %s is an array; expected one value", d->gguf->path, p.key);
        if (v->item_type > GGUF_I32 && v->item_type != GGUF_U64 && v->item_type != GGUF_I64)
            die("%s: %s is an array of %s; expected integers", d->gguf->path, p.key, gguf_type_name(v->item_type));
        if (v->count < m->n_layer)
            die("%s: %s has %llu items for %u layers", d->gguf->path, p.key, (unsigned long long)v->count, m->n_layer);
        value = (double)gguf_item_u64(v, layer);
    }
    else if (is_float) gguf_get_f64(d->gguf, p.key, &value);
    else {
        uint64_t u;
        gguf_get_u64(d->gguf, p.key, &u);
        value = (double)u;
    }
    check_range(d, &p, value, least, most);
    return value;
}

static void read_rope_scaling(const struct described *d, struct model *m)
{
    struct param p = find_param(d, "rope_scaling");
    static const char *const names[] = { [ROPE_NONE] = "none", [ROPE_LINEAR] = "linear", [ROPE_YARN] = "yarn" };
    const char *text = p.fallback;
    struct gguf_string s;
    if (p.key && gguf_get_string(d->gguf, p.key, &s)) text = printable(d->arena, s.data, s.size);
    if (!text) missing_key(d, &p);
    struct yaml *allowed = yaml_need(p.entry, "values");
    for (uint32_t i = 0; i < allowed->count; i++)
        for (uint32_t k = 0; k < COUNT_OF(names); k++)
            if (strcmp(yaml_string(allowed->items[i]), names[k]) == 0 && strcmp(text, names[k]) == 0) {
                m->rope_scaling = (enum rope_scaling)k;
                if (m->rope_ext_factor == -1) m->rope_ext_factor = k == ROPE_YARN;
                return;
            }
    die("%s: %s is \"%s\", which architecture %s does not know", d->gguf->path, p.key ? p.key : p.name, text, d->architecture);
}

/* An entry that no parameter bears the name of would be a key that looks read and is not. */
static void check_names(const struct described *d)
{
    static const char *const names[] = {
#define PARAM(name, type, least, most) #name,
#define PARAM_PER_LAYER(name, type, least, most) #name,
#include "param.def"
#undef PARAM
#undef PARAM_PER_LAYER
        "rope_scaling", NULL };
    for (uint32_t i = 0; i < d->n_files; i++) {
        const struct yaml *all = yaml_get(d->files[i], "parameters");
        if (all) yaml_only(all, names);
    }
}

static void read_params(struct described *d, struct model *m)
{
    check_names(d);
    m->n_layer = 1;
#define U32 uint32_t, false
#define F64 double, true
#define READ_(name, type, is_float, least, most) m->name = (type)read_param(d, m, #name, is_float, 0, false, (double)(least), (double)(most));
#define READ(name, ...) READ_(name, __VA_ARGS__)
#define READ_LAYER_(name, type, is_float, least, most) m->layers[l].name = (type)read_param(d, m, #name, is_float, l, true, (double)(least), (double)(most));
#define READ_LAYER(name, ...) READ_LAYER_(name, __VA_ARGS__)
    /* n_embd, n_layer and the head counts come first: other parameters default to values made of them. */
    READ(n_embd, U32, 1, 1u << 20)
    READ(n_layer, U32, 1, 1024)
    m->layers = arena_array(d->arena, struct layer_shape, m->n_layer);
#define PARAM(name, type, least, most)
#define PARAM_PER_LAYER(name, type, least, most) READ_LAYER(name, type, least, most)
    for (uint32_t l = 0; l < m->n_layer; l++) {
#include "param.def"
    }
#undef PARAM
#undef PARAM_PER_LAYER
#define PARAM(name, type, least, most) READ(name, type, least, most)
#define PARAM_PER_LAYER(name, type, least, most)
#include "param.def"
#undef PARAM
#undef PARAM_PER_LAYER
    read_rope_scaling(d, m);
    struct yaml *rope = NULL;
    for (uint32_t i = 0; i < d->n_files && !rope; i++) rope = yaml_get(d->files[i], "rope");
    if (!rope) die_at(d->files[0]->at, "rope (normal or neox) is missing");
    const char *kind = yaml_string(rope);
    if (strcmp(kind, "normal") && strcmp(kind, "neox")) die_at(rope->at, "rope is \"%s\"; it can be normal or neox", kind);
    m->rope_neox = kind[1] == 'e';
}

/* Rotations that the formulas cannot mean: they would turn nothing, or everything alike, or give no numbers. */
static void check_rope(const struct described *d, const struct model *m)
{
    const char *path = d->gguf->path;
    const double factor = m->rope_factor, old = m->rope_factor_old;
    if ((factor > 0 && factor < 1) || (old > 0 && old < 1))
        die("%s: the rotation's scaling factor is %g; it must be 0 (none) or at least 1", path, factor > 0 && factor < 1 ? factor : old);
    if (factor > 0 && old > 0 && factor != old)
        die("%s: rope.scaling.factor is %g but rope.scale_linear is %g; one of them is wrong", path, factor, old);
    if (m->rope_beta_fast <= m->rope_beta_slow)
        die("%s: rope.scaling.yarn_beta_fast is %g and yarn_beta_slow %g; the fast one must be larger", path,
            m->rope_beta_fast, m->rope_beta_slow);
    if (m->rope_ext_factor < 0 && m->rope_ext_factor != -1)
        die("%s: rope.scaling.yarn_ext_factor is %g; it must be -1 (as the type of the scaling says) or 0 to 1", path, m->rope_ext_factor);
}

static void check_params(const struct described *d, const struct model *m)
{
    const char *path = d->gguf->path;
    for (uint32_t l = 0; l < m->n_layer; l++)
        if (m->layers[l].n_head_kv > m->layers[l].n_head || m->layers[l].n_head % m->layers[l].n_head_kv)
            die("%s: head_count %u in layer %u is no multiple of head_count_kv %u", path, m->layers[l].n_head, l, m->layers[l].n_head_kv);
    if (m->head_dim % 2) die("%s: attention.key_length is %u; it must be even", path, m->head_dim);
    if (m->value_dim != m->head_dim)
        die("%s: attention.value_length is %u but key_length is %u; forgec needs them equal", path, m->value_dim, m->head_dim);
    check_rope(d, m);
    if (m->n_rot > m->head_dim || m->n_rot % 2)
        die("%s: rope.dimension_count is %u; it must be even and at most key_length, %u", path, m->n_rot, m->head_dim);
    if (m->n_expert) die("%s: a mixture of %u experts; forgec builds dense %s models only", path, m->n_expert, d->architecture);
    if (m->norm_eps <= 0) die("%s: the norm epsilon is %g; it must be above 0", path, m->norm_eps);
    if (m->n_ctx_train > 1u << 28)
        die("%s: context_length is %u; forgec takes at most %u", path, m->n_ctx_train, 1u << 28);
}

/* ---- tensor roles ---- */

static uint64_t dimension(const struct model *m, const struct role *r, const char *name, uint32_t layer)
{
    const struct layer_shape *s = &m->layers[layer == NO_LAYER ? 0 : layer];
    if (strcmp(name, "n_embd") == 0)     return m->n_embd;
    if (strcmp(name, "n_vocab") == 0)    return m->n_vocab;
    if (strcmp(name, "n_ff") == 0)       return s->n_ff;
    if (strcmp(name, "n_q") == 0)        return (uint64_t)s->n_head * m->head_dim;
    if (strcmp(name, "n_kv") == 0)       return (uint64_t)s->n_head_kv * m->head_dim;
    if (strcmp(name, "head_dim") == 0)   return m->head_dim;
    if (strcmp(name, "n_rot_half") == 0) return m->n_rot / 2;
    die_at(r->at, "unknown dimension %s; known: n_embd, n_vocab, n_ff, n_q, n_kv, head_dim, n_rot_half", name);
}

static const char *const tensor_keys[] = { "name", "shape", "optional", "else", NULL };

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
    if (shape->kind != YAML_LIST || shape->count < 1 || shape->count > 2) die_at(shape->at, "shape is a list of one or two dimensions");
    r->n_dims = shape->count;
    for (uint32_t s = 0; s < shape->count; s++) r->dims[s] = yaml_string(shape->items[s]);
    r->optional = optional && yaml_bool(optional);
    r->alternative = alternative ? yaml_string(alternative) : NULL;
    r->weights = arena_array(d->arena, struct weight *, r->in_layer ? m->n_layer : 1);
}

static void read_roles(struct described *d, struct model *m)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < d->n_files; i++) {
        struct yaml *tensors = yaml_get(d->files[i], "tensors");
        if (tensors) most += tensors->count;
    }
    m->roles = arena_array(d->arena, struct role, most);
    for (uint32_t i = 0; i < d->n_files; i++) {
        struct yaml *tensors = yaml_get(d->files[i], "tensors");
        for (uint32_t k = 0; tensors && k < tensors->count; k++)
            if (!role_find(m, tensors->keys[k]))                   /* else a derived file has its own */
                read_role(d, m, &m->roles[m->n_roles++], tensors->keys[k], tensors->items[k]);
    }
    for (uint32_t i = 0; i < m->n_roles; i++) {
        const struct role *r = &m->roles[i], *other = r->alternative ? role_find(m, r->alternative) : NULL;
        if (r->alternative && (!other || other->alternative || other->in_layer > r->in_layer))
            die_at(r->at, "else: %s: it must be a role without an \"else\" of its own, of the same layer or outside the layers", r->alternative);
    }
}

static const char *shape_text(struct arena *a, const struct gguf_tensor *t)
{
    struct text s = { .arena = a };
    for (uint32_t i = t->n_dims; i-- > 0; ) text_printf(&s, "%llu%s", (unsigned long long)t->ne[i], i ? " x " : "");
    return text_str(&s);
}

/* The fused tensor that holds this role's rows, and at which row they begin. */
static const struct gguf_tensor *find_fused(struct described *d, const struct model *m, const struct role *r, uint32_t layer,
                                            uint64_t *row0, uint64_t *total)
{
    for (uint32_t i = 0; i < d->n_files; i++) {
        struct yaml *fused = yaml_get(d->files[i], "fused");
        for (uint32_t k = 0; fused && k < fused->count; k++) {
            struct yaml *parts = fused->items[k];
            if (parts->kind != YAML_LIST) die_at(parts->at, "a list of tensor roles is needed here");
            uint64_t row = 0;
            bool mine = false;
            for (uint32_t n = 0; n < parts->count; n++) {
                const struct role *part = role_find(m, yaml_string(parts->items[n]));
                if (!part) die_at(parts->items[n]->at, "there is no tensor role %s", yaml_string(parts->items[n]));
                if (part == r) { mine = true; *row0 = row; }
                row += dimension(m, part, part->dims[0], layer);
            }
            if (!mine) continue;
            const struct gguf_tensor *t = gguf_tensor_find(d->gguf, described_name(d, fused->keys[k], layer));
            *total = row;
            if (t) return t;
        }
    }
    return NULL;
}

static void bind(struct described *d, struct model *m, struct role *r, uint32_t layer, bool *used)
{
    uint64_t shape[2] = { 1, 1 };
    for (uint32_t i = 0; i < r->n_dims; i++) shape[i] = dimension(m, r, r->dims[i], layer);
    const uint64_t rows = r->n_dims == 2 ? shape[0] : 1, cols = r->n_dims == 2 ? shape[1] : shape[0];
    const char *name = described_name(d, r->pattern, layer);
    const struct gguf_tensor *t = gguf_tensor_find(d->gguf, name);
    uint64_t row0 = 0, total = r->n_dims == 2 ? rows : cols;
    if (!t) t = find_fused(d, m, r, layer, &row0, &total);
    if (!t) {
        if (r->optional || r->alternative) return;
        die("%s: tensor %s is missing", d->gguf->path, name);
    }
    const bool fits = r->n_dims == 2 ? t->n_dims == 2 && t->ne[0] == cols && t->ne[1] == total
                                     : t->ne[0] == total && t->ne[1] == 1 && t->ne[2] == 1 && t->ne[3] == 1;
    if (!fits) {
        if (r->n_dims == 2)
            die("%s: tensor %s is %s; the hyperparameters ask for %llu x %llu", d->gguf->path, t->name, shape_text(d->arena, t),
                (unsigned long long)total, (unsigned long long)cols);
        die("%s: tensor %s is %s; the hyperparameters ask for %llu", d->gguf->path, t->name, shape_text(d->arena, t), (unsigned long long)total);
    }
    if (r->n_dims == 1 && t->quant->block_weights != 1)
        die("%s: tensor %s is %s; a vector must be F32, F16 or BF16", d->gguf->path, t->name, t->quant->name);
    struct weight *w = &m->weights[m->n_weights];
    *w = (struct weight){ .role = r->name, .name = t->name, .tensor = t, .layer = layer, .row0 = row0, .rows = rows, .cols = cols,
                          .is_vector = r->n_dims == 1, .index = m->n_weights };
    m->n_weights++;
    m->n_parameters += rows * cols;
    r->weights[layer == NO_LAYER ? 0 : layer] = w;
    used[t - d->gguf->tensors] = true;
}

static void bind_all(struct described *d, struct model *m)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < m->n_roles; i++) most += m->roles[i].in_layer ? m->n_layer : 1;
    m->weights = arena_array(d->arena, struct weight, most);
    bool *used = arena_array(d->arena, bool, d->gguf->n_tensors);
    for (uint32_t i = 0; i < m->n_roles; i++) {
        struct role *r = &m->roles[i];
        if (!r->in_layer) bind(d, m, r, NO_LAYER, used);
        else for (uint32_t l = 0; l < m->n_layer; l++) bind(d, m, r, l, used);
    }
    uint64_t unused = 0;
    const char *example = "";
    for (uint64_t i = 0; i < d->gguf->n_tensors; i++)
        if (!used[i]) { unused++; example = d->gguf->tensors[i].name; }
    if (unused) warn("%s: %llu tensors are not used by architecture %s, %s among them", d->gguf->path, (unsigned long long)unused, d->architecture, example);
}

/* The wiring's first line and, as a block of text loses its indentation, its first column. */
static void read_graph(const struct described *d, struct model *m)
{
    for (uint32_t i = 0; i < d->n_files && !m->graph_text; i++) {
        const struct yaml *graph = yaml_get(d->files[i], "graph");
        if (!graph) continue;
        m->graph_text = yaml_string(graph);
        m->graph_at = graph->at;
        m->graph_at.line++;
        const char *line = (const char *)d->texts[i].data;                 /* a NUL follows: resource.h */
        for (uint32_t k = 0; k < graph->at.line && line; k++) if ((line = strchr(line, '\n'))) line++;
        m->graph_at.column = 1 + (line ? (uint32_t)strspn(line, " ") : 0);
    }
    if (!m->graph_text) die_at(d->files[0]->at, "graph is missing");
}

uint32_t model_context(const struct model *m, uint32_t n_ctx)
{
    const uint32_t most = 8192;
    return n_ctx ? n_ctx : m->n_ctx_train < most ? m->n_ctx_train : most;
}

/* What the model has learnt to look back over.  A scaled rotation stretches the original context; context_length may or may not
 * count that in. */
static void check_context(const struct described *d, const struct model *m, uint32_t n_ctx)
{
    const double factor = m->rope_scaling == ROPE_NONE ? 0 : m->rope_factor > 0 ? m->rope_factor : m->rope_factor_old;
    const double stretched = factor > 1 ? factor * m->rope_n_ctx_orig : 0;
    const double trained = stretched > m->n_ctx_train ? stretched : m->n_ctx_train;
    if (n_ctx <= trained) return;
    struct text how = { .arena = d->arena };
    if (trained > m->n_ctx_train)
        text_printf(&how, " (%u, stretched %g times by its %s scaling)", m->rope_n_ctx_orig, factor, m->rope_scaling == ROPE_YARN ? "YaRN" : "linear");
    warn("%s: a context of %u tokens is longer than the %.0f%s that the model was trained for; beyond them its answers get worse;"
         " --ctx %.0f keeps within", d->gguf->path, n_ctx, trained, text_str(&how), trained);
}

struct model *model_describe(struct arena *a, const struct gguf *g, const struct model_options *options)
{
    static const struct model_options defaults = { 0 };
    const struct model_options *o = options ? options : &defaults;
    const char *directory = o->directory;
    struct described d = { .arena = a, .gguf = g, .directory = directory };
    struct gguf_string arch;
    if (!gguf_get_string(g, "general.architecture", &arch)) die("%s: the key general.architecture is missing", g->path);
    for (uint64_t i = 0; i < arch.size; i++) {
        const char c = arch.data[i];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
        if (!plain || arch.size > 40) die("%s: general.architecture is \"%s\", which is no architecture's name", g->path, printable(a, arch.data, arch.size));
    }
    d.architecture = arena_strndup(a, arch.data, arch.size);
    struct yaml *file = d.files[0] = model_file(a, directory, d.architecture, &d.texts[0]);
    if (!file || !yaml_get(file, "architecture")) {
        struct text known = { .arena = a };
        for (const char **n = model_names(a, directory); *n; n++) text_printf(&known, "%s%s", known.size ? ", " : "", *n);
        die("%s: architecture \"%s\" is not supported; forgec knows %s", g->path, d.architecture, text_str(&known));
    }
    const struct yaml *own_name = yaml_get(file, "architecture");
    if (strcmp(yaml_string(own_name), d.architecture)) die_at(own_name->at, "the architecture is \"%s\" but the file is named after %s", yaml_string(own_name), d.architecture);
    read_files(&d, directory);

    struct model *m = arena_new(a, struct model);
    m->gguf = g;
    m->architecture = d.architecture;
    struct gguf_string name;
    m->name = gguf_get_string(g, "general.name", &name) ? printable(a, name.data, name.size) : "unnamed";
    read_params(&d, m);
    check_params(&d, m);
    const uint32_t n_ctx = model_context(m, o->n_ctx);
    keys_check(&d, m, o, n_ctx);
    read_roles(&d, m);
    bind_all(&d, m);
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

double model_rope_frequencies(const struct model *m, const float *factors, double *freq)
{
    const double pi = 3.14159265358979323846;
    const double factor = m->rope_factor > 0 ? m->rope_factor : m->rope_factor_old;
    const double scale = m->rope_scaling == ROPE_NONE || factor <= 0 ? 1.0 : 1.0 / factor;
    const double n_rot = m->n_rot, ext = m->rope_ext_factor;
    /* Dimension whose wave turns `beta` times over the original context (YaRN, section 3.2). */
    const double fast = n_rot * log(m->rope_n_ctx_orig / (m->rope_beta_fast * 2 * pi)) / (2 * log(m->rope_base));
    const double slow = n_rot * log(m->rope_n_ctx_orig / (m->rope_beta_slow * 2 * pi)) / (2 * log(m->rope_base));
    const double low = fmax(0, floor(fast)), high = fmin(n_rot - 1, ceil(slow));
    for (uint32_t i = 0; i < m->n_rot / 2; i++) {
        const double plain = pow(m->rope_base, -2.0 * i / n_rot) / (factors ? (double)factors[i] : 1.0);
        double mix = 1;                                            /* share of the interpolated frequency */
        if (ext > 0) mix = 1 - ext * (1 - fmin(1, fmax(0, (i - low) / fmax(0.001, high - low))));
        freq[i] = plain * (1 - mix) + plain * scale * mix;
    }
    return m->rope_attn_factor * (ext > 0 ? 1 + 0.1 * log(1 / scale) : 1.0);
}

void weight_to_float(float *out, const struct weight *w, uint64_t first_row, uint64_t n_rows)
{
    const struct quant_info *q = w->tensor->quant;
    const uint64_t row_bytes = w->cols / q->block_weights * q->block_bytes;
    const uint8_t *data = w->is_vector ? w->tensor->data + w->row0 * q->block_bytes : w->tensor->data + (w->row0 + first_row) * row_bytes;
    dequantize_row_ref(q->id, out, data, n_rows * w->cols);
}

const char *model_formats(struct arena *a, const struct model *m)
{
    enum { MAX_ID = 64 };
    uint32_t count[MAX_ID] = { 0 };
    for (uint32_t i = 0; i < m->n_weights; i++) count[m->weights[i].tensor->quant->id]++;
    struct text t = { .arena = a };
    for (;;) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < MAX_ID; i++) if (count[i] > count[best]) best = i;
        if (!count[best]) return text_str(&t);
        text_printf(&t, "%s%s %u", t.size ? ", " : "", quant_find(best)->name, count[best]);
        count[best] = 0;
    }
}

const char **model_names(struct arena *a, const char *directory)
{
    const char **paths = resource_list(a, directory, "models/");
    uint32_t n = 0;
    while (paths[n]) n++;
    const char **names = arena_array(a, const char *, n + 1);
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *file = strrchr(paths[i], '/') + 1;
        const size_t length = strlen(file);
        if (length < 6 || strcmp(file + length - 5, ".yaml") != 0) continue;
        const char *name = arena_strndup(a, file, length - 5);
        struct bytes text;
        const struct yaml *y = model_file(a, directory, name, &text);
        if (y && yaml_get(y, "architecture")) names[count++] = name;
    }
    return names;
}
