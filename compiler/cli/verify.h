/* verify.h -- compares a built program with the reference of its model. */
#ifndef FORGEC_VERIFY_H
#define FORGEC_VERIFY_H
#include "compiler/build/build.h"

struct verify_options {
    struct build_options build;
    uint32_t n_tokens;            /* random tokens; 0: 320, for large models down to 32 (simulated: 8), or as many as the context has */
    bool     simulate;            /* AMD GPUs: in the simulator (docs/simulator.md) */
    uint64_t seed;
    bool     json, quiet;         /* quiet: no progress */
};
/* Builds, runs and prints a report to stdout. 0 if every target is within its bounds, else 1. Dies if it cannot build or run. */
int verify(struct arena *a, const struct verify_options *o);
#endif
