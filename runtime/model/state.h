/* state.h -- questions to the states of a program: which bytes a number of positions needs, and whether tokens can be forgotten.
 * Everything that saves, copies, clears or rewinds a sequence asks here.  Where several GPUs share a model, each has a part of the states,
 * by the table of its own program; all of them together are the sequence's. */
#ifndef FORGE_STATE_H
#define FORGE_STATE_H

#include <stdbool.h>

#include "abi.h"
#include "xxh3.h"

/* GPUs that share the model, and the program of each. */
static inline uint32_t program_ranks(const struct forge_program *p) { return p->gpu && p->gpu->n_ranks > 1 ? p->gpu->n_ranks : 1; }
static inline const struct forge_program *program_of_rank(const struct forge_program *p, uint32_t rank)
{
    return program_ranks(p) > 1 ? p->gpu->ranks[rank] : p;
}

/* Bytes of weights, of all of them together. */
static inline uint64_t program_weights_bytes(const struct forge_program *p)
{
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < program_ranks(p); rank++) bytes += program_of_rank(p, rank)->weights_bytes;
    return bytes;
}

/* Bytes of weights that a token reads one after the other, and of states for every token before it: of GPUs in a row those of all; where
 * GPUs read side by side, those of the first. */
static inline uint64_t program_read_bytes(const struct forge_program *p)
{
    uint64_t bytes = p->read_bytes;
    for (uint32_t rank = 1; rank < program_ranks(p) && p->gpu->in_row; rank++) bytes += program_of_rank(p, rank)->read_bytes;
    return bytes;
}
static inline uint64_t program_bytes_per_token(const struct forge_program *p)
{
    uint64_t bytes = p->state_bytes_per_token;
    for (uint32_t rank = 1; rank < program_ranks(p) && p->gpu->in_row; rank++) bytes += program_of_rank(p, rank)->state_bytes_per_token;
    return bytes;
}

/* What n_past positions have written of a state: n pieces of so many bytes, stride apart, the first at offset of the sequence's memory. */
struct state_runs { uint64_t offset, n, stride, bytes; };
struct state_runs state_runs(const struct forge_state *state, uint32_t n_past);

/* The bytes of all these pieces of all states, of all ranks. */
uint64_t state_used_bytes(const struct forge_program *program, uint32_t n_past);

/* Can a sequence of n_past tokens go on as one of its first `to`?  n_written >= n_past: the most tokens it ever had since it was empty,
 * those taken back and those of steps that nobody waited for among them.  to = n_past: is what it has still whole?  Where the answer is no,
 * the caller begins at 0 and computes them again. */
bool state_rewinds(const struct forge_program *program, uint32_t n_written, uint32_t n_past, uint32_t to);

/* Steps that may run beyond a position to which the sequence has to come back: UINT32_MAX, where the program has no limit. */
uint32_t state_back(const struct forge_program *program);

/* The longest context, in whole 256 tokens, with which a program that needs so many bytes for n_ctx, per_token of them for each of these,
 * takes at most `room`; 0: none. */
static inline uint32_t state_fits(uint64_t needed, uint64_t per_token, uint32_t n_ctx, uint64_t room)
{
    const uint64_t grows = per_token * n_ctx, fixed = needed > grows ? needed - grows : 0;
    if (per_token == 0 || room <= fixed) return 0;
    const uint64_t n = (room - fixed) / per_token / 256 * 256;
    return n < n_ctx ? (uint32_t)n : n_ctx;
}

/* It is read before the first token has written it, so at position 0 its bytes have to be zero. */
bool state_begins_zero(const struct forge_state *state);

/* What decides the meaning of these bytes: model, weights, target, options, context and compiler.  Kept bytes are for programs of which
 * this is the same. */
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
