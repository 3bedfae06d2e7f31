/* abi.h -- the contract between an emitted program and the runtime: weights in, logits out, a list of launches.
 * Pasted into every emitted source, so it contains only constants and structs, no functions. */
#ifndef FORGE_ABI_H
#define FORGE_ABI_H
#include <stdint.h>
#include "abi_gpu.h"

enum {
    FORGE_ABI_VERSION = 15,
    FORGE_MAX_COLUMNS = 8,                       /* most tokens of a step that gives each token the bits of decode; they may be of
                                                  * several sequences */
    FORGE_MAX_WEIGHTS = 12,       /* most tensors that one launch reads */
};

/* The least that a launch has to do.  runtime/model/cost.h computes the cost of a step from it. */
struct forge_cost {
    uint64_t weight_bytes;        /* bytes of weights that one decoded token, or one step of prefill, reads */
    uint64_t state_bytes;         /* bytes of the state that are read when the context is full */
    uint64_t operations;          /* of products, convolutions and recurrences, per token */
    uint64_t attention;           /* operations of attention, per token and position that it attends to */
    uint32_t window;              /* attention: a token attends to this many last positions; 0: to all up to its own, or to the whole
                                   * text */
};

/* The progress of one thread in its share of a launch.  Threads that have finished their own shares take pieces of it (work stealing,
 * templates/cpu/launch.h).  Each struct has two neighbouring cache lines to itself, because x86 prefetches lines in pairs. */
struct forge_turn {
    _Alignas(128) uint32_t word;                 /* pieces begun; above FORGE_TURN_BITS: the launch's number.  All threads write it */
    uint32_t launches;                           /* written by its own thread only: number of its launches with work stealing */
};
enum { FORGE_TURN_BITS = 24 };

/* One step: n_tokens tokens at positions n_past .. n_past + n_tokens - 1.  The same for all threads, and constant while the step runs.
 * A step can also be one token for each of n_tokens sequences.  Then `columns` has the args of each sequence.  Launches that process the
 * sequences one by one (`each`) get these args instead: tokens and n_tokens describe the one token, and `row` is its row in the arena. */
struct forge_args {
    const uint8_t *weights;       /* weight image, 64-byte aligned */
    uint8_t       *arena;         /* activations, forge_program.arena_bytes, 64-byte aligned */
    uint8_t       *state;         /* state of the tokens' sequence, forge_program.state_bytes, 64-byte aligned */
    const int32_t *tokens;        /* [n_tokens], each < n_vocab */
    float         *logits;        /* [n_logits][n_vocab] f32; embedding model: rows [n_logits][n_embd] */
    uint32_t       n_tokens;      /* decode: 1; prefill: 1 .. chunk */
    uint32_t       n_past;        /* n_past + n_tokens <= n_ctx */
    uint32_t       n_logits;      /* the last n_logits of the n_tokens get logits; decode: 0 or 1 */
    uint32_t       row;           /* row of the first token in the arena; not 0 only in launches that process several sequences one by
                                   * one */
    uint8_t       *parts;         /* arena for attention's partial results; each of several sequences has its own */
    const struct forge_args *columns;            /* NULL, or for each row: state, n_past, far and logits of its token */
    struct forge_turn *turns;                    /* [threads], or NULL: every thread does exactly its own share */
    uint32_t       far;                          /* 1: the text has more than forge_program.far_from tokens */
};

/* What a layer keeps of a sequence's tokens for the next token. */
enum forge_state_kind {
    FORGE_STATE_KV,               /* K and V of all positions */
    FORGE_STATE_RING,             /* K and V of the last `rows` positions: position p is in row p % rows */
    FORGE_STATE_RECURRENT,        /* values that every token replaces; zero before the first token */
    FORGE_STATE_CONV,             /* the last inputs of a convolution; zero before the first token */
};

/* A state lies at `offset` in the memory of every sequence.  It consists of `runs` consecutive runs, each of `rows` rows of row_bytes; a
 * position has the same row number in every run.  Rows are saved and copied in whole groups of FORGE_STATE_ROWS: for n positions, n is
 * rounded up.  row_bytes 0: the state has no runs and is copied as a whole. */
enum { FORGE_STATE_ROWS = 16 };
struct forge_state {
    uint32_t kind;                /* enum forge_state_kind */
    uint32_t layer;
    uint64_t offset, bytes;       /* bytes: including what follows the last run */
    uint32_t runs, rows;
    uint64_t row_bytes;
    uint32_t back;                /* how many tokens can be removed from the end.  UINT32_MAX: any number; 0: none (or all).  A ring that
                                   * has wrapped: counted from the last position written, as many as leave a whole window before them in
                                   * its rows */
};

