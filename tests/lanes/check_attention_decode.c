/* check_attention_decode.c -- templates/gpu/kv.h, rope.h, attention_decode_tmpl.c and attention_unfused.h against double arithmetic, on random data.
 * What must not be read holds NaN, what must not be written is compared afterwards.
 * With -DATTENTION_MORE scores have caps and heads sinks, in the templates as in programs that have any. */
#include "simt.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static uint32_t kind;                            /* the type of the cache, chosen per case: the templates see a variable */
#define KV_KIND kind
#include "templates/gpu/attention_decode_tmpl.c"
#include "templates/gpu/attention_unfused.h"

static const char *const kind_name[] = { "f16", "f32", "q8_0" };
static uint32_t n_cases, n_failed;

/* One shape; set before a kernel runs. */
static struct shape {
    uint32_t n_head, n_head_kv, head_dim, n_ctx, n_rot, neox, block, splits, threads, cluster, n_past, n_tokens;
    uint32_t normed, appends;                    /* q and k norms; the kernel appends k and v */
    uint32_t window, ring;                       /* 0: none */
    float    scale, eps, cap;                    /* cap 0: none */
    uint32_t sinks;                              /* with -DATTENTION_MORE: heads have a score that gives nothing */
} s;
/* Buffers, each with guard bytes on both sides. */
enum { Q, K_NEW, V_NEW, OUT, Q_NORM, K_NORM, HI, LO, PARTS, ML, COUNTERS, SCORES, SINKS, N_BUFFERS };
enum { GUARD = 256 };
static struct { uint8_t *base; size_t bytes; } buffer[N_BUFFERS];
static uint8_t *cache;                           /* the layer, which lies LAYER bytes into the mapped cache */
static size_t cache_bytes;
enum { LAYER = 64 };
static struct forge_gpu_step step;
static struct forge_kernel_args args;

/* ---- random numbers ---- */
static uint64_t random_state = 88172645463325252ull;
static uint32_t draw_u32(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}
static uint32_t draw_below(uint32_t n) { return draw_u32() % n; }
static float draw_float(void) { return (float)((double)draw_u32() / 2147483648.0 - 1.0); }

/* ---- buffers ---- */
static float *floats(int i) { return (float *)(void *)(buffer[i].base + GUARD); }
static void buffer_make(int i, size_t bytes)
{
    free(buffer[i].base);
    buffer[i].base = aligned_alloc(128, (bytes + 2 * GUARD + 127) / 128 * 128);
    buffer[i].bytes = bytes;
    memset(buffer[i].base, 0xff, bytes + 2 * GUARD);
}
static int guards_broken(void)
{
    for (int i = 0; i < N_BUFFERS; i++)
        for (size_t k = 0; buffer[i].base && k < GUARD; k++)
            if (buffer[i].base[k] != 0xff || buffer[i].base[GUARD + buffer[i].bytes + k] != 0xff) return 1;
    return 0;
}
static void fill(int i, float size)
{
    for (size_t k = 0; k < buffer[i].bytes / 4; k++) floats(i)[k] = draw_float() * size;
}

