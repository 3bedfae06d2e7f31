/* choose.c -- values and units of work of a CPU program. */
#define FORGE_SIMD_C
#include "choose.h"
#include "compiler/front/reference.h"
#include "compiler/plan/lifetimes.h"
#include "compiler/plan/machine.h"
#include "templates/cpu/attention_pairs.h"
#include "templates/cpu/kv_tmpl.c"
#include "templates/cpu/matmul.h"

/* ---- units of work: rows that one thread computes and finishes in one go ---- */

static uint32_t multiple_of(uint32_t x, uint32_t of)
{
    uint32_t m = x;
    while (m % of) m += x;
    return m;
}

/* Rows that must be in the same unit for operation n, such as those of a head; 0: no such rows. */
static uint32_t together(const struct node *n)
{
    switch (n->op) {
    case OP_headnorm: case OP_l2norm: case OP_layernorm_heads: case OP_rope: case OP_store_k: case OP_store_v: return n->attr.head_dim;
    case OP_part: return n->attr.count;
    case OP_join: return n->cols / n->heads;
    default: return 0;
    }
}

enum { STREAMS_FROM_ROWS = 2048 };

bool streams_from_memory(const struct plan *p)
{
    const uint64_t l2 = p->target->cache.l2_bytes, l3 = p->target->cache.l3_bytes;
    return p->image_bytes > (l3 > l2 ? l3 : l2);
}

/* Rows of a unit: a multiple of 16 (the packed group), of 32 if results are quantised, and of the head size if operations work on whole
 * heads. A unit of a recurrence is a part of one head, or whole heads. */
static uint32_t unit_rows(const struct plan *p, const struct branch *b)
{
    /* 64 rows for tiles: two panels, the second one made while the first is multiplied. Also 64 for four streams from memory, if every
     * thread still gets its share of the rows. */
    const bool wide = p->target->matrix_unit == MATRIX_TILES || (streams_from_memory(p) && b->result->cols >= STREAMS_FROM_ROWS);
    const uint32_t any = wide ? 64 : 32;
    const struct node *first = b->n_chain ? b->chain[0] : NULL;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < b->n_chain; i++)
        if (together(b->chain[i])) rows = multiple_of(rows ? rows : 16, together(b->chain[i]));
    if (!first || first->op != OP_recur) return rows ? rows : any;
    const uint32_t dim = first->attr.value_dim;
    return rows ? multiple_of(rows, dim) : dim % 32 ? dim : 32;
}

/* ---- forms in which a value is kept ---- */

/* The form that a product with w would read if it were alone in its group; form: 0 in decode, 1 in prefill. */
static enum row_form form_of(const struct plan *p, const struct weight *w, uint32_t form)
{
    const enum matrix_unit unit = p->target->matrix_unit;
    const uint32_t id = w->tensor->quant->id;
    if (p->options.exact) return ROW_F32;
    if (w->tensor->quant->block_weights > 1) return form && unit == MATRIX_TILES ? ROW_BF16 : ROW_Q8;
    if (unit == MATRIX_NONE || w->cols % 32) return ROW_F32;
    if (id == QUANT_BF16) return ROW_BF16;
    if (id != QUANT_F16 || !form) return ROW_F32;
    /* F16 has three bits more than bfloat16; two bfloat16 parts have them all. Dot products of three parts are no faster than f32. */
    return p->options.fast_bf16 ? ROW_BF16 : unit == MATRIX_TILES ? ROW_BF16_PARTS : ROW_F32;
}

/* The form in which a group's input is packed, if its products want a and b: codes before bfloat16, one part before two. */
static enum row_form packed_form(enum row_form a, enum row_form b)
{
    if (a == ROW_F32 || b == ROW_F32) return a == ROW_F32 ? b : a;
    return a < b ? a : b;
}

enum row_form product_form(const struct plan *p, const struct group *g, const struct weight *w, uint32_t form)
{
    const enum row_form alone = form_of(p, w, form);
    return alone == p->groups[g - p->fused->groups].packed[form] ? alone : ROW_F32;
}

