/* choose.c -- the kernels of a GPU program and their launches. In decode a group becomes one kernel. In prefill further kernels convert the
 * input of a product to the 16-bit form that the matrix units read, and finish heads. */
#include "choose.h"
#include "compiler/plan/machine.h"
#include "compiler/front/attr.h"
#include "templates/gpu/attention_sizes.h"
#include "templates/gpu/collective_sizes.h"
#include "templates/gpu/gemv_sizes.h"
#include "templates/gpu/layers_sizes.h"
#include "templates/gpu/sample_sizes.h"
#include "templates/gpu/slices_sizes.h"
#include <math.h>

typedef unsigned long long ull;

/* ---- drafts ---- */

bool choose_writes_logits(const struct gpu_chooser *c)
{
    const struct fused *f = c->plan->fused;
    const struct node *result = c->group && c->group->n_branches ? c->group->branches[0].result : NULL;
    if (result && gpu_pushes_logits(result)) return true;                /* an all_gather collects them from all ranks */
    return (f->graph->output && c->index == fuse_group(f, f->graph->output)) ||
           (f->graph->draft && c->index == fuse_group(f, f->graph->draft));
}

struct kernel_draft choose_begin(const struct gpu_chooser *c, enum kernel_template template, const char *name)
{
    if (c->series) return *c->series;
    const bool tail = !kernel_is_single(c->steps) && c->tail;
    struct kernel_draft d = kernel_begin(c->list, template, name, c->plan->fused, c->group, c->steps, tail);
    d.launch.logits = d.launch.tail && choose_writes_logits(c);
    return d;
}

struct kernel_draft choose_begin_rows(const struct gpu_chooser *c, enum kernel_template template, const char *name)
{
    struct kernel_draft d = choose_begin(c, template, name);
    d.kernel.param[PARAM_THREADS] = c->plan->target->gpu.stage_threads;
    d.kernel.grid_tokens = 1;
    return d;
}

/* Continues the kernel of a series with d, whose grid and threads do not matter. */
static void continue_series(struct kernel_draft *series, const struct kernel_draft *d)
{
    struct kernel k = series->kernel;
    k.prefill |= d->kernel.prefill;
    if (d->kernel.lds_bytes > k.lds_bytes) k.lds_bytes = d->kernel.lds_bytes;
    k.weight_bytes = d->kernel.weight_bytes;
    *series = *d;
    series->kernel = k;
}

void choose_end(const struct gpu_chooser *c, struct kernel_draft *d)
{
    const struct target *t = c->plan->target;
    if (c->series) {
        continue_series(c->series, d);
        return;
    }
    if (d->kernel.lds_bytes > t->lds_bytes)
        die("%s: kernel %s needs %u bytes of LDS, %s has %u for a group; the model is too wide for forgec's kernels on it, or the "
            "target's tiles are too large; build for a CPU target", c->plan->model->gguf->path, d->kernel.name, d->kernel.lds_bytes,
            t->name, t->lds_bytes);
    kernel_end(c->list, d);
}

const struct kernel_choice *choose_given(const struct gpu_chooser *c, enum kernel_template template, uint32_t nth)
{
    return kernel_choice(c->plan->options.choices, template, c->steps, c->index, nth);
}

const char *choose_weight(const struct gpu_chooser *c, struct kernel_draft *d, const struct weight *w)
{
    return kernel_bind(d, plan_binding(c->plan, w), w->role, 0);
}

const char *choose_vector(const struct gpu_chooser *c, struct kernel_draft *d, const struct weight *w)
{
    if (!w) return "no weight";
    return arena_printf(c->arena, "weight %s", kernel_bind(d, plan_binding(c->plan, w), w->role, plan_weight_bytes(c->plan, w)));
}

const char *choose_rotation(const struct gpu_chooser *c, struct kernel_draft *d, const struct node *n)
{
    if (!n) return "no rotation";
    const struct rotation_plan *r = &c->plan->rotations[n->rotation];
    const uint64_t row = 4ull * r->n_rot;
    const char *lo = kernel_bind(d, rotation_table(r, false), "angles_low", row);
    const char *hi = kernel_bind(d, rotation_table(r, true), "angles_high", row);
    return arena_printf(c->arena, "rope with weights %s and %s, %u positions a row, %u items, pairs %s%s", hi, lo, r->block, n->attr.n_rot,
                        n->attr.neox ? "i, i + n/2" : "2i, 2i + 1", r->lo_far ? ", for long texts the tables after them" : "");
}

const char *choose_text(const struct gpu_chooser *c, struct gpu_place at)
{
    const char *f32 = at.form == FORM_F32 || at.form == FORM_LOGITS ? " f32" : "";        /* names of 16-bit values contain their form */
    if (at.form == FORM_NONE) return arena_printf(c->arena, "%s into the state", at.name);
    if (at.form == FORM_GIVEN && c->plan->options.split == SPLIT_LAYER)
        return arena_printf(c->arena, "%s [%u] on the way at %llu, rows of %llu", at.name, at.cols, (ull)at.offset, (ull)at.stride);
    if (at.form == FORM_GIVEN)
        return arena_printf(c->arena, "%s [%u] of all GPUs, rows of %llu, halves of %llu bytes", at.name, at.cols, (ull)at.stride,
                            (ull)c->plan->gpu->collective_half);
    return arena_printf(c->arena, "%s%s [%u] at %llu, stride %llu%s", at.name, f32, at.cols, (ull)at.offset, (ull)at.stride,
                        at.form == FORM_LOGITS ? ", from the first token with logits" : "");
}

