/* schema_merge.c -- combines several schemas into one: allOf, and keywords beside $ref; building trees; references. */
#include "schema_writer.h"

/* ---- building trees ---- */

bool schema_same(struct schema_writer *w, const struct json *a, const struct json *b)
{
    w->compared++;
    if (a == b) return true;
    if (a->kind != b->kind || a->n != b->n) return false;
    if (a->kind == JSON_STRING || a->kind == JSON_NUMBER) return memcmp(a->text, b->text, a->n) == 0;
    const struct json *x = a->first, *y = b->first;
    for (; x && y; x = x->next, y = y->next) {
        if (a->kind == JSON_OBJECT && (x->n_name != y->n_name || memcmp(x->name, y->name, x->n_name) != 0)) return false;
        if (!schema_same(w, x, y)) return false;
    }
    return !x && !y;
}

struct json *schema_json(struct schema_writer *w, enum json_kind kind)
{
    struct json *v = schema_take(w, sizeof *v);
    if (v) v->kind = kind;
    return v;
}

struct json *schema_add(struct schema_writer *w, struct json *in, const struct json *value, const char *name, size_t n_name)
{
    struct json *m = schema_take(w, sizeof *m), **to = &in->first;
    if (!m) return NULL;
    *m = *value;
    m->name = name;
    m->n_name = n_name;
    m->next = NULL;
    w->compared += in->n;
    while (*to) to = &(*to)->next;
    *to = m;
    in->n++;
    return m;
}

static struct json *member(struct schema_writer *w, struct json *o, const struct json *like)
{
    w->compared += o->n + 1;
    for (struct json *m = o->first; m; m = m->next)
        if (m->n_name == like->n_name && memcmp(m->name, like->name, m->n_name) == 0) return m;
    return NULL;
}

/* Replaces *a by {"allOf":[a,b]}. */
static bool both(struct schema_writer *w, struct json *a, const struct json *b)
{
    if (schema_same(w, a, b)) return true;
    struct json *list = schema_json(w, JSON_ARRAY), *o = schema_json(w, JSON_OBJECT);
    if (!list || !o || !schema_add(w, list, a, NULL, 0) || !schema_add(w, list, b, NULL, 0) || !schema_add(w, o, list, "allOf", 5))
        return false;
    a->kind = JSON_OBJECT;
    a->first = o->first;
    a->n = 1;
    return true;
}

/* ---- references ---- */

static bool unhex(const char *p, uint32_t *c)
{
    *c = 0;
    for (int i = 0; i < 2; i++) {
        const char x = p[i];
        const int d = x >= '0' && x <= '9' ? x - '0' : (x | 32) >= 'a' && (x | 32) <= 'f' ? (x | 32) - 'a' + 10 : -1;
        if (d < 0) return false;
        *c = *c << 4 | (uint32_t)d;
    }
    return true;
}

/* The object below `at` whose member `name` is this text [n]; NULL: none. */
static const struct json *find_with(struct schema_writer *w, const struct json *at, const char *name, const char *text, size_t n)
{
    const struct json *own = json_member(at, name), *found = NULL;
    if (own && own->kind == JSON_STRING && own->n == n && memcmp(own->text, text, n) == 0) return at;
    if (at->kind != JSON_OBJECT && at->kind != JSON_ARRAY) return NULL;
    w->compared += at->n;
    for (const struct json *m = at->first; m && !found; m = m->next) found = find_with(w, m, name, text, n);
    return found;
}

