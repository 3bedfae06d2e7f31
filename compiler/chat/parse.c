/* parse.c -- parses a template's tokens into the flat tree: Jinja's grammar (jinja2/parser.py, 3.1), without parts that need other
 * templates. */
#include "tree.h"
#include <stdlib.h>
#include <string.h>

struct found { const char *what, *name; size_t n; uint32_t line, frame; bool soft; };     /* an unknown filter or test */
struct name { uint32_t string, line; };
struct items { uint32_t *at; size_t n, most; };

struct parser {
    struct chat_tree     *tree;
    const struct token   *token;
    struct chat_problem  *problem;
    bool                  failed;
    uint32_t              depth, loops;
    uint32_t              frame, frames;         /* Jinja's frames: unknown names in a branch with its own frame are not errors */
    struct found         *unknown;
    size_t                n_unknown, most_unknown;
    struct name          *assigned, *called;
    size_t                n_assigned, most_assigned, n_called, most_called;
    uint32_t              macro_uses;            /* of the macro being parsed */
};

static uint32_t fail_at(struct parser *p, uint32_t line, const char *text)
{
    if (!p->failed) *p->problem = (struct chat_problem){ line, text };
    p->failed = true;
    return CHAT_NONE;
}

static const char *token_text(struct parser *p)
{
    const struct token *t = p->token;
    if (t->kind == TOKEN_END) return "the end of the template";
    if (t->kind == TOKEN_TEXT) return "text";
    return arena_printf(p->tree->arena, "'%s'", printable(p->tree->arena, t->text, t->n < 60 ? t->n : 60));
}

static uint32_t unexpected(struct parser *p, const char *wanted)
{
    return fail_at(p, p->token->line, arena_printf(p->tree->arena, "%s where %s should be", token_text(p), wanted));
}

static bool is_op(const struct parser *p, int op) { return p->token->kind == TOKEN_OPERATOR && p->token->op == op; }
static bool is_word(const struct token *t, const char *word)
{
    return t->kind == TOKEN_NAME && t->n == strlen(word) && memcmp(t->text, word, t->n) == 0;
}
static bool at_word(const struct parser *p, const char *word) { return is_word(p->token, word); }
static bool skip_word(struct parser *p, const char *word)
{
    if (!at_word(p, word)) return false;
    p->token++;
    return true;
}
static bool skip_op(struct parser *p, int op)
{
    if (!is_op(p, op)) return false;
    p->token++;
    return true;
}
static bool expect_op(struct parser *p, int op, const char *text)
{
    if (skip_op(p, op)) return true;
    unexpected(p, text);
    return false;
}
static bool expect_tag_end(struct parser *p)
{
    if (p->token->kind == TOKEN_TAG_END) { p->token++; return true; }
    unexpected(p, "%}");
    return false;
}

static bool push(struct parser *p, struct items *list, uint32_t item)
{
    if (p->failed) return false;
    arena_room(p->tree->arena, list->at, list->n, list->most);
    list->at[list->n++] = item;
    return true;
}

static uint32_t list_of(struct parser *p, const struct items *items, bool counted)
{
    return tree_list(p->tree, items->at, items->n, counted);
}

static uint32_t node(struct parser *p, enum chat_kind kind, uint32_t line, uint32_t a, uint32_t b, uint32_t c)
{
    return p->failed ? CHAT_NONE : tree_node(p->tree, (struct chat_node){ (uint8_t)kind, 0, 0, line, a, b, c });
}

static uint32_t string_of(struct parser *p, const struct token *t) { return tree_string(p->tree, t->text, t->n); }

static uint32_t expect_name(struct parser *p)
{
    if (p->token->kind != TOKEN_NAME) return unexpected(p, "a name");
    return string_of(p, p->token++);
}

static bool enter(struct parser *p)
{
    if (++p->depth <= CHAT_MOST_NESTING) return true;
    fail_at(p, p->token->line, "expressions and tags are nested deeper than 200");
    return false;
}

static void remember(struct parser *p, struct name **names, size_t *n, size_t *most, uint32_t string)
{
    arena_room(p->tree->arena, *names, *n, *most);
    (*names)[(*n)++] = (struct name){ string, p->token->line };
}
static void assign(struct parser *p, uint32_t string) { remember(p, &p->assigned, &p->n_assigned, &p->most_assigned, string); }

/* Marks what was found unknown from number `from` on as within a branch. */
static void soften(struct parser *p, size_t from)
{
    for (size_t i = from; i < p->n_unknown; i++) if (p->unknown[i].frame == p->frame) p->unknown[i].soft = true;
}

/* ---- expressions ---- */

static uint32_t parse_expression(struct parser *p);
static uint32_t parse_or(struct parser *p);
static uint32_t parse_unary(struct parser *p, bool with_filters);

static uint32_t find_known(const char *const *names, uint32_t n, const struct token *t)
{
    for (uint32_t i = 0; i < n; i++) if (strlen(names[i]) == t->n && memcmp(names[i], t->text, t->n) == 0) return i;
    return CHAT_UNKNOWN;
}

