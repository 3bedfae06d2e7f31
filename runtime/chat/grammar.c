/* grammar.c -- see grammar.h.  The text becomes a tree, the tree items, from the end of each rule to its beginning; then rules that never
 * end are cut off, and rules that begin with themselves are refused. */
#include "grammar.h"
#include "runtime/text/tokenize.h"

/* ---- the tree ---- */

enum tree_kind { TREE_SEQUENCE, TREE_CHOICE, TREE_LITERAL, TREE_CLASS, TREE_RULE, TREE_REPEAT, TREE_TOKEN };
#define NO_MOST UINT32_MAX
#define NO_TOKEN "a token that the model has not"
#define NO_ROOM "the grammar needs more memory than there is for it"
enum { UNROLLED = 256, BUCKETS = 256, PASSES = 256, NAME = 40, STACKED = 4 };

struct span { struct span *next; uint32_t first, last; };              /* codepoints */
struct tree {
    struct tree *next, *child;           /* child: the first of a sequence or choice; what is repeated */
    enum tree_kind kind;
    uint32_t least, most;                /* of a repeat; of a token least is its id and most: any other */
    uint32_t weight;                     /* items, about */
    const char  *bytes;                  /* [n] of a literal */
    size_t       n;
    struct span *spans;                  /* of a class: ascending, apart from each other */
    struct rule *rule;
};
struct rule {
    struct rule *next, *after;           /* in its bucket; in the order in which they were named */
    const char  *name;                   /* [n_name] where it is named first, or defined; NULL: of a repeat */
    size_t       n_name;
    struct tree *body;                   /* NULL: not defined */
    uint32_t     number, entry;          /* its first item */
    uint32_t     begin, end;             /* the others, which lie together */
};

struct reader {
    struct room *room;
    const char  *begin, *at, *end;
    const uint8_t *vocab;
    struct rule *buckets[BUCKETS], *first, **last;
    struct rule **rules;                 /* [n_rules], once all are known */
    uint32_t     n_rules, depth;
    struct grammar_error *error;
    bool         failed;
    /* items */
    struct grammar_item   *items;        /* [most_items] */
    struct grammar_repeat *repeats;      /* [most_repeats] */
    uint32_t     n_items, most_items, n_repeats, most_repeats;
};

static void place_of(struct reader *r, const char *at, uint32_t *line, uint32_t *column)
{
    *line = *column = 1;
    for (const char *p = r->begin; p < at; p++) {
        *column += ((uint8_t)*p & 0xc0) != 0x80;
        if (*p == '\n') { ++*line; *column = 1; }
    }
}

/* why, and in quotes name [n], of which unprintable bytes are shown as '?'. */
static bool fail_place(struct reader *r, uint32_t line, uint32_t column, const char *why, const char *name, size_t n)
{
    struct grammar_error *e = r->error;
    if (r->failed) return false;
    r->failed = true;
    e->line = line;
    e->column = column;
    struct text_out out = { e->text, sizeof e->text - 1, 0, false };
    text_out_put(&out, why, text_bytes(why));
    if (name) {
        TEXT_OUT_WORDS(&out, ": '");
        for (size_t i = 0; i < n && i < NAME; i++) text_out_char(&out, (uint8_t)name[i] < 0x20 || name[i] == 0x7f ? '?' : name[i]);
        if (n > NAME) TEXT_OUT_WORDS(&out, "...");
        text_out_char(&out, '\'');
    }
    e->text[out.n] = 0;
    return false;
}
static bool fail_at(struct reader *r, const char *at, const char *why, const char *name, size_t n)
{
    uint32_t line, column;
    if (r->failed) return false;
    place_of(r, at, &line, &column);
    return fail_place(r, line, column, why, name, n);
}
static bool fail_rule(struct reader *r, const struct rule *rule, const char *why)
{
    return rule->name ? fail_at(r, rule->name, why, rule->name, rule->n_name) : fail_place(r, 0, 0, why, "{}", 2);
}
static bool fail(struct reader *r, const char *why) { return fail_at(r, r->at, why, NULL, 0); }

static void *take(struct reader *r, size_t bytes)
{
    void *p = room_take(r->room, bytes);
    if (!p) fail_place(r, 0, 0, NO_ROOM, NULL, 0);
    else memset(p, 0, bytes);
    return p;
}
static struct tree *tree_new(struct reader *r, enum tree_kind kind)
{
    struct tree *t = take(r, sizeof *t);
    if (t) t->kind = kind;
    return t;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-' || c == '_'; }
static bool is(const struct reader *r, char c) { return r->at < r->end && *r->at == c; }
static bool take_char(struct reader *r, char c)
{
    if (!is(r, c)) return false;
    r->at++;
    return true;
}

/* White space and comments; lines: over the ends of lines, too. */
static void skip_space(struct reader *r, bool lines)
{
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#') while (r->at < r->end && *r->at != '\n' && *r->at != '\r') r->at++;
        if (r->at == r->end || !(*r->at == ' ' || *r->at == '\t' || (lines && (*r->at == '\n' || *r->at == '\r')))) return;
    }
}

