/* params.c -- hyperparameters: each is read when first needed, so that defaults may name any other. */
#include "params.h"
#include "expr.h"
#include "keys.h"
#include "runtime/model/pool.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum param_id {
#define PARAM(name, type, least, most, scope) PARAM_##name,
#include "param.def"
#undef PARAM
    N_KNOWN
};

enum scope { MODEL, LAYER };

/* What is known of a parameter before it is read. */
struct reading {
    enum { UNREAD, READING, READ } state;
    enum scope   scope;
    double       least, most;
    struct yaml *entry;               /* in the most derived file that has one */
    struct yaml *fallback;            /* its default, or the entry itself where that is a plain value; or NULL */
    bool         per_layer;           /* the file may have an array */
};

struct params {
    const struct described *d;
    struct model           *m;
    struct reading *readings; /* [m->n_params] */
    uint32_t                n_ctx;    /* that the user asked for, or 0 */
    bool                    drafts;   /* the block that drafts is asked for */
};

static const struct { const char *name; enum value_type type; double least, most; enum scope scope; } known[N_KNOWN] = {
#define PARAM(name, type, least, most, scope) { #name, VALUE_##type, least, most, scope },
#include "param.def"
#undef PARAM
};

static const char *const type_name[] = { [VALUE_U32] = "u32", [VALUE_F64] = "f64", [VALUE_BOOL] = "bool" };

/* ---- which parameters there are ---- */

static bool is_known(const char *name)
{
    for (uint32_t i = 0; i < N_KNOWN; i++) if (strcmp(known[i].name, name) == 0) return true;
    return strcmp(name, "rope_scaling") == 0;
}

/* The entry that declares one of the architecture's own: the most derived that has a type. */
static struct yaml *declaration(const struct described *d, const char *name)
{
    for (uint32_t i = 0; i < d->n_files; i++) {
        struct yaml *entry = yaml_get(yaml_get(d->files[i], "parameters"), name);
        if (yaml_get(entry, "type")) return entry;
    }
    return NULL;
}

static enum value_type read_type(const struct yaml *y)
{
    const char *word = yaml_string(y);
    for (uint32_t i = 0; i < COUNT_OF(type_name); i++) if (strcmp(type_name[i], word) == 0) return (enum value_type)i;
    die_at(y->at, "type is \"%.60s\"; it can be u32, f64 or bool", word);
}

/* Names that wirings and shapes can write, and that mean nothing else there. */
static void check_name(struct place at, const char *name)
{
    static const char *const taken[] = { "true", "false", "n_embd_per_head", "rows_of_token_embd", "n_q", "n_kv", "n_v", "n_kqv",
                                         "n_rot_half", "layer", "n_ctx", "not", "and", "or", "sqrt", "ln", "floor", "min", "max" };
    const size_t plain = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (!*name || name[plain] || strchr("0123456789", *name)) die_at(at, "a parameter's name is letters, digits and _, no digit first");
    for (uint32_t i = 0; i < COUNT_OF(taken); i++)
        if (strcmp(taken[i], name) == 0) die_at(at, "%s means something else already; choose another name", name);
}

static double bound(const struct yaml *entry, const char *which, double otherwise)
{
    const struct yaml *y = yaml_get(entry, which);
    return y ? yaml_f64(y) : otherwise;
}

static void declare_own(struct params *s, const char *name, const struct yaml *entry)
{
    const enum value_type type = read_type(yaml_get(entry, "type"));
    const double widest = type == VALUE_F64 ? DBL_MAX : type == VALUE_U32 ? UINT32_MAX : 1;
    struct reading *r = &s->readings[s->m->n_params];
    r->scope = LAYER;
    r->least = bound(entry, "least", type == VALUE_F64 ? -DBL_MAX : 0);
    r->most = bound(entry, "most", widest);
    if (type != VALUE_F64 && (r->least < 0 || r->most > widest)) die_at(entry->at, "a %s is 0 to %.0f", type_name[type], widest);
    s->m->params[s->m->n_params++] = (struct param){ .name = name, .type = type, .is_own = true };
}

