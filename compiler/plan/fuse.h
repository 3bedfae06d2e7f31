/* fuse.h -- groups of operations that become one kernel each. Chooses no sizes. */
#ifndef FORGEC_FUSE_H
#define FORGEC_FUSE_H
#include "compiler/front/graph.h"

enum fuse_level { FUSE_NONE, FUSE_LAYER };

enum group_kind {
    GROUP_EMBED,        /* rows of the embedding table */
    GROUP_NORM,         /* a norm on its own */
    GROUP_LINEAR,       /* [norm] + matmuls of one input + what happens to each of their rows */
    GROUP_ATTENTION,
    GROUP_MAP,          /* operations on rows of finished values, no matmul */
};

enum { MAX_BRANCHES = 8, MAX_CHAIN = 8 };

/* One matmul (NULL in GROUP_MAP) and the operations applied to its rows, in order.  A glu in the chain (one at most) reads, besides
 * this branch, the end of the branch `partner`, whose chain has biases only; an add reads a value of an earlier group. */
struct branch {
    struct node *matmul;
    struct node *chain[MAX_CHAIN];
    uint32_t     n_chain;
    struct node *result;            /* the last node: its value leaves the kernel (into the KV cache for store_k/v) */
    int32_t      partner;           /* -1 none */
    bool         is_partner;        /* consumed by another branch's glu */
};

struct group {
    enum group_kind kind;
    const char     *name;           /* "attn_qkv" */
    uint32_t        layer;
    struct node    *norm;           /* prologue recomputed from its input; or NULL */
    struct node    *input;          /* the value read: the norm's operand if there is a norm */
    struct branch   branches[MAX_BRANCHES];
    uint32_t        n_branches;
    struct node    *node;           /* embed, norm or attention */
};

struct fused {
    const struct graph *graph;
    enum fuse_level     level;
    struct group       *groups;     /* [n_groups], in the order in which they run */
    uint32_t            n_groups;
};

struct fused *fuse(struct arena *a, const struct graph *g, enum fuse_level level);
/* One line per group: "5  0.ffn_gate_up: rmsnorm matmul matmul glu_silu". */
void fuse_print(struct text *out, const struct fused *f);
#endif
