/* schema_numbers.c -- ranges of numbers as grammars. */
#include "schema_writer.h"

enum { DIGITS = 19 };
static void put_any_digits(struct writer *w, uint32_t n)
{
    if (n == 0) return;
    PUT(" [0-9]{");
    schema_put_number(w->out, n);
    PUT("}");
}
static void put_digit_range(struct writer *w, char from, char to)
{
    PUT("[");
    text_out_char(w->out, from);
    if (to > from) { text_out_char(w->out, '-'); text_out_char(w->out, to); }
    PUT("]");
}
static bool all_are(const char *digits, uint32_t n, char what)
{
    for (uint32_t i = 0; i < n; i++) if (digits[i] != what) return false;
    return true;
}

/* n digits that are at least, or at most, these. */
static void put_side(struct writer *w, const char *digits, uint32_t n, bool least)
{
    if (n == 0) return;
    if (all_are(digits, n, least ? '0' : '9')) { put_any_digits(w, n); return; }
    PUT(" (");
    put_digit_range(w, *digits, *digits);
    put_side(w, digits + 1, n - 1, least);
    if (*digits != (least ? '9' : '0')) {
        PUT(" | ");
        put_digit_range(w, least ? (char)(*digits + 1) : '0', least ? '9' : (char)(*digits - 1));
        put_any_digits(w, n - 1);
    }
    PUT(")");
}

/* Numbers a .. b of n digits each. */
static void put_same_length(struct writer *w, const char *a, const char *b, uint32_t n)
{
    uint32_t i = 0;
    for (; i < n && a[i] == b[i]; i++) { PUT(" "); put_digit_range(w, a[i], a[i]); }
    if (i == n) return;
    const char low = all_are(a + i + 1, n - i - 1, '0') ? a[i] : (char)(a[i] + 1);
    const char high = all_are(b + i + 1, n - i - 1, '9') ? b[i] : (char)(b[i] - 1);
    const char *between = "";
    PUT(" (");
    if (low > a[i]) {
        put_digit_range(w, a[i], a[i]);
        put_side(w, a + i + 1, n - i - 1, true);
        between = " | ";
    }
    if (low <= high) {
        put_text(w->out, between);
        put_digit_range(w, low, high);
        put_any_digits(w, n - i - 1);
        between = " | ";
    }
    if (high < b[i]) {
        put_text(w->out, between);
        put_digit_range(w, b[i], b[i]);
        put_side(w, b + i + 1, n - i - 1, false);
    }
    PUT(")");
}

static uint32_t digits_of(uint64_t x, char *digits)
{
    struct text_out out = { digits, DIGITS + 1, 0, false };
    schema_put_number(&out, x);
    return (uint32_t)out.n;
}

/* low .. high, as alternatives. */
static void put_range(struct writer *w, uint64_t low, uint64_t high)
{
    char a[DIGITS + 1], b[DIGITS + 1], lowest[DIGITS + 1], highest[DIGITS + 1];
    const uint32_t n_a = digits_of(low, a), n_b = digits_of(high, b);
    for (uint32_t n = n_a; n <= n_b; n++) {
        for (uint32_t i = 0; i < n; i++) { lowest[i] = i == 0 && n > 1 ? '1' : '0'; highest[i] = '9'; }
        if (n > n_a) PUT(" |");
        put_same_length(w, n == n_a ? a : lowest, n == n_b ? b : highest, n);
    }
}

/* As many digits as a double surely has, or as the bound has. */
#define MOST_INTEGER 9999999999999999

struct interval { int64_t low, high; bool bounded; };

static void put_signed_range(struct writer *w, int64_t low, int64_t high, const char *behind)
{
    const char *between = "";
    if (low > high) { PUT("[]"); return; }
    if (low < 0) {
        PUT("\"-\" (");
        put_range(w, high < 0 ? 0 - (uint64_t)high : 1, 0 - (uint64_t)low);
        PUT(")");
        put_text(w->out, behind);
        between = " | ";
    }
    if (high < 0) return;
    put_text(w->out, between);
    PUT("(");
    put_range(w, low < 0 ? 0 : (uint64_t)low, (uint64_t)high);
    PUT(")");
    put_text(w->out, behind);
}

/* One bound as an integer, with its fraction towards the inside; *open: an integer that is itself not allowed, *cut: it had a fraction. */
static bool read_bound(struct writer *w, const struct json *s, bool least, int64_t *out, bool *there, bool *open, bool *cut)
{
    const struct json *v = json_member(s, least ? "minimum" : "maximum");
    const struct json *x = json_member(s, least ? "exclusiveMinimum" : "exclusiveMaximum");
    double a = 0, b = 0;
    *open = *cut = false;
    *there = v || x;
    if (!*there) return true;
    if ((v && !json_real(v, &a)) || (x && !json_real(x, &b))) return schema_fail_word(w, least ? "minimum" : "maximum", "is no number");
    if (x && (!v || (least ? b >= a : b <= a))) { *open = true; v = x; a = b; }
    if (json_integer(v, -(INT64_MAX / 10), INT64_MAX / 10, out)) return true;
    if (!(a > -9e15 && a < 9e15)) return schema_fail_word(w, least ? "minimum" : "maximum", "is beyond 18 digits");
    *out = (int64_t)a;
    if ((double)*out == a) return true;
    *cut = true;
    *open = false;
    *out += least ? a > 0 : -(a < 0);
    return true;
}

bool schema_put_numeric(struct writer *w, const struct json *s, bool whole)
{
    int64_t low = -MOST_INTEGER, high = MOST_INTEGER;
    bool has_low, has_high, open_low, open_high, cut_low, cut_high;
    if (!read_bound(w, s, true, &low, &has_low, &open_low, &cut_low) || !read_bound(w, s, false, &high, &has_high, &open_high, &cut_high))
        return false;
    if (!has_low && !has_high) { schema_put_known(w, whole ? "integer" : "number"); return true; }
    if (!whole && (cut_low || cut_high))
        return schema_fail_word(w, cut_low ? "minimum" : "maximum", "has a fraction; bounds of numbers are integers");
    if (!has_low && high < -MOST_INTEGER) low = -INT64_MAX;
    if (!has_high && low > MOST_INTEGER) high = INT64_MAX;
    const int64_t first = low + open_low, last = high - open_high;
    if (first > last && (whole || low >= high)) return schema_fail_word(w, has_low ? "minimum" : "maximum", "leaves no number");
    PUT("(");
    put_signed_range(w, first, last, whole ? "" : " (\".0\")?");
    /* Between integers: n.fraction from low to below high, -n.fraction from below -low to -high. */
    if (!whole && high > 0 && high > low) {
        PUT(" | (");
        put_range(w, low > 0 ? (uint64_t)low : 0, (uint64_t)high - 1);
        PUT(") \".\" ");
        schema_put_known(w, "fraction");
    }
    if (!whole && low < 0 && high > low) {
        PUT(" | \"-\" (");
        put_range(w, high < 0 ? 0 - (uint64_t)high : 0, 0 - (uint64_t)low - 1);
        PUT(") \".\" ");
        schema_put_known(w, "fraction");
    }
    PUT(")");
    return true;
}
