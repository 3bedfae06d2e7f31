/* instance.h -- what lies in the workspace of a model library, and the sizes that forgec writes into its header
 * (compiler/product/header.c).  cpu.c or gpu.c computes; an object has one of them.  Workers: program->max_threads; the arena of a
 * library is planned for exactly this number (plan options max_threads = MODEL_WORKERS). */
#ifndef FORGE_LIBRARY_INSTANCE_H
#define FORGE_LIBRARY_INSTANCE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/model/abi.h"
#include "model.h"

#define LIBRARY_ALIGN        64u
#define LIBRARY_UP(n)        (((uint64_t)(n) + 63) / 64 * 64)
#define LIBRARY_INSTANCE_BYTES  2560u                 /* of struct model; asserted below */

/* An embedding model: the rows of a chunk lie after the first sequence. */
#define LIBRARY_ROWS_BYTES(chunk, n_embd) LIBRARY_UP(4 * (uint64_t)(chunk) * (n_embd))

/* The workspace: struct model, the tokens of the context, the arena, the states of the context. */
#define LIBRARY_WORKSPACE_BYTES(n_ctx, arena_bytes, state_bytes) \
    (LIBRARY_INSTANCE_BYTES + LIBRARY_UP(4 * (uint64_t)(n_ctx)) + LIBRARY_UP(arena_bytes) + LIBRARY_UP(state_bytes))

/* On a GPU: struct model, the tokens of the context, the engine, the addresses of its kernels.  Everything else is on the device. */
#define LIBRARY_GPU_BYTES 6016u                    /* asserted in gpu.c */
#define LIBRARY_GPU_WORKSPACE_BYTES(n_ctx, n_kernels) \
    (LIBRARY_INSTANCE_BYTES + LIBRARY_UP(4 * (uint64_t)(n_ctx)) + LIBRARY_GPU_ENGINE_BYTES(n_kernels))
#define LIBRARY_GPU_ENGINE_BYTES(n_kernels) (LIBRARY_GPU_BYTES + LIBRARY_UP(8 * (uint64_t)(n_kernels)))

/* A further sequence of an instance: its struct, its tokens, its states; on a GPU, instead of the states, where they are on the device. */
#define LIBRARY_SEQUENCE_HEAD_BYTES 64u            /* of struct library_sequence; asserted below */
#define LIBRARY_SEQUENCE_BYTES(n_ctx, state_bytes) \
    (LIBRARY_SEQUENCE_HEAD_BYTES + LIBRARY_UP(4 * (uint64_t)(n_ctx)) + LIBRARY_UP(state_bytes))
#define LIBRARY_GPU_SEQUENCE_BYTES 256u            /* asserted in gpu.c */

/* The most that model_save writes: header, tokens, states. */
#define LIBRARY_SAVE_HEADER_BYTES 80u              /* asserted in save.c */
#define LIBRARY_SAVE_BYTES(n_ctx, state_bytes) (LIBRARY_SAVE_HEADER_BYTES + 4 * (uint64_t)(n_ctx) + (uint64_t)(state_bytes))

/* MODEL_ENCODE_SCRATCH(n): at least forge_tokenize_scratch(n), 117 n + 8299 (runtime/text/tokenize.c). */
#define LIBRARY_ENCODE_SCRATCH_PER_BYTE 120u
#define LIBRARY_ENCODE_SCRATCH_FIXED    8448u

/* The head of the memory of a conversation, an answer, a lexicon and a mask; asserted in chat.c and guide.c. */
#define LIBRARY_CHAT_HEAD_BYTES    128u
/* MODEL_CHAT_BYTES(n) is enough for all of 3,087 conversations in 50 templates, including tokens and their scratch memory. */
#define LIBRARY_CHAT_PER_BYTE      256u
#define LIBRARY_CHAT_FIXED         (1u << 20)
#define LIBRARY_ANSWER_HEAD_BYTES  1536u
#define LIBRARY_LEXICON_HEAD_BYTES 320u
#define LIBRARY_MASK_HEAD_BYTES    320u