static struct rule *rule_named(struct reader *r, const char *name, size_t n)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < n; i++) hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    struct rule **bucket = &r->buckets[(hash ^ hash >> 16) % BUCKETS];
    for (struct rule *x = *bucket; x; x = x->next) if (x->n_name == n && memcmp(x->name, name, n) == 0) return x;
    struct rule *x = take(r, sizeof *x);
    if (!x) return NULL;
    *x = (struct rule){ .next = *bucket, .name = name, .n_name = n, .number = r->n_rules++ };
    *bucket = *r->last = x;
    r->last = &x->after;
    return x;
}

/* ---- characters ---- */

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) { to[0] = (char)c; return 1; }
    if (c < 0x800) { to[0] = (char)(0xc0 | c >> 6); to[1] = (char)(0x80 | (c & 63)); return 2; }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12); to[1] = (char)(0x80 | (c >> 6 & 63)); to[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18); to[1] = (char)(0x80 | (c >> 12 & 63)); to[2] = (char)(0x80 | (c >> 6 & 63));
    to[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* The bytes of a sequence that begins with a character's first one; 0: with something else. */
static uint32_t sequence_bytes(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
}

static bool read_hex(struct reader *r, uint32_t n, uint32_t *c)
{
    *c = 0;
    for (uint32_t i = 0; i < n; i++, r->at++) {
        const char x = r->at < r->end ? *r->at : 0;
        const int d = is_digit(x) ? x - '0' : x >= 'a' && x <= 'f' ? x - 'a' + 10 : x >= 'A' && x <= 'F' ? x - 'A' + 10 : -1;
        if (d < 0) return fail(r, n == 2 ? "\\x without two hexadecimal digits" : n == 4 ? "\\u without four hexadecimal digits"
                                                                                 : "\\U without eight hexadecimal digits");
        *c = *c << 4 | (uint32_t)d;
    }
    if (*c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000)) return fail(r, "an escape that is no character of Unicode");
    return true;
}

/* One character of a literal or class, escaped or not. */
static bool read_char(struct reader *r, uint32_t *c)
{
    static const char from[] = "trn\\\"[]^-", into[] = "\t\r\n\\\"[]^-";
    const uint8_t *p = (const uint8_t *)r->at;
    if (*p == '\\') {
        const char what = r->at + 1 < r->end ? r->at[1] : 0;
        const char *known = what ? memchr(from, what, sizeof from - 1) : NULL;
        if (known) { r->at += 2; *c = (uint8_t)into[known - from]; return true; }
        if (what != 'x' && what != 'u' && what != 'U')
            return fail(r, "an unknown escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\^ \\- \\xHH \\uHHHH \\UHHHHHHHH");
        r->at += 2;
        return read_hex(r, what == 'x' ? 2 : what == 'u' ? 4 : 8, c);
    }
    const uint32_t n = sequence_bytes(*p);
    if (n == 0 || (size_t)(r->end - r->at) < n) return fail(r, "bytes that are no UTF-8");
    *c = n == 1 ? *p : *p & (0x7fu >> n);
    for (uint32_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return fail(r, "bytes that are no UTF-8");
        *c = *c << 6 | (p[i] & 63);
    }
    if (*c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000) || (n == 3 && *c < 0x800) || (n == 4 && *c < 0x10000))
        return fail(r, "bytes that are no UTF-8");
    r->at += n;
    return true;
}

static struct tree *read_literal(struct reader *r)
{
    const char *const begin = r->at++;
    const char *end = r->at;
    while (end < r->end && *end != '"' && *end != '\n') end += *end == '\\' && end + 1 < r->end ? 2 : 1;
    if (end >= r->end || *end != '"') { fail_at(r, begin, "a literal without its closing quote", NULL, 0); return NULL; }
    struct tree *t = tree_new(r, TREE_LITERAL);
    char *bytes = t ? take(r, (size_t)(end - begin)) : NULL;           /* no escape is shorter than what it stands for */
    if (!bytes) return NULL;
    while (r->at < end) {
        uint32_t c;
        if (!read_char(r, &c)) return NULL;
        t->n += put_utf8(bytes + t->n, c);
    }
    r->at = end + 1;
    t->bytes = bytes;
    t->weight = (uint32_t)t->n;
    return t;
}

static bool span_add(struct reader *r, struct span **list, uint32_t first, uint32_t last)
{
    struct span *s = take(r, sizeof *s);
    if (!s) return false;
    *s = (struct span){ *list, first, last };
    *list = s;
    return true;
}

/* By their first characters: two halves, each sorted, become one. */
static struct span *spans_sorted(struct span *list)
{
    struct span *half[2] = { NULL, NULL }, *result, **to = &result;
    if (!list || !list->next) return list;
    for (uint32_t i = 0; list; i ^= 1) {
        struct span *after = list->next;
        list->next = half[i];
        half[i] = list;
        list = after;
    }
    half[0] = spans_sorted(half[0]);
    half[1] = spans_sorted(half[1]);
    while (half[0] && half[1]) {
        struct span **less = &half[half[1]->first < half[0]->first];
        *to = *less;
        to = &(*to)->next;
        *less = *to;
    }
    *to = half[0] ? half[0] : half[1];
    return result;
}

