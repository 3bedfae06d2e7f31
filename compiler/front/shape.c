/* shape.c -- the shape rules of op.def. */
#include "shape.h"
#include <math.h>

enum { MOST_COLS = 1 << 24, MOST_EXPERTS = 4096 };

typedef void shape_rule(const struct graph *g, struct place at, struct node *n);

/* ---- checks of operands ---- */

static void need_cols(struct place at, const struct node *n, uint64_t cols, const char *what)
{
    if (n->cols != cols) die_at(at, "%%%s has %u columns; %s takes %llu", n->name, n->cols, what, (unsigned long long)cols);
}

static void need_size(struct place at, const struct weight *w, uint64_t have, uint64_t want, const char *what)
{
    if (have == want) return;
    die_at(at, "tensor %s has %llu %s; %llu are needed here", w->role, (unsigned long long)have, what, (unsigned long long)want);
}

static void need_heads(struct place at, const struct node *n, uint32_t head_dim)
{
    if (n->cols % head_dim) die_at(at, "%%%s has %u columns, which is not a multiple of the head size %u", n->name, n->cols, head_dim);
}

static void need_matrix(struct place at, const struct node *n)
{
    if (n->weight->is_vector) die_at(at, "%s takes a matrix; %s is not a matrix", op_info[n->op].name, n->weight->role);
}

static void need_vector(struct place at, const struct node *n)
{
    if (n->weight && !n->weight->is_vector) die_at(at, "%s takes a vector; %s is not a vector", op_info[n->op].name, n->weight->role);
}

/* Numbers of columns, and sums of a few of them, fit in 32 bits. */
static void set_cols(struct place at, struct node *n, uint64_t cols)
{
    if (cols > MOST_COLS) die_at(at, "%%%s would have %llu columns; a value has at most %u", n->name, (unsigned long long)cols, MOST_COLS);
    n->cols = (uint32_t)cols;
}

/* ---- one or more rules per operation ---- */

static void shape_embed(const struct graph *g, struct place at, struct node *n)
{
    need_matrix(at, n);
    need_size(at, n->weight, n->weight->rows, g->model->n_vocab, "rows");
    set_cols(at, n, n->weight->cols);
}

static void shape_matmul(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    need_matrix(at, n);
    need_cols(at, n->inputs[0], n->weight->cols, n->weight->role);
    set_cols(at, n, n->weight->rows);
}

/* x and a vector of its length; the vector may be absent. */
static void shape_vector(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    need_vector(at, n);
    n->cols = n->inputs[0]->cols;
    if (n->weight) need_cols(at, n->inputs[0], n->weight->cols, n->weight->role);
}

/* The same shape as its operand. */
static void shape_same(const struct graph *g, struct place at, struct node *n)
{
    (void)g, (void)at;
    n->cols = n->inputs[0]->cols;
}

/* One factor for all columns, or one per column, or one per head (as many heads as factors). */
static void shape_times(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    need_vector(at, n);
    n->cols = n->inputs[0]->cols;
    if (n->cols % n->weight->cols)
        die_at(at, "%%%s has %u columns, which is not a multiple of the %llu factors of %s", n->inputs[0]->name, n->cols,
               (unsigned long long)n->weight->cols, n->weight->role);
}

static void shape_mul(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    n->cols = n->inputs[0]->cols;
    if (n->inputs[1]->cols != 1) need_cols(at, n->inputs[1], n->cols, "mul");
}

static void shape_part(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    struct node_attrs *a = &n->attr;
    const uint32_t cols = n->inputs[0]->cols;
    if (!a->every) a->every = cols;
    if (cols % a->every) die_at(at, "%%%s has %u columns, which is not a multiple of every=%u", n->inputs[0]->name, cols, a->every);
    if (a->first >= a->every || a->count > a->every - a->first)
        die_at(at, "first=%u and count=%u exceed every=%u columns", a->first, a->count, a->every);
    if (!a->count) a->count = a->every - a->first;
    n->cols = cols / a->every * a->count;
}

/* The same number of heads in both; head_dim belongs to x. */
static void shape_join(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    const struct node *x = n->inputs[0], *y = n->inputs[1];
    const uint32_t heads = x->cols / n->attr.head_dim;
    need_heads(at, x, n->attr.head_dim);
    if (y->cols % heads) die_at(at, "%%%s has %u columns, which is not a multiple of the %u heads", y->name, y->cols, heads);
    set_cols(at, n, (uint64_t)x->cols + y->cols);
    n->heads = heads;
}

