/* inspect.h -- shows the contents of a GGUF file, as a table or as JSON. */
#ifndef FORGEC_INSPECT_H
#define FORGEC_INSPECT_H
#include "compiler/base/target.h"
#include "compiler/front/gguf.h"

/* Prints to stdout, which is not flushed. target: also print the bytes of each whole tensor as packed for it; or NULL.
 * json: one object with "file", "keys", "tensors" and "types". Integers are exact to 64 bits, arrays are cut to
 * their first items, strings are ASCII (\uXXXX for other characters, U+FFFD for invalid UTF-8). */
void inspect_print(struct arena *a, const struct gguf *g, bool json, const struct target *target);
#endif
