/* kernel_profile.h -- what a program's --profile -o json says of its kernels. */
#ifndef FORGEC_KERNEL_PROFILE_H
#define FORGEC_KERNEL_PROFILE_H
#include "compiler/base/base.h"

/* Launches of one name in a step, all of them together. */
struct profiled_kernel { const char *name; double launches, us, bytes, operations; };

struct profiled_step {
    struct profiled_kernel *kernels;  /* [n_kernels], the longest first */
    uint32_t n_kernels, n_tokens;
    double   us;                      /* the step as in use */
    double   sum_us;                  /* of its kernels */
};

enum { STEP_DECODE, STEP_PREFILL, N_STEPS };
struct kernel_profile {
    struct profiled_step steps[N_STEPS];          /* n_kernels 0: not measured */
};
/* Dies where the text is not such JSON. */
struct kernel_profile kernel_profile_read(struct arena *a, struct bytes json);
/* Of n profiles of one program, n at most PROFILES_MOST: of each time the median. */
enum { PROFILES_MOST = 8 };
struct kernel_profile kernel_profile_median(const struct kernel_profile *profiles, uint32_t n);
/* The kernel of that name, or NULL. */
const struct profiled_kernel *profiled_kernel_find(const struct profiled_step *s, const char *name);
#endif
