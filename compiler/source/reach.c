/* reach.c -- see reach.h. A node is one reading of an item: the same text in two shapes makes two nodes, which may use different names. */
#include "reach.h"
#include <string.h>

enum { DEPTH_MOST = 64 };

struct list { void **item; uint32_t n, capacity; };

struct node {
    struct item *item;                   /* NULL: a condition */
    struct list  uses;                   /* struct symbol: names that it uses */
    struct list  locals;                 /* struct symbol: names that it uses, but not as functions */
    struct list  met;                    /* struct node: macros that its expansion uses */
    bool         reached, is_assert, by_macro;   /* is_assert: has only assertions; by_macro: its first macro is the assertion's name */
};

/* The owner of a symbol. */
struct name {
    struct list        declared, functions, macros;  /* struct node: its declarations as a value or type, a function, a macro */
    const struct node *user;                         /* the last node that noted its use */
    const struct node *local_of, *called_in;         /* the last node in which it is a local name; in which it is called */
};

/* The owner of an item. */
struct reading {
    struct text code;                                /* of the current reading */
    struct list nodes;                               /* struct node: all readings of the item */
};

struct level {
    enum answer live, taken, outside;
    uint32_t    branch;                              /* number of the current branch */
    bool        maybe;                               /* its condition has an unknown answer and is not the guard of a header */
};

struct reach {
    struct arena       *arena;
    struct preprocessor p;
    void              (*include)(void *context, const struct record *r);
    void               *context;
    struct level        level[DEPTH_MOST];
    uint32_t            depth, n_branches;
    struct node        *node;                        /* the current node; NULL: macros are not noted */
    struct list         nodes, conditions, wanted;   /* struct node, struct record, struct node */
};

static void push(struct arena *a, struct list *l, void *item)
{
    arena_room(a, l->item, l->n, l->capacity);
    l->item[l->n++] = item;
}

static struct name *name_of(struct reach *r, struct symbol *s)
{
    if (!s->owner) s->owner = arena_new(r->arena, struct name);
    return s->owner;
}

static struct reading *reading_of(struct reach *r, struct item *item)
{
    if (!item->owner) {
        struct reading *reading = item->owner = arena_new(r->arena, struct reading);
        reading->code.arena = r->arena;
    }
    return item->owner;
}

static struct node *node_new(struct reach *r, struct item *item)
{
    struct node *n = arena_new(r->arena, struct node);
    n->item = item;
    push(r->arena, &r->nodes, n);
    if (item) push(r->arena, &reading_of(r, item)->nodes, n);
    return n;
}

static void meets(void *context, struct macro *macro)
{
    struct reach *r = context;
    if (!r->node || !macro->owner) return;
    for (uint32_t i = r->node->met.n; i-- > 0; ) if (r->node->met.item[i] == macro->owner) return;
    push(r->arena, &r->node->met, macro->owner);
}

struct reach *reach_new(struct arena *a, void (*include)(void *context, const struct record *r), void *context)
{
    struct reach *r = arena_new(a, struct reach);
    r->arena = a, r->include = include, r->context = context;
    r->p = (struct preprocessor){ .arena = a, .meets = meets, .context = r };
    r->level[0] = (struct level){ .live = ANSWER_YES, .taken = ANSWER_NO, .outside = ANSWER_YES };
    return r;
}

void reach_known(struct reach *r, const char *name, const char *value)
{
    const char *text = value ? arena_printf(r->arena, "%s %s", name, value) : name;
    if (value) macro_define(&r->p, text, strlen(text), false);
    else symbol_absent(&r->p, name);
}

/* ---- the declarations of a reading ---- */

static bool is(const struct token *t, const char *text) { return t && t->size == strlen(text) && memcmp(t->text, text, t->size) == 0; }

static bool is_one_of(const struct token *t, const char *const list[])
{
    for (uint32_t i = 0; list[i]; i++) if (is(t, list[i])) return true;
    return false;
}

/* The token after the bracket that closes the one at t. */
static struct token *behind_brackets(struct token *t)
{
    int32_t depth = 0;
    for (; t; t = t->next) {
        depth += is(t, "(") || is(t, "{") || is(t, "[");
        depth -= is(t, ")") || is(t, "}") || is(t, "]");
        if (depth <= 0) return t->next;
    }
    return NULL;
}

static void declare(struct reach *r, struct node *n, struct token *t) { push(r->arena, &name_of(r, t->symbol)->declared, n); }
static void declare_function(struct reach *r, struct node *n, struct token *t) { push(r->arena, &name_of(r, t->symbol)->functions, n); }

