/* choose.c -- values and units of work of a CPU program. */
#define FORGE_SIMD_C
#include "choose.h"
#include "compiler/plan/lifetimes.h"
#include "compiler/plan/machine.h"
#include "templates/cpu/kv_tmpl.c"
#include "templates/cpu/matmul.h"

/* ---- units of work: rows that one thread computes and finishes in one go ---- */

static uint32_t multiple_of(uint32_t x, uint32_t of)
{
    uint32_t m = x;
    while (m % of) m += x;
    return m;
}

/* Items that belong together in what n does with rows; 0: any. */
static uint32_t together(const struct node *n)
{
    switch (n->op) {
    case OP_headnorm: case OP_l2norm: case OP_layernorm_heads: case OP_rope: case OP_store_k: case OP_store_v: return n->attr.head_dim;
    case OP_part: return n->attr.count;
    case OP_join: return n->cols / n->heads;
    default: return 0;
    }
}

/* Rows must be a multiple of 16 (the packed group), of 32 where results are quantised, and of whole heads where heads count.  Those of a
 * recurrence lie in one head, or are whole ones. */
static uint32_t unit_rows(const struct branch *b)
{
    const struct node *first = b->n_chain ? b->chain[0] : NULL;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < b->n_chain; i++)
        if (together(b->chain[i])) rows = multiple_of(rows ? rows : 16, together(b->chain[i]));
    if (!first || first->op != OP_recur) return rows ? rows : 32;
    const uint32_t dim = first->attr.value_dim;
    return rows ? multiple_of(rows, dim) : dim % 32 ? dim : 32;
}

/* ---- in which forms a value is kept ---- */

static bool reads_as_q8(const struct plan *p, const struct group *g, const struct branch *b)
{
    return !g->norm && plan_takes_q8(p, b->matmul->weight);
}

/* Rows that products read of a value of so many columns. */
static uint32_t pieces_of(const struct node *product) { return (uint32_t)(product->inputs[0]->cols / product->weight->cols); }

/* Can the kernel of n, result of a group, quantise it on the way out into so many rows? */
static bool makes_q8(const struct plan *p, const struct node *n, uint32_t pieces)
{
    const uint32_t index = fuse_group(p->fused, n);
    const struct group *g = &p->fused->groups[index];
    if (g->kind == GROUP_ATTENTION) return pieces == 1 && n->inputs[2]->attr.head_dim % 32 == 0;
    if (g->kind != GROUP_LINEAR && g->kind != GROUP_MAP && g->kind != GROUP_SEQUENCE && g->kind != GROUP_SLICES) return false;
    if (g->kind == GROUP_MAP && slice_rows(g)) return false;
    for (uint32_t i = 0; i < g->n_branches; i++) {
        const struct branch *b = &g->branches[i];
        if (b->result != n) continue;
        if (p->groups[index].unit_rows[i] % 32) return false;
        if (g->kind == GROUP_SLICES && !branch_sum(b)) return branch_cols(g, b) % 32 == 0 && (pieces == 1 || pieces == plan_slices(g));
    }
    return pieces == 1;
}

/* Every reader is an int8 product without a norm of its own, and whoever makes the value can quantise its rows on the way out. */
static bool keep_as_q8(const struct plan *p, const struct node *n)
{
    if (p->fused->level == FUSE_NONE || !n->n_readers) return false;
    for (uint32_t i = 0; i < n->n_readers; i++) {
        const struct node *r = n->readers[i];
        if ((r->op != OP_matmul && r->op != OP_expert_matmul && r->op != OP_matmul_heads) || r->inputs[0] != n) return false;
        const struct group *g = &p->fused->groups[fuse_group(p->fused, r)];
        for (uint32_t k = 0; k < g->n_branches; k++)
            if (!g->branches[k].matmul || !reads_as_q8(p, g, &g->branches[k])) return false;
        if (pieces_of(r) != pieces_of(n->readers[0])) return false;
    }
    const uint32_t pieces = pieces_of(n->readers[0]);
    return n->cols / pieces % 32 == 0 && makes_q8(p, n, pieces);
}

static struct buffer rows_of(bool q8, uint32_t cols, uint32_t pieces)
{
    const uint64_t each = cols / pieces;
    const uint64_t stride = q8 ? pieces * XQ_STRIDE(each) : XF_STRIDE(plan_align(cols, 16));
    return (struct buffer){ .exists = true, .cols = cols, .pieces = pieces, .stride = stride };
}

static struct buffer buffer_of(bool q8, uint32_t cols) { return rows_of(q8, cols, 1); }

static void plan_group(struct plan *p, uint32_t index, struct group_plan *gp)
{
    const struct group *g = &p->fused->groups[index];
    for (uint32_t i = 0; i < g->n_branches; i++) {
        gp->unit_rows[i] = unit_rows(&g->branches[i]);
        if (!g->branches[i].matmul) continue;
        const struct weight *w = g->branches[i].matmul->weight;
        if (plan_takes_q8(p, w)) gp->needs_q8 = true;
        else gp->needs_f32 = true;
    }
}

