/* products.c -- see products.h. A kernel multiplies matrices with one input and applies operations to each unit of their rows. */
#include "products.h"
#include "compiler/source/text.h"

const char *product_call(const struct cpu_writer *w, const struct weight *m, enum row_form form)
{
    const struct format *f = m->tensor->quant;
    const char *floats = f->block_weights > 1 ? "_exact" : "";
    const char *how = form == ROW_BF16 ? "_pairs" : form == ROW_BF16_PARTS ? "_parts" : form == ROW_F32 ? floats : "";
    return arena_printf(w->arena, "%s%s_%s", w->many ? "gemm" : "gemv", how, f->file);
}

static uint32_t n_units(uint32_t rows, uint32_t unit) { return (rows + unit - 1) / unit; }

/* ---- the input ---- */

/* Norms row x (f32) into xf and packs it into xq, as far as the group needs both. */
static void put_forms(struct cpu_writer *w)
{
    const struct node *norm = w->group->norm;
    const uint32_t cols = w->group->input->cols;
    if (norm) put(w, "%s", norm_call(w, norm, "xf", "x"));
    if (w->gp->packed[w->form]) put(w, "%s", pack_row(w, w->gp->packed[w->form], "xq", norm ? "xf" : "x", cols));
}

/* Decode: every thread prepares the row for itself, which is cheaper than a barrier. Declares xf and xq as far as the matmuls read them. */
static void put_decode_input(struct cpu_writer *w)
{
    const struct node *in = w->group->input;
    const struct buffer *f = &w->plan->f32[in->index], *q = &w->plan->packed[in->index];
    if (!w->gp->staged[0]) {
        if (w->gp->needs_f32[0]) put(w, "const void *const xf = BUFFER(AT_%s);", f->symbol);
        if (w->gp->packed[0]) put(w, "const void *const xq = BUFFER(AT_%s);", q->symbol);
        return;
    }
    put(w, "const float *const x = FLOATS(AT_%s);", f->symbol);
    if (w->group->norm) put_scratch(w, "xf", "0");
    else if (w->gp->needs_f32[0]) put(w, "const float *const xf = x;");
    if (w->gp->packed[0]) put(w, "uint8_t *const xq = SCRATCH(STRIDE_%s);", f->symbol);
    put_forms(w);
}

static void put_prefill_input(struct cpu_writer *w)
{
    const struct buffer *f = prefill_f32(w->plan, w->group), *q = prefill_packed(w->plan, w->group);
    if (w->gp->needs_f32[w->form]) put(w, "const void *const xf = ROW(BUFFER(AT_%s), STRIDE_%s, t0);", f->symbol, f->symbol);
    if (w->gp->packed[w->form]) put(w, "const void *const xq = %s;", packed_row(w, q, "t0"));
}

/* Tokens are divided among the threads. */
void put_stage(struct cpu_writer *w)
{
    const struct buffer *f = stage_f32(w->gp, w->form), *q = stage_packed(w->gp, w->form);
    put(w, "const uint32_t t0 = first_token(a, l);");
    put(w, "const struct span s = share(a->n_tokens - t0, thread, n_threads);");
    put(w, "for (uint32_t t = t0 + s.first; t < t0 + s.last; t++) {");
    put(w, "const float *const x = %s;", float_row(w, &w->plan->f32[w->group->input->index]));
    if (f) put(w, "float *const xf = %s;", float_row(w, f));
    else if (w->group->norm) put_scratch(w, "xf", "0");
    if (q) put(w, "uint8_t *const xq = %s;", byte_row(w, q));
    if (f && !w->group->norm) put(w, "copy(xf, x, %u);", w->group->input->cols);        /* a view: its rows are too far apart */
    put_forms(w);
    put(w, "}");
}

/* ---- units of rows ---- */

static void put_matmul(struct cpu_writer *w, const struct branch *b, const char *y, uint32_t unit, const char *n)
{
    const struct weight *m = b->matmul->weight;
    const enum row_form form = product_form(w->plan, w->group, m, w->form);
    const char *call = product_call(w, m, form);
    const char *rows = m->rows % unit ? arena_printf(w->arena, "round_up_16(%s)", n) : n;
    const char *sizes = arena_printf(w->arena, "r, /* rows */ %s, /* cols */ %u", rows, (uint32_t)m->cols), *x = form ? "xq" : "xf";
    if (!w->many) put(w, "%s(%s, WEIGHT(%s), %s, %s);", call, y, weight_of(w, m), x, sizes);
    else put(w, "%s(%s, /* stride */ %u, WEIGHT(%s), %s, t1 - t0, %s, SCRATCH(0));", call, y, unit, weight_of(w, m), x, sizes);
}

/* Declares y[unit] and up[unit] of a partner, for one token or for each token of a chunk. Later operations work token by token. */
static void put_decode_sums(struct cpu_writer *w, const struct branch *b, const struct branch *up, uint32_t unit, const char *n)
{
    put(w, "_Alignas(64) float y[%u]%s;", unit, up ? arena_printf(w->arena, ", up[%u]", unit) : "");
    put_matmul(w, b, "y", unit, n);
    if (up) put_matmul(w, up, "up", unit, n);
}

