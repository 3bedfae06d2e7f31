/* choose_slices.c -- further kernels for products with experts: the router's choice, and in prefill the tokens of each expert and the sum
 * of the experts' rows. */
#include "choose.h"
#include "compiler/front/attr.h"
#include "templates/gpu/slices_sizes.h"

typedef unsigned long long ull;

static void check_route(const struct gpu_chooser *c, const struct node *n)
{
    const char *path = c->plan->model->gguf->path;
    const uint32_t experts = n->inputs[0]->cols;
    if (experts > ROUTE_MOST || n->attr.used > ROUTE_MOST_USED)
        die("%s: %%%s chooses %u of %u experts; the GPU kernels support at most %u of %u; build for a CPU target", path, n->name,
            n->attr.used, experts, ROUTE_MOST_USED, ROUTE_MOST);
    if (n->attr.n_group > ROUTE_MOST_GROUPS)
        die("%s: %%%s has %u groups of experts; the GPU kernels support at most %u; build for a CPU target", path, n->name,
            n->attr.n_group, ROUTE_MOST_GROUPS);
}

static void choose_picked(const struct gpu_chooser *c)
{
    const struct node *n = c->group->node;
    struct kernel_draft d = choose_begin_rows(c, TEMPLATE_picked, arena_printf(c->arena, "%s_tokens", c->group->name));
    d.launch.name = d.kernel.name;
    kernel_does(&d, "tokens of each of %u experts: %s -> u32 [%u] at %llu, how many u32 [%u] at %llu", n->inputs[0]->cols,
                choose_text(c, gpu_read(c->plan, n)),
                c->gg->picked.cols, (ull)c->gg->picked.offset, c->gg->n_picked.cols, (ull)c->gg->n_picked.offset);
    d.kernel.grid_x = n->inputs[0]->cols;
    d.kernel.grid_tokens = 0;
    d.kernel.lds_bytes = PICKED_LDS_BYTES(d.kernel.param[PARAM_THREADS]);
    choose_end(c, &d);
}

const char *choose_route_text(const struct gpu_chooser *c, struct kernel_draft *d, const struct node *n)
{
    struct text t = { .arena = c->arena };
    check_route(c, n);
    text_printf(&t, "route");
    attr_print(&t, n);
    text_printf(&t, ", %s: %s -> %s", choose_vector(c, d, n->weight), choose_text(c, gpu_read(c->plan, n->inputs[0])),
                choose_text(c, gpu_read(c->plan, n)));
    return text_str(&t);
}

void choose_route(const struct gpu_chooser *c)
{
    const struct node *n = c->group->node;
    if (c->gg->chooser && kernel_is_single(c->steps)) return;
    struct kernel_draft d = choose_begin_rows(c, TEMPLATE_route, c->group->name);
    d.kernel.prefill = false;                                /* the kernel serves decode and prefill */
    kernel_does(&d, "%s", choose_route_text(c, &d, n));
    d.kernel.param[PARAM_THREADS] = c->plan->target->wave;
    d.kernel.lds_bytes = ROUTE_LDS_BYTES(n->inputs[0]->cols, n->attr.n_group);
    choose_end(c, &d);
    if (c->gg->picked.exists && c->prefill) choose_picked(c);
}

/* Prefill: the sum of experts and the operations after it, which decode does in the product's kernel. */
void choose_slices_sum(const struct gpu_chooser *c)
{
    const struct branch *b = &c->group->branches[0];
    const uint32_t sum = gpu_sum_at(b), cols = b->chain[sum]->cols;
    struct text t = { .arena = c->arena };
    struct kernel_draft d = choose_begin_rows(c, TEMPLATE_map, arena_printf(c->arena, "%s_sum", c->group->name));
    d.launch.name = d.kernel.name;
    choose_chain(c, &d, &t, b, sum + 1, b->n_chain);
    kernel_does(&d, "expert_sum by %s: %s%s -> %s", choose_text(c, gpu_read(c->plan, c->group->choice)),
                choose_text(c, gpu_own(b->chain[sum]->inputs[0], &c->gg->rows)),
                text_str(&t), choose_text(c, gpu_written(c->plan, b->result, true)));
    d.kernel.grid_x = (cols + d.kernel.param[PARAM_THREADS] - 1) / d.kernel.param[PARAM_THREADS];
    choose_end(c, &d);
}
