/* start.S -- from reset to main() on a Cortex-M core: FP (and MVE) on, stack, variables.
 * Bits: Armv8-M Arm ARM DDI 0553, B3.4.1 (vector table), D1.2 (CPACR, CCR). */

    .syntax unified
    .thumb

    .section .vectors, "a"
    .word   stack_top
    .word   _start
    .rept   14
    .word   on_fault
    .endr

    .section .start, "ax"
    .global _start
    .thumb_func
_start:
    ldr     r0, =0xe000ed88             /* CPACR: CP10 and CP11 */
    ldr     r1, [r0]
    orr     r1, r1, #(0xf << 20)
    str     r1, [r0]
    dsb
    isb
    movs    r2, #0
    ldr     r0, =bss_start
    ldr     r1, =bss_end
1:  cmp     r0, r1
    bhs     2f
    str     r2, [r0], #4
    b       1b
2:  bl      main
    bl      board_exit
    b       .

    .thumb_func
on_fault:                               /* fault(number of the exception, return address in its frame) */
    mrs     r0, ipsr
    ldr     r1, [sp, #24]
    ldr     r4, =stack_top
    mov     sp, r4
    bl      fault
    .ltorg
