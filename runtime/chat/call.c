/* call.c -- see call.h.  Readers return false if the text does not match; if the text ended too early, they also set `more`. */
#include "call.h"
#include "argument.h"

enum { NAME_MOST = 256 };

struct call_parser {
    struct answer *a;
    const struct chat_family *f;
    const char *begin, *p, *end;
    bool        last, more, whole;           /* whole: the call must not be reported in pieces */
    struct room room;                        /* for trees */
    struct text_out out;                     /* for arguments */
    enum call_result result;
};
struct span { const char *p; size_t n; };

/* ---- small readers ---- */

static bool none_left(struct call_parser *r)
{
    if (r->p < r->end) return false;
    r->more = true;
    return true;
}

static void skip_space(struct call_parser *r) { while (r->p < r->end && is_space(*r->p)) r->p++; }

static bool take(struct call_parser *r, const char *words)
{
    const char *p = r->p;
    if (!words) return false;
    for (; *words; words++, p++) {
        if (p == r->end) { r->more = true; return false; }
        if (*p != *words) return false;
    }
    r->p = p;
    return true;
}

/* True if take would succeed, or could with more text. */
static bool may_take(const struct call_parser *r, const char *words)
{
    struct call_parser try = *r;
    try.more = false;
    return words && (take(&try, words) || try.more);
}

static bool is_name_byte(char c) { return (uint8_t)c > ' ' && c != 0x7f && !memchr("\"'<{[(", c, 6); }

static bool is(struct span s, const char *words) { return s.n == text_bytes(words) && memcmp(s.p, words, s.n) == 0; }

static bool is_name(struct span s)
{
    if (!s.n || s.n > NAME_MOST) return false;
    for (size_t i = 0; i < s.n; ) {
        const size_t m = json_utf8(s.p + i, s.n - i);
        if (!m || !is_name_byte(s.p[i])) return false;
        i += m;
    }
    return true;
}

static struct span trimmed(struct span s)
{
    while (s.n && is_space(*s.p)) s.p++, s.n--;
    while (s.n && is_space(s.p[s.n - 1])) s.n--;
    return s;
}

/* Skips a code fence before JSON. */
static void skip_fence(struct call_parser *r)
{
    skip_space(r);
    if (take(r, "```")) take(r, "json");
    skip_space(r);
}

/* Takes text up to the bracket that closes the one at r->p.  The state of the brackets is kept in the answer, because a call is read
 * again with every byte. */
static bool take_brackets(struct call_parser *r, struct span *s)
{
    struct answer *a = r->a;
    const bool python = r->f->shape == CHAT_PYTHON || r->f->code, braced = r->f->shape == CHAT_BRACED;
    const size_t from = (size_t)(r->p - r->begin) + 1, n = (size_t)(r->end - r->begin);
    if (a->scan.from != from) {
        a->scan.from = a->scan.at = from;
        a->scan.depth = 1;
        a->scan.quote = 0;
    }
    size_t at = a->scan.at;
    for (; at < n && a->scan.depth; at++) {
        const char c = r->begin[at];
        const bool marked = braced && c == '<' && (!a->scan.quote || a->scan.quote == '<');
        if (marked && n - at < 5) break;
        if (marked && begins(r->begin + at, r->end, "<|\"|>")) { a->scan.quote = a->scan.quote ? 0 : '<'; at += 4; }
        else if (a->scan.quote == '<') continue;
        else if (a->scan.quote && c == '\\') {
            if (at + 1 >= n) break;
            at++;
        } else if (a->scan.quote) { if (c == a->scan.quote) a->scan.quote = 0; }
        else if (c == '"' || (c == '\'' && python)) a->scan.quote = c;
        else if (c == '{' || c == '[' || c == '(') a->scan.depth++;
        else if (c == '}' || c == ']' || c == ')') a->scan.depth--;
    }
    a->scan.at = at;
    if (a->scan.depth) { r->more = true; return false; }
    *s = (struct span){ r->p, at - (from - 1) };
    r->p = r->begin + at;
    return true;
}

/* ---- reporting ---- */

