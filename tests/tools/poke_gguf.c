/* poke_gguf.c -- copies a GGUF file and changes bytes in tensors: weights that no converter would write.
 *   poke_gguf IN.gguf OUT.gguf { TENSOR BYTE HEX }... */
#include "compiler/front/gguf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc < 6 || argc % 3 != 0) {
        fputs("usage: poke_gguf IN.gguf OUT.gguf { TENSOR BYTE HEX }...\n", stderr);
        return 2;
    }
    struct arena *a = arena_create();
    const struct bytes in = file_read(a, argv[1]);
    uint8_t *out = arena_alloc(a, in.size);
    memcpy(out, in.data, in.size);
    const struct gguf *g = gguf_parse(a, argv[1], in.data, in.size, false);
    for (int i = 3; i < argc; i += 3) {
        const struct gguf_tensor *t = gguf_tensor_find(g, argv[i]);
        const uint64_t at = strtoull(argv[i + 1], NULL, 10), n = strlen(argv[i + 2]) / 2;
        if (!t || at > t->bytes || n > t->bytes - at) die("%s: no tensor %s of more than %s bytes", argv[1], argv[i], argv[i + 1]);
        for (uint64_t k = 0; k < n; k++)
            out[(uint64_t)(t->data - in.data) + at + k] = (uint8_t)strtoul((char[]){ argv[i + 2][2 * k], argv[i + 2][2 * k + 1], 0 }, NULL,
                                                                           16);
    }
    file_write(a, argv[2], (struct bytes){ out, in.size });
    arena_destroy(a);
    return 0;
}
