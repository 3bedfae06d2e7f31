/* schema_numbers.c -- bounds and multiples of numbers as grammars: a machine that compares digits with the bounds as they are read. */
#include "schema_writer.h"

/* Digits of a bound, of integers, and of numbers: decimal numbers of 15 digits are different doubles. */
enum { DIGITS = 24, MOST_INTEGER = 16, MOST_NUMBER = 15, MOST_MULTIPLE = 4096, MOST_STATES = 4096, STATE_BUCKETS = 4096,
    STATE_WORK = 16, NO_STATE = -1,
       UNLIMITED = 255 };

/* A bound without its sign; no zeros at the beginning of `whole` (but "0") and at the end of `part`. */
struct bound { bool there, open, negative; char whole[DIGITS], part[DIGITS]; uint32_t n_whole, n_part; };
struct multiple { uint32_t of, n_part; };                    /* of / 10^n_part; of 0: none */

/* ---- reading ---- */

/* Reads the digits of a JSON number; false: too many. */
static bool read_decimal(const struct json *v, struct bound *b)
{
    char digits[2 * DIGITS];
    int64_t n = 0, point = 0, exponent = 0, sign = 1;
    bool seen_point = false;
    const char *p = v->text, *const end = p + v->n;
    *b = (struct bound){ .there = true, .negative = *p == '-' };
    for (p += *p == '-'; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') { seen_point = true; continue; }
        if (n == 0 && *p == '0') { point -= seen_point; continue; }         /* zeros before the first digit */
        if (n == (int64_t)sizeof digits) return false;
        digits[n++] = *p;
        point += !seen_point;
    }
    if (p < end) {
        p++;
        if (p < end && (*p == '-' || *p == '+')) sign = *p++ == '-' ? -1 : 1;
        for (; p < end && exponent < 1000; p++) exponent = exponent * 10 + (*p - '0');
    }
    while (n > 0 && digits[n - 1] == '0') n--;
    if (n == 0) { *b = (struct bound){ .there = true, .whole = "0", .n_whole = 1 }; return true; }
    point += sign * exponent;                                /* digits before the point; negative: zeros after it */
    if (point > 18 || n - point >= DIGITS) return false;
    for (int64_t i = 0; i < point; i++) b->whole[b->n_whole++] = i < n ? digits[i] : '0';
    if (point <= 0) b->whole[b->n_whole++] = '0';
    for (int64_t i = point < 0 ? point : point > n ? n : point; i < n; i++) b->part[b->n_part++] = i < 0 ? '0' : digits[i];
    return true;
}

/* Compares without signs. */
static int compare_digits(const struct bound *a, const struct bound *b)
{
    if (a->n_whole != b->n_whole) return a->n_whole < b->n_whole ? -1 : 1;
    const int whole = memcmp(a->whole, b->whole, a->n_whole);
    if (whole) return whole;
    const uint32_t n = a->n_part < b->n_part ? a->n_part : b->n_part;
    const int part = memcmp(a->part, b->part, n);
    return part ? part : a->n_part < b->n_part ? -1 : a->n_part > b->n_part;
}
static int compare(const struct bound *a, const struct bound *b)
{
    if (a->negative != b->negative) return a->negative ? -1 : 1;
    return a->negative ? compare_digits(b, a) : compare_digits(a, b);
}

/* One side: minimum and exclusiveMinimum, a number or (draft 4) true. */
static bool read_bound(struct schema_writer *w, const struct json *s, bool least, struct bound *out)
{
    const char *const name = least ? "minimum" : "maximum", *const open_name = least ? "exclusiveMinimum" : "exclusiveMaximum";
    const struct json *v = json_member(s, name), *x = json_member(s, open_name);
    struct bound open = { 0 };
    *out = (struct bound){ 0 };
    if (v && v->kind != JSON_NUMBER) return schema_fail_word(w, name, "is not a number");
    if (x && x->kind != JSON_NUMBER && !json_is_bool(x)) return schema_fail_word(w, open_name, "is not a number");
    if (v && !read_decimal(v, out)) return schema_fail_soft(w, name, "has more than 18 digits");
    if (x && x->kind == JSON_TRUE) out->open = out->there;
    if (!x || x->kind != JSON_NUMBER) return true;
    if (!read_decimal(x, &open)) return schema_fail_soft(w, open_name, "has more than 18 digits");
    open.open = true;
    const int c = out->there ? compare(&open, out) : 0;
    if (!out->there || (least ? c >= 0 : c <= 0)) *out = open;
    return true;
}

static uint32_t divisor(uint32_t a, uint32_t b)
{
    while (b) { const uint32_t c = a % b; a = b; b = c; }
    return a;
}

