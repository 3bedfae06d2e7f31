/* put_products.c -- products of matrices and a row: the row's form in workgroup memory, then the runs of rows; each result goes through the
 * operations of its branch. */
#include "put.h"
#include "templates/gpu/slices_sizes.h"

/* The operations on row r of a branch, and its store. In scope: t, row, y, and with a partner up. */
static void put_branch(struct wgsl_writer *w, const struct branch *b)
{
    const uint32_t sum = gpu_sum_at(b);
    if (b->partner >= 0) web_put_partner(w, &w->group->branches[b->partner]);
    web_put_chain(w, b, 0, sum);
    if (sum == b->n_chain) web_put_result(w, b->result);
    else web_put(w, "arena_put(%s + r, y);", web_row(w, web_place_in(b->chain[sum]->inputs[0], &w->wg->rows), "t"));
}

/* name + add - less as an expression: "row + 128u" or "row - 128u". */
static const char *moved(struct wgsl_writer *w, const char *name, uint64_t add, uint64_t less)
{
    if (add == less) return name;
    return arena_printf(w->arena, "%s %c %lluu", name, add > less ? '+' : '-', (unsigned long long)(add > less ? add - less : less - add));
}

/* The function that gets the rows of part i. The rows of the run's branches are contiguous in the part. */
static void put_store(struct wgsl_writer *w, uint32_t i)
{
    const struct web_part *part = &w->wg->parts[i];
    const struct gpu_run *run = &w->wg->runs[part->run];
    const bool pair = w->group->branches[run->first].partner >= 0, slices = w->group->kind == GROUP_SLICES,
               tiles = w->kernel->template == TEMPLATE_gemm;
    const struct text outer = web_function_begin(w);
    uint64_t first = 0;                                      /* the branch's first row in the part */
    if (tiles && slices) {
        web_put(w, "let item = grouped_item(%uu, grouped_first + token);", (uint32_t)(w->wg->list.offset / 4));
        web_put(w, "let t = item / %uu;", w->group->choice->attr.used);
    }
    else if (tiles) web_put(w, "let t = token + forge_token(0u);");
    else web_put(w, "let t = of_token;");
    for (uint32_t k = run->first; k < run->last; k++) {
        const struct branch *b = &w->group->branches[k];
        const struct web_rows rows = web_part_rows(w->group, run, part, k);
        const uint64_t end = first + rows.n;
        const bool last = slices || end == part->n;
        if (!rows.n) continue;
        if (!last) web_put(w, "if (row < %lluu) {", (unsigned long long)end);
        web_put(w, "let r = %s;", slices && tiles ? arena_printf(w->arena, "row + item %% %uu * %lluu", w->group->choice->attr.used,
                                                                   (unsigned long long)run->rows)
                : slices ? "row + slice_first" : moved(w, "row", rows.first, first));
        web_put(w, "var y = first;");
        if (pair) web_put(w, "var up = second;");
        put_branch(w, b);
        if (!last) {
            web_put(w, "return;");
            web_put(w, "}");
        }
        first = end;
    }
    web_function_end(w, outer, arena_printf(w->arena, "store_s%u(row: u32%s, first: f32%s)", i, tiles ? ", token: u32" : "",
                                            pair ? ", second: f32" : ""));
}

/* Writes the input to workgroup memory in the form that the products read. */
static void put_input(struct wgsl_writer *w, const char *at, uint32_t cols)
{
    const struct node *norm = web_norms(w->plan, w->group) ? w->group->norm : NULL;
    const char *behind = norm ? arena_printf(w->arena, "%s, %uu, %s, thread", web_vector(w, norm->weight), cols,
                                             web_float(w, norm->attr.eps)) : arena_printf(w->arena, "%uu, thread", cols);
    web_use(w, "acts.wgsl", (struct web_words){ .weights = "vectors" });
    web_constant(w, "ACTS_UNITS", (cols + 63) / 64);
    if (w->wg->ints) web_put(w, "acts_of_%s(%s, %s);", norm ? "norm_vectors" : "row", at, behind);
    if (w->wg->from_arena) {
        text_puts(&w->functions, "var<private> input_at: u32;\n");
        text_printf(&w->functions, "fn floats_at(quad: u32) -> vec4f { return row_quad(input_at, quad, %uu); }\n", cols);
        web_put(w, "input_at = %s;", at);
    }
    else if (w->wg->floats) {
        text_puts(&w->functions, "fn floats_at(quad: u32) -> vec4f { return acts_floats[quad]; }\n");
        web_put(w, "floats_of_%s(%s, %s);", norm ? "norm_vectors" : "row", at, behind);
    }
}

/* Names for part i in a template. pair: "2" if it is a pair, else ""; name: end of the names of its functions; weights, up: bindings of its
 * matrices, up NULL if it is not a pair; rows: of the part, or of one matrix of a stack. */