/* ---- the cache, by its description in docs/gpu.md ---- */
static uint32_t cache_rows(void) { return s.ring ? s.ring : s.n_ctx; }
static uint32_t cache_row(uint32_t position) { return s.ring ? position % s.ring : position; }
/* What a token at `position` attends begins here. */
static uint32_t attended_from(uint32_t position) { return s.window && position + 1 > s.window ? position + 1 - s.window : 0; }
static size_t plane_bytes(void)
{
    const size_t values = (size_t)s.n_head_kv * cache_rows() * s.head_dim;
    return kind == 0 ? 2 * values : kind == 1 ? 4 * values : (values + values / 16 + 15) / 16 * 16;
}
static double f16_value(const uint8_t *p) { _Float16 h; memcpy(&h, p, 2); return (double)h; }
static double cache_value(uint32_t of_v, uint32_t head, uint32_t position, uint32_t d)
{
    const uint8_t *plane = cache + of_v * plane_bytes();
    const size_t row = (size_t)head * cache_rows() + cache_row(position), at = row * s.head_dim + d;
    if (kind == 0) return f16_value(plane + 2 * at);
    if (kind == 1) { float x; memcpy(&x, plane + 4 * at, 4); return (double)x; }
    return (double)(int8_t)plane[at] * f16_value(plane + (size_t)s.n_head_kv * cache_rows() * s.head_dim + 2 * (row * (s.head_dim / 32) + d / 32));
}
/* Random bits that make values of about one. */
static void cache_fill(uint32_t of_v, uint32_t head, uint32_t position)
{
    uint8_t *plane = cache + of_v * plane_bytes();
    const size_t row = (size_t)head * cache_rows() + cache_row(position);
    for (uint32_t d = 0; d < s.head_dim; d++) {
        const float x = draw_float();
        const _Float16 h = (_Float16)x, scale = (_Float16)(fabsf(x) / 100.0f + 1e-3f);
        if (kind == 0) memcpy(plane + 2 * (row * s.head_dim + d), &h, 2);
        if (kind == 1) memcpy(plane + 4 * (row * s.head_dim + d), &x, 4);
        if (kind == 2) plane[row * s.head_dim + d] = (uint8_t)(int8_t)(x * 127.0f);
        if (kind == 2 && d % 32 == 0) memcpy(plane + (size_t)s.n_head_kv * cache_rows() * s.head_dim + 2 * (row * (s.head_dim / 32) + d / 32), &scale, 2);
    }
}
/* Positions below `filled` that the step attends random, the others NaN (q8_0: their scales). */
static void cache_make(uint32_t filled)
{
    if (cache) munmap(cache - LAYER, cache_bytes + LAYER);
    cache_bytes = 2 * plane_bytes() + GUARD;
    uint8_t *mapped = mmap(NULL, cache_bytes + LAYER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) { perror("mmap"); exit(2); }
    cache = mapped + LAYER;
    if (cache_bytes < 1u << 28) memset(cache, 0xff, cache_bytes);
    for (uint32_t v = 0; v < 2; v++)
        for (uint32_t h = 0; h < s.n_head_kv; h++)
            for (uint32_t p = attended_from(s.n_past); p < filled; p++) cache_fill(v, h, p);
}

/* ---- references ---- */
static void finish_ref(double *y, const float *x, const float *norm, uint32_t position)
{
    double sum = 0;
    for (uint32_t d = 0; d < s.head_dim; d++) sum += (double)x[d] * (double)x[d];
    for (uint32_t d = 0; d < s.head_dim; d++)
        y[d] = norm ? (double)x[d] / sqrt(sum / s.head_dim + (double)s.eps) * (double)norm[d] : (double)x[d];
    for (uint32_t i = 0; i < s.n_rot / 2; i++) {
        const uint32_t ia = s.neox ? i : 2 * i, ib = s.neox ? i + s.n_rot / 2 : 2 * i + 1;
        const double angle = position * pow(10000.0, -2.0 * i / s.n_rot), a = y[ia], b = y[ib];
        y[ia] = a * cos(angle) - b * sin(angle);
        y[ib] = a * sin(angle) + b * cos(angle);
    }
}
/* q: finished; over the positions below n_kv that the last of them attends. */
static void attention_ref(double *out, const double *q, uint32_t head, uint32_t kv_head, uint32_t n_kv)
{
    const uint32_t from = attended_from(n_kv - 1);
    const double sink = s.sinks ? (double)floats(SINKS)[head] : -INFINITY;
    double *score = malloc(n_kv * sizeof *score), top = sink, sum = 0;
    for (uint32_t p = from; p < n_kv; p++) {
        score[p] = 0;
        for (uint32_t d = 0; d < s.head_dim; d++) score[p] += q[d] * cache_value(0, kv_head, p, d);
        score[p] *= (double)s.scale;
        if (s.cap != 0) score[p] = (double)s.cap * tanh(score[p] / (double)s.cap);
        if (score[p] > top) top = score[p];
    }
    for (uint32_t d = 0; d < s.head_dim; d++) out[d] = 0;
    if (s.sinks) sum = exp(sink - top);
    for (uint32_t p = from; p < n_kv; p++) {
        const double w = exp(score[p] - top);
        sum += w;
        for (uint32_t d = 0; d < s.head_dim; d++) out[d] += w * cache_value(1, kv_head, p, d);
    }
    for (uint32_t d = 0; d < s.head_dim; d++) out[d] /= sum;
    free(score);
}
static void rope_tables(void)
{
    const uint32_t half = s.n_rot / 2, n_hi = s.n_ctx / s.block + 1;
    if (!half) return;
    buffer_make(HI, (size_t)n_hi * s.n_rot * 4);
    buffer_make(LO, (size_t)s.block * s.n_rot * 4);
    for (uint32_t table = 0; table < 2; table++)
        for (uint32_t k = 0; k < (table ? s.block : n_hi); k++)
            for (uint32_t i = 0; i < half; i++) {
                const double angle = (double)k * (table ? 1 : s.block) * pow(10000.0, -2.0 * i / s.n_rot);
                float *row = floats(table ? LO : HI) + (size_t)k * s.n_rot + 2 * i;
                row[0] = (float)cos(angle);
                row[1] = (float)sin(angle);
            }
}

