/* json.c -- see json.h. */
#include "json.h"
#include "text.h"

struct json_parser {
    struct room *room;
    const char  *begin, *at, *end;
    const char  *why;
    uint32_t     depth;
};

static bool fail(struct json_parser *r, const char *why)
{
    if (!r->why) r->why = why;
    return false;
}

static bool no_room(struct json_parser *r) { r->room->full = true; return false; }

static void skip_space(struct json_parser *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* ---- strings ---- */

size_t json_utf8(const char *text, size_t n)
{
    const uint8_t *p = (const uint8_t *)text;
    if (p[0] < 0x80) return 1;
    const size_t want = p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
    if (!want || want > n) return 0;
    for (size_t i = 1; i < want; i++) if ((p[i] & 0xc0) != 0x80) return 0;
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0;
    if (p[0] == 0xed && p[1] > 0x9f) return 0;
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;
    if (p[0] == 0xf4 && p[1] > 0x8f) return 0;
    return want;
}

/* Four hex digits at p. */
static bool hex4(const char *p, const char *end, uint32_t *out)
{
    *out = 0;
    if (end - p < 4) return false;
    for (int i = 0; i < 4; i++) {
        const char c = p[i];
        const int d = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0) return false;
        *out = *out << 4 | (uint32_t)d;
    }
    return true;
}

/* After "\u".  The two halves of a surrogate pair become one codepoint. */
static bool read_escaped(struct json_parser *r, char *to, size_t *n)
{
    uint32_t c, low;
    if (!hex4(r->at, r->end, &c)) return fail(r, "\\u must have four hexadecimal digits");
    r->at += 4;
    if (c >= 0xd800 && c < 0xdc00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u' && hex4(r->at + 2, r->end, &low) &&
        low >= 0xdc00 && low < 0xe000) {
        r->at += 6;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xd800 && c < 0xe000) c = 0xfffd;
    *n += text_put_codepoint(to + *n, c);
    return true;
}

/* Checks the bytes of a string up to its end; escaped: it has escapes. */
static bool string_end(struct json_parser *r, const char **end, bool *escaped)
{
    const char *p = r->at;
    *escaped = false;
    while (p < r->end && *p != '"') {
        const size_t n = json_utf8(p, (size_t)(r->end - p));
        r->at = p;
        if (!n) return fail(r, "the text must be UTF-8");
        if ((uint8_t)*p < 0x20) return fail(r, "a string has a control character; write it as \\u00XX");
        if (*p == '\\') {
            *escaped = true;
            if (p + 1 < r->end) p++;
        }
        p += n;
    }
    r->at = p;
    if (p >= r->end) return fail(r, "a string has no closing quote");
    *end = p;
    return true;
}

static bool read_string(struct json_parser *r, const char **text, size_t *n)
{
    const char *const begin = ++r->at, *end;
    bool escaped;
    if (!string_end(r, &end, &escaped)) return false;
    *text = begin;
    *n = (size_t)(end - begin);
    r->at = end + 1;
    if (!escaped) return true;
    char *to = room_take(r->room, *n);                       /* no escape is shorter than the character it stands for */
    if (!to) return no_room(r);
    *text = to;
    *n = 0;
    for (r->at = begin; r->at < end; ) {
        if (*r->at != '\\') { to[(*n)++] = *r->at++; continue; }
        static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
        const char c = r->at[1], *known = memchr(from, c, sizeof from - 1);
        if (c == 'u') {
            r->at += 2;
            if (!read_escaped(r, to, n)) return false;
        } else if (known) {
            to[(*n)++] = into[known - from];
            r->at += 2;
        } else return fail(r, "JSON has no such escape");
    }
    r->at = end + 1;
    return true;
}

/* ---- numbers ---- */

static bool read_number(struct json_parser *r, struct json *v)
{
    const char *p = r->at;
    v->kind = JSON_NUMBER;
    v->text = p;
    if (*p == '-') p++;
    if (p >= r->end || !is_digit(*p)) return fail(r, "expected a value");
    if (*p == '0' && p + 1 < r->end && is_digit(p[1])) return fail(r, "a number must not begin with 0");
    while (p < r->end && is_digit(*p)) p++;
    if (p < r->end && *p == '.') {
        const char *digits = ++p;
        while (p < r->end && is_digit(*p)) p++;
        if (p == digits) return fail(r, "expected digits after the decimal point");
    }
    if (p < r->end && (*p == 'e' || *p == 'E')) {
        if (++p < r->end && (*p == '+' || *p == '-')) p++;
        const char *digits = p;
        while (p < r->end && is_digit(*p)) p++;
        if (p == digits) return fail(r, "expected digits in the exponent");
    }
    v->n = (size_t)(p - r->at);
    r->at = p;
    return true;
}

