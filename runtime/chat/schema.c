/* schema.c -- see schema.h.  Every schema in the schema becomes a rule: what refers to it names the rule, and it is written later. */
#include "schema.h"
#include "pattern.h"

struct todo {
    struct todo *after, *next;           /* in the order of their numbers; in its bucket */
    const struct json *schema;
    uint32_t number;
    const struct todo *in;               /* the schema that this one is a part of, by the keyword, and perhaps a name in it */
    const char *keyword, *name;          /* keyword NULL: the root, or what name refers to */
    size_t n_name;
};

enum { BUCKETS = 512, MOST_COMPARED = 1 << 22, MOST_PROPERTIES = 4096 };
struct writer {
    struct room *room;
    struct text_out *out;
    const char *prefix;
    const struct json *root;
    struct todo *buckets[BUCKETS], *first, **last;
    uint32_t n_rules;
    uint64_t compared;                   /* members, where several schemas hold at once */
    const struct todo *at;
    struct grammar_error *error;
    bool failed;
};

/* ---- mistakes ---- */

static void put_text(struct text_out *out, const char *text) { text_out_put(out, text, text_bytes(text)); }

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

/* At the schema that is written: what ['name'] why. */
static bool fail(struct writer *w, const char *name, size_t n, const char *why)
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
static bool fail_word(struct writer *w, const char *keyword, const char *why) { return fail(w, keyword, text_bytes(keyword), why); }

static void *take(struct writer *w, size_t bytes)
{
    void *p = room_take(w->room, bytes);
    if (!p) fail(w, NULL, 0, "the schema needs more memory than there is for it");
    else memset(p, 0, bytes);
    return p;
}

/* ---- keywords ---- */

enum kind { ANNOTATION, OBJECT, ARRAY, STRING, NUMBER, ANY };
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

static bool named(const struct json *m, const char *name)
{
    return m->n_name == text_bytes(name) && memcmp(m->name, name, m->n_name) == 0;
}

/* -1: none of ours. */
static int kind_of(const struct json *m)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) if (named(m, keywords[i].name)) return (int)keywords[i].kind;
    return m->n_name > 2 && memcmp(m->name, "x-", 2) == 0 ? ANNOTATION : -1;
}

/* Nothing that is there is passed over. */
static bool check_keywords(struct writer *w, const struct json *schema)
{
    for (const struct json *m = schema->first; m; m = m->next)
        if (kind_of(m) < 0) return fail(w, m->name, m->n_name, "is a keyword that is not enforced; leave it out or say it otherwise");
    return true;
}

/* ---- trees made of trees ---- */

static bool same(const struct json *a, const struct json *b)
{
    if (a == b) return true;
    if (a->kind != b->kind || a->n != b->n) return false;
    if (a->kind == JSON_STRING || a->kind == JSON_NUMBER) return memcmp(a->text, b->text, a->n) == 0;
    const struct json *x = a->first, *y = b->first;
    for (; x && y; x = x->next, y = y->next) {
        if (a->kind == JSON_OBJECT && (x->n_name != y->n_name || memcmp(x->name, y->name, x->n_name) != 0)) return false;
        if (!same(x, y)) return false;
    }
    return !x && !y;
}

static struct json *new_json(struct writer *w, enum json_kind kind)
{
    struct json *v = take(w, sizeof *v);
    if (v) v->kind = kind;
    return v;
}

