/* graph.c -- wiring text -> nodes; shapes are inferred and checked; print and parse. */
#include "graph.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum absent { VANISH, DROP };
const struct op_info op_info[OP_COUNT] = {
#define OP(name, values, weights, absent) [OP_##name] = { #name, values, weights, absent == VANISH },
#include "op.def"
#undef OP
};

struct name { const char *text; struct node *node; };

struct builder {
    struct arena       *arena;
    const struct model *model;
    struct graph       *graph;
    uint32_t            capacity;
    struct name        *names;        /* values by their text; the last one of a name counts */
    uint32_t            n_names, names_capacity;
    uint32_t            layer;
    bool                unrolled;     /* reading graph_print's text: names and layers are explicit */
};

/* ---- names ---- */

static struct node *name_find(const struct builder *b, const char *text)
{
    for (uint32_t i = b->n_names; i-- > 0; )
        if (strcmp(b->names[i].text, text) == 0) return b->names[i].node;
    return NULL;
}

static void name_set(struct builder *b, const char *text, struct node *node)
{
    if (b->n_names == b->names_capacity) {
        b->names_capacity = b->names_capacity ? 2 * b->names_capacity : 64;
        struct name *grown = arena_array(b->arena, struct name, b->names_capacity);
        if (b->n_names) memcpy(grown, b->names, b->n_names * sizeof *grown);
        b->names = grown;
    }
    b->names[b->n_names++] = (struct name){ text, node };
}

/* ---- nodes and their shapes ---- */

static void need_cols(struct place at, const struct node *n, uint32_t cols, const char *what)
{
    if (n->cols != cols) die_at(at, "%%%s has %u columns; %s takes %u", n->name, n->cols, what, cols);
}

static void infer(const struct model *m, struct place at, struct node *n)
{
    const struct weight *w = n->weight;
    const struct node *x = n->inputs[0];
    const char *op = op_info[n->op].name;
    if (w && (n->op == OP_matmul || n->op == OP_embed) == w->is_vector)
        die_at(at, "%s takes a %s; %s is none", op, w->is_vector ? "matrix" : "vector", w->role);
    switch (n->op) {
    case OP_embed:    n->cols = (uint32_t)w->cols; break;
    case OP_matmul:   need_cols(at, x, (uint32_t)w->cols, w->role); n->cols = (uint32_t)w->rows; break;
    case OP_rmsnorm:
    case OP_bias:     if (w) need_cols(at, x, (uint32_t)w->cols, w->role);
                      n->cols = x->cols; break;
    case OP_headnorm:
    case OP_rope:
    case OP_store_k:
    case OP_store_v:
        if (x->cols % m->head_dim) die_at(at, "%%%s has %u columns, which is no whole number of heads of %u", x->name, x->cols, m->head_dim);
        n->cols = x->cols;
        n->heads = x->cols / m->head_dim;
        break;
    case OP_attention:
        if (n->inputs[1]->op != OP_store_k || n->inputs[2]->op != OP_store_v) die_at(at, "attention reads a query, a store_k and a store_v");
        n->cols = x->cols;
        n->heads = x->cols / m->head_dim;
        if (x->cols % m->head_dim || n->heads % n->inputs[1]->heads || n->inputs[1]->cols != n->inputs[2]->cols)
            die_at(at, "attention: %u query columns do not go with %u key and %u value columns", x->cols, n->inputs[1]->cols, n->inputs[2]->cols);
        break;
    case OP_glu_silu:
    case OP_glu_gelu:
    case OP_add:      need_cols(at, n->inputs[1], x->cols, op); n->cols = x->cols; break;
    case OP_COUNT:    break;
    }
}

static struct node *node_new(struct builder *b)
{
    struct graph *g = b->graph;
    if (g->n_nodes == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 256;
        struct node **grown = arena_array(b->arena, struct node *, b->capacity);
        if (g->n_nodes) memcpy(grown, g->nodes, g->n_nodes * sizeof *grown);
        g->nodes = grown;
    }
    struct node *n = arena_new(b->arena, struct node);
    n->index = g->n_nodes;
    g->nodes[g->n_nodes++] = n;
    return n;
}