/* An entry that nobody asks for by its name would be a key that looks read and is not: it must be known, or declared. */
static void find_all(struct params *s)
{
    const struct described *d = s->d;
    uint32_t most = N_KNOWN;
    for (uint32_t i = 0; i < d->n_files; i++) {
        const struct yaml *all = yaml_get(d->files[i], "parameters");
        if (all && all->kind != YAML_MAP) die_at(all->at, "parameters is a map of names and entries");
        if (all) most += all->count;
    }
    s->m->params = arena_array(d->arena, struct param, most);
    s->readings = arena_array(d->arena, struct reading, most);
    for (; s->m->n_params < N_KNOWN; s->m->n_params++) {
        const uint32_t i = s->m->n_params;
        s->m->params[i] = (struct param){ .name = known[i].name, .type = known[i].type };
        s->readings[i] = (struct reading){ .scope = known[i].scope, .least = known[i].least, .most = known[i].most };
    }
    for (uint32_t i = d->n_files; i-- > 0; ) {
        const struct yaml *all = yaml_get(d->files[i], "parameters");
        for (uint32_t k = 0; all && k < all->count; k++) {
            const char *name = all->keys[k];
            if (is_known(name) || model_param(s->m, name)) continue;
            const struct yaml *entry = declaration(d, name);
            check_name(all->key_places[k], name);
            if (!entry)
                die_at(all->key_places[k],
                       "parameter \"%s\" is unknown to forgec; one of the architecture's own has a type: u32, f64 or bool",
                       name);
            declare_own(s, name, entry);
        }
    }
}

/* ---- entries ---- */

static struct yaml *find_entry(const struct described *d, const char *name)
{
    struct yaml *entry = described_entry(d, "parameters", name);
    if (!entry) die_at(d->files[0]->at, "parameter %s is missing; add it under parameters", name);
    if (entry->kind != YAML_MAP && entry->kind != YAML_SCALAR)
        die_at(entry->at, "a parameter is a plain value, or a map with key and default");
    return entry;
}

static void open_entry(struct params *s, struct param *p, struct reading *r)
{
    static const char *const keys[] = { "key", "default", "none", "per_layer", "where", "otherwise", NULL };
    static const char *const own_keys[] = { "key", "default", "none", "unused", "per_layer", "where", "otherwise", "type", "least", "most",
                                            NULL };
    r->entry = find_entry(s->d, p->name);
    if (r->entry->kind == YAML_SCALAR) { r->fallback = r->entry; return; }
    yaml_only(r->entry, p->is_own ? own_keys : keys);
    const struct yaml *key = yaml_get(r->entry, "key"), *per_layer = yaml_get(r->entry, "per_layer");
    if (key) p->key = described_name(s->d, yaml_string(key), 0);
    r->fallback = yaml_get(r->entry, "default");
    r->per_layer = per_layer && yaml_bool(per_layer);
    if (r->scope == MODEL && (r->per_layer || yaml_get(r->entry, "where")))
        die_at(r->entry->at, "%s is one value for the whole model; it cannot differ by layer", p->name);
    if (!yaml_get(r->entry, "where") != !yaml_get(r->entry, "otherwise")) die_at(r->entry->at, "where and otherwise go together");
    const struct yaml *none = yaml_get(r->entry, "none"), *unused = yaml_get(r->entry, "unused");
    if (none && (!key || !r->fallback)) die_at(none->at, "none is for a key, and has its default");
    if (unused && !key) die_at(unused->at, "unused is for a key");
    if (!unused) return;
    double *value = arena_new(s->d->arena, double);
    *value = yaml_f64(unused);
    p->unused = value;
}

_Noreturn static void missing_key(const struct described *d, const char *name, const char *key)
{
    const char *other = key ? keys_other_prefix(d, key) : NULL;
    if (other) die("%s: the key %s is missing; the file has that of \"%s\", but general.architecture is \"%s\"; convert the model again",
                   d->gguf->path, key, printable(d->arena, other, strlen(other)), d->architecture);
    die("%s: the key %s is missing, which architecture %s needs; convert the model again with a current converter",
        d->gguf->path, key ? key : name, d->architecture);
}