uint32_t attention_parts(const struct plan *p)
{
    const enum matrix_unit unit = p->target->matrix_unit;
    if (unit == MATRIX_NONE || p->options.exact) return 0;
    if (p->options.fast_bf16 || graph_in_blocks(p->fused->graph)) return 1;
    return unit == MATRIX_TILES ? 2 : 0;
}

/* "q8 and f32" */
static const char *forms_text(struct arena *a, const struct plan *p, uint32_t form)
{
    bool used[ROW_FORMS] = { false };
    const char *text = "";
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        for (uint32_t k = 0; k < g->n_branches; k++)
            if (g->branches[k].matmul) used[product_form(p, g, g->branches[k].matmul->weight, form)] = true;
    }
    for (uint32_t f = ROW_FORMS; f-- > 0;)
        if (used[f]) text = arena_printf(a, "%s%s%s", text, *text ? " and " : "", row_form_name[f]);
    return text;
}

const char *cpu_arithmetic(struct arena *a, const struct plan *p)
{
    static const char *const parts[] = { "f32", "bf16", "two bf16" };
    const char *prompts = forms_text(a, p, 1), *attention = parts[attention_parts(p)];
    return arena_printf(a, "tokens %s, prompts %s, their attention %s", forms_text(a, p, 0), prompts, attention);
}

bool has_columns(const struct plan *p)
{
    bool differ = false;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group_plan *gp = &p->groups[i];
        differ |= gp->packed[0] != gp->packed[1] || gp->needs_f32[0] != gp->needs_f32[1];
    }
    return differ && p->model->causal;
}

uint32_t few_tokens(const struct plan *p)
{
    bool codes = false;                          /* f32 gains nothing */
    for (uint32_t i = 0; i < p->fused->n_groups; i++) codes |= p->groups[i].packed[0] == ROW_Q8;
    return codes && has_columns(p) ? p->target->tile.prefill_few : 0;
}

const struct buffer *stage_f32(const struct group_plan *gp, uint32_t form)
{
    return gp->stage_f32.exists && gp->needs_f32[form] ? &gp->stage_f32 : NULL;
}

const struct buffer *stage_packed(const struct group_plan *gp, uint32_t form)
{
    return gp->stage_packed.exists && gp->packed[form] ? &gp->stage_packed : NULL;
}

static bool reads_packed(const struct plan *p, const struct group *g, const struct branch *b)
{
    return !g->norm && product_form(p, g, b->matmul->weight, 0) && product_form(p, g, b->matmul->weight, 1);
}

static uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t packed_stride(enum row_form form, uint64_t cols)
{
    return form == ROW_Q8 ? XQ_STRIDE(cols) : form == ROW_BF16 ? XB_STRIDE(cols) : form == ROW_BF16_PARTS ? XB_PARTS_STRIDE(cols) : 0;
}

/* The number of pieces of the input row that the slices of a product read. */
static uint32_t pieces_of(const struct node *product) { return (uint32_t)(product->inputs[0]->cols / product->weight->cols); }

/* Can the kernel that makes n, a group's result, store it as this many packed pieces? one: decode and prefill use the same form. */
static bool makes_packed(const struct plan *p, const struct node *n, uint32_t pieces, bool one)
{
    const uint32_t index = fuse_group(p->fused, n);
    const struct group *g = &p->fused->groups[index];
    if (g->kind == GROUP_ATTENTION) return pieces == 1 && n->inputs[2]->attr.head_dim % 32 == 0;
    if (g->kind != GROUP_LINEAR && g->kind != GROUP_MAP && g->kind != GROUP_SEQUENCE && g->kind != GROUP_SLICES) return false;
    if (g->kind == GROUP_MAP && slice_rows(g)) return false;
    if (!one && (g->kind == GROUP_MAP || g->kind == GROUP_SEQUENCE)) return false;      /* one kernel serves decode and prefill */
    for (uint32_t i = 0; i < g->n_branches; i++) {
        const struct branch *b = &g->branches[i];
        if (b->result != n) continue;
        if (p->groups[index].unit_rows[i] % 32) return false;
        if (g->kind == GROUP_SLICES && !branch_sum(b)) return branch_cols(g, b) % 32 == 0 && (pieces == 1 || pieces == plan_slices(g));
    }
    return pieces == 1;
}