/* The layout in the memory of collectives of a prompt's rows that are pushed. */
static const char *collective_text(const struct gpu_chooser *c, const struct node *given)
{
    const struct gpu_plan *g = c->plan->gpu;
    return arena_printf(c->arena, "%s [%u] of all GPUs, pieces of %u tokens x %u, halves of %llu bytes, flags at %llu, values at %llu",
                        plan_value_name(given), given->cols, COLLECTIVE_TOKENS, COLLECTIVE_RUN(c->plan->target->gpu.stage_threads),
                        (ull)g->collective_half, (ull)g->collective_flags, (ull)g->collective_values);
}

/* ---- operations on rows ---- */

/* The same kernel for decode, which has one token and one workgroup in y. */
static struct kernel_draft choose_begin_both(const struct gpu_chooser *c, enum kernel_template template, const char *name)
{
    struct kernel_draft d = choose_begin_rows(c, template, name);
    d.kernel.prefill = false;
    return d;
}

static void choose_embed(const struct gpu_chooser *c)
{
    const struct node *n = c->group->node;
    struct kernel_draft d = choose_begin_both(c, TEMPLATE_embed, c->group->name);
    const uint32_t cols = (uint32_t)n->weight->cols;
    const char *name = choose_weight(c, &d, n->weight);
    d.kernel.weight_bytes = packing_row_bytes(plan_packing(c->plan, n->weight), cols);
    kernel_does(&d, "embed: rows of weight %s, %s %llu x %u -> %s", name, n->weight->tensor->quant->name, (ull)n->weight->rows, cols,
                choose_text(c, gpu_read(c->plan, n)));
    d.kernel.grid_x = EMBED_GROUPS(cols, c->plan->target->wave, d.kernel.param[PARAM_THREADS]);
    choose_end(c, &d);
}

void choose_norm(const struct gpu_chooser *c)
{
    const struct node *n = c->group->node;
    struct kernel_draft d = choose_begin_both(c, TEMPLATE_norm, c->group->name);
    kernel_does(&d, "%s: %s, eps %.9g: %s -> %s", op_info[n->op].name, choose_vector(c, &d, n->weight), (double)(float)n->attr.eps,
                choose_text(c, gpu_read(c->plan, c->group->input)), choose_text(c, gpu_written(c->plan, n, false)));
    d.kernel.lds_bytes = ACTS_SCRATCH_BYTES;
    choose_end(c, &d);
}

/* The operation's other inputs as text. */
static const char *operation_text(const struct gpu_chooser *c, struct kernel_draft *d, const struct node *n)
{
    const uint32_t head_dim = n->attr.head_dim, heads = head_dim ? n->cols / head_dim : 0;
    const char *of_heads = arena_printf(c->arena, "%u heads of %u", heads, head_dim);
    switch (n->op) {
    case OP_bias:     return choose_vector(c, d, n->weight);
    case OP_add:
    case OP_glu_silu:
    case OP_glu_gelu: return choose_text(c, gpu_read(c->plan, n->inputs[1]));
    case OP_headnorm: return arena_printf(c->arena, "%s, eps %.9g, %s", choose_vector(c, d, n->weight), (double)(float)n->attr.eps,
                                          of_heads);
    case OP_rope:     return arena_printf(c->arena, "%s, %s", choose_rotation(c, d, n), of_heads);
    case OP_store_k:
    case OP_store_v:  return arena_printf(c->arena, "%s, %u positions, ring %u", of_heads, c->plan->options.n_ctx,
                                          state_ring(plan_state(c->plan, n)));
    default: die("%%%s: forgec has no GPU kernel for %s; build for a CPU target", n->name, op_info[n->op].name);
    }
}

/* The symbol of n's weight; counts the bytes that one token reads. */
static const char *read_weight(const struct gpu_chooser *c, struct kernel_draft *d, const struct node *n)
{
    return kernel_bind(d, plan_binding(c->plan, n->weight), n->weight->role, plan_bytes_read(c->plan, n));
}

void choose_chain(const struct gpu_chooser *c, struct kernel_draft *d, struct text *t, const struct branch *b, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const struct node *n = b->chain[i];
        text_printf(t, ", %s", op_info[n->op].name);
        attr_print(t, n);
        if (node_reads_weight(n)) text_printf(t, " weight %s", read_weight(c, d, n));
        if (n->weight && n->op == OP_times) text_printf(t, " [%llu]", (ull)n->weight->cols);
        if (op_info[n->op].n_values == 2 && !fuse_reads_partner(c->group, b, n))
            text_printf(t, " %s", choose_text(c, gpu_read(c->plan, gpu_addend(b, i))));
        if (op_is_gate(n->op) && n->inputs[0] != gpu_operand(b, i))
            text_puts(t, " as its gate");
    }
}

