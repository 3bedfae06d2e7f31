/* text.h -- pieces of C that the writers of kernels and tables share: literals, lines of functions. */
#ifndef FORGEC_SOURCE_TEXT_H
#define FORGEC_SOURCE_TEXT_H
#include "compiler/base/base.h"
#include <stdarg.h>

/* x as the literal of a float. */
const char *emit_float(struct arena *a, double x);
/* One line of a function's body, indented by *depth braces: a line that ends in "{" opens a level, one that begins with "}" closes it.  kernel: for messages. */
void emit_line(struct text *body, uint32_t *depth, const char *kernel, const char *fmt, va_list args);
/* s as a C string literal, NULL as 0. */
void emit_string(struct text *t, const char *s);
#endif
