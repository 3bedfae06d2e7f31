/* kernels.h -- the kernels of a plan for WebGPU as modules of WGSL. */
#ifndef FORGEC_WEB_KERNELS_H
#define FORGEC_WEB_KERNELS_H
#include "compiler/plan/plan.h"

/* Of kernel k: the module, whose entry point is main.  draw: of sampling's two modules the second.  templates: --templates DIR or NULL. */
const char *web_kernel(struct arena *a, const struct plan *p, uint32_t k, bool draw, const char *templates);
/* The same text, made from one of its launches. */
const char *web_launch_kernel(struct arena *a, const struct plan *p, const struct launch *l, bool draw, const char *templates);
/* Slot i of a launch: is it of a matrix, or of matrices of a run that lie one behind the other, which has a binding of its own, or does it
 * lie in `vectors`?  bytes: of either. */
struct web_slot { bool matrix; uint64_t offset, bytes; };
struct web_slot web_slot(const struct plan *p, const struct launch *l, uint32_t i);
#endif
