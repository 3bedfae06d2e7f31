/* grammar.c -- see grammar.h.  The text becomes a tree, and the tree becomes items, from the end of each rule to its beginning.  Then
 * rules that never end are cut off, and rules that begin with themselves are refused. */
#include "grammar_tree.h"
#include "runtime/text/tokenize.h"

#define NO_TOKEN "a token that the model does not have"
#define NO_ROOM "the grammar needs more memory than there is for it"
enum { UNROLLED = 256, LEAST_BUCKETS = 256, MOST_BUCKETS = 1 << 14, NAME = 40, STACKED = 4 };

/* ---- errors and memory ---- */

static void place_of(struct grammar_parser *r, const char *at, uint32_t *line, uint32_t *column)
{
    *line = *column = 1;
    for (const char *p = r->begin; p < at; p++) {
        *column += ((uint8_t)*p & 0xc0) != 0x80;
        if (*p == '\n') { ++*line; *column = 1; }
    }
}

/* Sets the error to `why` with name [n] in quotes; unprintable bytes are shown as '?'. */
bool grammar_fail(struct grammar_parser *r, uint32_t line, uint32_t column, const char *why, const char *name, size_t n)
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
static bool fail_at(struct grammar_parser *r, const char *at, const char *why, const char *name, size_t n)
{
    uint32_t line, column;
    if (r->failed) return false;
    place_of(r, at, &line, &column);
    return grammar_fail(r, line, column, why, name, n);
}
static bool fail_rule(struct grammar_parser *r, const struct rule *rule, const char *why)
{
    return rule->name ? fail_at(r, rule->name, why, rule->name, rule->n_name) : grammar_fail(r, 0, 0, why, "{}", 2);
}
static bool fail(struct grammar_parser *r, const char *why) { return fail_at(r, r->at, why, NULL, 0); }

void *grammar_take(struct grammar_parser *r, size_t bytes)
{
    void *p = room_take(r->room, bytes);
    if (!p) grammar_fail(r, 0, 0, NO_ROOM, NULL, 0);
    else memset(p, 0, bytes);
    return p;
}
static struct tree *tree_new(struct grammar_parser *r, enum tree_kind kind)
{
    struct tree *t = grammar_take(r, sizeof *t);
    if (t) t->kind = kind;
    return t;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-' || c == '_'; }
static bool is(const struct grammar_parser *r, char c) { return r->at < r->end && *r->at == c; }
static bool take_char(struct grammar_parser *r, char c)
{
    if (!is(r, c)) return false;
    r->at++;
    return true;
}

/* Skips white space and comments; lines: also line ends. */
static void skip_space(struct grammar_parser *r, bool lines)
{
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#') while (r->at < r->end && *r->at != '\n' && *r->at != '\r') r->at++;
        if (r->at == r->end || !(*r->at == ' ' || *r->at == '\t' || (lines && (*r->at == '\n' || *r->at == '\r')))) return;
    }
}

static struct rule *rule_named(struct grammar_parser *r, const char *name, size_t n)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < n; i++) hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    struct rule **bucket = &r->buckets[(hash ^ hash >> 16) & (r->n_buckets - 1)];
    for (struct rule *x = *bucket; x; x = x->next) if (x->n_name == n && memcmp(x->name, name, n) == 0) return x;
    if (r->n_rules == GRAMMAR_MOST_RULES) { fail_at(r, name, "the grammar has more than 131072 rules", NULL, 0); return NULL; }
    struct rule *x = grammar_take(r, sizeof *x);
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

/* The length of the UTF-8 sequence that begins with this byte; 0: it cannot begin a sequence. */
static uint32_t sequence_bytes(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
}