static uint32_t note_unknown(struct parser *p, const char *what, const struct token *t)
{
    arena_room(p->tree->arena, p->unknown, p->n_unknown, p->most_unknown);
    p->unknown[p->n_unknown++] = (struct found){ what, t->text, t->n, t->line, p->frame, false };
    return CHAT_UNKNOWN;
}

#define NAMED(name) #name,
static uint32_t filter_of(struct parser *p, const struct token *t)
{
    static const char *const names[] = { CHAT_FILTERS(NAMED) };
    const uint32_t id = find_known(names, CHAT_F_COUNT, t);
    return id == CHAT_UNKNOWN ? note_unknown(p, "filter", t) : id;
}

static uint32_t test_of(struct parser *p, const struct token *t)
{
    static const char *const names[] = { CHAT_TESTS(NAMED) };
    const uint32_t id = find_known(names, CHAT_T_COUNT, t);
    return id == CHAT_UNKNOWN ? note_unknown(p, "test", t) : id;
}

static bool is_function(const char *text, size_t n)
{
    static const char *const names[] = { CHAT_FUNCTIONS(NAMED) };
    return find_known(names, CHAT_G_COUNT, &(struct token){ .text = text, .n = n }) != CHAT_UNKNOWN;
}
#undef NAMED

/* "(" ... ")" */
static uint32_t parse_arguments(struct parser *p)
{
    struct items plain = { 0 }, named = { 0 };
    const uint32_t line = p->token->line;
    if (!expect_op(p, '(', "(")) return CHAT_NONE;
    for (bool first = true; !is_op(p, ')'); first = false) {
        if (!first && (!expect_op(p, ',', "a comma or )") || is_op(p, ')'))) break;
        if (is_op(p, '*') || is_op(p, OP_POWER)) return fail_at(p, line, "* and ** of arguments are not supported");
        if (p->token->kind == TOKEN_NAME && p->token[1].kind == TOKEN_OPERATOR && p->token[1].op == '=') {
            push(p, &named, string_of(p, p->token));
            p->token += 2;
            push(p, &named, parse_expression(p));
        } else if (named.n) return fail_at(p, line, "an argument without a name follows an argument with a name");
        else push(p, &plain, parse_expression(p));
        if (p->failed) return CHAT_NONE;
    }
    if (!expect_op(p, ')', ")")) return CHAT_NONE;
    if (plain.n + named.n > 64) return fail_at(p, line, "more than 32 arguments");
    const uint32_t counts[2] = { (uint32_t)plain.n, (uint32_t)named.n / 2 };
    const uint32_t at = tree_list(p->tree, counts, 2, false);
    list_of(p, &plain, false);
    list_of(p, &named, false);
    return at;
}

static uint32_t parse_call(struct parser *p, uint32_t callee)
{
    static const char *const missing[] = { "encode", "expandtabs", "format_map", "fromkeys", "isdecimal", "isidentifier", "isnumeric",
                                           "isprintable", "istitle", "maketrans", "sort", "translate" };
    const uint32_t line = p->token->line;
    if (p->failed) return CHAT_NONE;
    const struct chat_node *n = &p->tree->nodes[callee];
    if (n->kind == CHAT_NAME) remember(p, &p->called, &p->n_called, &p->most_called, n->a);
    if (n->kind == CHAT_ATTRIBUTE) {
        const struct chat_string s = p->tree->strings[n->b];
        const char *name = arena_strndup(p->tree->arena, text_str(&p->tree->text) + s.offset, s.n);
        for (size_t i = 0; i < COUNT_OF(missing); i++) {
            if (strcmp(missing[i], name) != 0) continue;
            note_unknown(p, "method", &(struct token){ .text = name, .n = s.n, .line = line });
            p->unknown[p->n_unknown - 1].soft = true;
        }
    }
    const uint32_t arguments = parse_arguments(p);
    return node(p, CHAT_CALL, line, callee, arguments, 0);
}

static uint32_t parse_subscribed(struct parser *p)
{
    uint32_t parts[3] = { CHAT_NONE, CHAT_NONE, CHAT_NONE };
    const uint32_t line = p->token->line;
    if (!is_op(p, ':')) {
        parts[0] = parse_expression(p);
        if (!is_op(p, ':')) return parts[0];
    }
    p->token++;
    if (!is_op(p, ':') && !is_op(p, ']') && !is_op(p, ',')) parts[1] = parse_expression(p);
    if (skip_op(p, ':') && !is_op(p, ']') && !is_op(p, ',')) parts[2] = parse_expression(p);
    if (p->failed) return CHAT_NONE;
    return node(p, CHAT_SLICE, line, CHAT_NONE, tree_list(p->tree, parts, 3, false), 0);
}

