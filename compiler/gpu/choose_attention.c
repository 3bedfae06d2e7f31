/* choose_attention.c -- the kernels of attention. Decode has one kernel, which also finishes the token's heads. Prefill has one kernel for
 * heads and one for the chunk. Without fusion there are four steps over scores in memory. */
#include "choose.h"
#include "compiler/base/family.h"
#include "templates/gpu/attention_prefill_sizes.h"
#include "templates/gpu/attention_sizes.h"
#include "templates/gpu/attention_wide_sizes.h"

typedef unsigned long long ull;

/* ---- which kernels ---- */

/* The kernels of decode and prefill compute heads of up to 256 items, with K and V of equal size; other heads have kernels for wide heads
 * or take four steps. */
bool gpu_in_steps(const struct plan *p, const struct node *n)
{
    const bool usual = n->attr.head_dim <= 256 && n->attr.head_dim == n->inputs[2]->attr.head_dim;
    return p->fused->level == FUSE_NONE || (!usual && !gpu_is_wide(p, n));
}

/* The threads of a workgroup of an attention kernel: whole waves; power: a power of two. Dies if the given number does not fit. */
static uint32_t given_threads(const struct target *t, const struct kernel_choice *given, uint32_t planned, uint32_t most, bool power)
{
    const uint32_t threads = kernel_chosen(given, PARAM_THREADS, planned), wave = t->wave;
    if (given && (threads < wave || threads > most || threads % wave || (power && (threads & (threads - 1)))))
        die_at(given->at, "threads is %u; this kernel takes %u to %u threads on %s, a %s", threads, wave, most, t->name,
               power ? "power of two" : "multiple of the wave");
    return threads;
}

/* ---- decode: splits and spans ---- */

static uint32_t most_splits(const struct plan *p) { return (p->options.n_ctx + 15) / 16; }
/* Splits for the KV heads of the graph; with tensor parallelism these are only the rank's own. */
static uint32_t planned_splits(const struct plan *p, const struct node *n)
{
    const struct graph *g = p->fused->graph;
    const bool wide = gpu_is_wide(p, n);
    uint32_t heads_kv = wide ? gpu_attention_units(p, n) : 1;
    for (uint32_t i = 0; i < g->n_nodes && !wide; i++)
        if (g->nodes[i]->op == OP_attention && g->nodes[i]->inputs[1]->heads > heads_kv) heads_kv = g->nodes[i]->inputs[1]->heads;
    const uint32_t splits = (p->target->gpu.attention_splits + heads_kv - 1) / heads_kv, most = most_splits(p);
    return splits < 1 ? 1 : splits > most ? most : splits;
}

/* Workgroups of a unit that should run at once, with this number of splits. */
static uint32_t groups_with(const struct plan *p, const struct node *n, uint32_t splits)
{
    const struct target *t = p->target;
    const bool full = gpu_is_wide(p, n) && t->cluster && splits == ATTENTION_MAX_CLUSTER && t->gpu.attention_full_groups;
    return (full ? t->gpu.attention_full_groups : t->gpu.attention_groups) / gpu_attention_units(p, n);
}

/* Sets splits so that they fit a cluster, and as many spans as run at once. Up to a quarter fewer splits are used if more workgroups fit
 * then. */
static void plan_spans(const struct plan *p, const struct node *n, struct attention_shape *s)
{
    const struct target *t = p->target;
    uint32_t most = 0, splits = s->splits = t->cluster && s->splits > ATTENTION_MAX_CLUSTER ? ATTENTION_MAX_CLUSTER : s->splits;
    s->spans = 1;
    for (const uint32_t least = splits - splits / 4; splits >= least; splits--) {
        const uint32_t spans = groups_with(p, n, splits) / splits;
        if (spans * splits <= most) continue;
        most = spans * splits;
        s->splits = splits;
        s->spans = spans;
    }
}

/* The fewest positions of a span: every split has two turns. */
static uint32_t span_least(const struct plan *p, const struct node *n, const struct attention_shape *s)
{
    return 2 * gpu_attention_block(p, n, s->threads) * s->splits;
}

