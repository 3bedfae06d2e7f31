/* texts.c -- see texts.h. */
#include "texts.h"
#include "grammar.h"
#include "json.h"
#include "text.h"

enum { LEAST_BUCKETS = 1024, MEMOS = 2048, LISTED = 1 << 15, DEPTH = 200, MOST_STATES = 8192, MOST_CLASSES = 1024 };
struct texts_memo { uint32_t id, c; struct texts_node *to; };

/* ---- nodes ---- */

static void *take(struct texts *t, size_t bytes)
{
    void *p = room_take(t->room, bytes);
    if (!p) t->failed = true;
    else memset(p, 0, bytes);
    return p;
}

static uint32_t mix(uint32_t h, uint32_t x)
{
    h = (h ^ x) * 0x9e3779b1u;
    return h ^ h >> 15;
}

/* Four times the buckets, when they have become full. */
static bool more_buckets(struct texts *t)
{
    const uint32_t n = t->n_buckets ? 4 * t->n_buckets : LEAST_BUCKETS;
    struct texts_node **to = take(t, n * sizeof *to);
    for (uint32_t i = 0; to && i < t->n_buckets; i++)
        for (struct texts_node *x = t->buckets[i], *next; x; x = next) {
            next = x->link;
            x->link = to[x->hash % n];
            to[x->hash % n] = x;
        }
    if (to) { t->buckets = to; t->n_buckets = n; }
    return to != NULL;
}

/* The node with these values, old or new. */
static struct texts_node *node(struct texts *t, const struct texts_node *like)
{
    uint32_t hash = mix(mix(mix(like->kind, like->least), like->most), like->n);
    if (like->a) hash = mix(hash, like->a->id);
    if (like->b) hash = mix(hash, like->b->id);
    for (uint32_t i = 0; i < like->n; i++) hash = mix(mix(hash, like->ranges[i].first), like->ranges[i].last);
    if (*t->work == 0) { t->failed = true; return t->none; }
    --*t->work;
    if (t->n_nodes >= 2 * t->n_buckets && !more_buckets(t)) return t->none;
    struct texts_node **bucket = &t->buckets[hash % t->n_buckets], *x = *bucket;
    for (; x; x = x->link)
        if (x->hash == hash && x->kind == like->kind && x->a == like->a && x->b == like->b && x->least == like->least &&
            x->most == like->most &&
            x->n == like->n && memcmp(x->ranges, like->ranges, x->n * sizeof *x->ranges) == 0) return x;
    struct texts_range *ranges = like->n ? take(t, like->n * sizeof *ranges) : NULL;
    if (!(x = take(t, sizeof *x)) || (like->n && !ranges)) return t->none;
    *x = *like;
    if (ranges) memcpy(ranges, like->ranges, like->n * sizeof *ranges);
    x->ranges = ranges;
    x->hash = hash;
    x->id = t->n_nodes++;
    x->link = *bucket;
    return *bucket = x;
}

bool texts_open(struct texts *t, struct room *room, uint32_t *work)
{
    static const struct texts_range any = { 0, TEXTS_LAST };
    *t = (struct texts){ .room = room, .work = work };
    t->memo = room_array(room, MEMOS, sizeof *t->memo);
    t->list = room_array(room, LISTED, sizeof(void *));
    if (t->failed || !t->memo || !t->list || *work == 0) return false;
    for (uint32_t i = 0; i < MEMOS; i++) t->memo[i].id = UINT32_MAX;
    t->none = node(t, &(struct texts_node){ .kind = TEXTS_NONE });
    t->empty = node(t, &(struct texts_node){ .kind = TEXTS_EMPTY, .nullable = true });
    t->any = texts_set(t, &any, 1);
    t->all = texts_repeat(t, t->any, 0, TEXTS_ANY_NUMBER);
    return !t->failed;
}

