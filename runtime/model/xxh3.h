/* xxh3.h -- XXH3: runs at memory speed in plain C, and is for finding damage, not attackers.  Freestanding. */
#ifndef FORGE_XXH3_H
#define FORGE_XXH3_H
#include <stdint.h>

/* 64 bits, seed 0, of n bytes at any address. */
uint64_t forge_xxh3(const void *bytes, uint64_t n);
#endif