static uint32_t planned_span(const struct plan *p, const struct node *n, const struct attention_shape *s)
{
    enum { UNIT = 32 };
    const uint32_t kv = (uint32_t)p->options.kv, head_dim = n->attr.head_dim,
                   value_dim = plan_values_in_keys(p, n) ? 0 : n->inputs[2]->attr.head_dim,
                   bytes = KV_VALUE_BYTES(kv, head_dim) + KV_SCALE_BYTES(kv, head_dim) + KV_VALUE_BYTES(kv, value_dim)
                           + KV_SCALE_BYTES(kv, value_dim),
                   span = (p->target->gpu.attention_span * 1024 * s->splits / bytes + UNIT - 1) / UNIT * UNIT,
                   least = span_least(p, n, s);
    return span < least ? least : span;
}

/* Of wide heads only splits and spans can be chosen. */
static const char *wide_misfit(struct arena *a, const struct plan *p, const struct node *n, const struct attention_shape *s)
{
    const struct gpu_wide w = gpu_wide(p, n);
    if (s->rows == w.rows && s->digits == WIDE_DIGITS && s->threads == w.threads && s->resident == 1) return NULL;
    return arena_printf(a, "rows=%u digits=%u threads=%u resident=%u; attention with heads of %u and %u has rows=%u digits=%u threads=%u "
                        "resident=1", s->rows, s->digits, s->threads, s->resident, w.dim, w.value_dim, w.rows, WIDE_DIGITS, w.threads);
}

const char *gpu_attention_misfit(struct arena *a, const struct plan *p, const struct node *n, const struct attention_shape *s)
{
    const struct target *t = p->target;
    const uint32_t least = span_least(p, n, s), resident = t->waves * t->simds * t->wave / s->threads;
    if (s->splits < 1 || s->splits > most_splits(p))
        return arena_printf(a, "splits is %u; a context of %u tokens can be split into 1 to %u parts, of 16 positions or more", s->splits,
                            p->options.n_ctx, most_splits(p));
    if (s->spans < 1 || s->spans > 256) return arena_printf(a, "spans is %u; it must be 1 to 256", s->spans);
    if (s->spans > 1 && s->span < least)
        return arena_printf(a, "span is %u; with %u splits of %u threads it has %u positions or more", s->span, s->splits, s->threads,
                            least);
    if (gpu_is_wide(p, n)) return wide_misfit(a, p, n, s);
    if (s->rows != 2 && s->rows != 4 && s->rows != 8 && (s->rows != 16 || !s->digits))
        return arena_printf(a, "rows is %u; a lane asks for 2, 4 or 8 of them at once, of q8_0 on the matrix unit 16", s->rows);
    if (s->digits && (s->digits != 2 || !ATTENTION_ON_MATRIX((uint32_t)p->options.kv, n->attr.head_dim, s->rows, t->wave, t->family)))
        return arena_printf(a, "digits is %u; it is 0, or on NVIDIA 2, with heads of 64 or 128 in f16 or q8_0, rows that fill tiles of 16",
                            s->digits);
    if (s->resident < 1 || (s->resident > 1 && s->resident > resident))
        return arena_printf(a, "resident is %u; a compute unit of %s holds 1 to %u groups of %u threads", s->resident, t->name, resident,
                            s->threads);
    return NULL;
}

/* The number of spans that can have positions, and whether the splits are a cluster. */
static void settle_shape(const struct plan *p, const struct node *n, struct attention_shape *s)
{
    const uint32_t window = plan_window(p, n), spans = (window ? window : p->options.n_ctx) / (s->span ? s->span : 1);
    if (s->spans > spans) s->spans = spans ? spans : 1;
    s->cluster = p->target->cluster && s->splits > 1 && s->splits <= ATTENTION_MAX_CLUSTER;
}

