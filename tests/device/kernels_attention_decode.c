/* kernels_attention_decode.c -- decode attention and what surrounds it, at shapes of real models; -DKV=f32 or q8_0 for the other caches. */
#include "templates/gpu/attention_decode_tmpl.c"
#include "templates/gpu/attention_unfused.h"

/* Name; query heads, KV heads, dimensions; norms; rotated dimensions, pairs; splits, threads; are the splits a cluster? */
#define DECODE(name, n_head, n_head_kv, head_dim, norms, n_rot, neox, splits, threads, cluster) \
    KERNEL(threads, 1) name(const struct forge_kernel_args a) \
    { \
        attention_decode(a, FLOATS(0), FLOATS(65536), FLOATS(131072), FLOATS(196608), norms ? VECTOR(0) : 0, norms ? VECTOR(1) : 0, 1e-6f, \
                         n_rot ? VECTOR(2) : 0, n_rot ? VECTOR(3) : 0, n_rot, neox, 256, FLOATS(262144), FLOATS(524288), (uint32_t *)(void *)BUFFER(786432), \
                         n_head, n_head_kv, head_dim, 8192, 0.0883883f, splits, threads, cluster, 0, 0); \
    }

DECODE(llama_1b,  32,  8,  64, 0,  64, 0,  8, 256, 0)
DECODE(llama_8b,  32,  8, 128, 0, 128, 0, 16, 256, 0)
DECODE(qwen3_8b,  32,  8, 128, 1, 128, 1, 16, 256, 0)
DECODE(qwen2_7b,  28,  4, 128, 0, 128, 1, 16, 256, 0)
DECODE(llama_70b, 64,  8, 128, 0, 128, 0, 16, 256, 0)
DECODE(qwen3_32b, 64,  8, 128, 1, 128, 1, 16, 256, 0)
DECODE(phi_2,     32, 32,  96, 0,  32, 1,  4, 128, 0)
DECODE(gemma_2b,   8,  1, 256, 0, 256, 1, 16, 256, 0)
#ifdef __NVPTX__
DECODE(llama_1b_cluster,  32,  8,  64, 0,  64, 0,  8, 256, 1)
DECODE(llama_8b_cluster,  32,  8, 128, 0, 128, 0,  8, 256, 1)
DECODE(qwen3_8b_cluster,  32,  8, 128, 1, 128, 1,  8, 256, 1)
DECODE(llama_70b_cluster, 64,  8, 128, 0, 128, 0,  8, 256, 1)
DECODE(gemma_2b_cluster,   8,  1, 256, 0, 256, 1,  8, 256, 1)
#endif
DECODE(tiny,       4,  4,  32, 0,   0, 0,  1,  64, 0)

KERNEL(256, 1) finish_rows(const struct forge_kernel_args a)
{
    const uint32_t t = first_token(a) + group_y();
    pdl_launch();
    pdl_wait();
    mark(a);
    qkv_finish(a, t, FLOAT_ROW(0, 16384, t), FLOAT_ROW(65536, 4096, t), FLOAT_ROW(131072, 4096, t), VECTOR(0), VECTOR(1), 1e-6f, VECTOR(2), VECTOR(3), 128, 1, 256,
               32, 8, 128, 8192, 256, 0);
}

/* The single ops: what each reads another kernel wrote. */
#define SINGLE(name, body) \
    KERNEL(256, 1) name(const struct forge_kernel_args a) \
    { \
        const uint32_t t = first_token(a) + group_y(); \
        pdl_launch(); \
        pdl_wait(); \
        mark(a); \
        body; \
    }
SINGLE(headnorm,     headnorm_row(FLOAT_ROW(0, 16384, t), FLOAT_ROW(65536, 16384, t), VECTOR(0), 1e-6f, 32, 128, 256))
SINGLE(rope,         rope_row(FLOAT_ROW(0, 16384, t), FLOAT_ROW(65536, 16384, t), VECTOR(0), VECTOR(1), a.step->n_past + t, 96, 1, 256, 32, 128, 256))
SINGLE(store_k,      kv_store_rows(kv_k(a), a.step->n_past + t, FLOAT_ROW(0, 4096, t), 8, 8192, 128, 256, 0))
SINGLE(store_v,      kv_store_rows(kv_v(a, 8, 8192, 128), a.step->n_past + t, FLOAT_ROW(0, 4096, t), 8, 8192, 128, 256, 0))
SINGLE(scores,       attention_scores(a, FLOATS(131072), FLOAT_ROW(0, 16384, t), t, 512, 32, 8, 128, 8192, 0.0883883f, 256, 0, 0))
SINGLE(mask,         attention_mask(a, FLOATS(131072), t, 512, 8192, 256))
SINGLE(softmax,      attention_softmax(a, FLOATS(131072), t, 512, 8192, 256, 0))
SINGLE(weighted_sum, attention_weighted_sum(a, FLOAT_ROW(0, 16384, t), FLOATS(131072), t, 512, 32, 8, 128, 8192, 256, 0, 0))
