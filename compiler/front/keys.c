/* keys.c -- checks hyperparameters. If a hyperparameter is not read, results are wrong and no later check finds it, because the reference
 * reads the same YAML. */
#include "keys.h"
#include "file_keys.h"
#include <string.h>

/* One value of the file: a scalar, or an item of an array. */
enum kind { KIND_NUMBER, KIND_BOOL, KIND_TEXT, KIND_OTHER };
struct scalar { enum kind kind; bool single; double number; bool truth; struct gguf_string text; };
static const char *const kind_name[] = { "a number", "true or false", "a text", "one value" };

static enum kind kind_of(enum gguf_type type)
{
    return type == GGUF_BOOL ? KIND_BOOL : type == GGUF_STRING ? KIND_TEXT : type == GGUF_ARRAY ? KIND_OTHER : KIND_NUMBER;
}

static struct scalar scalar_of(const struct gguf_value *v, uint64_t i)
{
    const enum gguf_type type = v->type == GGUF_ARRAY ? v->item_type : v->type;
    struct scalar s = { .kind = kind_of(type), .single = type == GGUF_F32 };
    if (v->type == GGUF_ARRAY) {
        if (s.kind == KIND_TEXT) s.text = v->strings[i];
        else if (s.kind != KIND_OTHER) s.number = gguf_item_f64(v, i);
        s.truth = s.number != 0;
    }
    else if (s.kind == KIND_TEXT) s.text = v->string;
    else if (s.kind == KIND_BOOL) s.truth = v->b;
    else s.number = type == GGUF_F32 || type == GGUF_F64 ? v->f : gguf_type_is_signed(type) ? (double)v->i : (double)v->u;
    return s;
}

static uint64_t value_count(const struct gguf_value *v) { return v->type == GGUF_ARRAY ? v->count : 1; }

static const char *scalar_text(struct arena *a, struct scalar s)
{
    if (s.kind == KIND_BOOL) return s.truth ? "true" : "false";
    if (s.kind == KIND_TEXT) return arena_printf(a, "\"%s\"", printable(a, s.text.data, s.text.size));
    return s.kind == KIND_NUMBER ? arena_printf(a, s.single ? "%.8g" : "%.10g", s.number) : "an array of arrays";
}

const char *keys_value(struct arena *a, const struct gguf_value *v)
{
    enum { SHOWN = 8 };
    if (v->type != GGUF_ARRAY) return scalar_text(a, scalar_of(v, 0));
    struct text t = { .arena = a };
    text_puts(&t, "[");
    for (uint64_t i = 0; i < v->count && i < SHOWN && v->item_type != GGUF_ARRAY; i++)
        text_printf(&t, "%s%s", i ? ", " : "", scalar_text(a, scalar_of(v, i)));
    text_puts(&t, v->count > SHOWN || v->item_type == GGUF_ARRAY ? ", ...]" : "]");
    return text_str(&t);
}

/* ---- values that change nothing ---- */

static const char context_word[] = "n_ctx_or_more";

static enum kind neutral_kind(const struct yaml *y)
{
    const char *s = yaml_string(y);
    if (y->quoted) return KIND_TEXT;
    if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0) return KIND_BOOL;
    return strcmp(s, context_word) == 0 || strchr("0123456789-.", *s) ? KIND_NUMBER : KIND_TEXT;
}

/* Converters write 0 or an empty text for "none"; false is listed explicitly. */
static bool says_none(struct scalar s)
{
    return (s.kind == KIND_NUMBER && s.number == 0) || (s.kind == KIND_TEXT && !s.text.size);
}

static bool neutral_matches(const struct yaml *y, struct scalar s, uint32_t n_ctx)
{
    if (neutral_kind(y) != s.kind) return false;
    switch (s.kind) {
    case KIND_BOOL:   return yaml_bool(y) == s.truth;
    case KIND_TEXT:   return strlen(yaml_string(y)) == s.text.size && (!s.text.size || !memcmp(yaml_string(y), s.text.data, s.text.size));
    case KIND_NUMBER: break;
    case KIND_OTHER:  return false;
    }
    if (strcmp(yaml_string(y), context_word) == 0) return s.number >= n_ctx;
    return s.single ? (float)yaml_f64(y) == (float)s.number : yaml_f64(y) == s.number;
}

