/* slices.c -- products with slices of a tensor. Decode: a token is multiplied with some slices, the chosen experts or one for each head;
 * the threads divide the units of rows of all these slices. Prefill: gather orders the rows of the input slice by slice, so that a slice is
 * read once for all its tokens. If the rows of experts are summed, a unit is a part of the sum: one thread adds all experts in the order of
 * the choice, so that the bits do not depend on the number of threads. */
#include "slices.h"
#include "compiler/source/text.h"
#include "products.h"

typedef unsigned long long ull;

/* Properties of a group that its kernels need often. */
struct slices {
    const struct group *group;
    uint32_t n, total, cols, pieces;  /* slices of a token; slices of the tensor; columns of an input row; input rows of a token */
    bool     experts, sums;           /* sums: a branch has a sum over experts, so all pieces of the input are made first */
    const char *number;               /* variable with the number of the slice: "e" for experts, "k" for heads */
};

static struct slices slices_of(const struct cpu_writer *w)
{
    const struct group *g = w->group;
    const struct node *product = g->branches[0].matmul;
    const uint32_t n = plan_slices(g), total = product->weight->slices;
    struct slices s = { .group = g, .n = n, .total = total, .cols = (uint32_t)product->weight->cols, .experts = g->choice != NULL,
                        .pieces = plan_reads_pieces(product) ? n : 1, .number = g->choice ? "e" : "k" };
    for (uint32_t i = 0; i < g->n_branches; i++) s.sums |= branch_sum(&g->branches[i]);
    return s;
}

static uint32_t n_units(uint32_t rows, uint32_t unit) { return (rows + unit - 1) / unit; }

static const struct buffer *f32_of(const struct cpu_writer *w, const struct node *n) { return &w->plan->f32[n->index]; }

/* Declares the tables of the choice's order: the first row of each expert, and the two tables that follow. */
static void put_tables(struct cpu_writer *w, const struct slices *s)
{
    const uint32_t most = w->plan->chunk * s->n;
    put(w, "const uint32_t *const first = (const uint32_t *)(const void *)BUFFER(AT_%s);", order_of(w->plan, s->group)->symbol);
    put(w, "const uint32_t *const pairs = first + %u, *const rows = pairs + %u;", s->total + 1, most);
    put(w, "(void)pairs, (void)rows;");
}

/* ---- products ---- */

static enum row_form form_of(const struct cpu_writer *w, const struct branch *b)
{
    return product_form(w->plan, w->group, b->matmul->weight, w->form);
}

static const char *call_of(const struct cpu_writer *w, const struct branch *b) { return product_call(w, b->matmul->weight, form_of(w, b)); }

static const char *slice_text(const struct cpu_writer *w, const struct slices *s, const struct branch *b)
{
    const struct weight *m = b->matmul->weight;
    return arena_printf(w->arena, "WEIGHT(%s) + %lluull * %s", weight_of(w, m), (ull)plan_slice_bytes(w->plan, m), s->number);
}

static const char *rows_text(const struct cpu_writer *w, const struct branch *b, uint32_t unit, const char *n)
{
    const char *rows = branch_cols(w->group, b) % unit ? arena_printf(w->arena, "round_up_16(%s)", n) : n;
    return arena_printf(w->arena, "r, /* rows */ %s, /* cols */ %u", rows, (uint32_t)b->matmul->weight->cols);
}

static void put_gemv(struct cpu_writer *w, const struct slices *s, const struct branch *b, const char *y, uint32_t unit, const char *n)
{
    const char *x = form_of(w, b) ? "xq_k" : "xf_k";
    put(w, "%s(%s, %s, %s, %s);", call_of(w, b), y, slice_text(w, s, b), x, rows_text(w, b, unit, n));
}

/* The product of the slice with m rows of the stage, from row j on. */
static void put_gemm(struct cpu_writer *w, const struct slices *s, const struct branch *b, const char *y, uint32_t unit, const char *n)
{
    const char *x = packed_row(w, form_of(w, b) ? &w->gp->stage_packed : &w->gp->stage_f32, "j");
    put(w, "%s(%s, /* stride */ %u, %s,", call_of(w, b), y, unit, slice_text(w, s, b));
    put(w, "    %s, m, %s, SCRATCH(0));", x, rows_text(w, b, unit, n));
}

/* ---- the input of decode ---- */

/* Declares xf and xq with all pieces of the input. If the input is not kept packed, xq is scratch memory: pieces are packed here if one row
 * or a sum needs them all, otherwise one by one in put_piece. */