/* ---- one line: %name = op operand, operand ... # comment ---- */

struct reader { const char *p; struct place at; const char *line; };

static void skip_blanks(struct reader *r) { while (*r->p == ' ' || *r->p == '\t') r->p++; }

static struct place here(const struct reader *r)
{
    struct place at = r->at;
    at.column += (uint32_t)(r->p - r->line);
    return at;
}

static const char *read_word(struct builder *b, struct reader *r, const char *what)
{
    const char *start = r->p;
    while (isalnum((unsigned char)*r->p) || *r->p == '_' || *r->p == '.') r->p++;
    if (r->p == start) die_at(here(r), "expected %s", what);
    return arena_strndup(b->arena, start, (size_t)(r->p - start));
}

static bool take(struct reader *r, char c)
{
    skip_blanks(r);
    if (*r->p != c) return false;
    r->p++;
    skip_blanks(r);
    return true;
}

static enum op read_op(struct builder *b, struct reader *r)
{
    struct place at = here(r);
    const char *word = read_word(b, r, "an operation");
    for (uint32_t i = 0; i < OP_COUNT; i++)
        if (strcmp(op_info[i].name, word) == 0) return (enum op)i;
    die_at(at, "unknown operation %s", word);
}

/* "attn_q" in the layer being built, or in unrolled text "3.attn_q". */
static const struct weight *read_weight(struct builder *b, struct reader *r, bool *absent_allowed)
{
    struct place at = here(r);
    const char *role = read_word(b, r, "a tensor role");
    uint32_t layer = b->layer;
    if (b->unrolled) {
        layer = NO_LAYER;
        if (isdigit((unsigned char)*role)) {
            layer = 0;
            while (isdigit((unsigned char)*role)) layer = layer * 10 + (uint32_t)(*role++ - '0');
            if (*role++ != '.' || layer >= b->model->n_layer) die_at(at, "expected LAYER.role with a layer below %u", b->model->n_layer);
        }
    }
    *absent_allowed = take(r, '?');
    const struct weight *w = model_weight(b->model, at, role, layer);
    if (!w && !*absent_allowed) die_at(at, "tensor %s is optional: write %s?", role, role);
    return w;
}

static void read_line(struct builder *b, struct reader *r)
{
    struct place at = here(r);
    if (!take(r, '%')) die_at(at, "expected %%value = operation ...");
    const char *name = read_word(b, r, "a value's name");
    if (!take(r, '=')) die_at(here(r), "expected =");
    struct node made = { .op = read_op(b, r), .layer = b->layer };
    skip_blanks(r);
    uint32_t n_values = 0, n_weights = 0;
    bool absent = false;
    if (*r->p && *r->p != '#') do {
        struct place operand = here(r);
        if (take(r, '%')) {
            const char *text = read_word(b, r, "a value's name");
            struct node *value = name_find(b, text);
            if (!value) die_at(operand, "%%%s is not defined before", text);
            if (n_values == COUNT_OF(made.inputs)) die_at(operand, "too many values");
            made.inputs[n_values++] = value;
        } else {
            bool may_be_absent;
            made.weight = read_weight(b, r, &may_be_absent);
            absent = !made.weight;
            n_weights++;
        }
    } while (take(r, ','));
    skip_blanks(r);
    if (*r->p && *r->p != '#') die_at(here(r), "expected the end of the line");
    const struct op_info *info = &op_info[made.op];
    if (n_values != info->n_values || n_weights > info->n_weights || (n_weights < info->n_weights && info->vanishes))
        die_at(at, "%s takes %u values and %u weights", info->name, info->n_values, info->n_weights);
    if (absent && info->vanishes) {
        name_set(b, name, made.inputs[n_values - 1]);
        return;
    }
    struct node *n = node_new(b);
    made.index = n->index;
    *n = made;
    n->name = name;
    if (b->unrolled && isdigit((unsigned char)*name)) n->layer = (uint32_t)strtoul(name, NULL, 10);
    else if (b->unrolled) n->layer = NO_LAYER;
    else if (b->layer != NO_LAYER) n->name = arena_printf(b->arena, "%u.%s", b->layer, name);
    infer(b->model, at, n);
    name_set(b, name, n);
}

