/* weights_file.c -- header, padding, image. */
#include "weights_file.h"
#include "runtime/model/abi.h"
#include <string.h>

enum { IMAGE_OFFSET = 4096 };     /* runtime/model/weights.c maps the image from here: a page boundary wherever pages are 4 KiB */

const char *weights_file_path(struct arena *a, const char *out_path)
{
    return arena_printf(a, "%s.weights", out_path);
}

void weights_file_write(struct arena *a, struct outset *set, const char *path, const char *weights_hash, uint64_t image_bytes,
                        link_write_weights *write_weights, void *context)
{
    struct forge_weights_header header = { .image_bytes = image_bytes };
    memcpy(header.magic, FORGE_WEIGHTS_MAGIC, sizeof header.magic);
    const size_t length = strlen(weights_hash);
    if (length >= sizeof header.weights_hash)
        die("%s: the weights' hash is longer than its field; this is a mistake in forgec, please report it", path);
    memcpy(header.weights_hash, weights_hash, length);
    struct outfile *f = outset_open(a, set, path, 0666);
    outfile_write(f, &header, sizeof header);
    outfile_pad(f, IMAGE_OFFSET);
    write_weights(f, context);
    if (f->offset != IMAGE_OFFSET + image_bytes)
        die("%s: %llu bytes of weights were announced, %llu written; this is a mistake in forgec, please report it", path,
            (unsigned long long)image_bytes,
            (unsigned long long)(f->offset - IMAGE_OFFSET));
}
