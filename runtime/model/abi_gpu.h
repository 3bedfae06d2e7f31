/* abi_gpu.h -- declarations shared by emitted GPU kernels and the runtime.  Included by abi.h and by the kernels: only fixed-size types
 * and structs. */
#ifndef FORGE_ABI_GPU_H
#define FORGE_ABI_GPU_H

enum {
    FORGE_GPU_MAX_WEIGHTS = 12,                  /* most tensors that one launch reads */
    FORGE_GPU_MAX_APART = 8,                     /* most sequences of a step */
    FORGE_GPU_MAX_RANKS = 8,                     /* most GPUs that share a model */
    FORGE_GPU_MAX_BIASES = 256,                  /* most tokens with a bias, including those that are never drawn */
};

/* A sequence in a step of several sequences.  state: byte offset of its state from args.state on; n_past: its tokens before this step;
 * token: its token of this step. */
struct forge_gpu_row { uint64_t state; uint32_t n_past; int32_t token; };

/* The one parameter of every kernel, by value.  All pointers are device pointers. */
struct forge_kernel_args {
    const uint8_t     *weights;                  /* weight image */
    uint8_t           *arena;                    /* activations */
    uint8_t           *state;                    /* of the sequence */
    struct forge_gpu_step *step;
    uint64_t           state_at;                 /* byte offset of the launch's state in it */
    uint32_t          *mark_at;                  /* host memory seen by the device, where workgroup 0 writes mark */
    uint32_t           mark;                     /* number of the launch; names the kernel after a fault */
    uint32_t           first;                    /* 1: tail launch, only the last n_logits tokens matter (first_token) */
    uint64_t           weight[FORGE_GPU_MAX_WEIGHTS];
    /* GPUs that share a model (templates/gpu/collective.h) */
    uint8_t           *collective[FORGE_GPU_MAX_RANKS];    /* memory of each rank that all ranks store into, at its address on this rank */
    const uint8_t     *given;                    /* the same as collective[rank]: an array in registers cannot be indexed */
    uint32_t           rank;                     /* number of this rank */
    uint32_t           collectives;              /* collectives that the step's earlier launches have made */
};

/* What changes from step to step.  One such struct is in device memory, 64-byte aligned.  The host writes it before a prefill step and
 * before a run of decode steps; in such a run the sampling kernel advances it, so that no step waits for the host.  If the model has an
 * MTP block, a second struct for the passes of the block follows it; the draw writes that one's values. */
struct forge_gpu_step {
    uint32_t n_past;                             /* tokens of the sequence before this step */
    uint32_t n_tokens;                           /* tokens of this step; in decode it is 1 and this value is ignored */
    uint32_t n_logits;                           /* the last n_logits of them get logits; decode: 1 */
    uint32_t n_drawn;                            /* tokens drawn so far; continues from run to run, so that no entry of the ring repeats */
    int32_t *history;                            /* [n_ctx + 1] device: token at each position; a step reads history[n_past ..], a draw
                                                  * writes history[n_past + 1] and then increments n_past */
    uint64_t *ring;                              /* [FORGE_GPU_RING] host memory seen by the device: draw number i (from 1) as i << 32 |
                                                  * token at i % RING; FORGE_GPU_NOT_FINITE: no token */
    const uint32_t *mask;                        /* [n_vocab / 32, rounded up] host memory seen by the device: bit 1 for each token that
                                                  * may be drawn; NULL: all may */
    struct forge_gpu_row *row;                   /* draw after a step of several sequences: the sequence's entry in rows of that step,
                                                  * which the draw advances too; else NULL */
    /* sampling; meanings as in runtime/run/sample.h */
    float    temp, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    int32_t  top_k, repeat_last_n;
    uint32_t n_biases;
    /* speculation (templates/gpu/drafts.h): the host writes 0, except most_drafts, and guess -1 */
    uint32_t n_drafts;                           /* the last n_drafts of the n_tokens are drafts, and so are those of the tokens with
                                                  * logits */
    uint32_t most_drafts;                        /* most drafts of a step */
    uint32_t trust, misses;                      /* trust: how reliable the guesses have been; misses: steps in sequence without a guess */
    uint32_t slot;                               /* states with several slots: the slot from which the step continues (sequence.h) */
    int32_t  guess;                              /* the guess for the next token that is drawn; -1: no guess */
    uint32_t apart;                              /* 1: the tokens are of different sequences, and each has an entry in rows */
    uint32_t n_draws;                            /* draws that run side by side, including this one: each adds this number to n_drawn */
    uint32_t collective_base;                    /* GPUs that share a model: number of the step's first collective, from 1 */
    uint32_t collectives;                        /* collectives that a decode step makes */
    uint32_t far;                                /* bit t % 32: token t is of a text of more than forge_program.far_from tokens */
    uint64_t random[4];                          /* xoshiro256** */
    struct forge_gpu_row rows[FORGE_GPU_MAX_APART];
    struct { int32_t id; float bias; } biases[FORGE_GPU_MAX_BIASES];
};
/* A kernel in the code of every program, with results that the runtime knows (templates/gpu/probe.h), and its threads. */
#define FORGE_GPU_PROBE "forge_probe"
enum { FORGE_GPU_PROBE_THREADS = 64 };
enum { FORGE_GPU_RING = 1024 };
/* What a draw of a step with drafts writes into the ring beside the token: that it is the step's last token, how many drafts the step
 * had, and whether the coming drafts are worth steps of several tokens. */
#define FORGE_GPU_TOKEN     0xfffffu
#define FORGE_GPU_ENDS_STEP 0x100000u
#define FORGE_GPU_DRAFTS(entry) ((entry) >> 21 & 7u)
#define FORGE_GPU_WITH_DRAFTS(n) ((n) << 21)
#define FORGE_GPU_FORESEEN  0x1000000u
/* In place of a token: the model's logits, before biases and penalties, were not all finite; history gets 0. */
#define FORGE_GPU_NOT_FINITE 0xffffffffu
#endif