static const char *neutral_text(const struct model *m, struct arena *a, const struct yaml *list, uint32_t n_ctx)
{
    struct text t = { .arena = a };
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->count; i++) n += list->items[i]->quoted || !model_param(m, yaml_string(list->items[i]));
    for (uint32_t i = 0, k = 0; i < list->count; i++) {
        const char *word = yaml_string(list->items[i]);
        if (!list->items[i]->quoted && model_param(m, word)) continue;
        text_puts(&t, k == 0 ? "" : k + 1 < n ? ", " : " or ");
        k++;
        if (strcmp(word, context_word) == 0) text_printf(&t, "at least the context, %u", n_ctx);
        else text_puts(&t, printable(a, word, strlen(word)));
    }
    return text_str(&t);
}

/* ---- one key ---- */

struct check {
    const struct described     *d;
    struct model               *m;
    const struct model_options *o;
    uint32_t                    n_ctx;
};

static bool is_key(const struct check *c, const char *pattern, const char *key)
{
    return described_matches(described_name(c->d, pattern, 0), key);
}

/* A parameter's name among the neutral values: if the parameter holds in all layers, any value is neutral. */
static bool is_held(const struct check *c, const struct yaml *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct param *p = list->items[i]->quoted ? NULL : model_param(c->m, yaml_string(list->items[i]));
        bool holds = p != NULL;
        for (uint32_t l = 0; holds && l < c->m->n_layer; l++) holds = p->values[l] != 0;
        if (holds) return true;
    }
    return false;
}

/* The parameter that reads this key; NULL: there is no such parameter. An entry that a derived file has replaced does not count. */
static const char *reader_of(const struct check *c, const char *key)
{
    for (uint32_t i = 0; i < c->d->n_files; i++) {
        const struct yaml *all = yaml_get(c->d->files[i], "parameters");
        for (uint32_t k = 0; all && k < all->count; k++) {
            const struct yaml *its = yaml_get(all->items[k], "key"), *other = yaml_get(all->items[k], "or_key");
            const bool counts = its && described_entry(c->d, "parameters", all->keys[k]) == all->items[k];
            if (counts && (is_key(c, yaml_string(its), key) || (other && is_key(c, yaml_string(other), key)))) return all->keys[k];
        }
    }
    return NULL;
}

/* The entry for the key in a section of one file. */
static const struct yaml *listed_in(const struct check *c, uint32_t file, const char *section, const char *key)
{
    const struct yaml *all = yaml_get(c->d->files[file], section);
    for (uint32_t k = 0; all && k < all->count; k++) if (is_key(c, all->keys[k], key)) return all->items[k];
    return NULL;
}

static bool is_ignored(const struct check *c, const struct gguf_pair *pair)
{
    for (uint32_t i = 0; i < c->o->n_ignored; i++) {
        if (!described_matches(c->o->ignored[i], pair->key)) continue;
        const char *key = printable(c->d->arena, pair->key, strlen(pair->key)), *value = keys_value(c->d->arena, &pair->value);
        c->m->ignored[c->m->n_ignored++] = (struct ignored){ "--ignore-key", key, value };
        warn("%s: %s is %s, which the program ignores, as --ignore-key says: its results can be wrong", c->d->gguf->path, key, value);
        return true;
    }
    return false;
}

static void refuse(const struct check *c, const struct gguf_pair *pair, const char *why)
{
    if (is_ignored(c, pair)) return;
    const char *key = printable(c->d->arena, pair->key, strlen(pair->key));
    die("%s: %s is %s; %s; to build all the same, give --ignore-key %s", c->d->gguf->path, key, keys_value(c->d->arena, &pair->value), why,
        key);
}

static void check_neutral(const struct check *c, const struct gguf_pair *pair, const struct yaml *list)
{
    struct arena *a = c->d->arena;
    const uint64_t n = value_count(&pair->value);
    bool all = pair->value.type != GGUF_ARRAY || pair->value.item_type != GGUF_ARRAY || !n, typed = all;
    if (is_held(c, list)) return;
    for (uint64_t i = 0; i < n && all; i++) {
        const struct scalar s = scalar_of(&pair->value, i);
        all = typed = says_none(s);
        for (uint32_t k = 0; k < list->count; k++) {
            typed = typed || neutral_kind(list->items[k]) == s.kind;
            all = all || neutral_matches(list->items[k], s, c->n_ctx);
        }
    }
    if (all) return;
    const char *wanted = neutral_text(c->m, a, list, c->n_ctx);
    if (!typed) refuse(c, pair, arena_printf(a, "%s is needed: %s", kind_name[neutral_kind(list->items[0])], wanted));
    else refuse(c, pair, arena_printf(a, "forgec does not support this value, only %s", wanted));
}

/* True for keys of a part for images or sound, which the program does not use. */
static bool is_of_tower(const struct check *c, const char *key)
{
    for (uint32_t i = 0; i < c->d->n_files; i++) {
        const struct yaml *all = yaml_get(yaml_get(c->d->files[i], "towers"), "keys");
        for (uint32_t k = 0; all && k < all->count; k++) if (is_key(c, yaml_string(all->items[k]), key)) return true;
    }
    return false;
}

