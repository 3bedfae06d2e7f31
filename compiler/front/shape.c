/* shape.c -- the shape rules of op.def. */
#include "shape.h"
#include <math.h>

enum { MOST_COLS = 1 << 24 };

typedef void shape_rule(const struct graph *g, struct place at, struct node *n);

/* ---- what must fit ---- */

static void need_cols(struct place at, const struct node *n, uint64_t cols, const char *what)
{
    if (n->cols != cols) die_at(at, "%%%s has %u columns; %s takes %llu", n->name, n->cols, what, (unsigned long long)cols);
}

static void need_size(struct place at, const struct weight *w, uint64_t have, uint64_t want, const char *what)
{
    if (have == want) return;
    die_at(at, "tensor %s has %llu %s; %llu are needed here", w->role, (unsigned long long)have, what, (unsigned long long)want);
}

static void need_matrix(struct place at, const struct node *n)
{
    if (n->weight->is_vector) die_at(at, "%s takes a matrix; %s is none", op_info[n->op].name, n->weight->role);
}

static void need_vector(struct place at, const struct node *n)
{
    if (n->weight && !n->weight->is_vector) die_at(at, "%s takes a vector; %s is none", op_info[n->op].name, n->weight->role);
}

/* ---- one rule or more per operation ---- */

static void shape_embed(const struct graph *g, struct place at, struct node *n)
{
    need_matrix(at, n);
    need_size(at, n->weight, n->weight->rows, g->model->n_vocab, "rows");
    n->cols = (uint32_t)n->weight->cols;
}

static void shape_matmul(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    need_matrix(at, n);
    need_cols(at, n->inputs[0], n->weight->cols, n->weight->role);
    n->cols = (uint32_t)n->weight->rows;
}

/* x and a vector of its length, which may be absent. */
static void shape_vector(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    need_vector(at, n);
    n->cols = n->inputs[0]->cols;
    if (n->weight) need_cols(at, n->inputs[0], n->weight->cols, n->weight->role);
}

/* Two values of one length. */
static void shape_pair(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    n->cols = n->inputs[0]->cols;
    need_cols(at, n->inputs[1], n->cols, op_info[n->op].name);
}

static void shape_heads(struct place at, struct node *n)
{
    const struct node *x = n->inputs[0];
    const uint32_t head_dim = n->attr.head_dim;
    if (x->cols % head_dim) die_at(at, "%%%s has %u columns, which is no whole number of heads of %u", x->name, x->cols, head_dim);
    n->cols = x->cols;
    n->heads = x->cols / head_dim;
}

static void shape_headnorm(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    need_vector(at, n);
    shape_heads(at, n);
    need_size(at, n->weight, n->weight->cols, n->attr.head_dim, "items");
}

static void shape_rope(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    const struct node_attrs *r = &n->attr;
    need_vector(at, n);
    shape_heads(at, n);
    if (r->n_rot > r->head_dim || r->n_rot % 2)
        die_at(at, "n_rot is %u; it must be even and at most head_dim, %u", r->n_rot, r->head_dim);
    if (r->beta_fast <= r->beta_slow)
        die_at(at, "beta_fast is %g and beta_slow %g; the fast one must be larger", r->beta_fast, r->beta_slow);
    if (n->weight) need_size(at, n->weight, n->weight->cols, r->n_rot / 2, "items");
}

/* The KV cache has one place per layer, of n_head_kv heads. */
static void shape_store(const struct graph *g, struct place at, struct node *n)
{
    const char *op = op_info[n->op].name;
    shape_heads(at, n);
    if (n->layer == NO_LAYER) die_at(at, "%s outside the layers; the KV cache belongs to layers", op);
    need_cols(at, n->inputs[0], (uint64_t)g->model->layers[n->layer].n_head_kv * n->attr.head_dim, op);
    for (uint32_t i = g->n_nodes; i-- > 0 && g->nodes[i]->layer == n->layer; )
        if (g->nodes[i] != n && g->nodes[i]->op == n->op) die_at(at, "a second %s in layer %u; a layer has one", op, n->layer);
}

static void shape_attention(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    const struct node *k = n->inputs[1], *v = n->inputs[2];
    shape_heads(at, n);
    if (k->op != OP_store_k || v->op != OP_store_v || k->layer != v->layer)
        die_at(at, "attention reads a query, and a store_k and a store_v of one layer");
    if (n->layer == NO_LAYER) die_at(at, "attention outside the layers");
    if (n->attr.head_dim != k->attr.head_dim)
        die_at(at, "attention: heads of the query have %u items, those of %%%s %u", n->attr.head_dim, k->name, k->attr.head_dim);
    if (n->heads % k->heads) die_at(at, "attention: %u query heads do not share %u KV heads evenly", n->heads, k->heads);
    const uint64_t cols = (uint64_t)n->heads * v->attr.head_dim;
    if (cols > MOST_COLS) die_at(at, "attention: %u heads of %u columns of V are beyond %u columns", n->heads, v->attr.head_dim, MOST_COLS);
    n->cols = (uint32_t)cols;
    if (n->attr.scale == 0) n->attr.scale = 1 / sqrt((double)n->attr.head_dim);
}

/* ---- by the table ---- */

static shape_rule *const rules[OP_COUNT] = {
#define NOTHING
#define TAKES(attr, value)
#define OP(name, values, weights, absent, reads, shape, ...) [OP_##name] = shape,
#include "op.def"
#undef OP
#undef TAKES
#undef NOTHING
};

void shape_infer(const struct graph *g, struct place at, struct node *n)
{
    for (uint32_t k = 0; k < op_info[n->op].n_values; k++)
        if ((n->inputs[k]->op == OP_store_k || n->inputs[k]->op == OP_store_v) && !(n->op == OP_attention && k))
            die_at(at, "%%%s lies in the KV cache; only attention reads it, as keys or values", n->inputs[k]->name);
    rules[n->op](g, at, n);
}
