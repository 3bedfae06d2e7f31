/* attr.h -- attributes of a node as text: what graph.c reads and prints. */
#ifndef FORGEC_ATTR_H
#define FORGEC_ATTR_H
#include "graph.h"

/* Sets attribute `name` of n's operation to value: a literal, or a parameter of n's layer.  *given: the operation's attributes that
 * the line has given so far, a bit each.  Dies at `at` on an unknown or repeated attribute, at value_at on a value of another type
 * or out of range. */
void attr_read(const struct model *m, struct node *n, uint32_t *given, struct place at, const char *name, struct place value_at,
               const char *value);
/* Those not given take the value that op.def says. */
void attr_default(const struct model *m, struct node *n, uint32_t given, struct place at);
/* " eps=1e-05": every attribute of n's operation, with the digits that read back as the same number. */
void attr_print(struct text *out, const struct node *n);
#endif