static bool has_own_rows(enum op op)
{
    switch (op) {
    case OP_bias:
    case OP_add:
    case OP_glu_silu:
    case OP_glu_gelu:
    case OP_store_k:
    case OP_store_v: return true;
    default:         return false;
    }
}

enum gpu_map gpu_map_of(const struct group *g)
{
    const struct branch *b = &g->branches[0];
    const struct node *n = b->chain[0];
    const bool small = n->attr.head_dim <= 256 && n->attr.head_dim % 2 == 0;      /* rope.h */
    if (b->n_chain == 1 && has_own_rows(n->op)) return MAP_ROWS;
    if (b->n_chain == 1 && n->op == OP_headnorm && n->weight && n->weight->cols == n->attr.head_dim && small) return MAP_ROWS;
    if (b->n_chain == 1 && n->op == OP_rope && n->attr.rot_first == 0 && small) return MAP_ROWS;
    return n->op == OP_headnorm || n->op == OP_l2norm || n->op == OP_layernorm_heads ? MAP_HEADS : MAP_VALUES;
}

/* A chain of operations on single values. The first operation may read its value from another column of the row. */
static void choose_map_chain(const struct gpu_chooser *c)
{
    const struct branch *b = &c->group->branches[0];
    const struct node *n = b->chain[0];
    struct kernel_draft d = choose_begin(c, TEMPLATE_map, c->group->name);
    const uint32_t threads = d.kernel.param[PARAM_THREADS] = c->plan->target->gpu.stage_threads;
    const struct gpu_place to = gpu_written(c->plan, b->result, c->prefill);
    struct text t = { .arena = c->arena };
    const bool takes_rows = n->op == OP_all_reduce && c->prefill, receives = n->op == OP_receive;
    d.kernel.grid_tokens = takes_rows ? COLLECTIVE_TOKENS : 1;
    const bool takes = n->op == OP_all_reduce || n->op == OP_all_gather, gives = b->result->op == OP_push || b->result->op == OP_send;
    d.kernel.prefill = c->prefill && (takes || gives || to.form == FORM_F16 || to.form == FORM_BF16);
    choose_chain(c, &d, &t, b, 0, b->n_chain);
    const char *rotation = n->op == OP_rope ? arena_printf(c->arena, ", %s", choose_rotation(c, &d, n)) : "";
    if (takes || receives)
        kernel_does(&d, "from %s", takes_rows ? collective_text(c, n->inputs[0])
                                              : choose_text(c, gpu_given(c->plan, receives ? n : n->inputs[0])));
    const bool has_rows = !receives && (!takes || takes_rows);
    kernel_does(&d, "%s%s%s -> %s", has_rows ? choose_text(c, gpu_read(c->plan, n->inputs[0])) : "values", text_str(&t), rotation,
                choose_text(c, to));
    if (gpu_map_of(c->group) == MAP_HEADS) {
        const bool whole = n->weight && n->weight->cols == n->cols;
        kernel_does(&d, "%u heads of %u%s", n->cols / n->attr.head_dim, n->attr.head_dim, whole ? ", each with weights of its own" : "");
        d.kernel.grid_x = HEAD_GROUPS(n->cols / n->attr.head_dim, c->plan->target->wave, threads);
    }
    else d.kernel.grid_x = (n->cols + threads - 1) / threads;
    choose_end(c, &d);
}

bool gpu_takes_rows(const struct kernel *k)
{
    return k->template == TEMPLATE_map && k->prefill && k->group->branches[0].chain[0]->op == OP_all_reduce;
}

static void choose_push_by(const struct gpu_chooser *c, enum kernel_template template, const char *name)
{
    const struct node *n = c->group->branches[0].result;
    struct kernel_draft d = choose_begin_rows(c, template, arena_printf(c->arena, "%s_%s", c->group->name, name));
    const uint32_t run = COLLECTIVE_RUN(d.kernel.param[PARAM_THREADS]);
    d.launch.name = d.kernel.name;
    kernel_does(&d, "%s%s -> %s", choose_text(c, gpu_read(c->plan, n)), template == TEMPLATE_push ? "" : ", sums", collective_text(c, n));
    d.kernel.grid_tokens = COLLECTIVE_TOKENS;
    d.kernel.grid_x = (n->cols + run - 1) / run;
    choose_end(c, &d);
}

/* The kernel that sends the rows of a prompt to the next pipeline stage. */
static void choose_send(const struct gpu_chooser *c, const struct node *n)
{
    struct kernel_draft d = choose_begin_rows(c, TEMPLATE_push, arena_printf(c->arena, "%s_send", c->group->name));
    const uint32_t threads = d.kernel.param[PARAM_THREADS];
    d.launch.name = d.kernel.name;
    kernel_does(&d, "%s -> %s", choose_text(c, gpu_read(c->plan, n)), choose_text(c, gpu_given(c->plan, n)));
    d.kernel.grid_x = (n->cols + threads - 1) / threads;
    choose_end(c, &d);
}

