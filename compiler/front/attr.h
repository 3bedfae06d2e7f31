/* attr.h -- reads and prints attributes of a node as text, for graph.c. */
#ifndef FORGEC_ATTR_H
#define FORGEC_ATTR_H
#include "graph.h"

/* Sets attribute `name` of n's operation to value: a literal, or a parameter of n's layer. *given: a bit for each attribute of the
 * operation that the line has set so far. Dies at `at` on an unknown or repeated attribute, and at value_at on a value that is of another
 * type or out of range; if the value comes from keys of the file, the message names the keys. */
void attr_read(struct arena *a, const struct model *m, struct node *n, uint32_t *given, struct place at, const char *name,
               struct place value_at, const char *value);
/* Sets the attributes that are not in `given` to their defaults in op.def. */
void attr_default(struct arena *a, const struct model *m, struct node *n, uint32_t given, struct place at);
/* Appends every attribute of n's operation, such as " eps=1e-05", with enough digits to read back the same number. */
void attr_print(struct text *out, const struct node *n);
#endif
