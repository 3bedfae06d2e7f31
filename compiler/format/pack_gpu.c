/* pack_gpu.c -- GGUF weight rows into the layout the GPU kernels read (docs/gpu.md): a row is a few planes, each an array over units of 64
 * columns or over superblocks of 256.  Codes and scales keep their bits; codes that kernels want signed lose their offset: the top bit flips. */
#include "pack_gpu.h"
#include "blocks.h"
#include "compiler/front/gguf.h"
#include <assert.h>
#include <string.h>

/* How many planes of codes a row has: bytes, nibbles (of which bit at4 is the lowest), nibbles in column order, bit pairs (at2), single bits
 * (at1); 16 bytes a unit each, single bits 8.  Then its scales: bytes per unit, bytes per superblock. */
struct layout {
    uint32_t bytes, nibbles, ordered, pairs, bits, at4, at2, at1;
    uint32_t flip;                               /* XORed to every code: makes offset codes signed */
    uint32_t unit_scales, super_scales;
};
static struct layout layout(uint32_t quant_id)
{
    switch (quant_id) {                          /* planes          from bit  flip  scales */
    case QUANT_Q8_0:   return (struct layout){ 4, 0, 0, 0, 0,   0, 0, 0,  0,    4, 0 };
    case QUANT_Q4_0:   return (struct layout){ 0, 2, 0, 0, 0,   0, 0, 0,  0x08, 4, 0 };
    case QUANT_Q4_1:   return (struct layout){ 0, 2, 0, 0, 0,   0, 0, 0,  0,    8, 0 };
    case QUANT_Q5_0:   return (struct layout){ 0, 2, 0, 0, 1,   1, 0, 0,  0x10, 4, 0 };
    case QUANT_Q5_1:   return (struct layout){ 0, 2, 0, 0, 1,   0, 0, 4,  0,    8, 0 };
    case QUANT_Q2_K:   return (struct layout){ 0, 0, 0, 1, 0,   0, 0, 0,  0,    4, 4 };
    case QUANT_Q3_K:   return (struct layout){ 0, 0, 0, 1, 1,   0, 1, 0,  0x04, 0, 16 };
    case QUANT_Q4_K:   return (struct layout){ 0, 2, 0, 0, 0,   0, 0, 0,  0,    0, 16 };
    case QUANT_Q5_K:   return (struct layout){ 0, 2, 0, 0, 1,   0, 0, 4,  0,    0, 16 };
    case QUANT_Q6_K:   return (struct layout){ 0, 2, 0, 1, 0,   2, 0, 0,  0x20, 4, 2 };
    case QUANT_IQ4_NL: return (struct layout){ 0, 0, 2, 0, 0,   0, 0, 0,  0,    4, 0 };
    case QUANT_IQ4_XS: return (struct layout){ 0, 0, 2, 0, 0,   0, 0, 0,  0,    0, 8 };
    case QUANT_MXFP4:  return (struct layout){ 0, 0, 2, 0, 0,   0, 0, 0,  0,    2, 0 };
    default:           assert(0 && "a quantised format"); return (struct layout){ 0 };
    }
}
static uint64_t plane_bytes(uint64_t n) { return (n + 15) / 16 * 16; }
static uint64_t units_of(uint64_t cols) { return (cols + 63) / 64; }
static uint64_t codes_bytes(const struct layout *l, uint64_t units)
{
    return units * 16 * (l->bytes + l->nibbles + l->ordered + l->pairs) + plane_bytes(units * 8 * l->bits);
}
uint64_t pack_gpu_row_bytes(uint32_t quant_id, uint64_t cols)
{
    const struct block_shape shape = block_shape(quant_id);
    const uint64_t units = units_of(cols);
    assert(cols % shape.weights == 0);
    if (shape.weights == 1) return units * 64 * shape.bytes;
    const struct layout l = layout(quant_id);
    return codes_bytes(&l, units) + plane_bytes(units * l.unit_scales) + plane_bytes(units / 4 * l.super_scales);
}

