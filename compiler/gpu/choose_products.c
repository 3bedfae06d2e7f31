/* choose_products.c -- the kernels of products. In decode some lanes share a row of weights. In prefill a workgroup computes a tile; its
 * size suits the number of compute units and of the step's tokens. */
#include "choose.h"
#include "compiler/format/blocks.h"
#include "templates/gpu/gemv_sizes.h"
#include "templates/gpu/machine/families.h"
#include "templates/gpu/slices_sizes.h"
#include <string.h>

typedef unsigned long long ull;

/* ---- forms, and runs of matrices that are one product ---- */

/* Formats with a scale for each 16 columns correct their offset by sums over 16 activations (SUMS16_x in templates/gpu/formats). */
static bool needs_sums16(const struct weight *w) { return w->tensor->quant->coding && w->tensor->quant->coding->sums16; }

uint32_t gpu_sum_at(const struct branch *b)
{
    uint32_t i = 0;
    while (i < b->n_chain && b->chain[i]->op != OP_expert_sum) i++;
    return i;
}

static bool has_sum(const struct group *g) { return gpu_sum_at(&g->branches[0]) < g->branches[0].n_chain; }

enum gpu_slices gpu_slices_of(const struct group *g)
{
    return g->kind != GROUP_SLICES ? SLICES_NONE : has_sum(g) ? SLICES_SUM : SLICES_EACH;
}

static bool reads_pieces(const struct group *g) { return g->kind == GROUP_SLICES && plan_reads_pieces(g->branches[0].matmul); }

uint32_t gpu_input_cols(const struct group *g)
{
    const uint64_t cols = g->branches[0].matmul->weight->cols;
    return reads_pieces(g) ? (uint32_t)(plan_slices(g) * plan_align(cols, 64)) : g->input->cols;
}

uint32_t gpu_matrices(const struct group *g) { return g->kind != GROUP_SLICES ? 1 : g->branches[0].matmul->weight->slices; }

uint32_t gpu_apart(const struct group *g) { return !g->choice ? SLICES_ALL : reads_pieces(g) ? SLICES_APART : SLICES_SHARED; }

uint32_t gpu_slice_rows(const struct group *g, const struct weight *w)
{
    return (uint32_t)(g->kind == GROUP_SLICES ? w->rows / w->slices : w->rows);
}

/* Can decode's sum of experts apply operation k of the chain? It can apply one bias and one factor of each expert, in either order. */
static bool is_before_sum(const struct branch *b, uint32_t k)
{
    const struct node *n = b->chain[k];
    for (uint32_t i = 0; i < k; i++) if (b->chain[i]->op == n->op) return false;
    return n->op == OP_expert_bias || (n->op == OP_expert_times && n->weight->is_vector);
}

/* Dies if the kernels of products with slices cannot compute the group. */
static void check_slices(const struct plan *p, const struct group *g)
{
    const char *path = p->model->gguf->path;
    for (uint32_t i = 0; i < g->n_branches; i++) {
        const struct branch *b = &g->branches[i];
        const uint32_t sum = gpu_sum_at(b);
        if (plan_reads_pieces(b->matmul) && b->matmul->weight->cols % 4)
            die("%s: %s has %llu columns, which is not a multiple of 4 as the GPU kernels of slices need; build for a CPU target", path,
                b->matmul->weight->name, (ull)b->matmul->weight->cols);
        if (sum == b->n_chain) continue;
        for (uint32_t k = 0; k < sum; k++)
            if (!is_before_sum(b, k))
                die("%s: %%%s is the sum of experts after %s; forgec has no GPU kernel for that; build for a CPU target, or with "
                    "--fuse none", path, b->chain[sum]->name, op_info[b->chain[k]->op].name);
        if (g->n_branches > 1 || !plan_reads_pieces(b->matmul))
            die("%s: %%%s is a sum of experts of one input; forgec has no GPU kernel for that; build for a CPU target, or with --fuse none",
                path, b->chain[sum]->name);
    }
}

static void plan_forms(const struct plan *p, const struct group *g, struct gpu_group *gg)
{
    for (uint32_t i = 0; i < g->n_branches; i++) {
        const struct weight *w = g->branches[i].matmul->weight;
        gg->needs_acts |= !gpu_takes_floats(w);
        gg->needs_floats |= gpu_takes_floats(w);
        gg->needs_bf16 |= gpu_takes_bf16(w);
        gg->needs_f16 |= !gpu_takes_bf16(w);
        gg->sums16 |= needs_sums16(w);
    }
    gg->floats_at = gg->needs_acts ? ACTS_BYTES((uint64_t)gpu_input_cols(g), p->gpu->digits, gg->sums16) : 0;
}

static bool follows(const struct plan *p, const struct weight *a, const struct weight *b)
{
    return a->tensor->quant->id == b->tensor->quant->id && a->cols == b->cols &&
           p->weight_offset[b->index] == p->weight_offset[a->index] + plan_weight_bytes(p, a);
}

