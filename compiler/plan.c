/* plan.c -- fused graph + profile -> places and sizes. */
#define FORGE_SIMD_C
#include "plan.h"
#include "pack.h"
#include "../templates/cpu/kv_tmpl.c"
#include "../templates/cpu/matmul.h"
#include <stdio.h>
#include <string.h>

const char *const kv_type_name[] = { [KV_TYPE_F16] = "f16", [KV_TYPE_F32] = "f32", [KV_TYPE_Q8_0] = "q8_0" };

static uint64_t align_up(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }

bool plan_takes_q8(const struct plan *p, const struct weight *w)
{
    return !p->options.exact && w->tensor->quant->block_weights > 1;
}

/* ---- options ---- */

uint32_t plan_context(const struct model *m, const struct plan_options *o)
{
    const uint32_t most = 8192;
    return o->n_ctx ? o->n_ctx : m->n_ctx_train < most ? m->n_ctx_train : most;
}

static void fill_options(struct plan *p, const struct plan_options *o)
{
    p->options = *o;
    p->options.n_ctx = plan_context(p->model, o);
    if (p->options.n_ctx > 1u << 24) die("a context of %u tokens is beyond what forgec plans for (%u); choose a smaller --ctx", p->options.n_ctx, 1u << 24);
    if (!p->options.max_threads) p->options.max_threads = 64;
    p->chunk = p->profile->tile.prefill_chunk < p->options.n_ctx ? p->profile->tile.prefill_chunk : p->options.n_ctx;
    if (p->options.kv == KV_TYPE_Q8_0 && p->model->head_dim % 32) die("--kv q8_0 needs a head size that is a multiple of 32; this model has %u", p->model->head_dim);
    if (p->model->head_dim % 8) die("%s: a head size of %u is no multiple of 8, which the CPU kernels need", p->model->gguf->path, p->model->head_dim);
}

/* ---- units of work: rows that one thread computes and finishes in one go ---- */

static bool works_on_heads(const struct branch *b)
{
    for (uint32_t i = 0; i < b->n_chain; i++)
        switch (b->chain[i]->op) {
        case OP_headnorm: case OP_rope: case OP_store_k: case OP_store_v: return true;
        default: break;
        }
    return false;
}

/* Rows must be a multiple of 16 (the packed group), of 32 where results are quantised, and of whole heads where heads count. */
static uint32_t unit_rows(const struct plan *p, const struct branch *b)
{
    if (!works_on_heads(b)) return 32;
    uint32_t rows = p->model->head_dim;
    while (rows % 16) rows += p->model->head_dim;
    return rows;
}

/* ---- in which forms a value is kept ---- */

static bool reads_as_q8(const struct plan *p, const struct group *g, const struct branch *b)
{
    return !g->norm && plan_takes_q8(p, b->matmul->weight);
}

/* Every reader is an int8 matmul without a norm of its own, and whoever makes the value can quantise its rows on the way out. */
static bool keep_as_q8(const struct plan *p, const struct node *n)
{
    const struct group *maker = &p->fused->groups[n->group];
    if (p->fused->level == FUSE_NONE || n->cols % 32 || !n->n_readers) return false;
    if (maker->kind == GROUP_ATTENTION && p->model->head_dim % 32) return false;
    if (maker->kind != GROUP_ATTENTION && maker->kind != GROUP_LINEAR && maker->kind != GROUP_MAP) return false;
    for (uint32_t i = 0; i < maker->n_branches; i++)
        if (maker->branches[i].result == n && p->groups[n->group].unit_rows[i] % 32) return false;
    for (uint32_t i = 0; i < n->n_readers; i++) {
        const struct node *r = n->readers[i];
        if (r->op != OP_matmul) return false;
        const struct group *g = &p->fused->groups[r->group];
        for (uint32_t k = 0; k < g->n_branches; k++)
            if (!g->branches[k].matmul || !reads_as_q8(p, g, &g->branches[k])) return false;
    }
    return true;
}

static struct buffer buffer_of(bool q8, uint32_t cols)
{
    return (struct buffer){ .exists = true, .cols = cols, .stride = q8 ? XQ_STRIDE((uint64_t)cols) : XF_STRIDE(align_up(cols, 16)) };
}

/* ---- the arena: values of one name in different layers share a place, so that layers share kernels; places of different names
 * overlap when their values never live at the same time ---- */

struct lifetime { uint32_t born, dies; struct buffer *buffer; };
struct slot { const char *name; uint64_t bytes, offset; struct lifetime *lives; uint32_t n, capacity; };
struct arena_plan { struct arena *arena; struct slot *slots; uint32_t n, capacity; uint64_t bytes; };