/* Ascending, and those that touch become one. */
static struct span *spans_joined(struct span *list)
{
    list = spans_sorted(list);
    for (struct span *s = list; s; s = s->next)
        while (s->next && s->next->first <= s->last + 1) {
            if (s->next->last > s->last) s->last = s->next->last;
            s->next = s->next->next;
        }
    return list;
}

/* Surrogates are no characters. */
static bool class_end(struct reader *r, struct tree *t, bool negated)
{
    static const uint32_t part[2][2] = { { 0, 0xd7ff }, { 0xe000, 0x10ffff } };
    struct span *list = spans_joined(t->spans), *result = NULL;
    for (uint32_t p = 0; p < 2; p++) {
        uint32_t next = part[p][0];                          /* what is not in the list begins here */
        for (struct span *s = list; s; s = s->next) {
            const uint32_t first = s->first > part[p][0] ? s->first : part[p][0], last = s->last < part[p][1] ? s->last : part[p][1];
            if (first > last) continue;
            if (negated && next < first && !span_add(r, &result, next, first - 1)) return false;
            if (!negated && !span_add(r, &result, first, last)) return false;
            next = last + 1;
        }
        if (negated && next <= part[p][1] && !span_add(r, &result, next, part[p][1])) return false;
    }
    t->spans = spans_joined(result);
    for (struct span *s = t->spans; s; s = s->next) t->weight += s->last < 0x80 ? 1 : 8;
    return true;
}

static struct tree *read_class(struct reader *r)
{
    const char *const begin = r->at++;
    struct tree *t = tree_new(r, TREE_CLASS);
    if (!t) return NULL;
    const bool negated = take_char(r, '^');
    while (r->at < r->end && *r->at != ']') {
        uint32_t first, last;
        const char *at = r->at;
        if (!read_char(r, &first)) return NULL;
        last = first;
        if (r->end - r->at >= 2 && r->at[0] == '-' && r->at[1] != ']') {
            r->at++;
            if (!read_char(r, &last)) return NULL;
            if (last < first) { fail_at(r, at, "a range of characters that ends before it begins", NULL, 0); return NULL; }
        }
        if (!span_add(r, &t->spans, first, last)) return NULL;
    }
    if (!take_char(r, ']')) { fail_at(r, begin, "a class of characters without its ]", NULL, 0); return NULL; }
    return class_end(r, t, negated) ? t : NULL;
}

static struct tree *read_any(struct reader *r)
{
    struct tree *t = tree_new(r, TREE_CLASS);
    r->at++;
    return t && class_end(r, t, true) ? t : NULL;
}

/* ---- the rest of a rule ---- */

static bool read_number(struct reader *r, uint32_t *out)
{
    if (r->at >= r->end || !is_digit(*r->at)) return fail(r, "no number");
    for (*out = 0; r->at < r->end && is_digit(*r->at); r->at++) {
        *out = *out * 10 + (uint32_t)(*r->at - '0');
        if (*out > GRAMMAR_MOST_REPEAT) return fail(r, "a number beyond 1048576");
    }
    return true;
}

/* <[id]>, <text>, each with ! before it. */
static struct tree *read_token(struct reader *r)
{
    const char *const begin = r->at;
    struct tree *t = tree_new(r, TREE_TOKEN);
    if (!t) return NULL;
    t->weight = 1;
    t->most = take_char(r, '!');
    if (!take_char(r, '<')) { fail(r, "no < behind !"); return NULL; }
    if (take_char(r, '[')) {
        if (!read_number(r, &t->least)) return NULL;
        if (!take_char(r, ']') || !take_char(r, '>')) { fail(r, "no ]> behind a token's number"); return NULL; }
        if (r->vocab && t->least >= forge_vocab_n_tokens(r->vocab)) { fail_at(r, begin, NO_TOKEN, NULL, 0); return NULL; }
        return t;
    }
    while (r->at < r->end && *r->at != '>' && *r->at != '\n') r->at++;
    if (!take_char(r, '>')) { fail_at(r, begin, "a token without its >", NULL, 0); return NULL; }
    const char *text = begin + t->most;
    const int32_t id = r->vocab ? forge_vocab_find(r->vocab, text, (size_t)(r->at - text)) : -1;
    if (id < 0) {
        fail_at(r, begin, r->vocab ? NO_TOKEN : "a token by its text, without a model; it is given as <[number]>", text,
                (size_t)(r->at - text));
        return NULL;
    }
    t->least = (uint32_t)id;
    return t;
}

static struct tree *read_choice(struct reader *r, bool inside);

static struct tree *read_reference(struct reader *r)
{
    const char *const name = r->at;
    while (r->at < r->end && is_name(*r->at)) r->at++;
    struct tree *t = tree_new(r, TREE_RULE);
    if (!t || !(t->rule = rule_named(r, name, (size_t)(r->at - name)))) return NULL;
    t->weight = 1;
    return t;
}

static struct tree *read_group(struct reader *r)
{
    const char *const begin = r->at++;
    if (++r->depth > GRAMMAR_DEPTH) { fail(r, "groups deeper than 100"); return NULL; }
    skip_space(r, true);
    struct tree *t = read_choice(r, true);
    if (!t) return NULL;
    if (!take_char(r, ')')) { fail_at(r, r->at < r->end ? r->at : begin, "a group without its )", NULL, 0); return NULL; }
    r->depth--;
    return t;
}

