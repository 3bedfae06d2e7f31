/* tq1_0.c -- 256 weights: 48 bytes of five digits to base 3 each, 4 bytes of four digits, f16 d. w = d (digit - 1). A byte is a fraction:
 * digit k is the integer part of 3 times the rest of byte / 256 after k digits. 32 bytes have columns 0 .. 159, a digit of each for 32
 * columns in turn; 16 bytes have the next 80 columns, 16 at a time; 4 bytes have the last 16, 4 at a time. Kernels read codes of two bits:
 * 25 % more bytes, but no multiplication for each weight. */
#include "blocks.h"

static uint32_t digit(uint32_t byte, uint32_t k)
{
    static const uint8_t power[5] = { 1, 3, 9, 27, 81 };
    return (byte * power[k] & 255) * 3 >> 8;
}
static uint32_t column(const uint8_t *b, uint32_t i)
{
    if (i < 160) return digit(b[i % 32], i / 32);
    if (i < 240) return digit(b[32 + i % 16], (i - 160) / 16);
    return digit(b[48 + i % 4], (i - 240) / 4);
}
static void codes(uint32_t c[8], const uint8_t *b, uint32_t i)
{
    for (uint32_t s = 0; s < 8; s++) {
        c[s] = 0;
        for (uint32_t k = 0; k < 4; k++) c[s] |= column(b, 32 * i + 4 * s + k) << 8 * k;
    }
}
static float weight(const struct block_parts *p, uint32_t i) { return (float)(p->code[i] - 1) * p->number[0]; }

const struct coding coding_tq1_0 = { .codes = codes, .weight = weight, .cpu = { { 2, 0 } }, .gpu = { { GPU_PAIRS, 0 } }, .gpu_flip = 0x01 };