/* ---- values ---- */

static const double *read_values(struct params *s, uint32_t i);

static double rows_of_token_embd(const struct described *d)
{
    const struct gguf_tensor *t = gguf_tensor_find(d->gguf, "token_embd.weight");
    if (!t) die("%s: tensor token_embd.weight is missing", d->gguf->path);
    return (double)t->ne[1];
}

static double n_embd_per_head(struct params *s)
{
    const uint32_t n_embd = (uint32_t)read_values(s, PARAM_n_embd)[0], n_head = (uint32_t)read_values(s, PARAM_n_head)[0];
    if (n_embd % n_head)
        die("%s: embedding_length %u is no multiple of head_count %u and attention.key_length is missing", s->d->gguf->path, n_embd,
            n_head);
    return n_embd / n_head;
}

/* Does the text name a parameter, or what is counted from others?  Its value in that layer. */
static bool named_value(struct params *s, const struct yaml *y, enum value_type type, uint32_t layer, double *out)
{
    const char *name = yaml_string(y);
    const struct param *other = model_param(s->m, name);
    if (strcmp(name, "n_embd_per_head") == 0) *out = n_embd_per_head(s);
    else if (strcmp(name, "layer") == 0) *out = layer;
    else if (strcmp(name, "n_ctx") == 0) *out = model_context((uint32_t)read_values(s, PARAM_n_ctx_train)[0], s->n_ctx);
    else if (strcmp(name, "rows_of_token_embd") == 0) *out = rows_of_token_embd(s->d);
    else if (!other) return false;
    else {
        const uint32_t i = (uint32_t)(other - s->m->params);
        if (other->type != type && !(other->type == VALUE_U32 && type == VALUE_F64))
            die_at(y->at, "%s is a %s; a %s is needed here", name, type_name[other->type], type_name[type]);
        if (s->readings[i].state == READING) die_at(y->at, "%s leads back to itself", name);
        s->m->params[i].used = true;
        *out = read_values(s, i)[layer];
    }
    return true;
}

/* A name within an expression. */
struct named { struct params *s; uint32_t layer; };

static bool find_named(void *context, struct place at, const char *name, double *out)
{
    const struct named *n = context;
    const struct yaml word = { .kind = YAML_SCALAR, .at = at, .scalar = name };
    const struct param *p = model_param(n->s->m, name);
    return named_value(n->s, &word, p ? p->type : VALUE_F64, n->layer, out);
}

static double yaml_value(struct params *s, const struct yaml *y, enum value_type type, uint32_t layer)
{
    struct named names = { s, layer };
    double value;
    if (!expr_is_compound(yaml_string(y))) {
        if (named_value(s, y, type, layer, &value)) return value;
        if (type == VALUE_BOOL) return yaml_bool(y);
        value = yaml_f64(y);
    }
    else value = expr_value(y->at, yaml_string(y), find_named, &names);
    if (type == VALUE_U32 && value != floor(value)) die_at(y->at, "%s is not a whole number", yaml_string(y));
    return value;
}

static double fallback_value(struct params *s, const struct param *p, const struct reading *r, uint32_t layer)
{
    const struct yaml *y = r->fallback;
    if (!y) missing_key(s->d, p->name, p->key);
    if (y->kind != YAML_LIST) return yaml_value(s, y, p->type, layer);
    if (!r->per_layer || !y->count) die_at(y->at, "%s takes one value; a list, repeated over the layers, needs per_layer: true", p->name);
    return yaml_value(s, y->items[layer % y->count], p->type, layer);
}

