/* limits.c -- the graph is exact about what a model computes; a target's kernels take part of it, and here is said which part. */
#include "limits.h"
#include "machine.h"

static void check_head_dim(const struct plan *p, const struct node *n)
{
    const struct machine *machine = machine_of(p->profile->kind), *cpu = machine_of(TARGET_CPU);
    const uint32_t dim = n->attr.head_dim;
    const char *path = p->model->gguf->path;
    if (p->options.kv == KV_TYPE_Q8_0 && dim % 32)
        die("%s: --kv q8_0 needs a head size that is a multiple of 32; that of %%%s is %u", path, n->name, dim);
    if (dim > machine->head_most)
        die("%s: a head size of %u (%%%s) is beyond what the %s kernels are made for (%u); a CPU target takes it", path, dim, n->name,
            machine->name, machine->head_most);
    if (dim % machine->head_unit)
        die("%s: a head size of %u (%%%s) is no multiple of %u, which the %s kernels need%s", path, dim, n->name, machine->head_unit,
            machine->name, dim % cpu->head_unit == 0 ? "; a CPU target takes it" : "");
}

/* The cache's kernels work on whole vectors of a head. */
static bool is_cached(const struct node *n) { return n->op == OP_store_k || n->op == OP_store_v || n->op == OP_attention; }

static void check_positions(const struct plan *p, const struct node *n)
{
    if (p->options.n_ctx > n->weight->rows)
        die("%s: a context of %u tokens is beyond the %llu positions that %s has learned; --ctx %llu is the most", p->model->gguf->path,
            p->options.n_ctx, (unsigned long long)n->weight->rows, n->weight->name, (unsigned long long)n->weight->rows);
}

/* Kernels number a tensor's rows, those of all its experts, in 32 bits; bytes in 64. */
static void check_rows(const struct plan *p, const struct weight *w)
{
    if (w && w->rows > UINT32_MAX)
        die("%s: tensor %s has %llu rows, of all its matrices; forgec's kernels count to %u", p->model->gguf->path, w->name,
            (unsigned long long)w->rows, UINT32_MAX);
}

static void check_drafts(const struct plan *p, const struct graph *g)
{
    if (p->profile->kind == TARGET_GPU) return;
    if (g->draft) die("--spec mtp is for GPUs, and %s is none; a program for it is built without", p->profile->name);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == OP_previous) die("%%%s: forgec has no CPU kernel for previous; a GPU target computes it", g->nodes[i]->name);
}

void plan_check_limits(const struct plan *p, const struct graph *g)
{
    check_drafts(p, g);
    for (uint32_t i = 0; i < g->n_nodes; i++) check_rows(p, g->nodes[i]->weight);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        if (is_cached(g->nodes[i])) check_head_dim(p, g->nodes[i]);
        if (g->nodes[i]->op == OP_add_position) check_positions(p, g->nodes[i]);
    }
    if (machine_of(p->profile->kind)->check) machine_of(p->profile->kind)->check(p, g);
}
