/* kernels.c -- group -> kernel text and launches.  A group becomes one kernel in decode; in prefill a product's input is first brought
 * into the 16-bit form the matrix units read, and what works on whole heads follows in a kernel of its own. */
#include "kernels.h"
#include "compiler/source/text.h"
#include "tiles.h"
#include "templates/gpu/attention_prefill_sizes.h"
#include "templates/gpu/attention_sizes.h"
#include "templates/gpu/gemv_sizes.h"
#include "templates/gpu/sample_sizes.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long long ull;

struct gpu_function { const char *name, *body; };

struct emitter {
    struct arena           *arena;
    const struct plan      *plan;
    const struct model     *model;
    const struct profile   *profile;
    struct gpu_kernels     *out;
    struct gpu_function    *functions;
    uint32_t                n_functions;
    /* of the group at hand */
    const struct group     *group;
    const struct gpu_group *gg;
    uint32_t                index;
    bool                    prefill, tail;
    struct text             body, note;
    struct gpu_launch       launch;
    uint32_t                depth;
};

/* ---- small pieces ---- */

static uint32_t slot_at(struct emitter *e, uint64_t offset)
{
    for (uint32_t i = 0; i < e->launch.n_weights; i++) if (e->launch.weights[i] == offset) return i;
    if (e->launch.n_weights == COUNT_OF(e->launch.weights))
        die("kernel %s reads more than %zu tensors; this is a mistake in forgec, please report it (--fuse none may avoid it)", e->group->name, COUNT_OF(e->launch.weights));
    e->launch.weights[e->launch.n_weights] = offset;
    return e->launch.n_weights++;
}
static uint32_t slot_of(struct emitter *e, const struct weight *w) { return slot_at(e, e->plan->weight_offset[w->index]); }
static const char *vector_of(struct emitter *e, const struct weight *w) { return w ? arena_printf(e->arena, "VECTOR(%u)", slot_of(e, w)) : "0"; }
static const char *format_file(const struct weight *w) { return w->tensor->quant->file; }
static bool is_float(const struct weight *w) { return w->tensor->quant->block_weights == 1; }
static bool is_bf16(const struct weight *w) { return w->tensor->quant->id == QUANT_BF16; }

