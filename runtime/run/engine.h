/* engine.h -- one program, its weights, its memory and its threads: tokens in, logits out. */
#ifndef FORGE_ENGINE_H
#define FORGE_ENGINE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/device/numa.h"
#include "runtime/model/abi.h"
#include "status.h"
#include "runtime/device/threads.h"

enum forge_pages { PAGES_AUTO, PAGES_FILE, PAGES_LARGE };
struct forge_weights_source {
    const char *path;            /* external weight file, or NULL */
    bool        random;          /* no file: finite noise, for timing only */
    bool        progress;        /* of a long upload to a GPU, on a terminal */
    bool        verify;          /* every tensor by its hash; noise has none */
    enum forge_pages pages;      /* CPU, without NUMA: read from the file's own pages, or from a copy in large ones */
    enum forge_numa numa;        /* CPU: where they lie; threads stay on their node unless it is NUMA_NONE */
};

/* Where the launches of CPU steps leave their times, in ns: of every thread, at work and from then on until the next launch begins. */
struct forge_clocks { uint64_t *work, *wait; uint32_t n_launches; };       /* [threads][n_launches] */

/* Where --numa put threads and weights, or where these are in large pages. */
struct places {
    struct numa numa;            /* n 0: threads run where the kernel puts them */
    void    *copies[NUMA_MOST_NODES];    /* [n_copies] of the weights, that of each node, or one for all */
    uint32_t n_copies;
};

struct forge_engine {
    const struct forge_program *program;
    const char *device_name;     /* of the GPU or GPUs it runs on; NULL: on the CPU, and all down to mapped_bytes is for the CPU only */
    struct gpu *gpu;             /* that GPU, or the first of them, the engine's own (gpu_state.h) */
    struct forge_pool *pool;
    const uint8_t *weights;      /* [program->weights_bytes] */
    struct places *places;       /* NULL: the same of the weights, which are in the file's pages */
    uint8_t  *arena;             /* anonymous mapping, arena_bytes: program->arena_bytes for each column of a step */
    uint8_t  *state;             /* the same, state_stride for each sequence */
    uint64_t  arena_bytes, state_stride;
    void     *mapped;            /* what weights lie in when they are not part of the executable */
    size_t    mapped_bytes;
    uint32_t  n_ctx;             /* <= program->n_ctx */
    struct forge_sequence *sequences;    /* [n_sequences] */
    uint32_t  n_sequences;
    uint32_t  chunk;             /* most tokens of one prefill step; 0: prompts go through the decode kernels too */
    bool      plain_launches;    /* GPU: no graphs */
    bool      speculates;        /* GPU: draws do, where the program can */
    uint64_t  n_drafted, n_accepted;     /* drafts that steps computed, and those that became text */
    const struct forge_clocks *clocks;   /* CPU: NULL, or what each step adds to */
    const volatile sig_atomic_t *stop;   /* nonzero ends a long prompt between two chunks; may be NULL */
};

/* Tokens that follow each other, in memory of their own.  Any number of them take turns in an engine, and their steps may lie between each
 * other: none knows of the others. */
struct forge_sequence {
    struct forge_engine *engine; /* NULL: not open */
    uint8_t *state;              /* [program->state_bytes], on the device of the engine; of several GPUs the first */
    uint32_t n_past;             /* tokens it has */
    uint32_t n_written;          /* the most it ever had since it was empty, with those of steps that went ahead of draws (state_rewinds) */
    uint32_t slot;               /* GPU, all from here on: of states with several, the one of n_past (templates/gpu/sequence.h) */
    int32_t *history;            /* [n_ctx + 1] on the device, the first */
    void    *graphs[3 + 2 * FORGE_MAX_COLUMNS];      /* of its steps (gpu_step.c); NULL: not made yet */
};

/* The first program this machine can run, or the one called target.  A GPU program is tried by opening a GPU for it, *gpu, which goes to
 * engine_open; when that fails and a later program can run, FORGE_OK comes with a sentence in error that says which and why, to be shown.
 * gpu NULL: GPU programs count as runnable and nothing is opened; *gpu NULL: the program is for the CPU.  devices: NULL, or the GPUs for
 * it; FORGE_USAGE where the program needs another number of them.
 * No such target: FORGE_USAGE.  None that runs: the last reason, FORGE_WRONG_CPU when it is missing instructions. */
