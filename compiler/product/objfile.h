/* objfile.h -- rewrites a relocatable ELF object (a result of ld -r) into the object that a user links: only the API stays visible, and
 * read-only data of any size is added at the end. ELF64 and ELF32, little-endian: x86_64, aarch64, riscv, arm. All input is checked. */
#ifndef FORGEC_OBJFILE_H
#define FORGEC_OBJFILE_H
#include "compiler/base/base.h"

/* `const uint8_t symbol[bytes]`, which the object refers to and does not define; it becomes a local symbol in a separate section. */
struct objfile_data {
    const char    *symbol, *section;
    uint64_t       bytes, align;
    const uint8_t *data;                   /* NULL (only for the last item): the caller writes the bytes after the result */
};

struct objfile_edit {
    const char *const         *exported;   /* NULL-terminated: each must be defined; every other global symbol becomes local */
    const char *const         *needed;     /* NULL-terminated: the only symbols that may stay undefined */
    const struct objfile_data *data;
    size_t                     n_data;
};

/* The whole file is head, followed by the bytes of the last objfile_data if the caller writes them. */
struct objfile { struct bytes head; uint64_t file_bytes; };

/* name: the object's name, for messages. Dies if the input is not such an object, if a symbol is missing or unexpected, and on variables:
 * the object must have neither .data nor .bss (.data.rel.ro, constants that hold addresses, is allowed). */
struct objfile objfile_rewrite(struct arena *a, const char *name, struct bytes object, const struct objfile_edit *edit);
#endif
