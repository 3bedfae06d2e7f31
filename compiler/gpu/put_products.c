/* put_products.c -- products: operations on their rows, as functions that the templates inline, and the kernels of decode and prefill. */
#include "compiler/source/text.h"
#include "put.h"
#include "templates/gpu/slices_sizes.h"

typedef unsigned long long ull;

static const char *const slices_suffix[] = { [SLICES_NONE] = "", [SLICES_EACH] = "each_", [SLICES_SUM] = "sum_" };

const char *gpu_gemv_name(struct arena *a, const struct kernel *k, const struct weight *w)
{
    const char *depth = k->param[PARAM_DEPTH] ? arena_printf(a, "x%u", k->param[PARAM_DEPTH]) : "";
    const char *columns = k->param[PARAM_COLUMNS] ? arena_printf(a, "columns%u_", k->param[PARAM_COLUMNS]) : "";
    return arena_printf(a, "%s%s%s_%ux%u%s", columns, slices_suffix[gpu_slices_of(k->group)], w->tensor->quant->file, k->param[PARAM_ROWS],
                        k->param[PARAM_LANES], depth);
}

const char *gpu_gemv_matrix_name(struct arena *a, const struct kernel *k, const struct weight *w)
{
    return arena_printf(a, "matrix%u_%s_%ux%u", k->param[PARAM_COLUMNS], w->tensor->quant->file, k->param[PARAM_LANES],
                        k->param[PARAM_DEPTH]);
}

const char *gpu_gemm_name(struct arena *a, const struct kernel *k, const struct weight *w)
{
    return arena_printf(a, "%s%s_%ux%u_%u", gpu_slices_of(k->group) ? "slices_" : "", w->tensor->quant->file, k->param[PARAM_TOKENS],
                        k->param[PARAM_ROWS], k->param[PARAM_THREADS]);
}

static const struct branch *partner_of(const struct emitter *e, const struct branch *b)
{
    return b->partner >= 0 ? &e->group->branches[b->partner] : NULL;
}

/* ---- operations on a product's value: row r of token t ---- */

/* The token of a workgroup in the template of decode's products. */
static const char *group_token(const struct emitter *e) { return e->kernel->grid_tokens ? "first_token(a) + group_y()" : "0"; }

/* Is the kernel made from a template of decode's products? */
static bool by_gemv(const struct emitter *e)
{
    const enum kernel_template t = e->kernel->template;
    return t == TEMPLATE_gemv || t == TEMPLATE_gemv_columns || t == TEMPLATE_gemv_matrix;
}

/* Makes r a row of the branch, whose rows begin at row0 of a combined product, and sets t to the token of the workgroup. */
static void put_place_in_run(struct emitter *e, uint32_t row0)
{
    if (row0) gpu_put(e, "r -= %u;", row0);
    if (e->kernel->template == TEMPLATE_gemv && e->kernel->grid_tokens) gpu_put(e, "t = %s;", group_token(e));
}

static const char *addend_row(struct emitter *e, const struct branch *b, uint32_t i)
{
    if (b->chain[i]->op == OP_bias) return gpu_vector(e, b->chain[i]->weight);
    return gpu_row(e, gpu_read(e->plan, gpu_addend(b, i)), "t");
}

static bool has_bias(const struct branch *b, uint32_t before)
{
    for (uint32_t i = 0; i < before; i++) if (b->chain[i]->op == OP_expert_bias) return true;
    return false;
}

/* The factors of the experts that are summed; "0": no factors. */
static const char *times_of_sum(struct emitter *e, const struct branch *b)
{
    for (uint32_t i = 0; i < gpu_sum_at(b); i++) if (b->chain[i]->op == OP_expert_times) return gpu_vector(e, b->chain[i]->weight);
    return "0";
}

static const char *choice_row(struct emitter *e, const char *t) { return gpu_row(e, gpu_read(e->plan, e->group->choice), t); }

