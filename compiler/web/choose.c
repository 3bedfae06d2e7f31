/* choose.c -- the kernels of a WebGPU program and their launches. A group becomes one kernel, or two if workgroups would have to wait for
 * each other, which WGSL cannot express. Prefill uses decode's kernels with a token for each row of the grid, except for attention and for
 * products of many tokens. Every value is a row of f32. */
#include "places.h"
#include "compiler/front/attr.h"
#include "compiler/plan/machine.h"
#include "templates/gpu/slices_sizes.h"
#include "templates/webgpu/sizes.h"
#include <string.h>

typedef unsigned long long ull;

enum { GROUPS_UNIT = 32 };                   /* workgroups: the unit of gemv_groups */

struct web_chooser {
    struct arena           *arena;
    struct plan            *plan;
    struct kernel_list     *list;
    /* the current group */
    const struct group     *group;
    const struct web_group *wg;
    uint32_t                index, nth;      /* nth: number of the launch among the group's launches of one template */
    enum kernel_steps       steps;
    bool                    prefill, tail;
};

/* ---- drafts ---- */

static struct kernel_draft begin(const struct web_chooser *c, enum kernel_template template, const char *name)
{
    struct kernel_draft d = kernel_begin(c->list, template, name, c->plan->fused, c->group, c->steps, c->prefill && c->tail);
    d.kernel.prefill = false;                                /* decode and prefill share kernels, unless the caller changes this */
    d.kernel.param[PARAM_THREADS] = c->plan->target->gpu.stage_threads;
    d.kernel.grid_tokens = 1;
    return d;
}

/* The choice for the current group in a plan that was read back; or NULL. */
static const struct kernel_choice *given_for(const struct web_chooser *c, enum kernel_template template)
{
    return c->group ? kernel_choice(c->plan->options.choices, template, c->steps, c->index, c->nth) : NULL;
}

/* Dies if a given parameter that the kernel does not use differs from the planned value. */
static void check_given(const struct web_chooser *c, const struct kernel_draft *d)
{
    const struct kernel_choice *given = given_for(c, d->kernel.template);
    for (uint32_t i = 0; given && i < PARAM_COUNT; i++)
        if (given->given >> i & 1 && given->param[i] != d->kernel.param[i])
            die_at(given->at, "%s is %u; for kernel %s of %s it must be %u", kernel_param_name[i], given->param[i], d->kernel.name,
                   c->plan->target->name, d->kernel.param[i]);
}

static void end(const struct web_chooser *c, struct kernel_draft *d)
{
    check_given(c, d);
    const struct target *t = c->plan->target;
    if (d->kernel.lds_bytes > t->lds_bytes)
        die("%s: kernel %s needs %u bytes of workgroup memory, %s has %u; the model is too wide for forgec's kernels on it; "
            "build for target wasm32", c->plan->model->gguf->path, d->kernel.name, d->kernel.lds_bytes, t->name, t->lds_bytes);
    kernel_end(c->list, d);
}

/* ", rows 4096 to 8191", or "" if the whole matrix is bound. */
static const char *part_text(const struct web_chooser *c, const struct web_part *part)
{
    if (web_part_is_whole(c->plan, c->group, part)) return "";
    return arena_printf(c->arena, ", %s %llu to %llu", c->group->kind == GROUP_SLICES ? "matrices" : "rows", (ull)part->first,
                        (ull)(part->first + part->n - 1));
}

static const char *matrix_text(const struct web_chooser *c, struct kernel_draft *d, const struct web_part *part, const struct weight *w)
{
    return arena_printf(c->arena, "%s, %s %llu x %llu%s", kernel_bind(d, web_part_binding(c->plan, c->group, part, w), w->role, 0),
                        w->tensor->quant->name, (ull)w->rows, (ull)w->cols, part_text(c, part));
}

static const char *vector_text(const struct web_chooser *c, struct kernel_draft *d, const struct weight *w)
{
    if (!w) return "no weight";
    return arena_printf(c->arena, "weight %s", kernel_bind(d, plan_binding(c->plan, w), w->role, plan_weight_bytes(c->plan, w)));
}

static const char *rotation_text(const struct web_chooser *c, struct kernel_draft *d, const struct node *n)
{
    if (!n) return "no rotation";
    const struct rotation_plan *r = &c->plan->rotations[n->rotation];
    const uint64_t row = 4ull * r->n_rot;
    const char *lo = kernel_bind(d, rotation_table(r, false), "angles_low", row);
    const char *hi = kernel_bind(d, rotation_table(r, true), "angles_high", row);
    return arena_printf(c->arena, "rope with weights %s and %s, %u positions a row, %u items, pairs %s%s", hi, lo, r->block, n->attr.n_rot,
                        n->attr.neox ? "i, i + n/2" : "2i, 2i + 1", r->lo_far ? ", for long texts the tables after them" : "");
}

static const char *place_text(const struct web_chooser *c, struct web_place at)
{
    if (at.form == WEB_NONE) return arena_printf(c->arena, "%s into the state", at.name);
    return arena_printf(c->arena, "%s [%u] at %llu, stride %llu%s", at.name, at.cols, (ull)at.offset, (ull)at.stride,
                        at.form == WEB_LOGITS ? ", from the first token with logits" : "");
}

static const char *value_text(const struct web_chooser *c, const struct node *n) { return place_text(c, web_place_of(c->plan, n)); }

