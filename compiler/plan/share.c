/* share.c -- see share.h. First it decides what is cut: from each product that may be shared, back to the products that make its input.
 * Then it writes a new graph with the rank's part. */
#include "share.h"
#include <string.h>

/* How a node is shared. */
enum part {
    PART_NONE,                                   /* each GPU has the whole value */
    PART_COLUMNS,                                /* each GPU has some columns */
    PART_SUM,                                    /* each GPU has a part of the sum in every column */
};
struct cut {
    enum part part;
    uint64_t  units;
    uint64_t  heads_kv;          /* number of KV heads if fewer than GPUs: a GPU has one, with some of its units; else 0 */
    bool      copied;            /* made of that KV head: each GPU that has the head has all of it */
    bool      ends;              /* the GPUs combine their parts after this node */
    const struct node *with;     /* one all_reduce combines its sum and that of this earlier node; NULL: its own only */
    bool      waits;             /* the node belongs to such an earlier sum and waits for the later one */
};

struct sharing {
    struct arena       *arena;
    const struct graph *from;
    struct cut         *cuts;                    /* [from->n_nodes] */
    uint32_t            rank, ranks, columns;
    /* The current region: the nodes from which a product's input comes, which of them make keys and values (makes_keys), the number of
     * units into which the others (units) and keys and values (key_units) are cut, and the number of KV heads (0: no attention). */
    const struct node **members;
    bool               *makes_keys;              /* [from->n_nodes] */
    uint32_t            n_members;
    bool                in_keys;
    uint64_t            units, key_units, heads_kv;
    /* the new graph */
    struct graph       *to;
    struct model       *model;
    struct node       **made;                    /* [from->n_nodes] the new node for each node */
    uint32_t            n_left_out;              /* operations of the current sum that this rank leaves out */
};

static uint64_t common(uint64_t x, uint64_t y) { return y ? common(y, x % y) : x; }

/* ---- what is cut ---- */

static bool is_member(const struct sharing *s, const struct node *n)
{
    for (uint32_t i = 0; i < s->n_members; i++) if (s->members[i] == n) return true;
    return false;
}

/* Rows of a value for each token: values of experts have a row for each expert that a token uses. */
static uint32_t rows_of_experts(const struct node *n)
{
    if (op_is_function(n->op) || op_is_gate(n->op)) return rows_of_experts(n->inputs[0]);
    switch (n->op) {
    case OP_expert_matmul: case OP_expert_bias: case OP_expert_times: return n->inputs[1]->attr.used;
    case OP_scale: case OP_add: case OP_mul: return rows_of_experts(n->inputs[0]);
    default: return 1;
    }
}

/* Are the rows contiguous in the tensor, or in each of its slices? */
static bool is_plain(const struct weight *w) { return w->run == w->rows || (w->slices && w->run == w->rows / w->slices); }

static bool add_input(struct sharing *s, const struct node *n);

static void fit_units(struct sharing *s, uint64_t pieces)
{
    uint64_t *units = s->in_keys ? &s->key_units : &s->units;
    *units = common(*units, pieces);
}

static bool add_inputs(struct sharing *s, const struct node *n)
{
    for (uint32_t i = 0; i < op_info[n->op].n_values; i++)
        if (!add_input(s, n->inputs[i])) return false;
    return true;
}

static bool add_attention(struct sharing *s, const struct node *n)
{
    const uint64_t heads_kv = n->inputs[1]->heads;
    if (s->in_keys || (s->heads_kv && s->heads_kv != heads_kv)) return false;
    s->heads_kv = heads_kv;
    fit_units(s, n->heads);
    if (!add_input(s, n->inputs[0])) return false;
    s->in_keys = true;
    fit_units(s, heads_kv);
    const bool added = add_input(s, n->inputs[1]) && add_input(s, n->inputs[2]);
    s->in_keys = false;
    return added;
}

/* Does every column of n come from columns or heads of its operands, or from rows of a product? Then n is a member of the region, and so
 * are its operands. */
