/* unicode.h -- the class of a codepoint: what \p{L}, \p{N}, \p{M}, \p{P}, \p{S} and \s of the pre-tokenisers ask. */
#ifndef FORGE_UNICODE_H
#define FORGE_UNICODE_H
#include <stdint.h>
#include "unicode.inc"

enum unicode_class {
    UNICODE_OTHER, UNICODE_NUMBER, UNICODE_LETTER, UNICODE_MARK, UNICODE_PUNCTUATION, UNICODE_SYMBOL, UNICODE_SPACE
};

/* Any value; beyond U+10FFFF: UNICODE_OTHER. */
static inline enum unicode_class unicode_class(uint32_t c)
{
    if (c >= 0x110000) return UNICODE_OTHER;
    const uint8_t pair = unicode_class_pair[unicode_page[c >> 7]][(c & 127) >> 1];
    return (enum unicode_class)(c & 1 ? pair >> 4 : pair & 15);
}
#endif
