/* list.c -- the kernels of a CPU program and their launches. A group becomes a decode kernel (one token, rows divided among the threads)
 * and a prefill kernel (a chunk of tokens), with one more kernel if the input of prefill must be normed or packed first. The `does` text of
 * each kernel contains every number on which the kernel's text depends. */
#include "choose.h"
#include "compiler/front/attr.h"

typedef unsigned long long ull;

struct lister {
    struct arena            *arena;
    const struct plan       *plan;
    struct kernel_list      *list;
    /* the current group */
    const struct group      *group;
    const struct group_plan *gp;
    enum kernel_steps        steps;
    bool                     many, tail;         /* many: several tokens, of a prompt or of several sequences */
    uint32_t                 form;               /* form of packed rows: 0 as in decode, 1 as in prefill */
    struct kernel_draft      d;
};

/* ---- pieces ---- */

/* The symbol of a weight that the kernel reads; its bytes are counted elsewhere. */
static const char *bound_name(struct lister *l, const struct weight *w)
{
    return kernel_bind(&l->d, plan_binding(l->plan, w), w->role, 0);
}

/* The symbol of a weight that the kernel reads completely; counts its bytes. */
static const char *weight_name(struct lister *l, const struct weight *w)
{
    l->d.kernel.weight_bytes += plan_weight_bytes(l->plan, w);
    return bound_name(l, w);
}

static const char *place(struct lister *l, const struct buffer *b, const char *form)
{
    return arena_printf(l->arena, "%s, %s at %llu, stride %llu", b->name, form, (ull)b->offset, (ull)packed_row_stride(b, l->form));
}

static const char *float_place(struct lister *l, const struct node *n) { return place(l, &l->plan->f32[n->index], "f32"); }

/* Lists the places where the rows of a value are stored. */
static void result_does(struct lister *l, const struct node *n)
{
    const struct buffer *f = &l->plan->f32[n->index], *packed = &l->plan->packed[n->index];
    if (n == l->plan->fused->graph->output) kernel_does(&l->d, "  gives logits, %u columns", n->cols);
    if (f->exists) kernel_does(&l->d, "  gives %s, %u columns", place(l, f, "f32"), n->cols);
    if (packed->exists) kernel_does(&l->d, "  gives %s, %u columns", place(l, packed, row_form_name[packed->form[l->form]]), n->cols);
}

static const char *norm_text(struct lister *l, const struct node *n)
{
    const char *weight = n->weight ? arena_printf(l->arena, "weight %s", weight_name(l, n->weight)) : "no weight";
    return arena_printf(l->arena, "%s of %u columns, eps %.9g, %s", op_info[n->op].name, n->cols, n->attr.eps, weight);
}

static const char *heads_text(const struct lister *l, const struct node *n)
{
    return arena_printf(l->arena, "%u head%s of %u", n->heads, n->heads == 1 ? "" : "s", n->attr.head_dim);
}

/* The layout of positions in a state. */
static const char *rows_text(const struct lister *l, const struct node *n)
{
    const struct state *s = plan_state(l->plan, n);
    return arena_printf(l->arena, s->kind == STATE_RING ? "a ring of %u rows" : "%u rows", s->rows);
}

static void store_does(struct lister *l, const struct node *n)
{
    const struct plan_options *o = &l->plan->options;
    const uint64_t behind = n->op == OP_store_v ? plan_values_at(l->plan, n) : 0;
    const char *at = behind ? arena_printf(l->arena, ", %llu after the keys", (ull)behind) : "";
    kernel_does(&l->d, "  %s of %s in %s, %s%s", op_info[n->op].name, heads_text(l, n), kv_type_name[o->kv], rows_text(l, n), at);
    l->d.launch.state = plan_state(l->plan, n)->offset;
}

