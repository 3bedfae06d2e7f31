/* mutate_lines.h -- edits of a text after a first byte, which says what the text is: they replace lines and words by others and by extreme
 * values.  Before including it, a file defines `edges`, words that replace others; after it, another_line(), which returns a line of
 * another text. */
#ifndef FORGEC_MUTATE_LINES_H
#define FORGEC_MUTATE_LINES_H
#include <ctype.h>
#include <string.h>
#include "pick.h"

enum { MUTATE_LINES = 400 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
static const char *another_line(void);

static uint32_t split(struct arena *a, const char *text, size_t size, const char *lines[], uint32_t most)
{
    uint32_t n = 0;
    for (const char *p = text, *end = text + size; p < end && n < most; ) {
        const char *newline = memchr(p, '\n', (size_t)(end - p)), *stop = newline ? newline : end;
        lines[n++] = arena_strndup(a, p, (size_t)(stop - p));
        p = stop + 1;
    }
    return n;
}

/* A word of the line and its end; NULL: the line has no words. */
static const char *a_word(const char *line, size_t *length)
{
    const char *starts[64];
    uint32_t n = 0;
    for (const char *c = line; *c && n < COUNT_OF(starts); c++)
        if ((isalnum((unsigned char)*c) || *c == '_' || *c == '%') &&
            (c == line || !(isalnum((unsigned char)c[-1]) || strchr("_%.-", c[-1])))) starts[n++] = c;
    if (!n) return NULL;
    const char *word = starts[pick(n)];
    *length = 1;
    while (isalnum((unsigned char)word[*length]) || (word[*length] && strchr("_.-", word[*length]))) ++*length;
    return word;
}

static const char *edge(struct arena *a)
{
    return pick(4) ? edges[pick(COUNT_OF(edges))] : arena_printf(a, "%llu", (1ull << pick(64)) + pick(3) - 1);
}

static const char *edit_word(struct arena *a, const char *line, const char *other)
{
    size_t n, m;
    const char *word = a_word(line, &n), *from = a_word(other, &m);
    if (!word) return other;
    if (!from || pick(2)) { from = edge(a); m = strlen(from); }
    return arena_printf(a, "%.*s%.*s%s", (int)(word - line), line, (int)m, from, word + n);
}

static uint32_t edit_line(struct arena *a, const char *lines[], uint32_t n)
{
    const uint32_t i = pick(n), k = pick(n);
    const char *other = lines[k];
    switch (pick(8)) {
    case 0: lines[i] = another_line(); break;
    case 1: lines[k] = lines[i]; lines[i] = other; break;
    case 2: for (uint32_t l = i; l + 1 < n; l++) lines[l] = lines[l + 1]; return n - 1;
    case 3:
        if (n >= MUTATE_LINES) break;
        memmove(lines + i + 1, lines + i, (n - i) * sizeof *lines);
        lines[i] = pick(2) ? other : another_line();
        return n + 1;
    case 4: lines[i] = pick(2) ? arena_printf(a, "  %s", lines[i]) : lines[i] + strspn(lines[i], " "); break;
    default: lines[i] = edit_word(a, lines[i], pick(3) ? other : another_line());
    }
    return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    pick_from(seed);
    if (size < 2 || pick(16) == 0) return LLVMFuzzerMutate(data, size, max_size);
    struct arena *a = arena_create();
    const char *lines[MUTATE_LINES + 1];
    struct text t = { .arena = a };
    uint32_t n = split(a, (const char *)data + 1, size - 1, lines, MUTATE_LINES);
    for (uint32_t edits = pick(2) ? 1 : 2 + pick(4); edits > 0 && n > 1; edits--) n = edit_line(a, lines, n);
    for (uint32_t i = 0; i < n; i++) text_printf(&t, "%s\n", lines[i]);
    const size_t length = t.size < max_size - 1 ? t.size : max_size - 1;
    if (length) memcpy(data + 1, t.data, length);
    arena_destroy(a);
    return length + 1;
}
#endif
