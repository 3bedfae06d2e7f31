/* text.h -- pieces of C that the writers of kernels and tables share: literals, lines of functions. */
#ifndef FORGEC_SOURCE_TEXT_H
#define FORGEC_SOURCE_TEXT_H
#include "compiler/base/base.h"
#include <stdarg.h>

/* x as the literal of a float. */
const char *emit_float(struct arena *a, double x);
/* A line of any length as lines of at most 140 columns, where it has commas enough: it is broken after one, of those in the fewest
 * brackets the last that fits.  Lines after the first begin with `next`. */
void emit_folded(struct text *t, const char *line, const char *next);
/* One line of a function's body, indented by *depth braces and folded: a line that ends in "{" opens a level, one that begins with "}"
 * closes it.  kernel: for messages. */
void emit_line(struct text *body, uint32_t *depth, const char *kernel, const char *fmt, va_list args);
/* s as a C string literal, NULL as 0. */
void emit_string(struct text *t, const char *s);
#endif
