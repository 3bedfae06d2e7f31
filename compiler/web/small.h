/* small.h -- modules of WGSL as they are served. */
#ifndef FORGEC_WEB_SMALL_H
#define FORGEC_WEB_SMALL_H
#include "compiler/base/base.h"

/* The text without comments, indentation and empty lines; lines that begin with "// ==== " stay. */
struct bytes wgsl_small(struct arena *a, struct bytes text);
#endif
