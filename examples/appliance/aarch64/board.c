/* board.c -- QEMU's virt machine for Arm: PL011 UART, generic timer, semihosting to leave.
 * Addresses: QEMU hw/arm/virt.c.  UART: Arm PL011 technical reference manual DDI 0183, 3.3. */
#include "../board.h"
#include <stdint.h>

#define UART ((volatile uint32_t *)0x09000000)
enum { UART_DR = 0, UART_FR = 0x18 / 4, UART_CR = 0x30 / 4, FR_TXFF = 1u << 5, CR_UARTEN = 1u << 0, CR_TXE = 1u << 8 };

void board_put(char c)
{
    UART[UART_CR] = CR_UARTEN | CR_TXE;              /* QEMU's UART needs no baud rate */
    while (UART[UART_FR] & FR_TXFF) { }
    UART[UART_DR] = (uint8_t)c;
}

unsigned long board_time_us(void)
{
    uint64_t count, hz;
    __asm__ volatile("isb\n mrs %0, cntpct_el0\n mrs %1, cntfrq_el0" : "=r"(count), "=r"(hz));
    return count / hz * 1000000 + count % hz * 1000000 / hz;
}

/* Arm semihosting, SYS_EXIT: ADP_Stopped_ApplicationExit and the code (github.com/ARM-software/abi-aa, semihosting). */
void board_exit(int code)
{
    const uint64_t block[2] = { 0x20026, (uint64_t)code };
    register uint64_t operation __asm__("x0") = 0x18;
    register const uint64_t *argument __asm__("x1") = block;
    for (;;) __asm__ volatile("hlt #0xf000" : "+r"(operation) : "r"(argument) : "memory");
}