/* The sum of the experts' biases. Factors multiply the biases that come before them in the chain. */
static const char *biases_of_sum(struct emitter *e, const struct branch *b)
{
    uint32_t i = 0;
    bool times_first = false;
    for (; b->chain[i]->op != OP_expert_bias; i++) times_first |= b->chain[i]->op == OP_expert_times;
    return arena_printf(e->arena, "picked_biases(%s, %s, %s, r, /* stride */ %llu, %u)", gpu_vector(e, b->chain[i]->weight),
                        times_first ? "0" : times_of_sum(e, b), choice_row(e, "t"),
                        (ull)plan_weight_stride(e->plan, b->chain[i]->weight), e->group->choice->attr.used);
}

/* The function that returns the sum of biases and residuals for a row of branch b, or NULL: decode's products load these early. If experts
 * are summed, their biases become one bias of the sum. */
static const char *addend(struct emitter *e, const struct branch *b, uint32_t row0)
{
    if (!by_gemv(e) || !gpu_only_adds(b)) return NULL;
    const struct function_draft kernel = gpu_put_function_begin(e);
    struct text sum = { .arena = e->arena };
    put_place_in_run(e, row0);
    for (uint32_t i = 0; i < b->n_chain; i++) {
        const enum op op = b->chain[i]->op;
        const char *plus = sum.size ? " + " : "";
        if (op == OP_expert_bias) text_printf(&sum, "%s%s", plus, biases_of_sum(e, b));
        if (op == OP_bias || op == OP_add) text_printf(&sum, "%s%s[r]", plus, addend_row(e, b, i));
    }
    gpu_put(e, "return %s;", text_str(&sum));
    return gpu_put_function_end(e, &kernel, arena_printf(e->arena, "%s_addend", b->matmul->weight->role), "float", GPU_OF_ROW);
}

/* The function for the rows of branch b, which begin at row0 of a combined product. If experts are summed, decode's product has already
 * done so; prefill's product stores the rows of all experts for a separate kernel. */
static const char *sink(struct emitter *e, const struct branch *b, uint32_t row0)
{
    const struct branch *up = partner_of(e, b);
    const bool summed = by_gemv(e), added = summed && gpu_only_adds(b);        /* both done by the product */
    const uint32_t sum = gpu_sum_at(b);
    const struct function_draft kernel = gpu_put_function_begin(e);
    put_place_in_run(e, row0);
    if (up) gpu_put_partner(e, up);
    if (sum < b->n_chain && summed && !added && has_bias(b, sum)) gpu_put(e, "y += %s;", biases_of_sum(e, b));
    if (!added) gpu_put_chain(e, b, sum < b->n_chain && summed ? sum + 1 : 0, summed ? b->n_chain : sum);
    if (sum < b->n_chain && !summed) gpu_put(e, "%s[r] = y;", gpu_row(e, gpu_own(b->chain[sum], &e->gg->rows), "t"));
    else gpu_put_result(e, b->result);
    const char *name = arena_printf(e->arena, "%s_%s", b->matmul->weight->role, e->kernel->prefill ? "rows" : "row");
    return gpu_put_function_end(e, &kernel, name, "void", up ? GPU_OF_ROW ", float y, float up" : GPU_OF_ROW ", float y");
}

/* One function that passes a row of a run to the function of its branch; names: the functions, by branch. */
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
                                GPU_OF_ROW ", float y");
}

/* The same for addends; NULL in names: the branch has no addend. */
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
    return gpu_put_function_end(e, &kernel, arena_printf(e->arena, "%s_addend", e->group->name), "float", GPU_OF_ROW);
}

/* The functions of a run; addend NULL: no branch has an addend. */
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

/* The input row of the step's token, or in exact prefill of the workgroup's token. */
struct input_row { const char *row, *norm, *eps; uint32_t cols, threads; };

static void put_norm_begin(struct emitter *e, const struct input_row *in)
{
    if (e->group->norm && e->group->norm->op == OP_rmsnorm)
        gpu_put(e, "norm_begin(&norm_weight, %s, /* cols */ %u, %u);", in->norm, in->cols, in->threads);
}

static void put_row_begin(struct emitter *e, const struct input_row *in)
{
    gpu_put(e, "row_begin(&row, %s, /* cols */ %u, %u);", in->row, in->cols, in->threads);
}