/* ---- reports ---- */
static void fail(const char *what, double got, double want, uint32_t head, uint32_t d)
{
    if (n_failed++ > 20) return;
    printf("FAILED %s: kv %s heads %u/%u dim %u rot %u%s norm %u ctx %u past %u tokens %u window %u ring %u splits %u threads %u cluster %u appends %u: head %u [%u] is %g, should be %g\n", what,
           kind_name[kind], s.n_head, s.n_head_kv, s.head_dim, s.n_rot, s.neox ? " neox" : "", s.normed, s.n_ctx, s.n_past, s.n_tokens, s.window, s.ring, s.splits, s.threads,
           s.cluster, s.appends, head, d, got, want);
}
/* Rounding of the cache around x: half a step, and the error of the float that was rounded. */
static double cache_tolerance(double x, double block_max)
{
    const double error = 4e-6 * (1 + block_max);
    return kind == 0 ? fabs(x) * 4.9e-4 + 3e-8 + error : kind == 1 ? error : block_max / 127 * 0.51 + error;
}
/* A stored row against what should be in it. */
static void check_row(const char *what, uint32_t of_v, uint32_t head, uint32_t position, const double *want)
{
    for (uint32_t d = 0; d < s.head_dim; d++) {
        double top = 0;
        for (uint32_t i = d / 32 * 32; i < d / 32 * 32 + 32 && i < s.head_dim; i++) top = fmax(top, fabs(want[i]));
        const double got = cache_value(of_v, head, position, d);
        if (!(fabs(got - want[d]) <= cache_tolerance(want[d], top))) { fail(what, got, want[d], head, d); return; }
    }
}
/* All of the cache but the rows of positions first .. end - 1 is as before. */
static void check_untouched(uint8_t *before, uint32_t first, uint32_t end)
{
    const size_t row = KV_VALUE_BYTES(kind, (size_t)s.head_dim), scale = KV_SCALE_BYTES(kind, (size_t)s.head_dim), n = (size_t)s.n_head_kv * cache_rows();
    for (uint32_t v = 0; v < 2; v++)
        for (uint32_t h = 0; h < s.n_head_kv; h++)
            for (uint32_t p = first; p < end; p++) {
                const size_t r = (size_t)h * cache_rows() + cache_row(p);
                const size_t at = v * plane_bytes() + r * row, at_scale = v * plane_bytes() + n * row + r * scale;
                memcpy(before + at, cache + at, row);
                memcpy(before + at_scale, cache + at_scale, scale);
            }
    if (memcmp(before, cache, cache_bytes)) fail("cache written elsewhere", 0, 0, 0, 0);
}

