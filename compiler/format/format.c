/* format.c -- the table of weight formats, and checks for weights that are not finite. */
#include "blocks.h"
#include <stddef.h>
#include <string.h>

#define QUANT_FLOAT(name, file, id, weights, bytes, number, at, at2)
#define QUANT_BLOCK(name, file, id, weights, bytes, number, at, at2) extern const struct coding coding_##file;
#include "format.def"

#define ROW(name, file, id, weights, bytes, number, at, at2, coding) \
    { #name, #file, id, weights, bytes, NUMBER_##number, { at, at2 }, coding },
const struct format format_table[FORMAT_COUNT] = {
#define QUANT_FLOAT(name, file, id, weights, bytes, number, at, at2) \
    ROW(name, file, id, weights, bytes, number, at, at2, NULL)
#define QUANT_BLOCK(name, file, id, weights, bytes, number, at, at2) \
    ROW(name, file, id, weights, bytes, number, at, at2, &coding_##file)
#include "format.def"
};

static const uint8_t places[QUANT_IDS] = {       /* by id, from 1; 0: no such format */
#define QUANT(name, file, id, weights, bytes, number, at, at2) [id] = PLACE_##name + 1,
#include "format.def"
};

const struct format *quant_find(uint32_t id) { return id < QUANT_IDS && places[id] ? &format_table[places[id] - 1] : NULL; }
const struct format *format_of(enum quant q) { return quant_find((uint32_t)q); }
uint64_t format_row_bytes(const struct format *f, uint64_t cols) { return cols / f->block_weights * f->block_bytes; }

/* ---- weights that are not finite ---- */

/* exponent: the bits that are all 1 in NaN and in infinities; an infinity has no bit of the mantissa set. E8M0 has NaN only. */
static const struct { uint32_t exponent, mantissa; bool infinite; } numbers[] = {
    [NUMBER_F32]  = { 0x7f800000, 0x007fffff, true },
    [NUMBER_F16]  = { 0x7c00, 0x03ff, true },
    [NUMBER_BF16] = { 0x7f80, 0x007f, true },
    [NUMBER_E8M0] = { 0xff, 0, false },
};
/* The bits of number i of a block. */
static uint32_t number_bits(const struct format *f, const uint8_t *block, int i)
{
    const uint32_t bytes = number_bytes(f->number);
    uint32_t v = 0;
    if (f->coding && f->coding->number) return f->coding->number(block);
    for (uint32_t k = 0; k < bytes; k++) v |= (uint32_t)block[(uint32_t)f->number_at[i] + k] << 8 * k;
    return v;
}
/* The first of a block's numbers that is not finite; -1: all are finite. */
static int first_bad(const struct format *f, const uint8_t *block)
{
    const uint32_t exponent = numbers[f->number].exponent;
    for (int i = 0; i < 2 && f->number_at[i] >= 0; i++)
        if ((number_bits(f, block, i) & exponent) == exponent) return i;
    return -1;
}

/* Adding a one at the exponent's lowest bit, without the sign, carries into the sign bit if all bits of the exponent are 1. The loops
 * vectorise. */
static bool any_bad_32(const uint8_t *p, uint64_t n)
{
    uint32_t bad = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t v;
        memcpy(&v, p + 4 * i, 4);
        bad |= (v & 0x7fffffffu) + 0x00800000u;
    }
    return bad >> 31;
}
static bool any_bad_16(const uint8_t *p, uint64_t n, uint16_t one)
{
    uint16_t bad = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint16_t v;
        memcpy(&v, p + 2 * i, 2);
        bad |= (uint16_t)((v & 0x7fff) + one);
    }
    return bad >> 15;
}
static bool may_be_bad(const struct format *f, const uint8_t *blocks, uint64_t n)
{
    if (f->coding) return true;        /* one or two numbers per block, which are checked one by one */
    if (f->number == NUMBER_F32) return any_bad_32(blocks, n);
    return any_bad_16(blocks, n, f->number == NUMBER_F16 ? 0x0400 : 0x0080);
}
uint64_t blocks_not_finite(const struct format *f, const uint8_t *blocks, uint64_t n)
{
    enum { RUN = 4096 };
    for (uint64_t from = 0; from < n; from += RUN) {
        const uint64_t run = n - from < RUN ? n - from : RUN;
        if (!may_be_bad(f, blocks + from * f->block_bytes, run)) continue;
        for (uint64_t i = from; i < from + run; i++) if (first_bad(f, blocks + i * f->block_bytes) >= 0) return i;
    }
    return n;
}
uint64_t floats_beyond(const struct format *f, const uint8_t *floats, uint64_t n, float limit)
{
    enum { RUN = 4096 };
    if (f->coding || f->number != NUMBER_F32) return n;
    for (uint64_t from = 0; from < n; from += RUN) {
        const uint64_t end = n - from < RUN ? n : from + RUN;
        float most = 0, x;
        for (uint64_t i = from; i < end; i++) {
            memcpy(&x, floats + 4 * i, 4);
            x = x < 0 ? -x : x;
            most = x > most ? x : most;
        }
        for (uint64_t i = from; i < end && most >= limit; i++) {
            memcpy(&x, floats + 4 * i, 4);
            if (x >= limit || -x >= limit) return i;
        }
    }
    return n;
}
const char *block_not_finite_name(const struct format *f, const uint8_t *block)
{
    const int i = first_bad(f, block);
    const bool no_mantissa = i >= 0 && (number_bits(f, block, i) & numbers[f->number].mantissa) == 0;
    return numbers[f->number].infinite && no_mantissa ? "infinity" : "NaN";
}
