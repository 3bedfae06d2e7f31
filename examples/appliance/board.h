/* board.h -- all that main.c wants of a machine.  aarch64/ and riscv64/ have it for QEMU's virt boards; yours is one more folder. */
#ifndef BOARD_H
#define BOARD_H

void board_put(char c);
unsigned long board_time_us(void);          /* since some moment; differences matter, it may wrap */
_Noreturn void board_exit(int code);        /* ends the emulator; a device would restart */

/* string.c */
void print(const char *text);
void print_number(unsigned long n);      /* of a register: 64-bit divisions are library functions on a 32-bit core */

/* main.c; called by start.S */
int  main(void);
/* Called by start.S instead of what the machine would do with an exception. */
_Noreturn void fault(unsigned long cause, unsigned long at);
#endif