static void *grow(struct arena *a, void *old, uint32_t n, uint32_t *capacity, size_t size)
{
    if (n < *capacity) return old;
    *capacity = *capacity ? 2 * *capacity : 16;
    void *grown = arena_calloc(a, *capacity, size);
    if (n) memcpy(grown, old, n * size);
    return grown;
}

/* name: of the value without its layer. */
static void arena_add(struct arena_plan *ap, const char *name, struct buffer *b, uint32_t born, uint32_t dies, uint64_t rows)
{
    struct slot *s = NULL;
    for (uint32_t i = 0; i < ap->n && !s; i++) {
        struct slot *have = &ap->slots[i];
        bool alive = false;
        for (uint32_t k = have->n; k-- > 0 && !alive; ) alive = have->lives[k].dies >= born;
        if (strcmp(have->name, name) == 0 && !alive) s = have;
    }
    if (!s) {
        ap->slots = grow(ap->arena, ap->slots, ap->n, &ap->capacity, sizeof *ap->slots);
        s = &ap->slots[ap->n++];
        s->name = name;
    }
    const uint64_t bytes = align_up(rows * b->stride, 64);
    if (bytes > s->bytes) s->bytes = bytes;
    s->lives = grow(ap->arena, s->lives, s->n, &s->capacity, sizeof *s->lives);
    s->lives[s->n++] = (struct lifetime){ born, dies, b };
}

static bool slots_meet(const struct slot *a, const struct slot *b)
{
    for (uint32_t i = 0, k = 0; i < a->n && k < b->n; ) {                  /* both are sorted by birth */
        if (a->lives[i].dies < b->lives[k].born) i++;
        else if (b->lives[k].dies < a->lives[i].born) k++;
        else return true;
    }
    return false;
}

/* First fit in order of birth. */
static void arena_place(struct arena_plan *ap)
{
    for (uint32_t i = 0; i < ap->n; i++) {
        struct slot *me = &ap->slots[i];
        for (bool moved = true; moved; ) {
            moved = false;
            for (uint32_t k = 0; k < i; k++) {
                const struct slot *other = &ap->slots[k];
                if (me->offset < other->offset + other->bytes && other->offset < me->offset + me->bytes && slots_meet(me, other)) {
                    me->offset = other->offset + other->bytes;
                    moved = true;
                }
            }
        }
        for (uint32_t k = 0; k < me->n; k++) me->lives[k].buffer->offset = me->offset;
        if (me->offset + me->bytes > ap->bytes) ap->bytes = me->offset + me->bytes;
    }
}

/* The last group that needs the value in its place. */
static uint32_t last_reader(const struct plan *p, const struct node *n)
{
    uint32_t last = n->group;
    for (uint32_t i = 0; i < n->n_readers; i++) {
        const struct node *r = n->readers[i];
        if (r->group != NO_GROUP) last = r->group > last ? r->group : last;
        else for (uint32_t k = 0; k < r->n_readers; k++)         /* a norm that matmuls recompute */
            last = r->readers[k]->group > last ? r->readers[k]->group : last;
    }
    /* Threads may go on from the projection of heads to their attention without a barrier (joins_divides in runtime/abi.h): what one of
     * them still reads in the first must not be overwritten by another in the second. */
    const bool joins = last + 1 < p->fused->n_groups && p->fused->groups[last + 1].kind == GROUP_ATTENTION;
    return joins ? last + 1 : last;
}

static void plan_group(struct plan *p, uint32_t index, struct group_plan *gp)
{
    const struct group *g = &p->fused->groups[index];
    for (uint32_t i = 0; i < g->n_branches; i++) {
        gp->unit_rows[i] = unit_rows(p, &g->branches[i]);
        if (!g->branches[i].matmul) continue;
        const struct weight *w = g->branches[i].matmul->weight;
        if (plan_takes_q8(p, w)) gp->needs_q8 = true;
        else gp->needs_f32 = true;
        gp->weight_bytes += pack_bytes(w->tensor->quant->id, w->rows, w->cols);
    }
}

/* A value that leaves its kernel through memory of ours (the KV cache and the logits do not). */
static bool needs_buffer(const struct plan *p, const struct node *n)
{
    if (n->op == OP_store_k || n->op == OP_store_v || n == p->fused->graph->output || n->group == NO_GROUP) return false;
    const struct group *g = &p->fused->groups[n->group];
    if (g->node == n) return true;
    for (uint32_t i = 0; i < g->n_branches; i++)
        if (g->branches[i].result == n && !g->branches[i].is_partner) return true;
    return false;
}

