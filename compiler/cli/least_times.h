/* least_times.h -- the least time that each part of an AMD chip takes for what the simulator counted (docs/simulator.md): no
 * measurement. */
#ifndef FORGEC_LEAST_TIMES_H
#define FORGEC_LEAST_TIMES_H
#include "counters.h"
#include "compiler/base/profile.h"

enum pipe { PIPE_MATRIX, PIPE_VECTOR, PIPE_LDS, PIPE_MEMORY, PIPE_LAUNCH, N_PIPES };
extern const char *const pipe_name[N_PIPES];      /* "matrix", "vector", "LDS", "memory", "launch" */

/* Of one kernel.  Groups of a launch are taken to be alike, and to be spread over the chip as evenly as they go. */
struct kernel_times {
    const struct kernel_counters *counted;
    double   launches;                /* of a step */
    double   groups;                  /* of a launch */
    double   fill;                    /* waves of the mean SIMD, of those of the busiest: 0 to 1 */
    double   us[N_PIPES];             /* of a launch, the mean of them */
    double   least_us;                /* of a launch: the largest of us */
    enum pipe bound;                  /* which that is */
    uint32_t simd_waves;              /* that registers leave room for on a SIMD */
    uint32_t resident;                /* groups that a compute unit (RDNA: a WGP) holds at once */
};
/* Of a step: a prompt, or a token. */
struct step_times {
    struct kernel_times *kernels;     /* [n_kernels] */
    uint32_t    n_kernels;
    double      steps;                /* that were counted */
    double      launches, least_us;   /* of a step: all launches, one after another */
    const char *missing;              /* key that p lacks, "rates: clock": then nothing else is set; NULL: none */
};
/* c: of so many steps, > 0.  c must live as long as the result. */
struct step_times least_times(struct arena *a, const struct profile *p, const struct counters *c, double steps);
/* A table on stdout under the line "TITLE: N launches, at least ... us". */
void least_times_print(const char *title, const struct step_times *t);
/* The sentences that explain the columns, once behind all tables. */
void least_times_explain(const struct profile *p);

struct cJSON;
/* An object of that name: keys in docs/simulator.md. */
void least_times_json(struct cJSON *parent, const char *name, const struct step_times *t);
#endif
