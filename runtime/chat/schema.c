/* schema.c -- see schema.h.  Every schema in the schema becomes a rule: what refers to it names the rule, and it is written later. */
#include "schema_writer.h"
#include "pattern.h"

/* ---- mistakes ---- */

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

bool schema_fail(struct writer *w, const char *name, size_t n, const char *why)
{
    if (w->failed) return false;
    w->failed = true;
    *w->error = (struct grammar_error){ 0 };
    struct text_out path = { w->error->text, sizeof w->error->text / 2, 0, false };
    put_path(&path, w->at);
    struct text_out out = { w->error->text, sizeof w->error->text - 1, path.n, false };
    TEXT_OUT_WORDS(&out, ": ");
    if (name) { text_out_char(&out, '\''); put_some(&out, name, n); TEXT_OUT_WORDS(&out, "' "); }
    put_text(&out, why);
    w->error->text[out.n] = 0;
    return false;
}
bool schema_fail_word(struct writer *w, const char *keyword, const char *why) { return schema_fail(w, keyword, text_bytes(keyword), why); }

void *schema_take(struct writer *w, size_t bytes)
{
    void *p = room_take(w->room, bytes);
    if (!p) schema_fail(w, NULL, 0, "the schema needs more memory than there is for it");
    else memset(p, 0, bytes);
    return p;
}

/* ---- keywords ---- */

static const struct { const char *name; enum kind kind; } keywords[] = {
    { "title", ANNOTATION }, { "description", ANNOTATION }, { "default", ANNOTATION }, { "examples", ANNOTATION },
    { "example", ANNOTATION }, { "$schema", ANNOTATION }, { "$id", ANNOTATION }, { "$comment", ANNOTATION },
    { "$anchor", ANNOTATION }, { "$defs", ANNOTATION },
    { "definitions", ANNOTATION }, { "deprecated", ANNOTATION }, { "readOnly", ANNOTATION }, { "writeOnly", ANNOTATION },
    { "contentEncoding", ANNOTATION }, { "contentMediaType", ANNOTATION }, { "contentSchema", ANNOTATION },
    { "properties", OBJECT }, { "required", OBJECT }, { "additionalProperties", OBJECT },
    { "items", ARRAY }, { "prefixItems", ARRAY }, { "minItems", ARRAY }, { "maxItems", ARRAY },
    { "minLength", STRING }, { "maxLength", STRING }, { "pattern", STRING }, { "format", STRING },
    { "minimum", NUMBER }, { "maximum", NUMBER }, { "exclusiveMinimum", NUMBER }, { "exclusiveMaximum", NUMBER },
    { "type", ANY }, { "enum", ANY }, { "const", ANY }, { "anyOf", ANY }, { "oneOf", ANY }, { "allOf", ANY }, { "$ref", ANY },
    { "nullable", ANY },
};

int schema_kind_of(const struct json *m)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) if (named(m, keywords[i].name)) return (int)keywords[i].kind;
    return m->n_name > 2 && memcmp(m->name, "x-", 2) == 0 ? ANNOTATION : -1;
}

bool schema_check_keywords(struct writer *w, const struct json *schema)
{
    for (const struct json *m = schema->first; m; m = m->next)
        if (schema_kind_of(m) < 0)
            return schema_fail(w, m->name, m->n_name, "is a keyword that is not enforced; leave it out or say it otherwise");
    return true;
}

/* ---- rules ---- */

void schema_put_number(struct text_out *out, uint64_t x)
{
    char digits[20];
    size_t n = sizeof digits;
    do digits[--n] = (char)('0' + x % 10); while ((x /= 10) > 0);
    text_out_put(out, digits + n, sizeof digits - n);
}

static void put_rule_name(struct writer *w, const char *kind, uint32_t number)
{
    put_text(w->out, w->prefix);
    put_text(w->out, kind);
    schema_put_number(w->out, number);
}
void schema_put_known(struct writer *w, const char *name)
{
    put_text(w->out, w->prefix);
    put_text(w->out, name);
}
void schema_put_part(struct writer *w, const char *kind, uint32_t i)
{
    put_rule_name(w, "s", w->at->number);
    text_out_char(w->out, '-');
    put_text(w->out, kind);
    schema_put_number(w->out, i);
}
void schema_put(struct writer *w, const struct json *schema, const struct todo *in, const char *keyword, const char *name,
                       size_t n_name)
{
    const uintptr_t hash = (uintptr_t)schema >> 3;
    struct todo **bucket = &w->buckets[(hash ^ hash >> 9) % SCHEMA_BUCKETS], *t = *bucket;
    while (t && t->schema != schema) t = t->next;
    if (!t) {
        if (w->n_rules == SCHEMA_MOST_RULES) { schema_fail(w, NULL, 0, "more than 20000 schemas in each other"); return; }
        if (!(t = schema_take(w, sizeof *t))) return;
        *t = (struct todo){ NULL, *bucket, schema, w->n_rules++, in, keyword, name, n_name };
        *bucket = *w->last = t;
        w->last = &t->after;
    }
    put_rule_name(w, "s", t->number);
}

