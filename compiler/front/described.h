/* described.h -- models/ARCH.yaml and what it inherits, as read: what model.c, params.c and keys.c share, and nobody else includes. */
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

/* A name of the YAML with {arch} and {l} filled in. */
const char  *described_name(const struct described *d, const char *pattern, uint32_t layer);
/* The entry of that name in the most derived file that has one; NULL when none has. */
struct yaml *described_entry(const struct described *d, const char *section, const char *name);
#endif
