/* about.h -- what an emitted source says of its model: sizes, states, weights, what each kernel reads, the order of the launches.
 * Comments alone. */
#ifndef FORGEC_SOURCE_ABOUT_H
#define FORGEC_SOURCE_ABOUT_H
#include "compiler/plan/plan.h"

/* The section "the model": its layers and their attention, the state of a sequence, the weight image. */
void about_model(struct arena *a, struct text *t, const struct plan *p);
/* "layers 0-7, 8 launches, 139264 bytes of weights, 0.66 us of reading": of kernel k of the plan. */
const char *about_kernel(struct arena *a, const struct plan *p, uint32_t kernel);
/* The section "launches" of a source whose tables stand elsewhere: names in order, layers of the same launches together. */
void about_launches(struct arena *a, struct text *t, const struct plan *p);
#endif
