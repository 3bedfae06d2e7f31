/* blocks.c -- codes and scales of GGUF blocks.  Block layouts: ggml-common.h, unpacking: ggml-quants.c (ggml-org/ggml). */
#include "blocks.h"
#include "compiler/front/gguf.h"
#include <assert.h>
#include <stdbool.h>
#include <string.h>

struct block_shape block_shape(uint32_t quant_id)
{
    switch (quant_id) {
#define QUANT(name, id, weights, bytes) case id: return (struct block_shape){ weights, bytes };
#include "quant.def"
#undef QUANT
    }
    assert(0 && "a weight format of quant.def");
    return (struct block_shape){ 1, 0 };
}

static uint32_t u32_at(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }

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
void block_codes(uint32_t c[8], uint32_t quant_id, const uint8_t *b, uint32_t i)
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

uint32_t block_six_bits(uint8_t v[16], uint32_t quant_id, const uint8_t *b)
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

/* ---- what no weight may be ---- */

/* Where a block has numbers with an exponent of their own, and how they look when all bits of that are 1: NaN, or infinity when no lower bit is. */
struct exponent_places { uint32_t n, bytes, at[2], mask; };
static struct exponent_places exponents_of(uint32_t quant_id)
{
    switch (quant_id) {
    case QUANT_F32:    return (struct exponent_places){ 1, 4, { 0 }, 0x7f800000 };
    case QUANT_F16:    return (struct exponent_places){ 1, 2, { 0 }, 0x7c00 };
    case QUANT_BF16:   return (struct exponent_places){ 1, 2, { 0 }, 0x7f80 };
    case QUANT_Q8_0: case QUANT_Q4_0: case QUANT_Q5_0: case QUANT_IQ4_NL: case QUANT_IQ4_XS: return (struct exponent_places){ 1, 2, { 0 }, 0x7c00 };
    case QUANT_Q4_1: case QUANT_Q5_1: case QUANT_Q4_K: case QUANT_Q5_K: return (struct exponent_places){ 2, 2, { 0, 2 }, 0x7c00 };
    case QUANT_Q2_K:   return (struct exponent_places){ 2, 2, { 80, 82 }, 0x7c00 };
    case QUANT_Q3_K:   return (struct exponent_places){ 1, 2, { 108 }, 0x7c00 };
    case QUANT_Q6_K:   return (struct exponent_places){ 1, 2, { 208 }, 0x7c00 };
    case QUANT_MXFP4:  return (struct exponent_places){ 1, 1, { 0 }, 0xff };            /* E8M0: 255 is NaN, and there is no infinity */
    default:           assert(0 && "a weight format of quant.def"); return (struct exponent_places){ 0 };
    }
}
static uint32_t number_at(const uint8_t *p, uint32_t bytes)
{
    uint32_t v = 0;
    for (uint32_t i = 0; i < bytes; i++) v |= (uint32_t)p[i] << 8 * i;
    return v;
}
static uint32_t first_bad(const struct exponent_places *e, const uint8_t *block)          /* e->n: none */
{
    for (uint32_t i = 0; i < e->n; i++)
        if ((number_at(block + e->at[i], e->bytes) & e->mask) == e->mask) return i;
    return e->n;
}

/* Added to the bits without the sign, one in the exponent's place reaches the sign's when all bits of the exponent are 1.  Loops that vectorise. */
static bool any_bad_32(const uint8_t *p, uint64_t n)
{
    uint32_t bad = 0;
    for (uint64_t i = 0; i < n; i++) bad |= (u32_at(p + 4 * i) & 0x7fffffffu) + 0x00800000u;
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
static bool any_bad(uint32_t quant_id, const uint8_t *blocks, uint64_t n)
{
    switch (quant_id) {
    case QUANT_F32:  return any_bad_32(blocks, n);
    case QUANT_F16:  return any_bad_16(blocks, n, 0x0400);
    case QUANT_BF16: return any_bad_16(blocks, n, 0x0080);
    default:         return true;                /* one number or two in a block: asked one by one */
    }
}
uint64_t blocks_not_finite(uint32_t quant_id, const uint8_t *blocks, uint64_t n)
{
    enum { RUN = 4096 };
    const struct exponent_places e = exponents_of(quant_id);
    const uint64_t bytes = block_shape(quant_id).bytes;
    for (uint64_t from = 0; from < n; from += RUN) {
        const uint64_t run = n - from < RUN ? n - from : RUN;
        if (!any_bad(quant_id, blocks + from * bytes, run)) continue;
        for (uint64_t i = from; i < from + run; i++) if (first_bad(&e, blocks + i * bytes) < e.n) return i;
    }
    return n;
}
const char *block_not_finite_name(uint32_t quant_id, const uint8_t *block)
{
    const struct exponent_places e = exponents_of(quant_id);
    const uint32_t i = first_bad(&e, block), below = quant_id == QUANT_F32 ? 0x007fffff : quant_id == QUANT_BF16 ? 0x007f : 0x03ff;
    return quant_id != QUANT_MXFP4 && i < e.n && (number_at(block + e.at[i], e.bytes) & below) == 0 ? "infinity" : "NaN";
}
