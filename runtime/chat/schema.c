/* schema.c -- see schema.h.  Every schema inside the schema becomes a rule: a reference to it writes only the rule's name, and the rule
 * is written later. */
#include "schema_writer.h"

/* ---- errors ---- */

static void put_some(struct text_out *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n && i < 40; i++) text_out_char(out, (uint8_t)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i]);
    if (n > 40) TEXT_OUT_WORDS(out, "...");
}

static void put_path(struct text_out *out, const struct todo *t)
{
    const struct todo *list[SCHEMA_DEPTH];
    uint32_t n = 0;
    for (; t && t->keyword && n < SCHEMA_DEPTH; t = t->in) list[n++] = t;
    if (t && t->name) put_some(out, t->name, t->n_name);
    else TEXT_OUT_WORDS(out, "#");
    while (n-- > 0) {
        text_out_char(out, '/');
        put_text(out, list[n]->keyword);
        if (list[n]->name) { text_out_char(out, '/'); put_some(out, list[n]->name, list[n]->n_name); }
    }
}

/* Place of the schema being written, 'name', why. */
static void say(const struct schema_writer *w, struct grammar_error *e, const char *name, size_t n, const char *why)
{
    *e = (struct grammar_error){ 0 };
    struct text_out path = { e->text, sizeof e->text / 2, 0, false };
    put_path(&path, w->at);
    struct text_out out = { e->text, sizeof e->text - 1, path.n, false };
    TEXT_OUT_WORDS(&out, ": ");
    if (name) { text_out_char(&out, '\''); put_some(&out, name, n); TEXT_OUT_WORDS(&out, "' "); }
    put_text(&out, why);
    e->text[out.n] = 0;
}

bool schema_fail(struct schema_writer *w, const char *name, size_t n, const char *why)
{
    if (w->failed) return false;
    w->failed = true;
    say(w, w->error, name, n, why);
    return false;
}
bool schema_fail_word(struct schema_writer *w, const char *keyword, const char *why)
{
    return schema_fail(w, keyword, text_bytes(keyword), why);
}
bool schema_fail_member(struct schema_writer *w, const struct json *keyword, const char *why)
{
    if (w->failed) return false;
    w->culprit = keyword->name;
    w->n_culprit = keyword->n_name;
    return schema_fail(w, keyword->name, keyword->n_name, why);
}
bool schema_fail_soft(struct schema_writer *w, const char *keyword, const char *why)
{
    const struct json member = { .name = keyword, .n_name = text_bytes(keyword) };
    return schema_fail_member(w, &member, why);
}

/* Adds a line to the warnings, unless they have it. */
static void warn(struct schema_writer *w, const char *line)
{
    struct text_out *to = w->warnings;
    const size_t n = text_bytes(line), before = to->n;
    for (size_t at = 0, end; at < to->n; at = end + 1) {
        for (end = at; end < to->n && to->bytes[end] != '\n'; ) end++;
        if (end - at == n && memcmp(to->bytes + at, line, n) == 0) return;
    }
    text_out_put(to, line, n);
    text_out_char(to, '\n');
    if (to->full) to->n = before;
}
void schema_note(struct schema_writer *w, const char *keyword, const char *why)
{
    struct grammar_error e;
    if (!w->warnings) return;
    say(w, &e, keyword, text_bytes(keyword), why);
    warn(w, e.text);
}

bool schema_no_texts(struct schema_writer *w, const char *keyword)
{
    return *w->work == 0 ? schema_fail_soft(w, keyword, "and the patterns before it are too large together")
                         : schema_fail(w, NULL, 0, "the schema needs more memory than there is for it");
}

void *schema_take(struct schema_writer *w, size_t bytes)
{
    void *p = room_take(w->room, bytes);
    if (!p) schema_fail(w, NULL, 0, "the schema needs more memory than there is for it");
    else memset(p, 0, bytes);
    return p;
}

/* ---- keywords ---- */

