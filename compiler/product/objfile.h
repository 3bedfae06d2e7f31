/* objfile.h -- one relocatable ELF object (what ld -r made) -> the object a customer links: only the API is left visible, and read-only
 * data of any size is added behind it.  ELF64 and ELF32, little-endian: x86_64, aarch64, riscv, arm.  Everything read is checked. */
#ifndef FORGEC_OBJFILE_H
#define FORGEC_OBJFILE_H
#include "compiler/base/base.h"

/* `const uint8_t symbol[bytes]`, which the object refers to and does not define; it becomes a local symbol of a section of its own. */
struct objfile_data {
    const char    *symbol, *section;
    uint64_t       bytes, align;
    const uint8_t *data;                   /* NULL (the last one only): the caller writes the bytes behind the result */
};

struct objfile_edit {
    const char *const         *exported;   /* NULL-terminated: each must be defined; every other global symbol becomes local */
    const char *const         *needed;     /* NULL-terminated: the only symbols that may stay undefined */
    const struct objfile_data *data;
    size_t                     n_data;
};

/* The whole file is head, then the bytes of the last objfile_data if the caller has them. */
struct objfile { struct bytes head; uint64_t file_bytes; };

/* name: of the object, for messages.  Dies on what is no such object, on a symbol missing or one too many, and on variables: an object that
 * promises to have none must have neither .data nor .bss (constants with addresses in them, .data.rel.ro, are none). */
struct objfile objfile_rewrite(struct arena *a, const char *name, struct bytes object, const struct objfile_edit *edit);
#endif
