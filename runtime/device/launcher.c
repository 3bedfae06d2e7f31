/* launcher.c -- the environment variables that mpirun and srun set for their processes.  A shell inside a Slurm job also has many of
 * these variables, but it has no step, or a step with a single task: only srun sets SLURM_STEP_ID and the step's number of tasks.
 * mpirun of Open MPI or MPICH may start its processes through srun, so its own variables are checked first. */
#include "launcher.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct words { const char *name, *size, *rank, *local[3]; };
static const struct words launchers[] = {
    { "Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", { "OMPI_COMM_WORLD_LOCAL_RANK" } },
    { "MPI", "PMI_SIZE", "PMI_RANK", { "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID" } },
    { "Slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", { "SLURM_LOCALID" } },
};

/* True if the whole text is a number. */
static bool number_of(const char *text, uint32_t *out)
{
    enum { MOST_DIGITS = 9 };
    const size_t n = text ? strspn(text, "0123456789") : 0;
    if (n == 0 || n > MOST_DIGITS || text[n] != 0) return false;
    *out = (uint32_t)strtoul(text, NULL, 10);
    return true;
}

enum forge_status launcher_find(struct forge_launcher *out, struct forge_error *error)
{
    *out = (struct forge_launcher){ .n = 1 };
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct words *w = &launchers[i];
        const char *size = getenv(w->size), *rank = getenv(w->rank);
        if (!size || !rank || (strcmp(w->name, "Slurm") == 0 && !getenv("SLURM_STEP_ID"))) continue;
        if (!number_of(size, &out->n) || !number_of(rank, &out->rank) || out->n == 0 || out->rank >= out->n) {
            *out = (struct forge_launcher){ .n = 1 };
            return error_set(error, FORGE_USAGE, "%s=%.40s and %s=%.40s are not a number of processes and the rank of one of them",
                             w->size, size, w->rank, rank);
        }
        out->name = w->name;
        out->local = (uint32_t)LAUNCHER_NOT_TOLD;
        for (size_t k = 0; k < sizeof w->local / sizeof *w->local; k++)
            if (w->local[k] && number_of(getenv(w->local[k]), &out->local)) break;
        return FORGE_OK;
    }
    return FORGE_OK;
}