static struct tree *read_one(struct reader *r)
{
    switch (*r->at) {
    case '"': return read_literal(r);
    case '[': return read_class(r);
    case '(': return read_group(r);
    case '.': return read_any(r);
    case '<':
    case '!': return read_token(r);
    default: return read_reference(r);
    }
}

/* * + ? {m} {m,} {m,n}; *there: one of them was. */
static bool read_bounds(struct reader *r, uint32_t *least, uint32_t *most, bool *there)
{
    const char *const begin = r->at;
    const char c = r->at < r->end ? *r->at : 0;
    *there = c == '*' || c == '+' || c == '?' || c == '{';
    if (!*there) return true;
    r->at++;
    *least = c == '+';
    *most = c == '?' ? 1 : NO_MOST;
    if (c != '{') return true;
    skip_space(r, true);
    if (!read_number(r, least)) return false;
    *most = *least;
    skip_space(r, true);
    if (take_char(r, ',')) {
        skip_space(r, true);
        *most = NO_MOST;
        if (r->at < r->end && is_digit(*r->at) && !read_number(r, most)) return false;
        skip_space(r, true);
    }
    if (!take_char(r, '}')) return fail_at(r, begin, "a repetition without its }", NULL, 0);
    return *least <= *most || fail_at(r, begin, "a repetition of which the least is more than the most", NULL, 0);
}

static bool begins_one(const struct reader *r)
{
    const char c = r->at < r->end ? *r->at : 0;
    return c && (is_name(c) || c == '"' || c == '[' || c == '(' || c == '.' || c == '<' || c == '!');
}

static struct tree *read_sequence(struct reader *r, bool inside)
{
    struct tree *t = tree_new(r, TREE_SEQUENCE), **to = t ? &t->child : NULL;
    while (t && begins_one(r)) {
        struct tree *one = read_one(r);
        uint32_t least, most;
        bool there = true;
        for (uint32_t n = 0; one; n++) {
            skip_space(r, inside);
            if (!read_bounds(r, &least, &most, &there)) return NULL;
            if (!there) break;
            if (n == STACKED) { fail(r, "more than four repetitions of each other"); return NULL; }
            struct tree *repeat = tree_new(r, TREE_REPEAT);
            if (!repeat) return NULL;
            repeat->child = one;
            repeat->least = least;
            repeat->most = most;
            const uint32_t copies = most != NO_MOST ? most : least > 1 ? least : 1;
            const uint64_t weight = (uint64_t)(one->weight + 1) * copies + 2;
            repeat->weight = copies > 1 && weight > UNROLLED ? 1 : (uint32_t)weight;
            one = repeat;
        }
        if (!one) return NULL;
        *to = one;
        to = &one->next;
        t->weight += one->weight;
    }
    return t;
}

static struct tree *read_choice(struct reader *r, bool inside)
{
    struct tree *t = tree_new(r, TREE_CHOICE), **to = t ? &t->child : NULL;
    while (t) {
        if (!(*to = read_sequence(r, inside))) return NULL;
        t->weight += (*to)->weight + 1;
        to = &(*to)->next;
        if (!take_char(r, '|')) return t;
        skip_space(r, true);
    }
    return NULL;
}

static bool read_rule(struct reader *r)
{
    const char *const name = r->at;
    while (r->at < r->end && is_name(*r->at)) r->at++;
    const size_t n = (size_t)(r->at - name);
    if (n == 0) return fail(r, "no name of a rule");
    skip_space(r, false);
    if (r->end - r->at < 3 || memcmp(r->at, "::=", 3) != 0) return fail(r, "no ::= behind the name of a rule");
    r->at += 3;
    struct rule *rule = rule_named(r, name, n);
    if (!rule) return false;
    if (rule->body) return fail_at(r, name, "a rule that is defined twice", name, n);
    rule->name = name;
    skip_space(r, true);
    if (!(rule->body = read_choice(r, false))) return false;
    return r->at == r->end || *r->at == '\n' || *r->at == '\r' || fail(r, "something that no rule has");
}

/* ---- items ---- */

static uint32_t item_new(struct reader *r, uint32_t n)
{
    if (n > r->most_items - r->n_items) {
        r->room->full |= r->n_items + n <= GRAMMAR_MOST_ITEMS;
        fail_place(r, 0, 0, r->n_items + n > GRAMMAR_MOST_ITEMS ? "the grammar is too large: more than 1048576 items"
                                                                : NO_ROOM, NULL, 0);
        return 0;
    }
    const uint32_t at = r->n_items;
    r->n_items += n;
    for (uint32_t i = at; i < r->n_items; i++) r->items[i] = (struct grammar_item){ .kind = GRAMMAR_EMPTY, .last = i + 1 == r->n_items };
    return at;
}
static uint32_t item_put(struct reader *r, struct grammar_item item)
{
    const uint32_t at = item_new(r, 1);
    item.last = 1;
    if (!r->failed) r->items[at] = item;
    return at;
}

/* A state of n items; where a state leads to lies before it, but for loops (find_facts). */
static uint32_t item_put_all(struct reader *r, const struct grammar_item *items, uint32_t n)
{
    const uint32_t at = r->failed ? 0 : item_new(r, n);
    if (r->failed) return 0;
    memcpy(r->items + at, items, n * sizeof *items);
    r->items[at + n - 1].last = 1;
    return at;
}

