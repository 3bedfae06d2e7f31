/* argument.c -- see argument.h. */
#include "argument.h"

enum { ARGUMENT_DEPTH = 64 };

/* ---- schemas ---- */

static const struct json *member_n(const struct json *o, const char *name, size_t n)
{
    if (!o || o->kind != JSON_OBJECT) return NULL;
    for (const struct json *m = o->first; m; m = m->next)
        if (m->n_name == n && memcmp(m->name, name, n) == 0) return m;
    return NULL;
}

const struct json *argument_schema(const struct json *tools, const char *name, size_t n)
{
    for (const struct json *t = tools ? tools->first : NULL; t; t = t->next) {
        const struct json *f = json_member(t, "function"), *called = json_member(f ? f : t, "name");
        if (called && called->kind == JSON_STRING && called->n == n && memcmp(called->text, name, n) == 0)
            return json_member(f ? f : t, "parameters");
    }
    return NULL;
}

const struct json *argument_referred(const struct json *root, const struct json *s)
{
    for (int i = 0; i < 8; i++) {
        const struct json *ref = json_member(s, "$ref");
        if (!ref || ref->kind != JSON_STRING || ref->n < 2 || memcmp(ref->text, "#/", 2) != 0) return s;
        s = root;
        for (const char *p = ref->text + 2, *end = ref->text + ref->n; p <= end && s; ) {
            const char *slash = p;
            while (slash < end && *slash != '/') slash++;
            s = member_n(s, p, (size_t)(slash - p));
            p = slash + 1;
        }
    }
    return s;
}

const struct json *argument_property(const struct json *root, const struct json *s, const char *name, size_t n)
{
    s = argument_referred(root, s);
    const struct json *p = member_n(json_member(s, "properties"), name, n), *other = json_member(s, "additionalProperties");
    return p ? p : other && other->kind == JSON_OBJECT ? other : NULL;
}

enum { MAY_BE_TEXT = 1, MAY_BE_NULL = 2, MAY_BE_ARRAY = 4, MAY_BE_OBJECT = 8, MAY_BE_OTHER = 16, MAY_BE_ANY = 31 };

static uint32_t named_type(const struct json *t)
{
    return json_is(t, "string") ? MAY_BE_TEXT : json_is(t, "null") ? MAY_BE_NULL : json_is(t, "array") ? MAY_BE_ARRAY
         : json_is(t, "object") ? MAY_BE_OBJECT : t->kind == JSON_STRING && t->n ? MAY_BE_OTHER : 0;
}

static uint32_t type_of(const struct json *v)
{
    return v->kind == JSON_STRING ? MAY_BE_TEXT : v->kind == JSON_NULL ? MAY_BE_NULL : v->kind == JSON_ARRAY ? MAY_BE_ARRAY
         : v->kind == JSON_OBJECT ? MAY_BE_OBJECT : MAY_BE_OTHER;
}

/* Bits MAY_BE_*; an empty schema allows anything. */
static uint32_t types(const struct json *root, const struct json *s, int depth)
{
    static const char *const choices[] = { "anyOf", "oneOf", "allOf" };
    uint32_t bits = 0;
    const struct json *x;
    s = argument_referred(root, s);
    if (!s || s->kind != JSON_OBJECT || depth > 8) return MAY_BE_ANY;
    if ((x = json_member(s, "type"))) {
        if (x->kind == JSON_ARRAY) for (x = x->first; x; x = x->next) bits |= named_type(x);
        else bits = named_type(x);
    } else if ((x = json_member(s, "const"))) bits = type_of(x);
    else if ((x = json_member(s, "enum"))) for (x = x->first; x; x = x->next) bits |= type_of(x);
    else for (int i = 0; i < 3; i++)
        if ((x = json_member(s, choices[i]))) for (x = x->first; x; x = x->next) bits |= types(root, x, depth + 1);
    return bits ? bits : MAY_BE_ANY;
}

bool argument_is_text(const struct json *root, const struct json *s) { return types(root, s, 0) == MAY_BE_TEXT; }

/* ---- values without quotes ---- */

