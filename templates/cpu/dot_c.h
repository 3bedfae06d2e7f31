/* dot_c.h -- integer dot products in portable C11: any compiler, any machine. */
#ifndef FORGE_DOT_H
#define FORGE_DOT_H
#include "vec.h"

/* Codes of eight bits are signed bytes in the packed file. DOT_FLIP is xored onto them where an instruction wants unsigned
 * weights; the codes then are too large by DOT_FLIP. */
#define DOT_FLIP 0
/* Steps of 4 columns that dot() takes at a time for codes of so many bits. */
#define DOT_RUN(bits) 4

/* acc[row] + sum over steps of the 4 codes of a row times the 4 activations of the step; codes [steps], x: int8 [4 * steps].
 * bits: codes are unsigned numbers below 2^bits; 8: signed bytes. */
DEVICE vi dot(vi acc, const vi *codes, const int8_t *x, const uint32_t steps, const uint32_t bits)
{
    (void)bits;                                        /* up to 7 bits unsigned and signed bytes are the same */
    for (uint32_t s = 0; s < steps; s++) {
        int8_t c[64];
        __builtin_memcpy(c, &codes[s], 64);
        for (uint32_t row = 0; row < 16; row++)
            acc.v[row] += c[4 * row] * x[4 * s] + c[4 * row + 1] * x[4 * s + 1] + c[4 * row + 2] * x[4 * s + 2] +
                          c[4 * row + 3] * x[4 * s + 3];
    }
    return acc;
}
/* Each of the 64 bytes of index (0..15) replaced by that entry of a table of 16. */
DEVICE vi bytes_lookup(const int8_t *table, vi index)
{
    uint8_t b[64];
    __builtin_memcpy(b, &index, 64);
    for (uint32_t i = 0; i < 64; i++) b[i] = (uint8_t)table[b[i]];
    __builtin_memcpy(&index, b, 64);
    return index;
}
#endif
