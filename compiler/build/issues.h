/* issues.h -- counts issue slots of the vector ALU in the disassembly of AMD machine code, for the loops that multiply weights. */
#ifndef FORGEC_ISSUES_H
#define FORGEC_ISSUES_H
#include "code_object.h"

/* Sets r[i].issues. False, with the reason in *why, if it cannot count: no libLLVM, no code object, or rates missing in the target. */
bool issues_count(struct arena *a, const struct target *p, struct bytes object, struct kernel_resources *r, size_t n, const char **why);
#endif
