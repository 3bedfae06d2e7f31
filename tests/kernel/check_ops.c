/* check_ops.c -- the CPU kernels that are not matrix products, against the oracles of templates/ref: edge and random shapes, results and
 * unwritten cache poisoned with NaN, guard bytes around every buffer.   check_ops [seed]: exit status 1 on a failure;   check_ops -b:
 * speed.
 *   clang-19 -std=c11 -O2 -march=x86-64-v4 -DFORGE_SIMD_AVX512 -Wno-psabi -Itemplates/cpu -Itemplates/ref tests/kernel/check_ops.c
 *   templates/ref/ops.c -lm
 * and with -march=x86-64-v3 -DFORGE_SIMD_AVX2, with -DFORGE_SIMD_C (any C11 compiler), and for qemu-aarch64 with
 *   --target=aarch64-linux-gnu -static -DFORGE_SIMD_NEON */
#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "ops.h"
#include "norm_tmpl.c"
#include "rope_tmpl.c"
#include "elementwise_tmpl.c"
#include "glu_tmpl.c"
#define KV f16
#include "attention_tmpl.c"
#undef KV
#define KV f32
#include "attention_tmpl.c"
#undef KV
#define KV q8_0
#include "attention_tmpl.c"
#undef KV

static uint64_t seed = 1;
static int      failures;

static uint32_t random_u32(void)
{
    seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
    return (uint32_t)(seed >> 32);
}
static uint32_t random_below(uint32_t n) { return (uint32_t)((uint64_t)random_u32() * n >> 32); }
static float random_f32(float range)     { return range * ((float)(random_u32() >> 8) * 0x1p-23f - 1.0f); }
static void random_row(float *x, uint64_t n, float range) { for (uint64_t i = 0; i < n; i++) x[i] = random_f32(range); }

/* ---- buffers between guard bytes, filled with NaN of every float type ---- */
enum { GUARD = 64 };
static void *guarded(uint64_t bytes)
{
    uint8_t *p = malloc(bytes + 2 * GUARD + 8);
    if (!p) { fprintf(stderr, "out of memory\n"); exit(2); }
    memcpy(p, &bytes, 8);
    memset(p + 8, 0xA5, GUARD - 8);
    memset(p + GUARD, 0xFF, bytes);
    memset(p + GUARD + bytes, 0xA5, GUARD);
    return p + GUARD;
}
static float *guarded_row(uint64_t n) { return guarded(4 * n); }
static void release(void *buffer, const char *what)
{
    uint8_t *p = (uint8_t *)buffer - GUARD;
    uint64_t bytes;
    bool intact = true;
    memcpy(&bytes, p, 8);
    for (uint32_t i = 8; i < GUARD; i++) intact &= p[i] == 0xA5;
    for (uint32_t i = 0; i < GUARD; i++) intact &= p[GUARD + bytes + i] == 0xA5;
    if (!intact) { printf("%s: written outside its buffer\n", what); failures++; }
    free(p);
}

/* Error relative to |want| + floor, worst of the run per operation. */
struct result { const char *name; double worst, limit; };
static void compare(struct result *r, const float *got, const float *want, uint64_t n, double floor, const char *shape)
{
    for (uint64_t i = 0; i < n; i++) {
        const double error = fabs((double)got[i] - (double)want[i]) / (fabs((double)want[i]) + floor);
        if (!(error <= r->limit)) {
            if (failures++ < 20)
                printf("%s %s: [%llu] is %.9g, not %.9g\n", r->name, shape, (unsigned long long)i, (double)got[i], (double)want[i]);
            return;
        }
        if (error > r->worst) r->worst = error;
    }
}
static void report(const struct result *r) { printf("%-18s largest error %.2e (limit %.0e)\n", r->name, r->worst, r->limit); }

