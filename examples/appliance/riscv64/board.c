/* board.c -- QEMU's virt machine for RISC-V: NS16550 UART, CLINT timer, the test device to leave.
 * Addresses: QEMU hw/riscv/virt.c.  UART: National Semiconductor PC16550D datasheet, 8.0. */
#include "../board.h"
#include <stdint.h>

#define UART ((volatile uint8_t *)0x10000000)
#define MTIME ((volatile uint64_t *)0x0200bff8)
#define TEST ((volatile uint32_t *)0x00100000)
enum { UART_THR = 0, UART_LSR = 5, LSR_THRE = 1u << 5, MTIME_HZ = 10000000, TEST_PASS = 0x5555, TEST_FAIL = 0x3333 };

void board_put(char c)
{
    while (!(UART[UART_LSR] & LSR_THRE)) { }
    UART[UART_THR] = (uint8_t)c;
}

unsigned long board_time_us(void) { return *MTIME / (MTIME_HZ / 1000000); }

/* SiFive's test finisher, as hw/misc/sifive_test.c has it. */
void board_exit(int code)
{
    for (;;) *TEST = code ? (uint32_t)code << 16 | TEST_FAIL : TEST_PASS;
}