uint32_t texts_order(struct texts_range *ranges, uint32_t n)
{
    uint32_t n_all = 0;
    for (uint32_t gap = n / 2; gap > 0; gap /= 2)            /* Shell sort */
        for (uint32_t i = gap; i < n; i++) {
            const struct texts_range x = ranges[i];
            uint32_t k = i;
            for (; k >= gap && ranges[k - gap].first > x.first; k -= gap) ranges[k] = ranges[k - gap];
            ranges[k] = x;
        }
    for (uint32_t i = 0; i < n; i++) {
        const struct texts_range x = ranges[i];
        if (n_all > 0 && x.first <= ranges[n_all - 1].last + 1) {
            if (x.last > ranges[n_all - 1].last) ranges[n_all - 1].last = x.last;
        } else ranges[n_all++] = x;
    }
    return n_all;
}

struct texts_node *texts_set(struct texts *t, const struct texts_range *ranges, uint32_t n)
{
    struct texts_range *copy = n ? take(t, n * sizeof *copy) : NULL;
    if (!copy) return t->none;
    memcpy(copy, ranges, n * sizeof *copy);
    return node(t, &(struct texts_node){ .kind = TEXTS_SET, .ranges = copy, .n = texts_order(copy, n) });
}

struct texts_node *texts_literal(struct texts *t, const char *text, size_t n)
{
    struct texts_node *all = t->empty;
    for (size_t step; n > 0; n -= step) {
        step = text_step_back(text, n);
        const uint32_t c = text_codepoint(text + n - step, step);
        all = texts_cat(t, texts_set(t, &(struct texts_range){ c, c }, 1), all);
    }
    return all;
}

static struct texts_node *pair(struct texts *t, enum texts_kind kind, struct texts_node *a, struct texts_node *b)
{
    const bool nullable = kind == TEXTS_OR ? a->nullable || b->nullable : a->nullable && b->nullable;
    return node(t, &(struct texts_node){ .kind = (uint8_t)kind, .a = a, .b = b, .nullable = nullable, .asks = a->asks || b->asks,
                                         .mixed = kind == TEXTS_AND || a->mixed || b->mixed });
}

struct texts_node *texts_cat(struct texts *t, struct texts_node *a, struct texts_node *b)
{
    if (a == t->none || b == t->none) return t->none;
    if (a == t->empty || b == t->empty) return a == t->empty ? b : a;
    if (a == t->all && b == t->all) return a;
    if (a->kind != TEXTS_CAT) return pair(t, TEXTS_CAT, a, b);
    uint32_t n = 0;                                          /* the list of a goes before b */
    for (; a->kind == TEXTS_CAT && n < LISTED; a = a->b) t->list[n++] = a->a;
    if (n == LISTED) { t->failed = true; return t->none; }
    b = a == t->all && b == t->all ? b : pair(t, TEXTS_CAT, a, b);
    while (n-- > 0) b = pair(t, TEXTS_CAT, t->list[n], b);
    return b;
}

static struct texts_node *sets_joined(struct texts *t, const struct texts_node *a, const struct texts_node *b)
{
    struct texts_range *all = take(t, (a->n + b->n) * sizeof *all);
    if (!all) return t->none;
    memcpy(all, a->ranges, a->n * sizeof *all);
    memcpy(all + a->n, b->ranges, b->n * sizeof *all);
    return texts_set(t, all, a->n + b->n);
}

/* Lists are in this order: a set, then the newest first, so that a list grows at its front. */
static bool goes_before(const struct texts_node *a, const struct texts_node *b)
{
    return (a->kind == TEXTS_SET) != (b->kind == TEXTS_SET) ? a->kind == TEXTS_SET : a->id > b->id;
}
static struct texts_node *head(enum texts_kind kind, struct texts_node *x) { return x && x->kind == kind ? x->a : x; }
static struct texts_node *tail(enum texts_kind kind, struct texts_node *x) { return x->kind == kind ? x->b : NULL; }

