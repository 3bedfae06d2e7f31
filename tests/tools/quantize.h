/* quantize.h -- quantises floats to GGUF blocks for tests, in one pass without a search, so a little worse than llama-quantize. */
#ifndef TEST_QUANTIZE_H
#define TEST_QUANTIZE_H
#include "compiler/format/format.h"

/* blocks [n / block_weights][block_bytes] <- x [n]; n is a multiple of the format's block. */
void quantize_row(enum quant quant, uint8_t *blocks, const float *x, uint64_t n);
#endif
