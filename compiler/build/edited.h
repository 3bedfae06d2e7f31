/* edited.h -- a source that `forgec build --emit source` wrote and a person may have edited.  Its head records what it was emitted for. */
#ifndef FORGEC_EDITED_H
#define FORGEC_EDITED_H
#include "compiler/source/program.h"

/* Dies where the source at path was emitted from another model, for another target or with other options than plan and o, saying
 * which to give.  A head that is gone records nothing: then only the hash of the weights and, of a CPU's source, the program's name
 * are there to be compared. */
void         edited_check(struct arena *a, const char *path, struct bytes text, const struct plan *plan, const struct emit_options *o);
/* The text with a line before it by which clang's messages name path and its lines.  Nothing of path gets into what is compiled. */
struct bytes edited_for_clang(struct arena *a, const char *path, struct bytes text);
/* XXH3-128 of the text, 32 digits, as `xxhsum -H2` prints it. */
const char  *edited_hash(struct arena *a, struct bytes text);
#endif
