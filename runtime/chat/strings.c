/* strings.c -- operations of Python's strings, which keep track of where bytes come from: see value.h. */
#include "value.h"
#include "runtime/text/unicode.h"

struct case_range { uint32_t first, last; int32_t step, change; };
struct case_several { uint32_t c; uint32_t to[3]; };
#include "case.inc"

/* ---- parts ---- */

struct value string_part(const struct value *s, size_t from, size_t n)
{
    struct value part = *s;
    part.text = s->text + from;
    part.n = n;
    if (s->from != FROM_BOTH) return part;
    part.marks = s->marks + from;
    size_t n_input = 0;                                      /* for long parts this is not determined: they stay mixed */
    if (n > 256) return part;
    for (size_t i = 0; i < n; i++) n_input += part.marks[i];
    if (n_input == 0 || n_input == n) part.from = n_input ? FROM_INPUT : FROM_TEMPLATE;
    return part;
}

/* ---- searching: the two-way algorithm (Crochemore and Perrin, Journal of the ACM 38, 1991), forwards or backwards ---- */

/* Byte i of a text, counted from its beginning, or with `back` from its end; [n]. */
struct run { const char *text; size_t n; bool back; };
static inline uint8_t byte_at(const struct run *x, size_t i) { return (uint8_t)x->text[x->back ? x->n - 1 - i : i]; }

/* The beginning of the largest suffix, or of the smallest one, and its period. */
static size_t extreme_suffix(const struct run *x, bool largest, size_t *period)
{
    size_t begin = 0, other = 1, k = 0, p = 1;                 /* the suffix at `other` equals that at `begin` in k bytes */
    while (other + k < x->n) {
        const uint8_t a = byte_at(x, begin + k), b = byte_at(x, other + k);
        if (a == b) {
            if (++k == p) { other += p; k = 0; }
        } else if ((a > b) == largest) {
            other += k + 1;
            k = 0;
            p = other - begin;
        } else {
            begin = other++;
            k = 0;
            p = 1;
        }
    }
    *period = p;
    return begin;
}

/* The first place of part in s at or after `from`, both counted in their direction; n bytes are touched up to s->n + part->n. */
static bool run_find(const struct run *s, const struct run *part, size_t from, size_t *at)
{
    size_t p, q;
    const size_t n = part->n, one = extreme_suffix(part, true, &p), two = extreme_suffix(part, false, &q);
    const size_t middle = one > two ? one : two;               /* right of it a difference shifts by the bytes compared */
    size_t period = one > two ? p : q, known = 0;              /* known: of the first bytes of part, those that are at `at` */
    bool repeats = true;
    for (size_t i = 0; i < middle && repeats; i++) repeats = period + i < n && byte_at(part, i) == byte_at(part, period + i);
    if (!repeats) period = (middle > n - middle ? middle : n - middle) + 1;
    for (*at = from; *at + n <= s->n; ) {
        size_t i = middle > known ? middle : known;
        while (i < n && byte_at(part, i) == byte_at(s, *at + i)) i++;
        if (i < n) { *at += i - middle + 1; known = 0; continue; }
        for (i = middle; i > known && byte_at(part, i - 1) == byte_at(s, *at + i - 1); i--) { }
        if (i <= known) return true;
        *at += period;
        known = repeats ? n - period : 0;
    }
    return false;
}

bool string_find(struct render *r, const struct value *s, const struct value *part, size_t from, size_t *at)
{
    const struct run in = { s->text, s->n, false }, what = { part->text, part->n, false };
    if (part->n > s->n || from > s->n - part->n) return false;
    if (part->n == 0) { *at = from; return true; }
    const bool found = run_find(&in, &what, from, at);
    return charge_bytes(r, (found ? *at : s->n) - from + part->n) && found;
}

bool string_find_last(struct render *r, const struct value *s, const struct value *part, size_t to, size_t *at)
{
    const struct run in = { s->text, to, true }, what = { part->text, part->n, true };
    if (part->n > to) return false;
    if (part->n == 0) { *at = to; return true; }
    const bool found = run_find(&in, &what, 0, at);
    *at = to - *at - part->n;
    return charge_bytes(r, found ? to - *at : to + part->n) && found;
}

/* Is the codepoint one of chars?  ascii: those of chars below 0x80. */
static bool is_one_of(struct render *r, const struct value *c, const struct value *chars, const bool ascii[128])
{
    size_t at;
    return c->text[0] & 0x80 ? string_find(r, chars, c, 0, &at) : ascii[(uint8_t)c->text[0]];
}

static bool strip_chars(struct render *r, const struct value *s, const struct value *chars, bool left, bool right, struct value *out)
{
    size_t from = 0, to = s->n;
    bool ascii[128] = { false };
    if (!charge_letters(r, chars->n)) return false;
    for (size_t i = 0; i < chars->n; i++) if (!(chars->text[i] & 0x80)) ascii[(uint8_t)chars->text[i]] = true;
    while (left && from < to) {
        const struct value c = string_value(s->text + from, text_step(s->text + from, to - from));
        if (!is_one_of(r, &c, chars, ascii)) break;
        from += c.n;
    }
    while (right && from < to) {
        const size_t step = text_step_back(s->text + from, to - from);
        const struct value c = string_value(s->text + to - step, step);
        if (!is_one_of(r, &c, chars, ascii)) break;
        to -= step;
    }
    *out = string_part(s, from, to - from);
    return charge_letters(r, s->n - out->n) && !r->failed;
}

