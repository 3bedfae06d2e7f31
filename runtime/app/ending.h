/* ending.h -- when a signal ends the program, no half-written file stays, and weights that end early get a message. */
#ifndef FORGE_ENDING_H
#define FORGE_ENDING_H

#include <stddef.h>

/* SIGTERM, SIGHUP and SIGQUIT remove the file being written before they end the process.  SIGBUS inside the watched memory prints a line
 * on stderr and exits with FORGE_BAD_WEIGHTS.  name: of the program, for that line; must stay valid. */
void ending_install(const char *name);

/* Sets the file to remove; NULL: there is no such file any more.  path must stay valid until the next call. */
void ending_removes(const char *path);

/* Removes it now and restores the terminal; async-signal-safe. */
void ending_run(void);

/* Sets the function that restores the terminal, or NULL; ending_run calls it.  The function must be async-signal-safe. */
void ending_restores(void (*restore)(void));

/* Watches memory mapped from the file path; bytes 0: stops watching.  Somebody may truncate the file while the program reads it. */
void ending_watch(const void *begin, size_t bytes, const char *path);

#endif