/* Behind first .. last at the same length of sequences, the parts that share all but the last bytes. */
static uint32_t ranges_of_length(uint32_t first, uint32_t last, uint32_t n, struct utf8_range *out)
{
    char a[4], b[4];
    for (uint32_t i = 1; i < n; i++) {                       /* the lowest i groups of six bits: whole, or cut off */
        const uint32_t low = (1u << 6 * i) - 1;
        if ((first & ~low) == (last & ~low)) continue;
        if (first & low) {
            const uint32_t k = ranges_of_length(first, first | low, n, out);
            return k + ranges_of_length((first | low) + 1, last, n, out + k);
        }
        if ((last & low) != low) {
            const uint32_t k = ranges_of_length(first, (last & ~low) - 1, n, out);
            return k + ranges_of_length(last & ~low, last, n, out + k);
        }
    }
    put_utf8(a, first);
    put_utf8(b, last);
    out->n = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++) { out->low[i] = (uint8_t)a[i]; out->high[i] = (uint8_t)b[i]; }
    return 1;
}

uint32_t utf8_ranges(uint32_t first, uint32_t last, struct utf8_range out[16])
{
    static const uint32_t ends[] = { 0x7f, 0x7ff, 0xffff, 0x10ffff };
    uint32_t n = 0;
    for (uint32_t i = 0; i < 4 && first <= last; i++) {
        if (first > ends[i]) continue;
        const uint32_t end = last < ends[i] ? last : ends[i];
        n += ranges_of_length(first, end, i + 1, out + n);
        first = end + 1;
    }
    return n;
}

/* All classes share the states behind which any one, two or three more bytes 80 .. BF lead to `next`. */
static uint32_t put_class(struct reader *r, const struct tree *t, uint32_t next)
{
    struct utf8_range ranges[16];
    uint32_t whole[4] = { next, 0, 0, 0 }, n_items = 0;
    for (const struct span *s = t->spans; s; s = s->next) n_items += utf8_ranges(s->first, s->last, ranges);
    if (n_items == 0) return item_put(r, (struct grammar_item){ .kind = GRAMMAR_NOTHING });
    struct grammar_item *items = take(r, n_items * sizeof *items);
    n_items = 0;
    for (const struct span *s = t->spans; s && !r->failed; s = s->next) {
        const uint32_t n = utf8_ranges(s->first, s->last, ranges);
        for (uint32_t i = 0; i < n && !r->failed; i++) {
            const struct utf8_range *u = &ranges[i];
            uint32_t after = next, any = 0;                  /* so many last bytes are any */
            while (any + 1 < u->n && u->low[u->n - 1 - any] == 0x80 && u->high[u->n - 1 - any] == 0xbf) any++;
            for (uint32_t k = 1; k <= any; k++) {
                if (!whole[k]) whole[k] = item_put(r, (struct grammar_item){ .kind = GRAMMAR_BYTES, .low = 0x80, .high = 0xbf,
                                                                             .next = whole[k - 1] });
                after = whole[k];
            }
            for (uint32_t k = u->n - 1 - any; k > 0; k--)
                after = item_put(r, (struct grammar_item){ .kind = GRAMMAR_BYTES, .low = u->low[k], .high = u->high[k], .next = after });
            if (r->failed) break;
            items[n_items++] = (struct grammar_item){ .kind = GRAMMAR_BYTES, .low = u->low[0], .high = u->high[0], .next = after };
        }
    }
    return item_put_all(r, items, n_items);
}

static uint32_t put_tree(struct reader *r, const struct tree *t, uint32_t next);

static bool is_end(const struct reader *r, uint32_t state) { return r->items[state].kind == GRAMMAR_END; }

static uint32_t put_call(struct reader *r, uint32_t entry, uint32_t next)
{
    return item_put(r, (struct grammar_item){ .kind = is_end(r, next) ? GRAMMAR_GO : GRAMMAR_CALL, .arg = entry, .next = next });
}

/* Counted: what is repeated becomes a rule of its own, behind all others. */
static uint32_t put_counted(struct reader *r, const struct tree *t, uint32_t least, uint32_t most, uint32_t next)
{
    struct rule *rule = take(r, sizeof *rule);
    if (!rule) return 0;
    if (r->n_repeats == r->most_repeats) {
        fail_place(r, 0, 0, "the grammar has too many repetitions", NULL, 0);
        return 0;
    }
    *rule = (struct rule){ .number = r->n_rules++, .body = t->child, .entry = item_new(r, 1) };
    *r->last = rule;
    r->last = &rule->after;
    r->repeats[r->n_repeats] = (struct grammar_repeat){ rule->entry, least, most, 0 };
    return item_put(r, (struct grammar_item){ .kind = GRAMMAR_REPEAT, .arg = r->n_repeats++, .next = next });
}

