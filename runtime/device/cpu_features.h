/* cpu_features.h -- does this CPU run that program? */
#ifndef FORGE_CPU_FEATURES_H
#define FORGE_CPU_FEATURES_H

#include <stdbool.h>
#include <stddef.h>

/* False for a name this runtime does not know, too: better refused than a crash on an illegal instruction. */
bool cpu_has(const char *feature);

/* Writes the names that are missing, separated by blanks; true when there are none.  Asks the kernel for the tiles of AMX where amx_tile is
 * among them.  features: NULL-terminated. */
bool cpu_has_all(const char *const *features, char *missing, size_t capacity);

#endif