static const struct { const char *name; enum kind kind; } keywords[] = {
    { "properties", OBJECT }, { "required", OBJECT }, { "additionalProperties", OBJECT }, { "patternProperties", OBJECT },
    { "propertyNames", OBJECT }, { "minProperties", OBJECT }, { "maxProperties", OBJECT },
    { "items", ARRAY }, { "prefixItems", ARRAY }, { "additionalItems", ARRAY }, { "minItems", ARRAY }, { "maxItems", ARRAY },
    { "minLength", STRING }, { "maxLength", STRING }, { "pattern", STRING }, { "format", STRING },
    { "minimum", NUMBER }, { "maximum", NUMBER }, { "exclusiveMinimum", NUMBER }, { "exclusiveMaximum", NUMBER }, { "multipleOf", NUMBER },
    { "type", ANY }, { "enum", ANY }, { "const", ANY }, { "anyOf", ANY }, { "oneOf", ANY }, { "allOf", ANY }, { "$ref", ANY },
    { "nullable", ANY }, { "not", ANY },
};

/* Keywords of JSON Schema that are not enforced.  A member that is not in these lists is an annotation. */
static const char *const unenforced[] = {
    "uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems", "unevaluatedProperties", "dependentRequired",
    "dependentSchemas", "dependencies", "if", "then", "else", "$dynamicRef", "$recursiveRef", "extends", "disallow", "divisibleBy",
};

/* Unsupported keywords with the value that every JSON text satisfies.  Generators write them nevertheless. */
static bool says_nothing(const struct json *m)
{
    if (named(m, "uniqueItems")) return m->kind == JSON_FALSE;
    if (named(m, "minContains")) return m->kind == JSON_NUMBER && m->n == 1 && *m->text == '0';
    if (named(m, "dependentRequired") || named(m, "dependentSchemas") || named(m, "dependencies"))
        return m->kind == JSON_OBJECT && m->n == 0;
    return (named(m, "unevaluatedProperties") || named(m, "unevaluatedItems")) && is_anything(m);
}

int schema_kind_of(const struct json *m)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) if (named(m, keywords[i].name)) return (int)keywords[i].kind;
    for (size_t i = 0; i < sizeof unenforced / sizeof *unenforced; i++)
        if (named(m, unenforced[i])) return m->kind == JSON_NULL || says_nothing(m) ? ANNOTATION : -1;
    return ANNOTATION;
}

bool schema_passed(const struct schema_writer *w, const char *name, size_t n)
{
    for (const struct passed *p = w->passed; p; p = p->next) if (p->n == n && memcmp(p->name, name, n) == 0) return true;
    return false;
}
bool schema_absent(const struct schema_writer *w, const struct json *m)
{
    return schema_passed(w, m->name, m->n_name) || (m->kind == JSON_NULL && !named(m, "const"));
}

bool schema_check_keywords(struct schema_writer *w, const struct json *schema)
{
    for (const struct json *m = schema->first; m; m = m->next)
        if (schema_kind_of(m) < 0 && !schema_absent(w, m)) return schema_fail_member(w, m, "is a keyword that is not enforced");
    return true;
}

enum { MOST_PASSED = 32 };              /* keywords of one schema that are passed over */

/* ---- rules ---- */

void schema_put_number(struct text_out *out, uint64_t x)
{
    char digits[20];
    size_t n = sizeof digits;
    do digits[--n] = (char)('0' + x % 10); while ((x /= 10) > 0);
    text_out_put(out, digits + n, sizeof digits - n);
}

static void put_rule_name(struct schema_writer *w, const char *kind, uint32_t number)
{
    put_text(w->out, w->prefix);
    put_text(w->out, kind);
    schema_put_number(w->out, number);
}
void schema_put_known(struct schema_writer *w, const char *name)
{
    put_text(w->out, w->prefix);
    put_text(w->out, name);
}
void schema_put_part(struct schema_writer *w, const char *kind, uint32_t i)
{
    put_rule_name(w, "s", w->at->number);
    text_out_char(w->out, '-');
    put_text(w->out, kind);
    schema_put_number(w->out, i);
}
static struct todo **bucket_of(struct schema_writer *w, const struct json *schema)
{
    const uintptr_t hash = (uintptr_t)schema >> 3;
    return &w->buckets[(hash ^ hash >> 9) % SCHEMA_BUCKETS];
}
void schema_put(struct schema_writer *w, const struct json *schema, const struct todo *in, const char *keyword, const char *name,
                       size_t n_name)
{
    struct todo **bucket = bucket_of(w, schema), *t = *bucket;
    while (t && t->schema != schema) t = t->next;
    if (!t) {
        if (w->n_rules == SCHEMA_MOST_RULES) { schema_fail(w, NULL, 0, "more than 20000 schemas refer to each other"); return; }
        if (!(t = schema_take(w, sizeof *t))) return;
        *t = (struct todo){ NULL, *bucket, schema, w->n_rules++, in, keyword, name, n_name };
        *bucket = *w->last = t;
        w->last = &t->after;
    }
    put_rule_name(w, "s", t->number);
}

