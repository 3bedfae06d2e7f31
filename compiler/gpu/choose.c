/* choose.c -- values and kernel shapes of a GPU program.  In decode every value is one f32 row; in prefill, what only products read is kept in
 * the 16-bit form they read, unless the program is exact: then prefill's products are decode's, a token a group.  Places of both never matter at the same time, but a row is small: they have places of their own. */
#include "compiler/plan/plan.h"
#include "compiler/format/blocks.h"
#include "compiler/plan/lifetimes.h"
#include "templates/gpu/attention_sizes.h"
#include "templates/gpu/sample_sizes.h"
#include <string.h>

static bool on_heads(enum op op) { return op == OP_headnorm || op == OP_rope || op == OP_store_k || op == OP_store_v; }

/* ---- groups ---- */

static bool takes_bf16(const struct weight *w) { return w->tensor->quant->id == QUANT_BF16; }
static bool takes_floats(const struct weight *w) { return w->tensor->quant->block_weights == 1; }

/* Formats whose scale covers 16 columns correct their offset by sums over 16 activations (SUMS16_x in templates/gpu/formats). */
static bool needs_sums16(const struct weight *w) { return w->tensor->quant->coding && w->tensor->quant->coding->sums16; }

/* What a lane does, in halves of a unit of columns, when a row is shared by `lanes` of them; a group of rows costs one half more for its sum. */
static uint64_t gemv_cost(const struct plan *p, uint64_t row_groups, uint32_t rows, uint64_t units, uint32_t lanes)
{
    const struct profile *t = p->profile;
    const uint64_t slots = (uint64_t)t->compute_units * t->gpu.gemv_groups * t->gpu.gemv_threads / lanes;
    return (row_groups + slots - 1) / slots * (2 * rows * ((units + lanes - 1) / lanes) + 1);
}

/* The profile's shape, unless another fills the last round of row groups so much better that it is clearly less work. */
static void choose_gemv(const struct plan *p, const struct group *g, struct gpu_group *gg)
{
    const struct profile *t = p->profile;
    uint64_t rows = 0, cols = g->input->cols;
    bool pair = false, floats = false;
    for (uint32_t i = 0; i < g->n_branches; i++) {
        rows += g->branches[i].matmul->weight->rows;
        pair |= g->branches[i].is_partner;
        floats |= takes_floats(g->branches[i].matmul->weight);
    }
    const uint64_t units = floats ? (cols + 7) / 8 : (cols + 63) / 64;
    gg->gemv_rows = t->gpu.gemv_rows < 2 && pair ? 2 : t->gpu.gemv_rows;
    gg->gemv_lanes = t->gpu.gemv_lanes;
    const uint64_t usual = gemv_cost(p, (rows + gg->gemv_rows - 1) / gg->gemv_rows, gg->gemv_rows, units, gg->gemv_lanes);
    uint64_t best = usual * 9 / 10;
    for (uint32_t r = 1; r <= t->gpu.gemv_rows + 1; r++)
        for (uint32_t lanes = t->gpu.gemv_lanes; lanes >= t->gpu.gemv_lanes / 2 && lanes >= 8; lanes /= 2) {
            const uint64_t cost = gemv_cost(p, (rows + r - 1) / r, r, units, lanes);
            if ((pair && r % 2) || cost >= best) continue;
            best = cost;
            gg->gemv_rows = r;
            gg->gemv_lanes = lanes;
        }
}

static void plan_linear(const struct plan *p, const struct group *g, struct gpu_group *gg)
{
    for (uint32_t i = 0; i < g->n_branches; i++) {
        const struct branch *b = &g->branches[i];
        while (gg->n_inline[i] < b->n_chain && !on_heads(b->chain[gg->n_inline[i]]->op)) gg->n_inline[i]++;
        if (!b->matmul) continue;
        const struct weight *w = b->matmul->weight;
        gg->needs_acts |= !takes_floats(w);
        gg->needs_floats |= takes_floats(w);
        gg->needs_bf16 |= takes_bf16(w);
        gg->needs_f16 |= !takes_bf16(w);
        gg->sums16 |= needs_sums16(w);
    }
    if (g->kind == GROUP_LINEAR) choose_gemv(p, g, gg);
}

