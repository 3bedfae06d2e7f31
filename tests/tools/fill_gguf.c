/* fill_gguf.c -- writes the golden models: stored bytes, and between them random weights, which are not stored.
 *
 *   fill_gguf RECIPES BYTES FOLDER
 *
 * RECIPES is text.  A line "file NAME SEED HASH" begins FOLDER/NAME.  Its XXH3 must be HASH; "-" prints the hash instead.  SEED is the seed
 * of the random numbers; "+" continues the numbers of the previous file, for parts of one model.  The lines after it give the content in
 * order:
 *   bytes COUNT                                    the next COUNT bytes of BYTES: keys, the list of tensors, vectors, padding
 *   FORMAT COUNT DEVIATION [AT VALUE] TENSOR       COUNT weights in that format, normally distributed with mean 0; weight AT is VALUE
 * TENSOR is only information.  Two files with the same seed and the same counts have the same weights in any formats. */
#include "compiler/base/base.h"
#include "compiler/format/format.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "normal.h"
#include "quantize.h"

enum { NAME = 128 };

/* The current file; its name is empty before the first. */
static struct {
    char     name[NAME], hash[NAME];
    uint8_t *data;
    size_t   size, capacity;
    uint64_t state;                   /* of the random numbers */
} file;

static uint8_t *room(size_t n)
{
    if (file.size + n > file.capacity) {
        file.capacity = 2 * (file.size + n);
        file.data = realloc(file.data, file.capacity);
        if (!file.data) die("no memory for %zu bytes", file.capacity);
    }
    file.size += n;
    return file.data + file.size - n;
}

static void end_file(const char *folder)
{
    if (!*file.name) return;
    struct arena *a = arena_create();
    const char *path = arena_printf(a, "%s/%s", folder, file.name),
               *is = arena_printf(a, "%016" PRIx64, (uint64_t)XXH3_64bits(file.data, file.size));
    if (strcmp(file.hash, "-") == 0) printf("%s %s\n", file.name, is);
    else if (strcmp(is, file.hash)) die("%s: its weights come out with hash %s, the stored logits are those of %s", path, is, file.hash);
    file_write(a, path, (struct bytes){ file.data, file.size });
    arena_destroy(a);
    file.size = 0;
    *file.name = 0;
}

static const struct format *format_named(const char *name)
{
    for (int k = 0; k < FORMAT_COUNT; k++) if (strcmp(format_table[k].name, name) == 0) return &format_table[k];
    return NULL;
}

static bool put_weights(const struct format *f, uint64_t n, float deviation, uint64_t at, float value)
{
    if (n == 0 || n > UINT32_MAX || n % f->block_weights) return false;
    float *x = malloc(n * sizeof *x);
    if (!x) die("no memory for %" PRIu64 " weights", n);
    for (uint64_t i = 0; i < n; i++) x[i] = random_normal(&file.state) * deviation;
    if (at < n) x[at] = value;
    quantize_row(f->id, room(n / f->block_weights * f->block_bytes), x, n);
    free(x);
    return true;
}

/* Executes one line of the recipes; false: the line is invalid.  *left: the stored bytes that are not used yet. */
static bool put_line(const char *line, const char *folder, struct bytes *left)
{
    char name[NAME], seed[NAME], hash[NAME], format[NAME];
    uint64_t n, at = UINT64_MAX;
    float deviation, value = 0;
    int end = -1;
    if (sscanf(line, "file %127s %127s %127s %n", name, seed, hash, &end) == 3 && end >= 0 && !line[end]) {
        end_file(folder);
        memcpy(file.name, name, sizeof name);
        memcpy(file.hash, hash, sizeof hash);
        if (strcmp(seed, "+")) file.state = strtoull(seed, NULL, 10);
        return true;
    }
    if (!*file.name) return false;
    if (sscanf(line, "bytes %" SCNu64 " %n", &n, &end) == 1 && end >= 0 && !line[end]) {
        if (n > left->size) return false;
        memcpy(room(n), left->data, n);
        *left = (struct bytes){ left->data + n, left->size - n };
        return true;
    }
    if (sscanf(line, "%127s %" SCNu64 " %f %" SCNu64 " %f %127s", format, &n, &deviation, &at, &value, name) != 6) {
        at = UINT64_MAX;
        if (sscanf(line, "%127s %" SCNu64 " %f %127s", format, &n, &deviation, name) != 4) return false;
    }
    const struct format *f = format_named(format);
    return f && put_weights(f, n, deviation, at, value);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fputs("usage: fill_gguf RECIPES BYTES FOLDER\n", stderr);
        return 2;
    }
    struct arena *a = arena_create();
    const struct bytes text = file_read(a, argv[1]);
    struct bytes left = file_read(a, argv[2]);
    char *p = arena_strndup(a, (const char *)text.data, text.size);
    for (uint32_t number = 1; *p; number++) {
        char *line = p, *end = p + strcspn(p, "\n");
        p = end + (*end == '\n');
        *end = 0;
        if (*line && *line != '#' && !put_line(line, argv[3], &left))
            die("%s:%u: \"%s\" is not a valid line of a recipe", argv[1], number, line);
    }
    end_file(argv[3]);
    if (left.size) die("%s: %zu bytes are left that %s does not use", argv[2], left.size, argv[1]);
    free(file.data);
    arena_destroy(a);
    return 0;
}
