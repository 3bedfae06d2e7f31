/* transposed.h -- a stack of matrices that are rows of another tensor, transposed. Also defines weight_release of model.h. */
#ifndef FORGEC_TRANSPOSED_H
#define FORGEC_TRANSPOSED_H
#include "model.h"

/* The matrices [count][cols] that begin at row `first` of every `every` rows, transposed: [slices][cols][count]; F32 if a row of blocks
 * cannot be split. */
const struct gguf_tensor *transposed_part(struct arena *a, const struct gguf_tensor *of, uint64_t slices, uint64_t count, uint64_t first,
                                          uint64_t every);
/* The beginning of the bytes of any tensor; makes those of a transposed one when first needed. Any thread may call it. */
const uint8_t            *transposed_data(const struct gguf_tensor *tensor);
#endif
