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

enum { NODE_IDS = 1024, MASK_WORDS = NODE_IDS / (8 * (int)sizeof(unsigned long)) };

/* "0-3,8,10-11" as bits; numbers from `limit` on are left out.  False: there is no such file, or nothing in it. */
static bool read_list(uint64_t *bits, uint32_t limit, const char *path)
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
        for (unsigned i = first; i <= last && i < limit; i++) bits[i / 64] |= UINT64_C(1) << i % 64;
        some = true;
        if (next != ',') break;
    }
    fclose(file);
    return some;
}

static bool has(const uint64_t *bits, uint32_t i) { return bits[i / 64] >> i % 64 & 1; }

static void allowed_cpus(uint64_t *bits)
{
    cpu_set_t *set = CPU_ALLOC(NUMA_MOST_CPUS);
    const size_t bytes = CPU_ALLOC_SIZE(NUMA_MOST_CPUS);
    const bool known = set && sched_getaffinity(0, bytes, set) == 0;
    memset(bits, known ? 0 : 0xff, NUMA_MOST_CPUS / 8);
    for (uint32_t i = 0; known && i < NUMA_MOST_CPUS; i++)
        if (CPU_ISSET_S(i, bytes, set)) bits[i / 64] |= UINT64_C(1) << i % 64;
    if (set) CPU_FREE(set);
}

void numa_read(struct numa *out, const char *directory)
{
    uint64_t online[NODE_IDS / 64] = { 0 }, allowed[NUMA_MOST_CPUS / 64];
    char path[512];
    memset(out, 0, sizeof *out);
    allowed_cpus(allowed);
    snprintf(path, sizeof path, "%s/online", directory);
    if (read_list(online, NODE_IDS, path))
        for (uint32_t id = 0; id < NODE_IDS && out->n < NUMA_MOST_NODES; id++) {
            uint64_t *const cpus = out->node[out->n].cpus, some = 0;
            if (!has(online, id)) continue;
            snprintf(path, sizeof path, "%s/node%u/cpulist", directory, id);
            if (!read_list(cpus, NUMA_MOST_CPUS, path)) continue;        /* memory alone: no thread is near it */
            for (uint32_t i = 0; i < NUMA_MOST_CPUS / 64; i++) some |= cpus[i] &= allowed[i];
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
    cpu_set_t *set = CPU_ALLOC(NUMA_MOST_CPUS);
    const size_t bytes = CPU_ALLOC_SIZE(NUMA_MOST_CPUS);
    if (!set) return false;
    CPU_ZERO_S(bytes, set);
    for (uint32_t i = 0; i < NUMA_MOST_CPUS; i++)
        if (has(numa->node[node].cpus, i)) CPU_SET_S(i, bytes, set);
    const bool done = sched_setaffinity(0, bytes, set) == 0;
    CPU_FREE(set);
    return done;
}

enum forge_status numa_map(void **out, size_t bytes, const struct numa *numa, uint32_t node, const char *what, struct forge_error *error)
{
    unsigned long mask[MASK_WORDS] = { 0 };
    enum { WORD = 8 * (int)sizeof(unsigned long) };
    for (uint32_t i = 0; i < numa->n; i++) {
        const uint32_t id = numa->node[i].id;
        if (node >= numa->n || node == i) mask[id / WORD] |= 1ul << id % WORD;
    }
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return error_set(error, FORGE_NO_MEMORY, "out of memory: %.1f MiB for %s: %s", (double)bytes / 1048576, what, strerror(errno));
    madvise(base, bytes, MADV_HUGEPAGE);
    /* The kernel reads one bit less than it is told of. */
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
