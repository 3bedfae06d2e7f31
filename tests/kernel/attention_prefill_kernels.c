/* attention_prefill_kernels.c -- prefill's attention, f16 and f32 products.  The shape comes from the case, or with -DMODELS from real
 * models as constants.  -DKV=f32 or q8_0: another type of the cache; lanes have all types.  -DATTENTION_MORE: with caps and sinks.  To see
 * registers and spills, also with -DPREFILL_THREADS=256:
 *   tests/device/compile.sh tests/kernel/attention_prefill_kernels.c -DMODELS */
#include "kind_of_case.h"
#include "kernel.h"
#include "templates/gpu/attention_prefill_tmpl.c"
#include "cases.h"

#ifdef ATTENTION_MORE
#define MORE c.cap, c.sinks,
#else
#define MORE
#endif
#ifndef MODELS
/* threads, heads' size and digits may have to be constants. */
#define PREFILL(head_dim, digits, threads, fours) \
    do { \
        if (c.causal) \
            attention_prefill(a, (uint8_t *)c.out, c.out_stride, c.out_kind, (const uint8_t *)c.q, c.q_stride, c.n_head, c.n_head_kv, \
                              head_dim, c.n_ctx, c.scale, digits, MORE threads, fours, c.window, c.ring); \
        else \
            attention_prefill_all(a, (uint8_t *)c.out, c.out_stride, c.out_kind, (const uint8_t *)c.q, c.q_stride, c.n_head, \
                                  c.n_head_kv, head_dim, c.n_ctx, c.scale, digits, threads, fours); \
    } while (0)
TEST_KERNEL(256, prefill_any)
{
    const struct attention_case c = *CASE(struct attention_case);
    KIND_IS(c.kind);
    pdl_launch();
    pdl_wait();
#if MMA_GROUP
    if (c.fours && c.head_dim == 64) PREFILL(64, 1, ATTENTION_PREFILL_FOURS_THREADS, 1);
    else if (c.fours) PREFILL(128, 1, ATTENTION_PREFILL_FOURS_THREADS, 1);
    else
#endif
    PREFILL(c.head_dim, c.digits, c.threads, 0);
}
#else
#define MODEL(name, n_head, n_head_kv, head_dim, digits, out_kind) \
    TEST_KERNELS(PREFILL_THREADS, ATTENTION_PREFILL_RESIDENT(FAMILY, PREFILL_THREADS), name) \
    { \
        const struct attention_case *c = CASE(struct attention_case); \
        pdl_launch(); \
        pdl_wait(); \
        attention_prefill(a, (uint8_t *)c->out, PREFILL_MODELS_OUT_STRIDE, out_kind, (const uint8_t *)c->q, PREFILL_MODELS_Q_STRIDE, \
                          n_head, n_head_kv, head_dim, PREFILL_MODELS_CTX, 0.088388348f, digits, PREFILL_THREADS, \
                          MMA_GROUP && ATTENTION_PREFILL_IN_FOURS(KV_KIND, digits, head_dim, PREFILL_THREADS), 0, 0); \
    }
PREFILL_MODELS(MODEL)
#if PREFILL_THREADS == 128
PREFILL_LARGE_MODELS(MODEL)
#endif
#endif
