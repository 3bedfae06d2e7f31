/* machine_lanes.c -- runs test kernels on the emulator of lanes (tests/lanes/simt.h), with a random order of lanes and workgroups for each
 * launch. */
#include "machine.h"
#include "templates/gpu/dialect.h"
#include "tests/lanes/simt.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KERNELS = 512 };
static struct { const char *name; test_kernel *kernel; } kernels[MOST_KERNELS];
static uint32_t n_kernels;

void machine_add(const char *name, test_kernel *kernel)
{
    if (n_kernels == MOST_KERNELS) { fprintf(stderr, "machine_add: more than %d kernels\n", MOST_KERNELS); exit(2); }
    kernels[n_kernels].name = name;
    kernels[n_kernels++].kernel = kernel;
}

static test_kernel *find(const char *name)
{
    for (uint32_t i = 0; i < n_kernels; i++)
        if (!strcmp(kernels[i].name, name)) return kernels[i].kernel;
    return NULL;
}
bool machine_is_lanes(void) { return true; }

void machine_launch(const struct launch *l, const struct forge_kernel_args *args)
{
    test_kernel *kernel = find(l->kernel);
    if (!kernel) { fprintf(stderr, "there is no kernel %s\n", l->kernel); exit(2); }
    const uint32_t order = random_below(4) ? random_u32() | 1 : 0;
    simt_launch_clusters(kernel, args, l->grid_x, l->grid_y, l->threads, WAVE, l->lds_bytes, order, l->cluster ? l->cluster : 1);
}

double machine_us(const struct launch *l, const struct forge_kernel_args *args, uint32_t launches)
{
    (void)args, (void)launches;
    fprintf(stderr, "%s: lanes have no time that means anything: --bench is for a device\n", l->kernel);
    exit(2);
}
