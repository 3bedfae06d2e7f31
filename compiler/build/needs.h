/* needs.h -- finds the version of glibc that a program needs. */
#ifndef FORGEC_NEEDS_H
#define FORGEC_NEEDS_H
#include "compiler/base/base.h"

/* The newest version of glibc's symbols that the ELF file names (in its section of type SHT_GNU_verneed), such as "2.34". The dynamic
 * linker refuses to start the program with an older glibc. NULL: no such version, a static program, or no such file. */
const char *needs_glibc(struct arena *a, const char *path);
#endif
