/* link.h -- links objects, vocabulary and packed weights to one executable.
 * The weights are a page-aligned, read-only, allocated section at the end of the file, which the operating system maps. They are written
 * once, directly into the result, and may have any size. */
#ifndef FORGEC_LINK_H
#define FORGEC_LINK_H
#include "compiler/base/base.h"
#include "cc.h"

struct link_object { const char *name; struct bytes data; };       /* name: for messages and -v; "model.o", or "model.c" (the same) */

/* Makes an object without a compiler: data as `const uint8_t symbol[]` in read-only memory, aligned to 64 bytes. */
struct link_object link_data_object(struct arena *a, const struct target *target, const char *symbol, struct bytes data);

struct link_input {
    const struct target     *target;              /* machine and page size; all programs of one executable share them */
    const struct link_object *objects;
    size_t                    n_objects;
    bool                      is_static;          /* --static: needs no library at run time */
    bool                      has_server;         /* links libevent, from its archives */
    const char               *soname;             /* NULL: an executable. Else a shared library of that name, made of one object, which
                                                   * refers to forge_weights_image (a name for the linker only) unless weights_bytes is 0 */
    uint64_t                  weights_bytes;      /* 0: no image inside, forge_weights is NULL */
};
/* Writes exactly input->weights_bytes bytes with outfile_write. */
typedef void link_write_weights(struct outfile *f, void *context);

/* Links all objects to one relocatable object (through the cache), for any machine. Empty in a dry run. */
struct bytes link_relocatable(struct arena *a, struct toolchain *tc, const struct target *target, const struct link_object *objects,
                              size_t n_objects);
/* Links WebAssembly objects to a module (through the cache). It exports its memory, __heap_base and what its sources export. The stack
 * comes first in its memory, so that a stack overflow is a trap and damages nothing. Empty in a dry run. */
struct bytes link_module(struct arena *a, struct toolchain *tc, const struct link_object *objects, size_t n_objects, uint32_t stack_bytes);

/* Links (through the cache) and writes out_path, mode 0755, as a file of the set. Defines `forge_weights` (runtime/model/abi.h).
 * Dies with the linker's messages on stderr. */
void link_executable(struct arena *a, struct toolchain *tc, const struct link_input *input, struct outset *set, const char *out_path,
                     link_write_weights *write_weights, void *context);
#endif
