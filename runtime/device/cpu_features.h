/* cpu_features.h -- can this CPU run a program? */
#ifndef FORGE_CPU_FEATURES_H
#define FORGE_CPU_FEATURES_H

#include <stdbool.h>
#include <stddef.h>

/* False also for a name that this runtime does not know: a refusal is better than a crash on an illegal instruction. */
bool cpu_has(const char *feature);

/* True if the CPU has all features; else writes the missing names, separated by spaces, to missing[capacity].  features:
 * NULL-terminated; if it contains amx_tile, this asks the kernel for permission to use the tiles of AMX. */
bool cpu_has_all(const char *const *features, char *missing, size_t capacity);

#endif
