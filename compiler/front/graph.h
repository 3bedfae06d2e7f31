/* graph.h -- a model as operations on typed, shaped values, in the order in which they run. Knows no files and no targets.
 * Text grammar in docs/graph.md: graph_print writes what graph_parse reads. */
#ifndef FORGEC_GRAPH_H
#define FORGEC_GRAPH_H
#include "compiler/base/base.h"
#include "model.h"

enum op {
#define OP(name, values, weights, absent) OP_##name,
#include "op.def"
#undef OP
    OP_COUNT
};
struct op_info { const char *name; uint32_t n_values, n_weights; bool vanishes; };
extern const struct op_info op_info[OP_COUNT];

/* What an operation knows beside its operands; 0 where it has no such thing. */
struct node_attrs {
    uint32_t head_dim;                /* items of a head: headnorm, rope, store_k, store_v, attention */
    double   eps;                     /* rmsnorm, headnorm */
    uint32_t n_rot;                   /* rope: items of a head that rotate */
    bool     neox;                    /* rope: pairs (i, i + n_rot/2), else (2i, 2i + 1) */
    double   scale;                   /* attention: of the scores */
    double   cap;                     /* attention: c tanh(s / c) of the scores; 0: none */
    uint32_t window;                  /* attention: positions read, the token's own included; 0: all */
};

/* One operation and the value it gives: [n_tokens][cols] f32 as far as the meaning goes. */
struct node {
    enum op              op;
    const char          *name;        /* "3.attn_norm": layer, value; unique in the graph */
    struct node         *inputs[3];
    const struct weight *weight;      /* or NULL */
    struct node_attrs    attr;
    uint32_t             layer;       /* NO_LAYER outside the layers */
    uint32_t             cols;
    uint32_t             heads;       /* cols / head_dim where the value is made of heads, else 0 */
    uint32_t             index;       /* in graph->nodes */
    uint32_t             n_readers;
    struct node        **readers;
};

struct graph {
    const struct model *model;
    struct node       **nodes;        /* [n_nodes], operands before readers */
    uint32_t            n_nodes;
    struct node        *output;       /* logits */
};

/* The wiring of m, its layers unrolled.  Errors in the text die with line and column of the YAML. */
struct graph *graph_build(struct arena *a, const struct model *m);
/* Reads the text graph_print wrote (weights by role and layer, against the same model). */
struct graph *graph_parse(struct arena *a, const struct model *m, const char *name, const char *text);
void graph_print(struct text *out, const struct graph *g);
#endif
