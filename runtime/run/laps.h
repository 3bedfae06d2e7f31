/* laps.h -- what each launch of a step takes, in the step as it runs in use: on a CPU by a clock that every thread reads, on a GPU by
 * events on the stream. */
#ifndef FORGE_LAPS_H
#define FORGE_LAPS_H
#include "engine.h"

/* Seconds, of one step: at work, and (CPU) at the barrier behind it; means over the threads and over the steps.  spills: bytes of memory
 * that a thread of its kernel keeps registers in (device_spills). */
struct forge_lap { double work, wait; uint32_t spills; };

struct forge_laps {
    uint32_t n;                        /* launches: of decode, on a GPU with the draw behind them; of prefill */
    struct forge_lap *launches;        /* [n], of `took`; a library has its own */
    uint32_t n_threads;                /* CPU: */
    struct forge_lap *threads;         /* [n_threads], all launches together */
    double   step;                     /* the whole step without any of these clocks */
    uint32_t n_steps;                  /* measured */
    uint32_t n_rows;                   /* of a prefill step: tokens with logits */
    uint32_t each;                     /* GPU, decode, where `launches` is: of a kernel so many launches are measured, and the others count
                                        * as their mean; 0: all are */
    /* GPU: memory for clocks, n_clocks >= LAPS_CLOCKS_LEAST; where the seconds of launches go: some more of launch i of a step */
    void   **events;                   /* [n_clocks] */
    double  *seconds;                  /* [n_clocks] */
    uint32_t n_clocks;
    void   (*took)(struct forge_laps *laps, uint32_t i, double seconds);
};
enum { LAPS_CLOCKS_LEAST = 48 };

/* Measures steps of n tokens behind those of the sequence, its first; n 1: decode.  Each way so many steps; 0: as many as take
 * LAPS_SECONDS.  laps: but for `each` it is set anew.  tokens: [n_ctx]; logits: [n_vocab].  The sequence is to be reset afterwards.
 * laps_free also after a failure. */
#define LAPS_SECONDS 2.0
enum forge_status laps_take(struct forge_laps *laps, struct forge_sequence *q, const int32_t *tokens, uint32_t n, uint32_t steps,
                            float *logits, struct forge_error *error);
void laps_free(struct forge_laps *laps);
#endif
