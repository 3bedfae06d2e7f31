/* machine.h -- where the kernels of a GPU run: as fibers of this process (machine_lanes.c), or on a GPU or the simulator behind their
 * driver (machine_driver.c).  Kernels find what they need in rooms (registry.h), whose contents are theirs while they run. */
#ifndef FORGE_TESTS_MACHINE_H
#define FORGE_TESTS_MACHINE_H
#include "registry.h"
#include "runtime/model/abi_gpu.h"

/* cluster: neighbouring groups in x that run together, 0: none. */
struct launch { const char *kernel; uint32_t grid_x, grid_y, threads, lds_bytes, cluster; };
/* Runs the kernel to its end.  A mistake of the launch, or a fault of the kernel, ends the program. */
void machine_launch(const struct launch *l, const struct forge_kernel_args *args);
bool machine_is_lanes(void);
/* Mean time of many launches; only of a device. */
double machine_us(const struct launch *l, const struct forge_kernel_args *args, uint32_t launches);
/* Lanes: a kernel's name, before main(). */
typedef void test_kernel(const struct forge_kernel_args a);
void machine_add(const char *name, test_kernel *kernel);

/* For registry.c, in programs with a machine: false: there is no such GPU.  Rooms get and lose their memory on the device. */
bool machine_open(const char *arch, const char *code_path) __attribute__((weak));
void machine_room(struct room *r) __attribute__((weak));
void machine_room_free(const struct room *r) __attribute__((weak));
#endif