/* If a launch begins before its predecessor has ended, it loads weights first. Otherwise it loads them last, because they are not needed
 * before the whole row is processed. */
static void put_loads(struct emitter *e, const struct input_row *in, const char *begin_weights)
{
    const bool norm = e->group->norm && e->group->norm->op == OP_rmsnorm;
    if (e->plan->target->dependent_launch) {
        if (norm) gpu_put(e, "struct row_quads row, norm_weight;");
        gpu_put(e, "%s", begin_weights);
        put_norm_begin(e, in);
        gpu_put(e, "pdl_wait();");
        gpu_put(e, "mark(a);");
        if (norm) put_row_begin(e, in);
        return;
    }
    const bool layernorm = e->group->norm && !norm;              /* layernorm_to_lds loads the row itself */
    if (!layernorm) gpu_put(e, "struct row_quads row%s;", norm ? ", norm_weight" : "");
    gpu_put(e, "pdl_wait();");
    if (!layernorm) put_row_begin(e, in);
    if (norm) put_norm_begin(e, in);
    gpu_put(e, "COMPILER_FENCE();");
    gpu_put(e, "%s", begin_weights);
    gpu_put(e, "COMPILER_FENCE();");
    gpu_put(e, "mark(a);");
}

/* Writes the row to LDS in one form; digits 0: f32. */
static void put_form(struct emitter *e, const struct input_row *in, const char *to, uint32_t digits, uint32_t sums16)
{
    const char *form = arena_printf(e->arena, "/* digits */ %u, /* sums16 */ %u, %u", digits, sums16, in->threads);
    if (e->group->norm && e->group->norm->op == OP_layernorm)
        gpu_put(e, "layernorm_to_lds(%s, %s, %s, /* cols */ %u, %s, %s);", to, in->row, in->norm, in->cols, in->eps, form);
    else if (e->group->norm)
        gpu_put(e, "norm_to_lds(%s, &row, %s, &norm_weight, %s, /* cols */ %u, %s, %s);", to, in->row, in->norm, in->cols, in->eps, form);
    else if (!e->plan->target->dependent_launch) gpu_put(e, "row_to_lds(%s, &row, %s, /* cols */ %u, %s);", to, in->row, in->cols, form);
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
    const struct input_row in = { .row = gpu_row(e, gpu_read(e->plan, g->input), group_token(e)),
                                  .norm = g->norm ? gpu_vector(e, g->norm->weight) : NULL,
                                  .eps = g->norm ? emit_float(e->arena, g->norm->attr.eps) : NULL,
                                  .cols = g->input->cols, .threads = e->kernel->param[PARAM_THREADS] };
    put_loads(e, &in, begin_weights);
    if (e->gg->needs_acts) put_form(e, &in, "lds()", e->kernel->param[PARAM_DIGITS], e->gg->sums16);
    if (e->gg->needs_floats) put_form(e, &in, floats_in_lds(e), 0, 0);
}

/* The weights of a run: one matrix followed by no_pair, or the two matrices of a pair. */
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

/* ---- decode, products with slices: the slices are known only after pdl_wait(), so only the norm's weights are loaded before it ---- */

static const char *const apart_name[] = { "SLICES_SHARED", "SLICES_APART", "SLICES_ALL" };

/* The number of columns with which a run calls its template. */
static uint32_t run_cols(const struct emitter *e, const struct gpu_run *r)
{
    return gpu_slices_of(e->group) == SLICES_SUM ? gpu_input_cols(e->group) : (uint32_t)r->weight->cols;
}

/* "id, used, apart" */
static const char *picks(struct emitter *e)
{
    const char *apart = gpu_slices_of(e->group) == SLICES_SUM ? "SLICES_APART" : apart_name[gpu_apart(e->group)];
    return arena_printf(e->arena, "%s, /* used */ %u, %s", e->group->choice ? "id" : "0", plan_slices(e->group), apart);
}

