/* fuse.c -- the rules by which operations join one kernel; the table `rules` has a row for each operation.
 *
 *   siblings            %q = matmul a, %n             matmuls of one input run in one kernel, one after
 *                       %k = matmul b, %n        ->   another over its rows
 *   norm                %n = rmsnorm w, %x            every reader of %n is a matmul: each matmul's kernel
 *                       %q = matmul a, %n        ->   recomputes the norm from %x, %n is never stored
 *   rows, sum, gate     %q = matmul a, %n             bias, glu and add work on rows while they are still in
 *                       %b = bias b, %q          ->   registers, if no other operation reads %q
 *   heads               %r = rope %q             ->   the same for headnorm, rope and stores, if the target's products see whole heads
 *   attention           %k = store_k %r          ->   otherwise attention may norm, rotate and store the heads of one product
 *   slices              %g = expert_matmul g, %n, %c  products of one input and one choice are siblings, too; the rows of experts end
 *                       %s = expert_sum %d, %c   ->   with expert_sum, later operations work on the token's row
 *   view                %p = part %q             ->   a range of columns is read in place
 */
#include "fuse.h"
#include "runtime/model/abi.h"
#include <string.h>

struct fuser {
    struct arena         *arena;
    struct fused         *out;
    const struct absorbs *absorbs;
    bool                  fusing;
};

static struct group *group_at(const struct fuser *f, const struct node *n) { return &f->out->groups[fuse_group(f->out, n)]; }

static void place(struct fuser *f, const struct node *n, const struct group *g)
{
    f->out->group_of[n->index] = (uint32_t)(g - f->out->groups);
}

static struct group *group_new(struct fuser *f, enum group_kind kind, struct node *first)
{
    struct group *g = &f->out->groups[f->out->n_groups++];
    g->kind = kind;
    g->layer = first->layer;
    g->input = first->inputs[0];
    place(f, first, g);
    return g;
}

static struct branch *branch_new(struct group *g)
{
    struct branch *b = &g->branches[g->n_branches++];
    b->partner = -1;
    return b;
}

static void chain_append(struct fuser *f, struct branch *b, struct node *n)
{
    struct group *g = group_at(f, b->result);
    b->chain[b->n_chain++] = n;
    b->result = n;
    place(f, n, g);
}

/* ---- what may join ---- */

static bool recomputed(const struct fuser *f, const struct node *n)
{
    if ((n->op != OP_rmsnorm && n->op != OP_layernorm) || n->n_readers == 0 || n == f->out->graph->draft_state) return false;
    for (uint32_t i = 0; i < n->n_readers; i++)
        if (n->readers[i]->op != OP_matmul && n->readers[i]->op != OP_expert_matmul) return false;
    return true;
}

bool fuse_is_view(const struct node *n) { return n->op == OP_part && n->attr.every == n->inputs[0]->cols; }

const struct node *fuse_held_by(const struct node *n)
{
    while (fuse_is_view(n)) n = n->inputs[0];
    return n;
}

bool fuse_reads_partner(const struct group *g, const struct branch *b, const struct node *n)
{
    return b->partner >= 0 && op_info[n->op].n_values == 2 && n->inputs[1] == g->branches[b->partner].result;
}

/* Can the kernel of a map that begins with n take the operations that follow? It can if it works value by value or head by head. Other maps
 * have one operation each. */
static bool begins_chain(const struct node *n)
{
    switch (n->op) {
    case OP_times: case OP_scale: case OP_softcap: case OP_temperature: case OP_mul: case OP_glu_oai: case OP_part: case OP_join:
    case OP_l2norm: case OP_all_reduce: case OP_layernorm_heads: case OP_receive: return true;
    default: return op_is_function(n->op);
    }
}

uint32_t fuse_tensors(const struct group *g)
{
    uint32_t n = g->norm && node_reads_weight(g->norm);
    for (uint32_t i = 0; i < g->n_branches; i++) {
        n++;
        for (uint32_t k = 0; k < g->branches[i].n_chain; k++) n += node_reads_weight(g->branches[i].chain[k]);
    }
    return n;
}

/* May the group's kernel read one more tensor?  A launch has a fixed number of places for them. */
static bool has_room(const struct group *g) { return fuse_tensors(g) < FORGE_MAX_WEIGHTS; }

