/* kind_of_case.h -- must be included first.  On lanes the type of the cache (KV_KIND) is a variable, which KIND_IS(kind) sets to the
 * case's, so that one program has all types.  A device's kernels have the type of -DKV. */
#ifndef FORGE_TESTS_KIND_OF_CASE_H
#define FORGE_TESTS_KIND_OF_CASE_H
#if !defined(__HIP__) && !defined(__CUDA__)
#include <stdint.h>
static uint32_t kind_of_case;
#define KV_KIND kind_of_case
#define KIND_IS(kind) (kind_of_case = (kind))
#else
#define KIND_IS(kind) ((void)(kind))
#endif
#endif
