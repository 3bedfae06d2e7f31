/* lex.c -- see lex.h. Rules of white space: jinja2/lexer.py (3.1), Lexer.__init__ and tokeniter. */
#include "lex.h"
#include "runtime/chat/text.h"
#include <string.h>

struct lexer {
    struct arena        *arena;
    const char          *at, *end;
    uint32_t             line;
    bool                 line_starts;      /* the last token ended with a newline */
    struct token        *tokens;
    size_t               n, capacity;
    struct chat_problem *problem;
};

static bool fail(struct lexer *l, const char *text)
{
    *l->problem = (struct chat_problem){ l->line, text };
    return false;
}

static struct token *add(struct lexer *l, enum token_kind kind, const char *text, size_t n)
{
    arena_room(l->arena, l->tokens, l->n, l->capacity);
    struct token *t = &l->tokens[l->n++];
    *t = (struct token){ kind, l->line, text, n, 0 };
    return t;
}

static void pass(struct lexer *l, size_t n)
{
    for (size_t i = 0; i < n; i++) l->line += l->at[i] == '\n';
    l->at += n;
}

static bool starts(const struct lexer *l, const char *text) { return text_starts(l->at, (size_t)(l->end - l->at), text, strlen(text)); }

static void pass_space(struct lexer *l) { pass(l, text_space_prefix(l->at, (size_t)(l->end - l->at))); }

/* \r\n and \r become \n; one newline at the end is removed. */
static void normalize(struct lexer *l, const char *source, size_t n)
{
    char *copy = arena_alloc(l->arena, n + 1);
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        copy[to++] = source[i] == '\r' ? '\n' : source[i];
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n') i++;
    }
    if (to && copy[to - 1] == '\n') to--;
    l->at = copy;
    l->end = copy + to;
}

/* Adds text before a tag: "-" removes the white space at its end, and blanks at the beginning of a line are removed before {% and {#. */
static void add_text(struct lexer *l, size_t n, char sign, bool is_output)
{
    const char *text = l->at;
    size_t keep = n;
    if (sign == '-') keep = n - text_space_suffix(text, n);
    else if (sign != '+' && !is_output) {
        size_t line = n;
        while (line > 0 && text[line - 1] != '\n') line--;
        if ((line > 0 || l->line_starts) && text_space_prefix(text + line, n - line) == n - line) keep = line;
    }
    if (keep) add(l, TOKEN_TEXT, text, keep);
    pass(l, n);
}

/* Skips one newline after %} and #}. */
static void pass_newline(struct lexer *l)
{
    l->line_starts = l->at < l->end && *l->at == '\n';
    if (l->line_starts) pass(l, 1);
}

/* Skips the end of a tag, with "-" or "+" before it. */
static bool pass_end(struct lexer *l, const char *closing, bool trims)
{
    const bool minus = *l->at == '-' && l->end - l->at > 2 && text_starts(l->at + 1, (size_t)(l->end - l->at) - 1, closing, 2);
    const bool plus = trims && *l->at == '+' && l->end - l->at > 2 && text_starts(l->at + 1, (size_t)(l->end - l->at) - 1, closing, 2);
    if (!minus && !plus && !starts(l, closing)) return false;
    pass(l, minus || plus ? 3 : 2);
    l->line_starts = false;
    if (minus) {
        pass_space(l);
        l->line_starts = l->at[-1] == '\n';
    } else if (!plus && trims) pass_newline(l);
    return true;
}

/* The length of a tag like "{%- raw -%}" at p; 0: there is no such tag. word: raw or endraw. */
static size_t raw_tag(const struct lexer *l, const char *p, const char *word, char *sign, char *closing)
{
    const char *q = p + 2;
    *sign = q < l->end && (*q == '-' || *q == '+') ? *q++ : 0;
    q += text_space_prefix(q, (size_t)(l->end - q));
    if (!text_starts(q, (size_t)(l->end - q), word, strlen(word))) return 0;
    q += strlen(word);
    q += text_space_prefix(q, (size_t)(l->end - q));
    *closing = q < l->end && (*q == '-' || *q == '+') ? *q++ : 0;
    if (!text_starts(q, (size_t)(l->end - q), "%}", 2)) return 0;
    return (size_t)(q + 2 - p);
}

static bool lex_raw(struct lexer *l, char closing)
{
    char sign, last;
    if (closing == '-') pass_space(l);
    for (const char *p = l->at; p + 1 < l->end; p++) {
        if (p[0] != '{' || p[1] != '%') continue;
        const size_t n = raw_tag(l, p, "endraw", &sign, &last);
        if (!n) continue;
        l->line_starts = false;
        add_text(l, (size_t)(p - l->at), sign, false);
        pass(l, n);
        l->line_starts = false;
        if (last == '-') pass_space(l);
        else if (last != '+') pass_newline(l);
        return true;
    }
    return fail(l, "{% raw %} without {% endraw %}");
}

