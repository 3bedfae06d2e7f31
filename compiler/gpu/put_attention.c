/* put_attention.c -- attention, and the heads that a projection made for it. */
#include "compiler/source/text.h"
#include "put.h"
#include "templates/gpu/attention_wide_sizes.h"

typedef unsigned long long ull;

static const struct node *keys_of(const struct emitter *e) { return e->group->node->inputs[1]; }

/* "heads, KV heads, head_dim, n_ctx" */
static const char *shape_of(struct emitter *e)
{
    const struct node *n = e->group->node;
    return arena_printf(e->arena, "/* heads */ %u, %u, /* head_dim */ %u, /* n_ctx */ %u", n->heads, keys_of(e)->heads, n->attr.head_dim,
                        e->plan->options.n_ctx);
}

/* "window, ring": positions that a token attends, and rows of the cache if it is a ring buffer. */
static const char *window_of(struct emitter *e)
{
    const struct node *n = e->group->node;
    return arena_printf(e->arena, "/* window, ring */ %u, %u", plan_window(e->plan, n), state_ring(plan_state(e->plan, n)));
}

/* " cap, sinks," if an attention of the program has a cap or sinks. */
static const char *more_of(struct emitter *e)
{
    const struct node *n = e->group->node;
    if (!e->plan->gpu->has_more) return "";
    return arena_printf(e->arena, " /* cap, sinks */ %s, %s,", emit_float(e->arena, n->attr.cap), gpu_vector(e, n->weight));
}

/* Row t of operand i as the projection made it. If attention finishes no heads, only q has a row. */
static const char *operand_row(struct emitter *e, uint32_t i, const char *t)
{
    if (e->group->has_heads) return gpu_row(e, gpu_read(e->plan, e->group->heads[i].raw), t);
    return i ? "0" : gpu_row(e, gpu_read(e->plan, e->group->node->inputs[0]), t);
}

static const struct weight *norm_of(const struct emitter *e, uint32_t i)
{
    const struct node *norm = e->group->has_heads ? e->group->heads[i].norm : NULL;
    return norm ? norm->weight : NULL;
}

static double eps_of(const struct emitter *e)
{
    const struct head_chain *h = e->group->heads;
    return !e->group->has_heads ? 0 : h[0].norm ? h[0].norm->attr.eps : h[1].norm ? h[1].norm->attr.eps : 0;
}

/* Arguments: the norms of q and k, then the tables and constants of token t's rotation, or zeros if another kernel finishes the heads or
 * there is no rotation. */
static void put_finishing(struct emitter *e, bool finishes, const char *t)
{
    const struct node *rope = finishes && e->group->has_heads ? e->group->heads[0].rope : NULL;
    const struct weight *q_norm = finishes ? norm_of(e, 0) : NULL, *k_norm = finishes ? norm_of(e, 1) : NULL;
    gpu_put(e, "    /* norms */ %s, %s, %s,", gpu_vector(e, q_norm), gpu_vector(e, k_norm), emit_float(e->arena, finishes ? eps_of(e) : 0));
    if (rope) gpu_put(e, "    %s, %s,", gpu_tables(e, rope, t), gpu_rotation(e, rope));
    else gpu_put(e, "    0, 0, /* n_rot */ 0, /* neox */ 0, /* block */ 1,");
}

/* Arguments: parts and counters; of columns, each token has separate ones. */
static void put_parts(struct emitter *e, bool columns)
{
    if (!columns) {
        gpu_put(e, "    /* parts */ FLOATS(ARENA_PARTS), FLOATS(ARENA_MAXIMA), (uint32_t *)(void *)BUFFER(ARENA_COUNTERS),");
        return;
    }
    const struct gpu_group *gg = &e->plan->gpu->groups[e->group - e->plan->fused->groups];
    const struct attention_areas one = gpu_attention_areas(e->plan, e->group->node, &gg->attention);
    gpu_put(e, "    /* parts */ FLOATS(ARENA_PARTS) + group_y() * %llu, FLOATS(ARENA_MAXIMA) + group_y() * %llu,", (ull)(one.parts / 4),
            (ull)(one.ml / 4));
    gpu_put(e, "    (uint32_t *)(void *)BUFFER(ARENA_COUNTERS) + group_y() * %llu,", (ull)(one.counters / 4));
}