static uint32_t parse_subscript(struct parser *p, uint32_t of)
{
    const uint32_t line = p->token->line;
    if (skip_op(p, '.')) {
        if (p->token->kind == TOKEN_NAME) return node(p, CHAT_ATTRIBUTE, line, of, string_of(p, p->token++), 0);
        if (p->token->kind != TOKEN_INTEGER || p->token->n > 9) return unexpected(p, "a name or a number");
        const uint32_t index = tree_number(p->tree, (union chat_number){ .i = strtoll(arena_strndup(p->tree->arena, p->token->text,
                                                                                                    p->token->n), NULL, 10) });
        p->token++;
        return node(p, CHAT_ITEM, line, of, node(p, CHAT_LITERAL_INT, line, index, 0, 0), 0);
    }
    p->token++;
    struct items items = { 0 };
    while (!p->failed && !is_op(p, ']')) {
        if (items.n && !expect_op(p, ',', "a comma or ]")) break;
        push(p, &items, parse_subscribed(p));
    }
    if (p->failed || !expect_op(p, ']', "]")) return CHAT_NONE;
    if (items.n == 1 && p->tree->nodes[items.at[0]].kind == CHAT_SLICE && p->tree->nodes[items.at[0]].a == CHAT_NONE) {
        p->tree->nodes[items.at[0]].a = of;
        return items.at[0];
    }
    for (size_t i = 0; i < items.n; i++)
        if (p->tree->nodes[items.at[i]].kind == CHAT_SLICE && p->tree->nodes[items.at[i]].a == CHAT_NONE)
            return fail_at(p, line, "a slice beside others in [ ] is not supported");
    const uint32_t index = items.n == 1 ? items.at[0] : node(p, CHAT_TUPLE, line, list_of(p, &items, true), 0, 0);
    return node(p, CHAT_ITEM, line, of, index, 0);
}

static uint32_t parse_postfix(struct parser *p, uint32_t of)
{
    while (!p->failed) {
        if (is_op(p, '.') || is_op(p, '[')) of = parse_subscript(p, of);
        else if (is_op(p, '(')) of = parse_call(p, of);
        else break;
    }
    return of;
}

static uint32_t parse_integer(struct parser *p)
{
    const struct token *t = p->token++;
    const char *text = arena_strndup(p->tree->arena, t->text, t->n);
    const char base = t->n > 1 && t->text[0] == '0' ? (char)(t->text[1] | 32) : 0;
    const bool based = base == 'x' || base == 'o' || base == 'b';
    char *end;
    if (!based && t->n > 18) return node(p, CHAT_LITERAL_BIG, t->line, string_of(p, t), 0, 0);
    const unsigned long long value = strtoull(text + (based ? 2 : 0), &end, base == 'x' ? 16 : base == 'o' ? 8 : base == 'b' ? 2 : 10);
    if (*end || value > INT64_MAX || t->n > 66) return fail_at(p, t->line, "this number is too large, or not a number");
    return node(p, CHAT_LITERAL_INT, t->line, tree_number(p->tree, (union chat_number){ .i = (int64_t)value }), 0, 0);
}

static uint32_t parse_strings(struct parser *p)
{
    struct text t = { .arena = p->tree->arena };
    const uint32_t line = p->token->line;
    if (p->token[1].kind != TOKEN_STRING) return node(p, CHAT_LITERAL_STRING, line, string_of(p, p->token++), 0, 0);
    while (p->token->kind == TOKEN_STRING) {
        text_append(&t, p->token->text, p->token->n);
        p->token++;
    }
    return node(p, CHAT_LITERAL_STRING, line, tree_string(p->tree, text_str(&t), t.size), 0, 0);
}

/* True at the end of an expression in parentheses, or of one that a comma makes a tuple; word: another word that ends it. */
static bool is_tuple_end(const struct parser *p, const char *word)
{
    return p->token->kind == TOKEN_OUTPUT_END || p->token->kind == TOKEN_TAG_END || is_op(p, ')') || (word && at_word(p, word));
}

static uint32_t parse_tuple(struct parser *p, bool choices, bool parentheses, const char *word)
{
    struct items items = { 0 };
    const uint32_t line = p->token->line;
    bool tuple = false;
    for (;;) {
        if (items.n && !expect_op(p, ',', "a comma")) return CHAT_NONE;
        if (is_tuple_end(p, word)) break;
        if (!push(p, &items, choices ? parse_expression(p) : parse_or(p))) return CHAT_NONE;
        if (!is_op(p, ',')) break;
        tuple = true;
    }
    if (p->failed) return CHAT_NONE;
    if (!tuple && items.n) return items.at[0];
    if (!tuple && !parentheses) return unexpected(p, "an expression");
    return node(p, CHAT_TUPLE, line, list_of(p, &items, true), 0, 0);
}

static uint32_t parse_list(struct parser *p)
{
    struct items items = { 0 };
    const uint32_t line = p->token++->line;
    while (!p->failed && !is_op(p, ']')) {
        if (items.n && (!expect_op(p, ',', "a comma or ]") || is_op(p, ']'))) break;
        push(p, &items, parse_expression(p));
    }
    if (p->failed || !expect_op(p, ']', "]")) return CHAT_NONE;
    return node(p, CHAT_LIST, line, list_of(p, &items, true), 0, 0);
}