/* Appends operations from .. to - 1 of a chain to t. */
static void chain_text(const struct web_chooser *c, struct kernel_draft *d, struct text *t, const struct branch *b, uint32_t from,
                       uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const struct node *n = b->chain[i];
        text_printf(t, ", %s", op_info[n->op].name);
        attr_print(t, n);
        if (node_reads_weight(n))
            text_printf(t, " weight %s", kernel_bind(d, plan_binding(c->plan, n->weight), n->weight->role, plan_bytes_read(c->plan, n)));
        if (n->weight && n->op == OP_times) text_printf(t, " [%llu]", (ull)n->weight->cols);
        if (op_info[n->op].n_values == 2 && !fuse_reads_partner(c->group, b, n)) text_printf(t, " %s", value_text(c, gpu_addend(b, i)));
        if (op_is_gate(n->op) && n->inputs[0] != gpu_operand(b, i))
            text_puts(t, " as its gate");
    }
}

/* ---- operations on rows ---- */

static void choose_embed(const struct web_chooser *c)
{
    const struct node *n = c->group->node;
    struct web_chooser one = *c;
    for (one.nth = 0; one.nth < c->wg->n_launches; one.nth++) {
        struct kernel_draft d = begin(&one, TEMPLATE_embed, c->group->name);
        for (uint32_t i = 0; i < c->wg->n_parts; i++)
            if (c->wg->parts[i].launch == one.nth)
                kernel_does(&d, "embed: rows of weight %s -> %s", matrix_text(c, &d, &c->wg->parts[i], n->weight), value_text(c, n));
        if (one.nth == 0) d.kernel.weight_bytes = packing_row_bytes(plan_packing(c->plan, n->weight), n->weight->cols);
        end(&one, &d);
    }
}

static void choose_norm_to(const struct web_chooser *c, const struct node *n, const struct node *from, struct web_place to,
                           const char *name)
{
    struct kernel_draft d = begin(c, TEMPLATE_norm, name);
    d.launch.name = name;
    kernel_does(&d, "%s: %s, eps %.9g: %s -> %s", op_info[n->op].name, vector_text(c, &d, n->weight), (double)(float)n->attr.eps,
                value_text(c, from), place_text(c, to));
    end(c, &d);
}

static void choose_norm(const struct web_chooser *c)
{
    const struct node *n = c->group->node;
    choose_norm_to(c, n, c->group->input, web_place_of(c->plan, n), c->group->name);
}

/* A chain of operations on single values. The first operation may read its value from another column of the row, or work on heads. */
static void choose_map(const struct web_chooser *c)
{
    const struct branch *b = &c->group->branches[0];
    const struct node *n = b->chain[0];
    if (gpu_stores_nothing(c->plan, c->group)) return;
    struct kernel_draft d = begin(c, TEMPLATE_map, c->group->name);
    const uint32_t threads = d.kernel.param[PARAM_THREADS];
    struct text t = { .arena = c->arena };
    chain_text(c, &d, &t, b, 0, b->n_chain);
    const char *rotation = n->op == OP_rope ? arena_printf(c->arena, ", %s", rotation_text(c, &d, n)) : "";
    kernel_does(&d, "%s%s%s -> %s", value_text(c, n->inputs[0]), text_str(&t), rotation, value_text(c, b->result));
    d.kernel.grid_x = (n->cols + threads - 1) / threads;
    if (n->op == OP_store_k || n->op == OP_store_v) {
        kernel_does(&d, "%u positions, ring %u, %s", c->plan->options.n_ctx, state_ring(plan_state(c->plan, n)),
                    kv_type_name[c->plan->options.kv]);
        d.launch.state = plan_state(c->plan, n)->offset;
        d.kernel.grid_x = (n->heads + HEADS_EACH - 1) / HEADS_EACH;
    }
    if (gpu_map_of(c->group) == MAP_HEADS || n->op == OP_headnorm) d.kernel.grid_x = n->cols / n->attr.head_dim;
    end(c, &d);
}

/* ---- products ---- */

/* Bytes of workgroup memory for the input of decode's products. */
static uint64_t input_bytes(const struct group *g, const struct web_group *wg)
{
    const uint64_t units = (g->branches[0].matmul->weight->cols + 63) / 64;      /* with slices: a workgroup has one piece at a time */
    return (wg->ints ? ACTS_BYTES(units) : 0) + (wg->floats && !wg->from_arena ? FLOATS_BYTES(units) : 0);
}

static bool writes_logits(const struct plan *p, const struct group *g)
{
    return g == &p->fused->groups[fuse_group(p->fused, p->fused->graph->output)];
}

/* Does prefill compute the group's products in tiles? It does not for logits, which only a few tokens have, and not for matrices of
 * experts, which only some tokens use. */
static bool has_tiles(const struct plan *p, const struct group *g)
{
    return g->kind == GROUP_LINEAR && p->chunk > WEB_FEW && !writes_logits(p, g);
}

uint32_t web_tiles(const struct plan *p, const struct group *g, const struct web_part *part)
{
    const uint32_t rows = web_part_weight(p, g, part, true) ? TILE_PAIRS : TILE_ROWS;
    return (uint32_t)((part->n + rows - 1) / rows);
}

/* Steps of more tokens than this use tiles. For products of experts this is about two tokens per expert on average. */
static uint32_t few_tokens(const struct group *g)
{
    const uint32_t each = g->choice ? 2 * gpu_matrices(g) / g->choice->attr.used : 0;
    return each > WEB_FEW ? each : WEB_FEW;
}

