/* grammar.h -- compiles GBNF, llama.cpp's form of grammars, to an automaton on bytes for mask.h.  Allocates only from the room of the
 * caller.  Time is linear in the text and in the expansion of its repetitions. */
#ifndef FORGE_GRAMMAR_H
#define FORGE_GRAMMAR_H
#include "room.h"

#define GRAMMAR_MAGIC "FORGEG01"
enum { GRAMMAR_DEPTH = 100, GRAMMAR_MOST_ITEMS = 1 << 20, GRAMMAR_MOST_REPEAT = 1 << 20, GRAMMAR_MOST_BYTES = 1 << 22,
       GRAMMAR_MOST_RULES = 1 << 17, GRAMMAR_MOST_ALIKE = 2048 };

/* What a state may do next.  A state is the index of its first item; its items are consecutive up to one that is `last`. */
enum grammar_kind {
    GRAMMAR_END,                 /* the rule ends: continue after its call */
    GRAMMAR_BYTES,               /* a byte low .. high, then `next` */
    GRAMMAR_EMPTY,               /* `next` */
    GRAMMAR_CALL,                /* the rule that begins at `arg`, then `next` */
    GRAMMAR_GO,                  /* the same if `next` would be an end: does not return */
    GRAMMAR_REPEAT,              /* repeat number `arg`: its rule the given number of times, then `next`; the only item of its state */
    GRAMMAR_TOKEN,               /* token `arg`, or with low any other token, then `next` */
    GRAMMAR_NOTHING,             /* something that would never end */
};
struct grammar_item { uint32_t next, arg; uint8_t kind, low, high, last; };
struct grammar_repeat { uint32_t entry, least, most, reserved; };

/* Position-independent: the header, n_items items, n_repeats repeats. */
struct grammar {
    char     magic[8];
    uint32_t bytes, n_items, n_repeats;
    uint32_t root;               /* the first state */
};
_Static_assert(sizeof(struct grammar) == 24 && sizeof(struct grammar_item) == 12, "grammar: 24-byte header, 12-byte items");

static inline const struct grammar_item *grammar_items(const struct grammar *g) { return (const void *)(g + 1); }
static inline const struct grammar_repeat *grammar_repeats(const struct grammar *g)
{
    return (const void *)(grammar_items(g) + g->n_items);
}

struct grammar_error { uint32_t line, column; char text[200]; };       /* from 1; 0: no place; text: one sentence, zero-terminated */

/* Size of a room that suffices for all but unusual grammars of n bytes; pages that are not needed are not touched.  Only the image
 * remains in it. */
static inline size_t grammar_room(size_t n) { return ((size_t)2 << 20) + (n < GRAMMAR_MOST_BYTES ? n : GRAMMAR_MOST_BYTES) * 200; }

/* text: [n] GBNF (docs/grammar.md).  vocab: to look up tokens by their text; NULL: such tokens are refused.  Returns NULL with the
 * reason in *error; the room is then as it was. */
const struct grammar *grammar_read(struct room *room, const char *text, size_t n, const uint8_t *vocab, struct grammar_error *error);

/* The same for a choice: any one of the texts, all non-empty. */
struct grammar_choice { const char *text; size_t n; };
const struct grammar *grammar_of_choices(struct room *room, const struct grammar_choice *choices, size_t n, struct grammar_error *error);

/* Writes "text" as a literal of GBNF, with quotes. */
void grammar_put_literal(struct text_out *out, const char *text, size_t n);

/* The UTF-8 of codepoints first .. last, without surrogates, as sequences of byte ranges; returns their number. */
struct utf8_range { uint8_t n, low[4], high[4]; };
uint32_t utf8_ranges(uint32_t first, uint32_t last, struct utf8_range out[16]);
#endif
