/* archive.h -- a static library (GNU ar format, with symbol index) of one object. It has no times, owners or paths, so equal inputs give
 * equal bytes. */
#ifndef FORGEC_ARCHIVE_H
#define FORGEC_ARCHIVE_H
#include "compiler/base/base.h"

/* archive_begin writes everything before the object's bytes. Then the caller writes object_bytes bytes and calls archive_end.
 * member: the object's name in the library ("story.o"). symbols: NULL-terminated, for the index that the linker searches.
 * Dies if the object is too large for the format (10 decimal digits). */
void archive_begin(struct outfile *f, struct arena *a, const char *member, uint64_t object_bytes, const char *const *symbols);
void archive_end(struct outfile *f);
#endif
