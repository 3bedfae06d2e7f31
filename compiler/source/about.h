/* about.h -- the comments in an emitted source that describe its model: sizes, states, weights, the bytes that each kernel reads, the order
 * of the launches. */
#ifndef FORGEC_SOURCE_ABOUT_H
#define FORGEC_SOURCE_ABOUT_H
#include "compiler/plan/plan.h"

/* Appends the section "the model": layers and their attention, the state of a sequence, the weight image. */
void about_model(struct arena *a, struct text *t, const struct plan *p);
/* A description of kernel number `kernel` of the plan: "layers 0-7, 8 launches, 139264 bytes of weights, 0.66 us of reading". */
const char *about_kernel(struct arena *a, const struct plan *p, uint32_t kernel);
/* Appends the section "launches", for a source without launch tables: names in order; layers with the same launches share a line. */
void about_launches(struct arena *a, struct text *t, const struct plan *p);
#endif
