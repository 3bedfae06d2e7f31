/* quantize.h -- floats to GGUF blocks: a plain quantiser for tests, one pass and no search, so a little worse than llama-quantize. */
#ifndef TEST_QUANTIZE_H
#define TEST_QUANTIZE_H
#include <stdint.h>

enum {
#define QUANT(name, id, weights, bytes) QUANT_##name = id,
#include "compiler/format/quant.def"
#undef QUANT
    QUANT_IDS = 40
};
struct quant_row { const char *name; uint32_t id, block_weights, block_bytes; };
/* Rows of compiler/format/quant.def; NULL for an id that is not there. */
const struct quant_row *quant_row_find(uint32_t id);

/* blocks [n / block_weights][block_bytes] <- x [n]; n is a multiple of the format's block. */
void quantize_row(uint32_t id, uint8_t *blocks, const float *x, uint64_t n);
#endif
