/* cost.h -- how long a kernel takes, predicted: one model for plans, for searches among settings, and for the fit of its constants to
 * measured kernels.
 *
 *   t = start + max(chain, bytes x uneven / (bandwidth x share), compute)
 *
 * start: what a launch adds to any kernel; chain: the least that its chain of dependent accesses takes; share: of the bandwidth, less
 * where fewer bytes are asked for at once than a latency wants (Little's law), and where rows begin a multiple of the target's `stride`
 * apart.  Constants: `prediction` of targets/NAME.yaml (docs/target.md).  Predictions, never measurements. */
#ifndef FORGEC_COST_H
#define FORGEC_COST_H
#include "compiler/plan/plan.h"

/* What a launch has to do.  Bytes are what memory must give, caches cold. */
struct cost_work {
    enum prediction_kind kind;
    double bytes;
    double in_flight;       /* bytes of all groups together that are asked for at once; 0: not known, taken as enough */
    double stride;          /* bytes from a row to the next; 0: not known, or none */
    double uneven;          /* bytes of the busiest compute unit over the mean, >= 1; 0 as 1 */
    double compute_us;      /* of the busiest compute unit; 0: not known */
};
/* Microseconds; 0: the target states no bandwidth. */
double cost_micros(const struct profile *t, const struct cost_work *w);

/* The work of a launch of p's kernel k.  n_past: tokens before the step's first; tokens: of the step, 1 in decode. */
struct cost_work cost_work_of(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);
/* Bytes of states that it reads behind n_past tokens, `tokens` of the step included: of keys and values those of the positions. */
double cost_state_bytes(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);
double cost_kernel_micros(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);
/* What a launch adds beside its kernel's time. */
double cost_between_micros(const struct profile *t);

/* A whole step, its launches one after another: of one token through decode with the draw of the next (prefill false), or of `tokens`
 * tokens of a prompt. */
double cost_step_micros(const struct plan *p, bool prefill, uint32_t tokens, uint32_t n_past);
/* Does the launch run in a step of so many tokens? */
bool   cost_runs(const struct kernel *k, uint32_t tokens);
#endif