static void rope_does(struct lister *l, const struct node *n)
{
    const struct node_attrs *at = &n->attr;
    const char *pairs = at->neox ? "(i, i + n_rot/2)" : "(2i, 2i + 1)";
    const char *table = arena_printf(l->arena, "table at %llu", (ull)l->plan->rotations[n->rotation].table);
    const char *from = at->rot_first ? arena_printf(l->arena, " from %u on", at->rot_first) : "";
    kernel_does(&l->d, "  rope of heads of %u, n_rot %u%s, pairs %s, %s", at->head_dim, at->n_rot, from, pairs, table);
}

static void headnorm_does(struct lister *l, const struct node *n)
{
    const char *weight = n->weight ? arena_printf(l->arena, "weight %s", weight_name(l, n->weight)) : "no weight";
    const char *each = n->weight && n->weight->cols != n->attr.head_dim ? ", each of its own" : "";
    kernel_does(&l->d, "  %s of heads of %u, eps %.9g, %s%s", n->op == OP_headnorm ? "headnorm" : "layernorm", n->attr.head_dim,
                n->attr.eps, weight, each);
}

static void add_position_does(struct lister *l, const struct node *n)
{
    l->d.kernel.weight_bytes += plan_bytes_read(l->plan, n);
    const char *weight = bound_name(l, n->weight);
    kernel_does(&l->d, "  add_position, weight %s, %llu floats a position", weight, (ull)plan_weight_stride(l->plan, n->weight));
}

/* An operation with its attributes: layers with different attributes have different kernels. */
static const char *operation_text(const struct lister *l, const struct node *n)
{
    struct text t = { .arena = l->arena };
    text_puts(&t, op_info[n->op].name);
    attr_print(&t, n);
    return text_str(&t);
}

/* An operation on two values: the branch makes one, the other is read. At the beginning of a map, map_does has listed both. */
static void pair_does(struct lister *l, const struct branch *b, uint32_t i)
{
    const struct node *n = b->chain[i];
    const bool begins = !b->matmul && i == 0;
    if (begins || fuse_reads_partner(l->group, b, n)) kernel_does(&l->d, "  %s", operation_text(l, n));
    else {
        const struct node *other = chain_operand(b, i);
        const char *one = n->op == OP_mul && other->cols == 1 && n->cols != 1 ? ", one number" : other == n->inputs[0] ? ", the first" : "";
        kernel_does(&l->d, "  %s %s%s", operation_text(l, n), float_place(l, other), one);
    }
}

/* Factors of columns: one for each column, one for each run of columns, or one for all. */
static void times_does(struct lister *l, const struct node *n)
{
    kernel_does(&l->d, "  times, weight %s, a factor for %llu columns", weight_name(l, n->weight), (ull)(n->cols / n->weight->cols));
}

/* A weight with a row or a number for each expert. */
static void expert_rows_does(struct lister *l, const struct node *n)
{
    const uint64_t stride = n->weight->is_vector ? 0 : plan_weight_stride(l->plan, n->weight);
    l->d.kernel.weight_bytes += plan_bytes_read(l->plan, n);
    const char *weight = bound_name(l, n->weight);
    kernel_does(&l->d, "  %s, weight %s, %llu floats an expert", op_info[n->op].name, weight, stride ? (ull)stride : 1ull);
}

/* Lists the operations on the rows of a branch after its product. */
static void chain_does(struct lister *l, const struct branch *b)
{
    for (uint32_t i = 0; i < b->n_chain; i++) {
        const struct node *n = b->chain[i];
        if (n->op == OP_mul || op_is_gate(n->op)) { pair_does(l, b, i); continue; }
        switch (n->op) {
        case OP_bias:     kernel_does(&l->d, "  bias, weight %s", weight_name(l, n->weight)); break;
        case OP_headnorm:
        case OP_layernorm_heads: headnorm_does(l, n); break;
        case OP_add_position: add_position_does(l, n); break;
        case OP_rope:     rope_does(l, n); break;
        case OP_store_k:
        case OP_store_v:  store_does(l, n); break;
        case OP_add:      kernel_does(&l->d, "  add %s", float_place(l, chain_operand(b, i))); break;
        case OP_times:    times_does(l, n); break;
        case OP_expert_bias:
        case OP_expert_times: expert_rows_does(l, n); break;
        case OP_expert_sum:   kernel_does(&l->d, "  their sum, each times its share"); break;
        default:          kernel_does(&l->d, "  %s", operation_text(l, n)); break;
        }
    }
}

