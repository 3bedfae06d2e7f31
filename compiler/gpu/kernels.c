/* kernels.c -- see kernels.h. Operations on rows are here; put_products.c and put_attention.c have products and attention. */
#include "compiler/source/about.h"
#include "kernels.h"
#include "compiler/source/text.h"
#include "put.h"
#include <string.h>

typedef unsigned long long ull;

/* ---- small pieces ---- */

void gpu_put(struct emitter *e, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    emit_line(&e->body, &e->depth, e->kernel->name, fmt, args);
    va_end(args);
}

/* The symbol of the tensor at this offset of the image. The current function will define it. */
static const char *weight_at(struct emitter *e, uint64_t offset)
{
    const uint32_t i = kernel_bound(e->launch, offset);
    e->named |= 1ull << i;
    return e->launch->bindings[i].symbol;
}

static const char *weight_of(struct emitter *e, const struct weight *w) { return weight_at(e, e->plan->weight_offset[w->index]); }

const char *gpu_vector(struct emitter *e, const struct weight *w)
{
    return w ? arena_printf(e->arena, "VECTOR(%s)", weight_of(e, w)) : "0";
}

const char *gpu_weight(struct emitter *e, const struct weight *w) { return arena_printf(e->arena, "WEIGHT(%s)", weight_of(e, w)); }

const char *gpu_rotation(struct emitter *e, const struct node *rope)
{
    const struct rotation_plan *r = &e->plan->rotations[rope->rotation];
    return arena_printf(e->arena, "/* n_rot */ %u, /* neox */ %u, /* block */ %u", rope->attr.n_rot, rope->attr.neox, r->block);
}

const char *gpu_tables(struct emitter *e, const struct node *rope, const char *t)
{
    const struct rotation_plan *r = &e->plan->rotations[rope->rotation];
    const char *hi = weight_at(e, r->hi), *lo = weight_at(e, r->lo);
    if (!r->lo_far) return arena_printf(e->arena, "VECTOR(%s), VECTOR(%s)", hi, lo);
    return arena_printf(e->arena, "VECTOR(%s) + far_of(a, %s) * %llu, VECTOR(%s) + far_of(a, %s) * %llu", hi, t,
                        (ull)(r->hi_far / 4), lo, t, (ull)(r->lo_far / 4));
}

const char *gpu_row(struct emitter *e, struct gpu_place at, const char *t)
{
    if (at.form == FORM_NONE) return "";
    if (at.form == FORM_LOGITS) return arena_printf(e->arena, "FLOAT_ROW(ARENA_LOGITS, ARENA_LOGITS_STRIDE, %s - first_token(a))", t);
    return arena_printf(e->arena, "VALUE(%s, %s)", at.symbol, t);
}

const char *gpu_values(struct emitter *e, const struct node *n, uint32_t heads, uint32_t rows, uint32_t head_dim)
{
    if (plan_values_in_keys(e->plan, n)) return "kv_k(a)";
    const uint64_t at = plan_values_at(e->plan, n);
    if (at) return arena_printf(e->arena, "kv_k(a) + %llu", (ull)at);
    return arena_printf(e->arena, "kv_v(a, %u, %u, %u)", heads, rows, head_dim);
}

void gpu_put_idle(struct emitter *e)
{
    const struct kernel_list *list = e->plan->kernels;
    const uint32_t tokens = e->kernel->grid_tokens;
    if (!e->plan->options.spec || !tokens || tokens >= e->plan->options.columns) return;
    const struct launches *columns = &list->of[STEPS_COLUMNS];
    for (uint32_t i = 0; i < columns->n; i++) {
        if (&list->kernels[columns->list[i].kernel] != e->kernel) continue;
        gpu_put(e, "if (is_idle(a, /* tokens */ %u)) return;", tokens);
        return;
    }
}

void gpu_put_start(struct emitter *e)
{
    gpu_put(e, "pdl_launch();");
    gpu_put_idle(e);
    gpu_put(e, "pdl_wait();");
    gpu_put(e, "mark(a);");
}

void gpu_put_token(struct emitter *e)
{
    if (e->series) return;
    gpu_put_start(e);
    gpu_put(e, "const uint32_t t = first_token(a) + group_y();");
}

void gpu_put_each_head(struct emitter *e, uint32_t heads)
{
    const uint32_t waves = e->kernel->param[PARAM_THREADS] / e->plan->target->wave;
    if (e->series) {
        gpu_put(e, "for (uint32_t item = wave_id(); item < %u; item += %u) {", heads, waves);
        return;
    }
    gpu_put(e, "const uint32_t item = group_x() * %u + wave_id();", waves);
    if (heads % waves) gpu_put(e, "if (item >= %u) return;", heads);
}

