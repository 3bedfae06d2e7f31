/* numa.c -- see numa.h.  Linux: sysfs (Documentation/admin-guide/mm/numaperf.rst), mbind(2), sched_setaffinity(2). */
#include "numa.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NODE_IDS = 1024 };

/* Reads "0-3,8,10-11" as bits; numbers from `limit` on are ignored.  False: there is no such file, or it is empty. */
static bool read_list(unsigned long *bits, uint32_t limit, const char *path)
{
    FILE *file = fopen(path, "re");
    unsigned first, last;
    bool some = false;
    if (!file) return false;
    while (fscanf(file, "%u", &first) == 1) {
        int next = fgetc(file);
        last = first;
        if (next == '-') {
            if (fscanf(file, "%u", &last) != 1) break;
            next = fgetc(file);
        }
        for (unsigned i = first; i <= last && i < limit; i++) bits[i / NUMA_WORD] |= 1ul << i % NUMA_WORD;
        some = true;
        if (next != ',') break;
    }
    fclose(file);
    return some;
}

void numa_read(struct numa *out, const char *directory)
{
    unsigned long online[NODE_IDS / NUMA_WORD] = { 0 }, allowed[FORGE_MAX_CPUS / NUMA_WORD] = { 0 };
    char path[512];
    memset(out, 0, sizeof *out);
    if (sched_getaffinity(0, sizeof allowed, (cpu_set_t *)(void *)allowed) != 0) memset(allowed, 0xff, sizeof allowed);
    snprintf(path, sizeof path, "%s/online", directory);
    if (read_list(online, NODE_IDS, path))
        for (uint32_t id = 0; id < NODE_IDS && out->n < NUMA_MOST_NODES; id++) {
            unsigned long *const cpus = out->node[out->n].cpus, some = 0;
            if (!(online[id / NUMA_WORD] >> id % NUMA_WORD & 1)) continue;
            snprintf(path, sizeof path, "%s/node%u/cpulist", directory, id);
            if (!read_list(cpus, FORGE_MAX_CPUS, path)) continue;        /* memory without processors: no thread is near it */
            for (uint32_t i = 0; i < FORGE_MAX_CPUS / NUMA_WORD; i++) some |= cpus[i] &= allowed[i];
            if (some == 0) continue;
            out->node[out->n++].id = id;
        }
    if (out->n > 0) return;
    memcpy(out->node[0].cpus, allowed, sizeof allowed);
    out->n = 1;
}

uint32_t numa_node_of(const struct numa *numa, uint32_t thread, uint32_t n_threads)
{
    return (uint32_t)((uint64_t)numa->n * thread / n_threads);
}

bool numa_stay(const struct numa *numa, uint32_t node)
{
    return sched_setaffinity(0, sizeof numa->node[node].cpus, (const cpu_set_t *)(const void *)numa->node[node].cpus) == 0;
}

enum forge_status numa_map(void **out, size_t bytes, const struct numa *numa, uint32_t node, const char *what, struct forge_error *error)
{
    unsigned long mask[NODE_IDS / NUMA_WORD] = { 0 };
    for (uint32_t i = 0; i < numa->n; i++) {
        const uint32_t id = numa->node[i].id;
        if (node >= numa->n || node == i) mask[id / NUMA_WORD] |= 1ul << id % NUMA_WORD;
    }
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return error_set(error, FORGE_NO_MEMORY, "out of memory: %.1f MiB for %s: %s", (double)bytes / 1048576, what, strerror(errno));
    madvise(base, bytes, MADV_HUGEPAGE);
    /* The kernel reads one bit less than the given number. */
    if (syscall(SYS_mbind, base, bytes, node < numa->n ? MPOL_PREFERRED : MPOL_INTERLEAVE, mask, (unsigned long)NODE_IDS + 1, 0) != 0 &&
        !(errno == ENOSYS && numa->n == 1)) {
        const int reason = errno;
        munmap(base, bytes);
        return error_set(error, FORGE_FAILED, "%s cannot be placed on the machine's nodes: %s%s", what, strerror(reason),
                         reason == EPERM ? " (a container needs the capability SYS_NICE)" : "");
    }
    *out = base;
    return FORGE_OK;
}