/* What rotates the branch of `from` that gives n behind its product; NULL: nothing. */
static const struct node *rotates(const struct plan *p, const struct group *from, const struct node *n)
{
    const struct gpu_group *gg = &p->gpu->groups[from - p->fused->groups];
    for (uint32_t i = 0; i < from->n_branches; i++)
        for (uint32_t k = gg->n_inline[i]; from->branches[i].result == n && k < from->branches[i].n_chain; k++)
            if (from->branches[i].chain[k]->op == OP_rope) return from->branches[i].chain[k];
    return NULL;
}

static bool is_alike(const struct node *x, const struct node *y) { return x && y ? x->rotation == y->rotation && x->attr.neox == y->attr.neox : x == y; }

/* Attention can norm, rotate and store the heads itself where one product leaves q, k and v for it and for nobody else, and where each of them takes
 * at most a headnorm and a rotation. */
static const struct group *raw_heads(const struct plan *p, const struct group *g)
{
    const struct node *const *in = (const struct node *const *)g->node->inputs;
    const struct group *from = NULL;
    for (uint32_t i = 0; i < 3; i++) {
        if (fuse_group(p->fused, in[i]) == NO_GROUP || in[i]->n_readers != 1) return NULL;
        const struct group *maker = &p->fused->groups[fuse_group(p->fused, in[i])];
        if (maker->kind != GROUP_LINEAR || (from && maker != from) || maker->n_branches != 3) return NULL;
        from = maker;
    }
    const struct gpu_group *gg = &p->gpu->groups[from - p->fused->groups];
    for (uint32_t i = 0; i < 3; i++) {
        const struct branch *b = &from->branches[i];
        enum op last = OP_COUNT;
        for (uint32_t k = gg->n_inline[i]; k < b->n_chain; k++) {
            const enum op op = b->chain[k]->op;
            const bool is_store = op == OP_store_k || op == OP_store_v, is_v = b->result->op == OP_store_v;
            if (!on_heads(op) || (is_store && k + 1 < b->n_chain) || (op == OP_headnorm && last != OP_COUNT) || (op == OP_rope && last == OP_rope)) return NULL;
            if (is_v && !is_store) return NULL;
            last = op;
        }
    }
    return is_alike(rotates(p, from, g->node->inputs[0]), rotates(p, from, g->node->inputs[1])) ? from : NULL;
}

/* ---- values ---- */

static struct buffer rows_of(uint32_t cols, uint32_t bytes)
{
    return (struct buffer){ .exists = true, .cols = cols, .stride = plan_align((uint64_t)plan_align(cols, 64) * bytes, 16) };
}

/* In prefill, all readers are products that want this value as it is, in one 16-bit form; and its maker can write that form. */
static bool keep_as_stage(const struct plan *p, const struct node *n, bool *bf16)
{
    if (p->fused->level == FUSE_NONE || p->options.exact || !n->n_readers) return false;
    const enum group_kind maker = p->fused->groups[fuse_group(p->fused, n)].kind;
    if (maker != GROUP_LINEAR && maker != GROUP_ATTENTION) return false;
    if (n->cols % 64) return false;                                      /* the padding of its rows would stay unwritten */
    for (uint32_t i = 0; i < n->n_readers; i++) {
        const struct node *r = n->readers[i];
        if (r->op != OP_matmul || p->fused->groups[fuse_group(p->fused, r)].norm) return false;
        const bool is_bf16 = takes_bf16(r->weight);
        if (i && is_bf16 != *bf16) return false;
        *bf16 = is_bf16;
    }
    return true;
}