/* ---- rows ---- */
static void check_rows(void)
{
    static const uint32_t sizes[] = { 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 80, 127, 128, 288, 896, 2048, 4096, 5120 };
    struct result rms = { "rmsnorm", 0, 1e-6 }, layer = { "layernorm", 0, 2e-6 }, silu = { "glu_silu", 0, 1e-6 },
        gelu = { "glu_gelu", 0, 1e-6 },
                  sums = { "add", 0, 1e-7 }, times = { "scale", 0, 1e-7 }, caps = { "softcap", 0, 2e-6 };
    for (uint32_t round = 0; round < 60; round++) {
        const uint32_t n = round < sizeof sizes / sizeof *sizes ? sizes[round] : 1 + random_below(700);
        const float range = round % 3 ? 12.0f : 0.02f;
        float *x = guarded_row(n), *w = guarded_row(n), *b = guarded_row(n), *y = guarded_row(n), *want = guarded_row(n);
        char shape[32];
        snprintf(shape, sizeof shape, "n %u", n);
        random_row(x, n, range); random_row(w, n, 2); random_row(b, n, 1);
        for (uint32_t i = 0; i < n; i++) x[i] += range;                        /* a mean far from 0 */

        rmsnorm(y, x, w, n, 1e-5f);            rmsnorm_ref(want, x, w, n, 1e-5);       compare(&rms, y, want, n, 1e-3, shape);
        rmsnorm(y, x, NULL, n, 1e-6f);         rmsnorm_ref(want, x, NULL, n, 1e-6);    compare(&rms, y, want, n, 1e-3, shape);
        layernorm(y, x, w, b, n, 1e-5f);       layernorm_ref(want, x, w, b, n, 1e-5);  compare(&layer, y, want, n, 1, shape);
        layernorm(y, x, w, NULL, n, 1e-5f);    layernorm_ref(want, x, w, NULL, n, 1e-5); compare(&layer, y, want, n, 1, shape);
        add(y, x, b, n);                       add_ref(want, x, b, n);                 compare(&sums, y, want, n, 1e-30, shape);
        memcpy(y, x, 4 * (size_t)n);
        add_bias(y, b, n);                                                             compare(&sums, y, want, n, 1e-30, shape);
        scale(y, x, 0.37f, n);                 scale_ref(want, x, (double)0.37f, n);   compare(&times, y, want, n, 1e-30, shape);
        random_row(x, n, range * 4);
        softcap(y, x, 30, n);                  softcap_ref(want, x, 30, n);            compare(&caps, y, want, n, 1e-30, shape);
        random_row(x, n, range);
        glu_silu(y, x, b, n);                  glu_silu_ref(want, x, b, n);            compare(&silu, y, want, n, 0.1, shape);
        glu_gelu(y, x, b, n);                  glu_gelu_ref(want, x, b, n);            compare(&gelu, y, want, n, 0.1, shape);
        memcpy(y, x, 4 * (size_t)n);
        glu_gelu(y, y, b, n);                                                          compare(&gelu, y, want, n, 0.1, "in place");
        for (uint32_t i = 0; i < n; i++) x[i] = i % 2 ? 1e4f : -1e4f;          /* far beyond exp's range */
        glu_silu(y, x, b, n);                  glu_silu_ref(want, x, b, n);            compare(&silu, y, want, n, 0.1, "large");
        glu_gelu(y, x, b, n);                  glu_gelu_ref(want, x, b, n);            compare(&gelu, y, want, n, 0.1, "large");
        release(x, "x"); release(w, "w"); release(b, "b"); release(y, "y"); release(want, "want");
    }
    report(&rms); report(&layer); report(&silu); report(&gelu); report(&sums); report(&times); report(&caps);
}