static void put_slices_row(struct emitter *e, const char *to, const char *row, uint32_t digits, uint32_t sums16)
{
    const struct group *g = e->group;
    const bool weighted = gpu_slices_of(g) == SLICES_SUM;
    gpu_put(e, "slices_to_lds(%s, %s, %s, /* weighted */ %u, /* cols */ %llu, /* pieces */ %u, /* digits */ %u, /* sums16 */ %u, %u);", to,
            row, weighted ? "share" : "0.0f", weighted, (ull)g->branches[0].matmul->weight->cols, plan_slices(g), digits, sums16,
            e->kernel->param[PARAM_THREADS]);
}

static void put_slices_input(struct emitter *e)
{
    const struct group *g = e->group;
    const struct gpu_run *r = &e->gg->runs[0];
    const char *t = group_token(e), *row = gpu_row(e, gpu_read(e->plan, g->input), t);
    const char *name = gpu_gemv_name(e->arena, e->kernel, r->weight);
    const struct input_row in = { .row = row, .norm = g->norm ? gpu_vector(e, g->norm->weight) : NULL,
                                  .eps = g->norm ? emit_float(e->arena, g->norm->attr.eps) : NULL,
                                  .cols = g->input->cols, .threads = e->kernel->param[PARAM_THREADS] };
    const bool apart = gpu_apart(g) != SLICES_SHARED, norm = g->norm && g->norm->op == OP_rmsnorm, row_ahead = !apart && (norm || !g->norm);
    if (row_ahead) gpu_put(e, "struct row_quads row%s;", norm ? ", norm_weight" : "");
    if (norm) put_norm_begin(e, &in);
    gpu_put(e, "pdl_wait();");
    const bool chooses = gpu_chooses(e->gg, e->kernel);
    if (chooses) {                                               /* meanwhile the row is being loaded */
        if (row_ahead) put_row_begin(e, &in);
        gpu_put_route_group(e, g->choice);
    }
    else if (g->choice) gpu_put(e, "const uint32_t id = picked_ids(%s, %u);", choice_row(e, t), g->choice->attr.used);
    if (gpu_slices_of(g) == SLICES_SUM)
        gpu_put(e, "const float share = picked_shares(%s, %s, %u);", choice_row(e, t), times_of_sum(e, &g->branches[0]),
                g->choice->attr.used);
    if (row_ahead && !chooses) put_row_begin(e, &in);
    gpu_put(e, "COMPILER_FENCE();");
    gpu_put(e, "gemv_begin_%s(&first, %s, %s, /* rows */ %llu, /* cols */ %u, slot);", name, weights_of(e, r, ", 0"), picks(e),
            (ull)r->rows, run_cols(e, r));
    gpu_put(e, "COMPILER_FENCE();");
    gpu_put(e, "mark(a);");
    for (uint32_t form = 0; form < 2; form++) {
        const uint32_t digits = form ? 0 : e->kernel->param[PARAM_DIGITS], sums16 = form ? 0 : e->gg->sums16;
        const char *to = form ? floats_in_lds(e) : "lds()";
        if (form ? !e->gg->needs_floats : !e->gg->needs_acts) continue;
        if (apart) put_slices_row(e, to, row, digits, sums16);
        else if (g->norm) put_form(e, &in, to, digits, sums16);
        else gpu_put(e, "row_to_lds(%s, &row, %s, /* cols */ %u, /* digits */ %u, /* sums16 */ %u, %u);", to, row, in.cols, digits, sums16,
                     in.threads);
    }
    if (chooses) gpu_put_route_keep(e, g->choice);
}

static void put_slices_run(struct emitter *e, const struct gpu_run *r, const struct rows_functions *f, bool first)
{
    const struct kernel *k = e->kernel;
    const bool pair = e->group->branches[r->first].partner >= 0;
    const char *x = gpu_takes_floats(r->weight) ? floats_in_lds(e) : "lds()";
    const char *call = arena_printf(e->arena, "%sgemv_%s%s", e->gg->n_runs > 1 ? "slot = " : "", pair ? "pair_" : "",
                                    gpu_gemv_name(e->arena, k, r->weight));
    const char *to = pair ? f->sink : arena_printf(e->arena, "%s, %s", f->addend ? f->addend : "/* addend */ 0", f->sink);
    const uint32_t slots = k->grid_x * k->param[PARAM_THREADS] / k->param[PARAM_LANES];
    gpu_put(e, "%s(a, %s, %s, %s, /* rows */ %llu, /* cols */ %u,", call, first ? "&first" : "0", weights_of(e, r, ""), picks(e),
            (ull)r->rows, run_cols(e, r));
    gpu_put(e, "    %s, /* digits */ %u, slot, /* stride */ %u, %s);", x, k->param[PARAM_DIGITS], slots, to);
}

