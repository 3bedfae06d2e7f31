/* files.c -- reads whole files and makes directories; system errors become a sentence with a remedy. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the user can do about errno: starts with "; ", or "" if the reason itself says enough. */
static const char *remedy(int error)
{
    switch (error) {
    case ENOSPC: return "; free some space or choose another disk";
    case EDQUOT: return "; free some of your quota or choose another disk";
    case EROFS:  return "; choose a directory on a writable file system";
    case EACCES:
    case EPERM:  return "; check the permissions or choose another path";
    case EIO:    return "; the disk reports a fault: check it or choose another disk";
    case EFBIG:  return "; the file size limit is too small: see ulimit -f";
    case ENOENT: return "; check the path";
    case ENOTDIR: return "; a part of the path is not a directory";
    case EMFILE:
    case ENFILE: return "; close other files: see ulimit -n";
    default:     return "";
    }
}

void die_errno(const char *path, const char *action, int error)
{
    die("%s: cannot %s: %s%s", path, action, strerror(error), remedy(error));
}

bool file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool file_is_same(const char *path, const char *other)
{
    struct stat x, y;
    return stat(path, &x) == 0 && stat(other, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

struct bytes bytes_of(const char *s) { return (struct bytes){ (const uint8_t *)s, strlen(s) }; }

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode) ? "a directory" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

int file_open(const char *path)
{
    if (!*path) die("the path of a file is empty; give one");
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);       /* O_NONBLOCK: does not wait for the writer of a pipe */
    const int error = errno;
    struct stat st;
    const bool known = fd >= 0 ? fstat(fd, &st) == 0 : error == ENXIO && stat(path, &st) == 0;      /* ENXIO: a socket */
    if (!known) {
        const int why = fd < 0 ? error : errno;
        if (fd >= 0) close(fd);
        die_errno(path, fd < 0 ? "open" : "examine", why);
    }
    if (fd >= 0 && S_ISREG(st.st_mode)) return fd;
    if (fd >= 0) close(fd);
    die("%s: is %s, not a regular file; give the path of a regular file", path, kind_of(st.st_mode));
}

static _Noreturn void die_large(const char *path, size_t most)
{
    die("%s: has more than %zu bytes, more than forgec reads from a file of this kind; check the path", path, most);
}

struct bytes file_read_most(struct arena *a, const char *path, size_t most)
{
    const int fd = file_open(path);
    struct text t = { .arena = a };
    struct stat st;
    /* The size is only a hint: files in /proc have size 0, and any file may grow. The last byte is room to detect the end. */
    const off_t expected = fstat(fd, &st) == 0 ? st.st_size : 0;
    if ((uint64_t)expected > most) { close(fd); die_large(path, most); }
    text_reserve(&t, expected > 0 ? (size_t)expected + 1 : 4096);
    for (;;) {
        if (t.capacity - t.size < 2) text_reserve(&t, t.size);
        const ssize_t n = read(fd, t.data + t.size, t.capacity - t.size - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) { const int error = errno; close(fd); die_errno(path, "read", error); }
        if (n == 0) break;
        t.size += (size_t)n;
        if (t.size > most) { close(fd); die_large(path, most); }
    }
    close(fd);
    t.data[t.size] = '\0';
    return (struct bytes){ .data = (const uint8_t *)t.data, .size = t.size };
}

struct bytes file_read(struct arena *a, const char *path) { return file_read_most(a, path, FILE_MOST); }

void directory_make(struct arena *a, const char *path)
{
    char *part = arena_strdup(a, path);
    const size_t size = strlen(part);
    for (size_t i = 1; i <= size; i++) {
        if (i < size && part[i] != '/') continue;
        const char saved = part[i];
        part[i] = '\0';
        struct stat st;
        /* stat first: mkdir on an existing directory may fail with EROFS or EACCES instead of EEXIST. */
        if (stat(part, &st) != 0) {
            if (mkdir(part, 0777) != 0 && errno != EEXIST) die_errno(part, "make the directory", errno);
        } else if (!S_ISDIR(st.st_mode)) {
            die("%s: exists and is not a directory; remove it or choose another path", part);
        }
        part[i] = saved;
    }
}
