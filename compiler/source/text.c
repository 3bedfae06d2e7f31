/* text.c -- see text.h. */
#include "text.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

const char *emit_float(struct arena *a, double x)
{
    const char *s = arena_printf(a, "%.9g", (double)(float)x);
    return arena_printf(a, "%s%sf", s, strpbrk(s, ".en") ? "" : ".0");
}

enum { LINE_COLUMNS = 140 };

/* The position where a line of more than `columns` columns is broken: after a comma that a blank follows, outside of strings and comments.
 * 0: no such position. */
static size_t fold_at(const char *line, size_t columns)
{
    size_t at = 0;
    int depth = 0, least = INT_MAX;
    bool quoted = false, comment = false;
    for (size_t i = 0; line[i] && i < columns; i++) {
        if (line[i] == '"' && !comment) quoted = !quoted;
        if (quoted) continue;
        if (i > 0 && line[i - 1] == '/' && line[i] == '*') comment = true;
        if (i > 0 && line[i - 1] == '*' && line[i] == '/') comment = false;
        if (comment) continue;
        if (strchr("([{", line[i])) depth++;
        if (strchr(")]}", line[i])) depth--;
        if (line[i] == ',' && line[i + 1] == ' ' && depth <= least) { least = depth; at = i + 1; }
    }
    return at;
}

void emit_folded(struct text *t, const char *line, const char *next)
{
    for (size_t begun = 0; begun + strlen(line) > LINE_COLUMNS; begun = strlen(next)) {
        const size_t at = fold_at(line, LINE_COLUMNS - begun);
        if (!at) break;
        text_append(t, line, at);
        text_printf(t, "\n%s", next);
        line += at + 1;
    }
    text_printf(t, "%s\n", line);
}

void emit_comment_lines(struct text *t, const char *lines)
{
    for (size_t n; *lines; lines += n, lines += *lines == '\n') {
        n = strcspn(lines, "\n");
        emit_folded(t, arena_printf(t->arena, " * %.*s", (int)n, lines), " *     ");
    }
}

void emit_line(struct text *body, uint32_t *depth, const char *kernel, const char *fmt, va_list args)
{
    char line[1024];
    const int n = vsnprintf(line, sizeof line, fmt, args);
    if (n < 1 || (size_t)n >= sizeof line)
        die("kernel %s has a line of %d characters; this is a mistake in forgec, please report it", kernel, n);
    if (line[0] == '}') --*depth;
    const int indent = (int)(4 * *depth);
    emit_folded(body, arena_printf(body->arena, "%*s%s", indent, "", line), arena_printf(body->arena, "%*s", indent + 4, ""));
    if (line[n - 1] == '{') ++*depth;
}

/* Printable ASCII stays as it is, except quotes and backslashes; "?" is escaped because of trigraphs. */
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