static bool same_forms(const enum row_form *a, const enum row_form *b) { return a[0] == b[0] && a[1] == b[1]; }

static const struct group_plan *reader_plan(const struct plan *p, const struct node *reader)
{
    return &p->groups[fuse_group(p->fused, reader)];
}

/* Is n kept in packed form only? Yes if every reader is a product that reads packed rows of the same form without a norm before it, and the
 * kernel that makes n can store packed rows. */
static bool keep_packed(const struct plan *p, const struct node *n)
{
    if (p->fused->level == FUSE_NONE || !n->n_readers) return false;
    for (uint32_t i = 0; i < n->n_readers; i++) {
        const struct node *r = n->readers[i];
        if ((r->op != OP_matmul && r->op != OP_expert_matmul && r->op != OP_matmul_heads) || r->inputs[0] != n) return false;
        const struct group *g = &p->fused->groups[fuse_group(p->fused, r)];
        for (uint32_t k = 0; k < g->n_branches; k++)
            if (!g->branches[k].matmul || !reads_packed(p, g, &g->branches[k])) return false;
        if (pieces_of(r) != pieces_of(n->readers[0])) return false;
        if (!same_forms(reader_plan(p, r)->packed, reader_plan(p, n->readers[0])->packed)) return false;
    }
    const uint32_t pieces = pieces_of(n->readers[0]);
    const enum row_form *form = reader_plan(p, n->readers[0])->packed;
    return n->cols / pieces % 32 == 0 && makes_packed(p, n, pieces, form[0] == form[1]);
}

static struct buffer float_rows(uint32_t cols)
{
    return (struct buffer){ .exists = true, .cols = cols, .pieces = 1, .stride = XF_STRIDE(plan_align(cols, 16)) };
}

uint64_t packed_row_stride(const struct buffer *b, uint32_t form)
{
    return b->form[form] ? b->pieces * packed_stride(b->form[form], b->cols / b->pieces) : b->stride;
}

/* A buffer of packed rows with room for either form. */
static struct buffer packed_rows(const enum row_form *form, uint32_t cols, uint32_t pieces)
{
    const uint64_t stride = max_u64(packed_stride(form[0], cols / pieces), packed_stride(form[1], cols / pieces));
    return (struct buffer){ .exists = true, .cols = cols, .pieces = pieces, .form = { form[0], form[1] }, .stride = pieces * stride };
}

static void plan_group(struct plan *p, uint32_t index, struct group_plan *gp)
{
    const struct group *g = &p->fused->groups[index];
    for (uint32_t i = 0; i < g->n_branches; i++) {
        gp->unit_rows[i] = unit_rows(p, &g->branches[i]);
        if (!g->branches[i].matmul) continue;
        for (uint32_t form = 0; form < 2; form++)                    /* one packed form for decode, one for prefill */
            gp->packed[form] = packed_form(gp->packed[form], form_of(p, g->branches[i].matmul->weight, form));
    }
    for (uint32_t i = 0; i < g->n_branches; i++)
        for (uint32_t form = 0; form < 2; form++)
            if (g->branches[i].matmul && product_form(p, g, g->branches[i].matmul->weight, form) == ROW_F32) gp->needs_f32[form] = true;
}

/* The forms of the input that must be made first because they are not kept. */
struct forms { bool f32, packed; };
static struct forms staged_forms(const struct plan *p, const struct group *g, uint32_t form)
{
    const struct group_plan *gp = &p->groups[g - p->fused->groups];
    const struct buffer *f = &p->f32[g->input->index];
    const bool own_rows = f->exists && (!f->is_view || g->kind == GROUP_SLICES);
    return (struct forms){ .f32 = gp->needs_f32[form] && (g->norm || !own_rows),
                           .packed = gp->packed[form] && (g->norm || !p->packed[g->input->index].exists) };
}

