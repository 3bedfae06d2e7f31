/* hashes.h -- reads the hashes after the tensors of a weight image (struct forge_hashes in abi.h).  Freestanding. */
#ifndef FORGE_HASHES_H
#define FORGE_HASHES_H
#include <stdbool.h>
#include "abi.h"
#include "xxh3.h"

/* Returns [p->n_tensors] hashes, or NULL if the hashes themselves are damaged.  image: of p, aligned to 64; p->n_tensors > 0. */
static inline const uint64_t *hashes_of(const struct forge_program *p, const uint8_t *image)
{
    const uint8_t *base = image + p->hashes_offset;
    const struct forge_hashes *head = (const void *)base;
    const uint64_t *hashes = (const void *)(base + sizeof *head);
    for (int i = 0; i < 8; i++)
        if (head->magic[i] != FORGE_HASHES_MAGIC[i]) return NULL;
    if (head->n != p->n_tensors || forge_xxh3(base, sizeof *head + 8 * head->n) != hashes[head->n]) return NULL;
    return hashes;
}

static inline bool tensor_is_intact(const struct forge_tensor *t, const uint8_t *image, uint64_t hash)
{
    return forge_xxh3(image + t->offset, t->bytes) == hash;
}
#endif
