/* blocks.h -- how the blocks of a format are coded: the struct that each format's file fills in, and parts shared by several formats. */
#ifndef FORGEC_BLOCKS_H
#define FORGEC_BLOCKS_H
#include "format.h"
#include <string.h>

/* The parts of a block, unpacked. */
struct block_parts {
    uint8_t code[256];                 /* [block_weights], as the layouts keep them */
    float   number[2];                 /* its scale and minimum */
    uint8_t scale[16];                 /* [n_scales] */
};

/* Planes of codes in the CPU's layout (docs/kernels.md): bits at .. at + bits - 1 of each code, 8, 4, 2 or 1; 0: no plane. */
struct cpu_plane { uint8_t bits, at; };
/* Planes in the GPU's layout (docs/gpu_internals.md); the kind determines the number of bits and the order of a unit's columns. */
enum gpu_plane_kind { GPU_NONE, GPU_BYTES, GPU_NIBBLES, GPU_ORDERED, GPU_PAIRS, GPU_BITS };
struct gpu_plane { enum gpu_plane_kind kind; uint8_t at; };

/* A format whose blocks are 32, 64, 128 or 256 codes with scales. */
struct coding {
    /* The codes of columns 32 i .. 32 i + 31 of a block as both layouts store them: c[s] has columns 4s .. 4s+3, one per byte. */
    void   (*codes)(uint32_t c[8], const uint8_t *block, uint32_t i);
    /* The small scales of a block of more than 32 columns, in column order, scales before minimums; NULL: there are no scales. */
    void   (*scales)(uint8_t v[16], const uint8_t *block);
    uint32_t n_scales, scale_bits;     /* 16 or 8 scales of 6 bits for 256 columns, or 4 to 16 bytes for 64 to 256 columns; 0: none */
    bool    sums16;                    /* minimums per 16 columns: GPU products read sums over 16 activations (SUMS16 of its template) */
    bool    matrix;                    /* GPU products of a few tokens can use the matrix unit (QUAD_PLANES of its template) */
    struct cpu_plane cpu[2];
    struct gpu_plane gpu[2];
    /* The bits of a block's f16 if they are not adjacent; NULL: format.def has the place. */
    uint16_t (*number)(const uint8_t *block);
    uint8_t gpu_flip;                  /* XORed with every code for a GPU: flipping the top bit makes codes with an offset signed */
    /* Weight i of a block, rounded in the same order as in GGML. */
    float  (*weight)(const struct block_parts *p, uint32_t i);
};

/* For the layouts: size and value of a number; size of a block's numbers; the weights of a block from its parts. */
static inline uint32_t number_bytes(enum number number)
{
    return number == NUMBER_F32 ? 4 : number == NUMBER_E8M0 ? 1 : 2;
}
static inline void number_copy(uint8_t *to, const struct format *f, const uint8_t *block, int i)       /* of blocks: f16 or E8M0 */
{
    const uint16_t bits = f->coding->number ? f->coding->number(block) : 0;
    if (f->coding->number)                   memcpy(to, &bits, 2);
    else if (number_bytes(f->number) == 2)   memcpy(to, block + f->number_at[i], 2);
    else                                     *to = block[f->number_at[i]];
}
float    number_value(enum number number, const uint8_t *p);
static inline uint32_t numbers_bytes(const struct format *f)
{
    return number_bytes(f->number) * (uint32_t)((f->number_at[0] >= 0) + (f->number_at[1] >= 0));
}
void     block_weights(float *out, const struct format *f, const struct block_parts *p);

static inline uint32_t u32_at(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }      /* any alignment */

/* Spreads four digits of four, two or one bits to one per byte. */
static inline uint32_t nibbles_spread(uint32_t x) { return (x & 0xf) | (x & 0xf0) << 4 | (x & 0xf00) << 8 | (x & 0xf000) << 12; }
static inline uint32_t pairs_spread(uint32_t x)   { return (x & 3) | (x & 12) << 6 | (x & 48) << 12 | (x & 192) << 18; }
static inline uint32_t bits_spread(uint32_t x)    { return (x & 15) * 0x00204081u & 0x01010101u; }

/* Codes: 32 columns into c. */
void codes_nibbles(uint32_t c[8], const uint8_t *qs); /* 16 bytes: columns 0-15 in the low nibbles, 16-31 in the high ones */
void codes_fifth_bits(uint32_t c[8], const uint8_t *qh); /* 4 bytes: bit j is the fifth of column j */
void codes_half_chunk(uint32_t c[8], const uint8_t *qs, uint32_t i); /* 64 columns share 32 bytes, the first 32 in the low nibbles */
void codes_quarter_chunk(uint32_t c[8], const uint8_t *qs, uint32_t i); /* 128 columns share 32 bytes, two bits each */
void codes_top_bit(uint32_t c[8], const uint8_t *h, uint32_t i, uint32_t at); /* bit i of byte j is bit `at` of column 32 i + j */

/* 8 scales and 8 minimums of six bits in 12 bytes (Q4_K, Q5_K), and the weight they make. */
void  scales_k4(uint8_t v[16], const uint8_t *s);
float weight_k4(const struct block_parts *p, uint32_t i);
/* Eight columns of an IQ2 format: the level of a magnitude in two bits, a sign above them; and the weight. */
void  codes_iq2(uint32_t c[2], uint32_t digits, uint32_t signs);
float weight_iq2(float d, uint32_t scale, uint32_t code);
/* Eight columns of an IQ1 format by their index: 0, 1, 2 for -1, 0, 1; and the weight; plus: 1 adds 1/8, 0 subtracts it. */
void  codes_iq1(uint32_t c[2], uint32_t index);
float weight_iq1(float d, uint32_t scale, uint32_t code, uint32_t plus);
/* The 16 values that IQ4_NL and IQ4_XS choose from. */
extern const int8_t values_iq4[16];
#endif