static void put_input(struct cpu_writer *w, const struct slices *s)
{
    const struct node *in = s->group->input, *norm = s->group->norm;
    const struct buffer *f = f32_of(w, in), *q = &w->plan->packed[in->index];
    const enum row_form form = w->gp->packed[0];
    const bool packs = form && (norm || !q->exists);
    if (norm || packs || w->gp->needs_f32[0]) put(w, "const float *const %s = FLOATS(AT_%s);", norm ? "x" : "xf", f->symbol);
    if (norm) {
        put_scratch(w, "xf", "0");
        put(w, "%s", norm_call(w, norm, "xf", "x"));
    }
    if (form && !packs) put(w, "const uint8_t *const xq = BUFFER(AT_%s);", q->symbol);
    if (!packs) return;
    put(w, "uint8_t *const xq = SCRATCH(STRIDE_%s);", f->symbol);
    if (s->pieces == 1) put(w, "%s", pack_row(w, form, "xq", "xf", s->cols));
    else if (s->sums) {
        put(w, "for (uint32_t k = 0; k < %u; k++)", s->n);
        const char *row = arena_printf(w->arena, "xq + %s * k", packed_bytes(w, form, s->cols));
        put(w, "    %s", pack_row(w, form, row, arena_printf(w->arena, "xf + %u * k", s->cols), s->cols));
    }
}

/* Declares xf_k and xq_k, the piece of slice k. */
static void put_piece(struct cpu_writer *w, const struct slices *s)
{
    const struct node *in = s->group->input;
    const enum row_form form = w->gp->packed[0];
    const bool packs = form && (s->group->norm || !w->plan->packed[in->index].exists);
    const bool one_by_one = packs && s->pieces > 1 && !s->sums;
    const char *at = s->pieces > 1 ? arena_printf(w->arena, " + %u * k", s->cols) : "";
    if (w->gp->needs_f32[0] || one_by_one) put(w, "const float *const xf_k = xf%s;", at);
    if (one_by_one) put(w, "%s", pack_row(w, form, "xq", "xf_k", s->cols));
    if (!form) return;
    if (s->pieces > 1 && !one_by_one) put(w, "const uint8_t *const xq_k = xq + %s * k;", packed_bytes(w, form, s->cols));
    else put(w, "const uint8_t *const xq_k = xq;");
}

/* ---- rows of slices ---- */

static uint32_t sum_at(const struct branch *b)
{
    uint32_t i = 0;
    while (i < b->n_chain && b->chain[i]->op != OP_expert_sum) i++;
    return i;
}

/* Stores rows r .. r + n - 1 of slice k of token t. */
static void put_slice_sink(struct cpu_writer *w, const struct branch *b, const char *n)
{
    const struct node *result = b->result;
    const struct buffer *f = f32_of(w, result), *q = &w->plan->packed[result->index];
    const uint32_t rows = branch_cols(w->group, b);
    if (f->exists) put(w, "copy(%s + %u * k + r, y, %s);", float_row(w, f), rows, n);
    if (!q->exists) return;
    put(w, "for (uint32_t i = 0; i < %s; i += 32)", n);
    const enum row_form form = q->form[w->form];
    const char *row = byte_row(w, q), *piece = arena_printf(w->arena, "%s + %s * k", row, packed_bytes(w, form, rows));
    const char *block = arena_printf(w->arena, "(%u * k + r + i) / 32", rows);
    if (q->pieces == 1) put(w, "    %s", pack_block(w, form, row, "y + i", block, q->cols));
    else put(w, "    %s", pack_block(w, form, piece, "y + i", "(r + i) / 32", rows));
}

static void put_slice_rows(struct cpu_writer *w, const struct branch *b, const struct branch *up, uint32_t unit, const char *n)
{
    if (up) put_partner(w, up, n);
    put_chain(w, b, unit, n);
    put_slice_sink(w, b, n);
}

