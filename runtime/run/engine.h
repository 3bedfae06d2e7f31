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
    bool        progress;        /* of loading large weights, on a terminal */
    bool        verify;          /* compare every tensor with its hash; noise has no hashes */
    enum forge_pages pages;      /* CPU, without NUMA: read the file's own pages, or a copy in large pages */
    enum forge_numa numa;        /* CPU: where the weights lie; threads stay on their node, except with NUMA_NONE */
};

/* The times of the launches of CPU steps in ns, for every thread: at work, and from then until the next launch begins. */
struct forge_clocks { uint64_t *work, *wait; uint32_t n_launches; };       /* [threads][n_launches] */
/* Gets the hash (XXH3) of activations, states and logits after each launch; n_past: of the launch's step. */
struct forge_trace {
    void (*take)(void *context, const char *launch, uint32_t layer, uint32_t n_past, uint64_t hash);      /* layer UINT32_MAX: none */
    void  *context;
};

/* Where --numa put threads and weights, and whether the weights are copied to large pages. */
struct places {
    struct numa numa;            /* n 0: threads run where the kernel puts them */
    void    *copies[NUMA_MOST_NODES];    /* [n_copies] copies of the weights: one for each node, or one for all */
    uint32_t n_copies;
};

struct forge_engine {
    const struct forge_program *program;
    const char *device_name;     /* name of the GPU or GPUs; NULL: runs on the CPU; then all members down to mapped_bytes are used */
    struct gpu *gpu;             /* that GPU, or the first of them; owned by the engine (gpu_state.h) */
    struct forge_pool *pool;
    const uint8_t *weights;      /* [program->weights_bytes] */
    struct places *places;       /* NULL: threads run anywhere, and the weights are in the file's pages */
    uint8_t  *arena;             /* anonymous mapping, arena_bytes: program->arena_bytes for each column of a step */
    uint8_t  *state;             /* anonymous mapping, state_stride for each sequence */
    uint64_t  arena_bytes, state_stride;
    void     *mapped;            /* the mapping that contains the weights if they are not part of the executable */
    size_t    mapped_bytes;
    uint32_t  n_ctx;             /* <= program->n_ctx */
    struct forge_sequence *sequences;    /* [n_sequences] */
    uint32_t  n_sequences;
    uint32_t  chunk;             /* most tokens of one prefill step; 0: prompts use the decode kernels too */
    bool      plain_launches;    /* GPU: no graphs */
    bool      graphs_wanted;     /* GPU: use graphs even where drivers are known to replay them incorrectly */
    bool      speculates;        /* GPU: draws use speculative decoding if the program can */
    uint64_t  n_drafted, n_accepted;     /* drafts that steps computed, and drafts that were accepted */
    const struct forge_clocks *clocks;   /* CPU: each step adds its times here; may be NULL */
    const struct forge_trace *trace;     /* CPU: with one thread; GPU: with plain launches; may be NULL */
    const volatile sig_atomic_t *stop;   /* nonzero ends a long prompt between two chunks; may be NULL */
};

/* A sequence of tokens with memory of its own.  Any number of sequences can take turns in an engine, with their steps in any order; they
 * do not influence each other. */
struct forge_sequence {
    struct forge_engine *engine; /* NULL: not open */
    uint8_t *state;              /* [program->state_bytes], on the engine's device; several GPUs: on the first */
    uint32_t n_past;             /* tokens in the sequence */
    uint32_t n_written;          /* the most tokens it ever had since it was empty, including those of steps that ran ahead of draws
                                  * (state_rewinds) */
    bool     far;                /* its tokens were computed as part of a text of more than program->far_from tokens */
    uint32_t expected;           /* see sequence_expect */
    struct forge_again *again;   /* what is needed to compute the text again differently (engine.c); NULL: program->far_from is 0 */
    uint32_t slot;               /* GPU only, from here on: in states with several slots, the slot of n_past (templates/gpu/sequence.h) */
    int32_t *history;            /* [n_ctx + 1] on the first device */
    void    *graphs[3 + 2 * FORGE_MAX_COLUMNS];      /* graphs of its steps (gpu_step.c); NULL: not made yet */
};

/* Finds the first program that this machine can run, or the one for `target`.  A GPU program is tested by opening a GPU for it, *gpu, which
 * the caller passes to engine_open.  If that fails and a later program can run, the result is FORGE_OK with a text in error, to be shown,
 * that says which GPU program cannot run and why.
 * gpu NULL: GPU programs count as runnable and nothing is opened.  *gpu NULL: the program is for the CPU.  devices: the GPUs to use, or
 * NULL; FORGE_USAGE if the program needs another number of GPUs.
 * FORGE_USAGE: there is no such target.  If no program can run: the last reason; FORGE_WRONG_CPU if instructions are missing. */