/* An unknown key requires nothing if its value is 0, false or empty. */
static bool asks_nothing(const struct gguf_value *v)
{
    if (v->type == GGUF_ARRAY && v->item_type == GGUF_ARRAY && v->count) return false;
    for (uint64_t i = 0; i < value_count(v); i++) {
        const struct scalar s = scalar_of(v, i);
        if (!says_none(s) && !(s.kind == KIND_BOOL && !s.truth)) return false;
    }
    return true;
}

/* Checks a key of the file's own architecture. */
static void check_own(const struct check *c, const struct gguf_pair *pair)
{
    if (reader_of(c, pair->key)) return;
    for (uint32_t i = 0; i < c->d->n_files; i++) {
        const struct yaml *reason = listed_in(c, i, "harmless", pair->key), *neutral = listed_in(c, i, "neutral", pair->key);
        if (reason) return;
        if (neutral) { check_neutral(c, pair, neutral); return; }
    }
    if (is_of_tower(c, pair->key)) { c->m->n_tower_keys++; return; }
    if (asks_nothing(&pair->value)) return;
    refuse(c, pair, arena_printf(c->d->arena, "models/%s.yaml neither reads this hyperparameter nor knows it as harmless",
                                 c->d->architecture));
}

/* ---- keys of no architecture, or of another architecture ---- */

static const char *prefix_of(const struct described *d, const char *key)
{
    const char *dot = strchr(key, '.');
    return dot && dot > key ? arena_strndup(d->arena, key, (size_t)(dot - key)) : NULL;
}

const char *keys_other_prefix(const struct described *d, const char *key)
{
    const char *own = strchr(key, '.');
    for (uint64_t i = 0; own && i < d->gguf->n_pairs; i++) {
        const char *other = strchr(d->gguf->pairs[i].key, '.');
        if (other && strcmp(other, own) == 0 && strcmp(d->gguf->pairs[i].key, key)) return prefix_of(d, d->gguf->pairs[i].key);
    }
    return NULL;
}

/* Other tools may add keys of their own, but keys of an architecture are not accepted: one that forgec knows, or one with a block count. */
static bool is_architecture(const struct described *d, const char *prefix)
{
    return gguf_find(d->gguf, arena_printf(d->arena, "%s.block_count", prefix)) || model_is_known(d->arena, d->directory, prefix);
}

static void check_general(const struct check *c, const struct gguf_pair *pair)
{
    const struct scalar s = pair->value.type == GGUF_ARRAY ? (struct scalar){ .kind = KIND_OTHER } : scalar_of(&pair->value, 0);
    if (strcmp(pair->key, "general.type") == 0) {
        const bool is_model = s.kind == KIND_TEXT && s.text.size == 5 && memcmp(s.text.data, "model", 5) == 0;
        if (!is_model) refuse(c, pair, "forgec compiles only models; merge an adapter into its model first");
    }
    else if (strcmp(pair->key, "general.quantization_version") == 0) {
        if (s.kind != KIND_NUMBER || s.number != 2) refuse(c, pair, "forgec reads blocks of version 2; quantize the model again");
    }
    else if (strncmp(pair->key, "adapter.", 8) == 0)
        refuse(c, pair, "the file is an adapter, not a model; merge it into its model first");
}

/* True if the value turns the key off. A token may have the number 0. */
static bool is_idle(const struct gguf_pair *pair)
{
    const char *end = strrchr(pair->key, '_');
    const bool is_token = end && (strcmp(end, "_id") == 0 || strcmp(end, "_ids") == 0);
    return asks_nothing(&pair->value) && !(is_token && kind_of(pair->value.type) == KIND_NUMBER);
}

/* One warning for all keys of a kind that forgec does not know or does not implement: they may matter, but do not stop the build. */
static void warn_of(const struct check *c, enum file_key kind, const char *what)
{
    enum { SHOWN = 16 };
    struct arena *a = c->d->arena;
    struct text t = { .arena = a };
    uint32_t n = 0;
    for (uint64_t i = 0; i < c->d->gguf->n_pairs; i++) {
        const struct gguf_pair *pair = &c->d->gguf->pairs[i];
        if (strncmp(pair->key, "general.", 8) && strncmp(pair->key, "tokenizer.", 10)) continue;
        if (file_key_of(pair) != kind || is_idle(pair) || is_ignored(c, pair) || n++ >= SHOWN) continue;
        text_printf(&t, "%s%s is %s", n > 1 ? ", " : "", printable(a, pair->key, strlen(pair->key)), keys_value(a, &pair->value));
    }
    if (n > SHOWN) text_printf(&t, " and %u more", n - SHOWN);
    if (n) warn("%s: %s: %s", c->d->gguf->path, what, text_str(&t));
}

