/* engine.h -- one program, its weights, its memory and its threads: tokens in, logits out. */
#ifndef FORGE_ENGINE_H
#define FORGE_ENGINE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"
#include "status.h"
#include "threads.h"

struct forge_weights_source {
    const char *path;            /* external weight file, or NULL */
    bool        random;          /* no file: finite noise, for timing only */
};

struct forge_engine {
    const struct forge_program *program;
    struct forge_pool *pool;
    const uint8_t *weights;      /* [program->weights_bytes] */
    uint8_t  *arena, *kv;        /* anonymous mappings, program->arena_bytes and ->kv_bytes */
    void     *mapped;            /* what weights lie in when they are not part of the executable */
    size_t    mapped_bytes;
    uint32_t  n_ctx;             /* <= program->n_ctx */
    uint32_t  n_past;            /* tokens in the KV cache */
    uint32_t  chunk;             /* most tokens of one prefill step; 0: prompts go through the decode kernels too */
    const volatile sig_atomic_t *stop;   /* nonzero ends a long prompt between two chunks; may be NULL */
};

/* The first program this CPU can run, or the one called target. Not found: FORGE_USAGE; missing instructions: FORGE_WRONG_CPU. */
enum forge_status program_choose(const struct forge_program **out, const char *target, struct forge_error *error);

/* Takes all memory and starts the threads. n_ctx 0: the program's own. */
enum forge_status engine_open(struct forge_engine *engine, const struct forge_program *program,
                              const struct forge_weights_source *source, uint32_t n_threads, uint32_t n_ctx,
                              struct forge_error *error);
void engine_close(struct forge_engine *engine);

/* Appends n > 0 tokens to the context and writes logits of the last n_logits of them, [n_logits][n_vocab] f32.
 * n_logits is at most 1 unless n <= chunk. One token runs the decode launches, more the prefill launches.
 * FORGE_TOO_LONG: n_past + n > n_ctx, nothing done. FORGE_INTERRUPTED: *stop was set between two chunks.
 * Tokens must be < n_vocab. */
enum forge_status forge_step(struct forge_engine *engine, const int32_t *tokens, size_t n,
                             uint32_t n_logits, float *logits, struct forge_error *error);

/* The same for one piece of a longer prompt, always through the prefill launches: 1 <= n <= chunk. */
enum forge_status forge_prefill(struct forge_engine *engine, const int32_t *tokens, uint32_t n,
                                uint32_t n_logits, float *logits, struct forge_error *error);

/* Forgets the tokens from position n_past on. */
void forge_rewind(struct forge_engine *engine, uint32_t n_past);

double seconds_now(void);

#endif
