/* put_products.c -- products: what happens to their rows, as functions that the templates inline, and the kernels of decode and prefill. */
#include "compiler/source/text.h"
#include "put.h"

typedef unsigned long long ull;

#define OF_ROW "const struct forge_kernel_args a, uint32_t t, uint32_t r"

const char *gpu_gemv_name(struct arena *a, const struct kernel *k, const struct weight *w)
{
    return arena_printf(a, "%s_%ux%u", w->tensor->quant->file, k->param[PARAM_ROWS], k->param[PARAM_LANES]);
}

const char *gpu_gemm_name(struct arena *a, const struct kernel *k, const struct weight *w)
{
    return arena_printf(a, "%s_%ux%u_%u", w->tensor->quant->file, k->param[PARAM_TOKENS], k->param[PARAM_ROWS], k->param[PARAM_THREADS]);
}

static const struct branch *partner_of(const struct emitter *e, const struct branch *b)
{
    return b->partner >= 0 ? &e->group->branches[b->partner] : NULL;
}

/* ---- what happens to a product's value: row r of token t ---- */

/* Where y goes: f32 rows, the 16-bit rows of a following product, or the logits. */
static void put_result(struct emitter *e, const struct node *n)
{
    const struct gpu_place at = gpu_written(e->plan, n, e->kernel->prefill);
    if (at.form != FORM_F16 && at.form != FORM_BF16) gpu_put(e, "%s[r] = y;", gpu_row(e, at, "t"));
    else
        gpu_put(e, "((uint16_t *)(void *)ROW(AT_%s, STRIDE_%s, t))[r] = (uint16_t)stage_%s(y);", at.symbol, at.symbol,
                at.form == FORM_F16 ? "f16" : "bf16");
}

/* Where the branch's rows begin in a combined product, and the token of an exact program's prefill. */
static void put_place_in_run(struct emitter *e, uint32_t row0)
{
    if (row0) gpu_put(e, "r -= %u;", row0);
    if (e->kernel->prefill && e->kernel->template == TEMPLATE_gemv) gpu_put(e, "t = first_token(a) + group_y();");
}

static const char *addend_row(struct emitter *e, const struct branch *b, uint32_t i)
{
    if (b->chain[i]->op == OP_bias) return gpu_vector(e, b->chain[i]->weight);
    return gpu_row(e, gpu_read(e->plan, gpu_addend(b, i)), "t");
}

/* Biases and residuals are sums: decode's products ask for them early.  The function that gives them for branch b, or NULL. */
static const char *addend(struct emitter *e, const struct branch *b, uint32_t row0)
{
    if (e->kernel->template != TEMPLATE_gemv || !gpu_only_adds(b)) return NULL;
    const struct function_draft kernel = gpu_put_function_begin(e);
    struct text sum = { .arena = e->arena };
    put_place_in_run(e, row0);
    for (uint32_t i = 0; i < b->n_chain; i++) text_printf(&sum, "%s%s[r]", i ? " + " : "", addend_row(e, b, i));
    gpu_put(e, "return %s;", text_str(&sum));
    return gpu_put_function_end(e, &kernel, arena_printf(e->arena, "%s_addend", b->matmul->weight->role), "float", OF_ROW);
}

static void put_chain(struct emitter *e, const struct branch *b)
{
    for (uint32_t i = 0; i < b->n_chain; i++) {
        switch (b->chain[i]->op) {
        case OP_bias:
        case OP_add:      gpu_put(e, "y += %s[r];", addend_row(e, b, i)); break;
        case OP_glu_silu: gpu_put(e, "y = silu_f32(y) * up;"); break;
        case OP_glu_gelu: gpu_put(e, "y = gelu_f32(y) * up;"); break;
        default: die("%s after a matmul: forgec has no GPU kernel for it; this is a mistake in forgec, please report it",
                     op_info[b->chain[i]->op].name);
        }
    }
}

