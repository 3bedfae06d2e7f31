/* kernels.h -- the kernels of an emitted GPU source, one per distinct text, and the launches that use them. */
#ifndef FORGEC_EMIT_GPU_KERNEL_H
#define FORGEC_EMIT_GPU_KERNEL_H
#include "compiler/plan/plan.h"
#include "runtime/model/abi.h"

struct gpu_kernel {
    const char *name, *body;
    uint32_t    threads, lds_bytes;
};
struct gpu_launch {
    const char *name;
    uint32_t    kernel, layer, tail, grid_x, grid_tokens, tokens_first, tokens_least, tokens_most, cluster;
    uint64_t    kv, weights[FORGE_GPU_MAX_WEIGHTS];
    uint32_t    n_weights;
    uint64_t    weight_bytes;            /* read; padding included */
    uint64_t    flops;                   /* of its products, for one token */
    uint32_t    rows;                    /* of a group's tile in a product of prefill, which has grid_tokens tokens; else 0 */
    double      fill;                    /* of its compute units, at tokens_most tokens (gpu/tiles.h) */
};
/* An instance of the decode product's template. */
struct gpu_gemv { const char *format; uint32_t rows, lanes; };
/* And of the prefill product's. */
struct gpu_gemm { const char *format; uint32_t tokens, rows, threads; };

struct gpu_kernels {
    struct gpu_kernel *kernels;
    struct gpu_launch *decode, *prefill, sample;
    uint32_t           n_kernels, n_decode, n_prefill;
    struct gpu_gemv   *gemvs;            /* distinct */
    struct gpu_gemm   *gemms;
    uint32_t           n_gemvs, n_gemms;
    struct text        text;             /* the kernels themselves */
};
/* Launches of a step of so many tokens, as many of them with logits. */
uint32_t gpu_launches(const struct gpu_launch *list, uint32_t n, uint32_t tokens);
/* The kernels of plan p and their launches. */
struct gpu_kernels *emit_gpu_kernels(struct arena *a, const struct plan *p);
#endif