static void add_stages(struct arena *a, struct plan *p, struct arena_plan *ap, uint32_t i)
{
    const struct group *g = &p->fused->groups[i];
    struct gpu_group *gg = &p->gpu->groups[i];
    const struct node *x = g->input;
    if (g->kind != GROUP_LINEAR || p->options.exact) return;
    if (gg->needs_f16 && (g->norm || !p->gpu->f16[x->index].exists)) {
        gg->stage_f16 = rows_of(x->cols, 2);
        arena_add(ap, arena_printf(a, "%s in f16", g->name), &gg->stage_f16, i, i, p->chunk);
    }
    if (gg->needs_bf16 && (g->norm || !p->gpu->bf16[x->index].exists)) {
        gg->stage_bf16 = rows_of(x->cols, 2);
        arena_add(ap, arena_printf(a, "%s in bf16", g->name), &gg->stage_bf16, i, i, p->chunk);
    }
}

/* Values before the operations on heads live until the kernel that does those: attention, or one right behind the product. */
static void add_raw(struct arena *a, struct plan *p, struct arena_plan *ap, uint32_t i)
{
    const struct group *g = &p->fused->groups[i];
    struct gpu_group *gg = &p->gpu->groups[i];
    for (uint32_t k = 0; k < g->n_branches; k++) {
        const struct branch *b = &g->branches[k];
        if (g->kind != GROUP_LINEAR || gg->n_inline[k] == b->n_chain) continue;
        uint32_t dies = i;
        for (uint32_t r = 0; r < b->result->n_readers; r++) if (fuse_group(p->fused, b->result->readers[r]) > dies) dies = fuse_group(p->fused, b->result->readers[r]);
        gg->raw[k] = rows_of((uint32_t)b->matmul->weight->rows, 4);
        arena_add(ap, arena_printf(a, "%s raw", b->matmul->weight->role), &gg->raw[k], i, dies, p->chunk);
    }
}

static void plan_values(struct arena *a, struct plan *p, struct arena_plan *ap)
{
    const struct graph *graph = p->fused->graph;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        add_stages(a, p, ap, i);
        add_raw(a, p, ap, i);
        for (uint32_t k = 0; k < graph->n_nodes; k++) {
            struct node *n = graph->nodes[k];
            if (fuse_group(p->fused, n) != i || !plan_needs_buffer(p, n)) continue;
            bool bf16 = false;
            const bool stage = keep_as_stage(p, n, &bf16);
            p->f32[k] = rows_of(n->cols, 4);
            arena_add(ap, plan_value_name(n), &p->f32[k], i, plan_last_reader(p, n), stage ? 1 : p->chunk);
            if (!stage) continue;
            struct buffer *b = bf16 ? &p->gpu->bf16[k] : &p->gpu->f16[k];
            *b = rows_of(n->cols, 2);
            arena_add(ap, arena_printf(a, "%s in %s", plan_value_name(n), bf16 ? "bf16" : "f16"), b, i, plan_last_reader(p, n), p->chunk);
        }
    }
}

/* ---- the arena beyond the values ---- */

static uint64_t take(struct plan *p, uint64_t bytes)
{
    const uint64_t at = plan_align(p->arena_bytes, 256);
    p->arena_bytes = at + bytes;
    return at;
}