static bool read_hex(struct grammar_parser *r, uint32_t n, uint32_t *c)
{
    *c = 0;
    for (uint32_t i = 0; i < n; i++, r->at++) {
        const char x = r->at < r->end ? *r->at : 0;
        const int d = is_digit(x) ? x - '0' : x >= 'a' && x <= 'f' ? x - 'a' + 10 : x >= 'A' && x <= 'F' ? x - 'A' + 10 : -1;
        if (d < 0) return fail(r, n == 2 ? "\\x must have two hexadecimal digits" : n == 4 ? "\\u must have four hexadecimal digits"
                                                                                  : "\\U must have eight hexadecimal digits");
        *c = *c << 4 | (uint32_t)d;
    }
    if (*c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000)) return fail(r, "this escape is not a Unicode character");
    return true;
}

/* Reads one character of a literal or class, escaped or not. */
static bool read_char(struct grammar_parser *r, uint32_t *c)
{
    static const char from[] = "trn\\\"[]^-", into[] = "\t\r\n\\\"[]^-";
    const uint8_t *p = (const uint8_t *)r->at;
    if (*p == '\\') {
        const char what = r->at + 1 < r->end ? r->at[1] : 0;
        const char *known = what ? memchr(from, what, sizeof from - 1) : NULL;
        if (known) { r->at += 2; *c = (uint8_t)into[known - from]; return true; }
        if (what != 'x' && what != 'u' && what != 'U')
            return fail(r, "unknown escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\^ \\- \\xHH \\uHHHH \\UHHHHHHHH");
        r->at += 2;
        return read_hex(r, what == 'x' ? 2 : what == 'u' ? 4 : 8, c);
    }
    const uint32_t n = sequence_bytes(*p);
    if (n == 0 || (size_t)(r->end - r->at) < n) return fail(r, "bytes that are not UTF-8");
    *c = n == 1 ? *p : *p & (0x7fu >> n);
    for (uint32_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return fail(r, "bytes that are not UTF-8");
        *c = *c << 6 | (p[i] & 63);
    }
    if (*c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000) || (n == 3 && *c < 0x800) || (n == 4 && *c < 0x10000))
        return fail(r, "bytes that are not UTF-8");
    r->at += n;
    return true;
}

static struct tree *read_literal(struct grammar_parser *r)
{
    const char *const begin = r->at++;
    const char *end = r->at;
    while (end < r->end && *end != '"' && *end != '\n') end += *end == '\\' && end + 1 < r->end ? 2 : 1;
    if (end >= r->end || *end != '"') { fail_at(r, begin, "this literal has no closing quote", NULL, 0); return NULL; }
    struct tree *t = tree_new(r, TREE_LITERAL);
    char *bytes = t ? grammar_take(r, (size_t)(end - begin)) : NULL;           /* no escape is shorter than the character it stands for */
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

static bool span_add(struct grammar_parser *r, struct span **list, uint32_t first, uint32_t last)
{
    struct span *s = grammar_take(r, sizeof *s);
    if (!s) return false;
    *s = (struct span){ *list, first, last };
    *list = s;
    return true;
}

/* Sorts by first character: two halves, each sorted, are merged. */
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

/* Sorts the spans and joins those that touch. */
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

/* Completes a class.  Surrogates are excluded. */
static bool class_end(struct grammar_parser *r, struct tree *t, bool negated)
{
    static const uint32_t part[2][2] = { { 0, 0xd7ff }, { 0xe000, 0x10ffff } };
    struct span *list = spans_joined(t->spans), *result = NULL;
    for (uint32_t p = 0; p < 2; p++) {
        uint32_t next = part[p][0];                          /* beginning of the next gap in the list */
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

static struct tree *read_class(struct grammar_parser *r)
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
            if (last < first) { fail_at(r, at, "this range of characters ends before it begins", NULL, 0); return NULL; }
        }
        if (!span_add(r, &t->spans, first, last)) return NULL;
    }
    if (!take_char(r, ']')) { fail_at(r, begin, "this class of characters has no closing ]", NULL, 0); return NULL; }
    return class_end(r, t, negated) ? t : NULL;
}

