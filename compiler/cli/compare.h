/* compare.h -- programs of several models, targets and options: speed, launches, bytes, and that they compute the same. */
#ifndef FORGEC_COMPARE_H
#define FORGEC_COMPARE_H
#include "candidates.h"
#include "compiler/build/build.h"

enum compare_format { COMPARE_MD, COMPARE_JSON, COMPARE_HTML };

/* The first program is the one that the others are held against. */
struct compare_program { struct combination is; struct build_options build; };

struct compare_options {
    const struct compare_program *programs;       /* [n_programs] */
    uint32_t n_programs;          /* 1 to CANDIDATES_MOST */
    uint32_t n_prompt, n_gen;     /* 0: 128 and 64, or what the smallest context holds */
    uint32_t rounds;              /* 0: one more than tell a difference (pairs_least) */
    double   min_time;            /* seconds that a program decodes, and reads prompts, in a round; 0: 0.5 */
    uint32_t n_threads;           /* 0: the program's default */
    enum compare_format format;
    bool     simulate;            /* AMD GPUs: counters of the simulator instead of times; n_prompt and n_gen 0: 8 each */
    uint32_t sample;              /* with simulate: groups of the prompt's matrix kernels that run of a launch; its logits are not compared
                                   * then, and n_gen 0 is 1; 0: all */
};
/* Builds, measures in turns (pairs.h) or counts, and prints a report to stdout.  Returns 0; dies when it cannot build or run. */
int compare(struct arena *a, const struct compare_options *o);
#endif
