/* cost.h -- how long a kernel takes, predicted: one model for plans, for searches among settings, and for the fit of its constants to
 * measured kernels.
 *
 *   t = start + row x cols + max(chain, bytes x uneven / (bandwidth x share), operations x uneven / rate, clocks, issue)
 *
 * start: what a launch adds to any kernel; row: what every group does to prepare its input; chain: the least that a chain of dependent
 * accesses takes; share: of the bandwidth, less where fewer bytes are asked for at once than a latency wants (Little's law), and where
 * rows begin a multiple of the target's `stride` apart; clocks: of prefill's tiles, as estimated for their choice (gpu/tiles.h); issue: of
 * the vector ALU, counted in the machine code.  Below the smallest measured kernel of a kind the time falls in proportion to the bytes, to
 * the target's `launch`, which is also the start of kernels of which none was measured.
 *
 * Constants: `prediction` of targets/NAME.yaml (docs/target.md).  Predictions, never measurements; how far they are off:
 * docs/performance.md. */
#ifndef FORGEC_COST_H
#define FORGEC_COST_H
#include "compiler/plan/plan.h"

/* What a launch has to do.  Bytes are what memory must give, caches cold.  0: none, or not known, which then bounds nothing. */
struct cost_work {
    enum prediction_kind kind;
    double   bytes;
    double   in_flight;     /* bytes of all groups together that are asked for at once */
    double   stride;        /* bytes from a row to the next */
    double   uneven;        /* bytes of the busiest compute unit over the mean, >= 1 */
    uint32_t cols;          /* of the row that each group prepares for itself */
    double   operations;    /* multiplications and additions */
    double   clocks_us;     /* estimated for the target's rates */
    bool     copied;        /* its weights go to LDS as they are */
    double   issue_us;      /* of the busiest compute unit */
};
/* Microseconds; 0: the target states no bandwidth. */
double cost_micros(const struct profile *t, const struct cost_work *w);

/* How far a prediction may be trusted.  percent: mean error over measured kernels of its kind that the constants were not fitted to;
 * negative: there are none.  outside: it moves fewer bytes than any measured one. */
struct cost_trust { double percent; bool outside; };
struct cost_trust cost_trust(const struct profile *t, const struct cost_work *w);
#define COST_TRUSTED 15.0         /* percent: what is worse is said to be so */

/* The work of a launch of p's kernel k.  n_past: tokens before the step's first; tokens: of the step, 1 in decode. */
struct cost_work cost_work_of(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);
/* As --profile counts them, of weights and of the positions that the tokens attend. */
double cost_kernel_bytes(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);
double cost_kernel_operations(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);
double cost_kernel_micros(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);

/* A whole step, its launches one after another: of one token through decode with the draw of the next (prefill false), or of `tokens`
 * tokens of a prompt.  issue_us: [n_kernels] as in cost_work, or NULL. */
double cost_step_micros(const struct plan *p, bool prefill, uint32_t tokens, uint32_t n_past, const double *issue_us);
#endif
