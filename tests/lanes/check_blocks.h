/* check_blocks.h -- random GGUF blocks for the checks of products and embedding rows. */
#ifndef CHECK_BLOCKS_H
#define CHECK_BLOCKS_H
#include "check.h"
#include "compiler/format/layout.h"
#include "templates/gpu/dialect.h"
#include "templates/ref/dequant.h"
#include "tests/number_put.h"

static inline void random_number(uint8_t *p, const struct format *f, uint32_t least_e8m0, uint32_t most_e8m0)
{
    const float v = random_f32();
    const uint16_t half = (uint16_t)f16_bits(f->coding ? v * 0.01f : v), brain = (uint16_t)bf16_bits(v);
    switch (f->number) {
    case NUMBER_F32:  memcpy(p, &v, 4); break;
    case NUMBER_F16:  memcpy(p, &half, 2); break;
    case NUMBER_BF16: memcpy(p, &brain, 2); break;
    case NUMBER_E8M0: *p = (uint8_t)random_in(least_e8m0, most_e8m0); break;
    }
}
/* Codes of any value. */
static inline void random_blocks(uint8_t *out, const struct format *f, uint64_t n_blocks, uint32_t least_e8m0, uint32_t most_e8m0)
{
    for (uint64_t b = 0; b < n_blocks; b++, out += f->block_bytes) {
        for (uint32_t i = 0; i < f->block_bytes; i++) out[i] = (uint8_t)random_u32();
        for (uint32_t i = 0; i < 2 && f->number_at[i] >= 0; i++) {
            uint8_t bits[4];
            random_number(bits, f, least_e8m0, most_e8m0);
            number_put(out, f, i, bits);
        }
    }
}
#endif