struct forge_devices;
enum forge_status program_choose(const struct forge_program **out, struct gpu **gpu, const char *target,
                                 const struct forge_devices *devices, struct forge_error *error);

/* Takes all memory and starts the threads (n_threads is for the CPU only).  gpu: opened for this program, the engine's from now on whatever
 * becomes of it; NULL: a CPU, or the first GPU that fits.  n_ctx 0: the program's own.  n_sequences: how many can be open at once. */
enum forge_status engine_open(struct forge_engine *engine, const struct forge_program *program, struct gpu *gpu,
                              const struct forge_weights_source *source, uint32_t n_threads, uint32_t n_ctx,
                              uint32_t n_sequences, struct forge_error *error);
void engine_close(struct forge_engine *engine);              /* and its sequences */

/* An empty sequence.  FORGE_TOO_LONG: all that the engine has room for are open. */
enum forge_status sequence_open(struct forge_sequence **out, struct forge_engine *engine, struct forge_error *error);
void sequence_close(struct forge_sequence *sequence);        /* NULL is allowed */
/* Forgets all tokens. */
enum forge_status sequence_reset(struct forge_sequence *sequence, struct forge_error *error);
/* Forgets the tokens from position `to` on.  False: the model keeps too little to go back there, and nothing has changed; then the caller
 * resets the sequence and computes its first tokens again. */
bool sequence_rewind(struct forge_sequence *sequence, uint32_t to);
/* Makes `to` what `from` is, another sequence of the same engine: a fork, or a snapshot to come back to.  FORGE_FAILED: see forge_step. */
enum forge_status sequence_copy(struct forge_sequence *to, const struct forge_sequence *from, struct forge_error *error);

/* Puts bytes of a state somewhere, or gets them from there. */
typedef enum forge_status sequence_piece(void *context, uint8_t *bytes, size_t n, struct forge_error *error);
/* What the sequence's tokens have left in its states, by put in pieces that depend on the program and on n_past alone.  FORGE_FAILED: as of
 * sequence_copy. */
enum forge_status sequence_save(struct forge_sequence *sequence, sequence_piece *put, void *context, struct forge_error *error);
/* The sequence becomes one of these n_past tokens, which had n_written and slot, by get in the same pieces.  After a failure it is empty.
 * FORGE_USAGE: there is no such sequence. */
enum forge_status sequence_restore(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n_past, uint32_t n_written,
                                   uint32_t slot, sequence_piece *get, void *context, struct forge_error *error);

/* Most tokens of which one forge_prefill gives all logits. */
uint32_t engine_piece(const struct forge_engine *engine);
/* Appends n > 0 tokens to the sequence and writes logits of the last n_logits of them, [n_logits][n_vocab] f32.
 * A program of a model of embeddings writes rows instead, [n_logits][n_embd] (runtime/model/pool.h).
 * n_logits is at most 1 unless n <= chunk, and at most program->max_logits. One token runs the decode launches, more the prefill launches,
 * or, in a program that has them, those of columns.
 * FORGE_TOO_LONG: n_past + n > n_ctx, nothing done. FORGE_INTERRUPTED: *stop was set between two chunks.
 * FORGE_FAILED, beside what the system refuses: the last run of draws went beyond n_past for good (engine_draw_begin), nothing done.
 * FORGE_BAD_WEIGHTS: some of these logits are NaN or infinite; the tokens are in the context nonetheless.
 * Tokens must be < n_vocab. */
enum forge_status forge_step(struct forge_sequence *sequence, const int32_t *tokens, size_t n,
                             uint32_t n_logits, float *logits, struct forge_error *error);

/* The same for one piece of a longer prompt: 1 <= n <= chunk.  Through the prefill launches, also one token, unless the program has
 * launches of columns. */
enum forge_status forge_prefill(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n,
                                uint32_t n_logits, float *logits, struct forge_error *error);

