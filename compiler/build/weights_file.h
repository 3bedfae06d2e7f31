/* weights_file.h -- `--weights external`: the weight image in a separate file, OUT.weights. */
#ifndef FORGEC_WEIGHTS_FILE_H
#define FORGEC_WEIGHTS_FILE_H
#include "link.h"

/* "OUT.weights" */
const char *weights_file_path(struct arena *a, const char *out_path);
/* Writes struct forge_weights_header (runtime/model/abi.h), zeros up to offset 4096, then image_bytes bytes from write_weights, as a file
 * of the set. weights_hash: 32 hex digits. */
void weights_file_write(struct arena *a, struct outset *set, const char *path, const char *weights_hash, uint64_t image_bytes,
                        link_write_weights *write_weights, void *context);
#endif
