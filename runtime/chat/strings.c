/* strings.c -- what Python's strings can do, with where their bytes come from: see value.h. */
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
    size_t n_input = 0;                                      /* of long parts nobody asks: they stay mixed */
    if (n > 256) return part;
    for (size_t i = 0; i < n; i++) n_input += part.marks[i];
    if (n_input == 0 || n_input == n) part.from = n_input ? FROM_INPUT : FROM_TEMPLATE;
    return part;
}

bool string_find(const struct value *s, const struct value *part, size_t from, size_t *at)
{
    if (part->n > s->n || from > s->n - part->n) return false;
    if (part->n == 0) { *at = from; return true; }
    for (const char *p = s->text + from, *const last = s->text + s->n - part->n; p <= last; p++) {
        p = memchr(p, part->text[0], (size_t)(last - p) + 1);
        if (!p) return false;
        if (memcmp(p, part->text, part->n) == 0) { *at = (size_t)(p - s->text); return true; }
    }
    return false;
}

static bool ends_with(const struct value *s, size_t end, const struct value *part)
{
    return part->n <= end && memcmp(s->text + end - part->n, part->text, part->n) == 0;
}

struct value string_strip(const struct value *s, const struct value *chars, bool left, bool right)
{
    size_t from = 0, to = s->n;
    if (!chars) {
        if (left) from = text_space_prefix(s->text, to);
        if (right) to -= text_space_suffix(s->text + from, to - from);
        return string_part(s, from, to - from);
    }
    struct value c = *chars;
    size_t at;
    while (left && from < to) {
        c.text = s->text + from;
        c.n = text_step(c.text, to - from);
        if (!string_find(chars, &c, 0, &at)) break;
        from += c.n;
    }
    while (right && from < to) {
        c.n = text_step_back(s->text + from, to - from);
        c.text = s->text + to - c.n;
        if (!string_find(chars, &c, 0, &at)) break;
        to -= c.n;
    }
    return string_part(s, from, to - from);
}