/* Resolves a pointer: "#", "#/$defs/name", with ~0 ~1 and %HH (RFC 6901); "#anchor"; each perhaps after the $id of a schema. */
const struct json *schema_resolve(struct schema_writer *w, const struct json *ref)
{
    const char *p = ref->text, *const end = p + ref->n;
    const struct json *at = w->root;
    const size_t mark = w->room->used;
    size_t n_base = 0;
    char *step = schema_take(w, ref->n + 1);
    if (!step) return NULL;
    while (n_base < ref->n && p[n_base] != '#') n_base++;
    if (n_base > 0) at = find_with(w, w->root, "$id", p, n_base);
    if (n_base > 0 && !at) at = find_with(w, w->root, "id", p, n_base);
    if (!at || ref->n == 0) {
        const struct json culprit = { .name = "$ref", .n_name = 4 };
        schema_fail_member(w, &culprit, "refers to another place; only references inside the schema are followed");
        return NULL;
    }
    p += n_base < ref->n ? n_base + 1 : n_base;
    if (p < end && *p != '/') {
        at = find_with(w, at, "$anchor", p, (size_t)(end - p));
        p = end;
    }
    while (p < end && at) {
        size_t n = 0;
        for (p++; p < end && *p != '/'; p++) {
            uint32_t c = (uint8_t)*p;
            if (c == '~' && end - p > 1 && (p[1] == '0' || p[1] == '1')) c = *++p == '0' ? '~' : '/';
            else if (c == '%' && end - p > 2 && unhex(p + 1, &c)) p += 2;
            step[n++] = (char)c;
        }
        step[n] = 0;
        if (at->kind == JSON_ARRAY) {
            size_t i = 0;
            for (size_t k = 0; k < n; k++)
                i = step[k] >= '0' && step[k] <= '9' && i < 1u << 20 ? i * 10 + (size_t)(step[k] - '0') : 1u << 24;
            at = n > 0 ? json_at(at, i) : NULL;
        } else {
            const struct json *m = at->kind == JSON_OBJECT ? at->first : NULL;
            size_t passed = 0;
            for (; m && (m->n_name != n || memcmp(m->name, step, n) != 0); m = m->next) passed++;
            w->compared += passed / 16;                      /* mostly only their lengths are compared */
            at = m;
        }
    }
    w->room->used = mark;
    if (!at) schema_fail(w, ref->text, ref->n, "refers to a part that the schema does not have");
    else if (w->compared > SCHEMA_MOST_COMPARED) schema_fail_word(w, "$ref", "leads past too much");
    return w->failed ? NULL : at;
}

/* ---- types ---- */

const char *const schema_type_names[SCHEMA_TYPES] = { "null", "boolean", "string", "integer", "number", "array", "object" };

static bool type_bit(struct schema_writer *w, const struct json *v, uint32_t *types)
{
    for (uint32_t i = 0; i < SCHEMA_TYPES; i++) if (json_is(v, schema_type_names[i])) { *types |= 1u << i; return true; }
    return v->kind == JSON_STRING ? schema_fail(w, v->text, v->n, "is not a type")
                                  : schema_fail_word(w, "type", "is neither a string nor an array of strings");
}

bool schema_type_bits(struct schema_writer *w, const struct json *type, uint32_t *types)
{
    *types = 0;
    if (type->kind != JSON_ARRAY) return type_bit(w, type, types);
    for (const struct json *t = type->first; t; t = t->next) if (!type_bit(w, t, types)) return false;
    return type->n > 0 || schema_fail_word(w, "type", "is an empty list");
}

/* ---- combining schemas ---- */

static bool closed(const struct json *schema)
{
    const struct json *a = json_member(schema, "additionalProperties");
    return a && a->kind != JSON_TRUE;
}

/* True if a has a name that b does not have. */
static bool has_others(struct schema_writer *w, const struct json *a, const struct json *b)
{
    for (const struct json *m = a ? a->first : NULL; m && w->compared < SCHEMA_MOST_COMPARED; m = m->next)
        if (!b || !member(w, (struct json *)(uintptr_t)b, m)) return true;
    return false;
}

