/* reference.h -- interprets the graph directly from the GGUF's own tensors; built programs are compared with it.
 * It uses only the scalar oracles of templates/ref, and shares nothing with the kernels, the plan or the packer. */
#ifndef FORGEC_REFERENCE_H
#define FORGEC_REFERENCE_H
#include "compiler/plan/plan.h"
#include "templates/ref/ops.h"

/* Formats of weights: in blocks; F16 and BF16 (if columns are a multiple of 32). */
enum { BF16_OF_BLOCKS = 1, BF16_OF_F16 = 2, BF16_OF_BF16 = 4 };

/* The rounding that a program does on purpose (docs/kernels.md, docs/gpu_internals.md); all zero: none. A program and the reference with
 * the same rounding differ by the order of sums. If that moves a value across the border between two steps, they also differ by a step. */
struct rounding {
    uint32_t steps;          /* matmuls with weights in blocks read x, in groups of 32 columns, as integers times max|x| / steps; steps is
                              * 127, or 32639 (two digits); 0: floats */
    bool     halves;         /* matmuls read x as f16 (with BF16 weights: as bf16), attention reads Q as f16 (a prompt on a GPU) */
    uint32_t bf16;           /* BF16_OF_*: with these weights, matmuls read x and weights as bf16 (a CPU, templates/cpu/tiles.h) */
    bool     pairs;          /* attention reads Q, K, V and weights of positions as bf16 (a prompt on a CPU) */
    bool     cache;          /* K and V are kept as kv says */
    enum kv_type kv;
};

/* Logits (or rows of embeddings) after each of n tokens at positions 0 .. n - 1. tokens: [n], each < n_vocab; logits: [n][n_out].
 * Sums are in double, values between operations are floats. Memory: the live values and one weight row per thread.
 * Dies only if memory runs out. */
void reference_logits(struct arena *a, const struct graph *g, const struct rounding *rounding, const int32_t *tokens, uint32_t n,
                      float *logits);

/* Set: called before each operation with the share of the run that is done, in percent. A run takes minutes for a large model. */
extern void (*reference_progress)(uint32_t percent);

/* Called when a node's value is computed: y [n][node->cols]; x: the rows of the node's operands. Both are valid only during the call. */
typedef void reference_seen(void *context, const struct node *node, const float *const *x, const float *y);
/* Computes as reference_logits does, and calls `seen` for every value up to the logits. */
void reference_values(struct arena *a, const struct graph *g, const struct rounding *rounding, const int32_t *tokens, uint32_t n,
                      reference_seen *seen, void *context);

/* The results of a model's routers (operation route) for each token. */
struct routes {
    uint32_t n_routers;              /* in the order of the graph */
    struct router {
        struct route_ref rule;       /* without its bias, which `select` includes */
        double   *select;            /* [n][n_expert]: the scores by which experts are chosen */
        uint32_t *chosen;            /* [n][used] experts; if a token's first entry is ROUTE_BEST: the best experts */
    } *routers;
};
#define ROUTE_BEST UINT32_MAX

/* As reference_logits, with the experts of given->routers[].chosen instead of the best ones; given may be NULL. dither: 0, or the seed of
 * noise that imitates another order of sums and its consequences: values move by up to half a step before they are rounded, and every value
 * of the graph moves by up to 2^-23 of itself. Returns what the routers saw and chose, in the arena. */
struct routes *reference_routed(struct arena *a, const struct graph *g, const struct rounding *rounding, const int32_t *tokens, uint32_t n,
                                const struct routes *given, uint64_t dither, float *logits);

/* Logits of the draft block after tokens first .. n - 1, [n - first][n_out]. For token `first` it reads the trunk's row of the token
 * before. Later tokens count as drafts: for them it reads its own row of the token before instead. */
void reference_drafts(struct arena *a, const struct graph *g, const struct rounding *rounding, const int32_t *tokens, uint32_t first,
                      uint32_t n, float *logits);

/* How `other` differs from `truth`, both [n][n_vocab]. KL(truth || other) of the softmax, in nats. */
struct logits_difference {
    uint32_t n, argmax_agree, worst_position;      /* worst: where the KL divergence is largest */
    uint64_t n_not_finite;                         /* in other; the numbers below are then meaningless */
    double   max_abs, rms, rms_relative;           /* relative: rms / standard deviation of truth */
    double   least;                                /* minimum of max_abs_at: it shows an error that every position has */
    double   mean_kl, worst_kl, largest;           /* largest: |logit| of truth */
    double  *kl, *max_abs_at;                      /* [n] */
};
struct logits_difference logits_compare(struct arena *a, const float *truth, const float *other, uint32_t n, uint32_t n_vocab);
/* Index of the largest value of row [n_vocab]; the first one if several are equal. */
uint32_t logits_argmax(const float *row, uint32_t n_vocab);
#endif