bool string_escape(struct render *r, const struct value *s, struct value *out)
{
    struct builder b;
    *out = *s;
    out->safe = 1;
    if (s->safe) return true;
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
        if (!string_find(s, old, at, &hit)) break;
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

/* ---- cutting ---- */

static bool split_space(struct render *r, const struct value *s, int64_t most, bool from_right, struct list *l)
{
    struct value rest = string_strip(s, NULL, !from_right, from_right);
    for (; rest.n > 0; most -= most > 0) {
        size_t n = 0;
        if (most == 0) {
            rest = string_strip(&rest, NULL, from_right, !from_right);
            return list_add(r, l, rest);
        }
        while (n < rest.n) {                                   /* of the word */
            const char *const p = from_right ? rest.text : rest.text + n;
            const size_t left = rest.n - n, step = from_right ? text_step_back(p, left) : text_step(p, left);
            if (text_is_space(text_codepoint(from_right ? p + left - step : p, step))) break;
            n += step;
        }
        if (!list_add(r, l, string_part(&rest, from_right ? rest.n - n : 0, n)) || !charge(r, 1)) return false;
        rest = string_part(&rest, from_right ? 0 : n, rest.n - n);
        rest = string_strip(&rest, NULL, !from_right, from_right);
    }
    return true;
}

static bool split_at(struct render *r, const struct value *s, const struct value *by, int64_t most, struct list *l)
{
    size_t at = 0, hit;
    for (; most != 0 && string_find(s, by, at, &hit); most -= most > 0) {
        if (!list_add(r, l, string_part(s, at, hit - at)) || !charge(r, 1)) return false;
        at = hit + by->n;
    }
    return list_add(r, l, string_part(s, at, s->n - at));
}

static bool split_at_right(struct render *r, const struct value *s, const struct value *by, int64_t most, struct list *l)
{
    size_t end = s->n, at = s->n;
    while (most != 0 && at >= by->n) {
        if (!ends_with(s, at, by)) { at--; continue; }
        if (!list_add(r, l, string_part(s, at, end - at)) || !charge(r, 1)) return false;
        end = at -= by->n;
        most -= most > 0;
    }
    return list_add(r, l, string_part(s, 0, end));
}

bool string_split(struct render *r, const struct value *s, const struct value *by, int64_t most, bool from_right, struct list **out)
{
    struct list *l;
    if (by && by->n == 0) return fail_text(r, CHAT_REFUSED, "empty separator");
    if (!charge(r, s->n / 16) || !list_new(r, 0, &l)) return false;
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
    if (!charge(r, s->n / 4) || !list_new(r, 0, out)) return false;
    for (size_t at = 0, step; at < s->n; at += step) {
        step = text_step(s->text + at, s->n - at);
        if (!ends_line(text_codepoint(s->text + at, step))) continue;
        if (s->text[at] == '\r' && at + 1 < s->n && s->text[at + 1] == '\n') step = 2;
        if (!list_add(r, *out, string_part(s, begin, at - begin + (keep ? step : 0)))) return false;
        begin = at + step;
    }
    return begin == s->n || list_add(r, *out, string_part(s, begin, s->n - begin));
}

/* ---- putting together ---- */

/* convert: other values as str() has them, and the result is no Markup; else they must be strings. */
bool string_join(struct render *r, const struct value *by, const struct list *items, bool convert, struct value *out)
{
    struct list *texts;
    struct builder b;
    if (!list_new(r, items->n, &texts)) return false;
    for (size_t i = 0; i < items->n; i++) {
        struct value v = items->items[i];
        if (!charge(r, 1)) return false;
        if (convert) { if (!value_text(r, &v, &v)) return false; }
        else if (v.kind != STRING) return fail_with(r, "join() wants text, not '%s'", kind_name(&v), "");
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
/* One codepoint in upper, lower (CASE_LOWER) or title case (CASE_TITLE): how many there are. */
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

static bool is_ignored(uint32_t c)                              /* between the letters of a word */
{
    return unicode_class(c) == UNICODE_MARK || c == '\'' || c == '.' || c == ':' || c == 0xad || c == 0xb7 || c == 0x2019;
}

/* A capital sigma at `at` ends a word: letters before it and none behind. */
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

bool string_case(struct render *r, const struct value *s, enum string_case how, struct value *out)
{
    struct builder b;
    bool in_word = false;
    if (!charge(r, s->n / 4)) return false;
    builder_begin(&b, r);
    for (size_t at = 0, step; at < s->n && !b.failed; at += step) {
        step = text_step(s->text + at, s->n - at);
        const uint32_t c = text_codepoint(s->text + at, step);
        const bool input = s->from == FROM_INPUT || (s->from == FROM_BOTH && s->marks[at]);
        enum string_case to = how;
        if (how == CASE_CAPITAL) to = at ? CASE_LOWER : CASE_TITLE;
        else if (how == CASE_TITLE) to = in_word ? CASE_LOWER : CASE_TITLE;
        else if (how == CASE_SWAP) to = changes(c, CASE_LOWER) ? CASE_LOWER : CASE_UPPER;
        in_word = is_cased(c);
        uint32_t codes[3];
        uint32_t n = case_map(c, to, codes);
        if (to == CASE_LOWER && c == 0x3a3 && is_final_sigma(s, at)) codes[0] = 0x3c2;
        if (step == 1 && c >= 0x80) { builder_put(&b, s->text + at, 1, input); continue; }
        char utf8[16];
        size_t bytes = 0;
        for (uint32_t i = 0; i < n; i++) bytes += text_put_codepoint(utf8 + bytes, codes[i]);
        builder_put(&b, utf8, bytes, input);
    }
    if (!builder_end(&b, out)) return false;
    out->safe = s->safe;
    return true;
}

/* isupper() and islower(): letters of this case and none of the other. */
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

bool string_is_class(const struct value *s, enum chat_text_method method)
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
        const bool letter = class == UNICODE_LETTER, digit = class == UNICODE_NUMBER;
        if (method == CHAT_S_isspace ? !text_is_space(c) : method == CHAT_S_isalpha ? !letter
            : method == CHAT_S_isdigit ? !digit : !letter && !digit) return false;
    }
    return s->n > 0;
}

/* ---- formatting ---- */

struct spec { bool left, center, right, zero, plus, blank, alternate, grouped; struct value fill; int64_t width, places; char type; };

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

/* The value's text without its padding; *number: zeros go behind its sign. */
static bool format_plain(struct render *r, const struct spec *f, const struct value *v, struct value *out, bool *number)
{
    char text[2 * NUMBER_BYTES], plain[NUMBER_BYTES];
    size_t n = 0, at = 0;
    const char type = f->type;
    *number = is_number(v) && type != 's' && type != 'r';
    if (type == 'r') {
        struct builder b;
        builder_begin(&b, r);
        builder_repr(&b, v, 0);
        return builder_end(&b, out);
    }
    if (!*number) {
        if (type && type != 's') return fail_with(r, "a number is needed for this format, not '%s'", kind_name(v), "");
        if (!value_text(r, v, out)) return false;
        if (f->places >= 0) {
            size_t to = 0;
            for (int64_t i = 0; i < f->places && to < out->n; i++) to += text_step(out->text + to, out->n - to);
            *out = string_part(out, 0, to);
        }
        return true;
    }
    if (v->kind == BIG || (v->kind == BOOL && !type)) return value_text(r, v, out);
    const bool integer = is_integer(v);
    if (type == 'x' || type == 'X' || type == 'o') {
        if (!integer) return fail_with(r, "an integer is needed for this format, not '%s'", kind_name(v), "");
        const int64_t i = integer_of(v);
        if (i < 0) plain[n++] = '-';
        n += hex_text(i < 0 ? 0 - (uint64_t)i : (uint64_t)i, type == 'o' ? 3 : 4, type == 'X', plain + n);
    } else if (type == 'f' || type == 'F' || type == '%') {
        const int64_t places = f->places < 0 ? 6 : f->places;
        if (places > 60) return fail_text(r, CHAT_REFUSED, "more than 60 digits behind the point");
        n = number_fixed(number_of(v) * (type == '%' ? 100 : 1), (uint32_t)places, plain);
        if (type == '%') plain[n++] = '%';
    } else if (type == 'e' || type == 'E' || type == 'g' || type == 'G')
        return fail_text(r, CHAT_REFUSED, "the formats e and g of numbers are not supported");
    else if (integer) n = integer_text(integer_of(v), plain);
    else n = f->type ? integer_text((int64_t)v->f, plain) : number_repr(v->f, plain);
    if ((f->plus || f->blank) && plain[0] != '-') text[at++] = f->plus ? '+' : ' ';
    size_t whole = 0;
    while (whole < n && (plain[whole] == '-' || (plain[whole] >= '0' && plain[whole] <= '9'))) whole++;
    for (size_t i = 0; i < n; i++) {
        text[at++] = plain[i];
        if (f->grouped && plain[i] != '-' && i + 1 < whole && (whole - i - 1) % 3 == 0) text[at++] = ',';
    }
    char *copy = room_take(r->room, at);
    if (!copy) return fail_room(r);
    memcpy(copy, text, at);
    *out = string_value(copy, at);
    return true;
}

static bool format_value(struct render *r, const struct spec *f, const struct value *v, struct value *out)
{
    bool number;
    if (!format_plain(r, f, v, out, &number)) return false;
    const size_t n = text_codepoints(out->text, out->n);
    if (f->width <= (int64_t)n) return true;
    if (f->width > 10000) return fail_text(r, CHAT_REFUSED, "a format wider than 10000");
    const size_t more = (size_t)f->width - n;
    if (f->zero && number && !f->left && !f->center && !f->right) {
        const struct value zero = WORDS("0");
        const bool sign = out->n && (out->text[0] == '-' || out->text[0] == '+' || out->text[0] == ' ');
        const struct value head = string_part(out, 0, sign), tail = string_part(out, sign, out->n - sign);
        struct value padded;
        return string_pad(r, &tail, more, 0, &zero, &padded) && string_add(r, &head, &padded, out);
    }
    const bool to_right = f->right || (number && !f->left && !f->center);
    const size_t left = f->center ? more / 2 : to_right ? more : 0;
    const struct value s = *out;
    return string_pad(r, &s, left, more - left, &f->fill, out);
}

bool string_percent(struct render *r, const struct value *format, const struct value *args, struct value *out)
{
    struct list *parts;
    size_t at = 0, used = 0;
    const bool tuple = args->kind == TUPLE;
    const struct value nothing = WORDS("");
    if (!list_new(r, 0, &parts)) return false;
    while (at < format->n) {
        size_t end = at;
        while (end < format->n && format->text[end] != '%') end++;
        if (!list_add(r, parts, string_part(format, at, end - at)) || !charge(r, 1)) return false;
        if (end == format->n) break;
        at = end + 1;
        struct spec f = { .fill = WORDS(" "), .places = -1 };
        struct value key = { .kind = NONE };
        if (at < format->n && format->text[at] == '(') {
            const size_t begin = ++at;
            while (at < format->n && format->text[at] != ')') at++;
            key = string_part(format, begin, at - begin);
            at++;
        }
        for (; at < format->n; at++) {
            const char c = format->text[at];
            if (c == '-') f.left = true;
            else if (c == '0') f.zero = true;
            else if (c == '+') f.plus = true;
            else if (c == ' ') f.blank = true;
            else if (c != '#') break;
        }
        f.right = !f.left && !f.zero;
        digits_of(format, &at, &f.width);
        if (at < format->n && format->text[at] == '.') { at++; digits_of(format, &at, &f.places); }
        if (at >= format->n) return fail_text(r, CHAT_REFUSED, "a format ends behind its %");
        f.type = format->text[at++];
        struct value v;
        if (f.type == '%') { if (!list_add(r, parts, WORDS("%"))) return false; continue; }
        if (key.kind == STRING) {
            const struct value *found = args->kind == DICT ? dict_find(r, args->dict, &key) : NULL;
            if (!found) return fail_text(r, CHAT_REFUSED, "a format names a value that is not there");
            v = *found;
            used = 1;
        } else {
            if (used >= (tuple ? args->list->n : 1)) return fail_text(r, CHAT_REFUSED, "not enough arguments for a format");
            v = tuple ? args->list->items[used] : *args;
            used++;
        }
        if (f.type == 'i' || f.type == 'u') f.type = 'd';
        if (!memchr("srdxXofF", f.type, 8)) return fail_text(r, CHAT_REFUSED, "a format of % that is not supported");
        if (!format_value(r, &f, &v, &v)) return false;
        if (format->safe && !string_escape(r, &v, &v)) return false;
        if (!list_add(r, parts, v)) return false;
    }
    if (used < (tuple ? args->list->n : args->kind == DICT ? 0 : 1))
        return fail_text(r, CHAT_REFUSED, "not all arguments of a format are used");
    if (!string_join(r, &nothing, parts, true, out)) return false;
    out->safe = format->safe;
    return true;
}

/* "name", "0", "a.b[0]" of str.format(). */
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
            if (have.n == name.n && memcmp(have.text, name.text, name.n) == 0) v = &args->named[i];
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
    size_t at = 0;
    const size_t step = s->n ? text_step(s->text, s->n) : 0;
    const bool filled = s->n > step && memchr("<>^=", s->text[step], 4);
    if (filled) { f->fill = string_part(s, 0, step); at = step; }
    if (at < s->n && memchr("<>^=", s->text[at], 4)) {
        f->left = s->text[at] == '<';
        f->right = s->text[at] == '>';
        f->center = s->text[at] == '^';
        at++;
    }
    if (at < s->n && (s->text[at] == '+' || s->text[at] == ' ' || s->text[at] == '-')) {
        f->plus = s->text[at] == '+';
        f->blank = s->text[at++] == ' ';
    }
    if (at < s->n && s->text[at] == '#') at++;
    if (at < s->n && s->text[at] == '0') { f->zero = true; at++; }
    digits_of(s, &at, &f->width);
    if (at < s->n && (s->text[at] == ',' || s->text[at] == '_')) { f->grouped = true; at++; }
    if (at < s->n && s->text[at] == '.') { at++; digits_of(s, &at, &f->places); }
    if (at < s->n) f->type = s->text[at++];
    if (at < s->n || (f->type && !memchr("sdxXofF%", f->type, 8))) return fail_text(r, CHAT_REFUSED, "a format that is not supported");
    return true;
}