static struct attention_shape wide_shape(struct arena *a, const struct plan *p, const struct node *n, const struct kernel_choice *given)
{
    const struct gpu_wide w = gpu_wide(p, n);
    struct attention_shape s = { .splits = planned_splits(p, n), .spans = 1, .resident = 1 };
    if (p->target->gpu.attention_groups) plan_spans(p, n, &s);
    s.threads = kernel_chosen(given, PARAM_THREADS, w.threads);
    s.rows = kernel_chosen(given, PARAM_ROWS, w.rows);
    s.digits = kernel_chosen(given, PARAM_DIGITS, WIDE_DIGITS);
    s.resident = kernel_chosen(given, PARAM_RESIDENT, 1);
    s.splits = kernel_chosen(given, PARAM_SPLITS, s.splits);
    s.spans = kernel_chosen(given, PARAM_SPANS, s.spans);
    s.span = kernel_chosen(given, PARAM_SPAN, planned_span(p, n, &s));
    const char *misfit = given ? gpu_attention_misfit(a, p, n, &s) : NULL;
    if (misfit) die_at(given->at, "%s", misfit);
    settle_shape(p, n, &s);
    return s;
}

static struct attention_shape decode_shape(struct arena *a, const struct plan *p, const struct node *n, const struct kernel_choice *given)
{
    const struct target *t = p->target;
    if (gpu_is_wide(p, n)) return wide_shape(a, p, n, given);
    const uint32_t kv = (uint32_t)p->options.kv,
                   heads = ATTENTION_HEADS(n->heads, n->inputs[1]->heads, n->attr.head_dim);
    struct attention_shape s = { .splits = planned_splits(p, n), .spans = 1 };
    if (t->gpu.attention_groups) plan_spans(p, n, &s);
    s.threads = given_threads(t, given, t->gpu.attention_threads, 1024, false);
    s.splits = kernel_chosen(given, PARAM_SPLITS, s.splits);
    s.spans = kernel_chosen(given, PARAM_SPANS, s.spans);
    s.span = kernel_chosen(given, PARAM_SPAN, planned_span(p, n, &s));
    const bool matrix = !p->options.exact && heads > ATTENTION_MAX_FLOATS
                        && ATTENTION_ON_MATRIX(kv, n->attr.head_dim, ATTENTION_MAX_ROWS, t->wave, t->family);
    s.digits = kernel_chosen(given, PARAM_DIGITS, matrix ? 2 : 0);
    s.rows = kernel_chosen(given, PARAM_ROWS, s.digits ? ATTENTION_MAX_ROWS : ATTENTION_ROWS(kv, heads, t->family));
    s.resident = kernel_chosen(given, PARAM_RESIDENT, 1);
    const char *misfit = given ? gpu_attention_misfit(a, p, n, &s) : NULL;
    if (misfit) die_at(given->at, "%s", misfit);
    settle_shape(p, n, &s);
    return s;
}

void choose_splits(struct arena *a, struct plan *p)
{
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        if (g->kind != GROUP_ATTENTION) continue;
        p->gpu->groups[i].attention =
            decode_shape(a, p, g->node, kernel_choice(p->options.choices, TEMPLATE_attention_decode,
                                                      g->drafts ? STEPS_PASS : STEPS_DECODE, i, 0));
    }
}

/* ---- pieces ---- */

static const struct node *keys_of(const struct gpu_chooser *c) { return c->group->node->inputs[1]; }

const char *gpu_positions_text(struct arena *a, const struct plan *p, const struct node *n)
{
    const struct state *s = plan_state(p, n);
    const uint32_t window = plan_window(p, n);
    const char *rows = arena_printf(a, "%u positions%s", p->options.n_ctx,
                                    state_ring(s) ? arena_printf(a, " in a ring of %u", s->rows) : "");
    return window ? arena_printf(a, "%s, window of %u", rows, window) : rows;
}

static void does_attention(const struct gpu_chooser *c, struct kernel_draft *d)
{
    const struct node *n = c->group->node;
    kernel_does(d, "attention: %u heads of %u over %u KV heads in %s, %s, scale %.9g", n->heads, n->attr.head_dim, keys_of(c)->heads,
                kv_type_name[c->plan->options.kv], gpu_positions_text(c->arena, c->plan, n), (double)(float)n->attr.scale);
    const uint32_t value_dim = n->inputs[2]->attr.head_dim;
    if (plan_values_in_keys(c->plan, n)) kernel_does(d, "  V is the first %u columns of K", value_dim);
    else if (value_dim != n->attr.head_dim)
        kernel_does(d, "  heads of V have %u, %llu bytes after K", value_dim, (ull)plan_values_at(c->plan, n));
    if (!n->attr.causal) kernel_does(d, "  every token sees all of the text");
    if (n->attr.cap != 0) kernel_does(d, "  scores held within %.9g", (double)(float)n->attr.cap);
    if (n->weight) kernel_does(d, "  sinks %s", choose_vector(c, d, n->weight));
}