void schema_put_literal(struct schema_writer *w, const struct json *v, const char *behind)
{
    char *bytes = NULL;
    struct text_out text = { NULL, 0, 0, false };
    const size_t mark = w->room->used;
    for (size_t size = 256; ; size *= 4) {                   /* one pass, for all but the largest */
        w->room->used = mark;
        if (!(bytes = schema_take(w, size))) return;
        text = (struct text_out){ bytes, size, 0, false };
        if (behind) json_put_string(&text, v->name, v->n_name);
        else json_put(&text, v, false);
        put_text(&text, behind ? behind : "");
        if (!text.full) break;
    }
    grammar_put_literal(w->out, bytes, text.n);
    w->room->used = mark;
}

bool schema_put_bounds(struct schema_writer *w, uint64_t least, uint64_t most, bool bounded)
{
    if (!bounded && least <= 1) { text_out_char(w->out, least ? '+' : '*'); return true; }
    if (least > GRAMMAR_MOST_REPEAT || (bounded && most > GRAMMAR_MOST_REPEAT))
        return schema_fail(w, NULL, 0, "a length or number is above 1048576");
    text_out_char(w->out, '{');
    schema_put_number(w->out, least);
    text_out_char(w->out, ',');
    if (bounded) schema_put_number(w->out, most);
    text_out_char(w->out, '}');
    return true;
}

/* Reads a length; *there: it is given. */
static bool read_length(struct schema_writer *w, const struct json *schema, const char *name, uint64_t *out, bool *there)
{
    const struct json *v = json_member(schema, name);
    int64_t x = 0;
    double real;
    *there = v != NULL;
    if (v && !json_integer(v, 0, INT64_MAX, &x)) {
        if (!json_real(v, &real) || !(real >= 0 && real < 1e15) || real != (double)(int64_t)real)
            return schema_fail_word(w, name, "is not a valid length");
        x = (int64_t)real;
    }
    *out = (uint64_t)x;
    return true;
}

bool schema_lengths(struct schema_writer *w, const struct json *schema, const char *least_name, const char *most_name, uint64_t *least,
                    uint64_t *most, bool *bounded)
{
    bool there;
    if (!read_length(w, schema, least_name, least, &there) || !read_length(w, schema, most_name, most, bounded)) return false;
    return !*bounded || *least <= *most || schema_fail_word(w, least_name, "is more than the maximum");
}

/* ---- arrays ---- */

/* The schemas of the first items, and that of the others; NULL: none. */
struct items { const struct json *first, *rest; const char *keyword; uint64_t n; bool closed; };

static bool read_items(struct schema_writer *w, const struct json *s, struct items *out)
{
    const struct json *prefix = json_member(s, "prefixItems"), *items = json_member(s, "items"), *more = json_member(s, "additionalItems");
    const bool list = items && items->kind == JSON_ARRAY;    /* as in drafts before 2020-12 */
    *out = (struct items){ 0 };
    if (prefix && prefix->kind != JSON_ARRAY) return schema_fail_word(w, "prefixItems", "is not an array");
    if (list && prefix) return schema_fail_word(w, "items", "is a list beside prefixItems");
    if (list) prefix = items;
    *out = (struct items){ prefix ? prefix->first : NULL, list ? more : items, list ? "items" : "prefixItems", prefix ? prefix->n : 0,
                           prefix && !list && !items };
    if (list) out->closed = !more;
    return true;
}

