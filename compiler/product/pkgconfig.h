/* pkgconfig.h -- a library's pkg-config file. */
#ifndef FORGEC_PKGCONFIG_H
#define FORGEC_PKGCONFIG_H
#include "compiler/base/base.h"

/* PREFIX.ld, a linker script: it places more than 2 GiB of weights after everything else, so that no code has to reach past them. Has
 * HEADER_MARK. */
struct bytes emit_ld(struct arena *a);
/* The word in the pkg-config key Libs that names PREFIX.ld. */
const char *pc_ld(struct arena *a, const char *prefix);
/* PREFIX.pc, for the folder of the product ("libstory.a") and its header; the files may be moved together. Has HEADER_MARK
 * (product/header.h). */
struct bytes emit_pc(struct arena *a, const char *prefix, const char *target, const char *product, const char *more);
#endif
