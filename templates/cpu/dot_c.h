/* dot_c.h -- integer dot products in portable C11, for any compiler and machine. */
#ifndef FORGE_DOT_H
#define FORGE_DOT_H
#include "vec.h"

/* 8-bit codes are signed bytes in the packed file.  DOT_FLIP is xored onto them if the instruction needs unsigned weights; the codes are
 * then too large by DOT_FLIP. */
#define DOT_FLIP 0
/* Most steps of 4 columns per call of dot(), for codes of this many bits. */
#define DOT_RUN(bits) 4

/* Returns acc[row] + sum over steps of (4 codes of the row) . (4 activations of the step).  codes: [steps], x: int8 [4 * steps].
 * bits < 8: codes are unsigned and below 2^bits; bits = 8: signed bytes. */
DEVICE vi dot(vi acc, const vi *codes, const int8_t *x, const uint32_t steps, const uint32_t bits)
{
    (void)bits;                                        /* codes of up to 7 bits are also valid signed bytes */
    for (uint32_t s = 0; s < steps; s++) {
        int8_t c[64];
        __builtin_memcpy(c, &codes[s], 64);
        for (uint32_t row = 0; row < 16; row++)
            acc.v[row] += c[4 * row] * x[4 * s] + c[4 * row + 1] * x[4 * s + 1] + c[4 * row + 2] * x[4 * s + 2] +
                          c[4 * row + 3] * x[4 * s + 3];
    }
    return acc;
}
/* Replaces each of the 64 bytes of index (0..15) by that entry of a table of 16. */
DEVICE vi bytes_lookup(const int8_t *table, vi index)
{
    uint8_t b[64];
    __builtin_memcpy(b, &index, 64);
    for (uint32_t i = 0; i < 64; i++) b[i] = (uint8_t)table[b[i]];
    __builtin_memcpy(&index, b, 64);
    return index;
}
#endif