/* A weight with a row for each position. */
static void shape_add_position(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    need_matrix(at, n);
    if (n->weight->slices) die_at(at, "add_position takes a matrix; %s has three dimensions", n->weight->role);
    n->cols = n->inputs[0]->cols;
    need_cols(at, n->inputs[0], n->weight->cols, n->weight->role);
}

/* A matrix, used as a whole, and a value that has `slices` times its columns. */
static void shape_matmul_heads(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    const struct weight *w = n->weight;
    if (!w->slices) die_at(at, "matmul_heads takes a tensor of three dimensions; %s has fewer", w->role);
    need_cols(at, n->inputs[0], w->slices * w->cols, w->role);
    set_cols(at, n, w->rows);
    n->heads = w->slices;
}

/* A state passes from token to token, and attention with a window keeps the last tokens; neither can see later tokens. */
static void need_causal(const struct graph *g, struct place at, const struct node *n)
{
    if (!g->model->causal)
        die_at(at, "%s sees no later tokens, but the attention of %s does (attention.causal is false); forgec has no kernel for that",
               op_info[n->op].name, g->model->gguf->path);
}

static void shape_conv(const struct graph *g, struct place at, struct node *n)
{
    need_causal(g, at, n);
    need_matrix(at, n);
    if (n->layer == NO_LAYER) die_at(at, "conv outside the layers; its state belongs to layers");
    n->cols = n->inputs[0]->cols;
    need_cols(at, n->inputs[0], n->weight->rows, n->weight->role);
    if (n->weight->cols < 2 || n->weight->cols > 16)
        die_at(at, "conv takes 2 to 16 taps; %s has %llu", n->weight->role, (unsigned long long)n->weight->cols);
}

/* The row of the previous position. */
static void shape_previous(const struct graph *g, struct place at, struct node *n)
{
    need_causal(g, at, n);
    if (n->layer == NO_LAYER) die_at(at, "previous outside the layers; its state belongs to layers");
    n->cols = n->inputs[0]->cols;
}

static void shape_recur(const struct graph *g, struct place at, struct node *n)
{
    need_causal(g, at, n);
    const struct node_attrs *a = &n->attr;
    const struct node *q = n->inputs[0], *k = n->inputs[1], *v = n->inputs[2], *decay = n->inputs[3], *beta = n->inputs[4];
    if (n->layer == NO_LAYER) die_at(at, "recur outside the layers; its state belongs to layers");
    need_heads(at, q, a->head_dim);
    need_heads(at, v, a->value_dim);
    const uint32_t heads = v->cols / a->value_dim, qk_heads = q->cols / a->head_dim;
    need_cols(at, k, q->cols, "recur");
    if (heads % qk_heads) die_at(at, "recur: the %u heads of v must be a multiple of the %u heads of q and k", heads, qk_heads);
    need_cols(at, beta, heads, "recur");
    if (decay->cols != heads) need_cols(at, decay, (uint64_t)heads * a->head_dim, "recur");
    n->cols = v->cols;
    n->heads = heads;
}

/* ---- experts ---- */

static void shape_route(const struct graph *g, struct place at, struct node *n)
{
    const char *path = g->model->gguf->path;
    const struct node_attrs *a = &n->attr;
    const struct node *logits = n->inputs[0];
    need_vector(at, n);
    if (n->weight) need_cols(at, logits, n->weight->cols, n->weight->role);
    if (logits->cols > MOST_EXPERTS) die_at(at, "%%%s has %u columns; a router has at most %u", logits->name, logits->cols, MOST_EXPERTS);
    if (a->used > logits->cols)
        die("%s: expert_used_count %u is not from 1 to expert_count %u", path, a->used, logits->cols);
    if (logits->cols % a->n_group || a->n_group_used > a->n_group)
        die("%s: %u experts cannot stand in %u groups of which %u are used (expert_group_count, expert_group_used_count)", path,
            logits->cols, a->n_group, a->n_group_used);
    if (logits->cols / a->n_group * a->n_group_used < a->used)
        die("%s: %u of %u groups have fewer than the %u experts that are used (expert_group_used_count, expert_group_count, "
            "expert_used_count)", path, a->n_group_used, a->n_group, a->used);
    if (a->n_group > 1 && logits->cols / a->n_group < 2)
        die("%s: %u experts in %u groups (expert_group_count): groups of one expert cannot be ranked by their two best experts", path,
            logits->cols, a->n_group);
    n->cols = 2 * a->used;
}

static const struct node *need_choice(struct place at, const struct node *n)
{
    const struct node *choice = n->inputs[1];
    if (choice->op != OP_route)
        die_at(at, "%s takes a choice of experts; %%%s comes from %s", op_info[n->op].name, choice->name, op_info[choice->op].name);
    return choice;
}