/* The vector, [n_embd], of a text of n > 0 tokens by a program of a model of embeddings, of length 1 with `normalize`; what the sequence
 * had is forgotten.  rows: room for engine_piece() rows of n_embd.  Errors as of forge_step. */
enum forge_status forge_embed(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, bool normalize, float *rows,
                              float *vector, struct forge_error *error);

struct forge_sample_options;
struct forge_random;

/* A token for each of n sequences, at most FORGE_MAX_COLUMNS, none of them twice.  Each gets the bits that forge_step with that one token
 * gives.  On a CPU all columns go through a kernel before the next kernel runs, so weights that fit a cache are read from memory once; on a
 * GPU as many as the program was built for (--columns) are one step, unless layers have a state that every token replaces: then, and in
 * programs without columns, they are steps one after the other.  Errors as of forge_step; FORGE_BAD_WEIGHTS names the first, and all tokens
 * are appended. */
struct forge_column {
    struct forge_sequence *sequence;
    int32_t token;
    float  *logits;                                      /* [n_vocab] or NULL */
    /* engine_step_draw only: */
    const struct forge_sample_options *options;
    const struct forge_random *random;
    int32_t drawn;                                       /* written */
    bool    guided;                                      /* only what the mask allows is drawn */
    const uint32_t *mask;                                /* [n_vocab / 32, rounded up] a bit for each token, not needed by
                                                          * engine_step_begin; NULL: nothing is to be drawn, which is -1 */
};
enum forge_status engine_step(struct forge_engine *engine, const struct forge_column *columns, uint32_t n, struct forge_error *error);

/* The same on a GPU (engine_draws), which draws the next token of each as well: by its options, its mask, and its random numbers, of which
 * the host takes one from its own for every token with temp > 0.  No logits come back.
 * more: most likely the next step is of the same sequences and the tokens drawn; it may begin at once, and is found by engine_step_begin.
 * Any other step of the engine in its place is right as well, and then this one was in vain. */
enum forge_status engine_step_draw(struct forge_engine *engine, struct forge_column *columns, uint32_t n, bool more,
                                   struct forge_error *error);
/* Puts such a step on the device and returns: it runs while the host makes masks, and ends with an engine_step_draw of the same columns. */
enum forge_status engine_step_begin(struct forge_engine *engine, const struct forge_column *columns, uint32_t n, struct forge_error *error);

/* Text drawn on the device, for programs on a GPU.  first < 0: the first token is drawn from the logits of the last step; else token first
 * is decoded and the first draw follows it.  At most limit tokens are drawn, and no more than the context holds.  random is copied: the
 * host takes one number from its own for every token with temp > 0.  Any other step of the engine, and a change of the sequence's n_past,
 * ends the run and drops what was drawn ahead.
 * With engine->speculates steps may give several tokens, the same ones.
 * last: no token comes behind the run, the sequence is reset or closed after it.  Steps may then go further ahead of the draws that are
 * read than the program's states can be taken back; else they go as far as that, where layers have a state that every token replaces not
 * at all: the step of a token begins when the next one is asked for. */
bool engine_draws(const struct forge_engine *engine);
enum forge_status engine_draw_begin(struct forge_sequence *sequence, const struct forge_sample_options *options,
                                    const struct forge_random *random,
                                    int32_t first, uint64_t limit, bool last, struct forge_error *error);
/* Then n_past is that of drawing token by token: the token itself is not in the context yet.  FORGE_BAD_WEIGHTS: the logits to draw from
 * are not finite. */
enum forge_status engine_draw_next(struct forge_sequence *sequence, int32_t *token, struct forge_error *error);

/* What the program's block that drafts (gpu->n_pass > 0) foretells behind each of n > 0 tokens that come behind the sequence, the first as
 * a token of the text, the others as drafts: logits [n][n_vocab] f32.  Nothing is appended; the run of draws ends.  FORGE_TOO_LONG:
 * n_past + n > n_ctx. */
enum forge_status engine_draft(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, float *logits,
                               struct forge_error *error);

double seconds_now(void);

#endif