/* ---- products ---- */

static const char *matrix_text(const struct lister *l, const struct weight *w)
{
    return arena_printf(l->arena, "%s %llu x %llu", w->tensor->quant->name, (ull)w->rows, (ull)w->cols);
}

static void slices_product_does(struct lister *l, const struct branch *b, const char *form, const char *units)
{
    const struct weight *w = b->matmul->weight;
    const uint32_t rows = branch_cols(l->group, b), met = plan_slices(l->group);
    const char *weight = bound_name(l, w);
    const char *each = plan_reads_pieces(b->matmul) ? "a piece of the input each" : "all of the same input";
    l->d.kernel.weight_bytes += plan_bytes_read(l->plan, b->matmul);
    l->d.kernel.operations += 2ull * rows * w->cols * met;
    const char *slices = arena_printf(l->arena, "%u of %u slices of %llu bytes", met, w->slices, (ull)plan_slice_bytes(l->plan, w));
    kernel_does(&l->d, "product %s %u x %llu, %s, %s", w->tensor->quant->name, rows, (ull)w->cols, slices, each);
    kernel_does(&l->d, "  weight %s, of %s%s", weight, form, units);
}

static void product_does(struct lister *l, const struct branch *b, uint32_t unit)
{
    const struct weight *w = b->matmul->weight;
    const char *form = row_form_name[product_form(l->plan, l->group, w, l->form)];
    const char *units = l->d.kernel.param[PARAM_UNIT] ? "" : arena_printf(l->arena, ", units of %u rows", unit);
    if (w->slices) {
        slices_product_does(l, b, form, units);
        return;
    }
    l->d.kernel.operations += 2 * w->rows * w->cols;
    kernel_does(&l->d, "product %s, weight %s, of %s%s", matrix_text(l, w), weight_name(l, w), form, units);
}

/* A branch, with the partner that its glu reads. */
static void branch_does(struct lister *l, const struct branch *b, uint32_t unit)
{
    const struct branch *up = b->partner >= 0 ? &l->group->branches[b->partner] : NULL;
    product_does(l, b, unit);
    if (up) {
        product_does(l, up, unit);
        chain_does(l, up);
        kernel_does(&l->d, "both");
    }
    chain_does(l, b);
    result_does(l, b->result);
}

static const char *order_text(struct lister *l)
{
    const struct buffer *order = order_of(l->plan, l->group);
    return order ? arena_printf(l->arena, "the order at %llu, ", (ull)order->offset) : "";
}

/* The input of decode's products: the forms that are read and those that every thread makes for itself. */
static void decode_input_does(struct lister *l)
{
    const struct node *x = l->group->input;
    const struct buffer *f = &l->plan->f32[x->index], *packed = &l->plan->packed[x->index];
    const bool staged = l->gp->staged[0];
    const char *form = row_form_name[l->gp->packed[0]];
    if (staged || l->gp->needs_f32[0]) kernel_does(&l->d, "reads %s, %u columns", place(l, f, "f32"), x->cols);
    if (!staged && l->gp->packed[0]) kernel_does(&l->d, "reads %s, %u columns", place(l, packed, form), x->cols);
    if (!staged) return;
    if (l->group->norm) kernel_does(&l->d, "  every thread: %s, f32 in scratch", norm_text(l, l->group->norm));
    if (l->gp->packed[0]) kernel_does(&l->d, "  every thread: %s in scratch, from %llu on", form, (ull)f->stride);
}

static void prefill_input_does(struct lister *l)
{
    const struct node *x = l->group->input;
    if (l->gp->needs_f32[l->form]) kernel_does(&l->d, "reads %s, %u columns", place(l, prefill_f32(l->plan, l->group), "f32"), x->cols);
    const struct buffer *packed = prefill_packed(l->plan, l->group);
    const char *form = row_form_name[l->gp->packed[l->form]];
    if (l->gp->packed[l->form]) kernel_does(&l->d, "reads %s, %u columns", place(l, packed, form), x->cols);
    kernel_does(&l->d, "  rows in scratch, from %llu on", (ull)l->plan->scratch_y);
}

