/* kernels_attention_prefill.c -- prefill attention of usual head sizes by f16 and by f32 products, and kernels that prepare rows: registers and spills of each.
 *   tests/device/compile.sh tests/device/kernels_attention_prefill.c [-DKV=q8_0] [-DTHREADS=256] */
#ifndef KV
#define KV f16
#endif
#ifndef THREADS
#define THREADS 128
#endif
#include "templates/gpu/attention_prefill_tmpl.c"
#include "templates/gpu/elementwise.h"
#include "templates/gpu/formats/f16.h"
#define FORMAT f16
#include "templates/gpu/embed_tmpl.c"
#undef FORMAT
#include "templates/gpu/formats/q4_K.h"
#define FORMAT q4_K
#include "templates/gpu/embed_tmpl.c"
#undef FORMAT
#include "templates/gpu/formats/q6_K.h"
#define FORMAT q6_K
#include "templates/gpu/embed_tmpl.c"
#undef FORMAT

#define ATTENTION(name, n_head, n_head_kv, head_dim, digits, as) \
    KERNEL(THREADS, ATTENTION_PREFILL_RESIDENT(FAMILY, THREADS)) name(const struct forge_kernel_args a) \
    { \
        pdl_launch(); \
        pdl_wait(); \
        attention_prefill(a, BUFFER(0), 8192, as, BUFFER(1 << 24), 16384, n_head, n_head_kv, head_dim, 4096, 0.088388348f, digits, THREADS, 0, 0); \
    }
ATTENTION(prefill_32, 32, 8, 32, 1, 1)
ATTENTION(prefill_64, 32, 8, 64, 1, 1)
ATTENTION(prefill_80, 32, 32, 80, 1, 1)
ATTENTION(prefill_96, 32, 32, 96, 1, 1)
ATTENTION(prefill_128, 32, 8, 128, 1, 1)
#if THREADS == 128
ATTENTION(prefill_256, 8, 4, 256, 1, 2)
#endif
ATTENTION(exact_128, 32, 8, 128, 2, 1)
ATTENTION(exact_256, 8, 4, 256, 2, 0)

#define ROWS(name, call) \
    KERNEL(256, 1) name(const struct forge_kernel_args a) \
    { \
        pdl_launch(); \
        pdl_wait(); \
        const uint32_t t = first_token(a) + group_y(); \
        call; \
    }
ROWS(stage_plain, stage_rows(ROW(0, 8192, t), FLOAT_ROW(1 << 24, 16384, t), 0, 4096, 0.0f, 0, 0, 256))
ROWS(stage_norm, stage_rows(ROW(0, 8192, t), FLOAT_ROW(1 << 24, 16384, t), VECTOR(0), 4096, 1e-5f, 1, 1, 256))
ROWS(norm, norm_row(FLOAT_ROW(0, 57344, t), FLOAT_ROW(1 << 24, 57344, t), VECTOR(0), 14336, 1e-5f, 256))
ROWS(glu, glu_silu_row(FLOAT_ROW(0, 57344, t), FLOAT_ROW(1 << 24, 57344, t), FLOAT_ROW(1 << 25, 57344, t), 14336, 256))
ROWS(embed_f16, embed_row_f16(FLOAT_ROW(0, 16384, t), WEIGHT(0), a.step->history[a.step->n_past + t], 4096, 256))
ROWS(embed_q4_K, embed_row_q4_K(FLOAT_ROW(0, 16384, t), WEIGHT(0), a.step->history[a.step->n_past + t], 4096, 256))
ROWS(embed_q6_K, embed_row_q6_K(FLOAT_ROW(0, 16384, t), WEIGHT(0), a.step->history[a.step->n_past + t], 4096, 256))
