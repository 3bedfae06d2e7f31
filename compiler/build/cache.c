/* cache.c -- one file per entry, DIR/ab/abcd...: a 32-byte header (magic, size, hash of the data), then the data. Entries become programs,
 * so an entry that another user could have written must not count: DIR, its folders and the entries must belong to the user, must not be
 * writable for others, and must not be symbolic links. Files are opened relative to their open folder, so that no folder can be replaced in
 * between. */
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
    if (!state) die("out of memory for a hash");
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

/* Warns once; from then on every look-up misses and every store does nothing. */
static void refuse(struct cache *c, struct arena *a, const char *folder, const char *why)
{
    warn("%s %s: the cache is not used; remove it, or set XDG_CACHE_HOME to another directory",
         arena_printf(a, "%s%s%s", c->directory, *folder ? "/" : "", folder), why);
    c->directory = NULL;
}

/* NULL if only the user can have written it, else the reason why not. */
static const char *not_ours(const struct stat *st)
{
    return st->st_uid != geteuid() ? "belongs to another user" : st->st_mode & (S_IWGRP | S_IWOTH) ? "can be written by others" : NULL;
}

/* Opens `name` in folder `at`; -1 if there is no such folder. Refuses a folder that does not belong to the user. make: creates it if it is
 * missing. */
static int open_own(struct cache *c, struct arena *a, int at, const char *name, const char *folder, bool make)
{
    if (make && mkdirat(at, name, 0700) && errno != EEXIST) return -1;
    const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0) {
        if (!fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) && !S_ISDIR(st.st_mode))
            refuse(c, a, folder, S_ISLNK(st.st_mode) ? "is a symbolic link" : "is not a directory");
        return -1;
    }
    const char *why = fstat(fd, &st) ? "cannot be examined" : not_ours(&st);
    if (!why) return fd;
    refuse(c, a, folder, why);
    close(fd);
    return -1;
}

static bool make_parents(struct arena *a, const char *path)
{
    char *copy = arena_strdup(a, path);
    for (char *slash = copy; (slash = strchr(slash + 1, '/')); *slash = '/') {
        *slash = 0;
        if (mkdir(copy, 0700) && errno != EEXIST) return false;
    }
    return true;
}

/* Opens the folder DIR/name; -1 if there is no such folder. */
static int open_folder(struct cache *c, struct arena *a, const char *name, bool make)
{
    if (make && !make_parents(a, c->directory)) return -1;
    const int top = open_own(c, a, AT_FDCWD, c->directory, "", make);
    if (top < 0) return -1;
    const int fd = open_own(c, a, top, name, name, make);
    close(top);
    return fd;
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

static bool read_entry(struct arena *a, int fd, struct bytes *out)
{
    struct stat         st;
    struct entry_header header;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || not_ours(&st) || st.st_size < (off_t)sizeof header ||
        !read_all(fd, &header, sizeof header) ||
        memcmp(header.magic, entry_magic, sizeof entry_magic) || header.size != (uint64_t)st.st_size - sizeof header) return false;
    uint8_t *data = arena_alloc(a, header.size + 1);
    if (!read_all(fd, data, header.size)) return false;
    const XXH128_hash_t hash = XXH3_128bits(data, header.size);
    *out = (struct bytes){ data, header.size };
    return hash.high64 == header.hash_high && hash.low64 == header.hash_low;
}