/* Rows of a unit, the same in all branches; 0: the branches differ. */
static uint32_t common_unit(const struct lister *l)
{
    const uint32_t unit = l->gp->unit_rows[0];
    for (uint32_t i = 1; i < l->group->n_branches; i++) if (l->gp->unit_rows[i] != unit) return 0;
    return unit;
}

static void products_does(struct lister *l)
{
    const struct group *joined = l->many ? NULL : joined_attention(l->plan, l->group);
    l->d.kernel.param[PARAM_UNIT] = common_unit(l);
    if (l->many) prefill_input_does(l);
    else decode_input_does(l);
    if (joined) kernel_does(&l->d, "  KV head by KV head: a thread makes all that its share of attention reads");
    for (uint32_t i = 0; i < l->group->n_branches; i++) {
        const uint32_t branch = joined ? joined->heads[i].branch : i;
        if (!l->group->branches[branch].is_partner) branch_does(l, &l->group->branches[branch], l->gp->unit_rows[branch]);
    }
}

/* Products with slices: decode computes the slices of its token, prefill goes slice by slice through a chunk. */
static void slices_does(struct lister *l)
{
    const struct group *g = l->group;
    const struct buffer *f = stage_f32(l->gp, l->form), *packed = stage_packed(l->gp, l->form);
    const char *form = row_form_name[l->gp->packed[l->form]];
    l->d.kernel.param[PARAM_UNIT] = common_unit(l);
    if (g->choice) kernel_does(&l->d, "choice %s, of %u experts", float_place(l, g->choice), g->choice->inputs[0]->cols);
    if (!l->many) decode_input_does(l);
    else {
        if (f) kernel_does(&l->d, "reads %sinput %s", order_text(l), place(l, f, "f32"));
        if (packed) kernel_does(&l->d, "reads %sinput %s", order_text(l), place(l, packed, form));
        kernel_does(&l->d, "  rows in scratch, from %llu on", (ull)l->plan->scratch_y);
    }
    for (uint32_t i = 0; i < g->n_branches; i++) if (!g->branches[i].is_partner) branch_does(l, &g->branches[i], l->gp->unit_rows[i]);
}

static void gather_does(struct lister *l)
{
    const struct group *g = l->group;
    const struct node *x = g->input, *product = g->branches[0].matmul;
    const struct buffer *f = stage_f32(l->gp, l->form), *packed = stage_packed(l->gp, l->form), *kept = &l->plan->packed[x->index];
    const bool copies = packed && kept->exists && !g->norm;
    const char *form = row_form_name[l->gp->packed[l->form]];
    kernel_does(&l->d, "reads %s, %u columns", place(l, copies ? kept : &l->plan->f32[x->index], copies ? form : "f32"), x->cols);
    if (f && copies) kernel_does(&l->d, "reads %s", float_place(l, x));
    if (g->norm) kernel_does(&l->d, "%s", norm_text(l, g->norm));
    kernel_does(&l->d, "%u slices, %s%llu columns for each", plan_slices(g), order_text(l), (ull)product->weight->cols);
    if (f) kernel_does(&l->d, "  gives %s", place(l, f, "f32"));
    if (packed) kernel_does(&l->d, "  gives %s", place(l, packed, form));
}

static void route_does(struct lister *l)
{
    const struct node *n = l->group->node;
    kernel_does(&l->d, "reads %s, %u columns", float_place(l, n->inputs[0]), n->inputs[0]->cols);
    const char *bias = n->weight ? arena_printf(l->arena, ", what selects with weight %s", weight_name(l, n->weight)) : "";
    kernel_does(&l->d, "%s%s", operation_text(l, n), bias);
    result_does(l, n);
}

