/* kernels.c -- group -> function text.  A group becomes a decode function (one token, rows shared out among the threads) and
 * a prefill function (a chunk of tokens); where prefill needs its input normed or quantised first, one more function does that. */
#include "kernels.h"
#include "compiler/source/text.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct function { const char *name, *body; };

struct emitter {
    struct arena           *arena;
    const struct plan      *plan;
    const struct model     *model;
    struct text            *out;
    struct function        *functions;
    uint32_t                n_functions;
    /* of the group at hand */
    const struct group     *group;
    const struct group_plan *gp;
    struct text             body;
    struct text             note;          /* the comment above the function */
    struct emitted_launch   launch;
    bool                    prefill;
    const char             *t;             /* the token's index: "t", or "0" in decode */
    uint32_t                depth;         /* of braces */
};

typedef unsigned long long ull;

/* ---- small pieces ---- */

/* Index of w among the launch's weights. */
static uint32_t weight_slot(struct emitter *e, uint64_t offset)
{
    for (uint32_t i = 0; i < e->launch.n_weights; i++) if (e->launch.weights[i] == offset) return i;
    if (e->launch.n_weights == COUNT_OF(e->launch.weights))
        die("kernel %s reads more than %zu tensors; this is a mistake in forgec, please report it (--fuse none may avoid it)", e->group->name, COUNT_OF(e->launch.weights));
    e->launch.weights[e->launch.n_weights] = offset;
    return e->launch.n_weights++;
}
static uint32_t slot_of(struct emitter *e, const struct weight *w) { return weight_slot(e, e->plan->weight_offset[w->index]); }