bool string_strip(struct render *r, const struct value *s, const struct value *chars, bool left, bool right, struct value *out)
{
    if (chars) return strip_chars(r, s, chars, left, right, out);
    const size_t from = left ? text_space_prefix(s->text, s->n) : 0;
    const size_t n = s->n - from, more = right ? text_space_suffix(s->text + from, n) : 0;
    *out = string_part(s, from, n - more);
    return charge_letters(r, from + more);
}

bool string_escape(struct render *r, const struct value *text, struct value *out)
{
    struct builder b;
    const struct value own = *text, *const s = &own;         /* text may be out */
    *out = own;
    out->safe = 1;
    if (s->safe) return true;
    if (!charge_letters(r, s->n)) return false;
    builder_begin(&b, r);
    for (size_t i = 0; i < s->n && !b.failed; i++) {
        const char c = s->text[i];
        const char *const as = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&#34;" : c == '\'' ? "&#39;" : NULL;
        const bool input = s->from == FROM_INPUT || (s->from == FROM_BOTH && s->marks[i]);
        builder_put(&b, as ? as : &c, as ? text_bytes(as) : 1, input);
    }
    if (!builder_end(&b, out)) return false;
    out->safe = 1;
    return true;
}

bool string_add(struct render *r, const struct value *a, const struct value *b, struct value *out)
{
    struct value x = *a, y = *b;
    struct builder sum;
    const bool safe = a->safe || b->safe;
    if (safe && (!string_escape(r, a, &x) || !string_escape(r, b, &y))) return false;
    if (!x.n || !y.n) *out = x.n ? x : y;
    else {
        builder_begin(&sum, r);
        builder_string(&sum, &x);
        builder_string(&sum, &y);
        if (!builder_end(&sum, out)) return false;
    }
    out->safe = safe;
    return true;
}

bool string_replace(struct render *r, const struct value *s, const struct value *old, const struct value *with, int64_t most,
                    struct value *out)
{
    struct builder b;
    size_t at = 0, hit;
    builder_begin(&b, r);
    for (; most != 0 && !b.failed && charge(r, 1); most -= most > 0) {
        if (!string_find(r, s, old, at, &hit)) break;
        if (old->n == 0) {                                     /* before each codepoint and at the end */
            builder_string(&b, with);
            if (at == s->n) { at = s->n + 1; break; }
            const struct value step = string_part(s, at, text_step(s->text + at, s->n - at));
            builder_string(&b, &step);
            at += step.n;
            continue;
        }
        const struct value before = string_part(s, at, hit - at);
        builder_string(&b, &before);
        builder_string(&b, with);
        at = hit + old->n;
    }
    if (at < s->n) {
        const struct value rest = string_part(s, at, s->n - at);
        builder_string(&b, &rest);
    }
    if (!builder_end(&b, out)) return false;
    out->safe = s->safe;
    return true;
}

/* ---- splitting ---- */

static bool split_space(struct render *r, const struct value *s, int64_t most, bool from_right, struct list *l)
{
    struct value rest;
    if (!charge_letters(r, s->n) || !string_strip(r, s, NULL, !from_right, from_right, &rest)) return false;
    for (; rest.n > 0; most -= most > 0) {
        size_t n = 0;
        if (most == 0) return list_add(r, l, rest);
        while (n < rest.n) {                                   /* bytes of the word */
            const char *const p = from_right ? rest.text : rest.text + n;
            const size_t left = rest.n - n, step = from_right ? text_step_back(p, left) : text_step(p, left);
            if (text_is_space(text_codepoint(from_right ? p + left - step : p, step))) break;
            n += step;
        }
        if (!list_add(r, l, string_part(&rest, from_right ? rest.n - n : 0, n)) || !charge(r, 1)) return false;
        const struct value after = string_part(&rest, from_right ? 0 : n, rest.n - n);
        if (!string_strip(r, &after, NULL, !from_right, from_right, &rest)) return false;
    }
    return true;
}

static bool split_at(struct render *r, const struct value *s, const struct value *by, int64_t most, struct list *l)
{
    size_t at = 0, hit;
    for (; most != 0 && string_find(r, s, by, at, &hit); most -= most > 0) {
        if (!list_add(r, l, string_part(s, at, hit - at)) || !charge(r, 1)) return false;
        at = hit + by->n;
    }
    return list_add(r, l, string_part(s, at, s->n - at));
}

static bool split_at_right(struct render *r, const struct value *s, const struct value *by, int64_t most, struct list *l)
{
    size_t end = s->n, hit;
    for (; most != 0 && string_find_last(r, s, by, end, &hit); most -= most > 0) {
        if (!list_add(r, l, string_part(s, hit + by->n, end - hit - by->n)) || !charge(r, 1)) return false;
        end = hit;
    }
    return list_add(r, l, string_part(s, 0, end));
}

