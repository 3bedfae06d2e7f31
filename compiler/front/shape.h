/* shape.h -- checks an operation's operands and computes the columns and heads of its result. */
#ifndef FORGEC_SHAPE_H
#define FORGEC_SHAPE_H
#include "graph.h"

/* Sets cols and heads of n, the last node of g so far, by the rule of its row in op.def. Its operands and attributes must be set.
 * Dies at `at` if they do not fit. */
void shape_infer(const struct graph *g, struct place at, struct node *n);
#endif
