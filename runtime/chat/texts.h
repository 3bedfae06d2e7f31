/* texts.h -- regular sets of texts: expressions with union, intersection and complement, and their GBNF for the inside of JSON strings.
 * Equal expressions are one node.  An automaton's states are derivatives (Brzozowski 1964): what may follow a character. */
#ifndef FORGE_CHAT_TEXTS_H
#define FORGE_CHAT_TEXTS_H
#include "room.h"

enum { TEXTS_LAST = 0x10ffff };                              /* the last character */
#define TEXTS_ANY_NUMBER UINT32_MAX
enum texts_kind {
    TEXTS_NONE, TEXTS_EMPTY,             /* no text; the empty text */
    TEXTS_SET,                           /* one character of the set */
    TEXTS_CAT, TEXTS_OR, TEXTS_AND,      /* a then b; a list of several: a, and b, the rest of the list */
    TEXTS_NOT,                           /* all but a */
    TEXTS_REPEAT,                        /* a, least to most times */
    TEXTS_AHEAD, TEXTS_BEHIND, TEXTS_WORD,       /* only in pattern.c: what follows, or precedes, is in a; a word begins or ends */
};
struct texts_range { uint32_t first, last; };
struct texts_node {
    struct texts_node *link, *a, *b;
    const struct texts_range *ranges;    /* [n] of a set: ascending and disjoint */
    uint32_t n, least, most, id, hash, state;            /* state: of its automaton, from 1 */
    uint8_t  kind;
    bool     nullable;                   /* has the empty text */
    bool     asks;                       /* has TEXTS_AHEAD, TEXTS_BEHIND or TEXTS_WORD */
    bool     mixed;                      /* has TEXTS_AND or TEXTS_NOT, or a counted repetition of something nullable */
};

struct texts {
    struct room *room;
    struct texts_node **buckets, *none, *empty, *any, *all;  /* any: one character; all: all texts */
    struct texts_node **list;            /* while lists are merged */
    struct texts_memo *memo;
    uint32_t n_buckets, n_nodes, *work;  /* *work: steps that are left */
    bool     failed;                     /* too much work or memory: the nodes are useless */
};

/* work: most steps, of which several may use the same; a million take about 0.1 s.  False: the room is full, or no work is left. */
bool texts_open(struct texts *t, struct room *room, uint32_t *work);

/* The ranges [n] may be in any order. */
struct texts_node *texts_set(struct texts *t, const struct texts_range *ranges, uint32_t n);
struct texts_node *texts_literal(struct texts *t, const char *text, size_t n);
struct texts_node *texts_cat(struct texts *t, struct texts_node *a, struct texts_node *b);
struct texts_node *texts_or(struct texts *t, struct texts_node *a, struct texts_node *b);
struct texts_node *texts_and(struct texts *t, struct texts_node *a, struct texts_node *b);
struct texts_node *texts_not(struct texts *t, struct texts_node *a);
struct texts_node *texts_repeat(struct texts *t, struct texts_node *a, uint32_t least, uint32_t most);
struct texts_node *texts_ask(struct texts *t, enum texts_kind kind, struct texts_node *a, bool negated);

/* Sorts the ranges and makes them disjoint; returns their number. */
uint32_t texts_order(struct texts_range *ranges, uint32_t n);

/* Does the set have this text? */
bool texts_have(struct texts *t, struct texts_node *of, const char *text, size_t n);
/* The number of characters of its texts; *most may be TEXTS_ANY_NUMBER.  They may be bounds that no text reaches. */
void texts_lengths(const struct texts_node *of, uint32_t *least, uint32_t *most);

/* Where GBNF goes.  any: the name of a rule for any character of a string. */
struct texts_out { struct text_out *out; const char *prefix, *any; };
/* Writes the set as a group.  It must not be `mixed`.  Characters that JSON escapes have one spelling each. */
void texts_put(const struct texts *t, const struct texts_node *of, const struct texts_out *to);

/* The automaton of a set, only one for t.  NULL: it has too many states. */
struct texts_automaton;
struct texts_automaton *texts_automaton(struct texts *t, struct texts_node *of);
bool texts_no_text(const struct texts_automaton *a);
/* Writes a rule per state, each on a line of its own: name followed by its number; 0 is the first. */
void texts_put_rules(const struct texts *t, const struct texts_automaton *a, const struct texts_out *to, const char *name);
#endif