void gpu_put_heads_end(struct emitter *e)
{
    if (e->series) gpu_put(e, "}");
}

/* ---- functions without duplicates ---- */

static bool name_taken(const struct emitter *e, const char *name)
{
    for (uint32_t i = 0; i < e->n_functions; i++) if (strcmp(e->functions[i].name, name) == 0) return true;
    for (uint32_t i = 0; i < e->plan->kernels->n_kernels; i++) if (strcmp(e->plan->kernels->kernels[i].name, name) == 0) return true;
    return false;
}

static const char *free_name(struct emitter *e, const char *name)
{
    const char *s = name;
    for (uint32_t n = 2; name_taken(e, s); n++) s = arena_printf(e->arena, "%s_%u", name, n);
    return s;
}

static void add_function(struct emitter *e, struct gpu_function f)
{
    arena_room(e->arena, e->functions, e->n_functions, e->function_capacity);
    e->functions[e->n_functions++] = f;
}

/* The slots that the current function names, "    enum { W_ATTN_Q = 0, W_ATTN_NORM = 1 };", or "". */
static const char *weights_text(struct emitter *e)
{
    struct text t = { .arena = e->arena };
    for (uint32_t i = 0; i < e->launch->n_bindings; i++)
        if (e->named >> i & 1) text_printf(&t, "%s%s = %u", t.size ? ", " : "    enum { ", e->launch->bindings[i].symbol, i);
    if (t.size) text_puts(&t, " };\n");
    return text_str(&t);
}

struct function_draft gpu_put_function_begin(struct emitter *e)
{
    const struct function_draft kernel = { e->body, e->depth, e->named };
    e->named = 0;
    e->body = (struct text){ .arena = e->arena };
    e->depth = 1;
    return kernel;
}

const char *gpu_put_function_end(struct emitter *e, const struct function_draft *d, const char *name, const char *type,
                                 const char *parameters)
{
    const char *body = arena_printf(e->arena, "(%s)\n{\n%s%s}\n\n", parameters, weights_text(e), text_str(&e->body));
    e->body = d->body;
    e->named = d->named;
    e->depth = d->depth;
    for (uint32_t i = 0; i < e->n_functions; i++) if (strcmp(e->functions[i].body, body) == 0) return e->functions[i].name;
    name = free_name(e, name);
    add_function(e, (struct gpu_function){ name, body });
    text_printf(e->out, "DEVICE %s %s%s", type, name, body);
    return name;
}

/* ---- operations on rows ---- */

static void put_embed(struct emitter *e)
{
    const struct node *n = e->group->node;
    gpu_put_token(e);
    gpu_put(e, "embed_row_%s(%s, %s, token_of(a, t), /* cols */ %u, %u);", n->weight->tensor->quant->file,
        gpu_row(e, gpu_read(e->plan, n), "t"), gpu_weight(e, n->weight), (uint32_t)n->weight->cols, e->kernel->param[PARAM_THREADS]);
}

static void put_norm(struct emitter *e)
{
    const struct node *n = e->group->node;
    gpu_put_token(e);
    gpu_put(e, "%s(%s, %s, %s, /* cols */ %u, %s, %u);", n->op == OP_layernorm ? "layernorm_row" : "norm_row",
            gpu_row(e, gpu_written(e->plan, n, false), "t"), gpu_row(e, gpu_read(e->plan, e->group->input), "t"),
        gpu_vector(e, n->weight), n->cols, emit_float(e->arena, n->attr.eps), e->kernel->param[PARAM_THREADS]);
}

/* of_rows: the first arguments of an operation on rows, destination and source. */
static void put_of_heads(struct emitter *e, const struct node *n, const char *of_rows)
{
    const uint32_t head_dim = n->attr.head_dim;
    const char *item = arena_printf(e->arena, "item, /* head_dim */ %u", head_dim);
    gpu_put_each_head(e, n->cols / head_dim);
    if (n->op == OP_headnorm)
        gpu_put(e, "headnorm_row(%s, %s, %s, %s);", of_rows, gpu_vector(e, n->weight), emit_float(e->arena, n->attr.eps),
                item);
    else
        gpu_put(e, "rope_row(%s, %s, position_of(a, t), %s, %s);", of_rows, gpu_tables(e, n, "t"), gpu_rotation(e, n),
                item);
    gpu_put_heads_end(e);
}

