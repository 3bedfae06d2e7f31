/* limits.h -- checks for parts of a graph that the kernels of a target cannot compute. */
#ifndef FORGEC_LIMITS_H
#define FORGEC_LIMITS_H
#include "plan.h"

/* Dies if the target cannot compute g; the message names the value and the reason. Reads only p's model, target and options: g is not fused
 * yet. */
void plan_check_limits(const struct plan *p, const struct graph *g);
#endif
