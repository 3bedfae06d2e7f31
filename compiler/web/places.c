/* places.c -- where a WebGPU plan puts values and scratch memory in the arena, and how it divides matrices into bindings: see places.h. */
#include "places.h"
#include "compiler/front/attr.h"
#include "compiler/plan/lifetimes.h"
#include "compiler/plan/machine.h"
#include "templates/webgpu/sizes.h"

typedef unsigned long long ull;

static uint64_t larger(uint64_t x, uint64_t y) { return x > y ? x : y; }

/* ---- places ---- */

struct web_place web_place_in(const struct node *n, const struct buffer *b)
{
    return (struct web_place){ b->name ? b->name : plan_value_name(n), b->exists ? WEB_ROWS : WEB_NONE, b->offset, b->stride,
                               n->cols };
}

struct web_place web_place_of(const struct plan *p, const struct node *n)
{
    const struct buffer logits = { .exists = true, .offset = p->web->logits, .stride = 4ull * p->model->n_out };
    if (n != p->fused->graph->output) return web_place_in(n, &p->f32[n->index]);
    struct web_place at = web_place_in(n, &logits);
    at.form = WEB_LOGITS;
    return at;
}

struct web_place web_input(const struct plan *p, const struct group *g)
{
    const struct web_group *wg = &p->web->groups[g - p->fused->groups];
    return wg->normed.exists ? web_place_in(g->norm, &wg->normed) : web_place_of(p, g->input);
}

struct web_place web_input_floats(const struct plan *p, const struct group *g)
{
    const struct web_group *wg = &p->web->groups[g - p->fused->groups];
    return wg->rows_in.exists ? web_place_in(g->norm, &wg->rows_in) : web_input(p, g);
}

bool web_norms(const struct plan *p, const struct group *g)
{
    return g->norm && !p->web->groups[g - p->fused->groups].normed.exists;
}

struct buffer web_buffer(uint32_t cols)
{
    return (struct buffer){ .exists = true, .cols = cols, .pieces = 1, .stride = 4 * plan_align(cols, 64) };
}

void web_place_values(struct arena *a, struct plan *p)
{
    const struct graph *graph = p->fused->graph;
    struct arena_plan ap = { .arena = a, .align = 256 };
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        struct web_group *wg = &p->web->groups[i];
        if (wg->normed.exists) arena_add(&ap, arena_printf(a, "%s in", g->name), &wg->normed, i, i, p->chunk);
        if (wg->staged.exists) arena_add(&ap, arena_printf(a, "%s in int8", g->name), &wg->staged, i, i, p->chunk);
        if (wg->rows_in.exists) arena_add(&ap, arena_printf(a, "%s in f32", g->name), &wg->rows_in, i, i, p->chunk);
        if (wg->list.exists) arena_add(&ap, arena_printf(a, "%s by expert", g->name), &wg->list, i, i, p->chunk);
        if (wg->rows.exists) arena_add(&ap, arena_printf(a, "rows of %s", g->name), &wg->rows, i, i, p->chunk);
        for (uint32_t k = 0; k < graph->n_nodes; k++) {
            const struct node *n = graph->nodes[k];
            if (fuse_group(p->fused, n) == i && plan_needs_buffer(p, n)) {
                p->f32[n->index] = web_buffer(n->cols);
                arena_add(&ap, plan_value_name(n), &p->f32[n->index], i, plan_last_reader(p, n), p->chunk);
            }
            if (fuse_is_view(n) && fuse_group(p->fused, fuse_held_by(n)) == i)
                arena_view(&ap, plan_value_name(n), &p->f32[n->index], &p->f32[n->inputs[0]->index], n->attr.first, n->cols);
        }
    }
    arena_place(&ap, p);
}

/* ---- parts of matrices that fit a binding ---- */

static struct web_group *web_group_of(const struct plan *p, const struct group *g) { return &p->web->groups[g - p->fused->groups]; }

