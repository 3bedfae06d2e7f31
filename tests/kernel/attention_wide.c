/* attention_wide.c -- compares templates/gpu/attention_wide.h with the oracle of templates/ref on random data.  LDS and the cache beyond
 * the step are NaN; the output and the parts are poisoned, and exactly the right bytes of the output must be written. */
#include "gpu_cache.h"
#include "templates/gpu/launch.h"
#include "templates/gpu/attention_wide_sizes.h"
#include "cases.h"
#include <stdio.h>

#ifdef SIMT_MMA_GROUP                            /* the machine multiplies in fours */
#define FOURS_OF(c) WIDE_IN_FOURS((c)->kind, (c)->head_dim, (c)->value_dim, FAMILY)
#else
#define FOURS_OF(c) 0
#endif
enum { MOST_DIMS = 576 };
enum out_kind { OUT_F32, OUT_STAGED, OUT_BF16 };
static const struct model { const char *name; uint32_t n_head, n_head_kv, dim, value_dim, view, splits, spans, cluster; } models[] = {
#define MODEL(name, ...) { #name, __VA_ARGS__ },
    WIDE_MODELS(MODEL) WIDE_CLUSTER_MODELS(MODEL)
};

/* The current case.  V has a cache of its own, of which only the first plane is used; a view has K's. */
static struct attention_case c;
static struct gpu_cache keys, values;
static uint32_t n_past, t0, sinks;               /* t0: the first token to compute */
static struct { struct room *c, *step, *mark, *q, *out, *parts, *ml, *counters, *sinks; } on;

static float *q_row(uint32_t t) { return (float *)(void *)(on.q->bytes + t * c.q_stride); }
static uint64_t out_row_bytes(void)
{
    const uint64_t cols = (uint64_t)c.n_head * c.value_dim;
    return c.out_kind == OUT_F32 ? cols * 4 : (cols + 63) / 64 * 128;
}
static double output(uint32_t t, uint32_t column)
{
    const uint8_t *row = on.out->bytes + t * c.out_stride;
    if (c.out_kind == OUT_F32) return (double)((const float *)(const void *)row)[column];
    const uint32_t bits = ((const uint16_t *)(const void *)row)[column];
    return c.out_kind == OUT_STAGED ? (double)(f32_of_f16_bits(bits) * STAGE_UNSCALE) : (double)f32_of_bf16_bits(bits);
}

/* A head's rows of positions from .. end - 1 as f16 would hold them, in rows of MOST_DIMS floats that end with zeros. */
static float *read_rows(const struct gpu_cache *cache, uint32_t dim, uint32_t head, uint32_t from, uint32_t end)
{
    float *x = calloc((uint64_t)end * MOST_DIMS, sizeof *x);
    for (uint32_t p = from; p < end; p++)
        for (uint32_t d = 0; d < dim; d++) x[(uint64_t)p * MOST_DIMS + d] = (float)(_Float16)cache_value(cache, 0, head, p, d);
    return x;
}
static bool compare_head(uint32_t kv_head, double bound)
{
    const uint32_t per_kv = c.n_head / c.n_head_kv, end = n_past + c.n_tokens, from = attended_from(&keys, n_past + t0);
    const double rounded = c.out_kind == OUT_F32 ? 0 : c.out_kind == OUT_STAGED ? 0x1p-11 : 0x1p-8;
    float *k = read_rows(&keys, c.head_dim, kv_head, from, end), *v = read_rows(c.view ? &keys : &values, c.value_dim, kv_head, from, end),
          want[MOST_DIMS], q[MOST_DIMS] = { 0 };
    bool ok = true;
    for (uint32_t t = t0; t < c.n_tokens; t++)
        for (uint32_t h = kv_head * per_kv; h < (kv_head + 1) * per_kv && ok; h++) {
            memcpy(q, q_row(t) + h * c.head_dim, c.head_dim * sizeof *q);
            attention_ref(want, q, k, v, MOST_DIMS, attended_from(&keys, n_past + t), c.causal ? n_past + t + 1 : end, MOST_DIMS,
                          (double)c.scale, (double)c.cap, c.sinks ? room_floats(on.sinks) + h : NULL);
            for (uint32_t d = 0; d < c.value_dim && ok; d++)
                ok = close_to("out", (uint64_t)t * c.n_head * c.value_dim + h * c.value_dim + d, output(t, h * c.value_dim + d),
                              (double)want[d], bound + rounded * fabs((double)want[d]));
        }
    free(k), free(v);
    return ok;
}
static void compare(double bound)
{
    const uint32_t cols = c.n_head * c.value_dim;
    for (uint64_t i = 0; i < on.out->size; i++) {
        const uint64_t t = i / c.out_stride, at = i % c.out_stride;
        if ((t < t0 || t >= c.n_tokens || at >= out_row_bytes()) && on.out->bytes[i] != POISON) {
            bad("byte %llu of row %llu is written", (unsigned long long)at, (unsigned long long)t);
            return;
        }
    }
    for (uint32_t h = 0; h < c.n_head_kv; h++) if (!compare_head(h, bound)) return;
    for (uint32_t t = t0; t < c.n_tokens; t++)
        for (uint32_t i = cols; c.out_kind != OUT_F32 && i < (cols + 63) / 64 * 64; i++)
            if (!close_to("padding", i, output(t, i), 0, 0)) return;
}

