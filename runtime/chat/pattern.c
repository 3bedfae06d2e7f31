/* pattern.c -- see pattern.h.  The text becomes an expression that may contain assertions (^ $ \\b and what looks ahead or behind); then
 * the assertions are replaced by intersections with what precedes and follows them. */
#include "pattern.h"

enum { DEPTH = 60, MOST_RANGES = 1024, MOST_WAYS = 256, MOST_PARTS = 24, PIECES = 2048 };
struct set { struct texts_range *range; uint32_t n; };       /* [MOST_RANGES] */

struct pattern_parser {
    const char *at, *end;
    struct texts *t;
    struct set set, other;
    struct texts_node **piece;           /* [PIECES] n_pieces of open sequences */
    uint32_t depth, n_pieces;
    bool either_case;
    const char *why;
};

static bool fail(struct pattern_parser *r, const char *why)
{
    if (!r->why) r->why = why;
    return false;
}

/* ---- sets of characters ---- */

static bool add(struct pattern_parser *r, struct set *s, uint32_t first, uint32_t last)
{
    if (s->n == MOST_RANGES) return fail(r, "has a class of more than 1024 ranges");
    s->range[s->n++] = (struct texts_range){ first, last };
    return true;
}

static void order(struct set *s) { s->n = texts_order(s->range, s->n); }

/* Adds everything that is not in s to `to`. */
static bool add_complement(struct pattern_parser *r, struct set *to, const struct set *s)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (next < s->range[i].first && !add(r, to, next, s->range[i].first - 1)) return false;
        next = s->range[i].last + 1;
    }
    return next > TEXTS_LAST || add(r, to, next, TEXTS_LAST);
}

/* Adds the other case of letters. */
static bool add_cases(struct pattern_parser *r, struct set *s)
{
    const uint32_t n = r->either_case ? s->n : 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t upper = 0; upper < 2; upper++) {
            const uint32_t a = upper ? 'A' : 'a', z = a + 25, first = s->range[i].first > a ? s->range[i].first : a;
            const uint32_t last = s->range[i].last < z ? s->range[i].last : z;
            if (first <= last && !add(r, s, first ^ 32, last ^ 32)) return false;
        }
    return true;
}

/* \d \w \s; upper case: the complement. */
static bool add_named(struct pattern_parser *r, struct set *to, char name)
{
    static const struct texts_range digits[] = { { '0', '9' } }, words[] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } },
        spaces[] = { { '\t', '\r' }, { ' ', ' ' }, { 0xa0, 0xa0 }, { 0x1680, 0x1680 }, { 0x2000, 0x200a }, { 0x2028, 0x2029 },
                     { 0x202f, 0x202f }, { 0x205f, 0x205f }, { 0x3000, 0x3000 }, { 0xfeff, 0xfeff } };
    const char low = (char)(name | 32);
    const struct texts_range *from = low == 'd' ? digits : low == 'w' ? words : spaces;
    const uint32_t n = low == 'd' ? 1 : low == 'w' ? 4 : 10;
    struct texts_range copy[10];
    memcpy(copy, from, n * sizeof *from);
    if (name != low) return add_complement(r, to, &(struct set){ copy, n });
    for (uint32_t i = 0; i < n; i++) if (!add(r, to, from[i].first, from[i].last)) return false;
    return true;
}

/* ---- reading ---- */

static bool read_hex(struct pattern_parser *r, uint32_t n, uint32_t *c)
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

static bool read_unicode(struct pattern_parser *r, uint32_t *c)
{
    uint32_t low;
    if (r->at < r->end && *r->at == '{') {
        uint32_t n = 0;
        while (r->at + 1 + n < r->end && r->at[1 + n] != '}') n++;
        r->at++;
        if (n == 0 || n > 6 || !read_hex(r, n, c) || r->at >= r->end || *r->at++ != '}' || *c > TEXTS_LAST)
            return fail(r, "has \\u{...} that is not a character");
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

/* After a backslash: one character, or *name of a set. */
static bool read_escape(struct pattern_parser *r, uint32_t *c, char *name)
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
    case 'b': *c = '\b'; return true;                       /* in a class */
    case 'c':
        if (r->at >= r->end || (*r->at | 32) < 'a' || (*r->at | 32) > 'z') return fail(r, "has \\c without its letter");
        *c = (uint32_t)*r->at++ & 31;
        return true;
    case 'p': case 'P': return fail(r, "has \\p, which is not supported; write the ranges of characters");
    case 'k': return fail(r, "has a reference back, which cannot be enforced");
    default: break;
    }
    if (x >= '1' && x <= '9') return fail(r, "has a reference back, which cannot be enforced");
    if ((x | 32) >= 'a' && (x | 32) <= 'z') return fail(r, "has an unknown escape");
    if ((uint8_t)x >= 0x80) return fail(r, "has an unknown escape");
    *c = (uint8_t)x;
    return true;
}

