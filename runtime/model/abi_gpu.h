/* abi_gpu.h -- what an emitted GPU kernel and the runtime share.  Included by abi.h and by the kernels: fixed-size types and structs only.
 * */
#ifndef FORGE_ABI_GPU_H
#define FORGE_ABI_GPU_H

enum {
    FORGE_GPU_MAX_WEIGHTS = 12,                  /* tensors one launch may read */
    FORGE_GPU_MAX_APART = 8,                     /* sequences of a step */
    FORGE_GPU_MAX_RANKS = 8,                     /* GPUs that share a model */
};

/* A sequence of a step of several: its state, from args.state on; tokens before this step, and its token of it. */
struct forge_gpu_row { uint64_t state; uint32_t n_past; int32_t token; };

/* The one parameter of every kernel, by value.  All pointers are device pointers. */
struct forge_kernel_args {
    const uint8_t     *weights;                  /* weight image */
    uint8_t           *arena;                    /* activations */
    uint8_t           *state;                    /* of the sequence */
    struct forge_gpu_step *step;
    uint64_t           state_at;                 /* byte offset of the launch's state in it */
    uint32_t          *mark_at;                  /* host memory seen by the device, where group 0 writes mark */
    uint32_t           mark;                     /* number of the launch: names the kernel after a fault */
    uint32_t           first;                    /* 1: tail launch: only the last n_logits tokens matter (first_token) */
    uint64_t           weight[FORGE_GPU_MAX_WEIGHTS];
    /* of GPUs that share a model (templates/gpu/exchange.h) */
    uint8_t           *exchange[FORGE_GPU_MAX_RANKS];      /* of each, as this one reaches it: memory that all of them store into */
    const uint8_t     *given;                    /* that of this one, exchange[rank]: an array in registers has no index */
    uint32_t           rank;                     /* this one's number */
    uint32_t           exchanges;                /* that the step's launches before this one have made */
};

/* What changes from step to step; one of these in device memory, 64-byte aligned.  The host writes it before a prefill step and before a
 * run of decode steps; in such a run the sampling kernel advances it, so that no step waits for the host.  Where the model has a block that
 * drafts, one for its passes lies behind it, which the draw writes. */
struct forge_gpu_step {
    uint32_t n_past;                             /* tokens of the sequence before this step */
    uint32_t n_tokens;                           /* of this step; decode: 1, whatever stands here */
    uint32_t n_logits;                           /* logits wanted for the last n_logits of them; decode: 1 */
    uint32_t n_drawn;                            /* tokens drawn so far; goes on from run to run, so that no entry of the ring repeats */
    int32_t *history;                            /* [n_ctx + 1] device: token at each position; a step reads history[n_past ..], a draw
                                                  * writes history[n_past + 1] and then increments n_past */
    uint64_t *ring;                              /* [FORGE_GPU_RING] host memory seen by the device: draw number i (from 1) as i << 32 |
                                                  * token at i % RING; FORGE_GPU_NOT_FINITE: no token */
    const uint32_t *mask;                        /* [n_vocab / 32, rounded up] host memory seen by the device: 1 for each token that may
                                                  * be drawn; NULL: any */
    struct forge_gpu_row *row;                   /* of a draw behind a step of several sequences: its entry of that step's rows, which it
                                                  * advances as well; NULL: none */
    /* sampling; meanings as in runtime/run/sample.h */
    float    temp, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    int32_t  top_k, repeat_last_n;
    uint32_t n_biases;
    /* speculation (templates/gpu/drafts.h): the host writes 0 but to most_drafts, and no guess */
    uint32_t n_drafts;                           /* the last n_drafts of the n_tokens, and of those with logits, are drafts */
    uint32_t most_drafts;                        /* of a step */
    uint32_t trust, misses;                      /* that tokens are as foretold; steps of which nothing was */
    uint32_t slot;                               /* of states that have several, the one from which the step goes on (sequence.h) */
    int32_t  guess;                              /* what the token drawn next is foretold to be; -1: nothing is */
    uint32_t apart;                              /* 1: its tokens are of as many sequences: each has an entry of rows */
    uint32_t n_draws;                            /* draws side by side, of which this is one: n_drawn goes on by so many */
    uint32_t exchanged;                          /* GPUs that share a model: exchanges since the start, from 1; a draw adds */
    uint32_t exchanges;                          /* those that a step of decode makes */
    uint64_t random[4];                          /* xoshiro256** */
    struct forge_gpu_row rows[FORGE_GPU_MAX_APART];
    struct { int32_t id; float bias; } biases[256];
};
enum { FORGE_GPU_RING = 1024 };
/* What a draw of a step with drafts tells in the ring beside the token: that it is the step's last one, how many drafts the step had, and
 * whether those to come are worth steps of several tokens. */
#define FORGE_GPU_TOKEN     0xfffffu
#define FORGE_GPU_ENDS_STEP 0x100000u
#define FORGE_GPU_DRAFTS(entry) ((entry) >> 21 & 7u)
#define FORGE_GPU_WITH_DRAFTS(n) ((n) << 21)
#define FORGE_GPU_FORESEEN  0x1000000u
/* In the place of a token: the model's logits, before biases and penalties, were not all finite; history gets 0. */
#define FORGE_GPU_NOT_FINITE 0xffffffffu
#endif
