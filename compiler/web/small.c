/* small.c -- see small.h.  WGSL has no text in quotes, so that what looks like a comment is one. */
#include "small.h"
#include <string.h>

/* Behind a comment that begins at c; not behind a comment: c. */
static const char *comment_end(const char *c, const char *end)
{
    if (end - c < 2 || c[0] != '/') return c;
    if (c[1] == '/') {
        const char *newline = memchr(c, '\n', (size_t)(end - c));
        return newline ? newline : end;
    }
    if (c[1] != '*') return c;
    int depth = 0;
    do {
        const bool two = end - c >= 2, opens = two && c[0] == '/' && c[1] == '*', closes = two && c[0] == '*' && c[1] == '/';
        depth += opens - closes;
        c += opens || closes ? 2 : 1;
    } while (depth && c < end);
    return c;
}

struct bytes wgsl_small(struct arena *a, struct bytes text)
{
    static const char mark[] = "// ==== ";
    const char *c = (const char *)text.data, *const end = c + text.size;
    char *out = arena_alloc(a, text.size + 1), *to = out;
    while (c < end) {
        const bool first = to == out || to[-1] == '\n';              /* of its line */
        if (first && (size_t)(end - c) >= sizeof mark - 1 && !memcmp(c, mark, sizeof mark - 1)) {
            while (c < end && *c != '\n') *to++ = *c++;
            continue;
        }
        const char *behind = comment_end(c, end);
        if (behind > c) {                        /* like a blank: what stands on both sides stays apart */
            if (!first && to[-1] != ' ') *to++ = ' ';
            c = behind;
        } else if (*c == ' ' || *c == '\t') {
            if (!first && to[-1] != ' ') *to++ = ' ';
            c++;
        } else if (*c == '\n') {
            while (to > out && to[-1] == ' ') to--;
            if (to > out && to[-1] != '\n') *to++ = '\n';
            c++;
        } else *to++ = *c++;
    }
    return (struct bytes){ (const uint8_t *)out, (size_t)(to - out) };
}
