/* kernels.h -- the text of the kernels of a plan for a GPU, and of the functions that they alone use. */
#ifndef FORGEC_GPU_KERNELS_H
#define FORGEC_GPU_KERNELS_H
#include "choose.h"

/* An instance of the decode product's template; and of the prefill product's. */
struct gpu_gemv { const char *format; uint32_t rows, lanes, depth, columns; enum gpu_slices slices; bool matrix; };
struct gpu_gemm { const char *format; uint32_t tokens, rows, threads; bool slices; };
/* What the kernels of a plan call, each once. */
struct gpu_instances {
    struct gpu_gemv *gemvs;
    struct gpu_gemm *gemms;
    uint32_t         n_gemvs, n_gemms;
};
struct gpu_instances gpu_instances(struct arena *a, const struct plan *p);
/* Appends the kernels of p->kernels in their order, each behind the functions that it is the first to use. */
void emit_gpu_kernels(struct arena *a, struct text *out, const struct plan *p);
/* The kernel of one launch, written for that launch's group and weights: the same for all launches that share the kernel. */
const char *emit_gpu_kernel(struct arena *a, const struct plan *p, const struct launch *l);
#endif
