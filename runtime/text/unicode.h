/* unicode.h -- the class of a codepoint: what \p{L}, \p{N}, \p{M}, \p{P}, \p{S} and \s of the pre-tokenisers ask. */
#ifndef FORGE_UNICODE_H
#define FORGE_UNICODE_H
#include <stdint.h>

/* unicode.c: which row of pairs has the classes of a page of 128 codepoints; classes of two codepoints in a byte. */
extern const uint8_t unicode_page[8704], unicode_class_pair[][64];

enum unicode_class {
    UNICODE_OTHER, UNICODE_NUMBER, UNICODE_LETTER, UNICODE_MARK, UNICODE_PUNCTUATION, UNICODE_SYMBOL, UNICODE_SPACE, UNICODE_UNASSIGNED
};

/* Any value; beyond U+10FFFF: UNICODE_UNASSIGNED.  UNICODE_OTHER is category C but for Cn: control and format characters, surrogates,
 * private use. */
static inline enum unicode_class unicode_class(uint32_t c)
{
    if (c >= 0x110000) return UNICODE_UNASSIGNED;
    const uint8_t pair = unicode_class_pair[unicode_page[c >> 7]][(c & 127) >> 1];
    return (enum unicode_class)(c & 1 ? pair >> 4 : pair & 15);
}
#endif