static struct tree *read_any(struct grammar_parser *r)
{
    struct tree *t = tree_new(r, TREE_CLASS);
    r->at++;
    return t && class_end(r, t, true) ? t : NULL;
}

/* ---- the rest of a rule ---- */

static bool read_number(struct grammar_parser *r, uint32_t *out)
{
    if (r->at >= r->end || !is_digit(*r->at)) return fail(r, "expected a number");
    for (*out = 0; r->at < r->end && is_digit(*r->at); r->at++) {
        *out = *out * 10 + (uint32_t)(*r->at - '0');
        if (*out > GRAMMAR_MOST_REPEAT) return fail(r, "this number is above 1048576");
    }
    return true;
}

/* Reads <[id]> or <text>, each optionally after !. */
static struct tree *read_token(struct grammar_parser *r)
{
    const char *const begin = r->at;
    struct tree *t = tree_new(r, TREE_TOKEN);
    if (!t) return NULL;
    t->weight = 1;
    t->most = take_char(r, '!');
    if (!take_char(r, '<')) { fail(r, "expected < after !"); return NULL; }
    if (take_char(r, '[')) {
        if (!read_number(r, &t->least)) return NULL;
        if (!take_char(r, ']') || !take_char(r, '>')) { fail(r, "expected ]> after the number of a token"); return NULL; }
        if (r->vocab && t->least >= forge_vocab_n_tokens(r->vocab)) { fail_at(r, begin, NO_TOKEN, NULL, 0); return NULL; }
        return t;
    }
    while (r->at < r->end && *r->at != '>' && *r->at != '\n') r->at++;
    if (!take_char(r, '>')) { fail_at(r, begin, "this token has no closing >", NULL, 0); return NULL; }
    const char *text = begin + t->most;
    const int32_t id = r->vocab ? forge_vocab_find(r->vocab, text, (size_t)(r->at - text)) : -1;
    if (id < 0) {
        fail_at(r, begin, r->vocab ? NO_TOKEN : "without a model, a token cannot be given by its text; write <[number]>", text,
                (size_t)(r->at - text));
        return NULL;
    }
    t->least = (uint32_t)id;
    return t;
}

static struct tree *read_choice(struct grammar_parser *r, bool inside);

static struct tree *read_reference(struct grammar_parser *r)
{
    const char *const name = r->at;
    while (r->at < r->end && is_name(*r->at)) r->at++;
    struct tree *t = tree_new(r, TREE_RULE);
    if (!t || !(t->rule = rule_named(r, name, (size_t)(r->at - name)))) return NULL;
    t->weight = 1;
    t->rule->n_uses++;
    return t;
}

static struct tree *read_group(struct grammar_parser *r)
{
    const char *const begin = r->at++;
    if (++r->depth > GRAMMAR_DEPTH) { fail(r, "groups are nested deeper than 100"); return NULL; }
    skip_space(r, true);
    struct tree *t = read_choice(r, true);
    if (!t) return NULL;
    if (!take_char(r, ')')) { fail_at(r, r->at < r->end ? r->at : begin, "this group has no closing )", NULL, 0); return NULL; }
    r->depth--;
    return t;
}

static struct tree *read_one(struct grammar_parser *r)
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

/* Reads * + ? {m} {m,} {m,n}; *there: one of them was found. */
static bool read_bounds(struct grammar_parser *r, uint32_t *least, uint32_t *most, bool *there)
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
    if (!take_char(r, '}')) return fail_at(r, begin, "this repetition has no closing }", NULL, 0);
    return *least <= *most || fail_at(r, begin, "the minimum of this repetition is above its maximum", NULL, 0);
}

static bool begins_one(const struct grammar_parser *r)
{
    const char c = r->at < r->end ? *r->at : 0;
    return c && (is_name(c) || c == '"' || c == '[' || c == '(' || c == '.' || c == '<' || c == '!');
}

static struct tree *read_sequence(struct grammar_parser *r, bool inside)
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
            if (n == STACKED) { fail(r, "more than four repetitions are nested in each other"); return NULL; }
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

