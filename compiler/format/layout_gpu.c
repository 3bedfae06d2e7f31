/* layout_gpu.c -- the layout that GPU kernels read (docs/gpu_internals.md): a row is a few planes, each an array over units of 64
 * columns or over superblocks of 256.  Codes and scales keep their bits; codes that kernels want signed lose their offset: the top
 * bit flips. */
#include "blocks.h"
#include "layout.h"
#include <string.h>

static uint64_t plane_bytes(uint64_t n) { return (n + 15) / 16 * 16; }
static uint64_t units_of(uint64_t cols) { return (cols + 63) / 64; }
static bool is_super(const struct format *f) { return f->block_weights > 32; }

/* Number of 16-byte pieces of a unit in a plane; single bits have 8 bytes. */
static uint32_t pieces(enum gpu_plane_kind kind)
{
    static const uint8_t n[] = { [GPU_NONE] = 0, [GPU_BYTES] = 4, [GPU_NIBBLES] = 2, [GPU_ORDERED] = 2, [GPU_PAIRS] = 1, [GPU_BITS] = 0 };
    return n[kind];
}
static uint64_t codes_bytes(const struct coding *c, uint64_t units)
{
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < 2; p++)
        bytes += c->gpu[p].kind == GPU_BITS ? plane_bytes(units * 8) : units * 16 * pieces(c->gpu[p].kind);
    return bytes;
}
/* Bytes of a unit's scales: the numbers of its two blocks, or a superblock's bytes. Then bytes of a superblock, a block of one unit or
 * more: its numbers, or a head of numbers and six-bit scales: 16 bytes for 16 scales, 8 bytes for 8. */
static uint32_t unit_scales(const struct format *f)
{
    if (!is_super(f)) return 2 * numbers_bytes(f);
    return f->coding->scale_bits == 8 ? f->coding->n_scales * 64 / f->block_weights : 0;
}
static uint32_t super_scales(const struct format *f)
{
    if (!is_super(f)) return 0;
    return f->coding->scale_bits == 6 ? f->coding->n_scales : numbers_bytes(f);
}
static uint64_t scales_bytes(const struct format *f, uint64_t units)
{
    return plane_bytes(units * unit_scales(f)) + plane_bytes(units * 64 / f->block_weights * super_scales(f));
}
static uint64_t row_bytes(const struct format *f, uint64_t cols)
{
    const uint64_t units = units_of(cols);
    return f->coding ? codes_bytes(f->coding, units) + scales_bytes(f, units) : units * 64 * f->block_bytes;
}

/* ---- codes of a unit: c[s] has columns 4s .. 4s+3, one a byte; each writes the unit's part of a plane ---- */
static const uint32_t low_4 = 0x0f0f0f0f, low_2 = 0x03030303, low_1 = 0x01010101;

