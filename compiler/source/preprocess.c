/* preprocess.c -- see preprocess.h. Expansion works on a list: a macro's body, followed by a mark, replaces the macro's name. The result is
 * scanned again together with the following tokens, so that ROW_BYTES(FORMAT)(cols) finds the macro that the first call names. */
#include "preprocess.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- names and tokens ---- */

struct symbol *symbol_of(struct preprocessor *p, const char *name, size_t n)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < n; i++) hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    struct symbol **place = &p->table[hash % COUNT_OF(p->table)];
    for (struct symbol *s = *place; s; s = s->next) if (strlen(s->name) == n && memcmp(s->name, name, n) == 0) return s;
    struct symbol *s = arena_new(p->arena, struct symbol);
    *s = (struct symbol){ .name = arena_strndup(p->arena, name, n), .next = *place };
    return *place = s;
}

void symbol_absent(struct preprocessor *p, const char *name) { symbol_of(p, name, strlen(name))->absent = true; }

static bool starts_name(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The size of a literal with its quotes; a literal without a closing quote ends with the line. */
static size_t literal_size(const char *s, const char *end)
{
    const char *at = s + 1;
    while (at < end && *at != *s && *at != '\n') at += *at == '\\' && at + 1 < end ? 2 : 1;
    return (size_t)(at - s) + (at < end && *at == *s);
}

static size_t number_size(const char *s, const char *end)
{
    const char *at = s;
    while (at < end && (in_name(*at) || *at == '.' || ((*at == '+' || *at == '-') && strchr("eEpP", at[-1]) && s[0] == '0'))) at++;
    return (size_t)(at - s);
}

static size_t sign_size(const char *s, const char *end)
{
    static const char *const twos[] = { "##", "->", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>" };
    for (uint32_t i = 0; i < COUNT_OF(twos) && s + 1 < end; i++) if (memcmp(s, twos[i], 2) == 0) return 2;
    return 1;
}

/* The position after the blanks, comments and line continuations that begin at s. */
static const char *skip_space(const char *s, const char *end)
{
    while (s < end) {
        if (isspace((unsigned char)*s)) s++;
        else if (*s == '\\' && s + 1 < end && s[1] == '\n') s += 2;
        else if (*s == '/' && s + 1 < end && s[1] == '/') while (s < end && *s != '\n') s++;
        else if (*s == '/' && s + 1 < end && s[1] == '*') {
            const char *close = memmem(s + 2, (size_t)(end - s - 2), "*/", 2);
            s = close ? close + 2 : end;
        }
        else break;
    }
    return s;
}

static struct token *token_new(struct preprocessor *p, const char *text, size_t n)
{
    struct token *t = arena_new(p->arena, struct token);
    *t = (struct token){ .text = text, .size = (uint32_t)n, .symbol = starts_name(*text) ? symbol_of(p, text, n) : NULL };
    return t;
}

static size_t name_size(const char *s, const char *end)
{
    const char *at = s;
    while (at < end && in_name(*at)) at++;
    return (size_t)(at - s);
}

static struct token *token_read(struct preprocessor *p, const char **at, const char *end)
{
    const char *s = *at;
    const size_t n = starts_name(*s) ? name_size(s, end)
                     : *s == '"' || *s == '\'' ? literal_size(s, end)
                     : isdigit((unsigned char)*s) ? number_size(s, end) : sign_size(s, end);
    *at = s + n < end ? s + n : end;
    return token_new(p, s, (size_t)(*at - s));
}

struct token *tokens_of(struct preprocessor *p, const char *text, size_t n)
{
    struct token *first = NULL, **last = &first;
    const char *copy = arena_strndup(p->arena, text, n), *end = copy + n;
    for (const char *at = skip_space(copy, end); at < end; at = skip_space(at, end)) {
        *last = token_read(p, &at, end);
        last = &(*last)->next;
    }
    return first;
}

static bool is(const struct token *t, const char *text) { return t && t->size == strlen(text) && memcmp(t->text, text, t->size) == 0; }

static struct token *token_copy(struct preprocessor *p, const struct token *t)
{
    struct token *copy = arena_new(p->arena, struct token);
    *copy = *t;
    copy->next = NULL;
    return copy;
}

static struct token *list_copy(struct preprocessor *p, const struct token *t)
{
    struct token *first = NULL, **last = &first;
    for (; t; t = t->next, last = &(*last)->next) *last = token_copy(p, t);
    return first;
}

/* ---- definitions ---- */

/* Reads parameters "name, other, ...)" into m. Returns the token after ")". */
static struct token *read_parameters(struct preprocessor *p, struct macro *m, struct token *t)
{
    struct symbol *list[64];
    for (; t && !is(t, ")"); t = t->next) {
        if (is(t, ".")) m->variadic = true;
        if (t->symbol && m->n_parameters < COUNT_OF(list) - 1) list[m->n_parameters++] = t->symbol;
    }
    if (m->variadic) list[m->n_parameters++] = symbol_of(p, "__VA_ARGS__", 11);
    m->parameters = arena_array(p->arena, struct symbol *, m->n_parameters);
    for (uint32_t i = 0; i < m->n_parameters; i++) m->parameters[i] = list[i];
    return t ? t->next : NULL;
}

struct macro *macro_define(struct preprocessor *p, const char *text, size_t n, bool maybe)
{
    struct token *t = tokens_of(p, text, n);
    if (!t || !t->symbol) return NULL;
    struct macro *m = arena_new(p->arena, struct macro);
    struct symbol *s = m->symbol = t->symbol;
    const char *behind = skip_space(text, text + n) + t->size;
    m->takes_arguments = behind < text + n && *behind == '(';
    m->body = m->takes_arguments ? read_parameters(p, m, t->next->next) : t->next;
    m->also = maybe ? s->macro : NULL;
    s->maybe = maybe && (!s->macro || s->maybe);
    s->macro = m;
    return m;
}

void macro_undefine(struct preprocessor *p, const char *name, size_t n, bool maybe)
{
    struct symbol *s = symbol_of(p, name, n);
    s->maybe = maybe;
    if (!maybe) s->macro = NULL;
}

/* ---- expansion ---- */

struct argument { struct token *raw, *expanded; };

/* Skips marks, which end the expansion of their macros. */
static struct token *behind_marks(struct token *t)
{
    for (; t && t->ends; t = t->next) t->ends->busy = false;
    return t;
}

/* Reads the arguments after "(". Returns the token after ")" and sets *closed; NULL with *closed unchanged: the text ends before ")". */
static struct token *read_arguments(struct preprocessor *p, const struct macro *m, struct argument *arguments, struct token *t,
                                    bool *closed)
{
    uint32_t i = 0, depth = 0;
    struct token **last = &arguments[0].raw;
    for (; t; t = t->next) {
        if (t->ends) { t->ends->busy = false; continue; }
        if (depth == 0 && is(t, ")")) { *closed = true; return t->next; }
        if (depth == 0 && is(t, ",") && i + 1 < m->n_parameters) { last = &arguments[++i].raw; continue; }
        depth += is(t, "(");
        depth -= is(t, ")");
        *last = token_copy(p, t);
        last = &(*last)->next;
    }
    return NULL;
}

static struct argument *argument_of(const struct macro *m, struct argument *arguments, const struct token *t)
{
    for (uint32_t i = 0; t->symbol && i < m->n_parameters; i++) if (m->parameters[i] == t->symbol) return &arguments[i];
    return NULL;
}

static struct token *pasted(struct preprocessor *p, const struct token *a, const struct token *b)
{
    char *text = arena_alloc(p->arena, (size_t)a->size + b->size);
    memcpy(text, a->text, a->size);
    memcpy(text + a->size, b->text, b->size);
    return token_new(p, text, (size_t)a->size + b->size);
}

/* Appends a copy of list at *last. join: the token before was followed by "##", so the first token is joined with it. */
static void append_list(struct preprocessor *p, struct token ***last, struct token **tail, const struct token *list, bool join)
{
    for (; list; list = list->next) {
        if (join && *tail) {
            struct token *t = pasted(p, *tail, list);
            (*tail)->text = t->text, (*tail)->size = t->size, (*tail)->symbol = t->symbol;
        } else {
            **last = *tail = token_copy(p, list);
            *last = &(*tail)->next;
        }
        join = false;
    }
}

/* The body of m with its parameters replaced by the arguments. */
static struct token *substituted(struct preprocessor *p, const struct macro *m, struct argument *arguments)
{
    struct token *first = NULL, **last = &first, *tail = NULL;
    bool join = false;
    for (struct token *t = m->body; t; t = t->next) {
        if (is(t, "##")) { join = true; continue; }
        if (is(t, "#") && m->takes_arguments) continue;         /* the result is a string, which uses no names */
        struct argument *argument = m->takes_arguments ? argument_of(m, arguments, t) : NULL;
        struct token one = *t;
        one.next = NULL;
        append_list(p, &last, &tail, !argument ? &one : join || is(t->next, "##") ? argument->raw : argument->expanded, join);
        join = false;
    }
    return first;
}

static void meet(struct preprocessor *p, struct macro *m)
{
    p->uncertain |= m->also || m->symbol->maybe;
    for (; m && p->meets; m = m->also) p->meets(p->context, m);
}

/* The expansion of the macro at t, followed by the tokens after its call. NULL with *is_call false: the macro needs arguments and has none
 * here. */
static struct token *replaced(struct preprocessor *p, struct macro *m, struct token *t, bool *is_call)
{
    struct argument *arguments = m->n_parameters ? arena_array(p->arena, struct argument, m->n_parameters) : NULL, none = { 0 };
    struct token *rest = t->next;
    *is_call = true;
    meet(p, m);
    if (m->takes_arguments) {
        bool closed = false;
        struct token *open = rest;
        while (open && open->ends) open = open->next;
        if (!is(open, "(")) { *is_call = false; return NULL; }
        behind_marks(rest);
        rest = read_arguments(p, m, arguments ? arguments : &none, open->next, &closed);
        if (!closed) { *is_call = false; return NULL; }
        for (uint32_t i = 0; i < m->n_parameters; i++) arguments[i].expanded = tokens_expand(p, list_copy(p, arguments[i].raw));
    }
    struct token *body = substituted(p, m, arguments), **last = &body;
    while (*last) last = &(*last)->next;
    *last = arena_new(p->arena, struct token);
    **last = (struct token){ .next = rest, .ends = m };
    m->busy = true;
    return body;
}

struct token *tokens_expand(struct preprocessor *p, struct token *tokens)
{
    struct token *first = NULL, **last = &first;
    for (struct token *t = tokens; t; ) {
        if (t->ends) { t->ends->busy = false; t = t->next; continue; }
        struct macro *m = t->symbol ? t->symbol->macro : NULL;
        bool is_call = false;
        struct token *list = m && !m->busy ? replaced(p, m, t, &is_call) : NULL;
        if (is_call) { t = list; continue; }
        *last = t;
        last = &t->next;
        t = t->next;
    }
    *last = NULL;
    return first;
}

/* ---- conditions ---- */

struct value { bool known; int64_t is; };
struct condition_parser { struct preprocessor *p; struct token *t; };

static struct value known(int64_t x) { return (struct value){ true, x }; }
static const struct value unknown = { false, 0 };
static struct value conditional(struct condition_parser *r);

static bool take(struct condition_parser *r, const char *sign)
{
    if (!is(r->t, sign)) return false;
    r->t = r->t->next;
    return true;
}

static bool is_open(const struct symbol *s)
{
    static const char *const prefixes[] = { "__", "FORGE_", "SIMT_" };
    for (uint32_t i = 0; i < COUNT_OF(prefixes); i++) if (strncmp(s->name, prefixes[i], strlen(prefixes[i])) == 0) return !s->absent;
    return false;
}

static struct value defined(struct symbol *s)
{
    if (s->maybe) return unknown;
    return s->macro ? known(1) : is_open(s) ? unknown : known(0);
}

/* Replaces "defined X" and "defined(X)" by 0, 1 or an unknown name, before any expansion. */
static struct token *without_defined(struct preprocessor *p, struct token *t)
{
    struct token *first = NULL, **last = &first;
    for (; t; t = t->next) {
        struct token *name = is(t, "defined") && t->next ? is(t->next, "(") ? t->next->next : t->next : NULL;
        if (name && name->symbol) {
            const struct value v = defined(name->symbol);
            *last = v.known ? token_new(p, v.is ? "1" : "0", 1) : token_new(p, "__not_known", 11);
            t = name != t->next && name->next ? name->next : name;
        }
        else *last = token_copy(p, t);
        last = &(*last)->next;
    }
    return first;
}

static void skip_call(struct condition_parser *r)
{
    uint32_t depth = 0;
    for (; r->t; r->t = r->t->next) {
        depth += is(r->t, "(");
        depth -= is(r->t, ")");
        if (depth == 0) { r->t = r->t->next; return; }
    }
}

static struct value primary(struct condition_parser *r)
{
    struct token *t = r->t;
    if (!t) return unknown;
    r->t = t->next;
    if (is(t, "(")) {
        const struct value v = conditional(r);
        return take(r, ")") ? v : unknown;
    }
    if (is(t, "!")) { const struct value v = primary(r); return v.known ? known(!v.is) : v; }
    if (is(t, "-")) { const struct value v = primary(r); return v.known ? known(-v.is) : v; }
    if (isdigit((unsigned char)*t->text)) return known((int64_t)strtoll(t->text, NULL, 0));
    if (!t->symbol) return unknown;
    if (is(r->t, "(")) { skip_call(r); return unknown; }             /* __has_builtin(x) */
    return t->symbol->maybe || is_open(t->symbol) ? unknown : known(0);
}

static struct value calculated(const struct token *sign, struct value a, struct value b)
{
    if (is(sign, "&&")) return (a.known && !a.is) || (b.known && !b.is) ? known(0) : a.known && b.known ? known(1) : unknown;
    if (is(sign, "||")) return (a.known && a.is) || (b.known && b.is) ? known(1) : a.known && b.known ? known(0) : unknown;
    if (!a.known || !b.known) return unknown;
    if (is(sign, "==")) return known(a.is == b.is);
    if (is(sign, "!=")) return known(a.is != b.is);
    if (is(sign, "<=")) return known(a.is <= b.is);
    if (is(sign, ">=")) return known(a.is >= b.is);
    if (b.is < 0 && (is(sign, "<<") || is(sign, ">>"))) return unknown;
    if (is(sign, "<<")) return b.is < 63 ? known((int64_t)((uint64_t)a.is << b.is)) : unknown;
    if (is(sign, ">>")) return b.is < 63 ? known(a.is >> b.is) : unknown;
    switch (*sign->text) {
    case '<': return known(a.is < b.is);
    case '>': return known(a.is > b.is);
    case '+': return known((int64_t)((uint64_t)a.is + (uint64_t)b.is));
    case '-': return known((int64_t)((uint64_t)a.is - (uint64_t)b.is));
    case '*': return known((int64_t)((uint64_t)a.is * (uint64_t)b.is));
    case '/': return b.is > 0 ? known(a.is / b.is) : unknown;
    case '%': return b.is > 0 ? known(a.is % b.is) : unknown;
    case '&': return known(a.is & b.is);
    case '|': return known(a.is | b.is);
    default:  return known(a.is ^ b.is);
    }
}

/* The precedence of a binary operator; 0: t is not one. */
static uint32_t strength(const struct token *t)
{
    static const struct { const char *sign; uint32_t is; } table[] = {
        { "*", 10 }, { "/", 10 }, { "%", 10 }, { "+", 9 }, { "-", 9 }, { "<<", 8 }, { ">>", 8 }, { "<", 7 }, { ">", 7 }, { "<=", 7 },
        { ">=", 7 },
        { "==", 6 }, { "!=", 6 }, { "&", 5 }, { "^", 4 }, { "|", 3 }, { "&&", 2 }, { "||", 1 },
    };
    for (uint32_t i = 0; i < COUNT_OF(table); i++) if (is(t, table[i].sign)) return table[i].is;
    return 0;
}

static struct value binary(struct condition_parser *r, uint32_t least)
{
    struct value a = primary(r);
    for (uint32_t s; (s = strength(r->t)) >= least && s > 0; ) {
        const struct token *sign = r->t;
        r->t = r->t->next;
        a = calculated(sign, a, binary(r, s + 1));
    }
    return a;
}

static struct value conditional(struct condition_parser *r)
{
    const struct value v = binary(r, 1);
    if (!take(r, "?")) return v;
    const struct value yes = conditional(r);
    if (!take(r, ":")) return unknown;
    const struct value no = conditional(r);
    return !v.known ? unknown : v.is ? yes : no;
}

enum answer condition_answer(struct preprocessor *p, const char *text, size_t n)
{
    p->uncertain = false;
    struct condition_parser r = { p, tokens_expand(p, without_defined(p, tokens_of(p, text, n))) };
    const struct value v = conditional(&r);
    return r.t || !v.known || p->uncertain ? ANSWER_UNKNOWN : v.is ? ANSWER_YES : ANSWER_NO;
}
