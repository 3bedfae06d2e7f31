/* attention_decode.c -- compares templates/gpu/kv.h, rope.h, attention_decode_tmpl.c and attention_unfused.h with the oracles of
 * templates/ref on random data.  Memory that must not be read is NaN; memory that must not be written is compared afterwards. */
#include "gpu_cache.h"
#include "templates/gpu/attention_sizes.h"
#include "cases.h"
#include <stdio.h>

enum { LAYER = 64, MOST_DIMS = 256, MOST_CACHE = 1 << 28 };      /* a larger cache is not compared */
static const double freq_base = 10000;
static const struct model {
    const char *name;
    uint32_t    n_head, n_head_kv, head_dim, normed, n_rot, neox, splits, spans, threads, cluster, matrix;
} models[] = {
#define MODEL(name, ...) { #name, __VA_ARGS__ },
    DECODE_MODELS(MODEL) DECODE_CLUSTER_MODELS(MODEL)
};

/* The current case. */
static struct attention_case c;
static struct gpu_cache cache;
static uint32_t n_past, normed, appends, sinks;  /* appends: the kernel appends k and v */
static struct {
    struct room *c, *step, *mark, *q, *k_new, *v_new, *q_norm, *k_norm, *hi, *lo, *out, *parts, *ml, *counters, *scores, *halves,
                *sinks;
} on;

/* ---- references ---- */
/* A head's norm and rotation. */
static void finish_ref(float *y, const float *x, const struct room *norm, uint32_t position)
{
    const struct rope_ref rope = { .n_rot = c.n_rot, .neox = c.neox, .freq_base = freq_base, .freq_scale = 1, .attn_factor = 1 };
    memcpy(y, x, c.head_dim * sizeof *y);
    if (normed) rmsnorm_ref(y, x, room_floats(norm), c.head_dim, (double)c.eps);
    if (c.n_rot) rope_ref(y, &rope, position);
}

/* Checks the output of one token that attends to the positions below n_kv.  q_in: [n_head][head_dim]; finished: after norm and rotation,
 * else as the kernel reads it. */
static bool check_out(const char *what, uint32_t t, const float *q_in, bool finished, uint32_t n_kv)
{
    const uint32_t dim = c.head_dim, per_kv = c.n_head / c.n_head_kv, from = attended_from(&cache, n_kv - 1);
    const float *sink = c.sinks ? room_floats(on.sinks) : NULL, *out = room_floats(on.out) + (uint64_t)t * c.n_head * dim;
    float q[MOST_DIMS], want[MOST_DIMS];
    for (uint32_t kv_head = 0; kv_head < c.n_head_kv; kv_head++) {
        float *k = cache_read(&cache, 0, kv_head, from, n_kv), *v = cache_read(&cache, 1, kv_head, from, n_kv);
        bool ok = true;
        if (c.matrix && c.kind == KV_KIND_q8_0)              /* except for the token that is still in registers */
            for (uint32_t i = from * dim; i < (n_kv - appends) * dim; i++) k[i] = (float)(_Float16)k[i], v[i] = (float)(_Float16)v[i];
        for (uint32_t h = kv_head * per_kv; h < (kv_head + 1) * per_kv && ok; h++) {
            if (finished) memcpy(q, q_in + (uint64_t)h * dim, dim * sizeof *q);
            else finish_ref(q, q_in + (uint64_t)h * dim, on.q_norm, n_kv - 1);
            attention_ref(want, q, k, v, dim, from, n_kv, dim, (double)c.scale, (double)c.cap,
                          sink ? sink + h : NULL);
            for (uint32_t d = 0; d < dim && ok; d++)
                ok = close_to(what, h * dim + d, (double)out[h * dim + d], (double)want[d], 2e-5);
        }
        free(k), free(v);
        if (!ok) return false;
    }
    return true;
}

