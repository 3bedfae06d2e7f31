/* pretokenize.h -- cuts text into the words inside which a byte-level BPE merges. */
#ifndef FORGE_PRETOKENIZE_H
#define FORGE_PRETOKENIZE_H
#include <stddef.h>
#include <stdint.h>
#include "runtime/model/vocab.h"

/* A unit is one codepoint: 21 bits of value, its class above, and whether a word starts at it. */
#define PRETOKEN_START         0x80000000u
#define PRETOKEN_CODEPOINT(u)  ((u) & 0x1fffffu)

/* The codepoint at s, n > 0 bytes, and its length.  A malformed byte is U+FFFD, alone; overlong forms and surrogates
 * are decoded as they stand, because llama.cpp's decoder takes them. */
uint32_t pretoken_codepoint(const uint8_t *s, size_t n, size_t *length);
/* units: [n] at least, written.  Returns the number of units. */
size_t pretoken_decode(uint32_t *units, const uint8_t *text, size_t n);
/* Sets PRETOKEN_START on the first unit of every word.  Linear in n for every rule. */
void pretoken_split(uint32_t *units, size_t n, enum forge_pre pre);
#endif