/* "heads, KV heads, columns of K, of V, whether V is a view, n_ctx" */
static const char *wide_shape_of(struct emitter *e)
{
    const struct node *n = e->group->node;
    const struct gpu_wide w = gpu_wide(e->plan, n);
    return arena_printf(e->arena, "/* heads */ %u, %u, /* columns of K, of V */ %u, %u, /* view */ %u, /* n_ctx */ %u", n->heads,
                        keys_of(e)->heads, w.dim, w.value_dim, w.view, e->plan->options.n_ctx);
}

/* The plane of V. */
static const char *wide_values(struct emitter *e)
{
    const struct node *n = e->group->node;
    const struct gpu_wide w = gpu_wide(e->plan, n);
    const uint32_t ring = state_ring(plan_state(e->plan, n));
    return gpu_values(e, n, keys_of(e)->heads, ring ? ring : e->plan->options.n_ctx, w.value_dim);
}

static void put_wide_decode(struct emitter *e)
{
    const struct kernel *k = e->kernel;
    const bool columns = k->template == TEMPLATE_attention_columns;
    const char *t = columns ? "group_y()" : "0";
    gpu_put_idle(e);
    gpu_put(e, "attention_wide_decode(a, %s,", gpu_row(e, gpu_written(e->plan, e->group->node, false), t));
    gpu_put(e, "    /* q */ %s, /* values */ %s,", operand_row(e, 0, t), wide_values(e));
    put_parts(e, columns);
    gpu_put(e, "    %s, %s, /* splits */ %u, /* spans, of positions */ %u, %u,%s", wide_shape_of(e),
            emit_float(e->arena, e->group->node->attr.scale), k->param[PARAM_SPLITS], k->param[PARAM_SPANS], k->param[PARAM_SPAN],
            more_of(e));
    gpu_put(e, "    /* cluster */ %u, %s, /* single */ %u);", k->param[PARAM_CLUSTER] > 0, window_of(e), !columns);
}

void gpu_put_attention_decode(struct emitter *e)
{
    const struct kernel *k = e->kernel;
    const struct plan *p = e->plan;
    const struct node *n = e->group->node;
    const bool columns = k->template == TEMPLATE_attention_columns;
    const char *t = columns ? "group_y()" : "0", *none = "0, 0";
    if (gpu_is_wide(p, n)) {
        put_wide_decode(e);
        return;
    }
    gpu_put_idle(e);
    gpu_put(e, "attention_decode(a, %s,", gpu_row(e, gpu_written(p, n, false), t));
    gpu_put(e, "    /* q, k, v */ %s, %s,", operand_row(e, 0, t),
            columns ? none : arena_printf(e->arena, "%s, %s", operand_row(e, 1, t), operand_row(e, 2, t)));
    put_finishing(e, !columns, t);
    put_parts(e, columns);
    gpu_put(e, "    %s, %s, /* splits */ %u, /* spans, of positions */ %u, %u, /* rows */ %u,", shape_of(e),
            emit_float(e->arena, n->attr.scale), k->param[PARAM_SPLITS], k->param[PARAM_SPANS], k->param[PARAM_SPAN], k->param[PARAM_ROWS]);
    gpu_put(e, "    /* digits */ %u,%s", k->param[PARAM_DIGITS], more_of(e));
    gpu_put(e, "    /* threads */ %u, /* cluster */ %u, %s, /* single, recalls */ %u, %u);", k->param[PARAM_THREADS],
            k->param[PARAM_CLUSTER] > 0, window_of(e), !columns, columns && e->group->has_heads);
}

void gpu_put_heads(struct emitter *e)
{
    gpu_put_token(e);
    gpu_put(e, "qkv_finish(a, t, %s, %s, %s,", operand_row(e, 0, "t"), operand_row(e, 1, "t"), operand_row(e, 2, "t"));
    put_finishing(e, true, "t");
    gpu_put(e, "    %s, %u, /* ring */ %u);", shape_of(e), e->kernel->param[PARAM_THREADS],
            state_ring(plan_state(e->plan, e->group->node)));
}