static struct tree *read_choice(struct grammar_parser *r, bool inside)
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

static bool read_rule(struct grammar_parser *r)
{
    const char *const name = r->at;
    while (r->at < r->end && is_name(*r->at)) r->at++;
    const size_t n = (size_t)(r->at - name);
    if (n == 0) return fail(r, "expected the name of a rule");
    skip_space(r, false);
    if (r->end - r->at < 3 || memcmp(r->at, "::=", 3) != 0) return fail(r, "expected ::= after the name of a rule");
    r->at += 3;
    struct rule *rule = rule_named(r, name, n);
    if (!rule) return false;
    if (rule->body) return fail_at(r, name, "this rule is defined twice", name, n);
    rule->name = name;
    skip_space(r, true);
    if (!(rule->body = read_choice(r, false))) return false;
    return r->at == r->end || *r->at == '\n' || *r->at == '\r' || fail(r, "this cannot stand in a rule");
}

/* ---- items ---- */

static uint32_t item_new(struct grammar_parser *r, uint32_t n)
{
    if (n > r->most_items - r->n_items) {
        r->room->full |= r->n_items + n <= GRAMMAR_MOST_ITEMS;
        grammar_fail(r, 0, 0, r->n_items + n > GRAMMAR_MOST_ITEMS ? "the grammar is too large: more than 1048576 items"
                                                                : NO_ROOM, NULL, 0);
        return 0;
    }
    const uint32_t at = r->n_items;
    r->n_items += n;
    for (uint32_t i = at; i < r->n_items; i++) r->items[i] = (struct grammar_item){ .kind = GRAMMAR_EMPTY, .last = i + 1 == r->n_items };
    return at;
}
uint32_t grammar_put_item(struct grammar_parser *r, struct grammar_item item)
{
    const uint32_t at = item_new(r, 1);
    item.last = 1;
    if (!r->failed) r->items[at] = item;
    return at;
}

uint32_t grammar_put_bytes(struct grammar_parser *r, const char *bytes, size_t n, uint32_t next)
{
    while (n-- > 0 && !r->failed)
        next = grammar_put_item(r, (struct grammar_item){ .kind = GRAMMAR_BYTES, .low = (uint8_t)bytes[n], .high = (uint8_t)bytes[n],
                                                          .next = next });
    return next;
}

/* Adds a state of n items. */
uint32_t grammar_put_items(struct grammar_parser *r, const struct grammar_item *items, uint32_t n)
{
    const uint32_t at = r->failed ? 0 : item_new(r, n);
    if (r->failed) return 0;
    memcpy(r->items + at, items, n * sizeof *items);
    r->items[at + n - 1].last = 1;
    return at;
}