static void tell_parts(struct answer *a, struct span name, struct span id, struct span arguments, bool cut)
{
    const struct answer_event begin = { .kind = ANSWER_CALL, .call = a->n_calls, .text = name.p, .n = name.n, .id = id.p, .n_id = id.n },
                              text = { .kind = ANSWER_ARGUMENTS, .call = a->n_calls, .text = arguments.p, .n = arguments.n },
                              end = { .kind = ANSWER_CALL_END, .call = a->n_calls, .cut = cut };
    a->n_calls++;
    a->tell(a->context, &begin);
    if (arguments.n) a->tell(a->context, &text);
    a->tell(a->context, &end);
}

static bool tell_call(struct call_parser *r, struct span name, struct span id)
{
    if (r->out.full) return false;
    tell_parts(r->a, name, id, (struct span){ r->out.bytes, r->out.n }, false);
    return true;
}

/* Reports a call that was cut off, with the beginning of its arguments.  False: the text was not cut off here, or names no tool. */
static bool tell_cut(struct call_parser *r, struct span name, struct span id, struct span arguments)
{
    if (!r->last || !r->a->cut || !argument_schema(r->a->tools, name.p, name.n)) return false;
    tell_parts(r->a, name, id, arguments, true);
    r->p = r->end;
    return true;
}
/* The arguments that have been written so far, or the beginning of an object. */
static struct span written(const struct call_parser *r)
{
    return r->out.n ? (struct span){ r->out.bytes, r->out.n } : (struct span){ "{", 1 };
}

/* At the { of arguments: begins to report the call in pieces.  in_object: the arguments stand in an object. */
static bool begin_live(struct call_parser *r, struct span name, struct span id, bool in_object)
{
    struct answer *a = r->a;
    const struct answer_event begin = { .kind = ANSWER_CALL, .call = a->n_calls, .text = name.p, .n = name.n, .id = id.p, .n_id = id.n };
    if (!a->in_pieces || r->whole || r->last || !is_name(name) || !argument_schema(a->tools, name.p, name.n)) return false;
    a->tell(a->context, &begin);
    json_pieces_begin(&a->pieces);
    a->has_rest = in_object;
    a->rest_depth = 1;
    a->rest_quoted = false;
    r->result = CALL_LIVE;
    return true;
}

static const struct json *read_json(struct call_parser *r, struct span s)
{
    struct json_error error;
    return json_read(&r->room, s.p, s.n, &error);
}

/* Writes arguments.  If they are a string with a JSON object in it, writes that object. */
static void put_arguments(struct call_parser *r, const struct json *v)
{
    r->out = (struct text_out){ r->out.bytes, r->out.size, 0, false };
    const struct json *inner = v && v->kind == JSON_STRING ? read_json(r, (struct span){ v->text, v->n }) : NULL;
    if (!v || v->kind == JSON_NULL) TEXT_OUT_WORDS(&r->out, "{}");
    else json_put(&r->out, inner && inner->kind == JSON_OBJECT ? inner : v, false);
}

/* ---- JSON ---- */

static const struct json *first_member(const struct json *o, const char *const *names)
{
    const struct json *v = NULL;
    for (; *names && !v; names++) v = json_member(o, *names);
    return v;
}

static bool keyed_calls(struct call_parser *r, const struct json *o)
{
    for (const struct json *m = o->first; m; m = m->next)
        if (!is_name((struct span){ m->name, m->n_name })) return false;
    for (const struct json *m = o->first; m; m = m->next) {
        put_arguments(r, m);
        if (!tell_call(r, (struct span){ m->name, m->n_name }, (struct span){ 0 })) return false;
    }
    return o->n > 0;
}

static bool object_call(struct call_parser *r, struct span s)
{
    static const char *const names[] = { "name", "tool_name", NULL }, *const arguments[] = { "arguments", "parameters", NULL },
        *const ids[] = { "id", "tool_call_id", NULL };
    const struct json *o = read_json(r, s), *inner = json_member(o, "function");
    if (!o) return false;
    if (r->f->flags & CHAT_KEYED) return keyed_calls(r, o);
    const struct json *from = inner && inner->kind == JSON_OBJECT ? inner : o;
    const struct json *name = first_member(from, names), *id = first_member(o, ids);
    if (!name || name->kind != JSON_STRING || !is_name((struct span){ name->text, name->n })) return false;
    if (r->f->flags & CHAT_BARE && !argument_schema(r->a->tools, name->text, name->n)) return false;
    put_arguments(r, first_member(from, arguments));
    const bool has_id = id && (id->kind == JSON_STRING || id->kind == JSON_NUMBER);
    return tell_call(r, (struct span){ name->text, name->n }, has_id ? (struct span){ id->text, id->n } : (struct span){ 0 });
}

