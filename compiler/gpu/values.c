/* values.c -- forms and places of values. In decode every value is one f32 row. In prefill a value that only products read is kept in the
 * 16-bit form that they read. In exact programs it stays f32: prefill's products are then decode's, with a token for each workgroup. The
 * f32 row and the 16-bit rows are never needed at the same time, but have separate places, because a row is small. */
#include "choose.h"
#include "compiler/plan/lifetimes.h"
#include "templates/gpu/collective_sizes.h"
#include "templates/gpu/layers_sizes.h"
#include "templates/gpu/sample_sizes.h"

bool gpu_takes_bf16(const struct weight *w) { return w->tensor->quant->id == QUANT_BF16; }
bool gpu_takes_floats(const struct weight *w) { return w->tensor->quant->block_weights == 1; }
bool gpu_by_gemv(const struct plan *p, bool prefill) { return !prefill || p->options.exact; }

/* ---- places ---- */

static struct gpu_place place_of(const struct node *n, enum gpu_form form, const struct buffer *b)
{
    return (struct gpu_place){ b->name ? b->name : plan_value_name(n), b->symbol, form, b->offset, b->stride, n->cols };
}

static uint64_t larger(uint64_t x, uint64_t y) { return x > y ? x : y; }
/* The maximum number of tokens of a step that computes products as decode does. */
static uint32_t columns_of(const struct plan *p) { return p->options.columns ? p->options.columns : 1; }

bool gpu_pushes_logits(const struct node *given) { return given->op == OP_push && given->readers[0]->op == OP_all_gather; }

uint32_t gpu_given_rows(const struct plan *p, const struct node *given)
{
    return gpu_pushes_logits(given) ? p->gpu->logits_rows : columns_of(p);
}

/* Floats from row to row, the same for all ranks: a sum's columns, or for logits the maximum number of columns of a rank. */
static uint32_t given_stride(const struct plan *p, const struct node *given)
{
    return gpu_pushes_logits(given) ? (given->readers[0]->cols + p->options.ranks - 1) / p->options.ranks : given->cols;
}

static void choose_collective(struct plan *p)
{
    const uint32_t ranks = p->options.ranks, threads = p->target->gpu.stage_threads;
    uint64_t pairs = 0, flags = 0, rows = 0;
    for (uint32_t i = 0; i < p->fused->graph->n_nodes; i++) {
        const struct node *n = p->fused->graph->nodes[i];
        if (n->op != OP_push) continue;
        pairs = larger(pairs, COLLECTIVE_PAIRS_BYTES(ranks, gpu_given_rows(p, n), given_stride(p, n)));
        if (gpu_pushes_logits(n)) continue;
        flags = larger(flags, COLLECTIVE_FLAGS_BYTES(ranks, p->chunk, n->cols, threads));
        rows = larger(rows, COLLECTIVE_ROWS_BYTES(ranks, p->chunk, n->cols));
    }
    p->gpu->collective_flags = plan_align(pairs, 256);
    p->gpu->collective_values = p->gpu->collective_flags + plan_align(flags, 256);
    p->gpu->collective_half = p->gpu->collective_values + plan_align(rows, 256);
}

/* The sending and the receiving stage have the same values in the same order, so both get the same offsets. */
uint64_t gpu_passed_bytes(const struct plan *p, const struct node *up_to, enum op op)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->fused->graph->n_nodes; i++) {
        const struct node *n = p->fused->graph->nodes[i];
        if (n == up_to) break;
        if (n->op == op) bytes += LAYERS_VALUE_BYTES(p->chunk, n->cols);
    }
    return bytes;
}

uint64_t gpu_collective_room(const struct plan *p)
{
    if (p->options.split == SPLIT_TENSOR) return 2 * p->gpu->collective_half;
    return LAYERS_VALUES + LAYERS_PARTS * gpu_passed_bytes(p, NULL, OP_receive);
}

struct gpu_place gpu_given(const struct plan *p, const struct node *given)
{
    if (given->op == OP_send || given->op == OP_receive)
        return place_of(given, FORM_GIVEN, &(struct buffer){ .offset = gpu_passed_bytes(p, given, given->op), .stride = given->cols });
    return place_of(given, FORM_GIVEN, &(struct buffer){ .stride = given_stride(p, given) });
}

