/* text.h -- pieces of C text that the writers of kernels and tables share: literals, lines of functions. */
#ifndef FORGEC_SOURCE_TEXT_H
#define FORGEC_SOURCE_TEXT_H
#include "compiler/base/base.h"
#include <stdarg.h>

/* x as a C literal of type float. */
const char *emit_float(struct arena *a, double x);
/* Appends a line of any length as lines of at most 140 columns, if it has enough commas. It is broken after a comma: among the commas in
 * the fewest brackets, after the last one that fits. Lines after the first begin with `next`. */
void emit_folded(struct text *t, const char *line, const char *next);
/* Appends lines that end with '\n' as folded lines of a comment: each begins with " * ". */
void emit_comment_lines(struct text *t, const char *lines);
/* Appends one line of a function's body, indented by *depth levels and folded. A line that ends with "{" opens a level, a line that begins
 * with "}" closes it. kernel: for messages. Dies if the line is empty or longer than 1023 bytes. */
void emit_line(struct text *body, uint32_t *depth, const char *kernel, const char *fmt, va_list args);
/* Appends s as a C string literal, or 0 if s is NULL. */
void emit_string(struct text *t, const char *s);
#endif
