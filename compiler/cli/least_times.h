/* least_times.h -- lower bounds of the time that each part of an AMD chip needs for the simulator's counts (docs/simulator.md). They are
 * computed, not measured. */
#ifndef FORGEC_LEAST_TIMES_H
#define FORGEC_LEAST_TIMES_H
#include "counters.h"
#include "compiler/base/target.h"

enum pipe { PIPE_MATRIX, PIPE_VECTOR, PIPE_LDS, PIPE_MEMORY, PIPE_LAUNCH, N_PIPES };
extern const char *const pipe_name[N_PIPES];      /* "matrix", "vector", "LDS", "memory", "launch" */

/* Times of one kernel. The workgroups of a launch are assumed to be equal and spread over the chip as evenly as possible. */
struct kernel_times {
    const struct kernel_counters *counted;
    double   launches;                /* per step */
    double   groups;                  /* workgroups per launch */
    double   fill;                    /* waves of the mean SIMD / waves of the busiest SIMD: 0 to 1 */
    double   us[N_PIPES];             /* per launch, mean over the launches */
    double   least_us;                /* per launch: the largest of us */
    enum pipe bound;                  /* the pipe with that time */
    uint32_t simd_waves;              /* waves of a SIMD for which there are registers */
    uint32_t resident;                /* workgroups that a compute unit (RDNA: a WGP) holds at once */
};
/* Times of a step: a prompt, or a token. */
struct step_times {
    struct kernel_times *kernels;     /* [n_kernels] */
    uint32_t    n_kernels;
    double      steps;                /* number of steps counted */
    double      launches, least_us;   /* per step: all launches, one after another */
    const char *missing;              /* key that p lacks, "rates: clock": then nothing else is set; NULL: none is missing */
};
/* c: counters of `steps` > 0 steps. c must live as long as the result. */
struct step_times least_times(struct arena *a, const struct target *p, const struct counters *c, double steps);
/* Prints a table to stdout under the line "TITLE: N launches, at least ... us". */
void least_times_print(const char *title, const struct step_times *t);
/* Prints the sentences that explain the columns; once, after all tables. */
void least_times_explain(const struct target *p);

struct cJSON;
/* Adds an object `name` to parent: keys in docs/simulator.md. */
void least_times_json(struct cJSON *parent, const char *name, const struct step_times *t);
#endif
