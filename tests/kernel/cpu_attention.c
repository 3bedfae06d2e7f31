/* cpu_attention.c -- compares the CPU's KV cache and attention with the oracle of templates/ref: decode in one part and in several, and
 * prefill, also with products of pairs of one or two bfloat16 (as in cpu_pairs.c). */
#include "cpu_ops.h"
#include "half.h"
#include "pairs_unit.h"
#define KV f16
#include "templates/cpu/attention_pairs_tmpl.c"
#undef KV
#define KV f32
#include "templates/cpu/attention_pairs_tmpl.c"
#undef KV
#define KV q8_0
#include "templates/cpu/attention_pairs_tmpl.c"
#undef KV

/* ---- attention: one instance per element type and shape, with constant heads of a KV head and dimensions of K and V as emitted ---- */
#define ATTENTION_SHAPES \
    SHAPE(f16, 4, 64, 64) SHAPE(f16, 1, 128, 128) SHAPE(f16, 8, 128, 128) SHAPE(f16, 7, 80, 80) SHAPE(f16, 12, 40, 40) \
    SHAPE(f16, 3, 72, 72) SHAPE(f16, 2, 256, 256) SHAPE(f16, 9, 32, 32) SHAPE(f16, 1, 64, 64) SHAPE(f16, 2, 8, 8) \
    SHAPE(f16, 16, 96, 64) SHAPE(f16, 3, 24, 48) SHAPE(f32, 4, 64, 64) SHAPE(f32, 5, 24, 24) SHAPE(q8_0, 4, 64, 64) \
    SHAPE(q8_0, 1, 128, 128) SHAPE(q8_0, 7, 96, 96) SHAPE(q8_0, 16, 32, 32)

