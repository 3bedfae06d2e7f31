/* kernels.c -- the kernels of the plan as functions. */
#include "compiler/source/about.h"
#include "kernels.h"
#include "attention.h"
#include "products.h"
#include "compiler/source/text.h"
#include <string.h>

typedef unsigned long long ull;

/* ---- kernels on rows of tokens, for decode and prefill ---- */

/* The step's cosines and sines. */
static void put_rotation(struct writer *w, const struct rotation_plan *r)
{
    const char *halves = arena_printf(w->arena, "VECTOR(%s), VECTOR(%s)", weight_at(w, r->hi), weight_at(w, r->lo));
    put(w, "rope_table(%s, %s, a->n_past + t, /* block */ %u, /* n_rot */ %u);", rotation_row(w, r), halves, r->block, r->n_rot);
}

static void put_embed(struct writer *w)
{
    const struct plan *p = w->plan;
    const struct node *n = w->group->node;
    const char *format = n->weight->tensor->quant->file, *row = float_row(w, &p->f32[n->index]);
    put(w, "const struct span s = share(a->n_tokens, thread, n_threads);");
    put(w, "for (uint32_t t = s.first; t < s.last; t++) {");
    put(w, "row_%s(%s, WEIGHT(%s), (uint32_t)a->tokens[t], %u);", format, row, weight_of(w, n->weight), (uint32_t)n->weight->cols);
    for (uint32_t i = 0; i < p->fused->graph->n_rotations; i++) put_rotation(w, &p->rotations[i]);
    put(w, "}");
}

static void put_norm(struct writer *w)
{
    const struct node *n = w->group->node;
    const char *y = float_row(w, &w->plan->f32[n->index]), *x = float_row(w, &w->plan->f32[w->group->input->index]);
    put(w, "const uint32_t t0 = first_token(a, l);");
    put(w, "const struct span s = share(a->n_tokens - t0, thread, n_threads);");
    put(w, "for (uint32_t t = t0 + s.first; t < t0 + s.last; t++)");
    put(w, "    rmsnorm(%s, %s, %s, %u, %s);", y, x, vector_of(w, n), n->cols, emit_float(w->arena, n->attr.eps));
}

/* An operation on finished values: pieces of one unit of rows of one token. */
static void put_map(struct writer *w)
{
    const struct branch *b = &w->group->branches[0];
    const struct node *n = b->chain[0];
    const uint32_t unit = w->kernel->param[PARAM_UNIT], units = (n->cols + unit - 1) / unit;
    put(w, "const uint32_t t0 = first_token(a, l);");
    put(w, "const struct span s = share((a->n_tokens - t0) * %u, thread, n_threads);", units);
    put(w, "for (uint32_t i = s.first; i < s.last; i++) {");
    put(w, "const uint32_t t = t0 + i / %u;", units);
    const char *count = put_rows(w, n->cols, unit, arena_printf(w->arena, "i %% %u * %u", units, unit));
    put(w, "_Alignas(64) float y[%u];", unit);
    put(w, "copy(y, %s + r, %s);", float_row(w, &w->plan->f32[n->inputs[0]->index]), count);
    if (op_info[n->op].n_values > 1) put(w, "const float *const up = %s + r;", float_row(w, &w->plan->f32[n->inputs[1]->index]));
    if (n->op == OP_add) put(w, "add(y, y, up, %s);", count);
    else put_chain(w, b, unit, count);
    put_sink(w, b, count);
    put(w, "}");
}

/* ---- all of them ---- */

static void put_body(struct writer *w)
{
    switch (w->kernel->template) {
    case TEMPLATE_embed:           put_embed(w); break;
    case TEMPLATE_norm:            put_norm(w); break;
    case TEMPLATE_map:             put_map(w); break;
    case TEMPLATE_products:        put_products(w); break;
    case TEMPLATE_stage:           put_stage(w); break;
    case TEMPLATE_attention:       put_attention(w); break;
    case TEMPLATE_attention_merge: put_attention_merge(w); break;
    default: die("%s is no kernel of a CPU; this is a mistake in forgec, please report it", template_info[w->kernel->template].name);
    }
}

/* "    enum { W_ATTN_Q, W_ATTN_NORM };" */
static void put_weights(struct text *out, const struct launch *l)
{
    for (uint32_t i = 0; i < l->n_weights; i++) text_printf(out, "%s%s", i ? ", " : "    enum { ", l->symbols[i]);
    if (l->n_weights) text_puts(out, " };\n");
}

const char *emit_cpu_body(struct arena *a, const struct plan *p, const struct launch *l)
{
    const struct kernel *k = &p->kernels->kernels[l->kernel];
    const bool rows = k->template == TEMPLATE_embed || k->template == TEMPLATE_norm || k->template == TEMPLATE_map;
    struct writer w = { .arena = a, .plan = p, .kernel = k, .launch = l, .many = k->prefill || rows, .body = { .arena = a }, .depth = 1 };
    w.group = &p->fused->groups[l->group];
    w.gp = &p->groups[l->group];
    w.t = w.many ? "t" : "0";
    put_weights(&w.body, l);
    put_body(&w);
    return text_str(&w.body);
}

/* The first launch of a kernel. */
static const struct launch *launch_of(const struct kernel_list *k, uint32_t kernel)
{
    for (uint32_t i = 0; i < k->n_decode; i++) if (k->decode[i].kernel == kernel) return &k->decode[i];
    for (uint32_t i = 0; i < k->n_prefill; i++) if (k->prefill[i].kernel == kernel) return &k->prefill[i];
    die("kernel %s has no launch; this is a mistake in forgec, please report it", k->kernels[kernel].name);
}

/* "attn_qkv_decode: layers 0-7, 8 launches, 139264 bytes of weights ..." and the lines of what it does. */
static void put_comment(struct arena *a, struct text *out, const struct plan *p, uint32_t kernel)
{
    const struct kernel *k = &p->kernels->kernels[kernel];
    text_printf(out, "/* %s: %s\n", k->name, about_kernel(a, p, kernel));
    for (const char *line = k->does; *line; line += strcspn(line, "\n") + 1) text_printf(out, " * %.*s\n", (int)strcspn(line, "\n"), line);
    text_puts(out, " */\n");
}

void emit_cpu_kernels(struct arena *a, struct text *out, const struct plan *p)
{
    for (uint32_t i = 0; i < p->kernels->n_kernels; i++) {
        const struct kernel *k = &p->kernels->kernels[i];
        put_comment(a, out, p, i);
        text_printf(out, "KERNEL(%s)\n{\n    UNUSED;\n%s}\n\n", k->name, emit_cpu_body(a, p, launch_of(p->kernels, i)));
    }
}
