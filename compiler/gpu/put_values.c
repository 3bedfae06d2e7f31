/* put_values.c -- operations on single values of rows. They are lines that change `y`, the value from a product, a map or a state. In
 * scope: a, the kernel's arguments; t and r, token and column; y; with a partner also up. */
#include "compiler/source/text.h"
#include "put.h"
#include "templates/gpu/slices_sizes.h"

/* Row t of a value. */
static const char *row_of(struct emitter *e, const struct node *n) { return gpu_row(e, gpu_read(e->plan, n), "t"); }

/* Columns of one expert's row, for an operation n on rows of experts. */
static uint32_t rows_each(const struct node *n) { return n->cols / n->inputs[1]->attr.used; }

/* The number of the expert that column r belongs to. */
static const char *expert_of(struct emitter *e, const struct node *n)
{
    if (gpu_chooses(e->gg, e->kernel)) return arena_printf(e->arena, "%s[r / %u]", gpu_route_ids(e), rows_each(n));
    return arena_printf(e->arena, "picked_id(%s, %u, r / %u)", row_of(e, n->inputs[1]), n->inputs[1]->attr.used, rows_each(n));
}

/* The expert's number for column r in the weight of n, or its only number. */
static const char *picked(struct emitter *e, const struct node *n)
{
    const char *id = expert_of(e, n);
    if (n->weight->is_vector) return arena_printf(e->arena, "picked_row(%s, %s, 0, /* stride */ 1)", gpu_vector(e, n->weight), id);
    return arena_printf(e->arena, "picked_row(%s, %s, r %% %u, /* stride */ %llu)", gpu_vector(e, n->weight), id, rows_each(n),
                        (unsigned long long)plan_weight_stride(e->plan, n->weight));
}

/* The other operand of operation i: `up`, or a value in memory. */
static const char *other(struct emitter *e, const struct branch *b, uint32_t i)
{
    const struct node *n = b->chain[i];
    if (fuse_reads_partner(e->group, b, n)) return "up";
    const struct node *value = gpu_addend(b, i);
    return arena_printf(e->arena, "%s[%s]", row_of(e, value), value->cols == 1 && n->cols > 1 ? "0" : "r");
}

static void put_glu(struct emitter *e, const struct branch *b, uint32_t i)
{
    const struct node *n = b->chain[i];
    const bool is_gate = n->inputs[0] == gpu_operand(b, i);
    const char *more = other(e, b, i), *gate = is_gate ? "y" : more, *up = is_gate ? more : "y";
    if (n->op == OP_glu_oai)
        gpu_put(e, "y = glu_oai_f32(%s, %s, %s, %s);", gate, up, emit_float(e->arena, n->attr.alpha), emit_float(e->arena, n->attr.limit));
    else gpu_put(e, "y = %s_f32(%s) * %s;", n->op == OP_glu_silu ? "silu" : "gelu", gate, up);
}

/* An operation with the numbers of a tensor, on y or on up; false: n is another operation. */
static bool put_with_tensor(struct emitter *e, const struct node *n, const char *y)
{
    const uint32_t each = n->weight ? (uint32_t)(n->cols / n->weight->cols) : 0;
    switch (n->op) {
    case OP_bias:         gpu_put(e, "%s += %s[r];", y, gpu_vector(e, n->weight)); return true;
    case OP_expert_bias:  gpu_put(e, "%s += %s;", y, picked(e, n)); return true;
    case OP_expert_times: gpu_put(e, "%s *= %s;", y, picked(e, n)); return true;
    case OP_times:
        gpu_put(e, "%s *= %s[%s];", y, gpu_vector(e, n->weight),
                n->weight->cols == 1 ? "0" : each == 1 ? "r" : arena_printf(e->arena, "r / %u", each));
        return true;
    default: return false;
    }
}

