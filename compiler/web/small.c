/* small.c -- see small.h. WGSL has no strings, so everything that looks like a comment is a comment. */
#include "small.h"
#include "wgsl.h"
#include <string.h>

struct bytes wgsl_small(struct arena *a, struct bytes text)
{
    static const char mark[] = "// ==== ";
    const char *c = arena_strndup(a, (const char *)text.data, text.size), *const end = c + text.size;
    char *out = arena_alloc(a, text.size + 1), *to = out;
    while (c < end) {
        const bool first = to == out || to[-1] == '\n';              /* first character of its line */
        if (first && (size_t)(end - c) >= sizeof mark - 1 && !memcmp(c, mark, sizeof mark - 1)) {
            while (c < end && *c != '\n') *to++ = *c++;
            continue;
        }
        const char *behind = wgsl_comment_end(c);
        if (!behind) break;
        if (behind > c) {                        /* a comment separates names like a blank */
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
