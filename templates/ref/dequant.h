/* dequant.h -- scalar oracle: GGUF blocks to floats, in ggml's order of operations (dequantize_row_* in ggml-quants.c). */
#ifndef FORGE_REF_DEQUANT_H
#define FORGE_REF_DEQUANT_H
#include "compiler/format/format.h"

/* out[n] = the weights of n / block consecutive blocks.  n: a multiple of the format's block; any alignment. */
void dequantize_row_ref(enum quant quant, float *out, const uint8_t *blocks, uint64_t n);
#endif