uint32_t gpu_runs(const struct plan *p, const struct group *g, struct gpu_run *runs)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_branches; i++) {
        const struct branch *b = &g->branches[i];
        const struct weight *w = b->matmul->weight;
        struct gpu_run *last = n ? &runs[n - 1] : NULL;
        if (b->is_partner) continue;
        if (last && g->kind == GROUP_LINEAR && b->partner < 0 && g->branches[last->first].partner < 0 && last->last == i &&
            follows(p, g->branches[i - 1].matmul->weight, w)) {
            last->last++;
            last->rows += w->rows;
        }
        else runs[n++] = (struct gpu_run){ .first = i, .last = i + 1, .rows = gpu_slice_rows(g, w), .weight = w };
    }
    return n;
}

static uint64_t row_lds(const struct group *g, const struct gpu_group *gg)
{
    return gg->floats_at + (gg->needs_floats ? FLOATS_BYTES((uint64_t)gpu_input_cols(g)) : 0);
}

/* LDS bytes that a kernel needs to choose its experts (templates/gpu/slices.h). */
static uint64_t route_lds(const struct node *route)
{
    return ROUTE_IDS_BYTES(route->attr.used) + ROUTE_LDS_BYTES(route->inputs[0]->cols, route->attr.n_group);
}

/* Decode: the first product that reads a router's choice makes the choice itself, in each of its workgroups. */
static void plan_choice(const struct plan *p, uint32_t index)
{
    const struct group *g = &p->fused->groups[index];
    struct gpu_group *gg = &p->gpu->groups[index];
    const struct node *route = g->choice;
    if (p->fused->level == FUSE_NONE || !route || gpu_slices_of(g) != SLICES_EACH) return;
    for (uint32_t i = 0; i < route->n_readers; i++) if (fuse_group(p->fused, route->readers[i]) < index) return;
    if (fuse_tensors(g) + node_reads_weight(route) > FORGE_MAX_WEIGHTS) return;
    gg->chooses = true;
    gg->route_at = plan_align(row_lds(g, gg), 16);
    p->gpu->groups[fuse_group(p->fused, route)].chooser = index;
}

void choose_products(struct plan *p)
{
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        if (g->kind != GROUP_LINEAR && g->kind != GROUP_SLICES) continue;
        if (g->kind == GROUP_SLICES) check_slices(p, g);
        p->gpu->has_slices |= g->kind == GROUP_SLICES;
        plan_forms(p, g, &p->gpu->groups[i]);
        p->gpu->groups[i].n_runs = gpu_runs(p, g, p->gpu->groups[i].runs);
        if (g->kind == GROUP_SLICES) plan_choice(p, i);
    }
}

/* ---- operations on a product's rows ---- */

const struct node *gpu_operand(const struct branch *b, uint32_t index)
{
    return index ? b->chain[index - 1] : b->matmul ? b->matmul : b->chain[0]->inputs[0];
}

const struct node *gpu_addend(const struct branch *b, uint32_t index)
{
    const struct node *n = b->chain[index];
    return n->inputs[0] == gpu_operand(b, index) ? n->inputs[1] : n->inputs[0];
}

/* Biases of experts count as additions if decode sums the experts: they become a bias of the sum. */
bool gpu_only_adds(const struct branch *b)
{
    const uint32_t sum = gpu_sum_at(b);
    bool adds = false;
    for (uint32_t i = 0; i < b->n_chain; i++) {
        const enum op op = b->chain[i]->op;
        if (op != OP_bias && op != OP_add && (sum == b->n_chain || i > sum)) return false;
        adds |= op == OP_bias || op == OP_add || op == OP_expert_bias;
    }
    return adds;
}

/* The line for a matrix of the run. The slots of its biases come before the slots of the run's weights. */
static const char *branch_text(const struct gpu_chooser *c, struct kernel_draft *d, const struct branch *b)
{
    const struct branch *up = b->partner >= 0 ? &c->group->branches[b->partner] : NULL;
    struct text t = { .arena = c->arena };
    text_printf(&t, "  %s, %llu rows", b->matmul->weight->role, (ull)b->matmul->weight->rows);
    if (up) {
        text_printf(&t, ", beside %s", up->matmul->weight->role);
        choose_chain(c, d, &t, up, 0, up->n_chain);
    }
    const bool apart = c->gg->rows.exists && !gpu_by_gemv(c->plan, c->prefill);     /* a separate kernel makes the sum */
    choose_chain(c, d, &t, b, 0, apart ? gpu_sum_at(b) : b->n_chain);
    text_printf(&t, " -> %s", choose_text(c, apart ? gpu_own(b->result, &c->gg->rows) : gpu_written(c->plan, b->result, c->prefill)));
    return text_str(&t);
}

static void take_branch_slots(const struct gpu_chooser *c, struct kernel_draft *d)
{
    for (uint32_t i = 0; i < c->gg->n_runs; i++)
        for (uint32_t k = c->gg->runs[i].first; k < c->gg->runs[i].last; k++) branch_text(c, d, &c->group->branches[k]);
}

