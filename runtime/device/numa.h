/* numa.h -- the memory nodes of a machine with several sockets: threads on the nodes, and memory spread over all nodes or on one. */
#ifndef FORGE_NUMA_H
#define FORGE_NUMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "threads.h"

/* Weights: where the kernel puts them; interleaved page by page over the nodes; a copy on every node for the threads of that node. */
enum forge_numa { NUMA_NONE, NUMA_INTERLEAVE, NUMA_REPLICATE };
enum { NUMA_MOST_NODES = 64, NUMA_WORD = 8 * (int)sizeof(unsigned long) };

/* Nodes with processors that this process may use.  id: the kernel's number; cpus: a bit for each of these processors, as a set of
 * sched.h. */
struct numa {
    uint32_t n;
    struct { uint32_t id; unsigned long cpus[FORGE_MAX_CPUS / NUMA_WORD]; } node[NUMA_MOST_NODES];
};

/* directory: /sys/devices/system/node.  A machine that reports no nodes has one with id 0 and all processors of the process. */
void numa_read(struct numa *out, const char *directory);

/* The node, 0 .. n - 1, of thread `thread` of n_threads; neighbouring threads have the same node. */
uint32_t numa_node_of(const struct numa *numa, uint32_t thread, uint32_t n_threads);
/* Keeps the calling thread on the processors of the node.  False: the system does not allow it. */
bool numa_stay(const struct numa *numa, uint32_t node);

/* Zeroed memory in large pages, on node `node` while that has free memory; node >= n: interleaved page by page over all nodes.  munmap
 * releases it.  FORGE_NO_MEMORY, or FORGE_FAILED if the system does not allow choosing a node. */
enum forge_status numa_map(void **out, size_t bytes, const struct numa *numa, uint32_t node, const char *what, struct forge_error *error);

#endif