/* Does prefill group the tokens by expert? Only for a group with one run of experts and int8 input. */
static bool is_grouped(const struct plan *p, const struct group *g, const struct web_group *wg)
{
    return g->kind == GROUP_SLICES && g->choice && wg->ints && !wg->floats && wg->n_runs == 1 && p->chunk > few_tokens(g) &&
           !writes_logits(p, g);
}

static void plan_grouped(const struct plan *p, const struct group *g, struct web_group *wg)
{
    const uint32_t used = g->choice->attr.used, units = (uint32_t)(wg->runs[0].weight->cols + 63) / 64,
                   words = used + (gpu_matrices(g) + p->chunk) / p->chunk;       /* with the starts of experts, spread over the chunk */
    wg->staged = (struct buffer){ .exists = true, .cols = used * 64 * units, .pieces = 1, .stride = used * STAGED_BYTES(units) };
    wg->list = (struct buffer){ .exists = true, .cols = words, .pieces = 1, .stride = 4 * words };
}

static void plan_tiles(const struct plan *p, const struct group *g, struct web_group *wg)
{
    if (is_grouped(p, g, wg)) plan_grouped(p, g, wg);
    if (!has_tiles(p, g)) return;
    const uint32_t cols = g->input->cols, stride = STAGED_BYTES((cols + 63) / 64);
    if (wg->ints) wg->staged = (struct buffer){ .exists = true, .cols = cols, .pieces = 1, .stride = stride };
    if (wg->floats && g->norm && !wg->normed.exists) wg->rows_in = web_buffer(cols);
}

/* Plans the groups of products as far as necessary before values have places. */
static void plan_products(struct arena *a, struct plan *p)
{
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        struct web_group *wg = &p->web->groups[i];
        if (g->kind == GROUP_EMBED) web_plan_parts(a, p, g, wg);
        if (g->kind != GROUP_LINEAR && g->kind != GROUP_SLICES) continue;
        wg->n_runs = gpu_runs(p, g, wg->runs);
        web_plan_parts(a, p, g, wg);
        for (uint32_t k = 0; k < g->n_branches; k++) {
            const bool floats = gpu_takes_floats(g->branches[k].matmul->weight) || p->options.exact;
            wg->floats |= floats;
            wg->ints |= !floats;
        }
        const uint64_t room = p->target->lds_bytes - GEMV_BYTES(p->target->gpu.gemv_threads, p->target->gpu.gemv_rows);
        wg->from_arena = wg->floats && input_bytes(g, wg) > room;
        if (g->norm && (g->norm->op != OP_rmsnorm || wg->from_arena)) wg->normed = web_buffer(g->input->cols);
        plan_tiles(p, g, wg);
        const uint32_t sum = gpu_sum_at(&g->branches[0]);
        if (sum < g->branches[0].n_chain) wg->rows = web_buffer(g->branches[0].chain[sum]->inputs[0]->cols);
    }
}

static void does_branch(const struct web_chooser *c, struct kernel_draft *d, const struct branch *b)
{
    const struct branch *up = b->partner >= 0 ? &c->group->branches[b->partner] : NULL;
    const uint32_t sum = gpu_sum_at(b);
    struct text t = { .arena = c->arena };
    text_printf(&t, "  %s, %llu rows", b->matmul->weight->role, (ull)b->matmul->weight->rows);
    if (up) {
        text_printf(&t, ", beside %s", up->matmul->weight->role);
        chain_text(c, d, &t, up, 0, up->n_chain);
    }
    chain_text(c, d, &t, b, 0, sum);
    const struct web_place to = sum < b->n_chain ? web_place_in(b->chain[sum]->inputs[0], &c->wg->rows) : web_place_of(c->plan, b->result);
    kernel_does(d, "%s -> %s", text_str(&t), place_text(c, to));
}

static void does_part(const struct web_chooser *c, struct kernel_draft *d, const struct web_part *part)
{
    const struct gpu_run *r = &c->wg->runs[part->run];
    const struct weight *up = web_part_weight(c->plan, c->group, part, true);
    const char *one = matrix_text(c, d, part, r->weight), *pair = up ? matrix_text(c, d, part, up) : NULL;
    const bool floats = gpu_takes_floats(r->weight) || c->plan->options.exact;
    kernel_does(d, "product of %s%s%s, %llu rows, and %s", one, pair ? ", beside " : "", pair ? pair : "", (ull)r->rows,
                floats ? "floats" : "int8");
    if (c->group->kind == GROUP_SLICES)
        kernel_does(d, "  %u of %u matrices%s%s, %s", plan_slices(c->group), gpu_matrices(c->group), c->group->choice ? " by " : "",
                    c->group->choice ? value_text(c, c->group->choice) : "",
                    gpu_apart(c->group) == SLICES_SHARED ? "of one input" : "each has its own columns");
    for (uint32_t k = r->first; k < r->last; k++)
        if (web_part_rows(c->group, r, part, k).n) does_branch(c, d, &c->group->branches[k]);
}

/* Counts the work of a branch of which the launch has n of `of` rows, or of matrices of a stack (tokens choose all matrices equally
 * often). */
static void count_branch(const struct web_chooser *c, struct kernel *k, const struct branch *b, uint64_t n, uint64_t of)
{
    const struct weight *w = b->matmul->weight;
    k->weight_bytes += plan_bytes_read(c->plan, b->matmul) * n / of;
    k->operations += 2 * gpu_slice_rows(c->group, w) * w->cols * (c->group->kind == GROUP_SLICES ? plan_slices(c->group) : 1) * n / of;
}

