/* xxh3.h -- XXH3: runs at memory speed in plain C; it finds damage, but does not protect against attackers.  Freestanding. */
#ifndef FORGE_XXH3_H
#define FORGE_XXH3_H
#include <stdint.h>

/* XXH3-64 of n bytes at any address, with seed 0. */
uint64_t forge_xxh3(const void *bytes, uint64_t n);
#endif