/* The UTF-8 has been checked, because it comes from JSON. */
static uint32_t read_character(struct pattern_parser *r)
{
    const uint8_t lead = (uint8_t)*r->at++;
    const uint32_t more = lead < 0xc0 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    uint32_t c = more == 0 ? lead : lead & (0x3fu >> more);
    for (uint32_t i = 0; i < more && r->at < r->end; i++) c = c << 6 | ((uint8_t)*r->at++ & 63);
    return c;
}

static bool read_member(struct pattern_parser *r, uint32_t *c, char *name)
{
    *name = 0;
    if (*r->at != '\\') { *c = read_character(r); return true; }
    r->at++;
    return read_escape(r, c, name);
}

/* After a [. */
static struct texts_node *read_class(struct pattern_parser *r)
{
    const bool negated = r->at < r->end && *r->at == '^';
    struct set *s = negated ? &r->other : &r->set;
    r->set.n = r->other.n = 0;
    r->at += negated;
    while (r->at < r->end && *r->at != ']') {
        uint32_t first = 0, last;
        char name, name_last;
        if (!read_member(r, &first, &name)) return NULL;
        if (name) {
            if (!add_named(r, s, name)) return NULL;
            continue;
        }
        last = first;
        if (r->end - r->at >= 2 && r->at[0] == '-' && r->at[1] != ']') {
            r->at++;
            if (!read_member(r, &last, &name_last)) return NULL;
            if (name_last || last < first) { fail(r, "has a range of characters that ends before it begins, or whose end is a class"
                ""); return NULL; }
        }
        if (!add(r, s, first, last)) return NULL;
    }
    if (r->at >= r->end) { fail(r, "has a class without its ]"); return NULL; }
    r->at++;
    if (!add_cases(r, s)) return NULL;
    order(s);
    if (negated && !add_complement(r, &r->set, &r->other)) return NULL;
    return texts_set(r->t, r->set.range, r->set.n);
}

static struct texts_node *one_character(struct pattern_parser *r, uint32_t c)
{
    r->set.n = 0;
    if (!add(r, &r->set, c, c) || !add_cases(r, &r->set)) return NULL;
    return texts_set(r->t, r->set.range, r->set.n);
}

static struct texts_node *read_choice(struct pattern_parser *r);

/* After a (. */
static struct texts_node *read_group(struct pattern_parser *r)
{
    enum texts_kind asks = TEXTS_NONE;
    bool negated = false;
    const bool either_case = r->either_case;
    if (++r->depth > DEPTH) { fail(r, "has groups deeper than 60"); return NULL; }
    if (r->at < r->end && *r->at == '?') {
        const char *p = r->at + 1;
        const size_t n = (size_t)(r->end - p);
        const bool behind = n > 1 && *p == '<' && (p[1] == '=' || p[1] == '!');
        if (n > 0 && *p == ':') r->at += 2;
        else if (behind || (n > 0 && (*p == '=' || *p == '!'))) {
            asks = behind ? TEXTS_BEHIND : TEXTS_AHEAD;
            negated = p[behind] == '!';
            r->at += 2 + behind;
        } else if (n > 1 && *p == 'i' && p[1] == ':') {
            r->either_case = true;
            r->at += 3;
        } else if (n > 1 && (*p == '<' || (*p == 'P' && p[1] == '<'))) {
            while (r->at < r->end && *r->at != '>') r->at++;
            if (r->at++ >= r->end) { fail(r, "has a name of a group without its >"); return NULL; }
        } else { fail(r, "has a group of an unknown kind"); return NULL; }
    }
    struct texts_node *x = read_choice(r);
    if (!x) return NULL;
    if (r->at >= r->end || *r->at != ')') { fail(r, "has a group without its )"); return NULL; }
    r->at++;
    r->depth--;
    r->either_case = either_case;
    return asks == TEXTS_NONE ? x : texts_ask(r->t, asks, x, negated);
}