/* One line of the body, indented; a line that ends in "{" opens a level, one that begins with "}" closes it. */
static void put(struct emitter *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void put(struct emitter *e, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    emit_line(&e->body, &e->depth, e->group->name, fmt, args);
    va_end(args);
}

static const char *format_of(struct emitter *e, const struct weight *w) { return emit_format_name(e->arena, w->tensor->quant); }

/* ---- what is done with a row segment: y[n], rows r .. r + n - 1 of the result, token t ---- */

/* A call per head of the segment; in the call, $y is the head's first row and $r its number. */
static void put_heads(struct emitter *e, uint32_t unit, const char *n, const char *call)
{
    const bool one = unit == e->model->head_dim;
    struct text t = { .arena = e->arena };
    for (const char *c = call; *c; c++) {
        if (*c == '$') text_puts(&t, *++c == 'y' ? (one ? "y" : "y + h") : (one ? "r" : "(r + h)"));
        else text_append(&t, c, 1);
    }
    if (!one) put(e, "for (uint32_t h = 0; h < %s; h += %u)", n, e->model->head_dim);
    put(e, "%s%s", one ? "" : "    ", text_str(&t));
}

static void put_chain(struct emitter *e, const struct branch *b, uint32_t unit, const char *n)
{
    const struct model *m = e->model;
    struct arena *a = e->arena;
    const char *kv = kv_type_name[e->plan->options.kv], *position = e->prefill ? "a->n_past + t" : "a->n_past";
    const uint32_t n_ctx = e->plan->options.n_ctx, head_dim = m->head_dim;
    for (uint32_t i = 0; i < b->n_chain; i++) {
        const struct node *c = b->chain[i];
        switch (c->op) {
        case OP_bias: put(e, "add_bias(y, VECTOR(%u) + r, %s);", slot_of(e, c->weight), n); break;
        case OP_headnorm:
            put_heads(e, unit, n, arena_printf(a, "rmsnorm($y, $y, VECTOR(%u), %u, %s);", slot_of(e, c->weight), head_dim, emit_float(a, m->norm_eps)));
            break;
        case OP_rope:
            put_heads(e, unit, n, arena_printf(a, "rope_apply($y, FLOAT_ROW(BUFFER(%lluu), %u, %s), /* n_rot */ %u, /* head_dim */ %u, /* neox */ %u);",
                                               (ull)e->plan->rope_offset, m->n_rot * 4, e->t, m->n_rot, head_dim, m->rope_neox));
            break;
        case OP_store_k:
            put_heads(e, unit, n, arena_printf(a, "kv_append_k_%s(kv_k_%s(a->kv + l->kv, $r / %u, %u, %u), $y, %s, %u);", kv, kv, head_dim, head_dim, n_ctx, position, head_dim));
            e->launch.kv = e->plan->kv_layer[c->layer];
            break;
        case OP_store_v:
            put_heads(e, unit, n, arena_printf(a, "kv_append_v_%s(kv_v_%s(a->kv + l->kv, $r / %u, %u, %u, %u), $y, %s, %u);", kv, kv, head_dim, c->heads, head_dim, n_ctx, position, head_dim));
            e->launch.kv = e->plan->kv_layer[c->layer];
            break;
        case OP_add: {
            const struct node *other = c->inputs[0] == (i ? b->chain[i - 1] : b->matmul) ? c->inputs[1] : c->inputs[0];
            const struct buffer *f = &e->plan->f32[other->index];
            put(e, "add(y, y, FLOAT_ROW(BUFFER(%lluu), %lluu, %s) + r, %s);", (ull)f->offset, (ull)f->stride, e->t, n);
            break;
        }
        case OP_glu_silu:
        case OP_glu_gelu: put(e, "%s(y, y, up, %s);", op_info[c->op].name, n); break;
        default: die("%s after a matmul: forgec has no kernel for it; this is a mistake in forgec, please report it", op_info[c->op].name);
        }
    }
}

/* Where the result of the branch goes. */
static void put_sink(struct emitter *e, const struct branch *b, const char *n)
{
    const struct node *result = b->result;
    const struct buffer *f = &e->plan->f32[result->index], *q = &e->plan->q8[result->index];
    if (result == e->plan->fused->graph->output) {
        if (e->prefill) put(e, "copy(a->logits + (uint64_t)%u * (t - (a->n_tokens - a->n_logits)) + r, y, %s);", result->cols, n);
        else put(e, "copy(a->logits + r, y, %s);", n);
    }
    if (f->exists) put(e, "copy(FLOAT_ROW(BUFFER(%lluu), %lluu, %s) + r, y, %s);", (ull)f->offset, (ull)f->stride, e->t, n);
    if (!q->exists) return;
    put(e, "for (uint32_t i = 0; i < %s; i += 32)", n);
    put(e, "    quantize_block(ROW(BUFFER(%lluu), %lluu, %s), y + i, (r + i) / 32, %u);", (ull)q->offset, (ull)q->stride, e->t, q->cols);
}

/* ---- the input of a linear group ---- */

/* Norms and quantises row `x` (float) into `xf` and `xq` as the group needs; `xf` may be the only place of the normed row. */
static void put_stage(struct emitter *e)
{
    const uint32_t cols = e->group->input->cols;
    if (e->group->norm) {
        const struct weight *w = e->group->norm->weight;
        const char *vector = w ? arena_printf(e->arena, "VECTOR(%u)", slot_of(e, w)) : "0";
        put(e, "rmsnorm(xf, x, %s, %u, %s);", vector, cols, emit_float(e->arena, e->model->norm_eps));
    }
    if (e->gp->needs_q8) put(e, "quantize_row(xq, %s, %u);", e->group->norm ? "xf" : "x", cols);
}

static const char *row_of(struct emitter *e, const struct buffer *b) { return arena_printf(e->arena, "BUFFER(%lluu)", (ull)b->offset); }

/* Decode: every thread prepares the row for itself; cheaper than a barrier. Declares xf and xq as far as the matmuls read them. */
static void put_decode_input(struct emitter *e)
{
    const struct node *in = e->group->input;
    const struct buffer *f = &e->plan->f32[in->index], *q = &e->plan->q8[in->index];
    if (!e->gp->staged) {
        if (e->gp->needs_f32) put(e, "const void *const xf = %s;", row_of(e, f));
        if (e->gp->needs_q8) put(e, "const void *const xq = %s;", row_of(e, q));
        return;
    }
    put(e, "const float *const x = FLOATS(%lluu);", (ull)f->offset);
    if (e->group->norm) put(e, "float *const xf = (float *)(void *)SCRATCH(0);");
    else if (e->gp->needs_f32) put(e, "const float *const xf = x;");
    if (e->gp->needs_q8) put(e, "uint8_t *const xq = SCRATCH(%lluu);", (ull)f->stride);
    put_stage(e);
}

static void put_prefill_input(struct emitter *e)
{
    const struct node *in = e->group->input;
    const struct buffer *f = e->gp->stage_f32.exists ? &e->gp->stage_f32 : &e->plan->f32[in->index];
    const struct buffer *q = e->gp->stage_q8.exists ? &e->gp->stage_q8 : &e->plan->q8[in->index];
    if (e->gp->needs_f32) put(e, "const void *const xf = ROW(%s, %lluu, t0);", row_of(e, f), (ull)f->stride);
    if (e->gp->needs_q8) put(e, "const void *const xq = ROW(%s, %lluu, t0);", row_of(e, q), (ull)q->stride);
}

/* Prefill's kernel that prepares the rows, tokens shared out among the threads. */
static void put_prefill_stage(struct emitter *e)
{
    const struct buffer *f = &e->plan->f32[e->group->input->index];
    put(e, "const uint32_t t0 = first_token(a, l);");
    put(e, "const struct span s = share(a->n_tokens - t0, thread, n_threads);");
    put(e, "for (uint32_t t = t0 + s.first; t < t0 + s.last; t++) {");
    put(e, "const float *const x = FLOAT_ROW(BUFFER(%lluu), %lluu, t);", (ull)f->offset, (ull)f->stride);
    if (e->gp->stage_f32.exists) put(e, "float *const xf = FLOAT_ROW(BUFFER(%lluu), %lluu, t);", (ull)e->gp->stage_f32.offset, (ull)e->gp->stage_f32.stride);
    else if (e->group->norm) put(e, "float *const xf = (float *)(void *)SCRATCH(0);");
    if (e->gp->stage_q8.exists) put(e, "uint8_t *const xq = ROW(BUFFER(%lluu), %lluu, t);", (ull)e->gp->stage_q8.offset, (ull)e->gp->stage_q8.stride);
    put_stage(e);
    put(e, "}");
}

/* ---- linear groups ---- */

static uint32_t n_units(uint32_t rows, uint32_t unit) { return (rows + unit - 1) / unit; }

static void put_matmul(struct emitter *e, const struct branch *b, const char *y, uint32_t unit, const char *n)
{
    const struct weight *w = b->matmul->weight;
    const bool q8 = plan_takes_q8(e->plan, w);
    const char *exact = q8 || w->tensor->quant->block_weights == 1 ? "" : "_exact", *format = format_of(e, w), *x = q8 ? "xq" : "xf";
    const char *rows = w->rows % unit ? arena_printf(e->arena, "round_up_16(%s)", n) : n;
    const uint32_t cols = (uint32_t)w->cols, slot = slot_of(e, w);
    if (e->prefill)
        put(e, "gemm%s_%s(%s, /* stride */ %u, WEIGHT(%u), %s, a->n_tokens - t0, r, /* rows */ %s, /* cols */ %u, SCRATCH(0));", exact, format, y, unit, slot, x, rows, cols);
    else put(e, "gemv%s_%s(%s, WEIGHT(%u), %s, r, /* rows */ %s, /* cols */ %u);", exact, format, y, slot, x, rows, cols);
}

static void note_matmul(struct emitter *e, const struct branch *b)
{
    const struct weight *w = b->matmul->weight;
    text_printf(&e->note, " * %s: %llu x %llu %s", w->role, (ull)w->rows, (ull)w->cols, w->tensor->quant->name);
    for (uint32_t i = 0; i < b->n_chain; i++) text_printf(&e->note, ", %s", op_info[b->chain[i]->op].name);
    text_puts(&e->note, "\n");
}

/* Unit u of one branch (with its glu partner): its matmul and what follows; u is declared. */
static void put_unit(struct emitter *e, const struct branch *b, uint32_t unit)
{
    const uint32_t rows = b->result->cols;
    const struct branch *up = b->partner >= 0 ? &e->group->branches[b->partner] : NULL;
    const char *n = rows % unit ? "n" : arena_printf(e->arena, "%u", unit);
    put(e, "const uint32_t r = %u * u;", unit);
    if (rows % unit) put(e, "const uint32_t n = %u - r < %u ? %u - r : %u;", rows, unit, rows, unit);
    if (e->prefill) {
        put(e, "float *const ys = (float *)(void *)SCRATCH(%lluu);", (ull)e->plan->scratch_y);
        if (up) put(e, "float *const ups = ys + (uint64_t)%u * (a->n_tokens - t0);", unit);
        put_matmul(e, b, "ys", unit, n);
        if (up) put_matmul(e, up, "ups", unit, n);
        put(e, "for (uint32_t t = t0; t < a->n_tokens; t++) {");
        put(e, "float *const y = ys + (uint64_t)%u * (t - t0);", unit);
        if (up) put(e, "float *const up = ups + (uint64_t)%u * (t - t0);", unit);
    } else {
        put(e, "_Alignas(64) float y[%u]%s;", unit, up ? arena_printf(e->arena, ", up[%u]", unit) : "");
        put_matmul(e, b, "y", unit, n);
        if (up) put_matmul(e, up, "up", unit, n);
    }
    for (uint32_t i = 0; up && i < up->n_chain; i++) {
        assert(up->chain[i]->op == OP_bias);                               /* match_glu in fuse.c sees to it */
        put(e, "add_bias(up, VECTOR(%u) + r, %s);", slot_of(e, up->chain[i]->weight), n);
    }
    put_chain(e, b, unit, n);
    put_sink(e, b, n);
    if (e->prefill) put(e, "}");
}

/* Decode's query, key and value heads, in the order KV head by KV head: where the threads divide the KV heads, each thread makes
 * all that its share of the attention kernel reads, and no barrier is needed between the two. */
static void put_heads_together(struct emitter *e, const struct branch *q, const struct branch *k, const struct branch *v)
{
    const uint32_t head_dim = e->model->head_dim, heads_kv = k->result->heads, group = q->result->cols / head_dim / heads_kv;
    put(e, "const struct span s = share(%u, thread, n_threads);", heads_kv * (group + 2));
    put(e, "for (uint32_t i = s.first; i < s.last; i++) {");
    put(e, "const uint32_t kv_head = i / %u, part = i %% %u;", group + 2, group + 2);
    put(e, "if (part < %u) {", group);
    put(e, "const uint32_t u = %u * kv_head + part;", group);
    put_unit(e, q, head_dim);
    put(e, "} else if (part == %u) {", group);
    put(e, "const uint32_t u = kv_head;");
    put_unit(e, k, head_dim);
    put(e, "} else {");
    put(e, "const uint32_t u = kv_head;");
    put_unit(e, v, head_dim);
    put(e, "}");
    put(e, "}");
}

/* The attention that goes on from this projection without a barrier, or NULL. */
static const struct group *joined(const struct emitter *e)
{
    const struct fused *f = e->plan->fused;
    const uint32_t next = (uint32_t)(e->group - f->groups) + 1;
    return next < f->n_groups && f->groups[next].joins ? &f->groups[next] : NULL;
}

static void put_linear(struct emitter *e)
{
    const struct group *g = e->group;
    if (g->norm) text_printf(&e->note, " * norm of the input %s\n", e->prefill ? "done before" : "recomputed by every thread");
    for (uint32_t i = 0; i < g->n_branches; i++) note_matmul(e, &g->branches[i]);
    if (e->prefill) {
        put(e, "const uint32_t t0 = first_token(a, l);");
        put(e, "if (t0 == a->n_tokens) return;");
        put_prefill_input(e);
    } else {
        put(e, "if (l->tail && !a->n_logits) return;");
        put_decode_input(e);
    }
    const struct group *attention = e->prefill ? NULL : joined(e);
    if (attention) {
        const struct head_chain *h = attention->heads;
        put_heads_together(e, &g->branches[h[0].branch], &g->branches[h[1].branch], &g->branches[h[2].branch]);
        return;
    }
    uint32_t total = 0;
    for (uint32_t i = 0; i < g->n_branches; i++)
        if (!g->branches[i].is_partner) total += n_units(g->branches[i].result->cols, e->gp->unit_rows[i]);
    put(e, "const struct span s = share(%u, thread, n_threads);", total);
    uint32_t first = 0;
    for (uint32_t i = 0; i < g->n_branches; i++) {
        if (g->branches[i].is_partner) continue;
        const uint32_t units = n_units(g->branches[i].result->cols, e->gp->unit_rows[i]);
        put(e, "for (uint32_t u = span_from(s, %u); u < span_to(s, %u, %u); u++) {", first, first, units);
        put_unit(e, &g->branches[i], e->gp->unit_rows[i]);
        put(e, "}");
        first += units;
    }
}

/* ---- the other kinds ---- */

static void put_embed(struct emitter *e)
{
    const struct weight *w = e->group->node->weight;
    const struct buffer *f = &e->plan->f32[e->group->node->index];
    const struct model *m = e->model;
    text_printf(&e->note, " * token_embd: rows of %u %s; and the step's rotations\n", (uint32_t)w->cols, w->tensor->quant->name);
    put(e, "const struct span s = share(a->n_tokens, thread, n_threads);");
    put(e, "for (uint32_t t = s.first; t < s.last; t++) {");
    put(e, "row_%s(FLOAT_ROW(BUFFER(%lluu), %lluu, t), WEIGHT(%u), (uint32_t)a->tokens[t], %u);", format_of(e, w), (ull)f->offset, (ull)f->stride, slot_of(e, w), (uint32_t)w->cols);
    put(e, "rope_table(FLOAT_ROW(BUFFER(%lluu), %u, t), VECTOR(%u), VECTOR(%u), a->n_past + t, /* block */ %u, /* n_rot */ %u);", (ull)e->plan->rope_offset, m->n_rot * 4,
        weight_slot(e, e->plan->rope_hi), weight_slot(e, e->plan->rope_lo), e->plan->rope_block, m->n_rot);
    put(e, "}");
}

static void put_norm(struct emitter *e)
{
    const struct node *n = e->group->node;
    const struct buffer *x = &e->plan->f32[e->group->input->index], *y = &e->plan->f32[n->index];
    put(e, "const uint32_t t0 = first_token(a, l);");
    put(e, "const struct span s = share(a->n_tokens - t0, thread, n_threads);");
    put(e, "for (uint32_t t = t0 + s.first; t < t0 + s.last; t++)");
    put(e, "    rmsnorm(FLOAT_ROW(BUFFER(%lluu), %lluu, t), FLOAT_ROW(BUFFER(%lluu), %lluu, t), %s, %u, %s);", (ull)y->offset, (ull)y->stride, (ull)x->offset, (ull)x->stride,
        n->weight ? arena_printf(e->arena, "VECTOR(%u)", slot_of(e, n->weight)) : "0", n->cols, emit_float(e->arena, e->model->norm_eps));
}

/* Operations on finished values: pieces of one unit of rows of one token. */
static void put_map(struct emitter *e)
{
    const struct branch *b = &e->group->branches[0];
    const struct node *n = b->chain[0];
    const uint32_t unit = e->gp->unit_rows[0], rows = n->cols, units = n_units(rows, unit);
    const char *count = rows % unit ? "n" : arena_printf(e->arena, "%u", unit);
    const struct buffer *x = &e->plan->f32[n->inputs[0]->index];
    text_printf(&e->note, " * %s of %u columns\n", op_info[n->op].name, rows);
    put(e, "const uint32_t t0 = first_token(a, l);");
    put(e, "const struct span s = share((a->n_tokens - t0) * %u, thread, n_threads);", units);
    put(e, "for (uint32_t i = s.first; i < s.last; i++) {");
    put(e, "const uint32_t t = t0 + i / %u, r = i %% %u * %u;", units, units, unit);
    if (rows % unit) put(e, "const uint32_t n = %u - r < %u ? %u - r : %u;", rows, unit, rows, unit);
    put(e, "_Alignas(64) float y[%u];", unit);
    put(e, "copy(y, FLOAT_ROW(BUFFER(%lluu), %lluu, t) + r, %s);", (ull)x->offset, (ull)x->stride, count);
    const struct buffer *second = op_info[n->op].n_values > 1 ? &e->plan->f32[n->inputs[1]->index] : NULL;
    if (second) put(e, "const float *const up = FLOAT_ROW(BUFFER(%lluu), %lluu, t) + r;", (ull)second->offset, (ull)second->stride);
    e->t = "t";
    e->prefill = true;                     /* in this kind t counts in decode, too */
    if (n->op == OP_add) put(e, "add(y, y, up, %s);", count);
    else put_chain(e, b, unit, count);
    put_sink(e, b, count);
    put(e, "}");
}

struct attention_text { uint32_t heads_kv, group, width; const char *kv, *k_head, *v_head, *sizes; };

/* y [group][head_dim] of KV head h is ready in decode. */
static void put_attention_row(struct emitter *e, const struct attention_text *at)
{
    const struct buffer *q8 = &e->plan->q8[e->group->node->index];
    if (!q8->exists) return;
    put(e, "for (uint32_t c = 0; c < %u; c += 32)", at->width);
    put(e, "    quantize_block(BUFFER(%lluu), y + c, (%u * h + c) / 32, %u);", (ull)q8->offset, at->width, q8->cols);
}

static void put_attention_y(struct emitter *e, const struct attention_text *at)
{
    const struct buffer *f = &e->plan->f32[e->group->node->index];
    if (f->exists) put(e, "float *const y = FLOATS(%lluu) + %u * h;", (ull)f->offset, at->width);
    else put(e, "float *const y = (float *)(void *)SCRATCH(%lluu);", (ull)e->plan->scratch_y);
}

static struct attention_text attention_text(struct emitter *e)
{
    const struct node *n = e->group->node;
    const struct model *m = e->model;
    const uint32_t n_ctx = e->plan->options.n_ctx;
    struct attention_text at = { .heads_kv = n->inputs[1]->heads, .kv = kv_type_name[e->plan->options.kv] };
    at.group = n->heads / at.heads_kv;
    at.width = at.group * m->head_dim;
    at.k_head = arena_printf(e->arena, "kv_k_%s(a->kv + l->kv, h, %u, %u)", at.kv, m->head_dim, n_ctx);
    at.v_head = arena_printf(e->arena, "kv_v_%s(a->kv + l->kv, h, %u, %u, %u)", at.kv, at.heads_kv, m->head_dim, n_ctx);
    at.sizes = arena_printf(e->arena, "/* group */ %u, /* head_dim */ %u, %s, /* cap */ 0", at.group, m->head_dim, emit_float(e->arena, 1 / sqrt((double)m->head_dim)));
    e->launch.kv = e->plan->kv_layer[n->inputs[1]->layer];
    return at;
}

/* Heads are shared out; where they do not divide evenly, so are ranges of positions, which attention_merge joins. */
static void put_attention_decode(struct emitter *e)
{
    const struct attention_text at = attention_text(e);
    const struct node *n = e->group->node;
    const struct buffer *q = &e->plan->f32[n->inputs[0]->index];
    const ull o = (ull)e->plan->parts_offset, ml = o + (ull)ATTENTION_PARTS * n->cols * 4;
    text_printf(&e->note, " * %u heads of %u over %u KV heads in %s\n", n->heads, e->model->head_dim, at.heads_kv, at.kv);
    put(e, "if (l->tail && !a->n_logits) return;");
    put(e, "const uint32_t n_kv = a->n_past + 1, parts = attention_parts(n_kv, %u, n_threads);", at.heads_kv);
    put(e, "const struct span s = share(%u * parts, thread, n_threads);", at.heads_kv);
    put(e, "for (uint32_t i = s.first; i < s.last; i++) {");
    put(e, "const uint32_t h = i / parts;");
    put(e, "const float *const q = FLOATS(%lluu) + %u * h;", (ull)q->offset, at.width);
    put(e, "if (parts > 1) {");
    put(e, "const uint32_t part = i %% parts, each = (n_kv + 16 * parts - 1) / (16 * parts) * 16;");
    put(e, "const uint32_t first = part * each < n_kv ? part * each : n_kv, end = n_kv - first < each ? n_kv : first + each, p = %u * h + part;", ATTENTION_PARTS);
    put(e, "attention_part_%s(FLOATS(%lluu) + %u * p, FLOATS(%lluu) + %u * p, FLOATS(%lluu) + %u * p, q, %s, %s, first, end, %s);", at.kv, o, at.width, ml, at.group,
        ml + (ull)ATTENTION_PARTS * n->heads * 4, at.group, at.k_head, at.v_head, at.sizes);
    put(e, "continue;");
    put(e, "}");
    put_attention_y(e, &at);
    put(e, "attention_decode_%s(y, q, %s, %s, n_kv, %s, /* window, sink */ 0, 0);", at.kv, at.k_head, at.v_head, at.sizes);
    put_attention_row(e, &at);
    put(e, "}");
}

static void put_attention_merge(struct emitter *e)
{
    const struct attention_text at = attention_text(e);
    const struct node *n = e->group->node;
    const ull o = (ull)e->plan->parts_offset, ml = o + (ull)ATTENTION_PARTS * n->cols * 4;
    text_printf(&e->note, " * joins the parts of %u KV heads; left out when the threads divide the heads evenly\n", at.heads_kv);
    put(e, "const uint32_t parts = attention_parts(a->n_past + 1, %u, n_threads);", at.heads_kv);
    put(e, "if (parts == 1 || (l->tail && !a->n_logits)) return;");
    put(e, "const struct span s = share(%u, thread, n_threads);", at.heads_kv);
    put(e, "for (uint32_t h = s.first; h < s.last; h++) {");
    put_attention_y(e, &at);
    put(e, "const uint32_t p = %u * h;", ATTENTION_PARTS);
    put(e, "attention_merge(y, FLOATS(%lluu) + %u * p, FLOATS(%lluu) + %u * p, FLOATS(%lluu) + %u * p, parts, %u, %u, /* sink */ 0);", o, at.width, ml, at.group,
        ml + (ull)ATTENTION_PARTS * n->heads * 4, at.group, at.group, e->model->head_dim);
    put_attention_row(e, &at);
    put(e, "}");
}

static void put_attention_prefill(struct emitter *e)
{
    const struct attention_text at = attention_text(e);
    const struct node *n = e->group->node;
    const struct buffer *q = &e->plan->f32[n->inputs[0]->index], *f = &e->plan->f32[n->index], *q8 = &e->plan->q8[n->index];
    const uint32_t tokens = PREFILL_ATTENTION_TOKENS;
    text_printf(&e->note, " * %u heads of %u over %u KV heads in %s\n", n->heads, e->model->head_dim, at.heads_kv, at.kv);
    put(e, "const uint32_t t0 = first_token(a, l), tiles = (a->n_tokens - t0 + %u) / %u;", tokens - 1, tokens);
    put(e, "const struct span s = share(%u * tiles, thread, n_threads);", at.heads_kv);
    put(e, "for (uint32_t i = s.first; i < s.last; i++) {");
    put(e, "const uint32_t h = i / tiles, t = t0 + i %% tiles * %u, n = a->n_tokens - t < %u ? a->n_tokens - t : %u;", tokens, tokens, tokens);
    if (f->exists) put(e, "float *const y = FLOAT_ROW(BUFFER(%lluu), %lluu, t) + %u * h;", (ull)f->offset, (ull)f->stride, at.width);
    else put(e, "float *const y = (float *)(void *)SCRATCH(%lluu);", (ull)e->plan->scratch_y);
    put(e, "attention_prefill_%s(y, /* stride */ %u, FLOAT_ROW(BUFFER(%lluu), %lluu, t) + %u * h, /* stride */ %u, %s, %s,", at.kv, f->exists ? (uint32_t)(f->stride / 4) : at.width,
        (ull)q->offset, (ull)q->stride, at.width, (uint32_t)(q->stride / 4), at.k_head, at.v_head);
    put(e, "    a->n_past + t, /* first */ 0, n, %s, /* window, sink */ 0, 0);", at.sizes);
    if (q8->exists) {
        put(e, "for (uint32_t k = 0; k < n; k++)");
        put(e, "    for (uint32_t c = 0; c < %u; c += 32)", at.width);
        put(e, "        quantize_block(ROW(BUFFER(%lluu), %lluu, t + k), y + %u * k + c, (%u * h + c) / 32, %u);", (ull)q8->offset, (ull)q8->stride, at.width, at.width, q8->cols);
    }
    put(e, "}");
}

/* ---- functions and launches ---- */

static const char *function_for(struct emitter *e, const char *suffix)
{
    const char *body = text_str(&e->body);
    for (uint32_t i = 0; i < e->n_functions; i++)
        if (strcmp(e->functions[i].body, body) == 0) return e->functions[i].name;
    const char *name = arena_printf(e->arena, "%s_%s", e->group->name, suffix);
    for (uint32_t n = 2, i = 0; i < e->n_functions; i++)
        if (strcmp(e->functions[i].name, name) == 0) { name = arena_printf(e->arena, "%s_%s_%u", e->group->name, suffix, n++); i = (uint32_t)-1; }
    e->functions[e->n_functions++] = (struct function){ name, body };
    text_printf(e->out, "/* %s: weights %llu bytes per token\n%s */\nKERNEL(%s)\n{\n    UNUSED;\n%s}\n\n", name, (ull)e->gp->weight_bytes, text_str(&e->note), name, body);
    return name;
}

static void begin(struct emitter *e, bool prefill, bool tail)
{
    e->prefill = prefill;
    e->body = (struct text){ .arena = e->arena };
    e->note = (struct text){ .arena = e->arena };
    e->t = prefill ? "t" : "0";
    e->depth = 1;
    e->launch = (struct emitted_launch){ .name = e->group->name, .layer = e->group->layer, .tail = tail };
}

static void end(struct emitter *e, const char *suffix, struct emitted_launch *list, uint32_t *n)
{
    e->launch.function = function_for(e, suffix);
    list[(*n)++] = e->launch;
}

static void put_group(struct emitter *e)
{
    switch (e->group->kind) {
    case GROUP_EMBED:     put_embed(e); break;
    case GROUP_NORM:      put_norm(e); break;
    case GROUP_LINEAR:    put_linear(e); break;
    case GROUP_ATTENTION: if (e->prefill) put_attention_prefill(e); else put_attention_decode(e); break;
    case GROUP_MAP:       put_map(e); break;
    }
}

struct emitted_kernels emit_kernels(struct arena *a, struct text *out, const struct plan *p)
{
    const struct fused *f = p->fused;
    struct emitted_kernels k = { .decode = arena_array(a, struct emitted_launch, 2 * f->n_groups), .prefill = arena_array(a, struct emitted_launch, 2 * f->n_groups) };
    struct emitter e = { .arena = a, .plan = p, .model = p->model, .out = out, .functions = arena_array(a, struct function, 4 * f->n_groups) };
    const uint32_t last_store = fuse_last_store(f);
    for (uint32_t i = 0; i < f->n_groups; i++) {
        e.group = &f->groups[i];
        e.gp = &p->groups[i];
        const bool tail = i > last_store;
        begin(&e, false, tail);
        put_group(&e);
        if (e.group->joins) e.launch.joins_divides = e.group->node->inputs[1]->heads;
        end(&e, "decode", k.decode, &k.n_decode);
        if (e.group->kind == GROUP_ATTENTION) {
            begin(&e, false, tail);
            put_attention_merge(&e);
            e.launch.name = "attention_merge";
            e.launch.unless_divides = e.group->node->inputs[1]->heads;
            end(&e, "decode_merge", k.decode, &k.n_decode);
        }
        if (e.gp->staged) {
            begin(&e, true, tail);
            put_prefill_stage(&e);
            e.launch.name = arena_printf(a, "%s_in", e.group->name);
            end(&e, "stage", k.prefill, &k.n_prefill);
        }
        begin(&e, true, tail);
        put_group(&e);
        end(&e, "prefill", k.prefill, &k.n_prefill);
    }
    return k;
}