/* The f32 value with the queries: the projection's result, or finished queries. */
static const struct node *query_of(const struct gpu_chooser *c)
{
    return c->group->has_heads ? c->group->heads[0].raw : c->group->node->inputs[0];
}

static struct kernel_draft begin_attention(const struct gpu_chooser *c, enum kernel_template template, const char *name)
{
    struct kernel_draft d = choose_begin(c, template, name);
    d.launch.state = plan_state(c->plan, c->group->node)->offset;
    return d;
}

/* Lists the heads as the projection made them, and the operations on them. */
static void does_heads(const struct gpu_chooser *c, struct kernel_draft *d)
{
    static const char *const names[] = { "q", "k", "v" };
    const struct head_chain *h = c->group->heads;
    const char *rotation = choose_rotation(c, d, h[0].rope), *norms[3] = { "" };
    for (uint32_t i = 2; i-- > 0;)
        norms[i] = h[i].norm ? arena_printf(c->arena, ", headnorm %s, eps %.9g", choose_vector(c, d, h[i].norm->weight),
                                            (double)(float)h[i].norm->attr.eps) : "";
    for (uint32_t i = 0; i < 3; i++)
        kernel_does(d, "heads of %s: %s%s%s", names[i], choose_text(c, gpu_read(c->plan, h[i].raw)), i < 2 ? norms[i] : "",
                    h[i].store ? ", into the state" : "");
    kernel_does(d, "%s", rotation);
}

/* ---- decode ---- */

/* STEPS_COLUMNS: a separate kernel finishes heads, as in prefill, and each token is a row of the grid. */
static void choose_decode(const struct gpu_chooser *c)
{
    const bool columns = c->steps == STEPS_COLUMNS;
    const struct node *n = c->group->node;
    const struct plan *p = c->plan;
    const struct attention_shape *s = &c->gg->attention;
    const uint32_t heads_kv = keys_of(c)->heads, head_dim = n->attr.head_dim;
    struct kernel_draft d = columns ? begin_attention(c, TEMPLATE_attention_columns, arena_printf(c->arena, "%s_columns", c->group->name))
                                    : begin_attention(c, TEMPLATE_attention_decode, c->group->name);
    if (c->group->has_heads && !columns) does_heads(c, &d);
    if (c->group->has_heads && columns) kernel_does(&d, "of each token; its key and value are added where decode adds new ones");
    does_attention(c, &d);
    kernel_does(&d, "query %s -> %s", choose_text(c, gpu_read(p, query_of(c))), choose_text(c, gpu_written(p, n, false)));
    kernel_does(&d, "parts at %llu, maxima and totals at %llu, counters at %llu", (ull)p->parts_offset, (ull)p->gpu->parts_ml,
                (ull)p->gpu->zero);
    plan_count_attention(p, n, ATTENTION_ALL, &d.kernel);
    d.kernel.param[PARAM_THREADS] = s->threads;
    d.kernel.param[PARAM_RESIDENT] = s->resident;
    d.kernel.param[PARAM_ROWS] = s->rows;
    d.kernel.param[PARAM_DIGITS] = s->digits;
    d.kernel.param[PARAM_SPLITS] = s->splits;
    d.kernel.param[PARAM_SPANS] = s->spans;
    d.kernel.param[PARAM_SPAN] = s->span;
    d.kernel.param[PARAM_CLUSTER] = s->cluster ? s->splits : 0;
    d.kernel.grid_x = gpu_attention_units(p, n) * s->splits * s->spans;
    d.kernel.grid_tokens = columns;
    const struct gpu_wide w = gpu_wide(p, n);
    d.kernel.lds_bytes = gpu_is_wide(p, n) ? gpu_wide_lds(p, &w, s->splits, s->cluster)
        : ATTENTION_LDS_BYTES(n->heads, heads_kv, head_dim, p->target->wave, s->threads, s->splits, s->cluster);
    choose_end(c, &d);
}

