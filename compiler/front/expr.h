/* expr.h -- arithmetic of the YAML: "n_block - n_nextn", "(layer + 1) % period != 0", "1 / sqrt(head_dim)". */
#ifndef FORGEC_EXPR_H
#define FORGEC_EXPR_H
#include "compiler/base/base.h"

/* Gives the number that a name stands for; false: there is none of that name. */
typedef bool expr_find(void *context, struct place at, const char *name, double *out);

/* Is the text more than a single name or number? */
bool expr_is_compound(const char *text);
/* The value of text, which stands at `at`; truth is 1 or 0.  Grammar, weakest first, all of it left-associative:
 *   or;  and;  not;  == != < <= > >= (one of them);  + -;  * / % (of floor);  unary -;  a number, name, (...), sqrt, ln, floor, min, max
 * Dies at `at` on text of another form, a name that find does not know, and a result that is no finite number. */
double expr_value(struct place at, const char *text, expr_find *find, void *context);
#endif
