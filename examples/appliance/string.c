/* string.c -- the three functions that a model's object needs, and printing.  Compiled with -fno-builtin: else the loops would call
 * themselves. */
#include "board.h"
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    unsigned char *restrict t = to;
    const unsigned char *restrict f = from;
    for (size_t i = 0; i < n; i++) t[i] = f[i];
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    if ((uintptr_t)t - (uintptr_t)f >= n) for (size_t i = 0; i < n; i++) t[i] = f[i];
    else                                  while (n--) t[n] = f[n];
    return to;
}

void *memset(void *to, int byte, size_t n)
{
    unsigned char *t = to;
    for (size_t i = 0; i < n; i++) t[i] = (unsigned char)byte;
    return to;
}

void print(const char *text)
{
    while (*text) board_put(*text++);
}

void print_number(unsigned long n)
{
    char digits[21], *at = digits + 20;
    *at = 0;
    do *--at = (char)('0' + n % 10); while (n /= 10);
    print(at);
}

void fault(unsigned long cause, unsigned long at)
{
    print("\nfault: cause ");
    print_number(cause);
    print(" at ");
    print_number(at);
    print("\n");
    board_exit(3);
}