/* Copies of what is repeated while they are few items, else counted. */
static uint32_t put_repeat(struct reader *r, const struct tree *t, uint32_t next)
{
    const uint32_t copies = t->most != NO_MOST ? t->most : t->least > 1 ? t->least : 1;
    const bool counted = copies > 1 && (uint64_t)copies * (t->child->weight + 1) > UNROLLED;
    if (counted && t->most != NO_MOST) return put_counted(r, t, t->least, t->most, next);
    uint32_t state = next, rest = t->least;
    if (t->most == NO_MOST) {                                /* once, then around or on */
        state = item_new(r, 2);
        if (r->failed) return 0;
        r->items[state + 1].next = next;
        if (counted) {
            const uint32_t all = put_counted(r, t, t->least, t->least, state);
            if (r->failed) return 0;
            const uint32_t again = put_call(r, r->repeats[r->items[all].arg].entry, state);
            if (!r->failed) r->items[state].next = again;
            return all;
        }
        const uint32_t around = put_tree(r, t->child, state);
        if (r->failed) return 0;
        r->items[state].next = around;
        if (rest > 0) { state = around; rest--; }
    }
    for (uint32_t i = t->least; t->most != NO_MOST && i < t->most && !r->failed; i++) {
        const uint32_t again = put_tree(r, t->child, state), one = item_new(r, 2);
        if (r->failed) return 0;
        r->items[one].next = again;
        r->items[one + 1].next = next;
        state = one;
    }
    for (; rest > 0 && !r->failed; rest--) state = put_tree(r, t->child, state);
    return state;
}

static uint32_t put_choice(struct reader *r, const struct tree *t, uint32_t next)
{
    uint32_t n = 0;
    for (const struct tree *c = t->child; c; c = c->next) n++;
    if (n == 1) return put_tree(r, t->child, next);
    struct grammar_item *to = take(r, n * sizeof *to);
    n = 0;
    for (const struct tree *c = t->child; c && !r->failed; c = c->next)
        to[n++] = (struct grammar_item){ .kind = GRAMMAR_EMPTY, .next = put_tree(r, c, next) };
    return item_put_all(r, to, n);
}

/* The children of a sequence from the last to the first. */
static uint32_t put_sequence(struct reader *r, struct tree *t, uint32_t next)
{
    struct tree *back = NULL;
    for (struct tree *c = t->child, *after; c; c = after) { after = c->next; c->next = back; back = c; }
    t->child = NULL;
    for (struct tree *c = back, *after; c; c = after) {
        if (!r->failed) next = put_tree(r, c, next);
        after = c->next;
        c->next = t->child;
        t->child = c;
    }
    return next;
}

/* The state from which t leads to next.  Trees are as deep as groups are, repeats in their rules as deep again. */
static uint32_t put_tree(struct reader *r, const struct tree *t, uint32_t next)
{
    if (r->failed) return 0;
    switch (t->kind) {
    case TREE_SEQUENCE: return put_sequence(r, (struct tree *)(uintptr_t)t, next);
    case TREE_CHOICE: return put_choice(r, t, next);
    case TREE_CLASS: return put_class(r, t, next);
    case TREE_REPEAT: return put_repeat(r, t, next);
    case TREE_RULE: return put_call(r, t->rule->entry, next);
    case TREE_TOKEN:
        return item_put(r, (struct grammar_item){ .kind = GRAMMAR_TOKEN, .arg = t->least, .low = (uint8_t)t->most, .next = next });
    case TREE_LITERAL:
        for (size_t i = t->n; i-- > 0 && !r->failed; )
            next = item_put(r, (struct grammar_item){ .kind = GRAMMAR_BYTES, .low = (uint8_t)t->bytes[i], .high = (uint8_t)t->bytes[i],
                                                      .next = next });
        return next;
    }
    return next;
}

/* Item 0 is the end of all rules, then come the entries of those that have names. */
static bool put_rules(struct reader *r)
{
    const uint32_t end = item_put(r, (struct grammar_item){ .kind = GRAMMAR_END });
    for (struct rule *rule = r->first; rule; rule = rule->after) {
        if (!rule->body) return fail_rule(r, rule, "a rule that is not defined");
        rule->entry = item_new(r, 1);
    }
    for (struct rule *rule = r->first; rule && !r->failed; rule = rule->after) {
        rule->begin = r->n_items;
        const uint32_t state = put_tree(r, rule->body, end);
        rule->end = r->n_items;
        if (!r->failed) r->items[rule->entry].next = state;
    }
    r->rules = take(r, r->n_rules * sizeof *r->rules);
    for (struct rule *x = r->first; x && !r->failed; x = x->after) r->rules[x->number] = x;
    return !r->failed;
}

/* ---- what is wrong with all of it ---- */

enum { ENDS = 1, EMPTY = 2 };            /* of a state: it leads to an end; without a byte */

static uint8_t item_facts(const struct reader *r, const uint8_t *facts, const struct grammar_item *x)
{
    uint8_t body;
    switch ((enum grammar_kind)x->kind) {
    case GRAMMAR_END: return ENDS | EMPTY;
    case GRAMMAR_BYTES:
    case GRAMMAR_TOKEN: return facts[x->next] & ENDS;
    case GRAMMAR_EMPTY: return facts[x->next];
    case GRAMMAR_CALL:
    case GRAMMAR_GO: return facts[r->items[x->arg].next] & facts[x->next];           /* an entry is far from its rule */
    case GRAMMAR_REPEAT:
        body = r->repeats[x->arg].least == 0 ? ENDS | EMPTY : facts[r->items[r->repeats[x->arg].entry].next];
        return body & facts[x->next];
    case GRAMMAR_NOTHING: break;
    }
    return 0;
}

