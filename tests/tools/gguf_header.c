/* gguf_header.c -- copies a GGUF file (v2, v3) without its tensors: gguf_header IN OUT.  For small test vocabularies. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *data;
static uint64_t size, at;

static uint64_t take(uint64_t n)                 /* little-endian, n <= 8, or a skip */
{
    if (n > size - at) { fprintf(stderr, "gguf_header: file ends inside its metadata\n"); exit(1); }
    uint64_t value = 0;
    for (uint64_t i = 0; i < n && i < 8; i++) value |= (uint64_t)data[at + i] << 8 * i;
    at += n;
    return value;
}

static void skip_value(uint64_t type)
{
    static const uint8_t bytes[13] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    if (type == 8) { take(take(8)); return; }
    if (type == 9) {
        const uint64_t item = take(4), count = take(8);
        for (uint64_t i = 0; i < count; i++) skip_value(item);
        return;
    }
    if (type >= 13) { fprintf(stderr, "gguf_header: unknown type %" PRIu64 "\n", type); exit(1); }
    take(bytes[type]);
}

int main(int argc, char **argv)
{
    FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL, *out;
    if (!in) { fprintf(stderr, "usage: gguf_header IN OUT\n"); return 1; }
    fseek(in, 0, SEEK_END);
    size = (uint64_t)ftell(in);
    rewind(in);
    data = malloc(size + 1);
    if (!data || size < 24 || fread(data, 1, size, in) != size || memcmp(data, "GGUF", 4) != 0) {
        fprintf(stderr, "gguf_header: %s: cannot be read as GGUF\n", argv[1]);
        return 1;
    }
    at = 16;
    const uint64_t n_pairs = take(8);
    for (uint64_t i = 0; i < n_pairs; i++) {
        take(take(8));
        skip_value(take(4));
    }
    memset(data + 8, 0, 8);                      /* tensor count */
    out = fopen(argv[2], "wb");
    if (!out || fwrite(data, 1, at, out) != at || fclose(out) != 0) {
        fprintf(stderr, "gguf_header: cannot write %s\n", argv[2]);
        return 1;
    }
    return 0;
}
