/* abi.h -- the contract between an emitted program and the runtime: weights in, logits out, a list of launches.
 * Pasted into every emitted source; constants and structs only, no functions. */
#ifndef FORGE_ABI_H
#define FORGE_ABI_H
#include <stdint.h>
#include "abi_gpu.h"

enum {
    FORGE_ABI_VERSION = 14,
    FORGE_MAX_COLUMNS = 8,                       /* tokens, or sequences, of a step that is decode's for each */
    FORGE_MAX_WEIGHTS = 12,       /* tensors one launch may read */
};

/* What a launch needs at least; runtime/model/cost.h makes a step's of it. */
struct forge_cost {
    uint64_t weight_bytes;        /* of weights that a decoded token reads, or a step of prefill */
    uint64_t state_bytes;         /* of the state, with a full context */
    uint64_t operations;          /* of products, convolutions and recurrences, for a token */
    uint64_t attention;           /* operations of attention, for a token and a position that it attends */
    uint32_t window;              /* attention: a token attends so many last positions; 0: all up to its own, or of the text */
};

/* How far a thread is in its share of a launch, for others that have done theirs (templates/cpu/launch.h).  A cache line and its neighbour
 * each: x86 prefetches them in pairs. */
struct forge_turn {
    _Alignas(128) uint32_t word;                 /* pieces begun, and above FORGE_TURN_BITS the launch's number; written by all threads */
    uint32_t launches;                           /* of the thread alone: launches whose pieces were taken in turns */
};
enum { FORGE_TURN_BITS = 24 };

/* One step: n_tokens tokens at positions n_past .. n_past + n_tokens - 1. Same for all threads, constant while it runs.
 * Or one token of each of n_tokens sequences: `columns` says where each stands, and the launches that meet them one by one (`each`) get
 * those in the place of these, in which tokens and n_tokens are of the one token and `row` is its row in the arena. */
struct forge_args {
    const uint8_t *weights;       /* weight image, 64-byte aligned */
    uint8_t       *arena;         /* activations, forge_program.arena_bytes, 64-byte aligned */
    uint8_t       *state;         /* of the sequence the tokens belong to, forge_program.state_bytes, 64-byte aligned */
    const int32_t *tokens;        /* [n_tokens], each < n_vocab */
    float         *logits;        /* [n_logits][n_vocab] f32; a model of embeddings: rows, [n_logits][n_embd] */
    uint32_t       n_tokens;      /* 1 in decode, 1 .. chunk in prefill */
    uint32_t       n_past;        /* n_past + n_tokens <= n_ctx */
    uint32_t       n_logits;      /* logits wanted for the last n_logits of the n_tokens; decode: 0 or 1 */
    uint32_t       row;           /* in the arena, of the first token; 0 but for a launch that meets several sequences one by one */
    uint8_t       *parts;         /* as arena, for attention's parts of the positions: each of several sequences has memory of its own */
    const struct forge_args *columns;            /* NULL, or of each row: state, n_past and logits of its token */
    struct forge_turn *turns;                    /* [threads], or NULL: every thread does its own share, no more and no less */
};

/* What one layer remembers of a sequence's tokens for the next one. */
enum forge_state_kind {
    FORGE_STATE_KV,               /* K and V of every position */
    FORGE_STATE_RING,             /* K and V of the last `rows` positions: position p lies in row p % rows */
    FORGE_STATE_RECURRENT,        /* values that every token replaces; zero before the first */
    FORGE_STATE_CONV,             /* the last inputs of a convolution; zero before the first */
};

/* It lies at offset in the state memory of every sequence: `runs` runs of `rows` rows of row_bytes, one behind the other, a position in the
 * same row of each.  Rows are whole in groups of FORGE_STATE_ROWS: n positions need that many rounded up.  row_bytes 0: no such runs, it
 * is bytes that are copied as a whole. */
enum { FORGE_STATE_ROWS = 16 };
struct forge_state {
    uint32_t kind;                /* enum forge_state_kind */
    uint32_t layer;
    uint64_t offset, bytes;       /* bytes: with what is behind the last run */
    uint32_t runs, rows;
    uint64_t row_bytes;
    uint32_t back;                /* tokens that can be forgotten from the end: UINT32_MAX any number; 0 none, or all; of a ring that has
                                   * gone round, from the last position written, as many as leave a window before them in its rows */
};

