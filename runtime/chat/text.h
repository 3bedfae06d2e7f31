/* text.h -- codepoints of UTF-8 text and Python's white space, for chat templates. */
#ifndef FORGE_CHAT_TEXT_H
#define FORGE_CHAT_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool text_starts(const char *text, size_t n, const char *prefix, size_t n_prefix)
{
    if (n < n_prefix) return false;
    for (size_t i = 0; i < n_prefix; i++) if (text[i] != prefix[i]) return false;
    return true;
}

/* Length of the codepoint that begins at text, n > 0 bytes; an invalid byte counts as one codepoint. */
static inline size_t text_step(const char *text, size_t n)
{
    const uint8_t lead = (uint8_t)text[0];
    const size_t want = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
    if (want > n) return 1;
    for (size_t i = 1; i < want; i++) if (((uint8_t)text[i] & 0xc0) != 0x80) return 1;
    return want;
}

/* The codepoint; U+FFFD for an invalid byte. */
static inline uint32_t text_codepoint(const char *text, size_t step)
{
    const uint8_t *p = (const uint8_t *)text;
    if (step == 1) return p[0] < 0x80 ? p[0] : 0xfffd;
    if (step == 2) return (p[0] & 0x1fu) << 6 | (p[1] & 63u);
    if (step == 3) return (p[0] & 0x0fu) << 12 | (p[1] & 63u) << 6 | (p[2] & 63u);
    return (p[0] & 7u) << 18 | (p[1] & 63u) << 12 | (p[2] & 63u) << 6 | (p[3] & 63u);
}

/* Writes the UTF-8 of c < 0x110000; to has room for 4 bytes.  Returns its length. */
static inline size_t text_put_codepoint(char *to, uint32_t c)
{
    if (c < 0x80) { to[0] = (char)c; return 1; }
    if (c < 0x800) { to[0] = (char)(0xc0 | c >> 6); to[1] = (char)(0x80 | (c & 63)); return 2; }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12); to[1] = (char)(0x80 | (c >> 6 & 63)); to[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18); to[1] = (char)(0x80 | (c >> 12 & 63)); to[2] = (char)(0x80 | (c >> 6 & 63));
    to[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* str.isspace() */
static inline bool text_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Length of the codepoint that ends before text + n, n > 0. */
static inline size_t text_step_back(const char *text, size_t n)
{
    for (size_t back = 2; back <= 4 && back <= n; back++)
        if (text_step(text + n - back, back) == back) return back;
    return 1;
}

/* Bytes of white space at the beginning, and at the end. */
static inline size_t text_space_prefix(const char *text, size_t n)
{
    size_t at = 0;
    while (at < n) {
        const size_t step = text_step(text + at, n - at);
        if (!text_is_space(text_codepoint(text + at, step))) break;
        at += step;
    }
    return at;
}
static inline size_t text_space_suffix(const char *text, size_t n)
{
    size_t left = n;
    while (left > 0) {
        const size_t step = text_step_back(text, left);
        if (!text_is_space(text_codepoint(text + left - step, step))) break;
        left -= step;
    }
    return n - left;
}

/* The offset of codepoint number `count`; n if there are fewer. */
static inline size_t text_offset(const char *text, size_t n, size_t count)
{
    size_t at = 0;
    while (count-- > 0 && at < n) at += text_step(text + at, n - at);
    return at;
}

static inline size_t text_codepoints(const char *text, size_t n)
{
    size_t count = 0;
    for (size_t at = 0; at < n; at += text_step(text + at, n - at)) count++;
    return count;
}
#endif