/* The most stack that any call takes, kernels included.  Frames depend on formats and tiles, not on the size of a model.  clang
 * -fstack-usage reports at most 6.4 KB for one function (gemm_groups_q2_K, Cortex-M55) and 5.4 KB on x86-64, to which come its kernel's
 * frame and 0.5 KB of this runtime; a painted stack (tests/library/test_library.c) shows 4.3 KB on x86-64.  This constant is twice that,
 * for formats and vector lengths that were not tried. */
#define LIBRARY_STACK_BYTES  16384u

/* The same for calls that read JSON, templates or grammars, which nest: a fixed part, and a part for each level of a template.  A
 * painted stack (tests/library/test_chat.c) shows on x86-64: 65 KB for a grammar with groups 100 deep, 20 KB for JSON and values 128
 * deep, 12 KB for schemas, and 230 bytes for each level. */
#define LIBRARY_CHAT_STACK_FIXED     106496u
#define LIBRARY_CHAT_STACK_PER_LEVEL 384u

/* Functions of the API stay visible while everything else is hidden.  forgec also hides declarations and exports the API itself
 * (compiler/product/objfile.c): it defines this macro as empty. */
#ifndef LIBRARY_PUBLIC
#define LIBRARY_PUBLIC __attribute__((visibility("default")))
#endif

/* A step in pieces.  CPU: the launches of one chunk of tokens, each with one tile for each worker; args.n_past is the start of the
 * chunk.  GPU: a tile is a chunk, and of args only n_past is used. */
struct begun_step {
    struct forge_args          args;
    const struct forge_launch *launches;         /* [n_launches] of the piece */
    uint32_t n_launches, at;                     /* at: index of the running launch */
    uint32_t tile;                               /* its next tile */
    uint32_t n_tokens;                           /* of the whole step */
    float   *logits;                             /* for the last token, or NULL; embedding model: the vector */
    uint32_t flags;                              /* flags of model_embed */
    bool     again;                              /* the tokens before it are computed again, too */
    bool     busy;
};

/* A sequence of tokens.  The first sequence lies in struct model, and its memory in the workspace where an instance of one sequence has
 * it; further sequences follow. */
struct library_sequence {
    int32_t *tokens;                             /* [n_ctx] */
    uint8_t *memory;                             /* CPU: its states; GPU: its struct forge_sequence */
    uint64_t random[4];                          /* xoshiro256** */
    uint32_t n_past, n_written;                  /* n_written: as in state_rewinds; either both are 0 or neither */
    uint32_t far;                                /* 1: its tokens were computed as part of a text of more than program->far_from tokens */
    uint32_t expected;                           /* the least number of tokens that the text will have, as far as known */
};
_Static_assert(sizeof(struct library_sequence) <= LIBRARY_SEQUENCE_HEAD_BYTES && LIBRARY_SEQUENCE_HEAD_BYTES % LIBRARY_ALIGN == 0,
               "a sequence fits its part of the workspace");

struct model {
    uint64_t                    magic;           /* LIBRARY_OPEN while the instance is open */
    const struct forge_program *program;
    const uint8_t              *weights;         /* the program's image */
    uint8_t                    *arena;           /* CPU */
    float                      *rows;            /* embedding model: [chunk][n_embd] */
    void                       *device;          /* GPU: the engine of gpu.c */
    model_parallel_for         *parallel_for;
    void                       *parallel_context;
    struct library_sequence     first;
    struct library_sequence    *sequence;        /* the sequence in use */
    uint8_t                    *further;         /* the n_sequences - 1 further sequences, further_bytes() apart */
    uint32_t                    n_sequences;
    bool                        failed;          /* GPU: the state is unknown from now on */
    struct begun_step           step;
    uint64_t                    mass[256];       /* sample.c; cpu.c: clocks of jobs */
};
_Static_assert(sizeof(struct model) <= LIBRARY_INSTANCE_BYTES && LIBRARY_INSTANCE_BYTES % LIBRARY_ALIGN == 0,
               "the state fits its part of the workspace");

/* What forgec build included, in tables.c; NULL: nothing. */
extern const uint8_t *const library_chat;        /* runtime/chat/image.h */
extern const uint8_t *const library_grammar;     /* runtime/chat/grammar.h */
extern const uint64_t library_facts[];           /* the members of struct model_facts */

#define LIBRARY_OPEN 0x6e65706f2e6d6166u           /* "fam.open" */