struct gpu_place gpu_read(const struct plan *p, const struct node *n)
{
    const struct buffer *b = &p->f32[n->index];
    return place_of(n, b->exists ? FORM_F32 : FORM_NONE, b);
}

struct gpu_place gpu_written(const struct plan *p, const struct node *n, bool prefill)
{
    const struct buffer *f16 = &p->gpu->f16[n->index], *bf16 = &p->gpu->bf16[n->index];
    const struct buffer logits = { .offset = p->gpu->logits, .stride = (uint64_t)p->model->n_out * 4 };
    if (n == p->fused->graph->output || n == p->fused->graph->draft) return place_of(n, FORM_LOGITS, &logits);
    if ((n->op == OP_push || n->op == OP_send) && (!prefill || gpu_pushes_logits(n))) return gpu_given(p, n);
    if (prefill && f16->exists) return place_of(n, FORM_F16, f16);
    if (prefill && bf16->exists) return place_of(n, FORM_BF16, bf16);
    return gpu_read(p, n);
}

struct gpu_place gpu_stage(const struct plan *p, const struct group *g, bool bf16)
{
    const struct gpu_group *gg = &p->gpu->groups[g - p->fused->groups];
    const struct buffer *own = bf16 ? &gg->stage_bf16 : &gg->stage_f16, *kept = &(bf16 ? p->gpu->bf16 : p->gpu->f16)[g->input->index];
    return place_of(g->input, bf16 ? FORM_BF16 : FORM_F16, own->exists ? own : kept);
}

/* ---- values ---- */

static struct buffer rows_of(uint32_t cols, uint32_t bytes)
{
    return (struct buffer){ .exists = true, .cols = cols, .pieces = 1, .stride = plan_align((uint64_t)plan_align(cols, 64) * bytes, 16) };
}

struct gpu_place gpu_own(const struct node *n, const struct buffer *b) { return place_of(n, FORM_F32, b); }

/* Does the kernel that makes n store single values, so that it can round them to the form that a product reads? */
static bool makes_stage(const struct plan *p, const struct node *n)
{
    const struct group *g = &p->fused->groups[fuse_group(p->fused, n)];
    switch (g->kind) {
    case GROUP_LINEAR:
    case GROUP_SLICES:
    case GROUP_SEQUENCE:  return true;
    case GROUP_ATTENTION: return !gpu_in_steps(p, g->node);
    case GROUP_MAP:       return gpu_map_of(g) != MAP_ROWS;
    default:              return false;
    }
}

/* Is product a product that reads n directly and in whole units of 64 columns? */
static bool reads_units(const struct node *product, const struct node *n)
{
    const bool is = product->op == OP_matmul || product->op == OP_expert_matmul || product->op == OP_matmul_heads;
    return is && product->inputs[0] == n && product->weight->cols % 64 == 0;
}

/* Is n kept in a 16-bit form in prefill? Yes if all readers are products that read it without a norm and in the same form, and the kernel
 * that makes n can write that form. */
static bool keep_as_stage(const struct plan *p, const struct node *n, bool *bf16)
{
    const struct fused *f = p->fused;
    if (f->level == FUSE_NONE || p->options.exact || !n->n_readers) return false;
    if (!makes_stage(p, n)) return false;
    for (uint32_t i = 0; i < n->n_readers; i++) {
        const struct node *r = n->readers[i];
        if (!reads_units(r, n) || f->groups[fuse_group(f, r)].norm) return false;       /* the padding of its rows would stay unwritten */
        const bool is_bf16 = gpu_takes_bf16(r->weight);
        if (i && is_bf16 != *bf16) return false;
        *bf16 = is_bf16;
    }
    return true;
}

/* Products address the row of a token, or of one of its experts, by a 32-bit byte offset in a step's rows. */
static void check_stage(const struct plan *p, const char *name, const struct buffer *b)
{
    if (b->stride * p->chunk > UINT32_MAX)
        die("%s: a token's %s is %llu bytes; %u tokens are more than the GPU kernels can count: choose a smaller prefill_chunk in %s, or "
            "build for a CPU target", p->model->gguf->path, name, (unsigned long long)b->stride, p->chunk, p->target->path);
}