static void put_escaped(struct text_out *out, const char *text, size_t n)
{
    size_t from = 0, at = 0;
    while (at < n) {
        const size_t m = json_utf8(text + at, n - at);
        if (m) { at += m; continue; }
        json_put_escaped(out, text + from, at - from);
        TEXT_OUT_WORDS(out, "\xef\xbf\xbd");
        from = ++at;
    }
    json_put_escaped(out, text + from, at - from);
}

void argument_put_text(struct text_out *out, const char *text, size_t n)
{
    text_out_char(out, '"');
    put_escaped(out, text, n);
    text_out_char(out, '"');
}

static void trim(const char **p, size_t *n)
{
    while (*n && is_space(**p)) (*p)++, (*n)--;
    while (*n && is_space((*p)[*n - 1])) (*n)--;
}

static bool same(const char *p, size_t n, const char *word) { return n == text_bytes(word) && memcmp(p, word, n) == 0; }

/* The JSON word for Python's or JSON's true, false and null; else NULL. */
static const char *json_word(const char *p, size_t n)
{
    return same(p, n, "true") || same(p, n, "True") ? "true" : same(p, n, "false") || same(p, n, "False") ? "false"
         : same(p, n, "null") || same(p, n, "None") ? "null" : NULL;
}

void argument_put_bare(struct text_out *out, struct room room, const char *text, size_t n, const struct json *root, const struct json *s,
                       enum argument_is is)
{
    const uint32_t may = is == ARGUMENT_TEXT ? MAY_BE_TEXT : is == ARGUMENT_JSON ? MAY_BE_ANY & ~(uint32_t)MAY_BE_TEXT : types(root, s, 0);
    const char *p = text;
    size_t n_p = n;
    trim(&p, &n_p);
    if (may != MAY_BE_TEXT && n_p) {
        struct json_error error;
        const char *word = json_word(p, n_p);
        const struct json *v = word ? NULL : json_read(&room, p, n_p, &error);
        if (word && (!(may & MAY_BE_TEXT) || (may & (word[0] == 'n' ? MAY_BE_NULL : MAY_BE_OTHER) && word[0] == p[0]))) {
            text_out_put(out, word, text_bytes(word));
            return;
        }
        if (v && (!(may & MAY_BE_TEXT) || may == MAY_BE_ANY || (v->kind != JSON_STRING && may & type_of(v)))) {
            json_put(out, v, false);
            return;
        }
    }
    argument_put_text(out, text, n);
}

/* ---- literals of Python and of gemma ---- */

static const char mark[] = "<|\"|>";
enum { MARK = sizeof mark - 1 };

struct loose { struct text_out *out; const char *p, *end; bool braced; uint32_t depth; };

static bool put_members(struct loose *l, char closing);

static void skip_space(struct loose *l) { while (l->p < l->end && is_space(*l->p)) l->p++; }
static bool take(struct loose *l, char c)
{
    skip_space(l);
    if (l->p >= l->end || *l->p != c) return false;
    l->p++;
    return true;
}

static int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; }

/* \xHH, \uHHHH, \UHHHHHHHH, after the letter. */
static bool put_hex(struct loose *l, int digits)
{
    static const char hex[] = "0123456789abcdef";
    uint32_t c = 0;
    for (int i = 0; i < digits; i++, l->p++) {
        const int d = l->p < l->end ? hex_digit(*l->p) : -1;
        if (d < 0 || c > 0x10ffff) return false;
        c = c << 4 | (uint32_t)d;
    }
    if (c > 0x10ffff) return false;
    const uint32_t high = 0xd800 + ((c - 0x10000) >> 10), low = 0xdc00 + ((c - 0x10000) & 0x3ff);
    for (int i = 0; i < (c < 0x10000 ? 1 : 2); i++) {
        const uint32_t u = c < 0x10000 ? c : i ? low : high;
        text_out_put(l->out, (const char[]){ '\\', 'u', hex[u >> 12], hex[u >> 8 & 15], hex[u >> 4 & 15], hex[u & 15] }, 6);
    }
    return true;
}

