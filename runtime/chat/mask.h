/* mask.h -- where a text stands in a grammar, and which tokens may come next.
 *
 * A place is a set of stacks: what may come, and what comes behind each rule that is open.  Places that were met, and where each byte leads
 * from there, are kept (as a regular expression's lazy automaton is); so a token costs a look-up for each byte that no token before it in
 * the lexicon has.  Text between quotes, where most tokens fit, is one bit mask. */
#ifndef FORGE_MASK_H
#define FORGE_MASK_H
#include "grammar.h"
#include "lexicon.h"

enum mask_status {
    MASK_OK,
    MASK_REFUSED,                        /* the grammar has no such token or byte here; nothing has changed */
    MASK_STUCK,                          /* no token of the vocabulary goes on from here, and the text may not end */
    MASK_TOO_MUCH,                       /* so many ways to read the text, or so deep, that memory or MASK_WORK do not suffice */
};
enum { MASK_WORK = 1 << 21 };            /* stacks looked at for one token: a few hundredths of a second */

struct mask_stack { uint32_t state, parent, count, stamp, link; };
struct mask_place { uint32_t first, n, hash; uint16_t link, uniform; uint8_t ready, ends, tokens; };

/* Of one text; several may share grammar and lexicon. */
struct mask {
    const struct grammar *grammar;
    const struct lexicon *lexicon;
    struct mask_stack *stacks;           /* [most_stacks] */
    uint32_t *stack_hash, *work, *found; /* [stack_buckets], [most_stacks] twice */
    struct mask_place *places;           /* [most_places]; 0: nowhere */
    uint16_t *place_hash, *rows;         /* [place_buckets]; [most_places][256] the place behind each byte */
    uint32_t *pool;                      /* [most_pool] stacks of the places */
    uint32_t *kept;                      /* [MASK_KEPT][n_words] */
    uint8_t  *text;                      /* [LEXICON_DEPTH + 1] */
    uint32_t most_stacks, stack_buckets, most_places, place_buckets, most_pool;
    uint32_t n_stacks, n_places, n_pool, n_found, stamp, left;
    uint16_t kept_place[8];
    uint8_t  kept_next;
    uint16_t now;                        /* the place */
    bool     full, ends, ended;
};

/* Bytes of memory for mask_open: the least with which it works at all, and as many as suffice for schemas and grammars of usual size, about
 * 4 MiB.  More memory: more places are kept. */
size_t mask_least(const struct lexicon *lexicon);
size_t mask_usual(const struct lexicon *lexicon);

/* grammar, lexicon and memory, aligned to 8, stay the caller's and as they are while m is used; nothing has to be closed.
 * MASK_TOO_MUCH: the memory does not suffice. */
enum mask_status mask_open(struct mask *m, const struct grammar *grammar, const struct lexicon *lexicon, void *memory, size_t bytes);
enum mask_status mask_restart(struct mask *m);                         /* to the beginning of the text */

/* bits: [n_words], 1 for each token that may come; those that end the generation where the text may end.  MASK_STUCK, MASK_TOO_MUCH: bits
 * are not to be used. */
enum mask_status mask_fill(struct mask *m, uint32_t *bits);
/* The token comes.  One that ends the generation: *m stays, and has ended. */
enum mask_status mask_token(struct mask *m, int32_t token);
/* Text comes, however its tokens may lie.  *n_read, unless NULL: how many bytes came; behind these *m stands whatever is returned. */
enum mask_status mask_text(struct mask *m, const char *text, size_t n, size_t *n_read);
static inline bool mask_may_end(const struct mask *m) { return m->places[m->now].ends != 0; }
#endif