static void put_decode_branch(struct cpu_writer *w, const struct slices *s, const struct branch *b, uint32_t unit, uint32_t before)
{
    const struct branch *up = b->partner >= 0 ? &s->group->branches[b->partner] : NULL;
    const uint32_t rows = branch_cols(s->group, b), units = n_units(rows, unit);
    put(w, "for (uint32_t k = 0; k < %u; k++) {", s->n);
    put(w, "const uint32_t begin = %u + %u * k, end = span_to(s, begin, %u);", before, units, units);
    put(w, "if (span_from(s, begin) >= end) continue;");
    if (s->experts) put(w, "const uint32_t e = (uint32_t)choice[%u + k];", s->n);
    put_piece(w, s);
    put(w, "for (uint32_t u = span_from(s, begin); u < end; u++) {");
    const char *n = put_rows(w, rows, unit, arena_printf(w->arena, "%u * u", unit));
    put(w, "_Alignas(64) float y[%u]%s;", unit, up ? arena_printf(w->arena, ", up[%u]", unit) : "");
    put_gemv(w, s, b, "y", unit, n);
    if (up) put_gemv(w, s, up, "up", unit, n);
    put_slice_rows(w, b, up, unit, n);
    put(w, "}");
    put(w, "}");
}

static void put_prefill_branch(struct cpu_writer *w, const struct slices *s, const struct branch *b, uint32_t unit, uint32_t before)
{
    const struct branch *up = b->partner >= 0 ? &s->group->branches[b->partner] : NULL;
    const uint32_t rows = branch_cols(s->group, b), pieces = n_units(rows, unit) * s->total;
    put(w, "for (uint32_t i = span_from(s, %u); i < span_to(s, %u, %u); i++) {", before, before, pieces);
    put(w, "const uint32_t %s = i %% %u;", s->number, s->total);
    if (s->experts) put(w, "const uint32_t j = first[e], m = first[e + 1] - j;");
    else put(w, "const uint32_t m = a->n_tokens - t0, j = m * k;");
    if (s->experts) put(w, "if (m == 0) continue;");
    const char *n = put_rows(w, rows, unit, arena_printf(w->arena, "i / %u * %u", s->total, unit));
    put_scratch(w, "ys", "SCRATCH_ROWS");
    if (up) put(w, "float *const ups = ys + (uint64_t)%u * m;", unit);
    put_gemm(w, s, b, "ys", unit, n);
    if (up) put_gemm(w, s, up, "ups", unit, n);
    put(w, "for (uint32_t row = 0; row < m; row++) {");
    if (s->experts) put(w, "const uint32_t t = pairs[j + row] / %u, k = pairs[j + row] %% %u;", s->n, s->n);
    else put(w, "const uint32_t t = t0 + row;");
    put(w, "float *const y = ys + (uint64_t)%u * row;", unit);
    if (up) put(w, "float *const up = ups + (uint64_t)%u * row;", unit);
    put_slice_rows(w, b, up, unit, n);
    put(w, "}");
    put(w, "}");
}

/* ---- sums of experts ---- */

/* sum[unit] += share of expert k times its rows y; then the operations after the sum. */
static void put_sum(struct cpu_writer *w, const struct branch *b, uint32_t unit, const char *n)
{
    const uint32_t sum = sum_at(b);
    for (uint32_t i = 0; i < sum; i++) put_operation(w, b, i, unit, n);
    put(w, "add_share(sum, y, choice[k], %s);", n);
    put(w, "}");
    put(w, "float *const y = sum;");
    for (uint32_t i = sum + 1; i < b->n_chain; i++) put_operation(w, b, i, unit, n);
    put_sink(w, b, n);
}

static void put_decode_sum(struct cpu_writer *w, const struct slices *s, const struct branch *b, uint32_t unit, uint32_t before)
{
    const uint32_t rows = branch_cols(s->group, b), units = n_units(rows, unit);
    put(w, "for (uint32_t u = span_from(s, %u); u < span_to(s, %u, %u); u++) {", before, before, units);
    const char *n = put_rows(w, rows, unit, arena_printf(w->arena, "%u * u", unit));
    put(w, "_Alignas(64) float sum[%u];", unit);
    put(w, "clear(sum, %s);", n);
    put(w, "for (uint32_t k = 0; k < %u; k++) {", s->n);
    put(w, "const uint32_t e = (uint32_t)choice[%u + k];", s->n);
    put_piece(w, s);
    put(w, "_Alignas(64) float y[%u];", unit);
    put_gemv(w, s, b, "y", unit, n);
    put_sum(w, b, unit, n);
    put(w, "}");
}