static void put_store(struct emitter *e, const struct node *n, const char *from)
{
    const uint32_t ring = state_ring(plan_state(e->plan, n)), rows = ring ? ring : e->plan->options.n_ctx, head_dim = n->attr.head_dim,
                   heads = n->cols / head_dim;
    const char *plane = n->op == OP_store_k ? "kv_k(a)" : gpu_values(e, n, heads, rows, head_dim);
    gpu_put_each_head(e, heads);
    gpu_put(e, "kv_store_row(%s + state_of(a, t), item, kv_row(position_of(a, t), /* ring */ %u), %s + item * %u, /* heads */ %u, "
               "/* rows */ %u, /* head_dim */ %u);", plane, ring, from, head_dim, heads, rows, head_dim);
    gpu_put_heads_end(e);
}

static void put_map(struct emitter *e)
{
    if (e->group->kind == GROUP_SLICES) { gpu_put_slices_sum(e); return; }
    if (gpu_map_of(e->group) == MAP_HEADS) { gpu_put_map_heads(e); return; }
    if (gpu_map_of(e->group) == MAP_VALUES) { gpu_put_values(e); return; }
    const struct node *n = e->group->branches[0].chain[0];
    const struct plan *p = e->plan;
    const uint32_t threads = e->kernel->param[PARAM_THREADS];
    const char *to = gpu_row(e, gpu_written(p, n, e->kernel->prefill), "t"), *from = gpu_row(e, gpu_read(p, n->inputs[0]), "t");
    const char *rows = arena_printf(e->arena, "%s, %s", to, from);
    gpu_put_token(e);
    switch (n->op) {
    case OP_bias: gpu_put(e, "bias_row(%s, %s, /* cols */ %u, %u);", rows, gpu_vector(e, n->weight), n->cols, threads); break;
    case OP_add:
    case OP_glu_silu:
    case OP_glu_gelu:
        gpu_put(e, "%s_row(%s, %s, /* cols */ %u, %u);", op_info[n->op].name, rows, gpu_row(e, gpu_read(p, n->inputs[1]), "t"), n->cols,
                threads);
        break;
    case OP_headnorm:
    case OP_rope: put_of_heads(e, n, rows); break;
    case OP_store_k:
    case OP_store_v: put_store(e, n, from); break;
    default: die("%s: forgec has no GPU kernel for it; this is a mistake in forgec, please report it", op_info[n->op].name);
    }
}

static void put_part(struct emitter *e, uint32_t i)
{
    e->group = &e->plan->fused->groups[i];
    e->gg = &e->plan->gpu->groups[i];
    if (e->group->kind == GROUP_NORM) put_norm(e);
    else put_map(e);
}

/* Does group i of a strand need what groups since .. i - 1 leave in memory, or the LDS that a norm uses? */
static bool waits(const struct emitter *e, uint32_t i, uint32_t since, uint32_t strand)
{
    const struct group *groups = e->plan->fused->groups;
    for (uint32_t k = since; k < i; k++) {
        if (e->plan->gpu->groups[k].strand != strand) continue;
        if (gpu_reads_group(e->plan, i, k) || (groups[i].kind == GROUP_NORM && groups[k].kind == GROUP_NORM)) return true;
    }
    return false;
}

/* The operations of a strand. */
static void put_strand(struct emitter *e, uint32_t first, uint32_t strand)
{
    const struct gpu_group *groups = e->plan->gpu->groups;
    uint32_t since = first;
    for (uint32_t i = first; i <= groups[first].series_last; i++) {
        if (groups[i].strand != strand || gpu_stores_nothing(e->plan, &e->plan->fused->groups[i])) continue;
        if (waits(e, i, since, strand)) {
            gpu_put(e, "memory_barrier();");
            since = i;
        }
        put_part(e, i);
    }
}

static void put_series(struct emitter *e)
{
    const uint32_t first = e->gg->series_first, strands = gpu_strands(e->plan, first);
    gpu_put_token(e);
    e->series = true;
    for (uint32_t s = 0; s < strands; s++) {
        if (strands > 1) gpu_put(e, s ? "} else if (group_x() == %u) {" : "if (group_x() == %u) {", s);
        put_strand(e, first, s);
    }
    if (strands > 1) gpu_put(e, "}");
    e->series = false;
}

