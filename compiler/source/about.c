/* about.c -- see about.h. */
#include "about.h"
#include "text.h"
#include <string.h>

typedef unsigned long long ull;

/* "layer 3", "layers 0-7" */
static const char *layers_text(struct arena *a, uint32_t first, uint32_t last)
{
    if (first == NO_LAYER) return "outside the layers";
    return first == last ? arena_printf(a, "layer %u", first) : arena_printf(a, "layers %u-%u", first, last);
}

/* ---- the model ---- */

static const char *attention_text(struct arena *a, const struct plan *p, const struct node *n)
{
    const struct state *s = plan_state(p, n);
    const uint32_t window = plan_window(p, n);
    const char *reads = window ? arena_printf(a, "the last %u positions", window) : "all positions";
    const char *rows = arena_printf(a, "%s of %u rows", state_kind_name[s->kind], s->rows);
    return arena_printf(a, "%u heads of %u over %u KV heads, reads %s, %s", n->heads, n->attr.head_dim, n->inputs[1]->heads, reads, rows);
}

/* Consecutive layers with the same attention share a line. */
static void put_attentions(struct arena *a, struct text *t, const struct plan *p)
{
    const struct graph *g = p->fused->graph;
    const char *said = NULL;
    uint32_t first = 0, last = 0;
    for (uint32_t i = 0; i <= g->n_nodes; i++) {
        const struct node *n = i < g->n_nodes ? g->nodes[i] : NULL;
        if (n && n->op != OP_attention) continue;
        const char *text = n ? attention_text(a, p, n) : NULL;
        if (said && (!text || strcmp(said, text))) text_printf(t, " * %s: %s\n", layers_text(a, first, last), said);
        if (text && (!said || strcmp(said, text))) first = n->layer;
        if (n) last = n->layer;
        said = text;
    }
}

void about_model(struct arena *a, struct text *t, const struct plan *p)
{
    const struct model *m = p->model;
    text_puts(t, "/* ==== the model ==== */\n");
    text_printf(t, "/* %u layers of %u columns, %u tokens in the vocabulary, ", m->n_layer, m->n_embd, m->n_vocab);
    text_printf(t, "context %u, prompts in steps of %u tokens\n", p->options.n_ctx, p->chunk);
    put_attentions(a, t, p);
    const ull state = (ull)p->state_bytes, image = (ull)p->image_bytes, read = (ull)p->read_bytes;
    text_printf(t, " * state of a sequence: %llu bytes, of which a position takes %llu\n", state, (ull)p->state_bytes_per_token);
    text_printf(t, " * weights: %u tensors in %llu bytes, of which a token reads %llu */\n\n", p->n_tensors, image, read);
}

/* ---- kernels ---- */

/* The first and last layer of a kernel's launches, and the number of launches. */
struct layers { uint32_t first, last, n; };

static void add_layers(struct layers *of, const struct launches *all, uint32_t kernel)
{
    for (uint32_t i = 0; i < all->n; i++) {
        if (all->list[i].kernel != kernel) continue;
        const uint32_t layer = all->list[i].layer;
        if (!of->n++) of->first = of->last = layer;
        if (layer == NO_LAYER || of->first == NO_LAYER) continue;
        if (layer < of->first) of->first = layer;
        if (layer > of->last) of->last = layer;
    }
}

const char *about_kernel(struct arena *a, const struct plan *p, uint32_t kernel)
{
    const struct kernel_list *list = p->kernels;
    const struct kernel *k = &list->kernels[kernel];
    struct layers of = { 0 };
    struct text t = { .arena = a };
    for (enum kernel_steps steps = 0; steps < STEPS_COUNT; steps++) add_layers(&of, &list->of[steps], kernel);
    if (!of.n) return "after a step";
    text_printf(&t, "%s, %u launch%s", layers_text(a, of.first, of.last), of.n, of.n == 1 ? "" : "es");
    if (k->weight_bytes) text_printf(&t, ", %llu bytes of weights", (ull)k->weight_bytes);
    if (k->state_bytes) text_printf(&t, ", %llu of the full state", (ull)k->state_bytes);
    const double us = plan_micros(p, k->weight_bytes + k->state_bytes);
    if (us > 0) text_printf(&t, ", %.2f us of reading", us);
    return text_str(&t);
}

/* ---- launches ---- */

/* The number of consecutive launches from i on with the same layer. */
static uint32_t run_of(const struct launch *launches, uint32_t n, uint32_t i)
{
    uint32_t end = i + 1;
    while (end < n && launches[end].layer == launches[i].layer) end++;
    return end - i;
}

static bool same_run(const struct launch *x, const struct launch *y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) if (x[i].kernel != y[i].kernel) return false;
    return true;
}

static void put_order(struct arena *a, struct text *t, const struct plan *p, enum kernel_steps steps)
{
    const struct launch *launches = p->kernels->of[steps].list;
    const uint32_t n = p->kernels->of[steps].n;
    for (uint32_t i = 0; i < n;) {
        const uint32_t length = run_of(launches, n, i);
        uint32_t next = i + length;
        while (next < n && run_of(launches, n, next) == length && same_run(&launches[i], &launches[next], length)) next += length;
        struct text line = { .arena = a };
        text_printf(&line, " *   %s:", layers_text(a, launches[i].layer, launches[next - 1].layer));
        for (uint32_t k = 0; k < length; k++) text_printf(&line, "%s %s", k ? "," : "", p->kernels->kernels[launches[i + k].kernel].name);
        emit_folded(t, text_str(&line), " *     ");
        i = next;
    }
}

void about_launches(struct arena *a, struct text *t, const struct plan *p)
{
    const struct kernel_list *list = p->kernels;
    text_puts(t, "/* ==== launches ==== */\n/* Launches for a token, in order:\n");
    put_order(a, t, p, STEPS_DECODE);
    text_puts(t, " * Launches for a step of a prompt; a product may have kernels for steps of different sizes, and one of them runs:\n");
    put_order(a, t, p, STEPS_PREFILL);
    if (list->of[STEPS_COLUMNS].n) {
        text_puts(t, " * Launches for a few tokens, with decode's bits:\n");
        put_order(a, t, p, STEPS_COLUMNS);
    }
    if (list->of[STEPS_PASS].n) {
        text_puts(t, " * Launches for a draft:\n");
        put_order(a, t, p, STEPS_PASS);
    }
    text_puts(t, " * The tables, with grids and places of weights, are in the program's C source (--save-temps). */\n\n");
}