/* ---- the cache ---- */
/* The error of a cached x: half a step of the cache's type, and the error of the float before it was rounded. */
static double cache_tolerance(double x, double block_most)
{
    const double error = 4e-6 * (1 + block_most);
    return c.kind == KV_KIND_f16 ? fabs(x) * 4.9e-4 + 3e-8 + error : c.kind == KV_KIND_f32 ? error : block_most / 127 * 0.51 + error;
}
/* Compares a stored row with its expected values. */
static bool check_row(const char *what, uint32_t of_v, uint32_t head, uint32_t position, const float *want)
{
    for (uint32_t d = 0; d < c.head_dim; d++) {
        double top = 0;
        for (uint32_t i = d / 32 * 32; i < d / 32 * 32 + 32 && i < c.head_dim; i++) top = fmax(top, fabs((double)want[i]));
        const double got = (double)cache_value(&cache, of_v, head, position, d);
        if (!close_to(what, d, got, (double)want[d], cache_tolerance((double)want[d], top))) return false;
    }
    return true;
}
/* Checks the rows that this step's tokens stored: first .. first + n - 1. */
static bool check_stored(uint32_t first, uint32_t n)
{
    float want[MOST_DIMS];
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t h = 0; h < c.n_head_kv; h++) {
            const uint64_t at = ((uint64_t)t * c.n_head_kv + h) * c.head_dim;
            finish_ref(want, room_floats(on.k_new) + at, on.k_norm, first + t);
            if (!check_row("stored k", 0, h, first + t, want)) return false;
            if (!check_row("stored v", 1, h, first + t, room_floats(on.v_new) + at)) return false;
        }
    return true;
}
/* Checks that the cache is unchanged except the rows of positions first .. end - 1. */
static void check_untouched(uint8_t *before, uint32_t first, uint32_t end)
{
    const uint8_t *base = cache.room->bytes;
    for (uint32_t v = 0; v < 2; v++)
        for (uint32_t h = 0; h < c.n_head_kv; h++)
            for (uint32_t p = first; p < end; p++) {
                const struct cache_row r = cache_row(&cache, v, h, p);
                memcpy(before + (r.values - base), r.values, KV_VALUE_BYTES(c.kind, c.head_dim));
                if (c.kind == KV_KIND_q8_0) memcpy(before + (r.scales - base), r.scales, KV_SCALE_BYTES(c.kind, c.head_dim));
            }
    if (memcmp(before, base, cache.room->size)) bad("the cache is written elsewhere");
}
static uint8_t *cache_copy(void)
{
    uint8_t *copy = malloc(cache.room->size);
    memcpy(copy, cache.room->bytes, cache.room->size);
    return copy;
}

/* ---- inputs ---- */
static struct room *random_room(const char *name, uint64_t n, float size)
{
    struct room *r = room_new(name, n * 4);
    random_row(room_floats(r), n, size);
    return r;
}
static void rope_tables(void)
{
    const struct rope_ref rope = { .n_rot = c.n_rot, .neox = c.neox, .freq_base = freq_base, .freq_scale = 1, .attn_factor = 1 };
    const uint32_t n_hi = c.n_ctx / c.block + 1;
    on.hi = room_new("rotations of blocks", (uint64_t)n_hi * c.n_rot * 4);
    on.lo = room_new("rotations within a block", (uint64_t)c.block * c.n_rot * 4);
    for (uint32_t table = 0; table < 2; table++)
        for (uint32_t k = 0; k < (table ? c.block : n_hi); k++)
            for (uint32_t i = 0; i < c.n_rot / 2; i++) {
                double cosine, sine;
                float *pair = room_floats(table ? on.lo : on.hi) + (uint64_t)k * c.n_rot + 2 * i;
                rope_pair_ref(&cosine, &sine, &rope, i, k * (table ? 1 : c.block));
                pair[0] = (float)cosine, pair[1] = (float)sine;
            }
    c.hi = on.hi->at, c.lo = on.lo->at;
}