/* Begins at the quote. */
static bool put_quoted(struct loose *l)
{
    const char quote = *l->p++;
    text_out_char(l->out, '"');
    for (const char *from = l->p; l->p < l->end; ) {
        if (*l->p != quote && *l->p != '\\') { l->p++; continue; }
        put_escaped(l->out, from, (size_t)(l->p - from));
        if (*l->p++ == quote) { text_out_char(l->out, '"'); return true; }
        if (l->p >= l->end) return false;
        static const char names[] = "\\'\"/nrtbfav0", bytes[] = "\\'\"/\n\r\t\b\f\a\v\0";
        const char c = *l->p++, *known = memchr(names, c, sizeof names - 1);
        if (c == 'x' || c == 'u' || c == 'U') {
            if (!put_hex(l, c == 'x' ? 2 : c == 'u' ? 4 : 8)) return false;
        } else if (known) json_put_escaped(l->out, bytes + (known - names), 1);
        else if (c != '\n') {                                /* \ and a line break are removed; unknown escapes are kept, like in Python */
            l->p--;
            json_put_escaped(l->out, "\\", 1);
        }
        from = l->p;
    }
    return false;
}

static bool put_marked(struct loose *l)
{
    const char *from = l->p += MARK;
    while (l->p < l->end && !begins(l->p, l->end, mark)) l->p++;
    if (l->p >= l->end) return false;
    argument_put_text(l->out, from, (size_t)(l->p - from));
    l->p += MARK;
    return true;
}

static bool is_string(struct loose *l)
{
    return l->p < l->end && (*l->p == '"' || (*l->p == '\'' && !l->braced) || (l->braced && begins(l->p, l->end, mark)));
}
static bool put_string(struct loose *l) { return *l->p == '<' ? put_marked(l) : put_quoted(l); }

/* A word, a number, or, if braced, text. */
static bool put_bare_word(struct loose *l)
{
    const char *p = l->p;
    while (l->p < l->end && *l->p != ',' && *l->p != ']' && *l->p != '}' && *l->p != ')' && (l->braced || !is_space(*l->p))) l->p++;
    size_t n = (size_t)(l->p - p);
    trim(&p, &n);
    const char *word = json_word(p, n);
    if (word) { text_out_put(l->out, word, text_bytes(word)); return true; }
    uint64_t few[16];                                        /* a number is one node */
    struct room room = room_of(few, sizeof few);
    struct json_error error;
    const struct json *v = n ? json_read(&room, p, n, &error) : NULL;
    if (v && v->kind == JSON_NUMBER) text_out_put(l->out, v->text, v->n);
    else if (l->braced && n) argument_put_text(l->out, p, n);
    else return false;
    return true;
}

static bool put_list(struct loose *l, char closing);

static bool put_value(struct loose *l)
{
    skip_space(l);
    if (l->p >= l->end || l->depth >= ARGUMENT_DEPTH) return false;
    l->depth++;
    const bool ok = is_string(l) ? put_string(l) : take(l, '{') ? put_members(l, '}') : take(l, '[') ? put_list(l, ']')
                  : !l->braced && take(l, '(') ? put_list(l, ')') : put_bare_word(l);
    l->depth--;
    return ok;
}

static bool put_list(struct loose *l, char closing)
{
    text_out_char(l->out, '[');
    for (bool first = true; !take(l, closing); first = false) {
        if (!first) {
            if (!take(l, ',')) return false;
            if (take(l, closing)) break;
            text_out_char(l->out, ',');
        }
        if (!put_value(l)) return false;
    }
    text_out_char(l->out, ']');
    return true;
}

static bool put_key(struct loose *l)
{
    skip_space(l);
    if (is_string(l)) return put_string(l);
    const char *p = l->p;
    while (l->p < l->end && *l->p != ':' && *l->p != '=' && *l->p != ',' && *l->p != '{' && *l->p != '}' && *l->p != '(' && *l->p != ')' &&
           *l->p != '"' && *l->p != '\'') l->p++;
    size_t n = (size_t)(l->p - p);
    trim(&p, &n);
    if (!n) return false;
    argument_put_text(l->out, p, n);
    return true;
}

