/* machine.h -- what kinds of machines differ in for the stages that serve them all: a row each. */
#ifndef FORGEC_MACHINE_H
#define FORGEC_MACHINE_H
#include "cost.h"

struct machine {
    const char    *name;                         /* "CPU" */
    enum layout    layout;                       /* of packed weights */
    uint32_t       image_align, state_align;     /* bytes: tensors of the image; states of a sequence */
    uint32_t       head_unit, head_most;         /* heads have a multiple of so many items, and at most so many */
    struct absorbs absorbs;                      /* of their neighbours, by kernels: what fuse asks */
    /* Dies on what the kernels cannot compute besides; NULL: they can. */
    void         (*check)(const struct plan *p, const struct graph *g);
    void         (*choose)(struct arena *a, struct plan *p);         /* values, places in the arena, kernels */
    struct cost_work (*work)(const struct plan *p, const struct kernel *k, uint32_t tokens, uint32_t n_past);        /* cost_work_of */
};
const struct machine *machine_of(enum target_kind kind);
#endif