struct forge_launch;
/* Does one thread's share of one fused kernel.  Between two launches all threads meet at a barrier. */
typedef void forge_kernel(const struct forge_args *args, const struct forge_launch *launch, uint32_t thread, uint32_t n_threads);

struct forge_launch {
    forge_kernel *kernel;
    const char   *name;                          /* "ffn_gate_up" */
    uint32_t      layer;                         /* 0xffffffff: outside the layers */
    uint32_t      tail;                          /* 1: only the last n_logits tokens of a prefill step matter from here on */
    uint32_t      unless_divides;                /* > 0: the launch is skipped when the number of threads divides this */
    uint32_t      from_positions;                /* decode: the launch is skipped while the context has fewer positions */
    uint32_t      joins_divides;                 /* > 0: when the number of threads divides this, each thread reads only what it wrote
                                                  * itself in the previous launch, and the barrier between the two is skipped */
    uint32_t      each, n_each;                  /* prefill, n_each > 0: in a step of several sequences, the decode launches each .. each
                                                  * + n_each - 1 run in place of this one, sequence by sequence */
    uint64_t      state;                         /* byte offset of the state that it uses */
    uint64_t      weight[FORGE_MAX_WEIGHTS];     /* byte offsets of its tensors in the weight image */
    struct forge_cost cost;
};

/* ---- programs for a GPU ---- */

enum forge_gpu_api { FORGE_GPU_HIP, FORGE_GPU_CUDA };

/* The runtime's side of a GPU program (runtime/device/gpu.h).  Only GPU programs refer to it, so CPU programs are linked without it. */
struct forge_gpu_runtime;
extern const struct forge_gpu_runtime forge_gpu_runtime;

struct forge_gpu_kernel { const char *name; uint32_t threads, lds_bytes; };      /* threads and bytes of LDS of a workgroup */

enum { FORGE_TAIL_LOGITS = 2 };
/* The data that a launch passes between GPUs of different processes, in bytes.  A launch stores it into the memory of collectives of other
 * ranks, or finds it in the memory of its own rank.
 * ALL: from each GPU to all others, which run the launch too.  NEXT: to the next stage.  PREVIOUS: from the previous stage, which has sent
 * it by then.  TOKEN: from the last stage to all others.
 * Areas: n is the number of tokens of the step; in a tail launch the number of tokens with logits, in a draw the number of rows.  Rank r
 * has ceil(n / tokens) * each bytes from at + r * apart on.  The memory has parts of `turn` bytes that are used in turn by the number of
 * the collective from 0 on: 2 parts, between stages 3. */
enum { FORGE_PASS_NONE, FORGE_PASS_ALL, FORGE_PASS_NEXT, FORGE_PASS_PREVIOUS, FORGE_PASS_TOKEN };
struct forge_gpu_area { uint64_t at, apart, each; uint32_t tokens; };            /* tokens 0: no area */
struct forge_gpu_pass { uint32_t to; uint64_t turn; struct forge_gpu_area areas[2]; };

/* Launches of a step run in order on one stream; a launch may read what earlier launches wrote. */
struct forge_gpu_launch {
    const char *name;                            /* "ffn_gate_up"; NULL: the place of a launch that another GPU runs */
    uint32_t    kernel;                          /* index in forge_gpu.kernels */
    uint32_t    layer;                           /* 0xffffffff: outside the layers */
    uint32_t    tail;                            /* 1: only the last n_logits tokens matter; with n_logits == 0 the step ends before it;
                                                  * FORGE_TAIL_LOGITS: it also writes their logits, logits_rows at a time */
    uint32_t    grid_x;                          /* workgroups */
    uint32_t    grid_tokens;                     /* > 0: grid_y = ceil(tokens / grid_tokens) with tokens = n_logits in tail launches,
                                                  * else n_tokens; 0: grid_y = 1 */
    uint32_t    tokens_first;                    /* 1: the grid's dimensions are swapped, so that workgroups which run together share a
                                                  * part of grid_x: weights */
    uint32_t    tokens_least, tokens_most;       /* tokens_most > 0: the launch runs only in steps of tokens_least .. tokens_most tokens,
                                                  * counted as for grid_tokens; other launches do the same work for other sizes */
    uint32_t    cluster;                         /* > 1: this many neighbouring workgroups in x run together and reach each other's LDS
                                                  * (CUDA only); grid_x is a multiple of it */
    uint32_t    collectives;                     /* GPUs that share a model: the number of collectives that earlier launches of the step
                                                  * made, all of them counted */
    uint32_t    in_collective;                   /* 1: it takes part in one more collective; senders and receivers of a collective have
                                                  * the same number for it */
    struct forge_gpu_pass pass;                  /* what the collective passes through the memory of collectives */
    uint64_t    state;                           /* byte offset of the state that it uses */
    uint64_t    weight[FORGE_GPU_MAX_WEIGHTS];   /* byte offsets of its tensors in the weight image */
    struct forge_cost cost;
};

