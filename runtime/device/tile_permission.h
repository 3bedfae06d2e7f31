/* tile_permission.h -- the tiles of AMX are memory that the kernel gives to a process which asks (Linux, Documentation/arch/x86/xstate.rst,
 * from 5.16 on); an instruction that touches them before is an illegal one.  No C library: libraries ask, too. */
#ifndef FORGE_TILE_PERMISSION_H
#define FORGE_TILE_PERMISSION_H
#include <stdbool.h>

/* For the process, with all its threads; asking again changes nothing.  False: the kernel refuses, or is none that knows them.  Without an
 * operating system nobody has to be asked: what starts the machine enables them. */
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