struct forge_launch;
/* Does thread's share of one fused kernel.  Between two launches all threads meet at a barrier. */
typedef void forge_kernel(const struct forge_args *args, const struct forge_launch *launch, uint32_t thread, uint32_t n_threads);

struct forge_launch {
    forge_kernel *kernel;
    const char   *name;                          /* "ffn_gate_up" */
    uint32_t      layer;                         /* 0xffffffff: outside the layers */
    uint32_t      tail;                          /* 1: only the last n_logits tokens of a prefill step matter from here on */
    uint32_t      unless_divides;                /* > 0: nothing to do when the number of threads divides this: it is left out */
    uint32_t      from_positions;                /* decode: nothing to do while the context has fewer: it is left out */
    uint32_t      joins_divides;                 /* > 0: when the number of threads divides this, each thread reads only what it wrote
                                                  * itself in the launch before, and the barrier between the two is left out */
    uint32_t      each, n_each;                  /* prefill, n_each > 0: in a step of several sequences the launches each .. each + n_each
                                                  * - 1 of decode take its place, sequence by sequence */
    uint64_t      state;                         /* byte offset of the state it uses */
    uint64_t      weight[FORGE_MAX_WEIGHTS];     /* byte offsets of its tensors in the weight image */
    struct forge_cost cost;
};

/* ---- programs for a GPU ---- */

enum forge_gpu_api { FORGE_GPU_HIP, FORGE_GPU_CUDA };

/* The runtime's side of a GPU program (runtime/device/gpu.h).  Only programs for a GPU name it, so the others are linked without it. */
struct forge_gpu_runtime;
extern const struct forge_gpu_runtime forge_gpu_runtime;

struct forge_gpu_kernel { const char *name; uint32_t threads, lds_bytes; };      /* of a group */

enum { FORGE_TAIL_LOGITS = 2 };
/* What a launch stores into the memory of exchanges of others, or finds in its own, by bytes: what passes between GPUs of several
 * processes.  ALL: each GPU's to all others, which make the launch as well; NEXT: to the next in a row; PREVIOUS: from the one before, who
 * has sent it by then; TOKEN: from the last in a row to all others.  Areas: of a step of n tokens (of a tail launch those with logits, of a
 * draw rows) rank r has `each` bytes for every `tokens` of them, begun ones too, from at + r apart on; in the part of the memory whose turn
 * it is, the numbers of exchanges from 0 on going round 2, or in a row 3, of `turn` bytes each. */
enum { FORGE_PASS_NONE, FORGE_PASS_ALL, FORGE_PASS_NEXT, FORGE_PASS_PREVIOUS, FORGE_PASS_TOKEN };
struct forge_gpu_area { uint64_t at, apart, each; uint32_t tokens; };            /* tokens 0: none */
struct forge_gpu_pass { uint32_t to; uint64_t turn; struct forge_gpu_area areas[2]; };

/* Launches of a step run in order on one stream; what one writes the next may read. */
struct forge_gpu_launch {
    const char *name;                            /* "ffn_gate_up"; NULL: the place of another GPU's */
    uint32_t    kernel;                          /* in forge_gpu.kernels */
    uint32_t    layer;                           /* 0xffffffff: outside the layers */
    uint32_t    tail;                            /* 1: only the last n_logits tokens matter; with n_logits == 0 the step ends before it;
                                                  * FORGE_TAIL_LOGITS: and it writes their logits, logits_rows at a time */
    uint32_t    grid_x;                          /* groups */
    uint32_t    grid_tokens;                     /* > 0: grid_y = ceil(tokens / grid_tokens), tokens = n_logits in tail launches, else
                                                  * n_tokens; 0: grid_y = 1 */
    uint32_t    tokens_first;                    /* 1: the two dimensions of the grid change places: groups that run together share
                                                  * grid_x's part, weights */
    uint32_t    tokens_least, tokens_most;       /* tokens_most > 0: it runs only in steps of so many tokens, counted as for grid_tokens;
                                                  * others of the same work have the rest */
    uint32_t    cluster;                         /* > 1: so many groups, neighbours in x, run together and reach each other's LDS (CUDA
                                                  * only); grid_x: a multiple */
    uint32_t    exchanges;                       /* between GPUs that share a model: made by the step's launches before it, all of these
                                                  * counted */
    uint32_t    exchanging;                      /* 1: it gives, or takes, one more; who gives and who takes have the same number */
    struct forge_gpu_pass pass;                  /* what that is in the memory of exchanges */
    uint64_t    state;                           /* byte offset of the state it uses */
    uint64_t    weight[FORGE_GPU_MAX_WEIGHTS];   /* byte offsets of its tensors in the weight image */
    struct forge_cost cost;
};