/* Merges two lists of kind OR or AND.  The rest of the longer list is not copied. */
static struct texts_node *merged(struct texts *t, enum texts_kind kind, struct texts_node *a, struct texts_node *b)
{
    uint32_t n = 0;
    while (a && b) {
        struct texts_node *x = head(kind, a), *y = head(kind, b), *one = goes_before(x, y) ? x : y;
        if (n == LISTED || *t->work == 0) { t->failed = true; return t->none; }
        --*t->work;
        if (x != y && kind == TEXTS_OR && x->kind == TEXTS_SET && y->kind == TEXTS_SET) {
            one = sets_joined(t, x, y);
            a = tail(kind, a);
            b = tail(kind, b);
        } else {
            const bool both = x == y;
            if (both || one == x) a = tail(kind, a);
            if (both || one == y) b = tail(kind, b);
        }
        t->list[n++] = one;
    }
    struct texts_node *all = a ? a : b;
    if (!all) all = t->list[--n];
    while (n-- > 0) all = pair(t, kind, t->list[n], all);
    return all;
}

struct texts_node *texts_or(struct texts *t, struct texts_node *a, struct texts_node *b)
{
    if (a == b || a == t->none || b == t->all) return b;
    if (b == t->none || a == t->all) return a;
    if (b == t->empty && a->nullable) return a;
    if (a == t->empty && b->nullable) return b;
    return merged(t, TEXTS_OR, a, b);
}
struct texts_node *texts_and(struct texts *t, struct texts_node *a, struct texts_node *b)
{
    if (a == b || a == t->all || b == t->none) return b;
    if (b == t->all || a == t->none) return a;
    if (a == t->empty || b == t->empty) return a->nullable && b->nullable ? t->empty : t->none;
    return merged(t, TEXTS_AND, a, b);
}

struct texts_node *texts_not(struct texts *t, struct texts_node *a)
{
    if (a->kind == TEXTS_NOT) return a->a;
    if (a == t->none || a == t->all) return a == t->none ? t->all : t->none;
    return node(t, &(struct texts_node){ .kind = TEXTS_NOT, .a = a, .nullable = !a->nullable, .mixed = true });
}

struct texts_node *texts_repeat(struct texts *t, struct texts_node *a, uint32_t least, uint32_t most)
{
    if (a->nullable) least = 0;
    if (most == 0 || a == t->empty) return t->empty;
    if (a == t->none) return least == 0 ? t->empty : a;
    if (least == 1 && most == 1) return a;
    if (a->kind == TEXTS_REPEAT && a->least == 0 && a->most == TEXTS_ANY_NUMBER) return a;
    if (a->nullable && most == 1) return a;
    return node(t, &(struct texts_node){ .kind = TEXTS_REPEAT, .a = a, .least = least, .most = most, .nullable = least == 0 || a->nullable,
                                         .asks = a->asks,
                                         .mixed = a->mixed || (a->nullable && most != TEXTS_ANY_NUMBER) });
}

struct texts_node *texts_ask(struct texts *t, enum texts_kind kind, struct texts_node *a, bool negated)
{
    return node(t, &(struct texts_node){ .kind = (uint8_t)kind, .a = a, .least = negated, .asks = true });
}

/* ---- derivatives ---- */

static bool set_has(const struct texts_node *set, uint32_t c)
{
    uint32_t low = 0, high = set->n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (set->ranges[middle].last < c) low = middle + 1;
        else high = middle;
    }
    return low < set->n && set->ranges[low].first <= c;
}

