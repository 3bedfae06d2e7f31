/* requantize.c -- copies a GGUF file and changes the format of its matrices; vectors and keys stay.
 *   requantize IN.gguf OUT.gguf FORMAT FILE_TYPE
 * FILE_TYPE: the new value of general.file_type, a u32 that IN must have.  F32 matrices stay too. */
#include "compiler/front/gguf.h"
#include "templates/ref/dequant.h"
#include "quantize.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct format *format_named(const char *name)
{
    for (int k = 0; k < FORMAT_COUNT; k++) if (strcmp(format_table[k].name, name) == 0) return &format_table[k];
    die("requantize: \"%s\" is not a format", name);
}

static void put(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static void set_file_type(uint8_t *header, size_t size, uint32_t value)
{
    static const char key[] = "general.file_type";
    uint8_t *at = memmem(header, size, key, sizeof key - 1);
    if (!at) die("requantize: no key %s", key);
    put(at + sizeof key - 1 + 4, value, 4);                             /* after the type of the value */
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fputs("usage: requantize IN.gguf OUT.gguf FORMAT FILE_TYPE\n", stderr);
        return 2;
    }
    struct arena *a = arena_create();
    const struct format *to = format_named(argv[3]);
    const struct bytes in = file_read(a, argv[1]);
    const struct gguf *g = gguf_parse(a, argv[1], in.data, in.size, false);
    size_t header = in.size, most = 0;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        const size_t at = (size_t)(t->data - in.data), n = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
        if (at < header) header = at;
        most += n * sizeof(float) + g->alignment;                       /* no format has more bytes than floats */
    }
    uint8_t *out = arena_alloc(a, header + most);
    memset(out, 0, header + most);
    memcpy(out, in.data, header);
    set_file_type(out, header, (uint32_t)strtoul(argv[4], NULL, 10));
    size_t size = header;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        const size_t n = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
        uint8_t *entry = out + t->offset + 8 + strlen(t->name) + 4 + 8 * t->n_dims;       /* type, offset */
        size = (size + g->alignment - 1) / g->alignment * g->alignment;
        put(entry + 4, size - header, 8);
        if (t->n_dims < 2 || t->quant->id == QUANT_F32) {
            memcpy(out + size, t->data, t->bytes);
            size += t->bytes;
            continue;
        }
        if (t->ne[0] % to->block_weights) die("requantize: rows of %s are not whole blocks of %s", t->name, to->name);
        float *x = malloc(n * sizeof *x);
        if (!x) die("requantize: no memory for %zu weights", n);
        dequantize_row_ref(t->quant->id, x, t->data, n);
        quantize_row(to->id, out + size, x, n);
        free(x);
        put(entry, to->id, 4);
        size += n / to->block_weights * to->block_bytes;
    }
    size = (size + g->alignment - 1) / g->alignment * g->alignment;
    file_write(a, argv[2], (struct bytes){ out, size });
    arena_destroy(a);
    return 0;
}