/* A copy of value, whose own members are shared, behind the others of `in`. */
static struct json *add(struct writer *w, struct json *in, const struct json *value, const char *name, size_t n_name)
{
    struct json *m = take(w, sizeof *m), **to = &in->first;
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

static struct json *member(struct writer *w, struct json *o, const struct json *like)
{
    w->compared += o->n + 1;
    for (struct json *m = o->first; m; m = m->next)
        if (m->n_name == like->n_name && memcmp(m->name, like->name, m->n_name) == 0) return m;
    return NULL;
}

/* {"allOf":[a,b]} in the place of *a. */
static bool both(struct writer *w, struct json *a, const struct json *b)
{
    if (same(a, b)) return true;
    struct json *list = new_json(w, JSON_ARRAY), *o = new_json(w, JSON_OBJECT);
    if (!list || !o || !add(w, list, a, NULL, 0) || !add(w, list, b, NULL, 0) || !add(w, o, list, "allOf", 5)) return false;
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

/* What a pointer leads to: "#", "#/$defs/name", with ~0 ~1 and %HH.  (RFC 6901) */
static const struct json *resolve(struct writer *w, const struct json *ref)
{
    const char *p = ref->text, *const end = p + ref->n;
    const struct json *at = w->root;
    const size_t mark = w->room->used;
    char *step = take(w, ref->n + 1);
    if (!step) return NULL;
    if (ref->n == 0 || *p++ != '#' || (p < end && *p != '/')) {
        fail(w, ref->text, ref->n, "refers to somewhere else; only #/... in the same schema is followed");
        return NULL;
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
            while (m && (m->n_name != n || memcmp(m->name, step, n) != 0)) m = m->next;
            at = m;
        }
    }
    w->room->used = mark;
    if (!at) fail(w, ref->text, ref->n, "refers to what the schema has not");
    return at;
}

/* ---- several schemas at once ---- */

static bool is_false(const struct json *v) { return v && v->kind == JSON_FALSE; }
static bool closed(const struct json *schema)
{
    const struct json *a = json_member(schema, "additionalProperties");
    return a && a->kind != JSON_TRUE;
}

/* The names in a that b does not have. */
static bool has_others(struct writer *w, const struct json *a, const struct json *b)
{
    for (const struct json *m = a ? a->first : NULL; m && w->compared < MOST_COMPARED; m = m->next)
        if (!b || !member(w, (struct json *)(uintptr_t)b, m)) return true;
    return false;
}

static bool merge_types(struct writer *w, struct json *a, const struct json *b)
{
    struct json *all = new_json(w, JSON_ARRAY), one[2] = { *a, *b };
    const struct json *x = a->kind == JSON_ARRAY ? a->first : &one[0];
    if (!all) return false;
    one[0].next = one[1].next = NULL;
    for (; x; x = x->next)
        for (const struct json *y = b->kind == JSON_ARRAY ? b->first : &one[1]; y; y = y->next) {
            const bool whole = (json_is(x, "integer") && json_is(y, "number")) || (json_is(x, "number") && json_is(y, "integer"));
            if ((whole || same(x, y)) && !add(w, all, whole && json_is(x, "number") ? y : x, NULL, 0)) return false;
        }
    if (all->n == 0) return fail_word(w, "allOf", "asks for types that exclude each other");
    a->kind = JSON_ARRAY;
    a->first = all->first;
    a->n = all->n;
    return true;
}

static bool is_bound(const struct json *m, bool *least)
{
    *least = named(m, "minimum") || named(m, "exclusiveMinimum") || named(m, "minLength") || named(m, "minItems");
    return *least || named(m, "maximum") || named(m, "exclusiveMaximum") || named(m, "maxLength") || named(m, "maxItems");
}

/* Keyword m of another schema into that of the same name. */
static bool merge_keyword(struct writer *w, struct json *into, const struct json *m)
{
    bool least;
    double a, b;
    if (same(into, m)) return true;
    if (named(m, "properties") && into->kind == JSON_OBJECT && m->kind == JSON_OBJECT) {
        struct json *all = new_json(w, JSON_OBJECT);
        if (into->n + m->n > MOST_PROPERTIES) return fail_word(w, "properties", "are more than 4096");
        for (const struct json *p = into->first; all && p; p = p->next) if (!add(w, all, p, p->name, p->n_name)) return false;
        for (const struct json *p = m->first; all && p; p = p->next) {
            struct json *there = member(w, all, p);
            if (w->compared > MOST_COMPARED) return fail_word(w, "allOf", "puts too much together");
            if (there ? !both(w, there, p) : !add(w, all, p, p->name, p->n_name)) return false;
        }
        if (!all) return false;
        into->first = all->first;
        into->n = all->n;
        return true;
    }
    if (named(m, "required") && into->kind == JSON_ARRAY && m->kind == JSON_ARRAY) {
        struct json *all = new_json(w, JSON_ARRAY);
        if (into->n + m->n > MOST_PROPERTIES) return fail_word(w, "required", "names more than 4096");
        for (const struct json *p = into->first; all && p; p = p->next) if (!add(w, all, p, NULL, 0)) return false;
        for (const struct json *p = m->first; all && p; p = p->next) if (!add(w, all, p, NULL, 0)) return false;
        if (!all) return false;
        into->first = all->first;
        into->n = all->n;
        return true;
    }
    if (named(m, "type")) return merge_types(w, into, m);
    if (named(m, "items") || named(m, "additionalProperties")) return both(w, into, m);
    if (is_bound(m, &least) && json_real(into, &a) && json_real(m, &b)) {
        if (least ? b > a : b < a) { into->text = m->text; into->n = m->n; }
        return true;
    }
    return fail(w, m->name, m->n_name, "stands in two parts that hold at once, with different values");
}

/* All that schema asks for into `into`, an object without $ref and allOf. */
static bool merge(struct writer *w, struct json *into, const struct json *schema, uint32_t depth)
{
    if (w->failed) return false;
    if (w->compared++ > MOST_COMPARED) return fail_word(w, "allOf", "puts too much together");
    if (depth > SCHEMA_DEPTH) return fail_word(w, "$ref", "leads back to itself, or allOf is too deep");
    if (schema->kind == JSON_TRUE) return true;
    if (schema->kind != JSON_OBJECT) return fail_word(w, "allOf", "has a part that is no object, or false");
    if (!check_keywords(w, schema)) return false;
    const struct json *before = json_member(into, "properties"), *own = json_member(schema, "properties");
    if ((closed(schema) && has_others(w, before, own)) || (closed(into) && has_others(w, own, before)))
        return fail_word(w, "additionalProperties", "in one of several parts that hold at once excludes properties of another");
    for (const struct json *m = schema->first; m; m = m->next) {
        if (kind_of(m) == ANNOTATION) continue;
        if (named(m, "$ref")) {
            const struct json *to = m->kind == JSON_STRING ? resolve(w, m) : NULL;
            if (!to) return fail_word(w, "$ref", "is no text");
            if (!merge(w, into, to, depth + 1)) return false;
        } else if (named(m, "allOf")) {
            if (m->kind != JSON_ARRAY) return fail_word(w, "allOf", "is no list");
            for (const struct json *part = m->first; part; part = part->next) if (!merge(w, into, part, depth + 1)) return false;
        } else {
            struct json *there = member(w, into, m);
            if (there ? !merge_keyword(w, there, m) : !add(w, into, m, m->name, m->n_name)) return false;
        }
    }
    return true;
}

/* How many keywords beside annotations. */
static uint32_t n_keywords(const struct json *schema)
{
    uint32_t n = 0;
    for (const struct json *m = schema->first; m; m = m->next) n += kind_of(m) != ANNOTATION;
    return n;
}

/* ---- rules ---- */

static void put_number(struct text_out *out, uint64_t x)
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
    put_number(w->out, number);
}
static void put_known(struct writer *w, const char *name)    /* of a rule that is always there */
{
    put_text(w->out, w->prefix);
    put_text(w->out, name);
}
static void put_part(struct writer *w, const char *kind, uint32_t i)     /* sN-kI, a part of the schema that is written */
{
    put_rule_name(w, "s", w->at->number);
    text_out_char(w->out, '-');
    put_text(w->out, kind);
    put_number(w->out, i);
}
#define PUT(words) TEXT_OUT_WORDS(w->out, words)

