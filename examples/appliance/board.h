/* board.h -- everything that main.c needs from a machine.  aarch64/ and riscv64/ implement it for QEMU's virt boards; add a folder for
 * yours. */
#ifndef BOARD_H
#define BOARD_H

void board_put(char c);
unsigned long board_time_us(void);          /* since any moment: only differences are used; it may wrap */
_Noreturn void board_exit(int code);        /* ends the emulator; a device would restart */

/* string.c */
void print(const char *text);
void print_number(unsigned long n);      /* unsigned long: on a 32-bit core 64-bit divisions are library functions */

/* main.c; called by start.S */
int  main(void);
/* start.S calls this for an exception. */
_Noreturn void fault(unsigned long cause, unsigned long at);
#endif
