/* pattern.c -- see pattern.h.  One pass: what is read is written at once; only classes of characters are collected before. */
#include "pattern.h"

enum { DEPTH = 60, MOST_RANGES = 1024, LAST = 0x10ffff };
struct range { uint32_t first, last; };
struct set { struct range *range; uint32_t n; };             /* [MOST_RANGES] */

struct reader {
    const char *at, *end, *prefix;
    struct text_out *out;
    struct set set, other;
    uint32_t depth;
    const char *why;
};

static bool fail(struct reader *r, const char *why)
{
    if (!r->why) r->why = why;
    return false;
}

/* ---- sets of characters ---- */

static bool add(struct reader *r, struct set *s, uint32_t first, uint32_t last)
{
    if (s->n == MOST_RANGES) return fail(r, "has a class of more than 1024 ranges");
    s->range[s->n++] = (struct range){ first, last };
    return true;
}

/* Ascending, apart from each other. */
static void order(struct set *s)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < s->n; i++) {
        const struct range x = s->range[i];
        uint32_t k = i;
        for (; k > 0 && s->range[k - 1].first > x.first; k--) s->range[k] = s->range[k - 1];
        s->range[k] = x;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        const struct range x = s->range[i];
        if (n > 0 && x.first <= s->range[n - 1].last + 1) {
            if (x.last > s->range[n - 1].last) s->range[n - 1].last = x.last;
        } else s->range[n++] = x;
    }
    s->n = n;
}

/* What s has not, into to. */
static bool add_complement(struct reader *r, struct set *to, const struct set *s)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (next < s->range[i].first && !add(r, to, next, s->range[i].first - 1)) return false;
        next = s->range[i].last + 1;
    }
    return next > LAST || add(r, to, next, LAST);
}

/* \d \w \s; upper case: all others. */
static bool add_named(struct reader *r, struct set *to, char name)
{
    static const struct range digits[] = { { '0', '9' } }, words[] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } },
        spaces[] = { { '\t', '\r' }, { ' ', ' ' }, { 0xa0, 0xa0 }, { 0x1680, 0x1680 }, { 0x2000, 0x200a }, { 0x2028, 0x2029 },
                     { 0x202f, 0x202f }, { 0x205f, 0x205f }, { 0x3000, 0x3000 }, { 0xfeff, 0xfeff } };
    const char low = (char)(name | 32);
    const struct range *from = low == 'd' ? digits : low == 'w' ? words : spaces;
    const uint32_t n = low == 'd' ? 1 : low == 'w' ? 4 : 10;
    struct range copy[10];
    memcpy(copy, from, n * sizeof *from);
    if (name != low) return add_complement(r, to, &(struct set){ copy, n });
    for (uint32_t i = 0; i < n; i++) if (!add(r, to, from[i].first, from[i].last)) return false;
    return true;
}

/* ---- writing ---- */

static void put_text(struct reader *r, const char *text) { text_out_put(r->out, text, text_bytes(text)); }
#define PUT(words) TEXT_OUT_WORDS(r->out, words)

static void put_hex(struct reader *r, uint32_t c, uint32_t n)
{
    static const char hex[] = "0123456789ABCDEF";
    while (n-- > 0) text_out_char(r->out, hex[c >> 4 * n & 15]);
}
static void put_codepoint(struct reader *r, uint32_t c) { PUT("\\U"); put_hex(r, c, 8); }

/* As JSON spells it: " \ and what is below U+0020 with a backslash. */
static void put_escape(struct reader *r, uint32_t c)
{
    static const char from[] = "\"\\\b\f\n\r\t", into[] = "\"\\bfnrt";
    const char *known = c < 0x80 && c ? memchr(from, (int)c, sizeof from - 1) : NULL;
    if (known && known - from < 2) { PUT("\"\\\\\\"); text_out_char(r->out, into[known - from]); PUT("\""); return; }
    PUT("\"\\\\");
    if (known) text_out_char(r->out, into[known - from]);
    else { PUT("u"); put_hex(r, c, 4); }
    PUT("\"");
}

static bool escaped(uint32_t c) { return c < 0x20 || c == '"' || c == '\\' || c == 0x7f; }

/* One character of r->set, which is ordered. */
static void put_set(struct reader *r)
{
    const struct set *s = &r->set;
    PUT("([");
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t from = s->range[i].first, to; from <= s->range[i].last; from = to + 1) {
            to = from;
            if (escaped(from)) continue;
            const uint32_t next = from < '"' ? '"' - 1u : from < '\\' ? '\\' - 1u : from < 0x7f ? 0x7eu : (uint32_t)LAST;
            to = next < s->range[i].last ? next : s->range[i].last;
            if (from <= 0xdfff && to >= 0xd800) {            /* surrogates, which no text has */
                if (from < 0xd800) to = 0xd7ff;
                else { to = to < 0xdfff ? to : 0xdfff; continue; }
            }
            put_codepoint(r, from);
            PUT("-");
            put_codepoint(r, to);
        }
    PUT("]");
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t c = s->range[i].first; c <= s->range[i].last && c <= 0x7f; c++)
            if (escaped(c)) { PUT(" | "); put_escape(r, c); }
    PUT(")");
}