/* x must have a row for each used expert. */
static void need_rows_of(struct place at, const struct node *x, uint32_t used)
{
    if (x->cols % used) die_at(at, "%%%s has %u columns, which is not a multiple of the %u experts", x->name, x->cols, used);
}

static void shape_expert_matmul(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    const struct weight *w = n->weight;
    const struct node *x = n->inputs[0], *choice = need_choice(at, n);
    const uint32_t used = choice->attr.used;
    if (!w->slices) die_at(at, "expert_matmul takes a tensor of three dimensions; %s has fewer", w->role);
    need_size(at, w, w->slices, choice->inputs[0]->cols, "experts");
    need_cols(at, x, n->attr.each ? w->cols * used : w->cols, w->role);
    set_cols(at, n, w->rows / w->slices * used);
}

/* A row of the weight for each expert, or one number. */
static void shape_expert_rows(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    const struct weight *w = n->weight;
    const struct node *choice = need_choice(at, n);
    n->cols = n->inputs[0]->cols;
    need_rows_of(at, n->inputs[0], choice->attr.used);
    need_size(at, w, w->is_vector ? w->cols : w->rows, choice->inputs[0]->cols, "experts");
    if (!w->is_vector) need_cols(at, n->inputs[0], w->cols * choice->attr.used, w->role);
    else if (n->op == OP_expert_bias) die_at(at, "expert_bias takes a row for each expert; %s is one row", w->role);
}

static void shape_expert_sum(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    const uint32_t used = need_choice(at, n)->attr.used;
    const struct node *x = n->inputs[0];
    need_rows_of(at, x, used);
    n->cols = x->cols / used;
}

/* Two values of equal length. */
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
    need_heads(at, x, head_dim);
    n->cols = x->cols;
    n->heads = x->cols / head_dim;
}

static void shape_headnorm(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    need_vector(at, n);
    shape_heads(at, n);
    if (n->weight && n->weight->cols != n->cols) need_size(at, n->weight, n->weight->cols, n->attr.head_dim, "items");
}

static void shape_rope(const struct graph *g, struct place at, struct node *n)
{
    (void)g;
    const struct node_attrs *r = &n->attr;
    need_vector(at, n);
    shape_heads(at, n);
    if (r->n_rot > r->head_dim || r->n_rot % 2)
        die_at(at, "n_rot is %u; it must be even and at most head_dim, %u", r->n_rot, r->head_dim);
    if (r->rot_first > r->head_dim - r->n_rot)
        die_at(at, "rot_first is %u; %u columns of %u cannot begin there", r->rot_first, r->n_rot, r->head_dim);
    if (r->beta_fast <= r->beta_slow)
        die_at(at, "beta_fast is %g and beta_slow %g; the fast one must be larger", r->beta_fast, r->beta_slow);
    if (n->weight) need_size(at, n->weight, n->weight->cols, r->n_rot / 2, "items");
    if (n->far && !n->far->is_vector) die_at(at, "%s takes a vector; %s is not a vector", op_info[n->op].name, n->far->role);
    if (n->far) need_size(at, n->far, n->far->cols, r->n_rot / 2, "items");
}

/* The KV cache has one place per layer, with n_head_kv heads. */
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
    if (n->attr.causal != g->model->causal) die_at(at, "attention: causal is the model's parameter causal, the same in all layers");
    if (n->attr.window) need_causal(g, at, n);
    const struct node *k = n->inputs[1], *v = n->inputs[2];
    need_vector(at, n);
    shape_heads(at, n);
    if (n->weight) need_size(at, n->weight, n->weight->cols, n->heads, "items");
    if (k->op != OP_store_k || v->op != OP_store_v || k->layer != v->layer)
        die_at(at, "attention reads a query, and a store_k and a store_v of one layer");
    if (n->layer == NO_LAYER) die_at(at, "attention outside the layers");
    if (n->attr.head_dim != k->attr.head_dim)
        die_at(at, "attention: heads of the query have %u items, but heads of %%%s have %u", n->attr.head_dim, k->name, k->attr.head_dim);
    if (n->heads % k->heads) die_at(at, "attention: the %u query heads must be a multiple of the %u KV heads", n->heads, k->heads);
    set_cols(at, n, (uint64_t)n->heads * v->attr.head_dim);
    if (n->attr.scale == 0) n->attr.scale = 1 / sqrt((double)n->attr.head_dim);
}

/* ---- the rules by operation ---- */

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