static void plan_buffers(struct arena *a, struct plan *p)
{
    const struct graph *graph = p->fused->graph;
    struct arena_plan ap = { .arena = a };
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        struct group_plan *gp = &p->groups[i];
        if (g->kind == GROUP_LINEAR) {
            const struct node *x = g->input;
            const bool has_q8 = !g->norm && p->q8[x->index].exists, has_f32 = !g->norm && p->f32[x->index].exists;
            gp->staged = (gp->needs_q8 && !has_q8) || (gp->needs_f32 && !has_f32);
            if (gp->needs_q8 && !has_q8)   { gp->stage_q8 = buffer_of(true, x->cols);   arena_add(&ap, arena_printf(a, "%s in q8", g->name), &gp->stage_q8, i, i, p->chunk); }
            if (gp->needs_f32 && !has_f32) { gp->stage_f32 = buffer_of(false, x->cols); arena_add(&ap, arena_printf(a, "%s in f32", g->name), &gp->stage_f32, i, i, p->chunk); }
        }
        for (uint32_t k = 0; k < graph->n_nodes; k++) {
            struct node *n = graph->nodes[k];
            if (n->group != i || !needs_buffer(p, n)) continue;
            const bool q8 = keep_as_q8(p, n);
            struct buffer *b = q8 ? &p->q8[k] : &p->f32[k];
            *b = buffer_of(q8, n->cols);
            const char *dot = strchr(n->name, '.');
            arena_add(&ap, dot ? dot + 1 : n->name, b, i, last_reader(p, n), p->chunk);
        }
    }
    arena_place(&ap);
    p->arena_bytes = ap.bytes;
}

static uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void plan_scratch(struct plan *p)
{
    uint64_t decode = 0, prefill = 0, rows = 0;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        const struct group_plan *gp = &p->groups[i];
        if (g->kind == GROUP_LINEAR) decode = max_u64(decode, XF_STRIDE(align_up(g->input->cols, 16)) + XQ_STRIDE((uint64_t)g->input->cols));
        for (uint32_t k = 0; k < g->n_branches; k++) {
            rows = max_u64(rows, gp->unit_rows[k]);
            if (g->branches[k].matmul) prefill = max_u64(prefill, GEMM_SCRATCH / GEMM_GROUPS * p->profile->tile.gemm_groups);
        }
    }
    uint64_t parts = 0, attention = 0;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct node *n = p->fused->groups[i].node;
        if (p->fused->groups[i].kind != GROUP_ATTENTION) continue;
        parts = max_u64(parts, ATTENTION_PARTS * ((uint64_t)n->cols + 2 * n->heads) * 4);
        attention = max_u64(attention, (uint64_t)n->cols / n->inputs[1]->heads * 4 * PREFILL_ATTENTION_TOKENS);
    }
    p->scratch_y = align_up(max_u64(decode, prefill), 64);
    p->scratch_stride = align_up(p->scratch_y + max_u64(2 * rows * 4 * p->chunk, attention), 4096) + 64;    /* threads' scratches in different cache sets */
    p->rope_offset = align_up(p->arena_bytes, 64);
    p->parts_offset = align_up(p->rope_offset + (uint64_t)p->chunk * p->model->n_rot * 4, 64);
    p->scratch_offset = align_up(p->parts_offset + parts, 4096);
    p->arena_bytes = p->scratch_offset + p->scratch_stride * p->options.max_threads;
}

static void plan_kv(struct arena *a, struct plan *p)
{
    const struct model *m = p->model;
    p->kv_layer = arena_array(a, uint64_t, m->n_layer + 1);
    uint64_t at = 0;
    for (uint32_t l = 0; l < m->n_layer; l++) {
        const uint32_t heads = m->layers[l].n_head_kv;
        const uint64_t row = p->options.kv == KV_TYPE_F16 ? 2 * (uint64_t)m->head_dim : p->options.kv == KV_TYPE_F32 ? 4 * (uint64_t)m->head_dim : m->head_dim / 32 * 34ull;
        p->kv_layer[l] = at;
        at += align_up(2 * row * heads * kv_context(p->options.n_ctx), 64);
        p->kv_bytes_per_token += 2 * row * heads;
        if (at > 1ull << 46) die("a KV cache for %u tokens would take more than 64 TB; choose a smaller --ctx", p->options.n_ctx);
    }
    p->kv_layer[m->n_layer] = p->kv_bytes = at;
}

/* ---- the weight image, in the order in which a token reads it ---- */

static void place_weight(struct plan *p, const struct weight *w)
{
    uint64_t *at = &p->weight_offset[w->index];
    if (*at != UINT64_MAX) return;
    *at = p->image_bytes;
    const uint64_t bytes = w->is_vector ? align_up(w->cols, 16) * 4 : pack_bytes(w->tensor->quant->id, w->rows, w->cols);
    p->image_bytes = align_up(p->image_bytes + bytes, 64);
}

