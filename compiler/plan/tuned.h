/* tuned.h -- settings that `forgec tune` measured: a YAML file of tiles that take the place of the target's own and of kernels with their
 * parameters (docs/tune.md).  The tiles are read by base/profile.c. */
#ifndef FORGEC_TUNED_H
#define FORGEC_TUNED_H
#include "compiler/plan/plan.h"

/* Sixteen hexadecimal digits of all that settings are measured for: the fused groups with the sizes and formats of their matrices and
 * heads.  Models that differ in names or in values alone have the same. */
const char *tuned_shape(struct arena *a, const struct plan *p);
/* The settings of p->profile's tuned file for plans of p's options, where they apply to p: splits and ranges of steps that a short context
 * has no room for are left out.  p: planned without them.  options: what shaped the program, without its context: "--fuse layer --kv f16".
 * Dies with line and column when the file was tuned for another shape, target or other options. */
const struct kernel_choices *tuned_choices(struct arena *a, const struct plan *p, const char *options);
/* What the plan p of another GPU that shares the model takes over of the settings that the first one's was made with, tuned ones or those
 * of a plan that was read back: those of groups that have the first one's shape.  But tiles, the first one's settings of prefill's
 * products, go for all groups: so all GPUs have the same launches. */
const struct kernel_choices *tuned_beside(struct arena *a, const struct plan *first, const struct plan *p,
                                          const struct kernel_choices *tiles);
#endif