struct forge_gpu {
    const struct forge_gpu_runtime *runtime;     /* &forge_gpu_runtime */
    uint32_t       api;                          /* enum forge_gpu_api */
    const char    *arch;                         /* "gfx1151", "sm_90": the architecture that the code object was compiled for */
    const uint8_t *code;                         /* ELF code object; CUDA: zero-terminated PTX text */
    uint64_t       code_bytes;
    uint32_t       wave;                         /* lanes of a wave */
    uint32_t       dependent_launch;             /* 1: kernels synchronise themselves (programmatic dependent launch) */
    uint32_t       graph;                        /* 1: decode steps replay one captured graph; 0: plain launches */
    uint32_t       n_kernels, n_decode, n_prefill;
    const struct forge_gpu_kernel *kernels;
    const struct forge_gpu_launch *decode;       /* [n_decode], one token */
    const struct forge_gpu_launch *prefill;      /* [n_prefill], up to chunk tokens */
    uint32_t       most_columns, n_columns;      /* 0: none */
    const struct forge_gpu_launch *columns;      /* [n_columns], steps of 2 .. most_columns tokens; each token gets the bits that decode
                                                  * gives it */
    uint32_t       several;                      /* 1: the tokens of such a step may be of several sequences */
    struct forge_gpu_launch sample;              /* after decode or prefill: draws from the last logits and adds n_tokens to step->n_past */
    uint32_t       most_drafts;                  /* most drafts of a step; 0: no speculation */
    struct forge_gpu_launch drafts;              /* replaces `sample` in steps that speculate, after columns or decode; see
                                                  * templates/gpu/drafts.h */
    uint32_t       n_pass;                       /* 0: drafts are looked up in the text */
    const struct forge_gpu_launch *pass;         /* [n_pass] pass one token through the model's MTP block, by step[1]: logits of a draft */
    struct forge_gpu_launch take;                /* after a pass: adds its draft to the tokens of the next step and advances step[1] */
    uint64_t       logits_offset;                /* arena: [logits_rows][n_vocab] f32, like args.logits */
    uint32_t       logits_rows;                  /* >= 1; in a step with more rows the launches that write logits run several times */
    uint64_t       zero_offset, zero_bytes;      /* arena: counters, which must be zero before the first launch */
    uint32_t       n_ranks;                      /* GPUs that share the model; 0: only this one */
    const struct forge_program *const *ranks;    /* [n_ranks] the program of each rank; [0] is this one.  Only these parts of the other
                                                  * programs are used: code, launches, sizes, tables of states and tensors, and the place
                                                  * of the weights; their own `ranks` is NULL */
    uint32_t       pipeline;                     /* 1: pipeline parallel: each GPU has some of the layers.  Every list has an entry for
                                                  * each launch of all stages, in order, with name NULL if another GPU runs it; the last
                                                  * stage has the logits */
    uint64_t       collective_bytes;             /* this rank's memory of collectives, which others store into; zero before the first
                                                  * launch */
    uint32_t       n_cuts;
    const uint64_t *cuts;                        /* [n_cuts] offsets in the weight image that no kernel reads across, so the image may be
                                                  * cut there into several allocations */
    uint32_t       probe;                        /* 1: the code contains the kernel FORGE_GPU_PROBE */
    uint32_t       least_driver;                 /* 100 * major + minor of the first HIP version known to run this chip; 0: any */
};

/* A tensor of the weight image; name: as in the GGUF. */
struct forge_tensor { const char *name; uint64_t offset, bytes; };

/* After the tensors of every image come this struct, the XXH3-64 of each tensor's bytes, and the XXH3-64 of struct and hashes.  They
 * are made when the image is packed, so the program does not contain them. */
#define FORGE_HASHES_MAGIC "FORGEH01"
#define FORGE_HASHES_BYTES(n) (sizeof(struct forge_hashes) + 8 * (uint64_t)(n) + 8)
struct forge_hashes { char magic[8]; uint64_t n; };