static bool add_input(struct sharing *s, const struct node *n)
{
    if (is_member(s, n)) return s->makes_keys[n->index] == s->in_keys;
    if (s->cuts[n->index].part != PART_NONE || graph_drafts(s->from, n)) return false;
    s->members[s->n_members++] = n;
    s->makes_keys[n->index] = s->in_keys;
    fit_units(s, n->cols / rows_of_experts(n));
    if (op_is_function(n->op) || op_is_gate(n->op)) return add_inputs(s, n);
    switch (n->op) {
    case OP_matmul:
    case OP_expert_matmul: return is_plain(n->weight);
    case OP_scale: case OP_softcap: case OP_temperature: case OP_bias: case OP_add: return add_inputs(s, n);
    case OP_times:
        if (n->weight && n->weight->cols > 1) fit_units(s, n->weight->cols);
        return add_input(s, n->inputs[0]);
    case OP_mul: return n->inputs[1]->cols == n->cols && add_inputs(s, n);
    case OP_expert_bias:
    case OP_expert_times: return add_input(s, n->inputs[0]);
    case OP_headnorm: case OP_l2norm: case OP_layernorm_heads: case OP_rope: case OP_store_k: case OP_store_v:
        fit_units(s, n->cols / n->attr.head_dim);
        return add_input(s, n->inputs[0]);
    case OP_part:
        fit_units(s, n->inputs[0]->cols / n->attr.every);
        return add_input(s, n->inputs[0]);
    case OP_attention: return add_attention(s, n);
    default: return false;
    }
}

/* If a GPU has only a part of a member's value, do only other members and the product read this value? */
static bool is_closed(const struct sharing *s, const struct node *product)
{
    for (uint32_t i = 0; i < s->n_members; i++) {
        const struct node *n = s->members[i];
        if (n == s->from->output || n == s->from->draft_state) return false;
        for (uint32_t k = 0; k < n->n_readers; k++)
            if (n->readers[k] != product && !is_member(s, n->readers[k])) return false;
    }
    return true;
}

/* The number of units into which a weight's columns can be cut. A unit has whole blocks. 0: the columns cannot be cut. */
static uint64_t column_units(const struct sharing *s, const struct weight *w)
{
    const uint64_t block = w->tensor->quant->block_weights, least = block > s->columns ? block : s->columns;
    return w->cols % least ? 0 : w->cols / least;
}

static void begin_region(struct sharing *s, uint64_t units)
{
    s->n_members = 0;
    s->units = units;
    s->key_units = s->heads_kv = 0;
}

/* How the units are divided: a GPU has some of all units, with the KV heads that belong to them, or some units of one KV head. False if
 * there are too few. */
static bool share_out(const struct sharing *s, struct cut *cut)
{
    const uint64_t heads = s->heads_kv;
    *cut = (struct cut){ .units = common(s->units, s->key_units) };
    if (cut->units >= s->ranks) return true;
    *cut = (struct cut){ .units = s->units, .heads_kv = heads };
    return heads && s->key_units == heads && s->units % heads == 0 && s->units / heads >= (s->ranks + heads - 1) / heads;
}

static void cut_region(struct sharing *s, struct cut cut)
{
    cut.part = PART_COLUMNS;
    for (uint32_t i = 0; i < s->n_members; i++) {
        const uint32_t at = s->members[i]->index;
        s->cuts[at] = cut;
        s->cuts[at].copied = cut.heads_kv && s->makes_keys[at];
    }
}

/* The sum over experts that follows a product with experts, after biases and factors only; NULL: no such sum. */
static const struct node *sum_of_experts(const struct node *product)
{
    const struct node *n = product;
    while (n->n_readers == 1 && (n->readers[0]->op == OP_expert_bias || n->readers[0]->op == OP_expert_times)) n = n->readers[0];
    return n->n_readers == 1 && n->readers[0]->op == OP_expert_sum ? n->readers[0] : NULL;
}