/* One line of the body, indented; a line that ends in "{" opens a level, one that begins with "}" closes it. */
static void put(struct emitter *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void put(struct emitter *e, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    emit_line(&e->body, &e->depth, e->group->name, fmt, args);
    va_end(args);
}

static const char *row_at(struct emitter *e, const struct buffer *b, const char *t)
{
    return arena_printf(e->arena, "FLOAT_ROW(%llu, %llu, %s)", (ull)b->offset, (ull)b->stride, t);
}

/* The finished row of token t.  Logits, the graph's output, lie apart from the other values, their rows counted from the first token that has them; keys and values
 * that go into the cache have none: "". */
static const char *value_row(struct emitter *e, const struct node *n)
{
    if (n == e->plan->fused->graph->output)
        return arena_printf(e->arena, "FLOAT_ROW(%llu, %llu, t - first_token(a))", (ull)e->plan->gpu->logits, (ull)e->model->n_vocab * 4);
    const struct buffer *b = &e->plan->f32[n->index];
    return b->exists ? row_at(e, b, "t") : "";
}

/* ---- functions and kernels, each text once ---- */

static bool name_taken(const struct emitter *e, const char *name)
{
    for (uint32_t i = 0; i < e->n_functions; i++) if (strcmp(e->functions[i].name, name) == 0) return true;
    for (uint32_t i = 0; i < e->out->n_kernels; i++) if (strcmp(e->out->kernels[i].name, name) == 0) return true;
    return false;
}

static const char *free_name(struct emitter *e, const char *name)
{
    const char *s = name;
    for (uint32_t n = 2; name_taken(e, s); n++) s = arena_printf(e->arena, "%s_%u", name, n);
    return s;
}

static void begin_body(struct emitter *e)
{
    e->body = (struct text){ .arena = e->arena };
    e->depth = 1;
}

/* DEVICE type NAME(parameters) { body }: the name of it, or of the same text under another name. */
static const char *function(struct emitter *e, const char *name, const char *type, const char *parameters)
{
    const char *body = arena_printf(e->arena, "(%s)\n{\n%s}\n\n", parameters, text_str(&e->body));
    for (uint32_t i = 0; i < e->n_functions; i++) if (strcmp(e->functions[i].body, body) == 0) return e->functions[i].name;
    name = free_name(e, name);
    e->functions[e->n_functions++] = (struct gpu_function){ name, body };
    text_printf(&e->out->text, "DEVICE %s %s%s", type, name, body);
    return name;
}

static void begin_kernel(struct emitter *e)
{
    begin_body(e);
    e->note = (struct text){ .arena = e->arena };
    e->launch = (struct gpu_launch){ .name = e->group->name, .layer = e->group->layer, .tail = e->prefill && e->tail, .grid_x = 1 };
}

/* The launch at hand runs the text at hand. */
static void end_kernel(struct emitter *e, const char *name, uint32_t threads, uint32_t groups, uint32_t lds_bytes)
{
    struct gpu_kernels *k = e->out;
    const char *body = text_str(&e->body);
    if (lds_bytes > e->profile->lds_bytes)
        die("%s: kernel %s needs %u bytes of LDS, %s has %u for a group; this model is too wide for forgec's kernels on it, or the target's tiles are too large; a CPU target takes it", e->model->gguf->path, name, lds_bytes,
            e->profile->name, e->profile->lds_bytes);
    uint32_t i = 0;
    while (i < k->n_kernels && (strcmp(k->kernels[i].body, body) || k->kernels[i].threads != threads || k->kernels[i].lds_bytes != lds_bytes)) i++;
    if (i == k->n_kernels) {
        name = free_name(e, name);
        k->kernels[k->n_kernels++] = (struct gpu_kernel){ .name = name, .body = body, .threads = threads, .lds_bytes = lds_bytes };
        text_printf(&k->text, "/* %s: %u threads, %u bytes of LDS", name, threads, lds_bytes);
        if (e->launch.weight_bytes) text_printf(&k->text, "; weights %llu bytes", (ull)e->launch.weight_bytes);
        text_printf(&k->text, "\n%s */\nKERNEL(%u, %u) %s(const struct forge_kernel_args a)\n{\n%s}\n\n", text_str(&e->note), threads, groups, name, body);
    }
    e->launch.kernel = i;
    struct gpu_launch *list = e->prefill ? k->prefill : k->decode;
    list[e->prefill ? k->n_prefill++ : k->n_decode++] = e->launch;
}

static void put_start(struct emitter *e)
{
    put(e, "pdl_launch();");
    put(e, "pdl_wait();");
    put(e, "mark(a);");
}

/* One token per group, in decode the only one. */
static void put_token(struct emitter *e)
{
    put_start(e);
    put(e, "const uint32_t t = first_token(a) + group_y();");
    e->launch.grid_tokens = 1;
}

/* ---- what happens to a product's value: row r of token t ---- */

/* Where y goes when it is the value n: f32 rows, the 16-bit rows of a following product, or the logits. */
static void put_store(struct emitter *e, const struct node *n)
{
    const struct buffer *f16 = &e->plan->gpu->f16[n->index], *bf16 = &e->plan->gpu->bf16[n->index];
    const struct buffer *half = e->prefill && f16->exists ? f16 : e->prefill && bf16->exists ? bf16 : NULL;
    if (!half) {
        put(e, "%s[r] = y;", value_row(e, n));
        return;
    }
    const char *kind = half == f16 ? "f16" : "bf16";
    put(e, "((uint16_t *)(void *)ROW(%llu, %llu, t))[r] = (uint16_t)stage_%s(y);", (ull)half->offset, (ull)half->stride, kind);
}

/* The decode product's template does it: in decode, and in all of an exact program. */
static bool by_gemv(const struct emitter *e) { return !e->prefill || e->plan->options.exact; }

static bool has_addend(const struct emitter *e, const struct branch *b)
{
    const uint32_t n = e->gg->n_inline[b - e->group->branches];
    for (uint32_t i = 0; i < n; i++) if (b->chain[i]->op != OP_bias && b->chain[i]->op != OP_add) return false;
    return n > 0;
}

/* Biases and residuals are sums: decode's products ask for them early.  The function that gives them for branch b, or NULL. */
static const char *addend(struct emitter *e, const struct branch *b, uint32_t row0)
{
    if (!has_addend(e, b)) return NULL;
    const struct text kernel_body = e->body;
    const uint32_t depth = e->depth, n = e->gg->n_inline[b - e->group->branches];
    begin_body(e);
    if (row0) put(e, "r -= %u;", row0);
    if (e->prefill) put(e, "t = first_token(a) + group_y();");
    struct text sum = { .arena = e->arena };
    for (uint32_t i = 0; i < n; i++) {
        const struct node *c = b->chain[i], *other = c->op == OP_add ? (c->inputs[0] == (i ? b->chain[i - 1] : b->matmul) ? c->inputs[1] : c->inputs[0]) : NULL;
        text_printf(&sum, "%s%s[r]", i ? " + " : "", other ? row_at(e, &e->plan->f32[other->index], "t") : vector_of(e, c->weight));
    }
    put(e, "return %s;", text_str(&sum));
    const char *name = function(e, arena_printf(e->arena, "%s_addend", b->matmul->weight->role), "float", "const struct forge_kernel_args a, uint32_t t, uint32_t r");
    e->body = kernel_body;
    e->depth = depth;
    return name;
}

/* The function for branch b's rows.  In a combined product its rows begin at row0. */
static const char *sink(struct emitter *e, const struct branch *b, uint32_t row0)
{
    const struct group *g = e->group;
    const uint32_t k = (uint32_t)(b - g->branches), n = e->gg->n_inline[k];
    const bool added = by_gemv(e) && has_addend(e, b);                      /* already */
    const struct branch *up = b->partner >= 0 ? &g->branches[b->partner] : NULL;
    const struct text kernel_body = e->body;
    const uint32_t depth = e->depth;
    const char *role = b->matmul->weight->role;
    begin_body(e);
    if (row0) put(e, "r -= %u;", row0);
    if (e->prefill && e->plan->options.exact) put(e, "t = first_token(a) + group_y();");
    for (uint32_t i = 0; up && i < up->n_chain; i++) put(e, "up += %s[r];", vector_of(e, up->chain[i]->weight));
    for (uint32_t i = 0; i < n && !added; i++) {
        const struct node *c = b->chain[i];
        switch (c->op) {
        case OP_bias: put(e, "y += %s[r];", vector_of(e, c->weight)); break;
        case OP_add: {
            const struct node *other = c->inputs[0] == (i ? b->chain[i - 1] : b->matmul) ? c->inputs[1] : c->inputs[0];
            put(e, "y += %s[r];", row_at(e, &e->plan->f32[other->index], "t"));
            break;
        }
        case OP_glu_silu: put(e, "y = silu_f32(y) * up;"); break;
        case OP_glu_gelu: put(e, "y = gelu_f32(y) * up;"); break;
        default: die("%s after a matmul: forgec has no GPU kernel for it; this is a mistake in forgec, please report it", op_info[c->op].name);
        }
    }
    if (n < b->n_chain) put(e, "%s[r] = y;", row_at(e, &e->gg->raw[k], "t"));
    else put_store(e, b->result);
    const char *name = function(e, arena_printf(e->arena, "%s_%s", role, e->prefill ? "rows" : "row"), "void",
                                up ? "const struct forge_kernel_args a, uint32_t t, uint32_t r, float y, float up" : "const struct forge_kernel_args a, uint32_t t, uint32_t r, float y");
    e->body = kernel_body;
    e->depth = depth;
    return name;
}

/* Matrices of one format that lie one behind the other are one product: branches first .. last - 1, whose rows go to their own functions. */
struct run { uint32_t first, last; uint64_t rows; const struct weight *weight; const char *sink, *addend; };

static bool follows(const struct emitter *e, const struct weight *a, const struct weight *b)
{
    return a->tensor->quant->id == b->tensor->quant->id && a->cols == b->cols && e->plan->weight_offset[b->index] == e->plan->weight_offset[a->index] + plan_weight_bytes(e->plan, a);
}

/* One function that picks the branch's by the row; name: what it is called. */
static const char *combined(struct emitter *e, const struct run *r, const char *const names[], const char *name, bool gives)
{
    if (r->last - r->first == 1) return names[r->first];
    const struct text kernel_body = e->body;
    const uint32_t depth = e->depth;
    const char *value = gives ? "return " : "", *y = gives ? "" : ", y";
    uint64_t row0 = 0;
    begin_body(e);
    for (uint32_t i = r->first; i < r->last; i++) {
        row0 += e->group->branches[i].matmul->weight->rows;
        const char *call = names[i] ? arena_printf(e->arena, "%s%s(a, t, r%s);", value, names[i], y) : "return 0.0f;";
        if (i + 1 < r->last) put(e, "%sif (r < %llu) %s", i > r->first && !gives ? "else " : "", (ull)row0, call);
        else put(e, "%s%s", gives ? "" : "else ", call);
    }
    const char *s = function(e, name, gives ? "float" : "void", gives ? "const struct forge_kernel_args a, uint32_t t, uint32_t r" : "const struct forge_kernel_args a, uint32_t t, uint32_t r, float y");
    e->body = kernel_body;
    e->depth = depth;
    return s;
}

static void put_sinks(struct emitter *e, struct run *r)
{
    const struct group *g = e->group;
    const char *sinks[MAX_BRANCHES], *addends[MAX_BRANCHES];
    uint64_t row0 = 0;
    bool any = false;
    for (uint32_t i = r->first; i < r->last; i++) {
        sinks[i] = sink(e, &g->branches[i], (uint32_t)row0);
        addends[i] = by_gemv(e) ? addend(e, &g->branches[i], (uint32_t)row0) : NULL;
        any |= addends[i] != NULL;
        row0 += g->branches[i].matmul->weight->rows;
    }
    r->sink = combined(e, r, sinks, arena_printf(e->arena, "%s_%s", g->name, e->prefill ? "rows" : "row"), false);
    r->addend = any ? combined(e, r, addends, arena_printf(e->arena, "%s_addend", g->name), true) : NULL;
}

/* The products of the group, partners left out; returns how many. */
static uint32_t runs_of(struct emitter *e, struct run runs[MAX_BRANCHES])
{
    const struct group *g = e->group;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_branches; i++) {
        const struct branch *b = &g->branches[i];
        if (b->is_partner) continue;
        struct run *last = n ? &runs[n - 1] : NULL;
        if (last && b->partner < 0 && g->branches[last->first].partner < 0 && last->last == i && follows(e, g->branches[i - 1].matmul->weight, b->matmul->weight)) {
            last->last++;
            last->rows += b->matmul->weight->rows;
        }
        else runs[n++] = (struct run){ .first = i, .last = i + 1, .rows = b->matmul->weight->rows, .weight = b->matmul->weight };
    }
    for (uint32_t i = 0; i < n; i++) put_sinks(e, &runs[i]);
    return n;
}