/* Makes the rooms for a step of `tokens`.  The positions below `filled` that it attends to are random. */
static void set_up(uint32_t tokens, uint32_t filled)
{
    const uint64_t q = (uint64_t)tokens * c.n_head * c.head_dim, kv = (uint64_t)tokens * c.n_head_kv * c.head_dim;
    case_is("kv %s, %u heads, %u of KV, %u dims, rot %u%s, norm %u, ctx %u, past %u, tokens %u, window %u, ring %u, splits %u, "
            "spans %u of %u, rows %u, digits %u, threads %u, cluster %u, appends %u, cap %g, sinks %u", kv_kind_name(c.kind), c.n_head,
            c.n_head_kv, c.head_dim, c.n_rot, c.neox ? " neox" : "", normed, c.n_ctx, n_past, tokens, c.window, c.ring, c.splits,
            c.spans, c.span, c.rows, c.matrix, c.threads, c.cluster, appends, (double)c.cap, sinks);
    c.n_tokens = tokens;
    c.scale = variant_has("models") ? 0.088388348f : 1.0f / sqrtf((float)c.head_dim);
    c.eps = 1e-6f;
    on.q = random_room("q", q, 2.0f), on.k_new = random_room("k", kv, 2.0f), on.v_new = random_room("v", kv, 2.0f);
    on.q_norm = random_room("q's norm", c.head_dim, 1.5f), on.k_norm = random_room("k's norm", c.head_dim, 1.5f);
    on.sinks = random_room("sinks", c.n_head, 4.0f);
    on.out = room_new("the output", q * 4);
    c.sinks = sinks ? on.sinks->at : NULL;
    c.q = on.q->at, c.out = on.out->at;
    c.k_new = appends ? on.k_new->at : NULL, c.v_new = appends ? on.v_new->at : NULL;
    c.q_norm = normed ? on.q_norm->at : NULL, c.k_norm = normed ? on.k_norm->at : NULL;
    c.hi = c.lo = NULL;
    if (c.n_rot) rope_tables();
    cache = (struct gpu_cache){ .kind = c.kind, .n_head_kv = c.n_head_kv, .head_dim = c.head_dim, .n_ctx = c.n_ctx, .ring = c.ring,
                                .window = c.window };
    cache_new(&cache, LAYER);
    for (uint32_t v = 0; v < 2; v++)
        for (uint32_t h = 0; h < c.n_head_kv; h++)
            for (uint32_t p = attended_from(&cache, n_past); p < filled; p++) cache_draw(&cache, v, h, p, 1.0f, NAN);
    on.c = room_new("the case", sizeof c), on.step = room_new("the step", sizeof(struct forge_gpu_step)), on.mark = room_new("the mark", 4);
}

static void launch(struct launch l, uint32_t mark)
{
    const struct forge_gpu_step step = { .n_past = n_past, .n_tokens = c.n_tokens, .n_logits = c.n_tokens };
    const struct forge_kernel_args args = { .weights = on.c->at, .state = cache.room->at, .state_at = LAYER, .step = on.step->at,
                                            .mark_at = on.mark->at, .mark = mark };
    memcpy(on.c->bytes, &c, sizeof c);
    memcpy(on.step->bytes, &step, sizeof step);
    machine_launch(&l, &args);
    if (*(const uint32_t *)(const void *)on.mark->bytes != mark) bad("%s: mark was not written", l.kernel);
}