/* Takes a string up to its closing quote. */
static bool take_string(const char **p, const char *end, struct span *s)
{
    const char *from = ++*p;
    for (; *p < end && **p != '"'; ++*p) if (**p == '\\' && ++*p == end) return false;
    if (*p >= end) return false;
    *s = (struct span){ from, (size_t)(*p - from) };
    ++*p;
    return true;
}

static bool is_one_of(struct span s, const char *const *names)
{
    while (*names && !is(s, *names)) names++;
    return *names;
}

/* Reports an object whose end was cut off, if its name stands before that. */
static bool cut_object(struct call_parser *r)
{
    static const char *const names[] = { "name", "tool_name", NULL }, *const arguments[] = { "arguments", "parameters", NULL },
        *const ids[] = { "id", "tool_call_id", NULL };
    const char *p = r->p, *end = r->end;
    struct span key, value, name = { 0 }, id = { 0 };
    while (p < end) {
        if (*p == '{' || *p == ',' || is_space(*p)) { p++; continue; }
        if (*p != '"' || !take_string(&p, end, &key)) break;
        while (p < end && (is_space(*p) || *p == ':')) p++;
        const bool keyed = r->f->flags & CHAT_KEYED;
        if (keyed) name = key;
        if (keyed || is_one_of(key, arguments)) {
            const bool object = p < end && *p == '{';
            return name.n && tell_cut(r, name, id, (struct span){ p, object ? (size_t)(end - p) : 0 });
        }
        if (p == end || is(key, "function")) continue;       /* {"function": {"name": ...}} */
        value = (struct span){ p, 0 };
        if (*p == '"') { if (!take_string(&p, end, &value)) break; }
        else while (p < end && *p != ',' && *p != '}' && *p != '{' && *p != '[') p++, value.n++;
        if (p < end && (*p == '{' || *p == '[')) break;
        if (is_one_of(key, names)) name = value;
        if (is_one_of(key, ids)) id = value;
    }
    return name.n && tell_cut(r, name, id, (struct span){ 0 });
}

/* Finds the arguments of an object, once their { has come; the name comes before them. */
static bool live_object(struct call_parser *r)
{
    static const char *const names[] = { "name", "tool_name", NULL }, *const arguments[] = { "arguments", "parameters", NULL },
        *const ids[] = { "id", "tool_call_id", NULL };
    const char *p = r->p + 1, *end = r->end, *from = r->p;
    struct span key, value, name = { 0 }, id = { 0 };
    if (!r->a->in_pieces || (r->f->object && memchr(r->f->object, '#', text_bytes(r->f->object)))) return false;     /* the id follows */
    for (;;) {
        while (p < end && (*p == ',' || is_space(*p))) p++;
        if (p == end || *p != '"' || !take_string(&p, end, &key)) return false;
        while (p < end && (*p == ':' || is_space(*p))) p++;
        const bool keyed = r->f->flags & CHAT_KEYED;
        if (keyed) name = key;
        if (p == end || memchr(key.p, '\\', key.n)) return false;
        if (keyed || is_one_of(key, arguments)) {
            if (!name.n || *p != '{') return false;
            r->p = p;
            if (begin_live(r, name, id, true)) return true;
            r->p = from;
            return false;
        }
        value = (struct span){ p, 0 };
        if (*p == '"') { if (!take_string(&p, end, &value)) return false; }
        else while (p < end && *p >= '0' && *p <= '9') p++, value.n++;
        if (!value.n || memchr(value.p, '\\', value.n)) return false;
        if (is_one_of(key, names)) name = value;
        if (is_one_of(key, ids)) id = value;
    }
}

/* Takes the first object of a list, or a single object; further objects follow as separate calls. */
static bool json_call(struct call_parser *r)
{
    skip_fence(r);
    if (take(r, "[")) {
        skip_space(r);
        if (take(r, "]")) return true;
    }
    struct span s;
    if (none_left(r) || *r->p != '{') return false;
    if (live_object(r)) return true;
    return take_brackets(r, &s) ? object_call(r, s) : cut_object(r);
}

static bool marked_json_call(struct call_parser *r)
{
    take(r, r->f->open);
    skip_space(r);
    if (!take(r, r->f->call) && r->f->call && r->p > r->begin) return false;
    return json_call(r);
}

