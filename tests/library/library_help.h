/* library_help.h -- for the tests of model libraries: checks, files, a parallel_for with real threads. */
#ifndef LIBRARY_HELP_H
#define LIBRARY_HELP_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_uint failures;

#define CHECK(condition, ...) do { \
    if (condition) break; \
    atomic_fetch_add(&failures, 1u); \
    fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
    fprintf(stderr, __VA_ARGS__); \
    fputc('\n', stderr); \
} while (0)

static inline void *aligned_memory(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (p == NULL) { fputs("out of memory\n", stderr); exit(2); }
    memset(p, 0xee, (bytes + 127) / 64 * 64);        /* an instance must not rely on zeros; as floats -3.7e28, as f16 NaN-free but large */
    return p;
}

/* The file without its first `skip` bytes, in aligned memory that the caller frees, with a 0 after it; exits if it cannot be read. */
static inline uint8_t *file_bytes(const char *path, size_t skip, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL || fseek(f, 0, SEEK_END) != 0) { perror(path); exit(2); }
    const long size = ftell(f);
    if (size < (long)skip || fseek(f, (long)skip, SEEK_SET) != 0) { perror(path); exit(2); }
    *n = (size_t)size - skip;
    uint8_t *p = aligned_memory(*n + 1);
    if (fread(p, 1, *n, f) != *n) { perror(path); exit(2); }
    p[*n] = 0;
    fclose(f);
    return p;
}

/* Reads at most `most` numbers of a text file into ids; returns their count. */
static inline uint32_t file_ids(const char *folder, const char *name, const char *ending, int32_t *ids, uint32_t most)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, ending);
    size_t size;
    uint8_t *text = file_bytes(path, 0, &size);
    uint32_t n = 0;
    char *at = (char *)text, *end;
    for (long id; n < most && (id = strtol(at, &end, 10), end != at); at = end) ids[n++] = (int32_t)id;
    free(text);
    return n;
}

/* ---- parallel_for with real threads; it counts its jobs ---- */

struct crew { uint32_t n_threads; atomic_uint jobs, calls; };
struct work { void (*run)(void *, uint32_t); void *job; uint32_t n; atomic_uint next; };

static inline void *work_run(void *context)
{
    struct work *w = context;
    for (uint32_t i; (i = atomic_fetch_add(&w->next, 1u)) < w->n;) w->run(w->job, i);
    return NULL;
}

static inline void crew_for(void *context, uint32_t n, void (*run)(void *, uint32_t), void *job)
{
    struct crew *c = context;
    atomic_fetch_add(&c->jobs, n);
    atomic_fetch_add(&c->calls, 1u);
    struct work w = { .run = run, .job = job, .n = n };
    pthread_t threads[16];
    uint32_t started = 0;
    while (started + 1 < c->n_threads && started < 16 && pthread_create(&threads[started], NULL, work_run, &w) == 0) started++;
    work_run(&w);
    for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
}
#endif