/* The branch that ends with `value` and that the only reader of `value` may join; NULL: there is no such branch. */
static struct branch *open_branch(struct fuser *f, const struct node *value)
{
    if (!f->fusing || value->n_readers != 1 || fuse_group(f->out, value) == NO_GROUP) return NULL;
    struct group *g = group_at(f, value);
    const bool rows = g->kind == GROUP_LINEAR || g->kind == GROUP_SLICES || g->kind == GROUP_SEQUENCE;
    if (!rows && !(g->kind == GROUP_MAP && begins_chain(g->branches[0].chain[0]))) return NULL;
    for (uint32_t i = 0; i < g->n_branches; i++) {
        struct branch *b = &g->branches[i];
        if (b->result == value && b->n_chain < MAX_CHAIN) return b;
    }
    return NULL;
}

/* May n join the chain of a product with slices? Up to expert_sum the chain works on rows of each expert, after it on the token's row.
 * Nothing joins products with a slice for each head. */
static bool slices_take(const struct branch *b, const struct node *n)
{
    bool summed = false;
    for (uint32_t i = 0; i < b->n_chain; i++) summed |= b->chain[i]->op == OP_expert_sum;
    if (b->matmul->op != OP_expert_matmul) return false;
    if (op_is_function(n->op)) return true;
    if (op_is_gate(n->op)) return !summed;
    switch (n->op) {
    case OP_expert_sum: return !summed && b->partner < 0;
    case OP_expert_bias: case OP_expert_times: return !summed;
    case OP_softcap: case OP_scale: return true;
    case OP_add: case OP_mul: case OP_bias: case OP_times: case OP_push: case OP_send: return summed;
    default: return false;
    }
}

static bool join_branch(struct fuser *f, struct branch *b, struct node *n)
{
    if (!b || (node_reads_weight(n) && !has_room(group_at(f, b->result)))) return false;
    if (group_at(f, b->result)->kind == GROUP_SLICES && !slices_take(b, n)) return false;
    chain_append(f, b, n);
    return true;
}

/* ---- rules: a rule returns true if it placed n, or if n needs no group ---- */

/* May two products run in one kernel? They must read one input, and be matrices of one layer, or experts of one choice with the same
 * number of columns. */
static bool are_siblings(const struct node *x, const struct node *y)
{
    if (x->op != y->op || x->inputs[0] != y->inputs[0]) return false;
    if (x->op == OP_matmul) return x->layer == y->layer;
    return x->op == OP_expert_matmul && x->inputs[1] == y->inputs[1] && x->weight->cols == y->weight->cols;
}

/* The group of an earlier sibling that has room for one more product, or NULL. */
static struct group *sibling_of(const struct fuser *f, const struct node *product)
{
    const struct node *x = product->inputs[0];
    for (uint32_t i = 0; f->fusing && i < x->n_readers && x->readers[i] != product; i++) {
        if (!are_siblings(x->readers[i], product)) continue;
        struct group *g = group_at(f, x->readers[i]);
        if (g->n_branches < MAX_BRANCHES && has_room(g)) return g;
    }
    return NULL;
}

static bool rule_product(struct fuser *f, struct node *n)
{
    struct group *g = sibling_of(f, n);
    if (g) place(f, n, g);
    else {
        g = group_new(f, n->op == OP_matmul ? GROUP_LINEAR : GROUP_SLICES, n);
        g->choice = n->op == OP_expert_matmul ? n->inputs[1] : NULL;
        if (f->fusing && recomputed(f, n->inputs[0])) {
            g->norm = n->inputs[0];
            g->input = g->norm->inputs[0];
        }
    }
    struct branch *b = branch_new(g);
    b->matmul = b->result = n;
    return true;
}

/* A view gets no group; its readers read the other value's rows. */
static bool rule_part(struct fuser *f, struct node *n)
{
    (void)f;
    return fuse_is_view(n);
}

/* A norm that its readers recompute gets no group. */
static bool rule_norm(struct fuser *f, struct node *n) { return f->fusing && recomputed(f, n); }

static bool rule_rows(struct fuser *f, struct node *n) { return join_branch(f, open_branch(f, n->inputs[0]), n); }

