/* cpu_attention.c -- KV cache and attention of the CPU, decode in one and in parts, and prefill, against the oracle of templates/ref. */
#include "cpu_ops.h"
#include "half.h"
#define KV f16
#include "templates/cpu/attention_tmpl.c"
#undef KV
#define KV f32
#include "templates/cpu/attention_tmpl.c"
#undef KV
#define KV q8_0
#include "templates/cpu/attention_tmpl.c"
#undef KV

/* ---- attention: one instance per element type and shape, with constant heads of a KV head and head_dim as emitted ---- */
#define ATTENTION_SHAPES \
    SHAPE(f16, 4, 64)  SHAPE(f16, 1, 128) SHAPE(f16, 8, 128) SHAPE(f16, 7, 80) SHAPE(f16, 12, 40) SHAPE(f16, 3, 72) SHAPE(f16, 2, 256) \
    SHAPE(f16, 9, 32) SHAPE(f16, 1, 64) \
    SHAPE(f16, 2, 8)   SHAPE(f32, 4, 64)  SHAPE(f32, 5, 24)  SHAPE(q8_0, 4, 64) SHAPE(q8_0, 1, 128) SHAPE(q8_0, 7, 96) SHAPE(q8_0, 16, 32)

struct instance {
    const char *name;
    int         kind;                            /* KV_KIND_... */
    uint32_t    per_kv, head_dim;               /* query heads of a KV head */
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
    static void append_##T##_##G##_##D(uint8_t *kh, uint8_t *vh, const float *k, const float *v, \
                                       uint32_t p) { kv_append_k_##T(kh, k, p, D); kv_append_v_##T(vh, v, p, D); } \
    static void decode_##T##_##G##_##D(float *o, const float *q, const uint8_t *k, const uint8_t *v, uint32_t n, float f, float c, \
                                       uint32_t r, uint32_t w, const float *s) \
    { attention_decode_##T(o, q, k, v, n, G, D, D, f, c, r, w, s); } \
    static void part_##T##_##G##_##D(float *o, float *m, float *l, const float *q, const uint8_t *k, const uint8_t *v, uint32_t a, \
                                     uint32_t b, float f, float c, uint32_t r) \
    { attention_part_##T(o, m, l, q, k, v, a, b, G, D, D, f, c, r); } \
    static void merge_##T##_##G##_##D(float *out, const float *o, const float *m, const float *l, uint32_t n, \
                                      const float *s) { attention_merge(out, o, m, l, n, G, D, s); } \
    static void prefill_##T##_##G##_##D(float *o, uint32_t os, const float *q, uint32_t qs, const uint8_t *k, const uint8_t *v, \
                                        uint32_t past, uint32_t first, uint32_t n, float f, float c, uint32_t r, uint32_t w, \
                                        const float *s) \
    { attention_prefill_##T(o, os, q, qs, k, v, past, first, n, G, D, D, f, c, r, w, s); }
ATTENTION_SHAPES
#undef SHAPE
#define SHAPE(T, G, D) \
    { #T ", " #G " heads of " #D, KV_KIND_##T, G, D, bytes_##T##_##G##_##D, k_##T##_##G##_##D, v_##T##_##G##_##D, \
      append_##T##_##G##_##D, \
                         decode_##T##_##G##_##D, part_##T##_##G##_##D, merge_##T##_##G##_##D, prefill_##T##_##G##_##D },
static const struct instance instances[] = { ATTENTION_SHAPES };
#undef SHAPE
enum { INSTANCES = sizeof instances / sizeof *instances };

/* The cache as docs/kernels.md describes it, element by element. */
static float half_at(const uint8_t *p) { uint16_t h; memcpy(&h, p, 2); return float_of_half(h); }
static float cache_value(const struct instance *t, const uint8_t *k_head, const uint8_t *v_head, uint32_t p, uint32_t d)
{
    const uint64_t dims = t->head_dim, units = dims / 32, lane = p % 16;
    if (t->kind == KV_KIND_q8_0) {
        const uint8_t *u = k_head ? k_head + (p / 16 * units + d / 32) * (32 + 512) : v_head + (p * units + d / 32) * 34;
        return k_head ? half_at(u + 2 * lane) * (float)(int8_t)u[32 + 16 * (d % 32) + lane] : half_at(u) * (float)(int8_t)u[2 + d % 32];
    }
    const uint64_t index = k_head ? (p / 16 * dims + d) * 16 + lane : p * dims + d;
    const uint8_t *head = k_head ? k_head : v_head;
    float value;
    if (t->kind == KV_KIND_f16) return half_at(head + 2 * index);
    memcpy(&value, head + 4 * index, 4);
    return value;
}

struct cache { uint8_t *layer, *k_head, *v_head; float *k, *v; };               /* k, v: [n][head_dim], what the cache says */
enum { N_HEAD_KV = 3, HEAD = 1, MOST_TOKENS = 20, PARTS = 3 };
static const double exact = 6e-6;    /* a weight is as exact as its score: 256 products summed in one float chain, scores up to 10 */

/* How far stored values are off, in half steps: of f16 and f32, or of max|x| / 127 of 32 dims. */
static double steps_off(const struct instance *t, const float *stored, const float *x, uint32_t d)
{
    const double error = fabs((double)stored[d] - (double)x[d]);
    if (t->kind != KV_KIND_q8_0) return error / ((t->kind == KV_KIND_f16 ? 0x1p-11 : 0x1p-24) * fmax(fabs((double)x[d]), 0x1p-14));
    float most = 1e-30f;
    for (uint32_t i = d / 32 * 32; i < d / 32 * 32 + 32; i++) most = fmaxf(most, fabsf(x[i]));
    return error / ((double)most / 254 * 1.07);                                  /* codes may clip by half of f16's step of the scale */
}

/* ring: rows of the cache, the last of n positions are in it; 0: all are. */
static struct cache cache_make(const struct instance *t, uint32_t n, uint32_t ring)
{
    const uint32_t dims = t->head_dim, rows = ring ? ring : n;
    struct cache c = { .layer = room_new("the cache", t->layer_bytes(N_HEAD_KV, rows))->bytes, .k = row_new("cached k", (uint64_t)n * dims),
                       .v = row_new("cached v", (uint64_t)n * dims) };
    c.k_head = t->k(c.layer, HEAD, rows);
    c.v_head = t->v(c.layer, HEAD, N_HEAD_KV, rows);
    float *k = row_new("k", dims), *v = row_new("v", dims);
    for (uint32_t p = 0; p < n; p++) {
        float *k_cached = c.k + (uint64_t)p * dims, *v_cached = c.v + (uint64_t)p * dims;
        const uint32_t row = ring ? p % ring : p;
        random_row(k, dims, 2);
        random_row(v, dims, 1);
        if (p % 5 == 4) memset(v, 0, 4 * dims);                                 /* a row of zeros has no scale */
        t->append(c.k_head, c.v_head, k, v, row);
        bool ok = true;
        for (uint32_t d = 0; d < dims; d++) {
            k_cached[d] = cache_value(t, c.k_head, NULL, row, d);
            v_cached[d] = cache_value(t, NULL, c.v_head, row, d);
        }
        for (uint32_t d = 0; d < dims && ok; d++)
            ok = close_to("stored k, in half steps", p * dims + d, steps_off(t, k_cached, k, d), 0, 1.01)
                && close_to("stored v, in half steps", p * dims + d, steps_off(t, v_cached, v, d), 0, 1.01);
    }
    return c;
}

struct way { uint32_t n, ring, window; float cap, factor; const float *sinks; };      /* n: positions */

static void check_decode(const struct instance *t, const struct cache *c, const struct way *w)
{
    const uint32_t per_kv = t->per_kv, dims = t->head_dim, width = per_kv * dims,
        first = w->window && w->n > w->window ? w->n - w->window : 0;
    float *q = random_row_new("q", width, 3), *out = row_new("out", width), *want = row_new("want", width);
    for (uint32_t h = 0; h < per_kv; h++)
        attention_ref(want + h * dims, q + h * dims, c->k, c->v, dims, first, w->n, dims, (double)w->factor, (double)w->cap,
                      w->sinks ? w->sinks + h : NULL);
    t->decode(out, q, c->k_head, c->v_head, w->n, w->factor, w->cap, w->ring, w->window, w->sinks);
    same_row("decode", out, want, width, 0.3, exact);
    float *o = row_new("parts", (uint64_t)PARTS * width), *m = row_new("maxima", PARTS * per_kv), *l = row_new("sums", PARTS * per_kv);
    for (uint32_t part = 0, at = first; part < PARTS; part++) {                 /* cut at random, parts may be empty */
        const uint32_t end = part == PARTS - 1 ? w->n : at + random_below(w->n - at + 1);
        t->part(o + (uint64_t)part * width, m + part * per_kv, l + part * per_kv, q, c->k_head, c->v_head, at, end, w->factor, w->cap,
                w->ring);
        at = end;
    }
    t->merge(out, o, m, l, PARTS, w->sinks);
    same_row("merge", out, want, width, 0.3, exact);
}

static void check_prefill(const struct instance *t, const struct cache *c, const struct way *w)
{
    const uint32_t per_kv = t->per_kv, dims = t->head_dim, stride = per_kv * dims + 24,
        tokens = 1 + random_below(w->n < MOST_TOKENS ? w->n : MOST_TOKENS), past = w->n - tokens, skip = random_below(tokens);
    float *q = random_row_new("q of tokens", (uint64_t)tokens * stride, 3), *out = row_new("out of tokens", (uint64_t)tokens * stride),
        *want = row_new("want of tokens", (uint64_t)tokens * stride);
    memset(out, 0, 4 * (size_t)tokens * stride);
    memset(want, 0, 4 * (size_t)tokens * stride);
    for (uint32_t i = skip; i < tokens; i++)
        for (uint32_t h = 0; h < per_kv; h++) {
            const uint32_t end = past + i + 1;
            attention_ref(want + i * stride + h * dims, q + i * stride + h * dims, c->k, c->v, dims,
                          w->window && end > w->window ? end - w->window : 0, end, dims, (double)w->factor, (double)w->cap,
                          w->sinks ? w->sinks + h : NULL);
        }
    t->prefill(out, stride, q, stride, c->k_head, c->v_head, past, skip, tokens - skip, w->factor, w->cap, w->ring, w->window, w->sinks);
    same_row("prefill", out, want, (uint64_t)tokens * stride, 0.3, exact);
}

static void check(const struct instance *t)
{
    static const uint32_t lengths[] = { 1, 2, 15, 16, 17, 63, 64, 65, 79, 128, 129, 150 };
    struct way w = { .n = random_below(3) ? lengths[random_below(12)] : 1 + random_below(200), .factor = 1 / sqrtf((float)t->head_dim) };
    w.window = random_below(2) ? 1 + random_below(w.n + 3) : 0;
    w.ring = w.window && random_below(2) ? (w.window + MOST_TOKENS + 14) / 16 * 16 : 0;
    w.cap = random_below(3) ? 0 : 20;
    w.sinks = random_below(2) ? random_row_new("sinks", t->per_kv, 4) : NULL;
    case_is("%s, %u positions, ring %u, window %u, cap %g, sinks %d", t->name, w.n, w.ring, w.window, (double)w.cap, w.sinks != NULL);
    const struct cache c = cache_make(t, w.n, w.ring);
    check_decode(t, &c, &w);
    check_prefill(t, &c, &w);
    rooms_free();
}

void test_cpu_attention(void)
{
    for (uint32_t i = 0; i < rounds(8) * INSTANCES; i++)
        if (case_begin()) check(&instances[i % INSTANCES]);
}

/* ---- speed ---- */
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

void bench_cpu_attention(void)
{
    enum { N = 512 };
    const double peak = fma_peak_gflops();
    printf("multiply-add peak measured: %.0f GFLOP/s\n", peak);
    for (const struct instance *t = instances; t < instances + INSTANCES; t++) {
        const uint32_t stride = t->per_kv * t->head_dim;
        double s;
        case_begin();
        struct cache c = cache_make(t, N, 0);
        float *q = random_row_new("q", (uint64_t)N * stride, 3), *out = row_new("out", (uint64_t)N * stride);
        BEST(s, 200, t->decode(out, q, c.k_head, c.v_head, N, 0.1f, 0, 0, 0, NULL));
        const double bytes = (double)t->layer_bytes(1, N), flops = 4.0 * stride * (double)N;
        printf("%-28s decode %u: %6.2f us %6.1f GB/s %6.1f GFLOP/s %3.0f %%", t->name, N, s * 1e6, bytes / s * 1e-9, flops / s * 1e-9,
               flops / s * 1e-7 / peak);
        BEST(s, 4, for (uint32_t first = 0; first < N; first += 16) t->prefill(out, stride, q, stride, c.k_head, c.v_head, 0, first, 16,
                                                                               0.1f, 0, 0, 0, NULL));
        const double work = 4.0 * stride * (double)(N * (N + 1) / 2);
        printf("   prefill %u: %7.0f us %6.1f GFLOP/s %3.0f %%\n", N, s * 1e6, work / s * 1e-9, work / s * 1e-7 / peak);
        rooms_free();
    }
}
