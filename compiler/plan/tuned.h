/* tuned.h -- settings that `forgec tune` found: a YAML file with tiles that replace those of the target, and with kernels and their
 * parameters (docs/tune.md). base/target.c reads the tiles. */
#ifndef FORGEC_TUNED_H
#define FORGEC_TUNED_H
#include "compiler/plan/plan.h"

/* A hash of 16 hexadecimal digits over everything that settings depend on: the fused groups with the sizes and formats of their matrices
 * and heads. Models that differ only in names or values have the same hash. */
const char *tuned_shape(struct arena *a, const struct plan *p);
/* The settings in the tuned file of p->target that apply to p; NULL: the file has no kernels. Splits are lowered to what p's context
 * allows, and tiles for longer steps than p's chunk are left out. p: planned without these settings. options: the options that shaped the
 * program, without its context: "--fuse layer --kv f16". Dies with line and column if the file was tuned for another shape or target, or
 * for other options. */
const struct kernel_choices *tuned_choices(struct arena *a, const struct plan *p, const char *options);
/* The settings for p, the plan of another GPU that shares the model. They are the settings with which the first GPU's plan was made (tuned,
 * or from a plan that was read back), for groups that have the same shape on both. tiles: the first GPU's settings of prefill's products,
 * used for all groups, so that all GPUs have the same launches. */
const struct kernel_choices *tuned_beside(struct arena *a, const struct plan *first, const struct plan *p,
                                          const struct kernel_choices *tiles);
#endif
