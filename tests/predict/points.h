/* points.h -- the plan of a measured model, for predict_fit and predict_extract. */
#ifndef PREDICT_POINTS_H
#define PREDICT_POINTS_H
#include "compiler/plan/cost.h"

/* The plan of a measured model, as `forgec build -t TARGET --ctx CTX` makes it.  path: a GGUF file or only its header; t: the target. */
static inline const struct plan *measured_plan(struct arena *a, const char *path, const struct target *t, uint32_t n_ctx)
{
    const struct model_options m = { .n_ctx = n_ctx };
    const struct plan_options  o = { .n_ctx = n_ctx };
    const struct graph *g = graph_build(a, model_describe(a, gguf_open(a, path, true), &m));
    return plan_make(a, g, FUSE_LAYER, t, &o);
}
#endif