/* ---- prefill ---- */

/* The heads of a chunk: one kernel norms, rotates and stores them. */
static void choose_heads(const struct gpu_chooser *c)
{
    const struct node *n = c->group->node;
    const uint32_t wave = c->plan->target->wave;
    struct kernel_draft d = choose_begin_rows(c, TEMPLATE_heads, "heads_prefill");
    d.kernel.prefill = true;                                 /* the kernel serves all steps of several tokens */
    const uint32_t threads = d.kernel.param[PARAM_THREADS];
    d.launch.name = "heads";
    d.launch.state = plan_state(c->plan, c->group->node)->offset;
    does_heads(c, &d);
    kernel_does(&d, "%u and %u heads of %u, %s", n->heads, keys_of(c)->heads, n->attr.head_dim, gpu_positions_text(c->arena, c->plan, n));
    d.kernel.grid_x = HEAD_GROUPS(n->heads + 2 * keys_of(c)->heads, wave, threads);
    d.kernel.lds_bytes = threads / wave * n->attr.head_dim * 4;
    choose_end(c, &d);
}

bool gpu_attention_in_fours(const struct plan *p, uint32_t digits, uint32_t head_dim, uint32_t threads)
{
    return family_multiplies_in_fours(p->target) && ATTENTION_PREFILL_IN_FOURS((uint32_t)p->options.kv, digits, head_dim, threads);
}

/* The chunk with wide heads. */
static void choose_wide_chunk(const struct gpu_chooser *c)
{
    const struct node *n = c->group->node;
    const struct plan *p = c->plan;
    const struct gpu_wide w = gpu_wide(p, n);
    struct kernel_draft d = begin_attention(c, TEMPLATE_attention_prefill, "attention_chunk");
    does_attention(c, &d);
    kernel_does(&d, "query %s -> %s", choose_text(c, gpu_read(p, query_of(c))), choose_text(c, gpu_written(p, n, true)));
    if (w.prefill_splits > 1)
        kernel_does(&d, "positions in up to %u parts at %llu, counters at %llu", w.prefill_splits, (ull)p->parts_offset, (ull)p->gpu->zero);
    plan_count_attention(p, n, ATTENTION_ALL, &d.kernel);
    const struct kernel_choice *given = choose_given(c, TEMPLATE_attention_prefill, 0);
    if (kernel_chosen(given, PARAM_THREADS, w.threads) != w.threads)
        die_at(given->at, "threads is %u; attention with heads of %u and %u has %u", given->param[PARAM_THREADS], w.dim, w.value_dim,
               w.threads);
    d.kernel.param[PARAM_THREADS] = w.threads;
    d.kernel.param[PARAM_DIGITS] = 1;
    d.kernel.param[PARAM_TOKENS] = w.prefill_tokens;
    d.kernel.param[PARAM_RESIDENT] = 1;
    d.kernel.grid_x = w.prefill_groups * w.prefill_splits;
    d.kernel.grid_tokens = w.prefill_tokens;
    d.kernel.lds_bytes = w.prefill_lds;
    choose_end(c, &d);
}

