/* spawn.h -- runs other programs (clang, lld) by argv, never through a shell, several at once.
 * Input, output and messages go through anonymous memory files: nothing is on disk, and a signal leaves nothing to clean up. */
#ifndef FORGEC_SPAWN_H
#define FORGEC_SPAWN_H
#include "compiler/base/base.h"

struct spawn_options {
    uint32_t jobs;           /* maximum number of processes at once; 0: number of processors */
    bool     verbose;        /* -v: print each line to stderr before running it */
    bool     dry_run;        /* -###: print the lines, run nothing */
};

struct spawn_file { const char *name; struct bytes data; };     /* name: for people; need not exist */

struct spawn_job {
    const char *const       *argv;       /* NULL-terminated; argv[0] is looked up in PATH if it has no slash */
    const struct spawn_file *input;      /* standard input, or NULL for none */
    const struct spawn_file *files;      /* an argv[i] that is files[k].name (the same pointer) becomes a path to its data */
    size_t                   n_files;
    const char              *output_name;    /* for -v only: where standard output goes, may be NULL */
    bool                     is_tool;    /* a compiler or linker: it gets spawn_environment(), and a group of processes of its own */
    /* results */
    struct bytes             output;     /* standard output */
    const char              *messages;   /* standard error */
    int                      status;     /* exit code; 128 + signal; -1 if the program could not be started; -2 in a dry run */
    int                      start_errno;
};

/* Path of an executable file, looked up in PATH if name has no slash; NULL if there is no such file. */
const char *spawn_find(struct arena *a, const char *name);
/* Runs all jobs; returns when all have ended. Dies only if this process runs out of memory or descriptors. */
void spawn_run(struct arena *a, const struct spawn_options *options, struct spawn_job *jobs, size_t n_jobs);
/* The environment of tools, NULL-terminated: PATH and LD_LIBRARY_PATH unchanged, TMPDIR as tools_folder_path(), and LC_ALL=C. Variables
 * that add headers, libraries or options (CPATH, LIBRARY_PATH, CCC_OVERRIDE_OPTIONS, ...) are left out, because they would change bytes
 * that the cache then returns in other environments. */
char **spawn_environment(struct arena *a);
/* argv as a line that can be pasted into a shell. */
const char *spawn_line(struct arena *a, const struct spawn_job *job);
#endif
