/* fuse.c -- the rules by which operations join one kernel.
 *
 *   norm_into_matmul    %n = rmsnorm w, %x            every reader of %n is a matmul: each matmul's kernel
 *                       %q = matmul a, %n        ->   recomputes the norm from %x, %n is never stored
 *   siblings            %q = matmul a, %n             matmuls of one input run in one kernel, one after
 *                       %k = matmul b, %n        ->   another over its rows
 *   epilogue            %q = matmul a, %n             bias, headnorm, rope, store, glu and add work on rows while
 *                       %r = rope %q             ->   they are still in registers, if nobody else reads %q
 */
#include "fuse.h"
#include "runtime/model/abi.h"
#include <string.h>

struct fuser {
    struct arena *arena;
    struct fused *out;
    bool          fusing;
};

static struct group *group_new(struct fuser *f, enum group_kind kind, struct node *first)
{
    struct group *g = &f->out->groups[f->out->n_groups];
    g->kind = kind;
    g->layer = first->layer;
    first->group = f->out->n_groups++;
    return g;
}

static struct branch *branch_new(struct group *g)
{
    struct branch *b = &g->branches[g->n_branches++];
    b->partner = -1;
    return b;
}

static void chain_append(struct branch *b, struct node *n, uint32_t group)
{
    b->chain[b->n_chain++] = n;
    b->result = n;
    n->group = group;
}

/* ---- predicates ---- */

static bool match_norm_into_matmul(const struct node *n)
{
    if (n->op != OP_rmsnorm) return false;
    for (uint32_t i = 0; i < n->n_readers; i++)
        if (n->readers[i]->op != OP_matmul) return false;
    return true;
}

/* Does the node's kernel read its tensor?  Frequency divisors are part of the table of rotations. */
static bool reads_tensor(const struct node *n) { return n->weight && n->op != OP_rope; }

/* May the group's kernel read one more tensor?  A launch has a fixed number of places for them. */
static bool has_room(const struct group *g)
{
    uint32_t n = g->norm && g->norm->weight;
    for (uint32_t i = 0; i < g->n_branches; i++) {
        n++;
        for (uint32_t k = 0; k < g->branches[i].n_chain; k++) n += reads_tensor(g->branches[i].chain[k]);
    }
    return n < FORGE_MAX_WEIGHTS;
}

/* The branch whose last value is `value`, if only one node reads it. */
static struct branch *match_open_branch(struct fuser *f, const struct node *value)
{
    if (!f->fusing || value->n_readers != 1 || value->group == NO_GROUP) return NULL;
    struct group *g = &f->out->groups[value->group];
    if (g->kind != GROUP_LINEAR) return NULL;
    for (uint32_t i = 0; i < g->n_branches; i++) {
        struct branch *b = &g->branches[i];
        if (b->result == value && b->n_chain < MAX_CHAIN) return b;
    }
    return NULL;
}

/* The branch that an add may end: one operand is fresh, the other is ready before its kernel starts. */
static struct branch *match_add(struct fuser *f, const struct node *add)
{
    for (uint32_t k = 0; k < 2; k++) {
        const struct node *fresh = add->inputs[1 - k], *ready = add->inputs[k];
        struct branch *b = match_open_branch(f, fresh);
        if (b && ready->group < fresh->group) return b;
    }
    return NULL;
}

/* Gate and up are branches of one kernel.  The kernel finishes a unit of the gate's rows together with the same rows of up, to which it
 * can apply biases, but nothing that works on whole heads or reads other values. */
static struct branch *match_glu(struct fuser *f, const struct node *glu)
{
    const struct node *gate = glu->inputs[0], *up = glu->inputs[1];
    struct branch *b = match_open_branch(f, gate), *partner = match_open_branch(f, up);
    if (!b || !partner || b == partner || gate->group != up->group || b->partner >= 0) return NULL;
    for (uint32_t i = 0; i < partner->n_chain; i++) if (partner->chain[i]->op != OP_bias) return NULL;
    b->partner = (int32_t)(partner - f->out->groups[gate->group].branches);
    partner->is_partner = true;
    return b;
}

static bool match_epilogue(struct fuser *f, struct node *n)
{
    struct branch *b;
    switch (n->op) {
    case OP_bias: case OP_headnorm: case OP_rope: case OP_store_k: case OP_store_v: b = match_open_branch(f, n->inputs[0]); break;
    case OP_add:                        b = match_add(f, n); break;
    case OP_glu_silu: case OP_glu_gelu: b = match_glu(f, n); break;
    default: return false;
    }
    if (!b || (reads_tensor(n) && !has_room(&f->out->groups[b->result->group]))) return false;
    chain_append(b, n, b->result->group);
    return true;
}