struct product { const char *format, *pair, *name, *weights, *up; unsigned long long rows, cols; bool floats; };

static struct product use_product(struct wgsl_writer *w, uint32_t i, const char *template)
{
    const struct web_part *part = &w->wg->parts[i];
    const struct gpu_run *run = &w->wg->runs[part->run];
    const struct weight *up = web_part_weight(w->plan, w->group, part, true);
    const char *format = run->weight->tensor->quant->file, *file = arena_printf(w->arena, "formats/%s.wgsl", format);
    const struct web_words words = { .format = format, .weights = web_matrix(w, part, run->weight),
                                     .pair = up ? web_matrix(w, part, up) : NULL, .sink = arena_printf(w->arena, "s%u", i) };
    web_use(w, file, words);
    if (up) web_use(w, file, (struct web_words){ .format = format, .weights = words.pair });
    web_use(w, template, words);
    if (w->group->kind == GROUP_SLICES) web_use(w, "slices.wgsl", words);
    return (struct product){ .format = format, .pair = up ? "2" : "", .weights = words.weights, .up = words.pair,
                             .rows = w->group->kind == GROUP_SLICES ? run->rows : part->n, .cols = run->weight->cols,
                             .floats = gpu_takes_floats(run->weight) || w->plan->options.exact,
                             .name = arena_printf(w->arena, "%s_%s%s%s_%s", format, words.weights, up ? "_" : "", up ? words.pair : "",
                                                  words.sink) };
}

/* Does the part have only some of the matrices of a stack? */
static bool has_some(const struct wgsl_writer *w, const struct web_part *part)
{
    return w->group->kind == GROUP_SLICES && !web_part_is_whole(w->plan, w->group, part);
}

/* The piece of the part where the matrix begins; with slices, the matrix of `expert`. */
static const char *matrix_at(struct wgsl_writer *w, const struct web_part *part, const struct product *r)
{
    const char *expert = !part->first ? "expert" : arena_printf(w->arena, "(expert - %lluu)", (unsigned long long)part->first);
    if (w->group->kind != GROUP_SLICES) return "0u";
    return arena_printf(w->arena, "%s * slice_pieces_%s(%lluu, %lluu)", expert, r->format, r->rows, r->cols);
}

static void put_some(struct wgsl_writer *w, const struct web_part *part)
{
    web_put(w, "if (expert >= %lluu && expert < %lluu) {", (unsigned long long)part->first, (unsigned long long)(part->first + part->n));
}

/* Loads the first weights of a matrix of the product ahead of time, for gemv.wgsl. Expressions: at, the piece where the matrix begins;
 * group, the number of the workgroup. */
static const char *ahead_of(struct wgsl_writer *w, const struct product *r, const char *matrix, const char *at, const char *group)
{
    return arena_printf(w->arena, "rows_ahead_%s_%s(%s, %lluu, %lluu, rows_first(%s), thread)", r->format, matrix, at, r->rows, r->cols,
                        group);
}

/* The number that this workgroup has in a part's product. Workgroups that got one run less in the products before it come first. */
static const char *part_group(struct wgsl_writer *w, uint64_t dealt)
{
    const uint32_t groups = w->kernel->grid_x, less = (uint32_t)(dealt % groups);
    return less ? arena_printf(w->arena, "(group.x + %uu) %% groups.x", groups - less) : "group.x";
}

/* Loads the first weights of the first product before the input is ready. */
static void put_ahead(struct wgsl_writer *w, uint32_t i)
{
    const struct web_part *part = &w->wg->parts[i];
    const struct product r = use_product(w, i, "gemv.wgsl");
    const char *at = matrix_at(w, part, &r);
    web_put(w, "let ahead = %s;", ahead_of(w, &r, r.weights, at, "group.x"));
    if (r.up) web_put(w, "let ahead_up = %s;", ahead_of(w, &r, r.up, at, "group.x"));
}

/* The product of part i. dealt: runs of rows that the workgroups got in the products before it; is_ahead: put_ahead() has loaded its first
 * weights. */
static void put_part(struct wgsl_writer *w, uint32_t i, uint64_t dealt, bool is_ahead)
{
    const struct web_part *part = &w->wg->parts[i];
    const struct product r = use_product(w, i, "gemv.wgsl");
    if (r.up) web_use(w, "gemv.wgsl", (struct web_words){ .format = r.format, .weights = r.up });        /* its rows_ahead */
    const bool some = has_some(w, part);
    const char *at = matrix_at(w, part, &r), *group = part_group(w, dealt);
    put_store(w, i);
    if (some) put_some(w, part);
    web_put(w, "gemv%s%s_%s(%s, %s%s%s%s%s, %lluu, %lluu, %s, groups.x, thread);", r.floats ? "f" : "", r.pair, r.name,
            is_ahead ? "ahead" : ahead_of(w, &r, r.weights, at, group),
            !r.up ? "" : is_ahead ? "ahead_up" : ahead_of(w, &r, r.up, at, group), r.up ? ", " : "", at, r.up ? ", " : "", r.up ? at : "",
            r.rows, r.cols, group);
    if (some) web_put(w, "}");
}

