/* driver_library.c -- see driver_library.h.  Layouts: /opt/rocm/lib (ROCm 5 to 7.2), /opt/rocm/core-X.Y/lib (7.14 and 10, where only the
 * package amdrocm-core makes /opt/rocm/lib), /opt/rocm-X.Y.Z/lib (several beside each other), site-packages/_rocm_sdk_core/lib (ROCm's
 * wheels, with versioned files only) and site-packages/nvidia/nccl/lib (NVIDIA's wheels). */
#include "driver_library.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In glibc and musl.  The objects of a library are compiled with POSIX only (compiler/build/cc.c), which does not declare it. */
extern char *secure_getenv(const char *name);

enum { PATH_BYTES = 512, ENTRY_BYTES = 128 };

struct library {
    const char *override;
    const char *const *names;                    /* as the dynamic linker knows them, newest first */
    const char *stem;                            /* of files with a longer version */
    const char *wheel;                           /* folder below Python's site-packages; NULL: not in a wheel */
    bool        rocm;
    const char *missing;
};
static const struct library libraries[] = {
    [DRIVER_HIP] = { "FORGE_HIP_LIBRARY",
        (const char *const[]){ "libamdhip64.so.8", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so", NULL },
        "libamdhip64.so.", "_rocm_sdk_core/lib", true,
        "libamdhip64.so is not installed: it is in AMD's package amdrocm-runtime (hip-runtime-amd before ROCm 7.14), in Debian's and "
        "Ubuntu's libamdhip64-N, in Fedora's rocm-hip; ROCM_PATH names another folder of ROCm, FORGE_HIP_LIBRARY the file itself" },
    [DRIVER_CUDA] = { "FORGE_CUDA_LIBRARY", (const char *const[]){ "libcuda.so.1", NULL }, NULL, NULL, false,
        "libcuda.so.1 is not installed: it comes with the NVIDIA driver; set FORGE_CUDA_LIBRARY if the file is elsewhere" },
    [DRIVER_RCCL] = { "FORGE_RCCL_LIBRARY", (const char *const[]){ "librccl.so.1", "librccl.so", NULL }, "librccl.so.",
        "_rocm_sdk_libraries/lib", true,
        "librccl.so.1 is not installed: it is in AMD's package amdrocm-rccl (rccl before ROCm 7.14), in Debian's librccl1; ROCM_PATH "
        "names another folder of ROCm, FORGE_RCCL_LIBRARY the file itself" },
    [DRIVER_NCCL] = { "FORGE_NCCL_LIBRARY", (const char *const[]){ "libnccl.so.2", "libnccl.so", NULL }, NULL, "nvidia/nccl/lib", false,
        "libnccl.so.2 is not installed: it is in NVIDIA's package libnccl2; set FORGE_NCCL_LIBRARY if the file is elsewhere" },
};

const char *driver_override(enum driver_library which) { return libraries[which].override; }
const char *driver_missing(enum driver_library which) { return libraries[which].missing; }

/* ---- folders and their entries, newest first ---- */

/* Numbers in names are compared as numbers: core-7.14 is newer than core-7.2. */
static int compare_versions(const char *a, const char *b)
{
    while (*a != 0 && *b != 0) {
        const size_t n = strspn(a, "0123456789"), m = strspn(b, "0123456789");
        if (n > 0 && m > 0) {
            const unsigned long long x = strtoull(a, NULL, 10), y = strtoull(b, NULL, 10);
            if (x != y) return x < y ? -1 : 1;
            a += n;
            b += m;
        } else if (*a != *b) {
            return *a < *b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    return (*a != 0) - (*b != 0);
}

/* Finds, among the folder's entries that begin with `begin`, the newest one older than `name`, and writes it to `name`; with "" the
 * newest of all. */
static bool next_entry(const char *folder, const char *begin, char *name)
{
    char best[ENTRY_BYTES] = "";
    DIR *entries = opendir(folder);
    for (const struct dirent *e; entries && (e = readdir(entries));) {
        if (strncmp(e->d_name, begin, strlen(begin)) != 0 || strlen(e->d_name) >= sizeof best) continue;
        if (*name != 0 && compare_versions(e->d_name, name) >= 0) continue;
        if (*best == 0 || compare_versions(e->d_name, best) > 0) snprintf(best, sizeof best, "%s", e->d_name);
    }
    if (entries) closedir(entries);
    snprintf(name, sizeof best, "%s", best);
    return *best != 0;
}

struct walk { const struct library *library; const char *root; bool (*take)(void *context, const char *file); void *context; };

static bool is_name(const struct library *l, const char *entry)
{
    for (const char *const *name = l->names; *name; name++) if (strcmp(*name, entry) == 0) return true;
    return false;
}

/* The names of the library in one folder, then files whose names continue with a longer version. */
static bool in_folder(const struct walk *w, const char *folder)
{
    char path[PATH_BYTES], entry[ENTRY_BYTES] = "";
    if (access(folder, X_OK) != 0) return false;
    for (const char *const *name = w->library->names; *name; name++) {
        if (snprintf(path, sizeof path, "%s/%s", folder, *name) >= (int)sizeof path || access(path, F_OK) != 0) continue;
        if (w->take(w->context, path)) return true;
    }
    while (w->library->stem && next_entry(folder, w->library->stem, entry))
        if (!is_name(w->library, entry) && snprintf(path, sizeof path, "%s/%s", folder, entry) < (int)sizeof path &&
            w->take(w->context, path)) return true;
    return false;
}

/* Tries BASE/BEGIN*</below>, newest first. */
static bool in_folders(const struct walk *w, const char *base, const char *begin, const char *below)
{
    char path[PATH_BYTES], entry[ENTRY_BYTES] = "";
    while (next_entry(base, begin, entry))
        if (snprintf(path, sizeof path, "%s/%s/%s", base, entry, below) < (int)sizeof path && in_folder(w, path)) return true;
    return false;
}

static bool in_variable(const struct walk *w, const char *variable)
{
    char path[PATH_BYTES];
    const char *folder = secure_getenv(variable);
    if (!folder || *folder == 0) return false;
    if (snprintf(path, sizeof path, "%s%s/lib", w->root, folder) < (int)sizeof path && in_folder(w, path)) return true;
    return snprintf(path, sizeof path, "%s%s/lib64", w->root, folder) < (int)sizeof path && in_folder(w, path);
}

/* Tries an environment of Python, or the system's Python. */
static bool in_wheels(const struct walk *w, const char *prefix, const char *packages)
{
    char base[PATH_BYTES], below[ENTRY_BYTES];
    snprintf(below, sizeof below, "%s/%s", packages, w->library->wheel);
    return snprintf(base, sizeof base, "%s%s/lib", w->root, prefix) < (int)sizeof base && in_folders(w, base, "python3", below);
}

static bool in_python(const struct walk *w)
{
    static const char *const prefixes[] = { "VIRTUAL_ENV", "CONDA_PREFIX", "HOME" };
    char home[PATH_BYTES];
    if (!w->library->wheel) return false;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const char *prefix = secure_getenv(prefixes[i]);
        if (!prefix || *prefix == 0) continue;
        if (snprintf(home, sizeof home, "%s%s", prefix, i == 2 ? "/.local" : "") < (int)sizeof home && in_wheels(w, home, "site-packages"))
            return true;
    }
    return in_wheels(w, "/usr/local", "site-packages") || in_wheels(w, "/usr/local", "dist-packages") ||
           in_wheels(w, "/usr", "dist-packages") || in_wheels(w, "/usr", "site-packages");
}

static bool in_places(const struct walk *w)
{
    char path[PATH_BYTES];
    if (w->library->rocm) {
        if (snprintf(path, sizeof path, "%s/opt/rocm/lib", w->root) < (int)sizeof path && in_folder(w, path)) return true;
        if (snprintf(path, sizeof path, "%s/opt/rocm", w->root) < (int)sizeof path && in_folders(w, path, "core", "lib")) return true;
        if (snprintf(path, sizeof path, "%s/opt", w->root) < (int)sizeof path && in_folders(w, path, "rocm-", "lib")) return true;
    }
    return in_python(w);
}

static bool in_environment(const struct walk *w) { return w->library->rocm && (in_variable(w, "ROCM_PATH") || in_variable(w, "HIP_PATH")); }

bool driver_files(enum driver_library which, const char *root, bool (*take)(void *context, const char *file), void *context)
{
    const struct walk w = { &libraries[which], root, take, context };
    return in_environment(&w) || in_places(&w);
}

/* ---- opening ---- */

struct opening { void *library; char *name, *why; size_t name_bytes, why_bytes; bool named; };

/* Records why a library that exists cannot be loaded, to distinguish it from a missing library. */
static bool open_file(void *context, const char *file)
{
    struct opening *o = context;
    o->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (o->library) {
        snprintf(o->name, o->name_bytes, "%s", file);
        return true;
    }
    const char *reason = dlerror();
    if (reason && *o->why == 0 && (o->named || strncmp(reason, file, strlen(file)) != 0 || !strstr(reason, "No such file")))
        snprintf(o->why, o->why_bytes, "%s", reason);
    return false;
}

static bool is_loaded(struct opening *o, const char *const *names)
{
    for (; *names && !o->library; names++) {
        o->library = dlopen(*names, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        if (o->library) snprintf(o->name, o->name_bytes, "%s", *names);
    }
    return o->library != NULL;
}

void *driver_open(enum driver_library which, char *name, size_t name_bytes, char *why, size_t why_bytes)
{
    const struct library *l = &libraries[which];
    const char *named = secure_getenv(l->override);
    struct opening o = { NULL, name, why, name_bytes, why_bytes, named && *named != 0 };
    const struct walk w = { l, "", open_file, &o };
    *name = *why = 0;
    if (o.named) {
        open_file(&o, named);
        return o.library;
    }
    if (is_loaded(&o, l->names) || in_environment(&w)) return o.library;
    for (const char *const *file = l->names; *file; file++)
        if (open_file(&o, *file)) return o.library;
    in_places(&w);
    return o.library;
}
