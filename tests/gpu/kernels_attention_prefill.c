/* kernels_attention_prefill.c -- prefill attention of usual head sizes, an exact one, and rows prepared for products: registers and spills of each.
 *   tests/gpu/compile.sh tests/gpu/kernels_attention_prefill.c [-DKV=q8_0] [-DTHREADS=256] */
#ifndef KV
#define KV f16
#endif
#ifndef THREADS
#define THREADS 128
#endif
#include "templates/gpu/attention_prefill_tmpl.c"

#define ATTENTION(name, n_head, n_head_kv, head_dim, digits, as, rest) \
    KERNEL(THREADS, 1) name(const struct forge_kernel_args a) \
    { \
        pdl_launch(); \
        pdl_wait(); \
        attention_prefill(a, BUFFER(0), 8192, rest, as, BUFFER(1 << 24), 16384, n_head, n_head_kv, head_dim, 4096, 0.088388348f, digits, THREADS); \
    }
ATTENTION(prefill_32, 32, 8, 32, 1, 1, 0)
ATTENTION(prefill_64, 32, 8, 64, 1, 1, 0)
#ifndef FEW
ATTENTION(prefill_96, 32, 32, 96, 1, 1, 0)
#endif
ATTENTION(prefill_128, 32, 8, 128, 1, 1, 0)
ATTENTION(prefill_256, 8, 4, 256, 1, 2, 0)
ATTENTION(exact_128, 32, 8, 128, 2, 1, 1 << 23)
ATTENTION(exact_256, 8, 4, 256, 2, 0, 0)