/* May an answer that begins {"... be a call?  Only if its first name occurs in calls. */
static bool bare_call(struct call_parser *r)
{
    static const char *const names[] = { "\"name\"", "\"type\"", "\"function\"", "\"parameters\"", "\"arguments\"", "\"id\"" };
    const char *begin = r->p++;
    bool may = false;
    skip_space(r);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) may |= may_take(r, names[i]);
    r->p = begin;
    return may && json_call(r);
}

/* ---- a name, then JSON ---- */

enum part { PART_NAME, PART_ID, PART_NOTHING, PART_ARGUMENTS };

/* Takes text up to the first of the three marks. */
static bool take_part(struct call_parser *r, struct span *s, enum part *next)
{
    const struct chat_family *f = r->f;
    *s = (struct span){ r->p, 0 };
    for (; s->n <= NAME_MOST; r->p++, s->n++) {
        if (none_left(r)) return false;
        const enum part which = take(r, f->id_mark) ? PART_ID : take(r, f->name_mark) ? PART_NAME : take(r, f->args_mark) ? PART_ARGUMENTS
                              : PART_NOTHING;
        if (which != PART_NOTHING) {
            *next = which;
            *s = trimmed(*s);
            return true;
        }
        if (r->more) return false;
        if (!is_name_byte(*r->p) && !(is_space(*r->p) && s->n == 0)) return false;
    }
    return false;
}

/* The name N in functions.N:INDEX or functions.N. */
static struct span name_in(struct span s)
{
    static const char prefix[] = "functions.";
    const char *end = s.p + s.n;
    if (begins(s.p, end, prefix)) s.p += sizeof prefix - 1;
    s.n = (size_t)(end - s.p);
    size_t n = s.n;
    while (n && s.p[n - 1] >= '0' && s.p[n - 1] <= '9') n--;
    if (n > 1 && n < s.n && s.p[n - 1] == ':') s.n = n - 1;
    return s;
}

static bool json_arguments(struct call_parser *r, struct span name, struct span id)
{
    struct span s;
    skip_fence(r);
    const bool nothing = (r->p == r->end && r->last && !r->a->cut) || take(r, r->f->post);
    if (!is_name(name)) return false;
    if (!nothing && none_left(r)) return tell_cut(r, name, id, (struct span){ 0 });
    if (!nothing && *r->p != '{') return false;
    if (!nothing && begin_live(r, name, id, false)) return true;
    if (!nothing && !take_brackets(r, &s)) return tell_cut(r, name, id, (struct span){ r->p, (size_t)(r->end - r->p) });
    const struct json *v = nothing ? NULL : read_json(r, s);
    if (!v && !nothing) return false;
    put_arguments(r, v);
    return tell_call(r, name, id);
}

static bool named_call(struct call_parser *r)
{
    const struct chat_family *f = r->f;
    struct span part, name = { 0 }, id = { 0 };
    enum part now = f->flags & (CHAT_ID_FIRST | CHAT_ID_NAMES) ? PART_ID : f->flags & CHAT_KIND ? PART_NOTHING : PART_NAME;
    if (take(r, f->open)) skip_space(r);
    if (!take(r, f->call) && !(f->flags & CHAT_LINE)) return false;
    if (none_left(r)) return false;
    if (*r->p == '[' || *r->p == '{') return json_call(r);
    for (enum part next; now != PART_ARGUMENTS; now = next) {
        if (!take_part(r, &part, &next)) return false;
        if (now == PART_NAME) name = part;
        else if (now == PART_ID) id = part;
    }
    if (f->flags & CHAT_ID_NAMES) name = name_in(id);
    if (f->flags & CHAT_LINE && is(name, "all")) { r->result = CALL_CONTENT; return true; }
    if (!r->a->tools) { r->result = CALL_CONTENT; return is_name(name); }
    return json_arguments(r, name, id);
}

/* ---- tags ---- */

/* Takes a name; attributes: the text after it in its tag. */
static bool take_name(struct call_parser *r, struct span *name, struct span *attributes)
{
    const struct chat_family *f = r->f;
    const char *from = r->p;
    *attributes = (struct span){ 0 };
    for (; ; r->p++) {
        if (none_left(r) || r->p - from > NAME_MOST) return false;
        if (f->flags & CHAT_QUOTED ? *r->p == '"' : may_take(r, f->tag_end)) break;
    }
    *name = trimmed((struct span){ from, (size_t)(r->p - from) });
    if (f->flags & CHAT_QUOTED) attributes->p = ++r->p;
    for (; !take(r, f->tag_end); r->p++)
        if (r->more || none_left(r) || !(f->flags & CHAT_QUOTED) || r->p - attributes->p > NAME_MOST) return false;
    if (attributes->p) attributes->n = (size_t)(r->p - attributes->p);
    return true;
}