/* Intersects two types.  Every integer is a number. */
static bool merge_types(struct schema_writer *w, struct json *a, const struct json *b)
{
    struct json *all = schema_json(w, JSON_ARRAY);
    uint32_t types[2];
    if (!all || !schema_type_bits(w, a, &types[0]) || !schema_type_bits(w, b, &types[1])) return false;
    for (uint32_t i = 0; i < 2; i++) if (types[i] & T_NUMBER) types[i] |= T_INTEGER;
    if (!(types[0] & types[1])) return schema_fail_word(w, "allOf", "asks for types that exclude each other");
    for (uint32_t i = 0; i < SCHEMA_TYPES; i++) {
        const struct json name = { .kind = JSON_STRING, .text = schema_type_names[i], .n = text_bytes(schema_type_names[i]) };
        if ((types[0] & types[1]) >> i & 1 && !schema_add(w, all, &name, NULL, 0)) return false;
    }
    a->kind = JSON_ARRAY;
    a->first = all->first;
    a->n = all->n;
    return true;
}

static bool is_bound(const struct json *m, bool *least)
{
    *least = named(m, "minimum") || named(m, "exclusiveMinimum") || named(m, "minLength") || named(m, "minItems") ||
             named(m, "minProperties");
    return *least || named(m, "maximum") || named(m, "exclusiveMaximum") || named(m, "maxLength") || named(m, "maxItems") ||
           named(m, "maxProperties");
}

/* Makes *into a list, which `text` marks as made here, of its value or values and another. */
static bool collect(struct schema_writer *w, struct json *into, const struct json *m)
{
    struct json *list = schema_json(w, JSON_ARRAY);
    if (!list) return false;
    const bool is_list = into->kind == JSON_ARRAY && into->text;
    for (const struct json *x = is_list ? into->first : into; x; x = is_list ? x->next : NULL) if (!schema_add(w, list, x, NULL,
        0)) return false;
    const bool more = m->kind == JSON_ARRAY && m->text;
    for (const struct json *x = more ? m->first : m; x; x = more ? x->next : NULL) if (!schema_add(w, list, x, NULL, 0)) return false;
    into->kind = JSON_ARRAY;
    into->text = "";
    into->first = list->first;
    into->n = list->n;
    return true;
}

/* The values that are in both lists. */
static bool intersect(struct schema_writer *w, struct json *into, const struct json *m)
{
    struct json *all = schema_json(w, JSON_ARRAY);
    for (const struct json *x = into->first; all && x; x = x->next) {
        bool there = false;
        for (const struct json *y = m->first; y && !there; y = y->next) there = schema_same(w, x, y);
        if (w->compared > SCHEMA_MOST_COMPARED) return schema_fail_word(w, "enum", "puts too much together");
        if (there && !schema_add(w, all, x, NULL, 0)) return false;
    }
    if (!all) return false;
    if (all->n == 0) return schema_fail_word(w, "enum", "has no value that two parts that must both hold allow");
    into->first = all->first;
    into->n = all->n;
    return true;
}

/* Merges keyword m of another schema into the keyword with the same name. */
static bool merge_keyword(struct schema_writer *w, struct json *into, const struct json *m)
{
    bool least;
    double a, b;
    if (schema_same(w, into, m)) return true;
    if (named(m, "properties") && into->kind == JSON_OBJECT && m->kind == JSON_OBJECT) {
        struct json *all = schema_json(w, JSON_OBJECT);
        if (into->n + m->n > SCHEMA_MOST_PROPERTIES) return schema_fail_word(w, "properties", "are more than 4096");
        for (const struct json *p = into->first; all && p; p = p->next) if (!schema_add(w, all, p, p->name, p->n_name)) return false;
        for (const struct json *p = m->first; all && p; p = p->next) {
            struct json *there = member(w, all, p);
            if (w->compared > SCHEMA_MOST_COMPARED) return schema_fail_word(w, "allOf", "puts too much together");
            if (there ? !both(w, there, p) : !schema_add(w, all, p, p->name, p->n_name)) return false;
        }
        if (!all) return false;
        into->first = all->first;
        into->n = all->n;
        return true;
    }
    if (named(m, "required") && into->kind == JSON_ARRAY && m->kind == JSON_ARRAY) {
        struct json *all = schema_json(w, JSON_ARRAY);
        if (into->n + m->n > SCHEMA_MOST_PROPERTIES) return schema_fail_word(w, "required", "names more than 4096");
        for (const struct json *p = into->first; all && p; p = p->next) if (!schema_add(w, all, p, NULL, 0)) return false;
        for (const struct json *p = m->first; all && p; p = p->next) if (!schema_add(w, all, p, NULL, 0)) return false;
        if (!all) return false;
        into->first = all->first;
        into->n = all->n;
        return true;
    }
    if (named(m, "type")) return merge_types(w, into, m);
    if (named(m, "items") || named(m, "additionalProperties") || named(m, "propertyNames")) return both(w, into, m);
    if (named(m, "enum") && into->kind == JSON_ARRAY && m->kind == JSON_ARRAY) return intersect(w, into, m);
    if (named(m, "pattern") || named(m, "format") || named(m, "multipleOf")) return collect(w, into, m);
    if (is_bound(m, &least) && json_real(into, &a) && json_real(m, &b)) {
        if (least ? b > a : b < a) { into->text = m->text; into->n = m->n; }
        return true;
    }
    return schema_fail_member(w, m, "has different values in two parts that must both hold");
}

