/* instance.h -- what lies in the workspace of a model library, and the sizes that forgec writes into its header
 * (compiler/product/header.c). What computes is cpu.c or gpu.c, one of them in an object.  Workers: program->max_threads; the arena of a
 * library is planned for exactly so many (plan options max_threads = MODEL_WORKERS). */
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

/* A model of embeddings: rows of a chunk, behind the first sequence. */
#define LIBRARY_ROWS_BYTES(chunk, n_embd) LIBRARY_UP(4 * (uint64_t)(chunk) * (n_embd))

/* The workspace: struct model, the tokens of the context, the arena, the states of the context. */
#define LIBRARY_WORKSPACE_BYTES(n_ctx, arena_bytes, state_bytes) \
    (LIBRARY_INSTANCE_BYTES + LIBRARY_UP(4 * (uint64_t)(n_ctx)) + LIBRARY_UP(arena_bytes) + LIBRARY_UP(state_bytes))

/* On a GPU: struct model, the tokens of the context, the engine, its kernels' addresses.  All else is on the device. */
#define LIBRARY_GPU_BYTES 4864u                    /* asserted in gpu.c */
#define LIBRARY_GPU_WORKSPACE_BYTES(n_ctx, n_kernels) \
    (LIBRARY_INSTANCE_BYTES + LIBRARY_UP(4 * (uint64_t)(n_ctx)) + LIBRARY_GPU_ENGINE_BYTES(n_kernels))
#define LIBRARY_GPU_ENGINE_BYTES(n_kernels) (LIBRARY_GPU_BYTES + LIBRARY_UP(8 * (uint64_t)(n_kernels)))

/* A further sequence of an instance: its struct, its tokens, its states; on a GPU what says where those are on the device. */
#define LIBRARY_SEQUENCE_HEAD_BYTES 64u            /* of struct library_sequence; asserted below */
#define LIBRARY_SEQUENCE_BYTES(n_ctx, state_bytes) \
    (LIBRARY_SEQUENCE_HEAD_BYTES + LIBRARY_UP(4 * (uint64_t)(n_ctx)) + LIBRARY_UP(state_bytes))
#define LIBRARY_GPU_SEQUENCE_BYTES 256u            /* asserted in gpu.c */

/* Most that model_save writes: header, tokens, states. */
#define LIBRARY_SAVE_HEADER_BYTES 72u              /* asserted in state.c */
#define LIBRARY_SAVE_BYTES(n_ctx, state_bytes) (LIBRARY_SAVE_HEADER_BYTES + 4 * (uint64_t)(n_ctx) + (uint64_t)(state_bytes))

/* MODEL_ENCODE_SCRATCH(n): at least forge_tokenize_scratch(n), 113 n + 8299 (runtime/text/tokenize.c). */
#define LIBRARY_ENCODE_SCRATCH_PER_BYTE 116u
#define LIBRARY_ENCODE_SCRATCH_FIXED    8448u

/* What lies at the beginning of the memory of a conversation, an answer, a lexicon and a mask; asserted in chat.c and guide.c. */
#define LIBRARY_CHAT_HEAD_BYTES    128u
/* MODEL_CHAT_BYTES(n): of 3,087 conversations in 50 templates none needs more, tokens and their scratch included. */
#define LIBRARY_CHAT_PER_BYTE      256u
#define LIBRARY_CHAT_FIXED         (1u << 20)
#define LIBRARY_ANSWER_HEAD_BYTES  1536u
#define LIBRARY_LEXICON_HEAD_BYTES 320u
#define LIBRARY_MASK_HEAD_BYTES    320u

/* Most stack of any call, kernels included.  Frames depend on formats and tiles, not on the size of a model: clang -fstack-usage has at
 * most 6.4 KB for one function (gemm_groups_q2_K, Cortex-M55) and 5.4 KB on x86-64, plus its kernel's and 0.5 KB of this runtime; a painted
 * stack (tests/library/test_library.c) shows 4.3 KB on x86-64.  Twice that, for formats and vector lengths that were not tried. */
#define LIBRARY_STACK_BYTES  16384u

/* The same of calls that read JSON, templates or grammars, which nest: what is fixed, and a level of a template.  A painted stack
 * (tests/library/test_chat.c) shows on x86-64 65 KB for a grammar of groups 100 deep, 20 KB for JSON and values 128 deep, 12 KB for
 * schemas, and 230 bytes a level. */
#define LIBRARY_CHAT_STACK_FIXED     98304u
#define LIBRARY_CHAT_STACK_PER_LEVEL 384u

/* Functions of the API stay visible when all else is hidden.  forgec hides declarations, too, and exports the API itself
 * (compiler/product/objfile.c): it sets this empty. */
#ifndef LIBRARY_PUBLIC
#define LIBRARY_PUBLIC __attribute__((visibility("default")))
#endif

/* A step in pieces.  CPU: the launches of one chunk of tokens, each of them as many tiles as there are workers; args.n_past is where the
 * chunk begins. GPU: a tile is a chunk, and args.n_past all that is used of args. */
struct begun_step {
    struct forge_args          args;
    const struct forge_launch *launches;         /* [n_launches] of the piece */
    uint32_t n_launches, at;                     /* at: the launch being run */
    uint32_t tile;                               /* its next tile */
    uint32_t n_tokens;                           /* of the whole step */
    float   *logits;                             /* of the last token, or NULL; a model of embeddings: the vector */
    uint32_t flags;                              /* of model_embed */
    bool     busy;
};