static void word_write(uint8_t *out, uint32_t i, uint32_t w) { memcpy(out + 4 * i, &w, 4); }
static void bytes_write(uint8_t *out, const uint32_t c[4])
{
    for (uint32_t s = 0; s < 4; s++) word_write(out, s, c[s]);
}
/* Byte j of the block's 16 bytes: column j in the low nibble, 16 + j in the high one. */
static void nibbles_write(uint8_t *out, const uint32_t c[8], uint32_t at)
{
    for (uint32_t s = 0; s < 4; s++) word_write(out, s, (c[s] >> at & low_4) | (c[4 + s] >> at & low_4) << 4);
}
/* Word s: columns 4s .. 4s+3 in its lower half, 16 + 4s .. in its upper half. */
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
static void codes_write(uint8_t *row, const struct coding *coding, uint64_t units, uint64_t unit, const uint32_t c[16])
{
    for (uint32_t p = 0; p < 2; p++) {
        const struct gpu_plane plane = coding->gpu[p];
        for (uint32_t k = 0; k < pieces(plane.kind); k++, row += units * 16) {
            if (plane.kind == GPU_BYTES)   bytes_write(row + unit * 16, c + 4 * k);
            if (plane.kind == GPU_NIBBLES) nibbles_write(row + unit * 16, c + 8 * k, plane.at);
            if (plane.kind == GPU_ORDERED) ordered_write(row + unit * 16, c + 8 * k);
            if (plane.kind == GPU_PAIRS)   pairs_write(row + unit * 16, c, plane.at);
        }
        if (plane.kind == GPU_BITS) bits_write(row + unit * 8, c, plane.at);
    }
}
/* The bits of column c of a unit, from a plane that begins at p. */
static uint32_t code_read(struct gpu_plane plane, const uint8_t *p, uint64_t units, uint64_t unit, uint32_t c)
{
    const uint8_t *at = p + unit * 16, *block = at + c / 32 * units * 16;
    const uint32_t k = c % 32, half = k / 16;
    switch (plane.kind) {
    case GPU_NONE:    return 0;
    case GPU_BYTES:   return at[c / 16 * units * 16 + c % 16];
    case GPU_NIBBLES: return (block[k % 16] >> 4 * half & 15u) << plane.at;
    case GPU_ORDERED: return block[k % 16 / 4 * 4 + 2 * half + k % 4 / 2] >> 4 * (k % 2) & 15u;
    case GPU_PAIRS:   return (at[c % 16] >> 2 * (c / 16) & 3u) << plane.at;
    case GPU_BITS:    return (p[unit * 8 + c / 32 * 4 + k % 4] >> k / 4 & 1u) << plane.at;
    }
    return 0;
}

/* ---- scales ---- */
static void numbers_write(uint8_t *out, const struct format *f, const uint8_t *block)
{
    const uint32_t bytes = number_bytes(f->number);
    for (uint32_t i = 0; i < 2 && f->number_at[i] >= 0; i++)
        number_copy(out + i * bytes, f, block, (int)i);
}
/* Six-bit value j of the four values of a unit; with minimums, scale and minimum of both blocks alternate. */
static uint32_t six_bits_at(const struct format *f, uint32_t unit, uint32_t j)
{
    return f->number_at[1] >= 0 ? j % 2 * 8 + 2 * unit + j / 2 : 4 * unit + j;
}
/* 16 values: four bytes of numbers, then 24 bits for each unit, four values from the lowest.
 * 8: the number, two upper bits of each, four lower. */
static void head_write(uint8_t *out, const struct format *f, const uint8_t v[16])
{
    for (uint32_t u = 0; f->coding->n_scales == 16 && u < 4; u++) {
        uint32_t bits = 0;
        for (uint32_t j = 0; j < 4; j++) bits |= (uint32_t)v[six_bits_at(f, u, j)] << 6 * j;
        for (uint32_t j = 0; j < 3; j++) out[4 + 3 * u + j] = (uint8_t)(bits >> 8 * j);
    }
    for (uint32_t j = 0; f->coding->n_scales == 8 && j < 8; j++) {
        out[2 + j / 4] |= (uint8_t)(v[j] >> 4 << 2 * (j % 4));
        out[4 + j / 2] |= (uint8_t)((v[j] & 15) << 4 * (j % 2));
    }
}
static void head_read(uint8_t v[16], const struct format *f, const uint8_t *head)
{
    for (uint32_t u = 0; f->coding->n_scales == 16 && u < 4; u++) {
        const uint32_t bits = head[4 + 3 * u] | (uint32_t)head[5 + 3 * u] << 8 | (uint32_t)head[6 + 3 * u] << 16;
        for (uint32_t j = 0; j < 4; j++) v[six_bits_at(f, u, j)] = (uint8_t)(bits >> 6 * j & 63);
    }
    for (uint32_t j = 0; f->coding->n_scales == 8 && j < 8; j++)
        v[j] = (uint8_t)((head[4 + j / 2] >> 4 * (j % 2) & 15) | (head[2 + j / 4] >> 2 * (j % 4) & 3) << 4);
}
/* Block n of the row. */
static void scales_write(uint8_t *units, uint8_t *supers, const struct format *f, const uint8_t *block, uint64_t n)
{
    uint8_t v[16] = { 0 }, *super = supers + n * super_scales(f);
    numbers_write(is_super(f) ? super : units + n * numbers_bytes(f), f, block);
    if (f->coding->scales) f->coding->scales(v, block);
    if (f->coding->scale_bits == 8) memcpy(units + n * f->coding->n_scales, v, f->coding->n_scales);
    if (f->coding->scale_bits == 6) head_write(super, f, v);
}
static void scales_read(struct block_parts *parts, const uint8_t *units, const uint8_t *supers, const struct format *f, uint64_t n)
{
    const uint8_t *super = supers + n * super_scales(f), *numbers = is_super(f) ? super : units + n * numbers_bytes(f);
    for (uint32_t i = 0; i < 2 && f->number_at[i] >= 0; i++)
        parts->number[i] = number_value(f->number, numbers + i * number_bytes(f->number));
    if (f->coding->scale_bits == 8) memcpy(parts->scale, units + n * f->coding->n_scales, f->coding->n_scales);
    if (f->coding->scale_bits == 6) head_read(parts->scale, f, super);
}

