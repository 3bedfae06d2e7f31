/* mask.h -- the position of a text in a grammar, and which tokens may come next.
 *
 * A place is a set of stacks: what may come next, and what follows each open rule.  Places that were reached, and where each byte leads
 * from them, are cached (as in the lazy automaton of a regular expression).  So a token costs one look-up for each byte that it does not
 * share with the previous token in the lexicon.  Text between quotes, where most tokens are allowed, is one bit mask. */
#ifndef FORGE_MASK_H
#define FORGE_MASK_H
#include "grammar.h"
#include "lexicon.h"

enum mask_status {
    MASK_OK,
    MASK_REFUSED,                        /* the grammar does not allow this token or byte here; nothing has changed */
    MASK_STUCK,                          /* no token of the vocabulary is allowed here, and the text may not end */
    MASK_TOO_MUCH,                       /* the text can be read in too many ways, or is nested too deeply, for the memory or MASK_WORK */
};
enum { MASK_WORK = 1 << 21 };            /* most stacks examined for one token: a few hundredths of a second */

struct mask_stack { uint32_t state, parent, count, stamp, link; };
struct mask_place { uint32_t first, n, hash; uint16_t link, uniform; uint8_t ready, ends, tokens; };

/* For one text; several masks may share grammar and lexicon. */
struct mask {
    const struct grammar *grammar;
    const struct lexicon *lexicon;
    struct mask_stack *stacks;           /* [most_stacks] */
    uint32_t *stack_hash, *work, *found; /* [stack_buckets], [most_stacks] twice */
    struct mask_place *places;           /* [most_places]; 0: nowhere */
    uint16_t *place_hash, *rows;         /* [place_buckets]; [most_places][256] the place after each byte */
    uint32_t *pool;                      /* [most_pool] stacks of the places */
    uint32_t *kept;                      /* [KEPT][n_words] cached masks */
    uint8_t  *text;                      /* [LEXICON_DEPTH + 1] */
    uint32_t most_stacks, stack_buckets, most_places, place_buckets, most_pool;
    uint32_t n_stacks, n_places, n_pool, n_found, stamp, left;
    uint16_t kept_place[8];
    uint8_t  kept_next;
    uint16_t now;                        /* the current place */
    bool     full, ends, ended;
};

/* Bytes of memory for mask_open: the minimum, and the size that suffices for usual schemas and grammars, about 4 MiB.  With more memory,
 * more places are cached. */
size_t mask_least(const struct lexicon *lexicon);
size_t mask_usual(const struct lexicon *lexicon);

/* grammar, lexicon and memory (aligned to 8) remain the caller's and must not change while m is used; nothing needs to be closed.
 * MASK_TOO_MUCH: the memory is too small. */
enum mask_status mask_open(struct mask *m, const struct grammar *grammar, const struct lexicon *lexicon, void *memory, size_t bytes);
enum mask_status mask_restart(struct mask *m);                         /* back to the beginning of the text */

/* bits: [n_words], 1 for each token that may come next; also for tokens that end the generation, if the text may end.  After MASK_STUCK
 * and MASK_TOO_MUCH do not use bits. */
enum mask_status mask_fill(struct mask *m, uint32_t *bits);
/* Adds the token.  A token that ends the generation leaves the position unchanged and marks *m as ended. */
enum mask_status mask_token(struct mask *m, int32_t token);
/* Adds text, whatever its tokens.  *n_read, unless NULL: the number of bytes accepted; *m stands after them, whatever the result. */
enum mask_status mask_text(struct mask *m, const char *text, size_t n, size_t *n_read);
static inline bool mask_may_end(const struct mask *m) { return m->places[m->now].ends != 0; }
static inline bool mask_is_complete(const struct mask *m) { return mask_may_end(m) && m->places[m->now].n == 0; }     /* must end */
#endif