/* Declares the names in "{ A, B = 1, C }". */
static void declare_enumerators(struct reach *r, struct node *n, struct token *open)
{
    const struct token *end = behind_brackets(open);
    for (struct token *t = open; t && t != end; ) {
        if ((is(t, "{") || is(t, ",")) && t->next && t->next->symbol) declare(r, n, t->next);
        t = is(t, "(") ? behind_brackets(t) : t->next;
    }
}

/* Declares the tag of "struct tag {" and the names of "enum {". Returns the token after "}", or after the tag if there is no body. */
static struct token *declare_tagged(struct reach *r, struct node *n, struct token *t, bool *any)
{
    struct token *at = t->next;
    while (is(at, "__attribute__") && at->next) at = behind_brackets(at->next);
    struct token *tag = at && at->symbol ? at : NULL, *open = tag ? tag->next : at;
    if (tag && (is(open, "{") || is(open, ";"))) { declare(r, n, tag); *any = true; }
    if (!is(open, "{")) return tag ? tag->next : at;
    if (is(t, "enum")) { declare_enumerators(r, n, open); *any = true; }
    return behind_brackets(open);
}

static const char *const with_brackets[] = { "__attribute__", "_Alignas", "__asm__", "asm", "__declspec", NULL };
static const char *const tagged[] = { "struct", "union", "enum", NULL };
static const char *const asserts[] = { "_Static_assert", "static_assert", NULL };

/* Reads one declaration or definition from t on: declares its names, sets *any if there are some, and returns the token after it. */
static struct token *declare_one(struct reach *r, struct node *n, struct token *t, bool *any)
{
    const bool is_typedef = is(t, "typedef");
    bool value = false;                              /* after "=": names are uses */
    struct token *last = NULL;                       /* the last name; the next token tells whether it is declared */
    while (t) {
        struct token *next = t->next;
        if (is_one_of(t, with_brackets) && is(next, "(")) next = behind_brackets(next);
        else if (is_one_of(t, tagged)) { next = declare_tagged(r, n, t, any); last = NULL; }
        else if (is(t, "(")) {
            struct token *inner = is(next, "*") && next->next && next->next->symbol ? next->next : NULL;      /* (*name)(...) */
            if (!value && inner) declare(r, n, inner);
            else if (!value && last && is_typedef) declare(r, n, last);
            else if (!value && last) declare_function(r, n, last);
            *any |= !value && (inner || last);
            value |= inner || last;
            next = behind_brackets(t);
            if (is(next, "{")) return behind_brackets(next);                                                  /* a function */
        }
        else if (is(t, "[") || is(t, "{")) { next = behind_brackets(t); }
        if (last && !value && (is(t, "[") || is(t, "=") || is(t, ",") || is(t, ";") || is(t, ":"))) { declare(r, n, last); *any = true; }
        if (is(t, ";") || is(t, "}")) return next;
        if (is(t, "=")) value = true;
        if (is(t, ",")) value = false;
        last = t->symbol && !is_one_of(t, with_brackets) && !is_one_of(t, tagged) ? t
               : is(t, "*") || is(t, "[") || is(t, "{") ? NULL : last;
        t = next;
    }
    return NULL;
}

/* Reads all declarations of a reading. False if a declaration has no name. */
static bool declare_all(struct reach *r, struct node *n, struct token *t)
{
    bool named = true;
    while (t) {
        if (is(t, "extern") && t->next && *t->next->text == '"') {
            t = t->next->next;
            if (is(t, "{")) t = t->next;
            continue;
        }
        if (is(t, ";") || is(t, "}")) { t = t->next; continue; }
        if (is_one_of(t, asserts)) { n->is_assert = true; t = behind_brackets(t->next); continue; }
        bool any = false;
        t = declare_one(r, n, t, &any);
        named &= any;
    }
    return named;
}

/* Notes local names: in "vf scale = " and "const vf *scale" the name is not the function `scale`, which would be called or passed. */
static void note_locals(struct reach *r, struct node *n, const struct token *t)
{
    static const char *const no_types[] = { "return", "else", "do", "case", NULL };
    for (const struct token *before = NULL; t; before = t, t = t->next) {
        if (!t->symbol || !before) continue;
        const bool typed = before->symbol && !is_one_of(before, no_types);
        if (is(t->next, "(")) { if (!typed) name_of(r, t->symbol)->called_in = n; }
        else if (typed || is(before, "*")) name_of(r, t->symbol)->local_of = n;
    }
}

