/* start.S -- from reset to main() on an Armv8-A core: EL1, FP and NEON on, memory map, stack, variables.
 *
 * The memory map is the identity.  The kernels load vectors at any byte, which only Normal memory permits.  With the MMU off all data is
 * Device memory, so the MMU and the caches are on before the first line of C.
 *   0x00000000  64 MiB  flash: Normal, write-back, read-only, executable: code and weights stay where they are
 *   0x08000000 128 MiB  UART and other devices: Device-nGnRnE, never executed
 *   0x40000000   1 GiB  RAM: Normal, write-back, never executed
 * Bits: Arm ARM DDI 0487, D8.3 (descriptors), D19.2 (registers). */

    .equ DESCRIPTOR_BLOCK,  1
    .equ DESCRIPTOR_TABLE,  3
    .equ NORMAL,            0 << 2          /* MAIR byte 0 */
    .equ DEVICE,            1 << 2          /* MAIR byte 1 */
    .equ READ_ONLY,         1 << 7
    .equ INNER_SHAREABLE,   3 << 8
    .equ ACCESSED,          1 << 10
    .equ NEVER_EXECUTE,     3 << 53         /* PXN, UXN */

    .section .start, "ax"
    .global _start
_start:
    mrs     x0, mpidr_el1                   /* only one core works */
    tst     x0, #0xff
    b.ne    park
    mrs     x0, CurrentEL
    lsr     x0, x0, #2
    cmp     x0, #2
    b.lo    at_el1
    b.eq    at_el2
    /* EL3: down to secure EL1, 64-bit.  Only the secure world is used; QEMU's flash with secure=on belongs to it. */
    mov     x0, #0x430                      /* SCR_EL3: RW, RES1 */
    msr     scr_el3, x0
    msr     cptr_el3, xzr
    mov     x0, #0x3c5                      /* EL1h, interrupts masked */
    msr     spsr_el3, x0
    adr     x0, at_el1
    msr     elr_el3, x0
    eret
at_el2:
    mov     x0, #(1 << 31)                  /* HCR_EL2.RW: EL1 is 64-bit */
    msr     hcr_el2, x0
    mov     x0, #0x33ff                     /* CPTR_EL2: no traps of FP; RES1 */
    msr     cptr_el2, x0
    mov     x0, #3                          /* EL1 may read the counter */
    msr     cnthctl_el2, x0
    mov     x0, #0x3c5
    msr     spsr_el2, x0
    adr     x0, at_el1
    msr     elr_el2, x0
    eret

at_el1:
    ldr     x0, =vectors
    msr     vbar_el1, x0
    mov     x0, #(3 << 20)                  /* CPACR_EL1.FPEN: FP and NEON */
    msr     cpacr_el1, x0
    mov     x0, #0x00ff                     /* MAIR: byte 0 Normal write-back, byte 1 Device-nGnRnE */
    msr     mair_el1, x0
    ldr     x0, =(32 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23)    /* TCR: 32-bit addresses from 4 KiB pages, tables cached, no TTBR1 */
    msr     tcr_el1, x0
    ldr     x0, =table_1
    msr     ttbr0_el1, x0
    tlbi    vmalle1
    ic      iallu
    dsb     sy
    isb
    mrs     x0, sctlr_el1
    mov     x1, #(1 | 1 << 2 | 1 << 12)     /* M, C, I */
    orr     x0, x0, x1
    bic     x0, x0, #2                      /* A: unaligned accesses are fine */
    msr     sctlr_el1, x0
    isb

    ldr     x0, =stack_top
    mov     sp, x0
    ldr     x0, =bss_start
    ldr     x1, =bss_end
2:  cmp     x0, x1
    b.hs    3f
    stp     xzr, xzr, [x0], #16
    b       2b
3:  mov     x29, xzr
    mov     x30, xzr
    bl      main
    bl      board_exit
park:
    wfi
    b       park

on_fault:
    mrs     x0, esr_el1
    mrs     x1, elr_el1
    ldr     x2, =stack_top
    mov     sp, x2
    bl      fault

    .balign 2048
vectors:
    .rept   16
    b       on_fault
    .balign 128
    .endr

    .section .rodata.tables, "a"
    .balign 4096
table_1:                                    /* of 1 GiB each */
    .quad   table_2 + DESCRIPTOR_TABLE
    .quad   0x40000000 + DESCRIPTOR_BLOCK + NORMAL + INNER_SHAREABLE + ACCESSED + NEVER_EXECUTE
    .quad   0, 0
    .balign 4096
table_2:                                    /* of 2 MiB each */
    .set    at, 0
    .rept   32
    .quad   at + DESCRIPTOR_BLOCK + NORMAL + READ_ONLY + INNER_SHAREABLE + ACCESSED
    .set    at, at + 0x200000
    .endr
    .fill   32, 8, 0                        /* the second flash: not mapped */
    .set    at, 0x08000000
    .rept   64
    .quad   at + DESCRIPTOR_BLOCK + DEVICE + ACCESSED + NEVER_EXECUTE
    .set    at, at + 0x200000
    .endr
    .fill   384, 8, 0