/* ---- products in decode ---- */

static const char *gemv_name(struct emitter *e, const struct weight *w, uint32_t rows)
{
    struct gpu_kernels *k = e->out;
    const char *format = format_file(w);
    uint32_t i = 0;
    while (i < k->n_gemvs && (strcmp(k->gemvs[i].format, format) || k->gemvs[i].rows != rows || k->gemvs[i].lanes != e->gg->gemv_lanes)) i++;
    if (i == k->n_gemvs) k->gemvs[k->n_gemvs++] = (struct gpu_gemv){ format, rows, e->gg->gemv_lanes };
    return arena_printf(e->arena, "%s_%ux%u", format, rows, e->gg->gemv_lanes);
}

/* Asks for the first weights and for the row of the step's token, in exact prefill of the group's, which goes into LDS.  Where the launch begins before
 * its predecessor has ended, weights are asked for first; elsewhere last, because they are not needed before all of the row has been worked on. */
static void put_decode_input(struct emitter *e, const char *begin_weights, uint64_t floats_at)
{
    const struct node *in = e->group->input;
    const bool ahead = e->profile->dependent_launch;
    const uint32_t threads = e->profile->gpu.gemv_threads;
    const struct weight *norm = e->group->norm ? e->group->norm->weight : NULL;
    const char *row = row_at(e, &e->plan->f32[in->index], e->prefill ? "first_token(a) + group_y()" : "0"), *eps = emit_float(e->arena, e->model->norm_eps);
    if (e->group->norm || !ahead) put(e, "struct row_quads row%s;", e->group->norm ? ", norm_weight" : "");
    if (ahead) put(e, "%s", begin_weights);
    if (e->group->norm && ahead) put(e, "norm_begin(&norm_weight, %s, /* cols */ %u, %u);", vector_of(e, norm), in->cols, threads);
    put(e, "pdl_wait();");
    if (ahead) put(e, "mark(a);");
    if (e->group->norm || !ahead) put(e, "row_begin(&row, %s, /* cols */ %u, %u);", row, in->cols, threads);
    if (e->group->norm && !ahead) put(e, "norm_begin(&norm_weight, %s, /* cols */ %u, %u);", vector_of(e, norm), in->cols, threads);
    if (!ahead) {
        put(e, "COMPILER_FENCE();");
        put(e, "%s", begin_weights);
        put(e, "COMPILER_FENCE();");
        put(e, "mark(a);");
    }
    for (uint32_t form = 0; form < 2; form++) {
        if (form == 0 ? !e->gg->needs_acts : !e->gg->needs_floats) continue;
        const char *to = form == 0 || !floats_at ? "lds()" : arena_printf(e->arena, "lds() + %llu", (ull)floats_at);
        const uint32_t digits = form == 0 ? e->plan->gpu->digits : 0, sums16 = form == 0 && e->gg->sums16;
        if (e->group->norm)
            put(e, "norm_to_lds(%s, &row, %s, &norm_weight, %s, /* cols */ %u, %s, /* digits */ %u, /* sums16 */ %u, %u);", to, row, vector_of(e, norm), in->cols, eps, digits, sums16, threads);
        else if (!ahead) put(e, "row_to_lds(%s, &row, %s, /* cols */ %u, /* digits */ %u, /* sums16 */ %u, %u);", to, row, in->cols, digits, sums16, threads);
        else if (digits) put(e, "acts_of_row(%s, %s, /* cols */ %u, /* digits */ %u, /* sums16 */ %u, %u);", to, row, in->cols, digits, sums16, threads);
        else put(e, "floats_of_row(%s, %s, /* cols */ %u, %u);", to, row, in->cols, threads);
    }
}

