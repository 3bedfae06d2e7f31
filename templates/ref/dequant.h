/* dequant.h -- scalar oracle: GGUF blocks to floats, in ggml's order of operations (dequantize_row_* in ggml-quants.c). */
#ifndef FORGE_REF_DEQUANT_H
#define FORGE_REF_DEQUANT_H
#include <stdint.h>

/* out[n] = the weights of n / block consecutive blocks.  quant_id: ggml type id; n: a multiple of its block; any alignment.
 * False when the type is unknown. */
int dequantize_row_ref(uint32_t quant_id, float *out, const uint8_t *blocks, uint64_t n);
#endif
