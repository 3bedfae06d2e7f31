/* fake_spoil.h -- for both fake programs: with FAKE_SPOIL=POSITION:TOKEN:BITS, after the token at that position the logit of TOKEN has
 * these (hexadecimal) bits. */
#ifndef FAKE_SPOIL_H
#define FAKE_SPOIL_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline float fake_spoiled(float x, uint32_t position, uint32_t token)
{
    const char *text = getenv("FAKE_SPOIL");
    unsigned wanted_position, wanted_token, bits;
    if (text == NULL || sscanf(text, "%u:%u:%x", &wanted_position, &wanted_token, &bits) != 3) return x;
    if (position == wanted_position && token == wanted_token) memcpy(&x, &bits, sizeof x);
    return x;
}
#endif