/* ---- codes of a unit: c[s] has columns 4s .. 4s+3, one a byte; each writes the unit's part of a plane ---- */
static const uint32_t low_4 = 0x0f0f0f0f, low_2 = 0x03030303, low_1 = 0x01010101;

static void word_write(uint8_t *out, uint32_t i, uint32_t w) { memcpy(out + 4 * i, &w, 4); }
static void bytes_write(uint8_t *out, const uint32_t c[4])
{
    for (uint32_t s = 0; s < 4; s++) word_write(out, s, c[s]);
}
/* Byte j of the block's 16: column j low, 16 + j high. */
static void nibbles_write(uint8_t *out, const uint32_t c[8], uint32_t at)
{
    for (uint32_t s = 0; s < 4; s++) word_write(out, s, (c[s] >> at & low_4) | (c[4 + s] >> at & low_4) << 4);
}
/* Word s: columns 4s .. 4s+3 in its lower half, 16 + 4s .. in its upper. */
static uint32_t nibbles_joined(uint32_t c) { return (c & 15) | (c >> 4 & 15 << 4) | (c >> 8 & 15 << 8) | (c >> 12 & 15 << 12); }
static void ordered_write(uint8_t *out, const uint32_t c[8])
{
    for (uint32_t s = 0; s < 4; s++) word_write(out, s, nibbles_joined(c[s]) | nibbles_joined(c[4 + s]) << 16);
}
/* Byte j of 16: columns j, 16 + j, 32 + j, 48 + j from the lowest pair. */
static void pairs_write(uint8_t *out, const uint32_t c[16], uint32_t at)
{
    for (uint32_t s = 0; s < 4; s++) {
        uint32_t w = 0;
        for (uint32_t k = 0; k < 4; k++) w |= (c[4 * k + s] >> at & low_2) << 2 * k;
        word_write(out, s, w);
    }
}
/* A word for each block: bit s of byte j is column 4s + j. */
static void bits_write(uint8_t *out, const uint32_t c[16], uint32_t at)
{
    for (uint32_t b = 0; b < 2; b++) {
        uint32_t w = 0;
        for (uint32_t s = 0; s < 8; s++) w |= (c[8 * b + s] >> at & low_1) << s;
        word_write(out, b, w);
    }
}
static void codes_write(uint8_t *row, const struct layout *l, uint64_t units, uint64_t unit, const uint32_t c[16])
{
    uint8_t *at = row + unit * 16;
    for (uint32_t p = 0; p < l->bytes; p++, at += units * 16)   bytes_write(at, c + 4 * p);
    for (uint32_t p = 0; p < l->nibbles; p++, at += units * 16) nibbles_write(at, c + 8 * p, l->at4);
    for (uint32_t p = 0; p < l->ordered; p++, at += units * 16) ordered_write(at, c + 8 * p);
    for (uint32_t p = 0; p < l->pairs; p++, at += units * 16)   pairs_write(at, c, l->at2);
    if (l->bits) bits_write(at - unit * 8, c, l->at1);          /* its units have 8 bytes */
}

