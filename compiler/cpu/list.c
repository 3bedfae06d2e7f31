/* list.c -- the kernels of a CPU program and their launches.  A group becomes a decode kernel (one token, rows shared among the threads)
 * and a prefill kernel (a chunk of tokens); where prefill needs its input normed or quantised first, one more does that.  What each does is
 * told to the last number that its text depends on. */
#include "choose.h"
#include "compiler/front/attr.h"

typedef unsigned long long ull;

struct lister {
    struct arena            *arena;
    const struct plan       *plan;
    struct kernel_list      *list;
    /* of the group at hand */
    const struct group      *group;
    const struct group_plan *gp;
    bool                     prefill, tail;
    struct kernel_draft      d;
};

/* ---- pieces ---- */

/* The name of a tensor that the kernel reads. */
static const char *name_at(struct lister *l, uint64_t offset, const char *role)
{
    const uint32_t slot = kernel_weight(&l->d, offset, role);
    return l->d.launch.symbols[slot];
}

/* Of one that it reads whole. */
static const char *weight_name(struct lister *l, const struct weight *w)
{
    l->d.kernel.weight_bytes += plan_weight_bytes(l->plan, w);
    return name_at(l, l->plan->weight_offset[w->index], w->role);
}

static const char *place(struct lister *l, const struct buffer *b, const char *form)
{
    return arena_printf(l->arena, "%s, %s at %llu, stride %llu", b->name, form, (ull)b->offset, (ull)b->stride);
}

static const char *float_place(struct lister *l, const struct node *n) { return place(l, &l->plan->f32[n->index], "f32"); }

