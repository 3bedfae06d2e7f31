/* grammar.h -- GBNF, llama.cpp's form of grammars, into an automaton of bytes that mask.h walks.  Nothing is allocated but from the room
 * that the caller gives; time is linear in the text and in what its repetitions amount to. */
#ifndef FORGE_GRAMMAR_H
#define FORGE_GRAMMAR_H
#include "room.h"

#define GRAMMAR_MAGIC "FORGEG01"
enum { GRAMMAR_DEPTH = 100, GRAMMAR_MOST_ITEMS = 1 << 20, GRAMMAR_MOST_REPEAT = 1 << 20, GRAMMAR_MOST_BYTES = 1 << 22 };

/* What a state may do next.  A state is the index of its first item, its items follow each other up to one that is `last`. */
enum grammar_kind {
    GRAMMAR_END,                 /* the rule ends: on with what called it */
    GRAMMAR_BYTES,               /* a byte low .. high, then `next` */
    GRAMMAR_EMPTY,               /* `next` */
    GRAMMAR_CALL,                /* the rule that begins at `arg`, then `next` */
    GRAMMAR_GO,                  /* the same where `next` would be an end: nothing comes back */
    GRAMMAR_REPEAT,              /* repeat number `arg`: its rule so often, then `next`; the only item of its state */
    GRAMMAR_TOKEN,               /* token `arg`, or with low any other one, then `next` */
    GRAMMAR_NOTHING,             /* what would never end */
};
struct grammar_item { uint32_t next, arg; uint8_t kind, low, high, last; };
struct grammar_repeat { uint32_t entry, least, most, reserved; };

/* Position-independent: the header, n_items items, n_repeats repeats. */
struct grammar {
    char     magic[8];
    uint32_t bytes, n_items, n_repeats;
    uint32_t root;               /* the state to begin with */
};
_Static_assert(sizeof(struct grammar) == 24 && sizeof(struct grammar_item) == 12, "grammar: 24-byte header, 12-byte items");

static inline const struct grammar_item *grammar_items(const struct grammar *g) { return (const void *)(g + 1); }
static inline const struct grammar_repeat *grammar_repeats(const struct grammar *g)
{
    return (const void *)(grammar_items(g) + g->n_items);
}

struct grammar_error { uint32_t line, column; char text[200]; };       /* from 1; 0: of no place; text: one sentence, with its zero */

/* Room in which all but odd grammars of n bytes are read; pages of it that are not needed are not touched.  What stays is the image. */
static inline size_t grammar_room(size_t n) { return ((size_t)2 << 20) + (n < GRAMMAR_MOST_BYTES ? n : GRAMMAR_MOST_BYTES) * 200; }

/* text: [n] GBNF (docs/grammar.md).  vocab: for tokens by their text, NULL: those are refused.  NULL: *error says why; the room is then
 * as it was. */
const struct grammar *grammar_read(struct room *room, const char *text, size_t n, const uint8_t *vocab, struct grammar_error *error);

/* The same for a choice: any one of the texts, none of them empty. */
struct grammar_choice { const char *text; size_t n; };
const struct grammar *grammar_of_choices(struct room *room, const struct grammar_choice *choices, size_t n, struct grammar_error *error);

/* "text" as a literal of GBNF, with quotes. */
void grammar_put_literal(struct text_out *out, const char *text, size_t n);

/* UTF-8 of codepoints first .. last, which are no surrogates, as sequences of ranges of bytes: calls put with each. */
struct utf8_range { uint8_t n, low[4], high[4]; };
uint32_t utf8_ranges(uint32_t first, uint32_t last, struct utf8_range out[16]);
#endif