void gpu_put_partner(struct emitter *e, const struct branch *up)
{
    for (uint32_t i = 0; i < up->n_chain; i++)                             /* rule_gate of fuse.c accepts no others */
        if (!put_with_tensor(e, up->chain[i], "up"))
            die("%%%s beside a gate: forgec has no GPU kernel for it; this is a mistake in forgec, please report it", up->chain[i]->name);
}

static void put_operation(struct emitter *e, const struct branch *b, uint32_t i)
{
    const struct node *n = b->chain[i];
    const struct node_attrs *at = &n->attr;
    if (put_with_tensor(e, n, "y")) return;
    if (op_is_function(n->op)) { gpu_put(e, "y = %s_f32(y);", op_info[n->op].name); return; }
    if (op_is_gate(n->op)) { put_glu(e, b, i); return; }
    switch (n->op) {
    case OP_add:          gpu_put(e, "y += %s;", other(e, b, i)); break;
    case OP_mul:          gpu_put(e, "y *= %s;", other(e, b, i)); break;
    case OP_scale:        if (at->by != 1) gpu_put(e, "y *= %s;", emit_float(e->arena, at->by)); break;
    case OP_softcap:      if (at->cap != 0) gpu_put(e, "y = softcap_f32(y, %s);", emit_float(e->arena, at->cap)); break;
    case OP_temperature:
        gpu_put(e, "y *= temperature_f32(position_of(a, t), %s, %u);", emit_float(e->arena, at->by), at->n_ctx_orig);
        break;
    case OP_add_position:
        gpu_put(e, "y += %s[(uint64_t)position_of(a, t) * %llu + r];", gpu_vector(e, n->weight),
                (unsigned long long)plan_weight_stride(e->plan, n->weight));
        break;
    case OP_push:
    case OP_send:         break;                                           /* gpu_put_result */
    default: die("%s after other operations: forgec has no GPU kernel for it; this is a mistake in forgec, please report it",
                 op_info[n->op].name);
    }
}

void gpu_put_chain(struct emitter *e, const struct branch *b, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) put_operation(e, b, i);
}

/* Arguments for the functions of collective.h that push or receive value by value; the last one is the row. */
static const char *collective_of(struct emitter *e, const struct node *given)
{
    const struct gpu_place at = gpu_given(e->plan, given);
    return arena_printf(e->arena, "/* half */ %lluu, /* rows, of */ %u, %llu, %s", (unsigned long long)e->plan->gpu->collective_half,
                        gpu_given_rows(e->plan, given), (unsigned long long)at.stride,
                        gpu_pushes_logits(given) ? "t - first_token(a)" : "t");
}

/* The same for the functions of layers.h. */
static const char *passed_of(struct emitter *e, const struct node *n)
{
    const struct gpu_place at = gpu_given(e->plan, n);
    return arena_printf(e->arena, "/* part */ %lluu, /* at */ %lluu, /* of */ %llu, t",
                        (unsigned long long)gpu_passed_bytes(e->plan, NULL, n->op), (unsigned long long)at.offset,
                        (unsigned long long)at.stride);
}

static void put_send(struct emitter *e, const struct node *n, const char *y)
{
    gpu_put(e, "layers_send(a, a.collective[%u], %s, r, %s);", e->plan->options.rank + 1, passed_of(e, n), y);
}

/* Arguments for the functions of collective.h on rows of a prompt; the last two are this GPU's own rows and their stride in floats. */
static const char *collective_rows_of(struct emitter *e, const struct node *given)
{
    const struct gpu_plan *g = e->plan->gpu;
    const struct gpu_place own = gpu_read(e->plan, given);
    gpu_put(e, "const struct collective_rows of = { /* half */ %lluu, /* flags at */ %llu, /* values at */ %llu, "
            "/* tokens */ %u, %u, %u };",
            (unsigned long long)g->collective_half, (unsigned long long)g->collective_flags, (unsigned long long)g->collective_values,
            e->plan->chunk, given->cols, e->kernel->param[PARAM_THREADS]);
    return arena_printf(e->arena, "of, FLOATS(AT_%s), STRIDE_%s / 4", own.symbol, own.symbol);
}

