/* compare.h -- the same model at several fusion levels: speed, launches, bytes, and that they compute the same. */
#ifndef FORGEC_COMPARE_H
#define FORGEC_COMPARE_H
#include "compiler/build/build.h"

struct compare_options {
    struct build_options build;
    enum fuse_level levels[2];
    uint32_t n_levels;            /* 0: none and layer */
    uint32_t n_prompt, n_gen;     /* 0: 128 and 64, or what the context holds */
    uint32_t rounds;              /* 0: 7 */
    double   min_time;            /* seconds that a program decodes, and reads prompts, in a round; 0: 0.5 */
    uint32_t n_threads;           /* 0: the program's default */
    bool     json;
    bool     simulate;            /* AMD GPUs: counters of the simulator instead of times; n_prompt and n_gen 0: 8 each */
    uint32_t sample;              /* with simulate: groups of the prompt's matrix kernels that run of a launch; its logits are not compared
                                   * then, and n_gen 0 is 1; 0: all */
};
/* Builds, measures in alternating rounds or counts, and prints a table to stdout.  Returns 0; dies when it cannot build or run. */
int compare(struct arena *a, const struct compare_options *o);
#endif