bool string_format(struct render *r, const struct value *format, const struct arguments *args, struct value *out)
{
    struct list *parts;
    uint32_t next = 0;
    const struct value nothing = WORDS("");
    if (!list_new(r, 0, &parts)) return false;
    for (size_t at = 0; at < format->n; ) {
        const size_t begin = at;
        if (!charge(r, 1)) return false;
        const char c = format->text[at];
        if ((c == '{' || c == '}') && at + 1 < format->n && format->text[at + 1] == c) {
            if (!list_add(r, parts, string_part(format, at, 1))) return false;
            at += 2;
            continue;
        }
        if (c == '}') return fail_text(r, CHAT_REFUSED, "a single } in a format");
        if (c != '{') {
            while (at < format->n && format->text[at] != '{' && format->text[at] != '}') at++;
            if (!list_add(r, parts, string_part(format, begin, at - begin))) return false;
            continue;
        }
        size_t end = at + 1, colon, name_end;
        while (end < format->n && format->text[end] != '}' && format->text[end] != '{') end++;
        if (end == format->n || format->text[end] == '{') return fail_text(r, CHAT_REFUSED, "a { of a format that is not supported");
        for (colon = at + 1; colon < end && format->text[colon] != ':'; colon++) { }
        for (name_end = at + 1; name_end < colon && format->text[name_end] != '!'; name_end++) { }
        const struct value field = string_part(format, at + 1, name_end - at - 1);
        const struct value spec = string_part(format, colon < end ? colon + 1 : end, colon < end ? end - colon - 1 : 0);
        struct spec f = { .fill = WORDS(" "), .places = -1 };
        struct value v;
        if (!format_field(r, &field, args, &next, &v) || !parse_spec(r, &spec, &f)) return false;
        if (name_end + 2 == colon) {
            const char convert = format->text[name_end + 1];
            const struct spec whole = { .type = convert == 'r' ? 'r' : 's', .places = -1 };
            if (!format_value(r, &whole, &v, &v)) return false;
        }
        if (!format_value(r, &f, &v, &v)) return false;
        if (format->safe && !string_escape(r, &v, &v)) return false;
        if (!list_add(r, parts, v)) return false;
        at = end + 1;
    }
    if (!string_join(r, &nothing, parts, true, out)) return false;
    out->safe = format->safe;
    return true;
}