/* The rule of a schema, which will be written. */
static void put_schema(struct writer *w, const struct json *schema, const struct todo *in, const char *keyword, const char *name,
                       size_t n_name)
{
    const uintptr_t hash = (uintptr_t)schema >> 3;
    struct todo **bucket = &w->buckets[(hash ^ hash >> 9) % BUCKETS], *t = *bucket;
    while (t && t->schema != schema) t = t->next;
    if (!t) {
        if (w->n_rules == SCHEMA_MOST_RULES) { fail(w, NULL, 0, "more than 20000 schemas in each other"); return; }
        if (!(t = take(w, sizeof *t))) return;
        *t = (struct todo){ NULL, *bucket, schema, w->n_rules++, in, keyword, name, n_name };
        *bucket = *w->last = t;
        w->last = &t->after;
    }
    put_rule_name(w, "s", t->number);
}

static void put_json_literal(struct writer *w, const struct json *v, const char *behind)
{
    char *bytes = NULL;
    struct text_out text = { NULL, 0, 0, false };
    const size_t mark = w->room->used;
    for (size_t size = 256; ; size *= 4) {                   /* once around, for all but the largest */
        w->room->used = mark;
        if (!(bytes = take(w, size))) return;
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
        return fail(w, NULL, 0, "a length or number beyond 1048576");
    text_out_char(w->out, '{');
    put_number(w->out, least);
    text_out_char(w->out, ',');
    if (bounded) put_number(w->out, most);
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
        if (!json_real(v, &real) || !(real >= 0 && real < 1e15) || real != (double)(int64_t)real) return fail_word(w, name, "is no length");
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
    return !*bounded || *least <= *most || fail_word(w, least_name, "is more than the most");
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
        return fail(w, NULL, 0, "of pattern, format and lengths of a text only one can be enforced");
    if (pattern) {
        struct pattern_error e;
        if (pattern->kind != JSON_STRING) return fail_word(w, "pattern", "is no text");
        PUT("\"\\\"\" ");
        if (!pattern_grammar(w->room, pattern->text, pattern->n, w->prefix, w->out, &e)) return fail_word(w, "pattern", e.why);
        PUT(" \"\\\"\"");
        return true;
    }
    if (format) {
        for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
            if (json_is(format, formats[i])) {
                PUT("\"\\\"\" ");
                put_known(w, formats[i]);
                PUT(" \"\\\"\"");
                return true;
            }
        if (format->kind != JSON_STRING) return fail_word(w, "format", "is no text");
        return fail(w, format->text, format->n, "is a format that is not enforced; date, time, date-time, uuid, ipv4 and email are");
    }
    if (!lengths) { put_known(w, "string"); return true; }
    PUT("\"\\\"\" ");
    put_known(w, "char");
    if (!put_bounds(w, least, most, bounded)) return false;
    PUT(" \"\\\"\"");
    return true;
}

/* ---- numbers ---- */

enum { DIGITS = 19 };
static void put_any_digits(struct writer *w, uint32_t n)
{
    if (n == 0) return;
    PUT(" [0-9]{");
    put_number(w->out, n);
    PUT("}");
}
static void put_digit_range(struct writer *w, char from, char to)
{
    PUT("[");
    text_out_char(w->out, from);
    if (to > from) { text_out_char(w->out, '-'); text_out_char(w->out, to); }
    PUT("]");
}
static bool all_are(const char *digits, uint32_t n, char what)
{
    for (uint32_t i = 0; i < n; i++) if (digits[i] != what) return false;
    return true;
}

/* n digits that are at least, or at most, these. */
static void put_side(struct writer *w, const char *digits, uint32_t n, bool least)
{
    if (n == 0) return;
    if (all_are(digits, n, least ? '0' : '9')) { put_any_digits(w, n); return; }
    PUT(" (");
    put_digit_range(w, *digits, *digits);
    put_side(w, digits + 1, n - 1, least);
    if (*digits != (least ? '9' : '0')) {
        PUT(" | ");
        put_digit_range(w, least ? (char)(*digits + 1) : '0', least ? '9' : (char)(*digits - 1));
        put_any_digits(w, n - 1);
    }
    PUT(")");
}

/* Numbers a .. b of n digits each. */
static void put_same_length(struct writer *w, const char *a, const char *b, uint32_t n)
{
    uint32_t i = 0;
    for (; i < n && a[i] == b[i]; i++) { PUT(" "); put_digit_range(w, a[i], a[i]); }
    if (i == n) return;
    const char low = all_are(a + i + 1, n - i - 1, '0') ? a[i] : (char)(a[i] + 1);
    const char high = all_are(b + i + 1, n - i - 1, '9') ? b[i] : (char)(b[i] - 1);
    const char *between = "";
    PUT(" (");
    if (low > a[i]) {
        put_digit_range(w, a[i], a[i]);
        put_side(w, a + i + 1, n - i - 1, true);
        between = " | ";
    }
    if (low <= high) {
        put_text(w->out, between);
        put_digit_range(w, low, high);
        put_any_digits(w, n - i - 1);
        between = " | ";
    }
    if (high < b[i]) {
        put_text(w->out, between);
        put_digit_range(w, b[i], b[i]);
        put_side(w, b + i + 1, n - i - 1, false);
    }
    PUT(")");
}

static uint32_t digits_of(uint64_t x, char *digits)
{
    struct text_out out = { digits, DIGITS + 1, 0, false };
    put_number(&out, x);
    return (uint32_t)out.n;
}

/* low .. high, as alternatives. */
static void put_range(struct writer *w, uint64_t low, uint64_t high)
{
    char a[DIGITS + 1], b[DIGITS + 1], lowest[DIGITS + 1], highest[DIGITS + 1];
    const uint32_t n_a = digits_of(low, a), n_b = digits_of(high, b);
    for (uint32_t n = n_a; n <= n_b; n++) {
        for (uint32_t i = 0; i < n; i++) { lowest[i] = i == 0 && n > 1 ? '1' : '0'; highest[i] = '9'; }
        if (n > n_a) PUT(" |");
        put_same_length(w, n == n_a ? a : lowest, n == n_b ? b : highest, n);
    }
}

/* As many digits as a double surely has, or as the bound has. */
#define MOST_INTEGER 9999999999999999

struct interval { int64_t low, high; bool bounded; };

static void put_signed_range(struct writer *w, int64_t low, int64_t high, const char *behind)
{
    const char *between = "";
    if (low > high) { PUT("[]"); return; }
    if (low < 0) {
        PUT("\"-\" (");
        put_range(w, high < 0 ? 0 - (uint64_t)high : 1, 0 - (uint64_t)low);
        PUT(")");
        put_text(w->out, behind);
        between = " | ";
    }
    if (high < 0) return;
    put_text(w->out, between);
    PUT("(");
    put_range(w, low < 0 ? 0 : (uint64_t)low, (uint64_t)high);
    PUT(")");
    put_text(w->out, behind);
}

/* One bound as an integer, with its fraction towards the inside; *open: an integer that is itself not allowed, *cut: it had a fraction. */
static bool read_bound(struct writer *w, const struct json *s, bool least, int64_t *out, bool *there, bool *open, bool *cut)
{
    const struct json *v = json_member(s, least ? "minimum" : "maximum");
    const struct json *x = json_member(s, least ? "exclusiveMinimum" : "exclusiveMaximum");
    double a = 0, b = 0;
    *open = *cut = false;
    *there = v || x;
    if (!*there) return true;
    if ((v && !json_real(v, &a)) || (x && !json_real(x, &b))) return fail_word(w, least ? "minimum" : "maximum", "is no number");
    if (x && (!v || (least ? b >= a : b <= a))) { *open = true; v = x; a = b; }
    if (json_integer(v, -(INT64_MAX / 10), INT64_MAX / 10, out)) return true;
    if (!(a > -9e15 && a < 9e15)) return fail_word(w, least ? "minimum" : "maximum", "is beyond 18 digits");
    *out = (int64_t)a;
    if ((double)*out == a) return true;
    *cut = true;
    *open = false;
    *out += least ? a > 0 : -(a < 0);
    return true;
}

static bool put_numeric(struct writer *w, const struct json *s, bool whole)
{
    int64_t low = -MOST_INTEGER, high = MOST_INTEGER;
    bool has_low, has_high, open_low, open_high, cut_low, cut_high;
    if (!read_bound(w, s, true, &low, &has_low, &open_low, &cut_low) || !read_bound(w, s, false, &high, &has_high, &open_high, &cut_high))
        return false;
    if (!has_low && !has_high) { put_known(w, whole ? "integer" : "number"); return true; }
    if (!whole && (cut_low || cut_high))
        return fail_word(w, cut_low ? "minimum" : "maximum", "has a fraction; bounds of numbers are integers");
    if (!has_low && high < -MOST_INTEGER) low = -INT64_MAX;
    if (!has_high && low > MOST_INTEGER) high = INT64_MAX;
    const int64_t first = low + open_low, last = high - open_high;
    if (first > last && (whole || low >= high)) return fail_word(w, has_low ? "minimum" : "maximum", "leaves no number");
    PUT("(");
    put_signed_range(w, first, last, whole ? "" : " (\".0\")?");
    /* Between integers: n.fraction from low to below high, -n.fraction from below -low to -high. */
    if (!whole && high > 0 && high > low) {
        PUT(" | (");
        put_range(w, low > 0 ? (uint64_t)low : 0, (uint64_t)high - 1);
        PUT(") \".\" ");
        put_known(w, "fraction");
    }
    if (!whole && low < 0 && high > low) {
        PUT(" | \"-\" (");
        put_range(w, high < 0 ? 0 - (uint64_t)high : 0, 0 - (uint64_t)low - 1);
        PUT(") \".\" ");
        put_known(w, "fraction");
    }
    PUT(")");
    return true;
}

/* ---- arrays ---- */

static bool put_array(struct writer *w, const struct json *s)
{
    const struct json *prefix = json_member(s, "prefixItems"), *items = json_member(s, "items");
    uint64_t least, most, n = 0;
    bool bounded;
    if (!read_lengths(w, s, "minItems", "maxItems", &least, &most, &bounded)) return false;
    if (prefix && prefix->kind != JSON_ARRAY) return fail_word(w, "prefixItems", "is no list");
    if (items && items->kind == JSON_ARRAY) return fail_word(w, "items", "is a list; the 2020-12 draft calls it prefixItems");
    const bool none = is_false(items) || (prefix && prefix->n > 0 && !items && least <= prefix->n) || (bounded && most == 0);
    PUT("\"[\" ");
    put_known(w, "ws");
    for (const struct json *p = prefix ? prefix->first : NULL; p && (!bounded || n < most); p = p->next, n++) {
        if (n > 0) { PUT(" \",\" "); put_known(w, "ws"); }
        PUT(" ");
        put_schema(w, p, w->at, "prefixItems", NULL, 0);
    }
    if (none && least > n) return fail_word(w, "minItems", "is more than there are");
    const uint64_t rest = least > n ? least - n : 0;
    if (!none && !(bounded && most == n)) {
        PUT(" ");
        if (n == 0) {                                        /* the first has no comma before it */
            PUT("(");
            if (items) put_schema(w, items, w->at, "items", NULL, 0);
            else put_known(w, "value");
            PUT(" ");
        }
        PUT("(\",\" ");
        put_known(w, "ws");
        PUT(" ");
        if (items) put_schema(w, items, w->at, "items", NULL, 0);
        else put_known(w, "value");
        PUT(")");
        if (!put_bounds(w, n == 0 ? (rest > 0 ? rest - 1 : 0) : rest, n == 0 ? most - 1 : most - n, bounded)) return false;
        if (n == 0) {
            PUT(" ");
            put_known(w, "ws");
            PUT(")");
            if (rest == 0) PUT("?");
        }
    }
    if (n > 0) { PUT(" "); put_known(w, "ws"); }
    PUT(" \"]\"");
    return true;
}

/* ---- objects ---- */

struct object {
    const struct json **property;        /* [n] schemas with their names; those only required have the schema of additional ones */
    bool     *required;                  /* [n] */
    uint32_t n;
    const struct json *additional;       /* NULL: none */
};

static int by_name(const struct json *a, const struct json *b)
{
    const size_t n = a->n_name < b->n_name ? a->n_name : b->n_name;
    const int c = memcmp(a->name, b->name, n);
    return c ? c : a->n_name < b->n_name ? -1 : a->n_name > b->n_name;
}

/* Shell's sort. */
static void sort_names(const struct json **a, uint32_t n)
{
    uint32_t gap = 1;
    while (gap < n / 3) gap = gap * 3 + 1;
    for (; gap > 0; gap /= 3)
        for (uint32_t i = gap; i < n; i++) {
            const struct json *x = a[i];
            uint32_t k = i;
            for (; k >= gap && by_name(a[k - gap], x) > 0; k -= gap) a[k] = a[k - gap];
            a[k] = x;
        }
}

static int64_t find_name(const struct json **sorted, uint32_t n, const struct json *name)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int c = by_name(sorted[middle], name);
        if (c == 0) return middle;
        if (c < 0) low = middle + 1;
        else high = middle;
    }
    return -1;
}