bool string_split(struct render *r, const struct value *s, const struct value *by, int64_t most, bool from_right, struct list **out)
{
    struct list *l;
    if (by && by->n == 0) return fail_text(r, CHAT_REFUSED, "the separator is empty");
    if (!list_new(r, 0, &l)) return false;
    *out = l;
    if (!by) { if (!split_space(r, s, most, from_right, l)) return false; }
    else if (!(from_right ? split_at_right : split_at)(r, s, by, most, l)) return false;
    for (size_t i = 0; from_right && i < l->n / 2; i++) {
        const struct value v = l->items[i];
        l->items[i] = l->items[l->n - 1 - i];
        l->items[l->n - 1 - i] = v;
    }
    return true;
}

static bool ends_line(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool string_lines(struct render *r, const struct value *s, bool keep, struct list **out)
{
    size_t begin = 0;
    if (!charge_letters(r, s->n) || !list_new(r, 0, out)) return false;
    for (size_t at = 0, step; at < s->n; at += step) {
        step = text_step(s->text + at, s->n - at);
        if (!ends_line(text_codepoint(s->text + at, step))) continue;
        if (s->text[at] == '\r' && at + 1 < s->n && s->text[at + 1] == '\n') step = 2;
        if (!list_add(r, *out, string_part(s, begin, at - begin + (keep ? step : 0)))) return false;
        begin = at + step;
    }
    return begin == s->n || list_add(r, *out, string_part(s, begin, s->n - begin));
}

/* ---- joining ---- */

/* convert: other values are converted as by str(), and the result is not Markup; else all must be strings. */
bool string_join(struct render *r, const struct value *by, const struct list *items, bool convert, struct value *out)
{
    struct list *texts;
    struct builder b;
    if (!list_new(r, items->n, &texts)) return false;
    for (size_t i = 0; i < items->n; i++) {
        struct value v = items->items[i];
        if (!charge(r, 1)) return false;
        if (convert) { if (!value_text(r, &v, &v)) return false; }
        else if (v.kind != STRING) return fail_with(r, "join() needs text, not '%s'", kind_name(&v), "");
        else if (by->safe && !string_escape(r, &v, &v)) return false;
        if (!list_add(r, texts, v)) return false;
    }
    builder_begin(&b, r);
    for (size_t i = 0; i < texts->n; i++) {
        if (i) builder_string(&b, by);
        builder_string(&b, &texts->items[i]);
    }
    if (!builder_end(&b, out)) return false;
    out->safe = !convert && by->safe;
    return true;
}

bool string_pad(struct render *r, const struct value *s, size_t left, size_t right, const struct value *with, struct value *out)
{
    struct builder b;
    if (!charge(r, left + right)) return false;
    builder_begin(&b, r);
    while (left-- > 0 && !b.failed) builder_string(&b, with);
    builder_string(&b, s);
    while (right-- > 0 && !b.failed) builder_string(&b, with);
    if (!builder_end(&b, out)) return false;
    out->safe = s->safe;
    return true;
}

/* ---- upper and lower case ---- */

static uint32_t case_several(const struct case_several *table, size_t n, uint32_t c, uint32_t out[3])
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (table[middle].c < c) low = middle + 1; else high = middle;
    }
    if (low == n || table[low].c != c) return 0;
    uint32_t count = 0;
    while (count < 3 && table[low].to[count]) { out[count] = table[low].to[count]; count++; }
    return count;
}

static uint32_t case_single(const struct case_range *table, size_t n, uint32_t c)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (table[middle].last < c) low = middle + 1; else high = middle;
    }
    if (low == n || c < table[low].first || (c - table[low].first) % (uint32_t)table[low].step) return c;
    return (uint32_t)((int32_t)c + table[low].change);
}

#define TABLE(table) table, sizeof(table) / sizeof(table)[0]
/* One codepoint in upper, lower (CASE_LOWER) or title case (CASE_TITLE); returns the number of codepoints. */
static uint32_t case_map(uint32_t c, enum string_case how, uint32_t out[3])
{
    uint32_t n = 0;
    out[0] = c;
    if (c < 0x80) {
        if (how == CASE_LOWER ? c >= 'A' && c <= 'Z' : c >= 'a' && c <= 'z') out[0] = c ^ 32;
        return 1;
    }
    if (how == CASE_TITLE) n = case_several(TABLE(title_several), c, out);
    if (!n) n = how == CASE_LOWER ? case_several(TABLE(lower_several), c, out) : case_several(TABLE(upper_several), c, out);
    if (!n) out[0] = how == CASE_LOWER ? case_single(TABLE(lower_ranges), c) : case_single(TABLE(upper_ranges), c);
    return n ? n : 1;
}

static bool changes(uint32_t c, enum string_case how)
{
    uint32_t to[3];
    return case_map(c, how, to) != 1 || to[0] != c;
}
static bool is_cased(uint32_t c) { return changes(c, CASE_UPPER) || changes(c, CASE_LOWER); }