/* The parts of the current launch: adds their lines and counts their work. */
static void does_parts(const struct web_chooser *c, struct kernel_draft *d)
{
    for (uint32_t i = 0; i < c->wg->n_parts; i++) {
        const struct web_part *part = &c->wg->parts[i];
        if (part->launch != c->nth) continue;
        const struct gpu_run *r = &c->wg->runs[part->run];
        const uint64_t of = web_part_most(c->plan, c->group, part);
        does_part(c, d, part);
        for (uint32_t k = r->first; k < r->last; k++) {
            const struct branch *b = &c->group->branches[k];
            count_branch(c, &d->kernel, b, part->n, of);
            if (b->partner >= 0) count_branch(c, &d->kernel, &c->group->branches[b->partner], part->n, of);
        }
    }
}

/* The number of runs of `each` rows in all parts of the launch; a run never crosses from one part to the next. With slices: the runs of all
 * slices of a token. */
static uint64_t runs_in_all(const struct web_chooser *c, uint64_t each)
{
    uint64_t runs = 0;
    for (uint32_t i = 0; i < c->wg->n_parts; i++) {
        const struct web_part *part = &c->wg->parts[i];
        if (part->launch != c->nth) continue;
        if (c->group->kind == GROUP_SLICES) runs = (c->wg->runs[part->run].rows * plan_slices(c->group) + each - 1) / each;
        else runs += (part->n + each - 1) / each;
    }
    return runs;
}

/* The sum of experts and the operations after it. */
static void choose_sum(const struct web_chooser *c)
{
    const struct branch *b = &c->group->branches[0];
    const uint32_t sum = gpu_sum_at(b), cols = b->chain[sum]->cols;
    struct text t = { .arena = c->arena };
    struct kernel_draft d = begin(c, TEMPLATE_map, arena_printf(c->arena, "%s_sum", c->group->name));
    d.launch.name = d.kernel.name;
    chain_text(c, &d, &t, b, sum + 1, b->n_chain);
    kernel_does(&d, "expert_sum by %s: %s%s -> %s", value_text(c, c->group->choice),
                place_text(c, web_place_in(b->chain[sum]->inputs[0], &c->wg->rows)), text_str(&t), value_text(c, b->result));
    d.kernel.grid_x = (cols + d.kernel.param[PARAM_THREADS] - 1) / d.kernel.param[PARAM_THREADS];
    end(c, &d);
}

/* ", rmsnorm weight W_ATTN_NORM, eps 1e-05" */
static const char *norm_text(const struct web_chooser *c, struct kernel_draft *d)
{
    const struct node *norm = web_norms(c->plan, c->group) ? c->group->norm : NULL;
    return !norm ? "" : arena_printf(c->arena, ", %s %s, eps %.9g", op_info[norm->op].name, vector_text(c, d, norm->weight),
                                     (double)(float)norm->attr.eps);
}

static void from_few(struct kernel_draft *d, const struct web_chooser *c)
{
    d->kernel.param[PARAM_LEAST] = few_tokens(c->group) + 1;
    d->kernel.param[PARAM_MOST] = c->plan->chunk;
}

static void choose_tiles_launch(const struct web_chooser *c)
{
    const struct group *g = c->group;
    const uint32_t threads = c->plan->target->gpu.gemm_threads;
    struct kernel_draft d = begin(c, TEMPLATE_gemm, arena_printf(c->arena, "%s_tiles", g->name));
    if (c->wg->list.exists) kernel_does(&d, "tokens by expert at %llu", (ull)c->wg->list.offset);
    if (c->wg->ints) kernel_does(&d, "input %s, as int8", place_text(c, web_place_in(g->input, &c->wg->staged)));
    if (c->wg->floats) kernel_does(&d, "input %s, as floats", place_text(c, web_input_floats(c->plan, g)));
    does_parts(c, &d);
    d.kernel.param[PARAM_THREADS] = threads;
    d.kernel.param[PARAM_ROWS] = TILE_ROWS;
    d.kernel.param[PARAM_TOKENS] = d.kernel.grid_tokens = TILE_TOKENS(threads);
    d.kernel.grid_x = 0;
    for (uint32_t i = 0; i < c->wg->n_parts; i++)
        if (c->wg->parts[i].launch == c->nth) d.kernel.grid_x += web_tiles(c->plan, g, &c->wg->parts[i]);
    if (c->wg->list.exists) d.kernel.grid_x = web_tiles(c->plan, g, &(struct web_part){ .n = c->wg->runs[0].rows });
    d.kernel.lds_bytes = (c->wg->ints ? TILE_BYTES(threads) : 0) + (c->wg->floats ? TILE_FLOAT_BYTES(threads) : 0);
    from_few(&d, c);
    end(c, &d);
}

/* The kernel that lists the tokens of each expert. */
static void choose_list(const struct web_chooser *c)
{
    struct kernel_draft d = begin(c, TEMPLATE_picked, arena_printf(c->arena, "%s_picked", c->group->name));
    d.launch.name = d.kernel.name;
    kernel_does(&d, "tokens by expert, of %u, as %s has them -> %llu", gpu_matrices(c->group), value_text(c, c->group->choice),
                (ull)c->wg->list.offset);
    d.kernel.param[PARAM_THREADS] = c->plan->target->gpu.sample_threads;
    d.kernel.grid_tokens = 0;
    d.kernel.lds_bytes = 4 * gpu_matrices(c->group);
    from_few(&d, c);
    end(c, &d);
}