static const struct json anything = { .kind = JSON_TRUE };

/* What the object has; sorted: its properties by name. */
static bool read_object(struct writer *w, const struct json *s, struct object *o, const struct json ***sorted)
{
    const struct json *properties = json_member(s, "properties"), *required = json_member(s, "required");
    const struct json *additional = json_member(s, "additionalProperties");
    if (properties && properties->kind != JSON_OBJECT) return fail_word(w, "properties", "is no object");
    if (required && required->kind != JSON_ARRAY) return fail_word(w, "required", "is no list");
    const size_t most = (properties ? properties->n : 0) + (required ? required->n : 0);
    if (most > MOST_PROPERTIES) return fail(w, NULL, 0, "more than 4096 properties and required names");
    o->property = take(w, (most + 1) * sizeof *o->property);
    o->required = take(w, most + 1);
    *sorted = take(w, (most + 1) * sizeof **sorted);
    bool *wanted = take(w, most + 1);
    if (w->failed) return false;
    for (const struct json *p = properties ? properties->first : NULL; p; p = p->next) (*sorted)[o->n] = o->property[o->n] = p, o->n++;
    const uint32_t n_own = o->n;
    sort_names(*sorted, n_own);
    o->additional = additional ? additional : n_own > 0 ? NULL : &anything;
    if (is_false(additional)) o->additional = NULL;
    for (const struct json *r = required ? required->first : NULL; r; r = r->next) {
        if (r->kind != JSON_STRING) return fail_word(w, "required", "has something that is no text");
        const struct json name = { .name = r->text, .n_name = r->n };
        const int64_t at = find_name(*sorted, n_own, &name);
        if (at >= 0) { wanted[at] = true; continue; }
        if (is_false(additional)) return fail(w, r->text, r->n, "is required, but no property, and others are excluded");
        bool there = false;
        for (uint32_t i = n_own; i < o->n && !there; i++) there = by_name(o->property[i], &name) == 0;
        if (there) continue;
        struct json *p = take(w, sizeof *p);
        if (!p) return false;
        *p = additional ? *additional : anything;
        p->name = r->text;
        p->n_name = r->n;
        o->property[o->n] = p;
        o->required[o->n++] = true;
    }
    for (uint32_t i = 0; i < n_own; i++) o->required[i] = wanted[find_name(*sorted, n_own, o->property[i])];
    memcpy(*sorted, o->property, o->n * sizeof **sorted);
    sort_names(*sorted, o->n);
    return true;
}