/* Makes the rooms for a step of c.n_tokens. */
static void set_up(const char *what)
{
    case_is("%s, kv %s, %u heads, %u of KV, %u and %u dims, view %u, ctx %u, past %u, %u tokens from %u, window %u, ring %u, splits %u, "
            "spans %u of %u, cluster %u, causal %u, out %u, cap %g, sinks %u", what, kv_kind_name(c.kind), c.n_head, c.n_head_kv,
            c.head_dim, c.value_dim, c.view, c.n_ctx, n_past, c.n_tokens, t0, c.window, c.ring, c.splits, c.spans, c.span, c.cluster,
            c.causal, c.out_kind, (double)c.cap, sinks);
    c.scale = 1.0f / sqrtf((float)c.head_dim);
    keys = values = (struct gpu_cache){ .kind = c.kind, .n_head_kv = c.n_head_kv, .head_dim = c.head_dim, .n_ctx = c.n_ctx,
                                        .ring = c.ring, .window = c.window };
    values.head_dim = c.value_dim;
    cache_new(&keys, 64 * random_below(4));
    if (!c.view) cache_new(&values, 0);
    for (uint32_t h = 0; h < c.n_head_kv; h++)
        for (uint32_t p = attended_from(&keys, n_past); p < n_past + c.n_tokens; p++) {
            cache_draw(&keys, 0, h, p, c.view ? 1.0f : 2.0f, NAN);
            if (!c.view) cache_draw(&values, 0, h, p, 1.0f, NAN);
        }
    c.values = c.view ? keys.room->at + keys.at : values.room->at;
    on.q = room_new("q", c.n_tokens * c.q_stride);
    on.out = room_new("the output", (uint64_t)(c.n_tokens + 1) * c.out_stride);
    on.sinks = room_new("sinks", c.n_head * sizeof(float));
    random_row(room_floats(on.sinks), c.n_head, 4.0f);
    for (uint32_t t = 0; t < c.n_tokens; t++) random_row(q_row(t), c.n_head * c.head_dim, 2.0f);
    c.sinks = sinks ? on.sinks->at : NULL;
    c.q = on.q->at, c.out = on.out->at;
    on.c = room_new("the case", sizeof c), on.step = room_new("the step", sizeof(struct forge_gpu_step)), on.mark = room_new("the mark", 4);
}
static void launch(struct launch l, bool tail)
{
    const struct forge_gpu_step step = { .n_past = n_past, .n_tokens = c.n_tokens, .n_logits = c.n_tokens - t0 };
    const struct forge_kernel_args args = { .weights = on.c->at, .state = keys.room->at, .state_at = keys.at, .step = on.step->at,
                                            .mark_at = on.mark->at, .mark = 1, .first = tail };
    memcpy(on.c->bytes, &c, sizeof c);
    memcpy(on.step->bytes, &step, sizeof step);
    machine_launch(&l, &args);
}

