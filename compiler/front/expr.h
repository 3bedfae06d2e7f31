/* expr.h -- arithmetic expressions in the YAML: "n_block - n_nextn", "(layer + 1) % period != 0", "1 / sqrt(head_dim)". */
#ifndef FORGEC_EXPR_H
#define FORGEC_EXPR_H
#include "compiler/base/base.h"

/* Sets *out to the value of a name; false if the name is unknown. */
typedef bool expr_find(void *context, struct place at, const char *name, double *out);

/* True if the text is more than a single name or number. */
bool expr_is_compound(const char *text);
/* True if the name is a word of the text. */
bool expr_names(const char *text, const char *name);
/* The value of text, which stands at `at`; truth is 1 or 0.  Grammar, weakest first, all of it left-associative:
 *   or;  and;  not;  == != < <= > >= (one of them);  + -;  * / % (of floor);  unary -;  a number, name, (...), sqrt, ln, pow, floor, min,
 *   max
 * Dies at `at` on a syntax error, a name that find does not know, and a result that is not finite. */
double expr_value(struct place at, const char *text, expr_find *find, void *context);
/* The same, but the result may be infinite or NaN. */
double expr_any_value(struct place at, const char *text, expr_find *find, void *context);
#endif