/* The function for branch b's rows.  In a combined product they begin at row0. */
static const char *sink(struct emitter *e, const struct branch *b, uint32_t row0)
{
    const struct branch *up = partner_of(e, b);
    const bool added = e->kernel->template == TEMPLATE_gemv && gpu_only_adds(b);        /* already */
    const struct function_draft kernel = gpu_put_function_begin(e);
    put_place_in_run(e, row0);
    for (uint32_t i = 0; up && i < up->n_chain; i++) gpu_put(e, "up += %s[r];", gpu_vector(e, up->chain[i]->weight));
    if (!added) put_chain(e, b);
    put_result(e, b->result);
    const char *name = arena_printf(e->arena, "%s_%s", b->matmul->weight->role, e->kernel->prefill ? "rows" : "row");
    return gpu_put_function_end(e, &kernel, name, "void", up ? OF_ROW ", float y, float up" : OF_ROW ", float y");
}

/* One function that hands a row to its branch's; names: of these, by branch. */
static const char *combined_sink(struct emitter *e, const struct gpu_run *r, const char *const names[])
{
    if (r->last - r->first == 1) return names[r->first];
    const struct function_draft kernel = gpu_put_function_begin(e);
    uint64_t end = 0;
    for (uint32_t i = r->first; i < r->last; i++) {
        end += e->group->branches[i].matmul->weight->rows;
        if (i + 1 < r->last) gpu_put(e, "%sif (r < %llu) %s(a, t, r, y);", i > r->first ? "else " : "", (ull)end, names[i]);
        else gpu_put(e, "else %s(a, t, r, y);", names[i]);
    }
    return gpu_put_function_end(e, &kernel, arena_printf(e->arena, "%s_%s", e->group->name, e->kernel->prefill ? "rows" : "row"), "void",
                                OF_ROW ", float y");
}

/* The same for what is added; nothing to some branches. */
static const char *combined_addend(struct emitter *e, const struct gpu_run *r, const char *const names[])
{
    if (r->last - r->first == 1) return names[r->first];
    const struct function_draft kernel = gpu_put_function_begin(e);
    uint64_t end = 0;
    for (uint32_t i = r->first; i < r->last; i++) {
        end += e->group->branches[i].matmul->weight->rows;
        const char *call = names[i] ? arena_printf(e->arena, "return %s(a, t, r);", names[i]) : "return 0.0f;";
        if (i + 1 < r->last) gpu_put(e, "if (r < %llu) %s", (ull)end, call);
        else gpu_put(e, "%s", call);
    }
    return gpu_put_function_end(e, &kernel, arena_printf(e->arena, "%s_addend", e->group->name), "float", OF_ROW);
}

/* The functions of a run; addend NULL: none adds. */
struct rows_functions { const char *sink, *addend; };
static struct rows_functions put_rows_functions(struct emitter *e, const struct gpu_run *r)
{
    const char *sinks[MAX_BRANCHES], *addends[MAX_BRANCHES];
    uint64_t row0 = 0;
    bool any = false;
    for (uint32_t i = r->first; i < r->last; i++) {
        const struct branch *b = &e->group->branches[i];
        sinks[i] = sink(e, b, (uint32_t)row0);
        addends[i] = addend(e, b, (uint32_t)row0);
        any |= addends[i] != NULL;
        row0 += b->matmul->weight->rows;
    }
    const char *all = combined_sink(e, r, sinks);
    return (struct rows_functions){ all, any ? combined_addend(e, r, addends) : NULL };
}

/* ---- decode ---- */

/* The row of the step's token, in exact prefill of the group's. */
struct input_row { const char *row, *norm, *eps; uint32_t cols, threads; };

static void put_norm_begin(struct emitter *e, const struct input_row *in)
{
    if (e->group->norm) gpu_put(e, "norm_begin(&norm_weight, %s, /* cols */ %u, %u);", in->norm, in->cols, in->threads);
}

static void put_row_begin(struct emitter *e, const struct input_row *in)
{
    gpu_put(e, "row_begin(&row, %s, /* cols */ %u, %u);", in->row, in->cols, in->threads);
}

/* Where the launch begins before its predecessor has ended, weights are asked for first; elsewhere last, because they are not needed before
 * all of the row has been worked on. */
