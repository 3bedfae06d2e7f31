/* memory.h -- how much memory the machine has, and whether it has large pages. */
#ifndef FORGE_MEMORY_H
#define FORGE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that this process can still allocate: what the kernel counts as available, limited by what the control group leaves.  0: the
 * system does not report it.  root: "", or a directory that stands for /. */
uint64_t memory_room(const char *root);

/* Does the kernel give large pages to programs that ask for them with madvise()? */
bool memory_has_large_pages(const char *root);

#endif
