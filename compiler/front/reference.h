/* reference.h -- the graph interpreted plainly from the GGUF's own tensors: what a built program is measured against.
 * Uses the scalar oracles of templates/ref only; nothing here is shared with the kernels, the plan or the packer. */
#ifndef FORGEC_REFERENCE_H
#define FORGEC_REFERENCE_H
#include "compiler/plan/plan.h"
#include "templates/ref/ops.h"

/* Weights in blocks, and those of F16 and BF16 where columns are a multiple of 32. */
enum { BF16_OF_BLOCKS = 1, BF16_OF_F16 = 2, BF16_OF_BF16 = 4 };
/* Queries of a KV head in a step, heads times tokens, from which on attention reads Q, K, V and weights of positions as bf16. */
enum { BF16_QUERIES = 32 };

/* What a program rounds on purpose (docs/kernels.md, docs/gpu.md); all zero: nothing.  A program and the reference with the
 * program's own rounding differ by the order of sums, and where that moves a value across the border between two steps, by that step. */
struct rounding {
    uint32_t steps;          /* matmuls with weights in blocks read x per 32 columns as whole numbers of max|x| / steps: 127, or
                              * 32639 (two digits); 0: floats */
    bool     halves;         /* matmuls read x as f16, those with BF16 weights as bf16, attention Q as f16 (a prompt on a GPU) */
    uint32_t bf16;           /* BF16_OF_*: whose matmuls read x and weights as bf16 (a CPU, templates/cpu/tiles.h) */
    uint32_t pairs;          /* a CPU's steps of so many tokens, where attention with BF16_QUERIES multiplies bf16; 0: none */
    bool     cache;          /* K and V are kept as kv says */
    enum kv_type kv;
};

/* Logits after each of n tokens at positions 0 .. n - 1, or their rows of embeddings.  tokens: [n], each < n_vocab; logits: [n][n_out].
 * Sums run in double, values between operations are floats.  Memory: the live values and one weight row per thread.
 * Dies only when memory runs out. */
void reference_logits(struct arena *a, const struct graph *g, const struct rounding *rounding, const int32_t *tokens, uint32_t n,
                      float *logits);

/* Is told of a value when it is there: y [n][node->cols], of x, the rows of the node's operands; they live during the call. */
typedef void reference_seen(void *context, const struct node *node, const float *const *x, const float *y);
/* The same reading of the model for all values up to the logits. */
void reference_values(struct arena *a, const struct graph *g, const struct rounding *rounding, const int32_t *tokens, uint32_t n,
                      reference_seen *seen, void *context);

/* What the routers of a model (operation route) give each token. */
struct routes {
    uint32_t n_routers;              /* in the order of the graph */
    struct router {
        struct route_ref rule;       /* without its bias, which select has */
        double   *select;            /* [n][n_expert]: the scores by which experts are chosen */
        uint32_t *chosen;            /* [n][used] experts; the first one ROUTE_BEST: the best */
    } *routers;
};
#define ROUTE_BEST UINT32_MAX

/* The same with the experts of given->routers[].chosen in place of the best; given: or NULL.  dither: 0, or the seed of noise: what is
 * rounded moves by up to half a step before, and every value of the graph by up to 2^-23 of itself: another order of sums, and all that
 * it may do.  Returns what the routers saw and chose, in the arena. */
struct routes *reference_routed(struct arena *a, const struct graph *g, const struct rounding *rounding, const int32_t *tokens, uint32_t n,
                                const struct routes *given, uint64_t dither, float *logits);

/* Logits of the block that drafts behind tokens first .. n - 1, [n - first][n_out]: from the trunk's row before token `first`; behind it
 * tokens count as drafts, and the block's own row before takes that one's place. */
void reference_drafts(struct arena *a, const struct graph *g, const struct rounding *rounding, const int32_t *tokens, uint32_t first,
                      uint32_t n, float *logits);

/* What `other` has against `truth`, both [n][n_vocab].  KL(truth || other) of the softmax, in nats. */
struct logits_difference {
    uint32_t n, argmax_agree, worst_position;      /* worst: where the KL divergence is largest */
    uint64_t n_not_finite;                         /* in other; the numbers below are then meaningless */
    double   max_abs, rms, rms_relative;           /* relative: rms / standard deviation of truth */
    double   least;                                /* of max_abs_at: what is wrong at every position shows here */
    double   mean_kl, worst_kl, largest;           /* largest: |logit| of truth */
    double  *kl, *max_abs_at;                      /* [n] */
};
struct logits_difference logits_compare(struct arena *a, const float *truth, const float *other, uint32_t n, uint32_t n_vocab);
/* Index of the largest of row [n_vocab]; the first of equals. */
uint32_t logits_argmax(const float *row, uint32_t n_vocab);
#endif
