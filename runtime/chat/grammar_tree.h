/* grammar_tree.h -- the tree of a grammar's text, of which grammar.c and alternatives.c make items. */
#ifndef FORGE_GRAMMAR_TREE_H
#define FORGE_GRAMMAR_TREE_H
#include "grammar.h"

enum tree_kind { TREE_SEQUENCE, TREE_CHOICE, TREE_LITERAL, TREE_CLASS, TREE_RULE, TREE_REPEAT, TREE_TOKEN };
#define NO_MOST UINT32_MAX

struct span { struct span *next; uint32_t first, last; };              /* codepoints */
struct tree {
    struct tree *next, *child;           /* child: the first of a sequence or choice; the body of a repeat */
    enum tree_kind kind;
    uint32_t least, most;                /* of a repeat; of a token: least is its id, and most means any other token */
    uint32_t weight;                     /* approximate number of items */
    const char  *bytes;                  /* [n] of a literal */
    size_t       n;
    struct span *spans;                  /* of a class: ascending and disjoint */
    struct rule *rule;
};
struct rule {
    struct rule *next, *after;           /* in its bucket; in the order of their first mention */
    const char  *name;                   /* [n_name] at its first mention or definition; NULL: the rule of a repeat */
    size_t       n_name;
    struct tree *body;                   /* NULL: not defined */
    uint32_t     number, entry;          /* entry: its first item */
    uint32_t     n_uses;                 /* how often the tree mentions it */
    bool         written, called, inlined;               /* its items; a call of it; its items stand where it is used */
};

struct grammar_parser {
    struct room *room;
    const char  *begin, *at, *end;
    const uint8_t *vocab;
    struct rule **buckets, *first, **last;               /* [n_buckets], a power of two */
    struct rule **rules;                 /* [n_rules], once all are known */
    uint32_t     n_buckets, n_rules, depth;
    struct grammar_error *error;
    bool         failed;
    /* items */
    struct grammar_item   *items;        /* [most_items] */
    struct grammar_repeat *repeats;      /* [most_repeats] */
    uint32_t     n_items, most_items, n_repeats, most_repeats;
    uint32_t     copying;                /* more than 0: the tree is written several times */
    uint32_t     n_factored;             /* how deep alternatives are being joined */
};

/* False; the first error stays.  line 0: it has no place. */
bool grammar_fail(struct grammar_parser *r, uint32_t line, uint32_t column, const char *why, const char *name, size_t n);
/* Zeroed memory of the parser's room; NULL: it has failed. */
void *grammar_take(struct grammar_parser *r, size_t bytes);

/* Each adds a state and returns it; after a failure 0.  The state of several items leads wherever one of them leads. */
uint32_t grammar_put_item(struct grammar_parser *r, struct grammar_item item);
uint32_t grammar_put_items(struct grammar_parser *r, const struct grammar_item *items, uint32_t n);

/* A call of the rule, which is then not inlined. */
uint32_t grammar_put_call(struct grammar_parser *r, struct rule *rule, uint32_t next);

/* Writes bytes [n] and returns the state from which they lead to next. */
uint32_t grammar_put_bytes(struct grammar_parser *r, const char *bytes, size_t n, uint32_t next);

/* Each writes trees and returns the state from which they lead to next: a tree; `first` and the trees after it; a choice of n > 1. */
uint32_t grammar_put_tree(struct grammar_parser *r, const struct tree *t, uint32_t next);
uint32_t grammar_put_sequence(struct grammar_parser *r, struct tree *first, uint32_t next);
uint32_t grammar_put_alternatives(struct grammar_parser *r, const struct tree *choice, uint32_t n, uint32_t next);
#endif
