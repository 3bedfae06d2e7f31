/* threads.h -- a fixed set of threads that run one job together and meet at barriers.
 * The caller is thread 0; the others are created once.  Linux (futex). */
#ifndef FORGE_THREADS_H
#define FORGE_THREADS_H

#include <stdint.h>

#include "runtime/model/abi.h"
#include "runtime/run/status.h"

enum {
    FORGE_MAX_THREADS = 512,
    FORGE_MAX_CPUS = 8192,                       /* the most that a Linux kernel can be built for */
};

struct forge_pool;

/* One thread's share of a job; it must call pool_barrier equally often on every thread. */
typedef void forge_job(void *context, uint32_t thread, uint32_t n_threads);

/* n_threads: 1 .. FORGE_MAX_THREADS.  FORGE_NO_MEMORY or FORGE_FAILED if the system refuses. */
enum forge_status pool_open(struct forge_pool **out, uint32_t n_threads, struct forge_error *error);
void     pool_close(struct forge_pool *pool);                           /* pool may be NULL */
uint32_t pool_threads(const struct forge_pool *pool);
struct forge_turn *pool_turns(const struct forge_pool *pool);           /* [pool_threads] for the kernels of a job, or NULL */

/* Runs job on all threads and returns when all have finished.  Only the thread that opened the pool may call it. */
void pool_run(struct forge_pool *pool, forge_job *job, void *context);

/* Inside a job: returns when every thread of the job has called it; what they wrote before is then visible to all. */
void pool_barrier(struct forge_pool *pool, uint32_t thread);

/* From now on no thread changes its affinity by itself.  Call it between two jobs. */
void pool_stop_moving(struct forge_pool *pool);

/* Physical cores that this process may use (affinity mask, one per pair of hyperthreads, cgroup quota), 1 .. limit. */
uint32_t threads_default(uint32_t limit);

#endif