void gpu_put_result(struct emitter *e, const struct node *n)
{
    const struct gpu_place at = gpu_written(e->plan, n, e->kernel->prefill);
    if (at.form == FORM_GIVEN && n->op == OP_send) {
        put_send(e, n, "y");
        return;
    }
    if (at.form == FORM_GIVEN) {
        gpu_put(e, "collective_push(a, %s, r, y);", collective_of(e, n));
        return;
    }
    if (at.form != FORM_F16 && at.form != FORM_BF16) gpu_put(e, "%s[r] = y;", gpu_row(e, at, "t"));
    else
        gpu_put(e, "((uint16_t *)(void *)ROW(AT_%s, STRIDE_%s, t))[r] = (uint16_t)stage_%s(y);", at.symbol, at.symbol,
                at.form == FORM_F16 ? "f16" : "bf16");
}

/* ---- maps ---- */

/* The first value of a chain, and the index of the operation that works on it. */
static const char *first_value(struct emitter *e, const struct branch *b, uint32_t *next)
{
    const struct node *n = b->chain[0];
    const struct node_attrs *at = &n->attr;
    *next = 1;
    if (n->op == OP_receive) return arena_printf(e->arena, "layers_received(a, %s, r)", passed_of(e, n));
    const char *x = row_of(e, n->inputs[0]);
    switch (n->op) {
    case OP_part: return arena_printf(e->arena, "%s[r / %u * %u + r %% %u + %u]", x, at->count, at->every, at->count, at->first);
    case OP_join: {
        const uint32_t head = n->cols / n->heads, one = at->head_dim;
        return arena_printf(e->arena, "r %% %u < %u ? %s[r / %u * %u + r %% %u] : %s[r / %u * %u + r %% %u - %u]", head, one, x, head, one,
                            head, row_of(e, n->inputs[1]), head, head - one, head, one);
    }
    case OP_rope:
        return arena_printf(e->arena, "rotated_f32(%s, r, %s, position_of(a, t), %s, /* head_dim */ %u, /* from */ %u)", x,
                            gpu_tables(e, n, "t"), gpu_rotation(e, n), at->head_dim, at->rot_first);
    case OP_expert_sum:
        return arena_printf(e->arena, "picked_sum(%s, %s, r, /* rows */ %u, %u)", x, row_of(e, n->inputs[1]), n->cols,
                            n->inputs[1]->attr.used);
    case OP_all_reduce:   return arena_printf(e->arena, "all_reduce_value(a, %s, r)", collective_of(e, n->inputs[0]));
    case OP_all_gather: return arena_printf(e->arena, "all_gather_value(a, %s, r, /* of */ %u)", collective_of(e, n->inputs[0]), n->cols);
    default: break;
    }
    *next = 0;
    return arena_printf(e->arena, "%s[r]", x);
}

/* Declares r: each thread has one column. */
static void put_column(struct emitter *e, uint32_t cols)
{
    const uint32_t threads = e->kernel->param[PARAM_THREADS];
    gpu_put(e, "const uint32_t r = group_x() * %u + thread_x();", threads);
    if (cols % threads) gpu_put(e, "if (r >= %u) return;", cols);
}

static void put_columns(struct emitter *e, uint32_t cols)
{
    gpu_put_token(e);
    put_column(e, cols);
}

/* The sums of a prompt's rows: a thread has the sums of COLLECTIVE_TOKENS tokens. */
static void put_taken_rows(struct emitter *e, const struct branch *b)
{
    const struct node *n = b->chain[0];
    gpu_put_start(e);
    put_column(e, n->cols);
    gpu_put(e, "float sums[COLLECTIVE_TOKENS];");
    gpu_put(e, "collective_read_rows(a, %s, r, sums);", collective_rows_of(e, n->inputs[0]));
    gpu_put(e, "UNROLL");
    gpu_put(e, "for (uint32_t i = 0; i < COLLECTIVE_TOKENS; i++) {");
    gpu_put(e, "if (i >= collective_piece(a)) break;");
    gpu_put(e, "const uint32_t t = first_token(a) + group_y() * COLLECTIVE_TOKENS + i;");
    gpu_put(e, "float y = sums[i];");
    gpu_put_chain(e, b, 1, b->n_chain);
    gpu_put_result(e, b->result);
    gpu_put(e, "}");
}

