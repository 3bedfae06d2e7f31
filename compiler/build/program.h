/* program.h -- programs built into a private directory, run, and removed: what verify and compare stand on. */
#ifndef FORGEC_PROGRAM_H
#define FORGEC_PROGRAM_H
#include "build.h"

/* A directory of this process alone under $TMPDIR or /tmp; it and its files vanish with workplace_close, die() and signals. */
struct workplace;
struct workplace *workplace_open(struct arena *a);
void              workplace_close(struct workplace *w);
/* A path in it, for a file that goes with it.  name: unique. */
const char       *workplace_path(struct arena *a, struct workplace *w, const char *name);

/* Removes one of its files now. */
void              workplace_remove(struct workplace *w, const char *path);

/* How programs of a target run here. */
struct runner {
    const char *target;
    const char *emulator;         /* "qemu-aarch64", or NULL: directly */
    const char *on;               /* a shell command that runs what follows it, on another machine perhaps: "ssh box"; or NULL */
    const char *sysroot;          /* for its dynamic linker, or NULL */
    const char *simulator;        /* libgfxsim.so, in the place of AMD's HIP library; or NULL */
    const char *counters;         /* simulator: file it writes its counters to, or NULL */
    uint32_t    sample;           /* simulator: groups that run of a kernel with matrix instructions, for counters alone; 0: all */
    const char *chips;            /* simulator: the chip, or those of GPUs that share the model, "gfx1100,gfx1151" */
    const char *channels;         /* simulator: of its memory, "16,256,65536" (simulator/channels.c), or NULL */
    bool        embeds;           /* programs are of a model of embeddings: it gives rows in the place of logits */
};
/* Dies saying what is missing when such programs can run here neither directly nor, if emulation is true, in an emulator
 * (of another machine's CPU: there is none of GPUs). */
struct runner runner_find(struct arena *a, const struct profile *p, bool emulation);
/* In the simulator of AMD GPUs (docs/simulator.md).  Dies for other targets, and where the simulator is not installed. */
struct runner runner_simulate(struct arena *a, const struct build_options *o, const struct profile *p);

/* Builds with options but for the place, name and closing line.  name: unique in the workplace.  Returns the path. */
const char *program_build(struct arena *a, struct workplace *w, const struct build_options *options, const char *name);
/* Runs path with the arguments (NULL-terminated) and returns what it wrote to stdout; dies with its message when it fails. */
struct bytes program_run(struct arena *a, const struct runner *r, const char *path, const char *const *arguments);
/* The same, but that a failure is no end: false, and *why says in one line what it was. */
bool program_try(struct arena *a, const struct runner *r, const char *path, const char *const *arguments, struct bytes *out,
                 const char **why);
/* A number that a program gave as JSON (cJSON); dies when it is not there. */
struct cJSON;
double program_number(const struct cJSON *object, const char *key);
/* Logits after each of n tokens, or rows of embeddings, [n][columns] floats; extra: more arguments, NULL-terminated. */
const float *program_logits(struct arena *a, const struct runner *r, const char *path, const int32_t *tokens, uint32_t n, uint32_t columns,
                            const char *const *extra);
/* "1,2,3" */
const char *tokens_text(struct arena *a, const int32_t *tokens, uint32_t n);
/* n tokens below n_vocab; the same for the same seed everywhere. */
int32_t *tokens_random(struct arena *a, uint32_t n, uint32_t n_vocab, uint64_t seed);
#endif
