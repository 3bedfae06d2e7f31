/* cost.h -- predicts how long a kernel takes. Plans, searches among settings and the fit of the constants to measured kernels use the same
 * model:
 *
 *   t = start + row x cols + max(chain, bytes x uneven / (bandwidth x share), operations x uneven / rate, clocks, issue)
 *
 * start: time that a launch adds to any kernel. row: time per column for the input that every workgroup prepares. chain: the least time of
 * a chain of dependent accesses. share: fraction of the bandwidth that the kernel gets; it is lower if fewer bytes are in flight than the
 * latency requires (Little's law) and if rows begin a multiple of the target's `stride` apart. clocks: time of prefill's tiles, as
 * estimated for their choice (gpu/tiles.h). issue: issue time of the vector ALU, counted in the machine code.
 * A kernel that moves fewer bytes than the smallest measured kernel of its kind: the time falls in proportion to the bytes, down to the
 * target's `launch`. Kinds without measured kernels have `launch` plus the sum above.
 *
 * The constants are `prediction` of targets/NAME.yaml (docs/target.md). The results are predictions, never measurements;
 * docs/performance.md gives their errors. */
#ifndef FORGEC_COST_H
#define FORGEC_COST_H
#include "compiler/plan/plan.h"

/* The work of a launch. A member that is 0 is absent or unknown and bounds nothing. */
struct cost_work {
    enum prediction_kind kind;
    double   bytes;         /* read from memory, with cold caches */
    double   in_flight;     /* bytes that all workgroups together have requested at once */
    double   stride;        /* bytes from a row to the next */
    double   uneven;        /* bytes of the busiest compute unit over the mean, >= 1 */
    uint32_t cols;          /* columns of the row that each workgroup prepares for itself */
    double   operations;    /* multiplications and additions */
    double   clocks_us;     /* microseconds, estimated from the target's rates */
    bool     copied;        /* its weights are copied to LDS unchanged */
    double   issue_us;      /* microseconds of the busiest compute unit */
};
/* Predicted microseconds; 0: the target states no bandwidth. */
double cost_micros(const struct target *t, const struct cost_work *w);

/* How far a prediction may be trusted. percent: mean error over measured kernels of the same kind that the constants were not fitted to;
 * negative: there are no such kernels. outside: the launch moves fewer bytes than any measured kernel. */
struct cost_trust { double percent; bool outside; };
struct cost_trust cost_trust(const struct target *t, const struct cost_work *w);
#define COST_TRUSTED 15.0         /* percent; reports mark predictions with a larger error */

/* The work of a launch of p's kernel k. tokens: tokens of the step, 1 in decode; n_past: tokens before the step's first one. */
struct cost_work cost_work_of(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);
/* Bytes, operations and microseconds of that launch. Bytes and operations are counted as by --profile: weights, and the positions that the
 * tokens attend. */
double cost_kernel_bytes(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);
double cost_kernel_operations(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);
double cost_kernel_micros(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);

/* Microseconds of a whole step, whose launches run one after another. prefill false: decode of one token with the sampling of the next;
 * true: `tokens` tokens of a prompt. issue_us: [n_kernels] as in cost_work, or NULL. */
double cost_step_micros(const struct plan *p, bool prefill, uint32_t tokens, uint32_t n_past, const double *issue_us);
#endif
