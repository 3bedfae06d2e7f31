/* trial.h -- programs with other settings than the planner's own: made side by side, run here or through a command, and every number that
 * they gave kept in a file, so that a search which was interrupted goes on where it was. */
#ifndef FORGEC_TRIAL_H
#define FORGEC_TRIAL_H
#include "compiler/build/program.h"

/* A program; the arena's. */
struct trial {
    const char *yaml;             /* its settings, a file as `--tuned` reads; NULL: the planner's own */
    const char *key;              /* of the numbers it gave: a hash of that text */
    const char *file;             /* with those settings, or NULL */
    const char *path;             /* of the program; NULL: there is none */
    const char *why_not;          /* then the message of the build */
};

struct trials;
/* options: of the build; they are handed to a forgec of their own for each trial.  runner: how programs run.  log_path: the file
 * of numbers; head: what they are numbers of, one line: a file of another head is written anew.  w: where programs lie until they are
 * dropped. */
struct trials *trials_open(struct arena *a, const struct build_options *options, const struct runner *runner, struct workplace *w,
                           const char *log_path, const char *head);
/* What was in the file: how many measurements. */
uint32_t trials_known(const struct trials *t);
/* Sets key, path and why_not of n trials whose yaml is set.  Programs that need not run, since all is known that they were run for when the
 * file was written, are built all the same. */
void trials_build(struct trials *t, struct trial *list, uint32_t n);
/* Removes their programs. */
void trials_drop(struct trials *t, struct trial *list, uint32_t n);
/* Milliseconds, speeds, ..: `what` names a measurement ("decode 512 round 0"), values: [n].  Either from the file, or from
 * take(context, trial, values), whose false (the program failed) is kept as well.  False: it failed. */
typedef bool take_values(void *context, const struct trial *trial, double *values, uint32_t n);
bool trials_measure(struct trials *t, const struct trial *trial, const char *what, double *values, uint32_t n, take_values *take,
                    void *context);
/* The file is of no use any more. */
void trials_forget(struct trials *t);
#endif