static void note_products(struct emitter *e)
{
    const struct group *g = e->group;
    if (g->norm) text_printf(&e->note, " * norm of the input %s\n", e->prefill ? "done before" : "in every group");
    for (uint32_t i = 0; i < g->n_branches; i++) {
        const struct branch *b = &g->branches[i];
        const struct weight *w = b->matmul->weight;
        text_printf(&e->note, " * %s: %llu x %llu %s", w->role, (ull)w->rows, (ull)w->cols, w->tensor->quant->name);
        for (uint32_t k = 0; k < e->gg->n_inline[i]; k++) text_printf(&e->note, ", %s", op_info[b->chain[k]->op].name);
        text_puts(&e->note, "\n");
        e->launch.weight_bytes += plan_weight_bytes(e->plan, w);
        e->launch.flops += 2 * w->rows * w->cols;
    }
}

/* Also prefill's where the program is exact: a token for each grid_y. */
static void put_linear_decode(struct emitter *e)
{
    const struct profile *t = e->profile;
    const struct group *g = e->group;
    const uint32_t digits = e->plan->gpu->digits, groups = t->compute_units * t->gpu.gemv_groups, lanes = e->gg->gemv_lanes;
    const uint32_t slots = groups * t->gpu.gemv_threads / lanes;
    const uint64_t floats_at = e->gg->needs_acts ? ACTS_BYTES((uint64_t)g->input->cols, digits, e->gg->sums16) : 0;
    struct run runs[MAX_BRANCHES];
    begin_kernel(e);
    note_products(e);
    const uint32_t n = runs_of(e, runs);
    put(e, "pdl_launch();");
    put(e, "uint32_t slot = gemv_slot(/* groups */ %u, /* lanes */ %u);", groups, lanes);
    for (uint32_t i = 0; i < n; i++) {
        const struct branch *b = &g->branches[runs[i].first];
        const struct branch *up = b->partner >= 0 ? &g->branches[b->partner] : NULL;
        if (up && up->matmul->weight->tensor->quant->id != b->matmul->weight->tensor->quant->id)
            die("%s: %s and %s have different formats; forgec's fused GPU kernels need them in one (quantise them alike, or build with --fuse none)", e->model->gguf->path, b->matmul->weight->name, up->matmul->weight->name);
        const char *name = gemv_name(e, runs[i].weight, e->gg->gemv_rows);
        const char *w = arena_printf(e->arena, "WEIGHT(%u)", slot_of(e, runs[i].weight)), *w2 = up ? arena_printf(e->arena, "WEIGHT(%u)", slot_of(e, up->matmul->weight)) : "0";
        if (i == 0) {
            put(e, "struct first_%s first;", name);
            const char *begin = arena_printf(e->arena, "gemv_begin_%s(&first, %s, %s, /* rows */ %llu, /* cols */ %u, slot);", name, w, w2, (ull)runs[i].rows, g->input->cols);
            put_decode_input(e, begin, floats_at);
        }
        const char *x = is_float(runs[i].weight) && floats_at ? arena_printf(e->arena, "lds() + %llu", (ull)floats_at) : "lds()";
        put(e, "%sgemv_%s%s(a, %s, %s%s%s, /* rows */ %llu, /* cols */ %u, %s, /* digits */ %u, slot, /* stride */ %u, %s%s%s);", n > 1 ? "slot = " : "", up ? "pair_" : "", name,
            i ? "0" : "&first", w, up ? ", " : "", up ? w2 : "", (ull)runs[i].rows, g->input->cols, x, digits, slots, up ? "" : runs[i].addend ? runs[i].addend : "/* addend */ 0", up ? "" : ", ",
            runs[i].sink);
    }
    e->launch.grid_x = groups;
    e->launch.grid_tokens = e->prefill;
    const uint64_t lds = floats_at + (e->gg->needs_floats ? FLOATS_BYTES((uint64_t)g->input->cols) : 0);
    end_kernel(e, e->prefill ? arena_printf(e->arena, "%s_prefill", g->name) : g->name, t->gpu.gemv_threads, t->gpu.gemv_groups, (uint32_t)lds);
}

/* ---- products in prefill ---- */

static void put_stage_kernel(struct emitter *e, const struct buffer *stage, bool bf16)
{
    const struct group *g = e->group;
    const struct buffer *x = &e->plan->f32[g->input->index];
    begin_kernel(e);
    text_printf(&e->note, " * %srows of %u columns as %s for %s\n", g->norm ? "normed " : "", g->input->cols, bf16 ? "bf16" : "f16", g->name);
    put_token(e);
    put(e, "stage_rows(ROW(%llu, %llu, t), %s, %s, /* cols */ %u, %s, /* norm */ %u, /* bf16 */ %u, %u);", (ull)stage->offset, (ull)stage->stride,
        row_at(e, x, "t"), g->norm ? vector_of(e, g->norm->weight) : "0", g->input->cols,
        emit_float(e->arena, e->model->norm_eps), g->norm != NULL, bf16, e->profile->gpu.stage_threads);
    e->launch.name = arena_printf(e->arena, "%s_in", g->name);
    end_kernel(e, e->launch.name, e->profile->gpu.stage_threads, 1, ACTS_SCRATCH_BYTES);
}

/* What the plan of tiles needs to know of the runs of a launch. */
static struct gemm_product gemm_product(struct emitter *e, const struct run *runs, uint32_t n)
{
    struct gemm_part *parts = arena_array(e->arena, struct gemm_part, n);
    for (uint32_t i = 0; i < n; i++) {
        const enum quant id = runs[i].weight->tensor->quant->id;
        parts[i] = (struct gemm_part){ runs[i].rows, e->group->branches[runs[i].first].partner >= 0, id == QUANT_F16 || id == QUANT_BF16, id == QUANT_F32 ? 2 : 1 };
    }
    return (struct gemm_product){ parts, n, e->group->input->cols, e->launch.weight_bytes };
}

