/* The compile cache: round trip, damage, limit, missing directory. */
#include "compiler/build/cache.h"
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka.h needs the above */
#include <cmocka.h>

static struct cache_key key_of(const char *s)
{
    const struct bytes part = bytes_of(s);
    return cache_key_of(&part, 1);
}

static char *scratch_make(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/forgec-test-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static void scratch_remove(const char *path)
{
    DIR *stream = opendir(path);
    assert_non_null(stream);
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        char full[4096];
        snprintf(full, sizeof full, "%s/%s", path, entry->d_name);
        struct stat st;
        if (!lstat(full, &st) && S_ISDIR(st.st_mode)) scratch_remove(full);
        else unlink(full);
    }
    closedir(stream);
    rmdir(path);
}

static void keys_count_lengths(void **state)
{
    (void)state;
    const struct bytes one[] = { bytes_of("ab"), bytes_of("c") }, two[] = { bytes_of("a"), bytes_of("bc") };
    const struct cache_key x = cache_key_of(one, 2), y = cache_key_of(two, 2), z = cache_key_of(one, 2);
    assert_true(x.high != y.high || x.low != y.low);
    assert_true(x.high == z.high && x.low == z.low);
}

static void round_trip_and_damage(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    char         *directory = scratch_make();
    struct cache *c = cache_open_at(a, arena_printf(a, "%s/deep/cache", directory), 1 << 20);
    struct bytes  out;
    assert_false(cache_get(c, a, key_of("x"), &out));
    cache_put(c, a, key_of("x"), bytes_of("hello"));
    cache_put(c, a, key_of("empty"), (struct bytes){ NULL, 0 });
    assert_true(cache_get(c, a, key_of("x"), &out));
    assert_int_equal(out.size, 5);
    assert_string_equal((const char *)out.data, "hello");
    assert_true(cache_get(c, a, key_of("empty"), &out));
    assert_int_equal(out.size, 0);

    /* one flipped byte, then a truncated file: both are misses and disappear */
    const char *hex = cache_key_hex(a, key_of("x")), *path = arena_printf(a, "%s/deep/cache/%.2s/%s", directory, hex, hex);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "J", 1, 32), 1);
    close(fd);
    assert_false(cache_get(c, a, key_of("x"), &out));
    assert_false(file_exists(path));
    cache_put(c, a, key_of("x"), bytes_of("hello"));
    assert_int_equal(truncate(path, 20), 0);
    assert_false(cache_get(c, a, key_of("x"), &out));
    scratch_remove(directory);
    arena_destroy(a);
}

static void limit_removes_oldest(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    char         *directory = scratch_make();
    uint8_t      *kilobyte = arena_alloc(a, 1000);
    const struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
    struct cache *c = cache_open_at(a, directory, UINT64_MAX);
    for (int i = 0; i < 20; i++) {
        const char *name = arena_printf(a, "entry %d", i), *hex = cache_key_hex(a, key_of(name));
        cache_put(c, a, key_of(name), (struct bytes){ kilobyte, 1000 });
        if (i < 10) assert_int_equal(utimensat(AT_FDCWD, arena_printf(a, "%s/%.2s/%s", directory, hex, hex), old, 0), 0);
    }
    c = cache_open_at(a, directory, 16000);         /* like a new process, with a small limit */
    cache_put(c, a, key_of("last"), (struct bytes){ kilobyte, 1000 });
    struct bytes out;
    int kept_old = 0, kept_new = 0;
    for (int i = 0; i < 20; i++) *(i < 10 ? &kept_old : &kept_new) += cache_get(c, a, key_of(arena_printf(a, "entry %d", i)), &out);
    assert_int_equal(kept_new, 10);
    assert_int_equal(kept_old, 1);
    scratch_remove(directory);
    arena_destroy(a);
}

static void works_without_directory(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    struct bytes  out;
    struct cache *off = cache_open(a, false), *nowhere = cache_open_at(a, "/proc/forgec/none", 1 << 20);
    cache_put(off, a, key_of("x"), bytes_of("hello"));
    cache_put(nowhere, a, key_of("x"), bytes_of("hello"));
    assert_false(cache_get(off, a, key_of("x"), &out));
    assert_false(cache_get(nowhere, a, key_of("x"), &out));
    arena_destroy(a);
}

