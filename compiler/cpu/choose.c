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

/* Rows must be a multiple of 16 (the packed group), of 32 where results are quantised, and of whole heads where heads count. */
static uint32_t unit_rows(const struct branch *b)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < b->n_chain; i++) {
        const struct node *n = b->chain[i];
        const bool on_heads = n->op == OP_headnorm || n->op == OP_rope || n->op == OP_store_k || n->op == OP_store_v;
        if (on_heads) rows = multiple_of(rows ? rows : 16, n->attr.head_dim);
    }
    return rows ? rows : 32;
}

/* ---- in which forms a value is kept ---- */

static bool reads_as_q8(const struct plan *p, const struct group *g, const struct branch *b)
{
    return !g->norm && plan_takes_q8(p, b->matmul->weight);
}

/* Every reader is an int8 matmul without a norm of its own, and whoever makes the value can quantise its rows on the way out. */
static bool keep_as_q8(const struct plan *p, const struct node *n)
{
    const struct group *maker = &p->fused->groups[fuse_group(p->fused, n)];
    if (p->fused->level == FUSE_NONE || n->cols % 32 || !n->n_readers) return false;
    if (maker->kind == GROUP_ATTENTION && maker->node->attr.head_dim % 32) return false;
    if (maker->kind != GROUP_ATTENTION && maker->kind != GROUP_LINEAR && maker->kind != GROUP_MAP) return false;
    for (uint32_t i = 0; i < maker->n_branches; i++)
        if (maker->branches[i].result == n && p->groups[fuse_group(p->fused, n)].unit_rows[i] % 32) return false;
    for (uint32_t i = 0; i < n->n_readers; i++) {
        const struct node *r = n->readers[i];
        if (r->op != OP_matmul) return false;
        const struct group *g = &p->fused->groups[fuse_group(p->fused, r)];
        for (uint32_t k = 0; k < g->n_branches; k++)
            if (!g->branches[k].matmul || !reads_as_q8(p, g, &g->branches[k])) return false;
    }
    return true;
}

static struct buffer buffer_of(bool q8, uint32_t cols)
{
    return (struct buffer){ .exists = true, .cols = cols, .stride = q8 ? XQ_STRIDE((uint64_t)cols) : XF_STRIDE(plan_align(cols, 16)) };
}

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
    const bool q8 = gp->needs_q8 && (g->norm || !p->q8[x->index].exists), f32 = gp->needs_f32 && (g->norm || !p->f32[x->index].exists);
    gp->staged = q8 || f32;
    if (q8) gp->stage_q8 = buffer_of(true, x->cols);
    if (f32) gp->stage_f32 = buffer_of(false, x->cols);
    if (q8) arena_add(ap, arena_printf(ap->arena, "%s in q8", g->name), &gp->stage_q8, i, i, p->chunk);
    if (f32) arena_add(ap, arena_printf(ap->arena, "%s in f32", g->name), &gp->stage_f32, i, i, p->chunk);
}

static void add_value(struct arena_plan *ap, struct plan *p, const struct node *n)
{
    const bool q8 = keep_as_q8(p, n);
    struct buffer *b = q8 ? &p->q8[n->index] : &p->f32[n->index];
    *b = buffer_of(q8, n->cols);
    arena_add(ap, plan_value_name(n), b, fuse_group(p->fused, n), plan_last_reader(p, n), p->chunk);
}

static void plan_buffers(struct arena *a, struct plan *p)
{
    const struct graph *graph = p->fused->graph;
    struct arena_plan ap = { .arena = a, .align = 64 };
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        if (p->fused->groups[i].kind == GROUP_LINEAR) add_stages(&ap, p, i);
        for (uint32_t k = 0; k < graph->n_nodes; k++) {
            const struct node *n = graph->nodes[k];
            if (fuse_group(p->fused, n) == i && plan_needs_buffer(p, n)) add_value(&ap, p, n);
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

static void plan_scratch(struct plan *p)
{
    uint64_t decode = 0, prefill = 0, rows = 0;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        const struct group_plan *gp = &p->groups[i];
        const uint64_t cols = g->kind == GROUP_LINEAR ? g->input->cols : 0;
        if (cols) decode = max_u64(decode, XF_STRIDE(plan_align(cols, 16)) + XQ_STRIDE(cols));
        for (uint32_t k = 0; k < g->n_branches; k++) {
            rows = max_u64(rows, gp->unit_rows[k]);
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
    p->scratch_stride = plan_align(p->scratch_y + max_u64(2 * rows * 4 * p->chunk, attention), 4096) + 64;    /* in different cache sets */
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
    p->kernels = plan_cpu_kernels(a, p);
}

extern const struct machine machine_cpu;
const struct machine machine_cpu = { .name = "CPU", .layout = LAYOUT_CPU, .image_align = 64, .state_align = 64, .head_unit = 8,
                                     .head_most = UINT32_MAX, .absorbs = { .product_heads = true, .joined_rows = 16 },
                                     .choose = choose };

/* ---- what the list of kernels and their text both ask ---- */

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