static bool put_array(struct schema_writer *w, const struct json *s)
{
    struct items items;
    uint64_t least, most, n = 0;
    bool bounded;
    if (!schema_lengths(w, s, "minItems", "maxItems", &least, &most, &bounded) || !read_items(w, s, &items)) return false;
    const char *const rest_keyword = json_member(s, "items") && json_member(s, "items")->kind == JSON_ARRAY
                                   ? "additionalItems" : "items";
    const bool none = is_false(items.rest) || (items.closed && items.n > 0 && least <= items.n) || (bounded && most == 0);
    PUT("\"[\" ");
    schema_put_known(w, "ws");
    for (const struct json *p = items.first; p && (!bounded || n < most); p = p->next, n++) {
        if (n > 0) { PUT(" \",\" "); schema_put_known(w, "ws"); }
        PUT(" ");
        schema_put(w, p, w->at, items.keyword, NULL, 0);
    }
    if (none && least > n) return schema_fail_word(w, "minItems", "is more than there are");
    const uint64_t rest = least > n ? least - n : 0;
    if (!none && !(bounded && most == n)) {
        PUT(" ");
        if (n == 0) {                                        /* the first has no comma before it */
            PUT("(");
            if (items.rest) schema_put(w, items.rest, w->at, rest_keyword, NULL, 0);
            else schema_put_known(w, "value");
            PUT(" ");
        }
        PUT("(\",\" ");
        schema_put_known(w, "ws");
        PUT(" ");
        if (items.rest) schema_put(w, items.rest, w->at, rest_keyword, NULL, 0);
        else schema_put_known(w, "value");
        PUT(")");
        if (!schema_put_bounds(w, n == 0 ? (rest > 0 ? rest - 1 : 0) : rest, n == 0 ? most - 1 : most - n, bounded)) return false;
        if (n == 0) {
            PUT(" ");
            schema_put_known(w, "ws");
            PUT(")");
            if (rest == 0) PUT("?");
        }
    }
    if (n > 0) { PUT(" "); schema_put_known(w, "ws"); }
    PUT(" \"]\"");
    return true;
}

/* ---- a schema ---- */

/* Without `type`, the types that the other keywords refer to.  Other types would satisfy them too, but are not meant. */
static bool read_types(struct schema_writer *w, const struct json *s, uint32_t *types)
{
    const struct json *type = json_member(s, "type"), *nullable = json_member(s, "nullable");
    *types = 0;
    if (type) {
        if (!schema_type_bits(w, type, types)) return false;
    } else {
        for (const struct json *m = s->first; m; m = m->next) {
            const int kind = schema_kind_of(m);
            *types |= kind == OBJECT ? T_OBJECT : kind == ARRAY ? T_ARRAY : kind == STRING ? T_STRING : kind == NUMBER ? T_NUMBER : 0;
        }
        if (*types == 0) *types = T_ALL;
    }
    if (nullable && !json_is_bool(nullable)) return schema_fail_word(w, "nullable", "is neither true nor false");
    if (nullable && nullable->kind == JSON_TRUE) *types |= T_NULL;
    return true;
}

/* {"not": {}} */
static bool is_impossible(const struct json *s)
{
    const struct json *m = json_member(s, "not");
    return m && is_anything(m);
}

static bool is_integer(const struct json *v)
{
    double x;
    int64_t i;
    return json_integer(v, INT64_MIN, INT64_MAX, &i) || (json_real(v, &x) && x > -9e15 && x < 9e15 && x == (double)(int64_t)x);
}

static bool has_type(const struct json *v, uint32_t types)
{
    switch (v->kind) {
    case JSON_NULL: return types & (T_NULL | T_ALL);
    case JSON_TRUE:
    case JSON_FALSE: return types & (T_BOOLEAN | T_ALL);
    case JSON_STRING: return types & (T_STRING | T_ALL);
    case JSON_NUMBER: return types & (T_NUMBER | T_ALL) || (types & T_INTEGER && is_integer(v));
    case JSON_ARRAY: return types & (T_ARRAY | T_ALL);
    case JSON_OBJECT: return types & (T_OBJECT | T_ALL);
    }
    return false;
}