static const char *gemm_name(struct emitter *e, const struct weight *w, const struct gemm_shape *s)
{
    struct gpu_kernels *k = e->out;
    const char *format = format_file(w);
    uint32_t i = 0;
    while (i < k->n_gemms && (strcmp(k->gemms[i].format, format) || k->gemms[i].tokens != s->tokens || k->gemms[i].rows != s->rows || k->gemms[i].threads != s->threads)) i++;
    if (i == k->n_gemms) k->gemms[k->n_gemms++] = (struct gpu_gemm){ format, s->tokens, s->rows, s->threads };
    return arena_printf(e->arena, "%s_%ux%u_%u", format, s->tokens, s->rows, s->threads);
}

/* The launch at hand is for the steps of range r. */
static void put_products(struct emitter *e, const struct run *runs, uint32_t n, const struct gemm_product *product, const struct gemm_range *r)
{
    const struct group *g = e->group;
    const struct gemm_shape *shape = &r->shape;
    uint32_t tile = 0;
    put_start(e);
    put(e, "const uint32_t t0 = first_token(a), tile = group_y();");
    for (uint32_t i = 0; i < n; i++) {
        const struct weight *w = runs[i].weight;
        const struct branch *b = &g->branches[runs[i].first];
        const struct branch *up = b->partner >= 0 ? &g->branches[b->partner] : NULL;
        const struct buffer *x = is_bf16(w) ? (e->gg->stage_bf16.exists ? &e->gg->stage_bf16 : &e->plan->gpu->bf16[g->input->index])
                                            : (e->gg->stage_f16.exists ? &e->gg->stage_f16 : &e->plan->gpu->f16[g->input->index]);
        const uint32_t rows = up ? shape->rows / 2 : shape->rows, tiles = (uint32_t)((runs[i].rows + rows - 1) / rows);
        const char *slot = arena_printf(e->arena, "WEIGHT(%u)", slot_of(e, w)), *slot2 = up ? arena_printf(e->arena, ", WEIGHT(%u)", slot_of(e, up->matmul->weight)) : "";
        const char *when = n == 1 ? "" : i + 1 < n ? arena_printf(e->arena, "%sif (tile < %u) ", i ? "else " : "", tile + tiles) : "else ";
        put(e, "%sgemm_%s%s(a, %s%s, /* rows */ %llu, /* cols */ %u, BUFFER(%llu), /* stride */ %llu, tile%s, t0, a.step->n_tokens, %s);", when, up ? "pair_" : "",
            gemm_name(e, w, shape), slot, slot2, (ull)runs[i].rows, g->input->cols, (ull)x->offset, (ull)x->stride, tile ? arena_printf(e->arena, " - %u", tile) : "", runs[i].sink);
        tile += tiles;
    }
    e->launch.grid_x = tile;
    e->launch.grid_tokens = shape->tokens;
    e->launch.tokens_first = 1;
    e->launch.tokens_least = r->least;
    e->launch.tokens_most = r->most;
    e->launch.rows = shape->rows;
    e->launch.fill = gemm_fill(e->profile, product, shape, r->most);
    const char *name = r->most == e->plan->chunk ? arena_printf(e->arena, "%s_prefill", g->name) : arena_printf(e->arena, "%s_prefill_%u", g->name, r->most);
    end_kernel(e, name, shape->threads, shape->groups, gemm_lds(e->profile, product, shape));
}

static void put_linear_prefill(struct emitter *e)
{
    struct run runs[MAX_BRANCHES];
    struct gemm_range ranges[GEMM_RANGES];
    if (e->gg->stage_f16.exists) put_stage_kernel(e, &e->gg->stage_f16, false);
    if (e->gg->stage_bf16.exists) put_stage_kernel(e, &e->gg->stage_bf16, true);
    for (uint32_t i = 0, n_ranges = 1; i < n_ranges; i++) {
        begin_kernel(e);
        note_products(e);
        const uint32_t n = runs_of(e, runs);
        const struct gemm_product product = gemm_product(e, runs, n);
        if (i == 0) n_ranges = gemm_plan(ranges, e->profile, &product, e->plan->chunk, &e->plan->gpu->refused);
        put_products(e, runs, n, &product, &ranges[i]);
    }
}

/* ---- heads ---- */

struct heads {                       /* of a product that leaves raw heads */
    const struct branch *q, *k, *v;
    const struct weight *q_norm, *k_norm;
    const struct node   *q_rope, *k_rope;
};

static void head_ops(const struct branch *b, uint32_t from, const struct weight **norm, const struct node **rope)
{
    for (uint32_t i = from; i < b->n_chain; i++) {
        if (b->chain[i]->op == OP_headnorm) *norm = b->chain[i]->weight;
        if (b->chain[i]->op == OP_rope) *rope = b->chain[i];
    }
}

static struct heads heads_of(struct emitter *e, const struct group *from, const struct node *attention)
{
    struct heads h = { 0 };
    const struct gpu_group *gg = &e->plan->gpu->groups[from - e->plan->fused->groups];
    const struct weight *none = NULL;
    const struct node *no = NULL;
    for (uint32_t i = 0; i < from->n_branches; i++) {
        const struct branch *b = &from->branches[i];
        if (b->result == attention->inputs[0]) { h.q = b; head_ops(b, gg->n_inline[i], &h.q_norm, &h.q_rope); }
        if (b->result == attention->inputs[1]) { h.k = b; head_ops(b, gg->n_inline[i], &h.k_norm, &h.k_rope); }
        if (b->result == attention->inputs[2]) { h.v = b; head_ops(b, gg->n_inline[i], &none, &no); }
    }
    return h;
}

static const struct buffer *raw_of(struct emitter *e, const struct group *from, const struct branch *b)
{
    const struct gpu_group *gg = &e->plan->gpu->groups[from - e->plan->fused->groups];
    const uint32_t k = (uint32_t)(b - from->branches);
    return gg->raw[k].exists ? &gg->raw[k] : &e->plan->f32[b->result->index];
}

static const char *rope_tables(struct emitter *e, const struct node *rope)
{
    const struct rotation_plan *r = &e->plan->rotations[rope->rotation];
    const uint32_t lo = slot_at(e, r->lo), hi = slot_at(e, r->hi);
    return arena_printf(e->arena, "VECTOR(%u), VECTOR(%u)", hi, lo);
}

