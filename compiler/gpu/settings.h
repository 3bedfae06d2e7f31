/* settings.h -- other settings for the kernels of a GPU plan: candidates for `forgec tune`, ordered by predicted time. */
#ifndef FORGEC_GPU_SETTINGS_H
#define FORGEC_GPU_SETTINGS_H
#include "compiler/plan/plan.h"

/* Steps of the search; each one keeps the results of the earlier ones. Decode's products: as named below. Decode's attention: first threads
 * and groups, then splits and spans, then rows in flight, the unit that multiplies and positions of a span. Prefill's attention and
 * products: only the first step. */
enum settings_step { SETTINGS_GROUPS /* threads and groups */, SETTINGS_ROWS /* rows and lanes */, SETTINGS_DEPTH, SETTINGS_STEPS };
extern const char *const settings_step_name[SETTINGS_STEPS];

struct settings { struct kernel_choice *list; uint32_t n; };

/* The settings with which kernel k was planned: all free parameters except LEAST and MOST of prefill's products. The caller sets groups. */
struct kernel_choice settings_planned(const struct kernel *k);
/* At most `most` other settings for k, the shortest predicted time first. now: its settings so far. Settings are left out if their
 * predicted time is over 1.3 times the least one and also over that of `now`. tokens, n_past: the step to predict (see cost_work_of). */
struct settings settings_of(struct arena *a, const struct plan *p, const struct kernel *k, const struct kernel_choice *now,
                            enum settings_step step, uint32_t tokens, uint32_t n_past, uint32_t most);
#endif
