/* base.c -- arena, text builder, errors, temporaries, atomic output files.  Knows nothing of models. */
#include "base.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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
enum { RED_ZONE = 16 };             /* left poisoned behind every allocation, so that ASan sees a run past its end */
#else
#  define POISON(p, n)   ((void)(p), (void)(n))
#  define UNPOISON(p, n) ((void)(p), (void)(n))
enum { RED_ZONE = 0 };
#endif

#if defined(__GNUC__) && !defined(__clang__)          /* GCC under UBSan: false "null format string" at vsnprintf(NULL, 0, ...) */
#  pragma GCC diagnostic ignored "-Wformat-truncation"
#endif

/* ---- arena ---- */

enum { ALIGNMENT = 16, CHUNK_FIRST = 64 << 10, CHUNK_LARGEST = 4 << 20 };

struct chunk {
    struct chunk *next;
    size_t        size, used;       /* of the memory behind this header */
};
#define CHUNK_HEADER ((sizeof(struct chunk) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)

struct known_file {                 /* an input or an announced output */
    struct known_file *next;
    const char        *path;
};

struct arena {
    struct chunk      *head;        /* allocations come from here; the others are full or hold one large block */
    size_t             next_size;
    struct known_file *inputs, *outputs;
};

static _Noreturn void die_memory(size_t bytes)
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

    if (a->head && step > a->next_size / 4) {         /* a large block of its own; the head keeps serving small ones */
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

/* ---- text ---- */

static void text_reserve(struct text *t, size_t more)
{
    if (more > SIZE_MAX / 4 - t->size) die_memory(more);
    const size_t need = t->size + more + 1;
    if (need <= t->capacity) return;
    size_t capacity = t->capacity ? t->capacity * 2 : 256;
    while (capacity < need) capacity *= 2;
    char *data = arena_alloc(t->arena, capacity);
    if (t->size) memcpy(data, t->data, t->size);
    t->data = data;
    t->capacity = capacity;
}

void text_append(struct text *t, const char *bytes, size_t n)
{
    text_reserve(t, n);
    if (n) memcpy(t->data + t->size, bytes, n);
    t->size += n;
    t->data[t->size] = '\0';
}

void text_puts(struct text *t, const char *s) { text_append(t, s, strlen(s)); }

void text_printf(struct text *t, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    assert(n >= 0);
    text_reserve(t, (size_t)n);
    vsnprintf(t->data + t->size, (size_t)n + 1, fmt, again);
    t->size += (size_t)n;
    va_end(again);
    va_end(args);
}

const char *text_str(const struct text *t) { return t->data ? t->data : ""; }

uint32_t utf8_next(const char *text, size_t n, uint32_t *used)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *s = (const unsigned char *)text;
    const uint32_t length = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                          : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
    *used = 1;
    if (length == 1) return s[0];
    if (length == 0 || length > n) return 0xfffd;
    uint32_t c = s[0] & (0x7fu >> length);
    for (uint32_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0xfffd;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0xfffd;
    *used = length;
    return c;
}

bool is_visible(uint32_t c)
{
    static const struct { uint32_t first, last; } hidden[] = {     /* ascending; Unicode 15: controls, formats, line ends, letters without a shape */
        { 0, 0x1f },         { 0x7f, 0x9f },       { 0xad, 0xad },       { 0x34f, 0x34f },     { 0x61c, 0x61c },     { 0x115f, 0x1160 },
        { 0x17b4, 0x17b5 },  { 0x180b, 0x180f },   { 0x200b, 0x200f },   { 0x2028, 0x202e },   { 0x2060, 0x206f },   { 0x3164, 0x3164 },
        { 0xd800, 0xdfff },  { 0xfdd0, 0xfdef },   { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 },   { 0xfff0, 0xfffb },   { 0x1bca0, 0x1bca3 },
        { 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
    };
    if ((c & 0xfffe) == 0xfffe || c > 0x10ffff) return false;
    for (size_t i = 0; i < COUNT_OF(hidden) && hidden[i].first <= c; i++)
        if (c <= hidden[i].last) return false;
    return true;
}

/* The next piece of printable(): a character as it is, or its bytes in hexadecimal.  Returns the bytes of the text that it stands for. */
static uint32_t printable_piece(char piece[20], const char *s, size_t n, char before)
{
    uint32_t used;
    const uint32_t c = utf8_next(s, n, &used);
    const bool wrong = c == 0xfffd && used == 1;
    /* Behind the obvious: "slash star" inside a comment warns, and two question marks start a trigraph in C11. */
    const bool ends_comment = (c == '/' && before == '*') || (c == '*' && before == '/'), trigraph = c == '?' && before == '?';
    if (!wrong && is_visible(c) && c != '"' && c != '\'' && c != '\\' && !ends_comment && !trigraph) {
        memcpy(piece, s, used);
        piece[used] = '\0';
        return used;
    }
    for (uint32_t i = 0; i < used; i++) snprintf(piece + 4 * i, 5, "\\x%02X", (unsigned char)s[i]);
    return used;
}

const char *printable(struct arena *a, const char *bytes, size_t n)
{
    enum { LIMIT = 200 };
    char out[LIMIT + 8];
    size_t size = 0, cut = 0;              /* cut: where "..." still fits */
    for (size_t i = 0; i < n; ) {
        char piece[20];
        i += printable_piece(piece, bytes + i, n - i, i ? bytes[i - 1] : '\0');
        const size_t length = strlen(piece);
        if (size + length > LIMIT) {
            memcpy(out + cut, "...", 3);
            return arena_strndup(a, out, cut + 3);
        }
        memcpy(out + size, piece, length);
        size += length;
        if (size <= LIMIT - 3) cut = size;
    }
    return arena_strndup(a, out, size);
}

/* ---- temporaries: removed when the process dies early ---- */

enum { CLEANUP_MAX = 64 };
static char *volatile cleanup_path[CLEANUP_MAX];      /* NULL = free slot; read by the signal handler */

static void cleanup_run(void)                         /* async-signal-safe */
{
    for (size_t i = CLEANUP_MAX; i-- > 0; )           /* backwards: a directory is registered before what lies in it */
        if (cleanup_path[i] && unlink(cleanup_path[i])) rmdir(cleanup_path[i]);
}

/* After a death that a test caught, the slots must not fill up. */
static void cleanup_run_and_forget(void)
{
    cleanup_run();
    for (size_t i = 0; i < CLEANUP_MAX; i++) {
        char *path = cleanup_path[i];
        cleanup_path[i] = NULL;
        free(path);
    }
}

void cleanup_unlink_at_exit(const char *path)
{
    char *copy = strdup(path);
    for (size_t i = 0; copy && i < CLEANUP_MAX; i++) {
        if (cleanup_path[i]) continue;
        cleanup_path[i] = copy;
        return;
    }
    if (unlink(path)) rmdir(path);                    /* nobody else will */
    if (!copy) die_memory(strlen(path));
    die("%s: more than %d temporary files at once; this is a mistake in forgec, please report it", path, CLEANUP_MAX);
}

void cleanup_forget(const char *path)
{
    for (size_t i = 0; i < CLEANUP_MAX; i++) {
        char *found = cleanup_path[i];
        if (!found || strcmp(found, path) != 0) continue;
        cleanup_path[i] = NULL;                       /* before free(): a signal may come between the two */
        free(found);
        return;
    }
}

static bool stderr_is_terminal;

/* ---- errors ---- */

void (*die_handler)(const char *message);
void (*warn_handler)(const char *message);

enum { MESSAGE_MAX = 8192 };

/* One line that shows what it says, whatever a path or a value contains: what is not visible, and wrong UTF-8, become '?'. */
static void make_one_line(char *s)
{
    char *to = s;
    for (size_t n = strlen(s); n; ) {
        uint32_t used;
        const uint32_t c = utf8_next(s, n, &used);
        const bool shown = is_visible(c) && !(c == 0xfffd && used == 1);
        if (shown) memmove(to, s, used);
        else       *to = '?';
        to += shown ? used : 1;
        s += used;
        n -= used;
    }
    *to = '\0';
}

static void format_message(char out[MESSAGE_MAX], struct place at, const char *fmt, va_list args)
{
    int used = 0;
    if (at.file && at.line && at.column) used = snprintf(out, MESSAGE_MAX, "%s:%u:%u: ", at.file, at.line, at.column);
    else if (at.file && at.line)         used = snprintf(out, MESSAGE_MAX, "%s:%u: ", at.file, at.line);
    else if (at.file)                    used = snprintf(out, MESSAGE_MAX, "%s: ", at.file);
    else if (at.line)                    used = snprintf(out, MESSAGE_MAX, "line %u: ", at.line);
    if (used < 0) used = 0;
    if (used > MESSAGE_MAX - 1) used = MESSAGE_MAX - 1;
    vsnprintf(out + used, (size_t)(MESSAGE_MAX - used), fmt, args);
    make_one_line(out);
}

static _Noreturn void die_message(const char *message)
{
    cleanup_run_and_forget();
    if (die_handler) {
        die_handler(message);
        abort();                                       /* the contract: a handler does not return */
    }
    fprintf(stderr, "forgec: error: %s\n", message);
    exit(EXIT_FAILURE);
}

void die(const char *fmt, ...)
{
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    format_message(message, (struct place){ 0 }, fmt, args);
    va_end(args);
    die_message(message);
}

void die_at(struct place at, const char *fmt, ...)
{
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    format_message(message, at, fmt, args);
    va_end(args);
    die_message(message);
}

void warn(const char *fmt, ...)
{
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    format_message(message, (struct place){ 0 }, fmt, args);
    va_end(args);
    /* verify and compare build a model several times: what is said stays said. */
    enum { KEPT = 32 };
    static char *said[KEPT];
    static size_t n_said;
    if (warn_handler) { warn_handler(message); return; }
    for (size_t i = 0; i < n_said; i++) if (strcmp(said[i], message) == 0) return;
    if (n_said < KEPT && (said[n_said] = strdup(message)) != NULL) n_said++;
    fprintf(stderr, "forgec: warning: %s\n", message);
}

/* ---- signals ---- */

static void on_signal(int number)
{
    cleanup_run();
    if (number == SIGINT && stderr_is_terminal && write(STDERR_FILENO, "\n", 1) < 0) { }     /* after the terminal's ^C */
    _exit(128 + number);
}

struct mapping {
    struct mapping *next;
    const char     *message;        /* ready to be written: a signal handler formats nothing */
    uintptr_t       begin, end;
};
static struct mapping *_Atomic mappings;

void mapping_remember(const char *path, const void *data, size_t size)
{
    enum { LINE_MAX = 8192 };
    char line[LINE_MAX];
    snprintf(line, sizeof line - 1, "forgec: error: %s: cannot be read any more: the file was cut short, or its disk fails; try again when it is whole", path);
    make_one_line(line);
    strcat(line, "\n");
    struct mapping *m = malloc(sizeof *m);
    char *message = strdup(line);
    if (!m || !message) die_memory(sizeof line);
    *m = (struct mapping){ .next = mappings, .message = message, .begin = (uintptr_t)data, .end = (uintptr_t)data + size };
    mappings = m;
}

static void on_bus(int number, siginfo_t *info, void *context)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const uintptr_t at = (uintptr_t)info->si_addr;
    const struct mapping *m = info->si_code > 0 ? mappings : NULL;        /* else sent by somebody */
    (void)context;
    while (m && (at < m->begin || at >= m->end)) m = m->next;
    if (m) while (atomic_flag_test_and_set(&told)) pause();                /* another thread ends the process */
    cleanup_run();
    if (m && write(STDERR_FILENO, m->message, strlen(m->message)) < 0) _exit(EXIT_FAILURE);
    if (m) _exit(EXIT_FAILURE);
    signal(number, SIG_DFL);
    raise(number);
}

static const int cleanup_signals[] = { SIGINT, SIGTERM, SIGHUP };

void cleanup_install_signals(void)
{
    struct sigaction bus = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };
    sigfillset(&bus.sa_mask);
    sigaction(SIGBUS, &bus, NULL);
    struct sigaction action = { .sa_handler = on_signal }, old;
    stderr_is_terminal = isatty(STDERR_FILENO);
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < COUNT_OF(cleanup_signals); i++) {
        if (sigaction(cleanup_signals[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN) continue;   /* nohup */
        sigaction(cleanup_signals[i], &action, NULL);
    }
}

/* ---- files ---- */

/* What the user can do about errno; starts with "; ", "" when there is nothing better than the reason itself. */
static const char *remedy(int error)
{
    switch (error) {
    case ENOSPC: return "; free some space or choose another disk";
    case EDQUOT: return "; free some of your quota or choose another disk";
    case EROFS:  return "; choose a directory on a writable file system";
    case EACCES:
    case EPERM:  return "; check the permissions or choose another path";
    case EIO:    return "; the disk reports a fault: check it or choose another one";
    case EFBIG:  return "; the file size limit is too small: see ulimit -f";
    case ENOENT: return "; check the path";
    case ENOTDIR: return "; a part of the path is not a directory";
    case EMFILE:
    case ENFILE: return "; close other files: see ulimit -n";
    default:     return "";
    }
}

static _Noreturn void die_errno(const char *path, const char *action, int error)
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
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);       /* does not wait for who writes into a pipe */
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
    die("%s: is %s, not a regular file; give the path of one", path, kind_of(st.st_mode));
}