/* ---- members with the same name ---- */

static bool same_name(const struct json *a, const struct json *b)
{
    return a->n_name == b->n_name && memcmp(a->name, b->name, a->n_name) == 0;
}

/* By name, then by place, which is the order of addresses. */
static bool comes_before(const struct json *a, const struct json *b)
{
    const size_t n = a->n_name < b->n_name ? a->n_name : b->n_name;
    const int c = memcmp(a->name, b->name, n);
    if (c) return c < 0;
    return a->n_name != b->n_name ? a->n_name < b->n_name : a < b;
}

static void sift(struct json **heap, size_t at, size_t n)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && comes_before(heap[child], heap[child + 1])) child++;
        if (!comes_before(heap[at], heap[child])) return;
        struct json *x = heap[at];
        heap[at] = heap[child];
        heap[child] = x;
    }
}

/* Moves the value of the last member with a name to the first one and removes the others.  n log n, because the text may be hostile. */
static bool merge_members(struct json_parser *r, struct json *o)
{
    struct json **heap = room_array(r->room, o->n, sizeof(struct json *));
    if (!heap) return no_room(r);
    size_t n = 0;
    for (struct json *m = o->first; m; m = m->next) heap[n++] = m;
    for (size_t i = n / 2; i-- > 0; ) sift(heap, i, n);
    for (size_t i = n; i-- > 1; ) {
        struct json *x = heap[0];
        heap[0] = heap[i];
        heap[i] = x;
        sift(heap, 0, i);
    }
    for (size_t i = 0, first = 0; i < n; i++) {
        if (i == first || !same_name(heap[i], heap[first])) { first = i; continue; }
        const struct json old = *heap[first];
        *heap[first] = *heap[i];
        heap[first]->next = old.next;
        heap[i]->name = NULL;                                /* is removed below */
    }
    for (struct json **p = &o->first; *p; )
        if ((*p)->name) p = &(*p)->next;
        else { *p = (*p)->next; o->n--; }
    return true;
}

/* ---- values ---- */

static bool read_value(struct json_parser *r, struct json *v);

static bool read_members(struct json_parser *r, struct json *v, char closing)
{
    struct json **to = &v->first;
    if (++r->depth > JSON_DEPTH) return fail(r, "arrays and objects are nested deeper than 128");
    r->at++;
    skip_space(r);
    if (r->at < r->end && *r->at == closing) { r->at++; r->depth--; return true; }
    for (;;) {
        struct json *m = room_take(r->room, sizeof *m);
        if (!m) return no_room(r);
        *m = (struct json){ 0 };
        skip_space(r);
        if (closing == '}') {
            if (r->at >= r->end || *r->at != '"') return fail(r, "expected a name in quotes");
            if (!read_string(r, &m->name, &m->n_name)) return false;
            skip_space(r);
            if (r->at >= r->end || *r->at != ':') return fail(r, "expected : after a name");
            r->at++;
        }
        if (!read_value(r, m)) return false;
        *to = m;
        to = &m->next;
        v->n++;
        skip_space(r);
        if (r->at < r->end && *r->at == ',') { r->at++; continue; }
        if (r->at >= r->end || *r->at != closing)
            return fail(r, closing == '}' ? "expected , or } after a member" : "expected , or ] after a value");
        r->at++;
        r->depth--;
        return closing == ']' || v->n == 1 || merge_members(r, v);
    }
}

static bool read_word(struct json_parser *r, struct json *v, const char *word, size_t n, enum json_kind kind)
{
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return fail(r, "expected a value");
    r->at += n;
    v->kind = kind;
    return true;
}

static bool read_value(struct json_parser *r, struct json *v)
{
    skip_space(r);
    if (r->at >= r->end) return fail(r, "expected a value, but the text ends");
    switch (*r->at) {
    case '{': v->kind = JSON_OBJECT; return read_members(r, v, '}');
    case '[': v->kind = JSON_ARRAY; return read_members(r, v, ']');
    case '"': v->kind = JSON_STRING; return read_string(r, &v->text, &v->n);
    case 't': return read_word(r, v, "true", 4, JSON_TRUE);
    case 'f': return read_word(r, v, "false", 5, JSON_FALSE);
    case 'n': return read_word(r, v, "null", 4, JSON_NULL);
    default: return read_number(r, v);
    }
}

struct json *json_read(struct room *room, const char *text, size_t n, struct json_error *error)
{
    struct json_parser r = { .room = room, .begin = text, .at = text, .end = text + n };
    struct json *v = room_take(room, sizeof *v);
    if (v) {
        *v = (struct json){ 0 };
        if (read_value(&r, v)) {
            skip_space(&r);
            if (r.at == r.end) return v;
            fail(&r, "expected the end of the text after the value");
        }
    }
    *error = (struct json_error){ r.why, (size_t)(r.at - r.begin) };
    return NULL;
}

