/* issues.h -- what AMD's machine code asks of the vector ALU in the loops that multiply weights, counted in its disassembly. */
#ifndef FORGEC_ISSUES_H
#define FORGEC_ISSUES_H
#include "code_object.h"

/* Fills r[i].issues.  False with *why: this cannot be counted here (no libLLVM, no code object, rates that the target does not give). */
bool issues_count(struct arena *a, const struct profile *p, struct bytes object, struct kernel_resources *r, size_t n, const char **why);
#endif
