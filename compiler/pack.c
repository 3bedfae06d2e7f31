/* pack.c -- GGUF weight rows into the layout the CPU kernels read (docs/kernels.md).
 * Per 32 columns a row's codes become 8 words of 4 bytes, one byte a code; 16 rows of them are then folded into bit planes.
 * Scales keep their bits: nothing is rounded here.  Block layouts: ggml-common.h, unpacking: ggml-quants.c (ggml-org/ggml). */
#include "pack.h"
#include "gguf.h"
#include <assert.h>
#include <string.h>

struct block_shape { uint32_t weights, bytes; };
static struct block_shape block_shape(uint32_t quant_id)
{
    switch (quant_id) {
#define QUANT(name, id, weights, bytes) case id: return (struct block_shape){ weights, bytes };
#include "quant.def"
#undef QUANT
    }
    assert(0 && "a weight format of quant.def");
    return (struct block_shape){ 1, 0 };
}
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

static uint32_t u32_at(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }

/* ---- codes: the 32 columns number i of a block of one row, word s = columns 4s .. 4s+3 ---- */
static const uint32_t nibbles = 0x0f0f0f0f, pairs = 0x03030303, ones = 0x01010101;

/* Q4_0 and its kin: 16 bytes, columns 0-15 in the low nibbles, 16-31 in the high ones. */
static void codes_nibbles(uint32_t c[8], const uint8_t *qs)
{
    for (uint32_t s = 0; s < 4; s++) {
        const uint32_t q = u32_at(qs + 4 * s);
        c[s]     = q & nibbles;
        c[s + 4] = q >> 4 & nibbles;
    }
}
/* Q5_0, Q5_1: bit j of qh is the top bit of column j. The product copies a nibble's 4 bits 7 apart, so that each lands on bit 0 of its byte. */
static void codes_fifth_bits(uint32_t c[8], const uint8_t *qh)
{
    const uint32_t bits = u32_at(qh);
    for (uint32_t s = 0; s < 8; s++) c[s] |= ((bits >> 4 * s & 15) * 0x00204081u & ones) << 4;
}
/* Q4_K, Q5_K: 64 columns share 32 bytes, the lower 32 in the low nibbles. */
static void codes_half_chunk(uint32_t c[8], const uint8_t *qs, uint32_t i)
{
    for (uint32_t s = 0; s < 8; s++) c[s] = u32_at(qs + 32 * (i / 2) + 4 * s) >> 4 * (i % 2) & nibbles;
}
/* Q2_K, Q3_K: 128 columns share 32 bytes, two bits each. */
static void codes_quarter_chunk(uint32_t c[8], const uint8_t *qs, uint32_t i)
{
    for (uint32_t s = 0; s < 8; s++) c[s] = u32_at(qs + 32 * (i / 4) + 4 * s) >> 2 * (i % 4) & pairs;
}
/* Q3_K, Q5_K: bit i of byte j belongs to column 32 i + j. */
static void codes_top_bit(uint32_t c[8], const uint8_t *h, uint32_t i, uint32_t at)
{
    for (uint32_t s = 0; s < 8; s++) c[s] |= (u32_at(h + 4 * s) >> i & ones) << at;
}
/* Q6_K: 128 columns share 64 bytes of nibbles and 32 bytes of top bit pairs. */
static void codes_q6_K(uint32_t c[8], const uint8_t *ql, const uint8_t *qh, uint32_t i)
{
    const uint32_t half = i / 4, k = i % 4;
    for (uint32_t s = 0; s < 8; s++)
        c[s] = (u32_at(ql + 64 * half + 32 * (k % 2) + 4 * s) >> 4 * (k / 2) & nibbles) | (u32_at(qh + 32 * half + 4 * s) >> 2 * k & pairs) << 4;
}
static void codes_read(uint32_t c[8], uint32_t quant_id, const uint8_t *b, uint32_t i)
{
    switch (quant_id) {
    case QUANT_Q8_0:   for (uint32_t s = 0; s < 8; s++) c[s] = u32_at(b + 2 + 4 * s); break;
    case QUANT_Q4_0:
    case QUANT_IQ4_NL: codes_nibbles(c, b + 2); break;
    case QUANT_MXFP4:  codes_nibbles(c, b + 1); break;
    case QUANT_IQ4_XS: codes_nibbles(c, b + 8 + 16 * i); break;
    case QUANT_Q4_1:   codes_nibbles(c, b + 4); break;
    case QUANT_Q5_0:   codes_nibbles(c, b + 6); codes_fifth_bits(c, b + 2); break;
    case QUANT_Q5_1:   codes_nibbles(c, b + 8); codes_fifth_bits(c, b + 4); break;
    case QUANT_Q2_K:   codes_quarter_chunk(c, b + 16, i); break;
    case QUANT_Q3_K:   codes_quarter_chunk(c, b + 32, i); codes_top_bit(c, b, i, 2); break;
    case QUANT_Q4_K:   codes_half_chunk(c, b + 16, i); break;
    case QUANT_Q5_K:   codes_half_chunk(c, b + 48, i); codes_top_bit(c, b + 16, i, 4); break;
    case QUANT_Q6_K:   codes_q6_K(c, b, b + 128, i); break;
    default:           assert(0 && "a quantised format");
    }
}

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
/* The six-bit values of a block, in column order; scales before minimums. */
static uint32_t six_bits_read(uint8_t v[16], uint32_t quant_id, const uint8_t *b)
{
    switch (quant_id) {
    case QUANT_Q3_K: {
        const uint8_t *s = b + 96;
        for (uint32_t j = 0; j < 16; j++) v[j] = (uint8_t)((s[j % 8] >> 4 * (j / 8) & 15) | (s[8 + j % 4] >> 2 * (j / 4) & 3) << 4);
        return 16;
    }
    case QUANT_Q4_K:
    case QUANT_Q5_K: {
        const uint8_t *s = b + 4;
        for (uint32_t j = 0; j < 4; j++) {
            v[j]      = s[j] & 63;
            v[j + 8]  = s[j + 4] & 63;
            v[j + 4]  = (uint8_t)((s[j + 8] & 15) | s[j] >> 6 << 4);
            v[j + 12] = (uint8_t)(s[j + 8] >> 4 | s[j + 4] >> 6 << 4);
        }
        return 16;
    }
    case QUANT_IQ4_XS: {
        const uint32_t high = (uint32_t)b[2] | (uint32_t)b[3] << 8;
        for (uint32_t j = 0; j < 8; j++) v[j] = (uint8_t)((b[4 + j / 2] >> 4 * (j % 2) & 15) | (high >> 2 * j & 3) << 4);
        return 8;
    }
    default: assert(0 && "a format with six-bit scales"); return 0;
    }
}
/* Values below 3n/4 are the low bits of a byte each; the last quarter lies in pairs in the top bits of three bytes each. */
static uint8_t *scale_six_bits(uint8_t *out, uint32_t quant_id, const uint8_t *const rows[PACK_ROWS])
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < PACK_ROWS; r++) {
        static const uint8_t empty[256];
        uint8_t v[16];
        n = six_bits_read(v, quant_id, rows[r] ? rows[r] : empty);
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
                if (rows[r]) codes_read(c[r], quant_id, rows[r] + b * shape.bytes, i);
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
