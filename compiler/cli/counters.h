/* counters.h -- counters of the simulator for a program's run (FORGE_GFXSIM_STATS, docs/simulator.md). */
#ifndef FORGEC_COUNTERS_H
#define FORGEC_COUNTERS_H
#include "compiler/base/target.h"

/* Counters of one kernel, summed over its launches. Instructions are counted per wave. */
struct kernel_counters {
    const char *name;
    double   launches, groups, waves;
    struct grids { double groups, launches; } *grids;         /* [n_grids] workgroups of a launch, and number of launches of that size */
    uint32_t n_grids;
    uint32_t wave, group_waves;           /* lanes of a wave; waves of a workgroup */
    uint32_t registers, lds_bytes;        /* VGPRs and AccVGPRs of a wave; LDS of a workgroup */
    uint32_t scratch_bytes;               /* of a lane */
    bool     pair;                        /* RDNA: the waves of a workgroup use both compute units of a WGP */
    double   instructions, valu, transcendental, dot, matrix;             /* valu excludes transcendental and dot; it includes multiply,
                                                                           * f64 and acc_moves */
    double   multiply, f64, acc_moves;    /* 32-bit multiplications; f64 (including f64 transcendentals); v_accvgpr_* */
    double   nops, waits, barriers, scratch;                  /* wait states of s_nop; s_waitcnt; s_barrier; accesses */
    double   matrix_flop[N_MATRIX_FORMATS];
    double   lds_accesses, lds_moves;     /* lds_moves: ds_bpermute and the like */
    double   lds_cycles, lds_conflicts;   /* with 32 banks: the minimum of cycles, and cycles added by conflicts */
    double   loaded_bytes, stored_bytes, unique_bytes;        /* as below; unique_bytes if sampled: of the workgroups that ran */
    double   loads_in_flight, loop_loads_in_flight;           /* maximum of any wave before a wait; before a wait in a loop */
    double   channel_bytes, channel_busiest;                  /* of loads in flight at the same time: the bytes of all channels, and the
                                                               * busiest channel's times the number of channels; 0: not counted */
    struct { double instructions, matrix, nops, acc_moves, scratch; } loop;     /* static: instructions in loops of the code, each once */
    bool     sampled;                     /* not all of its workgroups ran; the other counters are scaled */
};

/* Sums over all kernels. */
struct counters {
    double launches;
    double instructions, valu, matrix;    /* per wave; valu: vector ALU with dot products and transcendentals; matrix: WMMA, MFMA */
    double idle_lanes;                    /* share of the lanes of vector instructions that were switched off, 0 to 1 */
    double loaded_bytes, stored_bytes;    /* by lanes, from and to device memory */
    double unique_bytes;                  /* in lines of 64 bytes that are read at least once in a launch: traffic from memory with cold
                                           * caches */
    double line_bytes;                    /* in lines of 128 bytes that a wave's loads touch: close to loaded_bytes if lanes load adjacent
                                           * data */
    double lds_accesses, lds_conflicts;   /* per wave; cycles added by bank conflicts */
    double loads_in_flight;               /* maximum of any wave before a wait */
    double channel_bytes, channel_busiest;
    struct kernel_counters *kernels;      /* [n_kernels], in the order of their first launches */
    uint32_t n_kernels;
};
/* For loads in flight at the same time: the busiest memory channel divided by the mean, from 1 to the number of channels. 0: the target
 * names no channels, or only a sample of the workgroups ran. */
static inline double channel_imbalance(double bytes, double busiest) { return bytes > 0 ? busiest / bytes : 0; }
/* Reads the file that the simulator wrote; dies if it is absent or malformed. */
struct counters counters_read(struct arena *a, const char *path);
#endif