static double array_value(const struct params *s, const struct param *p, const struct reading *r, const struct gguf_value *v,
                          uint32_t layer)
{
    const char *path = s->d->gguf->path;
    const bool whole = v->item_type <= GGUF_I32 || v->item_type == GGUF_U64 || v->item_type == GGUF_I64;
    const bool number = whole || v->item_type == GGUF_F32 || v->item_type == GGUF_F64;
    if (!r->per_layer) die("%s: %s is an array; expected one value", path, p->key);
    if (p->type == VALUE_U32 ? !whole : p->type == VALUE_F64 ? !number : v->item_type != GGUF_BOOL)
        die("%s: %s is an array of %s; expected %s", path, p->key, gguf_type_name(v->item_type),
            p->type == VALUE_U32 ? "integers" : p->type == VALUE_F64 ? "numbers" : "bools");
    if (v->count < s->m->n_described)
        die("%s: %s has %llu items for %u layers", path, p->key, (unsigned long long)v->count, s->m->n_described);
    return p->type == VALUE_U32 ? (double)gguf_item_u64(v, layer) : gguf_item_f64(v, layer);
}

/* Integers are exact in a double up to 2^53. */
static double scalar_value(const struct gguf *g, const struct param *p)
{
    double number = 0;
    uint64_t whole = 0;
    bool truth = false;
    switch (p->type) {
    case VALUE_U32:  gguf_get_u64(g, p->key, &whole); return (double)whole;
    case VALUE_F64:  gguf_get_f64(g, p->key, &number); return number;
    case VALUE_BOOL: gguf_get_bool(g, p->key, &truth); return truth;
    }
    return 0;
}

/* A default that the file's own value makes needless has used its parameters all the same. */
static void use_names(struct params *s, const char *text)
{
    char name[64];
    for (size_t n; *text; text += n ? n : 1) {
        n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        if (!n || n >= sizeof name) continue;
        memcpy(name, text, n);
        name[n] = 0;
        const struct param *p = model_param(s->m, name);
        if (p) s->m->params[p - s->m->params].used = true;
    }
}

static double read_value(struct params *s, const struct param *p, const struct reading *r, uint32_t layer)
{
    const struct yaml *where = yaml_get(r->entry, "where"), *none = yaml_get(r->entry, "none");
    const struct gguf_value *v = p->key ? gguf_find(s->d->gguf, p->key) : NULL;
    double value, holds = 1;
    if (r->fallback && r->fallback->kind == YAML_SCALAR) use_names(s, yaml_string(r->fallback));
    if (where && !named_value(s, where, VALUE_BOOL, layer, &holds)) die_at(where->at, "there is no parameter %s", yaml_string(where));
    if (holds == 0) value = yaml_value(s, yaml_get(r->entry, "otherwise"), p->type, layer);
    else if (!v) value = fallback_value(s, p, r, layer);
    else if (v->type == GGUF_ARRAY) value = array_value(s, p, r, v, layer);
    else value = scalar_value(s->d->gguf, p);
    if (v && none && holds != 0 && value == yaml_f64(none)) value = fallback_value(s, p, r, layer);
    if (!(value >= r->least && value <= r->most))
        die("%s: %s is %.10g; forgec takes %.10g to %.10g", s->d->gguf->path, p->key ? p->key : p->name, value, r->least, r->most);
    return value;
}

/* [n_described] values of parameter i.  The number of layers is needed to read any other; what it itself is counted from has one value, and
 * is read again when it is known. */
static const double *read_values(struct params *s, uint32_t i)
{
    struct param *p = &s->m->params[i];
    struct reading *r = &s->readings[i];
    if (r->state == READ) return p->values;
    if (r->state == READING) die_at(r->entry->at, "%s leads back to itself", p->name);
    r->state = READING;
    const struct reading *layers = &s->readings[PARAM_n_layer];
    if (layers->state == UNREAD) read_values(s, PARAM_n_layer);
    open_entry(s, p, r);
    const bool early = layers->state == READING;
    const uint32_t n = early ? 1 : s->m->n_described;
    double *values = arena_array(s->d->arena, double, n);
    for (uint32_t l = 0; l < n; l++) values[l] = read_value(s, p, r, l);
    p->values = values;
    if (i == PARAM_n_layer) {
        s->m->n_layer = (uint32_t)values[0];
        s->m->n_described = s->m->n_layer + s->drafts;
        p->values = arena_array(s->d->arena, double, s->m->n_described);
        for (uint32_t l = 0; l < s->m->n_described; l++) p->values[l] = values[0];
    }
    r->state = early && i != PARAM_n_layer ? UNREAD : READ;
    return p->values;
}