/* What may follow c in the texts of x that begin with c. */
static struct texts_node *after(struct texts *t, struct texts_node *x, uint32_t c, uint32_t depth)
{
    struct texts_node *to = t->none;
    const uint32_t id = x->id;
    if (*t->work == 0 || depth > DEPTH) { t->failed = true; return to; }
    --*t->work;
    if (x->kind == TEXTS_SET) return set_has(x, c) ? t->empty : to;
    if (x->kind < TEXTS_SET || x == t->all) return x == t->all ? x : to;
    struct texts_memo *memo = &t->memo[mix(mix(1, x->id), c) % MEMOS];
    if (memo->id == x->id && memo->c == c) return memo->to;
    switch ((enum texts_kind)x->kind) {
    case TEXTS_CAT: {
        struct texts_node *rest = x;
        for (; rest->kind == TEXTS_CAT; rest = rest->b) {
            to = texts_or(t, to, texts_cat(t, after(t, rest->a, c, depth + 1), rest->b));
            if (!rest->a->nullable) break;
        }
        if (rest->kind != TEXTS_CAT) to = texts_or(t, to, after(t, rest, c, depth + 1));
        break;
    }
    case TEXTS_OR:
        for (; x->kind == TEXTS_OR; x = x->b) to = texts_or(t, to, after(t, x->a, c, depth + 1));
        to = texts_or(t, to, after(t, x, c, depth + 1));
        break;
    case TEXTS_AND:
        for (to = t->all; x->kind == TEXTS_AND; x = x->b) to = texts_and(t, to, after(t, x->a, c, depth + 1));
        to = texts_and(t, to, after(t, x, c, depth + 1));
        break;
    case TEXTS_NOT: to = texts_not(t, after(t, x->a, c, depth + 1)); break;
    case TEXTS_REPEAT: {
        struct texts_node *first = after(t, x->a, c, depth + 1);
        const uint32_t most = x->most == TEXTS_ANY_NUMBER ? x->most : x->most - 1;
        to = first == t->none ? first : texts_cat(t, first, texts_repeat(t, x->a, x->least > 0 ? x->least - 1 : 0, most));
        break;
    }
    default: break;
    }
    *memo = (struct texts_memo){ id, c, to };
    return to;
}

bool texts_have(struct texts *t, struct texts_node *of, const char *text, size_t n)
{
    for (size_t at = 0, step; at < n && of != t->none; at += step) {
        step = text_step(text + at, n - at);
        of = after(t, of, text_codepoint(text + at, step), 0);
    }
    return of->nullable && !t->failed;
}

static uint32_t sum(uint32_t a, uint32_t b) { return a > TEXTS_ANY_NUMBER - b ? TEXTS_ANY_NUMBER : a + b; }
static uint32_t product(uint32_t a, uint32_t b)
{
    const uint64_t x = (uint64_t)a * b;
    return a == 0 || b == 0 ? 0 : a == TEXTS_ANY_NUMBER || b == TEXTS_ANY_NUMBER || x > TEXTS_ANY_NUMBER ? TEXTS_ANY_NUMBER : (uint32_t)x;
}

void texts_lengths(const struct texts_node *x, uint32_t *least, uint32_t *most)
{
    uint32_t a, b;
    switch ((enum texts_kind)x->kind) {
    case TEXTS_SET: *least = *most = 1; break;
    case TEXTS_CAT:
        for (*least = *most = 0; ; x = x->b) {
            const bool list = x->kind == TEXTS_CAT;
            texts_lengths(list ? x->a : x, &a, &b);
            *least = sum(*least, a);
            *most = sum(*most, b);
            if (!list) break;
        }
        break;
    case TEXTS_OR:
    case TEXTS_AND: {
        const enum texts_kind kind = x->kind;
        const bool either = kind == TEXTS_OR;
        *least = either ? TEXTS_ANY_NUMBER : 0;
        *most = either ? 0 : TEXTS_ANY_NUMBER;
        for (; ; x = x->b) {
            const bool list = x->kind == kind;
            texts_lengths(list ? x->a : x, &a, &b);
            if (either ? a < *least : a > *least) *least = a;
            if (either ? b > *most : b < *most) *most = b;
            if (!list) break;
        }
        break;
    }
    case TEXTS_REPEAT:
        texts_lengths(x->a, &a, &b);
        *least = product(a, x->least);
        *most = product(b, x->most);
        break;
    case TEXTS_NOT: *least = 0; *most = TEXTS_ANY_NUMBER; break;
    default: *least = *most = 0; break;
    }
}

/* ---- writing ---- */