/* A value that comes from another GPU, or is made of such a value alone, is sent to the next one by a separate kernel. */
static bool rule_send(struct fuser *f, struct node *n)
{
    const struct group *g = fuse_group(f->out, n->inputs[0]) == NO_GROUP ? NULL : group_at(f, n->inputs[0]);
    const bool comes = g && g->kind == GROUP_MAP && g->branches[0].chain[0]->op == OP_receive;
    return !comes && rule_rows(f, n);
}

static bool rule_heads(struct fuser *f, struct node *n) { return f->absorbs->product_heads && rule_rows(f, n); }

/* The sum joins the branch that makes one operand, if the other operand is ready before that kernel starts. */
static bool rule_sum(struct fuser *f, struct node *add)
{
    for (uint32_t k = 0; k < 2; k++) {
        const struct node *fresh = add->inputs[1 - k], *ready = add->inputs[k];
        struct branch *b = fresh->cols == add->cols ? open_branch(f, fresh) : NULL;
        if (b && fuse_group(f->out, fuse_held_by(ready)) < fuse_group(f->out, fresh)) return join_branch(f, b, add);
    }
    return false;
}

/* The glu joins the map or sequence that makes gate or up, if the other operand is ready before; or the product that makes one of them, if
 * the other operand is a view. */
static bool rule_beside(struct fuser *f, struct node *glu)
{
    for (uint32_t k = 0; k < 2; k++) {
        const struct node *n = glu->inputs[k];
        const bool placed = fuse_group(f->out, n) != NO_GROUP && fuse_group(f->out, fuse_held_by(glu->inputs[1 - k])) != NO_GROUP;
        const enum group_kind kind = placed ? group_at(f, n)->kind : GROUP_EMBED;
        const bool fresh = kind == GROUP_MAP || kind == GROUP_SEQUENCE || (kind == GROUP_LINEAR && fuse_is_view(glu->inputs[1 - k]));
        struct branch *b = fresh ? open_branch(f, n) : NULL;
        if (b && fuse_group(f->out, fuse_held_by(glu->inputs[1 - k])) < fuse_group(f->out, n)) return join_branch(f, b, glu);
    }
    return false;
}

/* Gate and up are branches of one kernel. The kernel finishes a unit of the gate's rows together with the same rows of up. It can apply
 * biases and factors to the rows of up, but nothing that works on whole heads or reads other values. If the target requires one format
 * (gates_alike) and the formats differ, the two products still share a kernel, but the glu has a separate one. */
static bool rule_gate(struct fuser *f, struct node *glu)
{
    const struct node *gate = glu->inputs[0], *up = glu->inputs[1];
    struct branch *b = open_branch(f, gate), *partner = open_branch(f, up);
    if (!b || !partner || b == partner || group_at(f, gate) != group_at(f, up) || b->partner >= 0 || !b->matmul) return rule_beside(f, glu);
    if (f->absorbs->gates_alike && b->matmul->weight->tensor->quant != partner->matmul->weight->tensor->quant) return rule_beside(f, glu);
    const bool experts = b->matmul->op == OP_expert_matmul;
    for (uint32_t i = 0; i < partner->n_chain; i++) {
        const enum op op = partner->chain[i]->op;
        if (op != (experts ? OP_expert_bias : OP_bias) && op != (experts ? OP_expert_times : OP_times)) return rule_beside(f, glu);
    }
    b->partner = (int32_t)(partner - group_at(f, gate)->branches);
    partner->is_partner = true;
    return join_branch(f, b, glu);
}

static bool rule_none(struct fuser *f, struct node *n)
{
    (void)f;
    (void)n;
    return false;
}

/* ---- attention and the heads it reads ---- */

static bool on_heads(enum op op) { return op == OP_headnorm || op == OP_rope || op == OP_store_k || op == OP_store_v; }

/* The branch of a projection that ends with `value`. */
static bool ends_branch(const struct group *g, const struct node *value, uint32_t *branch)
{
    if (g->kind != GROUP_LINEAR || g->n_branches != 3) return false;
    for (uint32_t i = 0; i < 3; i++) {
        *branch = i;
        if (g->branches[i].result == value && g->branches[i].partner < 0 && !g->branches[i].is_partner) return true;
    }
    return false;
}

