/* tune.h -- a search for the settings with which one model runs fastest on one machine (docs/tune.md). */
#ifndef FORGEC_TUNE_H
#define FORGEC_TUNE_H
#include "compiler/build/build.h"

enum { TUNE_SIZES = 3 };

struct tune_options {
    struct build_options build;
    const char *path;                     /* of the file of settings; NULL: tuned/TARGET-SHAPE-FORMATS.yaml */
    const char *on;                       /* a command that runs a program on another machine; NULL: this one */
    uint32_t    depths[TUNE_SIZES], n_depths;       /* tokens before the one that is decoded; none: 512 */
    uint32_t    prompts[TUNE_SIZES], n_prompts;     /* tokens of a prompt's step; none: 128 and 512 */
    uint32_t    rounds;                   /* of every comparison; 0: 3 */
    uint32_t    candidates;               /* most programs of a step of the search; 0: 10 */
    uint32_t    minutes;                  /* 0: 30 */
};
/* Prints what it finds and writes the file where there is something better than the planner's own.  0, also where there is not.
 * Dies when it cannot build or run. */
int tune(struct arena *a, const struct tune_options *o);
#endif