static uint32_t parse_dict(struct parser *p)
{
    struct items items = { 0 };
    const uint32_t line = p->token++->line;
    while (!p->failed && !is_op(p, '}')) {
        if (items.n && (!expect_op(p, ',', "a comma or }") || is_op(p, '}'))) break;
        push(p, &items, parse_expression(p));
        if (p->failed || !expect_op(p, ':', "a colon")) return CHAT_NONE;
        push(p, &items, parse_expression(p));
    }
    if (p->failed || !expect_op(p, '}', "}")) return CHAT_NONE;
    return node(p, CHAT_DICT, line, list_of(p, &items, true), 0, 0);
}

static uint32_t parse_name(struct parser *p)
{
    const struct token *t = p->token++;
    if (is_word(t, "true") || is_word(t, "True")) return node(p, CHAT_LITERAL_TRUE, t->line, 0, 0, 0);
    if (is_word(t, "false") || is_word(t, "False")) return node(p, CHAT_LITERAL_FALSE, t->line, 0, 0, 0);
    if (is_word(t, "none") || is_word(t, "None")) return node(p, CHAT_LITERAL_NONE, t->line, 0, 0, 0);
    p->macro_uses |= is_word(t, "caller") ? CHAT_USES_CALLER : is_word(t, "varargs") ? CHAT_USES_VARARGS
                   : is_word(t, "kwargs") ? CHAT_USES_KWARGS : 0;
    return node(p, CHAT_NAME, t->line, string_of(p, t), 0, 0);
}

static uint32_t parse_primary(struct parser *p)
{
    const struct token *t = p->token;
    switch (t->kind) {
    case TOKEN_NAME: return parse_name(p);
    case TOKEN_STRING: return parse_strings(p);
    case TOKEN_INTEGER: return parse_integer(p);
    case TOKEN_FLOAT:
        p->token++;
        return node(p, CHAT_LITERAL_FLOAT, t->line,
                    tree_number(p->tree, (union chat_number){ .f = strtod(arena_strndup(p->tree->arena, t->text, t->n), NULL) }), 0, 0);
    case TOKEN_OPERATOR: break;
    default: return unexpected(p, "an expression");
    }
    if (t->op == '[') return parse_list(p);
    if (t->op == '{') return parse_dict(p);
    if (t->op != '(') return unexpected(p, "an expression");
    p->token++;
    const uint32_t inside = parse_tuple(p, true, true, NULL);
    return !p->failed && expect_op(p, ')', ")") ? inside : CHAT_NONE;
}

static uint32_t parse_filter(struct parser *p, uint32_t of)
{
    const struct token *t = p->token;
    const uint32_t name = expect_name(p);
    if (p->failed) return CHAT_NONE;
    if (is_op(p, '.')) return fail_at(p, t->line, "a filter's name with a dot is not supported");
    const uint32_t arguments = is_op(p, '(') ? parse_arguments(p) : CHAT_NONE;
    if (p->failed) return CHAT_NONE;
    return tree_node(p->tree, (struct chat_node){ CHAT_FILTER, (uint8_t)filter_of(p, t), 0, t->line, of, arguments, name });
}

static bool begins_operand(const struct parser *p)
{
    const struct token *t = p->token;
    if (t->kind == TOKEN_NAME) return !is_word(t, "else") && !is_word(t, "or") && !is_word(t, "and");
    return t->kind == TOKEN_STRING || t->kind == TOKEN_INTEGER || t->kind == TOKEN_FLOAT || is_op(p, '[') || is_op(p, '{');
}

static uint32_t parse_test(struct parser *p, uint32_t of)
{
    const uint32_t line = p->token++->line;
    const bool negated = skip_word(p, "not");
    const struct token *t = p->token;
    const uint32_t name = expect_name(p);
    uint32_t arguments = CHAT_NONE;
    if (p->failed) return CHAT_NONE;
    if (is_op(p, '(')) arguments = parse_arguments(p);
    else if (begins_operand(p)) {
        if (at_word(p, "is")) return fail_at(p, line, "a test follows a test: write (a is b) is c");
        const uint32_t operand = parse_postfix(p, parse_primary(p));
        if (p->failed) return CHAT_NONE;
        arguments = tree_list(p->tree, (const uint32_t[]){ 1, 0, operand }, 3, false);
    }
    if (p->failed) return CHAT_NONE;
    const uint32_t test = tree_node(p->tree, (struct chat_node){ CHAT_TEST, (uint8_t)test_of(p, t), 0, line, of, arguments, name });
    return negated ? node(p, CHAT_NOT, line, test, 0, 0) : test;
}

static uint32_t parse_unary(struct parser *p, bool with_filters)
{
    const uint32_t line = p->token->line;
    uint32_t of;
    if (!enter(p)) return CHAT_NONE;
    if (is_op(p, '-') || is_op(p, '+')) {
        const bool minus = p->token++->op == '-';
        of = parse_unary(p, false);
        of = node(p, minus ? CHAT_NEGATE : CHAT_PLUS, line, of, 0, 0);
    } else of = parse_primary(p);
    of = parse_postfix(p, of);
    while (with_filters && !p->failed) {
        if (skip_op(p, '|')) of = parse_filter(p, of);
        else if (at_word(p, "is")) of = parse_test(p, of);
        else if (is_op(p, '(')) of = parse_call(p, of);
        else break;
    }
    p->depth--;
    return of;
}