/* Tables, then constants; none of them where nothing rotates. */
static const char *rope_args(struct emitter *e, const struct node *rope)
{
    if (!rope) return "0, 0, /* n_rot */ 0, /* neox */ 0, /* block */ 1";
    const char *sizes = arena_printf(e->arena, "/* n_rot */ %u, /* neox */ %u, /* block */ %u", rope->attr.n_rot, rope->attr.neox, e->plan->rotations[rope->rotation].block);
    return arena_printf(e->arena, "%s, %s", rope_tables(e, rope), sizes);
}

static void note_attention(struct emitter *e)
{
    const struct node *n = e->group->node;
    text_printf(&e->note, " * %u heads of %u over %u KV heads in %s\n", n->heads, e->model->head_dim, n->inputs[1]->heads, kv_type_name[e->plan->options.kv]);
}

static void put_attention_decode(struct emitter *e)
{
    const struct node *n = e->group->node;
    const struct model *m = e->model;
    const struct profile *t = e->profile;
    const struct plan *p = e->plan;
    const struct group *from = e->gg->heads;
    const struct heads h = from ? heads_of(e, from, n) : (struct heads){ 0 };
    const uint32_t heads_kv = n->inputs[1]->heads, splits = p->gpu->splits, cluster = t->cluster && splits > 1 && splits <= ATTENTION_MAX_CLUSTER;
    begin_kernel(e);
    note_attention(e);
    if (from) text_printf(&e->note, " * before it%s%s the KV append of this token\n", h.q_norm || h.k_norm ? " the head norms," : "", h.q_rope ? " the rotations," : "");
    const char *q = row_at(e, from ? raw_of(e, from, h.q) : &p->f32[n->inputs[0]->index], "0");
    const char *k = from ? row_at(e, raw_of(e, from, h.k), "0") : "0", *v = from ? row_at(e, raw_of(e, from, h.v), "0") : "0";
    put(e, "attention_decode(a, %s, /* q, k, v */ %s, %s, %s,", row_at(e, &p->f32[n->index], "0"), q, k, v);
    put(e, "    /* norms */ %s, %s, %s, %s,", vector_of(e, h.q_norm), vector_of(e, h.k_norm), emit_float(e->arena, m->norm_eps), rope_args(e, h.q_rope));
    put(e, "    /* parts */ FLOATS(%llu), FLOATS(%llu), (uint32_t *)(void *)BUFFER(%llu), /* heads */ %u, %u, /* head_dim */ %u, /* n_ctx */ %u, %s, /* splits */ %u, %u, /* cluster */ %u);", (ull)p->parts_offset,
        (ull)p->gpu->parts_ml, (ull)p->gpu->zero, n->heads, heads_kv, m->head_dim, p->options.n_ctx, emit_float(e->arena, 1 / sqrt((double)m->head_dim)), splits, t->gpu.attention_threads,
        cluster);
    e->launch.kv = p->kv_layer[n->inputs[1]->layer];
    e->launch.grid_x = ATTENTION_GROUPS(n->heads, heads_kv, m->head_dim, splits);
    e->launch.cluster = cluster ? splits : 0;
    end_kernel(e, e->group->name, t->gpu.attention_threads, 1,
               ATTENTION_LDS_BYTES(n->heads, heads_kv, m->head_dim, t->wave, t->gpu.attention_threads, splits, cluster));
}

/* Heads of a chunk: normed, rotated and stored in one go. */
static void put_heads_prefill(struct emitter *e, const struct group *from)
{
    const struct node *n = e->group->node;
    const struct model *m = e->model;
    const struct heads h = heads_of(e, from, n);
    const uint32_t threads = e->profile->gpu.stage_threads, heads_kv = n->inputs[1]->heads;
    begin_kernel(e);
    text_printf(&e->note, " *%s%s KV append\n", h.q_norm || h.k_norm ? " head norms," : "", h.q_rope ? " rotations," : "");
    put_token(e);
    put(e, "qkv_finish(a, t, %s, %s, %s,", row_at(e, raw_of(e, from, h.q), "t"), row_at(e, raw_of(e, from, h.k), "t"), row_at(e, raw_of(e, from, h.v), "t"));
    put(e, "    /* norms */ %s, %s, %s, %s, /* heads */ %u, %u, /* head_dim */ %u, /* n_ctx */ %u, %u);", vector_of(e, h.q_norm), vector_of(e, h.k_norm), emit_float(e->arena, m->norm_eps),
        rope_args(e, h.q_rope), n->heads, heads_kv, m->head_dim, e->plan->options.n_ctx, threads);
    e->launch.kv = e->plan->kv_layer[n->inputs[1]->layer];
    e->launch.grid_x = HEAD_GROUPS(n->heads + 2 * heads_kv, e->profile->wave, threads);
    e->launch.name = "heads";
    end_kernel(e, "heads_prefill", threads, 1, threads / e->profile->wave * m->head_dim * 4);
}

static void put_attention_prefill(struct emitter *e)
{
    const struct node *n = e->group->node;
    const struct model *m = e->model;
    const struct plan *p = e->plan;
    const struct profile *t = e->profile;
    const struct group *from = e->gg->heads;
    const struct heads h = from ? heads_of(e, from, n) : (struct heads){ 0 };
    const struct buffer *q = from ? raw_of(e, from, h.q) : &p->f32[n->inputs[0]->index];
    const struct buffer *f16 = &p->gpu->f16[n->index], *bf16 = &p->gpu->bf16[n->index], *out = f16->exists ? f16 : bf16->exists ? bf16 : &p->f32[n->index];
    const uint32_t kv = (uint32_t)p->options.kv, digits = p->options.exact ? 2 : 1, threads = t->gpu.attention_prefill_threads;
    const uint32_t heads_kv = n->inputs[1]->heads, kind = out == f16 ? 1 : out == bf16 ? 2 : 0;
    begin_kernel(e);
    note_attention(e);
    put_start(e);
    put(e, "attention_prefill(a, BUFFER(%llu), /* stride */ %llu, /* as */ %u, BUFFER(%llu), /* stride */ %llu, /* heads */ %u, %u, /* head_dim */ %u, /* n_ctx */ %u, %s, "
           "/* digits */ %u, %u);", (ull)out->offset, (ull)out->stride, kind, (ull)q->offset, (ull)q->stride, n->heads, heads_kv,
        m->head_dim, p->options.n_ctx, emit_float(e->arena, 1 / sqrt((double)m->head_dim)), digits, threads);
    e->launch.kv = p->kv_layer[n->inputs[1]->layer];
    e->launch.grid_x = ATTENTION_PREFILL_GROUPS(n->heads, heads_kv);
    e->launch.grid_tokens = ATTENTION_PREFILL_TOKENS(kv, digits, n->heads, heads_kv, m->head_dim, t->family, threads);
    end_kernel(e, "attention_chunk", threads, ATTENTION_PREFILL_RESIDENT(t->family, threads), ATTENTION_PREFILL_LDS_BYTES(kv, digits, m->head_dim, t->family, threads));
}

