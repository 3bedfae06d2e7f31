/* tune.h -- searches for the settings with which one model runs fastest on one machine (docs/tune.md). */
#ifndef FORGEC_TUNE_H
#define FORGEC_TUNE_H
#include "compiler/build/build.h"

enum { TUNE_SIZES = 3 };

struct tune_options {
    struct build_options build;
    const char *path;                     /* path of the file of settings; NULL: tuned/TARGET-SHAPE-FORMATS.yaml */
    const char *on;                       /* a command that runs a program on another machine; NULL: run on this machine */
    uint32_t    depths[TUNE_SIZES], n_depths;       /* tokens before the decoded token; n_depths 0: 512 */
    uint32_t    prompts[TUNE_SIZES], n_prompts;     /* tokens of a prompt's step; n_prompts 0: 128 and 512 */
    uint32_t    rounds;                   /* rounds of every comparison; 0: 3 */
    uint32_t    candidates;               /* maximum number of programs in a step of the search; 0: 10 */
    uint32_t    minutes;                  /* time limit; 0: 30 */
};
/* Prints what it finds, and writes the file if it finds something better than the planner's own settings, or if `path` is given: a build
 * with the file then uses those. Returns 0 in all cases. Dies if it cannot build or run. */
int tune(struct arena *a, const struct tune_options *o);
#endif