static void put_slices_gemv(struct emitter *e)
{
    struct rows_functions functions[MAX_BRANCHES];
    for (uint32_t i = 0; i < e->gg->n_runs; i++) functions[i] = put_rows_functions(e, &e->gg->runs[i]);
    gpu_put(e, "pdl_launch();");
    gpu_put_idle(e);
    gpu_put(e, "uint32_t slot = gemv_slot(/* groups */ %u, /* lanes */ %u);", e->kernel->grid_x, e->kernel->param[PARAM_LANES]);
    gpu_put(e, "struct first_%s first;", gpu_gemv_name(e->arena, e->kernel, e->gg->runs[0].weight));
    put_slices_input(e);
    for (uint32_t i = 0; i < e->gg->n_runs; i++) put_slices_run(e, &e->gg->runs[i], &functions[i], i == 0);
}

void gpu_put_gemv(struct emitter *e)
{
    if (e->group->kind == GROUP_SLICES) { put_slices_gemv(e); return; }
    struct rows_functions functions[MAX_BRANCHES];
    for (uint32_t i = 0; i < e->gg->n_runs; i++) functions[i] = put_rows_functions(e, &e->gg->runs[i]);
    gpu_put(e, "pdl_launch();");
    gpu_put_idle(e);
    gpu_put(e, "uint32_t slot = gemv_slot(/* groups */ %u, /* lanes */ %u);", e->kernel->grid_x, e->kernel->param[PARAM_LANES]);
    put_first_weights(e, &e->gg->runs[0]);
    for (uint32_t i = 0; i < e->gg->n_runs; i++) put_gemv_run(e, &e->gg->runs[i], &functions[i], i == 0);
}

/* ---- a few tokens at once ---- */

/* Writes row t of the input to LDS in one form; digits 0: f32. */
static void put_column(struct emitter *e, const char *to, uint32_t digits)
{
    const struct group *g = e->group;
    const char *row = gpu_row(e, gpu_read(e->plan, g->input), "t");
    const uint32_t cols = g->input->cols, threads = e->kernel->param[PARAM_THREADS], sums16 = digits ? e->gg->sums16 : 0;
    const char *form = arena_printf(e->arena, "/* digits */ %u, /* sums16 */ %u, %u", digits, sums16, threads);
    if (!g->norm) gpu_put(e, "acts_of_row(%s, %s, /* cols */ %u, %s);", to, row, cols, form);
    else
        gpu_put(e, "%s(%s, %s, %s, /* cols */ %u, %s, %s);", g->norm->op == OP_layernorm ? "layernorm_to_lds" : "acts_of_norm", to, row,
                gpu_vector(e, g->norm->weight), cols, emit_float(e->arena, g->norm->attr.eps), form);
}