static void does_run(const struct gpu_chooser *c, struct kernel_draft *d, const struct gpu_run *r, const char *x)
{
    const struct branch *b = &c->group->branches[r->first];
    const struct weight *up = b->partner >= 0 ? c->group->branches[b->partner].matmul->weight : NULL;
    const char *name = choose_weight(c, d, r->weight);
    const char *pair = up ? arena_printf(c->arena, " and %s", choose_weight(c, d, up)) : "";
    kernel_does(d, "product of weight%s %s%s, %s %llu x %llu, and %s", up ? "s" : "", name, pair, r->weight->tensor->quant->name,
                (ull)r->rows, (ull)r->weight->cols, x);
    if (c->group->kind == GROUP_SLICES)
        kernel_does(d, "  %u of %u matrices%s%s, %s", plan_slices(c->group), gpu_matrices(c->group), c->group->choice ? " by " : "",
                    c->group->choice ? choose_text(c, gpu_read(c->plan, c->group->choice)) : "",
                    reads_pieces(c->group) ? "each has its own columns" : "of one input");
    for (uint32_t k = r->first; k < r->last; k++) kernel_does(d, "%s", branch_text(c, d, &c->group->branches[k]));
}

static void count_work(const struct gpu_chooser *c, struct kernel *k)
{
    for (uint32_t i = 0; i < c->group->n_branches; i++) {
        const struct weight *w = c->group->branches[i].matmul->weight;
        const bool whole = !gpu_by_gemv(c->plan, c->prefill);            /* the tokens of a step may use all experts together */
        k->weight_bytes += whole ? plan_weight_bytes(c->plan, w) : plan_bytes_read(c->plan, c->group->branches[i].matmul);
        k->operations += 2 * gpu_slice_rows(c->group, w) * w->cols * (c->group->kind == GROUP_SLICES ? plan_slices(c->group) : 1);
    }
}

/* ---- decode, and prefill of exact programs: a token for each grid_y ---- */

/* The work of a lane, in halves of a unit of columns, if `lanes` lanes share a row. A group of rows costs one half more for its sum. */
static uint64_t gemv_cost(uint64_t threads, uint64_t row_groups, uint32_t rows, uint64_t units, uint32_t lanes)
{
    const uint64_t slots = threads / lanes;
    return (row_groups + slots - 1) / slots * (2 * rows * ((units + lanes - 1) / lanes) + 1);
}

static bool has_pair(const struct group *g)
{
    for (uint32_t i = 0; i < g->n_branches; i++) if (g->branches[i].is_partner) return true;
    return false;
}

/* Units of a row that a lane loads in a step; 0: the format's choice. If each slot has at most one row, as in routers, the time of a load
 * decides. Then a row that fits two steps is loaded in two: floats with as many units a step as the registers hold, blocks with fewer units
 * a step than by default. */
static uint32_t planned_depth(const struct gpu_chooser *c, const struct gpu_gemv_shape *s, uint64_t slots, uint64_t rows, uint64_t cols)
{
    enum { MOST_FLOATS = 12 };
    if (s->rows > 1 || rows > slots || c->gg->n_runs > 1) return 0;
    const struct weight *w = c->gg->runs[0].weight;
    const uint64_t unit_cols = gpu_takes_floats(w) ? 16 / w->tensor->quant->block_bytes : 64,
                   units = ((cols + unit_cols - 1) / unit_cols + s->lanes - 1) / s->lanes;
    const uint64_t unit_bytes = packing_row_bytes(plan_packing(c->plan, w), 64);
    if (!gpu_takes_floats(w)) return (units == 2 || units == 3) && unit_bytes <= 40;       /* larger units are loaded singly anyway */
    return units > 8 && units <= 2 * MOST_FLOATS ? (uint32_t)(units + 1) / 2 : 0;
}

/* The target's shape, unless other rows or lanes fill the last round of row groups better and save more than a tenth of the work. */
static struct gpu_gemv_shape planned_gemv(const struct gpu_chooser *c, struct gpu_gemv_shape s, bool depth)
{
    const struct target *t = c->plan->target;
    const bool pair = has_pair(c->group);
    const bool sums = has_sum(c->group), slices = c->group->kind == GROUP_SLICES;
    const uint64_t cols = slices && !sums ? c->group->branches[0].matmul->weight->cols : gpu_input_cols(c->group);
    const uint64_t units = c->gg->needs_floats ? (cols + 7) / 8 : (cols + 63) / 64;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < c->group->n_branches; i++)
        rows += gpu_slice_rows(c->group, c->group->branches[i].matmul->weight) * (slices && !sums ? plan_slices(c->group) : 1u);
    const uint64_t threads = (uint64_t)t->compute_units * s.resident * s.threads;
    uint64_t best = gemv_cost(threads, (rows + s.rows - 1) / s.rows, s.rows, units, s.lanes) * 9 / 10;
    for (uint32_t r = 1; r <= t->gpu.gemv_rows + 1; r++)
        for (uint32_t lanes = t->gpu.gemv_lanes; lanes >= t->gpu.gemv_lanes / 2 && lanes >= 8; lanes /= 2) {
            const uint64_t cost = gemv_cost(threads, (rows + r - 1) / r, r, units, lanes);
            if ((pair && r % 2) || cost >= best) continue;
            best = cost;
            s.rows = r;
            s.lanes = lanes;
        }
    if (depth) s.depth = planned_depth(c, &s, threads / s.lanes, rows, cols);
    return s;
}