static void put_sample(struct emitter *e)
{
    const struct plan *p = e->plan;
    const uint32_t n_vocab = p->model->n_vocab;
    const bool tells = p->options.split == SPLIT_LAYER;
    gpu_put_start(e);
    if (!p->fused->graph->output) {
        gpu_put(e, "layers_follow(a, /* n_ctx */ %u);", p->options.n_ctx);
        return;
    }
    if (tells) gpu_put(e, "const uint32_t tag = collective_tag(a);");
    gpu_put(e, "%ssample(a, FLOATS(ARENA_LOGITS) + (uint64_t)(a.step->n_logits - 1) * %u, /* n_vocab */ %u, /* n_ctx */ %u,",
            tells ? "const uint32_t token = " : "", n_vocab, n_vocab, p->options.n_ctx);
    gpu_put(e, "    BUFFER(ARENA_SAMPLE), (uint32_t *)(void *)BUFFER(ARENA_SAMPLE_COUNTERS), /* groups */ %u, %u);",
            e->kernel->grid_x, e->kernel->param[PARAM_THREADS]);
    if (tells) gpu_put(e, "layers_tell(a, tag, token);");
}

static void put_sample_drafts(struct emitter *e)
{
    const struct plan *p = e->plan;
    gpu_put_start(e);
    gpu_put(e, "sample_drafts(a, FLOATS(ARENA_LOGITS), /* n_vocab */ %u, /* n_ctx */ %u, BUFFER(ARENA_SAMPLE),", p->model->n_vocab,
            p->options.n_ctx);
    gpu_put(e, "    (uint32_t *)(void *)BUFFER(ARENA_DRAFT_WORDS), /* rows */ %u, /* by block */ %u, /* groups */ %u, %u);",
            p->options.columns, p->options.spec == SPEC_MTP, e->kernel->grid_x, e->kernel->param[PARAM_THREADS]);
}

static void put_store_draft(struct emitter *e)
{
    const struct plan *p = e->plan;
    const struct graph *g = p->fused->graph;
    const struct node *state = g->draft_state;
    gpu_put_start(e);
    gpu_put(e, "draft_store(a, FLOATS(ARENA_LOGITS), /* n_vocab */ %u, /* n_ctx */ %u, BUFFER(ARENA_SAMPLE),", p->model->n_vocab,
            p->options.n_ctx);
    gpu_put(e, "    (uint32_t *)(void *)BUFFER(ARENA_SAMPLE_COUNTERS), %s, /* cols */ %u, %s, /* slot */ %u, /* groups */ %u, %u);",
            gpu_row(e, gpu_read(p, state), "0"), state->cols, gpu_slot_bytes(e, g->draft_from), plan_slots(p), e->kernel->grid_x,
            e->kernel->param[PARAM_THREADS]);
}

/* ---- kernels ---- */

static void put_body(struct emitter *e)
{
    switch (e->kernel->template) {
    case TEMPLATE_embed:             put_embed(e); break;
    case TEMPLATE_norm:              put_norm(e); break;
    case TEMPLATE_map:               put_map(e); break;
    case TEMPLATE_series:            put_series(e); break;
    case TEMPLATE_stage:             gpu_put_stage(e, false); break;
    case TEMPLATE_stage_bf16:        gpu_put_stage(e, true); break;
    case TEMPLATE_gemv:              gpu_put_gemv(e); break;
    case TEMPLATE_gemv_columns:      gpu_put_gemv_columns(e); break;
    case TEMPLATE_gemv_matrix:       gpu_put_gemv_matrix(e); break;
    case TEMPLATE_gemm:              gpu_put_gemm(e); break;
    case TEMPLATE_heads:             gpu_put_heads(e); break;
    case TEMPLATE_attention_decode:
    case TEMPLATE_attention_columns: gpu_put_attention_decode(e); break;
    case TEMPLATE_attention_prefill: gpu_put_attention_prefill(e); break;
    case TEMPLATE_scores:
    case TEMPLATE_mask:
    case TEMPLATE_softmax:
    case TEMPLATE_weighted_sum:      gpu_put_attention_step(e); break;
    case TEMPLATE_sample:            put_sample(e); break;
    case TEMPLATE_sample_drafts:     put_sample_drafts(e); break;
    case TEMPLATE_store_draft:              put_store_draft(e); break;
    case TEMPLATE_push:
    case TEMPLATE_push_sums:         gpu_put_push(e); break;
    case TEMPLATE_route:             gpu_put_route(e); break;
    case TEMPLATE_picked:            gpu_put_picked(e); break;
    case TEMPLATE_conv:              gpu_put_conv(e); break;
    case TEMPLATE_conv_keep:         gpu_put_conv_keep(e); break;
    case TEMPLATE_recall:            gpu_put_recall(e); break;
    case TEMPLATE_recur:             gpu_put_recur(e); break;
    case TEMPLATE_products:
    case TEMPLATE_slices:
    case TEMPLATE_gather:
    case TEMPLATE_order:
    case TEMPLATE_attention:
    case TEMPLATE_attention_merge:
    case TEMPLATE_COUNT: die("%s is not a GPU kernel; this is a mistake in forgec, please report it", e->kernel->name);
    }
}

