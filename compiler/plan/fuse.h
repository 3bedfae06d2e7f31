/* fuse.h -- divides the graph into groups of operations; each group becomes one kernel. Chooses no sizes. */
#ifndef FORGEC_FUSE_H
#define FORGEC_FUSE_H
#include "compiler/front/graph.h"

enum fuse_level { FUSE_NONE, FUSE_LAYER };

enum group_kind {
    GROUP_EMBED,        /* rows of the embedding table */
    GROUP_NORM,         /* a norm on its own */
    GROUP_LINEAR,       /* [norm] + matmuls of one input + operations on each of their rows */
    GROUP_ATTENTION,
    GROUP_MAP,          /* an operation on rows of finished values, no matmul, and operations that follow it */
    /* [norm] + products with slices of a tensor (chosen experts, or one slice for each head) + operations on their rows */
    GROUP_SLICES,
    GROUP_ROUTE,        /* the choice of experts */
    GROUP_SEQUENCE,     /* an operation that passes a state from position to position, and operations that follow it */
};

#define NO_GROUP 0xffffffffu

enum { MAX_BRANCHES = 8, MAX_CHAIN = 8 };

/* Which further operations the kernels of a target can take over. */
struct absorbs {
    bool     product_heads;         /* a product's kernel can work on whole heads: norms, rotations, stores */
    bool     attention_heads;       /* attention can norm, rotate and store the heads of one product */
    uint32_t attention_most;        /* the largest head size for attention_heads */
    bool     gates_alike;           /* a kernel finishes gate and up together only if they have the same weight format */
    uint32_t joined_rows;           /* threads continue from the projection of heads to their attention without a barrier if the head size
                                     * is a multiple of this number of rows; 0: never */
};

/* One matmul and the operations applied to its rows, in order. matmul is NULL in GROUP_MAP and GROUP_SEQUENCE: their chain begins with
 * their own operation. One glu in the chain may also read the result of the branch `partner`; its chain has only biases and factors.
 * Every other operation on two values reads its second value from an earlier group. */
struct branch {
    struct node *matmul;
    struct node *chain[MAX_CHAIN];
    uint32_t     n_chain;
    struct node *result;            /* the last node: its value leaves the kernel (for store_k/v into the state) */
    int32_t      partner;           /* index of a branch; -1: there is no partner */
    bool         is_partner;        /* another branch's glu consumes the result */
};

/* The path from a branch of a projection to an operand of attention. */
struct head_chain {
    uint32_t     branch;
    struct node *raw;               /* result of the projection */
    struct node *norm, *rope, *store;       /* operations that attention applies to it; NULL: it does not */
};

struct group {
    enum group_kind kind;
    const char     *name;           /* "attn_qkv" */
    uint32_t        layer;
    struct node    *norm;           /* norm that the kernel recomputes from its operand; or NULL */
    struct node    *input;          /* the value read: the norm's operand if there is a norm */
    struct node    *choice;         /* GROUP_SLICES: the choice of experts; NULL: the slices belong to heads */
    struct branch   branches[MAX_BRANCHES];
    uint32_t        n_branches;
    struct node    *node;           /* embed, norm or attention */
    /* attention */
    const struct group *projection; /* the group that makes its heads, if has_heads or joins; else NULL */
    bool            has_heads;      /* attention finishes the projection's heads as `heads` says */
    bool            joins;          /* no barrier before it if the number of threads divides the number of KV heads */
    struct head_chain heads[3];     /* of q, k, v */
    bool            drafts;         /* belongs to the block that drafts tokens: it runs for a draft */
    bool            keeps;          /* it also runs after the trunk on the trunk's rows, because the block's state needs it */
};

struct fused {
    const struct graph *graph;
    enum fuse_level     level;
    struct group       *groups;     /* [n_groups], in the order in which they run */
    uint32_t            n_groups;
    uint32_t           *group_of;   /* [n_nodes]; NO_GROUP: no kernel makes the value (its readers recompute it, or it is a view) */
};

/* Groups the operations of g; the result lies in a. absorbs: abilities of the target's kernels. The graph does not change. */
struct fused *fuse(struct arena *a, const struct graph *g, enum fuse_level level, const struct absorbs *absorbs);
/* The group that makes n. */
static inline uint32_t fuse_group(const struct fused *f, const struct node *n) { return f->group_of[n->index]; }
/* Is n a view: a range of columns of another value? No kernel makes a view; its readers read the other value's rows. */
bool fuse_is_view(const struct node *n);
/* The value whose rows contain the rows of n; n itself if it is not a view. */
const struct node *fuse_held_by(const struct node *n);
/* Is n the operation of the chain of b that reads the partner's rows? */
bool fuse_reads_partner(const struct group *g, const struct branch *b, const struct node *n);
/* The tensors that the kernel of a group with branches reads: its norm's, its products', and those of the operations after the products. */
uint32_t fuse_tensors(const struct group *g);
/* The last group that stores into a state: after it only tokens with logits matter. In a pipeline stage that is not the last, the number
 * of groups. Dies if the logits are ready before that group. */
uint32_t fuse_last_store(const struct fused *f);
/* One line per group: "5  0.ffn_gate_up: rmsnorm matmul matmul glu_silu". */
void fuse_print(struct text *out, const struct fused *f);
#endif