static size_t character(const char *p, size_t n)
{
    const uint8_t c = (uint8_t)*p;
    const size_t want = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    return want < n ? want : n;
}

static void put_class_char(struct writer *w, const char *p, size_t n)
{
    if (n == 1 && (*p == ']' || *p == '[' || *p == '^' || *p == '-')) PUT("\\");
    text_out_put(w->out, p, n);
}

static bool is_plain(char c) { return (uint8_t)c >= 0x20 && c != '"' && c != '\\' && c != 0x7f; }

/* Names of additional properties are none of the others: a tree of these, from which a name leaves by a character that none of them has
 * there.  In the tree nothing is escaped, so each name has one spelling. */
struct branch { uint32_t first, last, depth; };              /* names first .. last - 1 begin with the same depth bytes */

/* Behind the names from number i on that have the same `bytes` bytes next. */
static uint32_t branch_end(const struct json **sorted, const struct branch *b, uint32_t i, size_t bytes)
{
    const char *p = sorted[i]->name + b->depth;
    for (uint32_t to = i + 1; to < b->last; to++)
        if (sorted[to]->n_name - b->depth < bytes || memcmp(sorted[to]->name + b->depth, p, bytes) != 0) return to;
    return b->last;
}

static bool put_other_names(struct writer *w, const struct json **sorted, uint32_t n)
{
    size_t most = 1;
    for (uint32_t i = 0; i < n; i++) most += sorted[i]->n_name + 1;
    struct branch *queue = take(w, most * sizeof *queue);
    if (!queue) return false;
    uint32_t n_queue = 1;
    queue[0] = (struct branch){ 0, n, 0 };
    for (uint32_t k = 0; k < n_queue && !w->failed; k++) {
        const struct branch b = queue[k];
        uint32_t first = b.first;
        bool may_end = true;
        PUT("\n");
        put_part(w, "k", k);
        PUT(" ::= ");
        for (; first < b.last && sorted[first]->n_name == b.depth; first++) may_end = false;
        if (may_end) PUT("| ");
        const uint32_t from = first;
        for (uint32_t i = first, to; i < b.last; i = to) {
            const char *p = sorted[i]->name + b.depth;
            const size_t bytes = character(p, sorted[i]->n_name - b.depth);
            to = branch_end(sorted, &b, i, bytes);
            if (!is_plain(*p)) continue;
            PUT("[");
            put_class_char(w, p, bytes);
            PUT("] ");
            put_part(w, "k", n_queue);
            PUT(" | ");
            queue[n_queue++] = (struct branch){ i, to, b.depth + (uint32_t)bytes };
        }
        PUT("[^\"\\\\\\x00-\\x1F\\x7F");
        for (uint32_t i = from, to; i < b.last; i = to) {
            const char *p = sorted[i]->name + b.depth;
            const size_t bytes = character(p, sorted[i]->n_name - b.depth);
            to = branch_end(sorted, &b, i, bytes);
            if (is_plain(*p)) put_class_char(w, p, bytes);
        }
        PUT("] ");
        put_known(w, "char");
        PUT("*");
    }
    return !w->failed;
}