static void plan_rest(struct plan *p)
{
    struct gpu_plan *gpu = p->gpu;
    uint64_t parts = 0, ml = 0, scores = 0;
    uint32_t counters = 0;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct node *n = p->fused->groups[i].node;
        if (p->fused->groups[i].kind != GROUP_ATTENTION) continue;
        const uint32_t kv = n->inputs[1]->heads, head_dim = p->model->head_dim;
        const uint64_t bytes = ATTENTION_PARTS_BYTES(n->heads, kv, head_dim, gpu->splits), ml_bytes = ATTENTION_ML_BYTES(n->heads, kv, head_dim, gpu->splits);
        const uint32_t counter_bytes = ATTENTION_COUNTER_BYTES(n->heads, kv, head_dim);
        const uint64_t square = (uint64_t)n->heads * p->chunk * plan_align(p->options.n_ctx, 4) * 4;
        if (bytes > parts) parts = bytes;
        if (square > scores) scores = square;
        if (ml_bytes > ml) ml = ml_bytes;
        if (counter_bytes > counters) counters = counter_bytes;
    }
    p->parts_offset = take(p, parts);
    gpu->parts_ml = take(p, ml);
    gpu->zero = take(p, counters);
    gpu->sample_counters = take(p, SAMPLE_COUNTERS * 4);
    gpu->zero_bytes = p->arena_bytes - gpu->zero;
    gpu->sample_scratch = take(p, SAMPLE_SCRATCH_BYTES((uint64_t)p->model->n_vocab, p->profile->gpu.sample_groups));
    if (p->fused->level == FUSE_NONE) gpu->scores = take(p, scores);
    gpu->logits = take(p, (uint64_t)p->model->n_vocab * 4 * p->max_logits);
    p->arena_bytes = plan_align(p->arena_bytes, 256);
}

/* The unfused attention keeps all scores of a step: at most 256 MiB of them. */
static void limit_chunk(struct plan *p)
{
    uint32_t heads = 1;
    for (uint32_t l = 0; l < p->model->n_layer; l++) if (p->model->layers[l].n_head > heads) heads = p->model->layers[l].n_head;
    const uint64_t fits = (256ull << 20) / (4ull * heads * p->options.n_ctx);
    if (p->chunk > fits) p->chunk = fits ? (uint32_t)fits : 1;
}

/* Logits of a step are kept: of LOGITS_LEAST tokens, of more as far as they take LOGITS_BYTES. */
static void limit_logits(struct plan *p)
{
    enum { LOGITS_LEAST = 512, LOGITS_BYTES = 256 << 20 };
    const uint32_t fits = LOGITS_BYTES / (4 * p->model->n_vocab), most = fits > LOGITS_LEAST ? fits : LOGITS_LEAST;
    p->max_logits = p->chunk < most ? p->chunk : most;
}

static uint32_t splits_of(const struct plan *p)
{
    uint32_t heads_kv = 1;
    for (uint32_t l = 0; l < p->model->n_layer; l++) if (p->model->layers[l].n_head_kv > heads_kv) heads_kv = p->model->layers[l].n_head_kv;
    const uint32_t splits = (p->profile->gpu.attention_splits + heads_kv - 1) / heads_kv;
    const uint32_t most = (p->options.n_ctx + 15) / 16;
    return splits < 1 ? 1 : splits > most ? most : splits;
}

void plan_gpu(struct arena *a, struct plan *p)
{
    struct gpu_plan *gpu = p->gpu;
    if (p->fused->level == FUSE_NONE) limit_chunk(p);
    limit_logits(p);
        gpu->digits = p->options.exact ? 3 : p->profile->activation_digits;
    gpu->splits = splits_of(p);
    gpu->groups = arena_array(a, struct gpu_group, p->fused->n_groups);
    gpu->f16 = arena_array(a, struct buffer, p->fused->graph->n_nodes);
    gpu->bf16 = arena_array(a, struct buffer, p->fused->graph->n_nodes);
    for (uint32_t i = 0; i < p->fused->n_groups; i++) plan_linear(p, &p->fused->groups[i], &gpu->groups[i]);
    for (uint32_t i = 0; i < p->fused->n_groups; i++)
        if (p->fused->groups[i].kind == GROUP_ATTENTION) gpu->groups[i].heads = raw_heads(p, &p->fused->groups[i]);
    struct arena_plan ap = { .arena = a, .align = 256 };
    plan_values(a, p, &ap);
    arena_place(&ap, p);
    plan_rest(p);
}