#define PUT(words) TEXT_OUT_WORDS(to->out, words)
static void put(const struct texts_out *to, const char *text) { text_out_put(to->out, text, text_bytes(text)); }
static void put_any(const struct texts_out *to) { put(to, to->prefix); put(to, to->any); }
static void put_number(const struct texts_out *to, uint32_t x)
{
    if (x > 9) put_number(to, x / 10);
    text_out_char(to->out, (char)('0' + x % 10));
}
static void put_hex(const struct texts_out *to, uint32_t c, uint32_t n)
{
    static const char hex[] = "0123456789ABCDEF";
    while (n-- > 0) text_out_char(to->out, hex[c >> 4 * n & 15]);
}
/* In a class. */
static void put_codepoint(const struct texts_out *to, uint32_t c)
{
    if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) { text_out_char(to->out, (char)c); return; }
    if (c < 0x100) { PUT("\\x"); put_hex(to, c, 2); return; }
    PUT("\\U");
    put_hex(to, c, 8);
}
static bool escaped(uint32_t c) { return c < 0x20 || c == '"' || c == '\\'; }

/* The characters of ranges [n] as JSON writes them: a class of plain characters, and alternatives. */
static void put_ranges(const struct texts_out *to, const struct texts_range *ranges, uint32_t n, const char *behind)
{
    bool some = false;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t from = ranges[i].first, end; from <= ranges[i].last; from = end + 1) {
            end = from;
            if (escaped(from)) continue;
            if (from >= 0xd800 && from <= 0xdfff) { end = 0xdfff < ranges[i].last ? 0xdfff : ranges[i].last; continue; }  /* surrogates */
            const uint32_t next = from < '"' ? '"' - 1u : from < '\\' ? '\\' - 1u : from < 0xd800 ? 0xd7ffu : (uint32_t)TEXTS_LAST;
            end = next < ranges[i].last ? next : ranges[i].last;
            if (!some) PUT("[");
            some = true;
            put_codepoint(to, from);
            if (end > from) { PUT("-"); put_codepoint(to, end); }
        }
    if (some) { PUT("]"); put(to, behind); }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = ranges[i].first; c <= ranges[i].last && c <= '\\'; c++) {
            char utf8 = (char)c, text[16];
            struct text_out json = { text, sizeof text, 0, false };
            if (!escaped(c)) continue;
            json_put_escaped(&json, &utf8, 1);
            if (some) PUT(" | ");
            some = true;
            grammar_put_literal(to->out, text, json.n);
            put(to, behind);
        }
    if (!some) PUT("[]");
}

static bool is_character(const struct texts_node *x)
{
    return x->kind == TEXTS_SET && x->n == 1 && x->ranges->first == x->ranges->last && (x->ranges->first < 0xd800 ||
        x->ranges->first > 0xdfff);
}

/* Writes a list of TEXTS_CAT; characters one behind the other are a literal. */
static void put_cat(const struct texts *t, const struct texts_node *x, const struct texts_out *to)
{
    for (bool more = true; more; ) {
        char text[80];
        struct text_out literal = { text, sizeof text - 8, 0, false };
        while (more && literal.n + 8 < literal.size && is_character(x->kind == TEXTS_CAT ? x->a : x)) {
            char utf8[4];
            const size_t n = text_put_codepoint(utf8, (x->kind == TEXTS_CAT ? x->a : x)->ranges->first);
            json_put_escaped(&literal, utf8, n);
            more = x->kind == TEXTS_CAT;
            x = more ? x->b : x;
        }
        if (literal.n > 0) { PUT(" "); grammar_put_literal(to->out, text, literal.n); continue; }
        PUT(" ");
        more = x->kind == TEXTS_CAT;
        texts_put(t, more ? x->a : x, to);
        x = more ? x->b : x;
    }
}

void texts_put(const struct texts *t, const struct texts_node *x, const struct texts_out *to)
{
    switch ((enum texts_kind)x->kind) {
    case TEXTS_NONE: PUT("[]"); return;
    case TEXTS_EMPTY: PUT("\"\""); return;
    case TEXTS_SET:
        if (x == t->any) { put_any(to); return; }
        PUT("(");
        put_ranges(to, x->ranges, x->n, "");
        break;
    case TEXTS_CAT:
        PUT("(");
        put_cat(t, x, to);
        break;
    case TEXTS_OR:
        for (PUT("("); x->kind == TEXTS_OR; x = x->b) {
            if (x->a->kind == TEXTS_CAT) put_cat(t, x->a, to);
            else texts_put(t, x->a, to);
            PUT(" | ");
        }
        if (x->kind == TEXTS_CAT) put_cat(t, x, to);
        else texts_put(t, x, to);
        break;
    case TEXTS_REPEAT:
        texts_put(t, x->a, to);
        if (x->most == TEXTS_ANY_NUMBER && x->least <= 1) { text_out_char(to->out, x->least ? '+' : '*'); return; }
        PUT("{");
        put_number(to, x->least);
        PUT(",");
        if (x->most != TEXTS_ANY_NUMBER) put_number(to, x->most);
        PUT("}");
        return;
    default: return;
    }
    PUT(")");
}