/* In a series each thread has columns of the whole row. It computes some of them before it stores the first, so that their loads are under
 * way together. */
static void put_row_values(struct emitter *e, const struct branch *b)
{
    enum { AHEAD = 8 };
    const uint32_t cols = b->chain[0]->cols, threads = e->kernel->param[PARAM_THREADS], turns = (cols + threads - 1) / threads,
                   ahead = turns < AHEAD ? turns : AHEAD;
    uint32_t next;
    gpu_put(e, "for (uint32_t first = thread_x(); first < %u; first += %u) {", cols, ahead * threads);
    gpu_put(e, "float values[%u];", ahead);
    gpu_put(e, "UNROLL");
    gpu_put(e, "for (uint32_t i = 0; i < %u; i++) {", ahead);
    gpu_put(e, "const uint32_t r = first + i * %u < %u ? first + i * %u : first;", threads, cols, threads);
    const char *y = first_value(e, b, &next);
    gpu_put(e, "float y = %s;", y);
    gpu_put_chain(e, b, next, b->n_chain);
    gpu_put(e, "values[i] = y;");
    gpu_put(e, "}");
    gpu_put(e, "UNROLL");
    gpu_put(e, "for (uint32_t i = 0; i < %u; i++) {", ahead);
    gpu_put(e, "const uint32_t r = first + i * %u;", threads);
    gpu_put(e, "const float y = values[i];");
    gpu_put(e, "if (r >= %u) break;", cols);
    gpu_put_result(e, b->result);
    gpu_put(e, "}");
    gpu_put(e, "}");
}

void gpu_put_values(struct emitter *e)
{
    const struct branch *b = &e->group->branches[0];
    uint32_t next;
    if (e->series) {
        put_row_values(e, b);
        return;
    }
    if (gpu_takes_rows(e->kernel)) {
        put_taken_rows(e, b);
        return;
    }
    put_columns(e, b->chain[0]->cols);
    const char *y = first_value(e, b, &next);
    gpu_put(e, "float y = %s;", y);
    gpu_put_chain(e, b, next, b->n_chain);
    gpu_put_result(e, b->result);
}

void gpu_put_push(struct emitter *e)
{
    const struct node *n = e->group->branches[0].result;
    if (n->op == OP_send) {
        put_columns(e, n->cols);
        put_send(e, n, arena_printf(e->arena, "%s[r]", row_of(e, n)));
        return;
    }
    gpu_put_start(e);
    gpu_put(e, "%s(a, %s);", e->kernel->template == TEMPLATE_push ? "collective_push_rows" : "collective_sum_rows",
            collective_rows_of(e, n));
}

void gpu_put_slices_sum(struct emitter *e)
{
    const struct branch *b = &e->group->branches[0];
    const uint32_t sum = gpu_sum_at(b), used = e->group->choice->attr.used, cols = b->chain[sum]->cols;
    put_columns(e, cols);
    gpu_put(e, "float y = picked_sum(%s, %s, r, /* rows */ %u, %u);", gpu_row(e, gpu_own(b->chain[sum], &e->gg->rows), "t"),
            row_of(e, e->group->choice), cols, used);
    gpu_put_chain(e, b, sum + 1, b->n_chain);
    gpu_put_result(e, b->result);
}

/* The function that applies the operations of the chain, from operation `from` on, to a value and stores it. */
static const char *sink(struct emitter *e, const struct branch *b, uint32_t from)
{
    const struct function_draft kernel = gpu_put_function_begin(e);
    gpu_put_chain(e, b, from, b->n_chain);
    gpu_put_result(e, b->result);
    return gpu_put_function_end(e, &kernel, arena_printf(e->arena, "%s_%s", e->group->name, e->kernel->prefill ? "rows" : "row"), "void",
                                GPU_OF_ROW ", float y");
}