static bool lex_comment(struct lexer *l)
{
    for (; l->at + 1 < l->end; pass(l, 1))
        if (pass_end(l, "#}", true)) return true;
    return fail(l, "a comment {# without #}");
}

/* ---- inside tags ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80); }

static int hex_value(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Reads n hexadecimal digits at p. */
static bool hex_digits(const char *p, const char *end, int n, uint32_t *c)
{
    *c = 0;
    if (end - p < n) return false;
    for (int i = 0; i < n; i++) {
        if (hex_value(p[i]) < 0) return false;
        *c = *c << 4 | (uint32_t)hex_value(p[i]);
    }
    return true;
}

/* Python's escapes except \N{name}; an unknown escape stays unchanged. */
static bool lex_string(struct lexer *l)
{
    const char quote = *l->at;
    const char *p = l->at + 1;
    while (p < l->end && *p != quote) p += *p == '\\' && p + 1 < l->end ? 2 : 1;
    if (p >= l->end) return fail(l, "a string without an end");
    const char *const stop = p;
    char *to = arena_alloc(l->arena, (size_t)(stop - l->at) + 4);
    size_t n = 0;
    for (p = l->at + 1; p < stop; ) {
        if (*p != '\\') { to[n++] = *p++; continue; }
        static const char from[] = "\\'\"abfnrtv", into[] = "\\'\"\a\b\f\n\r\t\v";
        const char *const known = p[1] ? strchr(from, p[1]) : NULL;
        const int wide = p[1] == 'x' ? 2 : p[1] == 'u' ? 4 : p[1] == 'U' ? 8 : 0;
        uint32_t c = 0, low;
        if (known) { to[n++] = into[known - from]; p += 2; continue; }
        if (p[1] == '\n') { p += 2; continue; }
        if (p[1] == 'N') return fail(l, "\\N{...} in a string is not supported");
        if (wide) {
            if (!hex_digits(p + 2, stop, wide, &c) || c >= 0x110000) return fail(l, "\\x, \\u or \\U in a string without its digits");
            p += 2 + wide;
            if (c >= 0xd800 && c < 0xdc00 && stop - p >= 6 && p[0] == '\\' && p[1] == 'u' && hex_digits(p + 2, stop, 4, &low) &&
                low >= 0xdc00 && low < 0xe000) {
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                p += 6;
            }
            if (c >= 0xd800 && c < 0xe000) c = 0xfffd;
        } else if (p[1] >= '0' && p[1] <= '7') {
            for (p++; p < stop && *p >= '0' && *p <= '7' && c < 64; p++) c = c * 8 + (uint32_t)(*p - '0');
        } else { to[n++] = *p++; continue; }
        n += text_put_codepoint(to + n, c);
    }
    add(l, TOKEN_STRING, to, n);
    pass(l, (size_t)(stop + 1 - l->at));
    return true;
}

/* Skips digits from p on, and "_" between two of them; returns where they end. */
static const char *pass_digits(const char *p, const char *end)
{
    while (p < end && (is_digit(*p) || (*p == '_' && p + 1 < end && is_digit(p[1])))) p++;
    return p;
}

static void lex_number(struct lexer *l)
{
    const char *const begin = l->at, *p = begin;
    bool whole = true;
    const char base = p + 1 < l->end && *p == '0' ? (char)(p[1] | 32) : 0;
    if (base == 'x' || base == 'o' || base == 'b') {
        const int most = base == 'x' ? 16 : base == 'o' ? 8 : 2;
        for (p += 2; p < l->end && ((hex_value(*p) >= 0 && hex_value(*p) < most) || *p == '_'); p++) { }
        if (p == begin + 2) p = begin + 1;
    } else {
        p = pass_digits(p, l->end);
        const bool after_dot = l->n && l->tokens[l->n - 1].kind == TOKEN_OPERATOR && l->tokens[l->n - 1].op == '.' && l->at[-1] == '.';
        if (!after_dot && p + 1 < l->end && *p == '.' && is_digit(p[1])) { p = pass_digits(p + 1, l->end); whole = false; }
        const char *e = p;
        if (!after_dot && e < l->end && (*e | 32) == 'e') {
            e++;
            if (e < l->end && (*e == '+' || *e == '-')) e++;
            if (e < l->end && is_digit(*e)) { p = pass_digits(e, l->end); whole = false; }
        }
        if (whole && *begin == '0')                           /* 0 and zeros only */
            for (p = begin + 1; p < l->end && (*p == '0' || (*p == '_' && p + 1 < l->end && p[1] == '0')); p++) { }
    }
    char *digits = arena_alloc(l->arena, (size_t)(p - begin) + 1);
    size_t n = 0;
    for (const char *q = begin; q < p; q++) if (*q != '_') digits[n++] = *q;
    add(l, whole ? TOKEN_INTEGER : TOKEN_FLOAT, digits, n);
    pass(l, (size_t)(p - begin));
}