/* Prefill's products of more than a few tokens: a kernel makes rows in the form that tiles read, then kernels compute the tiles. */
static void choose_tiles(const struct web_chooser *c)
{
    const struct group *g = c->group;
    if (c->wg->list.exists) choose_list(c);
    if (c->wg->staged.exists || c->wg->rows_in.exists) {
        struct kernel_draft d = begin(c, TEMPLATE_stage, arena_printf(c->arena, "%s_stage", g->name));
        d.launch.name = d.kernel.name;
        const char *norm = norm_text(c, &d);
        kernel_does(&d, "input %s%s", place_text(c, web_input(c->plan, g)), norm);
        if (c->wg->list.exists) kernel_does(&d, "tokens by expert at %llu", (ull)c->wg->list.offset);
        if (c->wg->staged.exists) kernel_does(&d, "as int8 -> %s", place_text(c, web_place_in(g->input, &c->wg->staged)));
        if (c->wg->rows_in.exists) kernel_does(&d, "as floats -> %s", place_text(c, web_place_in(g->input, &c->wg->rows_in)));
        from_few(&d, c);
        end(c, &d);
    }
    struct web_chooser one = *c;
    for (one.nth = 0; one.nth < c->wg->n_launches; one.nth++) choose_tiles_launch(&one);
}

struct web_gemv_shape { uint32_t rows, lanes, threads; };

static bool is_power(uint32_t n) { return n && !(n & (n - 1)); }

/* Lanes without a unit of columns would have no work: fewer lanes share a row if it has few units. */
static struct web_gemv_shape choose_shape(const struct web_chooser *c)
{
    enum { LEAST_LANES = 8, MOST_ROWS = 16 };
    const struct target *t = c->plan->target;
    const struct kernel_choice *given = given_for(c, TEMPLATE_gemv);
    const uint64_t units = (c->group->branches[0].matmul->weight->cols + 63) / 64;
    uint32_t lanes = t->gpu.gemv_lanes;
    while (lanes > LEAST_LANES && lanes / 2 >= units) lanes /= 2;
    const struct web_gemv_shape s = { kernel_chosen(given, PARAM_ROWS, t->gpu.gemv_rows), kernel_chosen(given, PARAM_LANES, lanes),
                                  kernel_chosen(given, PARAM_THREADS, t->gpu.gemv_threads) };
    if (given && (!is_power(s.threads) || s.threads < 32 || s.threads > WEBGPU_MOST_THREADS))
        die_at(given->at, "threads is %u; it must be a power of two from 32 to %u", s.threads, WEBGPU_MOST_THREADS);
    if (given && (!is_power(s.lanes) || s.lanes > s.threads))
        die_at(given->at, "lanes is %u; it must be a power of two, at most the group's %u threads", s.lanes, s.threads);
    if (given && (!s.rows || s.rows > MOST_ROWS))
        die_at(given->at, "rows is %u; it must be from 1 to %d", s.rows, MOST_ROWS);
    return s;
}

static void choose_rows(const struct web_chooser *c, bool tiles)
{
    const struct target *t = c->plan->target;
    const struct group *g = c->group;
    struct kernel_draft d = begin(c, TEMPLATE_gemv, g->name);
    const char *norm = norm_text(c, &d);
    kernel_does(&d, "input %s%s%s%s", place_text(c, web_input(c->plan, g)), norm, c->wg->ints ? ", as int8" : "",
                c->wg->from_arena ? ", as it is" : c->wg->floats ? ", as floats" : "");
    does_parts(c, &d);
    const struct web_gemv_shape s = choose_shape(c);
    d.kernel.param[PARAM_THREADS] = s.threads;
    d.kernel.param[PARAM_ROWS] = s.rows;
    d.kernel.param[PARAM_LANES] = s.lanes;
    const uint64_t each = (uint64_t)s.threads / s.lanes * s.rows, groups = runs_in_all(c, each);
    const uint64_t most = (uint64_t)GROUPS_UNIT * t->gpu.gemv_groups, turns = (groups + most - 1) / most;
    d.kernel.grid_x = (uint32_t)((groups + turns - 1) / turns);          /* workgroups with about the same number of turns */
    d.kernel.lds_bytes = (uint32_t)(input_bytes(g, c->wg) + GEMV_BYTES(s.threads, s.rows));
    d.launch.most = tiles ? few_tokens(g) : 0;
    end(c, &d);
}

static void choose_products(const struct web_chooser *c)
{
    const struct group *g = c->group;
    const bool tiles = c->prefill && (has_tiles(c->plan, g) || c->wg->list.exists);
    if (c->wg->normed.exists)
        choose_norm_to(c, g->norm, g->input, web_input(c->plan, g), arena_printf(c->arena, "%s_in", g->name));
    struct web_chooser one = *c;
    for (one.nth = 0; one.nth < c->wg->n_launches; one.nth++) choose_rows(&one, tiles);
    if (tiles) choose_tiles(c);
    if (c->wg->rows.exists) choose_sum(c);
}

static void choose_route(const struct web_chooser *c)
{
    const struct node *n = c->group->node;
    struct kernel_draft d = begin(c, TEMPLATE_route, c->group->name);
    struct text t = { .arena = c->arena };
    attr_print(&t, n);
    kernel_does(&d, "route%s, %s: %s -> %s", text_str(&t), vector_text(c, &d, n->weight), value_text(c, n->inputs[0]), value_text(c, n));
    end(c, &d);
}

/* ---- attention ---- */

static const struct node *keys_of(const struct web_chooser *c) { return c->group->node->inputs[1]; }
static const struct node *values_of(const struct web_chooser *c) { return c->group->node->inputs[2]; }

