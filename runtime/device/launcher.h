/* launcher.h -- was this process started as one of several by mpirun or srun?  Their environment variables tell. */
#ifndef FORGE_LAUNCHER_H
#define FORGE_LAUNCHER_H

#include <stdint.h>

#include "runtime/run/status.h"

/* local: number among the processes on this machine; LAUNCHER_NOT_TOLD if the launcher does not say. */
struct forge_launcher { const char *name; uint32_t n, rank, local; };
enum { LAUNCHER_NOT_TOLD = -1 };

/* n 1: the process is alone.  FORGE_USAGE: the variables contradict each other. */
enum forge_status launcher_find(struct forge_launcher *out, struct forge_error *error);

#endif
