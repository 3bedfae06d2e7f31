/* cpu_ops.h -- what the tests of CPU kernels that are no matrix products share. */
#ifndef FORGE_TESTS_CPU_OPS_H
#define FORGE_TESTS_CPU_OPS_H
#include "registry.h"
#include "templates/ref/ops.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static inline float *row_new(const char *name, uint64_t n) { return room_floats(room_new(name, 4 * n)); }
static inline float *random_row_new(const char *name, uint64_t n, float size)
{
    float *x = row_new(name, n);
    random_row(x, n, size);
    return x;
}
/* The error may be `limit` of |want| + floor. */
static inline bool same_row(const char *what, const float *got, const float *want, uint64_t n, double floor, double limit)
{
    for (uint64_t i = 0; i < n; i++)
        if (!close_to(what, i, (double)got[i], (double)want[i], limit * (fabs((double)want[i]) + floor))) return false;
    return true;
}
/* Best time of a call in seconds. */
#define BEST(best, repeats, ...) do { best = 1e9; for (uint32_t r_ = 0; r_ < (repeats); r_++) { \
    const double t_ = now_s(); __VA_ARGS__; const double d_ = now_s() - t_; if (d_ < best) best = d_; } } while (0)
#endif