static struct kernel_draft begin_attention(const struct web_chooser *c, enum kernel_template template, const char *name)
{
    const struct node *n = c->group->node;
    struct kernel_draft d = begin(c, template, name);
    d.launch.name = name;
    d.launch.state = plan_state(c->plan, n)->offset;
    kernel_does(&d, "attention: %u heads of %u over %u KV heads of %u in %s, %s, scale %.9g", n->heads, n->attr.head_dim,
                keys_of(c)->heads, values_of(c)->attr.head_dim, kv_type_name[c->plan->options.kv], gpu_positions_text(c->arena, c->plan, n),
                (double)(float)n->attr.scale);
    if (plan_values_at(c->plan, n)) kernel_does(&d, "  V is %llu bytes after K", (ull)plan_values_at(c->plan, n));
    if (plan_values_in_keys(c->plan, n)) kernel_does(&d, "  V is the first %u columns of K", values_of(c)->attr.head_dim);
    return d;
}

/* Lists what changes scores: visible tokens and the cap. */
static void does_scores(const struct web_chooser *c, struct kernel_draft *d)
{
    const struct node *n = c->group->node;
    if (!n->attr.causal) kernel_does(d, "  every token sees all of the text");
    if (n->attr.cap != 0) kernel_does(d, "  scores held within %.9g", (double)(float)n->attr.cap);
}

static void does_sinks(const struct web_chooser *c, struct kernel_draft *d)
{
    if (c->group->node->weight) kernel_does(d, "  sinks %s", vector_text(c, d, c->group->node->weight));
}

static const struct node *query_of(const struct web_chooser *c)
{
    return c->group->has_heads ? c->group->heads[0].raw : c->group->node->inputs[0];
}

/* Lists the heads as the projection made them, and their norms, rotation and stores. */
static void does_heads(const struct web_chooser *c, struct kernel_draft *d)
{
    static const char *const names[] = { "q", "k", "v" };
    const struct head_chain *h = c->group->heads;
    const char *rotation = rotation_text(c, d, h[0].rope);
    for (uint32_t i = 0; i < 3; i++) {
        const char *norm = h[i].norm ? arena_printf(c->arena, ", headnorm %s, eps %.9g", vector_text(c, d, h[i].norm->weight),
                                                    (double)(float)h[i].norm->attr.eps) : "";
        kernel_does(d, "heads of %s: %s%s%s", names[i], value_text(c, h[i].raw), norm, h[i].store ? ", into the state" : "");
    }
    kernel_does(d, "%s", rotation);
}

static void choose_heads(const struct web_chooser *c)
{
    struct kernel_draft d = begin_attention(c, TEMPLATE_heads, "heads");
    does_heads(c, &d);
    d.kernel.grid_x = (c->group->node->heads + 2 * keys_of(c)->heads + HEADS_EACH - 1) / HEADS_EACH;
    end(c, &d);
}

static void choose_merge(const struct web_chooser *c)
{
    const struct node *n = c->group->node;
    struct kernel_draft d = begin_attention(c, TEMPLATE_attention_merge, "attention_merge");
    kernel_does(&d, "%u splits at %llu, maxima and totals at %llu -> %s", web_splits(c->plan, n), (ull)c->plan->parts_offset,
                (ull)c->plan->web->maxima, value_text(c, n));
    d.kernel.grid_tokens = 0;
    d.kernel.grid_x = n->heads;
    d.launch.past = ATTENTION_ALONE;
    end(c, &d);
}

/* Bytes of workgroup memory that attention.wgsl uses; the sizes follow its constants. */
static uint32_t attention_bytes(uint32_t heads, uint32_t head_dim, uint32_t value_dim, uint32_t threads)
{
    uint32_t team = 1;
    while (2 * team <= head_dim / 8 && team < 32) team *= 2;
    const uint32_t teams = threads / team, items = 8 * threads > teams * value_dim ? 8 * threads : teams * value_dim;
    const uint32_t padded = (heads + 3) / 4 * 4;
    return 4 * (items + padded * head_dim + 2 * padded * teams + ATTENTION_HEADS_EACH(head_dim) * head_dim + threads);
}

static void choose_decode(const struct web_chooser *c)
{
    const struct node *n = c->group->node;
    const uint32_t splits = web_splits(c->plan, n);
    struct kernel_draft d = begin_attention(c, TEMPLATE_attention_decode, "attention_token");
    const bool turns = web_turns(c->plan, c->group);
    if (turns) does_heads(c, &d);
    does_scores(c, &d);
    does_sinks(c, &d);
    kernel_does(&d, "query %s -> %s", value_text(c, query_of(c)), splits == 1 ? value_text(c, n)
                : arena_printf(c->arena, "%s of up to %u positions, else parts at %llu, maxima and totals at %llu", value_text(c, n),
                               ATTENTION_ALONE, (ull)c->plan->parts_offset, (ull)c->plan->web->maxima));
    plan_count_attention(c->plan, n, ATTENTION_ALL, &d.kernel);
    d.kernel.grid_tokens = 0;
    d.kernel.param[PARAM_THREADS] = ATTENTION_THREADS(c->plan->target->gpu.attention_threads, n->attr.head_dim);
    d.kernel.param[PARAM_SPLITS] = splits;
    d.kernel.grid_x = keys_of(c)->heads * ATTENTION_CUTS(n->heads, keys_of(c)->heads, n->attr.head_dim) * splits;
    d.kernel.lds_bytes = attention_bytes(ATTENTION_HEADS(n->heads, keys_of(c)->heads, n->attr.head_dim), n->attr.head_dim,
                                         values_of(c)->attr.head_dim, d.kernel.param[PARAM_THREADS]);
    end(c, &d);
    if (splits > 1) choose_merge(c);
}

