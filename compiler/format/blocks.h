/* blocks.h -- the codes and scales inside a GGUF block, the same for every packer. */
#ifndef FORGEC_BLOCKS_H
#define FORGEC_BLOCKS_H
#include <stdint.h>

/* Weights and bytes of a block; floats: blocks of one.  quant_id: enum quant. */
struct block_shape { uint32_t weights, bytes; };
struct block_shape block_shape(uint32_t quant_id);
/* The codes of columns 32 i .. 32 i + 31 of a block, as the file has them: c[s] holds columns 4s .. 4s+3, one a byte.  Quantised formats. */
void block_codes(uint32_t c[8], uint32_t quant_id, const uint8_t *block, uint32_t i);
/* The six-bit values of a block, in column order; scales before minimums.  Returns how many.  Q3_K, Q4_K, Q5_K, IQ4_XS. */
uint32_t block_six_bits(uint8_t v[16], uint32_t quant_id, const uint8_t *block);
/* Index of the first of n blocks, one behind the other, that has a scale or minimum, or as a float is a value, that is NaN or infinite; n: none has. */
uint64_t blocks_not_finite(uint32_t quant_id, const uint8_t *blocks, uint64_t n);
/* "NaN" or "infinity": what makes such a block one. */
const char *block_not_finite_name(uint32_t quant_id, const uint8_t *block);
#endif