static void begin_rule(struct schema_writer *w)
{
    PUT("\n");
    put_rule_name(w, "s", w->at->number);
    PUT(" ::= ");
}

/* Writes a value, as a constant, with white space as in other values. */
static void put_constant(struct schema_writer *w, const struct json *v)
{
    const bool object = v->kind == JSON_OBJECT;
    if (v->kind != JSON_ARRAY && !object) { schema_put_literal(w, v, NULL); return; }
    put_text(w->out, object ? "\"{\" " : "\"[\" ");
    schema_put_known(w, "ws");
    for (const struct json *m = v->first; m; m = m->next) {
        if (m != v->first) { PUT(" \",\" "); schema_put_known(w, "ws"); }
        PUT(" ");
        if (object) { schema_put_literal(w, m, ":"); PUT(" "); schema_put_known(w, "sp"); PUT(" "); }
        put_constant(w, m);
    }
    if (v->first) { PUT(" "); schema_put_known(w, "ws"); }
    put_text(w->out, object ? " \"}\"" : " \"]\"");
}

/* Does the value satisfy the keywords beside it?  texts: of the strings that do, or NULL. */
static bool fits(struct schema_writer *w, const struct json *s, const struct json *v, struct texts *t, struct texts_node *texts)
{
    if (v->kind == JSON_NUMBER) return schema_number_fits(w, s, v);
    return v->kind != JSON_STRING || !texts || texts_have(t, texts, v->text, v->n);
}

/* One of the values that have the type and satisfy the other keywords. */
static bool put_values(struct schema_writer *w, const struct json *s)
{
    const struct json *list = json_member(s, "enum"), *one = json_member(s, "const"), *types_of = s;
    uint32_t types = T_ALL, n = 0;
    bool strings = false;
    struct texts t;
    struct texts_node *texts = NULL;
    if (list && list->kind != JSON_ARRAY) return schema_fail_word(w, "enum", "is not an array");
    if ((json_member(s, "type") || json_member(s, "nullable")) && !read_types(w, types_of, &types)) return false;
    for (const struct json *m = s->first; m; m = m->next) {
        const int kind = schema_kind_of(m);
        strings |= kind == STRING;
        if (kind != OBJECT && kind != ARRAY) continue;
        for (const struct json *v = list ? list->first : one; v; v = list ? v->next : NULL)
            if (v->kind == (kind == OBJECT ? JSON_OBJECT : JSON_ARRAY) && has_type(v, types))
                return schema_fail_member(w, m, "beside enum or const is not enforced");
    }
    const size_t mark = w->room->used;
    if (strings) {
        struct json *only = schema_json(w, JSON_OBJECT);     /* without enum and const */
        if (!only) return false;
        for (const struct json *m = s->first; m; m = m->next)
            if (schema_kind_of(m) == STRING && !schema_add(w, only, m, m->name, m->n_name)) return false;
        if (!texts_open(&t, w->room, w->work)) return schema_no_texts(w, only->n > 0 ? only->first->name : "pattern");
        if (!schema_string_texts(w, &t, only, &texts)) return false;
    }
    begin_rule(w);
    for (const struct json *v = list ? list->first : one; v; v = list ? v->next : NULL) {
        if (!has_type(v, types) || (one && list && !schema_same(w, one, v)) || !fits(w, s, v, &t, texts)) continue;
        if (n++ > 0) PUT(" | ");
        put_constant(w, v);
    }
    w->room->used = mark;
    if (w->failed) return false;
    return n > 0 || schema_fail_word(w, list ? "enum" : "const", "leaves no value of the type, or none that satisfies the keywords b"
        "eside it");
}