static void order_does(struct lister *l)
{
    const struct node *n = l->group->node;
    kernel_does(&l->d, "reads %s: %u of %u experts", float_place(l, n), n->attr.used, n->inputs[0]->cols);
    kernel_does(&l->d, "  gives the order at %llu", (ull)l->gp->order.offset);
}

static void stage_does(struct lister *l)
{
    const struct buffer *f = stage_f32(l->gp, l->form), *packed = stage_packed(l->gp, l->form);
    const char *form = row_form_name[l->gp->packed[l->form]];
    kernel_does(&l->d, "reads %s, %u columns", float_place(l, l->group->input), l->group->input->cols);
    if (l->group->norm) kernel_does(&l->d, "%s", norm_text(l, l->group->norm));
    if (f) kernel_does(&l->d, "  gives %s", place(l, f, "f32"));
    if (packed) kernel_does(&l->d, "  gives %s", place(l, packed, form));
}

/* ---- the other kinds ---- */

/* Reads a row of the embedding table and a row of both tables of each rotation. */
static void embed_does(struct lister *l)
{
    const struct plan *p = l->plan;
    const struct node *n = l->group->node;
    l->d.kernel.weight_bytes = packing_row_bytes(plan_packing(p, n->weight), n->weight->cols);
    kernel_does(&l->d, "row of %s, weight %s", matrix_text(l, n->weight), bound_name(l, n->weight));
    result_does(l, n);
    for (uint32_t i = 0; l->group == p->fused->groups && i < p->fused->graph->n_rotations; i++) {
        const struct rotation_plan *r = &p->rotations[i];
        const char *low = kernel_bind(&l->d, rotation_table(r, false), "angles_low", 0);
        const char *high = kernel_bind(&l->d, rotation_table(r, true), "angles_high", 0);
        kernel_does(&l->d, "rotations of n_rot %u, weights %s and %s in blocks of %u positions%s", r->n_rot, high, low, r->block,
                    r->lo_far ? ", for long texts the weights after them" : "");
        kernel_does(&l->d, "  gives a table at %llu", (ull)r->table);
        l->d.kernel.weight_bytes += 2 * 4 * r->n_rot;
    }
}

static void norm_does(struct lister *l)
{
    kernel_does(&l->d, "reads %s", float_place(l, l->group->input));
    kernel_does(&l->d, "%s", norm_text(l, l->group->node));
    result_does(l, l->group->node);
}

static void map_does(struct lister *l)
{
    const struct branch *b = &l->group->branches[0];
    const struct node *n = b->chain[0];
    l->d.kernel.param[PARAM_UNIT] = l->gp->unit_rows[0];
    kernel_does(&l->d, "reads %s, %u columns", float_place(l, n->inputs[0]), n->inputs[0]->cols);
    if (op_info[n->op].n_values > 1) kernel_does(&l->d, "reads %s", float_place(l, n->inputs[1]));
    if (n->op == OP_join || (n->op == OP_mul && n->inputs[1]->cols != n->cols)) kernel_does(&l->d, "  its columns: %u", n->inputs[1]->cols);
    if (slice_rows(l->group)) kernel_does(&l->d, "  experts: %u rows of %u", n->inputs[1]->attr.used, slice_rows(l->group));
    if (n->op == OP_add) kernel_does(&l->d, "  add");
    else chain_does(l, b);
    result_does(l, b->result);
}

/* ---- operations with a state from position to position ---- */

static void conv_does(struct lister *l)
{
    const struct branch *b = &l->group->branches[0];
    const struct node *n = b->chain[0];
    const struct weight *w = n->weight;
    l->d.kernel.param[PARAM_UNIT] = l->gp->unit_rows[0];
    kernel_does(&l->d, "reads %s, %u columns", float_place(l, n->inputs[0]), n->cols);
    kernel_does(&l->d, "taps %s, %llu rows of %llu floats", weight_name(l, w), (ull)w->cols, (ull)plan_weight_stride(l->plan, w));
    chain_does(l, b);
    result_does(l, b->result);
    l->d.launch.state = plan_state(l->plan, n)->offset;
    plan_count_sequence(l->plan, n, &l->d.kernel);
}