/* "ffn_gate_up in q8", or "... in q8 or bf16" */
static const char *stage_name(struct arena *a, const struct plan *p, const struct group *g, bool packed)
{
    const struct group_plan *gp = &p->groups[g - p->fused->groups];
    const char *one = row_form_name[packed ? gp->packed[1] : ROW_F32], *other = row_form_name[packed ? gp->packed[0] : ROW_F32];
    if (!packed || !has_columns(p) || gp->packed[0] == gp->packed[1] || !gp->packed[0]) return arena_printf(a, "%s in %s", g->name, one);
    return arena_printf(a, "%s in %s or %s", g->name, other, one);
}

/* The forms that the group's stage makes in prefill or in a step of several sequences. */
static struct forms stage_forms(const struct plan *p, const struct group *g)
{
    const struct forms a = staged_forms(p, g, 1), b = has_columns(p) ? staged_forms(p, g, 0) : a;
    return (struct forms){ a.f32 || b.f32, a.packed || b.packed };
}

/* Adds buffers of `forms` for the products of group i. */
static void add_stage(struct arena_plan *ap, struct plan *p, uint32_t i, struct forms forms, uint32_t cols, uint64_t rows)
{
    const struct group *g = &p->fused->groups[i];
    struct group_plan *gp = &p->groups[i];
    if (forms.packed) gp->stage_packed = packed_rows(gp->packed, cols, 1);
    if (forms.f32) gp->stage_f32 = float_rows(cols);
    if (forms.packed) arena_add(ap, stage_name(ap->arena, p, g, true), &gp->stage_packed, i, i, rows);
    if (forms.f32) arena_add(ap, stage_name(ap->arena, p, g, false), &gp->stage_f32, i, i, rows);
}

/* Adds buffers for the forms that the group's products read in steps of many tokens and that are not kept. */
static void add_stages(struct arena_plan *ap, struct plan *p, uint32_t i)
{
    const struct group *g = &p->fused->groups[i];
    add_stage(ap, p, i, stage_forms(p, g), g->input->cols, p->chunk);
}

/* Sets whether the input of the group's products must be made first. */
static void plan_stages(struct plan *p, uint32_t i)
{
    const struct group *g = &p->fused->groups[i];
    if (g->kind != GROUP_LINEAR && g->kind != GROUP_SLICES) return;
    for (uint32_t form = 0; form < 2; form++) {
        const struct forms forms = staged_forms(p, g, form);
        p->groups[i].staged[form] = forms.f32 || forms.packed;
    }
}

/* Adds buffers for the input of products with slices, a row for each slice and token: in prefill the rows of a slice are contiguous. */
static void add_gathered(struct arena_plan *ap, struct plan *p, uint32_t i)
{
    const struct group *g = &p->fused->groups[i];
    const struct group_plan *gp = &p->groups[i];
    const bool columns = has_columns(p);
    const struct forms forms = { gp->needs_f32[1] || (columns && gp->needs_f32[0]), gp->packed[1] || (columns && gp->packed[0]) };
    add_stage(ap, p, i, forms, (uint32_t)g->branches[0].matmul->weight->cols, (uint64_t)p->chunk * plan_slices(g));
}

/* Adds the table of each expert's tokens and their places, as 32-bit numbers that count from 0 (templates/cpu/experts_tmpl.c). */
static void add_order(struct arena_plan *ap, struct plan *p, uint32_t i)
{
    const struct node *choice = p->fused->groups[i].node;
    struct buffer *b = &p->groups[i].order;
    const uint64_t numbers = choice->inputs[0]->cols + 1ull + 2ull * p->chunk * choice->attr.used;
    *b = (struct buffer){ .exists = true, .cols = (uint32_t)numbers, .pieces = 1, .stride = plan_align(4 * numbers, 64) };
    arena_add(ap, arena_printf(ap->arena, "order of %s", plan_value_name(choice)), b, i, plan_last_reader(p, choice), 1);
}