static bool take_function(struct call_parser *r, struct span *name)
{
    struct span attributes;
    if (!(r->f->flags & CHAT_NAME_LINE)) return take_name(r, name, &attributes) && is_name(*name);
    skip_space(r);
    const char *from = r->p;
    while (r->p < r->end && is_name_byte(*r->p) && r->p - from <= NAME_MOST) r->p++;
    if (r->p == r->end && !(r->last && r->p > from)) return none_left(r) && false;
    *name = (struct span){ from, (size_t)(r->p - from) };
    if (!is_name(*name)) return false;
    take(r, r->f->name_mark);
    return true;
}

static bool has(struct span s, const char *words)
{
    for (const char *p = s.p; p && p < s.p + s.n; p++) if (begins(p, s.p + s.n, words)) return true;
    return false;
}

/* After the end of a value: can the call continue like this?  If not, the end was part of the value. */
static bool may_go_on(struct call_parser r)
{
    const struct chat_family *f = r.f;
    skip_space(&r);
    if (r.p == r.end) return r.last;
    return may_take(&r, f->key) || may_take(&r, f->post) || may_take(&r, f->close) || may_take(&r, f->call) || may_take(&r, f->open);
}

static bool take_value(struct call_parser *r, struct span *s)
{
    static const char cdata[] = "<![CDATA[";
    const struct chat_family *f = r->f;
    if (f->value) {
        skip_space(r);
        if (!take(r, f->value)) return false;
    }
    const bool wrapped = f->flags & CHAT_CDATA && take(r, cdata);
    if (f->flags & CHAT_CDATA && r->more) return false;
    for (const char *from = r->p; ; r->p++) {
        if (none_left(r)) return false;
        struct call_parser behind = *r;
        if (wrapped && !take(&behind, "]]>")) { r->more |= behind.more; continue; }
        if (!take(&behind, f->value_end)) { r->more |= behind.more; continue; }
        if (behind.p == behind.end && !r->last) { r->more = true; return false; }
        if (!may_go_on(behind)) continue;
        *s = (struct span){ from, (size_t)(r->p - from) };
        r->p = behind.p;
        break;
    }
    if (f->flags & CHAT_VALUE_LINES) {
        if (s->n && *s->p == '\n') s->p++, s->n--;
        if (s->n && s->p[s->n - 1] == '\n') s->n--;
    }
    return true;
}

/* Takes all arguments at once, as JSON. */
static bool take_raw(struct call_parser *r)
{
    struct span s;
    const bool marked = take(r, r->f->raw[0]);
    skip_space(r);
    if (none_left(r) || *r->p != '{' || !take_brackets(r, &s)) return false;
    const struct json *v = read_json(r, s);
    if (!v) return false;
    put_arguments(r, v);
    skip_space(r);
    if (marked && !take(r, r->f->raw[1])) return false;
    skip_space(r);
    return take(r, r->f->post);
}

static bool tagged_arguments(struct call_parser *r, const struct json *schema)
{
    const struct chat_family *f = r->f;
    text_out_char(&r->out, '{');
    for (bool first = true; ; first = false) {
        struct span key, attributes, value;
        skip_space(r);
        if (take(r, f->post)) break;
        if (!take(r, f->key)) {
            const bool left_out = !first && !r->more && (may_take(r, f->close) || may_take(r, f->open) || may_take(r, f->call));
            if (left_out || (r->p == r->end && r->last && !r->a->cut)) break;
            return false;
        }
        if (!take_name(r, &key, &attributes) || !take_value(r, &value)) return false;
        const enum argument_is kind = has(attributes, "string=\"true\"") || has(attributes, "type=\"string\"") ? ARGUMENT_TEXT
                               : has(attributes, "string=\"false\"") || has(attributes, "type=\"") ? ARGUMENT_JSON : ARGUMENT_BY_SCHEMA;
        if (!first) text_out_char(&r->out, ',');
        argument_put_text(&r->out, key.p, key.n);
        text_out_char(&r->out, ':');
        argument_put_bare(&r->out, r->room, value.p, value.n, schema, argument_property(schema, schema, key.p, key.n), kind);
    }
    text_out_char(&r->out, '}');
    return true;
}

