/* printable.c -- UTF-8, and text from files made safe to display. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

uint32_t utf8_next(const char *text, size_t n, uint32_t *used)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *s = (const unsigned char *)text;
    const uint32_t length = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                          : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
    *used = 1;
    if (length == 1) return s[0];
    if (length == 0 || length > n) return 0xfffd;
    uint32_t c = s[0] & (0x7fu >> length);
    for (uint32_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0xfffd;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0xfffd;
    *used = length;
    return c;
}

bool is_visible(uint32_t c)
{
    static const struct { uint32_t first, last; } hidden[] = {     /* ascending; Unicode 15: controls, formats, line ends, no glyph */
        { 0, 0x1f },         { 0x7f, 0x9f },       { 0xad, 0xad },       { 0x34f, 0x34f },     { 0x61c, 0x61c },     { 0x115f, 0x1160 },
        { 0x17b4, 0x17b5 },  { 0x180b, 0x180f },   { 0x200b, 0x200f },   { 0x2028, 0x202e },   { 0x2060, 0x206f },   { 0x3164, 0x3164 },
        { 0xd800, 0xdfff },  { 0xfdd0, 0xfdef },   { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 },   { 0xfff0, 0xfffb },   { 0x1bca0, 0x1bca3 },
        { 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
    };
    if ((c & 0xfffe) == 0xfffe || c > 0x10ffff) return false;
    for (size_t i = 0; i < COUNT_OF(hidden) && hidden[i].first <= c; i++)
        if (c <= hidden[i].last) return false;
    return true;
}

/* The next piece of printable(): a character unchanged, or its bytes in hexadecimal. Returns the number of bytes of text consumed. */
static uint32_t printable_piece(char piece[20], const char *s, size_t n, char before)
{
    uint32_t used;
    const uint32_t c = utf8_next(s, n, &used);
    const bool wrong = c == 0xfffd && used == 1;
    /* Less obvious cases: "slash star" inside a comment gives a warning, and two question marks begin a trigraph in C11. */
    const bool ends_comment = (c == '/' && before == '*') || (c == '*' && before == '/'), trigraph = c == '?' && before == '?';
    if (!wrong && is_visible(c) && c != '"' && c != '\'' && c != '\\' && !ends_comment && !trigraph) {
        memcpy(piece, s, used);
        piece[used] = '\0';
        return used;
    }
    for (uint32_t i = 0; i < used; i++) snprintf(piece + 4 * i, 5, "\\x%02X", (unsigned char)s[i]);
    return used;
}

const char *printable(struct arena *a, const char *bytes, size_t n)
{
    enum { LIMIT = 200 };
    char out[LIMIT + 8];
    size_t size = 0, cut = 0;              /* cut: where "..." still fits */
    for (size_t i = 0; i < n; ) {
        char piece[20];
        i += printable_piece(piece, bytes + i, n - i, i ? bytes[i - 1] : '\0');
        const size_t length = strlen(piece);
        if (size + length > LIMIT) {
            memcpy(out + cut, "...", 3);
            return arena_strndup(a, out, cut + 3);
        }
        memcpy(out + size, piece, length);
        size += length;
        if (size <= LIMIT - 3) cut = size;
    }
    return arena_strndup(a, out, size);
}

void make_one_line(char *s)
{
    char *to = s;
    for (size_t n = strlen(s); n; ) {
        uint32_t used;
        const uint32_t c = utf8_next(s, n, &used);
        const bool shown = is_visible(c) && !(c == 0xfffd && used == 1);
        if (shown) memmove(to, s, used);
        else       *to = '?';
        to += shown ? used : 1;
        s += used;
        n -= used;
    }
    *to = '\0';
}