static bool put_types(struct schema_writer *w, const struct json *s)
{
    static const char *const simple[] = { "null", "boolean" };
    uint32_t types, n = 0;
    if (!read_types(w, s, &types)) return false;
    if (types & T_NUMBER) types &= ~(uint32_t)T_INTEGER;     /* every integer is a number */
    if ((types & T_STRING && !schema_string_rules(w, s)) ||
        (types & (T_INTEGER | T_NUMBER) && !schema_number_rules(w, s, types & T_INTEGER)) ||
        (types & T_OBJECT && !schema_object_rules(w, s))) return false;
    begin_rule(w);
    if (types & T_ALL) { schema_put_known(w, "value"); return true; }
    for (uint32_t i = 0; i < SCHEMA_TYPES && !w->failed; i++) {
        if (!(types >> i & 1)) continue;
        if (n++ > 0) PUT(" | ");
        switch (1u << i) {
        case T_NULL:
        case T_BOOLEAN: schema_put_known(w, simple[i]); break;
        case T_STRING: schema_put_string(w, s); break;
        case T_INTEGER:
        case T_NUMBER: schema_put_numeric(w, s, 1u << i == T_INTEGER); break;
        case T_ARRAY: put_array(w, s); break;
        default:
            PUT("\"{\" ");
            schema_put_known(w, "ws");
            PUT(" ");
            schema_put_part(w, "f", 0);
            PUT(" \"}\"");
        }
    }
    return !w->failed;
}

static bool is_required(const struct json *s, const struct json *property)
{
    const struct json *list = json_member(s, "required");
    for (const struct json *r = list ? list->first : NULL; r; r = r->next)
        if (r->kind == JSON_STRING && r->n == property->n_name && memcmp(r->text, property->name, r->n) == 0) return true;
    return false;
}

/* Do both schemas list their values, without a common value? */
static bool values_differ(struct schema_writer *w, const struct json *a, const struct json *b)
{
    const struct json *both[] = { a, b }, *first[2];
    bool list[2];
    for (int i = 0; i < 2; i++) {
        const struct json *values = json_member(both[i], "enum"), *one = json_member(both[i], "const");
        list[i] = !one;
        first[i] = one ? one : values && values->kind == JSON_ARRAY ? values->first : NULL;
        if (!first[i]) return false;
    }
    for (const struct json *x = first[0]; x; x = list[0] ? x->next : NULL)
        for (const struct json *y = first[1]; y; y = list[1] ? y->next : NULL)
            if (w->compared > SCHEMA_MOST_COMPARED || schema_same(w, x, y)) return false;
    return true;
}

/* Can no text satisfy both, by their types, their values, or the values of a property that both require? */
static bool are_apart(struct schema_writer *w, const struct json *a, const struct json *b)
{
    uint32_t types[2];
    if (!json_member(a, "type") || !json_member(b, "type") || !read_types(w, a, &types[0]) || !read_types(w, b, &types[1]))
        return values_differ(w, a, b);
    for (int i = 0; i < 2; i++) if (types[i] & T_NUMBER) types[i] |= T_INTEGER;
    if (!(types[0] & types[1]) || values_differ(w, a, b)) return true;
    const struct json *mine = json_member(a, "properties"), *other = json_member(b, "properties");
    if ((types[0] & types[1]) != T_OBJECT || !mine || !other) return false;
    for (const struct json *p = mine->first; p; p = p->next)
        for (const struct json *q = is_required(a, p) && is_required(b, p) ? other->first : NULL; q; q = q->next)
            if (q->n_name == p->n_name && memcmp(q->name, p->name, p->n_name) == 0 && values_differ(w, p, q)) return true;
    return false;
}

/* Warns if several schemas of a oneOf may hold at once. */
static void note_one_of(struct schema_writer *w, const struct json *list)
{
    enum { MOST = 64 };
    const struct json *all[MOST];
    uint32_t n = 0;
    bool apart = true;
    if (!w->warnings) return;
    for (const struct json *a = list->first; a && apart && !w->failed; a = a->next) {
        apart = n < MOST && a->kind == JSON_OBJECT && (all[n] = schema_whole(w, a));
        for (uint32_t i = 0; i < n && apart; i++) apart = are_apart(w, all[i], all[n]);
        n++;
    }
    if (!apart && !w->failed) schema_note(w, "oneOf", "is enforced like anyOf: more than one of its schemas may hold");
}

