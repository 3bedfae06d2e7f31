/* graph.h -- a model as operations on typed, shaped values, in the order in which they run. Knows no files and no targets.
 * Text grammar in docs/graph.md: graph_print writes what graph_parse reads. */
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

enum attr {
#define ATTR(name, type, least, most) ATTR_##name,
#include "attr.def"
#undef ATTR
    ATTR_COUNT
};

/* What a node knows beside its operands; attr.def says what each means.  0 where the operation has no such attribute. */
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

/* What a token reads of an operation's weight. */
enum weight_reads { READS_ALL, READS_ROWS, READS_EXPERTS };

struct op_attr { enum attr attr; const char *value; };      /* value: where the wiring gives none */
struct op_info {
    const char       *name;
    uint32_t          n_values, n_weights;
    bool              vanishes;       /* the line, where "role?" is absent; else only the weight */
    bool              needs_weight;   /* a line cannot be written without */
    enum weight_reads reads;
    struct op_attr    attrs[ATTR_COUNT + 1];      /* up to the one without value */
};
extern const struct op_info op_info[OP_COUNT];

/* ---- nodes ---- */

/* One operation and the value it gives: [n_tokens][cols] f32 as far as the meaning goes. */
struct node {
    enum op              op;
    const char          *name;        /* "3.attn_norm": layer, value; unique in the graph */
    struct node         *inputs[5];
    const struct weight *weight;      /* or NULL */
    struct node_attrs    attr;
    uint32_t             layer;       /* NO_LAYER outside the layers */
    uint32_t             cols;
    uint32_t             heads;       /* cols / head_dim where the value is made of heads, else 0 */
    uint32_t             rotation;    /* rope: its table in graph->rotations */
    uint32_t             index;       /* in graph->nodes */
    uint32_t             n_readers;
    struct node        **readers;
};

/* What rope nodes that turn alike share: the angles of a position.  attr: n_rot, base to beta_slow; head_dim and neox, which do not
 * change the angles, are 0.  factors: divisors of the frequencies, or NULL. */
struct rotation { struct node_attrs attr; const struct weight *factors; };

struct graph {
    const struct model *model;
    struct node       **nodes;        /* [n_nodes], operands before readers */
    uint32_t            n_nodes;
    struct node        *output;       /* logits; NULL: of GPUs in a row another one has them */
    /* Of the block that drafts tokens, whose nodes have layer model->n_layer: its logits; the `previous` by which it reads the trunk's
     * rows; what takes their place for the draft behind.  NULL: there is no such block. */
    struct node        *draft, *draft_from, *draft_state;
    struct rotation    *rotations;    /* [n_rotations], distinct, in the order of their first nodes */
    uint32_t            n_rotations;
};

/* The wiring of m, its layers unrolled.  Errors in the text die with line and column of the YAML. */
struct graph *graph_build(struct arena *a, const struct model *m);
/* Does the operation leave a state to later tokens?  And is it one that every token replaces? */
static inline bool op_replaces(enum op op) { return op == OP_conv || op == OP_previous || op == OP_recur; }
static inline bool op_keeps(enum op op) { return op == OP_store_k || op == OP_store_v || op_replaces(op); }
/* Is it a node of the block that drafts tokens? */
static inline bool graph_drafts(const struct graph *g, const struct node *n) { return n->layer == g->model->n_layer; }
/* g with the block's logits as its output: row t is what it foretells behind token t, from that token and the trunk's row before. */
const struct graph *graph_of_drafts(struct arena *a, const struct graph *g);
/* Reads the text graph_print wrote (weights by role and layer, against the same model). */
struct graph *graph_parse(struct arena *a, const struct model *m, const char *name, const char *text);
void graph_print(struct text *out, const struct graph *g);

/* Fills n_readers, 0 before, and readers of all nodes; g->rotations and node->rotation.  graph_build and graph_parse have done so. */
void graph_readers(struct arena *a, struct graph *g);
void graph_rotations(struct arena *a, struct graph *g);
/* Frequencies of a rotation, theta_i(p) = p * freq[i], with linear, YaRN and rope_freqs factors folded in: freq [n_rot/2].
 * Returns the factor for cos and sin (YaRN's attention magnitude).  (Su et al. 2021, arXiv:2104.09864; Peng et al. 2023, arXiv:2309.00071)
 * attr: of a rope node or a rotation; factors: rope_freqs [n_rot/2] or NULL. */
double model_rope_frequencies(const struct node_attrs *attr, const float *factors, double *freq);
#endif