/* Declares the matrix (`expert`) and the first row of the workgroup's slice of the token. Returns the place of the slice's input. */
static const char *put_slice(struct wgsl_writer *w, const char *at, uint32_t cols)
{
    const struct group *g = w->group;
    const struct gpu_run *run = &w->wg->runs[0];
    web_use(w, "slices.wgsl", (struct web_words){ .sink = arena_printf(w->arena, "s%u", web_next_part(w, 0)) });
    if (g->choice) web_put(w, "let expert = slice_expert(%s, %uu, group.z, thread);", web_value(w, g->choice, "t"), g->choice->attr.used);
    else web_put(w, "let expert = group.z;");
    web_put(w, "slice_first = group.z * %lluu;", (unsigned long long)run->rows);
    return gpu_apart(g) == SLICES_SHARED ? at : arena_printf(w->arena, "%s + group.z * %uu", at, cols);
}

void web_put_gemv(struct wgsl_writer *w)
{
    const struct group *g = w->group;
    const char *at = web_row(w, web_input(w->plan, g), "t");
    const uint32_t cols = (uint32_t)g->branches[0].matmul->weight->cols;
    web_constant(w, "LANES", w->kernel->param[PARAM_LANES]);
    web_constant(w, "ROWS", w->kernel->param[PARAM_ROWS]);
    text_printf(&w->head, "const RAGGED = %s;\n", (cols + 63) / 64 % w->kernel->param[PARAM_LANES] ? "true" : "false");
    text_puts(&w->functions, "var<private> of_token: u32;\n");
    web_put(w, "of_token = t;");
    if (g->kind == GROUP_SLICES) at = put_slice(w, at, cols);
    const uint32_t *param = w->kernel->param, first = web_next_part(w, 0),
                   each = param[PARAM_THREADS] / param[PARAM_LANES] * param[PARAM_ROWS];
    const bool is_ahead = !has_some(w, &w->wg->parts[first]);
    uint64_t dealt = 0;
    if (is_ahead) put_ahead(w, first);
    put_input(w, at, cols);
    for (uint32_t i = first; i < w->wg->n_parts; i = web_next_part(w, i + 1)) {
        put_part(w, i, dealt, i == first && is_ahead);
        if (g->kind != GROUP_SLICES) dealt += (w->wg->parts[i].n + each - 1) / each;
    }
}

/* ---- prefill ---- */

static void use_list(struct wgsl_writer *w)
{
    web_use(w, "grouped.wgsl", (struct web_words){ 0 });
    web_constant(w, "EXPERTS", gpu_matrices(w->group));
}

void web_put_list(struct wgsl_writer *w)
{
    const struct node *choice = w->group->choice;
    const struct web_place at = web_place_of(w->plan, choice);
    use_list(w);
    web_put(w, "grouped_sort(%uu, %uu, %uu, %uu, forge_token(0u), step.n_tokens, thread);", (uint32_t)(w->wg->list.offset / 4),
            (uint32_t)(at.offset / 4), (uint32_t)(at.stride / 4), choice->attr.used);
}

/* Stages the rows of the list's items, so that the rows of an expert are contiguous. */
static void put_stage_grouped(struct wgsl_writer *w)
{
    const struct group *g = w->group;
    const struct node *norm = web_norms(w->plan, g) ? g->norm : NULL;
    const uint32_t used = g->choice->attr.used, cols = (uint32_t)g->branches[0].matmul->weight->cols,
                   out = (uint32_t)(w->wg->staged.offset / 4), stride = used * w->plan->chunk;
    const char *at = web_row(w, web_input(w->plan, g), arena_printf(w->arena, "(item / %uu)", used));
    web_use(w, "stage.wgsl", (struct web_words){ .weights = "vectors" });
    use_list(w);
    web_put(w, "let item = grouped_item(%uu, group.y * %uu + group.z);", (uint32_t)(w->wg->list.offset / 4), used);
    if (gpu_apart(g) != SLICES_SHARED) at = arena_printf(w->arena, "%s + item %% %uu * %uu", at, used, cols);
    if (norm)
        web_put(w, "stage_norm_vectors(%s, %s, %uu, %s, %uu, group.y * %uu + group.z, %uu, thread);", at, web_vector(w, norm->weight), cols,
                web_float(w, norm->attr.eps), out, used, stride);
    else web_put(w, "stage_row(%s, %uu, %uu, group.y * %uu + group.z, %uu, thread);", at, cols, out, used, stride);
}