/* ---- kernels ---- */
static const float *or_null(uint32_t used, int i) { return used ? floats(i) : NULL; }
static void decode_kernel(const struct forge_kernel_args a)
{
    attention_decode(a, floats(OUT), floats(Q), or_null(s.appends, K_NEW), or_null(s.appends, V_NEW), or_null(s.normed, Q_NORM), or_null(s.normed, K_NORM), s.eps,
                     or_null(s.n_rot, HI), or_null(s.n_rot, LO), s.n_rot, s.neox, s.block, floats(PARTS), floats(ML), (uint32_t *)(void *)floats(COUNTERS),
                     s.n_head, s.n_head_kv, s.head_dim, s.n_ctx, s.scale, s.splits,
#ifdef ATTENTION_MORE
                     s.cap, or_null(s.sinks, SINKS),
#endif
                     s.threads, s.cluster, s.window, s.ring);
}
static void finish_kernel(const struct forge_kernel_args a)
{
    const uint32_t t = group_y();
    qkv_finish(a, t, floats(Q) + (size_t)t * s.n_head * s.head_dim, floats(K_NEW) + (size_t)t * s.n_head_kv * s.head_dim,
               floats(V_NEW) + (size_t)t * s.n_head_kv * s.head_dim, or_null(s.normed, Q_NORM), or_null(s.normed, K_NORM), s.eps, or_null(s.n_rot, HI),
               or_null(s.n_rot, LO), s.n_rot, s.neox, s.block, s.n_head, s.n_head_kv, s.head_dim, s.n_ctx, s.threads, s.ring);
}
/* The same by single ops: each waits for the one before. */
static void headnorm_kernel(const struct forge_kernel_args a)
{
    (void)a;
    headnorm_row(floats(Q) + (size_t)group_y() * s.n_head * s.head_dim, floats(Q) + (size_t)group_y() * s.n_head * s.head_dim, floats(Q_NORM), s.eps,
                 s.n_head, s.head_dim, s.threads);
}
static void rope_kernel(const struct forge_kernel_args a)
{
    rope_row(floats(Q) + (size_t)group_y() * s.n_head * s.head_dim, floats(Q) + (size_t)group_y() * s.n_head * s.head_dim, floats(HI), floats(LO),
             a.step->n_past + group_y(), s.n_rot, s.neox, s.block, s.n_head, s.head_dim, s.threads);
}
static void store_kernel(const struct forge_kernel_args a)
{
    kv_store_rows(kv_v(a, s.n_head_kv, cache_rows(), s.head_dim), a.step->n_past + group_y(), floats(V_NEW) + (size_t)group_y() * s.n_head_kv * s.head_dim,
                  s.n_head_kv, s.n_ctx, s.head_dim, s.threads, s.ring);
}
static void scores_kernel(const struct forge_kernel_args a)
{
    attention_scores(a, floats(SCORES), floats(Q) + (size_t)group_y() * s.n_head * s.head_dim, group_y(), s.n_tokens, s.n_head, s.n_head_kv, s.head_dim, s.n_ctx,
                     s.scale, s.cap, s.threads, s.window, s.ring);
}
static void mask_kernel(const struct forge_kernel_args a) { attention_mask(a, floats(SCORES), group_y(), s.n_tokens, s.n_ctx, s.threads); }
static void softmax_kernel(const struct forge_kernel_args a)
{
    attention_softmax(a, floats(SCORES), or_null(s.sinks, SINKS), group_y(), s.n_tokens, s.n_ctx, s.threads, s.window);
}
static void sum_kernel(const struct forge_kernel_args a)
{
    attention_weighted_sum(a, floats(OUT) + (size_t)group_y() * s.n_head * s.head_dim, floats(SCORES),
                           kv_v(a, s.n_head_kv, cache_rows(), s.head_dim), group_y(), s.n_tokens, s.n_head, s.n_head_kv, s.head_dim,
                           s.n_ctx, s.threads, s.window, s.ring);
}

/* ---- cases ---- */
static uint32_t mark_place;
static void set_up(uint32_t tokens, uint32_t filled)
{
    const size_t q = (size_t)tokens * s.n_head * s.head_dim * 4, kv = (size_t)tokens * s.n_head_kv * s.head_dim * 4;
    buffer_make(Q, q);
    buffer_make(OUT, q);
    buffer_make(K_NEW, kv);
    buffer_make(V_NEW, kv);
    buffer_make(Q_NORM, s.head_dim * 4);
    buffer_make(K_NORM, s.head_dim * 4);
    buffer_make(SINKS, s.n_head * 4);
    fill(SINKS, 4.0f);
    fill(Q, 2.0f);
    fill(K_NEW, 2.0f);
    fill(V_NEW, 2.0f);
    fill(Q_NORM, 1.5f);
    fill(K_NORM, 1.5f);
    rope_tables();
    cache_make(filled);
    memset(&step, 0, sizeof step);
    step.n_past = s.n_past;
    step.n_tokens = step.n_logits = s.n_tokens = tokens;
    memset(&args, 0, sizeof args);
    args.state = cache - LAYER;
    args.state_at = LAYER;
    args.step = &step;
    args.mark_at = &mark_place;
    args.mark = ++n_cases;
    s.scale = 1.0f / sqrtf((float)s.head_dim);
    s.eps = 1e-6f;
}

