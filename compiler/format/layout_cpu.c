/* layout_cpu.c -- the layout that CPU kernels read (docs/kernels.md): groups of 16 rows, first the codes of all columns, then their scales.
 * Per 32 columns a row's codes are 8 words of 4 bytes, one byte a code; 16 rows of them are folded into planes of bits.
 * Scales keep their bits: nothing is rounded here. */
#include "blocks.h"
#include "layout.h"
#include <string.h>

enum { ROWS = 16 };

static uint64_t block_code_bytes(const struct format *f)
{
    return (uint64_t)f->block_weights / 32 * ROWS * 4 * (f->coding->cpu[0].bits + f->coding->cpu[1].bits);
}
static uint64_t block_scale_bytes(const struct format *f)
{
    return ROWS * (numbers_bytes(f) + f->coding->n_scales * f->coding->scale_bits / 8);
}
static uint64_t group_bytes(const struct format *f, uint64_t cols)
{
    const uint64_t block = f->coding ? block_code_bytes(f) + block_scale_bytes(f) : ROWS * f->block_bytes;
    return (cols / f->block_weights * block + 63) / 64 * 64;
}

/* ---- planes: c [16 rows][8 words] of 32 columns; each writes vectors of 16 words and returns the end ---- */
static const uint32_t nibbles = 0x0f0f0f0f, pairs = 0x03030303, ones = 0x01010101;
typedef uint32_t words[ROWS][8];
static uint8_t *vector_write(uint8_t *out, const uint32_t v[ROWS]) { memcpy(out, v, 64); return out + 64; }

static uint8_t *plane_8(uint8_t *out, words c)
{
    for (uint32_t s = 0; s < 8; s++) {
        uint32_t x[ROWS];
        for (uint32_t r = 0; r < ROWS; r++) x[r] = c[r][s];
        out = vector_write(out, x);
    }
    return out;
}
static uint8_t *plane_4(uint8_t *out, words c, uint32_t at)
{
    for (uint32_t v = 0; v < 4; v++) {
        uint32_t x[ROWS];
        for (uint32_t r = 0; r < ROWS; r++) x[r] = (c[r][v] >> at & nibbles) | (c[r][v + 4] >> at & nibbles) << 4;
        out = vector_write(out, x);
    }
    return out;
}
static uint8_t *plane_2(uint8_t *out, words c, uint32_t at)
{
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t x[ROWS] = { 0 };
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t k = 0; k < 4; k++) x[r] |= (c[r][4 * h + k] >> at & pairs) << 2 * k;
        out = vector_write(out, x);
    }
    return out;
}
static uint8_t *plane_1(uint8_t *out, words c, uint32_t at)
{
    uint32_t x[ROWS] = { 0 };
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t s = 0; s < 8; s++) x[r] |= (c[r][s] >> at & ones) << s;
    return vector_write(out, x);
}
static uint8_t *plane_write(uint8_t *out, struct cpu_plane plane, words c)
{
    if (plane.bits == 8) return plane_8(out, c);
    if (plane.bits == 4) return plane_4(out, c, plane.at);
    if (plane.bits == 2) return plane_2(out, c, plane.at);
    if (plane.bits == 1) return plane_1(out, c, plane.at);
    return out;
}
/* The place of step s (columns 4s .. 4s+3) in a plane: its vector, and the bit within each byte. */
struct step_place { uint32_t vector, shift; };
static struct step_place step_place(uint32_t bits, uint32_t s)
{
    if (bits == 8) return (struct step_place){ s, 0 };
    if (bits == 4) return (struct step_place){ s % 4, 4 * (s / 4) };
    if (bits == 2) return (struct step_place){ s / 4, 2 * (s % 4) };
    return (struct step_place){ 0, s };
}

/* ---- scales: one block of 16 rows, row r at rows[r] (NULL: a missing row, all zero) ---- */
static uint8_t *numbers_write(uint8_t *out, const struct format *f, const uint8_t *const rows[ROWS])
{
    const uint32_t bytes = number_bytes(f->number);
    memset(out, 0, ROWS * numbers_bytes(f));
    for (uint32_t i = 0; i < 2 && f->number_at[i] >= 0; i++)
        for (uint32_t r = 0; r < ROWS; r++, out += bytes)
            if (rows[r]) number_copy(out, f, rows[r], (int)i);
    return out;
}
/* Six bits: of the values below 3n/4, each has its six bits at the bottom of a byte; each value of the last quarter is split into pairs of
 * bits, at the top of three of these bytes. */
