/* pkgconfig.h -- a library's pkg-config file. */
#ifndef FORGEC_PKGCONFIG_H
#define FORGEC_PKGCONFIG_H
#include "compiler/base/base.h"

/* PREFIX.pc, to lie beside product ("libstory.a") and header, wherever those are moved together.  Has HEADER_MARK (product/header.h). */
struct bytes emit_pc(struct arena *a, const char *prefix, const char *target, const char *product, const char *more);
#endif