const char *gpu_gemv_misfit(struct arena *a, const struct plan *p, const struct group *g, const struct gpu_gemv_shape *s)
{
    const struct target *t = p->target;
    if (s->lanes < 8 || s->lanes > t->wave || (s->lanes & (s->lanes - 1)))
        return arena_printf(a, "lanes is %u; %u lanes of a wave of %s can share a row: a power of two from 8", s->lanes, t->wave, t->name);
    if (s->rows < 1 || s->rows > s->lanes)
        return arena_printf(a, "rows is %u; a run of %u lanes works on 1 to %u rows at once", s->rows, s->lanes, s->lanes);
    if (s->rows % 2 && has_pair(g))
        return arena_printf(a, "rows is %u; %s is a pair of matrices, which needs an even number", s->rows, g->name);
    if (s->threads < t->wave || s->threads > 1024 || s->threads % t->wave)
        return arena_printf(a, "threads is %u; a group of %s has %u to 1024, a multiple of the wave", s->threads, t->name, t->wave);
    if (s->resident < 1 || s->resident > 32 || s->threads / t->wave * s->resident > t->simds * t->waves)
        return arena_printf(a, "resident is %u; %u groups of %u threads are %u waves, and a compute unit of %s holds 1 to %u", s->resident,
                            s->resident, s->threads, s->threads / t->wave * s->resident, t->name, t->simds * t->waves);
    if (s->depth > 32) return arena_printf(a, "depth is %u; a lane loads up to 32 units of a row in a step", s->depth);
    return NULL;
}

static struct gpu_gemv_shape choose_gemv(const struct gpu_chooser *c)
{
    const struct target *t = c->plan->target;
    const struct kernel_choice *given = kernel_choice(c->plan->options.choices, TEMPLATE_gemv,
                                                      c->steps == STEPS_COLUMNS ? STEPS_DECODE : c->steps, c->index, 0);
    struct gpu_gemv_shape s = { t->gpu.gemv_rows < 2 && has_pair(c->group) ? 2 : t->gpu.gemv_rows, t->gpu.gemv_lanes,
                            kernel_chosen(given, PARAM_THREADS, t->gpu.gemv_threads),
                            kernel_chosen(given, PARAM_RESIDENT, t->gpu.gemv_groups),
                            kernel_chosen(given, PARAM_DEPTH, t->gpu.gemv_depth) };
    const char *misfit = given ? gpu_gemv_misfit(c->arena, c->plan, c->group, &s) : NULL;
    if (!misfit) {
        s = planned_gemv(c, s, s.depth == 0 && !(given && given->given & 1u << PARAM_DEPTH));
        s.rows = kernel_chosen(given, PARAM_ROWS, s.rows);
        s.lanes = kernel_chosen(given, PARAM_LANES, s.lanes);
        misfit = given ? gpu_gemv_misfit(c->arena, c->plan, c->group, &s) : NULL;
    }
    if (misfit) die_at(given->at, "%s", misfit);
    return s;
}

/* Does the output head have a decode kernel in prefill? Usually only the last token's logits of a prompt are needed, and then the product
 * is bound by memory like decode's. Prefill kernels serve more rows. */
static bool has_one(const struct gpu_chooser *c)
{
    return c->prefill && !c->plan->options.exact && c->plan->chunk > 1 && c->tail && choose_writes_logits(c)
        && c->group->kind == GROUP_LINEAR;
}

static const char *input_text(const struct gpu_chooser *c, struct kernel_draft *d)
{
    const struct node *norm = c->group->norm;
    struct text t = { .arena = c->arena };
    text_printf(&t, "input %s", choose_text(c, gpu_read(c->plan, c->group->input)));
    if (norm) text_printf(&t, ", %s %s, eps %.9g", op_info[norm->op].name, choose_vector(c, d, norm->weight),
                          (double)(float)norm->attr.eps);
    if (c->gg->needs_acts) text_printf(&t, ", as %u digits%s", c->plan->gpu->digits, c->gg->sums16 ? " with sums of 16" : "");
    if (c->gg->needs_floats) text_printf(&t, ", as floats at %llu", (ull)c->gg->floats_at);
    return text_str(&t);
}

/* A few tokens at once: LDS has as many input rows as fit. Rows of weights and depth may differ from decode's, because they do not change
 * the bits of the results. */
