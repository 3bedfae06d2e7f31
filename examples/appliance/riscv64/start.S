/* start.S -- from reset to main() on a 64-bit RISC-V core in machine mode: FP (and vectors) on, stack, variables.  Addresses are physical,
 * and the platform's PMAs define the kind of memory.  Bits: RISC-V privileged specification, 3.1.6 (mstatus), 3.1.7 (mtvec). */

    .section .start, "ax"
    .global _start
_start:
    csrr    t0, mhartid                     /* only one hart works */
    bnez    t0, park
    la      t0, on_fault
    csrw    mtvec, t0
    li      t0, (1 << 13) | (1 << 9)        /* FS, VS: initial; VS stays 0 without vectors */
    csrs    mstatus, t0
    csrw    fcsr, zero                      /* round to nearest */

    la      sp, stack_top
    la      t0, bss_start
    la      t1, bss_end
1:  bgeu    t0, t1, 2f
    sd      zero, 0(t0)
    addi    t0, t0, 8
    j       1b
2:  call    main
    call    board_exit
park:
    wfi
    j       park

    .balign 4
on_fault:
    csrr    a0, mcause
    csrr    a1, mepc
    la      sp, stack_top
    call    fault