static void put_prefill_sum(struct cpu_writer *w, const struct slices *s, const struct branch *b, uint32_t unit, uint32_t before)
{
    const uint32_t rows = branch_cols(s->group, b), units = n_units(rows, unit);
    put(w, "for (uint32_t u = span_from(s, %u); u < span_to(s, %u, %u); u++) {", before, before, units);
    const char *n = put_rows(w, rows, unit, arena_printf(w->arena, "%u * u", unit));
    put_scratch(w, "ys", "SCRATCH_ROWS");
    put(w, "for (uint32_t e = 0; e < %u; e++) {", s->total);
    put(w, "const uint32_t j = first[e], m = first[e + 1] - j;");
    put(w, "if (m == 0) continue;");
    put_gemm(w, s, b, arena_printf(w->arena, "ys + (uint64_t)%u * j", unit), unit, n);
    put(w, "}");
    put(w, "for (uint32_t t = t0; t < a->n_tokens; t++) {");
    put(w, "const float *const choice = %s;", float_row(w, f32_of(w, s->group->choice)));
    put(w, "_Alignas(64) float sum[%u];", unit);
    put(w, "clear(sum, %s);", n);
    put(w, "for (uint32_t k = 0; k < %u; k++) {", s->n);
    put(w, "const uint32_t e = (uint32_t)choice[%u + k];", s->n);
    put(w, "(void)e;");
    put(w, "float *const y = ys + (uint64_t)%u * rows[%u * t + k];", unit, s->n);
    put_sum(w, b, unit, n);
    put(w, "}");
    put(w, "}");
}

/* ---- kernels ---- */

/* Pieces of work of a branch: units of rows of the sum, of each slice of the token (decode), or of all slices (prefill). */
static uint32_t work_of(const struct cpu_writer *w, const struct slices *s, uint32_t i)
{
    const struct branch *b = &s->group->branches[i];
    const uint32_t units = n_units(branch_cols(s->group, b), w->gp->unit_rows[i]);
    return branch_sum(b) ? units : units * (w->many ? s->total : s->n);
}

static void put_branch(struct cpu_writer *w, const struct slices *s, uint32_t i, uint32_t before)
{
    const struct branch *b = &s->group->branches[i];
    const uint32_t unit = w->gp->unit_rows[i];
    if (branch_sum(b)) (w->many ? put_prefill_sum : put_decode_sum)(w, s, b, unit, before);
    else (w->many ? put_prefill_branch : put_decode_branch)(w, s, b, unit, before);
}

void put_slices(struct cpu_writer *w)
{
    const struct slices s = slices_of(w);
    uint32_t total = 0, before = 0;
    for (uint32_t i = 0; i < s.group->n_branches; i++) if (!s.group->branches[i].is_partner) total += work_of(w, &s, i);
    if (w->many) {
        put(w, "const uint32_t t0 = first_token(a, l);");
        put(w, "if (t0 == a->n_tokens) return;");
        if (s.experts) put_tables(w, &s);
    } else {
        put(w, "if (l->tail && !a->n_logits) return;");
        if (s.experts) put(w, "const float *const choice = FLOATS(AT_%s);", f32_of(w, s.group->choice)->symbol);
        put_input(w, &s);
    }
    put_work(w, arena_printf(w->arena, "%u", total));
    for (uint32_t i = 0; i < s.group->n_branches; i++) {
        if (s.group->branches[i].is_partner) continue;
        put_branch(w, &s, i, before);
        before += work_of(w, &s, i);
    }
    put(w, "}");
}

/* Copies the input's rows slice by slice: row j of the stage belongs to pair j of token and expert, or to head j / m for m tokens. */
void put_gather(struct cpu_writer *w)
{
    const struct slices s = slices_of(w);
    const struct node *in = s.group->input, *norm = s.group->norm;
    const struct buffer *f = stage_f32(w->gp, w->form), *q = stage_packed(w->gp, w->form), *kept = &w->plan->packed[in->index];
    const enum row_form form = w->gp->packed[w->form];
    const bool copies = q && kept->exists && !norm, reads = f || !copies;
    const char *piece = s.pieces > 1 ? arena_printf(w->arena, " + %u * k", s.cols) : "";
    if (s.experts) {
        put_tables(w, &s);
        put(w, "const struct span s = share(first[%u], thread, n_threads);", s.total);
    } else {
        put(w, "const uint32_t t0 = first_token(a, l), m = a->n_tokens - t0;");
        put(w, "const struct span s = share(m * %u, thread, n_threads);", s.n);
    }
    put(w, "for (uint32_t j = s.first; j < s.last; j++) {");
    if (s.experts) put(w, "const uint32_t t = pairs[j] / %u, k = pairs[j] %% %u;", s.n, s.n);
    else put(w, "const uint32_t t = t0 + j %% m, k = j / m;");
    put(w, "(void)k;");
    if (reads) put(w, "const float *const x = %s%s;", float_row(w, f32_of(w, in)), piece);
    if (f) put(w, "float *const xf = FLOAT_ROW(BUFFER(AT_%s), STRIDE_%s, j);", f->symbol, f->symbol);
    else if (norm) put_scratch(w, "xf", "0");
    if (norm) put(w, "%s", norm_call(w, norm, "xf", "x"));
    else if (f) put(w, "copy(xf, x, %u);", s.cols);
    if (q) put(w, "uint8_t *const xq = %s;", packed_row(w, q, "j"));
    if (copies) {
        const char *bytes = packed_bytes(w, form, s.cols), *at = s.pieces > 1 ? arena_printf(w->arena, " + %s * k", bytes) : "";
        put(w, "copy_bytes(xq, %s%s, %s);", byte_row(w, kept), at, bytes);
    } else if (q) put(w, "%s", pack_row(w, form, "xq", norm ? "xf" : "x", s.cols));
    put(w, "}");
}