static void choose_columns(const struct gpu_chooser *c, struct kernel_draft *d)
{
    const struct kernel_choice *given = choose_given(c, d->kernel.template, 0);
    const uint32_t fit = d->kernel.lds_bytes ? c->plan->target->lds_bytes / d->kernel.lds_bytes : 1, most = c->plan->options.columns,
                   fixed = 1u << PARAM_LANES | 1u << PARAM_THREADS | 1u << PARAM_RESIDENT;
    uint32_t *param = d->kernel.param;
    for (uint32_t i = 0; given && i < PARAM_COUNT; i++)
        if (fixed & given->given & 1u << i && given->param[i] != param[i])
            die_at(given->at, "%s is %u; it must be %u as in decode, because each token of these steps must get decode's bits",
                   kernel_param_name[i], given->param[i], param[i]);
    param[PARAM_ROWS] = kernel_chosen(given, PARAM_ROWS, param[PARAM_ROWS]);
    param[PARAM_DEPTH] = kernel_chosen(given, PARAM_DEPTH, param[PARAM_DEPTH]);
    const struct gpu_gemv_shape s = { param[PARAM_ROWS], param[PARAM_LANES], param[PARAM_THREADS], param[PARAM_RESIDENT],
                                      param[PARAM_DEPTH] };
    const char *misfit = given ? gpu_gemv_misfit(c->arena, c->plan, c->group, &s) : NULL;
    if (misfit) die_at(given->at, "%s", misfit);
    if (d->kernel.template != TEMPLATE_gemv_columns) return;
    param[PARAM_COLUMNS] = fit < 1 ? 1 : fit < most ? fit : most;
    d->kernel.grid_tokens = param[PARAM_COLUMNS];
    d->kernel.lds_bytes *= param[PARAM_COLUMNS];
}

/* ---- several tokens on the matrix unit ---- */

uint64_t gpu_matrix_stage(const struct plan *p, const struct weight *w)
{
    return 16 * packing_row_bytes(plan_packing(p, w), 256);
}

struct matrix_lds gpu_matrix_lds(const struct plan *p, const struct group *g, const struct kernel *k)
{
    const struct gpu_group *gg = &p->gpu->groups[g - p->fused->groups];
    const uint32_t ranks = k->param[PARAM_CLUSTER] ? k->param[PARAM_CLUSTER] : 1, lanes = k->param[PARAM_LANES],
                   waves = k->param[PARAM_THREADS] / p->target->wave, slots = waves / MATRIX_SPLIT(waves, lanes / 4 / ranks);
    uint64_t stage = 0;
    for (uint32_t i = 0; i < gg->n_runs; i++) {
        const uint64_t own = gpu_matrix_stage(p, gg->runs[i].weight);
        if (own > stage) stage = own;
    }
    const uint64_t row = ACTS_BYTES((uint64_t)MATRIX_COLS(gpu_input_cols(g), lanes, ranks), p->gpu->digits, gg->sums16);
    struct matrix_lds l = { .x_bytes = MATRIX_X_BYTES(row, k->param[PARAM_THREADS]),
                            .ring_bytes = stage * k->param[PARAM_DEPTH] };
    l.parts_at = l.x_bytes * (k->param[PARAM_COLUMNS] - 1) + row;
    l.exchange_at = l.parts_at + 2 * MATRIX_PART_BYTES * waves;
    l.ring_at = plan_align(l.exchange_at + MATRIX_EXCHANGE_BYTES(slots, ranks), 128);
    l.bytes = l.ring_at + waves * l.ring_bytes;
    return l;
}

/* Can the kernel have this many workgroups in a cluster and this many stages? */
static bool matrix_fits(const struct gpu_chooser *c, const struct kernel *k)
{
    const struct target *t = c->plan->target;
    const uint32_t ranks = k->param[PARAM_CLUSTER] ? k->param[PARAM_CLUSTER] : 1;
    return k->param[PARAM_DEPTH] >= 2 && (ranks & (ranks - 1)) == 0 && ranks <= 8 && 4 * ranks <= k->param[PARAM_LANES] &&
           (ranks == 1 || t->cluster) && k->grid_x % ranks == 0 &&
           gpu_matrix_lds(c->plan, c->group, k).bytes * k->param[PARAM_RESIDENT] <= t->lds_bytes;
}

/* The number of workgroups. Fewer clusters of more than two workgroups run at once than the compute units could hold: an H200 with 132
 * compute units runs 15 clusters of eight. */
static uint32_t matrix_groups(const struct gpu_chooser *c, const struct kernel *k)
{
    const uint32_t units = c->plan->target->compute_units, cluster = k->param[PARAM_CLUSTER];
    return (cluster <= 2 ? units : units < 16 ? cluster : (units / 8 - 1) * 8) * k->param[PARAM_RESIDENT];
}

/* Can the matrix unit compute the group's products? Sets the parameters in k: the smallest cluster with room for two stages, and then as
 * many stages as fit, up to four. Given settings take precedence. */
