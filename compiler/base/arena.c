/* arena.c -- the memory of a build: allocated from chunks and freed all at once. */
#include "internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define WITH_ASAN 1
#  endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#  define WITH_ASAN 1
#endif
#ifdef WITH_ASAN
#  include <sanitizer/asan_interface.h>
#  define POISON(p, n)   ASAN_POISON_MEMORY_REGION((p), (n))
#  define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
enum { RED_ZONE = 16 };             /* left poisoned after every allocation, so that ASan reports overruns */
#else
#  define POISON(p, n)   ((void)(p), (void)(n))
#  define UNPOISON(p, n) ((void)(p), (void)(n))
enum { RED_ZONE = 0 };
#endif

#if defined(__GNUC__) && !defined(__clang__)          /* GCC under UBSan: false "null format string" at vsnprintf(NULL, 0, ...) */
#  pragma GCC diagnostic ignored "-Wformat-truncation"
#endif

enum { ALIGNMENT = 16, CHUNK_FIRST = 64 << 10, CHUNK_LARGEST = 4 << 20 };

struct chunk {
    struct chunk *next;
    size_t        size, used;       /* of the memory after this header */
};
#define CHUNK_HEADER ((sizeof(struct chunk) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)

void die_memory(size_t bytes)
{
    die("out of memory: another %zu bytes are needed; close other programs or use a machine with more memory", bytes);
}

static struct chunk *chunk_new(size_t size)
{
    struct chunk *chunk = size <= SIZE_MAX - CHUNK_HEADER ? calloc(1, CHUNK_HEADER + size) : NULL;
    if (!chunk) die_memory(size);
    chunk->size = size;
    POISON((char *)chunk + CHUNK_HEADER, size);
    return chunk;
}

static void *chunk_take(struct chunk *chunk, size_t bytes, size_t step)
{
    char *p = (char *)chunk + CHUNK_HEADER + chunk->used;
    chunk->used += step;
    UNPOISON(p, bytes);
    return p;
}

struct arena *arena_create(void)
{
    struct arena *a = calloc(1, sizeof *a);
    if (!a) die_memory(sizeof *a);
    a->next_size = CHUNK_FIRST;
    return a;
}

void arena_destroy(struct arena *a)
{
    if (!a) return;
    for (struct chunk *chunk = a->head, *next; chunk; chunk = next) {
        next = chunk->next;
        UNPOISON((char *)chunk + CHUNK_HEADER, chunk->size);
        free(chunk);
    }
    free(a);
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) die_memory(bytes);
    const size_t step = ((bytes ? bytes : 1) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + RED_ZONE;
    if (a->head && step <= a->head->size - a->head->used) return chunk_take(a->head, bytes, step);

    if (a->head && step > a->next_size / 4) {         /* a large block gets its own chunk; the head keeps serving small ones */
        struct chunk *chunk = chunk_new(step);
        chunk->next = a->head->next;
        a->head->next = chunk;
        return chunk_take(chunk, bytes, step);
    }
    struct chunk *chunk = chunk_new(step > a->next_size ? step : a->next_size);
    chunk->next = a->head;
    a->head = chunk;
    if (a->next_size < CHUNK_LARGEST) a->next_size *= 2;
    return chunk_take(chunk, bytes, step);
}

void *arena_calloc(struct arena *a, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size) die("out of memory: %zu items of %zu bytes are more than any machine holds", count, size);
    return arena_alloc(a, count * size);
}

void *arena_regrown(struct arena *a, const void *items, size_t n, size_t count, size_t size)
{
    void *grown = arena_calloc(a, count, size);
    if (n) memcpy(grown, items, n * size);
    return grown;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    if (n == SIZE_MAX) die_memory(n);
    char *copy = arena_alloc(a, n + 1);
    if (n) memcpy(copy, s, n);
    return copy;
}

char *arena_strdup(struct arena *a, const char *s) { return arena_strndup(a, s, strlen(s)); }

static char *arena_vprintf(struct arena *a, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    assert(n >= 0);
    char *s = arena_alloc(a, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *s = arena_vprintf(a, fmt, args);
    va_end(args);
    return s;
}
