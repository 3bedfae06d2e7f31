/* simt.h -- runs a GPU kernel compiled as host C: the lanes of a workgroup are fibers, and wave operations and barriers switch between
 * them.  Workgroups run one after another, the workgroups of a cluster together, in order or in a random order.  This tests the results of
 * kernels, not their speed or instructions. */
#ifndef FORGE_SIMT_H
#define FORGE_SIMT_H
#include <stdint.h>
#include "runtime/model/abi_gpu.h"

typedef void simt_kernel(const struct forge_kernel_args a);

enum { SIMT_LDS_BYTES = 256 << 10, SIMT_MAX_THREADS = 1024, SIMT_MAX_CLUSTER = 8 };
/* LDS is filled with this byte when a workgroup starts: NaN as f32 and f16, so that a read of unwritten LDS shows. */
enum { SIMT_POISON = 0xff };

/* Runs grid_x * grid_y workgroups of `threads` threads in waves of `wave` lanes.  lds_bytes: the LDS of the launch; bytes beyond it must
 * not be written.  seed 0: workgroups and lanes in order; else in a random order.  Dies with a message on a deadlock (lanes wait at
 * different places) or a write beyond lds_bytes. */
void simt_launch(simt_kernel *kernel, const struct forge_kernel_args *args, uint32_t grid_x, uint32_t grid_y, uint32_t threads,
                 uint32_t wave, uint32_t lds_bytes, uint32_t seed);
/* The same with clusters of `cluster` neighbouring workgroups in x; grid_x must be a multiple of it. */
void simt_launch_clusters(simt_kernel *kernel, const struct forge_kernel_args *args, uint32_t grid_x, uint32_t grid_y, uint32_t threads,
                          uint32_t wave, uint32_t lds_bytes, uint32_t seed, uint32_t cluster);
/* Gives the calling thread its own lanes and LDS, so that its kernels run in parallel with other threads' kernels; the thread must live as
 * long as the process.  Threads that do not call this share one machine: one launch at a time. */
void simt_machine_new(void);
#endif