const struct weight *web_part_weight(const struct plan *p, const struct group *g, const struct web_part *part, bool partner)
{
    if (g->kind == GROUP_EMBED) return partner ? NULL : g->node->weight;
    const struct branch *b = &g->branches[web_group_of(p, g)->runs[part->run].first];
    return !partner ? b->matmul->weight : b->partner >= 0 ? g->branches[b->partner].matmul->weight : NULL;
}

uint64_t web_part_most(const struct plan *p, const struct group *g, const struct web_part *part)
{
    if (g->kind == GROUP_EMBED) return g->node->weight->rows;
    return g->kind == GROUP_SLICES ? gpu_matrices(g) : web_group_of(p, g)->runs[part->run].rows;
}

/* The bytes of one row of a run, or of one matrix of a stack. */
static uint64_t part_unit(const struct plan *p, const struct group *g, const struct web_part *part)
{
    const struct weight *w = web_part_weight(p, g, part, false);
    return g->kind == GROUP_SLICES ? plan_slice_bytes(p, w) : packing_row_bytes(plan_packing(p, w), w->cols);
}

bool web_part_is_whole(const struct plan *p, const struct group *g, const struct web_part *part)
{
    return part->n == web_part_most(p, g, part);
}

uint64_t web_part_offset(const struct plan *p, const struct group *g, const struct web_part *part, const struct weight *w)
{
    return p->weight_offset[w->index] + part->first * part_unit(p, g, part);
}

struct binding web_part_binding(const struct plan *p, const struct group *g, const struct web_part *part, const struct weight *w)
{
    return (struct binding){ .offset = web_part_offset(p, g, part, w), .bytes = part->n * part_unit(p, g, part), .is_matrix = true };
}

bool web_part_of(const struct plan *p, const struct group *g, const struct web_part *part, const struct launch *l)
{
    const uint64_t offset = web_part_offset(p, g, part, web_part_weight(p, g, part, false));
    for (uint32_t i = 0; i < l->n_bindings; i++) if (l->bindings[i].offset == offset) return true;
    return false;
}

struct web_rows web_part_rows(const struct group *g, const struct gpu_run *r, const struct web_part *part, uint32_t branch)
{
    uint64_t first = 0;
    if (g->kind == GROUP_SLICES) return (struct web_rows){ 0, r->rows };
    for (uint32_t k = r->first; k < branch; k++) first += g->branches[k].matmul->weight->rows;
    const uint64_t end = first + g->branches[branch].matmul->weight->rows, last = part->first + part->n,
                   from = larger(first, part->first), to = end < last ? end : last;
    return (struct web_rows){ from - first, from < to ? to - from : 0 };
}

/* The number of rows or matrices in a binding: all, or as many as fit, so that the next part begins at a valid binding offset and with a
 * tile. */
static uint64_t part_fits(const struct plan *p, const struct group *g, const struct web_part *part)
{
    enum { BINDING_ALIGN = 256 };
    const uint64_t most = web_part_most(p, g, part), unit = part_unit(p, g, part), binding = p->target->binding_bytes;
    uint64_t step = g->kind == GROUP_SLICES ? 1 : TILE_ROWS;
    while (step * unit % BINDING_ALIGN) step *= 2;
    if (most * unit <= binding) return most;
    if (step * unit > binding)
        die("%s: %llu %s of %s cannot be divided and have %llu bytes; a binding of %s has %llu; give the target a larger `binding`",
            p->model->gguf->path, (ull)step, g->kind == GROUP_SLICES ? "matrices" : "rows",
            web_part_weight(p, g, part, false)->name, (ull)(step * unit), p->target->name, (ull)binding);
    return binding / unit / step * step;
}