static struct node *skip(struct node *n, enum op op, struct node **skipped)
{
    *skipped = n->op == op && n->n_readers == 1 ? n : NULL;
    return *skipped ? n->inputs[0] : n;
}

/* Fills c with the operations between a projection and the operand of attention: at most a head norm, a rotation and a store. False if
 * there are others, or if another operation reads one of the values. */
static bool head_chain(const struct fuser *f, struct node *operand, struct head_chain *c)
{
    struct node *n = operand;
    *c = (struct head_chain){ 0 };
    if (operand->op == OP_store_k || operand->op == OP_store_v) n = skip(n, operand->op, &c->store);
    if (operand->op != OP_store_v) n = skip(skip(n, OP_rope, &c->rope), OP_headnorm, &c->norm);
    c->raw = n;
    return operand->n_readers == 1 && n->n_readers == 1 && fuse_group(f->out, n) != NO_GROUP && ends_branch(group_at(f, n), n, &c->branch);
}

static bool rotate_alike(const struct node *q, const struct node *k)
{
    return q && k ? q->rotation == k->rotation && q->attr.neox == k->attr.neox : q == k;
}

/* Attention takes over norms, rotations and stores of the heads that one product makes for it alone. */
static void absorb_heads(struct fuser *f, struct group *g)
{
    struct head_chain chains[3];
    for (uint32_t i = 0; i < 3; i++)
        if (!head_chain(f, g->node->inputs[i], &chains[i]) || group_at(f, chains[i].raw) != group_at(f, chains[0].raw)) return;
    if (!rotate_alike(chains[0].rope, chains[1].rope)) return;
    if (chains[0].norm && chains[1].norm && chains[0].norm->attr.eps != chains[1].norm->attr.eps) return;
    if (g->node->attr.head_dim > f->absorbs->attention_most || g->node->attr.head_dim != g->node->inputs[2]->attr.head_dim) return;
    for (uint32_t i = 0; i < 2; i++) {
        if (chains[i].norm && (!chains[i].norm->weight || chains[i].norm->weight->cols != chains[i].norm->attr.head_dim)) return;
        if (chains[i].rope && chains[i].rope->attr.rot_first) return;
    }
    g->has_heads = true;
    memcpy(g->heads, chains, sizeof chains);
    for (uint32_t i = 0; i < 3; i++) {
        const struct node *done[] = { chains[i].norm, chains[i].rope, chains[i].store };
        for (uint32_t k = 0; k < COUNT_OF(done); k++) if (done[k]) place(f, done[k], g);
    }
}

static bool finishes_heads(const struct branch *b)
{
    for (uint32_t i = 0; i < b->n_chain; i++) if (on_heads(b->chain[i]->op)) return true;
    return false;
}

/* If the projection right before attention makes whole heads and nothing else, both kernels divide the heads among threads in the same
 * way, and no barrier is needed between them. */
static void join_projection(struct fuser *f, struct group *g)
{
    const struct group *before = g - 1;
    if (g == f->out->groups || g->node->attr.head_dim % f->absorbs->joined_rows || g->node->inputs[0]->n_readers != 1) return;
    if (g->node->inputs[2]->attr.head_dim != g->node->attr.head_dim) return;
    for (uint32_t i = 0; i < 3; i++) {
        struct head_chain *c = &g->heads[i];
        c->raw = g->node->inputs[i];
        if (group_at(f, c->raw) != before || !ends_branch(before, c->raw, &c->branch) || !finishes_heads(&before->branches[c->branch]))
            return;
    }
    g->joins = true;
    g->projection = before;
}

static bool rule_attention(struct fuser *f, struct node *n)
{
    struct group *g = group_new(f, GROUP_ATTENTION, n);
    g->node = n;
    if (f->fusing && f->absorbs->attention_heads) absorb_heads(f, g);
    return true;
}

/* ---- the table ---- */

