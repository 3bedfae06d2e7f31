/* program.h -- builds programs into a private directory, runs and removes them; for verify, compare and tune. */
#ifndef FORGEC_PROGRAM_H
#define FORGEC_PROGRAM_H
#include "build.h"

/* A private directory of this process under $TMPDIR or /tmp. workplace_close, die() and signals remove it with its files. */
struct workplace;
struct workplace *workplace_open(struct arena *a);
void              workplace_close(struct workplace *w);
/* A path in the directory, for a file that is removed with it. name: unique. */
const char       *workplace_path(struct arena *a, struct workplace *w, const char *name);

/* Removes one of its files now. */
void              workplace_remove(struct workplace *w, const char *path);

/* How programs of a target run here. */
struct runner {
    const char *target;
    const char *emulator;         /* "qemu-aarch64", or NULL: directly */
    const char *on;               /* a shell command that runs the command after it, perhaps on another machine: "ssh box"; or NULL */
    const char *sysroot;          /* for the program's dynamic linker, or NULL */
    const char *simulator;        /* libgfxsim.so, used instead of AMD's HIP library; or NULL */
    const char *counters;         /* simulator: file for its counters, or NULL */
    uint32_t    sample;           /* simulator: workgroups to run of a kernel with matrix instructions, for counters only; 0: all */
    const char *chips;            /* simulator: the chip, or the chips of GPUs that share the model, "gfx1100,gfx1151" */
    const char *channels;         /* simulator: its memory channels, "16,256,65536" (simulator/channels.c), or NULL */
    bool        embeds;           /* the programs' model makes embeddings: rows instead of logits */
};
/* Finds out how programs for p run here: directly or, if emulation is true, in an emulator of another CPU (there are no emulators of GPUs).
 * Dies saying what is missing if neither works. */
struct runner runner_find(struct arena *a, const struct target *p, bool emulation);
/* Runs programs in the simulator of AMD GPUs (docs/simulator.md). Dies for other targets, and if the simulator is not installed. */
struct runner runner_simulate(struct arena *a, const struct build_options *o, const struct target *p);

/* Builds with the options, except for the output's place and name, and without the closing line. name: unique in the workplace. Returns the
 * path. */
const char *program_build(struct arena *a, struct workplace *w, const struct build_options *options, const char *name);
/* Runs path with the arguments (NULL-terminated) and returns its stdout; dies with its message if it fails. */
struct bytes program_run(struct arena *a, const struct runner *r, const char *path, const char *const *arguments);
/* The same, but does not die if the program fails: returns false, with the reason in one line in *why. */
bool program_try(struct arena *a, const struct runner *r, const char *path, const char *const *arguments, struct bytes *out,
                 const char **why);
/* A number in a program's JSON output; dies if it is absent. */
struct cJSON;
double program_number(const struct cJSON *object, const char *key);
/* Logits after each of n tokens, or rows of embeddings, [n][columns] floats; extra: more arguments, NULL-terminated. */
const float *program_logits(struct arena *a, const struct runner *r, const char *path, const int32_t *tokens, uint32_t n, uint32_t columns,
                            const char *const *extra);
/* "1,2,3" */
const char *tokens_text(struct arena *a, const int32_t *tokens, uint32_t n);
/* n pseudo-random tokens below n_vocab; equal seeds give equal tokens on every machine. */
int32_t *tokens_random(struct arena *a, uint32_t n, uint32_t n_vocab, uint64_t seed);
#endif