static void put_property(struct writer *w, const struct json *p)
{
    put_json_literal(w, p, ":");
    PUT(" ");
    put_known(w, "sp");
    PUT(" ");
    put_schema(w, p, w->at, "properties", p->name, p->n_name);
}

static void put_additional(struct writer *w, const struct object *o)
{
    if (o->n == 0) put_known(w, "string");
    else { PUT("\"\\\"\" "); put_part(w, "k", 0); PUT(" \"\\\"\""); }
    PUT(" \":\" ");
    put_known(w, "sp");
    PUT(" ");
    put_schema(w, o->additional, w->at, "additionalProperties", NULL, 0);
}

/* The rules behind the object's own: f I: what comes from property I on while there was none; r I: the same behind others. */
static bool put_properties(struct writer *w, const struct json *s)
{
    struct object o = { 0 };
    const struct json **sorted;
    if (!read_object(w, s, &o, &sorted)) return false;
    bool first = true;                                       /* may all before it be left out? */
    for (uint32_t i = 0; i <= o.n && !w->failed; i++) {
        const bool end = i == o.n;
        if (first) {
            PUT("\n");
            put_part(w, "f", i);
            PUT(" ::= ");
            if (!end) {
                put_property(w, o.property[i]);
                PUT(" ");
                put_part(w, "r", i + 1);
                if (!o.required[i]) { PUT(" | "); put_part(w, "f", i + 1); }
            } else if (o.additional) {
                PUT("(");
                put_additional(w, &o);
                PUT(" ");
                put_part(w, "r", i);
                PUT(")?");
            } else PUT("\"\"");
        }
        if (i > 0 || (end && o.additional)) {
            PUT("\n");
            put_part(w, "r", i);
            PUT(" ::= ");
            if (!end) {
                PUT("(\",\" ");
                put_known(w, "ws");
                PUT(" ");
                put_property(w, o.property[i]);
                put_text(w->out, o.required[i] ? ") " : ")? ");
                put_part(w, "r", i + 1);
            } else {
                if (o.additional) { PUT("(\",\" "); put_known(w, "ws"); PUT(" "); put_additional(w, &o); PUT(")* "); }
                put_known(w, "ws");
            }
        }
        first = first && !end && !o.required[i];
    }
    return !o.additional || o.n == 0 || put_other_names(w, sorted, o.n);
}