/* ---- rope ---- */
static void check_rope(void)
{
    static const uint32_t shapes[][2] = { { 64, 64 }, { 128, 128 }, { 80, 32 }, { 96, 96 }, { 128, 64 }, { 16, 16 }, { 256, 256 },
                                          { 40, 20 }, { 8, 6 }, { 72, 72 } };
    enum { BLOCK = 64, BLOCKS = 2048 };
    struct result table = { "rope_table", 0, 3e-7 }, apply = { "rope_apply", 0, 5e-7 };
    for (uint32_t round = 0; round < 40; round++) {
        const uint32_t head_dim = shapes[round % 10][0], n_rot = shapes[round % 10][1], half = n_rot / 2,
            position = round < 4 ? round * 63 : random_below(BLOCK * BLOCKS);
        float *factors = guarded_row(half);
        for (uint32_t i = 0; i < half; i++) factors[i] = 1 + 7 * (float)i / (float)half;
        const struct rope_ref r = { .n_rot = n_rot, .neox = round / 10 % 2, .freq_base = round % 3 ? 500000 : 10000,
                                    .freq_scale = round % 4 == 1 ? 0.25 : 1, .ext_factor = round % 4 == 1, .attn_factor = 1,
                                    .beta_fast = 32, .beta_slow = 1, .n_ctx_orig = 4096, .freq_factors = round % 4 == 2 ? factors : NULL };
        /* As the build does: hi carries the magnitude, lo is the plain rotation. */
        struct rope_ref plain = r;
        float *hi = guarded_row((uint64_t)(position / BLOCK + 1) * n_rot), *lo = guarded_row((uint64_t)BLOCK * n_rot),
            *cs = guarded_row(n_rot);
        const double magnitude = r.ext_factor != 0 ? 1 + 0.1 * log(1 / r.freq_scale) : 1;
        plain.attn_factor = 1 / magnitude;
        double c, s;
        for (uint32_t i = 0; i < half; i++) {
            rope_pair_ref(&c, &s, &r, i, position / BLOCK * BLOCK);
            hi[(uint64_t)(position / BLOCK) * n_rot + 2 * i] = (float)c; hi[(uint64_t)(position / BLOCK) * n_rot + 2 * i + 1] = (float)s;
            for (uint32_t b = 0; b < BLOCK; b++) {
                rope_pair_ref(&c, &s, &plain, i, b);
                lo[b * n_rot + 2 * i] = (float)c; lo[b * n_rot + 2 * i + 1] = (float)s;
            }
        }
        char shape[64];
        snprintf(shape, sizeof shape, "head_dim %u n_rot %u position %u %s", head_dim, n_rot, position, r.neox ? "neox" : "norm");
        rope_table(cs, hi, lo, position, BLOCK, n_rot);
        float *want_cs = guarded_row(n_rot), *head = guarded_row(head_dim), *want = guarded_row(head_dim);
        for (uint32_t i = 0; i < half; i++) {
            rope_pair_ref(&c, &s, &r, i, position);
            want_cs[i] = (float)c; want_cs[half + i] = (float)s;
        }
        compare(&table, cs, want_cs, n_rot, 1, shape);
        random_row(head, head_dim, 3);
        memcpy(want, head, 4 * head_dim);
        rope_apply(head, cs, n_rot, head_dim, r.neox);
        rope_ref(want, &r, position);
        compare(&apply, head, want, head_dim, 3, shape);
        release(factors, "factors"); release(hi, "hi"); release(lo, "lo"); release(cs, "cs"); release(want_cs, "want_cs");
        release(head, "head"); release(want, "want");
    }
    report(&table); report(&apply);
}

/* ---- attention: one instance per element type and shape, with constant group and head_dim as emitted ---- */
#define ATTENTION_SHAPES \
    SHAPE(f16, 4, 64)  SHAPE(f16, 1, 128) SHAPE(f16, 8, 128) SHAPE(f16, 7, 80) SHAPE(f16, 12, 40) SHAPE(f16, 3, 72) SHAPE(f16, 2, 256)     \
    SHAPE(f16, 9, 32) SHAPE(f16, 1, 64)                                                                                                    \
    SHAPE(f16, 2, 8)   SHAPE(f32, 4, 64)  SHAPE(f32, 5, 24)  SHAPE(q8_0, 4, 64) SHAPE(q8_0, 1, 128) SHAPE(q8_0, 7, 96) SHAPE(q8_0, 16, 32)