static void cut_product(struct sharing *s, const struct node *product)
{
    const struct node *end = product->op == OP_matmul ? product : sum_of_experts(product);
    struct cut cut;
    begin_region(s, column_units(s, product->weight));
    if (!end || !s->units || graph_drafts(s->from, product) || s->cuts[product->index].part != PART_NONE) return;
    if (!add_input(s, product->inputs[0]) || !is_closed(s, product) || !share_out(s, &cut)) return;
    cut_region(s, cut);
    cut.part = PART_SUM;
    for (const struct node *n = product; ; n = n->readers[0]) {
        s->cuts[n->index] = cut;
        s->cuts[n->index].ends = n == end;
        if (n == end) break;
    }
}

static const struct node *skip_biases(const struct node *n)
{
    while (n->n_readers == 1 && n->readers[0]->op == OP_bias) n = n->readers[0];
    return n;
}

/* If attention (A) and the feed-forward part (F) both read the value x at the beginning of the layer, only the additions of x + A + F read
 * the two sums. Then each GPU adds its parts of both, and one all_reduce combines them. */
static void join_sums(struct sharing *s, const struct node *second)
{
    const struct node *n = skip_biases(second), *last = n->n_readers == 1 ? n->readers[0] : NULL;
    if (!last || last->op != OP_add) return;
    const struct node *sum = last->inputs[last->inputs[0] == n];
    if (sum->op != OP_add || sum->n_readers != 1) return;
    for (uint32_t k = 0; k < 2; k++) {
        const struct node *first = sum->inputs[k];
        while (first->op == OP_bias && first->n_readers == 1) first = first->inputs[0];
        const struct cut *cut = &s->cuts[first->index];
        if (!cut->ends || cut->part != PART_SUM || cut->with || first->n_readers != 1 || first->index > second->index) continue;
        s->cuts[second->index].with = first;
        for (n = first; n != last; n = n->readers[0]) s->cuts[n->index].waits = true;
        return;
    }
}

/* Cuts the output head and the operations on single logits that follow it. */
static void cut_output(struct sharing *s)
{
    const struct node *n = s->from->output;
    begin_region(s, 0);
    while (n->op == OP_scale || n->op == OP_softcap || n->op == OP_bias) {
        s->members[s->n_members++] = n;
        n = n->inputs[0];
        if (n->n_readers != 1) return;
    }
    if (s->from->model->pooling || n->op != OP_matmul || !is_plain(n->weight) || s->cuts[n->index].part != PART_NONE) return;
    s->members[s->n_members++] = n;
    cut_region(s, (struct cut){ .units = n->cols % s->ranks ? n->cols : s->ranks });
    s->cuts[s->from->output->index].ends = true;
}

/* ---- the rank's part ---- */

struct range { uint64_t first, n; };
/* The ith of n parts of almost equal size. */
static struct range part_of(uint64_t all, uint64_t i, uint64_t n)
{
    return (struct range){ all * i / n, all * (i + 1) / n - all * i / n };
}

/* The rank's range of `all` columns or rows. With H KV heads, fewer than ranks, the rank has KV head rank H / ranks; the neighbouring ranks
 * that have the same KV head share its units. */
static struct range range_of(const struct sharing *s, const struct cut *cut, uint64_t all)
{
    const uint64_t each = all / cut->units, heads = cut->heads_kv;
    if (!heads) {
        const struct range r = part_of(cut->units, s->rank, s->ranks);
        return (struct range){ r.first * each, r.n * each };
    }
    const uint64_t head = s->rank * heads / s->ranks, first = (head * s->ranks + heads - 1) / heads,
                   end = ((head + 1) * s->ranks + heads - 1) / heads;
    if (cut->copied) return (struct range){ head * (all / heads), all / heads };
    const struct range r = part_of(cut->units / heads, s->rank - first, end - first);
    return (struct range){ (head * (cut->units / heads) + r.first) * each, r.n * each };
}

static struct weight *weight_new(struct sharing *s, const struct weight *w)
{
    struct weight *made = &s->model->weights[s->model->n_weights];
    *made = *w;
    made->index = s->model->n_weights++;
    return made;
}

