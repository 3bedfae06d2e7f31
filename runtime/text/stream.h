/* stream.h -- text to a file descriptor, whole UTF-8 sequences at a time. */
#ifndef FORGE_STREAM_H
#define FORGE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/run/status.h"

struct forge_stream {
    int    fd;
    char   held[4];              /* an incomplete sequence, at most three bytes */
    size_t n_held;
    char   last;                 /* last byte written, 0 at the start */
    bool   visible;              /* control characters but newlines and tabs are written as ^X: nothing drives the terminal */
};

void stream_open(struct forge_stream *stream, int fd);

/* Writes what is complete at once and holds back an unfinished sequence at the end. Bytes that are no UTF-8 pass as they are.
 * FORGE_BAD_OUTPUT when the descriptor takes no more. */
enum forge_status stream_write(struct forge_stream *stream, const char *bytes, size_t n, struct forge_error *error);

/* The end of the text: an unfinished sequence becomes U+FFFD. */
enum forge_status stream_end(struct forge_stream *stream, struct forge_error *error);

/* write(2) until all is out. FORGE_BAD_OUTPUT has no sentence where fd is stdout and its reader has gone: `| head` is no error to tell. */
enum forge_status write_all(int fd, const void *bytes, size_t n, const char *name, struct forge_error *error);

/* What was printed with stdio is out, all of it; else as write_all. */
enum forge_status flush_stdout(struct forge_error *error);

#endif