static void choose_chunk(const struct web_chooser *c)
{
    const struct node *n = c->group->node;
    struct kernel_draft d = begin_attention(c, TEMPLATE_attention_prefill, "attention_chunk");
    does_scores(c, &d);
    does_sinks(c, &d);
    kernel_does(&d, "query %s -> %s", value_text(c, query_of(c)), value_text(c, n));
    plan_count_attention(c->plan, n, ATTENTION_ALL, &d.kernel);
    d.kernel.param[PARAM_THREADS] = CHUNK_THREADS;
    d.kernel.param[PARAM_TOKENS] = d.kernel.grid_tokens = CHUNK_TOKENS(n->heads, keys_of(c)->heads, n->attr.head_dim);
    d.kernel.grid_x = keys_of(c)->heads * CHUNK_SHARES(n->heads, keys_of(c)->heads, n->attr.head_dim);
    d.kernel.lds_bytes = CHUNK_BYTES(n->attr.head_dim);
    end(c, &d);
}

/* A step of attention in steps (web_in_steps). */
static void choose_step(const struct web_chooser *c, enum kernel_template template)
{
    const struct node *n = c->group->node;
    const struct plan *p = c->plan;
    struct kernel_draft d = begin_attention(c, template, arena_printf(c->arena, "attention_%s", template_info[template].name));
    does_scores(c, &d);
    if (template != TEMPLATE_mask) does_sinks(c, &d);
    kernel_does(&d, "scores f32 of %u rows at %llu", p->chunk, (ull)p->web->scores);
    if (template == TEMPLATE_scores) kernel_does(&d, "query %s", value_text(c, n->inputs[0]));
    if (template == TEMPLATE_weighted_sum) kernel_does(&d, "-> %s", value_text(c, n));
    if (template == TEMPLATE_scores) plan_count_attention(p, n, ATTENTION_SCORES, &d.kernel);
    if (template == TEMPLATE_weighted_sum) plan_count_attention(p, n, ATTENTION_SUM, &d.kernel);
    d.kernel.param[PARAM_THREADS] = p->target->gpu.attention_threads;
    d.kernel.grid_x = n->heads;
    end(c, &d);
}

static void choose_attention(const struct web_chooser *c)
{
    if (web_in_steps(c->plan, c->group->node)) {
        choose_step(c, TEMPLATE_scores);
        if (c->group->node->attr.causal) choose_step(c, TEMPLATE_mask);
        choose_step(c, TEMPLATE_softmax);
        choose_step(c, TEMPLATE_weighted_sum);
        return;
    }
    if (c->group->has_heads && (c->prefill || !web_turns(c->plan, c->group))) choose_heads(c);
    if (c->prefill) choose_chunk(c);
    else choose_decode(c);
}

/* ---- operations with a state ---- */

static void check_recur(const struct web_chooser *c, const struct node *n)
{
    if (n->attr.value_dim % 4 || n->attr.head_dim > RECUR_ROWS * RECUR_PARTS(n->attr.head_dim))
        die("%s: %%%s has heads of %u items in k and %u in v; the WebGPU kernels need at most %u, and a multiple of 4; build for "
            "target wasm32", c->plan->model->gguf->path, n->name, n->attr.head_dim, n->attr.value_dim,
            RECUR_ROWS * RECUR_PARTS(n->attr.head_dim));
}

/* The kernel that stores a convolution's new state, after all tokens of the step have read the old one. */
static void choose_keep(const struct web_chooser *c)
{
    const struct node *n = c->group->branches[0].chain[0];
    struct kernel_draft d = begin(c, TEMPLATE_conv_keep, arena_printf(c->arena, "%s_keep", c->group->name));
    d.launch.name = d.kernel.name;
    d.launch.state = plan_state(c->plan, n)->offset;
    kernel_does(&d, "the state, of %llu inputs: %s", (ull)n->weight->cols - 1, value_text(c, n->inputs[0]));
    d.kernel.prefill = true;
    d.kernel.grid_tokens = 0;
    d.kernel.grid_x = (n->cols + d.kernel.param[PARAM_THREADS] - 1) / d.kernel.param[PARAM_THREADS];
    end(c, &d);
}

static void choose_sequence(const struct web_chooser *c)
{
    const struct branch *b = &c->group->branches[0];
    const struct node *n = b->chain[0];
    const bool conv = n->op != OP_recur;
    struct kernel_draft d = begin(c, conv ? TEMPLATE_conv : TEMPLATE_recur, c->group->name);
    const uint32_t threads = d.kernel.param[PARAM_THREADS];
    struct text t = { .arena = c->arena }, attrs = { .arena = c->arena }, values = { .arena = c->arena };
    d.launch.state = plan_state(c->plan, n)->offset;
    plan_count_sequence(c->plan, n, &d.kernel);
    attr_print(&attrs, n);
    const char *taps = n->weight ? arena_printf(c->arena, ", %s of %llu taps", vector_text(c, &d, n->weight), (ull)n->weight->cols) : "";
    for (uint32_t i = 0; i < op_info[n->op].n_values; i++)
        text_printf(&values, "%s%s", i ? ", " : "", value_text(c, n->inputs[i]));
    chain_text(c, &d, &t, b, 1, b->n_chain);
    kernel_does(&d, "%s%s%s: %s%s -> %s", op_info[n->op].name, text_str(&attrs), taps, text_str(&values), text_str(&t),
                value_text(c, b->result));
    d.kernel.prefill = conv && c->prefill;
    d.kernel.grid_tokens = d.kernel.prefill ? CONV_TOKENS : 0;           /* a recurrence computes the step's tokens in sequence */
    d.kernel.grid_x = conv ? (n->cols + threads - 1) / threads : RECUR_GROUPS(n->heads, n->attr.head_dim, n->attr.value_dim, threads);
    if (!conv) check_recur(c, n);
    end(c, &d);
    if (d.kernel.prefill) choose_keep(c);
}