/* out of one token against the reference; q as the kernel got it unless `finished`. */
static void check_out(const char *what, uint32_t t, const float *q_in, uint32_t finished, uint32_t n_kv)
{
    double q[HEAD_DIM_MAX], want[HEAD_DIM_MAX];
    for (uint32_t h = 0; h < s.n_head; h++) {
        const uint32_t kv_head = h / (s.n_head / s.n_head_kv);
        if (finished) for (uint32_t d = 0; d < s.head_dim; d++) q[d] = (double)q_in[h * s.head_dim + d];
        else finish_ref(q, q_in + (size_t)h * s.head_dim, or_null(s.normed, Q_NORM), n_kv - 1);
        attention_ref(want, q, h, kv_head, n_kv);
        for (uint32_t d = 0; d < s.head_dim; d++) {
            const double got = (double)floats(OUT)[((size_t)t * s.n_head + h) * s.head_dim + d];
            if (!(fabs(got - want[d]) <= 2e-5)) { fail(what, got, want[d], h, d); return; }
        }
    }
}

/* `steps` tokens in a row: each sees what the ones before appended. */
static void decode_case(uint32_t steps)
{
    set_up(1, s.appends ? s.n_past : s.n_past + 1);
    if (s.splits > 1) {
        buffer_make(PARTS, ATTENTION_PARTS_BYTES(s.n_head, s.n_head_kv, s.head_dim, s.splits));
        buffer_make(ML, ATTENTION_ML_BYTES(s.n_head, s.n_head_kv, s.head_dim, s.splits));
    }
    buffer_make(COUNTERS, ATTENTION_COUNTER_BYTES(s.n_head, s.n_head_kv, s.head_dim));
    memset(floats(COUNTERS), 0, buffer[COUNTERS].bytes);
    uint8_t *before = cache_bytes < 1u << 28 ? malloc(cache_bytes) : NULL;
    for (uint32_t i = 0; i < steps; i++, step.n_past++, s.n_past++) {
        if (before) memcpy(before, cache, cache_bytes);
        memset(floats(OUT), 0xff, buffer[OUT].bytes);
        if (s.splits > 1) memset(floats(PARTS), 0xff, buffer[PARTS].bytes);
        if (s.splits > 1) memset(floats(ML), 0xff, buffer[ML].bytes);
        simt_launch_clusters(decode_kernel, &args, ATTENTION_GROUPS(s.n_head, s.n_head_kv, s.head_dim, s.splits), 1, s.threads, WAVE,
                             ATTENTION_LDS_BYTES(s.n_head, s.n_head_kv, s.head_dim, WAVE, s.threads, s.splits, s.cluster),
                             draw_below(3) ? draw_u32() : 0, s.cluster ? s.splits : 1);
        for (uint32_t h = 0; h < s.n_head_kv && s.appends; h++) {
            double want[HEAD_DIM_MAX];
            finish_ref(want, floats(K_NEW) + (size_t)h * s.head_dim, or_null(s.normed, K_NORM), s.n_past);
            check_row("stored k", 0, h, s.n_past, want);
            for (uint32_t d = 0; d < s.head_dim; d++) want[d] = (double)floats(V_NEW)[h * s.head_dim + d];
            check_row("stored v", 1, h, s.n_past, want);
        }
        check_out("decode", 0, floats(Q), !s.appends, s.n_past + 1);
        if (before) check_untouched(before, s.n_past, s.appends ? s.n_past + 1 : s.n_past);
        for (size_t k = 0; k < buffer[COUNTERS].bytes / 4; k++) if (floats(COUNTERS)[k] != 0.0f) fail("counter", 1, 0, (uint32_t)k, 0);
        if (mark_place != args.mark) fail("mark", mark_place, args.mark, 0, 0);
    }
    if (guards_broken()) fail("guard bytes", 0, 0, 0, 0);
    free(before);
}

