/* machine.c -- see machine.h. */
#include "machine.h"

extern const struct machine machine_cpu, machine_gpu, machine_webgpu;          /* choose.c of compiler/cpu, gpu and web */

const struct machine *machine_of(enum target_kind kind)
{
    static const struct machine *const machines[] = { [TARGET_CPU] = &machine_cpu, [TARGET_GPU] = &machine_gpu,
                                                     [TARGET_WEBGPU] = &machine_webgpu };
    return machines[kind];
}