/* Tokens that follow each other.  The first lies in struct model and its memory where a workspace of one has it; the others lie behind. */
struct library_sequence {
    int32_t *tokens;                             /* [n_ctx] */
    uint8_t *memory;                             /* CPU: its states; GPU: its struct forge_sequence */
    uint64_t random[4];                          /* xoshiro256** */
    uint32_t n_past, n_written;                  /* n_written: of state_rewinds; both 0 together */
};
_Static_assert(sizeof(struct library_sequence) <= LIBRARY_SEQUENCE_HEAD_BYTES && LIBRARY_SEQUENCE_HEAD_BYTES % LIBRARY_ALIGN == 0,
               "a sequence fits its part of the workspace");

struct model {
    uint64_t                    magic;           /* LIBRARY_OPEN while it is open */
    const struct forge_program *program;
    const uint8_t              *weights;         /* the program's image */
    uint8_t                    *arena;           /* CPU */
    float                      *rows;            /* a model of embeddings: [chunk][n_embd] */
    void                       *device;          /* GPU: gpu.c's */
    model_parallel_for         *parallel_for;
    void                       *parallel_context;
    struct library_sequence     first;
    struct library_sequence    *sequence;        /* the one in use */
    uint8_t                    *further;         /* n_sequences - 1 others, library_sequence_bytes apart */
    uint32_t                    n_sequences;
    bool                        failed;          /* GPU: its state is unknown from here on */
    struct begun_step           step;
    uint64_t                    mass[256];       /* sample.c; cpu.c: clocks of jobs */
};
_Static_assert(sizeof(struct model) <= LIBRARY_INSTANCE_BYTES && LIBRARY_INSTANCE_BYTES % LIBRARY_ALIGN == 0,
               "the state fits its part of the workspace");

/* What forgec build found of them, in tables.c; NULL: nothing. */
extern const uint8_t *const library_chat;        /* runtime/chat/image.h */
extern const uint8_t *const library_grammar;     /* runtime/chat/grammar.h */

#define LIBRARY_OPEN 0x6e65706f2e6d6166u           /* "fam.open" */

static inline const struct forge_program *library_program(void) { return forge_programs[0]; }

/* MODEL_OK when m can be used now; else why not. */
static inline int instance_ready(const struct model *m)
{
    if (!m || m->magic != LIBRARY_OPEN) return MODEL_BAD_ARGUMENT;
    if (m->failed) return MODEL_DEVICE_FAILED;
    return m->step.busy ? MODEL_BUSY : MODEL_OK;
}

/* ---- the engine: cpu.c or gpu.c.  Statuses are those of model.h ---- */

/* Its part of the workspace, behind struct model and the tokens, with the first sequence; and that of every further sequence. */
uint64_t library_engine_bytes(const struct forge_program *p);
uint64_t library_engine_sequence_bytes(const struct forge_program *p);
/* at: that part.  m->weights are there, and memory of the further sequences; that of the first is set here.  After a failure nothing is
 * left open. */
int  library_engine_open(struct model *m, uint8_t *at, const struct model_options *options);
void library_engine_close(struct model *m);
/* m->step.n_tokens tokens of the sequence in use, which are in its tokens, from its n_past on. */
void library_step_begin(struct model *m);
/* At most n_tiles > 0 of the step; MODEL_OK: the step is done, its tokens are in the context.  UINT64_MAX: all.  n_written of the sequence
 * grows with what begins to run. */
int  library_step_run(struct model *m, uint64_t n_tiles);
/* Sets in profile->laps[i], which are zero, what launch i of decode (n 1) or prefill takes in n_steps such steps together, and `launches`
 * to 1 where it ran; sets `step`, of one.  n_rows: of its last tokens.  Each step begins behind n_past of the sequence, which is as it was
 * when this returns MODEL_OK. */
int  library_laps(struct model *m, const int32_t *tokens, uint32_t n, uint32_t n_rows, float *logits, struct model_profiling *profile);
/* Pieces of the states of the sequence in use, which lie without gaps at to and from. */
struct state_runs;
int  library_state_read(struct model *m, const struct state_runs *runs, uint8_t *to);
int  library_state_write(struct model *m, const struct state_runs *runs, const uint8_t *from);
/* Zeroes a part of its memory. */
int  library_state_clear(struct model *m, uint64_t offset, uint64_t bytes);
/* What the tokens of `from` have left in its states, into those of `to`, another one. */
int  library_state_copy(struct model *m, struct library_sequence *to, const struct library_sequence *from);

/* ---- library.c ---- */

/* Begins a step of n tokens, which are in the tokens of the sequence in use, from its n_past on. */
void library_step_put(struct model *m, uint32_t n, uint32_t flags, float *logits);
/* A step that is forgotten: n_past is what it was. */
int  library_step_try(struct model *m, const int32_t *tokens, uint32_t n, float *logits);
/* Of a piece of n tokens of the step, from args.n_past on: how many of its last ones have logits, or rows. */
uint32_t library_rows(const struct model *m, uint32_t n);
/* Those are computed, in m->rows: the vector of a model of embeddings gets them. */
void library_pool(struct model *m, uint32_t n_rows);

/* The states of the sequence in use may have more from here on: those of its first n_past tokens. */
static inline void library_written(struct model *m, uint32_t n_past)
{
    if (m->sequence->n_written < n_past) m->sequence->n_written = n_past;
}
/* Number i < m->n_sequences. */
struct library_sequence *library_sequence(struct model *m, uint32_t i);
/* Makes the memory of the sequence in use ready for a first token. */
int  library_context_begin(struct model *m);
/* The sequence in use has no tokens from here on. */
int  library_context_empty(struct model *m);

#endif