bool schema_merge(struct schema_writer *w, struct json *into, const struct json *schema, uint32_t depth)
{
    if (w->failed) return false;
    w->compared += 1 + schema->n;
    if (w->compared > SCHEMA_MOST_COMPARED) return schema_fail_word(w, "allOf", "puts too much together");
    if (depth > SCHEMA_DEPTH) return schema_fail_word(w, "$ref", "leads back to itself, or allOf is too deep");
    if (schema->kind == JSON_TRUE) return true;
    if (schema->kind != JSON_OBJECT) return schema_fail_word(w, "allOf", "has a part that is false or not an object");
    if (!schema_check_keywords(w, schema)) return false;
    const struct json *before = json_member(into, "properties"), *own = json_member(schema, "properties");
    const struct json excludes = { .name = "additionalProperties", .n_name = 20 };
    if (!schema_passed(w, excludes.name, excludes.n_name) &&
        ((closed(schema) && has_others(w, before, own)) || (closed(into) && has_others(w, own, before))))
        return schema_fail_member(w, &excludes, "in one of several parts that hold at once excludes properties of another");
    for (const struct json *m = schema->first; m; m = m->next) {
        if (schema_kind_of(m) == ANNOTATION || schema_absent(w, m)) continue;
        if (named(m, "$ref")) {
            const struct json *to = m->kind == JSON_STRING ? schema_resolve(w, m) : NULL;
            if (!to) return schema_fail_word(w, "$ref", "is not a string");
            if (!schema_merge(w, into, to, depth + 1)) return false;
        } else if (named(m, "allOf")) {
            if (m->kind != JSON_ARRAY) return schema_fail_word(w, "allOf", "is not an array");
            for (const struct json *part = m->first; part; part = part->next) if (!schema_merge(w, into, part, depth + 1)) return false;
        } else {
            struct json *there = member(w, into, m);
            if (there ? !merge_keyword(w, there, m) : !schema_add(w, into, m, m->name, m->n_name)) return false;
        }
    }
    return true;
}

const struct json *schema_whole(struct schema_writer *w, const struct json *schema)
{
    if (schema->kind != JSON_OBJECT) return schema;
    bool simple = schema_check_keywords(w, schema);
    for (const struct json *m = schema->first; m && simple; m = m->next)
        simple = !named(m, "$ref") && !named(m, "allOf") && !schema_absent(w, m);
    if (simple || w->failed) return w->failed ? NULL : schema;
    struct json *all = schema_json(w, JSON_OBJECT);
    return all && schema_merge(w, all, schema, 0) ? all : NULL;
}

uint32_t schema_n_keywords(const struct json *schema)
{
    uint32_t n = 0;
    for (const struct json *m = schema->first; m; m = m->next) n += schema_kind_of(m) != ANNOTATION;
    return n;
}