struct instance {
    const char *name;
    int         kind;                            /* KV_KIND_... */
    uint32_t    group, head_dim;
    uint64_t (*layer_bytes)(uint32_t n_head_kv, uint32_t n_ctx);
    uint8_t *(*k)(uint8_t *layer, uint32_t kv_head, uint32_t n_ctx);
    uint8_t *(*v)(uint8_t *layer, uint32_t kv_head, uint32_t n_head_kv, uint32_t n_ctx);
    void (*append)(uint8_t *k_head, uint8_t *v_head, const float *k, const float *v, uint32_t position);
    void (*decode)(float *out, const float *q, const uint8_t *k_head, const uint8_t *v_head, uint32_t n_kv, float factor, float cap,
                   uint32_t ring, uint32_t window, const float *sink);
    void (*part)(float *o, float *m, float *l, const float *q, const uint8_t *k_head, const uint8_t *v_head, uint32_t first, uint32_t end,
                 float factor, float cap, uint32_t ring);
    void (*merge)(float *out, const float *o, const float *m, const float *l, uint32_t n_parts, const float *sink);
    void (*prefill)(float *out, uint32_t out_stride, const float *q, uint32_t q_stride, const uint8_t *k_head, const uint8_t *v_head,
                    uint32_t n_past, uint32_t first_token, uint32_t n_tokens, float factor, float cap, uint32_t ring,
                    uint32_t window, const float *sink);
};
#define SHAPE(T, G, D) \
    static uint64_t bytes_##T##_##G##_##D(uint32_t h, uint32_t c) { return kv_layer_bytes_##T(h, D, c); } \
    static uint8_t *k_##T##_##G##_##D(uint8_t *p, uint32_t h, uint32_t c) { return kv_k_##T(p, h, D, c); } \
    static uint8_t *v_##T##_##G##_##D(uint8_t *p, uint32_t h, uint32_t n, uint32_t c) { return kv_v_##T(p, h, n, D, c); } \
    static void append_##T##_##G##_##D(uint8_t *kh, uint8_t *vh, const float *k, const float *v,                                           \
                                       uint32_t p) { kv_append_k_##T(kh, k, p, D); kv_append_v_##T(vh, v, p, D); }                         \
    static void decode_##T##_##G##_##D(float *o, const float *q, const uint8_t *k, const uint8_t *v, uint32_t n, float f, float c,         \
                                       uint32_t r, uint32_t w, const float *s) \
    { attention_decode_##T(o, q, k, v, n, G, D, D, f, c, r, w, s); } \
    static void part_##T##_##G##_##D(float *o, float *m, float *l, const float *q, const uint8_t *k, const uint8_t *v, uint32_t a,         \
                                     uint32_t b, float f, float c, uint32_t r) \
    { attention_part_##T(o, m, l, q, k, v, a, b, G, D, D, f, c, r); } \
    static void merge_##T##_##G##_##D(float *out, const float *o, const float *m, const float *l, uint32_t n,                              \
                                      const float *s) { attention_merge(out, o, m, l, n, G, D, s); }                                       \
    static void prefill_##T##_##G##_##D(float *o, uint32_t os, const float *q, uint32_t qs, const uint8_t *k, const uint8_t *v,            \
                                        uint32_t past, uint32_t first, uint32_t n, float f, float c, uint32_t r, uint32_t w,               \
                                        const float *s)                                                                                    \
    { attention_prefill_##T(o, os, q, qs, k, v, past, first, n, G, D, D, f, c, r, w, s); }
ATTENTION_SHAPES
#undef SHAPE
#define SHAPE(T, G, D)                                                                                                                     \
    { #T " group " #G " head_dim " #D, KV_KIND_##T, G, D, bytes_##T##_##G##_##D, k_##T##_##G##_##D, v_##T##_##G##_##D,                     \
      append_##T##_##G##_##D,                                                                                                              \
                         decode_##T##_##G##_##D, part_##T##_##G##_##D, merge_##T##_##G##_##D, prefill_##T##_##G##_##D },
static const struct instance instances[] = { ATTENTION_SHAPES };
#undef SHAPE
enum { INSTANCES = sizeof instances / sizeof *instances };

/* The cache as docs/kernels.md describes it, element by element. */
static double f16_value(const uint8_t *p)
{
    const uint32_t h = p[0] | (uint32_t)p[1] << 8, e = h >> 10 & 31;
    const double m = h & 1023, value = e == 31 ? (double)NAN : e ? ldexp(1024 + m, (int)e - 25) : ldexp(m, -24);
    return h >> 15 ? -value : value;
}
static float cache_value(const struct instance *t, const uint8_t *k_head, const uint8_t *v_head, uint32_t p, uint32_t d)
{
    const uint64_t dims = t->head_dim, units = dims / 32, lane = p % 16;
    if (t->kind == KV_KIND_q8_0) {
        const uint8_t *u = k_head ? k_head + (p / 16 * units + d / 32) * (32 + 512) : v_head + (p * units + d / 32) * 34;
        return (float)(k_head ? f16_value(u + 2 * lane) * (int8_t)u[32 + 16 * (d % 32) + lane] : f16_value(u) * (int8_t)u[2 + d % 32]);
    }
    const uint64_t index = k_head ? (p / 16 * dims + d) * 16 + lane : p * dims + d;
    const uint8_t *head = k_head ? k_head : v_head;
    float value;
    if (t->kind == KV_KIND_f16) return (float)f16_value(head + 2 * index);
    memcpy(&value, head + 4 * index, 4);
    return value;
}

struct cache { uint8_t *layer, *k_head, *v_head; float *k, *v; uint32_t n; };   /* k, v: [n][head_dim], what the cache says */
enum { N_HEAD_KV = 3, HEAD = 1 };

/* ring: rows of the cache, the last of n positions are in it; 0: all are, of n_ctx. */
static struct cache cache_make(const struct instance *t, uint32_t n, uint32_t n_ctx, uint32_t ring, struct result *store)
{
    struct cache c = { .n = n };
    const uint32_t dims = t->head_dim;
    const uint32_t rows = ring ? ring : n_ctx;
    c.layer = guarded(t->layer_bytes(N_HEAD_KV, rows));
    c.k_head = t->k(c.layer, HEAD, rows);
    c.v_head = t->v(c.layer, HEAD, N_HEAD_KV, rows);
    c.k = guarded_row((uint64_t)n * dims);
    c.v = guarded_row((uint64_t)n * dims);
    float *k = guarded_row(dims), *v = guarded_row(dims);
    for (uint32_t p = 0; p < n; p++) {
        random_row(k, dims, 2); random_row(v, dims, 1);
        if (p % 5 == 4) memset(v, 0, 4 * dims);                                 /* a row of zeros has no scale */
        const uint32_t row = ring ? p % ring : p;
        t->append(c.k_head, c.v_head, k, v, row);
        for (uint32_t d = 0; d < dims; d++) {
            c.k[p * dims + d] = cache_value(t, c.k_head, NULL, row, d);
            c.v[p * dims + d] = cache_value(t, NULL, c.v_head, row, d);
        }
        for (uint32_t d = 0; d < dims; d++) {                                   /* error in half steps: of f16 and f32, or of max|x| / 127
                                                                                 * of 32 dims */
            double ek = fabs((double)c.k[p * dims + d] - (double)k[d]), ev = fabs((double)c.v[p * dims + d] - (double)v[d]);
            if (t->kind == KV_KIND_q8_0) {
                float max_k = 1e-30f, max_v = 1e-30f;
                for (uint32_t i = d / 32 * 32; i < d / 32 * 32 + 32; i++) {
                    max_k = fmaxf(max_k, fabsf(k[i]));
                    max_v = fmaxf(max_v, fabsf(v[i]));
                }
                ek /= (double)max_k / 254 * 1.07;                               /* codes may clip by half of f16's step of the scale */
                ev /= (double)max_v / 254 * 1.07;
            } else {
                const double step = t->kind == KV_KIND_f16 ? 0x1p-11 : 0x1p-24;
                ek /= step * fmax(fabs((double)k[d]), 0x1p-14);
                ev /= step * fmax(fabs((double)v[d]), 0x1p-14);
            }
            if (!(ek <= store->limit && ev <= store->limit)) {
                printf("append %s: position %u dim %u: %g %g\n", t->name, p, d, ek, ev);
                failures++;
                break;
            }
            store->worst = fmax(store->worst, fmax(ek, ev));
        }
    }
    release(k, "k"); release(v, "v");
    return c;
}
static void cache_free(struct cache *c) { release(c->layer, "cache"); release(c->k, "cache k"); release(c->v, "cache v"); }

static void check_attention(void)
{
    /* A weight is as exact as its score: 256 products summed in one float chain, scores up to 10, give a few 1e-6 of the largest value. */
    struct result store = { "kv_append (steps)", 0, 1.01 }, decode = { "attention_decode", 0, 6e-6 },
        merge = { "attention_merge", 0, 6e-6 },
                  prefill = { "attention_prefill", 0, 6e-6 };
    static const uint32_t lengths[] = { 1, 2, 15, 16, 17, 63, 64, 65, 79, 128, 129, 150 };
    for (uint32_t round = 0; round < 8 * INSTANCES; round++) {
        const struct instance *t = &instances[round % INSTANCES];
        const uint32_t group = t->group, dims = t->head_dim, n = random_below(3) ? lengths[random_below(12)] : 1 + random_below(200);
        const uint32_t window = random_below(2) ? 1 + random_below(n + 3) : 0, most_tokens = 20;
        const uint32_t ring = window && random_below(2) ? (window + most_tokens + 14) / 16 * 16 : 0;
        const float cap = random_below(3) ? 0 : 20, factor = 1 / sqrtf((float)dims);
        struct cache c = cache_make(t, n, n, ring, &store);
        float *sink = guarded_row(group), *q = guarded_row((uint64_t)group * dims), *out = guarded_row((uint64_t)group * dims),
            *want = guarded_row((uint64_t)group * dims);
        const float *sinks = random_below(2) ? sink : NULL;
        char shape[128];
        random_row(sink, group, 4);
        random_row(q, (uint64_t)group * dims, 3);
        snprintf(shape, sizeof shape, "%s n_kv %u ring %u window %u cap %g sink %d", t->name, n, ring, window, (double)cap, sinks != NULL);
        const uint32_t first = window && n > window ? n - window : 0;
        for (uint32_t g = 0; g < group; g++)
            attention_ref(want + g * dims, q + g * dims, c.k, c.v, dims, first, n, dims, (double)factor, (double)cap,
                          sinks ? sinks + g : NULL);
        t->decode(out, q, c.k_head, c.v_head, n, factor, cap, ring, window, sinks);
        compare(&decode, out, want, (uint64_t)group * dims, 0.3, shape);

        enum { PARTS = 3 };                                                     /* cut at random, parts may be empty */
        float *o = guarded_row((uint64_t)PARTS * group * dims), *m = guarded_row(PARTS * group), *l = guarded_row(PARTS * group);
        uint32_t at = first;
        for (uint32_t k = 0; k < PARTS; k++) {
            const uint32_t end = k == PARTS - 1 ? n : at + random_below(n - at + 1);
            t->part(o + (uint64_t)k * group * dims, m + k * group, l + k * group, q, c.k_head, c.v_head, at, end, factor, cap, ring);
            at = end;
        }
        t->merge(out, o, m, l, PARTS, sinks);
        compare(&merge, out, want, (uint64_t)group * dims, 0.3, shape);
        release(o, "o"); release(m, "m"); release(l, "l"); release(q, "q"); release(out, "out"); release(want, "want");

        const uint32_t tokens = 1 + random_below(n < most_tokens ? n : most_tokens), past = n - tokens, skip = random_below(tokens),
            stride = group * dims + 24;
        q = guarded_row((uint64_t)tokens * stride); out = guarded_row((uint64_t)tokens * stride);
        want = guarded_row((uint64_t)tokens * stride);
        random_row(q, (uint64_t)tokens * stride, 3);
        memset(out, 0, 4 * (size_t)tokens * stride); memset(want, 0, 4 * (size_t)tokens * stride);
        for (uint32_t i = skip; i < tokens; i++) for (uint32_t g = 0; g < group; g++) {
            const uint32_t end = past + i + 1;
            attention_ref(want + i * stride + g * dims, q + i * stride + g * dims, c.k, c.v, dims,
                          window && end > window ? end - window : 0, end, dims, (double)factor, (double)cap, sinks ? sinks + g : NULL);
        }
        t->prefill(out, stride, q, stride, c.k_head, c.v_head, past, skip, tokens - skip, factor, cap, ring, window, sinks);
        snprintf(shape, sizeof shape, "%s n_past %u tokens %u..%u ring %u window %u cap %g sink %d", t->name, past, skip, tokens,
                 ring, window,
                 (double)cap, sinks != NULL);
        compare(&prefill, out, want, (uint64_t)tokens * stride, 0.3, shape);
        release(q, "q"); release(out, "out"); release(want, "want"); release(sink, "sink");
        cache_free(&c);
    }
    report(&store); report(&decode); report(&merge); report(&prefill);
}

/* ---- speed ---- */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
/* Best time of a call in seconds. */
#define BEST(best, repeats, ...) do { best = 1e9; for (uint32_t r_ = 0; r_ < (repeats); r_++) { \
    const double t_ = now_s(); __VA_ARGS__; const double d_ = now_s() - t_; if (d_ < best) best = d_; } } while (0)