/* Nothing precedes, or nothing follows. */
static struct texts_node *read_end(struct pattern_parser *r, enum texts_kind kind, uint32_t bytes)
{
    r->at += bytes;
    return texts_ask(r->t, kind, NULL, false);
}

static struct texts_node *read_atom(struct pattern_parser *r)
{
    uint32_t c = 0;
    char name = 0;
    switch (*r->at) {
    case '(': r->at++; return read_group(r);
    case '[': r->at++; return read_class(r);
    case '.': {
        struct texts_range ends[] = { { '\n', '\n' }, { '\r', '\r' }, { 0x2028, 0x2029 } };
        r->at++;
        r->set.n = 0;
        return add_complement(r, &r->set, &(struct set){ ends, 3 }) ? texts_set(r->t, r->set.range, r->set.n) : NULL;
    }
    case '\\': {
        const char next = r->end - r->at > 1 ? r->at[1] : 0;
        if (next == 'A' || next == 'Z') return read_end(r, next == 'A' ? TEXTS_BEHIND : TEXTS_AHEAD, 2);     /* Python's ^ and $ */
        r->at++;
        if (next == 'b' || next == 'B') { r->at++; return texts_ask(r->t, TEXTS_WORD, NULL, next == 'B'); }
        if (!read_escape(r, &c, &name)) return NULL;
        if (!name) return one_character(r, c);
        r->set.n = 0;
        return add_named(r, &r->set, name) ? texts_set(r->t, r->set.range, r->set.n) : NULL;
    }
    case '^': return read_end(r, TEXTS_BEHIND, 1);
    case '$': return read_end(r, TEXTS_AHEAD, 1);
    case '*': case '+': case '?': case '{': fail(r, "has a repetition with nothing before it"); return NULL;
    case ']': case '}': fail(r, "has ] or } alone; write \\] or \\}"); return NULL;
    default: return one_character(r, read_character(r));
    }
}

