/* history.h -- texts that were typed, newest last, in memory and optionally in a file. */
#ifndef FORGE_HISTORY_H
#define FORGE_HISTORY_H

#include <stddef.h>

#include "runtime/run/status.h"

enum { HISTORY_MOST = 1000 };

struct history {
    char  **texts;                   /* [n] of HISTORY_MOST */
    size_t  n;
    const char *path;                /* NULL: no file, or the file cannot be written any more */
};

/* Reads the last texts of the file; if there is no file, the first added text creates it.  Each text is a line of the file, with
 * newlines as \n and backslashes as \\. */
enum forge_status history_open(struct history *history, const char *path, struct forge_error *error);
void history_close(struct history *history);
/* Adds a copy, unless it equals the last text or there is no memory.  If the file cannot be written, this is reported once on stderr. */
void history_add(struct history *history, const char *text);

#endif