static void decode_case(const char *kernel)
{
    const uint32_t units = WIDE_GROUPS(c.n_head, c.n_head_kv), heads = WIDE_HEADS(c.n_head, c.n_head_kv),
                   rows = WIDE_ROWS,
                   lds_bytes = WIDE_DECODE_BYTES(c.kind, c.head_dim, c.value_dim, c.view, heads, rows, c.splits, c.cluster, FAMILY);
    c.n_tokens = 1, c.causal = 1, c.out_kind = OUT_F32, t0 = 0;
    c.q_stride = (uint64_t)c.n_head * c.head_dim * 4;
    c.out_stride = (uint64_t)c.n_head * c.value_dim * 4;
    set_up("decode");
    on.parts = room_new("parts", WIDE_PARTS_BYTES(units, heads, c.value_dim, c.splits, c.spans, c.cluster));
    on.ml = room_new("maxima and sums", WIDE_ML_BYTES(units, heads, c.splits, c.spans, c.cluster));
    on.counters = room_new("counters", WIDE_COUNTER_BYTES(units, c.splits, c.spans, c.cluster));
    memset(on.counters->bytes, 0, on.counters->size);
    c.parts = on.parts->at, c.ml = on.ml->at, c.counters = on.counters->at;
    if (lds_bytes > WIDE_LDS_MOST(FAMILY)) bad("%u bytes of LDS", lds_bytes);
    else {
        launch((struct launch){ kernel, units * c.splits * c.spans, 1, WIDE_THREADS(FAMILY), lds_bytes, c.cluster ? c.splits : 0 }, false);
        if (*(const uint32_t *)(const void *)on.mark->bytes != 1) bad("mark was not written");
        for (uint64_t k = 0; k < on.counters->size; k++) if (on.counters->bytes[k]) { bad("a counter is not 0"); break; }
        compare(2e-5);
    }
    rooms_free();
}
static void prefill_case(const char *kernel)
{
    const bool tail = t0 > 0;
    const uint32_t tokens = WIDE_PREFILL_TOKENS(c.n_head, c.n_head_kv, c.head_dim, FAMILY),
                   lds_bytes = WIDE_PREFILL_BYTES(c.kind, c.head_dim, c.value_dim, c.view, FAMILY, FOURS_OF(&c));
    const uint32_t groups = ATTENTION_PREFILL_GROUPS(c.n_head, c.n_head_kv), tiles = (c.n_tokens - t0 + tokens - 1) / tokens;
    c.fours = FOURS_OF(&c);
    c.splits = !c.fours || !c.causal || c.window ? 1 : variant_has("models") ? WIDE_MODELS_PARTS : random_in(2, 3);
    c.span = variant_has("models") ? WIDE_MODELS_PART : random_in(64, 100);
    set_up("prefill");
    on.parts = room_new("parts", (uint64_t)groups * tiles * c.splits * WIDE_FOURS_PART_BYTES(c.value_dim, FAMILY));
    on.counters = room_new("counters", 4 * groups * tiles);
    memset(on.counters->bytes, 0, on.counters->size);
    c.parts = on.parts->at, c.counters = on.counters->at;
    if (lds_bytes > WIDE_LDS_MOST(FAMILY)) bad("%u bytes of LDS", lds_bytes);
    else {
        launch((struct launch){ kernel, groups * c.splits, tiles, WIDE_THREADS(FAMILY), lds_bytes, 0 }, tail);
        for (uint64_t k = 0; k < on.counters->size; k++) if (on.counters->bytes[k]) { bad("a counter is not 0"); break; }
        compare(2e-3 + (c.out_kind == OUT_STAGED ? 2e-6 : 0));
    }
    rooms_free();
}