struct forge_devices;
enum forge_status program_choose(const struct forge_program **out, struct gpu **gpu, const char *target,
                                 const struct forge_devices *devices, struct forge_error *error);

/* Allocates all memory and starts the threads (n_threads: CPU only).  gpu: opened for this program; the engine owns it from now on, even
 * after a failure; NULL: a CPU, or the first GPU that fits.  n_ctx 0: the program's own.  n_sequences: how many can be open at once. */
enum forge_status engine_open(struct forge_engine *engine, const struct forge_program *program, struct gpu *gpu,
                              const struct forge_weights_source *source, uint32_t n_threads, uint32_t n_ctx,
                              uint32_t n_sequences, struct forge_error *error);
void engine_close(struct forge_engine *engine);              /* and its sequences */

/* Opens an empty sequence.  FORGE_TOO_LONG: all sequences for which the engine has room are open. */
enum forge_status sequence_open(struct forge_sequence **out, struct forge_engine *engine, struct forge_error *error);
void sequence_close(struct forge_sequence *sequence);        /* NULL is allowed */
/* Removes all tokens. */
enum forge_status sequence_reset(struct forge_sequence *sequence, struct forge_error *error);
/* Removes the tokens from position `to` on.  False: the model keeps too little to go back that far, and nothing has changed; then the
 * caller must reset the sequence and compute its first tokens again. */
bool sequence_rewind(struct forge_sequence *sequence, uint32_t to);
/* Announces that the text of the sequence will have at least n_tokens tokens.  A caller that passes a prompt in pieces should call this
 * before the first piece: a text that becomes longer than program->far_from is computed again from its first token, in the step that
 * exceeds it. */
void sequence_expect(struct forge_sequence *sequence, uint32_t n_tokens);
/* The most tokens that it can have without being computed again. */
static inline uint32_t sequence_end(const struct forge_sequence *q)
{
    const uint32_t far_from = q->engine->program->far_from, n_ctx = q->engine->n_ctx;
    return far_from > 0 && !q->far && far_from < n_ctx ? far_from : n_ctx;
}
/* Makes `to` a copy of `from`, another sequence of the same engine: a fork, or a snapshot to return to.  FORGE_FAILED: see forge_step. */
enum forge_status sequence_copy(struct forge_sequence *to, const struct forge_sequence *from, struct forge_error *error);

/* Writes bytes of a state somewhere, or reads them back. */
typedef enum forge_status sequence_piece(void *context, uint8_t *bytes, size_t n, struct forge_error *error);
/* Saves what the sequence's tokens have left in its states, by calling `put` with pieces that depend only on the program and on n_past.
 * FORGE_FAILED: see forge_step. */
enum forge_status sequence_save(struct forge_sequence *sequence, sequence_piece *put, void *context, struct forge_error *error);
/* Restores a sequence of these n_past tokens with n_written, slot and far, by calling `get` for the same pieces.  After a failure the
 * sequence is empty.
 * FORGE_USAGE: no sequence can have these values. */
enum forge_status sequence_restore(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n_past, uint32_t n_written,
                                   uint32_t slot, bool far, sequence_piece *get, void *context, struct forge_error *error);

/* The most tokens for which one forge_prefill can give all logits. */
uint32_t engine_piece(const struct forge_engine *engine);
/* Appends n > 0 tokens to the sequence and writes logits of the last n_logits of them, [n_logits][n_vocab] f32.
 * A program of an embedding model writes rows instead, [n_logits][n_embd] (runtime/model/pool.h).
 * n_logits is at most 1 unless n <= chunk, and at most program->max_logits.  One token runs the decode launches; more tokens run the
 * prefill launches, or those of columns if the program has them.
 * FORGE_TOO_LONG: n_past + n > n_ctx; nothing is done.  FORGE_INTERRUPTED: *stop was set between two chunks.
 * FORGE_FAILED, apart from what the system refuses: the last run of draws went beyond n_past and cannot be undone (engine_draw_begin);
 * nothing is done.
 * FORGE_BAD_WEIGHTS: some of these logits are NaN or infinite; the tokens are in the context nevertheless.
 * Tokens must be < n_vocab. */
enum forge_status forge_step(struct forge_sequence *sequence, const int32_t *tokens, size_t n,
                             uint32_t n_logits, float *logits, struct forge_error *error);

/* The same for a piece of n tokens of a prompt of `of` > 1 tokens.  On a CPU the result has the same bits for any cut of the prompt into
 * pieces. */
