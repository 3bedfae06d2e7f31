/* history.c -- see history.h. */
#include "history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/app/outfile.h"
#include "runtime/text/stream.h"

enum { FILE_MOST_BYTES = 4 << 20, TRIM_BEYOND = 2 * HISTORY_MOST };

/* Works in place, because a text is never longer than its line. */
static void unquote(char *line)
{
    char *to = line;
    for (const char *from = line; *from != 0; from++) {
        if (*from != '\\' || (from[1] != 'n' && from[1] != '\\')) *to++ = *from;
        else *to++ = *++from == 'n' ? '\n' : '\\';
    }
    *to = 0;
}

/* The line of a text, with newline, from malloc; NULL: out of memory. */
static char *quote(const char *text, size_t *n)
{
    char *line = malloc(2 * strlen(text) + 2), *to = line;
    if (!line) return NULL;
    for (; *text != 0; text++) {
        if (*text == '\n' || *text == '\\') *to++ = '\\';
        *to++ = *text == '\n' ? 'n' : *text;
    }
    *to++ = '\n';
    *n = (size_t)(to - line);
    return line;
}

static void remember(struct history *h, char *text)
{
    if (h->n == HISTORY_MOST) {
        free(h->texts[0]);
        memmove(h->texts, h->texts + 1, --h->n * sizeof *h->texts);
    }
    h->texts[h->n++] = text;
}

static enum forge_status trim(const struct history *h, struct forge_error *error)
{
    struct forge_outfile file;
    TRY(outfile_open(&file, h->path, error));
    enum forge_status status = FORGE_OK;
    for (size_t i = 0; i < h->n && status == FORGE_OK; i++) {
        size_t n = 0;
        char *line = quote(h->texts[i], &n);
        status = line ? write_all(file.fd, line, n, h->path, error) : error_set(error, FORGE_NO_MEMORY, "out of memory for the history");
        free(line);
    }
    return outfile_close(&file, status, error);
}

/* Reads the last FILE_MOST_BYTES of the file. */
static enum forge_status read_file(struct history *h, int fd, struct forge_error *error)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return error_set(error, FORGE_FAILED, "%s is not a regular file", h->path);
    const off_t from = st.st_size > FILE_MOST_BYTES ? st.st_size - FILE_MOST_BYTES : 0;
    char *bytes = malloc((size_t)(st.st_size - from) + 1);
    if (!bytes) return error_set(error, FORGE_NO_MEMORY, "out of memory for %s", h->path);
    ssize_t got = pread(fd, bytes, (size_t)(st.st_size - from), from);
    const int why = errno;
    size_t lines = 0;
    bytes[got > 0 ? got : 0] = 0;
    for (char *line = bytes, *end; got > 0 && (end = memchr(line, '\n', (size_t)(bytes + got - line))) != NULL; line = end + 1) {
        *end = 0;
        if (lines++ == 0 && from > 0) continue;          /* an incomplete line */
        char *text = *line != 0 ? strdup(line) : NULL;
        if (!text) continue;
        unquote(text);
        remember(h, text);
    }
    free(bytes);
    if (got < 0) return error_set(error, FORGE_FAILED, "cannot read %s: %s", h->path, strerror(why));
    return lines > TRIM_BEYOND || from > 0 ? trim(h, error) : FORGE_OK;
}

enum forge_status history_open(struct history *h, const char *path, struct forge_error *error)
{
    *h = (struct history){ .texts = calloc(HISTORY_MOST, sizeof *h->texts), .path = path };
    if (!h->texts) return error_set(error, FORGE_NO_MEMORY, "out of memory for the history");
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (!path || (fd < 0 && errno == ENOENT)) return FORGE_OK;
    if (fd < 0) return error_set(error, FORGE_FAILED, "cannot open %s: %s", path, strerror(errno));
    const enum forge_status status = read_file(h, fd, error);
    close(fd);
    return status;
}

void history_close(struct history *h)
{
    for (size_t i = 0; i < h->n; i++) free(h->texts[i]);
    free(h->texts);
    *h = (struct history){ .texts = NULL };
}

static void append(struct history *h, const char *text)
{
    size_t n = 0;
    struct forge_error error;
    char *line = quote(text, &n);
    if (!line) return;
    const int fd = open(h->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    const enum forge_status status = fd < 0 ? error_set(&error, FORGE_BAD_OUTPUT, "cannot write %s: %s", h->path, strerror(errno))
                                            : write_all(fd, line, n, h->path, &error);
    if (fd >= 0) close(fd);
    free(line);
    if (status == FORGE_OK) return;
    fprintf(stderr, "%s\n", error.text);
    h->path = NULL;
}

void history_add(struct history *h, const char *text)
{
    if (h->n > 0 && strcmp(h->texts[h->n - 1], text) == 0) return;
    char *copy = strdup(text);
    if (!copy) return;
    remember(h, copy);
    if (h->path) append(h, text);
}
