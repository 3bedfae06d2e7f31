/* expr.c -- recursive descent over the text; each function parses what its name says and moves p past it. */
#include "expr.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64, LONGEST_NAME = 64 };

struct expr_parser {
    const char  *p, *text;
    struct place at;
    expr_find   *find;
    void        *context;
    uint32_t     depth;
};

static double read_or(struct expr_parser *r);

_Noreturn static void wrong(const struct expr_parser *r, const char *what)
{
    die_at(r->at, "\"%.80s\": %s at \"%.20s\"", r->text, what, *r->p ? r->p : "its end");
}

static void skip_blanks(struct expr_parser *r) { while (*r->p == ' ' || *r->p == '\t' || *r->p == '\n') r->p++; }

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Accepts a word or an operator, and the blanks after it. */
static bool take(struct expr_parser *r, const char *what)
{
    const size_t n = strlen(what);
    if (strncmp(r->p, what, n) || (is_name(*what) && is_name(r->p[n]))) return false;
    r->p += n;
    skip_blanks(r);
    return true;
}

static double read_number(struct expr_parser *r)
{
    char digits[64];
    size_t n = strspn(r->p, "0123456789.");
    if (r->p[n] == 'e' || r->p[n] == 'E') {
        n += r->p[n + 1] == '+' || r->p[n + 1] == '-' ? 2 : 1;
        n += strspn(r->p + n, "0123456789");
    }
    if (n >= sizeof digits) wrong(r, "a number too long");
    memcpy(digits, r->p, n);
    digits[n] = 0;
    char *end;
    const double x = strtod(digits, &end);
    if (*end || is_name(r->p[n])) wrong(r, "no number");
    r->p += n;
    skip_blanks(r);
    return x;
}

static double read_arguments(struct expr_parser *r, double *second)
{
    if (!take(r, "(")) wrong(r, "expected (");
    const double x = read_or(r);
    if (second) {
        if (!take(r, ",")) wrong(r, "expected ,");
        *second = read_or(r);
    }
    if (!take(r, ")")) wrong(r, "expected )");
    return x;
}

static double read_name(struct expr_parser *r)
{
    char name[LONGEST_NAME];
    size_t n = 0;
    double x;
    while (is_name(r->p[n])) n++;
    if (n >= sizeof name) wrong(r, "a name too long");
    memcpy(name, r->p, n);
    name[n] = 0;
    if (!r->find(r->context, r->at, name, &x)) die_at(r->at, "\"%.80s\": there is no parameter %s", r->text, name);
    r->p += n;
    skip_blanks(r);
    return x;
}

static double read_atom(struct expr_parser *r)
{
    double x, y;
    if (take(r, "(")) {
        x = read_or(r);
        if (!take(r, ")")) wrong(r, "expected )");
        return x;
    }
    if (take(r, "sqrt"))  return sqrt(read_arguments(r, NULL));
    if (take(r, "ln"))    return log(read_arguments(r, NULL));
    if (take(r, "floor")) return floor(read_arguments(r, NULL));
    if (take(r, "pow"))   { x = read_arguments(r, &y); return pow(x, y); }
    if (take(r, "min"))   { x = read_arguments(r, &y); return fmin(x, y); }
    if (take(r, "max"))   { x = read_arguments(r, &y); return fmax(x, y); }
    if (take(r, "true"))  return 1;
    if (take(r, "false")) return 0;
    if (isdigit((unsigned char)*r->p) || *r->p == '.') return read_number(r);
    if (is_name(*r->p)) return read_name(r);
    wrong(r, "expected a number or a name");
}

static double read_unary(struct expr_parser *r)
{
    if (++r->depth > DEEPEST) wrong(r, "nested too deep");
    const double x = take(r, "-") ? -read_unary(r) : read_atom(r);
    r->depth--;
    return x;
}

static double read_product(struct expr_parser *r)
{
    double x = read_unary(r);
    for (;;) {
        if (take(r, "*")) x *= read_unary(r);
        else if (take(r, "/")) x /= read_unary(r);
        else if (take(r, "%")) {
            const double y = read_unary(r);
            x -= floor(x / y) * y;
        }
        else return x;
    }
}

static double read_sum(struct expr_parser *r)
{
    double x = read_product(r);
    for (;;) {
        if (take(r, "+")) x += read_product(r);
        else if (take(r, "-")) x -= read_product(r);
        else return x;
    }
}

static double read_comparison(struct expr_parser *r)
{
    const double x = read_sum(r);
    if (take(r, "==")) return x == read_sum(r);
    if (take(r, "!=")) return x != read_sum(r);
    if (take(r, "<=")) return x <= read_sum(r);
    if (take(r, ">=")) return x >= read_sum(r);
    if (take(r, "<"))  return x < read_sum(r);
    if (take(r, ">"))  return x > read_sum(r);
    return x;
}

static double read_not(struct expr_parser *r)
{
    uint32_t n = 0;
    while (take(r, "not")) n++;
    const double x = read_comparison(r);
    return n == 0 ? x : (x == 0) == (n % 2 == 1);
}

static double read_and(struct expr_parser *r)
{
    double x = read_not(r);
    while (take(r, "and")) {
        const double y = read_not(r);
        x = x != 0 && y != 0;
    }
    return x;
}

static double read_or(struct expr_parser *r)
{
    if (++r->depth > DEEPEST) wrong(r, "nested too deep");
    double x = read_and(r);
    while (take(r, "or")) {
        const double y = read_and(r);
        x = x != 0 || y != 0;
    }
    r->depth--;
    return x;
}

bool expr_is_compound(const char *text)
{
    if (strncmp(text, "not ", 4) == 0) return true;
    const size_t word = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    const char *rest = text + word + strspn(text + word, " ");
    char *end;
    (void)(strtod(text, &end) != 0);
    return *rest && *end;
}

bool expr_names(const char *text, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = text; (p = strstr(p, name)); p += n)
        if ((p == text || !is_name(p[-1])) && !is_name(p[n])) return true;
    return false;
}

double expr_any_value(struct place at, const char *text, expr_find *find, void *context)
{
    struct expr_parser r = { .p = text, .text = text, .at = at, .find = find, .context = context };
    skip_blanks(&r);
    const double x = read_or(&r);
    if (*r.p) wrong(&r, "expected an operator");
    return x;
}

double expr_value(struct place at, const char *text, expr_find *find, void *context)
{
    const double x = expr_any_value(at, text, find, context);
    if (!isfinite(x)) die_at(at, "\"%.80s\" is not a finite number", text);
    return x;
}