/* States from item begin on, in their order: in a rule they come before those that lead to them. */
static bool find_facts_of(const struct reader *r, uint8_t *facts, uint32_t begin, uint32_t end)
{
    bool changed = false;
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t first = i;
        uint8_t all = item_facts(r, facts, &r->items[i]);
        while (!r->items[i].last) all |= item_facts(r, facts, &r->items[++i]);
        changed |= facts[first] != all;
        facts[first] = all;
    }
    return changed;
}

/* facts: [n_items], of the first item of each state.  The last rule first, and the first one first, in turns until nothing changes. */
static bool find_facts(struct reader *r, uint8_t *facts)
{
    bool changed = true;
    facts[0] = ENDS | EMPTY;
    for (uint32_t pass = 0; changed; pass++) {
        if (pass == PASSES) return fail_place(r, 0, 0, "the grammar is too tangled: its rules lead through each other too often", NULL, 0);
        changed = false;
        for (uint32_t k = 0; k < r->n_rules; k++) {
            const struct rule *rule = r->rules[pass % 2 ? k : r->n_rules - 1 - k];
            changed |= find_facts_of(r, facts, rule->begin, rule->end);
        }
    }
    for (uint32_t k = 0; k < r->n_rules; k++) facts[r->rules[k]->entry] = facts[r->items[r->rules[k]->entry].next];
    return true;
}

/* The rules that the rule at entry may begin with, into `to`; returns how many.  mark: [n_items], shared by all rules: they share no
 * states but the end. */
static uint32_t rule_begins(const struct reader *r, const uint8_t *facts, const uint32_t *rule_of, uint32_t entry, uint8_t *mark,
                            uint32_t *work, uint32_t *to)
{
    uint32_t n_work = 0, n = 0;
    work[n_work++] = r->items[entry].next;
    mark[entry] = 1;
    while (n_work > 0) {
        const uint32_t state = work[--n_work];
        if (mark[state]) continue;
        if (!is_end(r, state)) mark[state] = 1;
        for (const struct grammar_item *x = &r->items[state]; ; x++) {
            const bool calls = x->kind == GRAMMAR_CALL || x->kind == GRAMMAR_GO || x->kind == GRAMMAR_REPEAT;
            const uint32_t callee = x->kind == GRAMMAR_REPEAT ? r->repeats[x->arg].entry : x->arg;
            if (calls) to[n++] = rule_of[callee];
            const bool none = x->kind == GRAMMAR_REPEAT && r->repeats[x->arg].least == 0;
            if ((x->kind == GRAMMAR_EMPTY || none || (calls && facts[callee] & EMPTY)) && !mark[x->next]) work[n_work++] = x->next;
            if (x->last) break;
        }
    }
    return n;
}

/* No rule may come back to itself before a byte has been read: there would be no end to what stands on the stack. */
static bool check_left(struct reader *r, const uint8_t *facts)
{
    const uint32_t n = r->n_rules;
    uint32_t *rule_of = take(r, r->n_items * sizeof *rule_of), *work = take(r, (r->n_items + 1u) * sizeof *work);
    uint8_t *mark = take(r, r->n_items), *color = take(r, n);
    uint32_t *from = take(r, (n + 1u) * sizeof *from), *to = take(r, (r->n_items + 1u) * sizeof *to), *path = take(r, n * sizeof *path);
    uint32_t *next = take(r, n * sizeof *next);
    if (r->failed) return false;
    uint32_t n_to = 0;
    for (struct rule *x = r->first; x; x = x->after) rule_of[x->entry] = x->number;
    for (uint32_t k = 0; k < n; k++) {
        from[k] = n_to;
        n_to += rule_begins(r, facts, rule_of, r->rules[k]->entry, mark, work, to + n_to);
    }
    from[n] = n_to;
    for (uint32_t root = 0; root < n; root++) {              /* depth first; color: 1 on the path, 2 done */
        uint32_t depth = 0;
        if (color[root]) continue;
        path[0] = root;
        color[root] = 1;
        next[root] = from[root];
        for (depth = 1; depth > 0; ) {
            const uint32_t at = path[depth - 1];
            if (next[at] == from[at + 1]) { color[at] = 2; depth--; continue; }
            const uint32_t callee = to[next[at]++];
            if (color[callee] == 2) continue;
            if (color[callee] == 1)
                return fail_rule(r, r->rules[r->rules[callee]->name ? callee : at],
                                 "a rule that begins with itself (left recursion); write it as a repetition");
            path[depth++] = callee;
            color[callee] = 1;
            next[callee] = from[callee];
        }
    }
    return true;
}

/* Repeats of what may be empty would count without reading. */
static bool check_repeats(struct reader *r, const uint8_t *facts)
{
    for (uint32_t i = 0; i < r->n_repeats; i++)
        if (facts[r->repeats[i].entry] & EMPTY)
            return fail_place(r, 0, 0, "a repetition with numbers of something that may be empty; give it one character at least", NULL, 0);
    return true;
}