static uint32_t binary(struct parser *p, int op, uint32_t line, uint32_t left, uint32_t right)
{
    if (p->failed) return CHAT_NONE;
    const uint8_t code = op == OP_FLOOR ? 'f' : op == OP_POWER ? 'p' : (uint8_t)op;
    return tree_node(p->tree, (struct chat_node){ CHAT_BINARY, code, 0, line, left, right, 0 });
}

static uint32_t parse_power(struct parser *p)
{
    uint32_t left = parse_unary(p, true);
    while (!p->failed && is_op(p, OP_POWER)) {
        const uint32_t line = p->token++->line;
        left = binary(p, OP_POWER, line, left, parse_unary(p, true));
    }
    return left;
}

static uint32_t parse_product(struct parser *p)
{
    uint32_t left = parse_power(p);
    while (!p->failed && (is_op(p, '*') || is_op(p, '/') || is_op(p, OP_FLOOR) || is_op(p, '%'))) {
        const struct token *t = p->token++;
        left = binary(p, t->op, t->line, left, parse_power(p));
    }
    return left;
}

static uint32_t parse_concat(struct parser *p)
{
    struct items items = { 0 };
    const uint32_t line = p->token->line;
    push(p, &items, parse_product(p));
    while (!p->failed && skip_op(p, '~')) push(p, &items, parse_product(p));
    if (p->failed || items.n == 1) return p->failed ? CHAT_NONE : items.at[0];
    return node(p, CHAT_CONCAT, line, list_of(p, &items, true), 0, 0);
}

static uint32_t parse_sum(struct parser *p)
{
    uint32_t left = parse_concat(p);
    while (!p->failed && (is_op(p, '+') || is_op(p, '-'))) {
        const struct token *t = p->token++;
        left = binary(p, t->op, t->line, left, parse_concat(p));
    }
    return left;
}

/* The comparison operator at the token, which is skipped; CHAT_NONE: there is no operator. */
static uint32_t comparison(struct parser *p)
{
    const struct token *t = p->token;
    if (is_word(t, "in")) { p->token++; return CHAT_IN; }
    if (is_word(t, "not") && is_word(t + 1, "in")) { p->token += 2; return CHAT_NOT_IN; }
    if (t->kind != TOKEN_OPERATOR) return CHAT_NONE;
    const uint32_t op = t->op == OP_EQ ? CHAT_EQ : t->op == OP_NE ? CHAT_NE : t->op == '<' ? CHAT_LT : t->op == OP_LE ? CHAT_LE
                      : t->op == '>' ? CHAT_GT : t->op == OP_GE ? CHAT_GE : CHAT_NONE;
    if (op != CHAT_NONE) p->token++;
    return op;
}

static uint32_t parse_compare(struct parser *p)
{
    struct items items = { 0 };
    const uint32_t line = p->token->line, left = parse_sum(p);
    for (uint32_t op; !p->failed && (op = comparison(p)) != CHAT_NONE; ) {
        push(p, &items, op);
        push(p, &items, parse_sum(p));
    }
    if (p->failed || !items.n) return left;
    return node(p, CHAT_COMPARE, line, left, list_of(p, &items, true), 0);
}

static uint32_t parse_not(struct parser *p)
{
    const uint32_t line = p->token->line;
    uint32_t of;
    if (!enter(p)) return CHAT_NONE;
    if (skip_word(p, "not")) {
        of = parse_not(p);
        of = node(p, CHAT_NOT, line, of, 0, 0);
    } else of = parse_compare(p);
    p->depth--;
    return of;
}

static uint32_t parse_and(struct parser *p)
{
    uint32_t left = parse_not(p);
    for (uint32_t line = p->token->line; !p->failed && skip_word(p, "and"); line = p->token->line) {
        const uint32_t right = parse_not(p);
        left = node(p, CHAT_AND, line, left, right, 0);
    }
    return left;
}

static uint32_t parse_or(struct parser *p)
{
    uint32_t left = parse_and(p);
    for (uint32_t line = p->token->line; !p->failed && skip_word(p, "or"); line = p->token->line) {
        const uint32_t right = parse_and(p);
        left = node(p, CHAT_OR, line, left, right, 0);
    }
    return left;
}

static uint32_t parse_choice(struct parser *p)
{
    const size_t unknown = p->n_unknown;
    uint32_t line = p->token->line, value = parse_or(p);
    while (!p->failed && skip_word(p, "if")) {
        const uint32_t test = parse_or(p);
        const uint32_t other = !p->failed && skip_word(p, "else") ? parse_expression(p) : CHAT_NONE;
        value = node(p, CHAT_CHOICE, line, test, value, other);
        soften(p, unknown);
        line = p->token->line;
    }
    return value;
}