/* Kernels that push the rows of a prompt to all GPUs after a group has made them: transfers between GPUs are fast only for whole runs of
 * values. */
static void choose_push(const struct gpu_chooser *c)
{
    const struct node *n = c->group->n_branches ? c->group->branches[0].result : NULL;
    if (!c->prefill || !n || (n->op != OP_push && n->op != OP_send) || gpu_pushes_logits(n)) return;
    if (n->op == OP_send) {
        choose_send(c, n);
        return;
    }
    choose_push_by(c, TEMPLATE_push, "push");
    if (COLLECTIVE_SHARED(c->plan->options.ranks)) choose_push_by(c, TEMPLATE_push_sums, "push_sums");
}

bool gpu_stores_nothing(const struct plan *p, const struct group *g)
{
    const struct node *n = g->kind == GROUP_MAP ? g->branches[0].chain[0] : NULL;
    return n && n->op == OP_store_v && plan_values_in_keys(p, n);
}

/* One operation on finished rows. A store into the KV cache writes no row. */
void choose_map(const struct gpu_chooser *c)
{
    if (gpu_map_of(c->group) != MAP_ROWS) { choose_map_chain(c); return; }
    const struct node *n = c->group->branches[0].chain[0];
    if (gpu_stores_nothing(c->plan, c->group)) return;
    struct kernel_draft d = choose_begin_both(c, TEMPLATE_map, c->group->name);
    kernel_does(&d, "%s: %s: %s -> %s", op_info[n->op].name, operation_text(c, &d, n), choose_text(c, gpu_read(c->plan, n->inputs[0])),
                choose_text(c, gpu_written(c->plan, n, c->prefill)));
    if (n->op == OP_store_k || n->op == OP_store_v) d.launch.state = plan_state(c->plan, n)->offset;
    if (n->attr.head_dim) d.kernel.grid_x = HEAD_GROUPS(n->cols / n->attr.head_dim, c->plan->target->wave, d.kernel.param[PARAM_THREADS]);
    choose_end(c, &d);
}

/* ---- operations with a state ---- */

static const char *places_text(const struct gpu_chooser *c, const struct node *n)
{
    struct text t = { .arena = c->arena };
    for (uint32_t i = 0; i < op_info[n->op].n_values; i++)
        text_printf(&t, "%s%s", i ? ", " : "", choose_text(c, gpu_read(c->plan, n->inputs[i])));
    return text_str(&t);
}

/* If the program speculates, the kernel for one token differs from that for several. */
static void slots_do(const struct gpu_chooser *c, struct kernel_draft *d, const struct node *n)
{
    const uint32_t slots = plan_slots_of(c->plan, n);
    if (slots == 1) return;
    d->kernel.param[PARAM_TOKENS] = c->steps == STEPS_DECODE;
    kernel_does(d, "%u slots of a state%s", slots, c->steps == STEPS_DECODE ? ", one token" : "");
}

static void choose_conv_keep(const struct gpu_chooser *c, uint32_t groups)
{
    const struct node *n = c->group->branches[0].chain[0];
    struct kernel_draft d = choose_begin(c, TEMPLATE_conv_keep, arena_printf(c->arena, "%s_keep", c->group->name));
    d.launch.name = d.kernel.name;
    d.launch.state = plan_state(c->plan, n)->offset;
    slots_do(c, &d, n);
    if (n->weight) kernel_does(&d, "conv's state, of %llu taps: %s", (ull)n->weight->cols, places_text(c, n));
    else kernel_does(&d, "the state, a row: %s", places_text(c, n));
    d.kernel.param[PARAM_THREADS] = c->plan->target->gpu.stage_threads;
    d.kernel.grid_x = groups;
    choose_end(c, &d);
}

static void check_recur(const struct gpu_chooser *c, const struct node *n)
{
    const uint32_t dim = n->attr.head_dim, value_dim = n->attr.value_dim, most = RECUR_ROWS * RECUR_PARTS(dim);
    if (value_dim % 4 || dim > most)
        die("%s: %%%s has heads of %u items in k and %u in v; the GPU kernels need at most %u, and a multiple of 4; build for a "
            "CPU target",
            c->plan->model->gguf->path, n->name, dim, value_dim, most);
    if (gpu_read(c->plan, n->inputs[2]).offset % 16)
        die("%s: %%%s begins at a place that the GPU kernels of %%%s cannot load from; build for a CPU target", c->plan->model->gguf->path,
            n->inputs[2]->name, n->name);
}

/* The token of a draft has no row in the trunk: the row of the token before it is in the state. */
static void choose_recall(const struct gpu_chooser *c)
{
    const struct branch *b = &c->group->branches[0];
    const struct node *n = b->chain[0];
    struct kernel_draft d = choose_begin(c, TEMPLATE_recall, arena_printf(c->arena, "recall_%s", c->group->name));
    const uint32_t threads = d.kernel.param[PARAM_THREADS] = c->plan->target->gpu.stage_threads;
    struct text t = { .arena = c->arena };
    d.launch.state = plan_state(c->plan, n)->offset;
    plan_count_sequence(c->plan, n, &d.kernel);
    choose_chain(c, &d, &t, b, 1, b->n_chain);
    kernel_does(&d, "a row of the state%s -> %s", text_str(&t), choose_text(c, gpu_written(c->plan, b->result, false)));
    d.kernel.grid_x = (n->cols + threads - 1) / threads;
    choose_end(c, &d);
}

