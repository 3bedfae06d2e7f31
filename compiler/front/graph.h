/* graph.h -- a model as operations on typed, shaped values, in the order in which they run. Does not depend on files or targets.
 * docs/graph.md has the grammar of its text: graph_print writes it, graph_parse reads it. */
#ifndef FORGEC_GRAPH_H
#define FORGEC_GRAPH_H
#include "compiler/base/base.h"
#include "model.h"

/* ---- operations and their attributes: op.def, attr.def ---- */

enum op {
#define NOTHING
#define TAKES(attr, value)
#define OP(name, ...) OP_##name,
#include "op.def"
#undef OP
#undef TAKES
#undef NOTHING
    OP_COUNT
};

/* Is the operation a function of single values, or of a gate and a value (op.def)? */
static inline bool op_is_function(enum op op)
{
    switch (op) {
#define OP(...)
#define GATE(...)
#define FUNCTION(name) case OP_##name:
#include "op.def"
#undef OP
        return true;
    default: return false;
    }
}
static inline bool op_is_gate(enum op op)
{
    switch (op) {
#define OP(...)
#define GATE(name, ...) case OP_##name:
#define FUNCTION(name)
#include "op.def"
#undef OP
        return true;
    default: return false;
    }
}

enum attr {
#define ATTR(name, type, least, most) ATTR_##name,
#include "attr.def"
#undef ATTR
    ATTR_COUNT
};

/* The attributes of a node, described in attr.def. 0 if the operation does not have the attribute. */
struct node_attrs {
#define FIELD_U32  uint32_t
#define FIELD_F64  double
#define FIELD_BOOL bool
#define ATTR(name, type, least, most) FIELD_##type name;
#include "attr.def"
#undef ATTR
#undef FIELD_U32
#undef FIELD_F64
#undef FIELD_BOOL
};

/* The part of an operation's weight that one token reads. */
enum weight_reads { READS_ALL, READS_ROWS, READS_EXPERTS, READS_NONE };

struct op_attr { enum attr attr; const char *value; };      /* value: the default, if the wiring sets none */
struct op_info {
    const char       *name;
    uint32_t          n_values, n_weights;
    bool              vanishes;       /* the whole line is left out if the tensor of "role?" is absent; false: only the weight is */
    bool              needs_weight;   /* a line must name a weight */
    enum weight_reads reads;
    struct op_attr    attrs[ATTR_COUNT + 1];      /* ends with an entry without value */
};
extern const struct op_info op_info[OP_COUNT];

/* ---- nodes ---- */

/* One operation and its value: [n_tokens][cols], f32 by meaning (kernels may store it otherwise). */
struct node {
    enum op              op;
    const char          *name;        /* "3.attn_norm": layer, value; unique in the graph */
    struct node         *inputs[5];
    const struct weight *weight;      /* or NULL */
    const struct weight *far;         /* rope: the weight for texts of more than n_ctx_orig tokens; NULL: the same weight */
    struct node_attrs    attr;
    uint32_t             layer;       /* NO_LAYER outside the layers */
    uint32_t             cols;
    uint32_t             heads;       /* cols / head_dim if the value consists of heads, else 0 */
    uint32_t             rotation;    /* rope: its table in graph->rotations */
    uint32_t             index;       /* in graph->nodes */
    uint32_t             n_readers;
    struct node        **readers;
};

/* Does the node's kernel read its weight, so that the image must have it? */
static inline bool node_reads_weight(const struct node *n) { return n->weight && op_info[n->op].reads != READS_NONE; }

/* The angles of a position, shared by rope nodes with the same angles. attr: n_rot, base to beta_slow; head_dim and neox do not change the
 * angles and are 0. factors: divisors of the frequencies, or NULL. far: the divisors for texts of more than n_ctx_orig tokens; NULL: the
 * same divisors. */
struct rotation { struct node_attrs attr; const struct weight *factors, *far; };

struct graph {
    const struct model *model;
    struct node       **nodes;        /* [n_nodes], operands before readers */
    uint32_t            n_nodes;
    struct node        *output;       /* logits; NULL: another pipeline stage has them */
    /* The block that drafts tokens (its nodes have layer model->n_layer): its logits; the `previous` node by which it reads the trunk's
     * rows; the value that replaces these rows for the next draft. NULL: there is no such block. */
    struct node        *draft, *draft_from, *draft_state;
    struct rotation    *rotations;    /* [n_rotations], distinct, in the order of their first nodes */
    uint32_t            n_rotations;
};

/* Builds the graph from the wiring of m, with its layers unrolled. Errors in the text die with line and column of the YAML. */
struct graph *graph_build(struct arena *a, const struct model *m);
/* op_keeps: the operation leaves a state for later tokens. op_replaces: every token replaces that state. */
static inline bool op_replaces(enum op op) { return op == OP_conv || op == OP_previous || op == OP_recur; }
static inline bool op_keeps(enum op op) { return op == OP_store_k || op == OP_store_v || op_replaces(op); }
/* True for a node of the block that drafts tokens. */
static inline bool graph_drafts(const struct graph *g, const struct node *n) { return n->layer == g->model->n_layer; }
/* True if most weights of the layers' products are in blocks, so that products round activations to 8 bits anyway. Token tables do not
 * count, because their format often differs from the layers'. */
bool graph_in_blocks(const struct graph *g);
/* g with the draft block's logits as its output: row t predicts the token after token t, from token t and the trunk's row before it. */
const struct graph *graph_of_drafts(struct arena *a, const struct graph *g);
/* Reads text that graph_print wrote for the same model; weights are named by role and layer. */
struct graph *graph_parse(struct arena *a, const struct model *m, const char *name, const char *text);
void graph_print(struct text *out, const struct graph *g);

/* graph_readers sets n_readers (which must be 0 before) and readers of all nodes; graph_rotations sets g->rotations and node->rotation.
 * graph_build and graph_parse call both. */
void graph_readers(struct arena *a, struct graph *g);
void graph_rotations(struct arena *a, struct graph *g);
/* Texts of more than this many tokens use other rotations (node->far); 0: no rotation depends on the length. */
uint32_t graph_far_from(const struct graph *g);
/* Frequencies of a rotation, theta_i(p) = p * freq[i], including linear, YaRN and rope_freqs factors: freq [n_rot/2].
 * Returns the factor for cos and sin (YaRN's attention magnitude).  (Su et al. 2021, arXiv:2104.09864; Peng et al. 2023, arXiv:2309.00071)
 * attr: of a rope node or a rotation; factors: rope_freqs [n_rot/2] or NULL. */
double model_rope_frequencies(const struct node_attrs *attr, const float *factors, double *freq);
#endif