/* An embedding model: instead of logits it computes a row of n_embd floats for each token.  One of the rows, or their mean, is the
 * vector of a text. */
struct forge_embedding {
    uint32_t pooling;                            /* enum forge_pooling (runtime/model/pool.h) */
    uint32_t whole;                              /* 1: tokens attend to later tokens, so a text must be one step from position 0; chunk
                                                  * is n_ctx */
};

/* Sampling defaults from general.sampling.*; negative: not given. */
struct forge_sampling { float temp, top_p, min_p, repeat_penalty; int32_t top_k; int32_t repeat_last_n; };

struct forge_program {
    uint32_t    abi_version;
    uint32_t    n_vocab, n_ctx, n_embd, n_layer;
    uint32_t    chunk;                           /* most tokens of a prefill step */
    uint32_t    max_logits;                      /* most tokens of a step with logits, <= chunk */
    uint32_t    max_threads;                     /* the arena has scratch memory for this many */
    uint32_t    n_decode, n_prefill, n_columns;
    uint32_t    few;                             /* prefill steps of up to this many tokens run columns, too */
    const struct forge_launch *decode;           /* [n_decode], n_tokens == 1 */
    const struct forge_launch *prefill;          /* [n_prefill], any n_tokens <= chunk */
    const struct forge_launch *columns;          /* [n_columns], one token for each of several sequences, <= chunk; n_columns 0: the
                                                  * sequences run one by one */
    uint64_t    arena_bytes, weights_bytes;
    uint64_t    state_bytes;                     /* of one sequence */
    uint32_t    n_states;
    uint32_t    far_from;                        /* > 0: texts of more tokens use another rotation (RoPE), from their first token on
                                                  * (far) */
    const struct forge_state *states;            /* [n_states] by offset */
    uint64_t    read_bytes;                      /* weight bytes that a decoded token reads */
    uint64_t    state_bytes_per_token;           /* bytes that a position adds; a token reads them of every earlier position */
    uint64_t    n_parameters;
    const char *model_name;                      /* general.name: UTF-8 that a terminal can show; other bytes as \xHH */
    const char *architecture;
    const char *formats;                         /* "Q8_0 57, F32 17" */
    const char *model_hash;                      /* XXH3-128 of the GGUF, hex */
    const char *weights_hash;                    /* XXH3-128 of the packed image's layout and model, hex; external weights must have the
                                                  * same */
    const char *target;                          /* name of the target */
    const char *options;                         /* "--fuse layer --kv f16" */
    const char *arithmetic;                      /* CPU: "tokens q8 and f32, prompts bf16 and f32, their attention bf16"; GPU: NULL */
    const char *compiler;                        /* "forgec 0.1.0, clang 19.1.7" */
    const struct forge_gpu *gpu;                 /* NULL: runs on the CPU by decode and prefill above; GPU programs leave those empty */
    uint64_t    weights_offset;                  /* of its image in the weights of the executable or file; a multiple of 4096 */
    uint64_t    hashes_offset;                   /* of struct forge_hashes in its image; a multiple of 64 */
    uint32_t    n_tensors;                       /* 0: no hashes */
    const struct forge_tensor *tensors;          /* [n_tensors] in the order of the image */
    const char *const *features;                 /* CPU features that it needs (runtime/device/cpu_features.def), NULL-terminated */
    const uint8_t *vocab;                        /* vocabulary image (runtime/model/vocab.h); NULL: token ids only */
    const uint8_t *chat;                         /* image of the chat templates (runtime/chat/image.h), or NULL */
    struct forge_sampling sampling;
    const struct forge_embedding *embedding;     /* NULL: a language model */
};

/* Defined by the emitted link table: the programs of this executable, best first. */
extern const struct forge_program *const forge_programs[];
extern const uint32_t forge_n_programs;
/* XXH3-128 in hex of a source that was edited by hand before it was compiled (forgec cc); NULL: all sources are as forgec emitted them.
 * Executables only. */
extern const char *const forge_edited_source;
/* The weight image; NULL if it is external (-m FILE) or absent. */
extern const uint8_t *const forge_weights;

/* Magic at the beginning of an external weight file: a 64-byte header, then the image at offset 4096. */
#define FORGE_WEIGHTS_MAGIC "FORGEW01"
struct forge_weights_header { char magic[8]; uint64_t image_bytes; char weights_hash[33]; char reserved[15]; };
_Static_assert(sizeof(struct forge_weights_header) == 64, "external weight file: 64-byte header");
#endif