static void note_uses(struct reach *r, struct node *n, const struct token *t)
{
    note_locals(r, n, t);
    for (const struct token *before = NULL; t; before = t, t = t->next) {
        if (!t->symbol || is(before, ".") || is(before, "->")) continue;
        struct name *name = name_of(r, t->symbol);
        if (name->user != n) push(r->arena, name->local_of == n && name->called_in != n ? &n->locals : &n->uses, t->symbol);
        name->user = n;
    }
}

static void read_item(struct reach *r, struct item *item, bool wanted)
{
    struct reading *reading = reading_of(r, item);
    if (!reading->code.size) return;                 /* conditions exclude the whole item */
    struct node *n = r->node = node_new(r, item);
    struct token *raw = tokens_of(&r->p, reading->code.data, reading->code.size), *tokens = tokens_expand(&r->p, raw);
    n->by_macro = raw && raw->symbol && raw->symbol->macro;
    r->node = NULL;
    note_uses(r, n, tokens);
    const bool named = declare_all(r, n, tokens);
    if (wanted || !named) push(r->arena, &r->wanted, n);
    if (!named) n->is_assert = false;
    reading->code.size = 0;
}

/* ---- reading ---- */

static enum answer live(const struct reach *r) { return r->level[r->depth].live; }

static void enter_branch(struct reach *r, struct record *record, enum answer answer)
{
    struct level *l = &r->level[r->depth];
    if (l->taken == ANSWER_YES) answer = ANSWER_NO;
    const enum answer in = answer == ANSWER_YES && l->taken == ANSWER_UNKNOWN ? ANSWER_UNKNOWN : answer;
    if (answer != ANSWER_NO) l->taken = answer;
    l->live = l->outside == ANSWER_NO || in == ANSWER_NO ? ANSWER_NO
              : l->outside == ANSWER_UNKNOWN || in == ANSWER_UNKNOWN ? ANSWER_UNKNOWN : ANSWER_YES;
    l->branch = ++r->n_branches;
    l->maybe = in == ANSWER_UNKNOWN && !record->is_guard;
    if (l->outside != ANSWER_NO) record->seen |= (uint8_t)(1 << in);
}

/* The answer of a condition. The condition has a node, which notes the macros that it uses. */
static enum answer answer_of(struct reach *r, struct record *record)
{
    const struct level *l = &r->level[r->depth];
    if (l->outside == ANSWER_NO || l->taken == ANSWER_YES) return ANSWER_NO;
    if (!record->owner) {
        record->owner = node_new(r, NULL);
        push(r->arena, &r->conditions, record);
    }
    r->node = record->owner;
    note_uses(r, r->node, tokens_of(&r->p, record->operand, record->operand_size));
    enum answer answer = condition_answer(&r->p, record->operand, record->operand_size);
    if (record->is_guard && answer == ANSWER_UNKNOWN) {
        const struct symbol *s = tokens_of(&r->p, record->operand, record->operand_size)->next->next->next->symbol;    /* ! defined ( X ) */
        if (s && !s->macro && !s->maybe) answer = ANSWER_YES;
    }
    r->node = NULL;
    return answer;
}

static void read_condition(struct reach *r, struct record *record)
{
    if (record->kind == RECORD_IF) {
        const enum answer outside = live(r);
        if (++r->depth == DEPTH_MOST) die("%s: conditions are nested deeper than %d", record->file, DEPTH_MOST);
        r->level[r->depth] = (struct level){ .taken = ANSWER_NO, .outside = outside };
    }
    if (!r->depth) die("%s: %.*s without #if", record->file, (int)record->size, record->text);
    if (record->kind == RECORD_ENDIF) r->depth--;
    else enter_branch(r, record, record->kind == RECORD_ELSE ? ANSWER_YES : answer_of(r, record));
}

static void read_define(struct reach *r, struct record *record, bool wanted)
{
    struct macro *m = macro_define(&r->p, record->operand, record->operand_size, live(r) == ANSWER_UNKNOWN);
    if (!m) return;
    struct node *n = m->owner = node_new(r, record->item);
    push(r->arena, &name_of(r, m->symbol)->macros, n);
    if (wanted) push(r->arena, &r->wanted, n);
}

static size_t name_size(const struct record *record)
{
    size_t n = 0;
    while (n < record->operand_size && !strchr(" \t\r/", record->operand[n])) n++;
    return n;
}