/* Splits codepoints first .. last, all with sequences of n bytes, into ranges of sequences that differ only in their last bytes. */
static uint32_t ranges_of_length(uint32_t first, uint32_t last, uint32_t n, struct utf8_range *out)
{
    char a[4], b[4];
    for (uint32_t i = 1; i < n; i++) {                       /* the lowest i groups of six bits: complete, or split off */
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

/* All classes share the states from which any one, two or three further bytes 80 .. BF lead to `next`. */
static uint32_t put_class(struct grammar_parser *r, const struct tree *t, uint32_t next)
{
    struct utf8_range ranges[16];
    uint32_t whole[4] = { next, 0, 0, 0 }, n_items = 0;
    for (const struct span *s = t->spans; s; s = s->next) n_items += utf8_ranges(s->first, s->last, ranges);
    if (n_items == 0) return grammar_put_item(r, (struct grammar_item){ .kind = GRAMMAR_NOTHING });
    struct grammar_item *items = grammar_take(r, n_items * sizeof *items);
    n_items = 0;
    for (const struct span *s = t->spans; s && !r->failed; s = s->next) {
        const uint32_t n = utf8_ranges(s->first, s->last, ranges);
        for (uint32_t i = 0; i < n && !r->failed; i++) {
            const struct utf8_range *u = &ranges[i];
            uint32_t after = next, any = 0;                  /* number of last bytes that may be any continuation byte */
            while (any + 1 < u->n && u->low[u->n - 1 - any] == 0x80 && u->high[u->n - 1 - any] == 0xbf) any++;
            for (uint32_t k = 1; k <= any; k++) {
                if (!whole[k]) whole[k] = grammar_put_item(r, (struct grammar_item){ .kind = GRAMMAR_BYTES, .low = 0x80, .high = 0xbf,
                                                                             .next = whole[k - 1] });
                after = whole[k];
            }
            for (uint32_t k = u->n - 1 - any; k > 0; k--)
                after = grammar_put_item(r, (struct grammar_item){ .kind = GRAMMAR_BYTES, .low = u->low[k], .high = u->high[k],
                                                                   .next = after });
            if (r->failed) break;
            items[n_items++] = (struct grammar_item){ .kind = GRAMMAR_BYTES, .low = u->low[0], .high = u->high[0], .next = after };
        }
    }
    return grammar_put_items(r, items, n_items);
}

static bool is_end(const struct grammar_parser *r, uint32_t state) { return r->items[state].kind == GRAMMAR_END; }

static uint32_t put_entry(struct grammar_parser *r, uint32_t entry, uint32_t next)
{
    return grammar_put_item(r, (struct grammar_item){ .kind = is_end(r, next) ? GRAMMAR_GO : GRAMMAR_CALL, .arg = entry, .next = next });
}

uint32_t grammar_put_call(struct grammar_parser *r, struct rule *rule, uint32_t next)
{
    rule->called = true;
    return put_entry(r, rule->entry, next);
}

/* Repeats with a counter: the repeated part becomes a rule of its own, after all others. */
static uint32_t put_counted(struct grammar_parser *r, const struct tree *t, uint32_t least, uint32_t most, uint32_t next)
{
    struct rule *rule = grammar_take(r, sizeof *rule);
    if (!rule) return 0;
    if (r->n_repeats == r->most_repeats) {
        grammar_fail(r, 0, 0, "the grammar has too many repetitions", NULL, 0);
        return 0;
    }
    *rule = (struct rule){ .number = r->n_rules++, .body = t->child, .entry = item_new(r, 1) };
    *r->last = rule;
    r->last = &rule->after;
    r->repeats[r->n_repeats] = (struct grammar_repeat){ rule->entry, least, most, 0 };
    return grammar_put_item(r, (struct grammar_item){ .kind = GRAMMAR_REPEAT, .arg = r->n_repeats++, .next = next });
}

/* Copies the repeated part if that gives few items, else uses a counter. */
static uint32_t put_repeat(struct grammar_parser *r, const struct tree *t, uint32_t next)
{
    const uint32_t copies = t->most != NO_MOST ? t->most : t->least > 1 ? t->least : 1;
    const bool counted = copies > 1 && (uint64_t)copies * (t->child->weight + 1) > UNROLLED;
    if (counted && t->most != NO_MOST) return put_counted(r, t, t->least, t->most, next);
    uint32_t state = next, rest = t->least;
    r->copying += copies > 1;
    if (t->most == NO_MOST) {                                /* once, then again or on */
        state = item_new(r, 2);
        if (r->failed) return 0;
        r->items[state + 1].next = next;
        if (counted) {
            const uint32_t all = put_counted(r, t, t->least, t->least, state);
            if (r->failed) return 0;
            const uint32_t again = put_entry(r, r->repeats[r->items[all].arg].entry, state);
            if (!r->failed) r->items[state].next = again;
            r->copying -= copies > 1;
            return all;
        }
        const uint32_t around = grammar_put_tree(r, t->child, state);
        if (r->failed) return 0;
        r->items[state].next = around;
        if (rest > 0) { state = around; rest--; }
    }
    for (uint32_t i = t->least; t->most != NO_MOST && i < t->most && !r->failed; i++) {
        const uint32_t again = grammar_put_tree(r, t->child, state), one = item_new(r, 2);
        if (r->failed) return 0;
        r->items[one].next = again;
        r->items[one + 1].next = next;
        state = one;
    }
    for (; rest > 0 && !r->failed; rest--) state = grammar_put_tree(r, t->child, state);
    r->copying -= copies > 1;
    return state;
}

static uint32_t put_choice(struct grammar_parser *r, const struct tree *t, uint32_t next)
{
    uint32_t n = 0;
    for (const struct tree *c = t->child; c; c = c->next) n++;
    return n == 1 ? grammar_put_tree(r, t->child, next) : grammar_put_alternatives(r, t, n, next);
}

/* Writes `first` and the trees after it, from the last to the first. */
uint32_t grammar_put_sequence(struct grammar_parser *r, struct tree *first, uint32_t next)
{
    struct tree *back = NULL;
    for (struct tree *c = first, *after; c; c = after) { after = c->next; c->next = back; back = c; }
    first = NULL;
    for (struct tree *c = back, *after; c; c = after) {
        if (!r->failed) next = grammar_put_tree(r, c, next);
        after = c->next;
        c->next = first;
        first = c;
    }
    return next;
}

/* Writes t and returns the state from which it leads to next.  The recursion is as deep as groups are nested, and again as deep in the
 * rules of repeats. */
uint32_t grammar_put_tree(struct grammar_parser *r, const struct tree *t, uint32_t next)
{
    if (r->failed) return 0;
    switch (t->kind) {
    case TREE_SEQUENCE: return grammar_put_sequence(r, t->child, next);
    case TREE_CHOICE: return put_choice(r, t, next);
    case TREE_CLASS: return put_class(r, t, next);
    case TREE_REPEAT: return put_repeat(r, t, next);
    case TREE_RULE: return grammar_put_call(r, t->rule, next);
    case TREE_TOKEN:
        return grammar_put_item(r, (struct grammar_item){ .kind = GRAMMAR_TOKEN, .arg = t->least, .low = (uint8_t)t->most, .next = next });
    case TREE_LITERAL: return grammar_put_bytes(r, t->bytes, t->n, next);
    }
    return next;
}

/* Item 0 is the end of all rules; then come the entries of the named rules. */
static bool put_rules(struct grammar_parser *r)
{
    const uint32_t end = grammar_put_item(r, (struct grammar_item){ .kind = GRAMMAR_END });
    for (struct rule *rule = r->first; rule; rule = rule->after) {
        if (!rule->body) return fail_rule(r, rule, "this rule is not defined");
        rule->entry = item_new(r, 1);
    }
    for (bool more = true; more && !r->failed; ) {
        more = false;
        for (struct rule *rule = r->first; rule && !r->failed; rule = rule->after) {
            if (rule->written || (rule->inlined && !rule->called)) continue;
            more = rule->written = true;
            const uint32_t state = grammar_put_tree(r, rule->body, end);
            if (!r->failed) r->items[rule->entry].next = state;
        }
    }
    r->rules = grammar_take(r, r->n_rules * sizeof *r->rules);
    for (struct rule *x = r->first; x && !r->failed; x = x->after) r->rules[x->number] = x;
    return !r->failed;
}

/* ---- checks of the whole grammar ---- */

enum { ENDS = 1, EMPTY = 2 };            /* facts of a state: it can reach an end; it can do so without a byte */

static uint8_t item_facts(const struct grammar_parser *r, const uint8_t *facts, const struct grammar_item *x)
{
    uint8_t body;
    switch ((enum grammar_kind)x->kind) {
    case GRAMMAR_END: return ENDS | EMPTY;
    case GRAMMAR_BYTES:
    case GRAMMAR_TOKEN: return facts[x->next] & ENDS;
    case GRAMMAR_EMPTY: return facts[x->next];
    case GRAMMAR_CALL:
    case GRAMMAR_GO: return facts[x->arg] & facts[x->next];
    case GRAMMAR_REPEAT:
        body = r->repeats[x->arg].least == 0 ? ENDS | EMPTY : facts[r->repeats[x->arg].entry];
        return body & facts[x->next];
    case GRAMMAR_NOTHING: break;
    }
    return 0;
}

/* The states on whose facts those of an item depend; returns their number. */
static uint32_t item_needs(const struct grammar_parser *r, const struct grammar_item *x, uint32_t needs[2])
{
    needs[0] = x->next;
    needs[1] = x->kind == GRAMMAR_REPEAT ? r->repeats[x->arg].entry : x->arg;
    return x->kind == GRAMMAR_END || x->kind == GRAMMAR_NOTHING ? 0
         : x->kind == GRAMMAR_CALL || x->kind == GRAMMAR_GO || x->kind == GRAMMAR_REPEAT ? 2 : 1;
}

/* facts: [n_items], for the first item of each state.  When the facts of a state grow, the items that need them are looked at again: twice
 * at most for each need, so the time is linear in the items. */
static bool find_facts(struct grammar_parser *r, uint8_t *facts)
{
    const uint32_t n = r->n_items;
    const size_t mark = r->room->used;
    uint32_t needs[2], n_work = 0, state = 0;
    uint32_t *begin = grammar_take(r, (n + 1u) * sizeof *begin), *users = grammar_take(r, (size_t)n * 2 * sizeof *users);
    uint32_t *state_of = grammar_take(r, n * sizeof *state_of), *work = grammar_take(r, n * sizeof *work);
    uint8_t *waits = grammar_take(r, n);
    if (r->failed) return false;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = item_needs(r, &r->items[i], needs); k-- > 0; ) begin[needs[k]]++;
    for (uint32_t i = 0, all = 0; i <= n; i++) { all += begin[i]; begin[i] = all; }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = item_needs(r, &r->items[i], needs); k-- > 0; ) users[--begin[needs[k]]] = i;
        state_of[i] = state;
        if (r->items[i].last) state = i + 1;
    }
    facts[0] = ENDS | EMPTY;
    for (work[n_work++] = 0; n_work > 0; ) {
        const uint32_t at = work[--n_work];
        waits[at] = 0;
        for (uint32_t k = begin[at]; k < begin[at + 1]; k++) {
            const uint32_t user = state_of[users[k]];
            const uint8_t all = facts[user] | item_facts(r, facts, &r->items[users[k]]);
            if (all == facts[user]) continue;
            facts[user] = all;
            if (!waits[user]) { waits[user] = 1; work[n_work++] = user; }
        }
    }
    r->room->used = mark;
    return true;
}