static void add_value(struct arena_plan *ap, struct plan *p, const struct node *n)
{
    const bool packed = keep_packed(p, n);
    struct buffer *b = packed ? &p->packed[n->index] : &p->f32[n->index];
    *b = packed ? packed_rows(reader_plan(p, n->readers[0])->packed, n->cols, pieces_of(n->readers[0])) : float_rows(n->cols);
    arena_add(ap, plan_value_name(n), b, fuse_group(p->fused, n), plan_last_reader(p, n), p->chunk);
}

static void plan_buffers(struct arena *a, struct plan *p)
{
    const struct graph *graph = p->fused->graph;
    struct arena_plan ap = { .arena = a, .align = 64 };
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        plan_stages(p, i);
        if (p->fused->groups[i].kind == GROUP_LINEAR) add_stages(&ap, p, i);
        if (p->fused->groups[i].kind == GROUP_SLICES) add_gathered(&ap, p, i);
        if (p->fused->groups[i].kind == GROUP_ROUTE) add_order(&ap, p, i);
        for (uint32_t k = 0; k < graph->n_nodes; k++) {
            const struct node *n = graph->nodes[k];
            if (fuse_group(p->fused, n) == i && plan_needs_buffer(p, n)) add_value(&ap, p, n);
            if (fuse_is_view(n) && fuse_group(p->fused, fuse_held_by(n)) == i)
                arena_view(&ap, plan_value_name(n), &p->f32[n->index], &p->f32[n->inputs[0]->index], n->attr.first, n->cols);
        }
    }
    arena_place(&ap, p);
}

/* The embedding kernel makes the tables of all rotations. It reads a tensor of its own and two for each rotation, which limits their
 * number. */
static void plan_tables(struct plan *p)
{
    const uint32_t n = p->fused->graph->n_rotations, most = (FORGE_MAX_WEIGHTS - 1) / 2;
    if (n > most) die("%s: its layers rotate in %u different ways; forgec's CPU kernels take at most %u", p->model->gguf->path, n, most);
    p->arena_bytes = plan_align(p->arena_bytes, 64);
    for (uint32_t i = 0; i < n; i++) {
        p->rotations[i].table = p->arena_bytes;
        p->arena_bytes = plan_align(p->arena_bytes + (uint64_t)p->chunk * p->rotations[i].n_rot * 4, 64);
    }
}

/* Scratch bytes for decode's input: a normed row and, after the end of the value's own row, packed pieces. */
static uint64_t decode_input(const struct plan *p, const struct group *g)
{
    const uint64_t cols = g->input->cols, pieces = pieces_of(g->branches[0].matmul);
    const uint64_t row = max_u64(XF_STRIDE(plan_align(cols, 16)), p->f32[g->input->index].stride);
    return row + pieces * packed_stride(p->groups[g - p->fused->groups].packed[0], cols / pieces);
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Scratch bytes for the result rows of prefill's attention. Raises *pairs to the scratch that products of pairs need before them. */
static uint64_t attention_scratch(const struct plan *p, const struct node *n, uint64_t *pairs)
{
    const uint32_t head_dim = n->attr.head_dim, value_dim = n->inputs[2]->attr.head_dim, heads_kv = n->inputs[1]->heads;
    const uint32_t group = n->heads / heads_kv, tokens = least(pairs_tokens(group), p->chunk);
    const uint32_t parts = attention_parts(p);
    if (!parts) return (uint64_t)n->cols / heads_kv * 4 * PREFILL_ATTENTION_TOKENS;
    *pairs = max_u64(*pairs, pairs_room(group * tokens, head_dim, value_dim, p->target->tile.attention_block, parts).end);
    return (uint64_t)n->cols / heads_kv * 4 * tokens;
}

static void plan_scratch(struct plan *p)
{
    uint64_t decode = 0, prefill = 0, rows = 0, slices = 0;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        const struct group_plan *gp = &p->groups[i];
        const uint64_t cols = g->kind == GROUP_LINEAR || g->kind == GROUP_SLICES ? g->input->cols : 0;
        if (cols) decode = max_u64(decode, decode_input(p, g));
        for (uint32_t k = 0; k < g->n_branches; k++) {
            rows = max_u64(rows, gp->unit_rows[k]);
            if (g->kind == GROUP_SLICES && branch_sum(&g->branches[k]))
                slices = max_u64(slices, 4ull * gp->unit_rows[k] * p->chunk * plan_slices(g));
            if (g->branches[k].matmul) prefill = max_u64(prefill, GEMM_SCRATCH / GEMM_GROUPS * p->target->tile.gemm_groups);
        }
    }
    uint64_t parts = 0, attention = 0;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct node *n = p->fused->groups[i].node;
        if (p->fused->groups[i].kind != GROUP_ATTENTION) continue;
        parts = max_u64(parts, ATTENTION_PARTS * ((uint64_t)n->cols + 2 * n->heads) * 4);
        attention = max_u64(attention, attention_scratch(p, n, &prefill));
    }
    p->scratch_y = plan_align(max_u64(decode, prefill), 64);
    /* + 64: the scratch parts of different threads begin in different cache sets */
    p->scratch_stride = plan_align(p->scratch_y + max_u64(max_u64(2 * rows * 4 * p->chunk, attention), slices), 4096) + 64;
    plan_tables(p);
    p->parts_offset = p->arena_bytes;
    p->scratch_offset = plan_align(p->parts_offset + parts, 4096);
    p->arena_bytes = p->scratch_offset + p->scratch_stride * p->options.max_threads;
}