static bool read_count(struct pattern_parser *r, uint32_t *out)
{
    const char *begin = r->at;
    for (*out = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if ((*out = *out * 10 + (uint32_t)(*r->at - '0')) > 1u << 20) return fail(r, "has a number beyond 1048576");
    return r->at > begin || fail(r, "has { without a number; write \\{");
}

/* Reads * + ? {m} {m,} {m,n}.  A ? after them only changes which match is tried first. */
static struct texts_node *read_repeat(struct pattern_parser *r, struct texts_node *x)
{
    const char c = r->at < r->end ? *r->at : 0;
    uint32_t least = c == '+', most = c == '?' ? 1 : TEXTS_ANY_NUMBER;
    if (c != '*' && c != '+' && c != '?' && c != '{') return x;
    r->at++;
    if (c == '{') {
        if (!read_count(r, &least)) return NULL;
        most = least;
        if (r->at < r->end && *r->at == ',') {
            r->at++;
            most = TEXTS_ANY_NUMBER;
            if (r->at < r->end && *r->at != '}' && !read_count(r, &most)) return NULL;
        }
        if (r->at >= r->end || *r->at != '}') { fail(r, "has a repetition without its }"); return NULL; }
        if (most < least) { fail(r, "has a repetition with a minimum above its maximum"); return NULL; }
        r->at++;
    }
    if (r->at < r->end && *r->at == '?') r->at++;
    const char next = r->at < r->end ? *r->at : 0;
    if (next == '*' || next == '+' || next == '?' || next == '{') { fail(r, "has a repetition of a repetition"); return NULL; }
    if (x->asks && most != 1) { fail(r, "has ^, $, \\b or what looks ahead or behind in a repetition, which is not supported"
        ""); return NULL; }
    return x->asks ? least ? x : texts_or(r->t, x, r->t->empty) : texts_repeat(r->t, x, least, most);
}

/* Joined from the end, in pieces. */
static struct texts_node *read_sequence(struct pattern_parser *r)
{
    struct texts_node *all = r->t->empty;
    for (const uint32_t begin = r->n_pieces; ; ) {
        const bool more = r->at < r->end && *r->at != '|' && *r->at != ')';
        if (!more || r->n_pieces == PIECES) {
            struct texts_node *x = r->t->empty;
            if (more && r->n_pieces == begin) { fail(r, "is too large"); return NULL; }
            while (r->n_pieces > begin) x = texts_cat(r->t, r->piece[--r->n_pieces], x);
            all = texts_cat(r->t, all, x);
            if (!more) return all;
        }
        struct texts_node *one = read_atom(r);
        if (!one || !(one = read_repeat(r, one))) return NULL;
        if (r->n_pieces == PIECES) { fail(r, "is too large"); return NULL; }
        r->piece[r->n_pieces++] = one;
    }
}

static struct texts_node *read_choice(struct pattern_parser *r)
{
    struct texts_node *all = NULL;
    for (;;) {
        struct texts_node *x = read_sequence(r);
        if (!x || r->t->failed) return NULL;
        all = all ? texts_or(r->t, all, x) : x;
        if (r->at >= r->end || *r->at != '|') return all;
        r->at++;
    }
}

/* ---- assertions ---- */

#define TOO_MANY_WAYS "has too many ways to meet ^, $, \\b and what looks ahead or behind"
/* While an expression is divided into the ways to meet its assertions: the texts that may stand before and after it, and all ways. */
struct ways {
    struct pattern_parser *r;
    struct texts_node *before, *after, *all;
    uint32_t n, depth;
};

static struct texts_node *whole(struct pattern_parser *r, struct texts_node *x, struct texts_node *before, struct texts_node *after,
                                uint32_t depth);

/* The texts of side that the assertion x allows; NULL: an error. */
static struct texts_node *narrowed(struct ways *w, struct texts_node *side, const struct texts_node *x)
{
    struct texts *t = w->r->t;
    const bool ahead = x->kind == TEXTS_AHEAD;
    if (w->depth > 0 && (ahead ? w->after : w->before) == t->empty) {
        fail(w->r, "looks behind in what looks ahead, or ahead in what looks behind");
        return NULL;
    }
    struct texts_node *set = !x->a ? t->empty : whole(w->r, x->a, ahead ? t->empty : t->all, ahead ? t->all : t->empty, w->depth + 1);
    return set ? texts_and(t, side, x->least ? texts_not(t, set) : set) : NULL;
}

/* Adds parts[0 .. n - 1], of which only those that look ahead or behind are no sets. */
static bool add_way(struct ways *w, struct texts_node **parts, uint32_t n)
{
    struct pattern_parser *r = w->r;
    struct texts_node *left = w->before, *right = w->after;
    uint32_t middle = 0;                                     /* the first part that looks ahead */
    if (w->n++ == MOST_WAYS) return fail(r, TOO_MANY_WAYS);
    while (middle < n && parts[middle]->kind != TEXTS_AHEAD) middle++;
    for (uint32_t i = 0; i < middle; i++) {
        left = parts[i]->asks ? narrowed(w, left, parts[i]) : texts_cat(r->t, left, parts[i]);
        if (!left) return false;
    }
    for (uint32_t i = n; i-- > middle; ) {
        if (parts[i]->kind == TEXTS_BEHIND) return fail(r, "looks behind after it looked ahead, which is not supported");
        right = parts[i]->asks ? narrowed(w, right, parts[i]) : texts_cat(r->t, parts[i], right);
        if (!right) return false;
    }
    w->all = texts_or(r->t, w->all, texts_cat(r->t, left, right));
    return true;
}

static bool split(struct ways *w, struct texts_node **parts, uint32_t n);

/* The same with `by` [n_by] instead of parts[at]. */
static bool split_with(struct ways *w, struct texts_node **parts, uint32_t n, uint32_t at, struct texts_node **by, uint32_t n_by)
{
    struct texts_node *more[MOST_PARTS];
    if (n - 1 + n_by > MOST_PARTS) return fail(w->r, TOO_MANY_WAYS);
    memcpy(more, parts, at * sizeof *more);
    memcpy(more + at, by, n_by * sizeof *more);
    memcpy(more + at + n_by, parts + at + 1, (n - at - 1) * sizeof *more);
    return split(w, more, n - 1 + n_by);
}

/* Divides a list into the sets before its first assertion, the assertion, and the rest. */
static bool split_list(struct ways *w, struct texts_node **parts, uint32_t n, uint32_t at)
{
    struct texts_node **const piece = w->r->piece, *x = parts[at], *by[3] = { w->r->t->empty };
    uint32_t n_piece = 0;
    for (; x->kind == TEXTS_CAT && !x->a->asks && n_piece < PIECES; x = x->b) piece[n_piece++] = x->a;
    while (n_piece > 0) by[0] = texts_cat(w->r->t, piece[--n_piece], by[0]);
    by[1] = x->kind == TEXTS_CAT ? x->a : x;
    by[2] = x->b;
    return split_with(w, parts, n, at, by, x->kind == TEXTS_CAT ? 3 : 2);
}

/* At the edge of a word, one of the characters before and after belongs to a word; negated: both or none does.  Where the part beside it
 * has a character, the condition is about that part alone. */
static bool split_word(struct ways *w, struct texts_node **parts, uint32_t n, uint32_t at)
{
    struct texts *t = w->r->t;
    struct set words = { w->r->set.range, 0 };
    if (!add_named(w->r, &words, 'w')) return false;
    struct texts_node *word = texts_set(t, words.range, words.n);
    for (uint32_t before = 0; before < 2; before++) {
        const bool after = parts[at]->least ? before : !before;
        struct texts_node *more[MOST_PARTS], *by[2];
        uint32_t n_by = 0;
        memcpy(more, parts, n * sizeof *more);
        for (uint32_t side = 0; side < 2; side++) {
            struct texts_node **const beside = side ? (at + 1 < n ? &more[at + 1] : NULL) : at > 0 ? &more[at - 1] : NULL;
            const bool in_word = side ? after : before;
            if (beside && !(*beside)->asks && !(*beside)->nullable) {
                struct texts_node *set = side ? texts_cat(t, word, t->all) : texts_cat(t, t->all, word);
                *beside = texts_and(t, *beside, in_word ? set : texts_not(t, set));
            } else by[n_by++] = texts_ask(t, side ? TEXTS_AHEAD : TEXTS_BEHIND, word, !in_word);
        }
        if (!split_with(w, more, n, at, by, n_by)) return false;
    }
    return true;
}

static bool split(struct ways *w, struct texts_node **parts, uint32_t n)
{
    uint32_t at = 0;
    if (w->r->t->failed) return false;
    while (at < n && (!parts[at]->asks || parts[at]->kind == TEXTS_AHEAD || parts[at]->kind == TEXTS_BEHIND)) at++;
    if (at == n) return add_way(w, parts, n);
    struct texts_node *x = parts[at];
    if (x->kind == TEXTS_CAT) return split_list(w, parts, n, at);
    if (x->kind == TEXTS_WORD) return split_word(w, parts, n, at);
    for (; x->kind == TEXTS_OR; x = x->b) if (!split_with(w, parts, n, at, &x->a, 1)) return false;
    return split_with(w, parts, n, at, &x, 1);
}

/* All whole texts: `before`, a text of x, `after`; assertions are met.  NULL: an error. */
static struct texts_node *whole(struct pattern_parser *r, struct texts_node *x, struct texts_node *before, struct texts_node *after,
                                uint32_t depth)
{
    struct ways w = { r, before, after, r->t->none, 0, depth };
    if (!x->asks) return texts_cat(r->t, before, texts_cat(r->t, x, after));
    if (depth > 8) { fail(r, "looks ahead or behind too often in itself"); return NULL; }
    return split(&w, &x, 1) ? w.all : NULL;
}

struct texts_node *pattern_texts(struct texts *t, const char *pattern, size_t n, const char **why)
{
    struct pattern_parser r = { .at = pattern, .end = pattern + n, .t = t };
    r.set.range = room_array(t->room, MOST_RANGES, sizeof *r.set.range);
    r.other.range = room_array(t->room, MOST_RANGES, sizeof *r.other.range);
    if (n >= 4 && memcmp(pattern, "(?i)", 4) == 0) { r.either_case = true; r.at += 4; }
    r.piece = room_array(t->room, PIECES, sizeof *r.piece);
    struct texts_node *x = r.set.range && r.other.range && r.piece ? read_choice(&r) : NULL;
    if (x && r.at < r.end) { fail(&r, "has a ) without its ("); x = NULL; }
    if (x) x = whole(&r, x, t->all, t->all, 0);
    *why = r.why ? r.why : "is too large";
    return t->failed ? NULL : x;
}