/* A step of several tokens through qkv_finish, or through the single ops, then attention by single ops. */
static void prefill_case(uint32_t tokens, uint32_t single)
{
    set_up(tokens, s.n_past);
    buffer_make(SCORES, SCORES_BYTES(s.n_head, tokens, s.n_ctx));
    float *q_in = malloc(buffer[Q].bytes);
    memcpy(q_in, floats(Q), buffer[Q].bytes);
    uint8_t *before = malloc(cache_bytes);
    memcpy(before, cache, cache_bytes);
    const uint32_t q_groups = HEAD_GROUPS(s.n_head, WAVE, s.threads), seed = draw_u32();
    simt_launch(finish_kernel, &args, HEAD_GROUPS(s.n_head + 2 * s.n_head_kv, WAVE, s.threads), tokens, s.threads, WAVE,
                s.threads / WAVE * s.head_dim * 4, seed);
    if (single) {
        memcpy(floats(Q), q_in, buffer[Q].bytes);
        if (s.normed) simt_launch(headnorm_kernel, &args, q_groups, tokens, s.threads, WAVE, 0, seed);
        if (s.n_rot)  simt_launch(rope_kernel, &args, q_groups, tokens, s.threads, WAVE, 0, seed);
        simt_launch(store_kernel, &args, HEAD_GROUPS(s.n_head_kv, WAVE, s.threads), tokens, s.threads, WAVE, 0, seed);
    }
    for (uint32_t t = 0; t < tokens; t++) {
        double want[HEAD_DIM_MAX];
        for (uint32_t h = 0; h < s.n_head; h++) {
            const size_t at = ((size_t)t * s.n_head + h) * s.head_dim;
            finish_ref(want, q_in + at, or_null(s.normed, Q_NORM), s.n_past + t);
            for (uint32_t d = 0; d < s.head_dim; d++)
                if (!(fabs((double)floats(Q)[at + d] - want[d]) <= 8e-6)) { fail("finished q", (double)floats(Q)[at + d], want[d], h, d); break; }
        }
        for (uint32_t h = 0; h < s.n_head_kv; h++) {
            const size_t at = ((size_t)t * s.n_head_kv + h) * s.head_dim;
            finish_ref(want, floats(K_NEW) + at, or_null(s.normed, K_NORM), s.n_past + t);
            check_row("prefill k", 0, h, s.n_past + t, want);
            for (uint32_t d = 0; d < s.head_dim; d++) want[d] = (double)floats(V_NEW)[at + d];
            check_row("prefill v", 1, h, s.n_past + t, want);
        }
    }
    check_untouched(before, s.n_past, s.n_past + tokens);
    simt_launch(scores_kernel, &args, s.n_head, tokens, s.threads, WAVE, 0, seed);
    simt_launch(mask_kernel, &args, s.n_head, tokens, s.threads, WAVE, 0, seed);
    simt_launch(softmax_kernel, &args, s.n_head, tokens, s.threads, WAVE, SOFTMAX_LDS_BYTES(WAVE, s.threads), seed);
    simt_launch(sum_kernel, &args, s.n_head, tokens, s.threads, WAVE, WEIGHTED_SUM_LDS_BYTES(s.head_dim, s.threads), seed);
    for (uint32_t t = 0; t < tokens; t++) check_out("unfused", t, floats(Q) + (size_t)t * s.n_head * s.head_dim, 1, s.n_past + t + 1);
    if (guards_broken()) fail("guard bytes", 0, 0, 0, 0);
    free(before);
    free(q_in);
}

/* kv_load and kv_load_f16 of a whole cache by one wave. */
static void load_kernel(const struct forge_kernel_args a)
{
    for (uint32_t i = lane_id(); i < s.n_head_kv * s.n_ctx * (s.head_dim / 8); i += WAVE) {
        const uint32_t column = i % (s.head_dim / 8) * 8, position = i / (s.head_dim / 8) % s.n_ctx, head = i / (s.head_dim / 8) / s.n_ctx;
        const uint8_t *plane = kv_v(a, s.n_head_kv, s.n_ctx, s.head_dim);
        f32x4 x[2];
        uint32_t h[4];
        kv_load(x, plane, head, position, column, s.n_head_kv, s.n_ctx, s.head_dim);
        kv_load_f16(h, plane, head, position, column, s.n_head_kv, s.n_ctx, s.head_dim);
        for (uint32_t k = 0; k < 8; k++) {
            const double want = cache_value(1, head, position, column + k);
            if ((double)x[k / 4][k % 4] != want) fail("kv_load", (double)x[k / 4][k % 4], want, head, column + k);
            if (f32_of_f16_bits(h[k / 2] >> 16 * (k % 2)) != (float)(_Float16)want) fail("kv_load_f16", 0, want, head, column + k);
        }
    }
}