static void put_loads(struct emitter *e, const struct input_row *in, const char *begin_weights)
{
    const bool norm = e->group->norm != NULL;
    if (e->plan->profile->dependent_launch) {
        if (norm) gpu_put(e, "struct row_quads row, norm_weight;");
        gpu_put(e, "%s", begin_weights);
        put_norm_begin(e, in);
        gpu_put(e, "pdl_wait();");
        gpu_put(e, "mark(a);");
        if (norm) put_row_begin(e, in);
        return;
    }
    gpu_put(e, "struct row_quads row%s;", norm ? ", norm_weight" : "");
    gpu_put(e, "pdl_wait();");
    put_row_begin(e, in);
    put_norm_begin(e, in);
    gpu_put(e, "COMPILER_FENCE();");
    gpu_put(e, "%s", begin_weights);
    gpu_put(e, "COMPILER_FENCE();");
    gpu_put(e, "mark(a);");
}

/* Into LDS, in one form; digits 0: floats. */
static void put_form(struct emitter *e, const struct input_row *in, const char *to, uint32_t digits, uint32_t sums16)
{
    const char *form = arena_printf(e->arena, "/* digits */ %u, /* sums16 */ %u, %u", digits, sums16, in->threads);
    if (e->group->norm)
        gpu_put(e, "norm_to_lds(%s, &row, %s, &norm_weight, %s, /* cols */ %u, %s, %s);", to, in->row, in->norm, in->cols, in->eps, form);
    else if (!e->plan->profile->dependent_launch) gpu_put(e, "row_to_lds(%s, &row, %s, /* cols */ %u, %s);", to, in->row, in->cols, form);
    else if (digits) gpu_put(e, "acts_of_row(%s, %s, /* cols */ %u, %s);", to, in->row, in->cols, form);
    else gpu_put(e, "floats_of_row(%s, %s, /* cols */ %u, %u);", to, in->row, in->cols, in->threads);
}

static const char *floats_in_lds(struct emitter *e)
{
    return e->gg->floats_at ? arena_printf(e->arena, "lds() + %llu", (ull)e->gg->floats_at) : "lds()";
}

static void put_input(struct emitter *e, const char *begin_weights)
{
    const struct group *g = e->group;
    const struct input_row in = { .row = gpu_row(e, gpu_read(e->plan, g->input), e->kernel->prefill ? "first_token(a) + group_y()" : "0"),
                                  .norm = g->norm ? gpu_vector(e, g->norm->weight) : NULL,
                                  .eps = g->norm ? emit_float(e->arena, g->norm->attr.eps) : NULL,
                                  .cols = g->input->cols, .threads = e->kernel->param[PARAM_THREADS] };
    put_loads(e, &in, begin_weights);
    if (e->gg->needs_acts) put_form(e, &in, "lds()", e->kernel->param[PARAM_DIGITS], e->gg->sums16);
    if (e->gg->needs_floats) put_form(e, &in, floats_in_lds(e), 0, 0);
}

/* The weights of a run: one matrix, or two of a pair. */
static const char *weights_of(struct emitter *e, const struct gpu_run *r, const char *no_pair)
{
    const struct branch *up = partner_of(e, &e->group->branches[r->first]);
    const char *first = gpu_weight(e, r->weight);
    return up ? arena_printf(e->arena, "%s, %s", first, gpu_weight(e, up->matmul->weight)) : arena_printf(e->arena, "%s%s", first, no_pair);
}

static void put_first_weights(struct emitter *e, const struct gpu_run *r)
{
    const char *name = gpu_gemv_name(e->arena, e->kernel, r->weight);
    gpu_put(e, "struct first_%s first;", name);
    put_input(e, arena_printf(e->arena, "gemv_begin_%s(&first, %s, /* rows */ %llu, /* cols */ %u, slot);", name, weights_of(e, r, ", 0"),
                              (ull)r->rows, e->group->input->cols));
}

static void put_gemv_run(struct emitter *e, const struct gpu_run *r, const struct rows_functions *f, bool first)
{
    const struct kernel *k = e->kernel;
    const bool pair = e->group->branches[r->first].partner >= 0;
    const char *x = gpu_takes_floats(r->weight) ? floats_in_lds(e) : "lds()";
    const char *call = arena_printf(e->arena, "%sgemv_%s%s", e->gg->n_runs > 1 ? "slot = " : "", pair ? "pair_" : "",
                                    gpu_gemv_name(e->arena, k, r->weight));
    const char *matrix = arena_printf(e->arena, "%s, /* rows */ %llu, /* cols */ %u", weights_of(e, r, ""), (ull)r->rows,
                                      e->group->input->cols);
    const char *to = pair ? f->sink : arena_printf(e->arena, "%s, %s", f->addend ? f->addend : "/* addend */ 0", f->sink);
    const uint32_t slots = k->grid_x * k->param[PARAM_THREADS] / k->param[PARAM_LANES];
    gpu_put(e, "%s(a, %s, %s, %s, /* digits */ %u, slot, /* stride */ %u, %s);", call, first ? "&first" : "0", matrix, x,
            k->param[PARAM_DIGITS], slots, to);
}

