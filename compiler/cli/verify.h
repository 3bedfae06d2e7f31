/* verify.h -- a built program against the plain reading of its model. */
#ifndef FORGEC_VERIFY_H
#define FORGEC_VERIFY_H
#include "compiler/build/build.h"

struct verify_options {
    struct build_options build;
    uint32_t n_tokens;            /* random tokens; 0: 320, of large models down to 32 (simulated: 8), or what the context holds */
    bool     simulate;            /* AMD GPUs: in the simulator (docs/simulator.md) */
    uint64_t seed;
    bool     json;
};
/* Builds, runs and prints a report to stdout.  0 when every target is within its bounds, else 1.  Dies when it cannot build or run. */
int verify(struct arena *a, const struct verify_options *o);
#endif
