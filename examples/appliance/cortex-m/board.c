/* board.c -- Arm's MPS2 and MPS3 boards as QEMU has them (AN500, AN547): CMSDK UART; semihosting for the time and to leave.
 * Addresses: QEMU hw/arm/mps2.c, mps2-tz.c.  UART: Arm CMSDK technical reference manual DDI 0479, 4.3.
 * Semihosting: github.com/ARM-software/abi-aa. */
#include "../board.h"
#include <stdint.h>

#ifdef __ARM_FEATURE_MVE
#define UART ((volatile uint32_t *)0x59303000)
#else
#define UART ((volatile uint32_t *)0x40004000)
#endif
enum { UART_DATA = 0, UART_STATE = 1, UART_CTRL = 2, UART_BAUDDIV = 4, STATE_TX_FULL = 1, CTRL_TX = 1 };
enum { SYS_CLOCK = 0x10, SYS_EXIT_EXTENDED = 0x20 };

static uint32_t semihosting(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt #0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void board_put(char c)
{
    UART[UART_BAUDDIV] = 16;                         /* the minimum; QEMU's UART sends at once */
    UART[UART_CTRL] = CTRL_TX;
    while (UART[UART_STATE] & STATE_TX_FULL) { }
    UART[UART_DATA] = (uint8_t)c;
}

unsigned long board_time_us(void) { return semihosting(SYS_CLOCK, 0) * 10000ul; }

void board_exit(int code)
{
    const uint32_t block[2] = { 0x20026, (uint32_t)code };      /* ADP_Stopped_ApplicationExit */
    for (;;) semihosting(SYS_EXIT_EXTENDED, block);
}