static void choose_chunk(const struct gpu_chooser *c)
{
    const struct node *n = c->group->node;
    const struct plan *p = c->plan;
    const struct target *t = p->target;
    const bool whole = n->attr.head_dim % 16 == 0;               /* the matrix unit's tiles */
    const struct kernel_choice *given = choose_given(c, TEMPLATE_attention_prefill, 0);
    const uint32_t kv = (uint32_t)p->options.kv, digits = p->options.exact || !whole ? 2 : 1, head_dim = n->attr.head_dim,
                   heads_kv = keys_of(c)->heads,
                   planned = gpu_attention_in_fours(p, digits, head_dim, ATTENTION_PREFILL_FOURS_THREADS)
                             ? ATTENTION_PREFILL_FOURS_THREADS : t->gpu.attention_prefill_threads,
                   threads = given_threads(t, given, planned, 8 * t->wave, true);
    const bool fours = gpu_attention_in_fours(p, digits, head_dim, threads);
    struct kernel_draft d = begin_attention(c, TEMPLATE_attention_prefill, "attention_chunk");
    does_attention(c, &d);
    kernel_does(&d, "query %s -> %s", choose_text(c, gpu_read(p, query_of(c))), choose_text(c, gpu_written(p, n, true)));
    plan_count_attention(p, n, ATTENTION_ALL, &d.kernel);
    d.kernel.param[PARAM_THREADS] = threads;
    d.kernel.param[PARAM_DIGITS] = digits;
    d.kernel.param[PARAM_TOKENS] = ATTENTION_PREFILL_TOKENS(kv, digits, n->heads, heads_kv, head_dim, t->family, threads, fours);
    d.kernel.param[PARAM_RESIDENT] = ATTENTION_PREFILL_RESIDENT(t->family, threads);
    d.kernel.grid_x = ATTENTION_PREFILL_GROUPS(n->heads, heads_kv);
    d.kernel.grid_tokens = d.kernel.param[PARAM_TOKENS];
    d.kernel.lds_bytes = ATTENTION_PREFILL_LDS_BYTES(kv, digits, head_dim, t->family, threads, fours);
    choose_end(c, &d);
}

/* ---- without fusion ---- */

static void choose_step(const struct gpu_chooser *c, enum kernel_template template, uint32_t lds_bytes)
{
    const struct node *n = c->group->node;
    struct kernel_draft d = begin_attention(c, template, arena_printf(c->arena, "attn_%s", template_info[template].name));
    const struct plan *p = c->plan;
    d.kernel.prefill = false;                                /* the kernel serves decode and prefill */
    d.launch.name = arena_printf(c->arena, "attention_%s", template_info[template].name);
    does_attention(c, &d);
    kernel_does(&d, "scores f32 of %u rows at %llu", p->chunk, (ull)p->gpu->scores);
    if (template == TEMPLATE_scores) kernel_does(&d, "query %s", choose_text(c, gpu_read(p, n->inputs[0])));
    if (template == TEMPLATE_weighted_sum) kernel_does(&d, "-> %s", choose_text(c, gpu_read(p, n)));
    if (template == TEMPLATE_scores) plan_count_attention(p, n, ATTENTION_SCORES, &d.kernel);
    if (template == TEMPLATE_weighted_sum) plan_count_attention(p, n, ATTENTION_SUM, &d.kernel);
    d.kernel.param[PARAM_THREADS] = p->target->gpu.attention_threads;
    d.kernel.grid_x = n->heads;
    d.kernel.grid_tokens = 1;
    d.kernel.lds_bytes = lds_bytes;
    choose_end(c, &d);
}

static void choose_unfused(const struct gpu_chooser *c)
{
    const struct target *t = c->plan->target;
    choose_step(c, TEMPLATE_scores, 0);
    if (c->group->node->attr.causal) choose_step(c, TEMPLATE_mask, 0);
    choose_step(c, TEMPLATE_softmax, SOFTMAX_LDS_BYTES(t->wave, t->gpu.attention_threads));
    choose_step(c, TEMPLATE_weighted_sum, WEIGHTED_SUM_LDS_BYTES(c->group->node->inputs[2]->attr.head_dim, t->gpu.attention_threads));
}

void choose_attention(const struct gpu_chooser *c)
{
    if (c->group->drafts && c->steps != STEPS_PASS) { choose_heads(c); return; }         /* stores K and V for later drafts */
    if (gpu_in_steps(c->plan, c->group->node)) { choose_unfused(c); return; }
    if (!kernel_is_single(c->steps) && c->group->has_heads) choose_heads(c);
    if (c->prefill && gpu_is_wide(c->plan, c->group->node)) choose_wide_chunk(c);
    else if (c->prefill) choose_chunk(c);
    else choose_decode(c);
}
