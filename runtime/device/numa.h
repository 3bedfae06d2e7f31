/* numa.h -- nodes of memory of a machine with several sockets: threads on them, and memory that lies spread over them or on one. */
#ifndef FORGE_NUMA_H
#define FORGE_NUMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "threads.h"

/* Weights: where the kernel puts them; page by page over the nodes; a copy on every node, for its threads. */
enum forge_numa { NUMA_NONE, NUMA_INTERLEAVE, NUMA_REPLICATE };
enum { NUMA_MOST_NODES = 64, NUMA_WORD = 8 * (int)sizeof(unsigned long) };

/* Nodes that have processors this process may use; id: the kernel's number; cpus: bits of those processors, a set of sched.h. */
struct numa {
    uint32_t n;
    struct { uint32_t id; unsigned long cpus[FORGE_MAX_CPUS / NUMA_WORD]; } node[NUMA_MOST_NODES];
};

/* directory: /sys/devices/system/node.  A machine that tells of no nodes has one, with id 0 and all processors of the process. */
void numa_read(struct numa *out, const char *directory);

/* Thread `thread` of n_threads belongs to this one of the nodes 0 .. n - 1: neighbours to the same. */
uint32_t numa_node_of(const struct numa *numa, uint32_t thread, uint32_t n_threads);
/* The calling thread stays on the processors of the node.  False: the system does not let it. */
bool numa_stay(const struct numa *numa, uint32_t node);

/* Zeroed memory in large pages: on node `node` as long as that has some left; node >= n: page by page over all.  munmap gives it back.
 * FORGE_NO_MEMORY, or FORGE_FAILED where the system forbids to say where memory lies. */
enum forge_status numa_map(void **out, size_t bytes, const struct numa *numa, uint32_t node, const char *what, struct forge_error *error);

#endif
