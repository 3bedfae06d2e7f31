/* kernels.c -- see kernels.h. */
#include "compiler/source/about.h"
#include "kernels.h"
#include "attention.h"
#include "products.h"
#include "slices.h"
#include "compiler/source/text.h"
#include <string.h>

typedef unsigned long long ull;

/* ---- kernels on rows of tokens, for decode and prefill ---- */

/* Writes row t of the step's table of cosines and sines. */
static void put_rotation(struct cpu_writer *w, const struct rotation_plan *r)
{
    const char *hi = weight_at(w, r->hi), *lo = weight_at(w, r->lo);
    const char *halves = !r->lo_far ? arena_printf(w->arena, "VECTOR(%s), VECTOR(%s)", hi, lo)
                       : arena_printf(w->arena, "VECTOR(%s) + FAR_OF(t) * %llu, VECTOR(%s) + FAR_OF(t) * %llu", hi,
                                      (ull)(r->hi_far / 4), lo, (ull)(r->lo_far / 4));
    put(w, "rope_table(%s, %s, POSITION_OF(t), /* block */ %u, /* n_rot */ %u);", rotation_row(w, r), halves, r->block, r->n_rot);
}

static void put_embed(struct cpu_writer *w)
{
    const struct plan *p = w->plan;
    const struct node *n = w->group->node;
    const char *format = n->weight->tensor->quant->file, *row = float_row(w, &p->f32[n->index]);
    put(w, "const struct span s = share(a->n_tokens, thread, n_threads);");
    put(w, "for (uint32_t t = s.first; t < s.last; t++) {");
    put(w, "row_%s(%s, WEIGHT(%s), (uint32_t)a->tokens[t], %u);", format, row, weight_of(w, n->weight), (uint32_t)n->weight->cols);
    for (uint32_t i = 0; w->group == p->fused->groups && i < p->fused->graph->n_rotations; i++) put_rotation(w, &p->rotations[i]);
    put(w, "}");
}

static void put_norm(struct cpu_writer *w)
{
    const struct node *n = w->group->node;
    const char *x = float_row(w, &w->plan->f32[w->group->input->index]);
    const char *y = n == w->plan->fused->graph->output ? logits_row(w, n->cols) : float_row(w, &w->plan->f32[n->index]);
    put(w, "const uint32_t t0 = first_token(a, l);");
    put(w, "const struct span s = share(a->n_tokens - t0, thread, n_threads);");
    put(w, "for (uint32_t t = t0 + s.first; t < t0 + s.last; t++)");
    put(w, "    %s", norm_call(w, n, y, x));
}

/* Declares y with rows r .. r + count - 1 of the operation's first value, and up, a pointer to its second value. */
static void put_operands(struct cpu_writer *w, const struct node *n, uint32_t unit, const char *count)
{
    const char *x = float_row(w, &w->plan->f32[n->inputs[0]->index]);
    const char *up = op_info[n->op].n_values > 1 ? float_row(w, &w->plan->f32[n->inputs[1]->index]) : "";
    const uint32_t x_dim = n->attr.head_dim;
    put(w, "_Alignas(64) float y[%u];", unit);
    if (n->op == OP_join)
        put(w, "join_heads(y, %s, %s, r / %u, %u, %u, %s);", x, up, n->cols / n->heads, x_dim, n->cols / n->heads - x_dim, count);
    else if (n->op == OP_part)
        put(w, "take_parts(y, %s + %u, r / %u, %u, %u, %s);", x, n->attr.first, n->attr.count, n->attr.count, n->attr.every, count);
    else put(w, "copy(y, %s + r, %s);", x, count);
    if (*up && n->op != OP_join) put(w, "const float *const up = %s%s;", up, n->inputs[1]->cols == 1 && n->cols != 1 ? "" : " + r");
}

