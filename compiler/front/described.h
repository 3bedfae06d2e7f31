/* described.h -- models/ARCH.yaml and the files it inherits, as read. Only files that describe a model include it. */
#ifndef FORGEC_DESCRIBED_H
#define FORGEC_DESCRIBED_H
#include "gguf.h"
#include "compiler/base/yaml.h"

struct described {
    struct arena      *arena;
    const struct gguf *gguf;
    const char        *architecture;
    const char        *directory;     /* --models, or NULL */
    struct yaml       *files[6];      /* most derived first */
    struct bytes       texts[6];      /* of the files */
    uint32_t           n_files;
};

/* Finds the YAML of the file's architecture and the files it inherits; sets d->architecture, files and texts. d->arena, gguf and directory
 * must be set. Dies if forgec does not know the architecture. */
void         described_read(struct described *d);
/* A name of the YAML with {arch} and {l} filled in. */
const char  *described_name(const struct described *d, const char *pattern, uint32_t layer);
const char  *described_fill(struct arena *a, const char *architecture, const char *pattern, uint32_t layer);
/* "*" in the pattern matches any letters, "{l}" any layer number. */
bool         described_matches(const char *pattern, const char *name);
/* The entry `name` of `section` in the most derived file that has it; NULL if no file has it. */
struct yaml *described_entry(const struct described *d, const char *section, const char *name);
/* The place of the first line of a literal block of text in d->files[file]; the text itself loses its indentation. */
struct place described_text_place(const struct described *d, uint32_t file, const struct yaml *y);
#endif
