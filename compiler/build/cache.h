/* cache.h -- results kept by the XXH3-128 of everything that went into them, under $XDG_CACHE_HOME/forgec (~/.cache/forgec).
 * A convenience only: without a writable directory every look-up misses and every store does nothing.  So it is, after one warning, where
 * the directory is not the user's own, others can write it, or it is a symbolic link; an entry of that kind is a miss and is removed. */
#ifndef FORGEC_CACHE_H
#define FORGEC_CACHE_H
#include "compiler/base/base.h"

struct cache;
struct cache_key { uint64_t high, low; };

/* enabled false (--no-cache): a cache that holds nothing.  Never fails. */
struct cache *cache_open(struct arena *a, bool enabled);
/* As cache_open with a directory and a size limit of one's own (tests). */
struct cache *cache_open_at(struct arena *a, const char *directory, uint64_t limit_bytes);
/* Each part counts with its length, so ("ab","c") and ("a","bc") differ. */
struct cache_key cache_key_of(const struct bytes *parts, size_t n_parts);
const char *cache_key_hex(struct arena *a, struct cache_key key);       /* 32 digits */
/* The bytes stored under key, into the arena (a NUL follows them).  False when absent or damaged. */
bool cache_get(struct cache *c, struct arena *a, struct cache_key key, struct bytes *out);
/* Atomic; of two writers either result stays.  The first store of a process removes the oldest entries beyond the limit. */
void cache_put(struct cache *c, struct arena *a, struct cache_key key, struct bytes data);
#endif
