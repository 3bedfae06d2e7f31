/* limits.c -- the graph is exact about what a model computes; a target's kernels take part of it, and here is said which part. */
#include "limits.h"

static void check_head_dim(const struct plan *p, const struct node *n)
{
    const uint32_t dim = n->attr.head_dim, unit = p->gpu ? 16 : 8;
    const char *path = p->model->gguf->path;
    if (p->options.kv == KV_TYPE_Q8_0 && dim % 32)
        die("%s: --kv q8_0 needs a head size that is a multiple of 32; that of %%%s is %u", path, n->name, dim);
    if (p->gpu && dim > 256)
        die("%s: a head size of %u (%%%s) is beyond what the GPU kernels are made for (256); a CPU target takes it", path, dim,
            n->name);
    if (dim % unit)
        die("%s: a head size of %u (%%%s) is no multiple of %u, which the %s kernels need%s", path, dim, n->name, unit,
            p->gpu ? "GPU" : "CPU", p->gpu && dim % 8 == 0 ? "; a CPU target takes it" : "");
}

static void check_attention(const struct plan *p, const struct node *n)
{
    const char *path = p->model->gguf->path;
    const uint32_t dim = n->attr.head_dim, value_dim = n->inputs[2]->attr.head_dim;
    if (dim != value_dim)
        die("%s: heads of V have %u items where those of Q and K have %u (%%%s); forgec's kernels need them equal", path, value_dim, dim,
            n->name);
    if (!p->gpu) return;
    if (n->attr.cap != 0)
        die("%s: %%%s is attention with a cap of %g on its scores; forgec has no GPU kernels for caps; a CPU target takes it", path,
            n->name, n->attr.cap);
}

void plan_check_limits(const struct plan *p)
{
    for (uint32_t i = 0; i < p->fused->graph->n_nodes; i++) {
        const struct node *n = p->fused->graph->nodes[i];
        if (n->heads) check_head_dim(p, n);
        if (n->op == OP_attention) check_attention(p, n);
    }
}