static void cut_off(struct reader *r, const uint8_t *facts)
{
    for (uint32_t i = 0; i < r->n_items; i++)
        if (!(item_facts(r, facts, &r->items[i]) & ENDS)) r->items[i].kind = GRAMMAR_NOTHING;
}

/* ---- all of it ---- */

static bool read_all_rules(struct reader *r, size_t n)
{
    if (n > GRAMMAR_MOST_BYTES) return fail_place(r, 0, 0, "the grammar is longer than 4 MiB", NULL, 0);
    for (skip_space(r, true); r->at < r->end; skip_space(r, true)) if (!read_rule(r)) return false;
    return true;
}

static const struct grammar *finish(struct reader *r, size_t mark)
{
    const struct rule *root = rule_named(r, "root", 4);
    if (!root) return NULL;
    if (!root->body) { fail_place(r, 0, 0, "no rule is called root, with which a grammar begins", NULL, 0); return NULL; }
    struct room *room = r->room;
    /* Of the room that is left a quarter for items, an eighth for repeats: the tables that check them need more. */
    const size_t left = room->size - room->used, most = left / 4 / sizeof *r->items;
    r->most_items = most < GRAMMAR_MOST_ITEMS ? (uint32_t)most : GRAMMAR_MOST_ITEMS;
    r->most_repeats = r->most_items / 16;
    r->items = room_array(room, r->most_items, sizeof *r->items);
    r->repeats = room_array(room, r->most_repeats, sizeof *r->repeats);
    if (!r->items || !r->repeats) { fail_place(r, 0, 0, NO_ROOM, NULL, 0); return NULL; }
    if (!put_rules(r)) return NULL;
    uint8_t *facts = take(r, r->n_items);
    if (!facts || !find_facts(r, facts) || !check_repeats(r, facts) || !check_left(r, facts)) return NULL;
    if (!(facts[root->entry] & ENDS)) { fail_place(r, 0, 0, "no text satisfies the grammar: root never ends", NULL, 0); return NULL; }
    cut_off(r, facts);
    /* To the front: nothing else stays.  Items lie behind where they go. */
    const uint32_t state = root->entry, items_bytes = r->n_items * (uint32_t)sizeof *r->items;
    const uint32_t repeats_bytes = r->n_repeats * (uint32_t)sizeof *r->repeats;
    struct grammar_item *items = r->items;
    struct grammar_repeat *repeats = r->repeats;
    room->used = mark;
    struct grammar *g = room_take(room, sizeof *g + items_bytes + repeats_bytes);
    *g = (struct grammar){ GRAMMAR_MAGIC, (uint32_t)sizeof *g + items_bytes + repeats_bytes, r->n_items, r->n_repeats, state };
    memmove(g + 1, items, items_bytes);
    memmove((uint8_t *)(g + 1) + items_bytes, repeats, repeats_bytes);
    return g;
}

static const struct grammar *no_room(struct grammar_error *error)
{
    struct reader none = { .error = error };
    fail_place(&none, 0, 0, NO_ROOM, NULL, 0);
    return NULL;
}

const struct grammar *grammar_read(struct room *room, const char *text, size_t n, const uint8_t *vocab, struct grammar_error *error)
{
    const size_t mark = room->used;
    const struct grammar *g = NULL;
    *error = (struct grammar_error){ 0 };
    struct reader *r = room_take(room, sizeof *r);
    if (!r) return no_room(error);
    *r = (struct reader){ .room = room, .begin = text, .at = text, .end = text + n, .vocab = vocab, .error = error };
    r->last = &r->first;
    if (read_all_rules(r, n)) g = finish(r, mark);
    if (!g) room->used = mark;
    return g;
}

/* ---- choices ---- */

void grammar_put_literal(struct text_out *out, const char *text, size_t n)
{
    static const char hex[] = "0123456789ABCDEF";
    text_out_char(out, '"');
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = (uint8_t)text[i];
        if (c == '"' || c == '\\') text_out_put(out, (const char[]){ '\\', (char)c }, 2);
        else if (c < 0x20 || c == 0x7f) text_out_put(out, (const char[]){ '\\', 'x', hex[c >> 4], hex[c & 15] }, 4);
        else text_out_char(out, (char)c);
    }
    text_out_char(out, '"');
}

const struct grammar *grammar_of_choices(struct room *room, const struct grammar_choice *choices, size_t n, struct grammar_error *error)
{
    const size_t mark = room->used;
    size_t bytes = 16;
    for (size_t i = 0; i < n; i++) bytes += 4 * choices[i].n + 5;
    char *text = room_take(room, bytes);
    struct text_out out = { text, bytes, 0, false };
    if (!text) return no_room(error);
    TEXT_OUT_WORDS(&out, "root ::= ");
    for (size_t i = 0; i < n; i++) {
        if (i > 0) TEXT_OUT_WORDS(&out, " | ");
        grammar_put_literal(&out, choices[i].text, choices[i].n);
    }
    const struct grammar *g = grammar_read(room, text, out.n, NULL, error);
    if (!g) { room->used = mark; return NULL; }
    room->used = mark;                                       /* the text goes */
    struct grammar *to = room_take(room, g->bytes);
    memmove(to, g, g->bytes);
    return to;
}
