/* format.h -- the weight formats: one row of format.def each and, for blocks, the format's own file. Does not depend on files or models. */
#ifndef FORGEC_FORMAT_H
#define FORGEC_FORMAT_H
#include <stdbool.h>
#include <stdint.h>

/* The values are GGML's type ids. */
enum quant {
#define QUANT(name, file, id, weights, bytes, number, at, at2) QUANT_##name = id,
#include "format.def"
};
enum { QUANT_IDS = 64 };               /* above every id of format.def */
/* Their places in format_table. */
enum format_place {
#define QUANT(name, file, id, weights, bytes, number, at, at2) PLACE_##name,
#include "format.def"
    FORMAT_COUNT
};

/* Numbers with an exponent of their own: a float, or the scale or minimum of a block.  E8M0: a power of two in a byte. */
enum number { NUMBER_F32, NUMBER_F16, NUMBER_BF16, NUMBER_E8M0 };

struct format {
    const char *name, *file;           /* "Q4_K"; "q4_K": templates/{cpu,gpu}/formats/q4_K.h, and in names of kernels */
    enum quant  id;
    uint32_t    block_weights, block_bytes;      /* floats: blocks of one */
    enum number number;
    int         number_at[2];          /* offsets in bytes within the block; -1: no such number */
    const struct coding *coding;       /* how blocks are coded: blocks.h; NULL: floats */
};
extern const struct format format_table[FORMAT_COUNT];       /* as in format.def, by ascending id */

/* The format of q. */
const struct format *format_of(enum quant q);
/* NULL when forgec does not read that GGML type id. */
const struct format *quant_find(uint32_t id);
/* Bytes of a row in the file.  cols: a multiple of the block. */
uint64_t format_row_bytes(const struct format *f, uint64_t cols);

/* Index of the first of n contiguous blocks with a number that is NaN or infinite; n: there is no such block. */
uint64_t blocks_not_finite(const struct format *f, const uint8_t *blocks, uint64_t n);
/* For F32: index of the first of n floats with a magnitude of `limit` or more; n: there is no such float. Other formats: n. */
uint64_t floats_beyond(const struct format *f, const uint8_t *floats, uint64_t n, float limit);
/* "NaN" or "infinity": why the block is not finite. */
const char *block_not_finite_name(const struct format *f, const uint8_t *block);
#endif