static struct group *match_sibling(struct fuser *f, const struct node *matmul)
{
    if (!f->fusing) return NULL;
    const struct node *x = matmul->inputs[0];
    for (uint32_t i = 0; i < x->n_readers; i++) {
        const struct node *other = x->readers[i];
        if (other == matmul) return NULL;
        if (other->op != OP_matmul || other->layer != matmul->layer) continue;
        struct group *g = &f->out->groups[other->group];
        if (g->n_branches < MAX_BRANCHES && has_room(g)) return g;
    }
    return NULL;
}

/* ---- building ---- */

static void add_matmul(struct fuser *f, struct node *n)
{
    struct group *g = match_sibling(f, n);
    if (g) n->group = (uint32_t)(g - f->out->groups);
    else {
        g = group_new(f, GROUP_LINEAR, n);
        g->input = n->inputs[0];
        if (f->fusing && match_norm_into_matmul(n->inputs[0])) {
            g->norm = n->inputs[0];
            g->input = g->norm->inputs[0];
        }
    }
    struct branch *b = branch_new(g);
    b->matmul = b->result = n;
}

static void add_map(struct fuser *f, struct node *n)
{
    struct group *g = group_new(f, GROUP_MAP, n);
    g->input = n->inputs[0];
    chain_append(branch_new(g), n, n->group);
}

/* "attn_q" + "attn_k" + "attn_v" -> "attn_qkv"; "ffn_gate" + "ffn_up" -> "ffn_gate_up". */
static const char *join_roles(struct arena *a, const struct group *g)
{
    struct text t = { .arena = a };
    size_t prefix = 0;
    for (uint32_t i = 0; i < g->n_branches; i++) {
        const char *role = g->branches[i].matmul->weight->role, *cut = strrchr(role, '_');
        if (i == 0) {
            prefix = cut ? (size_t)(cut - role) + 1 : 0;
            text_puts(&t, role);
        }
        else if (prefix && strncmp(role, g->branches[0].matmul->weight->role, prefix) == 0)
            text_printf(&t, "%s%s", strlen(role + prefix) > 1 ? "_" : "", role + prefix);
        else text_printf(&t, "_%s", role);
    }
    return text_str(&t);
}

static void name_groups(struct arena *a, struct fused *out)
{
    for (uint32_t i = 0; i < out->n_groups; i++) {
        struct group *g = &out->groups[i];
        if (g->kind == GROUP_LINEAR) g->name = join_roles(a, g);
        else if (g->kind == GROUP_MAP) {
            const char *value = g->branches[0].result->name, *dot = strchr(value, '.');
            g->name = arena_printf(a, "%s_%s", op_info[g->branches[0].result->op].name, dot ? dot + 1 : value);
        }
        else if (g->kind == GROUP_NORM) g->name = g->node->weight ? g->node->weight->role : "norm";
        else g->name = op_info[g->node->op].name;
    }
}

struct fused *fuse(struct arena *a, const struct graph *graph, enum fuse_level level)
{
    struct fuser f = { .arena = a, .out = arena_new(a, struct fused), .fusing = level == FUSE_LAYER };
    f.out->graph = graph;
    f.out->level = level;
    f.out->groups = arena_array(a, struct group, graph->n_nodes);
    for (uint32_t i = 0; i < graph->n_nodes; i++) graph->nodes[i]->group = NO_GROUP;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct node *n = graph->nodes[i];
        if (n->op == OP_matmul) { add_matmul(&f, n); continue; }
        if (f.fusing && match_norm_into_matmul(n)) continue;
        if (match_epilogue(&f, n)) continue;
        if (n->op == OP_embed || n->op == OP_rmsnorm || n->op == OP_attention) {
            struct group *g = group_new(&f, n->op == OP_embed ? GROUP_EMBED : n->op == OP_rmsnorm ? GROUP_NORM : GROUP_ATTENTION, n);
            g->node = n;
            g->input = n->inputs[0];
        }
        else add_map(&f, n);
    }
    name_groups(a, f.out);
    return f.out;
}

void fuse_print(struct text *out, const struct fused *f)
{
    for (uint32_t i = 0; i < f->n_groups; i++) {
        const struct group *g = &f->groups[i];
        text_printf(out, "%4u  ", i);
        if (g->layer != NO_LAYER) text_printf(out, "%u.", g->layer);
        text_printf(out, "%s:", g->name);
        if (g->norm) text_printf(out, " %s", op_info[g->norm->op].name);
        if (g->node) text_printf(out, " %s", op_info[g->node->op].name);
        for (uint32_t b = 0; b < g->n_branches; b++) {
            if (g->branches[b].matmul) text_printf(out, " matmul(%s)", g->branches[b].matmul->weight->role);
            for (uint32_t k = 0; k < g->branches[b].n_chain; k++) text_printf(out, " %s", op_info[g->branches[b].chain[k]->op].name);
        }
        text_puts(out, "\n");
    }
}
