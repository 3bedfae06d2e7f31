/* put_values.c -- operations on single values of rows. They are lines that change `y`, the value from a product, a map or a state. In
 * scope: t and r, token and column; y; with a partner also up. */
#include "put.h"
#include "templates/gpu/slices_sizes.h"

/* Column r, an expression, of token t's row. */
static const char *item_of(struct wgsl_writer *w, const struct node *n, const char *r)
{
    return arena_printf(w->arena, "arena_f32(%s + %s)", web_value(w, n, "t"), r);
}

static uint32_t rows_each(const struct node *n) { return n->cols / n->inputs[1]->attr.used; }

/* The expert's number for column r in the weight of n, or its only number. */
static const char *picked(struct wgsl_writer *w, const struct node *n)
{
    const uint32_t rows = rows_each(n);
    const char *id = arena_printf(w->arena, "picked_id(%s, %uu, r / %uu)", web_value(w, n->inputs[1], "t"), n->inputs[1]->attr.used, rows);
    web_use(w, "slices.wgsl", (struct web_words){ 0 });
    if (n->weight->is_vector) return arena_printf(w->arena, "picked_row(%s, %s, 0u, 1u)", web_vector(w, n->weight), id);
    return arena_printf(w->arena, "picked_row(%s, %s, r %% %uu, %uu)", web_vector(w, n->weight), id, rows,
                        (uint32_t)plan_weight_stride(w->plan, n->weight));
}

/* The other operand of operation i: `up`, or a value in memory. */
static const char *other(struct wgsl_writer *w, const struct branch *b, uint32_t i)
{
    const struct node *n = b->chain[i];
    if (fuse_reads_partner(w->group, b, n)) return "up";
    const struct node *value = gpu_addend(b, i);
    return item_of(w, value, value->cols == 1 && n->cols > 1 ? "0u" : "r");
}

static void put_glu(struct wgsl_writer *w, const struct branch *b, uint32_t i)
{
    const struct node *n = b->chain[i];
    const bool is_gate = n->inputs[0] == gpu_operand(b, i);
    const char *more = other(w, b, i), *gate = is_gate ? "y" : more, *up = is_gate ? more : "y";
    if (n->op == OP_glu_oai)
        web_put(w, "y = glu_oai_f32(%s, %s, %s, %s);", gate, up, web_float(w, n->attr.alpha), web_float(w, n->attr.limit));
    else web_put(w, "y = %s_f32(%s) * %s;", n->op == OP_glu_silu ? "silu" : "gelu", gate, up);
}

static const char *number_of(struct wgsl_writer *w, const struct weight *v, const char *r)
{
    return arena_printf(w->arena, "vector_f32(%s, %s)", web_vector(w, v), r);
}

/* An operation with the numbers of a tensor, on y or on up; false: n is another operation. */
static bool put_with_tensor(struct wgsl_writer *w, const struct node *n, const char *y)
{
    const uint32_t each = n->weight ? (uint32_t)(n->cols / n->weight->cols) : 0;
    switch (n->op) {
    case OP_bias:         web_put(w, "%s += %s;", y, number_of(w, n->weight, "r")); return true;
    case OP_expert_bias:  web_put(w, "%s += %s;", y, picked(w, n)); return true;
    case OP_expert_times: web_put(w, "%s *= %s;", y, picked(w, n)); return true;
    case OP_times:
        web_put(w, "%s *= %s;", y,
                number_of(w, n->weight, n->weight->cols == 1 ? "0u" : each == 1 ? "r" : arena_printf(w->arena, "r / %uu", each)));
        return true;
    default: return false;
    }
}

void web_put_partner(struct wgsl_writer *w, const struct branch *up)
{
    for (uint32_t i = 0; i < up->n_chain; i++)                             /* rule_gate of fuse.c accepts no others */
        if (!put_with_tensor(w, up->chain[i], "up"))
            die("%%%s beside a gate: forgec has no kernel of WebGPU for it; this is a mistake in forgec, please report it",
                up->chain[i]->name);
}

static void put_operation(struct wgsl_writer *w, const struct branch *b, uint32_t i)
{
    const struct node *n = b->chain[i];
    const struct node_attrs *at = &n->attr;
    if (put_with_tensor(w, n, "y")) return;
    if (op_is_function(n->op)) { web_put(w, "y = %s_f32(y);", op_info[n->op].name); return; }
    if (op_is_gate(n->op)) { put_glu(w, b, i); return; }
    switch (n->op) {
    case OP_add:          web_put(w, "y += %s;", other(w, b, i)); break;
    case OP_mul:          web_put(w, "y *= %s;", other(w, b, i)); break;
    case OP_scale:        if (at->by != 1) web_put(w, "y *= %s;", web_float(w, at->by)); break;
    case OP_softcap:      if (at->cap != 0) web_put(w, "y = softcap_f32(y, %s);", web_float(w, at->cap)); break;
    case OP_temperature:
        web_put(w, "y *= temperature_f32(step.n_past + t, %s, %uu);", web_float(w, at->by), at->n_ctx_orig);
        break;
    case OP_add_position:
        web_put(w, "y += vector_f32(%s, (step.n_past + t) * %uu + r);", web_vector(w, n->weight),
                (uint32_t)plan_weight_stride(w->plan, n->weight));
        break;
    default: die("%s after other operations: forgec has no kernel of WebGPU for it; this is a mistake in forgec, please report it",
                 op_info[n->op].name);
    }
}