static void put_columns_input(struct emitter *e, uint32_t row_bytes)
{
    const uint32_t columns = e->kernel->param[PARAM_COLUMNS];
    const char *name = gpu_gemv_name(e->arena, e->kernel, e->gg->runs[0].weight);
    const char *begin = arena_printf(e->arena, "gemv_begin_%s(&first, %s, /* rows */ %llu, /* cols */ %u, slot);", name,
                                     weights_of(e, &e->gg->runs[0], ", 0"), (ull)e->gg->runs[0].rows, e->group->input->cols);
    gpu_put(e, "struct first_%s first;", name);
    if (e->plan->target->dependent_launch) gpu_put(e, "%s", begin);
    gpu_put(e, "pdl_wait();");
    gpu_put(e, "const uint32_t t0 = first_token(a) + group_y() * %u, left = a.step->n_tokens - t0, n = left < %u ? left : %u;", columns,
            columns, columns);
    gpu_put(e, "mark(a);");
    gpu_put(e, "for (uint32_t t = t0; t < t0 + n; t++) {");
    if (e->gg->needs_acts) put_column(e, arena_printf(e->arena, "lds() + (t - t0) * %u", row_bytes), e->kernel->param[PARAM_DIGITS]);
    if (e->gg->needs_floats)
        put_column(e, arena_printf(e->arena, "lds() + (t - t0) * %u + %llu", row_bytes, (ull)e->gg->floats_at), 0);
    gpu_put(e, "}");
    if (e->gg->needs_acts) gpu_put(e, "const struct gemv_columns acts = { lds(), %u, t0, n };", row_bytes);
    if (e->gg->needs_floats) gpu_put(e, "const struct gemv_columns floats = { %s, %u, t0, n };", floats_in_lds(e), row_bytes);
    if (!e->plan->target->dependent_launch) gpu_put(e, "%s", begin);
}

static void put_columns_run(struct emitter *e, const struct gpu_run *r, const struct rows_functions *f, bool first)
{
    const struct kernel *k = e->kernel;
    const bool pair = e->group->branches[r->first].partner >= 0;
    const uint32_t slots = k->grid_x * k->param[PARAM_THREADS] / k->param[PARAM_LANES];
    const char *to = pair ? f->sink : arena_printf(e->arena, "%s, %s", f->addend ? f->addend : "/* addend */ 0", f->sink);
    gpu_put(e, "%sgemv_%s%s(a, %s, %s, /* rows */ %llu, /* cols */ %u,", e->gg->n_runs > 1 ? "slot = " : "", pair ? "pair_" : "",
            gpu_gemv_name(e->arena, k, r->weight), first ? "&first" : "0", weights_of(e, r, ""), (ull)r->rows, e->group->input->cols);
    gpu_put(e, "    &%s, /* digits */ %u, slot, /* stride */ %u, %s);", gpu_takes_floats(r->weight) ? "floats" : "acts",
            k->param[PARAM_DIGITS], slots, to);
}

void gpu_put_gemv_columns(struct emitter *e)
{
    struct rows_functions functions[MAX_BRANCHES];
    const uint32_t row_bytes = e->kernel->lds_bytes / e->kernel->param[PARAM_COLUMNS];
    for (uint32_t i = 0; i < e->gg->n_runs; i++) functions[i] = put_rows_functions(e, &e->gg->runs[i]);
    gpu_put(e, "pdl_launch();");
    gpu_put_idle(e);
    gpu_put(e, "uint32_t slot = gemv_slot(/* groups */ %u, /* lanes */ %u);", e->kernel->grid_x, e->kernel->param[PARAM_LANES]);
    put_columns_input(e, row_bytes);
    for (uint32_t i = 0; i < e->gg->n_runs; i++) put_columns_run(e, &e->gg->runs[i], &functions[i], i == 0);
}

/* ---- a few tokens at once on the matrix unit ---- */

static const char *matrix_begin(struct emitter *e, const struct gpu_run *r)
{
    return arena_printf(e->arena, "gemv_begin_%s(&ahead, &k, %s, /* rows */ %llu, /* cols */ %u, slot);",
                        gpu_gemv_matrix_name(e->arena, e->kernel, r->weight), weights_of(e, r, ", 0"), (ull)r->rows, e->group->input->cols);
}