/* ---- all keys ---- */

/* Checks the form of the sections, so that a mistake is found even if no file has the key. */
static void check_sections(const struct described *d)
{
    for (uint32_t i = 0; i < d->n_files; i++) {
        const struct yaml *harmless = yaml_get(d->files[i], "harmless");
        const struct yaml *neutral = yaml_get(d->files[i], "neutral");
        if (harmless && harmless->kind != YAML_MAP) die_at(harmless->at, "harmless is a map of keys and reasons");
        if (neutral && neutral->kind != YAML_MAP) die_at(neutral->at, "neutral is a map of keys and lists of values");
        for (uint32_t k = 0; harmless && k < harmless->count; k++)
            if (!*yaml_string(harmless->items[k]))
                die_at(harmless->items[k]->at, "the reason why %s is harmless is needed here", harmless->keys[k]);
        for (uint32_t k = 0; neutral && k < neutral->count; k++) {
            const struct yaml *list = neutral->items[k];
            if (list->kind != YAML_LIST || !list->count) die_at(list->at, "a list of the values that change nothing is needed here");
            if (yaml_get(harmless, neutral->keys[k])) die_at(list->at, "%s stands under harmless, too", neutral->keys[k]);
            for (uint32_t n = 0; n < list->count; n++)
                if (neutral_kind(list->items[n]) == KIND_NUMBER && strcmp(yaml_string(list->items[n]), context_word))
                    yaml_f64(list->items[n]);
        }
    }
}

static void check_ignored(const struct check *c)
{
    for (uint32_t i = 0; i < c->o->n_ignored; i++) {
        const char *key = c->o->ignored[i], *shown = printable(c->d->arena, key, strlen(key));
        bool found = false;
        for (uint64_t k = 0; k < c->d->gguf->n_pairs; k++) found |= described_matches(key, c->d->gguf->pairs[k].key);
        if (!found) die("--ignore-key %s: %s has no such key", shown, c->d->gguf->path);
        const char *reader = strchr(key, '*') ? NULL : reader_of(c, key);      /* with "*", only keys without a reader are meant */
        if (reader) die("--ignore-key %s: architecture %s reads this key (%s); it cannot be ignored", shown, c->d->architecture, reader);
    }
}

/* An option without effect is a mistake, or left over from an older forgec. */
static void warn_of_idle(const struct check *c)
{
    for (uint32_t i = 0; i < c->o->n_ignored; i++) {
        const char *shown = printable(c->d->arena, c->o->ignored[i], strlen(c->o->ignored[i]));
        bool used = false;
        for (uint32_t k = 0; k < c->m->n_ignored; k++) used |= strcmp(c->m->ignored[k].name, shown) == 0;
        for (uint32_t k = 0; k < c->m->n_ignored && strchr(c->o->ignored[i], '*'); k++)
            used |= described_matches(c->o->ignored[i], c->m->ignored[k].name);
        if (!used) warn("--ignore-key %s: forgec would not refuse this key of %s; leave the option out", shown, c->d->gguf->path);
    }
}

void keys_check(const struct described *d, struct model *m, const struct model_options *o, uint32_t n_ctx)
{
    const struct check c = { d, m, o, n_ctx };
    check_sections(d);
    check_ignored(&c);
    m->ignored = arena_array(d->arena, struct ignored, d->gguf->n_pairs + o->n_ignored_tensors);
    for (uint64_t i = 0; i < d->gguf->n_pairs; i++) {
        const struct gguf_pair *pair = &d->gguf->pairs[i];
        const char *prefix = prefix_of(d, pair->key);
        if (!prefix) continue;
        if (strcmp(prefix, d->architecture) == 0) check_own(&c, pair);
        else if (strcmp(prefix, "general") == 0 || strcmp(prefix, "adapter") == 0) check_general(&c, pair);
        else if (is_architecture(d, prefix))
            refuse(&c, pair, arena_printf(d->arena, "it belongs to architecture %s, but general.architecture is %s",
                                          printable(d->arena, prefix, strlen(prefix)), d->architecture));
    }
    warn_of(&c, FILE_KEY_UNKNOWN, "keys that forgec does not know and the program does without");
    warn_of(&c, FILE_KEY_UNDONE, "tokens are drawn by penalties, top-k, top-p, min-p and temperature, in that order, without what the file"
                                 " asks for");
    warn_of_idle(&c);
}
