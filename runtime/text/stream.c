/* stream.c -- writes text to stdout as it arrives, in whole characters. */
#include "stream.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum forge_status write_all(int fd, const void *bytes, size_t n, const char *name, struct forge_error *error)
{
    for (const char *at = bytes; n > 0;) {
        const ssize_t written = write(fd, at, n);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {     /* the pipe was made non-blocking by another process */
            poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
            continue;
        }
        if (written < 0 && errno == EPIPE && fd == STDOUT_FILENO) return error_set(error, FORGE_BAD_OUTPUT, "%s", "");
        if (written < 0) return error_set(error, FORGE_BAD_OUTPUT, "cannot write to %s: %s", name, strerror(errno));
        at += written;
        n -= (size_t)written;
    }
    return FORGE_OK;
}

enum forge_status flush_stdout(struct forge_error *error)
{
    const bool failed = ferror(stdout) != 0;                    /* in an earlier printf, whose errno is lost */
    if (fflush(stdout) == 0 && !failed) return FORGE_OK;
    const int why = errno;
    struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
    if (poll(&out, 1, 0) == 1 && (out.revents & POLLERR)) return error_set(error, FORGE_BAD_OUTPUT, "%s", "");
    return error_set(error, FORGE_BAD_OUTPUT, failed ? "cannot write to stdout" : "cannot write to stdout: %s", strerror(why));
}

void stream_open(struct forge_stream *s, int fd) { *s = (struct forge_stream){ .fd = fd }; }

static size_t sequence_length(unsigned char lead)
{
    return lead >= 0xc2 && lead <= 0xdf ? 2 : lead >= 0xe0 && lead <= 0xef ? 3 : lead >= 0xf0 && lead <= 0xf4 ? 4 : 1;
}

/* Number of bytes at the end that begin a sequence without its rest, 0 .. 3. */
static size_t unfinished(const char *bytes, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const unsigned char c = (unsigned char)bytes[n - back];
        if ((c & 0xc0) == 0x80) continue;
        return sequence_length(c) > back ? back : 0;
    }
    return 0;
}

/* Number of bytes of the control character at text; 0 if none begins there.  U+0080 to U+009F have two bytes, or one if the text is not
 * UTF-8. */
static size_t control(const char *text, size_t n)
{
    const unsigned char c = (unsigned char)text[0];
    if (c == 0xc2 && n > 1 && (unsigned char)text[1] < 0xa0) return 2;
    return (c < 32 && c != '\n' && c != '\t') || c == 127;
}

static enum forge_status put_visible(struct forge_stream *s, const char *bytes, size_t n, struct forge_error *error)
{
    for (size_t at = 0, plain = 0; at < n; plain = 0) {
        while (at + plain < n && control(bytes + at + plain, n - at - plain) == 0) plain++;
        if (plain > 0) TRY(write_all(s->fd, bytes + at, plain, "stdout", error));
        at += plain;
        if (at == n) break;
        const size_t step = control(bytes + at, n - at);
        const char shown[3] = { '^', step == 1 ? (char)(bytes[at] ^ 64) : '[', step == 1 ? 0 : (char)(bytes[at + 1] ^ 0xc0) };
        TRY(write_all(s->fd, shown, step == 1 ? 2 : 3, "stdout", error));
        at += step;
    }
    return FORGE_OK;
}

static enum forge_status put(struct forge_stream *s, const char *bytes, size_t n, struct forge_error *error)
{
    if (n == 0) return FORGE_OK;
    s->last = bytes[n - 1];
    return s->visible ? put_visible(s, bytes, n, error) : write_all(s->fd, bytes, n, "stdout", error);
}

enum forge_status stream_write(struct forge_stream *s, const char *bytes, size_t n, struct forge_error *error)
{
    /* First complete the held sequence byte by byte; the rest then goes out in one write. */
    while (s->n_held > 0 && n > 0) {
        const bool fits = ((unsigned char)*bytes & 0xc0) == 0x80;
        if (fits) {
            s->held[s->n_held++] = *bytes++;
            n--;
        }
        if (!fits || s->n_held == sequence_length((unsigned char)s->held[0])) {
            const size_t held = s->n_held;
            s->n_held = 0;
            TRY(put(s, s->held, held, error));
        }
    }
    const size_t keep = s->n_held > 0 ? 0 : unfinished(bytes, n);
    TRY(put(s, bytes, n - keep, error));
    if (keep > 0) memcpy(s->held, bytes + n - keep, keep);
    s->n_held += keep;
    return FORGE_OK;
}

enum forge_status stream_end(struct forge_stream *s, struct forge_error *error)
{
    if (s->n_held == 0) return FORGE_OK;
    s->n_held = 0;
    return put(s, "\xef\xbf\xbd", 3, error);
}
