/* link.h -- objects, vocabulary and packed weights to one executable.
 * The weights are a page-aligned, read-only, allocated section at the end of the file that the kernel maps; they are written once,
 * straight into the result, and may have any size. */
#ifndef FORGEC_LINK_H
#define FORGEC_LINK_H
#include "compiler/base/base.h"
#include "cc.h"

struct link_object { const char *name; struct bytes data; };       /* name for messages and -v: "model.o", "model.c" (means the same) */

/* Objects made without a compiler: data as `const uint8_t symbol[]` in read-only memory, aligned to 64 bytes. */
struct link_object link_data_object(struct arena *a, const struct profile *profile, const char *symbol, struct bytes data);

struct link_input {
    const struct profile     *profile;            /* machine and page size; all programs of one executable share them */
    const struct link_object *objects;
    size_t                    n_objects;
    bool                      is_static;          /* --static: needs no library at all at run time */
    bool                      has_server;         /* with libevent, from its archives */
    const char               *soname;             /* NULL: an executable.  Else a shared library of that name, whose one object refers to
                                                   * forge_weights_image (a name for the linker only) unless weights_bytes is 0 */
    uint64_t                  weights_bytes;      /* 0: no image inside, forge_weights is NULL */
};
/* Writes exactly input->weights_bytes bytes with outfile_write. */
typedef void link_write_weights(struct outfile *f, void *context);

/* All objects as one relocatable object (through the cache), for any machine.  Empty in a dry run. */
struct bytes link_relocatable(struct arena *a, struct toolchain *tc, const struct profile *profile, const struct link_object *objects,
                              size_t n_objects);
/* Objects of WebAssembly as a module (through the cache), which exports its memory, __heap_base and what its sources say; the stack comes
 * first in its memory, so that what is too deep is a trap and no damage.  Empty in a dry run. */
struct bytes link_module(struct arena *a, struct toolchain *tc, const struct link_object *objects, size_t n_objects, uint32_t stack_bytes);

/* Links (through the cache) and writes out_path, mode 0755, as a file of the set.  `forge_weights` (runtime/model/abi.h) is defined here.
 * Dies with the linker's messages on stderr. */
void link_executable(struct arena *a, struct toolchain *tc, const struct link_input *input, struct outset *set, const char *out_path,
                     link_write_weights *write_weights, void *context);
#endif