/* ---- rows ---- */
static void blocks_write(uint8_t *out, const struct format *f, const uint8_t *blocks, uint64_t cols)
{
    const uint64_t units = units_of(cols), per_block = f->block_weights / 32;
    uint8_t *scales = out + codes_bytes(f->coding, units), *supers = scales + plane_bytes(units * unit_scales(f));
    for (uint64_t unit = 0; unit < units; unit++) {
        uint32_t c[16] = { 0 };
        for (uint64_t b = 0; b < 2 && (2 * unit + b) * 32 < cols; b++) {
            const uint64_t n = (2 * unit + b) / per_block, i = (2 * unit + b) % per_block;
            const uint8_t *block = blocks + n * f->block_bytes;
            f->coding->codes(c + 8 * b, block, (uint32_t)i);
            for (uint32_t s = 0; s < 8; s++) c[8 * b + s] ^= f->coding->gpu_flip * low_1;
            if (i == 0) scales_write(scales, supers, f, block, n);
        }
        codes_write(out, f->coding, units, unit, c);
    }
}
static void pack_group(uint8_t *out, const struct format *f, const uint8_t *const *rows, uint64_t cols)
{
    const uint64_t file_bytes = format_row_bytes(f, cols), bytes = row_bytes(f, cols);
    if (f->coding) {
        memset(out, 0, bytes);         /* the gaps between planes, and half a last unit */
        blocks_write(out, f, rows[0], cols);
    } else {
        memcpy(out, rows[0], file_bytes);
        memset(out + file_bytes, 0, bytes - file_bytes);
    }
}
static void unpack_row(float *out, const struct format *f, const uint8_t *row, uint32_t index, uint64_t cols)
{
    (void)index;                       /* a group is one row */
    for (uint64_t c = 0; !f->coding && c < cols; c++) out[c] = number_value(f->number, row + c * f->block_bytes);
    if (!f->coding) return;
    const uint64_t units = units_of(cols);
    const struct coding *coding = f->coding;
    const uint8_t *second = row + (coding->gpu[1].kind == GPU_NONE ? 0 : units * 16 * pieces(coding->gpu[0].kind));
    const uint8_t *scales = row + codes_bytes(coding, units), *supers = scales + plane_bytes(units * unit_scales(f));
    for (uint64_t b = 0; b < cols / f->block_weights; b++) {
        struct block_parts parts = { 0 };
        for (uint32_t i = 0; i < f->block_weights; i++) {
            const uint64_t col = b * f->block_weights + i;
            const uint32_t c = (uint32_t)(col % 64);
            const uint32_t code = code_read(coding->gpu[0], row, units, col / 64, c)
                                | code_read(coding->gpu[1], second, units, col / 64, c);
            parts.code[i] = (uint8_t)(code ^ coding->gpu_flip);
        }
        scales_read(&parts, scales, supers, f, b);
        block_weights(out + b * f->block_weights, f, &parts);
    }
}

const struct packed_layout layout_gpu = { "gpu", 2, 1, row_bytes, pack_group, unpack_row };