/* Operations on finished values: a piece of work is one unit of rows of one token. */
static void put_map(struct cpu_writer *w)
{
    const struct branch *b = &w->group->branches[0];
    const struct node *n = b->chain[0];
    const uint32_t unit = w->kernel->param[PARAM_UNIT], units = (n->cols + unit - 1) / unit;
    if (slice_rows(w->group)) {
        put_expert_map(w);
        return;
    }
    put(w, "const uint32_t t0 = first_token(a, l);");
    put(w, "const struct span s = share((a->n_tokens - t0) * %u, thread, n_threads);", units);
    put(w, "for (uint32_t i = s.first; i < s.last; i++) {");
    put(w, "const uint32_t t = t0 + i / %u;", units);
    const char *count = put_rows(w, n->cols, unit, arena_printf(w->arena, "i %% %u * %u", units, unit));
    put_operands(w, n, unit, count);
    for (uint32_t i = n->op == OP_join || n->op == OP_part; i < b->n_chain; i++) put_operation(w, b, i, unit, count);
    put_sink(w, b, count);
    put(w, "}");
}

/* ---- operations with a state from position to position: a thread takes units of columns through all tokens ---- */

static void put_positions(struct cpu_writer *w, uint32_t cols, uint32_t unit, const char **count)
{
    put_work(w, arena_printf(w->arena, "%u", (cols + unit - 1) / unit));
    put(w, "for (uint32_t i = s.first; i < s.last; i++) {");
    *count = put_rows(w, cols, unit, arena_printf(w->arena, "%u * i", unit));
    put(w, "float *const state = (float *)(void *)STATE;");
    put(w, "for (uint32_t t = a->row; t < a->row + a->n_tokens; t++) {");
    put(w, "_Alignas(64) float y[%u];", unit);
}

static void put_rest(struct cpu_writer *w, const struct branch *b, uint32_t unit, const char *count)
{
    for (uint32_t i = 1; i < b->n_chain; i++) put_operation(w, b, i, unit, count);
    put_sink(w, b, count);
    put(w, "}");
    put(w, "}");
    put(w, "}");
}

static void put_conv(struct cpu_writer *w)
{
    const struct branch *b = &w->group->branches[0];
    const struct node *n = b->chain[0];
    const uint32_t unit = w->kernel->param[PARAM_UNIT], n_taps = (uint32_t)n->weight->cols;
    const char *count, *x = float_row(w, &w->plan->f32[n->inputs[0]->index]);
    put_positions(w, n->cols, unit, &count);
    put(w, "conv_step(y, %s + r, state + r, VECTOR(%s) + r,", x, weight_of(w, n->weight));
    put(w, "    /* taps */ %u, /* columns */ %u, %llu, %s);", n_taps, n->cols, (ull)plan_weight_stride(w->plan, n->weight), count);
    put_rest(w, b, unit, count);
}

/* A unit consists of columns of one head of v, or of whole heads. */
static void put_recur(struct cpu_writer *w)
{
    const struct branch *b = &w->group->branches[0];
    const struct node *n = b->chain[0];
    const uint32_t unit = w->kernel->param[PARAM_UNIT], dim = n->attr.head_dim, value_dim = n->attr.value_dim, heads = n->heads;
    const uint32_t qk_heads = n->inputs[0]->cols / dim, by_channel = n->inputs[3]->cols != heads;
    const uint32_t each = unit < value_dim ? unit : value_dim, divisor = n->attr.modulo ? qk_heads : heads / qk_heads;
    const char *decay = by_channel ? arena_printf(w->arena, "%u * head", dim) : "head";
    const char *count, *x[5];
    for (uint32_t i = 0; i < 5; i++) x[i] = float_row(w, &w->plan->f32[n->inputs[i]->index]);
    put_positions(w, n->cols, unit, &count);
    if (unit > each) put(w, "for (uint32_t c = 0; c < %s; c += %u) {", count, each);
    else put(w, "const uint32_t c = 0;");
    put(w, "const uint32_t head = (r + c) / %u, qk = head %c %u;", value_dim, n->attr.modulo ? '%' : '/', divisor);
    put(w, "float *const S = state + (uint64_t)%llu * head + (r + c) %% %u;", (ull)dim * value_dim, value_dim);
    put(w, "recur_step(y + c, S, %u, %s + %u * qk, %s + %u * qk, %s + r + c,", value_dim, x[0], dim, x[1], dim, x[2]);
    put(w, "    %s + %s, /* by channel */ %u, %s[head], /* delta */ %u, %u, %u);", x[3], decay, by_channel, x[4], n->attr.delta, dim, each);
    if (unit > each) put(w, "}");
    put_rest(w, b, unit, count);
}