/* multipleOf; several in a list that schema_merge made become their least common multiple. */
static bool read_multiple(struct schema_writer *w, const struct json *s, struct multiple *out)
{
    const struct json *keyword = json_member(s, "multipleOf");
    const bool list = keyword && keyword->kind == JSON_ARRAY && keyword->text;
    *out = (struct multiple){ 0, 0 };
    for (const struct json *v = list ? keyword->first : keyword; v; v = list ? v->next : NULL) {
        struct bound b;
        uint64_t of = 0, before = out->of;
        if (v->kind != JSON_NUMBER) return schema_fail_word(w, "multipleOf", "is not a number");
        if (!read_decimal(v, &b) || b.n_part > 9 || b.n_whole + b.n_part > 18) return schema_fail_soft(w, "multipleOf",
            "has too many digits");
        for (uint32_t i = 0; i < b.n_whole; i++) of = of * 10 + (uint64_t)(b.whole[i] - '0');
        for (uint32_t i = 0; i < b.n_part; i++) of = of * 10 + (uint64_t)(b.part[i] - '0');
        if (of == 0 || b.negative) return schema_fail_word(w, "multipleOf", "is not above 0");
        uint32_t n_part = b.n_part;
        for (; before && n_part < out->n_part; n_part++) of *= 10;
        for (; before && out->n_part < n_part; out->n_part++) before *= 10;
        if (of > MOST_MULTIPLE || before > MOST_MULTIPLE) return schema_fail_soft(w, "multipleOf", "is too large");
        if (before) of = of / divisor((uint32_t)of, (uint32_t)before) * before;
        if (of > MOST_MULTIPLE) return schema_fail_soft(w, "multipleOf", "is too large");
        *out = (struct multiple){ (uint32_t)of, n_part };
    }
    return true;
}

bool schema_number_fits(struct schema_writer *w, const struct json *s, const struct json *number)
{
    struct bound low, high, x;
    double value, of;
    const struct json *m = json_member(s, "multipleOf");
    if (!read_bound(w, s, true, &low) || !read_bound(w, s, false, &high) || !read_decimal(number, &x)) return false;
    const int above = low.there ? compare(&x, &low) : 1, below = high.there ? compare(&x, &high) : -1;
    if (above < 0 || (above == 0 && low.open) || below > 0 || (below == 0 && high.open)) return false;
    if (!m || !json_real(m, &of) || !json_real(number, &value) || !(of > 0)) return true;
    const double times = value / of, off = times - (double)(int64_t)(times + (times < 0 ? -0.5 : 0.5));
    return off < 1e-9 && off > -1e-9;
}

/* ---- the machine ---- */

enum phase { START, WHOLE, ZERO, POINT, PART };              /* before the first digit; in digits; behind 0; behind the point */
enum side { LESS, EQUAL, MORE };                             /* what was read, compared with as many digits of a bound */
struct state { uint8_t phase, n, left, low, high; uint32_t rest; };       /* n: digits of this phase while they count; left: most further
                                                                          * digits; rest: modulo the multiple */
struct machine {
    struct schema_writer *w;
    struct bound low, high;              /* without their signs */
    struct multiple multiple;
    bool whole, negative;
    struct state *states;                /* [MOST_STATES] */
    int32_t *buckets, *link;
    uint32_t n;
};

/* The whole part is complete: how does it compare with the bound's? */
static enum side whole_side(const struct bound *b, uint32_t n, uint8_t side)
{
    return n != b->n_whole ? n < b->n_whole ? LESS : MORE : (enum side)side;
}

/* Further digits make no difference to the bounds. */
static bool is_decided(const struct machine *m, const struct state *s)
{
    if (m->multiple.of) return false;
    if (s->phase >= POINT) return s->low != EQUAL && s->high != EQUAL;
    return s->phase == WHOLE && !m->high.there && (!m->low.there || (s->n >= m->low.n_whole && s->low == MORE) || s->n > m->low.n_whole);
}

static bool may_end(const struct machine *m, const struct state *s)
{
    uint64_t rest = s->rest;
    enum side low = (enum side)s->low, high = (enum side)s->high;
    uint32_t n_part = 0;
    if (s->phase == START || s->phase == POINT || (s->phase == ZERO && m->negative)) return false;
    if (s->phase == PART) n_part = s->n;
    else {
        if (m->low.there) low = whole_side(&m->low, s->n, s->low);
        if (m->high.there) high = whole_side(&m->high, s->n, s->high);
    }
    for (uint32_t i = n_part; m->multiple.of && i < m->multiple.n_part; i++) rest *= 10;
    if (m->multiple.of && rest % m->multiple.of) return false;
    if (m->low.there && (low == LESS || (low == EQUAL && (n_part < m->low.n_part || m->low.open)))) return false;
    return !m->high.there || !(high == MORE || (high == EQUAL && n_part >= m->high.n_part && m->high.open));
}

