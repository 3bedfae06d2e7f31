/* bounds.h -- bounds on the difference between a program's logits and the reference that rounds as the program does. forgec verify and the
 * golden tests share them. */
#ifndef FORGEC_BOUNDS_H
#define FORGEC_BOUNDS_H
#include "compiler/front/reference.h"

/* Bounds for the logits of one kind of kernels. most, least: the largest difference at the worst and at the best position, relative to the
 * largest logit; mean KL in nats. */
struct bound {
    const char     *name;             /* "int8 activations" */
    struct rounding rounding;         /* of the reference to compare with */
    double          most, least, mean_kl;
    bool            rows_bf16;        /* some matmul of the model reads bf16: one value that falls the other way moves all logits */
    const double   *moved_at;         /* [positions] how far rounding alone moves the logits, or NULL */
    uint32_t        n_moved;          /* positions beyond `most`, whose bound is twice moved_at */
};

/* The bounds for programs of the graph's model for a target. step: number of tokens per step of the prompt that computed the logits; 0: one
 * token after the other (decode). */
struct bound bound_find(const struct graph *g, const struct target *target, const struct plan_options *o, uint32_t step);
bool bound_holds(const struct bound *b, const struct logits_difference *d);
/* Widens b for positions whose logits are beyond `most`, or whose divergence is beyond the bound of the mean: their bound becomes twice the
 * shift that rounding alone causes, once for each of the two sides that are compared. The bound of the best position becomes twice the
 * smallest shift that noise below the rounding causes at any position.
 * d: of the program. moved_at: [n], by how much rounding moves the logits; the pointer is kept. kl: [n], the divergence caused by rounding.
 * least: in logits. */
void bound_widen(struct bound *b, const struct logits_difference *d, const double *moved_at, const double *kl, double least);
#endif
