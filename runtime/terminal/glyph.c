/* glyph.c -- see glyph.h.  The widths are those on which terminals agree: East Asian Wide and Fullwidth characters and emoji shown as
 * such take two columns (Unicode 16, EastAsianWidth.txt; ranges are joined if only unassigned characters lie between them). */
#include "glyph.h"

#include <string.h>

#include "runtime/chat/text.h"
#include "runtime/text/unicode.h"

static const uint32_t wide[][2] = {
    { 0x1100, 0x115f }, { 0x231a, 0x231b }, { 0x2329, 0x232a }, { 0x23e9, 0x23ec }, { 0x23f0, 0x23f0 }, { 0x23f3, 0x23f3 },
    { 0x25fd, 0x25fe }, { 0x2614, 0x2615 }, { 0x2630, 0x2637 }, { 0x2648, 0x2653 }, { 0x267f, 0x267f }, { 0x268a, 0x268f },
    { 0x2693, 0x2693 }, { 0x26a1, 0x26a1 }, { 0x26aa, 0x26ab }, { 0x26bd, 0x26be }, { 0x26c4, 0x26c5 }, { 0x26ce, 0x26ce },
    { 0x26d4, 0x26d4 }, { 0x26ea, 0x26ea }, { 0x26f2, 0x26f3 }, { 0x26f5, 0x26f5 }, { 0x26fa, 0x26fa }, { 0x26fd, 0x26fd },
    { 0x2705, 0x2705 }, { 0x270a, 0x270b }, { 0x2728, 0x2728 }, { 0x274c, 0x274c }, { 0x274e, 0x274e }, { 0x2753, 0x2755 },
    { 0x2757, 0x2757 }, { 0x2795, 0x2797 }, { 0x27b0, 0x27b0 }, { 0x27bf, 0x27bf }, { 0x2b1b, 0x2b1c }, { 0x2b50, 0x2b50 },
    { 0x2b55, 0x2b55 }, { 0x2e80, 0x303e }, { 0x3041, 0x3247 }, { 0x3250, 0xa4cf }, { 0xa960, 0xa97f }, { 0xac00, 0xd7a3 },
    { 0xf900, 0xfaff }, { 0xfe10, 0xfe19 }, { 0xfe30, 0xfe6f }, { 0xff01, 0xff60 }, { 0xffe0, 0xffe6 }, { 0x16fe0, 0x18dff },
    { 0x1aff0, 0x1b2ff }, { 0x1d300, 0x1d376 }, { 0x1f004, 0x1f004 }, { 0x1f0cf, 0x1f0cf }, { 0x1f18e, 0x1f18e }, { 0x1f191, 0x1f19a },
    { 0x1f200, 0x1f320 }, { 0x1f32d, 0x1f335 }, { 0x1f337, 0x1f37c }, { 0x1f37e, 0x1f393 }, { 0x1f3a0, 0x1f3ca }, { 0x1f3cf, 0x1f3d3 },
    { 0x1f3e0, 0x1f3f0 }, { 0x1f3f4, 0x1f3f4 }, { 0x1f3f8, 0x1f43e }, { 0x1f440, 0x1f440 }, { 0x1f442, 0x1f4fc }, { 0x1f4ff, 0x1f53d },
    { 0x1f54b, 0x1f54e }, { 0x1f550, 0x1f567 }, { 0x1f57a, 0x1f57a }, { 0x1f595, 0x1f596 }, { 0x1f5a4, 0x1f5a4 }, { 0x1f5fb, 0x1f64f },
    { 0x1f680, 0x1f6c5 }, { 0x1f6cc, 0x1f6cc }, { 0x1f6d0, 0x1f6d2 }, { 0x1f6d5, 0x1f6df }, { 0x1f6eb, 0x1f6ec }, { 0x1f6f4, 0x1f6fc },
    { 0x1f7e0, 0x1f7eb }, { 0x1f7f0, 0x1f7f0 }, { 0x1f90c, 0x1f93a }, { 0x1f93c, 0x1f945 }, { 0x1f947, 0x1f9ff }, { 0x1fa70, 0x1faff },
    { 0x20000, 0x2fffd }, { 0x30000, 0x3fffd },
};

enum { JOINER = 0x200d };

static bool is_wide(uint32_t c)
{
    size_t low = 0, high = sizeof wide / sizeof *wide;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (c > wide[middle][1]) low = middle + 1;
        else high = middle;
    }
    return low < sizeof wide / sizeof *wide && c >= wide[low][0];
}

/* Format characters, except the soft hyphen, which is shown. */
static bool is_format(uint32_t c)
{
    return c == 0x61c || c == 0x180e || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
           c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}
/* In Hangul syllables that are written in parts, vowels and finals take no columns beside the first part. */
static bool is_mark(uint32_t c) { return unicode_class(c) == UNICODE_MARK || (c >= 0x1160 && c <= 0x11ff); }
static bool is_skin(uint32_t c) { return c >= 0x1f3fb && c <= 0x1f3ff; }
static bool is_flag(uint32_t c) { return c >= 0x1f1e6 && c <= 0x1f1ff; }

void glyph_of(struct glyph *g, const char *text, size_t n)
{
    const size_t step = text_step(text, n);
    const uint32_t c = text_codepoint(text, step);
    *g = (struct glyph){ .bytes = step, .n_shown = step, .shown = text, .columns = 1 };
    if (c == '\t') {
        memcpy(g->own, "    ", 4);
        g->shown = g->own;
        g->n_shown = g->columns = 4;
    } else if (c < 32 || c == 127) {
        g->own[0] = '^';
        g->own[1] = (char)(c ^ 64);
        g->shown = g->own;
        g->n_shown = g->columns = 2;
    } else if (c < 127) {
        return;
    } else if (c < 0xa0 || (step == 1 && c == 0xfffd)) {
        memcpy(g->own, "\xef\xbf\xbd", 3);
        g->shown = g->own;
        g->n_shown = 3;
    } else if (is_format(c)) {
        g->columns = 0;
        if (c != JOINER) g->n_shown = 0;
    } else if (is_mark(c)) {
        g->columns = 0;
    } else if (is_wide(c)) {
        g->columns = 2;
    }
}

size_t glyph_step(const char *text, size_t n)
{
    size_t at = text_step(text, n);
    uint32_t last = text_codepoint(text, at);
    bool flag = is_flag(last);
    while (at < n && last != '\n') {
        const size_t step = text_step(text + at, n - at);
        const uint32_t c = text_codepoint(text + at, step);
        const bool joined = last == JOINER && c >= 0x2000;
        if (!joined && !is_mark(c) && !is_skin(c) && c != JOINER && !(flag && is_flag(c))) break;
        flag = false;
        last = c;
        at += step;
    }
    return at;
}

/* Starts at a place where a character certainly begins: after the last ASCII character. */
size_t glyph_step_back(const char *text, size_t n)
{
    size_t from = n - text_step_back(text, n);
    while (from > 0 && (unsigned char)text[from] >= 0x80) from -= text_step_back(text, from);
    for (;;) {
        const size_t step = glyph_step(text + from, n - from);
        if (from + step >= n) return n - from;
        from += step;
    }
}