static bool plan_matrix(const struct gpu_chooser *c, struct kernel *k)
{
    enum { MOST_STAGES = 4 };
    const struct kernel_choice *given = choose_given(c, TEMPLATE_gemv_matrix, 0);
    if (c->steps != STEPS_COLUMNS || c->group->kind != GROUP_LINEAR || !FAMILY_MMA_BYTES(c->plan->target->family) || c->gg->needs_floats ||
        choose_given(c, TEMPLATE_gemv_columns, 0) || (c->group->norm && c->group->norm->op != OP_rmsnorm)) return false;
    for (uint32_t i = 0; i < c->gg->n_runs; i++) if (!c->gg->runs[i].weight->tensor->quant->coding->matrix) return false;
    k->param[PARAM_ROWS] = 0;
    k->param[PARAM_COLUMNS] = c->plan->options.columns;
    for (uint32_t cluster = 0; cluster <= 8; cluster += cluster ? cluster : 2) {
        k->param[PARAM_CLUSTER] = kernel_chosen(given, PARAM_CLUSTER, cluster);
        k->grid_x = matrix_groups(c, k);
        for (uint32_t stages = MOST_STAGES; stages >= 2; stages--) {
            k->param[PARAM_DEPTH] = kernel_chosen(given, PARAM_DEPTH, stages);
            if (matrix_fits(c, k)) return true;
        }
    }
    if (given) die_at(given->at, "cluster and depth of %s do not fit: cluster must be 0 or a power of two from 2 to 8, depth at least 2, "
                      "and the ring of both must fit %u bytes of LDS", c->group->name, c->plan->target->lds_bytes);
    return false;
}

static void choose_gemv_kernel(const struct gpu_chooser *c)
{
    const struct gpu_gemv_shape shape = choose_gemv(c);
    const struct gpu_run *first = &c->gg->runs[0];
    const struct branch *b = &c->group->branches[first->first];
    static const char *const behind[] = { [STEPS_DECODE] = "", [STEPS_PREFILL] = "_prefill", [STEPS_COLUMNS] = "_columns",
                                          [STEPS_PASS] = "" };
    const bool columns = c->steps == STEPS_COLUMNS && c->group->kind == GROUP_LINEAR;
    const bool one = has_one(c);
    struct kernel_draft d = choose_begin(c, columns ? TEMPLATE_gemv_columns : TEMPLATE_gemv,
                                         arena_printf(c->arena, "%s%s", c->group->name, one ? "_one" : behind[c->steps]));
    take_branch_slots(c, &d);
    choose_weight(c, &d, first->weight);
    if (b->partner >= 0) choose_weight(c, &d, c->group->branches[b->partner].matmul->weight);
    d.kernel.grid_tokens = !kernel_is_single(c->steps);
    d.kernel.param[PARAM_LEAST] = d.kernel.param[PARAM_MOST] = one;
    const bool chooses = gpu_chooses(c->gg, &d.kernel);
    if (chooses) kernel_does(&d, "%s", choose_route_text(c, &d, c->group->choice));
    kernel_does(&d, "%s", input_text(c, &d));
    for (uint32_t i = 0; i < c->gg->n_runs; i++)
        does_run(c, &d, &c->gg->runs[i], gpu_takes_floats(c->gg->runs[i].weight) ? "floats" : "digits");
    count_work(c, &d.kernel);
    d.kernel.param[PARAM_ROWS] = shape.rows;
    d.kernel.param[PARAM_LANES] = shape.lanes;
    d.kernel.param[PARAM_THREADS] = shape.threads;
    d.kernel.param[PARAM_RESIDENT] = shape.resident;
    d.kernel.param[PARAM_DEPTH] = shape.depth;
    d.kernel.param[PARAM_DIGITS] = c->plan->gpu->digits;
    d.kernel.grid_x = c->plan->target->compute_units * shape.resident;
    d.kernel.lds_bytes = (uint32_t)(chooses ? c->gg->route_at + route_lds(c->group->choice) : row_lds(c->group, c->gg));
    struct kernel on_matrix = d.kernel;
    if (plan_matrix(c, &on_matrix)) {
        d.kernel = on_matrix;
        d.kernel.template = TEMPLATE_gemv_matrix;
        d.kernel.grid_tokens = d.kernel.param[PARAM_COLUMNS];
        d.kernel.lds_bytes = (uint32_t)gpu_matrix_lds(c->plan, c->group, &d.kernel).bytes;
    }
    else if (c->steps == STEPS_COLUMNS) choose_columns(c, &d);
    choose_end(c, &d);
}

/* ---- prefill ---- */