/* ---- rotations ---- */

static enum rope_scaling read_rope_scaling(const struct described *d)
{
    static const struct { const char *name; enum rope_scaling scaling; } names[] = {
        { "none", ROPE_NONE }, { "linear", ROPE_LINEAR }, { "yarn", ROPE_YARN },
        { "longrope", ROPE_NONE },      /* its factors are tensors */
    };
    static const char *const keys[] = { "key", "default", "values", NULL };
    struct yaml *entry = find_entry(d, "rope_scaling");
    yaml_only(entry, keys);
    const struct yaml *key = yaml_get(entry, "key"), *fallback = yaml_get(entry, "default"), *allowed = yaml_need(entry, "values");
    const char *name = key ? described_name(d, yaml_string(key), 0) : NULL, *text = fallback ? yaml_string(fallback) : NULL;
    struct gguf_string s;
    if (name && gguf_get_string(d->gguf, name, &s)) text = printable(d->arena, s.data, s.size);
    if (!text) missing_key(d, "rope_scaling", name);
    for (uint32_t i = 0; i < allowed->count; i++)
        for (uint32_t k = 0; k < COUNT_OF(names); k++)
            if (strcmp(yaml_string(allowed->items[i]), names[k].name) == 0 && strcmp(text, names[k].name) == 0) return names[k].scaling;
    die("%s: %s is \"%s\", which architecture %s does not know", d->gguf->path, name ? name : "rope_scaling", text, d->architecture);
}

/* Rotations that the formulas cannot mean: they would turn nothing, or everything alike, or give no numbers. */
static void check_rope(const char *path, const struct model *m, uint32_t l)
{
    const double factor = m->params[PARAM_rope_factor].values[l], old = m->params[PARAM_rope_factor_old].values[l];
    const double fast = m->params[PARAM_rope_beta_fast].values[l], slow = m->params[PARAM_rope_beta_slow].values[l];
    const double ext = m->params[PARAM_rope_ext_factor].values[l], n_rot = m->params[PARAM_n_rot].values[l];
    if ((factor > 0 && factor < 1) || (old > 0 && old < 1))
        die("%s: the rotation's scaling factor is %g; it must be 0 (none) or at least 1", path, factor > 0 && factor < 1 ? factor : old);
    if (factor > 0 && old > 0 && factor != old)
        die("%s: rope.scaling.factor is %g but rope.scale_linear is %g; one of them is wrong", path, factor, old);
    if (fast <= slow)
        die("%s: rope.scaling.yarn_beta_fast is %g and yarn_beta_slow %g; the fast one must be larger", path, fast, slow);
    if (ext < 0 && ext != -1)
        die("%s: rope.scaling.yarn_ext_factor is %g; it must be -1 (as the type of the scaling says) or 0 to 1", path, ext);
    if (n_rot > m->layers[l].head_dim || fmod(n_rot, 2) != 0)
        die("%s: rope.dimension_count is %.0f; it must be even and at most key_length, %u", path, n_rot, m->layers[l].head_dim);
}

/* Two keys and a word say how a rotation is scaled; from here on rope_factor (1: not at all) and rope_ext_factor (0 to 1) say all of it. */
static void settle_scaling(struct model *m, uint32_t l)
{
    double *factor = &m->params[PARAM_rope_factor].values[l], *ext = &m->params[PARAM_rope_ext_factor].values[l];
    if (*factor <= 0) *factor = m->params[PARAM_rope_factor_old].values[l];
    if (*factor <= 0 || m->rope_scaling == ROPE_NONE) *factor = 1;
    if (*ext == -1) *ext = m->rope_scaling == ROPE_YARN;
}

/* ---- what the stages before and beside the graph need ---- */