static void add_stages(struct arena *a, struct plan *p, struct arena_plan *ap, uint32_t i)
{
    const struct group *g = &p->fused->groups[i];
    struct gpu_group *gg = &p->gpu->groups[i];
    const struct node *x = g->input;
    if ((g->kind != GROUP_LINEAR && g->kind != GROUP_SLICES) || p->options.exact) return;
    if (gg->needs_f16 && (g->norm || !p->gpu->f16[x->index].exists)) {
        gg->stage_f16 = rows_of(gpu_input_cols(g), 2);
        check_stage(p, g->name, &gg->stage_f16);
        arena_add(ap, arena_printf(a, "%s in f16", g->name), &gg->stage_f16, i, i, p->chunk);
    }
    if (gg->needs_bf16 && (g->norm || !p->gpu->bf16[x->index].exists)) {
        gg->stage_bf16 = rows_of(gpu_input_cols(g), 2);
        check_stage(p, g->name, &gg->stage_bf16);
        arena_add(ap, arena_printf(a, "%s in bf16", g->name), &gg->stage_bf16, i, i, p->chunk);
    }
}

/* Adds the buffers that prefill needs for experts: lists of tokens, and rows of all experts before their sum. */
static void add_picked(struct arena *a, struct plan *p, struct arena_plan *ap, uint32_t i)
{
    const struct group *g = &p->fused->groups[i];
    struct gpu_group *gg = &p->gpu->groups[i];
    if (p->options.exact) return;
    if (g->kind == GROUP_ROUTE) {
        const uint32_t n_experts = g->node->inputs[0]->cols, dies = plan_last_reader(p, g->node);
        gg->picked = (struct buffer){ .exists = true, .cols = p->chunk, .pieces = 1, .stride = 4ull * p->chunk };
        gg->n_picked = (struct buffer){ .exists = true, .cols = n_experts, .pieces = 1, .stride = 4ull * n_experts };
        arena_add(ap, arena_printf(a, "tokens of %s", plan_value_name(g->node)), &gg->picked, i, dies, n_experts);
        arena_add(ap, arena_printf(a, "counts of %s", plan_value_name(g->node)), &gg->n_picked, i, dies, 1);
    }
    if (g->kind != GROUP_SLICES) return;
    const struct branch *b = &g->branches[0];
    const uint32_t sum = gpu_sum_at(b);
    if (sum == b->n_chain) return;
    gg->rows = rows_of(b->chain[sum]->inputs[0]->cols, 4);
    arena_add(ap, arena_printf(a, "rows of %s", g->name), &gg->rows, i, i, p->chunk);
}

/* The last group that needs n. A router's choice may be made by the product that first reads it, so its logits live until then. */
static uint32_t last_reader(const struct plan *p, const struct node *n)
{
    uint32_t last = plan_last_reader(p, n);
    for (uint32_t i = 0; i < n->n_readers; i++) {
        const uint32_t group = fuse_group(p->fused, n->readers[i]), chooser = group == NO_GROUP ? 0 : p->gpu->groups[group].chooser;
        if (n->readers[i]->op == OP_route && chooser > last) last = chooser;
    }
    return last;
}

static void add_value(struct arena *a, struct plan *p, struct arena_plan *ap, const struct node *n, uint32_t group)
{
    bool bf16 = false;
    const bool stage = keep_as_stage(p, n, &bf16);
    const uint32_t dies = last_reader(p, n);
    group = p->gpu->groups[group].series_first;           /* the strands of a series run side by side */
    p->f32[n->index] = rows_of(n->cols, 4);
    arena_add(ap, plan_value_name(n), &p->f32[n->index], group, dies, stage ? columns_of(p) : p->chunk);
    if (!stage) return;
    struct buffer *b = bf16 ? &p->gpu->bf16[n->index] : &p->gpu->f16[n->index];
    *b = rows_of(n->cols, 2);
    check_stage(p, plan_value_name(n), b);
    arena_add(ap, arena_printf(a, "%s in %s", plan_value_name(n), bf16 ? "bf16" : "f16"), b, group, dies, p->chunk);
}

