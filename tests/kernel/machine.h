/* machine.h -- runs the kernels of a GPU: as fibers of this process (machine_lanes.c), or by a driver on a GPU or the simulator
 * (machine_driver.c).  Kernels read and write rooms (registry.h); the test must not access rooms while a kernel runs. */
#ifndef FORGE_TESTS_MACHINE_H
#define FORGE_TESTS_MACHINE_H
#include "registry.h"
#include "runtime/model/abi_gpu.h"

/* lds_bytes: LDS of a workgroup.  cluster: neighbouring workgroups in x that run as a cluster, 0: no clusters. */
struct launch { const char *kernel; uint32_t grid_x, grid_y, threads, lds_bytes, cluster; };
/* Runs the kernel and waits for its end.  A wrong launch or a fault of the kernel ends the program. */
void machine_launch(const struct launch *l, const struct forge_kernel_args *args);
bool machine_is_lanes(void);
/* Mean time of a launch in microseconds, over `launches` launches; only on a device. */
double machine_us(const struct launch *l, const struct forge_kernel_args *args, uint32_t launches);
/* Lanes: registers a kernel by its name, before main(). */
typedef void test_kernel(const struct forge_kernel_args a);
void machine_add(const char *name, test_kernel *kernel);

/* For registry.c, in programs with a machine.  machine_open: false: there is no such GPU.  machine_room and machine_room_free allocate and
 * free a room's memory on the device. */
bool machine_open(const char *arch, const char *code_path) __attribute__((weak));
void machine_room(struct room *r) __attribute__((weak));
void machine_room_free(const struct room *r) __attribute__((weak));
#endif
