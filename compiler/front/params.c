/* params.c -- hyperparameters: each is read when first needed, so that defaults may name any other parameter. */
#include "params.h"
#include "expr.h"
#include "keys.h"
#include "runtime/model/pool.h"
#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <math.h>
#include <string.h>

enum param_id {
#define PARAM(name, type, least, most, scope) PARAM_##name,
#include "param.def"
#undef PARAM
    N_KNOWN
};

enum scope { MODEL, LAYER };

/* What is known about a parameter before it is read. */
struct reading {
    enum { UNREAD, READING, READ } state;
    enum scope   scope;
    double       least, most;
    struct yaml *entry;               /* in the most derived file that has it */
    struct yaml *fallback;            /* its default, or the entry itself if that is a plain value; or NULL */
    bool         per_layer;           /* the file may have an array */
    enum only { ANY, ARRAY, SCALAR } only;        /* kind of value in a file that it reads; the other is another parameter's */
    enum needed { NEVER, ALWAYS, WHERE_USED } needed;     /* whether the file must have the key */
};

struct params {
    const struct described *d;
    struct model           *m;
    struct reading *readings; /* [m->n_params] */
    uint32_t                n_ctx;    /* requested by the user, or 0 */
    bool                    drafts;   /* the draft block is requested */
    const char             *scaling_name;     /* of the rotation, as in the file */
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

/* The entry that declares one of the architecture's own parameters: the most derived entry with a type. */
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

/* Names must be valid in wirings and shapes, and must not mean anything else there. */
static void check_name(struct place at, const char *name)
{
    static const char *const taken[] = { "true", "false", "n_embd_per_head", "rows_of_token_embd", "n_q", "n_kv", "n_v", "n_kqv",
                                         "n_rot_half", "layer", "n_ctx", "yarn", "not", "and", "or", "sqrt", "ln", "pow", "floor", "min",
                                         "max" };
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

/* Collects all parameters. An entry that nothing uses by name would be a key that looks read but is not, so each must be known or
 * declared. */
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
                       "parameter \"%s\" is unknown to forgec; a parameter of the architecture's own needs a type: u32, f64 or bool",
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

/* The key that the file has. If it has both, their values must be equal. */
static const char *key_of_two(const struct gguf *g, const char *key, const char *other)
{
    double x, y;
    if (!gguf_find(g, other)) return key;
    if (!gguf_find(g, key)) return other;
    if (gguf_get_f64(g, key, &x) && gguf_get_f64(g, other, &y) && x != y)
        die("%s: %s is %g but %s is %g; one of them is wrong", g->path, key, x, other, y);
    return key;
}

static enum only read_only(const struct yaml *y)
{
    if (strcmp(yaml_string(y), "array") == 0) return ARRAY;
    if (strcmp(yaml_string(y), "scalar") == 0) return SCALAR;
    die_at(y->at, "the value of only must be array or scalar");
}

/* always: for a key with a default, which only replaces values that mean "none". where used: the key may be missing until it is used. */
static enum needed read_needed(const struct yaml *y, bool key, bool has_default)
{
    if (strcmp(yaml_string(y), "always") == 0 && key && has_default) return ALWAYS;
    if (strcmp(yaml_string(y), "where used") == 0 && key && !has_default) return WHERE_USED;
    die_at(y->at, "the value of needed must be always, if the key has a default, or where used, if it has none");
}

static void open_entry(struct params *s, struct param *p, struct reading *r)
{
    static const char *const keys[] = { "key", "or_key", "only", "needed", "default", "none", "per_layer", "where", "otherwise", NULL };
    static const char *const own_keys[] = { "key", "or_key", "only", "needed", "default", "none", "per_layer", "where", "otherwise",
                                            "type", "least", "most", NULL };
    r->entry = find_entry(s->d, p->name);
    if (r->entry->kind == YAML_SCALAR) { r->fallback = r->entry; return; }
    yaml_only(r->entry, p->is_own ? own_keys : keys);
    const struct yaml *key = yaml_get(r->entry, "key"), *per_layer = yaml_get(r->entry, "per_layer");
    const struct yaml *or_key = yaml_get(r->entry, "or_key"), *needed = yaml_get(r->entry, "needed");
    const struct yaml *only = yaml_get(r->entry, "only");
    if (key) p->key = described_name(s->d, yaml_string(key), 0);
    if (or_key && (!key || p->type != VALUE_F64)) die_at(or_key->at, "or_key needs a key and the type f64");
    if (or_key) p->key = key_of_two(s->d->gguf, p->key, described_name(s->d, yaml_string(or_key), 0));
    r->fallback = yaml_get(r->entry, "default");
    r->needed = needed ? read_needed(needed, key != NULL, r->fallback != NULL) : !r->fallback ? ALWAYS : NEVER;
    r->per_layer = per_layer && yaml_bool(per_layer);
    if (r->scope == MODEL && (r->per_layer || yaml_get(r->entry, "where")))
        die_at(r->entry->at, "%s is one value for the whole model; it cannot differ by layer", p->name);
    if (!yaml_get(r->entry, "where") != !yaml_get(r->entry, "otherwise"))
        die_at(r->entry->at, "where and otherwise belong together; add the missing key");
    if (only) r->only = read_only(only);
    const struct yaml *none = yaml_get(r->entry, "none");
    if (none && (!key || !r->fallback)) die_at(none->at, "none needs a key and a default, which replaces the values that mean none");
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
        die("%s: embedding_length %u is not a multiple of head_count %u and attention.key_length is missing", s->d->gguf->path, n_embd,
            n_head);
    return n_embd / n_head;
}

/* True if the text names a parameter or a derived size; *out: its value in that layer. */
static bool named_value(struct params *s, const struct yaml *y, enum value_type type, uint32_t layer, double *out)
{
    const char *name = yaml_string(y);
    const struct param *other = model_param(s->m, name);
    if (strcmp(name, "n_embd_per_head") == 0) *out = n_embd_per_head(s);
    else if (strcmp(name, "layer") == 0) *out = layer;
    else if (strcmp(name, "n_ctx") == 0) *out = model_context((uint32_t)read_values(s, PARAM_n_ctx_train)[0], s->n_ctx);
    else if (strcmp(name, "yarn") == 0) *out = s->m->rope_scaling == ROPE_YARN;
    else if (strcmp(name, "rows_of_token_embd") == 0) *out = rows_of_token_embd(s->d);
    else if (!other) return false;
    else {
        const uint32_t i = (uint32_t)(other - s->m->params);
        if (other->type != type && !(other->type == VALUE_U32 && type == VALUE_F64))
            die_at(y->at, "%s is a %s; a %s is needed here", name, type_name[other->type], type_name[type]);
        if (s->readings[i].state == READING) die_at(y->at, "%s depends on itself", name);
        *out = read_values(s, i)[layer];
    }
    return true;
}

/* Context for a name within an expression. */
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
    else value = expr_any_value(y->at, yaml_string(y), find_named, &names);
    const bool finite = isfinite(value);
    if (!finite || (type == VALUE_U32 && value != floor(value)))
        die_of_keys(s->d->arena, s->m, y->at, yaml_string(y), finite ? "%s is not a whole number" : "\"%s\" is not a finite number",
                    model_in_keys(s->d->arena, s->m, yaml_string(y)));
    return value;
}

/* A key that is needed only where its parameter is used may be missing until then. The same holds for parameters that depend on it. */
static const char *missing_of(const struct params *s, const struct param *p, const struct reading *r)
{
    if (!r->fallback) return r->needed == WHERE_USED ? p->key : NULL;
    const struct param *other = r->fallback->kind == YAML_SCALAR ? model_param(s->m, yaml_string(r->fallback)) : NULL;
    return other ? other->missing : NULL;
}

static double fallback_value(struct params *s, struct param *p, const struct reading *r, uint32_t layer)
{
    const struct yaml *y = r->fallback;
    if (y && y->kind == YAML_SCALAR && model_param(s->m, yaml_string(y))) yaml_value(s, y, p->type, layer);
    if ((p->missing = missing_of(s, p, r)) || !y) return 0;
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

/* True if the value requires something: it is not 0, not false and not the parameter's value without the key. */
static bool asks(const struct reading *r, double value)
{
    const char *text = r->fallback && r->fallback->kind == YAML_SCALAR ? yaml_string(r->fallback) : "";
    const bool literal = *text && strchr("0123456789-.", *text) && !expr_is_compound(text);
    return value != 0 && !(literal && value == yaml_f64(r->fallback)) && !(strcmp(text, "true") == 0 && value == 1);
}

enum { LONGEST_NAME = 64 };

/* Copies the name at p and returns its length; 0: there is no name. */
static size_t name_at(const char *p, char name[LONGEST_NAME])
{
    const size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    memcpy(name, p, n < LONGEST_NAME ? n : 0);
    name[n < LONGEST_NAME ? n : 0] = 0;
    return n;
}

/* Records the parameters that an entry names, also in parts of the entry that this file does not need. */
static void note_names(struct params *s, struct param *p, const struct yaml *y)
{
    char name[LONGEST_NAME];
    for (uint32_t i = 0; y && y->kind == YAML_LIST && i < y->count; i++) note_names(s, p, y->items[i]);
    if (!y || y->kind != YAML_SCALAR) return;
    const char *text = yaml_string(y);
    for (size_t n; *text; text += n ? n : 1) {
        n = name_at(text, name);
        const struct param *other = model_param(s->m, name);
        if (other) p->names[other - s->m->params] = true;
    }
}

/* The file's value for the key; NULL if it has none. An empty array or text also means none. */
static const struct gguf_value *find_value(const struct params *s, const struct param *p, const struct reading *r)
{
    const struct gguf_value *v = p->key ? gguf_find(s->d->gguf, p->key) : NULL;
    if (v && ((v->type == GGUF_ARRAY && !v->count) || (v->type == GGUF_STRING && !v->string.size))) return NULL;
    if (v && r->only != ANY && (v->type == GGUF_ARRAY) != (r->only == ARRAY)) return NULL;
    return v;
}

/* Some converters write "none" as a value without meaning for the key. The same holds for a 0 that is out of the parameter's range, except
 * for sizes of the whole model. */
static bool says_none(const struct param *p, const struct reading *r, double value)
{
    const struct yaml *none = yaml_get(r->entry, "none");
    return r->fallback && p->key && ((none && value == yaml_f64(none)) || (value == 0 && r->least > 0 && r->scope != MODEL));
}

/* The parameter's key, or the keys of the parameters that it depends on. */
static const char *what_gives(const struct params *s, const struct param *p)
{
    struct text t = { .arena = s->d->arena };
    if (p->key) return p->key;
    for (uint32_t i = 0; i < s->m->n_params; i++)
        if (p->names[i] && s->m->params[i].key) text_printf(&t, "%s%s", t.size ? " and " : ", of ", s->m->params[i].key);
    return arena_printf(s->d->arena, "%s%s", p->name, t.size ? text_str(&t) : "");
}

static double read_value(struct params *s, struct param *p, const struct reading *r, uint32_t layer)
{
    const struct yaml *where = yaml_get(r->entry, "where"), *otherwise = yaml_get(r->entry, "otherwise");
    const struct gguf_value *v = find_value(s, p, r);
    double value, holds = 1;
    if (where && !named_value(s, where, VALUE_BOOL, layer, &holds)) die_at(where->at, "there is no parameter %s", yaml_string(where));
    if (holds == 0) value = yaml_value(s, otherwise, p->type, layer);
    else if (!v && r->needed == ALWAYS) missing_key(s->d, p->name, p->key);
    else if (!v) value = fallback_value(s, p, r, layer);
    else if (v->type == GGUF_ARRAY) value = array_value(s, p, r, v, layer);
    else value = scalar_value(s->d->gguf, p);
    if (v && holds != 0 && says_none(p, r, value)) value = fallback_value(s, p, r, layer);
    else if (v && holds != 0) p->asks |= asks(r, value);
    if (p->missing) return 0;
    if (!(value >= r->least && value <= r->most))
        die("%s: %s is %.10g; forgec supports %.10g to %.10g", s->d->gguf->path, what_gives(s, p), value, r->least, r->most);
    return value;
}

/* Two keys and a word say how a rotation is scaled. They are reduced to rope_factor (1: not scaled) and rope_ext_factor (0 to 1), for every
 * reader: other parameters depend on them too. */
static double settled_factor(struct params *s, double factor, uint32_t layer)
{
    const char *path = s->d->gguf->path;
    const double old = read_values(s, PARAM_rope_factor_old)[layer];
    if ((factor > 0 && factor < 1) || (old > 0 && old < 1))
        die("%s: the rotation's scaling factor is %g; it must be 0 (none) or at least 1", path, factor > 0 && factor < 1 ? factor : old);
    if (factor > 0 && old > 0 && factor != old)
        die("%s: rope.scaling.factor is %g but rope.scale_linear is %g; one of them is wrong", path, factor, old);
    if (factor <= 0) factor = old;
    return factor <= 0 || s->m->rope_scaling == ROPE_NONE ? 1 : factor;
}

static double settled_ext_factor(const struct params *s, double ext)
{
    if (ext < 0 && ext != -1)
        die("%s: rope.scaling.yarn_ext_factor is %g; it must be -1 (as the type of the scaling says) or 0 to 1", s->d->gguf->path, ext);
    return s->m->rope_scaling != ROPE_YARN ? 0 : ext == -1 ? 1 : ext;
}

/* Warns about a factor without effect: someone may have switched the scaling off, or its type may have been lost. */
static void warn_of_idle_factor(const struct params *s)
{
    static const enum param_id factors[] = { PARAM_rope_factor, PARAM_rope_factor_old };
    for (uint32_t i = 0; i < COUNT_OF(factors) && s->m->rope_scaling == ROPE_NONE; i++) {
        const char *key = s->m->params[factors[i]].key;
        double factor = 0;
        if (!key || !gguf_find(s->d->gguf, key) || !gguf_get_f64(s->d->gguf, key, &factor) || factor <= 1) continue;
        warn("%s: %s is %g, but rope.scaling.type is %s: it stretches nothing", s->d->gguf->path, key, factor, s->scaling_name);
    }
}

/* [n_described] values of parameter i. The number of layers is needed to read any other parameter; the parameters it depends on have one
 * value, and are read again when it is known. */
static const double *read_values(struct params *s, uint32_t i)
{
    struct param *p = &s->m->params[i];
    struct reading *r = &s->readings[i];
    if (r->state == READ) return p->values;
    if (r->state == READING) die_at(r->entry->at, "%s depends on itself", p->name);
    r->state = READING;
    const struct reading *layers = &s->readings[PARAM_n_layer];
    if (layers->state == UNREAD) read_values(s, PARAM_n_layer);
    open_entry(s, p, r);
    p->names = arena_array(s->d->arena, bool, s->m->n_params);
    note_names(s, p, r->fallback);
    note_names(s, p, yaml_get(r->entry, "where"));
    note_names(s, p, yaml_get(r->entry, "otherwise"));
    const bool early = layers->state == READING;
    const uint32_t n = early ? 1 : s->m->n_described;
    double *values = arena_array(s->d->arena, double, n);
    for (uint32_t l = 0; l < n; l++) {
        values[l] = read_value(s, p, r, l);
        if (i == PARAM_rope_factor) values[l] = settled_factor(s, values[l], l);
        if (i == PARAM_rope_ext_factor) values[l] = settled_ext_factor(s, values[l]);
    }
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

static enum rope_scaling read_rope_scaling(struct params *s)
{
    const struct described *d = s->d;
    static const struct { const char *name; enum rope_scaling scaling; } names[] = {
        { "none", ROPE_NONE }, { "linear", ROPE_LINEAR }, { "yarn", ROPE_YARN },
        { "longrope", ROPE_NONE },      /* its factors are tensors */
    };
    static const char *const keys[] = { "key", "default", "values", NULL };
    struct yaml *entry = find_entry(d, "rope_scaling");
    yaml_only(entry, keys);
    const struct yaml *key = yaml_get(entry, "key"), *fallback = yaml_get(entry, "default"), *allowed = yaml_need(entry, "values");
    const char *name = key ? described_name(d, yaml_string(key), 0) : NULL, *text = fallback ? yaml_string(fallback) : NULL;
    struct gguf_string word;
    if (name && gguf_get_string(d->gguf, name, &word) && word.size) text = printable(d->arena, word.data, word.size);
    if (!text) missing_key(d, "rope_scaling", name);
    s->scaling_name = text;
    for (uint32_t i = 0; i < allowed->count; i++)
        for (uint32_t k = 0; k < COUNT_OF(names); k++)
            if (strcmp(yaml_string(allowed->items[i]), names[k].name) == 0 && strcmp(text, names[k].name) == 0) return names[k].scaling;
    die("%s: %s is \"%s\", which architecture %s does not know", d->gguf->path, name ? name : "rope_scaling", text, d->architecture);
}

/* Refuses rotations that the formulas cannot mean: they would rotate nothing, rotate everything equally, or give values that are not
 * finite. */
static void check_rope(const char *path, const struct model *m, uint32_t l)
{
    const double fast = m->params[PARAM_rope_beta_fast].values[l], slow = m->params[PARAM_rope_beta_slow].values[l];
    const double n_rot = m->params[PARAM_n_rot].values[l];
    if (fast <= slow)
        die("%s: rope.scaling.yarn_beta_fast is %g and yarn_beta_slow %g; the fast one must be larger", path, fast, slow);
    if (n_rot > m->layers[l].head_dim || fmod(n_rot, 2) != 0)
        die("%s: rope.dimension_count is %.0f; it must be even and at most attention.key_length, %u", path, n_rot, m->layers[l].head_dim);
}

/* ---- checks for other stages than the graph ---- */

static void check_params(const struct described *d, const struct model *m)
{
    const char *path = d->gguf->path;
    for (uint32_t l = 0; l < m->n_described; l++) {
        const struct layer_shape *s = &m->layers[l];
        if (s->n_head_kv > s->n_head || (s->n_head_kv && s->n_head % s->n_head_kv))
            die("%s: head_count %u in layer %u is not a multiple of head_count_kv %u", path, s->n_head, l, s->n_head_kv);
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
    if (m->n_ctx_train > 1u << 28) die("%s: context_length is %u; forgec supports at most %u", path, m->n_ctx_train, 1u << 28);
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

/* Checks that there is a draft block, before any of its values is read. */
static void check_drafts(struct params *s)
{
    const struct param *p = model_param(s->m, "n_nextn");
    read_values(s, PARAM_n_layer);
    if (s->drafts && (!p || read_values(s, (uint32_t)(p - s->m->params))[0] == 0))
        die("%s: the file has no block that drafts tokens (nextn): nextn_predict_layers is 0 or absent; --spec ngram needs no draft block",
            s->d->gguf->path);
}

void params_read(const struct described *d, struct model *m, uint32_t n_ctx, bool drafts)
{
    struct params s = { .d = d, .m = m, .n_ctx = n_ctx, .drafts = drafts };
    m->n_layer = m->n_described = 1;
    find_all(&s);
    check_drafts(&s);
    m->rope_scaling = read_rope_scaling(&s);
    for (uint32_t i = 0; i < m->n_params; i++) read_values(&s, i);
    fill_model(d, m);
    check_params(d, m);
    warn_of_idle_factor(&s);
}

/* ---- errors in terms of the file's keys ---- */

static bool in_file(const struct model *m, const struct param *p) { return p->key && gguf_find(m->gguf, p->key); }

/* Marks p if the file has its key, else the parameters that p depends on. */
static void mark_keys(const struct model *m, const struct param *p, bool *seen, bool *told)
{
    if (seen[p - m->params]) return;
    seen[p - m->params] = true;
    told[p - m->params] = in_file(m, p);
    for (uint32_t i = 0; p->names && !told[p - m->params] && i < m->n_params; i++) if (p->names[i]) mark_keys(m, &m->params[i], seen, told);
}

static void mark_names(const struct model *m, const char *text, bool *seen, bool *told)
{
    char name[LONGEST_NAME];
    for (size_t n; *text; text += n ? n : 1) {
        n = name_at(text, name);
        const struct param *p = model_param(m, name);
        if (p) mark_keys(m, p, seen, told);
        else if (model_made_of(name)) mark_names(m, model_made_of(name), seen, told);
    }
}

/* "KEY is VALUE, KEY is VALUE", or "". */
static const char *keys_behind(struct arena *a, const struct model *m, const char *text)
{
    bool *seen = arena_array(a, bool, m->n_params), *told = arena_array(a, bool, m->n_params);
    struct text t = { .arena = a };
    mark_names(m, text, seen, told);
    for (uint32_t i = 0; i < m->n_params; i++)
        if (told[i])
            text_printf(&t, "%s%s is %s", t.size ? ", " : "", m->params[i].key, keys_value(a, gguf_find(m->gguf, m->params[i].key)));
    return t.size ? text_str(&t) : "";
}

const char *model_in_keys(struct arena *a, const struct model *m, const char *text)
{
    struct text t = { .arena = a };
    char name[LONGEST_NAME];
    for (size_t n; *text; text += n ? n : 1) {
        n = name_at(text, name);
        const struct param *p = model_param(m, name);
        if (p && in_file(m, p)) text_puts(&t, strchr(p->key, '.') + 1);
        else text_append(&t, text, n ? n : 1);
    }
    return text_str(&t);
}

void die_of_keys(struct arena *a, const struct model *m, struct place at, const char *text, const char *fmt, ...)
{
    char what[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    const char *keys = keys_behind(a, m, text);
    if (*keys) die("%s: %s: %s; convert the model again with a current converter", m->gguf->path, keys, what);
    die_at(at, "%s", what);
}

/* ---- access by name ---- */

const struct param *model_param(const struct model *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_params; i++) if (strcmp(m->params[i].name, name) == 0) return &m->params[i];
    return NULL;
}

static double value_of_all(const struct param *p, struct place at, uint32_t first, uint32_t n, bool zeros)
{
    for (uint32_t l = first + 1; l < n; l++)
        if (p->values[l] != p->values[first] && (zeros || p->values[l] != 0))
            die_at(at, "%s differs by layer, and this belongs to no layer", p->name);
    return p->values[first];
}

static void check_missing(const struct model *m, const struct param *p)
{
    if (p->missing)
        die("%s: the key %s is missing, which tensors of this file need (%s); convert the model again with a current converter",
            m->gguf->path, p->missing, p->name);
}

double param_value(const struct model *m, const struct param *p, struct place at, uint32_t layer)
{
    check_missing(m, p);
    return layer == NO_LAYER ? value_of_all(p, at, 0, m->n_layer, true) : p->values[layer];
}

double param_size(const struct model *m, const struct param *p, struct place at, uint32_t layer)
{
    uint32_t first = 0;
    check_missing(m, p);
    while (first + 1 < m->n_layer && p->values[first] == 0) first++;
    return layer == NO_LAYER ? value_of_all(p, at, first, m->n_layer, false) : p->values[layer];
}