/* The forms that the group's products read and nobody keeps. */
static void add_stages(struct arena_plan *ap, struct plan *p, uint32_t i)
{
    const struct group *g = &p->fused->groups[i];
    struct group_plan *gp = &p->groups[i];
    const struct node *x = g->input;
    const bool own_rows = p->f32[x->index].exists && !p->f32[x->index].is_view;
    const bool q8 = gp->needs_q8 && (g->norm || !p->q8[x->index].exists), f32 = gp->needs_f32 && (g->norm || !own_rows);
    gp->staged = q8 || f32;
    if (q8) gp->stage_q8 = buffer_of(true, x->cols);
    if (f32) gp->stage_f32 = buffer_of(false, x->cols);
    if (q8) arena_add(ap, arena_printf(ap->arena, "%s in q8", g->name), &gp->stage_q8, i, i, p->chunk);
    if (f32) arena_add(ap, arena_printf(ap->arena, "%s in f32", g->name), &gp->stage_f32, i, i, p->chunk);
}

/* The input of products with slices, a row for each slice and token: prefill puts those of a slice one behind the other. */
static void add_gathered(struct arena_plan *ap, struct plan *p, uint32_t i)
{
    const struct group *g = &p->fused->groups[i];
    struct group_plan *gp = &p->groups[i];
    const struct node *x = g->input;
    const uint32_t cols = (uint32_t)g->branches[0].matmul->weight->cols;
    const uint64_t rows = (uint64_t)p->chunk * plan_slices(g);
    gp->staged = (gp->needs_q8 && (g->norm || !p->q8[x->index].exists)) || (gp->needs_f32 && (g->norm || !p->f32[x->index].exists));
    if (gp->needs_q8) gp->stage_q8 = buffer_of(true, cols);
    if (gp->needs_f32) gp->stage_f32 = buffer_of(false, cols);
    if (gp->needs_q8) arena_add(ap, arena_printf(ap->arena, "%s in q8", g->name), &gp->stage_q8, i, i, rows);
    if (gp->needs_f32) arena_add(ap, arena_printf(ap->arena, "%s in f32", g->name), &gp->stage_f32, i, i, rows);
}

/* Which tokens each expert has, and where: counted from 0, so as numbers of 32 bits (templates/cpu/experts_tmpl.c). */
static void add_order(struct arena_plan *ap, struct plan *p, uint32_t i)
{
    const struct node *choice = p->fused->groups[i].node;
    struct buffer *b = &p->groups[i].order;
    const uint64_t numbers = choice->inputs[0]->cols + 1ull + 2ull * p->chunk * choice->attr.used;
    *b = (struct buffer){ .exists = true, .cols = (uint32_t)numbers, .pieces = 1, .stride = plan_align(4 * numbers, 64) };
    arena_add(ap, arena_printf(ap->arena, "order of %s", plan_value_name(choice)), b, i, plan_last_reader(p, choice), 1);
}

static void add_value(struct arena_plan *ap, struct plan *p, const struct node *n)
{
    const bool q8 = keep_as_q8(p, n);
    struct buffer *b = q8 ? &p->q8[n->index] : &p->f32[n->index];
    *b = rows_of(q8, n->cols, q8 ? pieces_of(n->readers[0]) : 1);
    arena_add(ap, plan_value_name(n), b, fuse_group(p->fused, n), plan_last_reader(p, n), p->chunk);
}

static void plan_buffers(struct arena *a, struct plan *p)
{
    const struct graph *graph = p->fused->graph;
    struct arena_plan ap = { .arena = a, .align = 64 };
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        if (p->fused->groups[i].kind == GROUP_LINEAR) add_stages(&ap, p, i);
        if (p->fused->groups[i].kind == GROUP_SLICES) add_gathered(&ap, p, i);
        if (p->fused->groups[i].kind == GROUP_ROUTE) add_order(&ap, p, i);
        for (uint32_t k = 0; k < graph->n_nodes; k++) {
            const struct node *n = graph->nodes[k];
            if (fuse_group(p->fused, n) == i && plan_needs_buffer(p, n)) add_value(&ap, p, n);
            if (fuse_is_view(n) && fuse_group(p->fused, fuse_held_by(n)) == i)
                arena_view(&ap, plan_value_name(n), &p->f32[n->index], &p->f32[n->inputs[0]->index], n->attr.first, n->cols);
        }
    }
    arena_place(&ap, p);
}

static uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The kernel of the embedding, which reads a tensor of its own, makes the tables of all rotations. */
static void plan_tables(struct plan *p)
{
    const uint32_t n = p->fused->graph->n_rotations, most = (FORGE_MAX_WEIGHTS - 1) / 2;
    if (n > most) die("%s: its layers rotate in %u different ways; forgec's CPU kernels take at most %u", p->model->gguf->path, n, most);
    p->arena_bytes = plan_align(p->arena_bytes, 64);
    for (uint32_t i = 0; i < n; i++) {
        p->rotations[i].table = p->arena_bytes;
        p->arena_bytes = plan_align(p->arena_bytes + (uint64_t)p->chunk * p->rotations[i].n_rot * 4, 64);
    }
}