/* ---- automata ---- */

struct state { struct texts_node *node; uint32_t *to; bool lives; };   /* to: [n_classes] states; UINT32_MAX: none */
struct texts_automaton {
    struct state *states;
    uint32_t n_states, n_classes, n_intervals;
    uint32_t *bound, *class_of;          /* [n_intervals] first characters of intervals, and their classes */
    uint32_t *sample;                    /* [n_classes] a character */
};

/* Collects the sets below x once each. */
static bool collect(struct texts *t, const struct texts_node *x, uint8_t *seen, const struct texts_node **sets, uint32_t *n, uint32_t depth)
{
    if (depth > DEPTH) return false;
    for (; x; x = x->b) {
        if (seen[x->id]) return true;
        seen[x->id] = 1;
        if (x->kind == TEXTS_SET && x != t->any) sets[(*n)++] = x;
        if (x->a && !collect(t, x->a, seen, sets, n, depth + 1)) return false;
    }
    return true;
}

static void sort_numbers(uint32_t *a, uint32_t n)
{
    for (uint32_t gap = n / 2; gap > 0; gap /= 2)
        for (uint32_t i = gap; i < n; i++) {
            const uint32_t x = a[i];
            uint32_t k = i;
            for (; k >= gap && a[k - gap] > x; k -= gap) a[k] = a[k - gap];
            a[k] = x;
        }
}

/* Divides the characters into classes: those of a class lie in the same sets. */
static bool classes(struct texts *t, struct texts_automaton *a, const struct texts_node *of)
{
    uint32_t n_sets = 0, n = 1, k = 0;
    uint8_t *seen = take(t, t->n_nodes);
    const struct texts_node **sets = take(t, t->n_nodes * sizeof *sets);
    if (t->failed || !collect(t, of, seen, sets, &n_sets, 0)) return false;
    for (uint32_t i = 0; i < n_sets; i++) n += 2 * sets[i]->n;
    a->bound = take(t, n * sizeof *a->bound);
    a->class_of = take(t, n * sizeof *a->class_of);
    a->sample = take(t, MOST_CLASSES * sizeof *a->sample);
    uint64_t *marks = take(t, MOST_CLASSES * sizeof *marks);
    if (t->failed) return false;
    n = 1;
    for (uint32_t i = 0; i < n_sets; i++)
        for (uint32_t r = 0; r < sets[i]->n; r++) {
            a->bound[n++] = sets[i]->ranges[r].first;
            a->bound[n++] = sets[i]->ranges[r].last + 1;
        }
    sort_numbers(a->bound, n);
    for (uint32_t i = 0; i < n; i++)
        if (a->bound[i] <= TEXTS_LAST && (i == 0 || a->bound[i] != a->bound[i - 1])) a->bound[k++] = a->bound[i];
    a->n_intervals = k;
    for (uint32_t i = 0; i < k; i++) {
        uint64_t mark = 0x9e3779b97f4a7c15u;
        if (*t->work < n_sets) { t->failed = true; return false; }
        *t->work -= n_sets;
        for (uint32_t s = 0; s < n_sets; s++)
            if (set_has(sets[s], a->bound[i])) mark = (mark ^ (s + 1)) * 0xbf58476d1ce4e5b9u ^ mark >> 29;
        uint32_t class = 0;
        while (class < a->n_classes && marks[class] != mark) class++;
        if (class == a->n_classes) {
            if (class == MOST_CLASSES) return false;
            marks[class] = mark;
            a->sample[a->n_classes++] = a->bound[i];
        }
        a->class_of[i] = class;
    }
    return true;
}