struct forge_gpu {
    const struct forge_gpu_runtime *runtime;     /* &forge_gpu_runtime */
    uint32_t       api;                          /* enum forge_gpu_api */
    const char    *arch;                         /* "gfx1151", "sm_90": what the code object was compiled for */
    const uint8_t *code;                         /* ELF code object; CUDA: PTX text with its 0 */
    uint64_t       code_bytes;
    uint32_t       wave;                         /* lanes */
    uint32_t       dependent_launch;             /* 1: kernels synchronise by themselves (programmatic dependent launch) */
    uint32_t       graph;                        /* 1: decode steps replay one captured graph; 0: plain launches */
    uint32_t       n_kernels, n_decode, n_prefill;
    const struct forge_gpu_kernel *kernels;
    const struct forge_gpu_launch *decode;       /* [n_decode], one token */
    const struct forge_gpu_launch *prefill;      /* [n_prefill], up to chunk tokens */
    uint32_t       most_columns, n_columns;      /* 0: none */
    const struct forge_gpu_launch *columns;      /* [n_columns], 2 .. most_columns tokens, each with the bits that decode gives it */
    uint32_t       several;                      /* 1: these may be of as many sequences */
    struct forge_gpu_launch sample;              /* after decode or prefill: draws from the last logits, advances step->n_past by n_tokens
                                                  * */
    uint32_t       most_drafts;                  /* of a step; 0: no speculation */
    struct forge_gpu_launch drafts;              /* sample's place in steps that speculate, behind columns or decode; see
                                                  * templates/gpu/drafts.h */
    uint32_t       n_pass;                       /* 0: drafts are looked up in the text */
    const struct forge_gpu_launch *pass;         /* [n_pass] a token through the model's block that drafts, by step[1]: logits of a draft */
    struct forge_gpu_launch take;                /* behind a pass: its draft is one more token of the next step, step[1] goes on */
    uint64_t       logits_offset;                /* arena: [logits_rows][n_vocab] f32, as args.logits */
    uint32_t       logits_rows;                  /* >= 1; of a step with more of them the launches that write logits run several times */
    uint64_t       zero_offset, zero_bytes;      /* arena: counters, zero before the first launch */
    uint32_t       n_ranks;                      /* GPUs that share the model and run the same steps side by side; 0: this one alone */
    const struct forge_program *const *ranks;    /* [n_ranks] the program of each, [0] this one; of the others only code, launches, sizes,
                                                  * tables of states and tensors, and where their weights are matter; theirs is NULL */
    uint32_t       in_row;                       /* 1: each has some of the layers; their lists have a place for each launch of all, in
                                                  * order, without a name where it is another one's; the last one has the logits */
    uint64_t       exchange_bytes;               /* of this one, that others store into: zero before the first launch */
};

/* A tensor of the weight image; name: as in the GGUF. */
struct forge_tensor { const char *name; uint64_t offset, bytes; };

/* Behind the tensors of every image: this, the XXH3-64 of each tensor's bytes, XXH3-64 of all that.  Packing makes them, so they are not in
 * the program. */
#define FORGE_HASHES_MAGIC "FORGEH01"
#define FORGE_HASHES_BYTES(n) (sizeof(struct forge_hashes) + 8 * (uint64_t)(n) + 8)
struct forge_hashes { char magic[8]; uint64_t n; };