/* The rule by which an operation joins a group, and the kind of group that it begins if it joins none. */
static const struct rule { bool (*joins)(struct fuser *f, struct node *n); enum group_kind alone; } rules[OP_COUNT] = {
#define OP(...)
#define FUNCTION(name) [OP_##name] = { rule_rows, GROUP_MAP },
#define GATE(name, ...) [OP_##name] = { rule_gate, GROUP_MAP },
#include "compiler/front/op.def"
#undef OP
    [OP_embed]     = { rule_none,      GROUP_EMBED },
    [OP_rmsnorm]   = { rule_norm,      GROUP_NORM },
    [OP_headnorm]  = { rule_heads,     GROUP_MAP },
    [OP_matmul]    = { rule_product,   GROUP_LINEAR },
    [OP_bias]      = { rule_rows,      GROUP_MAP },
    [OP_rope]      = { rule_heads,     GROUP_MAP },
    [OP_store_k]   = { rule_heads,     GROUP_MAP },
    [OP_store_v]   = { rule_heads,     GROUP_MAP },
    [OP_attention] = { rule_attention, GROUP_ATTENTION },
    [OP_add]       = { rule_sum,       GROUP_MAP },
    [OP_layernorm] = { rule_norm,      GROUP_NORM },
    [OP_l2norm]    = { rule_heads,     GROUP_MAP },
    [OP_layernorm_heads] = { rule_heads, GROUP_MAP },
    [OP_add_position] = { rule_rows,   GROUP_MAP },
    [OP_times]     = { rule_rows,      GROUP_MAP },
    [OP_scale]     = { rule_rows,      GROUP_MAP },
    [OP_softcap]   = { rule_rows,      GROUP_MAP },
    [OP_temperature] = { rule_rows,    GROUP_MAP },
    [OP_mul]       = { rule_sum,       GROUP_MAP },
    [OP_part]      = { rule_part,      GROUP_MAP },
    [OP_join]      = { rule_none,      GROUP_MAP },
    [OP_conv]      = { rule_none,      GROUP_SEQUENCE },
    [OP_previous]  = { rule_none,      GROUP_SEQUENCE },
    [OP_recur]     = { rule_none,      GROUP_SEQUENCE },
    [OP_route]     = { rule_none,      GROUP_ROUTE },
    [OP_matmul_heads]  = { rule_product, GROUP_SLICES },
    [OP_expert_matmul] = { rule_product, GROUP_SLICES },
    [OP_expert_bias]   = { rule_rows,  GROUP_MAP },
    [OP_expert_times]  = { rule_rows,  GROUP_MAP },
    [OP_expert_sum]    = { rule_rows,  GROUP_MAP },
    [OP_push]      = { rule_rows,      GROUP_MAP },
    [OP_all_reduce]      = { rule_none,      GROUP_MAP },
    [OP_all_gather]    = { rule_none,      GROUP_MAP },
    [OP_send]      = { rule_send,      GROUP_MAP },
    [OP_receive]   = { rule_none,      GROUP_MAP },
};

static void begin_group(struct fuser *f, struct node *n, enum group_kind kind)
{
    struct group *g = group_new(f, kind, n);
    if (kind == GROUP_MAP || kind == GROUP_SEQUENCE) {
        struct branch *b = branch_new(g);
        b->result = n;
        chain_append(f, b, n);
    }
    else g->node = n;
}

/* Removes groups that are empty because attention took over their operations. The others keep their order. */
static void close_gaps(struct fuser *f)
{
    struct fused *out = f->out;
    uint32_t *index = arena_array(f->arena, uint32_t, out->n_groups), n = 0;
    bool *used = arena_array(f->arena, bool, out->n_groups);
    for (uint32_t i = 0; i < out->graph->n_nodes; i++) if (out->group_of[i] != NO_GROUP) used[out->group_of[i]] = true;
    for (uint32_t i = 0; i < out->n_groups; i++) {
        if (!used[i]) continue;
        index[i] = n;
        if (n != i) out->groups[n] = out->groups[i];
        n++;
    }
    for (uint32_t i = 0; i < out->graph->n_nodes; i++) if (out->group_of[i] != NO_GROUP) out->group_of[i] = index[out->group_of[i]];
    out->n_groups = n;
    for (uint32_t i = 0; i < n; i++) {
        struct group *g = &out->groups[i];
        if (g->has_heads) g->projection = group_at(f, g->heads[0].raw);
    }
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
        if (g->kind == GROUP_LINEAR || g->kind == GROUP_SLICES) g->name = join_roles(a, g);
        else if (g->kind == GROUP_MAP || g->kind == GROUP_SEQUENCE) {
            const char *value = g->branches[0].chain[0]->name, *dot = strchr(value, '.');
            g->name = arena_printf(a, "%s_%s", op_info[g->branches[0].chain[0]->op].name, dot ? dot + 1 : value);
        }
        else if (g->kind == GROUP_NORM) g->name = g->node->weight ? g->node->weight->role : "norm";
        else g->name = op_info[g->node->op].name;
    }
}