static const struct weight *rows_cut(struct sharing *s, const struct weight *w, const struct cut *cut)
{
    struct weight *made = weight_new(s, w);
    const uint64_t slices = w->slices ? w->slices : 1, each = w->rows / slices;
    const struct range r = range_of(s, cut, each);
    made->row0 += r.first;
    made->stride = w->slices ? w->run == w->rows ? each : w->stride : r.n;
    made->run = r.n;
    made->rows = slices * r.n;
    return made;
}

static const struct weight *columns_cut(struct sharing *s, const struct weight *w, const struct cut *cut)
{
    struct weight *made = weight_new(s, w);
    const struct range r = range_of(s, cut, w->cols);
    if (w->is_vector) made->row0 += r.first;
    else made->col0 += r.first;
    made->cols = r.n;
    return made;
}

static const struct weight *weight_of(struct sharing *s, const struct node *n)
{
    const struct cut *cut = &s->cuts[n->index];
    const bool product = n->op == OP_matmul || n->op == OP_expert_matmul;
    if (!n->weight) return NULL;
    const struct weight *same = &s->model->weights[n->weight->index];
    if (cut->part == PART_SUM) return product ? columns_cut(s, same, cut) : same;
    if (cut->part == PART_NONE) return same;
    if (product) return rows_cut(s, same, cut);
    switch (n->op) {
    case OP_times:
    case OP_headnorm: case OP_layernorm_heads:
        return same->cols == 1 || (n->op != OP_times && same->cols == n->attr.head_dim) ? same : columns_cut(s, same, cut);
    case OP_expert_times: return same->is_vector ? same : columns_cut(s, same, cut);
    case OP_rope:         return same;
    default:              return columns_cut(s, same, cut);       /* biases, sinks of heads */
    }
}

static struct node *node_new(struct sharing *s, const struct node *like, const char *name)
{
    struct node *n = arena_new(s->arena, struct node);
    *n = *like;
    n->name = name;
    n->index = s->to->n_nodes;
    n->n_readers = 0;
    n->readers = NULL;
    s->to->nodes[s->to->n_nodes++] = n;
    return n;
}

static struct node *collective_new(struct sharing *s, struct node *x, enum op op, const char *name, uint32_t cols)
{
    struct node *n = node_new(s, x, name);
    n->op = op;
    n->inputs[0] = x;
    n->weight = NULL;
    n->attr = (struct node_attrs){ .count = op == OP_all_gather ? cols : 0 };
    n->cols = cols;
    n->heads = 0;
    return n;
}

/* A sum must contain the bias of an expert only once: the first rank adds it. */
static bool is_left_out(const struct sharing *s, const struct node *n)
{
    return s->cuts[n->index].part == PART_SUM && n->op == OP_expert_bias && s->rank > 0;
}

/* All GPUs must have the same number of launches, also without fusion: a scale by 1 stands for an operation that is left out. */
static struct node *unchanged_new(struct sharing *s, struct node *x)
{
    struct node *n = node_new(s, x, arena_printf(s->arena, "%s_unchanged", x->name));
    n->op = OP_scale;
    n->inputs[0] = x;
    n->weight = NULL;
    n->attr = (struct node_attrs){ .by = 1 };
    return n;
}

/* The complete value, which the GPUs combine from their parts. */
static struct node *combined(struct sharing *s, const struct node *n, struct node *part)
{
    const bool sums = s->cuts[n->index].part == PART_SUM;
    struct node *given = collective_new(s, part, OP_push, arena_printf(s->arena, "%s_pushed", n->name), part->cols);
    return collective_new(s, given, sums ? OP_all_reduce : OP_all_gather, n->name, n->cols);
}