/* ---- cases ---- */
/* `steps` tokens one after the other: each sees the rows that the earlier tokens appended. */
static void decode_case(const char *kernel, uint32_t steps)
{
    set_up(1, appends ? n_past : n_past + 1);
    const bool parts = c.splits * c.spans > 1;
    if (parts) {
        on.parts = room_new("parts", ATTENTION_PARTS_BYTES(c.n_head, c.n_head_kv, c.head_dim, c.splits, c.spans, c.cluster));
        on.ml = room_new("maxima and sums", ATTENTION_ML_BYTES(c.n_head, c.n_head_kv, c.head_dim, c.splits, c.spans));
        c.parts = on.parts->at, c.ml = on.ml->at;
    }
    on.counters = room_new("counters", ATTENTION_COUNTER_BYTES(c.n_head, c.n_head_kv, c.head_dim, c.splits, c.cluster));
    c.counters = on.counters->at;
    memset(on.counters->bytes, 0, on.counters->size);
    const bool compared = cache.room->size < MOST_CACHE;
    for (uint32_t i = 0; i < steps; i++, n_past++) {
        uint8_t *before = compared ? cache_copy() : NULL;
        rooms_poison(on.out);
        if (parts) rooms_poison(on.parts), rooms_poison(on.ml);
        launch((struct launch){ kernel, ATTENTION_GROUPS(c.n_head, c.n_head_kv, c.head_dim, c.splits, c.spans), 1, c.threads,
                                ATTENTION_LDS_BYTES(c.n_head, c.n_head_kv, c.head_dim, WAVE, c.threads, c.splits, c.cluster),
                                c.cluster ? c.splits : 0 }, i + 1);
        const bool ok = (!appends || check_stored(n_past, 1)) && check_out("out", 0, room_floats(on.q), !appends, n_past + 1);
        if (before) check_untouched(before, n_past, appends ? n_past + 1 : n_past);
        for (uint64_t k = 0; k < on.counters->size; k++) if (on.counters->bytes[k]) { bad("a counter is not 0"); break; }
        free(before);
        if (!ok) break;
    }
    rooms_free();
}

/* A step of several tokens through finish_rows, or through the single operations, then attention by single operations. */
static void prefill_case(uint32_t tokens, bool single)
{
    c.matrix = 0;
    set_up(tokens, n_past);
    on.scores = room_new("scores", SCORES_BYTES(c.n_head, tokens, c.n_ctx));
    c.scores = on.scores->at;
    c.k_new = on.k_new->at, c.v_new = on.v_new->at;
    float *q_in = malloc(on.q->size), *k_in = malloc(on.k_new->size), want[MOST_DIMS];
    memcpy(q_in, on.q->bytes, on.q->size);
    memcpy(k_in, on.k_new->bytes, on.k_new->size);
    uint8_t *before = cache_copy();
    const uint32_t q_groups = HEAD_GROUPS(c.n_head, WAVE, c.threads), threads = c.threads;
    launch((struct launch){ "finish_rows", HEAD_GROUPS(c.n_head + 2 * c.n_head_kv, WAVE, threads), tokens, threads,
                            threads / WAVE * c.head_dim * 4, 0 }, 1);
    if (single) {
        memcpy(on.q->bytes, q_in, on.q->size);
        if (normed)  launch((struct launch){ "headnorm", q_groups, tokens, threads, 0, 0 }, 2);
        if (c.n_rot) launch((struct launch){ "rope", q_groups, tokens, threads, 0, 0 }, 3);
        launch((struct launch){ "store_v", HEAD_GROUPS(c.n_head_kv, WAVE, threads), tokens, threads, 0, 0 }, 4);
        float *finished = malloc(on.k_new->size);           /* store_k reads rows after norm and rotation */
        for (uint32_t i = 0; i < tokens * c.n_head_kv; i++)
            finish_ref(finished + (uint64_t)i * c.head_dim, k_in + (uint64_t)i * c.head_dim, on.k_norm, n_past + i / c.n_head_kv);
        memcpy(on.k_new->bytes, finished, on.k_new->size);
        free(finished);
        launch((struct launch){ "store_k", HEAD_GROUPS(c.n_head_kv, WAVE, threads), tokens, threads, 0, 0 }, 5);
    }
    memcpy(on.k_new->bytes, k_in, on.k_new->size);
    bool ok = check_stored(n_past, tokens);
    for (uint32_t i = 0; i < tokens * c.n_head && ok; i++) {
        finish_ref(want, q_in + (uint64_t)i * c.head_dim, on.q_norm, n_past + i / c.n_head);
        for (uint32_t d = 0; d < c.head_dim && ok; d++)
            ok = close_to("finished q", d, (double)room_floats(on.q)[(uint64_t)i * c.head_dim + d], (double)want[d], 8e-6);
    }
    check_untouched(before, n_past, n_past + tokens);
    launch((struct launch){ "scores", c.n_head, tokens, threads, 0, 0 }, 6);
    launch((struct launch){ "mask", c.n_head, tokens, threads, 0, 0 }, 7);
    launch((struct launch){ "softmax", c.n_head, tokens, threads, SOFTMAX_LDS_BYTES(WAVE, threads), 0 }, 8);
    launch((struct launch){ "weighted_sum", c.n_head, tokens, threads, WEIGHTED_SUM_LDS_BYTES(c.head_dim, threads), 0 }, 9);
    for (uint32_t t = 0; t < tokens && ok; t++)
        ok = check_out("out of single operations", t, room_floats(on.q) + (uint64_t)t * c.n_head * c.head_dim, true, n_past + t + 1);
    free(before), free(q_in), free(k_in);
    rooms_free();
}

