/* resource.c -- look-up in the embedded files, with a directory of the user's in front. */
#include "resource.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* DIR + path without its first folder; NULL without a directory. */
static const char *override_path(struct arena *a, const char *override_dir, const char *path)
{
    if (!override_dir) return NULL;
    const char *slash = strchr(path, '/');
    return arena_printf(a, "%s/%s", override_dir, slash ? slash + 1 : path);
}

static int compare_path(const void *key, const void *row)
{
    return strcmp(key, ((const struct resource *)row)->path);
}

bool resource_find(struct arena *a, const char *override_dir, const char *path, struct bytes *out)
{
    const char *file = override_path(a, override_dir, path);
    if (file && file_exists(file)) {
        input_remember(a, file);
        *out = file_read(a, file);
        return true;
    }
    const struct resource *row = bsearch(path, resources, n_resources, sizeof *resources, compare_path);
    if (!row) return false;
    *out = (struct bytes){ row->data, row->size };
    return true;
}

struct bytes resource_get(struct arena *a, const char *override_dir, const char *path)
{
    struct bytes found;
    if (resource_find(a, override_dir, path, &found)) return found;
    if (override_dir) die("%s is neither built into forgec nor in %s", path, override_dir);
    die("%s is not built into forgec", path);
}

const char *resource_place(struct arena *a, const char *override_dir, const char *path)
{
    const char *file = override_path(a, override_dir, path);
    return file && file_exists(file) ? file : path;
}

static int compare_string(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

const char **resource_list(struct arena *a, const char *override_dir, const char *folder)
{
    const size_t length = strlen(folder);
    size_t       count = 0, capacity = n_resources + 1;
    const char  *directory = override_path(a, override_dir, folder);
    DIR         *stream = directory ? opendir(directory) : NULL;
    if (stream) {
        while (readdir(stream)) capacity++;
        rewinddir(stream);
    }
    const char **list = arena_array(a, const char *, capacity);
    for (size_t i = 0; i < n_resources; i++)
        if (!strncmp(resources[i].path, folder, length)) list[count++] = resources[i].path;
    for (struct dirent *entry; stream && count + 1 < capacity && (entry = readdir(stream));)
        if (entry->d_name[0] != '.' && entry->d_type != DT_DIR) list[count++] = arena_printf(a, "%s%s", folder, entry->d_name);
    if (stream) closedir(stream);
    qsort(list, count, sizeof *list, compare_string);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!kept || strcmp(list[kept - 1], list[i])) list[kept++] = list[i];
    list[kept] = NULL;
    return list;
}
