/* room.h -- memory from one block, released as a whole: for templates, JSON and grammars while they work. */
#ifndef FORGE_ROOM_H
#define FORGE_ROOM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/library/freestanding.h"

struct room { uint8_t *bytes; size_t size, used; bool full; };       /* bytes: the caller's; full: something did not fit */

static inline struct room room_of(void *bytes, size_t size) { return (struct room){ bytes, size, 0, false }; }

/* n bytes, not zeroed, aligned to 8; NULL: they do not fit, and full is set. */
static inline void *room_take(struct room *r, size_t n)
{
    const size_t skip = (size_t)(-((uintptr_t)r->bytes + r->used) & 7);
    if (skip > r->size - r->used || n > r->size - r->used - skip) { r->full = true; return NULL; }
    r->used += skip;
    void *const p = r->bytes + r->used;
    r->used += n;
    return p;
}

/* Memory for n items of `bytes` bytes each. */
static inline void *room_array(struct room *r, size_t n, size_t bytes)
{
    if (bytes && n > (size_t)-1 / bytes) { r->full = true; return NULL; }
    return room_take(r, n * bytes);
}

static inline size_t text_bytes(const char *text)
{
    size_t n = 0;
    while (text[n]) n++;
    return n;
}

/* Text that grows in a block of the caller; what does not fit is left out, and full is set. */
struct text_out { char *bytes; size_t size, n; bool full; };

static inline void text_out_put(struct text_out *t, const char *bytes, size_t n)
{
    if (t->full || n > t->size - t->n) { t->full = true; return; }
    if (n) memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
}
static inline void text_out_char(struct text_out *t, char c) { text_out_put(t, &c, 1); }
#define TEXT_OUT_WORDS(t, words) text_out_put(t, words, sizeof(words) - 1)
#endif
