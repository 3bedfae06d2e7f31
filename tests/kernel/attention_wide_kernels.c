/* attention_wide_kernels.c -- attention with wide heads, or with heads of K and V of different sizes, of decode and prefill.  The shape
 * comes from the case, or with -DMODELS from real models as constants.  -DKV=q8_0: another type of the cache; lanes have all types.
 * -DATTENTION_MORE: with caps and sinks.  To see registers and spills:
 *   tests/device/compile.sh tests/kernel/attention_wide_kernels.c -DMODELS */
#include "kind_of_case.h"
#include "kernel.h"
#define ATTENTION_WIDE 1
#include "templates/gpu/attention_wide_prefill.h"
#include "cases.h"

#ifdef ATTENTION_MORE
#define MORE c.cap, c.sinks,
#else
#define MORE
#endif
#define DECODE(c) \
    attention_wide_decode(a, c.out, c.q, c.values, c.parts, c.ml, c.counters, c.n_head, c.n_head_kv, c.head_dim, c.value_dim, c.view, \
                          c.n_ctx, c.scale, c.splits, c.spans, c.span, MORE c.cluster, c.window, c.ring, 1)
#define PREFILL(c) \
    do { \
        pdl_launch(); \
        pdl_wait(); \
        attention_wide(a, (uint8_t *)c.out, c.out_stride, c.out_kind, (const uint8_t *)c.q, c.q_stride, c.values, c.n_head, c.n_head_kv, \
                       c.head_dim, c.value_dim, c.view, c.n_ctx, c.scale, MORE c.parts, c.counters, c.splits, \
                       c.span, c.fours, c.causal, c.window, c.ring); \
    } while (0)

#ifndef MODELS
TEST_KERNEL(WIDE_THREADS(FAMILY), decode_any)
{
    const struct attention_case c = *CASE(struct attention_case);
    KIND_IS(c.kind);
    DECODE(c);
}
TEST_KERNEL(WIDE_THREADS(FAMILY), prefill_any)
{
    const struct attention_case c = *CASE(struct attention_case);
    KIND_IS(c.kind);
    PREFILL(c);
}
#else
#define SHAPE(a_n_head, a_n_head_kv, a_dim, a_value_dim, a_view, a_splits, a_spans, a_cluster) \
    struct attention_case c = *CASE(struct attention_case); \
    c.n_head = a_n_head, c.n_head_kv = a_n_head_kv, c.head_dim = a_dim, c.value_dim = a_value_dim, c.view = a_view; \
    c.splits = a_splits, c.spans = a_spans, c.span = DECODE_MODELS_SPAN, c.cluster = a_cluster, c.n_ctx = DECODE_MODELS_CTX; \
    c.fours = MMA_GROUP && WIDE_IN_FOURS(KV_KIND, a_dim, a_value_dim, FAMILY); \
    c.window = c.ring = 0, c.causal = 1, c.out_kind = 1, c.out_stride = WIDE_MODELS_OUT_STRIDE, c.q_stride = WIDE_MODELS_Q_STRIDE;
#define MODEL(name, ...) \
    TEST_KERNELS(WIDE_THREADS(FAMILY), 1, name) \
    { \
        SHAPE(__VA_ARGS__) \
        DECODE(c); \
    } \
    TEST_KERNELS(WIDE_THREADS(FAMILY), 1, name##_prefill) \
    { \
        SHAPE(__VA_ARGS__) \
        c.splits = c.fours ? WIDE_MODELS_PARTS : 1, c.span = WIDE_MODELS_PART; \
        PREFILL(c); \
    }
WIDE_MODELS(MODEL)
#ifdef __NVPTX__
WIDE_CLUSTER_MODELS(MODEL)
#endif
#endif
