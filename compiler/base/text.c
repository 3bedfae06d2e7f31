/* text.c -- a growing text in an arena. */
#include "internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)          /* GCC under UBSan: false "null format string" at vsnprintf(NULL, 0, ...) */
#  pragma GCC diagnostic ignored "-Wformat-truncation"
#endif


void text_reserve(struct text *t, size_t more)
{
    if (more > SIZE_MAX / 4 - t->size) die_memory(more);
    const size_t need = t->size + more + 1;
    if (need <= t->capacity) return;
    size_t capacity = t->capacity ? t->capacity * 2 : 256;
    while (capacity < need) capacity *= 2;
    char *data = arena_alloc(t->arena, capacity);
    if (t->size) memcpy(data, t->data, t->size);
    t->data = data;
    t->capacity = capacity;
}

void text_append(struct text *t, const char *bytes, size_t n)
{
    text_reserve(t, n);
    if (n) memcpy(t->data + t->size, bytes, n);
    t->size += n;
    t->data[t->size] = '\0';
}

void text_puts(struct text *t, const char *s) { text_append(t, s, strlen(s)); }

void text_printf(struct text *t, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    assert(n >= 0);
    text_reserve(t, (size_t)n);
    vsnprintf(t->data + t->size, (size_t)n + 1, fmt, again);
    t->size += (size_t)n;
    va_end(again);
    va_end(args);
}

const char *text_str(const struct text *t) { return t->data ? t->data : ""; }