static inline const struct forge_program *library_program(void) { return forge_programs[0]; }

/* MODEL_OK if m can be used now, else the reason why not. */
static inline int instance_ready(const struct model *m)
{
    if (!m || m->magic != LIBRARY_OPEN) return MODEL_BAD_ARGUMENT;
    if (m->failed) return MODEL_DEVICE_FAILED;
    return m->step.busy ? MODEL_BUSY : MODEL_OK;
}

/* ---- the engine: cpu.c or gpu.c.  Statuses are those of model.h ---- */

/* Bytes of its part of the workspace, which follows struct model and the tokens and includes the first sequence; and bytes of every
 * further sequence. */
uint64_t library_engine_bytes(const struct forge_program *p);
uint64_t library_engine_sequence_bytes(const struct forge_program *p);
/* at: its part of the workspace.  m->weights and the memory of the further sequences are set; this sets the memory of the first
 * sequence.  After a failure nothing stays open. */
int  library_engine_open(struct model *m, uint8_t *at, const struct model_options *options);
void library_engine_close(struct model *m);
/* Begins a step of m->step.n_tokens tokens of the sequence in use, from its n_past on.  The tokens are already in sequence->tokens. */
void library_step_begin(struct model *m);
/* Runs at most n_tiles > 0 tiles of the step; UINT64_MAX: all.  MODEL_OK: the step is done, and its tokens are in the context.
 * n_written of the sequence grows with the tokens whose computation begins. */
int  library_step_run(struct model *m, uint64_t n_tiles);
/* Adds to profile->timings[i], initially zero, the time of launch i of decode (n 1) or prefill over n_steps such steps, and sets its
 * `launches` to 1 if it ran.  Sets `step` to the time of one step.  n_rows: how many last tokens get logits.  Each step begins after
 * n_past of the sequence, which is unchanged when this returns MODEL_OK. */
int  library_timings(struct model *m, const int32_t *tokens, uint32_t n, uint32_t n_rows, float *logits, struct model_profiling *profile);
/* Copies pieces of the states of the sequence in use to or from memory without gaps. */
struct state_runs;
int  library_state_read(struct model *m, const struct state_runs *runs, uint8_t *to);
int  library_state_write(struct model *m, const struct state_runs *runs, const uint8_t *from);
/* Zeroes a part of the memory of its states. */
int  library_state_clear(struct model *m, uint64_t offset, uint64_t bytes);
/* Copies what the tokens of `from` have left in its states into the states of `to`, another sequence. */
int  library_state_copy(struct model *m, struct library_sequence *to, const struct library_sequence *from);

/* ---- library.c ---- */

/* Begins a step of n tokens, which are already in the tokens of the sequence in use, from its n_past on.  If this makes the text longer
 * than program->far_from, or if it is no longer that long, the step computes all tokens. */
int  library_step_put(struct model *m, uint32_t n, uint32_t flags, float *logits);
/* Must the sequence in use be computed differently (`far`) once it has n more tokens? */
static inline bool library_turns(const struct model *m, uint32_t n)
{
    const struct library_sequence *q = m->sequence;
    const uint32_t from = m->program->far_from, end = q->n_past + n > q->expected ? q->n_past + n : q->expected;
    return from > 0 && (end > from) != (q->far != 0);
}
/* Runs a step without keeping it: n_past is unchanged. */
int  library_step_try(struct model *m, const int32_t *tokens, uint32_t n, float *logits);
/* For a piece of n tokens of the step, from args.n_past on: how many of its last tokens get logits or rows. */
uint32_t library_rows(const struct model *m, uint32_t n);
/* Adds these rows, computed in m->rows, to the vector of an embedding model. */
void library_pool(struct model *m, uint32_t n_rows);

/* Records that the states of the sequence in use may hold its first n_past tokens from now on (n_written). */
static inline void library_written(struct model *m, uint32_t n_past)
{
    if (m->sequence->n_written < n_past) m->sequence->n_written = n_past;
}
/* Sequence number i < m->n_sequences. */
struct library_sequence *library_sequence(struct model *m, uint32_t i);
/* Prepares the memory of the sequence in use for a first token. */
int  library_context_begin(struct model *m);
/* Removes all tokens of the sequence in use. */
int  library_context_empty(struct model *m);

#endif