static void choose(struct arena *a, struct plan *p)
{
    for (uint32_t i = 0; i < p->fused->n_groups; i++) plan_group(p, i, &p->groups[i]);
    plan_buffers(a, p);
    plan_scratch(p);
    p->kernels = cpu_kernels(a, p);
}

/* Only the bandwidth of CPUs is known. */
static struct cost_work work(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past)
{
    return (struct cost_work){ .kind = PREDICT_PRODUCTS, .bytes = cost_kernel_bytes(p, k, tokens, n_past) };
}

extern const struct machine machine_cpu;
const struct machine machine_cpu = { .name = "CPU", .layout = LAYOUT_CPU, .image_align = 64, .state_align = 64, .head_unit = 8,
                                     .head_most = UINT32_MAX, .absorbs = { .product_heads = true, .joined_rows = 16 },
                                     .choose = choose, .work = work };

/* ---- questions about the plan: see choose.h ---- */

bool branch_sum(const struct branch *b)
{
    for (uint32_t i = 0; i < b->n_chain; i++) if (b->chain[i]->op == OP_expert_sum) return true;
    return false;
}

uint32_t branch_cols(const struct group *g, const struct branch *b)
{
    const struct weight *w = b->matmul ? b->matmul->weight : NULL;
    return g->kind == GROUP_SLICES ? (uint32_t)(w->rows / w->slices) : b->result->cols;
}

uint32_t slice_rows(const struct group *g)
{
    const struct node *n = g->kind == GROUP_MAP ? g->branches[0].chain[0] : NULL;
    if (!n || (n->op != OP_expert_bias && n->op != OP_expert_times && n->op != OP_expert_sum)) return 0;
    return n->inputs[0]->cols / n->inputs[1]->attr.used;
}

const struct buffer *order_of(const struct plan *p, const struct group *g)
{
    return g->choice ? &p->groups[fuse_group(p->fused, g->choice)].order : NULL;
}

const struct group *joined_attention(const struct plan *p, const struct group *g)
{
    const struct group *next = g + 1;
    return next < p->fused->groups + p->fused->n_groups && next->joins ? next : NULL;
}

const struct node *chain_operand(const struct branch *b, uint32_t i)
{
    const struct node *add = b->chain[i], *fresh = i ? b->chain[i - 1] : b->matmul;
    return add->inputs[add->inputs[0] == fresh];
}

const struct buffer *prefill_f32(const struct plan *p, const struct group *g)
{
    const struct buffer *stage = &p->groups[g - p->fused->groups].stage_f32;
    return stage->exists ? stage : &p->f32[g->input->index];
}

const struct buffer *prefill_packed(const struct plan *p, const struct group *g)
{
    const struct buffer *stage = &p->groups[g - p->fused->groups].stage_packed;
    return stage->exists ? stage : &p->packed[g->input->index];
}