static void recur_does(struct lister *l)
{
    static const char *const what[] = { "q", "k", "v", "decay", "beta" };
    const struct branch *b = &l->group->branches[0];
    const struct node *n = b->chain[0];
    l->d.kernel.param[PARAM_UNIT] = l->gp->unit_rows[0];
    for (uint32_t i = 0; i < 5; i++)
        kernel_does(&l->d, "reads %s: %s, %u columns", what[i], float_place(l, n->inputs[i]), n->inputs[i]->cols);
    chain_does(l, b);
    result_does(l, b->result);
    l->d.launch.state = plan_state(l->plan, n)->offset;
    plan_count_sequence(l->plan, n, &l->d.kernel);
}

/* ---- attention ---- */

static void scores_does(struct lister *l, const struct node *n)
{
    const uint32_t window = plan_window(l->plan, n);
    const uint64_t behind = plan_values_at(l->plan, n);
    if (behind) kernel_does(&l->d, "  heads of V of %u, %llu after the keys", n->inputs[2]->attr.head_dim, (ull)behind);
    kernel_does(&l->d, "  scale %.9g", n->attr.scale);
    if (n->attr.cap > 0) kernel_does(&l->d, "  cap %.9g", n->attr.cap);
    if (window) kernel_does(&l->d, "  window of %u positions", window);
    if (!n->attr.causal) kernel_does(&l->d, "  every token sees all of the text");
    if (n->weight && l->many) kernel_does(&l->d, "  sinks, weight %s", weight_name(l, n->weight));
    else if (n->weight) kernel_does(&l->d, "  sinks, weight %s", bound_name(l, n->weight));
}

static void attention_does(struct lister *l)
{
    const struct plan *p = l->plan;
    const struct node *n = l->group->node, *k = n->inputs[1];
    const char *kv = kv_type_name[p->options.kv];
    kernel_does(&l->d, "attention of %s over %u in %s, %s", heads_text(l, n), k->heads, kv, rows_text(l, n));
    scores_does(l, n);
    kernel_does(&l->d, "reads %s", float_place(l, n->inputs[0]));
    if (!l->many) kernel_does(&l->d, "  parts of the positions at %llu", (ull)p->parts_offset);
    if (!p->f32[n->index].exists) kernel_does(&l->d, "  rows in scratch, from %llu on", (ull)p->scratch_y);
    result_does(l, n);
    l->d.launch.state = plan_state(p, n)->offset;
    plan_count_attention(p, n, ATTENTION_ALL, &l->d.kernel);
}

static void merge_does(struct lister *l)
{
    const struct node *n = l->group->node;
    l->d.launch.state = plan_state(l->plan, n)->offset;
    kernel_does(&l->d, "joins parts at %llu, of %s over %u", (ull)l->plan->parts_offset, heads_text(l, n), n->inputs[1]->heads);
    if (plan_window(l->plan, n)) kernel_does(&l->d, "  window of %u positions", n->attr.window);
    if (n->inputs[2]->attr.head_dim != n->attr.head_dim) kernel_does(&l->d, "  heads of V of %u", n->inputs[2]->attr.head_dim);
    if (n->weight) kernel_does(&l->d, "  sinks, weight %s", weight_name(l, n->weight));
    if (!l->plan->f32[n->index].exists) kernel_does(&l->d, "  rows in scratch, from %llu on", (ull)l->plan->scratch_y);
    result_does(l, n);
}

/* ---- launches ---- */

static void begin(struct lister *l, enum kernel_template template, const char *suffix)
{
    const char *name = arena_printf(l->arena, "%s_%s", l->group->name, suffix);
    l->d = kernel_begin(l->list, template, name, l->plan->fused, l->group, l->steps, l->tail);
    l->d.kernel.prefill = l->many;
    l->d.kernel.form = l->form;
}