/* ---- reading ---- */

static bool read_hex(struct reader *r, uint32_t n, uint32_t *c)
{
    *c = 0;
    for (uint32_t i = 0; i < n; i++, r->at++) {
        const char x = r->at < r->end ? *r->at : 0;
        const int d = x >= '0' && x <= '9' ? x - '0' : (x | 32) >= 'a' && (x | 32) <= 'f' ? (x | 32) - 'a' + 10 : -1;
        if (d < 0) return fail(r, "has \\x or \\u without its hexadecimal digits");
        *c = *c << 4 | (uint32_t)d;
    }
    return true;
}

static bool read_unicode(struct reader *r, uint32_t *c)
{
    uint32_t low;
    if (r->at < r->end && *r->at == '{') {
        uint32_t n = 0;
        while (r->at + 1 + n < r->end && r->at[1 + n] != '}') n++;
        r->at++;
        if (n == 0 || n > 6 || !read_hex(r, n, c) || r->at >= r->end || *r->at++ != '}' || *c > LAST)
            return fail(r, "has \\u{...} that is no character");
    } else {
        if (!read_hex(r, 4, c)) return false;
        if (*c >= 0xd800 && *c < 0xdc00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
            r->at += 2;
            if (!read_hex(r, 4, &low)) return false;
            if (low < 0xdc00 || low > 0xdfff) return fail(r, "has half a surrogate pair");
            *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    return (*c < 0xd800 || *c > 0xdfff) || fail(r, "has half a surrogate pair");
}

/* Behind a backslash: one character, or *name of a set. */
static bool read_escape(struct reader *r, bool in_class, uint32_t *c, char *name)
{
    static const char from[] = "tnrfv", into[] = "\t\n\r\f\v";
    *name = 0;
    if (r->at >= r->end) return fail(r, "ends with a backslash");
    const char x = *r->at++;
    const char *known = memchr(from, x, sizeof from - 1);
    if (known) { *c = (uint8_t)into[known - from]; return true; }
    switch (x) {
    case 'd': case 'D': case 'w': case 'W': case 's': case 'S': *name = x; return true;
    case 'x': return read_hex(r, 2, c);
    case 'u': return read_unicode(r, c);
    case '0':
        *c = 0;
        return (r->at >= r->end || *r->at < '0' || *r->at > '9') || fail(r, "has an octal escape");
    case 'b':
        if (in_class) { *c = '\b'; return true; }
        return fail(r, "has \\b, which cannot be enforced");
    case 'B': return fail(r, "has \\B, which cannot be enforced");
    case 'p': case 'P': return fail(r, "has \\p, which is not supported; write the ranges of characters");
    case 'k': return fail(r, "has a reference back, which cannot be enforced");
    default: break;
    }
    if (x >= '1' && x <= '9') return fail(r, "has a reference back, which cannot be enforced");
    if ((x | 32) >= 'a' && (x | 32) <= 'z') return fail(r, "has an escape that is not known");
    if ((uint8_t)x >= 0x80) return fail(r, "has an escape that is not known");
    *c = (uint8_t)x;
    return true;
}

/* UTF-8 that has been checked, as JSON is. */
static uint32_t read_character(struct reader *r)
{
    const uint8_t lead = (uint8_t)*r->at++;
    const uint32_t more = lead < 0xc0 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    uint32_t c = more == 0 ? lead : lead & (0x3fu >> more);
    for (uint32_t i = 0; i < more && r->at < r->end; i++) c = c << 6 | ((uint8_t)*r->at++ & 63);
    return c;
}

static bool read_member(struct reader *r, uint32_t *c, char *name)
{
    *name = 0;
    if (*r->at != '\\') { *c = read_character(r); return true; }
    r->at++;
    return read_escape(r, true, c, name);
}

/* Behind a [. */
static bool read_class(struct reader *r)
{
    const bool negated = r->at < r->end && *r->at == '^';
    struct set *s = negated ? &r->other : &r->set;
    r->set.n = r->other.n = 0;
    r->at += negated;
    while (r->at < r->end && *r->at != ']') {
        uint32_t first = 0, last;
        char name, name_last;
        if (!read_member(r, &first, &name)) return false;
        if (name) {
            if (!add_named(r, s, name)) return false;
            continue;
        }
        last = first;
        if (r->end - r->at >= 2 && r->at[0] == '-' && r->at[1] != ']') {
            r->at++;
            if (!read_member(r, &last, &name_last)) return false;
            if (name_last || last < first) return fail(r, "has a range of characters that is none");
        }
        if (!add(r, s, first, last)) return false;
    }
    if (r->at >= r->end) return fail(r, "has a class without its ]");
    r->at++;
    order(s);
    if (negated && !add_complement(r, &r->set, &r->other)) return false;
    put_set(r);
    return true;
}

static bool one_character(struct reader *r, uint32_t c)
{
    r->set.n = 0;
    if (!add(r, &r->set, c, c)) return false;
    put_set(r);
    return true;
}

static bool read_choice(struct reader *r, bool top);

/* Behind a (. */
static bool read_group(struct reader *r)
{
    if (++r->depth > DEPTH) return fail(r, "has groups deeper than 60");
    if (r->at < r->end && *r->at == '?') {
        const char what = r->end - r->at > 1 ? r->at[1] : 0, next = r->end - r->at > 2 ? r->at[2] : 0;
        if (what == ':') r->at += 2;
        else if (what == '<' && next != '=' && next != '!') {
            while (r->at < r->end && *r->at != '>') r->at++;
            if (r->at++ >= r->end) return fail(r, "has a name of a group without its >");
        } else return fail(r, "looks ahead or behind, which cannot be enforced");
    }
    if (!read_choice(r, false)) return false;
    if (r->at >= r->end || *r->at != ')') return fail(r, "has a group without its )");
    r->at++;
    r->depth--;
    return true;
}

static bool read_atom(struct reader *r)
{
    uint32_t c = 0;
    char name = 0;
    switch (*r->at) {
    case '(': r->at++; return read_group(r);
    case '[': r->at++; return read_class(r);
    case '.': {
        struct range ends[] = { { '\n', '\n' }, { '\r', '\r' }, { 0x2028, 0x2029 } };
        r->at++;
        r->set.n = 0;
        if (!add_complement(r, &r->set, &(struct set){ ends, 3 })) return false;
        put_set(r);
        return true;
    }
    case '\\':
        r->at++;
        if (!read_escape(r, false, &c, &name)) return false;
        if (!name) return one_character(r, c);
        r->set.n = 0;
        if (!add_named(r, &r->set, name)) return false;
        order(&r->set);
        put_set(r);
        return true;
    case '^':
    case '$': return fail(r, "has ^ or $ inside; they can stand at its beginning and end");
    case '*': case '+': case '?': case '{': return fail(r, "has a repetition of nothing");
    case ']': case '}': return fail(r, "has ] or } alone; write \\] or \\}");
    default: return one_character(r, read_character(r));
    }
}

static bool read_count(struct reader *r, uint32_t *out)
{
    const char *begin = r->at;
    for (*out = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if ((*out = *out * 10 + (uint32_t)(*r->at - '0')) > 1u << 20) return fail(r, "has a number beyond 1048576");
    return r->at > begin || fail(r, "has { without a number; write \\{");
}

/* The same signs; a ? behind them only says which match is tried first. */
static bool read_repeat(struct reader *r)
{
    const char *const begin = r->at;
    const char c = r->at < r->end ? *r->at : 0;
    uint32_t least, most;
    if (c != '*' && c != '+' && c != '?' && c != '{') return true;
    r->at++;
    if (c == '{') {
        if (!read_count(r, &least)) return false;
        most = least;
        if (r->at < r->end && *r->at == ',') {
            r->at++;
            if (r->at < r->end && *r->at != '}' && !read_count(r, &most)) return false;
        }
        if (r->at >= r->end || *r->at != '}') return fail(r, "has a repetition without its }");
        if (most < least) most = least;
        r->at++;
    }
    text_out_put(r->out, begin, (size_t)(r->at - begin));
    if (r->at < r->end && *r->at == '?') r->at++;
    const char next = r->at < r->end ? *r->at : 0;
    return (next != '*' && next != '+' && next != '?' && next != '{') || fail(r, "has a repetition of a repetition");
}

static void put_anything(struct reader *r)
{
    PUT(" ");
    put_text(r, r->prefix);
    PUT("char*");
}

static bool read_sequence(struct reader *r, bool top)
{
    if (top && r->at < r->end && *r->at == '^') r->at++;
    else if (top) put_anything(r);
    while (r->at < r->end && *r->at != '|' && *r->at != ')') {
        if (top && *r->at == '$' && (r->at + 1 == r->end || r->at[1] == '|')) { r->at++; return true; }
        PUT(" ");
        if (!read_atom(r) || !read_repeat(r) || r->out->full) return false;
    }
    if (top) put_anything(r);
    return true;
}

static bool read_choice(struct reader *r, bool top)
{
    PUT("(");
    for (;;) {
        if (!read_sequence(r, top)) return false;
        if (r->at >= r->end || *r->at != '|') break;
        r->at++;
        PUT(" |");
    }
    PUT(")");
    return true;
}

bool pattern_grammar(struct room *work, const char *pattern, size_t n, const char *prefix, struct text_out *out,
                     struct pattern_error *error)
{
    const size_t mark = work->used;
    struct reader r = { .at = pattern, .end = pattern + n, .prefix = prefix, .out = out };
    r.set.range = room_array(work, MOST_RANGES, sizeof *r.set.range);
    r.other.range = room_array(work, MOST_RANGES, sizeof *r.other.range);
    bool good = r.set.range && r.other.range && read_choice(&r, true);
    if (good && r.at < r.end) good = fail(&r, "has a ) without its (");
    work->used = mark;
    error->why = r.why ? r.why : "needs more memory than there is for it";
    return good;
}
