/* driver_library.h -- where the GPU libraries are: one list of names and places for programs, their --check, and forgec targets. */
#ifndef FORGE_DRIVER_LIBRARY_H
#define FORGE_DRIVER_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

enum driver_library { DRIVER_HIP, DRIVER_CUDA, DRIVER_RCCL, DRIVER_NCCL };

/* Opens the library and writes its file name to `name`.  It is never closed, because drivers cannot be unloaded safely.  Tried in this
 * order:
 *  1. the file that the environment names (driver_override), and then nothing else;
 *  2. the library that this process has already loaded, because two copies conflict;
 *  3. the folders ROCM_PATH and HIP_PATH, for AMD;
 *  4. the names that the dynamic linker knows, newest first;
 *  5. the folders of ROCm's packages and of Python's, newest first.
 * A program with more rights than its user ignores the environment.
 * NULL: `why` says why the first library that exists cannot be loaded, or is "" if no library exists. */
void *driver_open(enum driver_library which, char *name, size_t name_bytes, char *why, size_t why_bytes);
/* "FORGE_HIP_LIBRARY" */
const char *driver_override(enum driver_library which);
/* The text for a missing library: the packages that contain it. */
const char *driver_missing(enum driver_library which);
/* Calls take() for every existing file of steps 3 and 5 in order, until it returns true.  root: "", or a folder that stands for /
 * (tests). */
bool driver_files(enum driver_library which, const char *root, bool (*take)(void *context, const char *file), void *context);

#endif
