/* history.h -- what was typed, the newest last; in memory, and in a file where that is asked for. */
#ifndef FORGE_HISTORY_H
#define FORGE_HISTORY_H

#include <stddef.h>

#include "runtime/run/status.h"

enum { HISTORY_MOST = 1000 };

struct history {
    char  **texts;                   /* [n] of HISTORY_MOST */
    size_t  n;
    const char *path;                /* NULL: no file, or one that cannot be written any more */
};

/* The file's last texts; one that is not there begins with the first text.  A text is a line of it, in which a newline is \n and a
 * backslash is \\. */
enum forge_status history_open(struct history *history, const char *path, struct forge_error *error);
void history_close(struct history *history);
/* Adds a copy, unless the last one is the same, or there is no memory; a file that cannot be written is told of once, on stderr. */
void history_add(struct history *history, const char *text);

#endif