/* Any of the schemas in a list, each combined with the keywords beside it. */
static bool put_any_of(struct schema_writer *w, const struct json *s, const char *keyword)
{
    const struct json *list = json_member(s, keyword);
    struct json *rest = schema_json(w, JSON_OBJECT);
    if (!rest) return false;
    if (list->kind != JSON_ARRAY || list->n == 0) return schema_fail_word(w, keyword, "is not an array of schemas");
    if (named(list, "oneOf")) note_one_of(w, list);
    begin_rule(w);
    for (const struct json *m = s->first; m; m = m->next)
        if (schema_kind_of(m) != ANNOTATION && !named(m, keyword) && !schema_add(w, rest, m, m->name, m->n_name)) return false;
    for (const struct json *a = list->first; a && !w->failed; a = a->next) {
        if (a != list->first) PUT(" | ");
        const bool apart = rest->n == 0 || is_impossible(a);
        struct json *all = apart ? NULL : schema_json(w, JSON_OBJECT);
        if (!apart && (!all || !schema_merge(w, all, rest, 0) || !schema_merge(w, all, a, 0))) return false;
        schema_put(w, all ? all : a, w->at, keyword, NULL, 0);
    }
    return !w->failed;
}

static bool put_rule(struct schema_writer *w, const struct todo *t)
{
    const struct json *s = t->schema, *ref;
    if (s->kind == JSON_TRUE || s->kind == JSON_FALSE || is_impossible(s)) {
        begin_rule(w);
        if (s->kind == JSON_TRUE) schema_put_known(w, "value");
        else PUT("[]");
        return true;
    }
    if (s->kind != JSON_OBJECT) return schema_fail(w, NULL, 0, "a schema must be an object, true or false");
    if (!schema_check_keywords(w, s)) return false;
    if ((ref = json_member(s, "$ref")) && schema_n_keywords(s) == 1 && !schema_absent(w, ref)) {
        if (ref->kind != JSON_STRING) return schema_fail_word(w, "$ref", "is not a string");
        const struct json *to = schema_resolve(w, ref);
        if (!to) return false;
        begin_rule(w);
        schema_put(w, to, NULL, NULL, ref->text, ref->n);
        return !w->failed;
    }
    if (!(s = schema_whole(w, s))) return false;
    if (json_member(s, "not")) return schema_fail_soft(w, "not", "is a keyword that is not enforced");
    if (json_member(s, "anyOf")) return put_any_of(w, s, "anyOf");
    if (json_member(s, "oneOf")) return put_any_of(w, s, "oneOf");
    return json_member(s, "enum") || json_member(s, "const") ? put_values(w, s) : put_types(w, s);
}

/* Forgets the schemas that were mentioned since there were n of them. */
static void forget(struct schema_writer *w, struct todo **last, uint32_t n)
{
    for (struct todo *t = *last; t; t = t->after) {
        struct todo **bucket = bucket_of(w, t->schema);
        while (*bucket && (*bucket)->number >= n) *bucket = (*bucket)->next;
    }
    *last = NULL;
    w->last = last;
    w->n_rules = n;
}

/* Writes the rules of a schema.  A keyword that cannot be enforced is passed over, with a warning, and the schema begun again. */
static void put_schema(struct schema_writer *w, const struct todo *t)
{
    const size_t begin = w->out->n, mark = w->room->used;
    struct todo **const last = w->last;
    const uint32_t n = w->n_rules;
    struct passed passed[MOST_PASSED];
    w->at = t;
    w->passed = NULL;
    for (uint32_t i = 0; !put_rule(w, t) && w->failed && w->warnings && w->culprit && i < MOST_PASSED; i++) {
        forget(w, last, n);
        passed[i] = (struct passed){ w->passed, w->culprit, w->n_culprit };
        w->passed = &passed[i];
        w->out->n = begin;
        w->room->used = mark;
        warn(w, w->error->text);
        w->failed = false;
        w->culprit = NULL;
    }
    w->passed = NULL;
}