static void choose_sequence(const struct gpu_chooser *c)
{
    const struct branch *b = &c->group->branches[0];
    const struct node *n = b->chain[0];
    const bool conv = n->op != OP_recur;         /* columns are independent, and tokens are computed in parallel */
    if (c->steps == STEPS_PASS && n->op == OP_previous) { choose_recall(c); return; }
    struct kernel_draft d = choose_begin(c, conv ? TEMPLATE_conv : TEMPLATE_recur, c->group->name);
    const uint32_t threads = d.kernel.param[PARAM_THREADS] = c->plan->target->gpu.stage_threads;
    struct text t = { .arena = c->arena }, attrs = { .arena = c->arena };
    d.launch.state = plan_state(c->plan, n)->offset;
    slots_do(c, &d, n);
    plan_count_sequence(c->plan, n, &d.kernel);
    attr_print(&attrs, n);
    const char *taps = n->weight ? arena_printf(c->arena, ", %s of %llu taps", choose_vector(c, &d, n->weight), (ull)n->weight->cols) : "";
    choose_chain(c, &d, &t, b, 1, b->n_chain);
    kernel_does(&d, "%s%s%s: %s%s -> %s", op_info[n->op].name, text_str(&attrs), taps, places_text(c, n), text_str(&t),
                choose_text(c, gpu_written(c->plan, b->result, c->prefill)));
    if (conv) {
        d.kernel.grid_x = (n->cols + threads - 1) / threads;
        d.kernel.grid_tokens = c->prefill ? CONV_TOKENS : 0;
    } else {
        check_recur(c, n);
        d.kernel.grid_x = RECUR_GROUPS(n->heads, n->attr.head_dim, n->attr.value_dim, threads);
    }
    choose_end(c, &d);
    if (conv && c->prefill) choose_conv_keep(c, (n->cols + threads - 1) / threads);
}

/* Pipeline parallel: a stage without logits waits for the token from the last stage. */
static void choose_follow(struct gpu_chooser *c)
{
    c->group = NULL;
    struct kernel_draft d = choose_begin(c, TEMPLATE_sample, "follow_token");
    d.launch.name = "sample";
    d.launch.logits = false;
    d.kernel.grid_tokens = c->plan->gpu->has_several;
    kernel_does(&d, "the token that the last GPU draws, history of %u", c->plan->options.n_ctx);
    d.kernel.param[PARAM_THREADS] = c->plan->target->wave;
    d.kernel.grid_x = 1;
    choose_end(c, &d);
    c->list->sample = kernel_take(c->list, STEPS_DECODE);
}

/* drafts: sampling after a step with drafts (columns or decode). Otherwise sampling after decode, or after a step of several sequences with
 * a row for each of them. */
static void choose_sample(struct gpu_chooser *c, bool drafts)
{
    const struct plan *p = c->plan;
    const struct target *t = p->target;
    const uint32_t n_vocab = p->model->n_vocab;
    c->group = NULL;
    struct kernel_draft d = choose_begin(c, drafts ? TEMPLATE_sample_drafts : TEMPLATE_sample, drafts ? "sample_tokens" : "sample_token");
    d.launch.name = drafts ? "drafts" : "sample";
    d.launch.tail = drafts;
    d.launch.logits = false;
    d.kernel.grid_tokens = drafts || p->gpu->has_several;
    if (p->options.split == SPLIT_LAYER) kernel_does(&d, "told to the other GPUs");
    if (drafts) kernel_does(&d, "of up to %u drafts%s", p->options.columns - 1, p->options.spec == SPEC_MTP ? " by the model's block" : "");
    kernel_does(&d, "sample: logits f32 [%u] at %llu, history of %u, scratch at %llu, counter at %llu", n_vocab, (ull)p->gpu->logits,
                p->options.n_ctx, (ull)p->gpu->sample_scratch, (ull)p->gpu->sample_counters);
    d.kernel.param[PARAM_THREADS] = t->gpu.sample_threads;
    d.kernel.grid_x = t->gpu.sample_groups;
    d.kernel.lds_bytes = SAMPLE_LDS_BYTES(n_vocab);
    choose_end(c, &d);
    if (drafts) c->list->drafts = kernel_take(c->list, STEPS_COLUMNS);
    else c->list->sample = kernel_take(c->list, STEPS_DECODE);
}

