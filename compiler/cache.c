/* cache.c -- one file per entry, DIR/ab/abcd...: a 32-byte header (magic, size, hash of the data), then the data. */
#include "cache.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

struct cache {
    const char *directory;      /* NULL: disabled */
    uint64_t    limit_bytes;
    bool        trimmed;
};

struct entry_header { char magic[8]; uint64_t size, hash_high, hash_low; };
_Static_assert(sizeof(struct entry_header) == 32, "cache entry header is 32 bytes");
static const char entry_magic[8] = "FORGEC1";

enum { CACHE_LIMIT_MB = 1024, STALE_TEMPORARY_SECONDS = 3600 };

struct cache *cache_open_at(struct arena *a, const char *directory, uint64_t limit_bytes)
{
    struct cache *c = arena_new(a, struct cache);
    c->directory = directory;
    c->limit_bytes = limit_bytes;
    return c;
}

struct cache *cache_open(struct arena *a, bool enabled)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), *directory = NULL;
    /* the XDG specification asks to ignore relative paths */
    if (xdg && xdg[0] == '/')        directory = arena_printf(a, "%s/forgec", xdg);
    else if (home && home[0] == '/') directory = arena_printf(a, "%s/.cache/forgec", home);
    return cache_open_at(a, enabled ? directory : NULL, (uint64_t)CACHE_LIMIT_MB << 20);
}

struct cache_key cache_key_of(const struct bytes *parts, size_t n_parts)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state) die("out of memory");
    XXH3_128bits_reset(state);
    for (size_t i = 0; i < n_parts; i++) {
        const uint64_t size = parts[i].size;
        XXH3_128bits_update(state, &size, sizeof size);
        if (size) XXH3_128bits_update(state, parts[i].data, parts[i].size);
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return (struct cache_key){ hash.high64, hash.low64 };
}

const char *cache_key_hex(struct arena *a, struct cache_key key)
{
    return arena_printf(a, "%016llx%016llx", (unsigned long long)key.high, (unsigned long long)key.low);
}

static const char *entry_path(const struct cache *c, struct arena *a, struct cache_key key)
{
    const char *hex = cache_key_hex(a, key);
    return arena_printf(a, "%s/%.2s/%s", c->directory, hex, hex);
}

static bool read_all(int fd, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, (uint8_t *)data + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

static bool write_all(int fd, const void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const uint8_t *)data + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

bool cache_get(struct cache *c, struct arena *a, struct cache_key key, struct bytes *out)
{
    if (!c->directory) return false;
    const char *path = entry_path(c, a, key);
    const int   fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    struct stat         st;
    struct entry_header header;
    bool good = !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= (off_t)sizeof header && read_all(fd, &header, sizeof header) &&
                !memcmp(header.magic, entry_magic, sizeof entry_magic) && header.size == (uint64_t)st.st_size - sizeof header;
    if (good) {
        uint8_t *data = arena_alloc(a, header.size + 1);
        good = read_all(fd, data, header.size);
        const XXH128_hash_t hash = XXH3_128bits(data, good ? header.size : 0);
        good = good && hash.high64 == header.hash_high && hash.low64 == header.hash_low;
        *out = (struct bytes){ data, header.size };
    }
    /* the time of last use decides what goes first */
    if (good) futimens(fd, NULL);
    close(fd);
    if (!good) unlink(path);
    return good;
}

static bool make_directories(struct arena *a, const char *path)
{
    char *copy = arena_strdup(a, path);
    for (char *slash = strchr(copy + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash) *slash = 0;
        if (mkdir(copy, 0700) && errno != EEXIST) return false;
        if (!slash) return true;
        *slash = '/';
    }
}

struct old_entry { const char *path; uint64_t size; struct timespec used; };

static int older_first(const void *x, const void *y)
{
    const struct old_entry *l = x, *r = y;
    if (l->used.tv_sec != r->used.tv_sec) return l->used.tv_sec < r->used.tv_sec ? -1 : 1;
    if (l->used.tv_nsec != r->used.tv_nsec) return l->used.tv_nsec < r->used.tv_nsec ? -1 : 1;
    return 0;
}

/* Removes what was used longest ago until a quarter of the limit is free, once the limit is passed. */
static void trim(struct cache *c, struct arena *a)
{
    size_t   count = 0, capacity = 256;
    uint64_t total = 0;
    struct old_entry *list = arena_array(a, struct old_entry, capacity);
    for (unsigned folder = 0; folder < 256; folder++) {
        const char *directory = arena_printf(a, "%s/%02x", c->directory, folder);
        DIR        *stream = opendir(directory);
        if (!stream) continue;
        for (struct dirent *entry; (entry = readdir(stream));) {
            if (entry->d_name[0] == '.') continue;
            struct stat st;
            const char *path = arena_printf(a, "%s/%s", directory, entry->d_name);
            if (lstat(path, &st) || !S_ISREG(st.st_mode)) continue;
            if (strstr(entry->d_name, ".tmp")) {         /* left by a killed process */
                if (time(NULL) - st.st_mtime > STALE_TEMPORARY_SECONDS) unlink(path);
                continue;
            }
            if (count == capacity) {
                struct old_entry *grown = arena_array(a, struct old_entry, capacity * 2);
                memcpy(grown, list, count * sizeof *list);
                list = grown;
                capacity *= 2;
            }
            list[count++] = (struct old_entry){ path, (uint64_t)st.st_size, st.st_mtim };
            total += (uint64_t)st.st_size;
        }
        closedir(stream);
    }
    if (total <= c->limit_bytes) return;
    qsort(list, count, sizeof *list, older_first);
    for (size_t i = 0; i < count && total > c->limit_bytes / 4 * 3; i++)
        if (!unlink(list[i].path)) total -= list[i].size;
}

void cache_put(struct cache *c, struct arena *a, struct cache_key key, struct bytes data)
{
    if (!c->directory) return;
    const char *path = entry_path(c, a, key);
    if (!make_directories(a, arena_strndup(a, path, strlen(path) - 33))) return;
    if (!c->trimmed) {
        c->trimmed = true;
        trim(c, a);
    }
    char *temporary = arena_printf(a, "%s.tmpXXXXXX", path);
    const int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) return;
    cleanup_unlink_at_exit(temporary);
    const XXH128_hash_t hash = XXH3_128bits(data.data, data.size);
    struct entry_header header = { .size = data.size, .hash_high = hash.high64, .hash_low = hash.low64 };
    memcpy(header.magic, entry_magic, sizeof header.magic);
    bool good = write_all(fd, &header, sizeof header) && write_all(fd, data.data, data.size);
    if (close(fd)) good = false;
    if (!good || rename(temporary, path)) unlink(temporary);
    cleanup_forget(temporary);
}