/* ---- all kernels ---- */

static void choose_group(const struct web_chooser *c)
{
    switch (c->group->kind) {
    case GROUP_EMBED:     choose_embed(c); break;
    case GROUP_NORM:      choose_norm(c); break;
    case GROUP_MAP:       choose_map(c); break;
    case GROUP_LINEAR:
    case GROUP_SLICES:    choose_products(c); break;
    case GROUP_ROUTE:     choose_route(c); break;
    case GROUP_SEQUENCE:  choose_sequence(c); break;
    case GROUP_ATTENTION: choose_attention(c); break;
    }
}

static void choose_sample(struct web_chooser *c)
{
    const struct plan *p = c->plan;
    c->group = NULL;
    struct kernel_draft d = begin(c, TEMPLATE_sample, "sample");
    kernel_does(&d, "sample: logits f32 [%u] at %llu, history of %u, scratch at %llu", p->model->n_vocab, (ull)p->web->logits,
                p->options.n_ctx, (ull)p->web->sample);
    d.kernel.param[PARAM_THREADS] = p->target->gpu.sample_threads;
    d.kernel.grid_tokens = 0;
    d.kernel.grid_x = web_sample_groups(p);
    end(c, &d);
    c->list->sample = kernel_take(c->list, STEPS_DECODE);
}

static void plan_kernels(struct arena *a, struct plan *p)
{
    const struct fused *f = p->fused;
    const uint32_t last_store = fuse_last_store(f);
    struct web_chooser c = { .arena = a, .plan = p, .list = p->kernels = kernel_list_new(a) };
    for (c.steps = STEPS_DECODE; c.steps <= STEPS_PREFILL; c.steps++) {
        c.prefill = c.steps == STEPS_PREFILL;
        for (c.index = 0; c.index < f->n_groups; c.index++) {
            c.group = &f->groups[c.index];
            c.wg = &p->web->groups[c.index];
            c.tail = c.index > last_store;
            choose_group(&c);
        }
        if (!c.prefill && !p->model->pooling) choose_sample(&c);
    }
}

/* ---- limits of the kernels ---- */

/* Attention in steps keeps all scores of a step. The chunk is limited so that they take at most 64 MiB. */
static void limit_chunk(struct plan *p)
{
    uint64_t heads = 0;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        if (g->kind == GROUP_ATTENTION && web_in_steps(p, g->node)) heads = g->node->heads > heads ? g->node->heads : heads;
    }
    if (!heads) return;
    const uint64_t fits = (64ull << 20) / (4ull * heads * p->options.n_ctx);
    if (p->chunk > fits && !p->model->causal)
        die("%s: unfused attention keeps the scores of a whole text, at most 64 MiB; choose a smaller --ctx, or another --fuse",
            p->model->gguf->path);
    if (p->chunk > fits) p->chunk = fits ? (uint32_t)fits : 1;
}

static void check_options(const struct plan *p)
{
    enum { VOCAB_MOST = 524288 };
    if (!p->model->pooling && p->model->n_vocab > VOCAB_MOST)
        die("%s: a vocabulary of %u tokens is larger than %u, the most for WebGPU kernels; build for target wasm32",
            p->model->gguf->path, p->model->n_vocab, VOCAB_MOST);
    if (p->options.columns || p->options.spec)
        die("--columns and --spec are not available for target %s: it has no kernels for them", p->target->name);
}

static void choose(struct arena *a, struct plan *p)
{
    enum { LOGITS_ROWS = 32 };
    check_options(p);
    p->web = arena_new(a, struct web_plan);
    limit_chunk(p);
    p->max_logits = p->web->logits_rows = p->chunk < LOGITS_ROWS || p->model->pooling ? p->chunk : LOGITS_ROWS;
    p->web->groups = arena_array(a, struct web_group, p->fused->n_groups);
    plan_products(a, p);
    web_place_values(a, p);
    web_place_areas(p);
    if (p->arena_bytes > UINT32_MAX)
        die("%s: activations of %llu bytes are more than %s can address; choose a smaller prefill_chunk in the target",
            p->model->gguf->path, (ull)p->arena_bytes, p->target->name);
    plan_kernels(a, p);
}

static struct cost_work work(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past)
{
    (void)p;
    (void)n_past;
    return (struct cost_work){ .kind = PREDICT_OTHERS, .bytes = (double)k->weight_bytes * (k->grid_tokens ? tokens : 1) };
}

extern const struct machine machine_webgpu;
const struct machine machine_webgpu = { .name = "WebGPU", .layout = LAYOUT_GPU, .image_align = 256, .state_align = 256, .head_unit = 4,
                                        .head_most = 1024, .in_steps = web_in_steps, .choose = choose, .work = work,
                                        .absorbs = { .attention_heads = true, .attention_most = ATTENTION_DIM_MOST, .gates_alike = true } };
