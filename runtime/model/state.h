/* state.h -- questions to the states of a program: which bytes a number of positions needs, and whether tokens can be forgotten.
 * Everything that saves, copies, clears or rewinds a sequence asks here. */
#ifndef FORGE_STATE_H
#define FORGE_STATE_H

#include <stdbool.h>

#include "abi.h"

/* What n_past positions have written of a state: n pieces of so many bytes, stride apart, the first at offset of the sequence's memory. */
struct state_runs { uint64_t offset, n, stride, bytes; };
struct state_runs state_runs(const struct forge_state *state, uint32_t n_past);

/* The bytes of all these pieces of all states. */
uint64_t state_used_bytes(const struct forge_program *program, uint32_t n_past);

/* Can a sequence of n_past tokens go on as one of its first `to`?  Where not, the caller begins at 0 and computes them again. */
bool state_rewinds(const struct forge_program *program, uint32_t n_past, uint32_t to);

/* It is read before the first token has written it, so at position 0 its bytes have to be zero. */
bool state_begins_zero(const struct forge_state *state);

#endif