static uint32_t parse_expression(struct parser *p)
{
    if (!enter(p)) return CHAT_NONE;
    const uint32_t value = parse_choice(p);
    p->depth--;
    return value;
}

/* ---- targets ---- */

static uint32_t parse_target_name(struct parser *p)
{
    const struct token *t = p->token;
    static const char *const reserved[] = { "true", "false", "none", "True", "False", "None" };
    const uint32_t name = expect_name(p);
    for (size_t i = 0; i < COUNT_OF(reserved) && !p->failed; i++)
        if (is_word(t, reserved[i])) return fail_at(p, t->line, "true, false and none cannot be assigned");
    if (!p->failed) assign(p, name);
    return name;
}

/* A name, an attribute of a namespace, or several of them in parentheses or with commas. */
static uint32_t parse_target(struct parser *p, bool attributes, const char *word);

static uint32_t parse_target_part(struct parser *p, bool attributes)
{
    const uint32_t line = p->token->line;
    if (skip_op(p, '(')) {
        if (!enter(p)) return CHAT_NONE;
        const uint32_t inside = parse_target(p, false, NULL);
        p->depth--;
        return !p->failed && expect_op(p, ')', ")") ? inside : CHAT_NONE;
    }
    if (attributes && p->token->kind == TOKEN_NAME && p->token[1].kind == TOKEN_OPERATOR && p->token[1].op == '.') {
        const uint32_t name = string_of(p, p->token);
        p->token += 2;
        const uint32_t attribute = expect_name(p);
        return node(p, CHAT_TARGET_ATTRIBUTE, line, name, attribute, 0);
    }
    const uint32_t name = parse_target_name(p);
    return node(p, CHAT_TARGET_NAME, line, name, 0, 0);
}

static uint32_t parse_target(struct parser *p, bool attributes, const char *word)
{
    struct items items = { 0 };
    const uint32_t line = p->token->line;
    bool tuple = false;
    for (;;) {
        if (items.n && !expect_op(p, ',', "a comma")) return CHAT_NONE;
        if (items.n && (is_tuple_end(p, word) || is_op(p, '='))) break;
        if (!push(p, &items, parse_target_part(p, attributes))) return CHAT_NONE;
        if (!is_op(p, ',')) break;
        tuple = true;
    }
    if (p->failed) return CHAT_NONE;
    return tuple ? node(p, CHAT_TARGET_TUPLE, line, list_of(p, &items, true), 0, 0) : items.at[0];
}

/* ---- statements ---- */

static uint32_t parse_body(struct parser *p, const char *const *ends);

/* A body with its own frame, up to and including {% word. */
static uint32_t parse_frame(struct parser *p, const char *word)
{
    const uint32_t frame = p->frame;
    p->frame = ++p->frames;
    if (!expect_tag_end(p)) return CHAT_NONE;
    const uint32_t body = parse_body(p, (const char *const[]){ word, NULL });
    p->token++;
    p->frame = frame;
    return p->failed ? CHAT_NONE : body;
}

static uint32_t parse_if(struct parser *p, uint32_t line)
{
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    struct items items = { 0 };
    const size_t unknown = p->n_unknown;
    uint32_t other = CHAT_NONE;
    do {
        push(p, &items, parse_tuple(p, false, false, NULL));
        if (p->failed || !expect_tag_end(p)) return CHAT_NONE;
        push(p, &items, parse_body(p, ends));
        if (p->failed) return CHAT_NONE;
    } while (skip_word(p, "elif"));
    if (skip_word(p, "else")) {
        if (!expect_tag_end(p)) return CHAT_NONE;
        other = parse_body(p, ends + 2);
    }
    if (p->failed) return CHAT_NONE;
    p->token++;
    soften(p, unknown);
    return node(p, CHAT_IF, line, list_of(p, &items, true), other, 0);
}

static uint32_t parse_for(struct parser *p, uint32_t line)
{
    static const char *const ends[] = { "else", "endfor", NULL };
    uint32_t parts[5] = { CHAT_NONE, CHAT_NONE, CHAT_NONE, CHAT_NONE, CHAT_NONE };
    const uint32_t frame = p->frame;
    parts[0] = parse_target(p, false, "in");
    if (p->failed) return CHAT_NONE;
    if (!skip_word(p, "in")) return unexpected(p, "in");
    parts[1] = parse_tuple(p, false, false, "recursive");
    p->frame = ++p->frames;
    if (!p->failed && skip_word(p, "if")) parts[2] = parse_expression(p);
    const bool recursive = !p->failed && skip_word(p, "recursive");
    if (p->failed || !expect_tag_end(p)) return CHAT_NONE;
    p->loops++;
    parts[3] = parse_body(p, ends);
    p->loops--;
    if (!p->failed && skip_word(p, "else")) {
        if (!expect_tag_end(p)) return CHAT_NONE;
        parts[4] = parse_body(p, ends + 1);
    }
    if (p->failed) return CHAT_NONE;
    p->token++;
    p->frame = frame;
    return node(p, CHAT_FOR, line, tree_list(p->tree, parts, 5, false), 0, recursive);
}

