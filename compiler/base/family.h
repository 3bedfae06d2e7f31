/* family.h -- the families of GPUs that kernels are written for. templates/gpu/machine has one file for each; families.h there has their
 * numbers. */
#ifndef FORGEC_FAMILY_H
#define FORGEC_FAMILY_H
#include "target.h"
#include "templates/gpu/machine/families.h"

/* The values of a target's key `family`, in the order of FAMILY_*; NULL-terminated. */
extern const char *const family_names[N_FAMILIES + 1];
/* True if arch, as clang calls it ("gfx1151", "sm_90"), belongs to the family. */
bool family_has_arch(uint32_t family, const char *arch);
/* "gfx110x, gfx115x": the archs of the family, for messages. */
const char *family_archs(uint32_t family);
/* The machine file that kernels for p are compiled with: "templates/gpu/machine/rdna3.h". */
const char *family_file(struct arena *a, const struct target *p);
/* True if four waves of p multiply together (mma.h: MMA_GROUP). */
bool family_multiplies_in_fours(const struct target *p);
#endif
