/* candidates.h -- the candidates of `forgec compare`: all combinations of the values given for a few options, and their names. */
#ifndef FORGEC_CANDIDATES_H
#define FORGEC_CANDIDATES_H
#include "compiler/base/base.h"

/* The order in a name; from one combination to the next, the last dimension changes first. */
enum dimension { DIM_MODEL, DIM_TARGET, DIM_FUSE, DIM_KV, DIM_CTX, DIM_PLAN, DIM_TUNED, DIM_SOURCE, N_DIMENSIONS };
enum { CANDIDATES_MOST = 16 };

extern const struct dimension_kind {
    const char *option, *letter;      /* "--target", "-t"; option NULL: the operands; letter NULL: no short form */
    const char *key;                  /* in JSON and in names, as in "fuse layer"; models and targets have no key in names */
    bool        list;                 /* "A,B" are two values (any option may be given several times, too); false: a value is a path */
    bool        may_default;          /* the value "default" means without the option */
} dimension_kinds[N_DIMENSIONS];

struct values { const char **items; uint32_t n, capacity; };
struct combination { const char *value[N_DIMENSIONS]; /* NULL: without the option */ const char *name; };

/* Adds an option's value, or the values of its list. False if a value is empty. */
bool values_add(struct arena *a, struct values *v, enum dimension d, const char *text);
/* The combinations, named by the values in which they differ; repeated names get " (2)", " (3)". given[DIM_MODEL].n > 0. With one model and
 * no other list, the two combinations are --fuse none and --fuse layer. *n: their number; NULL if it is more than CANDIDATES_MOST. */
struct combination *combinations(struct arena *a, const struct values given[N_DIMENSIONS], uint32_t *n);
#endif
