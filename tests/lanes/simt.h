/* simt.h -- runs a GPU kernel compiled as host C: the lanes of a group are fibers, a wave operation or a barrier switches between them.
 * Groups run one after another, those of a cluster together, in any order asked for.  Checks what kernels compute, not how fast or with
 * which instructions. */
#ifndef FORGE_SIMT_H
#define FORGE_SIMT_H
#include <stdint.h>
#include "runtime/model/abi_gpu.h"

typedef void simt_kernel(const struct forge_kernel_args a);

enum { SIMT_LDS_BYTES = 256 << 10, SIMT_MAX_THREADS = 1024, SIMT_MAX_CLUSTER = 8 };
/* What LDS holds when a group starts: NaN as f32 and f16, so that a read of what nobody wrote shows. */
enum { SIMT_POISON = 0xff };

/* grid_x * grid_y groups of `threads`, waves of `wave` lanes.  lds_bytes: what the launch asks for; bytes beyond are checked to stay
 * untouched.  seed 0: groups and lanes in order; else in an order drawn from it.  Dies with a message on a deadlock (lanes that wait at
 * different places) or a write beyond lds_bytes. */
void simt_launch(simt_kernel *kernel, const struct forge_kernel_args *args, uint32_t grid_x, uint32_t grid_y, uint32_t threads,
                 uint32_t wave, uint32_t lds_bytes, uint32_t seed);
/* The same with `cluster` groups that are neighbours in x in a cluster; grid_x: a multiple. */
void simt_launch_clusters(simt_kernel *kernel, const struct forge_kernel_args *args, uint32_t grid_x, uint32_t grid_y, uint32_t threads,
                          uint32_t wave, uint32_t lds_bytes, uint32_t seed, uint32_t cluster);
/* The calling thread, which lives as long as the process, has lanes and LDS of its own from now on, so that its kernels run beside those of
 * others.  Threads that do not call it share one machine: one launch at a time. */
void simt_machine_new(void);
#endif
