/* series.c -- series of small operations. Consecutive groups that are norms, or maps on rows of finished values, become one kernel, because
 * a launch takes longer than such an operation. A workgroup does the operations of a token one after another. Operations that do not need
 * each other's results are different strands, and each strand has its own workgroup. */
#include "choose.h"

/* COLS: most columns of an operation. One workgroup takes long for many columns; the widest operation that was measured (on an H200) has
 * 11,520, in GLM-4.7-Flash. THREADS: of a workgroup, as a multiple of the threads that other kernels for rows have. */
enum { SERIES_COLS = 12288, SERIES_THREADS = 2 };

static const struct group *group_at(const struct plan *p, uint32_t i) { return &p->fused->groups[i]; }

static bool passes_values(const struct branch *b)
{
    for (uint32_t i = 0; i < b->n_chain; i++) {
        const enum op op = b->chain[i]->op;
        if (op == OP_push || op == OP_send || op == OP_receive || op == OP_all_reduce || op == OP_all_gather) return true;
    }
    return false;
}

static bool is_small(const struct plan *p, uint32_t i)
{
    const struct fused *f = p->fused;
    const struct group *g = group_at(p, i);
    if (f->graph->output && i == fuse_group(f, f->graph->output)) return false;
    if (f->graph->draft && i == fuse_group(f, f->graph->draft)) return false;
    if (g->kind == GROUP_NORM) return g->node->cols <= SERIES_COLS;
    return g->kind == GROUP_MAP && !passes_values(&g->branches[0]) && g->branches[0].result->cols <= SERIES_COLS;
}

/* The tensors that a launch of the group reads, at most. */
static uint32_t tensors_of(const struct group *g)
{
    if (g->kind == GROUP_NORM) return g->node->weight != NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->branches[0].n_chain; i++) {
        const struct node *of = g->branches[0].chain[i];
        n += (of->weight ? 1u : 0) + (of->op == OP_rope ? 2 : 0);
    }
    return n;
}

/* The state that the group stores into; NULL: no state. */
static const struct state *state_of(const struct plan *p, const struct group *g)
{
    const struct node *n = g->kind == GROUP_MAP ? g->branches[0].chain[0] : NULL;
    return n && (n->op == OP_store_k || n->op == OP_store_v) ? plan_state(p, n) : NULL;
}

bool gpu_reads_group(const struct plan *p, uint32_t i, uint32_t made)
{
    const struct group *g = group_at(p, i);
    if (g->kind == GROUP_NORM) return fuse_group(p->fused, fuse_held_by(g->input)) == made;
    for (uint32_t k = 0; k < g->branches[0].n_chain; k++) {
        const struct node *n = g->branches[0].chain[k];
        for (uint32_t x = 0; x < COUNT_OF(n->inputs) && n->inputs[x]; x++)
            if (fuse_group(p->fused, fuse_held_by(n->inputs[x])) == made) return true;
    }
    return false;
}

/* The group after the last one of the series that begins with group `first`. A launch has room for some tensors and one state, and tokens
 * without logits end at the last store. */
static uint32_t series_end(const struct plan *p, uint32_t first, const uint32_t ends[2])
{
    const struct state *state = NULL;
    uint32_t tensors = 0, i = first;
    for (; i < p->fused->n_groups && is_small(p, i); i++) {
        const struct group *g = group_at(p, i);
        const struct state *its = state_of(p, g);
        tensors += tensors_of(g);
        if (tensors > FORGE_MAX_WEIGHTS || (state && its && its->offset != state->offset)) break;
        if (i > first && (i == ends[0] + 1 || i == ends[1] + 1)) break;
        if (g->drafts != group_at(p, first)->drafts || g->keeps != group_at(p, first)->keeps) break;
        if (its) state = its;
    }
    return i;
}

/* Groups that read each other's values, directly or through others, are a strand. */
static void choose_strands(struct plan *p, uint32_t first, uint32_t end)
{
    struct gpu_group *gg = p->gpu->groups;
    uint32_t n = 0;
    for (uint32_t i = first; i < end; i++) {
        gg[i].strand = n++;
        for (uint32_t k = first; k < i; k++) {
            const uint32_t from = gg[k].strand, to = gg[i].strand, less = from < to ? from : to, more = from < to ? to : from;
            if (from == to || !gpu_reads_group(p, i, k)) continue;
            for (uint32_t of = first; of <= i; of++) {
                if (gg[of].strand == more) gg[of].strand = less;
                else if (gg[of].strand > more) gg[of].strand--;
            }
            n--;
        }
    }
}

void choose_series(struct plan *p)
{
    const struct fused *f = p->fused;
    uint32_t ends[2] = { fuse_last_store(f), 0 };
    for (uint32_t i = ends[1] = ends[0]; i < f->n_groups; i++) if (f->groups[i].kind == GROUP_ATTENTION) ends[1] = i;
    for (uint32_t i = 0, end; i < f->n_groups; i = end) {
        end = f->level == FUSE_NONE ? i + 1 : series_end(p, i, ends);
        if (end < i + 1) end = i + 1;
        for (uint32_t k = i; k < end; k++) {
            p->gpu->groups[k].series_first = i;
            p->gpu->groups[k].series_last = end - 1;
        }
        choose_strands(p, i, end);
    }
}

uint32_t gpu_strands(const struct plan *p, uint32_t first)
{
    uint32_t n = 0;
    for (uint32_t i = first; i <= p->gpu->groups[first].series_last; i++)
        if (p->gpu->groups[i].strand >= n) n = p->gpu->groups[i].strand + 1;
    return n;
}

/* The last group of a series that has operations. */
static const struct group *last_of(const struct plan *p, uint32_t first)
{
    uint32_t last = p->gpu->groups[first].series_last;
    while (last > first && gpu_stores_nothing(p, group_at(p, last))) last--;
    return group_at(p, last);
}

static void choose_part(struct gpu_chooser *c, uint32_t i)
{
    c->index = i;
    c->group = group_at(c->plan, i);
    c->gg = &c->plan->gpu->groups[i];
    if (c->group->kind == GROUP_NORM) choose_norm(c);
    else choose_map(c);
}

void choose_series_kernel(struct gpu_chooser *c)
{
    const struct gpu_group *groups = c->plan->gpu->groups;
    const uint32_t first = c->index, last = groups[first].series_last, strands = gpu_strands(c->plan, first);
    struct kernel_draft d = choose_begin_rows(c, TEMPLATE_series, arena_printf(c->arena, "%s_to_%s", c->group->name,
                                                                              last_of(c->plan, first)->name));
    d.kernel.prefill = false;
    d.launch.name = d.kernel.name;
    if (d.kernel.param[PARAM_THREADS] * SERIES_THREADS <= 1024) d.kernel.param[PARAM_THREADS] *= SERIES_THREADS;
    d.kernel.grid_x = strands;
    for (uint32_t s = 0; s < strands; s++) {
        if (strands > 1) kernel_does(&d, "workgroup %u:", s);
        c->series = &d;
        for (uint32_t i = first; i <= last; i++) if (groups[i].strand == s) choose_part(c, i);
        c->series = NULL;
    }
    c->index = first;
    c->group = group_at(c->plan, first);
    c->gg = &groups[first];
    choose_end(c, &d);
}