/* ---- which cases ---- */
static void draw_shape(uint32_t i)
{
    static const struct { uint32_t dim, value_dim, view; } dims[] = {
        { 576, 512, 1 }, { 512, 512, 0 }, { 192, 128, 0 }, { 320, 256, 0 }, { 96, 64, 1 }, { 288, 288, 0 }, { 64, 128, 0 }, { 48, 32, 1 },
        { 576, 512, 0 }, { 80, 48, 0 }, { 48, 40, 1 }, { 64, 24, 0 },
    };
    const uint32_t kinds[] = { KV_KIND_f16, KV_KIND_f16, KV_KIND_q8_0 }, n = i % (sizeof dims / sizeof *dims);
    uint32_t kind;
    do kind = kinds[random_below(3)];
    while (!kv_kind_here(kind) || !kv_holds(kind, dims[n].dim) || !kv_holds(kind, dims[n].value_dim));
    c = (struct attention_case){ .kind = kind, .head_dim = dims[n].dim, .value_dim = dims[n].value_dim, .view = dims[n].view };
    c.n_head_kv = random_in(1, 2);
    c.n_head = c.n_head_kv * random_in(1, random_below(4) ? 10 : 40);
    c.causal = 1;
    c.splits = c.spans = 1;
    c.cap = variant_has("more") && random_below(3) ? 0.2f + (float)random_below(31) : 0;
    sinks = variant_has("more") && random_below(3) > 0;
}
static void draw_decode(void)
{
    c.splits = random_below(3) ? random_in(1, 8) : random_in(9, 40);
    c.cluster = FAMILY == FAMILY_HOPPER && c.splits > 1 && c.splits <= ATTENTION_MAX_CLUSTER && random_below(2);
    c.spans = random_below(2) ? 1 : random_in(2, 5);
    const uint32_t positions = WIDE_POSITIONS(c.kind, c.head_dim, c.value_dim, c.view, WIDE_HEADS(c.n_head, c.n_head_kv), WIDE_ROWS,
                                              WIDE_DIGITS, WIDE_MORE_BYTES(WIDE_HEADS(c.n_head, c.n_head_kv), c.value_dim, FAMILY),
                                              FAMILY);
    c.span = WIDE_SPAN_LEAST(positions, c.splits) + random_below(2) * random_below(50);
    n_past = random_below(3) ? random_below(300) : random_below(2) ? random_below(20) : random_below(c.spans * c.span + 100);
    if (random_below(5) == 0) {                              /* several bundles of parts */
        c.splits = random_in(17, 40), c.spans = 1, c.cluster = 0;
        n_past = random_in(17, c.splits) * positions;
    }
    c.n_ctx = n_past + 1 + random_below(100);
    if (random_below(3) == 0) c.window = 1 + random_below(random_below(2) ? 40 : 400);
    if (c.window && random_below(2)) c.ring = c.window + random_below(2) * random_below(30);
}
static void draw_prefill(void)
{
    const bool parts = FOURS_OF(&c) && random_below(3);          /* enough positions for several parts */
    c.out_kind = random_below(3);
    c.causal = parts || random_below(5);
    c.window = c.causal && !parts && random_below(3) == 0 ? random_in(1, random_below(2) ? 40 : 200) : 0;
    c.n_tokens = random_in(1, random_below(3) ? 20 : 70);
    n_past = parts ? random_in(130, 330) : random_below(2) ? random_in(0, 200) : 0;
    c.n_ctx = n_past + c.n_tokens + random_in(0, 70);
    c.ring = c.window && random_below(2) ? c.window + c.n_tokens - 1 + random_below(2) * random_in(0, 30) : 0;
    if (!c.causal) c.cap = 0, sinks = 0;
    t0 = random_below(5) ? 0 : random_below(c.n_tokens);
    c.out_stride = (uint64_t)(c.n_head * c.value_dim + 63) / 64 * (c.out_kind ? 128 : 256) + 16 * random_below(3);
    c.q_stride = (uint64_t)c.n_head * c.head_dim * 4 + 16 * random_below(3);
}
static void model_case(const struct model *m, uint32_t k)
{
    c = (struct attention_case){ .kind = kv_kind_of_models(), .n_head = m->n_head, .n_head_kv = m->n_head_kv, .head_dim = m->dim,
                                 .value_dim = m->value_dim, .view = m->view, .n_ctx = DECODE_MODELS_CTX, .splits = m->splits,
                                 .spans = m->spans, .span = DECODE_MODELS_SPAN, .cluster = m->cluster, .causal = 1 };
    sinks = 0;
    n_past = k == 0 ? random_below(20) : k == 1 ? 2 * DECODE_MODELS_SPAN + random_below(500) : random_below(900);
    if (k < 3) { decode_case(m->name); return; }
    char name[64];
    snprintf(name, sizeof name, "%s_prefill", m->name);
    c.out_kind = OUT_STAGED, c.out_stride = WIDE_MODELS_OUT_STRIDE, c.q_stride = WIDE_MODELS_Q_STRIDE;
    c.n_tokens = random_in(1, 20);
    t0 = 0;
    n_past = random_below(300);
    prefill_case(name);
}

void test_attention_wide(void)
{
    if (variant_has("models")) {
        for (uint32_t m = 0; m < sizeof models / sizeof *models; m++)
            for (uint32_t k = 0; k < 4; k++)
                if ((!models[m].cluster || FAMILY == FAMILY_HOPPER) && case_begin()) model_case(&models[m], k);
        return;
    }
    for (uint32_t i = 0; i < rounds(variant_has("more") ? 24 : 48); i++) {
        if (!case_begin()) continue;
        draw_shape(i / 2);
        if (i % 2) { draw_decode(); decode_case("decode_any"); }
        else { draw_prefill(); prefill_case("prefill_any"); }
    }
}