/* After a pass: its draft becomes a token of the next step, and its row the input from which the next pass continues. */
static void choose_store_draft(struct gpu_chooser *c)
{
    const struct plan *p = c->plan;
    const struct graph *g = p->fused->graph;
    const uint32_t n_vocab = p->model->n_vocab;
    c->group = NULL;
    struct kernel_draft d = choose_begin(c, TEMPLATE_store_draft, "store_draft");
    d.launch.name = "store_draft";
    d.launch.state = plan_state(p, g->draft_from)->offset;
    kernel_does(&d, "the most probable: logits f32 [%u] at %llu, scratch at %llu, counter at %llu", n_vocab, (ull)p->gpu->logits,
                (ull)p->gpu->sample_scratch, (ull)p->gpu->sample_counters);
    kernel_does(&d, "%s into slot %u of a state", choose_text(c, gpu_read(p, g->draft_state)), plan_slots(p));
    d.kernel.param[PARAM_THREADS] = p->target->gpu.sample_threads;
    d.kernel.grid_x = p->target->gpu.sample_groups;
    d.kernel.lds_bytes = SAMPLE_LDS_BYTES(n_vocab);
    choose_end(c, &d);
    c->list->take = kernel_take(c->list, STEPS_PASS);
}

/* ---- all kernels ---- */

/* Does the group run in these steps? Steps of the trunk also run the groups that the state of the block that drafts needs. A pass runs all
 * groups of that block and no others. */
static bool is_of_steps(const struct gpu_chooser *c)
{
    return c->steps == STEPS_PASS ? c->group->drafts : !c->group->drafts || c->group->keeps;
}

static void choose_group(const struct gpu_chooser *c)
{
    switch (c->group->kind) {
    case GROUP_EMBED:     choose_embed(c); break;
    case GROUP_NORM:      choose_norm(c); break;
    case GROUP_MAP:       choose_map(c); break;
    case GROUP_LINEAR:
    case GROUP_SLICES:    choose_linear(c); break;
    case GROUP_ROUTE:     choose_route(c); break;
    case GROUP_SEQUENCE:  choose_sequence(c); break;
    case GROUP_ATTENTION: choose_attention(c); break;
    }
    choose_push(c);
}

static struct forge_gpu_pass pass_values(const struct plan *p, const struct node *given)
{
    const uint64_t row = 8 * gpu_given(p, given).stride;
    return (struct forge_gpu_pass){ FORGE_PASS_ALL, p->gpu->collective_half, { { 0, row * gpu_given_rows(p, given), row, 1 } } };
}

/* Rows of a prompt: the ranks' parts, or the sums, which lie after the parts of all ranks. */
static struct forge_gpu_pass pass_rows(const struct plan *p, const struct kernel *k, const struct node *given)
{
    const struct gpu_plan *g = p->gpu;
    const uint32_t ranks = p->options.ranks, parts = COLLECTIVE_PARTS(ranks, p->chunk);
    const uint32_t tokens = COLLECTIVE_TOKENS * (COLLECTIVE_SHARED(ranks) ? ranks : 1);
    const uint64_t values = 4ull * COLLECTIVE_TOKENS * COLLECTIVE_STRIDE(given->cols),
                   flags = 4ull * COLLECTIVE_RUNS(given->cols, k->param[PARAM_THREADS]);
    const uint64_t behind = k->template == TEMPLATE_push ? 0 : ranks * parts;
    return (struct forge_gpu_pass){ FORGE_PASS_ALL, g->collective_half,
                                    { { g->collective_values + behind * values, parts * values, values, tokens },
                                      { g->collective_flags + behind * flags, parts * flags, flags, tokens } } };
}

/* The last launch of a group pushes its values: a product itself or, for rows of a prompt, the push kernels after it. The logits of a
 * prompt have several products, each for a range of tokens; one of them runs, so all are marked. */
static void set_pass(const struct plan *p, struct launch *launches, uint32_t i, uint32_t n, const struct node *given)
{
    const struct kernel *k = &p->kernels->kernels[launches[i].kernel];
    const bool last = i + 1 == n || launches[i + 1].group != launches[i].group,
               product = (k->template == TEMPLATE_gemm || k->template == TEMPLATE_gemv) && gpu_pushes_logits(given);
    if (k->template == TEMPLATE_push || k->template == TEMPLATE_push_sums) launches[i].pass = pass_rows(p, k, given);
    else if (last || product) launches[i].pass = pass_values(p, given);
}

/* Numbers the collectives of a step; the launches that send and receive one have the same number. Rows of a prompt are numbered from the
 * first row that matters, so both sides must agree about `tail`. */
static void number_collectives(const struct plan *p, const struct launches *of)
{
    struct launch *launches = of->list;
    uint32_t count = 0, taken = NO_GROUP;
    bool tail = false;
    for (uint32_t i = 0; i < of->n; i++) {
        const struct group *g = launches[i].group == NO_GROUP ? NULL : &p->fused->groups[launches[i].group];
        const enum op first = g && g->kind == GROUP_MAP ? g->branches[0].chain[0]->op : OP_COUNT;
        if (taken != NO_GROUP && taken != launches[i].group) {
            count++;
            taken = NO_GROUP;
        }
        if (first == OP_all_reduce || first == OP_all_gather) taken = launches[i].group;
        if (p->kernels->kernels[launches[i].kernel].template == TEMPLATE_push) tail = launches[i].tail;
        if (gpu_takes_rows(&p->kernels->kernels[launches[i].kernel]) && launches[i].tail != tail)
            die("%s takes other tokens than are given; this is a mistake in forgec, please report it", launches[i].name);
        launches[i].in_collective = taken != NO_GROUP;
        launches[i].collectives = count;
        for (uint32_t k = 0; g && k < g->n_branches; k++) {
            if (g->branches[k].result->op != OP_push) continue;
            launches[i].in_collective = true;
            set_pass(p, launches, i, of->n, g->branches[k].result);
        }
    }
}