static double fma_peak_gflops(void)
{
    volatile float sinkhole;
    vf a[VEC_ACCUMULATORS > 8 ? 12 : 6];
    enum { N = sizeof a / sizeof *a, ROUNDS = 20000 };
    double best;
    VEC_UNROLL
    for (uint32_t i = 0; i < N; i++) a[i] = vf_set1((float)i);
    BEST(best, 20,
        for (uint32_t r = 0; r < ROUNDS; r++) {
            const vf f = vf_set1(0.999f), g = vf_set1(0.001f);
            VEC_UNROLL
            for (uint32_t i = 0; i < N; i++) a[i] = vf_fma(a[i], f, g);
        });
    vf s = a[0];
    VEC_UNROLL
    for (uint32_t i = 1; i < N; i++) s = vf_add(s, a[i]);
    sinkhole = vf_sum(s);
    (void)sinkhole;
    return 32.0 * (double)N * (double)ROUNDS / best * 1e-9;
}

static void bench(void)
{
    const double peak = fma_peak_gflops();
    printf("multiply-add peak measured: %.0f GFLOP/s\n", peak);
    struct result store = { "", 0, 2 };
    for (uint32_t i = 0; i < INSTANCES; i++) {
        const struct instance *t = &instances[i];
        const uint32_t N = 512;
        const uint32_t stride = t->group * t->head_dim;
        struct cache c = cache_make(t, N, N, 0, &store);
        float *q = guarded_row((uint64_t)N * stride), *out = guarded_row((uint64_t)N * stride);
        random_row(q, (uint64_t)N * stride, 3);
        double s;
        BEST(s, 200, t->decode(out, q, c.k_head, c.v_head, N, 0.1f, 0, 0, 0, NULL));
        const double bytes = (double)t->layer_bytes(1, N), flops = 4.0 * N * stride;
        printf("%-28s decode %u: %6.2f us %6.1f GB/s %6.1f GFLOP/s %3.0f %%", t->name, N, s * 1e6, bytes / s * 1e-9, flops / s * 1e-9,
               flops / s * 1e-7 / peak);
        BEST(s, 4, for (uint32_t first = 0; first < N; first += 16) t->prefill(out, stride, q, stride, c.k_head, c.v_head, 0, first, 16,
                                                                               0.1f, 0, 0, 0, NULL));
        const double work = 4.0 * stride * N * (N + 1) / 2;
        printf("   prefill %u: %7.0f us %6.1f GFLOP/s %3.0f %%\n", N, s * 1e6, work / s * 1e-9, work / s * 1e-7 / peak);
        release(q, "q"); release(out, "out");
        cache_free(&c);
    }
    enum { N = 4096 };
    float *x = guarded_row(N), *w = guarded_row(N), *y = guarded_row(N);
    double s;
    random_row(x, N, 3); random_row(w, N, 1);
    BEST(s, 500, rmsnorm(y, x, w, N, 1e-5f)); printf("rmsnorm   %d: %5.0f ns\n", N, s * 1e9);
    BEST(s, 500, glu_silu(y, x, w, N));       printf("glu_silu  %d: %5.0f ns\n", N, s * 1e9);
    BEST(s, 500, glu_gelu(y, x, w, N));       printf("glu_gelu  %d: %5.0f ns\n", N, s * 1e9);
    BEST(s, 500, add(y, x, w, N));            printf("add       %d: %5.0f ns\n", N, s * 1e9);
    float *cs = guarded_row(128);
    random_row(cs, 128, 1); random_row(y, 128, 1);
    BEST(s, 100, for (uint32_t i = 0; i < 100; i++) { y[0] *= 0.5f; rope_apply(y, cs, 128, 128, 1); }) ;
    printf("rope neox 128: %5.1f ns\n", s * 1e7);
    BEST(s, 100, for (uint32_t i = 0; i < 100; i++) { y[0] *= 0.5f; rope_apply(y, cs, 128, 128, 0); }) ;
    printf("rope norm 128: %5.1f ns\n", s * 1e7);
    release(x, "x"); release(w, "w"); release(y, "y"); release(cs, "cs");
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "-b")) { bench(); return 0; }
    if (argc > 1) seed = strtoull(argv[1], NULL, 10) * 2 + 1;
    check_rows();
    check_rope();
    check_attention();
    if (failures) printf("%d failures\n", failures);
    return failures != 0;
}
