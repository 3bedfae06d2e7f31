/* inspect.h -- shows what a GGUF file holds, as a table or as JSON. */
#ifndef FORGEC_INSPECT_H
#define FORGEC_INSPECT_H
#include "compiler/base/profile.h"
#include "compiler/front/gguf.h"

/* target: with the bytes that each tensor takes packed for it, as a whole; or NULL.
 * To stdout.  json: one object with "file", "keys", "tensors" and "types"; integers are exact to 64 bits, arrays are cut to
 * their first items, strings are ASCII (\uXXXX for the rest, U+FFFD for bytes that are not UTF-8).  stdout is not flushed. */
void inspect_print(struct arena *a, const struct gguf *g, bool json, const struct profile *target);
#endif