static void put_prefill_sums(struct cpu_writer *w, const struct branch *b, const struct branch *up, uint32_t unit, const char *n)
{
    put_scratch(w, "ys", "SCRATCH_ROWS");
    if (up) put(w, "float *const ups = ys + (uint64_t)%u * (t1 - t0);", unit);
    put_matmul(w, b, "ys", unit, n);
    if (up) put_matmul(w, up, "ups", unit, n);
    put(w, "for (uint32_t t = t0; t < t1; t++) {");
    put(w, "float *const y = ys + (uint64_t)%u * (t - t0);", unit);
    if (up) put(w, "float *const up = ups + (uint64_t)%u * (t - t0);", unit);
}

/* Unit u of one branch (with its glu partner): matmul and later operations. The text around it declares u. */
static void put_unit(struct cpu_writer *w, const struct branch *b, uint32_t unit)
{
    const struct branch *up = b->partner >= 0 ? &w->group->branches[b->partner] : NULL;
    const char *n = put_rows(w, b->result->cols, unit, arena_printf(w->arena, "%u * u", unit));
    if (w->many) put_prefill_sums(w, b, up, unit, n);
    else put_decode_sums(w, b, up, unit, n);
    if (up) put_partner(w, up, n);
    put_chain(w, b, unit, n);
    put_sink(w, b, n);
    if (w->many) put(w, "}");
}

/* Decode's query, key and value heads, KV head by KV head. If the number of threads divides the number of KV heads, each thread makes all
 * values that its share of the attention kernel reads, and no barrier is needed between the two kernels. */
static void put_joined(struct cpu_writer *w, const struct group *attention)
{
    const struct node *n = attention->node;
    const struct branch *q = &w->group->branches[attention->heads[0].branch], *k = &w->group->branches[attention->heads[1].branch];
    const struct branch *v = &w->group->branches[attention->heads[2].branch];
    const uint32_t head_dim = n->attr.head_dim, heads_kv = n->inputs[1]->heads, group = n->heads / heads_kv;
    const char *work = arena_printf(w->arena, "(%u, thread, n_threads)", heads_kv * (group + 2));
    put(w, "struct work todo = %u %% n_threads ? work_of(a, l, %s : work_alone%s;", heads_kv, work + 1, work);
    put(w, "while (work_next(&todo)) {");
    put(w, "const struct span s = todo.span;");
    put(w, "for (uint32_t i = s.first; i < s.last; i++) {");
    put(w, "const uint32_t kv_head = i / %u, part = i %% %u;", group + 2, group + 2);
    put(w, "if (part < %u) {", group);
    put(w, "const uint32_t u = %u * kv_head + part;", group);
    put_unit(w, q, head_dim);
    put(w, "} else if (part == %u) {", group);
    put(w, "const uint32_t u = kv_head;");
    put_unit(w, k, head_dim);
    put(w, "} else {");
    put(w, "const uint32_t u = kv_head;");
    put_unit(w, v, head_dim);
    put(w, "}");
    put(w, "}");
    put(w, "}");
}

static uint32_t total_units(const struct cpu_writer *w)
{
    const struct group *g = w->group;
    uint32_t total = 0;
    for (uint32_t i = 0; i < g->n_branches; i++)
        if (!g->branches[i].is_partner) total += n_units(g->branches[i].result->cols, w->gp->unit_rows[i]);
    return total;
}

static void put_decode_branches(struct cpu_writer *w)
{
    const struct group *g = w->group;
    put_work(w, arena_printf(w->arena, "%u", total_units(w)));
    for (uint32_t i = 0, first = 0; i < g->n_branches; i++) {
        if (g->branches[i].is_partner) continue;
        const uint32_t units = n_units(g->branches[i].result->cols, w->gp->unit_rows[i]);
        put(w, "for (uint32_t u = span_from(s, %u); u < span_to(s, %u, %u); u++) {", first, first, units);
        put_unit(w, &g->branches[i], w->gp->unit_rows[i]);
        put(w, "}");
        first += units;
    }
    put(w, "}");
}

/* A piece of work is a unit of rows and a block of tokens. A block has all tokens unless there are more threads than units. */
static void put_prefill_branches(struct cpu_writer *w)
{
    const struct group *g = w->group;
    const uint32_t total = total_units(w);
    put(w, "const uint32_t each = block_tokens(a->n_tokens - begin, %u, n_threads);", total);
    put(w, "const uint32_t blocks = (a->n_tokens - begin + each - 1) / each;");
    put_work(w, arena_printf(w->arena, "%u * blocks", total));
    for (uint32_t i = 0, first = 0; i < g->n_branches; i++) {
        if (g->branches[i].is_partner) continue;
        const uint32_t units = n_units(g->branches[i].result->cols, w->gp->unit_rows[i]);
        put(w, "for (uint32_t i = span_from(s, %u * blocks); i < span_to(s, %u * blocks, %u * blocks); i++) {", first, first, units);
        put(w, "const uint32_t u = i / blocks, t0 = begin + i %% blocks * each;");
        put(w, "const uint32_t t1 = a->n_tokens - t0 < each ? a->n_tokens : t0 + each;");
        put_prefill_input(w);
        put_unit(w, &g->branches[i], w->gp->unit_rows[i]);
        put(w, "}");
        first += units;
    }
    put(w, "}");
}

void put_products(struct cpu_writer *w)
{
    const struct group *joined = w->many ? NULL : joined_attention(w->plan, w->group);
    if (w->many) {
        put(w, "const uint32_t begin = first_token(a, l);");
        put(w, "if (begin == a->n_tokens) return;");
        put_prefill_branches(w);
        return;
    }
    put(w, "if (l->tail && !a->n_logits) return;");
    put_decode_input(w);
    if (joined) put_joined(w, joined);
    else put_decode_branches(w);
}
