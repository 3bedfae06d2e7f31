/* check_attention_prefill.c -- attention of prefill (templates/gpu/attention_prefill_tmpl.c) against sums in double: all head sizes and kinds of cache, groups of heads, causal or
 * not, tails, f32 rows and 16-bit rows, f16 and f32 products.  The cache beyond the step and LDS are NaN; the output is poisoned and must be written exactly where it should be.
 * Compile as it is, with -DFAMILY=FAMILY_RDNA3, and with -DFAMILY=FAMILY_CDNA3; each once more with -DATTENTION_MORE: scores have caps and heads sinks. */
#include <math.h>
#include "check.h"
#define KV_KIND c.kv
#include "runtime/model/abi_gpu.h"

/* The case under test; kernels read it as they would read constants. */
static struct {
    uint32_t kv, n_head, n_head_kv, head_dim, n_ctx, n_past, n_tokens, t0, digits, threads, causal, kind, window, ring, low;
    uint64_t out_stride, q_stride;
    float    scale, cap, sinks[128];             /* cap 0: none */
    uint32_t has_sinks;
    const uint8_t *q;
    uint8_t *out;
} c;
#ifdef ATTENTION_MORE
#define MORE c.cap, c.has_sinks ? c.sinks : 0,
#else
#define MORE
#endif
#include "templates/gpu/attention_prefill_tmpl.c"

#ifndef CASES
#define CASES 150
#endif
enum { ASYNC = COPIES_REACH_LDS, LDS_OF_AMD = 65536 };

static void kernel(const struct forge_kernel_args a)
{
    if (c.causal)
        attention_prefill(a, c.out, c.out_stride, c.kind, c.q, c.q_stride, c.n_head, c.n_head_kv, c.head_dim, c.n_ctx, c.scale, c.digits,
                          MORE c.threads, c.window, c.ring);
    else
        attention_prefill_all(a, c.out, c.out_stride, c.kind, c.q, c.q_stride, c.n_head, c.n_head_kv, c.head_dim, c.n_ctx, c.scale, c.digits, c.threads);
}

static uint32_t cache_rows(void) { return c.ring ? c.ring : c.n_ctx; }
/* What token t attends begins here. */
static uint32_t attended_from(uint32_t t) { return c.window && c.n_past + t + 1 > c.window ? c.n_past + t + 1 - c.window : 0; }