void gpu_put_map_heads(struct emitter *e)
{
    const struct branch *b = &e->group->branches[0];
    const struct node *n = b->chain[0];
    const char *to = sink(e, b, 1);
    const bool whole = n->weight && n->weight->cols == n->cols;
    gpu_put_token(e);
    const char *how = n->op == OP_l2norm ? "HEADS_UNIT" : n->op == OP_layernorm_heads ? "HEADS_CENTERED" : "HEADS_RMS";
    gpu_put_each_head(e, n->cols / n->attr.head_dim);
    gpu_put(e, "head_normed(a, t, %s, %s, /* whole */ %u, %s, %s, item, /* head_dim */ %u, %s);", row_of(e, n->inputs[0]),
            gpu_vector(e, n->weight), whole, how, emit_float(e->arena, n->attr.eps), n->attr.head_dim, to);
    gpu_put_heads_end(e);
}

/* ---- operations with a state ---- */

/* Row 0 of a value and the number of floats from row to row. */
static const char *rows_of(struct emitter *e, const struct node *n)
{
    const struct gpu_place at = gpu_read(e->plan, n);
    return arena_printf(e->arena, "FLOATS(AT_%s), STRIDE_%s / 4", at.symbol, at.symbol);
}

const char *gpu_slot_bytes(struct emitter *e, const struct node *n)
{
    const uint32_t slots = plan_slots_of(e->plan, n);
    const uint64_t bytes = slots > 1 ? plan_state(e->plan, n)->bytes / slots : 0;
    return arena_printf(e->arena, "/* slots */ %llu", (unsigned long long)bytes);
}

void gpu_put_recall(struct emitter *e)
{
    const struct branch *b = &e->group->branches[0];
    const struct node *n = b->chain[0];
    const char *to = sink(e, b, 1);
    gpu_put_start(e);
    gpu_put(e, "recall_row(a, /* cols */ %u, %s, %u, %s);", n->cols, gpu_slot_bytes(e, n), e->kernel->param[PARAM_THREADS], to);
}

void gpu_put_conv(struct emitter *e)
{
    const struct branch *b = &e->group->branches[0];
    const struct node *n = b->chain[0];
    const char *to = sink(e, b, 1);
    gpu_put_start(e);
    if (n->op == OP_previous) {
        gpu_put(e, "previous_rows(a, %s, /* cols */ %u, /* keep */ %u, %s, /* single */ %u, %u, %s);", rows_of(e, n->inputs[0]), n->cols,
                !e->kernel->prefill, gpu_slot_bytes(e, n), e->kernel->param[PARAM_TOKENS], e->kernel->param[PARAM_THREADS], to);
        return;
    }
    gpu_put(e, "conv_rows(a, %s, %s, %llu, /* cols */ %u, /* taps */ %llu, /* keep */ %u, %s, /* single */ %u, %u, %s);",
            rows_of(e, n->inputs[0]), gpu_vector(e, n->weight), (unsigned long long)plan_weight_stride(e->plan, n->weight), n->cols,
            (unsigned long long)n->weight->cols, !e->kernel->prefill, gpu_slot_bytes(e, n), e->kernel->param[PARAM_TOKENS],
            e->kernel->param[PARAM_THREADS], to);
}

void gpu_put_conv_keep(struct emitter *e)
{
    const struct node *n = e->group->branches[0].chain[0];
    gpu_put_start(e);
    gpu_put(e, "conv_keep(a, %s, /* cols */ %u, /* taps */ %llu, %s, %u);", rows_of(e, n->inputs[0]), n->cols,
            n->weight ? (unsigned long long)n->weight->cols : 2, gpu_slot_bytes(e, n), e->kernel->param[PARAM_THREADS]);
}