/* ---- the rest of the groups ---- */

static void put_embed(struct emitter *e)
{
    const struct weight *w = e->group->node->weight;
    const struct buffer *f = &e->plan->f32[e->group->node->index];
    const uint32_t threads = e->profile->gpu.stage_threads;
    begin_kernel(e);
    text_printf(&e->note, " * token_embd: rows of %u %s\n", (uint32_t)w->cols, w->tensor->quant->name);
    put_token(e);
    put(e, "embed_row_%s(%s, WEIGHT(%u), a.step->history[a.step->n_past + t], /* cols */ %u, %u);", format_file(w), row_at(e, f, "t"), slot_of(e, w), (uint32_t)w->cols, threads);
    e->launch.grid_x = EMBED_GROUPS((uint32_t)w->cols, e->profile->wave, threads);
    end_kernel(e, e->group->name, threads, 1, 0);
}

static void put_norm(struct emitter *e)
{
    const struct node *n = e->group->node;
    const uint32_t threads = e->profile->gpu.stage_threads;
    begin_kernel(e);
    put_token(e);
    put(e, "norm_row(%s, %s, %s, /* cols */ %u, %s, %u);", row_at(e, &e->plan->f32[n->index], "t"), row_at(e, &e->plan->f32[e->group->input->index], "t"), vector_of(e, n->weight), n->cols,
        emit_float(e->arena, e->model->norm_eps), threads);
    end_kernel(e, e->group->name, threads, 1, ACTS_SCRATCH_BYTES);
}

/* One operation on finished rows, of token t: from one row to another (value_row); what stores into the cache writes no row. */
static void put_operation(struct emitter *e, const struct node *n, const char *from, const char *to)
{
    const struct model *m = e->model;
    const uint32_t threads = e->profile->gpu.stage_threads, n_ctx = e->plan->options.n_ctx, heads = n->cols / m->head_dim;
    const bool of_heads = n->op == OP_headnorm || n->op == OP_rope || n->op == OP_store_k || n->op == OP_store_v;
    const struct buffer *second = op_info[n->op].n_values > 1 ? &e->plan->f32[n->inputs[1]->index] : NULL;
    begin_kernel(e);
    text_printf(&e->note, " * %s of %u columns\n", op_info[n->op].name, n->cols);
    put_token(e);
    switch (n->op) {
    case OP_bias:     put(e, "bias_row(%s, %s, %s, /* cols */ %u, %u);", to, from, vector_of(e, n->weight), n->cols, threads); break;
    case OP_add:      put(e, "add_row(%s, %s, %s, /* cols */ %u, %u);", to, from, row_at(e, second, "t"), n->cols, threads); break;
    case OP_glu_silu: put(e, "glu_silu_row(%s, %s, %s, /* cols */ %u, %u);", to, from, row_at(e, second, "t"), n->cols, threads); break;
    case OP_glu_gelu: put(e, "glu_gelu_row(%s, %s, %s, /* cols */ %u, %u);", to, from, row_at(e, second, "t"), n->cols, threads); break;
    case OP_headnorm:
        put(e, "headnorm_row(%s, %s, %s, %s, /* heads */ %u, /* head_dim */ %u, %u);", to, from, vector_of(e, n->weight), emit_float(e->arena, m->norm_eps), heads, m->head_dim, threads);
        break;
    case OP_rope: {
        const char *tables = rope_tables(e, n);
        put(e, "rope_row(%s, %s, %s, a.step->n_past + t, /* n_rot */ %u, /* neox */ %u, /* block */ %u, /* heads */ %u, /* head_dim */ %u, %u);", to, from, tables, n->attr.n_rot, n->attr.neox,
            e->plan->rotations[n->rotation].block, heads, m->head_dim, threads);
        break;
    }
    case OP_store_k:
    case OP_store_v: {
        const char *plane = n->op == OP_store_k ? "kv_k(a)" : arena_printf(e->arena, "kv_v(a, %u, %u, %u)", heads, n_ctx, m->head_dim);
        put(e, "kv_store_rows(%s, a.step->n_past + t, %s, /* heads */ %u, /* n_ctx */ %u, /* head_dim */ %u, %u);", plane, from, heads, n_ctx, m->head_dim, threads);
        e->launch.kv = e->plan->kv_layer[n->layer];
        break;
    }
    default: die("%s: forgec has no GPU kernel for it; this is a mistake in forgec, please report it", op_info[n->op].name);
    }
    if (of_heads) e->launch.grid_x = HEAD_GROUPS(heads, e->profile->wave, threads);
    e->launch.name = arena_printf(e->arena, "%s_%s", op_info[n->op].name, plan_value_name(n));
    end_kernel(e, e->launch.name, threads, 1, 0);
}

static void put_map(struct emitter *e)
{
    const struct node *n = e->group->branches[0].chain[0];
    put_operation(e, n, value_row(e, n->inputs[0]), value_row(e, n));
}

/* What a product left to be done on whole heads, where attention does not do it: one kernel for each operation. */
static void put_left_over(struct emitter *e)
{
    const struct group *g = e->group;
    for (uint32_t k = 0; k < g->n_branches; k++) {
        const struct branch *b = &g->branches[k];
        const char *x = row_at(e, &e->gg->raw[k], "t"), *y = value_row(e, b->result);
        for (uint32_t i = e->gg->n_inline[k]; i < b->n_chain; i++) {
            put_operation(e, b->chain[i], x, y);
            if (*y) x = y;
        }
    }
}