void web_put_chain(struct wgsl_writer *w, const struct branch *b, uint32_t from, uint32_t to)
{
    web_use(w, "functions.wgsl", (struct web_words){ 0 });
    web_use(w, "rows.wgsl", (struct web_words){ 0 });
    for (uint32_t i = from; i < to; i++) put_operation(w, b, i);
}

void web_put_result(struct wgsl_writer *w, const struct node *n) { web_put(w, "arena_put(%s + r, y);", web_value(w, n, "t")); }

/* ---- maps ---- */

const char *web_tables(struct wgsl_writer *w, const struct node *rope)
{
    const struct rotation_plan *r = &w->plan->rotations[rope->rotation];
    const char *hi = web_vector_at(w, r->hi), *lo = web_vector_at(w, r->lo);
    if (!r->lo_far) return arena_printf(w->arena, "%s, %s", hi, lo);
    return arena_printf(w->arena, "%s + step.far * %lluu, %s + step.far * %lluu", hi, (unsigned long long)(r->hi_far / 16), lo,
                        (unsigned long long)(r->lo_far / 16));
}

/* Arguments: a rotation's tables, the position of token t, and the rotation's sizes. */
static const char *rotation_of(struct wgsl_writer *w, const struct node *rope)
{
    const struct rotation_plan *r = &w->plan->rotations[rope->rotation];
    return arena_printf(w->arena, "%s, step.n_past + t, %uu, %uu, %uu", web_tables(w, rope), rope->attr.n_rot, (unsigned)rope->attr.neox,
                        r->block);
}

/* The first value of a chain, and the index of the operation that works on it. */
static const char *first_value(struct wgsl_writer *w, const struct branch *b, uint32_t *next)
{
    const struct node *n = b->chain[0];
    const struct node_attrs *at = &n->attr;
    const char *x = web_value(w, n->inputs[0], "t");
    *next = 1;
    switch (n->op) {
    case OP_part:
        return arena_printf(w->arena, "arena_f32(%s + r / %uu * %uu + r %% %uu + %uu)", x, at->count, at->every, at->count, at->first);
    case OP_join: {
        const uint32_t head = n->cols / n->heads, one = at->head_dim;
        web_put(w, "var at = %s + r / %uu * %uu + r %% %uu;", x, head, one, head);
        web_put(w, "if (r %% %uu >= %uu) { at = %s + r / %uu * %uu + r %% %uu - %uu; }", head, one, web_value(w, n->inputs[1], "t"), head,
                head - one, head, one);
        return "arena_f32(at)";
    }
    case OP_rope:
        return arena_printf(w->arena, "rotated_f32(%s, r, %s, %uu, %uu)", x, rotation_of(w, n), at->head_dim, at->rot_first);
    case OP_expert_sum:
        web_use(w, "slices.wgsl", (struct web_words){ 0 });
        return arena_printf(w->arena, "picked_sum(%s, %s, r, %uu, %uu)", x, web_value(w, n->inputs[1], "t"), n->cols,
                            n->inputs[1]->attr.used);
    default: break;
    }
    *next = 0;
    return arena_printf(w->arena, "arena_f32(%s + r)", x);
}

/* Declares r: each invocation has one column. */
static void put_column(struct wgsl_writer *w, uint32_t cols)
{
    web_put(w, "let r = group.x * THREADS + thread;");
    if (cols % w->kernel->param[PARAM_THREADS]) web_put(w, "if (r >= %uu) { return; }", cols);
}

/* The function that applies the operations of the chain, from operation `from` on, to a value and stores it. */
static void put_sink(struct wgsl_writer *w, const struct branch *b, uint32_t from)
{
    const struct text outer = web_function_begin(w);
    web_put(w, "var y = value;");
    web_put_chain(w, b, from, b->n_chain);
    web_put_result(w, b->result);
    web_function_end(w, outer, "sink_row(t: u32, r: u32, value: f32)");
}

static void put_heads_normed(struct wgsl_writer *w, const struct branch *b)
{
    const struct node *n = b->chain[0];
    const bool whole = n->weight && n->weight->cols == n->cols;
    const char *how = n->op == OP_l2norm ? "HEADS_UNIT" : n->op == OP_layernorm_heads ? "HEADS_CENTERED" : "HEADS_RMS";
    put_sink(w, b, 1);
    web_use(w, "rows.wgsl", (struct web_words){ .sink = "row" });
    web_put(w, "heads_normed_row(t, %s, %s, %uu, %s, %s, %uu, group.x, thread);", web_value(w, n->inputs[0], "t"),
            web_vector(w, n->weight), (unsigned)whole, how, web_float(w, n->attr.eps), n->attr.head_dim);
}

