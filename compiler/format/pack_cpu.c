/* pack_cpu.c -- GGUF weight rows into the layout the CPU kernels read (docs/kernels.md).
 * Per 32 columns a row's codes become 8 words of 4 bytes, one byte a code; 16 rows of them are then folded into bit planes.
 * Scales keep their bits: nothing is rounded here. */
#include "pack_cpu.h"
#include "blocks.h"
#include "compiler/front/gguf.h"
#include <assert.h>
#include <string.h>

uint64_t pack_group_bytes(uint32_t quant_id, uint64_t cols)
{
    const struct block_shape s = block_shape(quant_id);
    assert(cols % s.weights == 0);
    return (cols / s.weights * s.bytes * PACK_ROWS + 63) / 64 * 64;
}
uint64_t pack_bytes(uint32_t quant_id, uint64_t rows, uint64_t cols)
{
    return (rows + PACK_ROWS - 1) / PACK_ROWS * pack_group_bytes(quant_id, cols);
}

static const uint32_t nibbles = 0x0f0f0f0f, pairs = 0x03030303, ones = 0x01010101;

/* ---- planes: c [16 rows][8 words] of 32 columns; each writes vectors of 16 words and returns the end ---- */
typedef uint32_t words[PACK_ROWS][8];
static uint8_t *vector_write(uint8_t *out, const uint32_t v[PACK_ROWS]) { memcpy(out, v, 64); return out + 64; }

/* Vector v of a plane of n vectors: bits [at, at + width) of words v, v + n, ... (4-bit plane) */
static uint8_t *plane_4(uint8_t *out, words c)
{
    for (uint32_t v = 0; v < 4; v++) {
        uint32_t x[PACK_ROWS];
        for (uint32_t r = 0; r < PACK_ROWS; r++) x[r] = (c[r][v] & nibbles) | (c[r][v + 4] & nibbles) << 4;
        out = vector_write(out, x);
    }
    return out;
}
static uint8_t *plane_2(uint8_t *out, words c, uint32_t at)
{
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t x[PACK_ROWS] = { 0 };
        for (uint32_t r = 0; r < PACK_ROWS; r++)
            for (uint32_t k = 0; k < 4; k++) x[r] |= (c[r][4 * h + k] >> at & pairs) << 2 * k;
        out = vector_write(out, x);
    }
    return out;
}
static uint8_t *plane_1(uint8_t *out, words c, uint32_t at)
{
    uint32_t x[PACK_ROWS] = { 0 };
    for (uint32_t r = 0; r < PACK_ROWS; r++)
        for (uint32_t s = 0; s < 8; s++) x[r] |= (c[r][s] >> at & ones) << s;
    return vector_write(out, x);
}
static uint8_t *codes_write(uint8_t *out, uint32_t quant_id, words c)
{
    switch (quant_id) {
    case QUANT_Q8_0:
        for (uint32_t s = 0; s < 8; s++) {
            uint32_t x[PACK_ROWS];
            for (uint32_t r = 0; r < PACK_ROWS; r++) x[r] = c[r][s];
            out = vector_write(out, x);
        }
        return out;
    case QUANT_Q4_0: case QUANT_Q4_1: case QUANT_Q4_K: case QUANT_IQ4_NL: case QUANT_IQ4_XS: case QUANT_MXFP4: return plane_4(out, c);
    case QUANT_Q5_0: case QUANT_Q5_1: case QUANT_Q5_K: return plane_1(plane_4(out, c), c, 4);
    case QUANT_Q6_K: return plane_2(plane_4(out, c), c, 4);
    case QUANT_Q2_K: return plane_2(out, c, 0);
    case QUANT_Q3_K: return plane_1(plane_2(out, c, 0), c, 2);
    default:         assert(0 && "a quantised format"); return out;
    }
}

