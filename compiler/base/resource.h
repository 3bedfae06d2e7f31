/* resource.h -- files of templates/, targets/, models/ and runtime/ embedded in the forgec binary (cmake/resources.c writes the table). */
#ifndef FORGEC_RESOURCE_H
#define FORGEC_RESOURCE_H
#include "base.h"

struct resource { const char *path; const unsigned char *data; size_t size; };    /* path: "templates/cpu/vec.h" */
extern const struct resource resources[];     /* sorted by path; an entry of NULLs at the end */
extern const size_t          n_resources;

/* The text of path. override_dir (--templates DIR, --targets DIR, ...; may be NULL) replaces the first folder of path:
 * a file DIR/cpu/vec.h takes precedence over the embedded templates/cpu/vec.h. Dies if neither exists. A NUL follows the data. */
struct bytes resource_get(struct arena *a, const char *override_dir, const char *path);
/* As resource_get; false instead of dying. */
bool resource_find(struct arena *a, const char *override_dir, const char *path, struct bytes *out);
/* The file's name for messages: DIR/cpu/vec.h if that file is used, else path. */
const char *resource_place(struct arena *a, const char *override_dir, const char *path);
/* Paths that start with folder ("targets/", "templates/cpu/"): embedded files at any depth, and files directly in the
 * overriding folder. Sorted, without duplicates, NULL-terminated. */
const char **resource_list(struct arena *a, const char *override_dir, const char *folder);
/* The paths of resource_list that end in ".yaml", without folder and ending. Sorted as names: "ernie4_5" before "ernie4_5-moe". */
const char **resource_names(struct arena *a, const char *override_dir, const char *folder);
#endif