void schema_put_literal(struct writer *w, const struct json *v, const char *behind)
{
    char *bytes = NULL;
    struct text_out text = { NULL, 0, 0, false };
    const size_t mark = w->room->used;
    for (size_t size = 256; ; size *= 4) {                   /* once around, for all but the largest */
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

static bool put_bounds(struct writer *w, uint64_t least, uint64_t most, bool bounded)
{
    if (!bounded && least <= 1) { text_out_char(w->out, least ? '+' : '*'); return true; }
    if (least > GRAMMAR_MOST_REPEAT || (bounded && most > GRAMMAR_MOST_REPEAT))
        return schema_fail(w, NULL, 0, "a length or number beyond 1048576");
    text_out_char(w->out, '{');
    schema_put_number(w->out, least);
    text_out_char(w->out, ',');
    if (bounded) schema_put_number(w->out, most);
    text_out_char(w->out, '}');
    return true;
}

/* A length; *there: it is given. */
static bool read_length(struct writer *w, const struct json *schema, const char *name, uint64_t *out, bool *there)
{
    const struct json *v = json_member(schema, name);
    int64_t x = 0;
    double real;
    *there = v != NULL;
    if (v && !json_integer(v, 0, INT64_MAX, &x)) {
        if (!json_real(v, &real) || !(real >= 0 && real < 1e15) || real != (double)(int64_t)real)
            return schema_fail_word(w, name, "is no length");
        x = (int64_t)real;
    }
    *out = (uint64_t)x;
    return true;
}

static bool read_lengths(struct writer *w, const struct json *schema, const char *least_name, const char *most_name, uint64_t *least,
                         uint64_t *most, bool *bounded)
{
    bool there;
    if (!read_length(w, schema, least_name, least, &there) || !read_length(w, schema, most_name, most, bounded)) return false;
    return !*bounded || *least <= *most || schema_fail_word(w, least_name, "is more than the most");
}

/* ---- strings ---- */

static const char *const formats[] = { "date", "time", "date-time", "uuid", "ipv4", "email" };

static bool put_string(struct writer *w, const struct json *s)
{
    const struct json *pattern = json_member(s, "pattern"), *format = json_member(s, "format");
    uint64_t least, most;
    bool bounded;
    if (!read_lengths(w, s, "minLength", "maxLength", &least, &most, &bounded)) return false;
    const bool lengths = least > 0 || bounded;
    if ((pattern != NULL) + (format != NULL) + lengths > 1)
        return schema_fail(w, NULL, 0, "of pattern, format and lengths of a text only one can be enforced");
    if (pattern) {
        struct pattern_error e;
        if (pattern->kind != JSON_STRING) return schema_fail_word(w, "pattern", "is no text");
        PUT("\"\\\"\" ");
        if (!pattern_grammar(w->room, pattern->text, pattern->n, w->prefix, w->out, &e)) return schema_fail_word(w, "pattern", e.why);
        PUT(" \"\\\"\"");
        return true;
    }
    if (format) {
        for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
            if (json_is(format, formats[i])) {
                PUT("\"\\\"\" ");
                schema_put_known(w, formats[i]);
                PUT(" \"\\\"\"");
                return true;
            }
        if (format->kind != JSON_STRING) return schema_fail_word(w, "format", "is no text");
        return schema_fail(w, format->text, format->n, "is a format that is not enforced; date, time, date-time, uuid, ipv4 and email are");
    }
    if (!lengths) { schema_put_known(w, "string"); return true; }
    PUT("\"\\\"\" ");
    schema_put_known(w, "char");
    if (!put_bounds(w, least, most, bounded)) return false;
    PUT(" \"\\\"\"");
    return true;
}

/* ---- arrays ---- */

static bool put_array(struct writer *w, const struct json *s)
{
    const struct json *prefix = json_member(s, "prefixItems"), *items = json_member(s, "items");
    uint64_t least, most, n = 0;
    bool bounded;
    if (!read_lengths(w, s, "minItems", "maxItems", &least, &most, &bounded)) return false;
    if (prefix && prefix->kind != JSON_ARRAY) return schema_fail_word(w, "prefixItems", "is no list");
    if (items && items->kind == JSON_ARRAY) return schema_fail_word(w, "items", "is a list; the 2020-12 draft calls it prefixItems");
    const bool none = is_false(items) || (prefix && prefix->n > 0 && !items && least <= prefix->n) || (bounded && most == 0);
    PUT("\"[\" ");
    schema_put_known(w, "ws");
    for (const struct json *p = prefix ? prefix->first : NULL; p && (!bounded || n < most); p = p->next, n++) {
        if (n > 0) { PUT(" \",\" "); schema_put_known(w, "ws"); }
        PUT(" ");
        schema_put(w, p, w->at, "prefixItems", NULL, 0);
    }
    if (none && least > n) return schema_fail_word(w, "minItems", "is more than there are");
    const uint64_t rest = least > n ? least - n : 0;
    if (!none && !(bounded && most == n)) {
        PUT(" ");
        if (n == 0) {                                        /* the first has no comma before it */
            PUT("(");
            if (items) schema_put(w, items, w->at, "items", NULL, 0);
            else schema_put_known(w, "value");
            PUT(" ");
        }
        PUT("(\",\" ");
        schema_put_known(w, "ws");
        PUT(" ");
        if (items) schema_put(w, items, w->at, "items", NULL, 0);
        else schema_put_known(w, "value");
        PUT(")");
        if (!put_bounds(w, n == 0 ? (rest > 0 ? rest - 1 : 0) : rest, n == 0 ? most - 1 : most - n, bounded)) return false;
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

/* Without `type` what the other keywords are about: other types would satisfy them, too, but are not meant. */
static bool read_types(struct writer *w, const struct json *s, uint32_t *types)
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

/* One of the values that have the type. */
static bool put_values(struct writer *w, const struct json *s)
{
    const struct json *list = json_member(s, "enum"), *one = json_member(s, "const");
    uint32_t types, n = 0;
    for (const struct json *m = s->first; m; m = m->next)
        if (schema_kind_of(m) != ANNOTATION && !named(m, "type") && !named(m, "enum") && !named(m, "const") && !named(m, "nullable"))
            return schema_fail(w, m->name, m->n_name, "beside enum or const is not enforced");
    if (!read_types(w, s, &types)) return false;
    if (list && list->kind != JSON_ARRAY) return schema_fail_word(w, "enum", "is no list");
    for (const struct json *v = list ? list->first : one; v; v = list ? v->next : NULL) {
        if (!has_type(v, types) || (one && list && !schema_same(w, one, v))) continue;
        if (n++ > 0) PUT(" | ");
        schema_put_literal(w, v, NULL);
    }
    return n > 0 || schema_fail_word(w, list ? "enum" : "const", "leaves no value of the type");
}

static bool put_types(struct writer *w, const struct json *s)
{
    static const char *const simple[] = { "null", "boolean" };
    uint32_t types, n = 0;
    if (!read_types(w, s, &types)) return false;
    if (types & T_ALL) { schema_put_known(w, "value"); return true; }
    if (types & T_NUMBER) types &= ~(uint32_t)T_INTEGER;     /* every integer is a number */
    for (uint32_t i = 0; i < SCHEMA_TYPES && !w->failed; i++) {
        if (!(types >> i & 1)) continue;
        if (n++ > 0) PUT(" | ");
        switch (1u << i) {
        case T_NULL:
        case T_BOOLEAN: schema_put_known(w, simple[i]); break;
        case T_STRING: put_string(w, s); break;
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
    return !w->failed && (!(types & T_OBJECT) || schema_put_properties(w, s));
}

/* Any of the schemas in a list, each with what stands beside it. */
static bool put_any_of(struct writer *w, const struct json *s, const char *keyword)
{
    const struct json *list = json_member(s, keyword);
    struct json *rest = schema_json(w, JSON_OBJECT);
    if (!rest) return false;
    if (list->kind != JSON_ARRAY || list->n == 0) return schema_fail_word(w, keyword, "is no list of schemas");
    for (const struct json *m = s->first; m; m = m->next)
        if (schema_kind_of(m) != ANNOTATION && !named(m, keyword) && !schema_add(w, rest, m, m->name, m->n_name)) return false;
    for (const struct json *a = list->first; a && !w->failed; a = a->next) {
        if (a != list->first) PUT(" | ");
        struct json *all = rest->n > 0 ? schema_json(w, JSON_OBJECT) : NULL;
        if (rest->n > 0 && (!all || !schema_merge(w, all, rest, 0) || !schema_merge(w, all, a, 0))) return false;
        schema_put(w, all ? all : a, w->at, keyword, NULL, 0);
    }
    return !w->failed;
}

static bool put_rule(struct writer *w, const struct todo *t)
{
    const struct json *s = t->schema, *ref;
    w->at = t;
    PUT("\n");
    put_rule_name(w, "s", t->number);
    PUT(" ::= ");
    if (s->kind == JSON_TRUE) { schema_put_known(w, "value"); return true; }
    if (s->kind == JSON_FALSE) { PUT("[]"); return true; }
    if (s->kind != JSON_OBJECT) return schema_fail(w, NULL, 0, "no schema: neither an object nor true or false");
    if (!schema_check_keywords(w, s)) return false;
    if ((ref = json_member(s, "$ref")) && schema_n_keywords(s) == 1) {
        if (ref->kind != JSON_STRING) return schema_fail_word(w, "$ref", "is no text");
        const struct json *to = schema_resolve(w, ref);
        if (to) schema_put(w, to, NULL, NULL, ref->text, ref->n);
        return !w->failed;
    }
    if (ref || json_member(s, "allOf")) {
        struct json *all = schema_json(w, JSON_OBJECT);
        if (!all || !schema_merge(w, all, s, 0)) return false;
        s = all;
    }
    if (json_member(s, "anyOf")) return put_any_of(w, s, "anyOf");
    if (json_member(s, "oneOf")) return put_any_of(w, s, "oneOf");
    return json_member(s, "enum") || json_member(s, "const") ? put_values(w, s) : put_types(w, s);
}

/* A line each; @ is the prefix. */
static const char *const known_rules[] = {
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}",
    "sp ::= \" \"?",
    "char ::= [^\"\\\\\\x00-\\x1F\\x7F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" @code)",
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
    "day31 ::= \"0\" [1-9] | [12] [0-9] | \"3\" [01]",
    "date ::= [0-9]{4} \"-\" ((\"0\" [13578] | \"1\" [02]) \"-\" @day31 | @short)",
    "short ::= (\"0\" [469] | \"11\") \"-\" (\"0\" [1-9] | [12] [0-9] | \"30\") | \"02-\" (\"0\" [1-9] | \"1\" [0-9] | \"2\" [0-8])",
    "hour ::= [01] [0-9] | \"2\" [0-3]",
    "time ::= @hour \":\" [0-5] [0-9] \":\" [0-5] [0-9] (\".\" [0-9]{1,9})? (\"Z\" | [+-] @hour \":\" [0-5] [0-9])",
    "date-time ::= @date \"T\" @time",
    "hex4 ::= [0-9a-f]{4}",
    "uuid ::= @hex4 @hex4 \"-\" @hex4 \"-\" @hex4 \"-\" @hex4 \"-\" @hex4 @hex4 @hex4",
    "octet ::= [0-9] | [1-9] [0-9] | \"1\" [0-9]{2} | \"2\" [0-4] [0-9] | \"25\" [0-5]",
    "ipv4 ::= @octet \".\" @octet \".\" @octet \".\" @octet",
    "label ::= [a-zA-Z0-9] ([a-zA-Z0-9-]{0,30} [a-zA-Z0-9])?",
    "email ::= [a-zA-Z0-9_+-]{1,20} (\".\" [a-zA-Z0-9_+-]{1,20}){0,2} \"\\x40\" @label (\".\" @label){1,4}",
};

static void put_known_rules(struct writer *w)
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

bool schema_grammar(struct room *work, const struct json *schema, const char *prefix, struct text_out *out, struct grammar_error *error)
{
    struct writer *w = room_take(work, sizeof *w);
    *error = (struct grammar_error){ 0, 0, "the schema needs more memory than there is for it" };
    if (!w) return false;
    *w = (struct writer){ .room = work, .out = out, .prefix = prefix, .root = schema, .error = error };
    w->last = &w->first;
    put_text(out, prefix);
    PUT("root ::= ");
    schema_put(w, schema, NULL, NULL, NULL, 0);
    for (const struct todo *t = w->first; t && !w->failed && !out->full; t = t->after) put_rule(w, t);
    put_known_rules(w);
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
    put_text(&out, e->why ? "the schema is no JSON: " : "the schema needs more memory than there is for it");
    put_text(&out, e->why ? e->why : "");
    error->text[out.n] = 0;
}

const struct grammar *grammar_of_schema(struct room *room, const char *text, size_t n, struct grammar_error *error)
{
    const size_t mark = room->used;
    const struct grammar *g = NULL;
    struct json_error e;
    const struct json *schema = json_read(room, text, n, &e);
    if (!schema) json_mistake(text, &e, error);
    else {
        /* A third of the room for the text, a third for the schema's parts, the last for the grammar. */
        const size_t part = (room->size - room->used) / 3;
        char *bytes = room_take(room, part);
        struct text_out out = { bytes, part, 0, false };
        struct room work = room_of(room->bytes + room->used, part);
        if (schema_grammar(&work, schema, "", &out, error)) g = grammar_read(room, bytes, out.n, NULL, error);
        room->full |= work.full || out.full;
    }
    room->used = mark;
    if (!g) return NULL;
    struct grammar *to = room_take(room, g->bytes);          /* to the front, over what made it */
    memmove(to, g, g->bytes);
    return to;
}
