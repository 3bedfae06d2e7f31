/* probe.h -- a kernel with results that the runtime can compute, which --check runs to try the driver (runtime/device/gpu_probe.c).  Word i
 * becomes word 5 i + 1 of the words before, mixed with the number of the launch and with a number that the host uploads.  So a missing
 * launch, a launch with wrong arguments and a late copy each change every following word. */
#ifndef FORGE_PROBE_H
#define FORGE_PROBE_H
#include "launch.h"

/* a.weight: where the words lie in the arena; where the results go; number of words, a power of two; number of the launch; 1: also stores
 * to a.collective[0], memory of another GPU; 1: reads from a.given, memory of this GPU that another has stored into. */
DEVICE void probe(const struct forge_kernel_args a)
{
    const uint32_t n = (uint32_t)a.weight[2], i = group_x() * FORGE_GPU_PROBE_THREADS + thread_x();
    if (i >= n) return;
    const uint32_t *words = (const uint32_t *)(const void *)BUFFER(a.weight[0]);
    const uint32_t x = a.weight[5] ? (uint32_t)load_peer(a.given + 8ull * i) : words[(5 * i + 1) & (n - 1)];
    const uint32_t y = x * 0x9e3779b1u + a.step->n_past + (uint32_t)a.weight[3];
    ((uint32_t *)(void *)BUFFER(a.weight[1]))[i] = y;
    if (a.weight[4]) store_peer(a.collective[0] + 8ull * i, y);
}
#endif