static uint8_t next_side(const struct bound *b, bool part, uint32_t n, uint8_t side, char digit)
{
    if (!b->there) return part ? MORE : EQUAL;
    if (side != EQUAL) return side;
    const char *digits = part ? b->part : b->whole;
    const uint32_t n_digits = part ? b->n_part : b->n_whole;
    const char other = n < n_digits ? digits[n] : '0';
    return digit < other ? LESS : digit > other ? MORE : EQUAL;
}

/* The state after a digit; false: none. */
static bool after_digit(const struct machine *m, const struct state *s, char digit, struct state *to)
{
    const bool part = s->phase >= POINT;
    *to = *s;
    if (s->phase == ZERO || s->left == 0) return false;
    if (part && m->multiple.of && s->n >= m->multiple.n_part) return false;
    to->phase = (uint8_t)(part ? PART : s->phase == START && digit == '0' ? ZERO : WHOLE);
    to->low = next_side(&m->low, part, s->n, s->low, digit);
    to->high = next_side(&m->high, part, s->n, s->high, digit);
    to->n = (uint8_t)(s->n + 1);
    if (m->multiple.of) to->rest = (uint32_t)(((uint64_t)s->rest * 10 + (uint64_t)(digit - '0')) % m->multiple.of);
    if (s->left != UNLIMITED) to->left--;
    if (part && ((m->low.there && to->low == LESS) || (m->high.there && to->high == MORE))) return false;
    if (!part && m->high.there && (to->n > m->high.n_whole || (to->n == m->high.n_whole && to->high == MORE))) return false;
    if (part && !m->multiple.of && to->low != EQUAL && to->high != EQUAL) to->n = 0;
    if (!part && !m->high.there && to->n > m->low.n_whole) {    /* the digits do not count any more */
        to->n = (uint8_t)(m->low.n_whole + 1);
        to->low = MORE;
    }
    return true;
}

static bool after_point(const struct machine *m, const struct state *s, struct state *to)
{
    if (m->whole || s->left == 0 || (s->phase != WHOLE && s->phase != ZERO)) return false;
    if (m->multiple.of && m->multiple.n_part == 0) return false;
    *to = (struct state){ POINT, 0, s->left, MORE, LESS, s->rest };
    if (m->low.there) to->low = (uint8_t)whole_side(&m->low, s->n, s->low);
    if (m->high.there) to->high = (uint8_t)whole_side(&m->high, s->n, s->high);
    return !(m->low.there && to->low == LESS) && !(m->high.there && to->high == MORE);
}

static int32_t state_of(struct machine *m, const struct state *s)
{
    uint32_t hash = s->phase;
    const uint32_t parts[] = { s->n, s->left, s->low * 3u + s->high, s->rest };
    for (uint32_t i = 0; i < 4; i++) hash = (hash ^ parts[i]) * 0x9e3779b1u, hash ^= hash >> 15;
    int32_t *bucket = &m->buckets[hash % STATE_BUCKETS];
    for (int32_t i = *bucket; i != NO_STATE; i = m->link[i]) {
        const struct state *x = &m->states[i];
        if (x->phase == s->phase && x->n == s->n && x->left == s->left && x->low == s->low && x->high == s->high && x->rest == s->rest)
            return i;
    }
    const uint32_t steps = m->multiple.of ? STATE_WORK : 0;
    if (m->n == MOST_STATES || *m->w->work < steps) { schema_fail_soft(m->w, "multipleOf", "is too large"); return NO_STATE; }
    *m->w->work -= steps;
    m->states[m->n] = *s;
    m->link[m->n] = *bucket;
    return *bucket = (int32_t)m->n++;
}

static void put_most_digits(struct schema_writer *w, uint32_t n)
{
    PUT("[0-9]{0,");
    schema_put_number(w->out, n);
    PUT("}");
}

/* Writes the rule's name for the digits that may follow when they make no difference. */
static void put_rest(struct schema_writer *w, uint32_t left)
{
    schema_put_known(w, "rest");
    schema_put_number(w->out, left);
    w->digits = true;
}

/* Writes what may follow the state number i. */
static void put_state(struct machine *m, uint32_t i, const char *kind)
{
    struct schema_writer *w = m->w;
    const struct state s = m->states[i];
    struct state to;
    PUT("\n");
    schema_put_part(w, kind, i);
    PUT(" ::= ");
    if (is_decided(m, &s) && s.phase != POINT) {
        if (m->whole || s.phase == PART) put_most_digits(w, s.left);
        else put_rest(w, s.left);
        return;
    }
    const char *between = "";
    if (may_end(m, &s)) { PUT("\"\""); between = " | "; }
    for (char digit = '0', last; digit <= '9' && !w->failed; digit = (char)(last + 1)) {
        last = digit;
        if (!after_digit(m, &s, digit, &to)) continue;
        const int32_t next = state_of(m, &to);
        while (last < '9' && after_digit(m, &s, (char)(last + 1), &to) && state_of(m, &to) == next) last++;
        put_text(w->out, between);
        PUT("[");
        text_out_char(w->out, digit);
        if (last > digit) { PUT("-"); text_out_char(w->out, last); }
        PUT("] ");
        schema_put_part(w, kind, (uint32_t)next);
        between = " | ";
    }
    if (!w->failed && after_point(m, &s, &to)) {
        put_text(w->out, between);
        PUT("\".\" ");
        schema_put_part(w, kind, (uint32_t)state_of(m, &to));
        between = " | ";
    }
    if (!*between) PUT("[]");
}

