/* cache.h -- keeps results under $XDG_CACHE_HOME/forgec (~/.cache/forgec); the key is the XXH3-128 of everything that went into a result.
 * The cache is optional: without a writable directory every look-up misses and every store does nothing. The same holds, after one warning,
 * if the directory belongs to another user, others can write to it, or it is a symbolic link. An entry of that kind is a miss and is
 * removed. */
#ifndef FORGEC_CACHE_H
#define FORGEC_CACHE_H
#include "compiler/base/base.h"

struct cache;
struct cache_key { uint64_t high, low; };

/* enabled false (--no-cache): a cache that holds nothing. Never fails. */
struct cache *cache_open(struct arena *a, bool enabled);
/* As cache_open, with the given directory and size limit (for tests). */
struct cache *cache_open_at(struct arena *a, const char *directory, uint64_t limit_bytes);
/* The hash includes the length of each part, so ("ab","c") and ("a","bc") differ. */
struct cache_key cache_key_of(const struct bytes *parts, size_t n_parts);
const char *cache_key_hex(struct arena *a, struct cache_key key);       /* 32 digits */
/* Reads the bytes stored under key into the arena (a NUL follows them). False if they are absent or damaged. */
bool cache_get(struct cache *c, struct arena *a, struct cache_key key, struct bytes *out);
/* Atomic: with two writers, the result of one of them stays. The first store of a process removes the oldest entries beyond the limit. */
void cache_put(struct cache *c, struct arena *a, struct cache_key key, struct bytes data);
#endif