static void choose_stage(const struct gpu_chooser *c, bool bf16)
{
    const struct group *g = c->group;
    const struct gpu_place to = gpu_stage(c->plan, g, bf16);
    struct kernel_draft d = choose_begin_rows(c, bf16 ? TEMPLATE_stage_bf16 : TEMPLATE_stage, arena_printf(c->arena, "%s_in", g->name));
    d.launch.name = d.kernel.name;
    const char *norm = g->norm ? arena_printf(c->arena, "%s %s, eps %.9g: ", op_info[g->norm->op].name,
                                              choose_vector(c, &d, g->norm->weight), (double)(float)g->norm->attr.eps) : "";
    kernel_does(&d, "%s%s -> %s", norm, choose_text(c, gpu_read(c->plan, g->input)), choose_text(c, to));
    if (reads_pieces(g)) {
        kernel_does(&d, "in %u pieces, each filled up to whole units", plan_slices(g));
        d.kernel.grid_x = plan_slices(g);
    }
    if (has_one(c)) {
        d.kernel.param[PARAM_LEAST] = 2;
        d.kernel.param[PARAM_MOST] = c->plan->chunk;
    }
    d.kernel.lds_bytes = ACTS_SCRATCH_BYTES;
    choose_end(c, &d);
}

struct gemm_product gpu_product(const struct plan *p, const struct group *g, uint64_t weight_bytes, struct gemm_part parts[MAX_BRANCHES])
{
    const struct gpu_group *gg = &p->gpu->groups[g - p->fused->groups];
    for (uint32_t i = 0; i < gg->n_runs; i++) {
        const struct gpu_run *r = &gg->runs[i];
        const enum quant id = r->weight->tensor->quant->id;
        parts[i] = (struct gemm_part){ r->rows * gpu_matrices(g), g->branches[r->first].partner >= 0,
                                       id == QUANT_F16 || id == QUANT_BF16, id == QUANT_F32 ? 2 : 1 };
    }
    return (struct gemm_product){ parts, gg->n_runs, (uint32_t)gg->runs[0].weight->cols, weight_bytes, g->choice != NULL };
}

/* Tiles of rows of all runs; each matrix of a stack has separate tiles. */
static uint32_t row_tiles(const struct gpu_chooser *c, const struct gemm_shape *s)
{
    uint64_t tiles = 0;
    for (uint32_t i = 0; i < c->gg->n_runs; i++) {
        const struct gemm_part part = { .rows = c->gg->runs[i].rows, .pair = c->group->branches[c->gg->runs[i].first].partner >= 0 };
        tiles += gemm_part_tiles(&part, s->rows) * gpu_matrices(c->group);
    }
    return (uint32_t)tiles;
}

static void does_picked(const struct gpu_chooser *c, struct kernel_draft *d)
{
    const struct gpu_group *choice = &c->plan->gpu->groups[fuse_group(c->plan->fused, c->group->choice)];
    kernel_does(d, "tokens of each matrix u32 [%u] at %llu, how many u32 [%u] at %llu", choice->picked.cols, (ull)choice->picked.offset,
                choice->n_picked.cols, (ull)choice->n_picked.offset);
}

static void choose_gemm_kernel(const struct gpu_chooser *c, const struct gemm_product *product, const struct gemm_range *r)
{
    const char *name = c->group->name;
    const bool last = r->most == c->plan->chunk;
    struct kernel_draft d = choose_begin(c, TEMPLATE_gemm, last ? arena_printf(c->arena, "%s_prefill", name)
                                                                : arena_printf(c->arena, "%s_prefill_%u", name, r->most));
    take_branch_slots(c, &d);
    for (uint32_t i = 0; i < c->gg->n_runs; i++) {
        const struct gpu_place x = gpu_stage(c->plan, c->group, gpu_takes_bf16(c->gg->runs[i].weight));
        does_run(c, &d, &c->gg->runs[i], choose_text(c, x));
    }
    count_work(c, &d.kernel);
    d.kernel.param[PARAM_TOKENS] = r->shape.tokens;
    d.kernel.param[PARAM_ROWS] = r->shape.rows;
    d.kernel.param[PARAM_THREADS] = r->shape.threads;
    d.kernel.param[PARAM_RESIDENT] = r->shape.groups;
    d.kernel.param[PARAM_LEAST] = r->least;
    d.kernel.param[PARAM_MOST] = r->most;
    if (c->group->choice) does_picked(c, &d);
    d.kernel.grid_x = row_tiles(c, &r->shape);
    d.kernel.grid_tokens = r->shape.tokens;
    d.kernel.tokens_first = 1;
    d.kernel.lds_bytes = gemm_lds(c->plan->target, product, &r->shape);
    d.kernel.fill = gemm_fill(c->plan->target, product, &r->shape, r->most);
    choose_end(c, &d);
}