/* Which states lead to the end of a text?  Passes from the last to the first, until nothing changes. */
static bool find_living(struct texts *t, struct texts_automaton *a)
{
    for (bool changed = true; changed; ) {
        const uint32_t steps = a->n_states * (1 + a->n_classes / 4);
        if (*t->work < steps) return false;
        *t->work -= steps;
        changed = false;
        for (uint32_t s = a->n_states; s-- > 0; ) {
            struct state *x = &a->states[s];
            if (x->lives) continue;
            x->lives = x->node->nullable;
            for (uint32_t c = 0; c < a->n_classes && !x->lives; c++) x->lives = x->to && x->to[c] != UINT32_MAX &&
                a->states[x->to[c]].lives;
            changed |= x->lives;
        }
    }
    return true;
}

struct texts_automaton *texts_automaton(struct texts *t, struct texts_node *of)
{
    struct texts_automaton *a = take(t, sizeof *a);
    if (!a || t->failed || of->asks || !classes(t, a, of)) return NULL;
    a->states = room_array(t->room, MOST_STATES, sizeof *a->states);
    if (!a->states) return NULL;
    a->states[a->n_states++] = (struct state){ .node = of };
    of->state = 1;
    for (uint32_t s = 0; s < a->n_states; s++) {
        struct state *x = &a->states[s];
        if (x->node == t->all) continue;
        if (!(x->to = take(t, a->n_classes * sizeof *x->to))) return NULL;
        for (uint32_t c = 0; c < a->n_classes; c++) {
            struct texts_node *to = after(t, x->node, a->sample[c], 0);
            if (t->failed) return NULL;
            x->to[c] = UINT32_MAX;
            if (to == t->none) continue;
            if (!to->state) {
                if (a->n_states == MOST_STATES) return NULL;
                a->states[a->n_states++] = (struct state){ .node = to };
                to->state = a->n_states;
            }
            x->to[c] = to->state - 1;
        }
    }
    return find_living(t, a) ? a : NULL;
}

bool texts_no_text(const struct texts_automaton *a) { return !a->states->lives; }

void texts_put_rules(const struct texts *t, const struct texts_automaton *a, const struct texts_out *to, const char *name)
{
    const size_t mark = t->room->used;
    struct texts_range *ranges = room_array(t->room, a->n_intervals + 1u, sizeof *ranges);
    uint8_t *done = room_take(t->room, a->n_classes + 1u);
    for (uint32_t s = 0; ranges && done && s < a->n_states; s++) {
        const struct state *x = &a->states[s];
        const char *between = "";
        if (s > 0 && !x->lives) continue;
        PUT("\n");
        put(to, name);
        put_number(to, s);
        PUT(" ::= ");
        if (x->node == t->all) { put_any(to); PUT("*"); continue; }
        memset(done, 0, a->n_classes);
        if (x->node->nullable) { PUT("\"\""); between = " | "; }
        for (uint32_t c = 0; c < a->n_classes; c++) {
            if (done[c] || x->to[c] == UINT32_MAX || !a->states[x->to[c]].lives) continue;
            uint32_t n = 0;
            for (uint32_t i = 0; i < a->n_intervals; i++) {
                if (x->to[a->class_of[i]] != x->to[c]) continue;
                done[a->class_of[i]] = 1;
                ranges[n++] = (struct texts_range){ a->bound[i], i + 1 < a->n_intervals ? a->bound[i + 1] - 1 : (uint32_t)TEXTS_LAST };
            }
            n = texts_order(ranges, n);
            char behind[96];
            struct text_out after_it = { behind, sizeof behind - 1, 0, false };
            const struct texts_out next = { &after_it, to->prefix, to->any };
            text_out_char(&after_it, ' ');
            put(&next, name);
            put_number(&next, x->to[c]);
            behind[after_it.n] = 0;
            put(to, between);
            put_ranges(to, ranges, n, behind);
            between = " | ";
        }
        if (!*between) PUT("[]");
    }
    if (!ranges || !done) to->out->full = true;
    t->room->used = mark;
}