static bool put_members(struct loose *l, char closing)
{
    text_out_char(l->out, '{');
    for (bool first = true; !take(l, closing); first = false) {
        if (!first) {
            if (!take(l, ',')) return false;
            if (take(l, closing)) break;
            text_out_char(l->out, ',');
        }
        if (!put_key(l) || !(take(l, ':') || take(l, '='))) return false;
        text_out_char(l->out, ':');
        if (!put_value(l)) return false;
    }
    text_out_char(l->out, '}');
    return true;
}

bool argument_put_members(struct text_out *out, const char *p, const char *end, char closing, bool braced)
{
    struct loose l = { out, p, end, braced, 0 };
    return put_members(&l, closing) && l.p == end;
}

/* ---- elements ---- */

struct elements { struct text_out *out; struct room room; const char *p, *end, *prefix; const struct json *root; uint32_t depth; };

static bool take_words(struct elements *e, const char *words)
{
    if (!begins(e->p, e->end, words)) return false;
    e->p += text_bytes(words);
    return true;
}

/* Reads prefix, "<" or "</", a name, ">". */
static bool take_tag(struct elements *e, const char *opening, const char **name, size_t *n)
{
    const char *from = e->p;
    if (take_words(e, e->prefix) && take_words(e, opening)) {
        *name = e->p;
        while (e->p < e->end && *e->p != '>') e->p++;
        *n = (size_t)(e->p - *name);
        if (e->p < e->end && *n && **name != '/') { e->p++; return true; }
    }
    e->p = from;
    return false;
}

static bool put_elements(struct elements *e, const struct json *s, bool array);

static bool put_element_value(struct elements *e, const struct json *s)
{
    const char *from = e->p, *name;
    size_t n;
    const uint32_t may = types(e->root, s, 0);
    while (e->p < e->end && is_space(*e->p)) e->p++;
    const char *inner = e->p;
    if (take_tag(e, "<", &name, &n)) {
        e->p = inner;
        const bool item = same(name, n, "item") && (may == MAY_BE_ANY || !(may & MAY_BE_OBJECT));
        return put_elements(e, s, item);
    }
    e->p = from;
    while (e->p < e->end && !begins(e->p, e->end, e->prefix)) e->p++;
    if (e->p == from && !(may & MAY_BE_TEXT) && may & (MAY_BE_ARRAY | MAY_BE_OBJECT))
        text_out_put(e->out, may & MAY_BE_ARRAY ? "[]" : "{}", 2);
    else argument_put_bare(e->out, e->room, from, (size_t)(e->p - from), e->root, s, ARGUMENT_BY_SCHEMA);
    return true;
}

static bool put_elements(struct elements *e, const struct json *s, bool array)
{
    bool first = true;
    if (++e->depth > ARGUMENT_DEPTH) return false;
    text_out_char(e->out, array ? '[' : '{');
    for (;;) {
        const char *name, *closing;
        size_t n, n_closing;
        while (e->p < e->end && is_space(*e->p)) e->p++;
        if (!take_tag(e, "<", &name, &n)) break;
        if (!first) text_out_char(e->out, ',');
        first = false;
        if (!array) {
            argument_put_text(e->out, name, n);
            text_out_char(e->out, ':');
        }
        const struct json *inner = array ? json_member(argument_referred(e->root, s), "items") : argument_property(e->root, s, name, n);
        if (!put_element_value(e, inner)) return false;
        while (e->p < e->end && is_space(*e->p)) e->p++;
        if (!take_tag(e, "</", &closing, &n_closing) || n_closing != n || memcmp(name, closing, n) != 0) return false;
    }
    text_out_char(e->out, array ? ']' : '}');
    e->depth--;
    return true;
}

bool argument_put_elements(struct text_out *out, struct room room, const char *p, const char *end, const char *prefix,
                           const struct json *root, const struct json *s)
{
    struct elements e = { out, room, p, end, prefix, root, 0 };
    return put_elements(&e, s, false) && e.p == end;
}
