/* tile_permission.h -- the tiles of AMX need memory that the kernel gives only to a process which asks for it (Linux 5.16 or later,
 * Documentation/arch/x86/xstate.rst); before that, an instruction that uses tiles is illegal.  Uses no C library, because libraries call
 * it too. */
#ifndef FORGE_TILE_PERMISSION_H
#define FORGE_TILE_PERMISSION_H
#include <stdbool.h>

/* Asks for the process with all its threads; asking again changes nothing.  False: the kernel refuses or does not know tiles.  Without
 * an operating system no permission is needed: the firmware or boot code enables tiles. */
static inline bool tile_permission(void)
{
#if defined(__x86_64__) && defined(__linux__)
    enum { SYSCALL_ARCH_PRCTL = 158, REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"((long)SYSCALL_ARCH_PRCTL), "D"((long)REQ_XCOMP_PERM), "S"((long)XTILEDATA)
                     : "rcx", "r11", "memory");
    return result == 0;
#else
    return true;
#endif
}
#endif