static uint8_t *scales_write(uint8_t *out, const struct coding *c, const uint8_t *const rows[ROWS])
{
    const uint32_t n = c->n_scales, whole = c->scale_bits == 6 ? n / 4 * 3 : n;
    if (n == 0) return out;
    for (uint32_t r = 0; r < ROWS; r++) {
        uint8_t v[16] = { 0 };
        if (rows[r]) c->scales(v, rows[r]);
        for (uint32_t j = 0; j < whole; j++)
            out[j * ROWS + r] = (uint8_t)(whole == n ? v[j] : v[j] | (v[whole + j / 3] >> 2 * (j % 3) & 3) << 6);
    }
    return out + whole * ROWS;
}
static void scales_read(uint8_t v[16], const struct coding *c, const uint8_t *at, uint32_t row)
{
    const uint32_t n = c->n_scales, whole = c->scale_bits == 6 ? n / 4 * 3 : n;
    memset(v, 0, 16);
    for (uint32_t j = 0; j < whole; j++) {
        const uint8_t byte = at[j * ROWS + row];
        v[j] = whole == n ? byte : byte & 63;
        if (whole < n) v[whole + j / 3] |= (uint8_t)(byte >> 6 << 2 * (j % 3));
    }
}

/* ---- groups ---- */
static uint8_t *floats_write(uint8_t *out, const uint8_t *const rows[ROWS], uint64_t cols, uint32_t bytes)
{
    memset(out, 0, cols * ROWS * bytes);
    for (uint32_t r = 0; r < ROWS; r++)
        if (rows[r]) {
            if (bytes == 2) for (uint64_t c = 0; c < cols; c++) memcpy(out + (c * ROWS + r) * 2, rows[r] + c * 2, 2);
            else            for (uint64_t c = 0; c < cols; c++) memcpy(out + (c * ROWS + r) * 4, rows[r] + c * 4, 4);
        }
    return out + cols * ROWS * bytes;
}
static uint8_t *codes_write(uint8_t *out, const struct format *f, const uint8_t *const rows[ROWS], uint64_t n_blocks)
{
    for (uint64_t b = 0; b < n_blocks; b++)
        for (uint32_t i = 0; i < f->block_weights / 32; i++) {
            words c;
            memset(c, 0, sizeof c);
            for (uint32_t r = 0; r < ROWS; r++)
                if (rows[r]) f->coding->codes(c[r], rows[r] + b * f->block_bytes, i);
            out = plane_write(plane_write(out, f->coding->cpu[0], c), f->coding->cpu[1], c);
        }
    return out;
}
static uint8_t *blocks_write(uint8_t *out, const struct format *f, const uint8_t *const rows[ROWS], uint64_t n_blocks)
{
    out = codes_write(out, f, rows, n_blocks);
    for (uint64_t b = 0; b < n_blocks; b++) {
        const uint8_t *block[ROWS];
        for (uint32_t r = 0; r < ROWS; r++) block[r] = rows[r] ? rows[r] + b * f->block_bytes : NULL;
        out = scales_write(numbers_write(out, f, block), f->coding, block);
    }
    return out;
}
static void pack_group(uint8_t *out, const struct format *f, const uint8_t *const *rows, uint64_t cols)
{
    const uint8_t *end = out + group_bytes(f, cols);
    uint8_t *at = f->coding ? blocks_write(out, f, rows, cols / f->block_weights) : floats_write(out, rows, cols, f->block_bytes);
    memset(at, 0, (size_t)(end - at));
}

static void codes_read(uint8_t *code, const struct format *f, const uint8_t *at, uint32_t row)
{
    const struct cpu_plane *planes = f->coding->cpu;
    memset(code, 0, f->block_weights);
    for (uint32_t i = 0; i < f->block_weights / 32; i++)
        for (uint32_t p = 0; p < 2; at += 64 * planes[p].bits, p++)
            for (uint32_t c = 0; planes[p].bits && c < 32; c++) {
                const struct step_place place = step_place(planes[p].bits, c / 4);
                const uint32_t byte = at[64 * place.vector + 4 * row + c % 4] >> place.shift;
                code[32 * i + c] |= (uint8_t)((byte & ((1u << planes[p].bits) - 1)) << planes[p].at);
            }
}
static void unpack_row(float *out, const struct format *f, const uint8_t *group, uint32_t row, uint64_t cols)
{
    if (!f->coding) {
        for (uint64_t c = 0; c < cols; c++) out[c] = number_value(f->number, group + (c * ROWS + row) * f->block_bytes);
        return;
    }
    const uint64_t n_blocks = cols / f->block_weights;
    const uint32_t bytes = number_bytes(f->number);
    for (uint64_t b = 0; b < n_blocks; b++) {
        const uint8_t *numbers = group + n_blocks * block_code_bytes(f) + b * block_scale_bytes(f);
        struct block_parts parts = { 0 };
        codes_read(parts.code, f, group + b * block_code_bytes(f), row);
        for (uint32_t i = 0; i < 2 && f->number_at[i] >= 0; i++)
            parts.number[i] = number_value(f->number, numbers + (i * ROWS + row) * bytes);
        scales_read(parts.scale, f->coding, numbers + ROWS * numbers_bytes(f), row);
        block_weights(out + b * f->block_weights, f, &parts);
    }
}

const struct packed_layout layout_cpu = { "cpu", 3, ROWS, group_bytes, pack_group, unpack_row };