void gpu_put_gemv(struct emitter *e)
{
    struct rows_functions functions[MAX_BRANCHES];
    for (uint32_t i = 0; i < e->gg->n_runs; i++) functions[i] = put_rows_functions(e, &e->gg->runs[i]);
    gpu_put(e, "pdl_launch();");
    gpu_put(e, "uint32_t slot = gemv_slot(/* groups */ %u, /* lanes */ %u);", e->kernel->grid_x, e->kernel->param[PARAM_LANES]);
    put_first_weights(e, &e->gg->runs[0]);
    for (uint32_t i = 0; i < e->gg->n_runs; i++) put_gemv_run(e, &e->gg->runs[i], &functions[i], i == 0);
}

/* ---- prefill ---- */

void gpu_put_stage(struct emitter *e, bool bf16)
{
    const struct group *g = e->group;
    const struct gpu_place to = gpu_stage(e->plan, g, bf16);
    gpu_put_token(e);
    gpu_put(e, "stage_rows(ROW(AT_%s, STRIDE_%s, t), %s, %s, /* cols */ %u, %s, /* norm */ %u, /* bf16 */ %u, %u);", to.symbol, to.symbol,
        gpu_row(e, gpu_read(e->plan, g->input), "t"), g->norm ? gpu_vector(e, g->norm->weight) : "0", g->input->cols,
        emit_float(e->arena, g->norm ? g->norm->attr.eps : 0), g->norm != NULL, bf16, e->kernel->param[PARAM_THREADS]);
}

/* Tiles of rows are numbered through all runs: this one's begin with tile0. */
static void put_gemm_run(struct emitter *e, const struct gpu_run *r, const char *sink, const char *when, uint32_t tile0)
{
    const struct gpu_place x = gpu_stage(e->plan, e->group, gpu_takes_bf16(r->weight));
    const bool pair = e->group->branches[r->first].partner >= 0;
    const char *tile = tile0 ? arena_printf(e->arena, "tile - %u", tile0) : "tile";
    const char *rows = arena_printf(e->arena, "BUFFER(AT_%s), STRIDE_%s", x.symbol, x.symbol);
    gpu_put(e, "%sgemm_%s%s(a, %s, /* rows */ %llu, /* cols */ %u, %s, %s, t0, a.step->n_tokens, %s);", when, pair ? "pair_" : "",
        gpu_gemm_name(e->arena, e->kernel, r->weight), weights_of(e, r, ""), (ull)r->rows, e->group->input->cols, rows, tile, sink);
}

void gpu_put_gemm(struct emitter *e)
{
    const uint32_t n = e->gg->n_runs;
    struct rows_functions functions[MAX_BRANCHES];
    uint32_t tile = 0;
    for (uint32_t i = 0; i < n; i++) functions[i] = put_rows_functions(e, &e->gg->runs[i]);
    gpu_put_start(e);
    gpu_put(e, "const uint32_t t0 = first_token(a), tile = group_y();");
    for (uint32_t i = 0; i < n; i++) {
        const struct gpu_run *r = &e->gg->runs[i];
        const struct gemm_part part = { .rows = r->rows, .pair = e->group->branches[r->first].partner >= 0 };
        const uint32_t next = tile + (uint32_t)gemm_part_tiles(&part, e->kernel->param[PARAM_ROWS]);
        const char *otherwise = i ? "else " : "";
        put_gemm_run(e, r, functions[i].sink, n == 1 ? ""
                                                   : i + 1 < n ? arena_printf(e->arena, "%sif (tile < %u) ", otherwise, next)
                                                   : otherwise, tile);
        tile = next;
    }
}