const struct node *plan_rope(const struct plan *p)
{
    const struct node *first = NULL;
    for (uint32_t i = 0; i < p->fused->graph->n_nodes; i++) {
        const struct node *n = p->fused->graph->nodes[i];
        if (n->op != OP_rope) continue;
        if (!first) first = n;
        if (n->weight != first->weight)
            die("%s: %%%s and %%%s rotate with different frequency divisors; forgec needs them equal in all layers", p->model->gguf->path, first->name, n->name);
    }
    return first;
}

static void plan_image(struct arena *a, struct plan *p)
{
    const struct model *m = p->model;
    p->weight_offset = arena_array(a, uint64_t, m->n_weights);
    for (uint32_t i = 0; i < m->n_weights; i++) p->weight_offset[i] = UINT64_MAX;
    while ((uint64_t)p->rope_block * p->rope_block < p->options.n_ctx) p->rope_block = p->rope_block ? 2 * p->rope_block : 16;
    const uint64_t row = (uint64_t)m->n_rot * 4;
    p->rope_lo = 0;
    p->rope_hi = align_up(p->rope_block * row, 64);
    p->image_bytes = align_up(p->rope_hi + (p->options.n_ctx / p->rope_block + 1) * row, 64);
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        if (g->norm && g->norm->weight) place_weight(p, g->norm->weight);
        if (g->node && g->node->weight) place_weight(p, g->node->weight);
        for (uint32_t k = 0; k < g->n_branches; k++) {
            if (g->branches[k].matmul) place_weight(p, g->branches[k].matmul->weight);
            for (uint32_t c = 0; c < g->branches[k].n_chain; c++) {
                const struct node *n = g->branches[k].chain[c];
                if (n->weight && n->op != OP_rope) place_weight(p, n->weight);
            }
        }
        p->read_bytes += p->groups[i].weight_bytes;
    }
}

struct plan *plan_make(struct arena *a, const struct fused *f, const struct profile *profile, const struct plan_options *o)
{
    struct plan *p = arena_new(a, struct plan);
    p->fused = f;
    p->model = f->graph->model;
    p->profile = profile;
    fill_options(p, o);
    p->f32 = arena_array(a, struct buffer, f->graph->n_nodes);
    p->q8 = arena_array(a, struct buffer, f->graph->n_nodes);
    p->groups = arena_array(a, struct group_plan, f->n_groups);
    for (uint32_t i = 0; i < f->n_groups; i++) plan_group(p, i, &p->groups[i]);
    plan_buffers(a, p);
    plan_scratch(p);
    plan_kv(a, p);
    plan_image(a, p);
    plan_rope(p);                                            /* for its check */
    return p;
}

/* ---- the report ---- */

static double predicted_us(const struct plan *p, uint64_t bytes)
{
    return p->profile->bandwidth_gb_s > 0 ? (double)bytes / (p->profile->bandwidth_gb_s * 1e3) : 0;
}

void plan_print(struct text *out, const struct plan *p)
{
    text_printf(out, "# %s for %s: context %u, KV %s, up to %u threads, prefill in chunks of %u tokens%s\n", p->model->name, p->profile->name,
                p->options.n_ctx, kv_type_name[p->options.kv], p->options.max_threads, p->chunk, p->options.exact ? ", float activations" : "");
    text_printf(out, "# weights %.3f MB, read per token %.3f MB; KV cache %.3f MB (%llu bytes per token); arena %.3f MB\n", (double)p->image_bytes / 1e6,
                (double)p->read_bytes / 1e6, (double)p->kv_bytes / 1e6, (unsigned long long)p->kv_bytes_per_token, (double)p->arena_bytes / 1e6);
    text_puts(out, "#     kernel                         units x rows   weight bytes   time at profile bandwidth\n");
    double total = 0;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        const struct group_plan *gp = &p->groups[i];
        uint64_t units = 0;
        for (uint32_t k = 0; k < g->n_branches; k++)
            if (!g->branches[k].is_partner) units += (g->branches[k].result->cols + gp->unit_rows[k] - 1) / gp->unit_rows[k];
        const double us = predicted_us(p, gp->weight_bytes);
        total += us;
        char name[64];
        if (g->layer == NO_LAYER) snprintf(name, sizeof name, "%s", g->name);
        else snprintf(name, sizeof name, "%u.%s", g->layer, g->name);
        text_printf(out, "%5u %-30s %6llu x %-4u %14llu %10.2f us\n", i, name, (unsigned long long)units, gp->unit_rows[0], (unsigned long long)gp->weight_bytes, us);
    }
    if (total > 0) text_printf(out, "# prediction, not a measurement: %.0f us per token = %.1f tok/s when every weight comes from memory at %.0f GB/s\n",
                               total, 1e6 / total, p->profile->bandwidth_gb_s);
}
