/* memory.h -- what the machine has of memory, and of large pages. */
#ifndef FORGE_MEMORY_H
#define FORGE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that this process can have beside what it has: what the kernel counts as available, and at most what the limit of its control group
 * leaves.  0: the system does not tell.  root: "", or a directory that stands for /. */
uint64_t memory_room(const char *root);

/* Does the kernel give large pages to who asks for them with madvise()? */
bool memory_has_large_pages(const char *root);

#endif