static bool tagged_call(struct call_parser *r)
{
    const struct chat_family *f = r->f;
    struct span name;
    if (take(r, f->open)) {
        skip_space(r);
        if (r->p < r->end && *r->p == '{') return json_call(r);
    }
    if (!take(r, f->call) || !take_function(r, &name)) return false;
    const struct json *schema = argument_schema(r->a->tools, name.p, name.n);
    skip_space(r);
    const bool raw = (f->raw[0] && may_take(r, f->raw[0]) && !may_take(r, f->key)) || (r->p < r->end && *r->p == '{');
    if (raw ? take_raw(r) : tagged_arguments(r, schema)) return tell_call(r, name, (struct span){ 0 });
    return r->more && tell_cut(r, name, (struct span){ 0 }, written(r));
}

/* For tags whose prefix is a token: a value cannot contain it, so the first end tag is the end. */
static bool element_call(struct call_parser *r)
{
    const struct chat_family *f = r->f;
    struct span name, attributes;
    if (take(r, f->open)) skip_space(r);
    if (!take(r, f->call) || !take_name(r, &name, &attributes) || !is_name(name)) return false;
    const char *from = r->p;
    while (!may_take(r, f->post)) {
        if (none_left(r)) return false;
        r->p++;
    }
    const char *end = r->p;
    const struct json *schema = argument_schema(r->a->tools, name.p, name.n);
    if (!take(r, f->post)) return tell_cut(r, name, (struct span){ 0 }, written(r));
    return argument_put_elements(&r->out, r->room, from, end, f->key, schema, schema) &&
           tell_call(r, name, (struct span){ 0 });
}

/* ---- calls in the syntax of a language ---- */

/* N(...) or N{...}; suffix: after the name, not part of it. */
static bool function_call(struct call_parser *r, const char *suffix)
{
    const bool braced = r->f->shape == CHAT_BRACED;
    struct span s, name = { r->p, 0 };
    while (r->p < r->end && is_name_byte(*r->p) && name.n < NAME_MOST) r->p++, name.n++;
    if (none_left(r) || *r->p != (braced ? '{' : '(') || !is_name(name)) return false;
    const size_t n_suffix = text_bytes(suffix);
    if (name.n <= n_suffix || !begins(name.p + name.n - n_suffix, name.p + name.n, suffix)) return false;
    name.n -= n_suffix;
    if (!take_brackets(r, &s)) return tell_cut(r, name, (struct span){ 0 }, written(r));
    return argument_put_members(&r->out, s.p + 1, s.p + s.n, s.p[s.n - 1], braced) &&
           tell_call(r, name, (struct span){ 0 });
}

static bool python_call(struct call_parser *r)
{
    take(r, r->f->open);
    skip_space(r);
    if (take(r, "[")) {
        skip_space(r);
        if (take(r, "]")) return true;
    }
    if (none_left(r)) return false;
    return *r->p == '{' ? json_call(r) : function_call(r, "");
}

static bool braced_call(struct call_parser *r)
{
    if (take(r, r->f->open)) skip_space(r);
    take(r, r->f->call);
    return !r->more && function_call(r, "");
}

/* Reports code as an argument of the request's code interpreter. */
static bool tell_code(struct call_parser *r, const char *end)
{
    static const char *const names[] = { "python", "code_interpreter", "ipython" };
    size_t which = 0;
    for (size_t i = sizeof names / sizeof *names; i-- > 0; )
        if (argument_schema(r->a->tools, names[i], text_bytes(names[i]))) which = i;
    r->out = (struct text_out){ r->out.bytes, r->out.size, 0, false };
    TEXT_OUT_WORDS(&r->out, "{\"code\":");
    argument_put_text(&r->out, r->p, (size_t)(end - r->p));
    text_out_char(&r->out, '}');
    r->p = end;
    return tell_call(r, (struct span){ names[which], text_bytes(names[which]) }, (struct span){ 0 });
}

/* N.call(K=V), an object as elsewhere, or code up to the end. */
static bool code_call(struct call_parser *r)
{
    const char *from = r->p;
    skip_space(r);
    if (none_left(r)) return false;
    if (*r->p == '{' ? json_call(r) : function_call(r, ".call")) return true;
    if (r->more && !r->last) return false;
    r->p = from;
    r->more = true;
    return r->last && tell_code(r, r->end);
}