static void place_values(struct arena *a, struct plan *p)
{
    const struct graph *graph = p->fused->graph;
    struct arena_plan ap = { .arena = a, .align = 256 };
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        add_stages(a, p, &ap, i);
        add_picked(a, p, &ap, i);
        for (uint32_t k = 0; k < graph->n_nodes; k++) {
            const struct node *n = graph->nodes[k];
            if (fuse_group(p->fused, n) == i && plan_needs_buffer(p, n)) add_value(a, p, &ap, n, i);
            if (fuse_is_view(n) && fuse_group(p->fused, fuse_held_by(n)) == i)
                arena_view(&ap, plan_value_name(n), &p->f32[n->index], &p->f32[n->inputs[0]->index], n->attr.first, n->cols);
        }
    }
    arena_place(&ap, p);
}

/* ---- the parts of the arena after the values ---- */

static uint64_t take(struct plan *p, uint64_t bytes)
{
    const uint64_t at = plan_align(p->arena_bytes, 256);
    p->arena_bytes = at + bytes;
    return at;
}

/* The maximum over all layers of the bytes for decode's attention, and for the scores of attention in steps. */
struct attention_bytes { struct attention_areas all; uint64_t scores; };
static struct attention_bytes attention_bytes(const struct plan *p)
{
    struct attention_bytes most = { 0 };
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct node *n = p->fused->groups[i].node;
        if (p->fused->groups[i].kind != GROUP_ATTENTION) continue;
        if (gpu_in_steps(p, n)) most.scores = larger(most.scores, (uint64_t)n->heads * p->chunk * plan_align(p->options.n_ctx, 4) * 4);
        if (p->fused->level != FUSE_NONE && gpu_in_steps(p, n)) continue;
        const struct attention_areas one = gpu_attention_areas(p, n, &p->gpu->groups[i].attention);
        most.all.parts = larger(most.all.parts, columns_of(p) * one.parts);
        most.all.ml = larger(most.all.ml, columns_of(p) * one.ml);
        most.all.counters = larger(most.all.counters, columns_of(p) * one.counters);
        if (!gpu_is_wide(p, n)) continue;
        const struct attention_areas prefill = gpu_wide_parts(p, n);
        most.all.parts = larger(most.all.parts, prefill.parts);
        most.all.counters = larger(most.all.counters, prefill.counters);
    }
    return most;
}

void choose_values(struct arena *a, struct plan *p)
{
    struct gpu_plan *gpu = p->gpu;
    choose_collective(p);
    gpu->f16 = arena_array(a, struct buffer, p->fused->graph->n_nodes);
    gpu->bf16 = arena_array(a, struct buffer, p->fused->graph->n_nodes);
    place_values(a, p);
    const struct attention_bytes attention = attention_bytes(p);
    p->parts_offset = take(p, attention.all.parts);
    gpu->parts_ml = take(p, attention.all.ml);
    gpu->zero = take(p, attention.all.counters);
    const uint32_t draws = gpu->has_several || p->options.spec ? columns_of(p) : 1;      /* tokens sampled in parallel */
    if (!p->model->pooling) gpu->sample_counters = take(p, draws * SAMPLE_COUNTERS * 4);
    if (p->options.spec) gpu->draft_words = take(p, DRAFT_WORDS(p->options.columns) * 4ull);
    gpu->zero_bytes = p->arena_bytes - gpu->zero;
    if (!p->model->pooling && p->fused->graph->output)
        gpu->sample_scratch = take(p, draws * SAMPLE_SCRATCH_BYTES((uint64_t)p->model->n_vocab, p->target->gpu.sample_groups));
    if (attention.scores) gpu->scores = take(p, attention.scores);
    gpu->logits = take(p, p->fused->graph->output ? (uint64_t)p->model->n_out * 4 * p->gpu->logits_rows : 0);
    p->arena_bytes = plan_align(p->arena_bytes, 256);
}
