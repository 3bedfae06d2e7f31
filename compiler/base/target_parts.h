/* target_parts.h -- shared by the files that read targets: target.c, target_flags.c and target_check.c. Errors die with file, line and
 * column of the value. */
#ifndef FORGEC_TARGET_PARTS_H
#define FORGEC_TARGET_PARTS_H
#include "target.h"

enum { TARGET_NAME_MOST = 64 };                  /* characters of a target's name, or of a triple */

/* The keys of `tiles` for GPUs: the value's offset in struct target, its range, and the number it must be a multiple of. */
enum { TARGET_TILES = 23 };
struct target_tile { const char *name; size_t offset; uint32_t least, most, multiple; };
extern const struct target_tile target_tiles[TARGET_TILES];
_Static_assert((int)TARGET_TILES <= (int)TARGET_MAX_TILES, "a place for each tile");
static inline uint32_t *target_tile(struct target *p, const struct target_tile *key)
{
    return (uint32_t *)(void *)((char *)p + key->offset);
}

/* The word of y. Dies if it is not in `known` (NULL-terminated). */
const char *target_one_of(struct arena *a, const struct yaml *y, const char *const *known);

/* target_flags.c: y is a list of flags for clang; a triple; a list of CPU features. */
void        target_check_flags(struct arena *a, const struct yaml *y);
const char *target_triple_of(struct arena *a, const struct yaml *y);
void        target_check_features(struct arena *a, const struct yaml *y);

/* target_check.c: target_missing_key returns the key that p lacks, or NULL. The others need all keys and die if their values do not fit
 * together. */
const char *target_missing_key(struct arena *a, struct target *p);
void        target_check_gpu(struct target *p);
void        target_check_webgpu(struct target *p);
void        target_check_cpu(const struct target *p);
#endif
