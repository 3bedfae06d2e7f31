/* alternatives.c -- writes the alternatives of a choice as a tree: what several of them begin with is written once, so that a text is read
 * in one way only.  Alternatives begin alike if they begin with the same bytes or the same rule.  A rule that only one alternative uses is
 * written in its place, so that its beginning counts too: the objects of a schema's anyOf are rules that all begin with {. */
#include "grammar_tree.h"

enum { FACTORED = 64, RULES = 256, END = 0x7ffffffe, OTHER };

/* What is left of an alternative: the trees from `at` on, then the parts after it. */
struct part { struct tree *at; const struct part *after; };
/* key: a byte, RULES + the number of a rule, END or OTHER; from: bytes of the first literal that have been written. */
struct alternative { const struct part *left; size_t from; uint32_t key, n_inlined; };

static const struct part *part_of(struct grammar_parser *r, struct tree *at, const struct part *after)
{
    if (!at) return after;
    struct part *p = grammar_take(r, sizeof *p);
    if (p) *p = (struct part){ at, after };
    return p;
}

/* Finds what the alternative begins with. */
static void look(struct grammar_parser *r, struct alternative *a)
{
    for (a->key = END; a->left && !r->failed; ) {
        struct tree *const t = a->left->at;
        const bool is_group = t->kind == TREE_SEQUENCE || (t->kind == TREE_CHOICE && !t->child->next);
        if (t->kind == TREE_LITERAL && a->from < t->n) { a->key = (uint8_t)t->bytes[a->from]; return; }
        if (t->kind != TREE_LITERAL && !is_group) { a->key = t->kind == TREE_RULE ? RULES + t->rule->number : OTHER; return; }
        a->left = part_of(r, is_group ? t->child : NULL, part_of(r, t->next, a->left->after));
        a->from = 0;
    }
}

/* Replaces the rule at the beginning by what it consists of.  False: others use it, or it has several alternatives. */
static bool inline_rule(struct grammar_parser *r, struct alternative *a)
{
    if (a->key < RULES || a->key >= END || r->copying || a->n_inlined == FACTORED) return false;
    struct tree *const t = a->left->at;
    struct rule *const rule = t->rule;
    if (rule->n_uses != 1 || rule->written || rule->called || rule->body->child->next) return false;
    rule->inlined = true;
    a->n_inlined++;
    a->left = part_of(r, rule->body->child, part_of(r, t->next, a->left->after));
    look(r, a);
    return true;
}

/* Sorts by keys, and keeps the order of equal ones: halves are merged by means of `more` [n]. */
static void sort(struct alternative *a, uint32_t n, struct alternative *more)
{
    const uint32_t half = n / 2;
    if (n < 2) return;
    sort(a, half, more);
    sort(a + half, n - half, more);
    memcpy(more, a, half * sizeof *a);
    for (uint32_t i = 0, k = half, to = 0; i < half; to++) a[to] = k < n && a[k].key < more[i].key ? a[k++] : more[i++];
}

/* Alternatives a[0 .. result - 1] begin alike. */
static uint32_t alike(const struct alternative *a, uint32_t n)
{
    uint32_t k = 1;
    while (k < n && a->key != OTHER && a[k].key == a->key) k++;
    return k;
}

static void group(struct grammar_parser *r, struct alternative *a, uint32_t n, struct alternative *more)
{
    for (bool again = true; again && !r->failed; ) {
        sort(a, n, more);
        again = false;
        for (uint32_t i = 0, k; i < n && !r->failed; i += k) {
            k = alike(a + i, n - i);
            if (k == 1 && n > 1) again |= inline_rule(r, &a[i]);
        }
    }
}

static uint32_t put_left(struct grammar_parser *r, const struct part *p, size_t from, uint32_t next)
{
    if (!p || r->failed) return next;
    next = put_left(r, p->after, 0, next);
    if (from == 0) return grammar_put_sequence(r, p->at, next);
    return grammar_put_bytes(r, p->at->bytes + from, p->at->n - from, grammar_put_sequence(r, p->at->next, next));
}

static uint32_t put_all(struct grammar_parser *r, struct alternative *a, uint32_t n, struct alternative *more, uint32_t next);

/* Writes n > 1 alternatives that begin with the same bytes or the same rule. */
static uint32_t put_alike(struct grammar_parser *r, struct alternative *a, uint32_t n, struct alternative *more, uint32_t next)
{
    const struct tree *const t = a->left->at;
    const bool is_literal = t->kind == TREE_LITERAL;
    const char *const bytes = is_literal ? t->bytes + a->from : NULL;
    size_t common = is_literal ? t->n - a->from : 0;
    for (uint32_t i = 1; i < n; i++) {
        const struct tree *other = a[i].left->at;
        size_t k = 0;
        while (k < common && k < other->n - a[i].from && other->bytes[a[i].from + k] == bytes[k]) k++;
        common = k;
    }
    for (uint32_t i = 0; i < n && !r->failed; i++) {
        if (is_literal) a[i].from += common;
        else a[i].left = part_of(r, a[i].left->at->next, a[i].left->after);
        look(r, &a[i]);
    }
    const uint32_t behind = put_all(r, a, n, more, next);
    return is_literal ? grammar_put_bytes(r, bytes, common, behind) : grammar_put_call(r, t->rule, behind);
}

/* more: [n].  The recursion is bounded: deeper, and in choices that are deeper, alternatives are written side by side. */
static uint32_t put_all(struct grammar_parser *r, struct alternative *a, uint32_t n, struct alternative *more, uint32_t next)
{
    const bool factored = r->n_factored < FACTORED;
    uint32_t n_to = 0, n_groups = 0, n_alike = 0;
    r->n_factored += factored;
    if (factored) group(r, a, n, more);
    for (uint32_t i = 0; i < n; i += factored ? alike(a + i, n - i) : 1) n_groups++;
    struct grammar_item *to = r->failed ? NULL : grammar_take(r, n_groups * sizeof *to);
    for (uint32_t i = 0, k; i < n && !r->failed; i += k) {
        k = factored ? alike(a + i, n - i) : 1;
        const bool together = k > 1 && a[i].key != END;
        n_alike += a[i].key >= RULES;
        if (n_alike > GRAMMAR_MOST_ALIKE)
            grammar_fail(r, 0, 0, "more than 2048 alternatives at one place that begin with no literal", NULL, 0);
        to[n_to++] = (struct grammar_item){ .kind = GRAMMAR_EMPTY,
                                            .next = together ? put_alike(r, a + i, k, more, next)
                                                             : put_left(r, a[i].left, a[i].from, next) };
    }
    r->n_factored -= factored;
    return n_to == 1 && !r->failed ? to->next : grammar_put_items(r, to, n_to);
}

uint32_t grammar_put_alternatives(struct grammar_parser *r, const struct tree *choice, uint32_t n, uint32_t next)
{
    struct alternative *a = grammar_take(r, 2 * (size_t)n * sizeof *a);
    n = 0;
    for (struct tree *c = choice->child; c && !r->failed; c = c->next, n++) {
        a[n].left = part_of(r, c->kind == TREE_SEQUENCE ? c->child : c, NULL);
        look(r, &a[n]);
    }
    return r->failed ? 0 : put_all(r, a, n, a + n, next);
}