/* ---- a schema ---- */

enum { T_NULL = 1, T_BOOLEAN = 2, T_STRING = 4, T_INTEGER = 8, T_NUMBER = 16, T_ARRAY = 32, T_OBJECT = 64, T_ALL = 128 };
static const char *const type_names[] = { "null", "boolean", "string", "integer", "number", "array", "object" };

static bool type_bit(struct writer *w, const struct json *v, uint32_t *types)
{
    for (uint32_t i = 0; i < sizeof type_names / sizeof *type_names; i++) if (json_is(v, type_names[i])) { *types |= 1u << i; return true; }
    return v->kind == JSON_STRING ? fail(w, v->text, v->n, "is no type") : fail_word(w, "type", "is no text and no list of texts");
}

/* Without `type` what the other keywords are about: other types would satisfy them, too, but are not meant. */
static bool read_types(struct writer *w, const struct json *s, uint32_t *types)
{
    const struct json *type = json_member(s, "type"), *nullable = json_member(s, "nullable");
    *types = 0;
    if (type && type->kind == JSON_ARRAY) {
        for (const struct json *t = type->first; t; t = t->next) if (!type_bit(w, t, types)) return false;
        if (type->n == 0) return fail_word(w, "type", "is an empty list");
    } else if (type) {
        if (!type_bit(w, type, types)) return false;
    } else {
        for (const struct json *m = s->first; m; m = m->next) {
            const int kind = kind_of(m);
            *types |= kind == OBJECT ? T_OBJECT : kind == ARRAY ? T_ARRAY : kind == STRING ? T_STRING : kind == NUMBER ? T_NUMBER : 0;
        }
        if (*types == 0) *types = T_ALL;
    }
    if (nullable && !json_is_bool(nullable)) return fail_word(w, "nullable", "is neither true nor false");
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
        if (kind_of(m) != ANNOTATION && !named(m, "type") && !named(m, "enum") && !named(m, "const") && !named(m, "nullable"))
            return fail(w, m->name, m->n_name, "beside enum or const is not enforced");
    if (!read_types(w, s, &types)) return false;
    if (list && list->kind != JSON_ARRAY) return fail_word(w, "enum", "is no list");
    for (const struct json *v = list ? list->first : one; v; v = list ? v->next : NULL) {
        if (!has_type(v, types) || (one && list && !same(one, v))) continue;
        if (n++ > 0) PUT(" | ");
        put_json_literal(w, v, NULL);
    }
    return n > 0 || fail_word(w, list ? "enum" : "const", "leaves no value of the type");
}