/* A kernel of a template that decode and prefill share. */
static void add_rows_kernel(struct lister *l, enum kernel_template template, void (*does)(struct lister *))
{
    begin(l, template, "rows");
    l->d.kernel.prefill = false;
    does(l);
    kernel_end(l->list, &l->d);
}

static void add_stage(struct lister *l)
{
    begin(l, TEMPLATE_stage, "stage");
    l->d.launch.name = arena_printf(l->arena, "%s_in", l->group->name);
    stage_does(l);
    kernel_end(l->list, &l->d);
}

static void add_products(struct lister *l)
{
    if (l->many && l->gp->staged[l->form]) add_stage(l);
    begin(l, TEMPLATE_products, kernel_steps_name[l->steps]);
    products_does(l);
    kernel_end(l->list, &l->d);
}

static void add_merge(struct lister *l)
{
    begin(l, TEMPLATE_attention_merge, "decode_merge");
    l->d.launch.name = "attention_merge";
    l->d.kernel.unless_divides = l->group->node->inputs[1]->heads;
    l->d.kernel.from_positions = ATTENTION_PARTS_FROM;
    merge_does(l);
    kernel_end(l->list, &l->d);
}

static void add_attention(struct lister *l)
{
    begin(l, TEMPLATE_attention, kernel_steps_name[l->steps]);
    if (!l->many && l->group->joins) l->d.kernel.joins_divides = l->group->node->inputs[1]->heads;
    attention_does(l);
    kernel_end(l->list, &l->d);
    if (!l->many) add_merge(l);
}

static void add_slices(struct lister *l)
{
    if (l->many) {
        begin(l, TEMPLATE_gather, "gather");
        l->d.launch.name = arena_printf(l->arena, "%s_in", l->group->name);
        gather_does(l);
        kernel_end(l->list, &l->d);
    }
    begin(l, TEMPLATE_slices, kernel_steps_name[l->steps]);
    slices_does(l);
    kernel_end(l->list, &l->d);
}

static void add_route(struct lister *l)
{
    add_rows_kernel(l, TEMPLATE_route, route_does);
    if (!l->many) return;
    begin(l, TEMPLATE_order, "order");
    l->d.launch.name = "order";
    order_does(l);
    kernel_end(l->list, &l->d);
}

static void add_sequence(struct lister *l)
{
    if (l->group->branches[0].chain[0]->op == OP_conv) add_rows_kernel(l, TEMPLATE_conv, conv_does);
    else add_rows_kernel(l, TEMPLATE_recur, recur_does);
}

static void add_group(struct lister *l)
{
    switch (l->group->kind) {
    case GROUP_EMBED:     add_rows_kernel(l, TEMPLATE_embed, embed_does); break;
    case GROUP_NORM:      add_rows_kernel(l, TEMPLATE_norm, norm_does); break;
    case GROUP_MAP:       add_rows_kernel(l, TEMPLATE_map, map_does); break;
    case GROUP_LINEAR:    add_products(l); break;
    case GROUP_SLICES:    add_slices(l); break;
    case GROUP_ROUTE:     add_route(l); break;
    case GROUP_SEQUENCE:  add_sequence(l); break;
    case GROUP_ATTENTION: add_attention(l); break;
    }
}

static void add_steps(struct lister *l, enum kernel_steps steps, bool many, uint32_t form)
{
    l->steps = steps;
    l->many = many;
    l->form = form;
    add_group(l);
}

struct kernel_list *cpu_kernels(struct arena *a, const struct plan *p)
{
    const struct fused *f = p->fused;
    struct lister l = { .arena = a, .plan = p, .list = kernel_list_new(a) };
    const uint32_t last_store = fuse_last_store(f);
    const bool columns = has_columns(p);
    for (uint32_t i = 0; i < f->n_groups; i++) {
        l.group = &f->groups[i];
        l.gp = &p->groups[i];
        l.tail = i > last_store;
        add_steps(&l, STEPS_DECODE, false, 0);
        add_steps(&l, STEPS_PREFILL, true, 1);
        if (columns) add_steps(&l, STEPS_COLUMNS, true, 0);
    }
    return l.list;
}
