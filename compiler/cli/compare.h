/* compare.h -- compares programs of several models, targets and options: speed, launches, bytes, and whether they compute the same. */
#ifndef FORGEC_COMPARE_H
#define FORGEC_COMPARE_H
#include "candidates.h"
#include "compiler/build/build.h"

enum compare_format { COMPARE_MD, COMPARE_JSON, COMPARE_HTML };

/* One program of a comparison; the others are compared with the first. */
struct compare_program { struct combination is; struct build_options build; };

struct compare_options {
    const struct compare_program *programs;       /* [n_programs] */
    uint32_t n_programs;          /* 1 to CANDIDATES_MOST */
    uint32_t n_prompt, n_gen;     /* 0: 128 and 64, or what fits in the smallest context */
    uint32_t rounds;              /* 0: one more than needed to show a difference (pairs_least) */
    double   min_time;            /* seconds of decode, and of prompts, per program and round; 0: 0.5 */
    uint32_t n_threads;           /* 0: the program's default */
    enum compare_format format;
    const char *path;             /* file of the report; NULL: standard output */
    bool     simulate;            /* AMD GPUs: counters of the simulator instead of times; n_prompt and n_gen 0: 8 each */
    uint32_t sample;              /* with simulate: workgroups per launch that run of the prompt's matrix kernels; then the prompt's logits
                                   * are not compared, and n_gen 0 means 1; 0: all workgroups */
};
/* Builds the programs, measures them in turn (pairs.h) or counts, and prints a report to stdout or writes it to the file. Returns 0; dies
 * if it cannot build or run. */
int compare(struct arena *a, const struct compare_options *o);
#endif