static uint32_t parse_filters(struct parser *p)
{
    uint32_t filters = CHAT_NONE;
    do filters = parse_filter(p, filters);
    while (!p->failed && skip_op(p, '|'));
    return filters;
}

static uint32_t parse_set(struct parser *p, uint32_t line)
{
    const uint32_t target = parse_target(p, true, NULL);
    if (p->failed) return CHAT_NONE;
    if (skip_op(p, '=')) {
        const uint32_t value = parse_tuple(p, true, false, NULL);
        return node(p, CHAT_SET, line, target, value, 0);
    }
    const uint32_t filters = skip_op(p, '|') ? parse_filters(p) : CHAT_NONE;
    if (p->failed) return CHAT_NONE;
    const uint32_t body = parse_frame(p, "endset");
    return node(p, CHAT_SET_BLOCK, line, target, body, filters);
}

/* The parameters of a macro, after "("; items: names, then defaults. */
static bool parse_parameters(struct parser *p, struct items *names, struct items *defaults)
{
    if (!expect_op(p, '(', "(")) return false;
    while (!is_op(p, ')')) {
        if (names->n && !expect_op(p, ',', "a comma or )")) return false;
        push(p, names, parse_target_name(p));
        if (p->failed) return false;
        if (skip_op(p, '=')) push(p, defaults, parse_expression(p));
        else if (defaults->n) fail_at(p, p->token->line, "a parameter without a default follows a parameter with a default");
        if (p->failed) return false;
    }
    p->token++;
    if (names->n > 32) fail_at(p, p->token->line, "more than 32 parameters");
    return !p->failed;
}

/* Parses a macro from its parameters on; name CHAT_NONE: the body of a {% call %}. */
static uint32_t parse_macro_rest(struct parser *p, uint32_t line, uint32_t name, const struct items *names, const struct items *defaults,
                                 const char *word)
{
    const uint32_t uses = p->macro_uses, loops = p->loops;
    p->macro_uses = p->loops = 0;
    const uint32_t body = parse_frame(p, word);
    const uint32_t flags = p->macro_uses;
    p->macro_uses = uses | (name == CHAT_NONE ? flags : 0);
    p->loops = loops;
    if (p->failed) return CHAT_NONE;
    const uint32_t counts[3] = { name, (uint32_t)names->n, (uint32_t)defaults->n };
    const uint32_t at = tree_list(p->tree, counts, 3, false);
    list_of(p, names, false);
    list_of(p, defaults, false);
    return node(p, CHAT_MACRO, line, at, body, flags);
}

static uint32_t parse_macro(struct parser *p, uint32_t line)
{
    struct items names = { 0 }, defaults = { 0 };
    const uint32_t name = parse_target_name(p);
    if (p->failed || !parse_parameters(p, &names, &defaults)) return CHAT_NONE;
    return parse_macro_rest(p, line, name, &names, &defaults, "endmacro");
}

static uint32_t parse_call_block(struct parser *p, uint32_t line)
{
    struct items names = { 0 }, defaults = { 0 };
    if (is_op(p, '(') && !parse_parameters(p, &names, &defaults)) return CHAT_NONE;
    const uint32_t call = parse_expression(p);
    if (p->failed) return CHAT_NONE;
    if (p->tree->nodes[call].kind != CHAT_CALL) return fail_at(p, line, "{% call %} without a call");
    const uint32_t caller = parse_macro_rest(p, line, CHAT_NONE, &names, &defaults, "endcall");
    return node(p, CHAT_CALL_BLOCK, line, call, caller, 0);
}

static uint32_t parse_with(struct parser *p, uint32_t line)
{
    struct items items = { 0 };
    while (!p->failed && p->token->kind != TOKEN_TAG_END) {
        if (items.n && !expect_op(p, ',', "a comma or %}")) break;
        push(p, &items, parse_target(p, false, NULL));
        if (p->failed || !expect_op(p, '=', "=")) break;
        push(p, &items, parse_expression(p));
    }
    if (p->failed) return CHAT_NONE;
    const uint32_t body = parse_frame(p, "endwith");
    return node(p, CHAT_WITH, line, p->failed ? 0 : list_of(p, &items, true), body, 0);
}