static bool is_ignored(uint32_t c)                              /* ignored between the letters of a word */
{
    return unicode_class(c) == UNICODE_MARK || c == '\'' || c == '.' || c == ':' || c == 0xad || c == 0xb7 || c == 0x2019;
}

/* Does the capital sigma at `at` end a word?  There must be letters before it and none after it. */
static bool is_final_sigma(const struct value *s, size_t at)
{
    size_t p = at;
    bool before = false;
    while (p > 0 && !before) {
        const size_t step = text_step_back(s->text, p);
        const uint32_t c = text_codepoint(s->text + p - step, step);
        p -= step;
        if (is_cased(c)) before = true;
        else if (!is_ignored(c)) break;
    }
    if (!before) return false;
    for (p = at + 2; p < s->n; ) {
        const size_t step = text_step(s->text + p, s->n - p);
        const uint32_t c = text_codepoint(s->text + p, step);
        if (is_cased(c)) return false;
        if (!is_ignored(c)) break;
        p += step;
    }
    return true;
}

/* casefold(): the lower case of the upper case, except of three kinds of letters (CaseFolding.txt).  out: [9] */
static uint32_t case_fold(uint32_t c, uint32_t *out)
{
    uint32_t upper[3], n = 0;
    const bool cherokee = (c >= 0x13a0 && c <= 0x13fd) || (c >= 0xab70 && c <= 0xabbf);
    if (c == 0x131) { out[0] = c; return 1; }
    if (c == 0x1e9e) { out[0] = out[1] = 's'; return 2; }
    if (cherokee) return case_map(c, CASE_UPPER, out);
    const uint32_t n_upper = case_map(c, CASE_UPPER, upper);
    for (uint32_t i = 0; i < n_upper; i++) n += case_map(upper[i], CASE_LOWER, out + n);
    return n;
}

bool string_case(struct render *r, const struct value *s, enum string_case how, struct value *out)
{
    struct builder b;
    bool in_word = false;
    if (!charge(r, s->n)) return false;
    builder_begin(&b, r);
    for (size_t at = 0, step; at < s->n && !b.failed; at += step) {
        step = text_step(s->text + at, s->n - at);
        const uint32_t c = text_codepoint(s->text + at, step);
        const bool input = s->from == FROM_INPUT || (s->from == FROM_BOTH && s->marks[at]);
        enum string_case to = how;
        if (how == CASE_CAPITAL) to = at ? CASE_LOWER : CASE_TITLE;
        else if (how == CASE_TITLE) to = in_word ? CASE_LOWER : CASE_TITLE;
        else if (how == CASE_SWAP) to = changes(c, CASE_LOWER) ? CASE_LOWER : CASE_UPPER;
        if (how == CASE_TITLE) in_word = is_cased(c);
        uint32_t codes[9];
        uint32_t n = to == CASE_FOLD ? case_fold(c, codes) : case_map(c, to, codes);
        if (to == CASE_LOWER && c == 0x3a3 && is_final_sigma(s, at)) codes[0] = 0x3c2;
        if (step == 1 && c >= 0x80) { builder_put(&b, s->text + at, 1, input); continue; }
        char utf8[36];
        size_t bytes = 0;
        for (uint32_t i = 0; i < n; i++) bytes += text_put_codepoint(utf8 + bytes, codes[i]);
        builder_put(&b, utf8, bytes, input);
    }
    if (!builder_end(&b, out)) return false;
    out->safe = s->safe;
    return true;
}

/* isupper() and islower(): has letters of this case and none of the other. */
static bool is_case(const struct value *s, bool upper)
{
    bool any = false;
    for (size_t at = 0, step; at < s->n; at += step) {
        step = text_step(s->text + at, s->n - at);
        const uint32_t c = text_codepoint(s->text + at, step);
        if (changes(c, upper ? CASE_UPPER : CASE_LOWER)) return false;
        any |= changes(c, upper ? CASE_LOWER : CASE_UPPER);
    }
    return any;
}

