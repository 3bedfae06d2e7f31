/* unicode.h -- the class of a codepoint, for \p{L}, \p{N}, \p{M}, \p{P}, \p{S} and \s of the pre-tokenizers (Unicode 16). */
#ifndef FORGE_UNICODE_H
#define FORGE_UNICODE_H
#include <stdint.h>

/* unicode.c: the block of rows for each range of 512 codepoints; the row of pairs for each 16 of these; the classes of two codepoints in
 * a byte. */
extern const uint8_t  unicode_block[2176], unicode_class_pair[][8];
extern const uint16_t unicode_row[][32];

enum unicode_class {
    UNICODE_OTHER, UNICODE_NUMBER, UNICODE_LETTER, UNICODE_MARK, UNICODE_PUNCTUATION, UNICODE_SYMBOL, UNICODE_SPACE, UNICODE_UNASSIGNED,
    /* only from unicode_fine_class: upper case letters (Lu, Lt), lower case letters (Ll), decimal digits (Nd) */
    UNICODE_UPPER, UNICODE_LOWER, UNICODE_DIGIT
};

/* c: any value; beyond U+10FFFF: UNICODE_UNASSIGNED.  UNICODE_OTHER is category C without Cn: control and format characters, surrogates,
 * private use. */
static inline enum unicode_class unicode_fine_class(uint32_t c)
{
    if (c >= 0x110000) return UNICODE_UNASSIGNED;
    const uint8_t pair = unicode_class_pair[unicode_row[unicode_block[c >> 9]][c >> 4 & 31]][c >> 1 & 7];
    return (enum unicode_class)(c & 1 ? pair >> 4 : pair & 15);
}
/* The same, but all letters are UNICODE_LETTER and all numbers UNICODE_NUMBER. */
static inline enum unicode_class unicode_class(uint32_t c)
{
    const enum unicode_class class = unicode_fine_class(c);
    return class < UNICODE_UPPER ? class : class == UNICODE_DIGIT ? UNICODE_NUMBER : UNICODE_LETTER;
}
#endif