/* ---- scales: one block of 16 rows, row r at rows[r] (NULL: a missing row, all zero) ---- */
static uint8_t *scale_halves(uint8_t *out, const uint8_t *const rows[PACK_ROWS], uint32_t at)
{
    for (uint32_t r = 0; r < PACK_ROWS; r++, out += 2)
        if (rows[r]) memcpy(out, rows[r] + at, 2);
        else         memset(out, 0, 2);
    return out;
}
static uint8_t *scale_bytes(uint8_t *out, const uint8_t *const rows[PACK_ROWS], uint32_t at, uint32_t n)
{
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t r = 0; r < PACK_ROWS; r++) *out++ = rows[r] ? rows[r][at + j] : 0;
    return out;
}
/* Values below 3n/4 are the low bits of a byte each; the last quarter lies in pairs in the top bits of three bytes each. */
static uint8_t *scale_six_bits(uint8_t *out, uint32_t quant_id, const uint8_t *const rows[PACK_ROWS])
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < PACK_ROWS; r++) {
        static const uint8_t empty[256];
        uint8_t v[16];
        n = block_six_bits(v, quant_id, rows[r] ? rows[r] : empty);
        for (uint32_t j = 0; j < n / 4 * 3; j++)
            out[j * PACK_ROWS + r] = (uint8_t)(v[j] | (v[n / 4 * 3 + j / 3] >> 2 * (j % 3) & 3) << 6);
    }
    return out + n / 4 * 3 * PACK_ROWS;
}
static uint8_t *scales_write(uint8_t *out, uint32_t quant_id, const uint8_t *const rows[PACK_ROWS])
{
    switch (quant_id) {
    case QUANT_Q8_0: case QUANT_Q4_0: case QUANT_Q5_0: case QUANT_IQ4_NL: return scale_halves(out, rows, 0);
    case QUANT_Q4_1: case QUANT_Q5_1: return scale_halves(scale_halves(out, rows, 0), rows, 2);
    case QUANT_MXFP4:  return scale_bytes(out, rows, 0, 1);
    case QUANT_Q2_K:   return scale_bytes(scale_halves(scale_halves(out, rows, 80), rows, 82), rows, 0, 16);
    case QUANT_Q3_K:   return scale_six_bits(scale_halves(out, rows, 108), quant_id, rows);
    case QUANT_Q4_K:
    case QUANT_Q5_K:   return scale_six_bits(scale_halves(scale_halves(out, rows, 0), rows, 2), quant_id, rows);
    case QUANT_Q6_K:   return scale_bytes(scale_halves(out, rows, 208), rows, 192, 16);
    case QUANT_IQ4_XS: return scale_six_bits(scale_halves(out, rows, 0), quant_id, rows);
    default:           assert(0 && "a quantised format"); return out;
    }
}

/* ---- groups ---- */
static uint8_t *group_floats(uint8_t *out, const uint8_t *const rows[PACK_ROWS], uint64_t cols, uint32_t bytes)
{
    memset(out, 0, cols * PACK_ROWS * bytes);
    for (uint32_t r = 0; r < PACK_ROWS; r++)
        if (rows[r]) {
            if (bytes == 2) for (uint64_t c = 0; c < cols; c++) memcpy(out + (c * PACK_ROWS + r) * 2, rows[r] + c * 2, 2);
            else            for (uint64_t c = 0; c < cols; c++) memcpy(out + (c * PACK_ROWS + r) * 4, rows[r] + c * 4, 4);
        }
    return out + cols * PACK_ROWS * bytes;
}
static uint8_t *group_codes(uint8_t *out, uint32_t quant_id, const uint8_t *const rows[PACK_ROWS], uint64_t n_blocks, struct block_shape shape)
{
    for (uint64_t b = 0; b < n_blocks; b++)
        for (uint32_t i = 0; i < shape.weights / 32; i++) {
            words c;
            memset(c, 0, sizeof c);
            for (uint32_t r = 0; r < PACK_ROWS; r++)
                if (rows[r]) block_codes(c[r], quant_id, rows[r] + b * shape.bytes, i);
            out = codes_write(out, quant_id, c);
        }
    return out;
}
static uint8_t *group_scales(uint8_t *out, uint32_t quant_id, const uint8_t *const rows[PACK_ROWS], uint64_t n_blocks, struct block_shape shape)
{
    for (uint64_t b = 0; b < n_blocks; b++) {
        const uint8_t *block[PACK_ROWS];
        for (uint32_t r = 0; r < PACK_ROWS; r++) block[r] = rows[r] ? rows[r] + b * shape.bytes : NULL;
        out = scales_write(out, quant_id, block);
    }
    return out;
}
void pack_rows(uint8_t *out, uint32_t quant_id, const uint8_t *gguf_rows, uint64_t rows, uint64_t cols, uint64_t first_group, uint64_t n_groups)
{
    const struct block_shape shape = block_shape(quant_id);
    const uint64_t n_blocks = cols / shape.weights, row_bytes = n_blocks * shape.bytes, group_bytes = pack_group_bytes(quant_id, cols);
    for (uint64_t g = 0; g < n_groups; g++) {
        const uint8_t *row[PACK_ROWS];
        for (uint32_t r = 0; r < PACK_ROWS; r++) {
            const uint64_t index = (first_group + g) * PACK_ROWS + r;
            row[r] = index < rows ? gguf_rows + index * row_bytes : NULL;
        }
        uint8_t *at = out + g * group_bytes, *end = at;
        if (shape.weights == 1) end = group_floats(at, row, cols, shape.bytes);
        else                    end = group_scales(group_codes(at, quant_id, row, n_blocks, shape), quant_id, row, n_blocks, shape);
        memset(end, 0, (size_t)(at + group_bytes - end));
    }
}
