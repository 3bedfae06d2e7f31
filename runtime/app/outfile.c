/* outfile.c -- an output file that appears under its name only when it is complete. */
#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ending.h"
#include "runtime/run/entropy.h"

/* Makes the file beside path.  ending_removes is called before the file exists, because a signal may come at any time. */
static bool make_beside(struct forge_outfile *f, mode_t mode)
{
    enum { TRIES = 16 };
    for (int i = 0; i < TRIES; i++) {
        const int n = snprintf(f->temporary, sizeof f->temporary, "%s.tmp%08x", f->path, (uint32_t)entropy());
        if (n >= (int)sizeof f->temporary) { errno = ENAMETOOLONG; break; }
        ending_removes(f->temporary);
        f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (f->fd >= 0) return true;
        const int reason = errno;
        ending_removes(NULL);
        errno = reason;
        if (reason != EEXIST) break;
    }
    return false;
}

enum forge_status outfile_open(struct forge_outfile *f, const char *path, struct forge_error *error)
{
    struct stat st;
    const bool exists = lstat(path, &st) == 0;
    *f = (struct forge_outfile){ .fd = -1, .path = path };
    if (exists && !S_ISREG(st.st_mode)) f->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    else if (!exists || access(path, W_OK) == 0) make_beside(f, exists ? st.st_mode & 0777 : 0666);      /* else it is protected */
    return f->fd >= 0 ? FORGE_OK : error_set(error, FORGE_BAD_OUTPUT, "cannot write %s: %s", path, strerror(errno));
}

enum forge_status outfile_close(struct forge_outfile *f, enum forge_status status, struct forge_error *error)
{
    const bool beside = f->temporary[0] != 0;
    if (close(f->fd) != 0 && status == FORGE_OK) status = error_set(error, FORGE_BAD_OUTPUT, "cannot write %s: %s", f->path,
                                                                    strerror(errno));
    if (beside && status == FORGE_OK && rename(f->temporary, f->path) != 0)
        status = error_set(error, FORGE_BAD_OUTPUT, "cannot write %s: %s", f->path, strerror(errno));
    if (beside && status != FORGE_OK) unlink(f->temporary);
    ending_removes(NULL);
    return status;
}