static _Noreturn void die_large(const char *path, size_t most)
{
    die("%s: has more than %zu bytes, which is more than forgec reads of such a file; check the path", path, most);
}

struct bytes file_read_most(struct arena *a, const char *path, size_t most)
{
    const int fd = file_open(path);
    struct text t = { .arena = a };
    struct stat st;
    /* The size is a hint only: files of /proc have none, and any may grow; the last byte is room to see the end. */
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

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void output_check(struct arena *a, const char *path)
{
    refuse_input(a, path);
    for (const struct known_file *f = a->outputs; f; f = f->next)          /* they need not exist yet, their directories do */
        if (strcmp(path, f->path) == 0 || file_is_same(path, f->path) ||
            (strcmp(name_of(path), name_of(f->path)) == 0 && file_is_same(directory_of(a, path), directory_of(a, f->path))))
            die("%s would be the name of two outputs; choose another path", path);
}

void output_claim(struct arena *a, const char *path)
{
    output_check(a, path);
    known_add(a, &a->outputs, path);
}

void outputs_forget(struct arena *a) { a->outputs = NULL; }

/* ---- atomic output ---- */

/* Signals that end the process wait while a file is made or a set renamed; returns what to restore. */
static sigset_t signals_block(void)
{
    sigset_t block, old;
    sigemptyset(&block);
    for (size_t i = 0; i < COUNT_OF(cleanup_signals); i++) sigaddset(&block, cleanup_signals[i]);
    sigprocmask(SIG_BLOCK, &block, &old);
    return old;
}

struct outfile outfile_open(struct arena *a, const char *path, unsigned mode)
{
    struct stat st;
    refuse_input(a, path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        die("%s: is %s, not a regular file; choose another output path", path, S_ISDIR(st.st_mode) ? "a directory" : "a device or pipe");

    struct outfile f = { .path = arena_strdup(a, path) };
    char *temporary = arena_printf(a, "%s.tmpXXXXXX", path);
    f.temporary = temporary;

    /* A signal between the creation and the registration would leave the file behind. */
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

void outfile_write(struct outfile *f, const void *data, size_t n)
{
    const char *p = data;
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
    const int closed = close(f->fd), error = errno;     /* network file systems report a full disk here */
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

/* Two builds into one place take turns with their renames.  -1: the file system has no such lock, or nobody may read the directory. */
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
            die("%s: another process keeps its directory locked; try again when that has ended", path);
        }
        nanosleep(&(struct timespec){ .tv_nsec = 1000000000 / TRIES_PER_SECOND }, NULL);
    }
    return fd;
}

/* How a file of a set looked before: kept under a second name until all are renamed. */
enum before { BEFORE_ABSENT, BEFORE_KEPT, BEFORE_LOST };        /* lost: the file system has no hard links */

static enum before before_keep(const char *path, const char *second)
{
    if (link(path, second) == 0) return BEFORE_KEPT;
    return errno == ENOENT ? BEFORE_ABSENT : BEFORE_LOST;
}

static void before_restore(const char *path, const char *second, enum before before)
{
    if (before == BEFORE_ABSENT) unlink(path);
    if (before == BEFORE_KEPT) rename(second, path);             /* where that fails, too, the old file stays under its second name */
}

/* Several renames are no single step.  A failure among them is undone.  A kill or a power cut between them leaves new weights beside
 * the old product: the hash that both hold tells, and the product refuses to run. */
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

void directory_make(struct arena *a, const char *path)
{
    char *part = arena_strdup(a, path);
    const size_t size = strlen(part);
    for (size_t i = 1; i <= size; i++) {
        if (i < size && part[i] != '/') continue;
        const char saved = part[i];
        part[i] = '\0';
        struct stat st;
        /* stat first: mkdir on an existing directory may say EROFS or EACCES instead of EEXIST. */
        if (stat(part, &st) != 0) {
            if (mkdir(part, 0777) != 0 && errno != EEXIST) die_errno(part, "make the directory", errno);
        } else if (!S_ISDIR(st.st_mode)) {
            die("%s: exists and is not a directory; remove it or choose another path", part);
        }
        part[i] = saved;
    }
}