/* Writes the rules kind0, kind1 ... of the numbers on one side of 0; low or high NULL: no bound. */
static bool put_side(struct schema_writer *w, const struct bound *low, const struct bound *high, const struct multiple *multiple,
    bool whole,
                     const char *kind)
{
    static const struct bound none = { 0 };
    struct machine m = { .w = w, .low = low ? *low : none, .high = high ? *high : none, .multiple = *multiple, .whole = whole,
                         .negative = *kind == 'm' };
    const uint32_t digits = m.low.n_whole > m.high.n_whole ? m.low.n_whole + 1 : m.high.n_whole, usual = whole ? MOST_INTEGER : MOST_NUMBER;
    const bool many = multiple->of > MOST_STATES / 32;
    struct state first = { START, 0, (uint8_t)(many && !m.high.there ? UNLIMITED : digits > usual ? digits : usual), EQUAL, EQUAL, 0 };
    const size_t mark = w->room->used;
    m.states = schema_take(w, MOST_STATES * sizeof *m.states);
    m.buckets = schema_take(w, STATE_BUCKETS * sizeof *m.buckets);
    m.link = schema_take(w, MOST_STATES * sizeof *m.link);
    if (w->failed) return false;
    for (uint32_t i = 0; i < STATE_BUCKETS; i++) m.buckets[i] = NO_STATE;
    state_of(&m, &first);
    for (uint32_t i = 0; i < m.n && !w->failed; i++) put_state(&m, i, kind);
    w->room->used = mark;
    return !w->failed;
}

struct number { struct bound low, high; struct multiple multiple; bool any, plus, minus; };

static bool read_number(struct schema_writer *w, const struct json *s, struct number *n)
{
    static const struct bound zero = { .there = true, .whole = "0", .n_whole = 1 };
    if (!read_bound(w, s, true, &n->low) || !read_bound(w, s, false, &n->high) || !read_multiple(w, s, &n->multiple)) return false;
    n->any = !n->low.there && !n->high.there && n->multiple.of == 0;
    if (n->low.there && n->high.there) {
        const int c = compare(&n->low, &n->high);
        if (c > 0 || (c == 0 && (n->low.open || n->high.open))) return schema_fail_word(w, "minimum", "leaves no number");
    }
    const int above = n->high.there ? compare(&n->high, &zero) : 1, below = n->low.there ? compare(&n->low, &zero) : -1;
    n->plus = above > 0 || (above == 0 && !n->high.open);
    n->minus = below < 0;
    return true;
}

bool schema_number_rules(struct schema_writer *w, const struct json *s, bool whole)
{
    struct number n;
    if (!read_number(w, s, &n)) return false;
    if (n.any) return true;
    const struct bound *low = n.low.there && !n.low.negative ? &n.low : NULL, *high = n.high.there ? &n.high : NULL;
    if (n.plus && !put_side(w, low, high, &n.multiple, whole, "n")) return false;
    low = n.high.there && (n.high.negative || n.high.open) && !n.plus ? &n.high : NULL;
    return !n.minus || put_side(w, low, n.low.there ? &n.low : NULL, &n.multiple, whole, "m");
}

bool schema_put_numeric(struct schema_writer *w, const struct json *s, bool whole)
{
    struct number n;
    if (!read_number(w, s, &n)) return false;
    if (n.any) { schema_put_known(w, whole ? "integer" : "number"); return true; }
    if (n.plus) schema_put_part(w, "n", 0);
    if (n.plus && n.minus) PUT(" | ");
    if (n.minus) { PUT("\"-\" "); schema_put_part(w, "m", 0); }
    return true;
}

void schema_put_digits(struct schema_writer *w)
{
    for (uint32_t n = 0; w->digits && n <= MOST_NUMBER + 1; n++) {
        PUT("\n");
        schema_put_known(w, "rest");
        schema_put_number(w->out, n);
        PUT(" ::= \"\"");
        if (n == 0) continue;
        PUT(" | [0-9] ");
        put_rest(w, n - 1);
        PUT(" | \".\" [0-9]{1,");
        schema_put_number(w->out, n);
        PUT("}");
    }
}
