/* kernel_profile.h -- reads the kernels in the output of a program's --profile -o json. */
#ifndef FORGEC_KERNEL_PROFILE_H
#define FORGEC_KERNEL_PROFILE_H
#include "compiler/base/base.h"

/* All launches of one kernel name in a step, summed. */
struct profiled_kernel { const char *name; double launches, us, bytes, operations; };

struct profiled_step {
    struct profiled_kernel *kernels;  /* [n_kernels], longest time first */
    uint32_t n_kernels, n_tokens;
    double   us;                      /* the whole step in normal use */
    double   sum_us;                  /* sum of its kernels' times */
};

enum { STEP_DECODE, STEP_PREFILL, N_STEPS };
struct kernel_profile {
    struct profiled_step steps[N_STEPS];          /* n_kernels 0: not measured */
};
/* Dies if the text is not such JSON. */
struct kernel_profile kernel_profile_read(struct arena *a, struct bytes json);
/* The median of each time in n <= PROFILES_MOST profiles of one program. */
enum { PROFILES_MOST = 8 };
struct kernel_profile kernel_profile_median(const struct kernel_profile *profiles, uint32_t n);
/* The kernel of that name, or NULL. */
const struct profiled_kernel *profiled_kernel_find(const struct profiled_step *s, const char *name);
#endif