/* kv_load and kv_load_f16 of a whole cache. */
static void load_case(void)
{
    set_up(1, c.n_ctx);
    struct room *values = room_new("values", (uint64_t)c.n_head_kv * c.n_ctx * c.head_dim * 4);
    on.halves = room_new("values as f16", (uint64_t)c.n_head_kv * c.n_ctx * c.head_dim * 2);
    c.out = values->at, c.halves = on.halves->at;
    memcpy(on.c->bytes, &c, sizeof c);
    const struct forge_kernel_args args = { .weights = on.c->at, .state = cache.room->at, .state_at = LAYER };
    machine_launch(&(struct launch){ "load_values", 1, 1, WAVE, 0, 0 }, &args);
    for (uint32_t i = 0; i < c.n_head_kv * c.n_ctx * c.head_dim; i++) {
        const float want = cache_value(&cache, 1, i / c.head_dim / c.n_ctx, i / c.head_dim % c.n_ctx, i % c.head_dim);
        uint16_t half;
        memcpy(&half, on.halves->bytes + 2 * i, 2);
        if (!close_to("kv_load", i, (double)room_floats(values)[i], (double)want, 0)
            || !close_to("kv_load_f16", i, (double)f32_of_f16_bits(half), (double)(float)(_Float16)want, 0)) break;
    }
    rooms_free();
}

/* ---- which cases ---- */
static const uint32_t heads_per_kv[] = { 1, 2, 3, 4, 7, 8, 5, 9, 12, 17 }, usual_dims[] = { 32, 64, 80, 96, 128, 256 };

static uint32_t draw_head_dim(void)
{
    static const uint32_t dims[] = { 32, 64, 80, 96, 128, 256, 40, 112 };
    uint32_t d;
    do d = dims[random_below(8)]; while (!kv_holds(c.kind, d));
    return d;
}
static void draw_shape(uint32_t kind, uint32_t per_kv, uint32_t head_dim)
{
    static const uint32_t splits[] = { 1, 2, 3, 4, 8, 16, 19 };
    c = (struct attention_case){ .kind = kind, .head_dim = head_dim, .n_head_kv = 1 + random_below(3) };
    c.n_head = c.n_head_kv * per_kv;
    c.n_rot = random_below(4) == 0 ? 0 : random_below(3) ? head_dim : 2 * (1 + random_below(head_dim / 2));
    c.neox = random_below(2);
    c.block = 1u << random_below(8);
    normed = random_below(2);
    appends = 1;
    c.splits = splits[random_below(7)];
    c.threads = random_below(2) ? 256 : WAVE * (1 + random_below(8));
    c.spans = random_below(2) ? 1 : 2 + random_below(random_below(4) ? 3 : 30);
    c.span = ATTENTION_SPAN_LEAST(head_dim, c.threads, c.splits) + random_below(2) * random_below(50);
    c.rows = 2u << random_below(3);
    c.matrix = ATTENTION_ON_MATRIX(kind, head_dim, c.rows, WAVE, FAMILY) && random_below(3) == 0 ? 2 : 0;
    c.cluster = c.splits > 1 && c.splits <= ATTENTION_MAX_CLUSTER && random_below(2);
    c.cap = variant_has("more") && random_below(3) ? 0.2f + (float)random_below(30) : 0;
    sinks = variant_has("more") && random_below(3) > 0;
}
/* A window for most cases, and for some a ring with exactly the rows that steps of `tokens` tokens need, or a few more. */
static void draw_window(uint32_t tokens)
{
    if (random_below(3) == 0) return;
    c.window = 1 + random_below(random_below(2) ? 40 : 400);
    if (random_below(2)) c.ring = c.window + tokens - 1 + random_below(2) * random_below(30);
}

