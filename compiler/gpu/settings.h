/* settings.h -- what the kernels of a plan for a GPU could be made with instead: candidates for `forgec tune`, by predicted time. */
#ifndef FORGEC_GPU_SETTINGS_H
#define FORGEC_GPU_SETTINGS_H
#include "compiler/plan/plan.h"

/* Decode's products in three steps, each of which keeps what the ones before it found; attention of decode too, whose second are splits and
 * spans and whose third rows in flight, the unit that multiplies and positions of a span; that of prefill and its products with the
 * first. */
enum settings_step { SETTINGS_GROUPS /* threads and groups */, SETTINGS_ROWS /* rows and lanes */, SETTINGS_DEPTH, SETTINGS_STEPS };
extern const char *const settings_step_name[SETTINGS_STEPS];

struct settings { struct kernel_choice *list; uint32_t n; };

/* What kernel k was planned with: all of its free parameters, but LEAST and MOST of prefill's products; groups are the caller's to set. */
struct kernel_choice settings_planned(const struct kernel *k);
/* Others for it, the shortest prediction first, at most `most` of them, none that is predicted to take over 1.3 times the least or what
 * `now` takes, whichever is longer.  now: what it is made with so far.  tokens, n_past: of the step to predict (compiler/plan/cost.h). */
struct settings settings_of(struct arena *a, const struct plan *p, const struct kernel *k, const struct kernel_choice *now,
                            enum settings_step step, uint32_t tokens, uint32_t n_past, uint32_t most);
#endif
