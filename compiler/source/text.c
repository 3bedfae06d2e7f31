/* text.c -- see text.h. */
#include "text.h"
#include <stdio.h>
#include <string.h>

const char *emit_float(struct arena *a, double x)
{
    const char *s = arena_printf(a, "%.9g", (double)(float)x);
    return arena_printf(a, "%s%sf", s, strpbrk(s, ".en") ? "" : ".0");
}

void emit_line(struct text *body, uint32_t *depth, const char *kernel, const char *fmt, va_list args)
{
    char line[1024];
    const int n = vsnprintf(line, sizeof line, fmt, args);
    if (n < 1 || (size_t)n >= sizeof line) die("kernel %s has a line of %d characters; this is a mistake in forgec, please report it", kernel, n);
    if (line[0] == '}') --*depth;
    text_printf(body, "%*s%s\n", (int)(4 * *depth), "", line);
    if (line[n - 1] == '{') ++*depth;
}

/* As a C string literal.  Only printable ASCII without quotes and backslashes stays; "?" is escaped against trigraphs. */
void emit_string(struct text *t, const char *s)
{
    if (!s) { text_puts(t, "0"); return; }
    text_puts(t, "\"");
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c < 32 || c > 126 || c == '"' || c == '\\' || c == '?') text_printf(t, "\\%03o", c);
        else text_append(t, s, 1);
    }
    text_puts(t, "\"");
}