/* Pipeline parallel: a value that is sent or received in a step. */
static struct forge_gpu_pass pass_on(const struct plan *p, const struct node *n)
{
    const struct gpu_place at = gpu_given(p, n);
    return (struct forge_gpu_pass){ n->op == OP_send ? FORGE_PASS_NEXT : FORGE_PASS_PREVIOUS, gpu_passed_bytes(p, NULL, n->op),
                                    { { LAYERS_VALUES + at.offset, 0, 8 * at.stride, 1 } } };
}

/* Dies unless each value that a GPU sends or receives belongs to exactly one launch. */
static void check_passes(const struct plan *p, const struct launches *of)
{
    uint32_t values = 0, passes = 0;
    for (uint32_t i = 0; i < p->fused->graph->n_nodes; i++) {
        const enum op op = p->fused->graph->nodes[i]->op;
        values += op == OP_send || op == OP_receive;
    }
    for (uint32_t i = 0; i < of->n; i++) passes += of->list[i].pass.to != FORGE_PASS_NONE;
    if (of->n && values != passes) die("%u of %u values pass between GPUs; this is a mistake in forgec, please report it", passes, values);
}

static void set_passes(const struct plan *p, const struct launches *of)
{
    for (uint32_t i = 0; i < of->n; i++) {
        struct launch *launch = &of->list[i];
        const struct group *g = launch->group == NO_GROUP ? NULL : &p->fused->groups[launch->group];
        const struct branch *b = g && g->n_branches ? &g->branches[0] : NULL;
        const bool last = i + 1 == of->n || of->list[i + 1].group != launch->group,
                   receives = b && g->kind == GROUP_MAP && b->chain[0]->op == OP_receive, is_sent = b && b->result->op == OP_send;
        if (!is_sent && !receives) continue;
        launch->in_collective = true;
        if (receives || last) launch->pass = pass_on(p, receives ? b->chain[0] : b->result);
    }
    check_passes(p, of);
}

/* Pipeline parallel: all values of a step have one collective number, and its token has the next. */
static void number_passes(const struct plan *p, struct kernel_list *list)
{
    for (enum kernel_steps steps = 0; steps <= STEPS_COLUMNS; steps++) set_passes(p, &list->of[steps]);
    list->sample.collectives = 1;
    list->sample.in_collective = true;
    list->sample.pass = (struct forge_gpu_pass){ FORGE_PASS_TOKEN, LAYERS_TOKEN_BYTES, { { 0, 0, 8, 1 } } };
}

void gpu_plan_kernels(struct arena *a, struct plan *p)
{
    const struct fused *f = p->fused;
    const uint32_t last_store = fuse_last_store(f);
    uint32_t last_attention = last_store;        /* STEPS_COLUMNS uses decode's attention, which cannot skip tokens without logits */
    for (uint32_t i = last_store; i < f->n_groups; i++) if (f->groups[i].kind == GROUP_ATTENTION) last_attention = i;
    p->kernels = kernel_list_new(a);
    struct gpu_chooser c = { .arena = a, .plan = p, .list = p->kernels };
    const enum kernel_steps last = f->graph->draft ? STEPS_PASS : p->options.columns ? STEPS_COLUMNS : STEPS_PREFILL;
    for (c.steps = STEPS_DECODE; c.steps <= last; c.steps++) {
        c.prefill = c.steps == STEPS_PREFILL;
        for (c.index = 0; c.index < f->n_groups; c.index++) {
            c.group = &f->groups[c.index];
            c.gg = &p->gpu->groups[c.index];
            c.tail = c.index > (c.steps == STEPS_COLUMNS ? last_attention : last_store);
            if (!is_of_steps(&c)) continue;
            if (c.gg->series_first == c.gg->series_last) choose_group(&c);
            else if (c.gg->series_first == c.index) choose_series_kernel(&c);
        }
        if (c.steps == STEPS_DECODE && !f->graph->output) choose_follow(&c);
        else if (c.steps == STEPS_DECODE && !p->model->pooling) choose_sample(&c, false);
        if (c.steps == STEPS_COLUMNS && p->options.spec) choose_sample(&c, true);
        if (c.steps == STEPS_PASS) choose_store_draft(&c);
    }
    if (p->options.split == SPLIT_LAYER) {
        number_passes(p, c.list);
        return;
    }
    for (enum kernel_steps steps = 0; steps <= STEPS_COLUMNS; steps++) number_collectives(p, &c.list->of[steps]);
}

