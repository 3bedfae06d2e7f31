/* table.c -- see table.h. */
#include "table.h"
#include <stdio.h>
#include <string.h>

static void add(struct table *t, const char *text)
{
    struct text escaped = { .arena = t->arena };
    for (; *text; text++) text_printf(&escaped, *text == '|' ? "\\|" : "%c", *text);
    arena_room(t->arena, t->cells, t->n_cells, t->capacity);
    t->cells[t->n_cells++] = text_str(&escaped);
}

struct table table_of(struct arena *a, const char *const *heads, uint32_t n_columns)
{
    struct table t = { .arena = a, .n_columns = n_columns };
    for (uint32_t i = 0; i < n_columns; i++) add(&t, heads[i]);
    return t;
}

void table_cell(struct table *t, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    add(t, text);
}

/* Counts characters, not bytes. */
static uint32_t width_of(const char *s)
{
    uint32_t n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void put(char c, uint32_t n) { while (n-- > 0) putchar(c); }

void table_print(const struct table *t)
{
    for (uint32_t row = 0; row < t->n_cells / t->n_columns; row++) {
        for (uint32_t line = 0; line < (row == 0 ? 2 : 1); line++) {          /* the head is followed by a rule */
            for (uint32_t i = 0; i < t->n_columns; i++) {
                const char *head = t->cells[i], *cell = t->cells[row * t->n_columns + i] + (row == 0 && *head == '>');
                uint32_t width = 3;
                for (uint32_t k = i; k < t->n_cells; k += t->n_columns) {
                    const uint32_t one = width_of(t->cells[k]) - (k < t->n_columns && *head == '>');
                    if (one > width) width = one;
                }
                fputs(i ? " | " : "| ", stdout);
                if (line) { put('-', width - (*head == '>')); fputs(*head == '>' ? ":" : "", stdout); continue; }
                if (*head == '>') put(' ', width - width_of(cell));
                fputs(cell, stdout);
                if (*head != '>') put(' ', width - width_of(cell));
            }
            puts(" |");
        }
    }
}
