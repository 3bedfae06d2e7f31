/* attention_prefill.c -- compares prefill's attention (templates/gpu/attention_prefill_tmpl.c) with the oracle of templates/ref.  LDS and
 * the cache beyond the step are NaN; the output is poisoned, and exactly the right bytes of it must be written. */
#include "gpu_cache.h"
#include "templates/gpu/launch.h"
#include "templates/gpu/attention_prefill_sizes.h"
#include "cases.h"
#include <stdio.h>

enum { MOST_LDS_OF_AMD = 65536 };
#ifdef SIMT_MMA_GROUP                            /* the machine multiplies in fours */
#define FOURS_OF(c) ATTENTION_PREFILL_IN_FOURS((c)->kind, (c)->digits, (c)->head_dim, (c)->threads)
#else
#define FOURS_OF(c) 0
#endif
enum out_kind { OUT_F32, OUT_STAGED, OUT_BF16 };
static const struct model { const char *name; uint32_t n_head, n_head_kv, head_dim, digits, out_kind; } models[] = {
#define MODEL(name, ...) { #name, __VA_ARGS__ },
    PREFILL_MODELS(MODEL)
#if PREFILL_THREADS == 128
    PREFILL_LARGE_MODELS(MODEL)
#endif
};

/* The current case.  low: some scores are so low that their weights round to nothing beside the others; t0: the first token to compute. */
static struct {
    const char  *kernel;
    struct attention_case c;
    struct gpu_cache cache;
    uint32_t     n_past, t0;
    bool         low;
    struct room *q, *out, *sinks;
    bool         has_sinks;
} on;

static uint64_t out_row_bytes(void)
{
    const uint64_t cols = (uint64_t)on.c.n_head * on.c.head_dim;
    return on.c.out_kind == OUT_F32 ? cols * 4 : (cols + 63) / 64 * 128;
}
static double output(uint32_t t, uint32_t column)
{
    const uint8_t *row = on.out->bytes + t * on.c.out_stride;
    if (on.c.out_kind == OUT_F32) return (double)((const float *)(const void *)row)[column];
    const uint32_t bits = ((const uint16_t *)(const void *)row)[column];
    return on.c.out_kind == OUT_STAGED ? (double)(f32_of_f16_bits(bits) * STAGE_UNSCALE) : (double)f32_of_bf16_bits(bits);
}
static float *q_row(uint32_t t) { return (float *)(void *)(on.q->bytes + t * on.c.q_stride); }

static bool untouched(void)
{
    for (uint64_t i = 0; i < on.out->size; i++) {
        const uint64_t t = i / on.c.out_stride, at = i % on.c.out_stride;
        if ((t < on.t0 || t >= on.c.n_tokens || at >= out_row_bytes()) && on.out->bytes[i] != POISON)
            return bad("byte %llu of row %llu is written", (unsigned long long)at, (unsigned long long)t);
    }
    return true;
}

/* The query heads of one KV head. */
static bool compare_head(uint32_t kv_head, double largest)
{
    const struct attention_case *c = &on.c;
    const uint32_t per_kv = c->n_head / c->n_head_kv, dim = c->head_dim, end = on.n_past + c->n_tokens;
    const double rounded = c->out_kind == OUT_F32 ? 0 : c->out_kind == OUT_STAGED ? 0x1p-11 : 0x1p-8;
    const double allowed = (ATTENTION_PREFILL_EXACT(c->kind, c->digits) ? 1e-5 : 2e-3) * largest + (c->out_kind == OUT_STAGED ? 2e-6 : 0);
    float *k = cache_read(&on.cache, 0, kv_head, attended_from(&on.cache, on.n_past), end),
        *v = cache_read(&on.cache, 1, kv_head, attended_from(&on.cache, on.n_past), end), want[256];
    bool ok = true;
    for (uint32_t t = on.t0; t < c->n_tokens; t++)
        for (uint32_t h = kv_head * per_kv; h < (kv_head + 1) * per_kv && ok; h++) {
            attention_ref(want, q_row(t) + h * dim, k, v, dim, attended_from(&on.cache, on.n_past + t),
                          c->causal ? on.n_past + t + 1 : end, dim, (double)c->scale, (double)c->cap,
                          on.c.sinks ? room_floats(on.sinks) + h : NULL);
            for (uint32_t d = 0; d < dim && ok; d++)
                ok = close_to("out", (uint64_t)t * c->n_head * dim + h * dim + d, output(t, h * dim + d), (double)want[d],
                              allowed + rounded * fabs((double)want[d]));
        }
    free(k), free(v);
    return ok;
}