/* Attention in steps keeps all scores of a step. The chunk is limited so that they take at most 256 MiB. */
static void limit_chunk(struct plan *p)
{
    uint32_t heads = 0;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        if (g->kind != GROUP_ATTENTION) continue;
        p->gpu->has_wide |= gpu_is_wide(p, g->node);
        p->gpu->has_views |= gpu_in_steps(p, g->node) && plan_values_in_keys(p, g->node);
        if (!gpu_in_steps(p, g->node)) p->gpu->has_more |= g->node->weight || g->node->attr.cap != 0;
        else if (g->node->heads > heads) heads = g->node->heads;
    }
    p->gpu->has_steps = heads > 0;
    if (!heads) return;
    const uint64_t fits = (256ull << 20) / (4ull * heads * p->options.n_ctx);
    if (p->chunk > fits && !p->model->causal)
        die("%s: unfused attention keeps the scores of a whole text, at most 256 MiB; choose --ctx %u or smaller, or another --fuse",
            p->model->gguf->path, (uint32_t)sqrt((256 << 20) / (4.0 * heads)));
    if (p->chunk > fits) p->chunk = fits ? (uint32_t)fits : 1;
}

/* One step returns logits for up to LOGITS_LEAST tokens, or for more if these fit LOGITS_BYTES of host memory. The arena has LOGITS_ROWS
 * rows, because generation needs only one row. A step that returns all logits reads the output head once per LOGITS_ROWS tokens: with 4-bit
 * weights within the time of its products, with 16-bit weights in up to four times that, which is 10 % of a step of an 8B model. */
static void limit_logits(struct plan *p)
{
    enum { LOGITS_LEAST = 512, LOGITS_BYTES = 256 << 20, LOGITS_ROWS = 64 };
    const uint32_t fits = LOGITS_BYTES / (4 * p->model->n_out), most = fits > LOGITS_LEAST ? fits : LOGITS_LEAST;
    p->max_logits = p->chunk < most || p->model->pooling ? p->chunk : most;
    p->gpu->logits_rows = p->max_logits < LOGITS_ROWS || p->model->pooling ? p->max_logits : LOGITS_ROWS;
}

static void check(const struct plan *p, const struct graph *g)
{
    if (p->options.columns && p->model->pooling)
        die("%s: %s does not support embedding models", p->model->gguf->path,
            p->options.spec ? "--spec" : "--columns");
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = g->nodes[i];
        if (n->op == OP_attention && !n->attr.causal && (n->weight || n->attr.cap != 0))
            die("%s: %%%s sees later tokens and has a cap or sinks; forgec has no GPU kernel for that; build for a CPU target",
                p->model->gguf->path, n->name);
        if (n->op != OP_store_k && n->op != OP_store_v) continue;
        if ((uint64_t)n->heads * p->options.n_ctx > UINT32_MAX)
            die("%s: %u heads (%%%s) of %u positions are more rows than the GPU kernels can count; choose --ctx %u or smaller, or build "
                "for a CPU target", p->model->gguf->path, n->heads, n->name, p->options.n_ctx, UINT32_MAX / n->heads);
    }
    if (!p->model->pooling && p->model->n_vocab > SAMPLE_MAX_VOCAB)
        die("%s: a vocabulary of %u tokens is larger than %u, the most for GPU kernels; build for a CPU target",
            p->model->gguf->path, p->model->n_vocab, SAMPLE_MAX_VOCAB);
}

/* May a step of a few tokens have tokens of several sequences? This needs kernels that compute each token separately. Operations that
 * continue from the token before it in the step, and attention in steps, do not. */
static bool has_several(const struct plan *p)
{
    const struct graph *g = p->fused->graph;
    for (uint32_t i = 0; i < g->n_nodes; i++) if (op_replaces(g->nodes[i]->op)) return false;
    return p->options.columns > 0 && !p->gpu->has_steps && !p->options.alone;
}

static void choose(struct arena *a, struct plan *p)
{
    p->gpu = arena_new(a, struct gpu_plan);
    limit_chunk(p);
    p->gpu->has_several = has_several(p);
    if (p->options.columns > p->chunk)
        die("%s: --columns %u is more than the tokens of a prompt's step, %u; choose a smaller --columns, or a smaller --ctx",
            p->model->gguf->path, p->options.columns, p->chunk);
    limit_logits(p);
    p->gpu->digits = p->options.exact ? 3 : p->target->activation_digits;
    p->gpu->groups = arena_array(a, struct gpu_group, p->fused->n_groups);
    choose_products(p);
    choose_series(p);
    choose_splits(a, p);
    choose_values(a, p);
    gpu_plan_kernels(a, p);
}

extern const struct machine machine_gpu;
const struct machine machine_gpu = { .name = "GPU", .layout = LAYOUT_GPU, .image_align = 128, .state_align = 256, .head_unit = 8,
                                     .head_most = 1024, .check = check, .in_steps = gpu_in_steps, .choose = choose, .work = gpu_work,
                                     .absorbs = { .attention_heads = true, .attention_most = 256, .gates_alike = true } };
