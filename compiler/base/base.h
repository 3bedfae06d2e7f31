/* base.h -- common to every stage of the compiler: arena, text, errors with a place, files, atomic outputs. */
#ifndef FORGEC_BASE_H
#define FORGEC_BASE_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- arena: holds everything a build allocates; blocks are not freed one by one. Running out of memory dies. ---- */
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
/* Makes room for one more item after the n items of an array in the arena. Changes items and capacity only. */
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
/* Shows a line of progress if stderr is a terminal, in place of the last one; the next error or warning replaces it. NULL: clears it. */
void           progress_line(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* Prints one line on stderr, with -q too. A text is printed only once. */
void           warn(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* For tests and fuzzers: when set, die() passes its message here instead of printing and exiting. The handler must not return. */
extern void (*die_handler)(const char *message);
/* The same for warn(), which then prints nothing. This handler returns. */
extern void (*warn_handler)(const char *message);
/* Cleanup in die() and on SIGINT/SIGTERM before the process ends: removes temporary files and ends child processes. */
void cleanup_unlink_at_exit(const char *path);       /* a file, or a directory that is empty by then; path is copied; at most 128 at once */
void cleanup_forget(const char *path);
/* Registers a process that forgec has started, or as -pid the group of the process pid; cleanup sends it SIGTERM. */
void cleanup_end_at_exit(int pid);                   /* at most 256 at once */
void cleanup_ended(int pid);
/* A folder for temporary files of compilers and linkers, which leave them behind when they are ended. It is removed, with these files, when
 * forgec ends. NULL: it cannot be made. */
const char *tools_folder_path(void);
/* SIGINT, SIGTERM and SIGHUP remove those files and end the process with 128 + signal; an ignored signal stays ignored. */
void cleanup_install_signals(void);
/* Records that the file path is mapped at data. If the file is truncated while forgec reads it, the SIGBUS becomes a normal error, in any
 * thread (once the signals are installed). The mapping stays until the process ends. */
void mapping_remember(const char *path, const void *data, size_t size);
/* Makes text from a file safe for a terminal, a C comment, a C string or a message. Letters of any script stay. Invisible characters
 * (is_visible), invalid UTF-8, quotes, backslashes and "*" followed by "/" become \xHH, byte by byte. Cut to 200 bytes with "...". */
const char *printable(struct arena *a, const char *bytes, size_t n);
/* Decodes one code point of UTF-8 from the n > 0 bytes at s (RFC 3629: shortest form, no surrogates); *used: bytes consumed. An invalid
 * byte gives U+FFFD with *used = 1. */
uint32_t utf8_next(const char *s, size_t n, uint32_t *used);
/* False for characters that a terminal interprets or hides: controls (C0, C1), writing directions, zero width, line and paragraph
 * separators. */
bool     is_visible(uint32_t codepoint);

/* ---- files ---- */
struct bytes { const uint8_t *data; size_t size; };
struct bytes bytes_of(const char *s);                /* without the NUL */
/* No output may replace an input. Remembers path as an input (file_read does not do this); outfile_open dies if it would replace an
 * input. Files are compared by device and inode, not by path. */
void input_remember(struct arena *a, const char *path);
/* Dies if path is an input or an announced output. */
void output_check(struct arena *a, const char *path);
/* Checks and announces an output before it is opened, so that a wrong path is reported at once. */
void output_claim(struct arena *a, const char *path);
void outputs_forget(struct arena *a);                /* forgets the outputs of an earlier build with this arena */
/* Opens a regular file for reading. Dies on anything else: a pipe might never end, and /dev/zero never does. */
int          file_open(const char *path);
/* Reads a whole file into the arena; it may have at most `most` (file_read: FILE_MOST) bytes. Dies with the path and the reason. */
struct bytes file_read_most(struct arena *a, const char *path, size_t most);
struct bytes file_read(struct arena *a, const char *path);
#define FILE_MOST ((size_t)256 << 20)                /* sources, tables, linked programs without their weights */
bool         file_exists(const char *path);
/* The last component of a path; points into path. */
const char  *path_name(const char *path);
/* True if both paths exist and name the same file. */
bool         file_is_same(const char *path, const char *other);
/* An output file. It is written to PATH.tmpXXXXXX in the same directory; commit renames it. If forgec dies first, it is removed. */
struct outfile {
    int         fd;
    const char *path, *temporary;
    uint64_t    offset;      /* bytes written so far */
    void      (*take)(void *context, const void *data, size_t n);       /* outfile_to; else NULL */
    void       *context;
};
struct outfile outfile_open(struct arena *a, const char *path, unsigned mode);
/* An outfile without a file: `take` gets the bytes. For functions that write to an outfile when the bytes must go elsewhere. It is neither
 * committed nor discarded. */
struct outfile outfile_to(const char *path, void (*take)(void *context, const void *data, size_t n), void *context);
void outfile_write(struct outfile *f, const void *data, size_t n);      /* dies on a full disk, naming the path */
void outfile_pad(struct outfile *f, uint64_t offset);                   /* zeros up to offset (sparse where possible) */
void outfile_commit(struct outfile *f);                                 /* close, rename */
void outfile_discard(struct outfile *f);
/* The files of one product, in one directory. All are written first, then the commit renames them in reverse order of opening; so open the
 * product itself first. If anything fails, even in the commit, the previous files are left unchanged. */
enum { OUTSET_MAX = 4 };
struct outset { struct outfile file[OUTSET_MAX]; size_t n; };
struct outfile *outset_open(struct arena *a, struct outset *s, const char *path, unsigned mode);
void            outset_commit(struct arena *a, struct outset *s);
/* Opens, writes and commits a whole file. */
void file_write(struct arena *a, const char *path, struct bytes data);
/* mkdir -p; dies on failure. */
void directory_make(struct arena *a, const char *path);
#endif
