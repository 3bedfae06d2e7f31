/* kernels.h -- writes the kernels of a WebGPU plan as WGSL modules. */
#ifndef FORGEC_WEB_KERNELS_H
#define FORGEC_WEB_KERNELS_H
#include "compiler/plan/plan.h"

/* The module of kernel k; its entry point is main. draw: the second of sampling's two modules. templates: --templates DIR or NULL. */
const char *web_kernel(struct arena *a, const struct plan *p, uint32_t k, bool draw, const char *templates);
/* The same text, made from one launch of the kernel. */
const char *web_launch_kernel(struct arena *a, const struct plan *p, const struct launch *l, bool draw, const char *templates);
#endif
