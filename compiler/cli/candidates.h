/* candidates.h -- what `forgec compare` sets against each other: all combinations of the values that were given for a few options, and what
 * each is called. */
#ifndef FORGEC_CANDIDATES_H
#define FORGEC_CANDIDATES_H
#include "compiler/base/base.h"

/* In this order in a name; the last ones change first from one combination to the next. */
enum dimension { DIM_MODEL, DIM_TARGET, DIM_FUSE, DIM_KV, DIM_CTX, DIM_PLAN, DIM_TUNED, DIM_SOURCE, N_DIMENSIONS };
enum { CANDIDATES_MOST = 16 };

extern const struct dimension_kind {
    const char *option, *letter;      /* "--target", "-t"; NULL: the operands; no letter */
    const char *key;                  /* in JSON and in names: "fuse layer"; names of models and targets stand alone */
    bool        list;                 /* "A,B" are two values; an option may also be given several times, and each value is a path then */
    bool        may_default;          /* the word "default" is a value: without the option */
} dimension_kinds[N_DIMENSIONS];

struct values { const char **items; uint32_t n, capacity; };
struct combination { const char *value[N_DIMENSIONS]; /* NULL: without the option */ const char *name; };

/* Adds what stands behind an option: one value, or those of a list.  False: one is empty. */
bool values_add(struct arena *a, struct values *v, enum dimension d, const char *text);
/* The combinations, named by what differs between them; the same again get " (2)", " (3)".  given[DIM_MODEL].n > 0; where one model and no
 * other list is given, fusion is none and layer.  NULL: more than CANDIDATES_MOST; *n is then how many. */
struct combination *combinations(struct arena *a, const struct values given[N_DIMENSIONS], uint32_t *n);
#endif