/* One rule per line; @ is the prefix. */
static const char *const known_rules[] = {
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}",
    "sp ::= \" \"?",
    "char ::= [^\"\\\\\\x00-\\x1F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" @code)",
    "code ::= ([0-9a-cA-CefEF] @hex | [dD] [0-7]) @hex @hex | [dD] [89abAB] @hex @hex \"\\\\u\" [dD] [c-fC-F] @hex @hex",
    "hex ::= [0-9a-fA-F]",
    "string ::= \"\\\"\" @char* \"\\\"\"",
    "integer ::= \"0\" | \"-\"? [1-9] [0-9]{0,15}",
    "fraction ::= [0-9]{0,14} [1-9]",
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?",
    "boolean ::= \"true\" | \"false\"",
    "null ::= \"null\"",
    "member ::= @string \":\" @sp @value",
    "object ::= \"{\" @ws (@member (\",\" @ws @member)* @ws)? \"}\"",
    "array ::= \"[\" @ws (@value (\",\" @ws @value)* @ws)? \"]\"",
    "value ::= @object | @array | @string | @number | @boolean | @null",
};

static void put_known_rules(struct schema_writer *w)
{
    for (size_t i = 0; i < sizeof known_rules / sizeof *known_rules; i++) {
        PUT("\n");
        put_text(w->out, w->prefix);
        for (const char *p = known_rules[i]; *p; p++) {
            if (*p == '@') put_text(w->out, w->prefix);
            else text_out_char(w->out, *p);
        }
    }
}

bool schema_grammar(struct room *work, const struct json *schema, const struct schema_options *options, struct text_out *out,
                    struct grammar_error *error)
{
    struct schema_writer *w = room_take(work, sizeof *w);
    *error = (struct grammar_error){ 0, 0, "the schema needs more memory than there is for it" };
    if (!w) return false;
    *w = (struct schema_writer){ .room = work, .out = out, .prefix = options->prefix ? options->prefix : "",
                                 .root = options->root ? options->root : schema, .warnings = options->warnings, .error = error,
                                 .own_work = SCHEMA_WORK };
    w->work = options->work ? options->work : &w->own_work;
    w->last = &w->first;
    put_text(out, w->prefix);
    PUT("root ::= ");
    schema_put(w, schema, NULL, NULL, NULL, 0);
    for (const struct todo *t = w->first; t && !w->failed && !out->full; t = t->after) put_schema(w, t);
    put_known_rules(w);
    schema_put_formats(w);
    schema_put_digits(w);
    PUT("\n");
    return !w->failed && !out->full;
}

static void json_mistake(const char *text, const struct json_error *e, struct grammar_error *error)
{
    struct text_out out = { error->text, sizeof error->text - 1, 0, false };
    *error = (struct grammar_error){ .line = 1, .column = 1 };
    for (size_t i = 0; i < e->at; i++) {
        error->column++;
        if (text[i] == '\n') { error->line++; error->column = 1; }
    }
    put_text(&out, e->why ? "the schema is not JSON: " : "the schema needs more memory than there is for it");
    put_text(&out, e->why ? e->why : "");
    error->text[out.n] = 0;
}

const struct grammar *grammar_of_schema(struct room *room, const char *text, size_t n, struct text_out *warnings,
                                        struct grammar_error *error)
{
    const struct schema_options options = { .warnings = warnings };
    const size_t mark = room->used;
    const struct grammar *g = NULL;
    struct json_error e;
    const struct json *schema = json_read(room, text, n, &e);
    if (!schema) json_mistake(text, &e, error);
    else {
        /* A third of the room is for the text, a third for parts of the schema, the rest for the grammar. */
        const size_t part = (room->size - room->used) / 3;
        char *bytes = room_take(room, part);
        struct text_out out = { bytes, part, 0, false };
        struct room work = room_of(room->bytes + room->used, part);
        if (schema_grammar(&work, schema, &options, &out, error)) {
            g = grammar_read(room, bytes, out.n, NULL, error);
            if (!g && error->line > 0) *error = (struct grammar_error){ 0, 0, "the schema has a part that is nothing but a reference"
                " to itself" };
        }
        room->full |= work.full || out.full;
    }
    room->used = mark;
    if (!g) return NULL;
    struct grammar *to = room_take(room, g->bytes);          /* moves it to the front, over the memory used to make it */
    memmove(to, g, g->bytes);
    return to;
}
