/* kernels.h -- the functions of an emitted source, one per distinct kernel, and the launches that call them. */
#ifndef FORGEC_EMIT_KERNEL_H
#define FORGEC_EMIT_KERNEL_H
#include "compiler/plan/plan.h"
#include "runtime/model/abi.h"

struct emitted_launch {
    const char *function, *name;
    uint32_t    layer, tail, unless_divides, joins_divides;
    uint64_t    kv;
    uint64_t    weights[FORGE_MAX_WEIGHTS];
    uint32_t    n_weights;
};
struct emitted_kernels {
    struct emitted_launch *decode, *prefill;
    uint32_t               n_decode, n_prefill;
};
/* Appends the functions to out.  Layers whose functions would be the same text share one. */
struct emitted_kernels emit_kernels(struct arena *a, struct text *out, const struct plan *p);
#endif