bool cache_get(struct cache *c, struct arena *a, struct cache_key key, struct bytes *out)
{
    if (!c->directory) return false;
    const char *hex = cache_key_hex(a, key);
    const int   folder = open_folder(c, a, arena_strndup(a, hex, 2), false);
    if (folder < 0) return false;
    const int  fd = openat(folder, hex, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const bool good = fd >= 0 && read_entry(a, fd, out);
    /* trim() removes entries by the time of last use */
    if (good) futimens(fd, NULL);
    else      unlinkat(folder, hex, 0);
    if (fd >= 0) close(fd);
    close(folder);
    return good;
}

struct old_entry { const char *name; uint64_t size; struct timespec used; };      /* the name's first two letters are its folder */

static int older_first(const void *x, const void *y)
{
    const struct old_entry *l = x, *r = y;
    if (l->used.tv_sec != r->used.tv_sec) return l->used.tv_sec < r->used.tv_sec ? -1 : 1;
    if (l->used.tv_nsec != r->used.tv_nsec) return l->used.tv_nsec < r->used.tv_nsec ? -1 : 1;
    return strcmp(l->name, r->name);
}

struct old_list { struct old_entry *items; size_t count, capacity; uint64_t bytes; };

static void list_entry(struct arena *a, struct old_list *list, int folder, const char *name)
{
    struct stat st;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode)) return;
    if (strstr(name, ".tmp")) {                          /* left by a killed process */
        if (time(NULL) - st.st_mtime > STALE_TEMPORARY_SECONDS) unlinkat(folder, name, 0);
        return;
    }
    arena_room(a, list->items, list->count, list->capacity);
    list->items[list->count++] = (struct old_entry){ arena_strdup(a, name), (uint64_t)st.st_size, st.st_mtim };
    list->bytes += (uint64_t)st.st_size;
}

/* If the limit is exceeded, removes the least recently used entries until a quarter of the limit is free. */
static void trim(struct cache *c, struct arena *a)
{
    struct old_list list = { 0 };
    for (unsigned number = 0; number < 256 && c->directory; number++) {
        const char *name = arena_printf(a, "%02x", number);
        const int   folder = open_folder(c, a, name, false);
        DIR        *stream = folder < 0 ? NULL : fdopendir(folder);
        if (!stream) {
            if (folder >= 0) close(folder);
            continue;
        }
        for (struct dirent *entry; (entry = readdir(stream)); )
            if (!strncmp(entry->d_name, name, 2)) list_entry(a, &list, folder, entry->d_name);
        closedir(stream);
    }
    if (list.bytes <= c->limit_bytes) return;
    qsort(list.items, list.count, sizeof *list.items, older_first);
    for (size_t i = 0; i < list.count && list.bytes > c->limit_bytes / 4 * 3 && c->directory; i++) {
        const int folder = open_folder(c, a, arena_strndup(a, list.items[i].name, 2), false);
        if (folder < 0) continue;
        if (!unlinkat(folder, list.items[i].name, 0)) list.bytes -= list.items[i].size;
        close(folder);
    }
}

static void write_entry(struct cache *c, struct arena *a, int folder, const char *hex, struct bytes data)
{
    static unsigned count;
    const char *temporary = arena_printf(a, "%s.tmp%ld-%u", hex, (long)getpid(), count++);
    const char *path = arena_printf(a, "%s/%.2s/%s", c->directory, hex, temporary);
    const int   fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return;
    cleanup_unlink_at_exit(path);
    const XXH128_hash_t hash = XXH3_128bits(data.data, data.size);
    struct entry_header header = { .size = data.size, .hash_high = hash.high64, .hash_low = hash.low64 };
    memcpy(header.magic, entry_magic, sizeof header.magic);
    bool good = write_all(fd, &header, sizeof header) && write_all(fd, data.data, data.size);
    if (close(fd)) good = false;
    if (!good || renameat(folder, temporary, folder, hex)) unlinkat(folder, temporary, 0);
    cleanup_forget(path);
}

void cache_put(struct cache *c, struct arena *a, struct cache_key key, struct bytes data)
{
    if (!c->directory) return;
    const char *hex = cache_key_hex(a, key);
    const int   folder = open_folder(c, a, arena_strndup(a, hex, 2), true);
    if (folder < 0) return;
    if (!c->trimmed) {
        c->trimmed = true;
        trim(c, a);
    }
    if (c->directory) write_entry(c, a, folder, hex, data);
    close(folder);
}