/* A range from a plan that was read back. Parameters that it does not set come from the planned range that contains its last size. */
static struct gemm_range given_range(const struct gpu_chooser *c, const struct kernel_choice *given, const struct gemm_product *product,
                                     const struct gemm_range *planned, uint32_t n_planned, uint32_t least)
{
    const struct target *t = c->plan->target;
    const uint32_t most = kernel_chosen(given, PARAM_MOST, c->plan->chunk);
    uint32_t i = 0;
    while (i + 1 < n_planned && planned[i].most < most) i++;
    const struct gemm_shape *s = &planned[i].shape;
    const struct gemm_range r = { { kernel_chosen(given, PARAM_TOKENS, s->tokens), kernel_chosen(given, PARAM_ROWS, s->rows),
                                  kernel_chosen(given, PARAM_THREADS, s->threads), 0 }, kernel_chosen(given, PARAM_LEAST, least), most };
    if (r.least != least || r.most < r.least || r.most > c->plan->chunk)
        die_at(given->at, "the kernel is for steps of %u .. %u tokens; the next kernel of %s must begin with %u and end with at most %u",
               r.least, r.most, c->group->name, least, c->plan->chunk);
    if (r.shape.threads < t->wave || r.shape.threads > 1024 || r.shape.threads % t->wave)
        die_at(given->at, "threads is %u; a group of %s must have %u to 1024, a multiple of the wave", r.shape.threads, t->name, t->wave);
    /* products of these sizes fit 32 bits */
    const bool is_tile = r.shape.tokens && r.shape.rows && r.shape.tokens <= 1024 && r.shape.rows <= 1024;
    if (!is_tile || !gemm_shape_works(t, product, &r.shape))
        die_at(given->at, "no tile of %u tokens x %u rows works for %u threads: both must be multiples of 16 that the waves can share%s, "
                          "and the tile must fit %u bytes of LDS",
               r.shape.tokens, r.shape.rows, r.shape.threads, has_pair(c->group) ? ", the rows in pairs" : "", t->lds_bytes);
    return (struct gemm_range){ gemm_with_groups(t, r.shape), r.least, r.most };
}

/* Plans the ranges. Tokens are divided among the experts, so experts are planned for their mean number of tokens. A product that writes
 * logits has at most logits_rows tokens, but its last range ends with the chunk, as for every product. */
static uint32_t plan_ranges(const struct gpu_chooser *c, struct gemm_range planned[GEMM_RANGES], const struct gemm_product *product)
{
    const struct gemm_refused *refused = &c->plan->gpu->refused;
    const uint32_t chunk = c->plan->chunk;
    if (choose_writes_logits(c)) {
        const uint32_t n = gemm_plan(planned, c->plan->target, product, c->plan->gpu->logits_rows, refused);
        planned[n - 1].most = chunk;
        return n;
    }
    if (!c->group->choice) return gemm_plan(planned, c->plan->target, product, chunk, refused);
    const uint32_t experts = gpu_matrices(c->group), used = plan_slices(c->group),
                   mean = (uint32_t)(((uint64_t)chunk * used + experts - 1) / experts);
    const uint32_t n = gemm_plan(planned, c->plan->target, product, mean, refused);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t most = (uint64_t)planned[i].most * experts / used;
        planned[i].least = i ? planned[i - 1].most + 1 : 1;
        planned[i].most = i + 1 == n || most > chunk ? chunk : (uint32_t)most;
        if (planned[i].most == chunk) return i + 1;
    }
    return n;
}

/* The given ranges, or the planned ones. If one range is given, all must be. */
static uint32_t choose_ranges(const struct gpu_chooser *c, struct gemm_range ranges[GEMM_RANGES], const struct gemm_product *product)
{
    struct gemm_range planned[GEMM_RANGES];
    const uint32_t n_planned = plan_ranges(c, planned, product);
    planned[0].least = has_one(c) ? 2 : 1;
    const struct kernel_choice *given = NULL, *last = NULL;
    uint32_t n = 0, least = planned[0].least;
    for (; (given = choose_given(c, TEMPLATE_gemm, n)); last = given) {
        if (n == GEMM_RANGES) die_at(given->at, "%s has more than %u kernels in prefill; remove some", c->group->name, GEMM_RANGES);
        ranges[n] = given_range(c, given, product, planned, n_planned, least);
        least = ranges[n++].most + 1;
    }
    if (last && least <= c->plan->chunk)
        die_at(last->at, "no kernel of %s is for steps of %u .. %u tokens; add one", c->group->name, least, c->plan->chunk);
    if (last) return n;
    memcpy(ranges, planned, sizeof planned);
    return n_planned;
}

static void choose_gemm_kernels(const struct gpu_chooser *c)
{
    struct gemm_part parts[MAX_BRANCHES];
    struct kernel work = { 0 };
    count_work(c, &work);
    const struct gemm_product product = gpu_product(c->plan, c->group, work.weight_bytes, parts);
    struct gemm_range ranges[GEMM_RANGES];
    const uint32_t n = choose_ranges(c, ranges, &product);
    if (c->gg->stage_f16.exists) choose_stage(c, false);
    if (c->gg->stage_bf16.exists) choose_stage(c, true);
    for (uint32_t i = 0; i < n; i++) choose_gemm_kernel(c, &product, &ranges[i]);
    if (c->gg->rows.exists) choose_slices_sum(c);
    if (has_one(c)) choose_gemv_kernel(c);
}

void choose_linear(const struct gpu_chooser *c)
{
    if (gpu_by_gemv(c->plan, c->prefill)) choose_gemv_kernel(c);
    else choose_gemm_kernels(c);
}
