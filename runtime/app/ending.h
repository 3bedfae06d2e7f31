/* ending.h -- when a signal ends the program: no half file is left, and weights that end early have their sentence. */
#ifndef FORGE_ENDING_H
#define FORGE_ENDING_H

#include <stddef.h>

/* SIGTERM, SIGHUP and SIGQUIT remove the file being written before they end the process; SIGBUS inside what is watched is a line on stderr
 * and FORGE_BAD_WEIGHTS. name: of the program, for that line; it stays valid. */
void ending_install(const char *name);

/* The file to remove, NULL: none any more. path stays valid until then. */
void ending_removes(const char *path);

/* Removes it now, and restores the terminal; async-signal-safe. */
void ending_run(void);

/* What puts the terminal back as it was, NULL: nothing; async-signal-safe.  ending_run calls it. */
void ending_restores(void (*restore)(void));

/* Memory mapped from the file path; bytes 0: none any more. Somebody may cut the file short while the program reads it. */
void ending_watch(const void *begin, size_t bytes, const char *path);

#endif