static void put_attention_unfused(struct emitter *e)
{
    const struct node *n = e->group->node;
    const struct model *m = e->model;
    const struct plan *p = e->plan;
    const uint32_t threads = e->profile->gpu.attention_threads, heads_kv = n->inputs[1]->heads;
    const char *scores = arena_printf(e->arena, "FLOATS(%llu)", (ull)p->gpu->scores), *q = row_at(e, &p->f32[n->inputs[0]->index], "t"), *out = row_at(e, &p->f32[n->index], "t");
    const char *heads = arena_printf(e->arena, "/* heads */ %u, %u, /* head_dim */ %u, /* n_ctx */ %u", n->heads, heads_kv, m->head_dim, p->options.n_ctx);
    const char *rows = arena_printf(e->arena, "/* rows */ %u", p->chunk);
    static const char *const steps[] = { "scores", "mask", "softmax", "weighted_sum" };
    const uint32_t lds[] = { 0, 0, SOFTMAX_LDS_BYTES(e->profile->wave, threads), WEIGHTED_SUM_LDS_BYTES(m->head_dim, threads) };
    for (uint32_t i = 0; i < COUNT_OF(steps); i++) {
        begin_kernel(e);
        note_attention(e);
        put_token(e);
        if (i == 0) put(e, "attention_scores(a, %s, %s, t, %s, %s, %s, %u);", scores, q, rows, heads, emit_float(e->arena, 1 / sqrt((double)m->head_dim)), threads);
        if (i == 1) put(e, "attention_mask(a, %s, t, %s, /* n_ctx */ %u, %u);", scores, rows, p->options.n_ctx, threads);
        if (i == 2) put(e, "attention_softmax(a, %s, t, %s, /* n_ctx */ %u, %u);", scores, rows, p->options.n_ctx, threads);
        if (i == 3) put(e, "attention_weighted_sum(a, %s, %s, t, %s, %s, %u);", out, scores, rows, heads, threads);
        e->launch.kv = p->kv_layer[n->inputs[1]->layer];
        e->launch.grid_x = n->heads;
        e->launch.name = arena_printf(e->arena, "attention_%s", steps[i]);
        end_kernel(e, arena_printf(e->arena, "attn_%s", steps[i]), threads, 1, lds[i]);
    }
}

/* ---- all of it ---- */

static void put_group(struct emitter *e)
{
    switch (e->group->kind) {
    case GROUP_EMBED:  put_embed(e); break;
    case GROUP_NORM:   put_norm(e); break;
    case GROUP_MAP:    put_map(e); break;
    case GROUP_LINEAR: {
        if (e->prefill && !e->plan->options.exact) put_linear_prefill(e);
        else put_linear_decode(e);
        bool taken = false;                              /* by attention */
        for (uint32_t i = e->index; i < e->plan->fused->n_groups; i++) taken |= e->plan->gpu->groups[i].heads == e->group;
        if (!taken) put_left_over(e);
        break;
    }
    case GROUP_ATTENTION:
        if (e->plan->fused->level == FUSE_NONE) { put_attention_unfused(e); break; }
        if (e->prefill) {
            if (e->gg->heads) put_heads_prefill(e, e->gg->heads);
            put_attention_prefill(e);
        }
        else put_attention_decode(e);
        break;
    }
}

static void put_sample(struct emitter *e)
{
    const struct plan *p = e->plan;
    const struct profile *t = e->profile;
    const uint32_t n_vocab = p->model->n_vocab;
    begin_kernel(e);
    put_start(e);
    put(e, "sample(a, FLOATS(%llu) + (uint64_t)(a.step->n_logits - 1) * %u, /* n_vocab */ %u, /* n_ctx */ %u, BUFFER(%llu), (uint32_t *)(void *)BUFFER(%llu), /* groups */ %u, %u);", (ull)p->gpu->logits,
        n_vocab, n_vocab, p->options.n_ctx, (ull)p->gpu->sample_scratch, (ull)p->gpu->sample_counters, t->gpu.sample_groups, t->gpu.sample_threads);
    e->launch.name = "sample";
    e->launch.layer = NO_LAYER;
    e->launch.grid_x = t->gpu.sample_groups;
    end_kernel(e, "sample_token", t->gpu.sample_threads, 1, SAMPLE_LDS_BYTES(n_vocab));
    e->out->sample = e->out->decode[--e->out->n_decode];
}

uint32_t gpu_launches(const struct gpu_launch *list, uint32_t n, uint32_t tokens)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += !list[i].tokens_most || (tokens >= list[i].tokens_least && tokens <= list[i].tokens_most);
    return sum;
}

struct gpu_kernels *emit_gpu_kernels(struct arena *a, const struct plan *p)
{
    const struct fused *f = p->fused;
    const uint32_t most = f->graph->n_nodes * 8 + 8;
    struct gpu_kernels *k = arena_new(a, struct gpu_kernels);
    k->kernels = arena_array(a, struct gpu_kernel, most);
    k->decode = arena_array(a, struct gpu_launch, most);
    k->prefill = arena_array(a, struct gpu_launch, most);
    k->gemvs = arena_array(a, struct gpu_gemv, most);
    k->gemms = arena_array(a, struct gpu_gemm, most);
    k->text = (struct text){ .arena = a };
    struct emitter e = { .arena = a, .plan = p, .model = p->model, .profile = p->profile, .out = k, .functions = arena_array(a, struct gpu_function, 2 * most) };
    uint32_t last_store = fuse_last_store(f);
    /* Where attention stores the heads, the step needs it, too. */
    for (uint32_t i = 0; i < f->n_groups; i++) if (p->gpu->groups[i].heads && i > last_store) last_store = i;
    for (uint32_t pass = 0; pass < 2; pass++) {
        e.prefill = pass == 1;
        for (uint32_t i = 0; i < f->n_groups; i++) {
            e.group = &f->groups[i];
            e.gg = &p->gpu->groups[i];
            e.index = i;
            e.tail = i > last_store;
            put_group(&e);
        }
        if (!e.prefill) put_sample(&e);
    }
    return k;
}