static void check_params(const struct described *d, const struct model *m)
{
    const char *path = d->gguf->path;
    for (uint32_t l = 0; l < m->n_described; l++) {
        const struct layer_shape *s = &m->layers[l];
        if (s->n_head_kv > s->n_head || (s->n_head_kv && s->n_head % s->n_head_kv))
            die("%s: head_count %u in layer %u is no multiple of head_count_kv %u", path, s->n_head, l, s->n_head_kv);
        if (s->head_dim % 2) die("%s: attention.key_length is %u; it must be even", path, s->head_dim);
        check_rope(path, m, l);
        const double eps = m->params[PARAM_norm_eps].values[l];
        if (eps <= 0) die("%s: the norm epsilon is %g; it must be above 0", path, eps);
    }
    if (m->pooling == FORGE_POOL_RANK)
        die("%s: pooling_type is 4, rank: the model scores pairs of texts (a reranker), and forgec has no classifier; it builds language"
            " models, and models of embeddings with pooling_type 1 (mean), 2 (cls) or 3 (last)", path);
    if (!m->causal && !m->pooling)
        die("%s: its attention sees later tokens, so it generates no text, and it has no pooling_type 1 (mean), 2 (cls) or 3 (last), so it"
            " gives no vector of a text; forgec builds nothing else", path);
    if (m->n_ctx_train > 1u << 28) die("%s: context_length is %u; forgec takes at most %u", path, m->n_ctx_train, 1u << 28);
}

static uint32_t whole(const struct model *m, enum param_id id, uint32_t layer) { return (uint32_t)m->params[id].values[layer]; }

static void fill_model(const struct described *d, struct model *m)
{
    m->n_embd = whole(m, PARAM_n_embd, 0);
    m->n_ctx_train = whole(m, PARAM_n_ctx_train, 0);
    m->n_vocab = whole(m, PARAM_n_vocab, 0);
    m->pooling = whole(m, PARAM_pooling, 0);
    m->n_out = m->pooling ? m->n_embd : m->n_vocab;
    m->causal = m->params[PARAM_causal].values[0] != 0;
    m->layers = arena_array(d->arena, struct layer_shape, m->n_described);
    for (uint32_t l = 0; l < m->n_described; l++)
        m->layers[l] = (struct layer_shape){ .n_head = whole(m, PARAM_n_head, l), .n_head_kv = whole(m, PARAM_n_head_kv, l),
                                             .head_dim = whole(m, PARAM_head_dim, l), .value_dim = whole(m, PARAM_value_dim, l) };
}

/* Before any value of the block behind the layers is read: is there such a block? */
static void check_drafts(struct params *s)
{
    const struct param *p = model_param(s->m, "n_nextn");
    read_values(s, PARAM_n_layer);
    if (s->drafts && (!p || read_values(s, (uint32_t)(p - s->m->params))[0] == 0))
        die("%s: the file has no block that drafts tokens (nextn), which --spec mtp needs; --spec ngram drafts without one",
            s->d->gguf->path);
}

void params_read(const struct described *d, struct model *m, uint32_t n_ctx, bool drafts)
{
    struct params s = { .d = d, .m = m, .n_ctx = n_ctx, .drafts = drafts };
    m->n_layer = m->n_described = 1;
    find_all(&s);
    check_drafts(&s);
    for (uint32_t i = 0; i < m->n_params; i++) read_values(&s, i);
    m->rope_scaling = read_rope_scaling(d);
    fill_model(d, m);
    check_params(d, m);
    for (uint32_t l = 0; l < m->n_described; l++) settle_scaling(m, l);
}

/* ---- asked for by name ---- */

const struct param *model_param(const struct model *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_params; i++) if (strcmp(m->params[i].name, name) == 0) return &m->params[i];
    return NULL;
}

double param_value(const struct model *m, const struct param *p, struct place at, uint32_t layer)
{
    if (layer != NO_LAYER) return p->values[layer];
    for (uint32_t l = 1; l < m->n_layer; l++)
        if (p->values[l] != p->values[0]) die_at(at, "%s differs by layer, and this belongs to no layer", p->name);
    return p->values[0];
}
