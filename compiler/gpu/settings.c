/* settings.c -- see settings.h. Only settings that the cost model cannot tell apart are left to measure. */
#include "settings.h"
#include "choose.h"
#include "compiler/plan/cost.h"
#include <stdlib.h>
#include <string.h>

const char *const settings_step_name[SETTINGS_STEPS] = { "threads and groups", "rows and lanes", "depth" };

static const double WORSE = 1.3;                 /* times the least predicted time; slower settings are not worth measuring */

struct search {
    struct arena        *arena;
    const struct plan   *plan;
    const struct kernel *kernel;
    uint32_t             tokens, n_past;
    struct candidate { struct kernel_choice choice; double us; } *found;       /* us: predicted */
    uint32_t             n, capacity;
};

static struct gpu_gemv_shape gemv_of(const uint32_t *param)
{
    return (struct gpu_gemv_shape){ param[PARAM_ROWS], param[PARAM_LANES], param[PARAM_THREADS], param[PARAM_RESIDENT],
                                    param[PARAM_DEPTH] };
}

static double predicted(const struct search *s, const uint32_t *param)
{
    struct kernel k = *s->kernel;
    memcpy(k.param, param, sizeof k.param);
    if (k.template == TEMPLATE_gemv) k.grid_x = s->plan->target->compute_units * param[PARAM_RESIDENT];
    return cost_kernel_micros(s->plan, &k, s->tokens, s->n_past);
}

/* The free parameters as a choice, without LEAST and MOST, the range of steps of a prefill product. */
static struct kernel_choice choice_of(const struct kernel *k, const uint32_t *param)
{
    const uint32_t sizes = 1u << PARAM_LEAST | 1u << PARAM_MOST;
    struct kernel_choice c = { .template = k->template, .steps = k->prefill ? STEPS_PREFILL : STEPS_DECODE,
                               .given = template_info[k->template].free & ~sizes };
    for (uint32_t i = 0; i < PARAM_COUNT; i++) c.param[i] = sizes >> i & 1 ? 0 : param[i];
    return c;
}

static bool same(const struct kernel_choice *x, const struct kernel_choice *y) { return memcmp(x->param, y->param, sizeof x->param) == 0; }

static void add(struct search *s, const uint32_t *param)
{
    const struct kernel_choice c = choice_of(s->kernel, param);
    for (uint32_t i = 0; i < s->n; i++) if (same(&s->found[i].choice, &c)) return;
    arena_room(s->arena, s->found, s->n, s->capacity);
    s->found[s->n++] = (struct candidate){ c, predicted(s, param) };
}

static void add_gemv(struct search *s, const uint32_t *param, uint32_t threads, uint32_t resident, uint32_t rows, uint32_t lanes,
                     uint32_t depth)
{
    uint32_t p[PARAM_COUNT];
    memcpy(p, param, sizeof p);
    p[PARAM_THREADS] = threads;
    p[PARAM_RESIDENT] = resident;
    p[PARAM_ROWS] = rows;
    p[PARAM_LANES] = lanes;
    p[PARAM_DEPTH] = depth;
    const struct gpu_gemv_shape shape = gemv_of(p);
    if (!gpu_gemv_misfit(s->arena, s->plan, s->kernel->group, &shape)) add(s, p);
}

/* Does a lane have enough registers? The SIMD divides its registers among its waves, and fewer than 64 cannot hold a step of a few rows. */
static bool has_registers(const struct target *t, uint32_t threads, uint32_t resident)
{
    enum { REGISTERS_LEAST = 64 };
    return t->vgprs / REGISTERS_LEAST * t->simds >= threads / t->wave * resident;
}

static void search_gemv(struct search *s, const uint32_t *now, enum settings_step step)
{
    const struct target *t = s->plan->target;
    const uint32_t threads = now[PARAM_THREADS], resident = now[PARAM_RESIDENT], rows = now[PARAM_ROWS], lanes = now[PARAM_LANES];
    if (step == SETTINGS_GROUPS)
        for (uint32_t n = 2 * t->wave; n <= 1024; n *= 2)
            for (uint32_t r = 1; r <= 8; r *= 2) if (has_registers(t, n, r)) add_gemv(s, now, n, r, rows, lanes, now[PARAM_DEPTH]);
    static const uint32_t few_rows[] = { 1, 2, 3, 4, 6, 8 };
    if (step == SETTINGS_ROWS)
        for (size_t i = 0; i < COUNT_OF(few_rows); i++)
            for (uint32_t l = t->wave; l >= 8; l /= 2) add_gemv(s, now, threads, resident, few_rows[i], l, now[PARAM_DEPTH]);
    if (step == SETTINGS_DEPTH)
        for (uint32_t d = 0; d <= 8; d = d < 4 ? d + 1 : d * 2) add_gemv(s, now, threads, resident, rows, lanes, d);
}

/* Adds a candidate. Raises the span to the minimum number of positions. Leaves out shapes with more spans than a full context has. */
static void add_attention(struct search *s, const uint32_t *param, struct attention_shape shape)
{
    const struct node *n = s->kernel->group->node;
    const uint32_t least = 2 * gpu_attention_block(s->plan, n, shape.threads) * shape.splits, window = plan_window(s->plan, n);
    uint32_t p[PARAM_COUNT];
    if (shape.span < least) shape.span = least;
    if (shape.spans > 1 && shape.spans > (window ? window : s->plan->options.n_ctx) / shape.span) return;
    memcpy(p, param, sizeof p);
    p[PARAM_THREADS] = shape.threads;
    p[PARAM_RESIDENT] = shape.resident;
    p[PARAM_SPLITS] = shape.splits;
    p[PARAM_SPANS] = shape.spans;
    p[PARAM_SPAN] = shape.span;
    p[PARAM_ROWS] = shape.rows;
    p[PARAM_DIGITS] = shape.digits;
    if (!gpu_attention_misfit(s->arena, s->plan, n, &shape)) add(s, p);
}

