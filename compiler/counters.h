/* counters.h -- what the simulator counted while a program ran (FORGE_GFXSIM_STATS, docs/simulator.md), over all its kernels. */
#ifndef FORGEC_COUNTERS_H
#define FORGEC_COUNTERS_H
#include "base.h"

struct counters {
    double launches;
    double instructions, valu, matrix;    /* of waves; valu: vector ALU with dot products and transcendentals; matrix: WMMA, MFMA */
    double idle_lanes;                    /* share of the lanes of vector instructions that were switched off, 0 to 1 */
    double loaded_bytes, stored_bytes;    /* by lanes, from and to device memory */
    double unique_bytes;                  /* of lines of 64 bytes read at least once in a launch: what has to come from memory when caches are cold */
    double line_bytes;                    /* of the lines of 128 bytes that loads of a wave touch: near loaded_bytes where lanes load side by side */
    double lds_accesses, lds_conflicts;   /* of waves; cycles that bank conflicts add */
    double loads_in_flight;               /* most of any wave before a wait */
};
/* Reads the file the simulator left; dies when it is not there or not as expected. */
struct counters counters_read(struct arena *a, const char *path);
#endif