static void compare(void)
{
    const struct attention_case *c = &on.c;
    const uint32_t cols = c->n_head * c->head_dim;
    double largest = 0;
    for (uint32_t h = 0; h < c->n_head_kv; h++)
        for (uint32_t p = attended_from(&on.cache, on.n_past); p < on.n_past + c->n_tokens; p++)
            for (uint32_t d = 0; d < c->head_dim; d++) largest = fmax(largest, fabs((double)cache_value(&on.cache, 1, h, p, d)));
    for (uint32_t h = 0; h < c->n_head_kv; h++) if (!compare_head(h, largest)) return;
    for (uint32_t t = on.t0; t < c->n_tokens; t++)
        for (uint32_t i = cols; c->out_kind != OUT_F32 && i < (cols + 63) / 64 * 64; i++)
            if (!close_to("padding", i, output(t, i), 0, 0)) return;
}

static bool too_much_lds(void)
{
    return !FAMILY_COPIES_REACH_LDS(FAMILY)
        && ATTENTION_PREFILL_LDS_BYTES(on.c.kind, on.c.digits, on.c.head_dim, FAMILY, on.c.threads, on.c.fours) > MOST_LDS_OF_AMD;
}

static void check(void)
{
    struct attention_case *c = &on.c;
    struct forge_gpu_step step = { .n_past = on.n_past, .n_tokens = c->n_tokens, .n_logits = random_in(1, c->n_tokens) };
    const bool tail = random_below(5) == 0;
    on.t0 = tail ? c->n_tokens - step.n_logits : 0;
    case_is("kv %s, %u heads, %u of KV, %u dims, ctx %u, past %u, %u tokens from %u, window %u, ring %u, digits %u, %u threads, "
            "in fours %u, causal %u, out %u, low %d, cap %g, sinks %d", kv_kind_name(c->kind), c->n_head, c->n_head_kv,
            c->head_dim, c->n_ctx, on.n_past, c->n_tokens, on.t0, c->window, c->ring, c->digits, c->threads, c->fours, c->causal,
            c->out_kind, on.low, (double)c->cap, on.has_sinks);
    on.cache = (struct gpu_cache){ .kind = c->kind, .n_head_kv = c->n_head_kv, .head_dim = c->head_dim, .n_ctx = c->n_ctx, .ring = c->ring,
                                   .window = c->window };
    cache_new(&on.cache, 64 * random_below(4));
    const float v_size = random_below(2) ? 1.0f : 0.01f;
    for (uint32_t h = 0; h < c->n_head_kv; h++)
        for (uint32_t p = attended_from(&on.cache, on.n_past); p < on.n_past + c->n_tokens; p++) {
            cache_draw(&on.cache, 0, h, p, 2.0f, on.low ? -200.0f : NAN);
            cache_draw(&on.cache, 1, h, p, v_size, NAN);
        }
    on.q = room_new("q", c->n_tokens * c->q_stride);
    on.out = room_new("the output", (uint64_t)(c->n_tokens + 1) * c->out_stride);
    on.sinks = room_new("sinks", c->n_head * sizeof(float));
    random_row(room_floats(on.sinks), c->n_head, 4.0f);
    c->sinks = on.has_sinks ? on.sinks->at : NULL;
    for (uint32_t t = 0; t < c->n_tokens; t++) {
        random_row(q_row(t), c->n_head * c->head_dim, ATTENTION_PREFILL_EXACT(c->kind, c->digits) ? 8.0f : 1.0f);
        for (uint32_t h = 0; h < c->n_head && on.low; h++) q_row(t)[h * c->head_dim] = 8.0f;
    }
    struct room *room = room_new("the case", sizeof *c), *steps = room_new("the step", sizeof step);
    c->q = on.q->at, c->out = on.out->at;
    memcpy(room->bytes, c, sizeof *c);
    memcpy(steps->bytes, &step, sizeof step);
    const struct forge_kernel_args args = { .weights = room->at, .state = on.cache.room->at, .state_at = on.cache.at, .step = steps->at,
                                            .first = tail };
    const uint32_t tokens = ATTENTION_PREFILL_TOKENS(c->kind, c->digits, c->n_head, c->n_head_kv, c->head_dim, FAMILY, c->threads,
                                                     c->fours);
    const uint32_t lds_bytes = ATTENTION_PREFILL_LDS_BYTES(c->kind, c->digits, c->head_dim, FAMILY, c->threads, c->fours);
    if (too_much_lds()) bad("%u bytes of LDS", lds_bytes);
    else {
        machine_launch(&(struct launch){ on.kernel, ATTENTION_PREFILL_GROUPS(c->n_head, c->n_head_kv),
                                         (c->n_tokens - on.t0 + tokens - 1) / tokens,
                                         c->threads, lds_bytes, 0 }, &args);
        if (untouched()) compare();
    }
    rooms_free();
}

