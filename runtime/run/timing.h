/* timing.h -- how long each launch of a step takes when the step runs as usual: on a CPU by a clock that every thread reads, on a GPU by
 * events on the stream. */
#ifndef FORGE_TIMING_H
#define FORGE_TIMING_H
#include "engine.h"

/* Seconds in one step: at work, and (CPU) at the barrier after it; means over threads and steps.  spills: bytes of memory in which a
 * thread of the kernel keeps registers (device_spills). */
struct forge_timing { double work, wait; uint32_t spills; };

struct forge_timings {
    uint32_t n;                        /* launches of decode, on a GPU with the draw after them; or of prefill */
    struct forge_timing *launches;     /* [n], filled by `took`; a library has its own array */
    uint32_t n_threads;                /* CPU: */
    struct forge_timing *threads;      /* [n_threads], all launches together */
    double   step;                     /* the whole step without these clocks */
    uint32_t n_steps;                  /* measured */
    uint32_t n_rows;                   /* prefill step: tokens with logits */
    uint32_t each;                     /* GPU, decode, if `launches` is set: measure this many launches of each kernel, and use their
                                        * mean for the others; 0: measure all */
    double   least_seconds;            /* of each way of measuring, where the number of steps is not given */
    /* GPU: memory for clocks, n_clocks >= TIMING_CLOCKS_LEAST.  took receives seconds of launch i of a step, to be added up. */
    void   **events;                   /* [n_clocks] */
    double  *seconds;                  /* [n_clocks] */
    uint32_t n_clocks;
    void   (*took)(struct forge_timings *timings, uint32_t i, double seconds);
};
enum { TIMING_CLOCKS_LEAST = 48 };

/* Measures steps of n tokens after those of the sequence, which must be the engine's first; n 1: decode.  steps: how many in each way of
 * measuring; 0: as many as take timings->least_seconds.  timings: all members except `each` and `least_seconds` are set here.
 * tokens: [n_ctx]; logits: [n_vocab].  The caller must reset the sequence afterwards, and call timings_free even after a failure. */
enum forge_status timings_take(struct forge_timings *timings, struct forge_sequence *q, const int32_t *tokens, uint32_t n, uint32_t steps,
                               float *logits, struct forge_error *error);
void timings_free(struct forge_timings *timings);
#endif