/* Contexts around the length from which one more span is needed, and one context that fills all spans. */
static void check_spans(uint32_t kind)
{
    for (uint32_t i = 0; i < 12; i++) {
        if (!case_begin()) continue;
        do draw_shape(kind, heads_per_kv[random_below(6)], draw_head_dim()); while (c.spans == 1);
        c.spans = 2 + random_below(4);
        c.threads = WAVE * (1 + random_below(3));
        c.splits = i % 3 == 0 ? 1 : 2 + random_below(3);
        c.cluster = c.splits > 1 && i % 3 == 1;
        c.span = ATTENTION_SPAN_LEAST(c.head_dim, c.threads, c.splits) + random_below(3);
        const uint32_t spans = i < 9 ? 2 + random_below(c.spans - 1) : c.spans + 1;
        n_past = spans * c.span - 2;                         /* the steps end before, at and after the border */
        c.n_ctx = n_past + 3 + random_below(100);
        if (i % 2) c.window = n_past + random_below(2), c.ring = random_below(2) ? c.window + random_below(4) : 0;
        decode_case("decode_any", 3);
    }
}

/* Decode on the matrix unit: all numbers of heads of a group, a last step that is full or not, far and near keys. */
static void check_matrix(uint32_t kind)
{
    for (uint32_t i = 0; i < 32; i++) {
        if (!FAMILY_MMA_SUMS_ARE_A(FAMILY) || !case_begin()) continue;
        const uint32_t head_dim = i % 2 ? 64 : 128;
        draw_shape(kind, i % 8 == 7 ? 12 : 1 + i / 2 % 8, head_dim);
        c.matrix = 2;
        c.rows = head_dim == 64 && random_below(2) ? 4 : kind == KV_KIND_q8_0 && random_below(2) ? 16 : 8;
        c.threads = WAVE * (1 + random_below(3));
        c.splits = 1 + random_below(3);
        c.cluster = c.splits > 1 && random_below(2);
        c.span = ATTENTION_SPAN_LEAST(head_dim, c.threads, c.splits) + random_below(50);
        n_past = i < 4 ? i : random_below(i % 4 ? 300 : 900);
        c.n_ctx = n_past + 3 + random_below(100);
        appends = i % 5 > 0;
        if (!appends) normed = c.n_rot = 0;
        if (i % 3 == 2) draw_window(1);
        decode_case("decode_any", appends ? 2 : 1);
    }
}