enum forge_status forge_read(struct forge_sequence *sequence, const int32_t *tokens, size_t n, size_t of, uint32_t n_logits, float *logits,
                             struct forge_error *error);

/* The same for one piece of a longer prompt: 1 <= n <= chunk.  It uses the prefill launches even for one token, unless the program has
 * launches of columns. */
enum forge_status forge_prefill(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n,
                                uint32_t n_logits, float *logits, struct forge_error *error);

/* Computes the vector [n_embd] of a text of n > 0 tokens with a program of an embedding model; `normalize` scales it to length 1.  The
 * previous tokens of the sequence are removed.  rows: scratch memory for engine_piece() rows of n_embd.  Errors as in forge_step. */
enum forge_status forge_embed(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, bool normalize, float *rows,
                              float *vector, struct forge_error *error);

struct forge_sample_options;
struct forge_random;

/* One token for each of n sequences, at most FORGE_MAX_COLUMNS, all different.  Each sequence gets the same bits as from forge_step with
 * that token.  On a CPU all columns go through a kernel before the next kernel runs, so weights that fit into a cache are read from
 * memory once.  On a GPU as many columns as the program was built for (--columns) are one step, unless layers have a state that every
 * token replaces: then, and in programs without columns, they run one after the other.  Errors as in forge_step; FORGE_BAD_WEIGHTS names
 * the first sequence, and all tokens are appended. */
struct forge_column {
    struct forge_sequence *sequence;
    int32_t token;
    float  *logits;                                      /* [n_vocab] or NULL */
    /* engine_step_draw only: */
    const struct forge_sample_options *options;
    const struct forge_random *random;
    int32_t drawn;                                       /* result */
    bool    guided;                                      /* draw only tokens that the mask allows */
    const uint32_t *mask;                                /* [n_vocab / 32, rounded up] a bit for each token, not needed by
                                                          * engine_step_begin; NULL: draw nothing, the result is -1 */
};
enum forge_status engine_step(struct forge_engine *engine, const struct forge_column *columns, uint32_t n, struct forge_error *error);

/* The same on a GPU (engine_draws), which also draws the next token of each sequence, by its options, mask and random numbers; for every
 * token with temp > 0 the host takes one number from its own generator.  No logits are returned.
 * more: a hint that the next step probably has the same sequences and the tokens drawn here.  That step may begin at once, and
 * engine_step_begin finds it.  Any other step is correct too, but then the step that began was computed for nothing. */
enum forge_status engine_step_draw(struct forge_engine *engine, struct forge_column *columns, uint32_t n, bool more,
                                   struct forge_error *error);
/* Puts such a step on the device and returns, so that it runs while the host computes masks.  It ends with an engine_step_draw of the
 * same columns. */
enum forge_status engine_step_begin(struct forge_engine *engine, const struct forge_column *columns, uint32_t n, struct forge_error *error);

/* Draws text on the device, for GPU programs.  first < 0: the first token is drawn from the logits of the last step; else token `first` is
 * decoded, and the first draw follows it.  At most `limit` tokens are drawn, and no more than the context holds.  random is copied: for
 * every token with temp > 0 the host takes one number from its own generator.  Any other step of the engine, and a change of the sequence's
 * n_past, ends the run and drops the tokens drawn ahead.
 * With engine->speculates a step may give several tokens; the text is the same.
 * last: no token follows the run; the sequence is reset or closed after it.  Steps may then run further ahead of the draws that are read
 * than the program's states can be rewound.  Without `last`, they run ahead only as far as states can be rewound: if layers have a state
 * that every token replaces, the step of a token begins only when the next token is requested. */
bool engine_draws(const struct forge_engine *engine);
enum forge_status engine_draw_begin(struct forge_sequence *sequence, const struct forge_sample_options *options,
                                    const struct forge_random *random,
                                    int32_t first, uint64_t limit, bool last, struct forge_error *error);
/* After it, n_past is as if tokens were drawn one by one: the returned token is not in the context yet.  FORGE_BAD_WEIGHTS: the logits
 * to draw from are not finite. */
enum forge_status engine_draw_next(struct forge_sequence *sequence, int32_t *token, struct forge_error *error);

/* Runs the program's MTP block (gpu->n_pass > 0) on n > 0 tokens after the sequence, the first as a token of the text, the others as
 * drafts, and writes its logits [n][n_vocab] f32 for the token after each.  Nothing is appended; the run of draws ends.  FORGE_TOO_LONG:
 * n_past + n > n_ctx. */
enum forge_status engine_draft(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, float *logits,
                               struct forge_error *error);

/* What gives a longer context, for messages. */
const char *engine_longer(const struct forge_engine *engine);

double seconds_now(void);

#endif
