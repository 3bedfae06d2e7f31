/* limits.h -- what the graph can say and the kernels of a target cannot compute. */
#ifndef FORGEC_LIMITS_H
#define FORGEC_LIMITS_H
#include "plan.h"

/* Dies naming the value and what stands in the way.  Needs target and options of p; g is not fused yet. */
void plan_check_limits(const struct plan *p, const struct graph *g);
#endif