/* The sum of experts and the operations after it. */
static void put_sum(struct wgsl_writer *w)
{
    const struct branch *b = &w->group->branches[0];
    const uint32_t sum = gpu_sum_at(b), used = w->group->choice->attr.used, cols = b->chain[sum]->cols;
    web_use(w, "slices.wgsl", (struct web_words){ 0 });
    put_column(w, cols);
    web_put(w, "var y = picked_sum(%s, %s, r, %uu, %uu);", web_row(w, web_place_in(b->chain[sum]->inputs[0], &w->wg->rows), "t"),
            web_value(w, w->group->choice, "t"), cols, used);
    web_put_chain(w, b, sum + 1, b->n_chain);
    web_put_result(w, b->result);
}

void web_put_map(struct wgsl_writer *w)
{
    const struct branch *b = &w->group->branches[0];
    const struct node *n = b->chain[0];
    uint32_t next;
    if (w->group->kind == GROUP_SLICES) { put_sum(w); return; }
    if (n->op == OP_store_k || n->op == OP_store_v) { web_put_store(w); return; }
    web_use(w, "rows.wgsl", (struct web_words){ 0 });
    if (n->op == OP_headnorm || gpu_map_of(w->group) == MAP_HEADS) { put_heads_normed(w, b); return; }
    put_column(w, n->cols);
    const char *y = first_value(w, b, &next);
    web_put(w, "var y = %s;", y);
    web_put_chain(w, b, next, b->n_chain);
    web_put_result(w, b->result);
}

/* ---- operations with a state ---- */

/* Row 0 of a value and the number of words from row to row. */
static const char *rows_of(struct wgsl_writer *w, const struct node *n)
{
    const struct web_place at = web_place_of(w->plan, n);
    return arena_printf(w->arena, "%uu, %uu", (uint32_t)(at.offset / 4), (uint32_t)(at.stride / 4));
}

static void put_recur(struct wgsl_writer *w, const struct branch *b)
{
    const struct node *n = b->chain[0];
    const struct node_attrs *at = &n->attr;
    struct text values = { .arena = w->arena }, strides = { .arena = w->arena };
    web_constant(w, "RECUR_PARTS", RECUR_PARTS(at->head_dim));
    web_constant(w, "RECUR_ROWS", at->head_dim / RECUR_PARTS(at->head_dim));
    for (uint32_t i = 0; i < 5; i++) {
        const struct web_place of = web_place_of(w->plan, n->inputs[i]);
        text_printf(&values, "%uu, ", (uint32_t)(of.offset / 4));
        text_printf(&strides, ", %uu", (uint32_t)(of.stride / 4));
    }
    web_put(w, "let shape = recur(%uu, %uu, %uu, %uu, %uu, %uu, %uu%s);", n->heads, n->inputs[0]->cols / at->head_dim, at->head_dim,
            at->value_dim, (unsigned)at->delta, (unsigned)at->modulo, (unsigned)(n->inputs[3]->cols != n->heads), text_str(&strides));
    web_put(w, "recur_rows_row(%sshape, step.n_tokens, group.x, thread);", text_str(&values));
}

/* A recurrence or a convolution. */
void web_put_sequence(struct wgsl_writer *w)
{
    const struct branch *b = &w->group->branches[0];
    const struct node *n = b->chain[0];
    const unsigned keeps = !w->kernel->prefill, taps = n->op == OP_conv ? (unsigned)n->weight->cols : 0;
    if (w->kernel->template == TEMPLATE_conv_keep) {
        web_use(w, "sequence.wgsl", (struct web_words){ .sink = "row" });
        web_put(w, "conv_keep(%s, %uu, %uu, step.n_tokens, group.x, thread);", rows_of(w, n->inputs[0]), n->cols, taps);
        return;
    }
    put_sink(w, b, 1);
    web_use(w, "sequence.wgsl", (struct web_words){ .sink = "row" });
    if (n->op == OP_recur) put_recur(w, b);
    else
        web_put(w, "conv_rows_row(%s, %s, %uu, %uu, %uu, %uu, step.n_tokens, group.x, group.y, thread);", rows_of(w, n->inputs[0]),
                web_vector(w, n->weight), (unsigned)plan_weight_stride(w->plan, n->weight), n->cols, taps, keeps);
}

/* ---- routers ---- */

void web_put_route(struct wgsl_writer *w)
{
    const struct node *n = w->group->node;
    const struct node_attrs *at = &n->attr;
    web_use(w, "slices.wgsl", (struct web_words){ 0 });
    web_constant(w, "EXPERTS", n->inputs[0]->cols);
    web_put(w, "route_token(%s, %s, %s, %uu, %uu, %uu, %uu, %uu, %uu, %s, thread);", web_value(w, n, "t"), web_value(w, n->inputs[0], "t"),
            web_vector(w, n->weight), n->inputs[0]->cols, at->used, (unsigned)at->gating, at->n_group, at->n_group_used,
            (unsigned)at->norm, web_float(w, at->by));
}
