/* trial.h -- programs with other settings than the planner's own. They are built in parallel and run here or through a command. Every
 * measured number is kept in a file, so that an interrupted search can continue where it stopped. */
#ifndef FORGEC_TRIAL_H
#define FORGEC_TRIAL_H
#include "compiler/build/program.h"

/* A program; its memory belongs to the arena. */
struct trial {
    const char *yaml;             /* its settings: the text of a file for `--tuned`; NULL: the planner's own settings */
    const char *key;              /* key of its numbers: a hash of yaml */
    const char *file;             /* file with these settings, or NULL */
    const char *path;             /* path of the program; NULL: the build failed */
    const char *why_not;          /* if the build failed: its message */
};

struct trials;
/* options: of the build; each trial is built by its own forgec process with them. runner: how programs run. log_path: the file of numbers.
 * head: one line that says what was measured; a file with another head is overwritten. w: holds the programs until they are dropped. */
struct trials *trials_open(struct arena *a, const struct build_options *options, const struct runner *runner, struct workplace *w,
                           const char *log_path, const char *head);
/* The number of measurements that the file already had. */
uint32_t trials_known(const struct trials *t);
/* Builds n trials from their yaml; sets key, path and why_not. A program is built even if it need not run because the file already has all
 * its numbers. */
void trials_build(struct trials *t, struct trial *list, uint32_t n);
/* Removes their programs. */
void trials_drop(struct trials *t, struct trial *list, uint32_t n);
/* Gets the numbers of a measurement (milliseconds, speeds, ...), from the file if it has them, else from take(context, trial, values, n).
 * what: names the measurement ("decode 512 round 0"); values: [n]. False: the program failed, which is also kept in the file. */
typedef bool take_values(void *context, const struct trial *trial, double *values, uint32_t n);
bool trials_measure(struct trials *t, const struct trial *trial, const char *what, double *values, uint32_t n, take_values *take,
                    void *context);
/* Removes the file, when it is no longer needed. */
void trials_forget(struct trials *t);
#endif
