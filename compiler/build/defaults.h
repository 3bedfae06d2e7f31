/* defaults.h -- options that a program takes by itself (forgec build --default). */
#ifndef FORGEC_DEFAULTS_H
#define FORGEC_DEFAULTS_H
#include "build.h"
#include "compiler/plan/plan.h"

/* Checks o->defaults, words as of a shell, with the program's own table of options. plans: [n], of the program's targets; chat: its
 * templates. Returns the text with its final 0; data NULL without defaults. Dies if a word is wrong. */
struct bytes defaults_build(struct arena *a, const struct build_options *o, const struct plan *const *plans, uint32_t n, struct bytes chat);
#endif