void web_put_stage(struct wgsl_writer *w)
{
    const struct node *norm = web_norms(w->plan, w->group) ? w->group->norm : NULL;
    const char *at = web_row(w, web_input(w->plan, w->group), "t");
    const uint32_t cols = w->group->input->cols;
    if (w->wg->list.exists) {
        put_stage_grouped(w);
        return;
    }
    web_use(w, "stage.wgsl", (struct web_words){ .weights = "vectors" });
    const char *with = norm ? arena_printf(w->arena, "%s, %uu, %s", web_vector(w, norm->weight), cols, web_float(w, norm->attr.eps)) : NULL;
    if (w->wg->staged.exists) {
        const uint32_t out = (uint32_t)(w->wg->staged.offset / 4);
        if (norm) web_put(w, "stage_norm_vectors(%s, %s, %uu, group.y, %uu, thread);", at, with, out, w->plan->chunk);
        else web_put(w, "stage_row(%s, %uu, %uu, group.y, %uu, thread);", at, cols, out, w->plan->chunk);
    }
    if (w->wg->rows_in.exists)
        web_put(w, "stagef_norm_vectors(%s, %s, %s, thread);", at, with,
                web_row(w, web_place_in(w->group->input, &w->wg->rows_in), "group.y"));
}

static void put_tiles(struct wgsl_writer *w, uint32_t i, uint32_t first_tile)
{
    const struct product r = use_product(w, i, "gemm.wgsl");
    const struct web_place x = web_input_floats(w->plan, w->group), staged = web_place_in(w->group->input, &w->wg->staged);
    put_store(w, i);
    /* f32 rows that are read in place begin with the step's first token, staged rows with the first token that the launch computes */
    const char *input = !r.floats ? arena_printf(w->arena, "%uu, %uu", (uint32_t)(staged.offset / 4), w->plan->chunk)
        : w->wg->rows_in.exists ? arena_printf(w->arena, "%uu, %uu", (uint32_t)(x.offset / 4), (uint32_t)(x.stride / 4))
        : arena_printf(w->arena, "%s, %uu", web_row(w, x, "forge_token(0u)"), (uint32_t)(x.stride / 4));
    web_put(w, "gemm%s%s_%s(0u, %s%lluu, %lluu, %s, tokens, rows%s, tile %% groups.y, thread);", r.floats ? "f" : "", r.pair, r.name,
            *r.pair ? "0u, " : "", r.rows, r.cols, input, first_tile ? arena_printf(w->arena, " - %uu", first_tile) : "");
}

/* The tiles for the list's items of expert group.z. */
static void put_gemm_grouped(struct wgsl_writer *w)
{
    const uint32_t used = w->group->choice->attr.used, staged = (uint32_t)(w->wg->staged.offset / 4);
    use_list(w);
    web_put(w, "let expert = group.z;");
    web_put(w, "let range = grouped_items(%uu, expert, thread);", (uint32_t)(w->wg->list.offset / 4));
    web_put(w, "grouped_first = range.x;");
    web_put(w, "let tile = group.x + group.y * groups.x;");
    for (uint32_t i = web_next_part(w, 0); i < w->wg->n_parts; i = web_next_part(w, i + 1)) {
        const struct web_part *part = &w->wg->parts[i];
        const struct product r = use_product(w, i, "gemm.wgsl");
        const char *at = matrix_at(w, part, &r);
        put_store(w, i);
        if (has_some(w, part)) put_some(w, part);
        web_put(w, "gemm%s_%s(%s, %s%s%lluu, %lluu, staged_at(%uu, 0u, range.x, 0u, 0u), %uu, range.y - range.x, tile / groups.y, "
                   "tile %% groups.y, thread);", r.pair, r.name, at, *r.pair ? at : "", *r.pair ? ", " : "", r.rows, r.cols, staged,
                used * w->plan->chunk);
        if (has_some(w, part)) web_put(w, "}");
    }
}

void web_put_gemm(struct wgsl_writer *w)
{
    uint32_t first = 0;
    if (w->wg->list.exists) {
        put_gemm_grouped(w);
        return;
    }
    web_put(w, "let tokens = step.n_tokens - forge_token(0u);");
    web_put(w, "let tile = group.x + group.y * groups.x;");              /* neighbouring workgroups have the same rows */
    web_put(w, "let rows = tile / groups.y;");
    for (uint32_t i = web_next_part(w, 0), next; i < w->wg->n_parts; i = next) {
        const uint32_t end = first + web_tiles(w->plan, w->group, &w->wg->parts[i]);
        next = web_next_part(w, i + 1);
        const bool last = next == w->wg->n_parts;
        if (!last) web_put(w, "if (rows < %uu) {", end);
        put_tiles(w, i, first);
        if (!last) {
            web_put(w, "return;");
            web_put(w, "}");
        }
        first = end;
    }
}
