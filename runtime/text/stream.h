/* stream.h -- text to a file descriptor, in whole UTF-8 sequences. */
#ifndef FORGE_STREAM_H
#define FORGE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/run/status.h"

struct forge_stream {
    int    fd;
    char   held[4];              /* an incomplete sequence of at most three bytes */
    size_t n_held;
    char   last;                 /* last byte written, 0 at the start */
    bool   visible;              /* control characters except newline and tab are written as ^X, so that no text can control the terminal */
};

void stream_open(struct forge_stream *stream, int fd);

/* Writes complete sequences at once and holds back an unfinished one at the end.  Bytes that are not UTF-8 are written unchanged.
 * FORGE_BAD_OUTPUT: the descriptor accepts no more. */
enum forge_status stream_write(struct forge_stream *stream, const char *bytes, size_t n, struct forge_error *error);

/* The end of the text: an unfinished sequence becomes U+FFFD. */
enum forge_status stream_end(struct forge_stream *stream, struct forge_error *error);

/* Calls write(2) until everything is written.  FORGE_BAD_OUTPUT has no text if fd is stdout and its reader has gone, because `| head` is
 * not an error worth a message. */
enum forge_status write_all(int fd, const void *bytes, size_t n, const char *name, struct forge_error *error);

/* Flushes stdio.  FORGE_BAD_OUTPUT, as in write_all, if anything could not be written. */
enum forge_status flush_stdout(struct forge_error *error);

#endif