/* The warnings of one look-up and two stores, one line each. */
static char said[2048];
static void keep_warning(const char *message) { snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", message); }

static bool works(struct arena *a, const char *directory)
{
    struct cache *c = cache_open_at(a, directory, 1 << 20);
    struct bytes  out;
    said[0] = 0;
    warn_handler = keep_warning;
    cache_put(c, a, key_of("y"), bytes_of("hello"));
    cache_put(c, a, key_of("x"), bytes_of("hello"));
    const bool found = cache_get(c, a, key_of("x"), &out);
    warn_handler = NULL;
    return found;
}

static void directories_of_others_are_refused(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    const char   *directory = scratch_make(), *cache = arena_printf(a, "%s/c", directory), *hex = cache_key_hex(a, key_of("x"));
    const char   *folder = arena_printf(a, "%s/%.2s", cache, hex), *link = arena_printf(a, "%s/link", directory);
    static const mode_t open_modes[] = { 0770, 0707, 0777, 01777, 0720 };
    assert_true(works(a, cache));
    assert_string_equal(said, "");
    for (size_t i = 0; i < 2 * COUNT_OF(open_modes); i++) {
        const char *which = i % 2 ? folder : cache;
        assert_int_equal(chmod(which, open_modes[i / 2]), 0);
        assert_false(works(a, cache));
        assert_non_null(strstr(said, arena_printf(a, "%s can be written by others", which)));
        assert_int_equal(strchr(said, '\n') - said, strlen(said) - 1);          /* once */
        assert_int_equal(chmod(which, 0755), 0);
        assert_true(works(a, cache));
    }
    assert_int_equal(symlink("c", link), 0);
    assert_false(works(a, link));
    assert_non_null(strstr(said, "is a symbolic link"));
    assert_int_equal(rename(folder, arena_printf(a, "%s/away", directory)), 0);
    assert_int_equal(symlink("../away", folder), 0);
    assert_false(works(a, cache));
    assert_non_null(strstr(said, "is a symbolic link"));
    assert_int_equal(unlink(folder), 0);
    if (geteuid() == 0) {                               /* only root can change the owner of a directory */
        assert_int_equal(chown(cache, 12345, 0), 0);
        assert_false(works(a, cache));
        assert_non_null(strstr(said, "belongs to another user"));
        assert_int_equal(chown(cache, 0, 0), 0);
    }
    assert_true(works(a, cache));
    scratch_remove(directory);
    arena_destroy(a);
}

static void entries_of_others_are_misses(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    const char   *directory = scratch_make(), *hex = cache_key_hex(a, key_of("x"));
    const char   *path = arena_printf(a, "%s/%.2s/%s", directory, hex, hex), *away = arena_printf(a, "%s/away", directory);
    struct cache *c = cache_open_at(a, directory, 1 << 20);
    struct bytes  out;
    for (int i = 0; i < 5; i++) {
        cache_put(c, a, key_of("x"), bytes_of("hello"));
        assert_true(cache_get(c, a, key_of("x"), &out));
        if (i == 0) assert_int_equal(chmod(path, 0620), 0);
        if (i == 1) assert_int_equal(chmod(path, 0602), 0);
        if (i == 2) { assert_int_equal(rename(path, away), 0); assert_int_equal(symlink(away, path), 0); }
        if (i == 3) { assert_int_equal(unlink(path), 0); assert_int_equal(mkfifo(path, 0600), 0); }      /* must not wait for a writer */
        if (i == 4 && geteuid() == 0) assert_int_equal(chown(path, 12345, 0), 0);
        if (i == 4 && geteuid() != 0) break;
        assert_false(cache_get(c, a, key_of("x"), &out));
        struct stat st;
        assert_int_not_equal(lstat(path, &st), 0);
    }
    assert_true(file_exists(away));
    scratch_remove(directory);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_count_lengths),
        cmocka_unit_test(round_trip_and_damage),
        cmocka_unit_test(limit_removes_oldest),
        cmocka_unit_test(works_without_directory),
        cmocka_unit_test(directories_of_others_are_refused),
        cmocka_unit_test(entries_of_others_are_misses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