/* ---- headers ---- */

/* [to=WORD] [<|channel|>WORD [to=WORD]] [<|constrain|>] [WORD] <|message|>; if it is a call, its arguments follow. */
static bool header(struct call_parser *r)
{
    struct span channel = { 0 }, recipient = { 0 };
    for (bool free = false; ; ) {
        skip_space(r);
        if (none_left(r) || r->p - r->begin > 2 * NAME_MOST) return false;
        if (take(r, "<|message|>")) break;
        const bool is_channel = take(r, "<|channel|>"), is_recipient = !is_channel && take(r, "to=");
        const bool marked = is_channel || is_recipient || take(r, "<|constrain|>");
        if (!marked && (r->more || !free)) return false;
        free = true;
        struct span word = { r->p, 0 };
        while (r->p < r->end && is_name_byte(*r->p)) r->p++, word.n++;
        if (none_left(r) || (!word.n && !marked)) return false;
        if (is_channel) channel = word;
        else if (is_recipient) recipient = word;
    }
    r->result = is(recipient, "self") || is(channel, "analysis") ? CALL_REASONING : CALL_CONTENT;
    if (!(r->f->flags & CHAT_FUNCTIONS) || !recipient.n || !r->a->tools) return true;
    const struct span name = name_in(recipient);
    const enum call_result text = r->result;
    r->whole = name.p == recipient.p;                        /* without functions. it may be code */
    const char *from = r->p;
    skip_space(r);
    if (!r->last && none_left(r)) return false;
    if (r->p == r->end || *r->p == '{') {
        r->result = CALL_DONE;
        if (json_arguments(r, name, (struct span){ 0 })) return true;
        r->result = text;
        if (r->more && !r->last) return false;
    }
    const char *end = from;                                  /* code, or text that only looked like arguments */
    if (is(name, "python")) {
        for (r->p = from; end < r->end && !begins(end, r->end, "<|call|>") && !begins(end, r->end, "<|end|>"); ) end++;
        if (end == r->end && !r->last) { r->more = true; return false; }
        r->result = CALL_DONE;
        return tell_code(r, end);
    }
    r->p = from;
    return true;
}

/* ---- all forms ---- */

static bool read_call(struct call_parser *r)
{
    const struct chat_family *f = r->f;
    if (f->flags & CHAT_HEADERS && (begins(r->p, r->end, "<|c") || begins(r->p, r->end, "<|m") || *r->p == 't')) return header(r);
    if (f->code && take(r, f->code)) return code_call(r);
    r->more = false;
    if (f->flags & CHAT_BARE && *r->p == '{') return bare_call(r);
    switch ((enum chat_shape)f->shape) {
    case CHAT_JSON: return marked_json_call(r);
    case CHAT_NAMED: return named_call(r);
    case CHAT_TAGGED: return tagged_call(r);
    case CHAT_ELEMENTS: return element_call(r);
    case CHAT_PYTHON: return python_call(r);
    case CHAT_BRACED: return braced_call(r);
    case CHAT_NO_CALLS: break;
    }
    return false;
}

enum call_result call_read(struct answer *a, size_t n, bool last, size_t *used)
{
    const size_t half = a->work_bytes / 2;
    struct call_parser r = { .a = a, .f = a->family, .begin = a->hold, .p = a->hold, .end = a->hold + n, .last = last, .result = CALL_DONE,
                        .room = room_of((char *)a->work + half, a->work_bytes - half), .out = { a->work, half, 0, false } };
    if (read_call(&r)) {
        *used = (size_t)(r.p - r.begin);
        return r.result;
    }
    return r.more ? CALL_MORE : CALL_NONE;
}

bool call_is_worth_reading(const struct answer *a, size_t n)
{
    const struct chat_family *f = a->family;
    if ((f->shape != CHAT_TAGGED && f->shape != CHAT_ELEMENTS) || n <= 2 * NAME_MOST) return true;
    const char *const ends[] = { f->post, f->close };
    for (size_t i = 0; i < 2; i++)
        if (ends[i] && text_bytes(ends[i]) <= n && begins(a->hold + n - text_bytes(ends[i]), a->hold + n, ends[i])) return true;
    return false;
}