enum { MOST_BRACKETS = 256 };

static bool lex_operator(struct lexer *l, char *open, size_t *n_open)
{
    static const struct { const char *text; int op; } pairs[] = {
        { "==", OP_EQ }, { "!=", OP_NE }, { "<=", OP_LE }, { ">=", OP_GE }, { "//", OP_FLOOR }, { "**", OP_POWER },
    };
    const char c = *l->at;
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        if (!starts(l, pairs[i].text)) continue;
        add(l, TOKEN_OPERATOR, l->at, 2)->op = pairs[i].op;
        pass(l, 2);
        return true;
    }
    if (!c || !strchr("+-/*%~[](){}><=.:|,;", c))
        return fail(l, arena_printf(l->arena, "the character '%s' is not allowed here", printable(l->arena, l->at, 1)));
    if (strchr("([{", c)) {
        if (*n_open == MOST_BRACKETS) return fail(l, "brackets are nested deeper than 256");
        open[(*n_open)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (strchr(")]}", c)) {
        if (!*n_open || open[*n_open - 1] != c) return fail(l, arena_printf(l->arena, "'%c' has no opening bracket", c));
        --*n_open;
    }
    add(l, TOKEN_OPERATOR, l->at, 1)->op = c;
    pass(l, 1);
    return true;
}

static bool lex_tag(struct lexer *l, bool is_output)
{
    char open[MOST_BRACKETS];
    size_t n_open = 0;
    const char *const closing = is_output ? "}}" : "%}";
    for (;;) {
        pass_space(l);
        if (l->at >= l->end) return fail(l, is_output ? "{{ without }}" : "{% without %}");
        const uint32_t line = l->line;
        if (!n_open && pass_end(l, closing, !is_output)) {
            add(l, is_output ? TOKEN_OUTPUT_END : TOKEN_TAG_END, closing, 2)->line = line;
            return true;
        }
        const char c = *l->at;
        if (c == '"' || c == '\'') {
            if (!lex_string(l)) return false;
        } else if (is_digit(c)) lex_number(l);
        else if (is_letter(c)) {
            const char *p = l->at;
            while (p < l->end && (is_letter(*p) || is_digit(*p))) p++;
            add(l, TOKEN_NAME, l->at, (size_t)(p - l->at));
            pass(l, (size_t)(p - l->at));
        } else if (!lex_operator(l, open, &n_open)) return false;
    }
}

/* Text, and the tag after it. */
static bool lex_next(struct lexer *l)
{
    const char *p = l->at, *const begin = l->at;
    while (p + 1 < l->end && !(p[0] == '{' && (p[1] == '%' || p[1] == '{' || p[1] == '#'))) p++;
    if (p + 1 >= l->end) {
        add(l, TOKEN_TEXT, begin, (size_t)(l->end - begin));
        pass(l, (size_t)(l->end - begin));
        return true;
    }
    char sign, closing = 0;
    const char kind = p[1];
    const size_t raw = kind == '%' ? raw_tag(l, p, "raw", &sign, &closing) : 0;
    if (raw && closing == '+') return fail(l, "{% raw +%} is not allowed; write {% raw %}");
    sign = p + 2 < l->end && (p[2] == '-' || p[2] == '+') ? p[2] : 0;
    add_text(l, (size_t)(p - begin), sign, kind == '{');
    if (raw) {
        pass(l, raw);
        return lex_raw(l, closing);
    }
    if (kind != '#') add(l, kind == '{' ? TOKEN_OUTPUT_BEGIN : TOKEN_TAG_BEGIN, l->at, 2);
    pass(l, sign ? 3 : 2);
    return kind == '#' ? lex_comment(l) : lex_tag(l, kind == '{');
}

struct token *chat_lex(struct arena *a, const char *source, size_t n, struct chat_problem *problem)
{
    struct lexer l = { .arena = a, .line = 1, .line_starts = true, .problem = problem };
    normalize(&l, source, n);
    while (l.at < l.end) if (!lex_next(&l)) return NULL;
    add(&l, TOKEN_END, "", 0);
    return l.tokens;
}
