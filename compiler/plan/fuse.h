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
    GROUP_MAP,          /* an operation on rows of finished values, no matmul, and others behind it */
    /* [norm] + products with slices of a tensor, those of chosen experts or one for each head, + what happens to their rows */
    GROUP_SLICES,
    GROUP_ROUTE,        /* the choice of experts */
    GROUP_SEQUENCE,     /* an operation that goes from position to position with a state, and others behind it */
};

#define NO_GROUP 0xffffffffu

enum { MAX_BRANCHES = 8, MAX_CHAIN = 8 };

/* What the kernels of a target can do beside their own work. */
struct absorbs {
    bool     product_heads;         /* a product's kernel does what works on whole heads: norms, rotations, stores */
    bool     attention_heads;       /* attention does that to the heads of one product, */
    uint32_t attention_most;        /* of so many items at most */
    bool     gates_alike;           /* a kernel finishes gate and up together only where they have one weight format */
    uint32_t joined_rows;           /* threads go on from the projection of heads to their attention without a barrier, where heads are
                                     * multiples of so many rows; 0: never */
};

/* One matmul (NULL in GROUP_MAP and GROUP_SEQUENCE, whose chain begins with their operation) and the operations applied to its rows, in
 * order.  One glu in the chain may read, besides this branch, the end of the branch `partner`, whose chain has biases and factors only;
 * the other operations of two values read one of an earlier group. */
struct branch {
    struct node *matmul;
    struct node *chain[MAX_CHAIN];
    uint32_t     n_chain;
    struct node *result;            /* the last node: its value leaves the kernel (into the state for store_k/v) */
    int32_t      partner;           /* -1 none */
    bool         is_partner;        /* consumed by another branch's glu */
};

/* From a branch of a projection to an operand of attention. */
struct head_chain {
    uint32_t     branch;
    struct node *raw;               /* what the projection leaves */
    struct node *norm, *rope, *store;       /* what attention does with it; NULL: not that */
};

struct group {
    enum group_kind kind;
    const char     *name;           /* "attn_qkv" */
    uint32_t        layer;
    struct node    *norm;           /* prologue recomputed from its input; or NULL */
    struct node    *input;          /* the value read: the norm's operand if there is a norm */
    struct node    *choice;         /* GROUP_SLICES: of the experts; NULL: the slices are those of heads */
    struct branch   branches[MAX_BRANCHES];
    uint32_t        n_branches;
    struct node    *node;           /* embed, norm or attention */
    /* attention */
    const struct group *projection; /* the group whose heads it finishes, or goes on from without a barrier; or NULL */
    bool            has_heads;      /* it finishes them: heads, of q, k, v */
    bool            joins;          /* no barrier before it where the threads divide the KV heads evenly */
    struct head_chain heads[3];
    bool            drafts;         /* of the block that drafts tokens: it runs for a draft, */
    bool            keeps;          /* and behind the trunk's rows, where the block's state needs it */
};

struct fused {
    const struct graph *graph;
    enum fuse_level     level;
    struct group       *groups;     /* [n_groups], in the order in which they run */
    uint32_t            n_groups;
    uint32_t           *group_of;   /* [n_nodes]; NO_GROUP where its readers recompute it */
};

/* absorbs: of the target.  The graph stays as it is. */
struct fused *fuse(struct arena *a, const struct graph *g, enum fuse_level level, const struct absorbs *absorbs);
/* The group that makes n. */
static inline uint32_t fuse_group(const struct fused *f, const struct node *n) { return f->group_of[n->index]; }
/* Whole columns of another value: no kernel makes it, its rows are pieces of the other's. */
bool fuse_is_view(const struct node *n);
/* The value whose rows hold those of n: n itself, where it is no view. */
const struct node *fuse_held_by(const struct node *n);
/* The operation of a chain that reads the partner's rows? */
bool fuse_reads_partner(const struct group *g, const struct branch *b, const struct node *n);
/* The last group that stores into a state: behind it only tokens with logits matter.  Dies when the logits are ready before.  Of a GPU
 * whose values others go on with: the number of groups. */
uint32_t fuse_last_store(const struct fused *f);
/* One line per group: "5  0.ffn_gate_up: rmsnorm matmul matmul glu_silu". */
void fuse_print(struct text *out, const struct fused *f);
#endif