/* Continues the comment above the kernel with its `does` lines. */
static void put_does(struct text *out, const char *does)
{
    for (; *does; does += strcspn(does, "\n"), does += *does == '\n') text_printf(out, "\n * %.*s", (int)strcspn(does, "\n"), does);
}

static void put_kernel(struct emitter *e, const struct launch *l)
{
    const struct kernel *k = e->kernel = &e->plan->kernels->kernels[l->kernel];
    e->launch = l;
    e->group = l->group == NO_GROUP ? NULL : &e->plan->fused->groups[l->group];
    e->gg = l->group == NO_GROUP ? NULL : &e->plan->gpu->groups[l->group];
    e->body = (struct text){ .arena = e->arena };
    e->depth = 1;
    e->named = 0;
    put_body(e);
    text_printf(e->out, "/* %s: %u threads, %u bytes of LDS", k->name, k->param[PARAM_THREADS], k->lds_bytes);
    text_printf(e->out, "; %s", about_kernel(e->arena, e->plan, l->kernel));
    put_does(e->out, k->does);
    text_printf(e->out, " */\nKERNEL(%u, %u) %s(const struct forge_kernel_args a)\n{\n%s%s}\n\n", k->param[PARAM_THREADS],
                k->param[PARAM_RESIDENT] ? k->param[PARAM_RESIDENT] : 1, k->name, weights_text(e), text_str(&e->body));
}

void emit_gpu_kernels(struct arena *a, struct text *out, const struct plan *p)
{
    struct emitter e = { .arena = a, .plan = p, .out = out };
    for (uint32_t i = 0; i < p->kernels->n_kernels; i++) put_kernel(&e, kernel_first_launch(p->kernels, i));
}

const char *emit_gpu_kernel(struct arena *a, const struct plan *p, const struct launch *l)
{
    struct text out = { .arena = a };
    put_kernel(&(struct emitter){ .arena = a, .plan = p, .out = &out }, l);
    return text_str(&out);
}

/* ---- instances of templates ---- */

static void add_gemv(struct gpu_instances *list, struct gpu_gemv x)
{
    for (uint32_t i = 0; i < list->n_gemvs; i++) {
        const struct gpu_gemv *y = &list->gemvs[i];
        if (strcmp(x.format, y->format) == 0 && x.rows == y->rows && x.lanes == y->lanes && x.depth == y->depth
            && x.columns == y->columns && x.slices == y->slices && x.matrix == y->matrix) return;
    }
    list->gemvs[list->n_gemvs++] = x;
}

static void add_gemm(struct gpu_instances *list, struct gpu_gemm x)
{
    for (uint32_t i = 0; i < list->n_gemms; i++) {
        const struct gpu_gemm *y = &list->gemms[i];
        if (strcmp(x.format, y->format) == 0 && x.tokens == y->tokens && x.rows == y->rows && x.threads == y->threads
            && x.slices == y->slices) return;
    }
    list->gemms[list->n_gemms++] = x;
}

struct gpu_instances gpu_instances(struct arena *a, const struct plan *p)
{
    const struct kernel_list *list = p->kernels;
    const uint32_t most = list->n_kernels * MAX_BRANCHES;
    struct gpu_instances found = { .gemvs = arena_array(a, struct gpu_gemv, most), .gemms = arena_array(a, struct gpu_gemm, most) };
    for (uint32_t i = 0; i < list->n_kernels; i++) {
        const struct kernel *k = &list->kernels[i];
        const struct gpu_group *gg = k->group ? &p->gpu->groups[k->group - p->fused->groups] : NULL;
        for (uint32_t r = 0; gg && r < gg->n_runs; r++) {
            const char *format = gg->runs[r].weight->tensor->quant->file;
            const enum gpu_slices slices = gpu_slices_of(k->group);
            if (k->template == TEMPLATE_gemv || k->template == TEMPLATE_gemv_columns || k->template == TEMPLATE_gemv_matrix)
                add_gemv(&found, (struct gpu_gemv){ format, k->param[PARAM_ROWS], k->param[PARAM_LANES], k->param[PARAM_DEPTH],
                                                   k->param[PARAM_COLUMNS], slices, k->template == TEMPLATE_gemv_matrix });
            if (k->template == TEMPLATE_gemm)
                add_gemm(&found, (struct gpu_gemm){ format, k->param[PARAM_TOKENS], k->param[PARAM_ROWS], k->param[PARAM_THREADS],
                                                   slices != SLICES_NONE });
        }
    }
    return found;
}
