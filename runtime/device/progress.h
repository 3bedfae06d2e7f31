/* progress.h -- a line on a terminal that says how much of large weights is loaded. */
#ifndef FORGE_PROGRESS_H
#define FORGE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { PROGRESS_BYTES = 1 << 30 };               /* loading more than this shows its progress */

struct progress { bool shown; uint64_t done, all; };

/* wanted: not with --quiet. */
static inline struct progress progress_of(uint64_t bytes, bool wanted)
{
    return (struct progress){ wanted && bytes >= PROGRESS_BYTES && isatty(STDERR_FILENO), 0, bytes };
}

static inline void progress_show(struct progress *p, uint64_t bytes)
{
    p->done += bytes;
    if (p->shown) fprintf(stderr, "\rloading weights %3u %%", (unsigned)(p->done * 100 / p->all));
}

static inline void progress_end(const struct progress *p)
{
    if (p->shown) fprintf(stderr, "\r                     \r");
}

#endif
