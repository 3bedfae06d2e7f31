/* outfile.h -- a file that appears completely or not at all. */
#ifndef FORGE_OUTFILE_H
#define FORGE_OUTFILE_H

#include "runtime/run/status.h"

enum { OUTFILE_PATH_BYTES = 4096 };

struct forge_outfile {
    int fd;
    const char *path;
    char temporary[OUTFILE_PATH_BYTES];      /* written instead of path; "": path is not a regular file and is written itself */
};

/* Opens path for writing; in fact it opens a file beside it.  Anything that is not a regular file (a device, a pipe, /dev/stdout, any
 * symbolic link) is written directly.  Do not move the struct until it is closed; only one at a time.  FORGE_BAD_OUTPUT. */
enum forge_status outfile_open(struct forge_outfile *f, const char *path, struct forge_error *error);

/* status FORGE_OK: moves the file into place; else removes what was written and returns status.  A signal that ends the program also
 * removes it. */
enum forge_status outfile_close(struct forge_outfile *f, enum forge_status status, struct forge_error *error);

#endif