void gpu_put_recur(struct emitter *e)
{
    const struct branch *b = &e->group->branches[0];
    const struct node *n = b->chain[0];
    const struct node_attrs *at = &n->attr;
    const char *to = sink(e, b, 1);
    static const char *const names[] = { "q", "k", "v", "g", "b" };
    gpu_put_start(e);
    gpu_put(e, "const struct recur of = { /* heads */ %u, %u, /* items */ %u, %u, /* delta, modulo, by row */ %u, %u, %u,", n->heads,
            n->inputs[0]->cols / at->head_dim, at->head_dim, at->value_dim, at->delta, at->modulo, n->inputs[3]->cols != n->heads);
    for (uint32_t i = 0; i < 5; i++)
        gpu_put(e, "    /* %s */ STRIDE_%s / 4%s", names[i], gpu_read(e->plan, n->inputs[i]).symbol, i < 4 ? "," : " };");
    struct text t = { .arena = e->arena };
    for (uint32_t i = 0; i < 5; i++) text_printf(&t, "FLOATS(AT_%s), ", gpu_read(e->plan, n->inputs[i]).symbol);
    gpu_put(e, "recur_rows(a, %sof, %s, /* single */ %u, %u, %s);", text_str(&t), gpu_slot_bytes(e, n), e->kernel->param[PARAM_TOKENS],
            e->kernel->param[PARAM_THREADS], to);
}

/* ---- routers ---- */

void gpu_put_route(struct emitter *e)
{
    const struct node *n = e->group->node;
    const struct node_attrs *at = &n->attr;
    gpu_put_token(e);
    gpu_put(e, "route_token(%s, %s, %s, lds(), /* experts */ %u, /* used */ %u, /* gating */ %u, /* groups */ %u, %u,", row_of(e, n),
            row_of(e, n->inputs[0]), gpu_vector(e, n->weight), n->inputs[0]->cols, at->used, at->gating, at->n_group, at->n_group_used);
    gpu_put(e, "    /* norm */ %u, %s);", at->norm, emit_float(e->arena, at->by));
}

const char *gpu_route_ids(struct emitter *e)
{
    return arena_printf(e->arena, "route_ids_at(%llu)", (unsigned long long)e->gg->route_at);
}

void gpu_put_route_group(struct emitter *e, const struct node *n)
{
    const struct node_attrs *at = &n->attr;
    gpu_put(e, "const uint32_t id = route_group(%llu, %s, %s, /* experts */ %u, /* used */ %u, /* gating */ %u, /* groups */ %u, %u);",
            (unsigned long long)e->gg->route_at, gpu_row(e, gpu_read(e->plan, n->inputs[0]), "0"), gpu_vector(e, n->weight),
            n->inputs[0]->cols, at->used, at->gating, at->n_group, at->n_group_used);
}

void gpu_put_route_keep(struct emitter *e, const struct node *n)
{
    const struct node_attrs *at = &n->attr;
    gpu_put(e, "route_keep(%s, %s, id, /* experts */ %u, /* used */ %u, /* gating */ %u, /* norm */ %u, %s, /* groups */ %u, %u);",
            gpu_row(e, gpu_read(e->plan, n), "0"), gpu_row(e, gpu_read(e->plan, n->inputs[0]), "0"), n->inputs[0]->cols, at->used,
            at->gating, at->norm, emit_float(e->arena, at->by), e->kernel->grid_x, e->kernel->param[PARAM_THREADS]);
}

void gpu_put_picked(struct emitter *e)
{
    const struct node *n = e->group->node;
    gpu_put_start(e);
    gpu_put(e, "picked_list((uint32_t *)(void *)BUFFER(AT_%s), (uint32_t *)(void *)BUFFER(AT_%s), %s,", e->gg->n_picked.symbol,
            e->gg->picked.symbol, rows_of(e, n));
    gpu_put(e, "    first_token(a), a.step->n_tokens, /* used */ %u, /* most */ %u, %u);", n->attr.used, e->gg->picked.cols,
            e->kernel->param[PARAM_THREADS]);
}
