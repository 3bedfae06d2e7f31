/* number_put.h -- writes a number of a block, its scale or its minimum, at the place that the format gives it. */
#ifndef TEST_NUMBER_PUT_H
#define TEST_NUMBER_PUT_H
#include "compiler/format/format.h"
#include <string.h>

/* Writes number i of a block (f->number_at[i] >= 0).  bits: its 1, 2 or 4 bytes.  IQ1_M stores an f16 in the upper nibbles of every other
 * byte. */
static inline void number_put(uint8_t *block, const struct format *f, uint32_t i, const void *bits)
{
    const uint8_t *from = bits;
    uint8_t *to = block + f->number_at[i];
    if (f->id != QUANT_IQ1_M) memcpy(to, bits, f->number == NUMBER_F32 ? 4 : f->number == NUMBER_E8M0 ? 1 : 2);
    else for (uint32_t k = 0; k < 4; k++) to[2 * k + 1] = (uint8_t)((to[2 * k + 1] & 15) | (from[k / 2] >> 4 * (k % 2) & 15) << 4);
}
#endif