enum { N_HEAD_KV = 3, HEAD = 1, MOST_TOKENS = 40, PARTS = 3 };
struct instance {
    const char *name;
    int         kind;                            /* KV_KIND_... */
    uint32_t    per_kv, head_dim, value_dim;     /* query heads of a KV head */
    uint64_t (*k_bytes)(uint32_t n_ctx);         /* of all heads */
    uint64_t (*v_bytes)(uint32_t n_ctx);
    uint8_t *(*k)(uint8_t *all, uint32_t n_ctx); /* where the rows of HEAD begin */
    uint8_t *(*v)(uint8_t *all, uint32_t n_ctx);
    void (*append)(uint8_t *k_head, uint8_t *v_head, const float *k, const float *v, uint32_t position);
    void (*decode)(float *out, const float *q, const uint8_t *k_head, const uint8_t *v_head, uint32_t n_kv, float factor, float cap,
                   uint32_t ring, uint32_t window, const float *sink);
    void (*part)(float *o, float *m, float *l, const float *q, const uint8_t *k_head, const uint8_t *v_head, uint32_t first, uint32_t end,
                 float factor, float cap, uint32_t ring);
    void (*merge)(float *out, const float *o, const float *m, const float *l, uint32_t n_parts, const float *sink);
    void (*prefill)(float *out, uint32_t out_stride, const float *q, uint32_t q_stride, const uint8_t *k_head, const uint8_t *v_head,
                    uint32_t n_past, uint32_t first_token, uint32_t n_tokens, float factor, float cap, uint32_t ring,
                    uint32_t window, const float *sink);
    void (*pairs)(float *out, uint32_t out_stride, const float *q, uint32_t q_stride, const uint8_t *k_head, const uint8_t *v_head,
                  uint32_t n_past, uint32_t all, uint32_t n_tokens, uint32_t group, uint32_t head_dim, uint32_t value_dim, float factor,
                  float cap, uint32_t ring, uint32_t window, const float *sink, uint32_t parts, uint8_t *scratch);
};
/* In products of pairs no size has to be a constant: one instance per element type is enough. */
#define PAIRS(T) \
    static void pairs_##T(float *o, uint32_t os, const float *q, uint32_t qs, const uint8_t *k, const uint8_t *v, uint32_t past, \
                          uint32_t all, uint32_t n, uint32_t g, uint32_t d, uint32_t vd, float f, float c, uint32_t r, uint32_t w, \
                          const float *s, uint32_t parts, uint8_t *room) \
    { attention_pairs_##T(o, os, q, qs, k, v, past, all, n, g, d, vd, f, c, r, w, s, parts, room); }
PAIRS(f16)
PAIRS(f32)
PAIRS(q8_0)
#define SHAPE(T, G, D, V) \
    static uint64_t k_bytes_##T##_##G##_##D(uint32_t c) { return kv_layer_bytes_##T(N_HEAD_KV, D, c) / 2; } \
    static uint64_t v_bytes_##T##_##G##_##D(uint32_t c) { return kv_layer_bytes_##T(N_HEAD_KV, V, c) / 2; } \
    static uint8_t *k_##T##_##G##_##D(uint8_t *p, uint32_t c) { return kv_k_##T(p, HEAD, D, c); } \
    static uint8_t *v_##T##_##G##_##D(uint8_t *p, uint32_t c) { return kv_k_##T(p, HEAD, V, c); } \
    static void append_##T##_##G##_##D(uint8_t *kh, uint8_t *vh, const float *k, const float *v, \
                                       uint32_t p) { kv_append_k_##T(kh, k, p, D); kv_append_v_##T(vh, v, p, V); } \
    static void decode_##T##_##G##_##D(float *o, const float *q, const uint8_t *k, const uint8_t *v, uint32_t n, float f, float c, \
                                       uint32_t r, uint32_t w, const float *s) \
    { attention_decode_##T(o, q, k, v, n, G, D, V, f, c, r, w, s); } \
    static void part_##T##_##G##_##D(float *o, float *m, float *l, const float *q, const uint8_t *k, const uint8_t *v, uint32_t a, \
                                     uint32_t b, float f, float c, uint32_t r) \
    { attention_part_##T(o, m, l, q, k, v, a, b, G, D, V, f, c, r); } \
    static void merge_##T##_##G##_##D(float *out, const float *o, const float *m, const float *l, uint32_t n, \
                                      const float *s) { attention_merge(out, o, m, l, n, G, V, s); } \
    static void prefill_##T##_##G##_##D(float *o, uint32_t os, const float *q, uint32_t qs, const uint8_t *k, const uint8_t *v, \
                                        uint32_t past, uint32_t first, uint32_t n, float f, float c, uint32_t r, uint32_t w, \
                                        const float *s) \
    { attention_prefill_##T(o, os, q, qs, k, v, past, first, n, G, D, V, f, c, r, w, s); }
ATTENTION_SHAPES
#undef SHAPE
#define SHAPE(T, G, D, V) \
    { #T ", " #G " heads of " #D " and " #V, KV_KIND_##T, G, D, V, k_bytes_##T##_##G##_##D, v_bytes_##T##_##G##_##D, \
      k_##T##_##G##_##D, v_##T##_##G##_##D, append_##T##_##G##_##D, decode_##T##_##G##_##D, part_##T##_##G##_##D, \
      merge_##T##_##G##_##D, prefill_##T##_##G##_##D, pairs_##T },
static const struct instance instances[] = { ATTENTION_SHAPES };
#undef SHAPE
enum { INSTANCES = sizeof instances / sizeof *instances };
static uint32_t widest(const struct instance *t) { return t->head_dim > t->value_dim ? t->head_dim : t->value_dim; }

/* The cache as docs/kernels.md describes it, element by element. */
static float half_at(const uint8_t *p) { uint16_t h; memcpy(&h, p, 2); return float_of_half(h); }
static float cache_value(const struct instance *t, const uint8_t *k_head, const uint8_t *v_head, uint32_t p, uint32_t d)
{
    const uint64_t dims = k_head ? t->head_dim : t->value_dim, units = dims / 32, lane = p % 16;
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

/* k, v: [n][widest], the cached values; zeros after head_dim and value_dim, which change no product */
struct cache { uint8_t *k_head, *v_head; float *k, *v; };
static const double exact = 6e-6;    /* a weight's error is its score's: a float chain of 256 products, scores up to 10 */

/* The error of a stored value in half steps: of f16 or f32, or of max|x| / 127 of 32 dimensions. */
static double steps_off(const struct instance *t, const float *stored, const float *x, uint32_t d)
{
    const double error = fabs((double)stored[d] - (double)x[d]);
    if (t->kind != KV_KIND_q8_0) return error / ((t->kind == KV_KIND_f16 ? 0x1p-11 : 0x1p-24) * fmax(fabs((double)x[d]), 0x1p-14));
    float most = 1e-30f;
    for (uint32_t i = d / 32 * 32; i < d / 32 * 32 + 32; i++) most = fmaxf(most, fabsf(x[i]));
    return error / ((double)most / 254 * 1.07);                                  /* codes may clip by half of f16's step of the scale */
}

/* ring: rows of the cache, which has the last of n positions; 0: the cache has all positions. */
static struct cache cache_make(const struct instance *t, uint32_t n, uint32_t ring)
{
    const uint32_t width = widest(t), rows = ring ? ring : n;
    struct cache c = { .k = row_new("cached k", (uint64_t)n * width), .v = row_new("cached v", (uint64_t)n * width) };
    c.k_head = t->k(room_new("the cache of k", t->k_bytes(rows))->bytes, rows);
    c.v_head = t->v(room_new("the cache of v", t->v_bytes(rows))->bytes, rows);
    float *k = row_new("k", t->head_dim), *v = row_new("v", t->value_dim);
    memset(c.k, 0, 4 * (size_t)n * width);
    memset(c.v, 0, 4 * (size_t)n * width);
    for (uint32_t p = 0; p < n; p++) {
        float *k_cached = c.k + (uint64_t)p * width, *v_cached = c.v + (uint64_t)p * width;
        const uint32_t row = ring ? p % ring : p;
        random_row(k, t->head_dim, 2);
        random_row(v, t->value_dim, 1);
        if (p % 5 == 4) memset(v, 0, 4 * t->value_dim);                         /* a row of zeros has no scale */
        t->append(c.k_head, c.v_head, k, v, row);
        bool ok = true;
        for (uint32_t d = 0; d < t->head_dim; d++) {
            k_cached[d] = cache_value(t, c.k_head, NULL, row, d);
            ok = ok && close_to("stored k, in half steps", p * width + d, steps_off(t, k_cached, k, d), 0, 1.01);
        }
        for (uint32_t d = 0; d < t->value_dim; d++) {
            v_cached[d] = cache_value(t, NULL, c.v_head, row, d);
            ok = ok && close_to("stored v, in half steps", p * width + d, steps_off(t, v_cached, v, d), 0, 1.01);
        }
    }
    return c;
}

struct way { uint32_t n, ring, window; float cap, factor; const float *sinks; };      /* n: positions */

/* want: [per_kv][value_dim], q: [per_kv][head_dim], of a token that attends to [first, end). */
static void reference(float *want, const float *q, const float *k, const float *v, uint32_t first, uint32_t end, const struct instance *t,
                      const struct way *w, bool bf16)
{
    const uint32_t width = widest(t);
    float row[256], out[256];
    for (uint32_t h = 0; h < t->per_kv; h++) {
        memset(row, 0, sizeof row);
        memcpy(row, q + h * t->head_dim, 4 * t->head_dim);
        (bf16 ? attention_bf16_ref : attention_ref)(out, row, k, v, width, first, end, width, (double)w->factor, (double)w->cap,
                                                    w->sinks ? w->sinks + h : NULL);
        memcpy(want + h * t->value_dim, out, 4 * t->value_dim);
    }
}

static void check_decode(const struct instance *t, const struct cache *c, const struct way *w)
{
    const uint32_t per_kv = t->per_kv, width = per_kv * t->value_dim, first = w->window && w->n > w->window ? w->n - w->window : 0;
    float *q = random_row_new("q", (uint64_t)per_kv * t->head_dim, 3), *out = row_new("out", width), *want = row_new("want", width);
    reference(want, q, c->k, c->v, first, w->n, t, w, false);
    t->decode(out, q, c->k_head, c->v_head, w->n, w->factor, w->cap, w->ring, w->window, w->sinks);
    same_row("decode", out, want, width, 0.3, exact);
    float *o = row_new("parts", (uint64_t)PARTS * width), *m = row_new("maxima", PARTS * per_kv), *l = row_new("sums", PARTS * per_kv);
    for (uint32_t part = 0, at = first; part < PARTS; part++) {                 /* random cuts; parts may be empty */
        const uint32_t end = part == PARTS - 1 ? w->n : at + random_below(w->n - at + 1);
        t->part(o + (uint64_t)part * width, m + part * per_kv, l + part * per_kv, q, c->k_head, c->v_head, at, end, w->factor, w->cap,
                w->ring);
        at = end;
    }
    t->merge(out, o, m, l, PARTS, w->sinks);
    same_row("merge", out, want, width, 0.3, exact);
}

/* Tokens skip .. n - 1 of a step after `past` positions.  want: the expected output. */
struct tokens { float *q, *want; uint32_t n, past, skip, q_stride, stride; bool causal; };

static float *bf16_rows(const char *name, const float *x, uint64_t n)
{
    float *y = row_new(name, n);
    for (uint64_t i = 0; i < n; i++) y[i] = isfinite(x[i]) ? bf16_ref(x[i]) : x[i];
    return y;
}

static void references(const struct tokens *s, const float *q, const float *k, const float *v, const struct instance *t,
                       const struct way *w, bool bf16)
{
    memset(s->want, 0, 4 * (size_t)s->n * s->stride);
    for (uint32_t i = s->skip; i < s->n; i++) {
        const uint32_t end = s->causal ? s->past + i + 1 : w->n, first = s->causal && w->window && end > w->window ? end - w->window : 0;
        reference(s->want + i * s->stride, q + i * s->q_stride, k, v, first, end, t, w, bf16);
    }
}

static float *out_of(const struct tokens *s)
{
    float *out = row_new("out of tokens", (uint64_t)s->n * s->stride);
    memset(out, 0, 4 * (size_t)s->n * s->stride);
    return out;
}

static void check_prefill(const struct instance *t, const struct cache *c, const struct way *w, const struct tokens *s)
{
    float *out = out_of(s);
    references(s, s->q, c->k, c->v, t, w, false);
    t->prefill(out, s->stride, s->q, s->q_stride, c->k_head, c->v_head, s->past, s->skip, s->n - s->skip, w->factor, w->cap, w->ring,
               w->window, w->sinks);
    same_row("prefill", out, s->want, (uint64_t)s->n * s->stride, 0.3, exact);
    float *apart = out_of(s);                    /* a token's bits do not depend on the other tokens of a call */
    const uint32_t cut = s->skip + random_below(s->n - s->skip);
    for (uint32_t at = s->skip, n; at < s->n; at += n) {
        n = at < cut ? cut - at : s->n - at;
        t->prefill(apart, s->stride, s->q, s->q_stride, c->k_head, c->v_head, s->past, at, n, w->factor, w->cap, w->ring, w->window,
                   w->sinks);
    }
    if (memcmp(out, apart, 4 * (size_t)s->n * s->stride))
        bad("prefill: tokens %u to %u, cut at %u, differ from those beside each other", s->skip, s->n, cut);
}

static void run_pairs(const struct instance *t, const struct cache *c, const struct way *w, const struct tokens *s, float *out,
                      uint32_t skip, uint32_t end, uint32_t parts)
{
    struct room *room = room_new("scratch", pairs_room(t->per_kv * (end - skip), t->head_dim, t->value_dim, ATTENTION_BLOCK, parts).end);
    t->pairs(out + skip * s->stride, s->stride, s->q + skip * s->q_stride, s->q_stride, c->k_head, c->v_head, s->past + skip,
             s->causal ? 0 : w->n, end - skip, t->per_kv, t->head_dim, t->value_dim, w->factor, w->cap, w->ring, w->window, w->sinks, parts,
             room->bytes);
}

/* Checks that a token's bits do not depend on the other tokens of a call. */
static void check_apart(const struct instance *t, const struct cache *c, const struct way *w, const struct tokens *s, const float *out,
                        uint32_t parts)
{
    float *apart = out_of(s);
    const uint32_t cut = s->skip + random_below(s->n - s->skip);
    if (cut > s->skip) run_pairs(t, c, w, s, apart, s->skip, cut, parts);
    run_pairs(t, c, w, s, apart, cut, s->n, parts);
    if (memcmp(out, apart, 4 * (size_t)s->n * s->stride))
        bad("%u parts: tokens %u to %u, cut at %u, differ from those beside each other", parts, s->skip, s->n, cut);
}

/* Two bfloat16 per value have 16 bits: a score's error is about 2^-16 of its products, and a weight's relative error is the same. */
static void check_two_parts(const struct instance *t, const struct cache *c, const struct way *w, const struct tokens *s)
{
    const uint64_t all = (uint64_t)s->n * s->stride, cached = (uint64_t)w->n * widest(t);
    float *v = row_new("|v|", cached), *size = row_new("sizes of two parts", all), *out = out_of(s);
    for (uint64_t i = 0; i < cached; i++) v[i] = fabsf(c->v[i]);
    references(s, s->q, c->k, v, t, w, false);
    memcpy(size, s->want, 4 * all);
    references(s, s->q, c->k, c->v, t, w, false);
    run_pairs(t, c, w, s, out, s->skip, s->n, 2);
    for (uint64_t i = 0; i < all; i++)
        if (!close_to("two parts", i, (double)out[i], (double)s->want[i], 0x1p-12 * (double)size[i] + 1e-6)) return;
    check_apart(t, c, w, s, out, 2);
}

/* Q, K, V and weights are bfloat16.  A weight at the border between two bfloat16 may be rounded either way, a difference of 2^-7 of itself,
 * so each value may differ by that part of its sum of |v|; but few values do. */
static void check_pairs(const struct instance *t, const struct cache *c, const struct way *w, const struct tokens *s)
{
    const uint64_t all = (uint64_t)s->n * s->stride, cached = (uint64_t)w->n * widest(t);
    const float *q = bf16_rows("q in bf16", s->q, (uint64_t)s->n * s->q_stride), *k = bf16_rows("k in bf16", c->k, cached);
    float *v = bf16_rows("v in bf16", c->v, cached), *size = row_new("sizes", all), *out = out_of(s);
    for (uint64_t i = 0; i < cached; i++) v[i] = fabsf(v[i]);
    references(s, q, k, v, t, w, true);
    memcpy(size, s->want, 4 * all);
    for (uint64_t i = 0; i < cached; i++) v[i] = bf16_ref(c->v[i]);
    references(s, q, k, v, t, w, true);
    run_pairs(t, c, w, s, out, s->skip, s->n, 1);
    double off = 0, sizes = 0, largest = 0;
    for (uint64_t i = 0; i < all; i++) {
        if (!close_to("pairs", i, (double)out[i], (double)s->want[i], 0x1p-7 * (double)size[i] + 2e-5)) return;
        off += fabs((double)out[i] - (double)s->want[i]);
        sizes += (double)size[i];
        largest = fmax(largest, (double)size[i]);
    }
    close_to("pairs in the mean", 0, off, 0, 0x1p-12 * sizes + 0x1p-7 * t->value_dim * largest);
    check_apart(t, c, w, s, out, 1);
}

static void check(const struct instance *t)
{
    static const uint32_t lengths[] = { 1, 2, 15, 16, 17, 63, 64, 65, 79, 128, 129, 150 };
    struct way w = { .n = random_below(3) ? lengths[random_below(12)] : 1 + random_below(200), .factor = 1 / sqrtf((float)t->head_dim) };
    w.window = random_below(2) ? 1 + random_below(w.n + 3) : 0;
    w.ring = w.window && random_below(2) ? (w.window + MOST_TOKENS + 14) / 16 * 16 : 0;
    w.cap = random_below(3) ? 0 : 20;
    w.sinks = random_below(2) ? random_row_new("sinks", t->per_kv, 4) : NULL;
    struct tokens s = { .n = 1 + random_below(w.n < MOST_TOKENS ? w.n : MOST_TOKENS), .q_stride = t->per_kv * t->head_dim + 24,
                        .stride = t->per_kv * t->value_dim + 24, .causal = w.window || random_below(3) };
    s.past = w.n - s.n;
    s.skip = random_below(s.n);
    s.q = random_row_new("q of tokens", (uint64_t)s.n * s.q_stride, 3);
    s.want = row_new("want of tokens", (uint64_t)s.n * s.stride);
    case_is("%s, %u positions, ring %u, window %u, cap %g, sinks %d, tokens %u to %u, causal %d", t->name, w.n, w.ring, w.window,
            (double)w.cap, w.sinks != NULL, s.skip, s.n, s.causal);
    const struct cache c = cache_make(t, w.n, w.ring);
    check_decode(t, &c, &w);
    if (s.causal) check_prefill(t, &c, &w, &s);
    check_pairs(t, &c, &w, &s);
    check_two_parts(t, &c, &w, &s);
    rooms_free();
}

void test_cpu_attention(void)
{
    if (!tiles_are_here()) { bad("the kernel does not permit the tiles of AMX"); return; }
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
    enum { N = 512, TOKENS = 128, PAST = 1920 };
    const double peak = fma_peak_gflops();
    printf("multiply-add peak measured: %.0f GFLOP/s\n", peak);
    if (!tiles_are_here()) return;
    for (const struct instance *t = instances; t < instances + INSTANCES; t++) {
        const uint32_t q_stride = t->per_kv * t->head_dim, stride = t->per_kv * t->value_dim, tokens = pairs_tokens(t->per_kv);
        double s;
        case_begin();
        struct cache c = cache_make(t, PAST + TOKENS, 0);
        float *q = random_row_new("q", (uint64_t)TOKENS * q_stride, 3), *out = row_new("out", (uint64_t)TOKENS * stride);
        uint8_t *room = room_new("scratch", pairs_room(t->per_kv * tokens, t->head_dim, t->value_dim, ATTENTION_BLOCK, 2).end)->bytes;
        BEST(s, 200, t->decode(out, q, c.k_head, c.v_head, N, 0.1f, 0, 0, 0, NULL));
        const double bytes = (double)(t->k_bytes(N) + t->v_bytes(N)) / N_HEAD_KV, flops = 2.0 * (q_stride + stride) * (double)N;
        printf("%-28s decode %u: %6.2f us %6.1f GB/s %6.1f GFLOP/s %3.0f %%", t->name, N, s * 1e6, bytes / s * 1e-9, flops / s * 1e-9,
               flops / s * 1e-7 / peak);
        const double work = 2.0 * (q_stride + stride) * TOKENS * (PAST + TOKENS / 2.0);
        BEST(s, 20, for (uint32_t first = 0; first < TOKENS; first += 16)
                 t->prefill(out, stride, q, q_stride, c.k_head, c.v_head, PAST, first, 16, 0.1f, 0, 0, 0, NULL));
        printf("   %u behind %u: %7.0f us %6.1f GFLOP/s %3.0f %%", TOKENS, PAST, s * 1e6, work / s * 1e-9, work / s * 1e-7 / peak);
        for (uint32_t parts = 1; parts <= 2; parts++) {
            BEST(s, 20, for (uint32_t first = 0; first < TOKENS; first += tokens)
                     t->pairs(out + first * stride, stride, q + first * q_stride, q_stride, c.k_head, c.v_head, PAST + first, 0,
                              TOKENS - first < tokens ? TOKENS - first : tokens, t->per_kv, t->head_dim, t->value_dim, 0.1f, 0, 0, 0, NULL,
                              parts, room));
            printf("   in pairs, %u part%s: %7.0f us %6.1f GFLOP/s", parts, parts > 1 ? "s" : "", s * 1e6, work / s * 1e-9);
        }
        printf("\n");
        rooms_free();
    }
}
