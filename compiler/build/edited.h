/* edited.h -- a source that `forgec build --emit source` wrote and a person may have edited.  Its head records what it was emitted for. */
#ifndef FORGEC_EDITED_H
#define FORGEC_EDITED_H
#include "compiler/source/program.h"

/* Dies if the source at path was emitted from another model, for another target or with other options than plan and o, and says which
 * options to give. If the user removed the head, only the hash of the weights and, in a CPU source, the program's name can be compared. */
void         edited_check(struct arena *a, const char *path, struct bytes text, const struct plan *plan, const struct emit_options *o);
/* The text with a line before it that makes clang's messages name path and its lines. path does not affect the compiled code. */
struct bytes edited_for_clang(struct arena *a, const char *path, struct bytes text);
/* XXH3-128 of the text, 32 digits, as `xxhsum -H2` prints it. */
const char  *edited_hash(struct arena *a, struct bytes text);
#endif