/* Combines two sums with one all_reduce, and then adds the biases of the first one, which waited for it. */
static struct node *combined_with(struct sharing *s, const struct node *n, struct node *part)
{
    const struct node *first = s->cuts[n->index].with, *biased = first;
    struct node *both = node_new(s, part, arena_printf(s->arena, "%s_both", n->name));
    both->op = OP_add;
    both->inputs[0] = s->made[first->index];
    both->inputs[1] = part;
    both->weight = NULL;
    both->attr = (struct node_attrs){ 0 };
    struct node *made = combined(s, n, both);
    while ((biased = biased->readers[0])->op == OP_bias) {
        struct node *sum = node_new(s, biased, biased->name);
        sum->inputs[0] = made;
        sum->weight = weight_of(s, biased);
        made = sum;
    }
    return made;
}

/* Does n wait for a later sum? Then an addition stands for its other operand, and combined_with adds the biases after that sum. */
static bool is_waiting(struct sharing *s, const struct node *n)
{
    if (!s->cuts[n->index].waits || s->cuts[n->index].ends) return false;
    if (n->op == OP_add) s->made[n->index] = s->made[n->inputs[s->cuts[n->inputs[0]->index].waits]->index];
    return true;
}

static void make_node(struct sharing *s, const struct node *n)
{
    const struct cut *cut = &s->cuts[n->index];
    if (is_waiting(s, n)) return;
    if (is_left_out(s, n)) {
        s->made[n->index] = s->made[n->inputs[0]->index];
        s->n_left_out++;
        return;
    }
    struct node *made = node_new(s, n, cut->ends ? arena_printf(s->arena, "%s_part", n->name) : n->name);
    for (uint32_t i = 0; i < op_info[n->op].n_values; i++) made->inputs[i] = s->made[n->inputs[i]->index];
    made->weight = weight_of(s, n);
    if (cut->part == PART_COLUMNS) {
        made->cols = (uint32_t)range_of(s, cut, n->cols).n;
        made->heads = n->heads ? (uint32_t)range_of(s, cut, n->heads).n : 0;
    }
    for (; n->op == OP_expert_sum && s->n_left_out; s->n_left_out--) made = unchanged_new(s, made);
    if (cut->ends && !cut->waits) made = cut->with ? combined_with(s, n, made) : combined(s, n, made);
    s->made[n->index] = made;
}

static void model_copy(struct sharing *s)
{
    const struct model *m = s->from->model;
    s->model = arena_new(s->arena, struct model);
    *s->model = *m;
    s->model->weights = arena_array(s->arena, struct weight, m->n_weights + s->from->n_nodes);
    memcpy(s->model->weights, m->weights, m->n_weights * sizeof *m->weights);
    for (uint32_t i = 0; i < m->n_weights; i++)
        if (m->weights[i].scale) s->model->weights[i].scale = &s->model->weights[m->weights[i].scale->index];
}

const struct graph *share_graph(struct arena *a, const struct graph *g, uint32_t rank, uint32_t ranks, uint32_t columns)
{
    struct sharing s = { .arena = a, .from = g, .rank = rank, .ranks = ranks, .columns = columns,
                         .cuts = arena_array(a, struct cut, g->n_nodes), .members = arena_array(a, const struct node *, g->n_nodes),
                         .makes_keys = arena_array(a, bool, g->n_nodes),
                         .made = arena_array(a, struct node *, g->n_nodes), .to = arena_new(a, struct graph) };
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == OP_matmul || g->nodes[i]->op == OP_expert_matmul) cut_product(&s, g->nodes[i]);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (s.cuts[i].ends && s.cuts[i].part == PART_SUM) join_sums(&s, g->nodes[i]);
    cut_output(&s);
    bool any = false;
    for (uint32_t i = 0; i < g->n_nodes; i++) any |= s.cuts[i].part != PART_NONE;
    if (!any) die("%s: %u GPUs cannot divide any tensor of this model; use fewer GPUs, or --split layer", g->model->gguf->path, ranks);
    model_copy(&s);
    s.to->model = s.model;
    s.to->nodes = arena_array(a, struct node *, 3 * g->n_nodes);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (!graph_drafts(g, g->nodes[i])) make_node(&s, g->nodes[i]);
    s.to->output = s.made[g->output->index];
    graph_readers(a, s.to);
    graph_rotations(a, s.to);
    return s.to;
}