/* A normed row, and behind it, where that of the value would end, quantised ones. */
static uint64_t decode_input(const struct plan *p, const struct group *g)
{
    const uint64_t cols = g->input->cols, pieces = pieces_of(g->branches[0].matmul);
    const uint64_t row = max_u64(XF_STRIDE(plan_align(cols, 16)), p->f32[g->input->index].stride);
    return row + pieces * XQ_STRIDE(cols / pieces);
}

static void plan_scratch(struct plan *p)
{
    uint64_t decode = 0, prefill = 0, rows = 0, slices = 0;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        const struct group_plan *gp = &p->groups[i];
        const uint64_t cols = g->kind == GROUP_LINEAR || g->kind == GROUP_SLICES ? g->input->cols : 0;
        if (cols) decode = max_u64(decode, decode_input(p, g));
        for (uint32_t k = 0; k < g->n_branches; k++) {
            rows = max_u64(rows, gp->unit_rows[k]);
            if (g->kind == GROUP_SLICES && branch_sum(&g->branches[k]))
                slices = max_u64(slices, 4ull * gp->unit_rows[k] * p->chunk * plan_slices(g));
            if (g->branches[k].matmul) prefill = max_u64(prefill, GEMM_SCRATCH / GEMM_GROUPS * p->profile->tile.gemm_groups);
        }
    }
    uint64_t parts = 0, attention = 0;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct node *n = p->fused->groups[i].node;
        if (p->fused->groups[i].kind != GROUP_ATTENTION) continue;
        parts = max_u64(parts, ATTENTION_PARTS * ((uint64_t)n->cols + 2 * n->heads) * 4);
        attention = max_u64(attention, (uint64_t)n->cols / n->inputs[1]->heads * 4 * PREFILL_ATTENTION_TOKENS);
    }
    p->scratch_y = plan_align(max_u64(decode, prefill), 64);
    /* in different cache sets */
    p->scratch_stride = plan_align(p->scratch_y + max_u64(max_u64(2 * rows * 4 * p->chunk, attention), slices), 4096) + 64;
    plan_tables(p);
    p->parts_offset = p->arena_bytes;
    p->scratch_offset = plan_align(p->parts_offset + parts, 4096);
    p->arena_bytes = p->scratch_offset + p->scratch_stride * p->options.max_threads;
}

static void choose(struct arena *a, struct plan *p)
{
    for (uint32_t i = 0; i < p->fused->n_groups; i++) plan_group(p, i, &p->groups[i]);
    plan_buffers(a, p);
    plan_scratch(p);
    p->kernels = cpu_kernels(a, p);
}

/* Nothing is known of CPUs but their bandwidth. */
static struct cost_work work(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past)
{
    return (struct cost_work){ .kind = PREDICT_PRODUCTS, .bytes = cost_kernel_bytes(p, k, tokens, n_past) };
}

extern const struct machine machine_cpu;
const struct machine machine_cpu = { .name = "CPU", .layout = LAYOUT_CPU, .image_align = 64, .state_align = 64, .head_unit = 8,
                                     .head_most = UINT32_MAX, .absorbs = { .product_heads = true, .joined_rows = 16 },
                                     .choose = choose, .work = work };

/* ---- what the list of kernels and their text both ask ---- */

bool branch_sum(const struct branch *b)
{
    for (uint32_t i = 0; i < b->n_chain; i++) if (b->chain[i]->op == OP_expert_sum) return true;
    return false;
}

uint32_t branch_cols(const struct group *g, const struct branch *b)
{
    const struct weight *w = b->matmul ? b->matmul->weight : NULL;
    return g->kind == GROUP_SLICES ? (uint32_t)(w->rows / w->slices) : b->result->cols;
}

uint32_t slice_rows(const struct group *g)
{
    const struct node *n = g->kind == GROUP_MAP ? g->branches[0].chain[0] : NULL;
    if (!n || (n->op != OP_expert_bias && n->op != OP_expert_times && n->op != OP_expert_sum)) return 0;
    return n->inputs[0]->cols / n->inputs[1]->attr.used;
}

const struct buffer *order_of(const struct plan *p, const struct group *g)
{
    return g->choice ? &p->groups[fuse_group(p->fused, g->choice)].order : NULL;
}

const struct group *joined_attention(const struct plan *p, const struct group *g)
{
    const struct group *next = g + 1;
    return next < p->fused->groups + p->fused->n_groups && next->joins ? next : NULL;
}

const struct node *chain_operand(const struct branch *b, uint32_t i)
{
    const struct node *add = b->chain[i], *fresh = i ? b->chain[i - 1] : b->matmul;
    return add->inputs[add->inputs[0] == fresh];
}

const struct buffer *prefill_f32(const struct plan *p, const struct group *g)
{
    const struct buffer *stage = &p->groups[g - p->fused->groups].stage_f32;
    return stage->exists ? stage : &p->f32[g->input->index];
}

const struct buffer *prefill_q8(const struct plan *p, const struct group *g)
{
    const struct buffer *stage = &p->groups[g - p->fused->groups].stage_q8;
    return stage->exists ? stage : &p->q8[g->input->index];
}
