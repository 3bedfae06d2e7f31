/* base.h -- what every stage of the compiler uses: arena, text, errors with a place, files, atomic outputs. */
#ifndef FORGEC_BASE_H
#define FORGEC_BASE_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- arena: everything a build allocates; nothing is freed singly. Out of memory dies. ---- */
struct arena;
struct arena *arena_create(void);
void          arena_destroy(struct arena *a);
/* Zeroed memory, aligned to 16 bytes.  bytes may be 0. */
void *arena_alloc(struct arena *a, size_t bytes);
/* Zeroed array; dies if count * size overflows. */
void *arena_calloc(struct arena *a, size_t count, size_t size);
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
#define arena_new(a, type)          ((type *)arena_calloc((a), 1, sizeof(type)))
#define arena_array(a, type, count) ((type *)arena_calloc((a), (count), sizeof(type)))
/* Zeroed array that begins with the first n of items, which may be NULL where n is 0. */
void *arena_regrown(struct arena *a, const void *items, size_t n, size_t count, size_t size);
/* Room behind n items of an array in the arena for one more: items and capacity are what changes. */
#define arena_room(a, items, n, capacity)                                                  \
    do {                                                                                   \
        if ((n) < (capacity)) break;                                                       \
        (capacity) = (capacity) ? 2 * (capacity) : 8;                                      \
        (items) = arena_regrown((a), (items), (n), (capacity), sizeof *(items));           \
    } while (0)

/* ---- text: a growing, always NUL-terminated string in an arena. Start with { .arena = a }. ---- */
struct text {
    struct arena *arena;
    char         *data;     /* NULL while empty */
    size_t        size;     /* without the NUL */
    size_t        capacity;
};
void text_append(struct text *t, const char *bytes, size_t n);
void text_puts(struct text *t, const char *s);
void text_printf(struct text *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
const char *text_str(const struct text *t);          /* "" while empty */

/* ---- errors: the compiler stops at the first user error with one line on stderr and exit code 1. ---- */
struct place {              /* file may be NULL; line and column start at 1, 0 = unknown */
    const char *file;
    uint32_t    line, column;
};
_Noreturn void die(const char *fmt, ...) PRINTF_LIKE(1, 2);
_Noreturn void die_at(struct place at, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* One line on stderr, whether or not -q is given; the same text once only. */
void           warn(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* Tests and fuzzers: when set, die() hands its message here instead of printing and exiting; it must not return. */
extern void (*die_handler)(const char *message);
/* The same for warn(), which then prints nothing; it returns. */
extern void (*warn_handler)(const char *message);
/* Run by die() and on SIGINT/SIGTERM before the process ends: temporary files go, and processes that work for this one. */
void cleanup_unlink_at_exit(const char *path);       /* file or (by then) empty directory; copied; at most 128 at once */
void cleanup_forget(const char *path);
/* The same for a process that forgec has started: it is ended by SIGTERM. */
void cleanup_end_at_exit(int pid);                   /* at most 256 at once */
void cleanup_ended(int pid);
/* SIGINT, SIGTERM and SIGHUP remove those files and end the process with 128 + signal; an ignored signal stays ignored. */
void cleanup_install_signals(void);
/* The file path is mapped at data.  When somebody cuts it short while forgec reads it, that is an error like others (SIGBUS, once the
 * signals are installed), in any thread.  The mapping stays to the end. */
void mapping_remember(const char *path, const void *data, size_t size);
/* Text from a file, made safe for a terminal, a C comment, a C string or a message: letters of any script stay; what is not visible
 * (below), wrong UTF-8, quotes, backslashes and "*" followed by "/" become \xHH, byte by byte; cut to 200 bytes with "...". */
const char *printable(struct arena *a, const char *bytes, size_t n);
/* One code point of UTF-8 at s, where n > 0 bytes are (RFC 3629: shortest form, no surrogates); *used: its bytes.  A wrong byte is U+FFFD
 * with *used 1. */
uint32_t utf8_next(const char *s, size_t n, uint32_t *used);
/* False for what a terminal obeys or hides instead of showing it: controls (C0, C1), directions of writing, zero width, line and paragraph
 * ends. */
bool     is_visible(uint32_t codepoint);

/* ---- files ---- */
struct bytes { const uint8_t *data; size_t size; };
struct bytes bytes_of(const char *s);                /* without the NUL */
/* No output may replace what is read.  Remembers an input (file_read does not); outfile_open dies when it would replace one, by
 * device and inode, whatever the paths. */
void input_remember(struct arena *a, const char *path);
/* Dies when path is an input or an announced output. */
void output_check(struct arena *a, const char *path);
/* Checks and announces an output before it is opened, so that a wrong path is told at once. */
void output_claim(struct arena *a, const char *path);
void outputs_forget(struct arena *a);                /* those of a former build with this arena */
/* Opens a regular file to read it.  Dies where it is none: a pipe may never end, nor does /dev/zero. */
int          file_open(const char *path);
/* Whole file into the arena, of at most `most` bytes or FILE_MOST.  Dies with the path and the reason. */
struct bytes file_read_most(struct arena *a, const char *path, size_t most);
struct bytes file_read(struct arena *a, const char *path);
#define FILE_MOST ((size_t)256 << 20)                /* sources, tables, linked programs without their weights */
bool         file_exists(const char *path);
/* What is behind the folders of a path, in it. */
const char  *path_name(const char *path);
/* Do both exist and are one file, by whatever paths? */
bool         file_is_same(const char *path, const char *other);
/* Written to PATH.tmpXXXXXX beside the target and renamed into place by commit; removed when forgec dies before. */
struct outfile {
    int         fd;
    const char *path, *temporary;
    uint64_t    offset;      /* bytes written so far */
    void      (*take)(void *context, const void *data, size_t n);       /* outfile_to; else NULL */
    void       *context;
};
struct outfile outfile_open(struct arena *a, const char *path, unsigned mode);
/* No file: take gets the bytes.  For what writes an outfile that shall go elsewhere; it is neither committed nor discarded. */
struct outfile outfile_to(const char *path, void (*take)(void *context, const void *data, size_t n), void *context);
void outfile_write(struct outfile *f, const void *data, size_t n);      /* dies on a full disk, naming the path */
void outfile_pad(struct outfile *f, uint64_t offset);                   /* zeros up to offset (sparse where possible) */
void outfile_commit(struct outfile *f);                                 /* close, rename */
void outfile_discard(struct outfile *f);
/* Files of one product, in one directory.  All are written first; the commit then renames them, the last opened first, so that the
 * product itself is opened first.  Whatever fails, in the commit too, the files that were there before are left as they were. */
enum { OUTSET_MAX = 4 };
struct outset { struct outfile file[OUTSET_MAX]; size_t n; };
struct outfile *outset_open(struct arena *a, struct outset *s, const char *path, unsigned mode);
void            outset_commit(struct arena *a, struct outset *s);
/* A whole file by these steps. */
void file_write(struct arena *a, const char *path, struct bytes data);
/* mkdir -p; dies on failure. */
void directory_make(struct arena *a, const char *path);
#endif
