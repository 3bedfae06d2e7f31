/* freestanding.h -- the functions of <string.h> that the library part of the runtime uses; there may be no <string.h>.
 * memcpy, memmove and memset come from the program into which the object is linked: compilers generate calls of them anyway. */
#ifndef FORGE_FREESTANDING_H
#define FORGE_FREESTANDING_H
#include <stddef.h>

void *memcpy(void *to, const void *from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);

static inline int forge_memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return 0;
}

static inline const void *forge_memchr(const void *bytes, int byte, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++)
        if (b[i] == (unsigned char)byte) return b + i;
    return NULL;
}

/* Other names, so that no compiler turns the loops above into calls of themselves. */
#define memcmp forge_memcmp
#define memchr forge_memchr
#endif
