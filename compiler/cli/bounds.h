/* bounds.h -- how far a program's logits may be from the reference that rounds as the program does: forgec verify and the golden tests
 * share these. */
#ifndef FORGEC_BOUNDS_H
#define FORGEC_BOUNDS_H
#include "compiler/front/reference.h"

/* Of logits that one kind of kernels computed.  The largest difference at the worst position and at the best, as parts of the largest
 * logit; mean KL in nats. */
struct bound {
    const char     *name;             /* "int8 activations" */
    struct rounding rounding;         /* of the reference to compare with */
    double          most, least, mean_kl;
    const double   *moved_at;         /* [positions] what rounding moves, or NULL */
    uint32_t        n_moved;          /* positions beyond `most`, held to twice that */
};

/* For programs of the graph's model for a target: logits that steps of so many tokens of a prompt computed, 0:
 * those of one token after the other. */
struct bound bound_find(const struct graph *g, const struct profile *target, const struct plan_options *o, uint32_t step);
bool bound_holds(const struct bound *b, const struct logits_difference *d);
/* Where logits are beyond `most`, or their divergence beyond the mean's bound: that position is held to twice what rounding alone moves it,
 * once for each of the two that are compared.
 * The best position is held to twice what noise below rounding moves the position that it moves least.
 * d: of the program; moved_at: [n] what rounding moves logits by; it is kept.  kl: [n] their divergence.  least: in logits. */
void bound_widen(struct bound *b, const struct logits_difference *d, const double *moved_at, const double *kl, double least);
#endif
