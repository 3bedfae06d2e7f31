/* output.c -- outputs: no output replaces an input, and each is written completely or not at all. */
#include "internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- inputs and outputs ---- */

static void known_add(struct arena *a, struct known_file **list, const char *path)
{
    struct known_file *file = arena_new(a, struct known_file);
    *file = (struct known_file){ .next = *list, .path = arena_strdup(a, path) };
    *list = file;
}

void input_remember(struct arena *a, const char *path) { known_add(a, &a->inputs, path); }

static void refuse_input(const struct arena *a, const char *path)
{
    if (!file_exists(path)) return;
    for (const struct known_file *f = a->inputs; f; f = f->next)
        if (file_is_same(path, f->path)) die("%s: the output would replace the input %s; choose another path", path, f->path);
}

static const char *directory_of(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    return !slash ? "." : slash == path ? "/" : arena_strndup(a, path, (size_t)(slash - path));
}

const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void output_check(struct arena *a, const char *path)
{
    refuse_input(a, path);
    for (const struct known_file *f = a->outputs; f; f = f->next)          /* outputs need not exist yet, but their directories do */
        if (strcmp(path, f->path) == 0 || file_is_same(path, f->path) ||
            (strcmp(path_name(path), path_name(f->path)) == 0 && file_is_same(directory_of(a, path), directory_of(a, f->path))))
            die("%s would be the name of two outputs; choose another path", path);
}

void output_claim(struct arena *a, const char *path)
{
    output_check(a, path);
    known_add(a, &a->outputs, path);
}

void outputs_forget(struct arena *a) { a->outputs = NULL; }

/* ---- atomic output ---- */

struct outfile outfile_open(struct arena *a, const char *path, unsigned mode)
{
    struct stat st;
    refuse_input(a, path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        die("%s: is %s, not a regular file; choose another output path", path, S_ISDIR(st.st_mode) ? "a directory" : "a device or pipe");

    struct outfile f = { .path = arena_strdup(a, path) };
    char *temporary = arena_printf(a, "%s.tmpXXXXXX", path);
    f.temporary = temporary;

    /* A signal between creation and registration would leave the file behind. */
    const sigset_t old = signals_block();
    f.fd = mkostemp(temporary, O_CLOEXEC);
    const int error = errno;
    if (f.fd >= 0) cleanup_unlink_at_exit(temporary);
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (f.fd < 0) die_errno(path, "create a file beside it", error);

    const mode_t mask = umask(0);
    umask(mask);
    if (fchmod(f.fd, (mode_t)mode & ~mask & 07777) != 0) {
        const int why = errno;
        close(f.fd);
        die_errno(path, "set its permissions", why);
    }
    return f;
}

static _Noreturn void outfile_die(struct outfile *f, const char *action, int error)
{
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
    die_errno(f->path, action, error);
}

struct outfile outfile_to(const char *path, void (*take)(void *context, const void *data, size_t n), void *context)
{
    return (struct outfile){ .fd = -1, .path = path, .take = take, .context = context };
}

void outfile_write(struct outfile *f, const void *data, size_t n)
{
    const char *p = data;
    if (f->take) {
        f->take(f->context, data, n);
        f->offset += n;
        return;
    }
    while (n) {
        const ssize_t done = write(f->fd, p, n < (1u << 30) ? n : 1u << 30);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) outfile_die(f, "write", errno);
        p += done;
        n -= (size_t)done;
        f->offset += (uint64_t)done;
    }
}

void outfile_pad(struct outfile *f, uint64_t offset)
{
    static const char zeros[4096];
    assert(offset >= f->offset);
    const uint64_t gap = offset - f->offset;
    if (f->take) {
        for (uint64_t left = gap; left > 0; left -= left < sizeof zeros ? left : sizeof zeros)
            outfile_write(f, zeros, left < sizeof zeros ? (size_t)left : sizeof zeros);
        return;
    }
    if (gap <= sizeof zeros) {
        outfile_write(f, zeros, (size_t)gap);
        return;
    }
    if (offset > INT64_MAX) outfile_die(f, "extend it", EFBIG);
    if (ftruncate(f->fd, (off_t)offset) != 0 || lseek(f->fd, (off_t)offset, SEEK_SET) < 0) outfile_die(f, "extend it", errno);
    f->offset = offset;
}