/* ---- access ---- */

const struct json *json_member(const struct json *o, const char *name)
{
    const size_t n = text_bytes(name);
    if (!o || o->kind != JSON_OBJECT) return NULL;
    for (const struct json *m = o->first; m; m = m->next)
        if (m->n_name == n && memcmp(m->name, name, n) == 0) return m;
    return NULL;
}

const struct json *json_at(const struct json *a, size_t i)
{
    const struct json *m = a->first;
    while (m && i-- > 0) m = m->next;
    return m;
}

bool json_is(const struct json *v, const char *text)
{
    return v && v->kind == JSON_STRING && v->n == text_bytes(text) && memcmp(v->text, text, v->n) == 0;
}

bool json_integer(const struct json *v, int64_t low, int64_t high, int64_t *out)
{
    if (!v || v->kind != JSON_NUMBER) return false;
    const bool minus = v->text[0] == '-';
    uint64_t x = 0;
    for (size_t i = minus; i < v->n; i++) {
        if (!is_digit(v->text[i]) || x > (UINT64_MAX - 9) / 10) return false;
        x = x * 10 + (uint64_t)(v->text[i] - '0');
    }
    if (x > (uint64_t)INT64_MAX) return false;
    *out = minus ? -(int64_t)x : (int64_t)x;
    return *out >= low && *out <= high;
}

/* Computes the first 19 digits as an integer, times powers of ten, each of which is exact. */
bool json_real(const struct json *v, double *out)
{
    static const double tens[] = { 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
                                   1e19, 1e20, 1e21, 1e22 };
    if (!v || v->kind != JSON_NUMBER) return false;
    const char *p = v->text, *end = p + v->n;
    const bool minus = *p == '-';
    uint64_t digits = 0;
    int64_t power = 0;
    bool point = false;
    for (p += minus; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') { point = true; continue; }
        if (digits < UINT64_MAX / 10 - 1) { digits = digits * 10 + (uint64_t)(*p - '0'); power -= point; }
        else power += !point;
    }
    if (p < end) {
        const bool down = p[1] == '-';
        int64_t e = 0;
        for (p += 1 + (p[1] == '-' || p[1] == '+'); p < end; p++) if (e < INT32_MAX) e = e * 10 + (*p - '0');
        power += down ? -e : e;
    }
    double x = (double)digits;
    for (; power > 0 && x != 0 && x - x == 0; power -= power < 22 ? power : 22) x *= tens[power < 22 ? power : 22];
    for (; power < 0 && x != 0; power += power > -22 ? -power : 22) x /= tens[power > -22 ? -power : 22];
    *out = minus ? -x : x;
    return x - x == 0;
}

/* ---- writing ---- */

void json_put_escaped(struct text_out *out, const char *text, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0, from = 0; i <= n; i++) {
        const uint8_t c = i < n ? (uint8_t)text[i] : 0;
        if (i < n && c >= 0x20 && c != '"' && c != '\\') continue;
        text_out_put(out, text + from, i - from);
        from = i + 1;
        if (i == n) break;
        const char short_form = c == '"' || c == '\\' ? (char)c : c == '\b' ? 'b' : c == '\f' ? 'f' : c == '\n' ? 'n' : c == '\r' ? 'r'
                              : c == '\t' ? 't' : 0;
        if (short_form) text_out_put(out, (const char[]){ '\\', short_form }, 2);
        else text_out_put(out, (const char[]){ '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] }, 6);
    }
}

void json_put_string(struct text_out *out, const char *text, size_t n)
{
    text_out_char(out, '"');
    json_put_escaped(out, text, n);
    text_out_char(out, '"');
}

void json_put(struct text_out *out, const struct json *v, bool spaces)
{
    const bool object = v->kind == JSON_OBJECT;
    switch (v->kind) {
    case JSON_NULL: TEXT_OUT_WORDS(out, "null"); break;
    case JSON_TRUE: TEXT_OUT_WORDS(out, "true"); break;
    case JSON_FALSE: TEXT_OUT_WORDS(out, "false"); break;
    case JSON_NUMBER: text_out_put(out, v->text, v->n); break;
    case JSON_STRING: json_put_string(out, v->text, v->n); break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        text_out_char(out, object ? '{' : '[');
        for (const struct json *m = v->first; m; m = m->next) {
            if (object) {
                json_put_string(out, m->name, m->n_name);
                text_out_put(out, ": ", spaces ? 2 : 1);
            }
            json_put(out, m, spaces);
            if (m->next) text_out_put(out, ", ", spaces ? 2 : 1);
        }
        text_out_char(out, object ? '}' : ']');
        break;
    }
}