static uint32_t parse_statement(struct parser *p)
{
    const struct token *t = p->token;
    const uint32_t line = t->line;
    if (t->kind != TOKEN_NAME) return unexpected(p, "a tag's name");
    p->token++;
    if (is_word(t, "if")) return parse_if(p, line);
    if (is_word(t, "for")) return parse_for(p, line);
    if (is_word(t, "set")) return parse_set(p, line);
    if (is_word(t, "macro")) return parse_macro(p, line);
    if (is_word(t, "call")) return parse_call_block(p, line);
    if (is_word(t, "with")) return parse_with(p, line);
    if (is_word(t, "print")) return node(p, CHAT_OUTPUT, line, parse_tuple(p, true, false, NULL), 0, 0);
    if (is_word(t, "generation")) return node(p, CHAT_SCOPE, line, parse_frame(p, "endgeneration"), 0, 0);
    if (is_word(t, "filter")) {
        const uint32_t filters = parse_filters(p);
        return p->failed ? CHAT_NONE : node(p, CHAT_FILTER_BLOCK, line, filters, parse_frame(p, "endfilter"), 0);
    }
    if (is_word(t, "break") || is_word(t, "continue")) {
        if (!p->loops) return fail_at(p, line, arena_printf(p->tree->arena, "{%% %.*s %%} outside of a loop", (int)t->n, t->text));
        return node(p, is_word(t, "break") ? CHAT_BREAK : CHAT_CONTINUE, line, 0, 0, 0);
    }
    if (t->n > 3 && memcmp(t->text, "end", 3) == 0)
        return fail_at(p, line, arena_printf(p->tree->arena, "{%% %s %%} has no opening tag", printable(p->tree->arena, t->text, t->n)));
    return fail_at(p, line, arena_printf(p->tree->arena, "the tag {%% %s %%} is not supported", printable(p->tree->arena, t->text, t->n)));
}

/* Statements up to a tag that begins with a word of `ends`, which is then the current token; ends NULL: up to the end of the template. */
static uint32_t parse_body(struct parser *p, const char *const *ends)
{
    struct items items = { 0 };
    const uint32_t line = p->token->line;
    if (!enter(p)) return CHAT_NONE;
    while (!p->failed && p->token->kind != TOKEN_END) {
        const struct token *t = p->token++;
        if (t->kind == TOKEN_TEXT) push(p, &items, node(p, CHAT_TEXT, t->line, string_of(p, t), 0, 0));
        else if (t->kind == TOKEN_OUTPUT_BEGIN) {
            const uint32_t value = parse_tuple(p, true, false, NULL);
            if (!p->failed && p->token++->kind != TOKEN_OUTPUT_END) { p->token--; unexpected(p, "}}"); }
            push(p, &items, node(p, CHAT_OUTPUT, t->line, value, 0, 0));
        } else {
            for (const char *const *end = ends; end && *end; end++) {
                if (!at_word(p, *end)) continue;
                p->depth--;
                return node(p, CHAT_BODY, line, list_of(p, &items, true), 0, 0);
            }
            const uint32_t statement = parse_statement(p);
            if (p->failed || !expect_tag_end(p)) return CHAT_NONE;
            push(p, &items, statement);
        }
    }
    p->depth--;
    if (p->failed) return CHAT_NONE;
    if (ends) {
        const size_t last = ends[1] ? (ends[2] ? 2 : 1) : 0;
        return fail_at(p, line, arena_printf(p->tree->arena, "the template ends before {%% %s %%}", ends[last]));
    }
    return node(p, CHAT_BODY, line, list_of(p, &items, true), 0, 0);
}

/* ---- unknown filters and tests ---- */

static void add_warning(struct chat_warnings *w, uint32_t line, const char *text)
{
    if (w->n < CHAT_MOST_WARNINGS) w->items[w->n++] = (struct chat_problem){ line, text };
}

static bool check_names(struct parser *p, const char *template, struct chat_warnings *warnings)
{
    struct arena *a = p->tree->arena;
    const char *of = template ? arena_printf(a, " of template '%s'", template) : "";
    for (size_t i = 0; i < p->n_unknown; i++) {
        const struct found *f = &p->unknown[i];
        const char *what = arena_printf(a, "the %s '%s' is not supported", f->what, printable(a, f->name, f->n));
        if (!f->soft) { fail_at(p, f->line, what); return false; }
        add_warning(warnings, f->line, arena_printf(a, "line %u%s: %s", f->line, of, what));
    }
    bool *assigned = arena_array(a, bool, p->tree->n_strings + 1);
    for (size_t i = 0; i < p->n_assigned; i++) assigned[p->assigned[i].string] = true;
    for (size_t i = 0; i < p->n_called; i++) {
        const struct chat_string s = p->tree->strings[p->called[i].string];
        const char *name = text_str(&p->tree->text) + s.offset;
        const bool known = assigned[p->called[i].string] || is_function(name, s.n) || (s.n == 4 && memcmp(name, "loop", 4) == 0) ||
                           (s.n == 6 && memcmp(name, "caller", 6) == 0);
        if (!known)
            add_warning(warnings, p->called[i].line, arena_printf(a, "line %u%s: there is no function '%s'", p->called[i].line, of,
                                                                  printable(a, name, s.n)));
    }
    return true;
}

bool chat_parse(struct chat_tree *t, const struct chat_source *source, uint32_t *root, struct chat_warnings *warnings,
                struct chat_problem *problem)
{
    struct parser p = { .tree = t, .problem = problem };
    p.token = chat_lex(t->arena, (const char *)source->text.data, source->text.size, problem);
    if (!p.token) return false;
    *root = parse_body(&p, NULL);
    return !p.failed && check_names(&p, source->name, warnings);
}