static void search_attention(struct search *s, const uint32_t *now, enum settings_step step)
{
    const struct target *t = s->plan->target;
    const struct node *n = s->kernel->group->node;
    const uint32_t units = gpu_attention_units(s->plan, n);
    const struct attention_shape planned = { now[PARAM_SPLITS], now[PARAM_SPANS], now[PARAM_SPAN], now[PARAM_ROWS],
                                             now[PARAM_DIGITS], now[PARAM_THREADS], now[PARAM_RESIDENT], false };
    struct attention_shape x = planned;
    if (step == SETTINGS_GROUPS)
        for (x.threads = t->wave; x.threads <= 1024; x.threads *= 2)
            for (x.resident = 1; x.resident <= 2; x.resident++) if (has_registers(t, x.threads, x.resident)) add_attention(s, now, x);
    for (uint32_t i = 1; step == SETTINGS_ROWS && i <= 64; i *= 2)
        for (x.splits = i; x.splits <= i * 3 / 2; x.splits += i > 1 ? i / 2 : 1)
            for (uint32_t fill = 0; fill < 4; fill++) {      /* 1 span; attention_groups workgroups; 1 or 2 workgroups a compute unit */
                const uint32_t groups[] = { units * x.splits, t->gpu.attention_groups, t->compute_units, 2 * t->compute_units };
                x.spans = groups[fill] / (units * x.splits);
                if (x.spans) add_attention(s, now, x);
            }
    if (step == SETTINGS_DEPTH)
        for (uint32_t i = 0; i < 8; i++)
            for (x.span = planned.span / 2; x.span <= planned.span * 2; x.span *= 2) {
                x.rows = 2u << i % 4;
                x.digits = i / 4 * 2;
                add_attention(s, now, x);
            }
}

static void search_prefill_attention(struct search *s, const uint32_t *now)
{
    uint32_t p[PARAM_COUNT];
    if (gpu_is_wide(s->plan, s->kernel->group->node)) return;
    memcpy(p, now, sizeof p);
    for (p[PARAM_THREADS] = s->plan->target->wave; p[PARAM_THREADS] <= 8 * s->plan->target->wave; p[PARAM_THREADS] *= 2) add(s, p);
}

static void search_gemm(struct search *s, const uint32_t *now)
{
    const struct target *t = s->plan->target;
    struct gemm_part parts[MAX_BRANCHES];
    const struct gemm_product product = gpu_product(s->plan, s->kernel->group, s->kernel->weight_bytes, parts);
    uint32_t p[PARAM_COUNT];
    memcpy(p, now, sizeof p);
    for (uint32_t threads = 2 * t->wave; threads <= 8 * t->wave; threads *= 2)
        for (uint32_t tokens = 16; tokens <= 256; tokens += tokens < 128 ? 16 : 64)
            for (uint32_t rows = 16; rows <= 256; rows += rows < 128 ? 16 : 64) {
                const struct gemm_shape shape = gemm_with_groups(t, (struct gemm_shape){ tokens, rows, threads, 0 });
                /* The sums take tokens x rows / threads registers of a lane. */
                if (tokens * rows / threads > 128 || !gemm_shape_works(t, &product, &shape)) continue;
                p[PARAM_TOKENS] = tokens;
                p[PARAM_ROWS] = rows;
                p[PARAM_THREADS] = threads;
                p[PARAM_RESIDENT] = shape.groups;
                add(s, p);
            }
}

static int by_time(const void *x, const void *y)
{
    const struct candidate *a = x, *b = y;
    return a->us < b->us ? -1 : a->us > b->us ? 1 : memcmp(a->choice.param, b->choice.param, sizeof a->choice.param);
}

struct kernel_choice settings_planned(const struct kernel *k) { return choice_of(k, k->param); }

struct settings settings_of(struct arena *a, const struct plan *p, const struct kernel *k, const struct kernel_choice *now,
                            enum settings_step step, uint32_t tokens, uint32_t n_past, uint32_t most)
{
    struct search s = { .arena = a, .plan = p, .kernel = k, .tokens = tokens, .n_past = n_past };
    if (k->template == TEMPLATE_gemv) search_gemv(&s, now->param, step);
    if (k->template == TEMPLATE_attention_decode) search_attention(&s, now->param, step);
    if (k->template == TEMPLATE_attention_prefill && step == SETTINGS_GROUPS) search_prefill_attention(&s, now->param);
    if (k->template == TEMPLATE_gemm && step == SETTINGS_GROUPS) search_gemm(&s, now->param);
    if (s.n) qsort(s.found, s.n, sizeof *s.found, by_time);
    struct settings kept = { .list = arena_array(a, struct kernel_choice, most) };
    const double now_us = predicted(&s, now->param), least = s.n ? s.found[0].us : 0;
    const double limit = WORSE * least > now_us ? WORSE * least : now_us;
    for (uint32_t i = 0; i < s.n && kept.n < most; i++)
        if (s.found[i].us <= limit && !same(&s.found[i].choice, now)) kept.list[kept.n++] = s.found[i].choice;
    return kept;
}