/* ---- sections ---- */

static void read_section(struct builder *b, const char *text, struct place first, const char *section)
{
    struct place at = first;
    bool inside = section == NULL, found = inside;
    for (const char *p = text; *p; at.line++) {
        const char *end = strchr(p, '\n');
        const size_t n = end ? (size_t)(end - p) : strlen(p);
        const char *line = arena_strndup(b->arena, p, n);
        struct reader r = { .p = line, .at = at, .line = line };
        r.at.column = 1;
        skip_blanks(&r);
        const char *colon = strchr(r.p, ':');
        if (section && colon && *r.p != '%' && *r.p != '#') {
            inside = strncmp(r.p, section, (size_t)(colon - r.p)) == 0 && strlen(section) == (size_t)(colon - r.p);
            found |= inside;
        }
        else if (inside && *r.p && *r.p != '#') read_line(b, &r);
        p += n + (end ? 1 : 0);
    }
    if (!found) die_at(first, "the graph has no section %s:", section);
}

static struct graph *finish(struct builder *b, struct place at)
{
    struct graph *g = b->graph;
    if (!g->n_nodes) die_at(at, "the graph is empty");
    g->output = g->nodes[g->n_nodes - 1];
    if (g->output->cols != b->model->n_vocab) die_at(at, "the last value, %%%s, has %u columns; logits have %u", g->output->name, g->output->cols, b->model->n_vocab);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct node *n = g->nodes[i];
        for (uint32_t k = 0; k < op_info[n->op].n_values; k++) n->inputs[k]->n_readers++;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        g->nodes[i]->readers = arena_array(b->arena, struct node *, g->nodes[i]->n_readers);
        g->nodes[i]->n_readers = 0;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < op_info[g->nodes[i]->op].n_values; k++) {
            struct node *in = g->nodes[i]->inputs[k];
            in->readers[in->n_readers++] = g->nodes[i];
        }
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i]->n_readers && g->nodes[i] != g->output) die_at(at, "%%%s is never read", g->nodes[i]->name);
    return g;
}

struct graph *graph_build(struct arena *a, const struct model *m)
{
    struct builder b = { .arena = a, .model = m, .graph = arena_new(a, struct graph), .layer = NO_LAYER };
    b.graph->model = m;
    read_section(&b, m->graph_text, m->graph_at, "input");
    for (b.layer = 0; b.layer < m->n_layer; b.layer++) read_section(&b, m->graph_text, m->graph_at, "layer");
    b.layer = NO_LAYER;
    read_section(&b, m->graph_text, m->graph_at, "output");
    return finish(&b, m->graph_at);
}

struct graph *graph_parse(struct arena *a, const struct model *m, const char *name, const char *text)
{
    struct builder b = { .arena = a, .model = m, .graph = arena_new(a, struct graph), .layer = NO_LAYER, .unrolled = true };
    b.graph->model = m;
    const struct place at = { name, 1, 1 };
    read_section(&b, text, at, NULL);
    return finish(&b, at);
}

void graph_print(struct text *out, const struct graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = g->nodes[i];
        struct text line = { .arena = out->arena };
        text_printf(&line, "%%%s = %s", n->name, op_info[n->op].name);
        const char *comma = " ";
        if (n->weight) {
            if (n->weight->layer == NO_LAYER) text_printf(&line, "%s%s", comma, n->weight->role);
            else text_printf(&line, "%s%u.%s", comma, n->weight->layer, n->weight->role);
            comma = ", ";
        }
        for (uint32_t k = 0; k < op_info[n->op].n_values; k++) { text_printf(&line, "%s%%%s", comma, n->inputs[k]->name); comma = ", "; }
        text_printf(out, "%-64s # f32 [n_tokens, %u]", text_str(&line), n->cols);
        if (n->weight) text_printf(out, "  %s %s", n->weight->name, n->weight->tensor->quant->name);
        text_puts(out, "\n");
    }
}
