/* state.h -- questions about the states of a program: which bytes hold a number of positions, and whether tokens can be removed.
 * Everything that saves, copies, clears or rewinds a sequence asks here.  When several GPUs share a model, each has a part of the
 * states, described by the table of its own program; together they are the sequence's states. */
#ifndef FORGE_STATE_H
#define FORGE_STATE_H

#include <stdbool.h>

#include "abi.h"
#include "xxh3.h"

/* The number of GPUs that share the model, and the program of each. */
static inline uint32_t program_ranks(const struct forge_program *p) { return p->gpu && p->gpu->n_ranks > 1 ? p->gpu->n_ranks : 1; }
static inline const struct forge_program *program_of_rank(const struct forge_program *p, uint32_t rank)
{
    return program_ranks(p) > 1 ? p->gpu->ranks[rank] : p;
}

/* Bytes of the weights of all ranks together. */
static inline uint64_t program_weights_bytes(const struct forge_program *p)
{
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < program_ranks(p); rank++) bytes += program_of_rank(p, rank)->weights_bytes;
    return bytes;
}

/* Bytes of weights that a token reads, and bytes of state that it reads for every earlier token.  Pipeline parallel: the sum over all
 * stages, which read one after the other.  Tensor parallel: only the first rank's, because GPUs read side by side. */
static inline uint64_t program_read_bytes(const struct forge_program *p)
{
    uint64_t bytes = p->read_bytes;
    for (uint32_t rank = 1; rank < program_ranks(p) && p->gpu->pipeline; rank++) bytes += program_of_rank(p, rank)->read_bytes;
    return bytes;
}
static inline uint64_t program_bytes_per_token(const struct forge_program *p)
{
    uint64_t bytes = p->state_bytes_per_token;
    for (uint32_t rank = 1; rank < program_ranks(p) && p->gpu->pipeline; rank++) bytes += program_of_rank(p, rank)->state_bytes_per_token;
    return bytes;
}

/* The bytes that n_past positions have written to a state: n pieces of `bytes` bytes, `stride` apart, the first at `offset` in the
 * sequence's memory. */
struct state_runs { uint64_t offset, n, stride, bytes; };
struct state_runs state_runs(const struct forge_state *state, uint32_t n_past);

/* The sum of these pieces over all states and all ranks. */
uint64_t state_used_bytes(const struct forge_program *program, uint32_t n_past);

/* Can a sequence of n_past tokens continue from its first `to` tokens?  n_written >= n_past: the most tokens that it ever had since it
 * was empty, including removed tokens and those of steps that nobody waited for.  to = n_past: is the state still complete?  If the
 * answer is no, the caller starts at 0 and computes the tokens again. */
bool state_rewinds(const struct forge_program *program, uint32_t n_written, uint32_t n_past, uint32_t to);

/* How many steps may run beyond a position to which the sequence must be able to return.  UINT32_MAX: the program has no limit. */
uint32_t state_back(const struct forge_program *program);

/* The longest context, a multiple of 256 tokens, with which the program takes at most `room` bytes; 0: even an empty context takes more.
 * needed: its bytes with a context of n_ctx, of which per_token for each token. */
static inline uint32_t state_fits(uint64_t needed, uint64_t per_token, uint32_t n_ctx, uint64_t room)
{
    const uint64_t grows = per_token * n_ctx, fixed = needed > grows ? needed - grows : 0;
    if (per_token == 0 || room <= fixed) return 0;
    const uint64_t n = (room - fixed) / per_token / 256 * 256;
    return n < n_ctx ? (uint32_t)n : n_ctx;
}

/* The state is read before the first token has written it, so its bytes must be zero at position 0. */
bool state_begins_zero(const struct forge_state *state);

/* A hash of everything that decides the meaning of the saved bytes: model, weights, target, options, context and compiler.  Saved bytes
 * are valid only for programs with the same value. */
static inline uint64_t state_identity(const struct forge_program *p)
{
    const char *const texts[] = { p->model_hash, p->weights_hash, p->target, p->options, p->compiler };
    uint64_t identity = p->n_ctx;
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint64_t n = 0;
        while (texts[i] && texts[i][n] != 0) n++;
        identity = identity * 0x9e3779b97f4a7c15u + forge_xxh3(texts[i], n);
    }
    return identity;
}

#endif