/* ---- scales ---- */
/* What block b of a unit (32 columns) or unit b of a superblock has of its own. */
static void scales_write(uint8_t *out, uint32_t quant_id, const uint8_t *block, uint32_t b)
{
    switch (quant_id) {
    case QUANT_Q8_0: case QUANT_Q4_0: case QUANT_Q5_0: case QUANT_IQ4_NL: memcpy(out + 2 * b, block, 2); break;
    case QUANT_Q4_1: case QUANT_Q5_1: memcpy(out + 4 * b, block, 4); break;
    case QUANT_MXFP4:  out[b] = block[0]; break;
    case QUANT_Q2_K:   memcpy(out, block + 4 * b, 4); break;
    case QUANT_Q6_K:   memcpy(out, block + 192 + 4 * b, 4); break;
    }
}
/* Four bytes, then 24 bits for each unit: four six-bit values from the lowest.  Q4_K, Q5_K: scale and minimum of both blocks in turn. */
static void head_write(uint8_t *out, uint32_t quant_id, const uint8_t *block, const uint8_t first[4])
{
    uint8_t v[16];
    block_six_bits(v, quant_id, block);
    memcpy(out, first, 4);
    for (uint32_t u = 0; u < 4; u++) {
        uint32_t bits = 0;
        for (uint32_t j = 0; j < 4; j++) bits |= (uint32_t)(quant_id == QUANT_Q3_K ? v[4 * u + j] : v[j % 2 * 8 + 2 * u + j / 2]) << 6 * j;
        for (uint32_t j = 0; j < 3; j++) out[4 + 3 * u + j] = (uint8_t)(bits >> 8 * j);
    }
}
/* What a superblock has for all its units. */
static void super_write(uint8_t *out, uint32_t quant_id, const uint8_t *block)
{
    switch (quant_id) {
    case QUANT_Q2_K:   memcpy(out, block + 80, 4); break;
    case QUANT_Q3_K:   head_write(out, quant_id, block, (const uint8_t[4]){ block[108], block[109], 0, 0 }); break;
    case QUANT_Q4_K:
    case QUANT_Q5_K:   head_write(out, quant_id, block, block); break;
    case QUANT_Q6_K:   memcpy(out, block + 208, 2); break;
    case QUANT_IQ4_XS: memcpy(out, block, 8); break;
    }
}

/* ---- rows ---- */
static void row_write(uint8_t *out, uint32_t quant_id, const uint8_t *blocks, uint64_t cols)
{
    const struct block_shape shape = block_shape(quant_id);
    const struct layout l = layout(quant_id);
    const uint64_t units = units_of(cols), per_block = shape.weights / 32;
    uint8_t *scales = out + codes_bytes(&l, units), *supers = scales + plane_bytes(units * l.unit_scales);
    for (uint64_t unit = 0; unit < units; unit++) {
        uint32_t c[16] = { 0 };
        for (uint64_t b = 0; b < 2 && (2 * unit + b) * 32 < cols; b++) {
            const uint64_t n = 2 * unit + b;
            const uint8_t *block = blocks + n / per_block * shape.bytes;
            block_codes(c + 8 * b, quant_id, block, (uint32_t)(n % per_block));
            for (uint32_t s = 0; s < 8; s++) c[8 * b + s] ^= l.flip * low_1;
            if (per_block == 1) scales_write(scales + unit * l.unit_scales, quant_id, block, (uint32_t)b);
            else if (b == 0)    scales_write(scales + unit * l.unit_scales, quant_id, block, (uint32_t)(unit % 4));
            if (n % per_block == 0 && l.super_scales) super_write(supers + n / per_block * l.super_scales, quant_id, block);
        }
        codes_write(out, &l, units, unit, c);
    }
}
void pack_gpu_rows(uint8_t *out, uint32_t quant_id, const uint8_t *gguf_rows, uint64_t cols, uint64_t n_rows)
{
    const struct block_shape shape = block_shape(quant_id);
    const uint64_t row_bytes = pack_gpu_row_bytes(quant_id, cols), file_bytes = cols / shape.weights * shape.bytes;
    for (uint64_t r = 0; r < n_rows; r++) {
        uint8_t *row = out + r * row_bytes;
        const uint8_t *blocks = gguf_rows + r * file_bytes;
        if (shape.weights == 1) {
            memcpy(row, blocks, file_bytes);
            memset(row + file_bytes, 0, row_bytes - file_bytes);
        } else {
            memset(row, 0, row_bytes);           /* the gaps between planes, and half a last unit */
            row_write(row, quant_id, blocks, cols);
        }
    }
}