/* Digits that are not decimal: superscripts, in circles, ... (UnicodeData.txt, Numeric_Type=Digit). */
static bool is_other_digit(uint32_t c)
{
    static const uint32_t ranges[][2] = {
        { 0xb2, 0xb3 },     { 0xb9, 0xb9 },     { 0x1369, 0x1371 }, { 0x19da, 0x19da }, { 0x2070, 0x2070 },   { 0x2074, 0x2079 },
        { 0x2080, 0x2089 }, { 0x2460, 0x2468 }, { 0x2474, 0x247c }, { 0x2488, 0x2490 }, { 0x24ea, 0x24ea },   { 0x24f5, 0x24fd },
        { 0x24ff, 0x24ff }, { 0x2776, 0x277e }, { 0x2780, 0x2788 }, { 0x278a, 0x2792 }, { 0x10a40, 0x10a43 }, { 0x10e60, 0x10e68 },
        { 0x11052, 0x1105a }, { 0x1f100, 0x1f10a },
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
    return false;
}

static bool is_class(const struct value *s, enum chat_text_method method)
{
    if (method == CHAT_S_isupper || method == CHAT_S_islower) return is_case(s, method == CHAT_S_isupper);
    if (method == CHAT_S_isascii) {
        for (size_t i = 0; i < s->n; i++) if (s->text[i] & 0x80) return false;
        return true;
    }
    for (size_t at = 0, step; at < s->n; at += step) {
        step = text_step(s->text + at, s->n - at);
        const uint32_t c = text_codepoint(s->text + at, step);
        const enum unicode_class class = unicode_class(c);
        const bool letter = class == UNICODE_LETTER, decimal = unicode_fine_class(c) == UNICODE_DIGIT;
        bool in = letter || class == UNICODE_NUMBER;           /* isalnum() */
        if (method == CHAT_S_isspace) in = text_is_space(c);
        if (method == CHAT_S_isalpha) in = letter;
        if (method == CHAT_S_isdecimal) in = decimal;
        if (method == CHAT_S_isdigit) in = decimal || is_other_digit(c);
        if (method == CHAT_S_isprintable) in = text_is_printable(c);
        if (!in) return false;
    }
    return s->n > 0 || method == CHAT_S_isprintable;
}

bool string_is_class(struct render *r, const struct value *s, enum chat_text_method method, bool *out)
{
    if (!charge_letters(r, s->n)) return false;
    *out = is_class(s, method);
    return true;
}

/* ---- formatting: % and format() ---- */

/* align: '<' '>' '^', '=' to fill behind the sign, '0' the flag 0 of format(), which is '=' for numbers, 0: not given.  sign: of numbers
 * that are not negative, '+' or ' ', else '-' or 0.  group: what stands between thousands, or 0.  places: -1: not given.  type: the
 * letter, or 0.  percent: of the operator %, else of format(). */
struct spec { char align, sign, group, type; bool alternate, percent; struct value fill; int64_t width, places; };
enum { MOST_WIDTH = 10000, MOST_PLACES = 60 };

static bool digits_of(const struct value *s, size_t *at, int64_t *out)
{
    const size_t begin = *at;
    for (*out = 0; *at < s->n && s->text[*at] >= '0' && s->text[*at] <= '9'; ++*at)
        if (*out < 100000) *out = *out * 10 + (s->text[*at] - '0');
    return *at > begin;
}

static size_t hex_text(uint64_t x, uint32_t bits, bool upper, char *out)
{
    char digits[64];
    size_t n = 0, at = 0;
    do { digits[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[x & ((1u << bits) - 1)]; x >>= bits; } while (x);
    while (n) out[at++] = digits[--n];
    return at;
}

static bool pad(struct render *r, const struct spec *f, const struct value *s, char otherwise, struct value *out)
{
    const char align = f->align ? f->align : otherwise;
    *out = *s;
    if (f->width <= 0) return true;
    if (f->width > MOST_WIDTH) return fail_text(r, CHAT_REFUSED, "a format wider than 10000");
    if (!charge_letters(r, s->n)) return false;
    const size_t n = text_codepoints(s->text, s->n), more = (size_t)f->width > n ? (size_t)f->width - n : 0;
    const size_t left = align == '^' ? more / 2 : align == '<' ? 0 : more;
    return more == 0 || string_pad(r, s, left, more - left, &f->fill, out);
}

/* A number without its sign; *minus: it has one.  bytes: [NUMBER_BYTES] for it, unless it is BIG. */
static bool integer_digits(struct render *r, const struct spec *f, const struct value *v, char *bytes, bool *minus, struct value *out)
{
    struct value whole = *v;
    const char type = f->type;
    const bool hex = type == 'x' || type == 'X' || type == 'o';
    if (v->kind == FLOAT && !float_to_integer(r, v->f, &whole))
        return fail_text(r, CHAT_REFUSED, "a number that is not finite cannot become an integer");
    if (f->places >= 0 && !f->percent) return fail_text(r, CHAT_REFUSED, "Precision not allowed in integer format specifier");
    if (f->group && hex) return fail_text(r, CHAT_REFUSED, "a format that is not supported");
    if (whole.kind == BIG) {
        if (hex) return fail_text(r, CHAT_REFUSED, "hexadecimal numbers beyond 64 bits are not supported");
        *minus = whole.text[0] == '-';
        *out = string_value(whole.text + *minus, whole.n - *minus);
        return true;
    }
    const int64_t i = integer_of(&whole);
    const uint64_t x = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    *minus = i < 0;
    if (hex) { *out = string_value(bytes, hex_text(x, type == 'o' ? 3 : 4, type == 'X', bytes)); return true; }
    const size_t n = integer_text(i, bytes);
    *out = string_value(bytes + *minus, n - *minus);
    return true;
}

/* %g: the shorter of %e and %f with this many digits, without zeros at the end. */
static size_t general_digits(double f, uint32_t digits, char *bytes)
{
    size_t n = number_exponent(f, digits - 1, bytes), e = n;
    int32_t power = 0;
    while (bytes[e - 1] != 'e') e--;
    for (size_t i = e + 1; i < n; i++) power = power * 10 + (bytes[i] - '0');
    if (bytes[e] == '-') power = -power;
    const bool fixed = power >= -4 && power < (int32_t)digits;
    if (fixed) n = e = number_fixed(f, (uint32_t)((int32_t)digits - 1 - power), bytes);
    else e--;                                                  /* the place of the 'e' */
    if (!memchr(bytes, '.', e)) return n;
    size_t end = e;
    while (bytes[end - 1] == '0') end--;
    if (bytes[end - 1] == '.') end--;
    memmove(bytes + end, bytes + e, n - e);
    return end + n - e;
}

static bool real_digits(struct render *r, const struct spec *f, const struct value *v, char *bytes, bool *minus, struct value *out)
{
    const char type = f->type, lower = (char)(type | 32);
    const bool percent = type == '%';
    const int64_t places = f->places < 0 ? 6 : f->places;
    double x = number_of(r, v) * (percent ? 100 : 1);
    uint64_t bits;
    size_t n;
    memcpy(&bits, &x, 8);
    *minus = bits >> 63 && x == x;
    if (bits >> 63) x = -x;
    if (!charge(r, DIGITS_STEPS)) return false;
    if (f->alternate || (!type && f->places >= 0)) return fail_text(r, CHAT_REFUSED, "this format is not supported");
    if (places > MOST_PLACES) return fail_text(r, CHAT_REFUSED, "a format has more than 60 digits after the decimal point");
    if (!type || x - x != 0) n = number_repr(x, bytes);
    else if (lower == 'e') n = number_exponent(x, (uint32_t)places, bytes);
    else if (lower == 'g') n = general_digits(x, places ? (uint32_t)places : 1, bytes);
    else n = number_fixed(x, (uint32_t)places, bytes);
    if (percent) bytes[n++] = '%';
    for (size_t i = 0; type && type != lower && i < n; i++) if (bytes[i] >= 'a' && bytes[i] <= 'z') bytes[i] = (char)(bytes[i] - 32);
    *out = string_value(bytes, n);
    return true;
}

static bool format_number(struct render *r, const struct spec *f, const struct value *v, struct value *out)
{
    char bytes[NUMBER_BYTES], sign[4];
    size_t n_sign = 0, whole = 0, zeros = 0, inside = 0;
    const char type = f->type;
    const bool integer = type ? type == 'd' || type == 'x' || type == 'X' || type == 'o' : v->kind != FLOAT;
    bool minus;
    struct value digits, body;
    struct builder b;
    if (!(integer ? integer_digits : real_digits)(r, f, v, bytes, &minus, &digits)) return false;
    if (minus || f->sign == '+' || f->sign == ' ') sign[n_sign++] = minus ? '-' : f->sign;
    if (f->alternate && integer && type && type != 'd') { sign[n_sign++] = '0'; sign[n_sign++] = type; }
    while (whole < digits.n && digits.text[whole] >= '0' && digits.text[whole] <= '9') whole++;
    const size_t groups = f->group && whole ? (whole - 1) / 3 : 0, length = n_sign + digits.n + groups;
    if (f->width > MOST_WIDTH || f->places > MOST_WIDTH) return fail_text(r, CHAT_REFUSED, "a format is wider than 10000");
    if (integer && f->places > (int64_t)digits.n) zeros = (size_t)f->places - digits.n;
    if (f->align == '=' && f->width > (int64_t)(length + zeros)) inside = (size_t)f->width - length - zeros;
    if (inside && groups) return fail_text(r, CHAT_REFUSED, "this format is not supported");
    if (!charge(r, zeros + inside)) return false;
    builder_begin(&b, r);
    builder_put(&b, sign, n_sign, false);
    for (size_t i = 0; i < inside; i++) builder_string(&b, &f->fill);
    for (size_t i = 0; i < zeros; i++) BUILDER_WORDS(&b, "0");
    for (size_t i = 0; i < digits.n; i++) {
        builder_put(&b, digits.text + i, 1, false);
        if (groups && i + 1 < whole && (whole - i - 1) % 3 == 0) builder_put(&b, &f->group, 1, false);
    }
    return charge(r, digits.n) && builder_end(&b, &body) && pad(r, f, &body, '>', out);
}

/* Text, and with % any value. */
static bool format_text(struct render *r, const struct spec *f, const struct value *v, struct value *out)
{
    struct value s;
    if (f->type == 'r') {
        struct builder b;
        builder_begin(&b, r);
        builder_repr(&b, v, 0);
        if (!builder_end(&b, &s)) return false;
    } else if (!value_text(r, v, &s)) return false;
    if (f->places >= 0) {
        if (!charge_letters(r, s.n)) return false;
        s = string_part(&s, 0, text_offset(s.text, s.n, (size_t)f->places));
    }
    return pad(r, f, &s, '<', out);
}

/* What % writes for a value. */
static bool format_percent(struct render *r, const struct spec *f, const struct value *v, struct value *out)
{
    if (f->type == 's' || f->type == 'r') return format_text(r, f, v, out);
    if (!is_number(v)) return fail_with(r, "a number is needed for this format, not '%s'", kind_name(v), "");
    if (v->kind == FLOAT && (f->type == 'x' || f->type == 'X' || f->type == 'o'))
        return fail_with(r, "an integer is needed for this format, not '%s'", kind_name(v), "");
    return format_number(r, f, v, out);
}

/* The value's __format__(spec); empty: the specification is. */
static bool format_value(struct render *r, const struct spec *f, const struct value *v, bool empty, struct value *out)
{
    const char type = f->type;
    struct spec own = *f;
    if (empty) return value_text(r, v, out);
    if (own.align == '0') own.align = v->kind == STRING ? '<' : '=';
    if (v->kind == STRING) {
        if (type && type != 's') return fail_with(r, "a number is needed for this format, not '%s'", kind_name(v), "");
        if (f->sign) return fail_text(r, CHAT_REFUSED, "Sign not allowed in string format specifier");
        if (f->alternate || f->group || f->align == '=') return fail_text(r, CHAT_REFUSED, "a format for numbers is used for text");
        return format_text(r, &own, v, out);
    }
    if (!is_number(v)) return fail_with(r, "unsupported format string passed to %s.__format__", kind_name(v), "");
    if (type == 's' || (v->kind == FLOAT && (type == 'd' || type == 'x' || type == 'X' || type == 'o')))
        return fail_with(r, "Unknown format code '%s' for object of type '%s'", (const char[]){ type, 0 }, kind_name(v));
    return format_number(r, &own, v, out);
}

bool string_percent(struct render *r, const struct value *format, const struct value *args, struct value *out)
{
    struct list *parts;
    size_t at = 0, used = 0;
    const bool tuple = args->kind == TUPLE;
    const struct value nothing = WORDS("");
    if (!charge_letters(r, format->n) || !list_new(r, 0, &parts)) return false;
    while (at < format->n) {
        size_t end = at;
        while (end < format->n && format->text[end] != '%') end++;
        if (!list_add(r, parts, string_part(format, at, end - at)) || !charge(r, 1)) return false;
        if (end == format->n) break;
        at = end + 1;
        struct spec f = { .fill = WORDS(" "), .places = -1, .percent = true };
        struct value key = { .kind = NONE };
        bool left = false, zero = false;
        if (at < format->n && format->text[at] == '(') {
            const size_t begin = ++at;
            while (at < format->n && format->text[at] != ')') at++;
            key = string_part(format, begin, at - begin);
            at++;
        }
        for (; at < format->n; at++) {
            const char c = format->text[at];
            if (c == '-') left = true;
            else if (c == '0') zero = true;
            else if (c == '+' || (c == ' ' && !f.sign)) f.sign = c;
            else if (c == ' ') continue;
            else if (c == '#') f.alternate = true;
            else break;
        }
        digits_of(format, &at, &f.width);
        if (at < format->n && format->text[at] == '.') { at++; digits_of(format, &at, &f.places); }
        if (at >= format->n) return fail_text(r, CHAT_REFUSED, "a format ends after %");
        f.type = format->text[at++];
        struct value v;
        if (f.type == '%') { if (!list_add(r, parts, WORDS("%"))) return false; continue; }
        if (key.kind == STRING) {
            const struct value *found = args->kind == DICT ? dict_find(r, args->dict, &key) : NULL;
            if (!found) return fail_text(r, CHAT_REFUSED, "a format names a value that is not given");
            v = *found;
            used = 1;
        } else {
            if (used >= (tuple ? args->list->n : 1)) return fail_text(r, CHAT_REFUSED, "a format has too few arguments");
            v = tuple ? args->list->items[used] : *args;
            used++;
        }
        if (f.type == 'i' || f.type == 'u') f.type = 'd';
        if (!f.type || !memchr("srdxXofFeEgG", f.type, 12)) return fail_text(r, CHAT_REFUSED, "this format of % is not supported");
        const bool number = f.type != 's' && f.type != 'r';
        f.align = left ? '<' : zero && number ? '=' : '>';
        if (f.align == '=') f.fill = WORDS("0");
        const struct value of = v;
        if (!format_percent(r, &f, &of, &v)) return false;
        if (format->safe && !string_escape(r, &v, &v)) return false;
        if (!list_add(r, parts, v)) return false;
    }
    const bool container = args->kind == DICT || args->kind == LIST || args->kind == RANGE;      /* need not be used */
    if (used < (tuple ? args->list->n : container ? 0 : 1))
        return fail_text(r, CHAT_REFUSED, "a format has too many arguments");
    if (!string_join(r, &nothing, parts, true, out)) return false;
    out->safe = format->safe;
    return true;
}

/* A field "name", "0" or "a.b[0]" of str.format(). */
static bool format_field(struct render *r, const struct value *field, const struct arguments *args, uint32_t *next, struct value *out)
{
    size_t at = 0;
    int64_t index;
    while (at < field->n && field->text[at] != '.' && field->text[at] != '[') at++;
    const struct value name = string_part(field, 0, at);
    size_t digits = 0;
    if (name.n == 0) index = (*next)++;
    else if (!digits_of(&name, &digits, &index) || digits != name.n) index = -1;
    const struct value *v = NULL;
    if (index >= 0) { if ((uint64_t)index < args->n) v = &args->at[index]; }
    else
        for (uint32_t i = 0; i < args->n_named && !v; i++) {
            const struct value have = image_string(r, args->names[2 * i]);
            bool same;
            if (!values_equal(r, &have, &name, &same)) return false;
            if (same) v = &args->named[i];
        }
    if (!v) return fail_text(r, CHAT_REFUSED, "format() names a value that is not given");
    *out = *v;
    while (at < field->n) {
        const bool bracket = field->text[at++] == '[';
        const size_t begin = at;
        while (at < field->n && (bracket ? field->text[at] != ']' : field->text[at] != '.' && field->text[at] != '[')) at++;
        struct value part = string_part(field, begin, at - begin);
        if (bracket) at++;
        size_t end = 0;
        if (bracket && digits_of(&part, &end, &index) && end == part.n) part = int_value(index);
        struct value whole = *out;
        if (!(bracket ? value_item(r, &whole, &part, out) : value_attribute(r, &whole, &part, CHAT_NONE, out))) return false;
    }
    return true;
}

static bool parse_spec(struct render *r, const struct value *s, struct spec *f)
{
    static const char aligns[] = "<>^=";
    size_t at = 0;
    const size_t step = s->n ? text_step(s->text, s->n) : 0;
    const bool filled = s->n > step && memchr(aligns, s->text[step], 4);
    if (filled) { f->fill = string_part(s, 0, step); at = step; }
    if (at < s->n && memchr(aligns, s->text[at], 4)) f->align = s->text[at++];
    if (at < s->n && (s->text[at] == '+' || s->text[at] == ' ' || s->text[at] == '-')) f->sign = s->text[at++];
    if (at < s->n && s->text[at] == '#') { f->alternate = true; at++; }
    if (!filled && at < s->n && s->text[at] == '0') {
        f->fill = WORDS("0");
        if (!f->align) f->align = '0';
        at++;
    }
    digits_of(s, &at, &f->width);
    if (at < s->n && (s->text[at] == ',' || s->text[at] == '_')) f->group = s->text[at++];
    if (at < s->n && s->text[at] == '.') {
        at++;
        if (!digits_of(s, &at, &f->places)) return fail_text(r, CHAT_REFUSED, "Format specifier missing precision");
    }
    if (at < s->n) f->type = s->text[at++];
    if (at < s->n || (f->type && !memchr("sdxXofFeEgG%", f->type, 12))) return fail_text(r, CHAT_REFUSED, "this format is not supported");
    return true;
}

bool string_format(struct render *r, const struct value *format, const struct arguments *args, struct value *out)
{
    struct list *parts;
    uint32_t next = 0;
    const struct value nothing = WORDS("");
    if (!charge_letters(r, format->n) || !list_new(r, 0, &parts)) return false;
    for (size_t at = 0; at < format->n; ) {
        const size_t begin = at;
        if (!charge(r, 1)) return false;
        const char c = format->text[at];
        if ((c == '{' || c == '}') && at + 1 < format->n && format->text[at + 1] == c) {
            if (!list_add(r, parts, string_part(format, at, 1))) return false;
            at += 2;
            continue;
        }
        if (c == '}') return fail_text(r, CHAT_REFUSED, "a format has a single }");
        if (c != '{') {
            while (at < format->n && format->text[at] != '{' && format->text[at] != '}') at++;
            if (!list_add(r, parts, string_part(format, begin, at - begin))) return false;
            continue;
        }
        size_t end = at + 1, colon, name_end;
        while (end < format->n && format->text[end] != '}' && format->text[end] != '{') end++;
        if (end == format->n || format->text[end] == '{') return fail_text(r, CHAT_REFUSED, "this form of { in a format is not supported");
        for (colon = at + 1; colon < end && format->text[colon] != ':'; colon++) { }
        for (name_end = at + 1; name_end < colon && format->text[name_end] != '!'; name_end++) { }
        const struct value field = string_part(format, at + 1, name_end - at - 1);
        const struct value spec = string_part(format, colon < end ? colon + 1 : end, colon < end ? end - colon - 1 : 0);
        struct spec f = { .fill = WORDS(" "), .places = -1 };
        struct value v;
        if (!format_field(r, &field, args, &next, &v) || !parse_spec(r, &spec, &f)) return false;
        if (name_end + 2 == colon) {
            const char convert = format->text[name_end + 1];
            const struct spec whole = { .type = convert, .places = -1 };
            const struct value of = v;
            if (convert != 'r' && convert != 's') return fail_text(r, CHAT_REFUSED, "a conversion of a format that is not supported");
            if (!format_text(r, &whole, &of, &v)) return false;
        } else if (name_end < colon) return fail_text(r, CHAT_REFUSED, "a conversion of a format that is not supported");
        const struct value of = v;
        if (!format_value(r, &f, &of, spec.n == 0, &v)) return false;
        if (format->safe && !string_escape(r, &v, &v)) return false;
        if (!list_add(r, parts, v)) return false;
        at = end + 1;
    }
    if (!string_join(r, &nothing, parts, true, out)) return false;
    out->safe = format->safe;
    return true;
}