/* Marks the groups of the block that drafts tokens (drafts), and those among them that compute values for its state (keeps). */
static void mark_drafts(struct arena *a, struct fused *out)
{
    const struct graph *g = out->graph;
    bool *needed = arena_array(a, bool, g->n_nodes);
    for (uint32_t i = g->n_nodes; g->draft && i-- > 0; ) {
        const struct node *n = g->nodes[i];
        if (!graph_drafts(g, n)) continue;
        needed[i] |= op_keeps(n->op);
        for (uint32_t k = 0; needed[i] && k < op_info[n->op].n_values; k++) needed[n->inputs[k]->index] = true;
        if (out->group_of[i] == NO_GROUP) continue;
        out->groups[out->group_of[i]].drafts = true;
        out->groups[out->group_of[i]].keeps |= needed[i];
    }
}

struct fused *fuse(struct arena *a, const struct graph *graph, enum fuse_level level, const struct absorbs *absorbs)
{
    struct fuser f = { .arena = a, .out = arena_new(a, struct fused), .absorbs = absorbs, .fusing = level == FUSE_LAYER };
    f.out->graph = graph;
    f.out->level = level;
    f.out->groups = arena_array(a, struct group, graph->n_nodes);
    f.out->group_of = arena_array(a, uint32_t, graph->n_nodes);
    for (uint32_t i = 0; i < graph->n_nodes; i++) f.out->group_of[i] = NO_GROUP;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct node *n = graph->nodes[i];
        const struct rule *rule = &rules[n->op];
        if (!rule->joins(&f, n)) begin_group(&f, n, rule->alone);
    }
    close_gaps(&f);
    for (uint32_t i = 0; f.fusing && absorbs->joined_rows && i < f.out->n_groups; i++)    /* after projections got all their branches */
        if (f.out->groups[i].kind == GROUP_ATTENTION) join_projection(&f, &f.out->groups[i]);
    name_groups(a, f.out);
    mark_drafts(a, f.out);
    return f.out;
}

uint32_t fuse_last_store(const struct fused *f)
{
    const struct graph *g = f->graph;
    uint32_t last = 0;
    if (!g->output) return f->n_groups;                    /* the next stage needs all rows */
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (op_keeps(g->nodes[i]->op) && f->group_of[i] > last) last = f->group_of[i];
    if (fuse_group(f, g->output) <= last)                  /* rows of logits are counted from the first token with logits */
        die("%%%s, the logits, are ready before the last layer's keys and values are stored; forgec has no kernel for that",
            g->output->name);
    return last;
}

static void print_heads(struct text *out, const struct group *g)
{
    for (uint32_t i = 0; g->has_heads && i < 3; i++) {
        const struct node *done[] = { g->heads[i].norm, g->heads[i].rope, g->heads[i].store };
        for (uint32_t k = 0; k < COUNT_OF(done); k++) if (done[k]) text_printf(out, " %s", op_info[done[k]->op].name);
    }
}

void fuse_print(struct text *out, const struct fused *f)
{
    for (uint32_t i = 0; i < f->n_groups; i++) {
        const struct group *g = &f->groups[i];
        text_printf(out, "%4u  ", i);
        if (g->layer != NO_LAYER) text_printf(out, "%u.", g->layer);
        text_printf(out, "%s:", g->name);
        if (g->norm) text_printf(out, " %s", op_info[g->norm->op].name);
        print_heads(out, g);
        if (g->node) text_printf(out, " %s", op_info[g->node->op].name);
        for (uint32_t b = 0; b < g->n_branches; b++) {
            const struct node *product = g->branches[b].matmul;
            if (product) text_printf(out, " %s(%s)", op_info[product->op].name, product->weight->role);
            for (uint32_t k = 0; k < g->branches[b].n_chain; k++) text_printf(out, " %s", op_info[g->branches[b].chain[k]->op].name);
        }
        text_puts(out, "\n");
    }
}
