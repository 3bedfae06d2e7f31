/* layers.c -- see layers.h. */
#include "layers.h"
#include <math.h>
#include <string.h>

/* ---- where a row may be cut ---- */

/* Does a node with index >= from read n? Nodes of the block that drafts tokens do not count. */
static bool is_read_from(const struct graph *g, const struct node *n, uint32_t from)
{
    for (uint32_t i = 0; i < n->n_readers; i++) if (n->readers[i]->index >= from && !graph_drafts(g, n->readers[i])) return true;
    return false;
}

/* Does n pass a cut before node `from`? */
static bool passes(const struct graph *g, const struct node *n, uint32_t from)
{
    return n->index < from && !graph_drafts(g, n) && is_read_from(g, n, from);
}

/* Rows of floats can pass a cut; a cache and the chosen experts cannot. */
static bool may_cut(const struct graph *g, uint32_t from)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < from; i++) {
        if (!passes(g, g->nodes[i], from)) continue;
        if (op_keeps(g->nodes[i]->op) || g->nodes[i]->op == OP_route) return false;
        n++;
    }
    return n > 0;
}

/* Bytes of n's weight, as stored in the file, that a token reads. */
static double bytes_read(const struct node *n)
{
    const struct weight *w = n->weight;
    if (!node_reads_weight(n) || op_info[n->op].reads == READS_ROWS) return 0;
    const struct format *q = w->tensor->quant;
    const double all = (double)w->rows * (double)w->cols / q->block_weights * q->block_bytes;
    const struct node *choice = op_info[n->op].reads == READS_EXPERTS ? n->inputs[1] : NULL;
    return choice ? all * choice->attr.used / choice->inputs[0]->cols : all;
}

/* The border before a layer: the first node of the layer, whether the graph may be cut there, and the weight bytes that a token reads
 * before it. */
struct border { uint32_t node; bool may; double bytes; };

static uint32_t first_of_layer(const struct graph *g, uint32_t layer)
{
    uint32_t i = 0;
    while (i < g->n_nodes && g->nodes[i]->layer != layer) i++;
    return i;
}

static double bytes_before(const struct graph *g, uint32_t node)
{
    double bytes = 0;
    for (uint32_t i = 0; i < node; i++) if (!graph_drafts(g, g->nodes[i])) bytes += bytes_read(g->nodes[i]);
    return bytes;
}

static void read_borders(const struct graph *g, struct border *borders)
{
    for (uint32_t layer = 0; layer < g->model->n_layer; layer++) {
        const uint32_t node = first_of_layer(g, layer);
        borders[layer] = (struct border){ node, may_cut(g, node), bytes_before(g, node) };
    }
}

/* The border after layer `after` that is nearest to `wanted` bytes and has at least `left` possible borders after it; 0: no such border. */
static uint32_t nearest(const struct border *borders, uint32_t n_layer, uint32_t after, double wanted, uint32_t left)
{
    uint32_t best = 0, behind = 0;
    for (uint32_t layer = n_layer; --layer > after; ) {
        if (!borders[layer].may) continue;
        const bool nearer = !best || fabs(borders[layer].bytes - wanted) <= fabs(borders[best].bytes - wanted);
        if (behind++ >= left && nearer) best = layer;
    }
    return best;
}

static struct layers_cuts cuts_by_speed(const struct graph *g, uint32_t ranks, const double *speeds, const struct border *borders)
{
    struct layers_cuts cuts = { .ranks = ranks };
    double all = 0, before = 0;
    for (uint32_t r = 0; r < ranks; r++) all += speeds[r];
    const double bytes = bytes_before(g, g->n_nodes);
    for (uint32_t r = 1, layer = 0; r < ranks; r++) {
        before += speeds[r - 1];
        const uint32_t next = nearest(borders, g->model->n_layer, layer, bytes * before / all, ranks - 1 - r);
        if (!next) die("%s: its %u layers cannot be split into %u stages, since some layers share keys and values; take fewer GPUs",
                       g->model->gguf->path, g->model->n_layer, ranks);
        cuts.first[r] = borders[next].node;
        cuts.layers[r - 1] = next - layer;
        layer = next;
        cuts.layers[r] = g->model->n_layer - layer;
    }
    return cuts;
}