void gpu_put_attention_prefill(struct emitter *e)
{
    const struct node *n = e->group->node;
    const struct gpu_place q = gpu_read(e->plan, e->group->has_heads ? e->group->heads[0].raw : n->inputs[0]),
                           out = gpu_written(e->plan, n, true);
    const uint32_t as = out.form == FORM_F16 ? 1 : out.form == FORM_BF16 ? 2 : 0;
    const uint32_t digits = e->kernel->param[PARAM_DIGITS], threads = e->kernel->param[PARAM_THREADS];
    const char *scale = emit_float(e->arena, n->attr.scale);
    const bool fours = gpu_attention_in_fours(e->plan, digits, n->attr.head_dim, threads);
    gpu_put_start(e);
    if (gpu_is_wide(e->plan, n)) {
        gpu_put(e, "attention_wide(a, BUFFER(AT_%s), STRIDE_%s, /* as */ %u, BUFFER(AT_%s), STRIDE_%s, %s,", out.symbol, out.symbol, as,
                q.symbol, q.symbol, wide_values(e));
        const struct gpu_wide w = gpu_wide(e->plan, n);
        gpu_put(e, "    %s, %s,%s", wide_shape_of(e), scale, more_of(e));
        gpu_put(e, "    /* parts */ %s, /* at most, of positions */ %u, %u, /* in fours */ %u, /* causal */ %u, %s);",
                w.prefill_splits > 1 ? "FLOATS(ARENA_PARTS), (uint32_t *)(void *)BUFFER(ARENA_COUNTERS)" : "0, 0", w.prefill_splits,
                WIDE_FOURS_LEAST, w.fours, n->attr.causal, window_of(e));
        return;
    }
    gpu_put(e, "attention_prefill%s(a, BUFFER(AT_%s), STRIDE_%s, /* as */ %u, BUFFER(AT_%s), STRIDE_%s,", n->attr.causal ? "" : "_all",
            out.symbol, out.symbol, as, q.symbol, q.symbol);
    if (!n->attr.causal) gpu_put(e, "    %s, %s, /* digits */ %u, %u, /* in fours */ %u);", shape_of(e), scale, digits, threads, fours);
    else gpu_put(e, "    %s, %s, /* digits */ %u,%s %u, /* in fours */ %u, %s);", shape_of(e), scale, digits, more_of(e), threads, fours,
                 window_of(e));
}

/* One of the four steps over scores in memory (see gpu_in_steps). */
void gpu_put_attention_step(struct emitter *e)
{
    const struct plan *p = e->plan;
    const struct node *n = e->group->node;
    const uint32_t threads = e->kernel->param[PARAM_THREADS];
    const enum kernel_template step = e->kernel->template;
    const char *scores = "FLOATS(ARENA_SCORES)", *rows = arena_printf(e->arena, "/* rows */ %u", p->chunk);
    gpu_put_token(e);
    if (step == TEMPLATE_scores) {
        const char *q = gpu_row(e, gpu_read(p, n->inputs[0]), "t");
        gpu_put(e, "attention_scores(a, %s, %s, t, %s,", scores, q, rows);
        gpu_put(e, "    %s, %s, /* cap */ %s, %u, %s);", shape_of(e), emit_float(e->arena, n->attr.scale),
                emit_float(e->arena, n->attr.cap), threads, window_of(e));
    }
    else if (step == TEMPLATE_weighted_sum) {
        const uint32_t ring = state_ring(plan_state(p, n)), dim = n->inputs[2]->attr.head_dim;
        const char *values = gpu_values(e, n, keys_of(e)->heads, ring ? ring : p->options.n_ctx, dim);
        const char *of_rows = !p->gpu->has_views ? ""
                              : arena_printf(e->arena, " /* of a row */ %u,", plan_values_in_keys(p, n) ? n->attr.head_dim : dim);
        gpu_put(e, "attention_weighted_sum(a, %s, %s, %s, t, %s,", gpu_row(e, gpu_read(p, n), "t"), scores, values, rows);
        gpu_put(e, "    /* heads */ %u, %u, /* head_dim */ %u,%s /* n_ctx */ %u, %u, %s);", n->heads, keys_of(e)->heads, dim,
                of_rows, p->options.n_ctx, threads, window_of(e));
    }
    else if (step == TEMPLATE_softmax)
        gpu_put(e, "attention_softmax(a, %s, %s, t, %s, /* n_ctx */ %u, %u, /* window */ %u);", scores, gpu_vector(e, n->weight), rows,
                p->options.n_ctx, threads, plan_window(p, n));
    else gpu_put(e, "attention_mask(a, %s, t, %s, /* n_ctx */ %u, %u);", scores, rows, p->options.n_ctx, threads);
}