static void read_one(struct reach *r, struct record *list, uint32_t i, bool wanted)
{
    struct record *record = &list[i];
    const bool in = live(r) != ANSWER_NO;
    switch (record->kind) {
    case RECORD_IF:
    case RECORD_ELIF:
    case RECORD_ELSE:
    case RECORD_ENDIF:   read_condition(r, record); break;
    case RECORD_DEFINE:  if (in) read_define(r, record, wanted); break;
    case RECORD_UNDEF:   if (in) macro_undefine(&r->p, record->operand, name_size(record), live(r) == ANSWER_UNKNOWN); break;
    case RECORD_INCLUDE: if (in && r->include) r->include(r->context, record); break;
    case RECORD_CODE:
        if (in) {
            text_append(&reading_of(r, record->item)->code, record->text, record->size);
            text_puts(&reading_of(r, record->item)->code, "\n");
        }
        if (record->item->last == i) read_item(r, record->item, wanted);
        break;
    case RECORD_DIRECTIVE:
    case RECORD_COMMENT:
    case RECORD_BLANK:   break;
    }
}

void reach_read(struct reach *r, struct record *list, uint32_t n, bool wanted)
{
    const uint32_t depth = r->depth;
    for (uint32_t i = 0; i < n; i++) read_one(r, list, i, wanted);
    if (r->depth != depth) die("%s: #if without #endif", n ? list[0].file : "a template");
}

void reach_read_one(struct reach *r, struct record *list, uint32_t i) { read_one(r, list, i, false); }

uint32_t reach_depth(const struct reach *r) { return r->depth; }

uint32_t reach_branch(const struct reach *r, uint32_t from)
{
    for (uint32_t i = r->depth; i > from; i--) if (r->level[i].maybe) return r->level[i].branch;
    return 0;
}

bool reach_is_within(const struct reach *r, uint32_t branch)
{
    for (uint32_t i = 1; i <= r->depth; i++) if (r->level[i].branch == branch) return true;
    return false;
}

/* ---- following uses ---- */

static void follow(struct node *n);
static void follow_all(const struct list *l) { for (uint32_t i = 0; i < l->n; i++) follow(l->item[i]); }

static void follow(struct node *n)
{
    if (n->reached) return;
    n->reached = true;
    follow_all(&n->met);
    for (uint32_t i = 0; n->item && i < n->uses.n; i++) {
        const struct name *name = ((struct symbol *)n->uses.item[i])->owner;
        follow_all(&name->declared);
        follow_all(&name->functions);
    }
    for (uint32_t i = 0; n->item && i < n->locals.n; i++)
        follow_all(&((struct name *)((struct symbol *)n->locals.item[i])->owner)->declared);
    if (n->item && n->item->owner) follow_all(&((struct reading *)n->item->owner)->nodes);       /* the text is the same in all readings */
}

static bool any_reached(const struct list *l)
{
    for (uint32_t i = 0; i < l->n; i++) if (((struct node *)l->item[i])->reached) return true;
    return false;
}

/* Is an assertion kept? It does not make other items needed: it is kept only if everything that it names is needed anyway. */
static bool speaks_of_reached(const struct node *n)
{
    for (uint32_t i = 0; i < n->uses.n; i++) {
        const struct name *name = ((struct symbol *)n->uses.item[i])->owner;
        if (name->declared.n + name->functions.n && !any_reached(&name->declared) && !any_reached(&name->functions)) return false;
    }
    for (uint32_t i = n->by_macro; i < n->met.n; i++) if (!((struct node *)n->met.item[i])->reached) return false;
    return true;
}

void reach_finish(struct reach *r)
{
    follow_all(&r->wanted);
    for (uint32_t i = 0; i < r->conditions.n; i++) {
        const struct record *record = r->conditions.item[i];
        struct node *n = record->owner;
        if (record->seen == SEEN_OUT || record->seen == SEEN_IN) continue;
        follow(n);
        for (uint32_t k = 0; k < n->uses.n; k++) follow_all(&((struct name *)((struct symbol *)n->uses.item[k])->owner)->macros);
    }
    for (bool more = true; more; ) {
        more = false;
        for (uint32_t i = 0; i < r->nodes.n; i++) {
            struct node *n = r->nodes.item[i];
            if (n->is_assert && !n->reached && speaks_of_reached(n)) { follow(n); more = true; }
        }
    }
}

bool reach_needs(struct reach *r, const struct record *record)
{
    if (record->kind == RECORD_UNDEF) {
        const struct name *name = symbol_of(&r->p, record->operand, name_size(record))->owner;
        return !name || !name->macros.n || any_reached(&name->macros);
    }
    if (!record->item) return true;
    return record->item->owner && ((struct reading *)record->item->owner)->nodes.n &&
           any_reached(&((struct reading *)record->item->owner)->nodes);
}