static struct layers_cuts cuts_as_asked(const struct graph *g, uint32_t ranks, const uint32_t *layers, const struct border *borders)
{
    struct layers_cuts cuts = { .ranks = ranks };
    uint32_t all = 0;
    for (uint32_t r = 0; r < ranks; r++) all += layers[r];
    if (all != g->model->n_layer)
        die("--split: the numbers add up to %u layers, but %s has %u", all, g->model->gguf->path, g->model->n_layer);
    for (uint32_t r = 0, layer = 0; r < ranks; layer += layers[r++]) {
        cuts.layers[r] = layers[r];
        if (r && !borders[layer].may)
            die("--split: %s cannot be cut before layer %u, since later layers read keys and values of earlier ones; "
                "choose other numbers", g->model->gguf->path, layer);
        cuts.first[r] = r ? borders[layer].node : 0;
    }
    return cuts;
}

struct layers_cuts layers_cut(struct arena *a, const struct graph *g, uint32_t ranks, const uint32_t *layers, const double *speeds)
{
    struct border *borders = arena_array(a, struct border, g->model->n_layer);
    read_borders(g, borders);
    struct layers_cuts cuts = layers ? cuts_as_asked(g, ranks, layers, borders) : cuts_by_speed(g, ranks, speeds, borders);
    cuts.first[ranks] = g->n_nodes;
    return cuts;
}

/* ---- the graph of one stage ---- */

struct making {
    struct arena *arena;
    struct graph *to;
    struct node **made;                          /* [nodes of the whole graph] the new node for each node */
};

static struct node *node_new(struct making *m, const struct node *like, enum op op, const char *name)
{
    struct node *n = arena_new(m->arena, struct node);
    *n = *like;
    n->op = op;
    n->name = name;
    n->index = m->to->n_nodes;
    n->n_readers = 0;
    n->readers = NULL;
    m->to->nodes[m->to->n_nodes++] = n;
    return n;
}

/* A send or receive node for the value of `like`, without its inputs, weight and attributes. */
static struct node *passed_new(struct making *m, const struct node *like, enum op op, const char *name)
{
    struct node *n = node_new(m, like, op, name);
    memset(n->inputs, 0, sizeof n->inputs);
    n->weight = NULL;
    n->attr = (struct node_attrs){ .count = op == OP_receive ? like->cols : 0 };
    return n;
}

static void make_node(struct making *m, const struct node *n)
{
    struct node *made = node_new(m, n, n->op, n->name);
    for (uint32_t i = 0; i < op_info[n->op].n_values; i++) made->inputs[i] = m->made[n->inputs[i]->index];
    m->made[n->index] = made;
}

const struct graph *layers_graph(struct arena *a, const struct graph *g, const struct layers_cuts *cuts, uint32_t rank)
{
    struct making m = { .arena = a, .to = arena_new(a, struct graph), .made = arena_array(a, struct node *, g->n_nodes) };
    const uint32_t first = cuts->first[rank], end = cuts->first[rank + 1];
    m.to->model = g->model;
    m.to->nodes = arena_array(a, struct node *, 3 * g->n_nodes);
    for (uint32_t i = 0; i < first; i++)
        if (passes(g, g->nodes[i], first)) m.made[i] = passed_new(&m, g->nodes[i], OP_receive, g->nodes[i]->name);
    for (uint32_t i = first; i < end; i++) if (!graph_drafts(g, g->nodes[i])) make_node(&m, g->nodes[i]);
    for (uint32_t i = 0; i < end && rank + 1 < cuts->ranks; i++) {
        const struct node *n = g->nodes[i];
        if (!passes(g, n, end)) continue;
        struct node *sent = passed_new(&m, n, OP_send, arena_printf(a, "%s_sent", n->name));
        sent->inputs[0] = m.made[i];
    }
    if (rank + 1 == cuts->ranks) m.to->output = m.made[g->output->index];
    graph_readers(a, m.to);
    graph_rotations(a, m.to);
    return m.to;
}