static void outfile_close(struct outfile *f)
{
    const int closed = close(f->fd), error = errno;     /* network file systems report a full disk at close */
    f->fd = -1;
    if (closed != 0 && error != EINTR) die_errno(f->path, "write", error);
}

static _Noreturn void die_rename(const struct outfile *f, int error) { die_errno(f->path, "rename the finished file into place", error); }

void outfile_commit(struct outfile *f)
{
    outfile_close(f);
    if (rename(f->temporary, f->path) != 0) die_rename(f, errno);
    cleanup_forget(f->temporary);
}

void outfile_discard(struct outfile *f)
{
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
    unlink(f->temporary);
    cleanup_forget(f->temporary);
}

struct outfile *outset_open(struct arena *a, struct outset *s, const char *path, unsigned mode)
{
    assert(s->n < OUTSET_MAX);
    s->file[s->n] = outfile_open(a, path, mode);
    return &s->file[s->n++];
}

/* Locks a directory so that two builds into one place rename one after the other. -1: the file system has no such lock, or the directory is
 * not readable. */
static int directory_lock(struct arena *a, const char *path)
{
    enum { WAIT_SECONDS = 20, TRIES_PER_SECOND = 1000 };
    const char *directory = directory_of(a, path);
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int tries = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0; tries++) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            close(fd);
            return -1;
        }
        if (tries == WAIT_SECONDS * TRIES_PER_SECOND) {
            close(fd);
            die("%s: another process has locked its directory; try again when that process has ended", path);
        }
        nanosleep(&(struct timespec){ .tv_nsec = 1000000000 / TRIES_PER_SECOND }, NULL);
    }
    return fd;
}

/* The state of a file of a set before the commit: an existing file is kept under a second name until all renames are done. */
enum before { BEFORE_ABSENT, BEFORE_KEPT, BEFORE_LOST };        /* lost: the file system has no hard links */

static enum before before_keep(const char *path, const char *second)
{
    if (link(path, second) == 0) return BEFORE_KEPT;
    return errno == ENOENT ? BEFORE_ABSENT : BEFORE_LOST;
}

static void before_restore(const char *path, const char *second, enum before before)
{
    if (before == BEFORE_ABSENT) unlink(path);
    if (before == BEFORE_KEPT) rename(second, path);             /* if this fails too, the old file remains under its second name */
}

/* Several renames are not one atomic step. If one fails, the others are undone. A kill or a power failure between them leaves new weights
 * beside the old product: their hashes then differ, and the product refuses to run. */
void outset_commit(struct arena *a, struct outset *s)
{
    for (size_t i = 0; i < s->n; i++) outfile_close(&s->file[i]);
    const char *second[OUTSET_MAX];
    enum before before[OUTSET_MAX];
    for (size_t i = 0; i < s->n; i++) second[i] = arena_printf(a, "%s.old", s->file[i].temporary);
    const int lock = s->n > 1 ? directory_lock(a, s->file[0].path) : -1;
    const sigset_t signals = signals_block();
    for (size_t i = s->n; i-- > 0;) {
        const struct outfile *f = &s->file[i];
        before[i] = i ? before_keep(f->path, second[i]) : BEFORE_LOST;      /* the last rename is not undone */
        if (rename(f->temporary, f->path) == 0) continue;
        const int error = errno;
        if (before[i] == BEFORE_KEPT) unlink(second[i]);
        for (size_t k = i + 1; k < s->n; k++) before_restore(s->file[k].path, second[k], before[k]);
        if (lock >= 0) close(lock);
        sigprocmask(SIG_SETMASK, &signals, NULL);
        die_rename(f, error);
    }
    for (size_t i = 0; i < s->n; i++) {
        if (before[i] == BEFORE_KEPT) unlink(second[i]);
        cleanup_forget(s->file[i].temporary);
    }
    if (lock >= 0) close(lock);
    sigprocmask(SIG_SETMASK, &signals, NULL);
}

void file_write(struct arena *a, const char *path, struct bytes data)
{
    struct outfile f = outfile_open(a, path, 0666);
    outfile_write(&f, data.data, data.size);
    outfile_commit(&f);
}
