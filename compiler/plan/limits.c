/* limits.c -- see limits.h. */
#include "limits.h"
#include "machine.h"

static void check_head_dim(const struct plan *p, const struct node *n)
{
    const struct machine *machine = machine_of(p->target->kind), *cpu = machine_of(TARGET_CPU);
    const uint32_t dim = n->attr.head_dim;
    const char *path = p->model->gguf->path;
    if (p->options.kv == KV_TYPE_Q8_0 && dim % 32)
        die("%s: --kv q8_0 needs a head size that is a multiple of 32; that of %%%s is %u", path, n->name, dim);
    if (dim > machine->head_most)
        die("%s: a head size of %u (%%%s) is larger than %u, the most for %s kernels; build for a CPU target", path, dim, n->name,
            machine->head_most, machine->name);
    if (dim % machine->head_unit)
        die("%s: a head size of %u (%%%s) is not a multiple of %u, which the %s kernels need%s", path, dim, n->name, machine->head_unit,
            machine->name, dim % cpu->head_unit == 0 ? "; build for a CPU target" : "");
}

/* The kernels of the KV cache work on whole vectors of a head. */
static bool is_cached(const struct node *n) { return n->op == OP_store_k || n->op == OP_store_v || n->op == OP_attention; }

static void check_positions(const struct plan *p, const struct node *n)
{
    if (p->options.n_ctx > n->weight->rows)
        die("%s: a context of %u tokens is longer than the %llu learned positions of %s; the maximum is --ctx %llu", p->model->gguf->path,
            p->options.n_ctx, (unsigned long long)n->weight->rows, n->weight->name, (unsigned long long)n->weight->rows);
}

/* Kernels number the rows of a tensor, all experts included, in 32 bits, and bytes in 64 bits. */
static void check_rows(const struct plan *p, const struct weight *w)
{
    if (w && w->rows > UINT32_MAX)
        die("%s: tensor %s has %llu rows in all its matrices; forgec's kernels support at most %u", p->model->gguf->path, w->name,
            (unsigned long long)w->rows, UINT32_MAX);
}

static void check_drafts(const struct plan *p, const struct graph *g)
{
    if (p->target->kind == TARGET_GPU) return;
    if (g->draft) die("--spec mtp needs a GPU; target %s has no kernels for it: build without --spec", p->target->name);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == OP_previous)
            die("%%%s: target %s has no kernel for previous; build for gfx1100, gfx1151, gfx942 or sm_90", g->nodes[i]->name,
                p->target->name);
}

void plan_check_limits(const struct plan *p, const struct graph *g)
{
    check_drafts(p, g);
    for (uint32_t i = 0; i < g->n_nodes; i++) check_rows(p, g->nodes[i]->weight);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        if (is_cached(g->nodes[i])) check_head_dim(p, g->nodes[i]);
        if (g->nodes[i]->op == OP_add_position) check_positions(p, g->nodes[i]);
    }
    if (machine_of(p->target->kind)->check) machine_of(p->target->kind)->check(p, g);
}
