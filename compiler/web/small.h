/* small.h -- shortens WGSL modules for the files that a server sends. */
#ifndef FORGEC_WEB_SMALL_H
#define FORGEC_WEB_SMALL_H
#include "compiler/base/base.h"

/* The text without comments, indentation and empty lines. Lines that begin with "// ==== " stay. The result lies in a. */
struct bytes wgsl_small(struct arena *a, struct bytes text);
#endif