static uint32_t draw_kind(void)
{
    static const uint32_t kinds[] = { KV_KIND_f16, KV_KIND_f16, KV_KIND_q8_0, KV_KIND_f32 };
    uint32_t kind;
    do kind = kinds[random_below(4)]; while (!kv_kind_here(kind));
    return kind;
}
static void draw_case(void)
{
    static const uint32_t dims[] = { 32, 64, 80, 96, 128, 256, 16, 48 };
    struct attention_case *c = &on.c;
    *c = (struct attention_case){ .kind = draw_kind(), .head_dim = dims[random_below(8)], .digits = random_below(4) ? 1 : 2,
                                  .causal = random_below(5) != 0, .out_kind = random_below(3) };
    if (c->kind == KV_KIND_q8_0) c->head_dim = (c->head_dim + 31) / 32 * 32;
    c->window = c->causal && random_below(2) ? random_in(1, random_below(2) ? 40 : 300) : 0;
    /* not for exact sums: their bound is smaller than the rounding of such scores */
    on.low = c->kind == KV_KIND_f16 && c->digits == 1 && random_below(3) == 0;
    c->n_head_kv = random_in(1, 3);
    c->n_head = c->n_head_kv * random_in(1, random_below(9) ? 8 : 37);
    c->n_tokens = random_in(1, random_below(3) ? 20 : 150);
    if (on.low && c->window) {                               /* tokens of a group that begin in different steps */
        c->n_head = c->n_head_kv;
        c->n_tokens = random_in(60, 150);
    }
    on.n_past = random_below(2) ? random_in(0, 300) : 0;
    if (c->n_head * c->head_dim * c->n_tokens > 60000) {     /* keep it short */
        c->n_head_kv = 1;
        c->n_head = random_in(1, 3);
    }
    c->n_ctx = on.n_past + c->n_tokens + random_in(0, 70);
    c->ring = c->window && random_below(2) ? c->window + c->n_tokens - 1 + random_below(2) * random_in(0, 30) : 0;
    c->cap = variant_has("more") && c->causal && random_below(3) ? 0.2f + (float)random_below(31) : 0;
    on.has_sinks = variant_has("more") && c->causal && random_below(3) > 0;
    c->threads = 128u << random_below(2);
    if (too_much_lds()) c->threads = 128;
    c->fours = FOURS_OF(c);
    c->scale = 1.0f / sqrtf((float)c->head_dim);
    c->out_stride = (uint64_t)(c->n_head * c->head_dim + 63) / 64 * (c->out_kind ? 128 : 256) + 16 * random_below(3);
    c->q_stride = (uint64_t)c->n_head * c->head_dim * 4 + 16 * random_below(3);
    on.kernel = "prefill_any";
}
/* deep: few tokens, after half of the context or more. */
static void model_case(const struct model *m, bool deep)
{
    on.c = (struct attention_case){ .kind = kv_kind_of_models(), .n_head = m->n_head, .n_head_kv = m->n_head_kv, .head_dim = m->head_dim,
                                    .digits = m->digits, .causal = 1, .out_kind = m->out_kind, .n_ctx = PREFILL_MODELS_CTX,
                                    .n_tokens = random_in(1, deep ? 40 : 150),
                                    .threads = PREFILL_THREADS, .scale = 0.088388348f, .out_stride = PREFILL_MODELS_OUT_STRIDE,
                                    .q_stride = PREFILL_MODELS_Q_STRIDE };
    on.c.fours = FOURS_OF(&on.c);
    on.n_past = deep ? random_in(2048, PREFILL_MODELS_CTX - 40) : random_below(2) ? random_in(0, 300) : 0;
    on.low = on.has_sinks = false;
    on.kernel = m->name;
}

void test_attention_prefill(void)
{
    if (!variant_has("models")) {
        for (uint32_t i = 0; i < rounds(variant_has("more") ? 60 : 150); i++) {
            if (!case_begin()) continue;
            draw_case();
            check();
        }
        return;
    }
    for (uint32_t i = 0; i < rounds(3) + 1; i++)
        for (uint32_t m = 0; m < sizeof models / sizeof *models; m++) {
            const bool deep = i == rounds(3);
            if ((deep && models[m].head_dim != 128) || !kv_holds(kv_kind_of_models(), models[m].head_dim) || !case_begin()) continue;
            model_case(&models[m], deep);
            check();
        }
}