/* Writes the rules with which the rule at entry may begin into `to`; returns their number.  mark: [n_items]; all rules can share it,
 * because they share no state except the end. */
static uint32_t rule_begins(const struct grammar_parser *r, const uint8_t *facts, const uint32_t *rule_of, uint32_t entry, uint8_t *mark,
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

/* No rule may return to itself before a byte has been read, because the stack would grow without end. */
static bool check_left(struct grammar_parser *r, const uint8_t *facts)
{
    const uint32_t n = r->n_rules;
    uint32_t *rule_of = grammar_take(r, r->n_items * sizeof *rule_of), *work = grammar_take(r, (r->n_items + 1u) * sizeof *work);
    uint8_t *mark = grammar_take(r, r->n_items), *color = grammar_take(r, n);
    uint32_t *from = grammar_take(r, (n + 1u) * sizeof *from), *to = grammar_take(r, (r->n_items + 1u) * sizeof *to);
    uint32_t *path = grammar_take(r, n * sizeof *path), *next = grammar_take(r, n * sizeof *next);
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
                                 "this rule begins with itself (left recursion); write it as a repetition");
            path[depth++] = callee;
            color[callee] = 1;
            next[callee] = from[callee];
        }
    }
    return true;
}

/* A repeat of something that may be empty would count without reading. */
static bool check_repeats(struct grammar_parser *r, const uint8_t *facts)
{
    for (uint32_t i = 0; i < r->n_repeats; i++)
        if (facts[r->repeats[i].entry] & EMPTY)
            return grammar_fail(r, 0, 0, "what is repeated {m,n} times may be empty; give it at least one character", NULL, 0);
    return true;
}

