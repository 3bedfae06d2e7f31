/* machine.h -- the differences between kinds of targets, for the stages that serve all of them. Each kind has one struct machine. */
#ifndef FORGEC_MACHINE_H
#define FORGEC_MACHINE_H
#include "cost.h"

struct machine {
    const char    *name;                         /* "CPU" */
    enum layout    layout;                       /* of packed weights */
    uint32_t       image_align, state_align;     /* alignment in bytes of tensors in the image and of a sequence's states */
    uint32_t       head_unit, head_most;         /* head sizes are multiples of head_unit and at most head_most */
    struct absorbs absorbs;                      /* abilities of the kernels, for fuse() */
    /* Further checks: dies if the kernels cannot compute g; NULL: there are no further limits. */
    void         (*check)(const struct plan *p, const struct graph *g);
    /* Is attention four kernels over scores in memory?  NULL: it never is. */
    bool         (*in_steps)(const struct plan *p, const struct node *attention);
    void         (*choose)(struct arena *a, struct plan *p);         /* sets values, places in the arena and kernels of p */
    struct cost_work (*work)(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);        /* cost_work_of */
};
const struct machine *machine_of(enum target_kind kind);
#endif
