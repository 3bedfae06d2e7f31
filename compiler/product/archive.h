/* archive.h -- a static library (GNU ar format, with its index of symbols) of one object.  No times, owners or paths: the same input, the
 * same bytes. */
#ifndef FORGEC_ARCHIVE_H
#define FORGEC_ARCHIVE_H
#include "compiler/base/base.h"

/* Writes everything before the object's bytes: archive_begin, then object_bytes bytes by the caller, then archive_end.
 * member: the object's name in the library ("story.o").  symbols: NULL-terminated, what the linker finds in the index.
 * Dies when the object is too large for the format (10 decimal digits). */
void archive_begin(struct outfile *f, struct arena *a, const char *member, uint64_t object_bytes, const char *const *symbols);
void archive_end(struct outfile *f);
#endif
