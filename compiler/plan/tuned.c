/* tuned.c -- see tuned.h. */
#include "tuned.h"
#include "text.h"
#include "compiler/build/cache.h"
#include <string.h>

static void put_branch(struct text *t, const struct branch *b)
{
    const struct weight *w = b->matmul ? b->matmul->weight : NULL;
    if (w) text_printf(t, " %llux%llu/%u %s", (unsigned long long)w->rows, (unsigned long long)w->cols, w->slices, w->tensor->quant->name);
    text_printf(t, " %u", b->n_chain);
}

static void put_group(struct text *t, const struct group *g)
{
    text_printf(t, "%u %u", (uint32_t)g->kind, g->norm != NULL);
    for (uint32_t k = 0; k < g->n_branches; k++) put_branch(t, &g->branches[k]);
    if (g->node) text_printf(t, " %u %u %u", g->node->cols, g->node->heads, g->node->attr.head_dim);
    text_puts(t, "\n");
}

const char *tuned_shape(struct arena *a, const struct plan *p)
{
    struct text t = { .arena = a };
    for (uint32_t i = 0; i < p->fused->n_groups; i++) put_group(&t, &p->fused->groups[i]);
    const struct bytes part = { (const uint8_t *)text_str(&t), t.size };
    return arena_printf(a, "%.16s", cache_key_hex(a, cache_key_of(&part, 1)));
}

static void need_same(const struct yaml *tuned, const char *key, const char *what, const char *here)
{
    const struct yaml *v = yaml_need(tuned, key);
    if (strcmp(yaml_string(v), here)) die_at(v->at, "these settings are for %s %s; this build has %s", what, yaml_string(v), here);
}

static bool has_kernel(const struct plan *p, const struct kernel_choice *c, uint32_t group)
{
    const struct launches launches = p->kernels->of[c->steps];
    for (uint32_t i = 0; i < launches.n; i++)
        if (launches.list[i].group == group && p->kernels->kernels[launches.list[i].kernel].template == c->template) return true;
    return false;
}

/* Adapts c to a context shorter than the measured one. False if c serves only steps that p does not have. */
static bool fit(const struct plan *p, struct kernel_choice *c)
{
    const uint32_t splits = (p->options.n_ctx + 15) / 16;
    if (c->given >> PARAM_SPLITS & 1 && c->param[PARAM_SPLITS] > splits) c->param[PARAM_SPLITS] = splits;
    if (c->template != TEMPLATE_gemm) return true;
    if (c->given >> PARAM_LEAST & 1 && c->param[PARAM_LEAST] > p->chunk) return false;
    if (c->param[PARAM_MOST] >= p->chunk) c->given &= ~(1u << PARAM_MOST);
    return true;
}

const struct kernel_choices *tuned_choices(struct arena *a, const struct plan *p, const char *options)
{
    const struct yaml *root = p->target->tuned, *tuned = yaml_need(root, "tuned"), *kernels = yaml_get(root, "kernels");
    need_same(tuned, "target", "target", p->target->name);
    need_same(tuned, "options", "the options", options);
    need_same(tuned, "shape", "a model of shape", tuned_shape(a, p));
    if (!kernels || kernels->kind == YAML_NULL) return NULL;
    if (kernels->kind != YAML_LIST) die_at(kernels->at, "expected a list of kernels with their settings");
    struct kernel_choices *all = arena_new(a, struct kernel_choices);
    all->list = arena_array(a, struct kernel_choice, kernels->count);
    for (uint32_t i = 0; i < kernels->count; i++) {
        const struct yaml *y = kernels->items[i];
        struct kernel_choice c = plan_text_kernel(a, y->at, yaml_string(y));
        for (uint32_t k = 0; k < c.n_groups; k++)
            if (!has_kernel(p, &c, c.groups[k]))
                die_at(y->at, "group %u has no %s kernel in %s", c.groups[k], template_info[c.template].name,
                       kernel_steps_name[c.steps]);
        if (fit(p, &c)) all->list[all->n++] = c;
    }
    return all;
}

static bool are_alike(struct arena *a, const struct plan *p, const struct plan *q, uint32_t group)
{
    struct text x = { .arena = a }, y = { .arena = a };
    if (group >= p->fused->n_groups || group >= q->fused->n_groups) return false;
    put_group(&x, &p->fused->groups[group]);
    put_group(&y, &q->fused->groups[group]);
    return strcmp(text_str(&x), text_str(&y)) == 0;
}

const struct kernel_choices *tuned_beside(struct arena *a, const struct plan *first, const struct plan *p,
                                          const struct kernel_choices *tiles)
{
    const struct kernel_choices *of = first->options.choices;
    struct kernel_choices *all = arena_new(a, struct kernel_choices);
    all->list = arena_array(a, struct kernel_choice, of->n);
    all->behind = tiles;
    for (uint32_t i = 0; i < of->n; i++) {
        struct kernel_choice c = of->list[i];
        uint32_t *groups = arena_array(a, uint32_t, c.n_groups + 1u), n = 0;
        if (c.template == TEMPLATE_gemm) continue;
        for (uint32_t k = 0; k < c.n_groups; k++) if (are_alike(a, first, p, c.groups[k])) groups[n++] = c.groups[k];
        c.groups = groups;
        c.n_groups = n;
        all->list[all->n++] = c;
    }
    return all;
}