/* Kernels have at most eight storage buffers: six for matrices, one for values, and one for vectors or tokens. */
void web_plan_parts(struct arena *a, const struct plan *p, const struct group *g, struct web_group *wg)
{
    enum { MATRICES_MOST = 6 };
    uint32_t room = 0, bound = 0;
    for (uint32_t run = 0; run < (g->kind == GROUP_EMBED ? 1 : wg->n_runs); run++) {
        struct web_part part = { .run = run };
        const uint64_t most = web_part_most(p, g, &part), fits = part_fits(p, g, &part);
        const uint32_t each = web_part_weight(p, g, &part, true) ? 2 : 1;
        for (; part.first < most; part.first += part.n) {
            part.n = most - part.first < fits ? most - part.first : fits;
            bound = bound + each > MATRICES_MOST ? 0 : bound;
            wg->n_launches += bound == 0;
            bound += each;
            part.launch = wg->n_launches - 1;
            arena_room(a, wg->parts, wg->n_parts, room);
            wg->parts[wg->n_parts++] = part;
        }
    }
}

/* ---- the parts of the arena after the values ---- */

static uint64_t take(struct plan *p, uint64_t bytes)
{
    const uint64_t at = plan_align(p->arena_bytes, 256);
    p->arena_bytes = at + bytes;
    return at;
}

bool web_in_steps(const struct plan *p, const struct node *n)
{
    return p->fused->level == FUSE_NONE || n->attr.head_dim > ATTENTION_DIM_MOST || n->inputs[2]->attr.head_dim > n->attr.head_dim;
}

/* Only with one cut: then exactly one workgroup stores the key and value of a head. */
bool web_turns(const struct plan *p, const struct group *g)
{
    const struct node *n = g->node;
    return g->has_heads && ATTENTION_CUTS(n->heads, n->inputs[1]->heads, n->attr.head_dim) == 1 &&
           !(p->options.kv == KV_TYPE_Q8_0 && n->attr.head_dim % 64);                       /* such heads need atomics: kv.wgsl */
}

uint32_t web_splits(const struct plan *p, const struct node *n)
{
    enum { POSITIONS = 64 };                 /* minimum positions of a split; smaller workgroups are twice as many */
    const uint32_t kv = n->inputs[1]->heads, groups = kv * ATTENTION_CUTS(n->heads, kv, n->attr.head_dim),
                   threads = ATTENTION_THREADS(p->target->gpu.attention_threads, n->attr.head_dim),
                   units = p->target->gpu.attention_splits * (threads < p->target->gpu.attention_threads ? 2 : 1),
                   wanted = (units + groups - 1) / groups,
                   window = plan_window(p, n), positions = window && window < p->options.n_ctx ? window : p->options.n_ctx,
                   most = (positions + POSITIONS - 1) / POSITIONS;
    return positions <= ATTENTION_ALONE ? 1 : wanted < most ? wanted : most;
}

uint32_t web_sample_groups(const struct plan *p)
{
    const uint32_t groups = (p->model->n_vocab + SAMPLE_SPAN - 1) / SAMPLE_SPAN;
    return groups < SAMPLE_MOST_GROUPS ? groups : SAMPLE_MOST_GROUPS;
}

void web_place_areas(struct plan *p)
{
    struct web_plan *web = p->web;
    uint64_t parts = 0, maxima = 0, scores = 0;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct node *n = p->fused->groups[i].node;
        if (p->fused->groups[i].kind != GROUP_ATTENTION) continue;
        if (web_in_steps(p, n)) scores = larger(scores, 4ull * n->heads * p->chunk * plan_align(p->options.n_ctx, 4));
        else {
            const uint64_t rows = ATTENTION_ROWS(n->heads, n->inputs[1]->heads, n->attr.head_dim) * web_splits(p, n);
            parts = larger(parts, 4ull * rows * n->inputs[2]->attr.head_dim);
            maxima = larger(maxima, 8ull * rows);
        }
    }
    p->parts_offset = take(p, parts);
    web->maxima = take(p, maxima);
    if (scores) web->scores = take(p, scores);
    if (!p->model->pooling) web->sample = take(p, SAMPLE_SCRATCH_BYTES(web_sample_groups(p)));
    web->logits = take(p, 4ull * p->model->n_out * web->logits_rows);
    p->arena_bytes = plan_align(p->arena_bytes, 256);
}