/* A model of embeddings: it gives a row of n_embd floats for each token, in the place of logits, and one of them, or their mean, is the
 * vector of a text. */
struct forge_embedding {
    uint32_t pooling;                            /* enum forge_pooling (runtime/model/pool.h) */
    uint32_t whole;                              /* 1: its tokens see later ones: a text is one step from position 0, chunk is n_ctx */
};

/* Sampling defaults from general.sampling.*; negative = not given. */
struct forge_sampling { float temp, top_p, min_p, repeat_penalty; int32_t top_k; int32_t repeat_last_n; };

struct forge_program {
    uint32_t    abi_version;
    uint32_t    n_vocab, n_ctx, n_embd, n_layer;
    uint32_t    chunk;                           /* most tokens in one prefill step */
    uint32_t    max_logits;                      /* most of them with logits, <= chunk */
    uint32_t    max_threads;                     /* arena holds scratch for so many */
    uint32_t    n_decode, n_prefill, n_columns;
    uint32_t    few;                             /* prefill steps of up to so many tokens take columns, too */
    const struct forge_launch *decode;           /* [n_decode], n_tokens == 1 */
    const struct forge_launch *prefill;          /* [n_prefill], any n_tokens <= chunk */
    const struct forge_launch *columns;          /* [n_columns], tokens of as many sequences, <= chunk; n_columns 0: one by one */
    uint64_t    arena_bytes, weights_bytes;
    uint64_t    state_bytes;                     /* of one sequence */
    uint32_t    n_states;
    const struct forge_state *states;            /* [n_states] by offset */
    uint64_t    read_bytes;                      /* weight bytes read per decoded token */
    uint64_t    state_bytes_per_token;           /* that a position adds, and that a token reads of every position before it */
    uint64_t    n_parameters;
    const char *model_name;                      /* general.name: UTF-8 that a terminal shows; the rest as \xHH */
    const char *architecture;
    const char *formats;                         /* "Q8_0 57, F32 17" */
    const char *model_hash;                      /* XXH3-128 of the GGUF, hex */
    const char *weights_hash;                    /* XXH3-128 of the packed image's layout and model, hex: external weights must match */
    const char *target;                          /* profile name */
    const char *options;                         /* "--fuse layer --kv f16" */
    const char *compiler;                        /* "forgec 0.1.0, clang 19.1.7" */
    const struct forge_gpu *gpu;                 /* NULL: runs on the CPU by decode and prefill above, which a GPU program leaves empty */
    uint64_t    weights_offset;                  /* of its image in the executable's or file's weights, a multiple of 4096 */
    uint64_t    hashes_offset;                   /* of struct forge_hashes in its image, a multiple of 64 */
    uint32_t    n_tensors;                       /* 0: no hashes */
    const struct forge_tensor *tensors;          /* [n_tensors] of its image, in their order there */
    const char *const *features;                 /* CPU features it needs (runtime/device/cpu_features.def), NULL-terminated */
    const uint8_t *vocab;                        /* vocabulary image (runtime/model/vocab.h), or NULL: token ids only */
    const uint8_t *chat;                         /* image of the chat templates (runtime/chat/image.h), or NULL */
    struct forge_sampling sampling;
    const struct forge_embedding *embedding;     /* NULL: a language model */
};

/* Defined by the emitted link table: the programs of this executable, best first. */
extern const struct forge_program *const forge_programs[];
extern const uint32_t forge_n_programs;
/* XXH3-128 in hex of the source that a person edited before it was compiled (forgec cc); NULL: all is as forgec emits it.  Executables
 * only. */
extern const char *const forge_edited_source;
/* The weight image, NULL when it is external (-m FILE) or absent. */
extern const uint8_t *const forge_weights;

/* Magic at the start of an external weight file: 64-byte header, then the image at offset 4096. */
#define FORGE_WEIGHTS_MAGIC "FORGEW01"
struct forge_weights_header { char magic[8]; uint64_t image_bytes; char weights_hash[33]; char reserved[15]; };
_Static_assert(sizeof(struct forge_weights_header) == 64, "external weight file: 64-byte header");
#endif
