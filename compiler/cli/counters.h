/* counters.h -- what the simulator counted while a program ran (FORGE_GFXSIM_STATS, docs/simulator.md). */
#ifndef FORGEC_COUNTERS_H
#define FORGEC_COUNTERS_H
#include "compiler/base/profile.h"

/* Of one kernel, summed over its launches; instructions are of waves. */
struct kernel_counters {
    const char *name;
    double   launches, groups, waves;
    struct grids { double groups, launches; } *grids;         /* [n_grids] groups that a launch had, and launches that had so many */
    uint32_t n_grids;
    uint32_t wave, group_waves;           /* lanes of a wave; waves of a group */
    uint32_t registers, lds_bytes;        /* VGPRs and AccVGPRs that a wave gets; LDS of a group */
    uint32_t scratch_bytes;               /* of a lane */
    bool     pair;                        /* RDNA: a group's waves use both compute units of a WGP */
    double   instructions, valu, transcendental, dot, matrix;             /* valu: without the other two; it has multiply, f64 and acc_moves
                                                                           * in it */
    double   multiply, f64, acc_moves;    /* 32-bit multiplications; f64, some of which are transcendentals; v_accvgpr_* */
    double   nops, waits, barriers, scratch;                  /* wait states of s_nop; s_waitcnt; s_barrier; accesses */
    double   matrix_flop[N_MATRIX_FORMATS];
    double   lds_accesses, lds_moves;     /* lds_moves: ds_bpermute and the like */
    double   lds_cycles, lds_conflicts;   /* of 32 banks: the least, and what conflicts add */
    double   loaded_bytes, stored_bytes, unique_bytes;        /* as below; unique_bytes of a sample: of the groups that ran */
    double   loads_in_flight, loop_loads_in_flight;           /* most of any wave before a wait; before a wait in a loop */
    double   channel_bytes, channel_busiest;                  /* of loads under way at the same time: all, and times the channels those of
                                                               * the busiest one; 0: not counted */
    struct { double instructions, matrix, nops, acc_moves, scratch; } loop;     /* as they stand in loops of the code, each once */
    bool     sampled;                     /* not all of its groups ran; the rest is scaled */
};

/* Over all kernels. */
struct counters {
    double launches;
    double instructions, valu, matrix;    /* of waves; valu: vector ALU with dot products and transcendentals; matrix: WMMA, MFMA */
    double idle_lanes;                    /* share of the lanes of vector instructions that were switched off, 0 to 1 */
    double loaded_bytes, stored_bytes;    /* by lanes, from and to device memory */
    double unique_bytes;                  /* of lines of 64 bytes read at least once in a launch: what has to come from memory when caches
                                           * are cold */
    double line_bytes;                    /* of the lines of 128 bytes that loads of a wave touch: near loaded_bytes where lanes load side
                                           * by side */
    double lds_accesses, lds_conflicts;   /* of waves; cycles that bank conflicts add */
    double loads_in_flight;               /* most of any wave before a wait */
    double channel_bytes, channel_busiest;
    struct kernel_counters *kernels;      /* [n_kernels], in the order of their first launches */
    uint32_t n_kernels;
};
/* Of loads that are under way at the same time: the busiest channel of memory to the mean one, from 1 to the number of channels; 0: the
 * target names no channels, or only a sample of the groups ran. */
static inline double channel_imbalance(double bytes, double busiest) { return bytes > 0 ? busiest / bytes : 0; }
/* Reads the file the simulator left; dies when it is not there or not as expected. */
struct counters counters_read(struct arena *a, const char *path);
#endif
