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

static void check_attention(const struct plan *p, const struct node *n)
{
    const char *path = p->model->gguf->path;
    const uint32_t dim = n->attr.head_dim, value_dim = n->inputs[2]->attr.head_dim;
    if (n->weight)
        die("%s: %%%s is attention with sinks (%s); forgec has no kernels for them yet (target %s)", path, n->name, n->weight->name,
            p->profile->name);
    if (n->inputs[1]->layer != n->layer)
        die("%s: %%%s reads the keys and values of layer %u; forgec has no kernels for that yet (target %s)", path, n->name,
            n->inputs[1]->layer, p->profile->name);
    if (dim != value_dim)
        die("%s: heads of V have %u items where those of Q and K have %u (%%%s); forgec's kernels need them equal", path, value_dim, dim,
            n->name);
}

/* Operations that the reference alone computes, and forms of the others. */
static void check_operation(const struct plan *p, const struct node *n)
{
    const char *path = p->model->gguf->path, *target = p->profile->name;
    if (!fuse_has_rule(n->op))
        die("%s: %%%s is %s, an operation that forgec has no kernels for yet (target %s); the reference alone computes it", path, n->name,
            op_info[n->op].name, target);
    if ((n->op == OP_rmsnorm || n->op == OP_headnorm) && !n->weight)
        die("%s: %%%s is %s without a weight; forgec has no kernels for that yet (target %s)", path, n->name, op_info[n->op].name, target);
    if (n->op == OP_headnorm && n->weight->cols != n->attr.head_dim)
        die("%s: %%%s has norm weights of its own for each head; forgec has no kernels for that yet (target %s)", path, n->name, target);
    if (n->op == OP_rope && n->attr.rot_first)
        die("%s: %%%s rotates columns from %u on; forgec has no kernels for that yet (target %s)", path, n->name, n->attr.rot_first,
            target);
}

/* The weight image takes rows that lie one behind the other. */
static void check_weight(const struct plan *p, const struct node *n)
{
    const struct weight *w = n->weight;
    if (w->run < w->rows && w->stride != w->run)
        die("%s: %%%s reads %llu of every %llu rows of tensor %s; forgec has no kernels for that yet (target %s)", p->model->gguf->path,
            n->name, (unsigned long long)w->run, (unsigned long long)w->stride, w->name, p->profile->name);
}

void plan_check_limits(const struct plan *p, const struct graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = g->nodes[i];
        check_operation(p, n);
        if (n->weight) check_weight(p, n);
        if (n->heads) check_head_dim(p, n);
        if (n->op == OP_attention) check_attention(p, n);
    }
    if (machine_of(p->profile->kind)->check) machine_of(p->profile->kind)->check(p, g);
}