/* ---- all kernels ---- */

static void put_body(struct cpu_writer *w)
{
    switch (w->kernel->template) {
    case TEMPLATE_embed:           put_embed(w); break;
    case TEMPLATE_norm:            put_norm(w); break;
    case TEMPLATE_map:             put_map(w); break;
    case TEMPLATE_products:        put_products(w); break;
    case TEMPLATE_stage:           put_stage(w); break;
    case TEMPLATE_slices:          put_slices(w); break;
    case TEMPLATE_gather:          put_gather(w); break;
    case TEMPLATE_route:           put_route(w); break;
    case TEMPLATE_order:           put_order(w); break;
    case TEMPLATE_conv:            put_conv(w); break;
    case TEMPLATE_recur:           put_recur(w); break;
    case TEMPLATE_attention:       put_attention(w); break;
    case TEMPLATE_attention_merge: put_attention_merge(w); break;
    default: die("%s is not a CPU kernel; this is a mistake in forgec, please report it", template_info[w->kernel->template].name);
    }
}

/* "    enum { W_ATTN_Q, W_ATTN_NORM };" */
static void put_weights(struct text *out, const struct launch *l)
{
    for (uint32_t i = 0; i < l->n_bindings; i++) text_printf(out, "%s%s", i ? ", " : "    enum { ", l->bindings[i].symbol);
    if (l->n_bindings) text_puts(out, " };\n");
}

static bool is_attention(enum kernel_template t) { return t == TEMPLATE_attention || t == TEMPLATE_attention_merge; }
/* Do decode and prefill share the kernels of the template? */
static bool is_shared(enum kernel_template t) { return t != TEMPLATE_products && t != TEMPLATE_slices && !is_attention(t); }

const char *emit_cpu_body(struct arena *a, const struct plan *p, const struct launch *l)
{
    const struct kernel *k = &p->kernels->kernels[l->kernel];
    const bool rows = !k->prefill && is_shared(k->template);
    struct cpu_writer w = { .arena = a, .plan = p, .kernel = k, .launch = l, .body = { .arena = a }, .depth = 1 };
    w.many = k->prefill || rows;
    w.form = k->form;
    w.group = &p->fused->groups[l->group];
    w.gp = &p->groups[l->group];
    w.t = w.many ? "t" : is_attention(k->template) ? "a->row" : "0";
    put_weights(&w.body, l);
    put_body(&w);
    return text_str(&w.body);
}

/* "attn_qkv_decode: layers 0-7, 8 launches, 139264 bytes of weights ..." and the lines of the kernel's `does`. */
static void put_comment(struct arena *a, struct text *out, const struct plan *p, uint32_t kernel)
{
    const struct kernel *k = &p->kernels->kernels[kernel];
    text_printf(out, "/* %s: %s\n", k->name, about_kernel(a, p, kernel));
    emit_comment_lines(out, k->does);
    text_puts(out, " */\n");
}

void emit_cpu_kernels(struct arena *a, struct text *out, const struct plan *p)
{
    for (uint32_t i = 0; i < p->kernels->n_kernels; i++) {
        const struct kernel *k = &p->kernels->kernels[i];
        put_comment(a, out, p, i);
        text_printf(out, "KERNEL(%s)\n{\n    UNUSED;\n%s}\n\n", k->name, emit_cpu_body(a, p, kernel_first_launch(p->kernels, i)));
    }
}
