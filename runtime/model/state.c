/* state.c -- which bytes of a sequence's memory are in use, by the program's table of states.  Needs no libc, because libraries use it
 * too. */
#include "state.h"

struct state_runs state_runs(const struct forge_state *s, uint32_t n_past)
{
    if (n_past == 0) return (struct state_runs){ s->offset, 0, 0, 0 };
    if (s->row_bytes == 0) return (struct state_runs){ s->offset, 1, s->bytes, s->bytes };
    const uint64_t whole = ((uint64_t)n_past + FORGE_STATE_ROWS - 1) / FORGE_STATE_ROWS * FORGE_STATE_ROWS;
    const uint64_t rows = whole < s->rows ? whole : s->rows;
    return (struct state_runs){ s->offset, s->runs, s->rows * s->row_bytes, rows * s->row_bytes };
}

uint64_t state_used_bytes(const struct forge_program *p, uint32_t n_past)
{
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < program_ranks(p); rank++) {
        const struct forge_program *part = program_of_rank(p, rank);
        for (uint32_t i = 0; i < part->n_states; i++) {
            const struct state_runs r = state_runs(&part->states[i], n_past);
            bytes += r.n * r.bytes;
        }
    }
    return bytes;
}

/* A ring has the last `rows` of the positions written; before it has wrapped, it has all of them. */
static bool rewinds(const struct forge_state *s, uint32_t n_written, uint32_t to)
{
    return n_written - to <= s->back || (s->kind == FORGE_STATE_RING && n_written <= s->rows);
}

bool state_rewinds(const struct forge_program *p, uint32_t n_written, uint32_t n_past, uint32_t to)
{
    if (to == 0 || to > n_past) return to <= n_past;
    for (uint32_t rank = 0; rank < program_ranks(p); rank++) {
        const struct forge_program *part = program_of_rank(p, rank);
        for (uint32_t i = 0; i < part->n_states; i++)
            if (!rewinds(&part->states[i], n_written, to)) return false;
    }
    return true;
}

uint32_t state_back(const struct forge_program *p)
{
    uint32_t back = UINT32_MAX;
    for (uint32_t rank = 0; rank < program_ranks(p); rank++) {
        const struct forge_program *part = program_of_rank(p, rank);
        for (uint32_t i = 0; i < part->n_states; i++)
            if (part->states[i].back < back) back = part->states[i].back;
    }
    return back;
}

bool state_begins_zero(const struct forge_state *s) { return s->kind == FORGE_STATE_RECURRENT || s->kind == FORGE_STATE_CONV; }