static void check_kind(uint32_t kind)
{
    if (kind != KV_KIND_f32) check_matrix(kind);
    for (uint32_t i = 0; i < 6 * 10; i++) {                  /* every dimension with every number of heads */
        if (!kv_holds(kind, usual_dims[i % 6]) || !case_begin()) continue;
        draw_shape(kind, heads_per_kv[i / 6], usual_dims[i % 6]);
        n_past = random_below(4) ? random_below(300) : random_below(20);
        c.n_ctx = n_past + 3 + random_below(100);
        if (i % 2) draw_window(1);
        decode_case("decode_any", 2);
    }
    for (uint32_t i = 0; i < 14; i++) {                      /* long and short contexts, and a cache that is already filled */
        if (!case_begin()) continue;
        c.kind = kind;
        draw_shape(kind, heads_per_kv[random_below(8)], draw_head_dim());
        c.n_head = c.n_head / c.n_head_kv;
        c.n_head_kv = 1;
        n_past = i < 4 ? 700 + random_below(2300) : i < 8 ? i - 4 : random_below(800);
        c.n_ctx = n_past + 2 + random_below(2);
        appends = i < 10;
        if (!appends) normed = c.n_rot = 0;
        if (i % 2) draw_window(1);
        decode_case("decode_any", appends ? 2 : 1);
    }
    check_spans(kind);
    for (uint32_t i = 0; i < rounds(20); i++) {
        if (!case_begin()) continue;
        const uint32_t tokens = 1 + random_below(7);
        c.kind = kind;
        draw_shape(kind, heads_per_kv[random_below(8)], draw_head_dim());
        n_past = random_below(3) * random_below(60);
        c.n_ctx = n_past + 10;
        if (i >= 10) draw_window(tokens);
        prefill_case(tokens, i % 2);
    }
    if (case_begin()) {
        draw_shape(kind, 1, 96);
        c.n_ctx = 5;
        n_past = 0;
        load_case();
    }
    if (case_begin() && machine_is_lanes()) {                /* offsets beyond 32 bits; most pages are never touched */
        draw_shape(kind, 2, 256);
        c.n_head_kv = 8;
        c.n_head = 16;
        c.n_ctx = 1 << 20;
        c.block = 1024;
        n_past = 40;
        decode_case("decode_any", 1);
    }
}

static void model_case(const struct model *m, uint32_t past)
{
    c = (struct attention_case){ .kind = kv_kind_of_models(), .n_head = m->n_head, .n_head_kv = m->n_head_kv, .head_dim = m->head_dim,
                                 .n_ctx = DECODE_MODELS_CTX, .n_rot = m->n_rot, .neox = m->neox, .block = DECODE_MODELS_BLOCK,
                                 .splits = m->splits, .spans = m->spans, .span = DECODE_MODELS_SPAN, .threads = m->threads,
                                 .cluster = m->cluster };
    normed = m->normed;
    appends = 1;
    n_past = past;
    decode_case(m->name, 2);
}

static void check_models(void)
{
    for (const struct model *m = models; m < models + sizeof models / sizeof *models; m++) {
        if (m->cluster && FAMILY != FAMILY_HOPPER) continue;
        for (uint32_t k = 0; k < rounds(4); k++) {
            if (!case_begin()) continue;
            model_case(m, k == 3 && m->spans > 1 ? 2 * DECODE_MODELS_SPAN + random_below((m->spans - 1) * DECODE_MODELS_SPAN)
                          : k ? random_below(1500) : 0);
        }
        if (m->head_dim == 128 && m->n_head < 64 && case_begin()) model_case(m, DECODE_MODELS_CTX - 2);      /* and the context is full */
    }
    for (uint32_t k = 0; k < rounds(4); k++) {
        if (!case_begin()) continue;
        c = (struct attention_case){ .kind = kv_kind_of_models(), .n_head = 32, .n_head_kv = 8, .head_dim = 128,
                                     .n_ctx = DECODE_MODELS_CTX, .n_rot = 128, .neox = 1, .block = DECODE_MODELS_BLOCK, .splits = 1,
                                     .spans = 1, .threads = 256 };
        normed = appends = 1;
        n_past = random_below(500);
        prefill_case(1 + random_below(5), k % 2);
    }
}

void test_attention_decode(void)
{
    if (variant_has("models")) check_models();
    else
        for (uint32_t kind = KV_KIND_f16; kind <= KV_KIND_q8_0; kind++)
            if (kv_kind_here(kind)) check_kind(kind);
}