static void put_matrix_input(struct emitter *e)
{
    const struct group *g = e->group;
    const struct kernel *k = e->kernel;
    const struct gpu_place x = gpu_read(e->plan, g->input);
    const uint32_t columns = k->param[PARAM_COLUMNS];
    const struct matrix_lds l = gpu_matrix_lds(e->plan, g, k);
    gpu_put(e, "const uint32_t t0 = first_token(a) + group_y() * %u, left = a.step->n_tokens - t0, n = left < %u ? left : %u;", columns,
            columns, columns);
    gpu_put(e, "mark(a);");
    gpu_put(e, "columns_to_lds(%llu, (const uint8_t *)(const void *)%s, STRIDE_%s, n, /* norm */ %u, %s, /* cols */ %u, %s,",
            (ull)l.x_bytes, gpu_row(e, x, "t0"), x.symbol, g->norm != NULL, g->norm ? gpu_vector(e, g->norm->weight) : "0", g->input->cols,
            g->norm ? emit_float(e->arena, g->norm->attr.eps) : "0.0f");
    gpu_put(e, "    /* digits */ %u, /* sums16 */ %u, /* columns */ %u, /* lanes */ %u, k.ranks, group_x() %% k.ranks, %u);",
            k->param[PARAM_DIGITS], e->gg->sums16, columns, k->param[PARAM_LANES], k->param[PARAM_THREADS]);
}

void gpu_put_gemv_matrix(struct emitter *e)
{
    const struct kernel *k = e->kernel;
    const struct matrix_lds l = gpu_matrix_lds(e->plan, e->group, k);
    const uint32_t cluster = k->param[PARAM_CLUSTER];
    struct rows_functions functions[MAX_BRANCHES];
    for (uint32_t i = 0; i < e->gg->n_runs; i++) functions[i] = put_rows_functions(e, &e->gg->runs[i]);
    gpu_put(e, "pdl_launch();");
    gpu_put(e, "const struct gemv_matrix k = { /* groups */ %u, /* threads */ %u, /* ranks */ %u, /* lanes */ %u, "
            "/* LDS */ %llu, %llu, %llu, %llu, %llu };", k->grid_x, k->param[PARAM_THREADS], cluster ? cluster : 1,
            k->param[PARAM_LANES], (ull)l.x_bytes, (ull)l.parts_at, (ull)l.exchange_at, (ull)l.ring_at, (ull)l.ring_bytes);
    gpu_put(e, "uint32_t slot = gemv_matrix_slot(&k);");
    gpu_put(e, "struct gemv_ahead ahead = gemv_matrix_start(&k);");
    gpu_put(e, "%s", matrix_begin(e, &e->gg->runs[0]));
    gpu_put(e, "pdl_wait();");
    put_matrix_input(e);
    for (uint32_t i = 0; i < e->gg->n_runs; i++) {
        const struct gpu_run *r = &e->gg->runs[i];
        const bool pair = e->group->branches[r->first].partner >= 0;
        const struct rows_functions *f = &functions[i];
        const char *to = pair ? f->sink : arena_printf(e->arena, "%s, %s", f->addend ? f->addend : "/* addend */ 0", f->sink);
        if (i) gpu_put(e, "%s", matrix_begin(e, r));
        gpu_put(e, "%sgemv_%s%s(a, &ahead, &k, %s, /* rows */ %llu, /* cols */ %u, /* digits */ %u, t0, n, slot,",
                e->gg->n_runs > 1 ? "slot = " : "", pair ? "pair_" : "", gpu_gemv_matrix_name(e->arena, k, r->weight), weights_of(e, r, ""),
                (ull)r->rows, e->group->input->cols, k->param[PARAM_DIGITS]);
        gpu_put(e, "    %s);", to);
    }
}

/* ---- prefill ---- */

