/* memory.c -- see memory.h.  Linux: proc(5), cgroups(7) version 2, Documentation/admin-guide/mm/transhuge.rst. */
#include "memory.h"

#include <stdio.h>
#include <string.h>

/* The number after `key` in a file of lines, or with "" the number at the beginning of the file; UINT64_MAX: there is no number, or it
 * is "max". */
static uint64_t number_of(const char *root, const char *path, const char *key)
{
    char name[512], line[256];
    unsigned long long n;
    uint64_t found = UINT64_MAX;
    snprintf(name, sizeof name, "%s%s", root, path);
    FILE *file = fopen(name, "re");
    if (!file) return UINT64_MAX;
    while (found == UINT64_MAX && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%llu", &n) == 1) found = n;
    fclose(file);
    return found;
}

uint64_t memory_room(const char *root)
{
    const uint64_t kib = number_of(root, "/proc/meminfo", "MemAvailable:");
    const uint64_t most = number_of(root, "/sys/fs/cgroup/memory.max", ""), used = number_of(root, "/sys/fs/cgroup/memory.current", "");
    if (kib > UINT64_MAX / 1024) return 0;
    if (most == UINT64_MAX || used == UINT64_MAX) return kib * 1024;
    const uint64_t left = most > used ? most - used : 0;
    return left < kib * 1024 ? left : kib * 1024;
}

bool memory_has_large_pages(const char *root)
{
    char name[512], line[64] = "";
    snprintf(name, sizeof name, "%s/sys/kernel/mm/transparent_hugepage/enabled", root);
    FILE *file = fopen(name, "re");
    if (!file) return false;
    const bool told = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    return told && (strstr(line, "[always]") || strstr(line, "[madvise]"));
}