static bool put_types(struct writer *w, const struct json *s)
{
    static const char *const simple[] = { "null", "boolean" };
    uint32_t types, n = 0;
    if (!read_types(w, s, &types)) return false;
    if (types & T_ALL) { put_known(w, "value"); return true; }
    if (types & T_NUMBER) types &= ~(uint32_t)T_INTEGER;     /* every integer is a number */
    for (uint32_t i = 0; i < sizeof type_names / sizeof *type_names && !w->failed; i++) {
        if (!(types >> i & 1)) continue;
        if (n++ > 0) PUT(" | ");
        switch (1u << i) {
        case T_NULL:
        case T_BOOLEAN: put_known(w, simple[i]); break;
        case T_STRING: put_string(w, s); break;
        case T_INTEGER:
        case T_NUMBER: put_numeric(w, s, 1u << i == T_INTEGER); break;
        case T_ARRAY: put_array(w, s); break;
        default:
            PUT("\"{\" ");
            put_known(w, "ws");
            PUT(" ");
            put_part(w, "f", 0);
            PUT(" \"}\"");
        }
    }
    return !w->failed && (!(types & T_OBJECT) || put_properties(w, s));
}

/* Any of the schemas in a list, each with what stands beside it. */
static bool put_any_of(struct writer *w, const struct json *s, const char *keyword)
{
    const struct json *list = json_member(s, keyword);
    struct json *rest = new_json(w, JSON_OBJECT);
    if (!rest) return false;
    if (list->kind != JSON_ARRAY || list->n == 0) return fail_word(w, keyword, "is no list of schemas");
    for (const struct json *m = s->first; m; m = m->next)
        if (kind_of(m) != ANNOTATION && !named(m, keyword) && !add(w, rest, m, m->name, m->n_name)) return false;
    for (const struct json *a = list->first; a && !w->failed; a = a->next) {
        if (a != list->first) PUT(" | ");
        struct json *all = rest->n > 0 ? new_json(w, JSON_OBJECT) : NULL;
        if (rest->n > 0 && (!all || !merge(w, all, rest, 0) || !merge(w, all, a, 0))) return false;
        put_schema(w, all ? all : a, w->at, keyword, NULL, 0);
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
    if (s->kind == JSON_TRUE) { put_known(w, "value"); return true; }
    if (s->kind == JSON_FALSE) { PUT("[]"); return true; }
    if (s->kind != JSON_OBJECT) return fail(w, NULL, 0, "no schema: neither an object nor true or false");
    if (!check_keywords(w, s)) return false;
    if ((ref = json_member(s, "$ref")) && n_keywords(s) == 1) {
        if (ref->kind != JSON_STRING) return fail_word(w, "$ref", "is no text");
        const struct json *to = resolve(w, ref);
        if (to) put_schema(w, to, NULL, NULL, ref->text, ref->n);
        return !w->failed;
    }
    if (ref || json_member(s, "allOf")) {
        struct json *all = new_json(w, JSON_OBJECT);
        if (!all || !merge(w, all, s, 0)) return false;
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
    put_schema(w, schema, NULL, NULL, NULL, 0);
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
    }
    room->used = mark;
    if (!g) return NULL;
    struct grammar *to = room_take(room, g->bytes);          /* to the front, over what made it */
    memmove(to, g, g->bytes);
    return to;
}