static void cut_off(struct grammar_parser *r, const uint8_t *facts)
{
    for (uint32_t i = 0; i < r->n_items; i++)
        if (!(item_facts(r, facts, &r->items[i]) & ENDS)) r->items[i].kind = GRAMMAR_NOTHING;
}

/* ---- the whole ---- */

static bool read_all_rules(struct grammar_parser *r, size_t n)
{
    if (n > GRAMMAR_MOST_BYTES) return grammar_fail(r, 0, 0, "the grammar is longer than 4 MiB", NULL, 0);
    for (skip_space(r, true); r->at < r->end; skip_space(r, true)) if (!read_rule(r)) return false;
    return true;
}

static const struct grammar *finish(struct grammar_parser *r, size_t mark)
{
    struct rule *root = rule_named(r, "root", 4);
    if (!root) return NULL;
    root->called = true;
    if (!root->body) { grammar_fail(r, 0, 0, "the rule root, with which a grammar begins, is missing", NULL, 0); return NULL; }
    struct room *room = r->room;
    /* A quarter of the free room is for items, an eighth for repeats; the tables for checking them need more. */
    const size_t left = room->size - room->used, most = left / 4 / sizeof *r->items;
    r->most_items = most < GRAMMAR_MOST_ITEMS ? (uint32_t)most : GRAMMAR_MOST_ITEMS;
    r->most_repeats = r->most_items / 16;
    r->items = room_array(room, r->most_items, sizeof *r->items);
    r->repeats = room_array(room, r->most_repeats, sizeof *r->repeats);
    if (!r->items || !r->repeats) { grammar_fail(r, 0, 0, NO_ROOM, NULL, 0); return NULL; }
    if (!put_rules(r)) return NULL;
    uint8_t *facts = grammar_take(r, r->n_items);
    if (!facts || !find_facts(r, facts) || !check_repeats(r, facts) || !check_left(r, facts)) return NULL;
    if (!(facts[root->entry] & ENDS)) { grammar_fail(r, 0, 0, "no text satisfies the grammar: root never ends", NULL, 0); return NULL; }
    cut_off(r, facts);
    /* Moves the result to the front; nothing else is kept.  Items lie after their destination. */
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
    struct grammar_parser none = { .error = error };
    grammar_fail(&none, 0, 0, NO_ROOM, NULL, 0);
    return NULL;
}

const struct grammar *grammar_read(struct room *room, const char *text, size_t n, const uint8_t *vocab, struct grammar_error *error)
{
    const size_t mark = room->used;
    const struct grammar *g = NULL;
    *error = (struct grammar_error){ 0 };
    struct grammar_parser *r = room_take(room, sizeof *r);
    if (!r) return no_room(error);
    *r = (struct grammar_parser){ .room = room, .begin = text, .at = text, .end = text + n, .vocab = vocab, .error = error,
                                  .n_buckets = LEAST_BUCKETS };
    while (r->n_buckets < MOST_BUCKETS && r->n_buckets < n / 64) r->n_buckets *= 2;
    r->last = &r->first;
    r->buckets = grammar_take(r, r->n_buckets * sizeof *r->buckets);
    if (r->buckets && read_all_rules(r, n)) g = finish(r, mark);
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
    room->used = mark;                                       /* the text is no longer needed */
    struct grammar *to = room_take(room, g->bytes);
    memmove(to, g, g->bytes);
    return to;
}
