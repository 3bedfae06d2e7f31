/* resource.c -- looks up embedded files; a directory of the user takes precedence. */
#include "resource.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* DIR + path without its first folder; NULL if there is no directory. */
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
    if (override_dir) die("%s: this file is neither built into forgec nor in the directory %s; check the name", path, override_dir);
    die("%s: this file is not built into forgec; check the name", path);
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

struct listing { struct arena *arena; const char **paths; size_t count, capacity; };

static void listing_add(struct listing *l, const char *path)
{
    arena_room(l->arena, l->paths, l->count, l->capacity);
    l->paths[l->count++] = path;
}

/* Adds the user's files, with their paths as resources. */
static void listing_read(struct listing *l, const char *override_dir, const char *folder)
{
    const char *directory = override_path(l->arena, override_dir, folder);
    DIR        *stream = directory ? opendir(directory) : NULL;
    for (struct dirent *entry; stream && (entry = readdir(stream));)
        if (entry->d_name[0] != '.') listing_add(l, arena_printf(l->arena, "%s%s", folder, entry->d_name));
    if (stream) closedir(stream);
}

const char **resource_list(struct arena *a, const char *override_dir, const char *folder)
{
    struct listing l = { .arena = a };
    for (size_t i = 0; i < n_resources; i++)
        if (!strncmp(resources[i].path, folder, strlen(folder))) listing_add(&l, resources[i].path);
    listing_read(&l, override_dir, folder);
    if (l.count) qsort(l.paths, l.count, sizeof *l.paths, compare_string);
    size_t kept = 0;
    for (size_t i = 0; i < l.count; i++)
        if (!kept || strcmp(l.paths[kept - 1], l.paths[i])) l.paths[kept++] = l.paths[i];
    l.count = kept;
    listing_add(&l, NULL);
    return l.paths;
}

const char **resource_names(struct arena *a, const char *override_dir, const char *folder)
{
    const char **names = resource_list(a, override_dir, folder);
    size_t       kept = 0;
    for (size_t i = 0; names[i]; i++) {
        const char  *file = names[i] + strlen(folder);
        const size_t length = strlen(file);
        if (length > 5 && strcmp(file + length - 5, ".yaml") == 0) names[kept++] = arena_strndup(a, file, length - 5);
    }
    names[kept] = NULL;
    qsort(names, kept, sizeof *names, compare_string);
    return names;
}