static uint32_t draw_head_dim(void)
{
    static const uint32_t dims[] = { 32, 64, 80, 96, 128, 256, 40, 112 };
    uint32_t d;
    do d = dims[draw_below(8)]; while (kind == 2 && d % 32);
    return d;
}
static void draw_shape(uint32_t group, uint32_t head_dim)
{
    s.head_dim = head_dim;
    s.n_head_kv = 1 + draw_below(3);
    s.n_head = s.n_head_kv * group;
    s.n_rot = draw_below(4) == 0 ? 0 : draw_below(3) ? head_dim : 2 * (1 + draw_below(head_dim / 2));
    s.neox = draw_below(2);
    s.block = 1u << draw_below(8);
    s.normed = draw_below(2);
    s.appends = 1;
    s.splits = (const uint32_t[]){ 1, 2, 3, 4, 8, 16, 19 }[draw_below(7)];
    s.threads = WAVE * (1 + draw_below(8));
    if (draw_below(2)) s.threads = 256;
    s.cluster = s.splits > 1 && s.splits <= ATTENTION_MAX_CLUSTER && draw_below(2);
    s.window = s.ring = 0;
#ifdef ATTENTION_MORE
    s.cap = draw_below(3) ? 0.2f + (float)draw_below(30) : 0;
    s.sinks = draw_below(3) > 0;
#endif
}
/* A window for most cases, and a ring that just holds it for steps of so many tokens, or a little more. */
static void draw_window(uint32_t tokens)
{
    if (draw_below(3) == 0) return;
    s.window = 1 + draw_below(draw_below(2) ? 40 : 400);
    if (draw_below(2)) s.ring = s.window + tokens - 1 + draw_below(2) * draw_below(30);
}

int main(void)
{
    static const uint32_t groups[] = { 1, 2, 3, 4, 7, 8, 5, 9, 12, 17 }, dims[] = { 32, 64, 80, 96, 128, 256 };
    for (kind = 0; kind < 3; kind++) {
        for (uint32_t i = 0; i < 6 * 10; i++) {                                  /* every dimension with every group size */
            if (kind == 2 && dims[i % 6] % 32) continue;
            draw_shape(groups[i / 6], dims[i % 6]);
            s.n_past = draw_below(4) ? draw_below(300) : draw_below(20);
            s.n_ctx = s.n_past + 3 + draw_below(100);
            if (i % 2) draw_window(1);
            decode_case(2);
        }
        for (uint32_t i = 0; i < 14; i++) {                                      /* long contexts, short ones, and the cache already filled */
            draw_shape(groups[draw_below(8)], draw_head_dim());
            s.n_head = s.n_head / s.n_head_kv;
            s.n_head_kv = 1;
            s.n_past = i < 4 ? 700 + draw_below(2300) : i < 8 ? i - 4 : draw_below(800);
            s.n_ctx = s.n_past + 2 + draw_below(2);
            s.appends = i < 10;
            if (!s.appends) s.normed = s.n_rot = 0;
            if (i % 2) draw_window(1);
            decode_case(s.appends ? 2 : 1);
        }
        for (uint32_t i = 0; i < 20; i++) {
            const uint32_t tokens = 1 + draw_below(7);
            draw_shape(groups[draw_below(8)], draw_head_dim());
            s.n_past = draw_below(3) * draw_below(60);
            s.n_ctx = s.n_past + 10;
            if (i >= 10) draw_window(tokens);
            prefill_case(tokens, i % 2);
        }
        draw_shape(1, 96);
        s.n_ctx = 5;
        set_up(1, 5);
        simt_launch(load_kernel, &args, 1, 1, WAVE, WAVE, 0, 0);
        draw_shape(2, 256);                                                      /* offsets beyond 32 bits */
        s.n_head_kv = 8;
        s.n_head = 16;
        s.n_ctx = 1 << 20;
        s.block = 1024;
        s.n_past = 40;
        decode_case(1);
    }
    printf("check_attention_decode: %u cases %s\n", n_cases, n_failed ? "FAILED" : "passed");
    return n_failed != 0;
}
