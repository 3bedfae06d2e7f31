/* fault.c -- preloaded (LD_PRELOAD): one call of the C library fails, or something happens just before it.
 *
 *   FAULT_IN=forgec         only in programs of this name: not in those it starts
 *   FAULT=write:3           the third call of write after main has begun; "late": of malloc, from the first temporary file on
 *   FAULT_ACTION            absent: the call fails; "signal:15": that signal comes first; "truncate:FILE": FILE is cut to 4096 bytes first;
 *                           "often": SIGUSR2 begins and ends a time in which a third of these calls fails
 *   FAULT_FIRED=FILE        made when it happens
 *
 * A close that fails has closed, as Linux does it. */
#undef _FILE_OFFSET_BITS                      /* open and open64 are two functions here */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <signal.h>

void *__libc_malloc(size_t);                   /* glibc's own, under names that nobody takes over */
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static char        wanted[32];                 /* function; "" : none */
static long        wanted_call;
static _Atomic long calls;
static const char *action, *fired;
static _Atomic bool made_temporary, often, fails_often;

static void on_often(int number)
{
    (void)number;
    fails_often = !fails_often;
}

__attribute__((constructor)) static void begin(void)
{
    const char *in = getenv("FAULT_IN"), *what = getenv("FAULT"), *colon = what ? strchr(what, ':') : NULL;
    if (!in || !colon || strcmp(in, program_invocation_short_name) != 0 || (size_t)(colon - what) >= sizeof wanted) return;
    action = getenv("FAULT_ACTION");
    fired = getenv("FAULT_FIRED");
    wanted_call = strtol(colon + 1, NULL, 10);
    memcpy(wanted, what, (size_t)(colon - what));
    often = action && strcmp(action, "often") == 0;
    if (often) signal(SIGUSR2, on_often);
}

/* Is this the call that fails?  It sets errno. */
static bool fails(const char *name, int error)
{
    if (!wanted[0] || strcmp(name, wanted) != 0 || (often && !fails_often)) return false;
    const long call = ++calls;
    if (often) {
        if (((uint32_t)call * 2654435761u >> 8) % wanted_call != 0) return false;
        errno = error;
        return true;
    }
    if (call != wanted_call) return false;
    if (fired) syscall(SYS_close, (int)syscall(SYS_openat, AT_FDCWD, fired, O_WRONLY | O_CREAT, 0666));
    if (action && strncmp(action, "signal:", 7) == 0) { raise(atoi(action + 7)); return false; }
    if (action && strncmp(action, "truncate:", 9) == 0) { syscall(SYS_truncate, action + 9, 4096); return false; }
    errno = error;
    return true;
}

static bool no_memory(void) { return fails("malloc", ENOMEM) || (made_temporary && fails("late", ENOMEM)); }

void *malloc(size_t n) { return no_memory() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return no_memory() ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return no_memory() ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t align, size_t n) { return no_memory() ? NULL : __libc_memalign(align, n); }

/* The next library's function of the name, under the type of the calling function. */
#define NEXT(type, name)                                                                           \
    __typeof__(type) next;                                                                         \
    memcpy(&next, &(void *){ dlsym(RTLD_NEXT, name) }, sizeof next)

static int open_any(const char *name, const char *path, int flags, mode_t mode)
{
    if (fails("open", EMFILE)) return -1;
    NEXT(int (*)(const char *, int, ...), name);
    return next(path, flags, mode);
}

#define MODE(flags) mode_t mode = 0; if ((flags) & O_CREAT) { va_list v; va_start(v, flags); mode = va_arg(v, mode_t); va_end(v); }
int open(const char *path, int flags, ...) { MODE(flags) return open_any("open", path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_any("open64", path, flags, mode); }

/* Both names of a function where large files have their own. */
#define FUNCTION(result, failure, symbol, counted, error, parameters, arguments)                   \
    result symbol parameters                                                                       \
    {                                                                                              \
        if (fails(#counted, error)) return failure;                                                \
        NEXT(result (*) parameters, #symbol);                                                      \
        return next arguments;                                                                     \
    }
FUNCTION(FILE *, NULL, fopen, open, EMFILE, (const char *restrict path, const char *restrict mode), (path, mode))
FUNCTION(FILE *, NULL, fopen64, open, EMFILE, (const char *restrict path, const char *restrict mode), (path, mode))
static int make_temporary(const char *name, char *path, int flags)
{
    if (fails("open", EMFILE)) return -1;
    NEXT(int (*)(char *, int), name);
    const int fd = next(path, flags);
    made_temporary = true;
    return fd;
}
int mkostemp(char *path, int flags) { return make_temporary("mkostemp", path, flags); }
int mkostemp64(char *path, int flags) { return make_temporary("mkostemp64", path, flags); }
FUNCTION(int, -1, memfd_create, open, EMFILE, (const char *name, unsigned flags), (name, flags))
FUNCTION(ssize_t, -1, read, read, EIO, (int fd, void *to, size_t n), (fd, to, n))
FUNCTION(ssize_t, -1, pread, read, EIO, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
FUNCTION(ssize_t, -1, pread64, read, EIO, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at))
FUNCTION(ssize_t, -1, write, write, ENOSPC, (int fd, const void *from, size_t n), (fd, from, n))
FUNCTION(int, -1, ftruncate, write, ENOSPC, (int fd, off_t n), (fd, n))
FUNCTION(int, -1, ftruncate64, write, ENOSPC, (int fd, off64_t n), (fd, n))
FUNCTION(int, -1, rename, rename, EIO, (const char *from, const char *to), (from, to))
FUNCTION(int, -1, link, rename, EPERM, (const char *from, const char *to), (from, to))
FUNCTION(void *, MAP_FAILED, mmap, mmap, ENOMEM, (void *at, size_t n, int protection, int flags, int fd, off_t from),
         (at, n, protection, flags, fd, from))
FUNCTION(void *, MAP_FAILED, mmap64, mmap, ENOMEM, (void *at, size_t n, int protection, int flags, int fd, off64_t from),
         (at, n, protection, flags, fd, from))
FUNCTION(int, -1, accept4, accept, ENFILE, (int fd, __SOCKADDR_ARG from, socklen_t *restrict n, int flags), (fd, from, n, flags))
FUNCTION(int, -1, fstat, stat, EIO, (int fd, struct stat *st), (fd, st))
FUNCTION(int, -1, fstat64, stat, EIO, (int fd, struct stat64 *st), (fd, st))
FUNCTION(int, EAGAIN, posix_spawnp, fork, EAGAIN, (pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                                                   const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]),
                                                   (pid, file, actions, attributes, argv, envp))
FUNCTION(int, EAGAIN, pthread_create, fork, EAGAIN, (pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                                                     void *argument), (thread, attributes, run, argument))

int close(int fd)
{
    const bool failed = fails("close", EIO);
    const int error = errno, result = (int)syscall(SYS_close, fd);
    if (!failed) return result;
    errno = error;
    return -1;
}