/* Where the rows of a value go. */
static void result_does(struct lister *l, const struct node *n)
{
    const struct buffer *f = &l->plan->f32[n->index], *q8 = &l->plan->q8[n->index];
    if (n == l->plan->fused->graph->output) kernel_does(&l->d, "  gives logits, %u columns", n->cols);
    if (f->exists) kernel_does(&l->d, "  gives %s, %u columns", place(l, f, "f32"), n->cols);
    if (q8->exists) kernel_does(&l->d, "  gives %s, %u columns", place(l, q8, "q8"), n->cols);
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

/* Where positions lie in a state. */
static const char *rows_text(const struct lister *l, const struct node *n)
{
    const struct state *s = plan_state(l->plan, n);
    return arena_printf(l->arena, s->kind == STATE_RING ? "a ring of %u rows" : "%u rows", s->rows);
}

static void store_does(struct lister *l, const struct node *n)
{
    const struct plan_options *o = &l->plan->options;
    kernel_does(&l->d, "  %s of %s in %s, %s", op_info[n->op].name, heads_text(l, n), kv_type_name[o->kv], rows_text(l, n));
    l->d.launch.state = plan_state(l->plan, n)->offset;
}

static void rope_does(struct lister *l, const struct node *n)
{
    const struct node_attrs *at = &n->attr;
    const char *pairs = at->neox ? "(i, i + n_rot/2)" : "(2i, 2i + 1)";
    const char *table = arena_printf(l->arena, "table at %llu", (ull)l->plan->rotations[n->rotation].table);
    kernel_does(&l->d, "  rope of heads of %u, n_rot %u, pairs %s, %s", at->head_dim, at->n_rot, pairs, table);
}

static void headnorm_does(struct lister *l, const struct node *n)
{
    kernel_does(&l->d, "  headnorm of heads of %u, eps %.9g, weight %s", n->attr.head_dim, n->attr.eps, weight_name(l, n->weight));
}

/* An operation with its attributes: layers where they differ have kernels of their own. */
static const char *operation_text(const struct lister *l, const struct node *n)
{
    struct text t = { .arena = l->arena };
    text_puts(&t, op_info[n->op].name);
    attr_print(&t, n);
    return text_str(&t);
}

/* What is done with the rows of a branch, behind its product. */
static void chain_does(struct lister *l, const struct branch *b)
{
    for (uint32_t i = 0; i < b->n_chain; i++) {
        const struct node *n = b->chain[i];
        switch (n->op) {
        case OP_bias:     kernel_does(&l->d, "  bias, weight %s", weight_name(l, n->weight)); break;
        case OP_headnorm: headnorm_does(l, n); break;
        case OP_rope:     rope_does(l, n); break;
        case OP_store_k:
        case OP_store_v:  store_does(l, n); break;
        case OP_add:      kernel_does(&l->d, "  add %s", float_place(l, chain_operand(b, i))); break;
        default:          kernel_does(&l->d, "  %s", operation_text(l, n)); break;
        }
    }
}

/* ---- products ---- */

static const char *matrix_text(const struct lister *l, const struct weight *w)
{
    return arena_printf(l->arena, "%s %llu x %llu", w->tensor->quant->name, (ull)w->rows, (ull)w->cols);
}

static void product_does(struct lister *l, const struct branch *b, uint32_t unit)
{
    const struct weight *w = b->matmul->weight;
    const char *form = plan_takes_q8(l->plan, w) ? "q8" : "f32";
    const char *units = l->d.kernel.param[PARAM_UNIT] ? "" : arena_printf(l->arena, ", units of %u rows", unit);
    l->d.kernel.operations += 2 * w->rows * w->cols;
    kernel_does(&l->d, "product %s, weight %s, of %s%s", matrix_text(l, w), weight_name(l, w), form, units);
}

/* A branch with the one that its glu reads. */
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

/* Forms that every thread of decode makes of the input for itself. */
static void decode_input_does(struct lister *l)
{
    const struct node *x = l->group->input;
    const struct buffer *f = &l->plan->f32[x->index], *q8 = &l->plan->q8[x->index];
    const bool staged = l->gp->staged;
    if (staged || l->gp->needs_f32) kernel_does(&l->d, "reads %s, %u columns", place(l, f, "f32"), x->cols);
    if (!staged && l->gp->needs_q8) kernel_does(&l->d, "reads %s, %u columns", place(l, q8, "q8"), x->cols);
    if (!staged) return;
    if (l->group->norm) kernel_does(&l->d, "  every thread: %s, f32 in scratch", norm_text(l, l->group->norm));
    if (l->gp->needs_q8) kernel_does(&l->d, "  every thread: q8 in scratch, from %llu on", (ull)f->stride);
}

static void prefill_input_does(struct lister *l)
{
    const struct node *x = l->group->input;
    if (l->gp->needs_f32) kernel_does(&l->d, "reads %s, %u columns", place(l, prefill_f32(l->plan, l->group), "f32"), x->cols);
    if (l->gp->needs_q8) kernel_does(&l->d, "reads %s, %u columns", place(l, prefill_q8(l->plan, l->group), "q8"), x->cols);
    kernel_does(&l->d, "  rows in scratch, from %llu on", (ull)l->plan->scratch_y);
}

/* The unit of all branches, 0 where they differ. */
static uint32_t common_unit(const struct lister *l)
{
    const uint32_t unit = l->gp->unit_rows[0];
    for (uint32_t i = 1; i < l->group->n_branches; i++) if (l->gp->unit_rows[i] != unit) return 0;
    return unit;
}

static void products_does(struct lister *l)
{
    const struct group *joined = l->prefill ? NULL : joined_attention(l->plan, l->group);
    l->d.kernel.param[PARAM_UNIT] = common_unit(l);
    if (l->prefill) prefill_input_does(l);
    else decode_input_does(l);
    if (joined) kernel_does(&l->d, "  KV head by KV head: a thread makes all that its share of attention reads");
    for (uint32_t i = 0; i < l->group->n_branches; i++) {
        const uint32_t branch = joined ? joined->heads[i].branch : i;
        if (!l->group->branches[branch].is_partner) branch_does(l, &l->group->branches[branch], l->gp->unit_rows[branch]);
    }
}

static void stage_does(struct lister *l)
{
    const struct buffer *f = &l->gp->stage_f32, *q8 = &l->gp->stage_q8;
    kernel_does(&l->d, "reads %s, %u columns", float_place(l, l->group->input), l->group->input->cols);
    if (l->group->norm) kernel_does(&l->d, "%s", norm_text(l, l->group->norm));
    if (f->exists) kernel_does(&l->d, "  gives %s", place(l, f, "f32"));
    if (q8->exists) kernel_does(&l->d, "  gives %s", place(l, q8, "q8"));
}

/* ---- the other kinds ---- */

/* Of the table a row, of the rotations one of each half. */
static void embed_does(struct lister *l)
{
    const struct plan *p = l->plan;
    const struct node *n = l->group->node;
    l->d.kernel.weight_bytes = packing_row_bytes(plan_packing(p, n->weight), n->weight->cols);
    kernel_does(&l->d, "row of %s, weight %s", matrix_text(l, n->weight), name_at(l, p->weight_offset[n->weight->index], n->weight->role));
    result_does(l, n);
    for (uint32_t i = 0; i < p->fused->graph->n_rotations; i++) {
        const struct rotation_plan *r = &p->rotations[i];
        const char *low = name_at(l, r->lo, "angles_low"), *high = name_at(l, r->hi, "angles_high");
        kernel_does(&l->d, "rotations of n_rot %u, weights %s and %s in blocks of %u positions", r->n_rot, high, low, r->block);
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
    kernel_does(&l->d, "reads %s, %u columns", float_place(l, n->inputs[0]), n->cols);
    if (op_info[n->op].n_values > 1) kernel_does(&l->d, "reads %s", float_place(l, n->inputs[1]));
    if (n->op == OP_add) kernel_does(&l->d, "  add");
    else chain_does(l, b);
    result_does(l, n);
}

/* ---- attention ---- */

static void scores_does(struct lister *l, const struct node *n)
{
    const uint32_t window = plan_window(l->plan, n);
    kernel_does(&l->d, "  scale %.9g", n->attr.scale);
    if (n->attr.cap > 0) kernel_does(&l->d, "  cap %.9g", n->attr.cap);
    if (window) kernel_does(&l->d, "  window of %u positions", window);
}

/* What a launch reads with a full context. */
static uint64_t state_read(const struct plan *p, const struct node *n)
{
    const struct state *s = plan_state(p, n);
    const uint32_t window = plan_window(p, n);
    return window ? s->token_bytes * window : s->bytes;
}

static void attention_does(struct lister *l)
{
    const struct plan *p = l->plan;
    const struct node *n = l->group->node, *k = n->inputs[1];
    const char *kv = kv_type_name[p->options.kv];
    kernel_does(&l->d, "attention of %s over %u in %s, %s", heads_text(l, n), k->heads, kv, rows_text(l, n));
    scores_does(l, n);
    kernel_does(&l->d, "reads %s", float_place(l, n->inputs[0]));
    if (!l->prefill) kernel_does(&l->d, "  parts of the positions at %llu", (ull)p->parts_offset);
    if (!p->f32[n->index].exists) kernel_does(&l->d, "  rows in scratch, from %llu on", (ull)p->scratch_y);
    result_does(l, n);
    l->d.launch.state = plan_state(p, n)->offset;
    l->d.kernel.state_bytes = state_read(p, n);
}

static void merge_does(struct lister *l)
{
    const struct node *n = l->group->node;
    l->d.launch.state = plan_state(l->plan, n)->offset;
    kernel_does(&l->d, "joins parts at %llu, of %s over %u", (ull)l->plan->parts_offset, heads_text(l, n), n->inputs[1]->heads);
    if (plan_window(l->plan, n)) kernel_does(&l->d, "  window of %u positions", n->attr.window);
    if (!l->plan->f32[n->index].exists) kernel_does(&l->d, "  rows in scratch, from %llu on", (ull)l->plan->scratch_y);
    result_does(l, n);
}

/* ---- launches ---- */

static void begin(struct lister *l, enum kernel_template template, const char *suffix)
{
    const char *name = arena_printf(l->arena, "%s_%s", l->group->name, suffix);
    l->d = kernel_begin(l->list, template, name, l->plan->fused, l->group, l->prefill, l->tail);
}

/* Templates that decode and prefill share. */
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
    if (l->prefill && l->gp->staged) add_stage(l);
    begin(l, TEMPLATE_products, l->prefill ? "prefill" : "decode");
    products_does(l);
    kernel_end(l->list, &l->d);
}

static void add_merge(struct lister *l)
{
    begin(l, TEMPLATE_attention_merge, "decode_merge");
    l->d.launch.name = "attention_merge";
    l->d.kernel.unless_divides = l->group->node->inputs[1]->heads;
    merge_does(l);
    kernel_end(l->list, &l->d);
}

static void add_attention(struct lister *l)
{
    begin(l, TEMPLATE_attention, l->prefill ? "prefill" : "decode");
    if (!l->prefill && l->group->joins) l->d.kernel.joins_divides = l->group->node->inputs[1]->heads;
    attention_does(l);
    kernel_end(l->list, &l->d);
    if (!l->prefill) add_merge(l);
}

static void add_group(struct lister *l)
{
    switch (l->group->kind) {
    case GROUP_EMBED:     add_rows_kernel(l, TEMPLATE_embed, embed_does); break;
    case GROUP_NORM:      add_rows_kernel(l, TEMPLATE_norm, norm_does); break;
    case GROUP_MAP:       add_rows_kernel(l, TEMPLATE_map, map_does); break;
    case GROUP_LINEAR:    add_products(l); break;
    case GROUP_ATTENTION: add_attention(l); break;
    }
}

struct kernel_list *plan_cpu_kernels(struct arena *a, const struct plan *p)
{
    const struct fused *f = p->fused;
    struct lister l = { .arena = a, .plan = p, .list = kernel_list_new(a) };
    const uint32_t last_store = fuse_last_store(f);
    for (uint32_t i = 0; i < f->n_groups; i++) {
        l.group = &f->groups[i];
        l.gp = &p->groups[i];
        l.tail = i > last_store;
        l.prefill = false;
        add_group(&l);
        l.prefill = true;
        add_group(&l);
    }
    return l.list;
}