void gpu_put_stage(struct emitter *e, bool bf16)
{
    const struct group *g = e->group;
    const struct gpu_place to = gpu_stage(e->plan, g, bf16);
    gpu_put_token(e);
    if (g->kind == GROUP_SLICES && plan_reads_pieces(g->branches[0].matmul)) {
        const uint64_t cols = g->branches[0].matmul->weight->cols;
        gpu_put(e, "stage_rows(ROW(AT_%s, STRIDE_%s, t) + group_x() * %llu, %s + group_x() * %llu, 0,", to.symbol, to.symbol,
                2ull * plan_align(cols, 64), gpu_row(e, gpu_read(e->plan, g->input), "t"), (ull)cols);
        gpu_put(e, "    /* cols */ %llu, 0.0f, /* norm */ 0, /* bf16 */ %u, %u);", (ull)cols, bf16, e->kernel->param[PARAM_THREADS]);
        return;
    }
    if (g->norm && g->norm->op == OP_layernorm) {
        gpu_put(e, "stage_layernorm(ROW(AT_%s, STRIDE_%s, t), %s, %s, /* cols */ %u, %s, /* bf16 */ %u, %u);", to.symbol, to.symbol,
                gpu_row(e, gpu_read(e->plan, g->input), "t"), gpu_vector(e, g->norm->weight), g->input->cols,
                emit_float(e->arena, g->norm->attr.eps), bf16, e->kernel->param[PARAM_THREADS]);
        return;
    }
    gpu_put(e, "stage_rows(ROW(AT_%s, STRIDE_%s, t), %s, %s, /* cols */ %u, %s, /* norm */ %u, /* bf16 */ %u, %u);", to.symbol, to.symbol,
        gpu_row(e, gpu_read(e->plan, g->input), "t"), g->norm ? gpu_vector(e, g->norm->weight) : "0", g->input->cols,
        emit_float(e->arena, g->norm ? g->norm->attr.eps : 0), g->norm != NULL, bf16, e->kernel->param[PARAM_THREADS]);
}

/* Arguments: the number of entries of each expert's matrix, and the entries. */
static const char *picked_by(struct emitter *e)
{
    if (!e->group->choice) return "/* picked */ 0, 0, 0";
    const struct gpu_group *choice = &e->plan->gpu->groups[fuse_group(e->plan->fused, e->group->choice)];
    return arena_printf(e->arena,
                        "/* picked */ (const uint32_t *)(const void *)BUFFER(AT_%s), (const uint32_t *)(const void *)BUFFER(AT_%s), %u",
                        choice->n_picked.symbol, choice->picked.symbol, choice->picked.cols);
}

/* Tiles of rows are numbered through all runs; those of this run begin with tile0. */
static void put_gemm_run(struct emitter *e, const struct gpu_run *r, const char *sink, const char *when, uint32_t tile0)
{
    const struct gpu_place x = gpu_stage(e->plan, e->group, gpu_takes_bf16(r->weight));
    const bool pair = e->group->branches[r->first].partner >= 0;
    const char *tile = tile0 ? arena_printf(e->arena, "tile - %u", tile0) : "tile";
    const char *rows = arena_printf(e->arena, "BUFFER(AT_%s), STRIDE_%s", x.symbol, x.symbol);
    if (e->group->kind == GROUP_SLICES) {
        const bool apart = gpu_apart(e->group) != SLICES_SHARED;
        const uint32_t slices = plan_slices(e->group);
        if (apart) rows = arena_printf(e->arena, "%s / %u", rows, slices);
        gpu_put(e, "%sgemm_%s%s(a, %s, /* rows */ %llu, /* cols */ %llu, %s, /* slices */ %u, /* shared */ %u,", when, pair ? "pair_" : "",
                gpu_gemm_name(e->arena, e->kernel, r->weight), weights_of(e, r, ""), (ull)r->rows, (ull)r->weight->cols, rows, slices,
                !apart);
        gpu_put(e, "    %s, %s, t0, a.step->n_tokens, %s);", picked_by(e), tile, sink);
        return;
    }
    gpu_put(e, "%sgemm_%s%s(a, %s, /* rows */ %llu, /* cols */ %u, %s, %s, t0, a.step->n_tokens, %s);", when, pair ? "pair_" : "",
            gpu_gemm_name(e->arena, e->kernel, r->weight),
        weights_of(e, r, ""), (ull)r->rows, e->group->input->cols, rows, tile, sink);
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
        const uint32_t next = tile + (uint32_t)gemm_part_tiles(&part, e->kernel->param[PARAM_ROWS]) * gpu_matrices(e->group);
        const char *otherwise = i ? "else " : "";
        put_gemm_run(e, r, functions[i].sink, n == 1 ? ""
                                                   : i + 1 < n ? arena_printf(e->arena, "%sif (tile < %u) ", otherwise, next)
                                                   : otherwise, tile);
        tile = next;
    }
}
