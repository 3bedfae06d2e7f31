/* kernel.h -- TEST_KERNEL(threads, NAME) { ... }: a test kernel of at most `threads` threads with the parameter `a`, for a GPU's compiler
 * and, registered by its name, for machine_lanes.c.  The case is in memory at a.weights: CASE(struct gemv_case). */
#ifndef FORGE_TESTS_KERNEL_H
#define FORGE_TESTS_KERNEL_H
#include "templates/gpu/launch.h"

#define TEST_KERNEL(threads, name)            TEST_KERNELS(threads, 1, name)
#define TEST_KERNELS(threads, resident, name) TEST_KERNEL_(threads, resident, name)      /* resident: workgroups per compute unit */
#if defined(__HIP__) && !defined(MODELS)
#define TEST_KERNEL_(threads, resident, name) \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(WAVE, threads))) void name(const struct forge_kernel_args a)
#elif defined(__HIP__) || defined(__CUDA__)
#define TEST_KERNEL_(threads, resident, name) KERNEL(threads, resident) name(const struct forge_kernel_args a)
#else
#include "machine.h"
#define TEST_KERNEL_(threads, resident, name) \
    static void name(const struct forge_kernel_args a); \
    __attribute__((constructor)) static void add_##name(void) { machine_add(#name, name); } \
    static void name(const struct forge_kernel_args a)
#endif
#define CASE(type) ((const type *)(const void *)a.weights)
#endif