void put_route(struct cpu_writer *w)
{
    const struct node *n = w->group->node;
    const struct node_attrs *at = &n->attr;
    const char *logits = float_row(w, f32_of(w, n->inputs[0])), *bias = n->weight ? vector_of(w, n) : "0";
    put(w, "const uint32_t t0 = first_token(a, l);");
    put(w, "const struct span s = share(a->n_tokens - t0, thread, n_threads);");
    put(w, "float room[%u];", 2 * n->inputs[0]->cols + at->n_group);
    put(w, "uint8_t taken[%u];", n->inputs[0]->cols);
    put(w, "for (uint32_t t = t0 + s.first; t < t0 + s.last; t++)");
    put(w, "    route(%s, room, taken, %s, %s,", float_row(w, f32_of(w, n)), logits, bias);
    put(w, "        /* experts, used */ %u, %u, /* gating */ %u, /* groups, used */ %u, %u,", n->inputs[0]->cols, at->used, at->gating,
        at->n_group, at->n_group_used);
    put(w, "        /* norm, by */ %u, %s);", at->norm, emit_float(w->arena, at->by));
}

void put_order(struct cpu_writer *w)
{
    const struct node *n = w->group->node;
    const struct buffer *b = f32_of(w, n);
    put(w, "if (thread) return;");
    put(w, "uint32_t *const order = (uint32_t *)(void *)BUFFER(AT_%s);", w->gp->order.symbol);
    put(w, "expert_order(order, FLOATS(AT_%s), STRIDE_%s / 4, first_token(a, l), a->n_tokens, %u, %u, %u);", b->symbol, b->symbol,
        n->inputs[0]->cols, n->attr.used, w->plan->chunk * n->attr.used);
}

void put_expert_map(struct cpu_writer *w)
{
    const struct branch *b = &w->group->branches[0];
    const struct node *n = b->chain[0], *choice = n->inputs[1];
    const uint32_t rows = slice_rows(w->group), used = choice->attr.used, unit = w->kernel->param[PARAM_UNIT], units = n_units(rows, unit);
    const bool sums = n->op == OP_expert_sum;
    const char *x = float_row(w, f32_of(w, n->inputs[0]));
    put(w, "const uint32_t t0 = first_token(a, l);");
    put(w, "const struct span s = share((a->n_tokens - t0) * %u, thread, n_threads);", units * (sums ? 1 : used));
    put(w, "for (uint32_t i = s.first; i < s.last; i++) {");
    put(w, "const uint32_t t = t0 + i / %u;", units * (sums ? 1 : used));
    put(w, "const float *const choice = %s;", float_row(w, f32_of(w, choice)));
    const char *count = put_rows(w, rows, unit, arena_printf(w->arena, "i %% %u * %u", units, unit));
    put(w, "_Alignas(64) float y[%u];", unit);
    if (sums) {
        put(w, "clear(y, %s);", count);
        put(w, "for (uint32_t k = 0; k < %u; k++) add_share(y, %s + %u * k + r, choice[k], %s);", used, x, rows, count);
        put_sink(w, b, count);
    } else {
        put(w, "const uint32_t k = i / %u %% %u, e = (uint32_t)choice[%u + k];", units, used, used);
        put(w, "copy(y, %s + %u * k + r, %s);", x, rows, count);
        put_expert_row(w, n, "y", count);
        put(w, "copy(%s + %u * k + r, y, %s);", float_row(w, f32_of(w, n)), rows, count);
    }
    put(w, "}");
}
