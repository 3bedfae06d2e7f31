/* attention_decode_kernels.c -- decode attention, norm and rotation of heads before it, and attention by single operations.  The shape
 * comes from the case, or with -DMODELS from real models as constants.  -DKV=f32 or q8_0: another type of the cache; lanes have all types.
 * -DATTENTION_MORE: with caps and sinks.  To see registers and spills:
 *   tests/device/compile.sh tests/kernel/attention_decode_kernels.c -DMODELS */
#include "kind_of_case.h"
#include "kernel.h"
#include "templates/gpu/attention_decode_tmpl.c"
#include "templates/gpu/attention_unfused.h"
#include "cases.h"

DEVICE void decode_of(const struct forge_kernel_args a, const struct attention_case c)
{
    attention_decode(a, c.out, c.q, c.k_new, c.v_new, c.q_norm, c.k_norm, c.eps, c.hi, c.lo, c.n_rot, c.neox, c.block, c.parts, c.ml,
                     c.counters, c.n_head, c.n_head_kv, c.head_dim, c.n_ctx, c.scale, c.splits, c.spans, c.span, c.rows, c.matrix,
#ifdef ATTENTION_MORE
                     c.cap, c.sinks,
#endif
                     c.threads, c.cluster, c.window, c.ring, 1, 0);
}
#ifndef MODELS
#define SHAPE(c) const struct attention_case c = *CASE(struct attention_case); KIND_IS(c.kind)
TEST_KERNEL(512, decode_any)
{
    SHAPE(c);
    decode_of(a, c);
}
#else
#define SHAPE(c) \
    struct attention_case c = *CASE(struct attention_case); \
    c.n_head = 32, c.n_head_kv = 8, c.head_dim = 128, c.n_ctx = DECODE_MODELS_CTX, c.n_rot = 128, c.neox = 1; \
    c.block = DECODE_MODELS_BLOCK, c.threads = 256, c.window = 0, c.ring = 0, c.eps = 1e-6f, c.scale = 0.088388348f
#define MODEL(name, a_n_head, a_n_head_kv, a_head_dim, norms, a_n_rot, a_neox, a_splits, a_spans, a_threads, a_cluster, a_matrix) \
    TEST_KERNEL(a_threads, name) \
    { \
        SHAPE(c); \
        c.n_head = a_n_head, c.n_head_kv = a_n_head_kv, c.head_dim = a_head_dim, c.n_rot = a_n_rot, c.neox = a_neox; \
        c.splits = a_splits, c.spans = a_spans, c.span = DECODE_MODELS_SPAN, c.threads = a_threads, c.cluster = a_cluster; \
        c.matrix = a_matrix; \
        c.rows = a_matrix ? ATTENTION_MATRIX_ROWS(KV_KIND) \
                          : ATTENTION_ROWS(KV_KIND, ATTENTION_HEADS(a_n_head, a_n_head_kv, a_head_dim), FAMILY); \
        c.scale = CASE(struct attention_case)->scale; \
        if (!norms) c.q_norm = 0, c.k_norm = 0; \
        if (!a_n_rot) c.hi = 0, c.lo = 0; \
        decode_of(a, c); \
    }
DECODE_MODELS(MODEL)
#ifdef __NVPTX__
DECODE_CLUSTER_MODELS(MODEL)
#endif
#endif

TEST_KERNEL(512, finish_rows)
{
    SHAPE(c);
    const uint32_t t = group_y(), q = c.n_head * c.head_dim, kv = c.n_head_kv * c.head_dim;
    pdl_launch();
    pdl_wait();
    mark(a);
    qkv_finish(a, t, c.q + t * q, c.k_new + t * kv, c.v_new + t * kv, c.q_norm, c.k_norm, c.eps, c.hi, c.lo, c.n_rot, c.neox, c.block,
               c.n_head, c.n_head_kv, c.head_dim, c.n_ctx, c.threads, c.ring);
}

/* The same by single operations: each kernel reads the result of the kernel before it. */
#define SINGLE(name, ...) \
    TEST_KERNEL(512, name) \
    { \
        SHAPE(c); \
        const uint32_t t = group_y(), q = c.n_head * c.head_dim, kv = c.n_head_kv * c.head_dim; \
        (void)q, (void)kv; \
        pdl_launch(); \
        pdl_wait(); \
        mark(a); \
        __VA_ARGS__; \
    }
#define EACH_HEAD(n) for (uint32_t item = group_x() * (c.threads / WAVE) + wave_id(); item < (n); item = (n))
#define STORE(plane, from) \
    EACH_HEAD(c.n_head_kv) \
        kv_store_row(plane, item, kv_row(a.step->n_past + t, c.ring), (from) + t * kv + item * c.head_dim, c.n_head_kv, \
                     kv_rows(c.n_ctx, c.ring), c.head_dim)
SINGLE(headnorm, EACH_HEAD(c.n_head) headnorm_row(c.q + t * q, c.q + t * q, c.q_norm, c.eps, item, c.head_dim))
SINGLE(rope,     EACH_HEAD(c.n_head)
                     rope_row(c.q + t * q, c.q + t * q, c.hi, c.lo, a.step->n_past + t, c.n_rot, c.neox, c.block, item, c.head_dim))
SINGLE(store_k,  STORE(kv_k(a), c.k_new))
SINGLE(store_v,  STORE(kv_v(a, c.n_head_kv, kv_rows(c.n_ctx, c.ring), c.head_dim), c.v_new))
SINGLE(scores,   attention_scores(a, c.scores, c.q + t * q, t, c.n_tokens, c.n_head, c.n_head_kv, c.head_dim, c.n_ctx, c.scale, c.cap,
                                  c.threads, c.window, c.ring))
SINGLE(mask,     attention_mask(a, c.scores, t, c.n_tokens, c.n_ctx, c.threads))
SINGLE(softmax,  attention_softmax(a, c.scores, c.sinks, t, c.n_tokens, c.n_ctx, c.threads, c.window))
SINGLE(weighted_sum, attention_weighted_sum(a, c.out + t * q, c.scores, kv_v(a, c.n_head_kv, kv_rows(c.n_ctx, c.ring), c.head_dim), t,
                                            c.n_tokens, c.n_head, c.n_head_kv, c.head_dim, c.n_ctx, c.threads, c.window, c.ring))

#ifndef MODELS
/* kv_load and kv_load_f16 of all of V by one wave, eight columns per lane. */
TEST_KERNEL(WAVE, load_values)
{
    SHAPE(c);
    const uint8_t *plane = kv_v(a, c.n_head_kv, c.n_ctx, c.head_dim);
    const uint32_t pieces = c.head_dim / 8;
    for (uint32_t i = lane_id(); i < c.n_head_kv * c.n_ctx * pieces; i += WAVE) {
        const uint32_t column = i % pieces * 8, position = i / pieces % c.n_ctx, head = i / pieces / c.n_ctx;
        f32x4 x[2];
        uint32_t h[4];
        kv_load(x, plane, head, position, column, c.n_head_kv, c.n_ctx, c.head_dim);
        kv_load_f16(h, plane, head, position, column, c.n_head_kv, c.n_ctx, c.head_dim);
        for (uint32_t k = 0; k < 8; k++) c.out[8 * i + k] = x[k / 4][k % 4];
        for (uint32_t k = 0; k < 4; k++) c.halves[4 * i + k] = h[k];
    }
}
#endif