/* One plane of the cache, random at the positions that the step attends; value: [n_head_kv][n_ctx][head_dim], what it means. */
static void plane_new(uint8_t *plane, double *value, float size, bool low)
{
    const uint32_t dim = c.head_dim;
    for (uint32_t i = 0; i < c.n_head_kv * c.n_ctx; i++) {
        const uint32_t position = i % c.n_ctx, row = i / c.n_ctx * cache_rows() + (c.ring ? position % c.ring : position);
        if (position >= c.n_past + c.n_tokens || position < attended_from(0)) continue;
        for (uint32_t d = 0; d < dim; d++) {
            const float x = low && d == 0 ? -200.0f : random_f32() * size;
            const uint64_t at = (uint64_t)row * dim + d, value_at = (uint64_t)i * dim + d;
            const uint64_t scale_at = (uint64_t)c.n_head_kv * cache_rows() * dim + ((uint64_t)row * (dim / 32) + d / 32) * 2;
            const uint16_t half = (uint16_t)f16_bits(x), scale = (uint16_t)f16_bits(size / 127.0f);
            if (c.kv == KV_KIND_f16)  { memcpy(plane + 2 * at, &half, 2); value[value_at] = (double)f32_of_f16_bits(half); }
            if (c.kv == KV_KIND_f32)  { memcpy(plane + 4 * at, &x, 4); value[value_at] = (double)x; }
            if (c.kv == KV_KIND_q8_0) {
                plane[at] = (uint8_t)(int8_t)(x / size * 127.0f);
                memcpy(plane + scale_at, &scale, 2);
                value[value_at] = (double)f32_of_f16_bits(scale) * (double)(int8_t)plane[at];
            }
        }
    }
}
/* Attention of one token and head; q: [head_dim], k, v: of its KV head. */
static void reference(double *y, const float *q, const double *k, const double *v, uint32_t t, uint32_t head)
{
    const uint32_t from = attended_from(t), end = c.n_past + (c.causal ? t + 1 : c.n_tokens);
    const double sink = c.has_sinks ? (double)c.sinks[head] : -INFINITY;
    double top = sink, sum = 0, *s = malloc(end * sizeof *s);
    for (uint32_t i = from; i < end; i++) {
        s[i] = 0;
        for (uint32_t d = 0; d < c.head_dim; d++) s[i] += (double)q[d] * k[(uint64_t)i * c.head_dim + d] * (double)c.scale;
        if (c.cap != 0) s[i] = (double)c.cap * tanh(s[i] / (double)c.cap);
        top = fmax(top, s[i]);
    }
    memset(y, 0, c.head_dim * sizeof *y);
    if (c.has_sinks) sum = exp(sink - top);
    for (uint32_t i = from; i < end; i++) {
        const double e = exp(s[i] - top);
        sum += e;
        for (uint32_t d = 0; d < c.head_dim; d++) y[d] += e * v[(uint64_t)i * c.head_dim + d];
    }
    for (uint32_t d = 0; d < c.head_dim; d++) y[d] /= sum;
    free(s);
}
static double output(uint32_t t, uint32_t column)
{
    const uint8_t *row = c.out + t * c.out_stride;
    if (c.kind == 0) return (double)((const float *)(const void *)row)[column];
    const uint32_t bits = ((const uint16_t *)(const void *)row)[column];
    return c.kind == 1 ? (double)(f32_of_f16_bits(bits) * STAGE_UNSCALE) : (double)f32_of_bf16_bits(bits);
}
static bool fail(const char *what, uint32_t t, uint32_t column, double got, double want)
{
    printf("%s: kv %u, %u heads, %u of KV, %u dims, n_ctx %u, n_past %u, %u tokens from %u, window %u, ring %u, digits %u, %u threads, causal %u, kind %u: [%u][%u] is %.9g, not %.9g\n", what,
           c.kv, c.n_head, c.n_head_kv, c.head_dim, c.n_ctx, c.n_past, c.n_tokens, c.t0, c.window, c.ring, c.digits, c.threads, c.causal, c.kind, t, column, got, want);
    return false;
}
static bool compare(const double *k, const double *v)
{
    const uint32_t per_kv = c.n_head / c.n_head_kv, cols = c.n_head * c.head_dim, exact = ATTENTION_PREFILL_EXACT(c.kv, c.digits);
    const double rounded = c.kind == 0 ? 0 : c.kind == 1 ? 0x1p-11 : 0x1p-8;
    double y[256], largest = 0;
    for (uint64_t i = 0; i < (uint64_t)c.n_head_kv * c.n_ctx * c.head_dim; i++)
        if (i / c.head_dim % c.n_ctx < c.n_past + c.n_tokens) largest = fmax(largest, fabs(v[i]));
    for (uint32_t t = c.t0; t < c.n_tokens; t++) {
        for (uint32_t h = 0; h < c.n_head; h++) {
            const uint64_t plane = (uint64_t)(h / per_kv) * c.n_ctx * c.head_dim;
            reference(y, (const float *)(const void *)(c.q + t * c.q_stride) + h * c.head_dim, k + plane, v + plane, t, h);
            for (uint32_t d = 0; d < c.head_dim; d++) {
                const double got = output(t, h * c.head_dim + d);
                const double bound = (exact ? 1e-5 : 2e-3) * largest + rounded * fabs(y[d]) + (c.kind == 1 ? 2e-6 : 0);
                if (!(fabs(got - y[d]) <= bound)) return fail("attention", t, h * c.head_dim + d, got, y[d]);
            }
        }
        for (uint32_t i = cols; c.kind && i < (cols + 63) / 64 * 64; i++)
            if (!(output(t, i) == 0)) return fail("zeros", t, i, output(t, i), 0);
    }
    return true;
}
static bool untouched(uint64_t total)
{
    const uint64_t cols = c.n_head * c.head_dim, bytes = c.kind ? (cols + 63) / 64 * 128 : cols * 4;
    for (uint64_t i = 0; i < total; i++) {
        const uint64_t t = i / c.out_stride, at = i % c.out_stride;
        if ((t < c.t0 || t >= c.n_tokens || at >= bytes) && c.out[i] != SIMT_POISON) return fail("written outside", (uint32_t)t, (uint32_t)at, c.out[i], SIMT_POISON);
    }
    return true;
}
static void draw_case(void)
{
    static const uint32_t dims[] = { 32, 64, 80, 96, 128, 256, 16, 48 };
    static const uint32_t kinds[] = { KV_KIND_f16, KV_KIND_f16, KV_KIND_q8_0, KV_KIND_f32 };
    c.kv = kinds[random_in(0, 3)];
    c.head_dim = dims[random_in(0, 7)];
    if (c.kv == KV_KIND_q8_0) c.head_dim = (c.head_dim + 31) / 32 * 32;
    c.digits = random_in(0, 3) ? 1 : 2;
    c.causal = random_in(0, 4) != 0;
    c.window = c.causal && random_in(0, 1) ? random_in(1, random_in(0, 1) ? 40 : 300) : 0;
    c.low = c.kv == KV_KIND_f16 && c.digits == 1 && random_in(0, 2) == 0;      /* exact sums are held to less than rounds such scores */
    c.n_head_kv = random_in(1, 3);
    c.n_head = c.n_head_kv * random_in(1, random_in(0, 8) ? 8 : 37);
    c.n_tokens = random_in(1, random_in(0, 2) ? 20 : 150);
    if (c.low && c.window) {                                 /* tokens of a group that begin in different steps */
        c.n_head = c.n_head_kv;
        c.n_tokens = random_in(60, 150);
    }
    c.n_past = random_in(0, 1) ? random_in(0, 300) : 0;
    if (c.n_head * c.head_dim * c.n_tokens > 60000) {        /* keep it short */
        c.n_head_kv = 1;
        c.n_head = random_in(1, 3);
    }
    c.n_ctx = c.n_past + c.n_tokens + random_in(0, 70);
    c.kind = random_in(0, 2);
    c.ring = c.window && random_in(0, 1) ? c.window + c.n_tokens - 1 + random_in(0, 1) * random_in(0, 30) : 0;
#ifdef ATTENTION_MORE
    c.cap = c.causal && random_in(0, 2) ? 0.2f + (float)random_in(0, 30) : 0;
    c.has_sinks = c.causal && random_in(0, 2) > 0;
    for (uint32_t h = 0; h < 128; h++) c.sinks[h] = 4.0f * random_f32();
#endif
    c.threads = 128 << random_in(0, 1);
    if (!ASYNC && ATTENTION_PREFILL_LDS_BYTES(c.kv, c.digits, c.head_dim, FAMILY, c.threads) > LDS_OF_AMD) c.threads = 128;
    c.scale = 1.0f / sqrtf((float)c.head_dim);
    c.out_stride = (uint64_t)(c.n_head * c.head_dim + 63) / 64 * (c.kind ? 128 : 256) + 16 * random_in(0, 2);
    c.q_stride = (uint64_t)c.n_head * c.head_dim * 4 + 16 * random_in(0, 2);
}
/* Scores that are all so low that their weights are nothing beside those of scores around 0: column 0 of every key, and of every query. */
static void lower(float *q)
{
    for (uint32_t h = 0; h < c.n_head; h++) q[h * c.head_dim] = 8.0f;
}
static bool check_case(void)
{
    draw_case();
    const uint64_t layer = 64 * random_in(0, 3), plane = KV_PLANE_BYTES(c.kv, c.n_head_kv, cache_rows(), c.head_dim), n_values = (uint64_t)c.n_head_kv * c.n_ctx * c.head_dim;
    const uint64_t total = (uint64_t)(c.n_tokens + 1) * c.out_stride;
    struct room cache = room_new(layer + 2 * plane), q = room_new(c.n_tokens * c.q_stride), out = room_new(total);
    double *k = calloc(n_values, sizeof *k), *v = calloc(n_values, sizeof *v);
    plane_new(cache.bytes + layer, k, 2.0f, c.low);
    plane_new(cache.bytes + layer + plane, v, random_in(0, 1) ? 1.0f : 0.01f, false);
    const float size = ATTENTION_PREFILL_EXACT(c.kv, c.digits) ? 8.0f : 1.0f;
    for (uint32_t t = 0; t < c.n_tokens; t++)
        for (uint32_t i = 0; i < c.n_head * c.head_dim; i++) ((float *)(void *)(q.bytes + t * c.q_stride))[i] = random_f32() * size;
    for (uint32_t t = 0; t < c.n_tokens && c.low; t++) lower((float *)(void *)(q.bytes + t * c.q_stride));
    c.q = q.bytes, c.out = out.bytes;
    struct forge_gpu_step *step = calloc(1, sizeof *step);
    step->n_past = c.n_past;
    step->n_tokens = c.n_tokens;
    step->n_logits = random_in(1, c.n_tokens);
    const struct forge_kernel_args args = { .state = cache.bytes, .state_at = layer, .step = step, .first = random_in(0, 4) == 0 };
    c.t0 = args.first ? c.n_tokens - step->n_logits : 0;
    const uint32_t tokens = ATTENTION_PREFILL_TOKENS(c.kv, c.digits, c.n_head, c.n_head_kv, c.head_dim, FAMILY, c.threads);
    const uint32_t lds_bytes = ATTENTION_PREFILL_LDS_BYTES(c.kv, c.digits, c.head_dim, FAMILY, c.threads);
    simt_launch(kernel, &args, ATTENTION_PREFILL_GROUPS(c.n_head, c.n_head_kv), (c.n_tokens - c.t0 + tokens - 1) / tokens, c.threads, WAVE, lds_bytes, n_cases++);
    bool ok = (ASYNC || lds_bytes <= LDS_OF_AMD) || fail("LDS", 0, 0, lds_bytes, LDS_OF_AMD);
    ok = ok && untouched(total) && compare(k, v);
    room_free(&cache), room_free(&q), room_free(&out);
    free(k), free(v), free(step);
    return ok;
}
int main(void)
{
    bool ok = true;
    for (uint32_t i = 0; i < CASES; i++) ok &= check_case();
    printf("check_attention_prefill: %u cases %s\n", n_cases, ok ? "passed" : "run, with failures");
    return ok ? 0 : 1;
}
