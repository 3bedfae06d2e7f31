/* kernels_sample.c -- the sampling kernel at shapes of real vocabularies, for compile.sh and the device. */
#include "templates/gpu/dialect.h"
#include "templates/gpu/sample_tmpl.c"

#define LOGITS_BYTES(n_vocab) (((n_vocab) * 4u + 63u) / 64u * 64u)

/* Arena: a counter, logits, scratch. */
#define SAMPLE_KERNEL(name, n_vocab, groups, threads) \
    KERNEL(threads, 1) name(const struct forge_kernel_args a) \
    { \
        pdl_launch(); \
        pdl_wait(); \
        mark(a); \
        sample(a, FLOATS(64), n_vocab, /* n_ctx */ 4096, BUFFER(64u + LOGITS_BYTES(n_vocab)), (uint32_t *)(void *)BUFFER(0), groups,       \
               threads);                                                                                                                   \
    }

SAMPLE_KERNEL(sample_128256, 128256u, 64, 512)
SAMPLE_KERNEL(sample_151936, 151936u, 80, 512)
SAMPLE_KERNEL(sample_262144, 262144u, 128, 512)
SAMPLE_KERNEL(sample_32000, 32000u, 40, 512)
SAMPLE_KERNEL(sample_512, 512u, 4, 256)
