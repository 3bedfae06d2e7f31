/* kernels.h -- writes the text of a GPU plan's kernels, and of the functions that only these use. */
#ifndef FORGEC_GPU_KERNELS_H
#define FORGEC_GPU_KERNELS_H
#include "choose.h"

/* An instance of the template of decode's products (gemv), and of prefill's (gemm). */
struct gpu_gemv { const char *format; uint32_t rows, lanes, depth, columns; enum gpu_slices slices; bool matrix; };
struct gpu_gemm { const char *format; uint32_t tokens, rows, threads; bool slices; };
/* The instances that the kernels of a plan call, without duplicates. */
struct gpu_instances {
    struct gpu_gemv *gemvs;
    struct gpu_gemm *gemms;
    uint32_t         n_gemvs, n_gemms;
};
struct gpu_instances gpu_instances(struct arena *a, const struct plan *p);
/* Appends the kernels of p->kernels in their order. A function stands before the first kernel that uses it. */
void emit_gpu_kernels(struct arena *a, struct text *out, const struct plan *p);
/* The text of the kernel of one launch, written for that launch's group and weights. It is the same for all launches of the kernel. */
const char *emit_gpu_kernel(struct arena *a, const struct plan *p, const struct launch *l);
#endif
