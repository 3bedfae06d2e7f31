/* blocks.c -- shared parts of the codings of several formats. Block layouts: ggml-common.h, unpacking: ggml-quants.c (ggml-org/ggml). */
#include "blocks.h"
#include "grids.h"
#include <math.h>

/* ---- numbers ---- */

static float float_of(uint32_t bits) { float f; memcpy(&f, &bits, 4); return f; }
static float half_value(uint32_t h)
{
    const int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
    const float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                          : exponent ? ldexpf((float)(1024 + mantissa), exponent - 25) : ldexpf((float)mantissa, -24);
    return h & 0x8000 ? -magnitude : magnitude;
}
float number_value(enum number number, const uint8_t *p)
{
    switch (number) {
    case NUMBER_F32:  return float_of(u32_at(p));
    case NUMBER_F16:  return half_value((uint32_t)p[0] | (uint32_t)p[1] << 8);
    case NUMBER_BF16: return float_of((uint32_t)p[0] << 16 | (uint32_t)p[1] << 24);
    case NUMBER_E8M0: return ldexpf(1.0f, p[0] - 127);
    }
    return NAN;
}
void block_weights(float *out, const struct format *f, const struct block_parts *p)
{
    for (uint32_t i = 0; i < f->block_weights; i++) out[i] = f->coding->weight(p, i);
}

/* ---- codes and scales ---- */

static const uint32_t nibbles = 0x0f0f0f0f, pairs = 0x03030303, ones = 0x01010101;

void codes_nibbles(uint32_t c[8], const uint8_t *qs)
{
    for (uint32_t s = 0; s < 4; s++) {
        const uint32_t q = u32_at(qs + 4 * s);
        c[s]     = q & nibbles;
        c[s + 4] = q >> 4 & nibbles;
    }
}
/* The multiplication makes copies of a nibble's 4 bits, 7 apart, so that each bit lands on bit 0 of its byte. */
void codes_fifth_bits(uint32_t c[8], const uint8_t *qh)
{
    const uint32_t bits = u32_at(qh);
    for (uint32_t s = 0; s < 8; s++) c[s] |= ((bits >> 4 * s & 15) * 0x00204081u & ones) << 4;
}
void codes_half_chunk(uint32_t c[8], const uint8_t *qs, uint32_t i)
{
    for (uint32_t s = 0; s < 8; s++) c[s] = u32_at(qs + 32 * (i / 2) + 4 * s) >> 4 * (i % 2) & nibbles;
}
void codes_quarter_chunk(uint32_t c[8], const uint8_t *qs, uint32_t i)
{
    for (uint32_t s = 0; s < 8; s++) c[s] = u32_at(qs + 32 * (i / 4) + 4 * s) >> 2 * (i % 4) & pairs;
}
void codes_top_bit(uint32_t c[8], const uint8_t *h, uint32_t i, uint32_t at)
{
    for (uint32_t s = 0; s < 8; s++) c[s] |= (u32_at(h + 4 * s) >> i & ones) << at;
}

void scales_k4(uint8_t v[16], const uint8_t *s)
{
    for (uint32_t j = 0; j < 4; j++) {
        v[j]      = s[j] & 63;
        v[j + 8]  = s[j + 4] & 63;
        v[j + 4]  = (uint8_t)((s[j + 8] & 15) | s[j] >> 6 << 4);
        v[j + 12] = (uint8_t)(s[j + 8] >> 4 | s[j + 4] >> 6 << 4);
    }
}
float weight_k4(const struct block_parts *p, uint32_t i)
{
    const float d = p->number[0] * (float)p->scale[i / 32], m = p->number[1] * (float)p->scale[8 + i / 32], t = d * (float)p->code[i];
    return t - m;
}
void codes_iq2(uint32_t c[2], uint32_t digits, uint32_t signs)
{
    for (uint32_t s = 0; s < 2; s++) c[s] = pairs_spread(digits >> 8 * s) | bits_spread(signs >> 4 * s) << 2;
}
float weight_iq2(float d, uint32_t scale, uint32_t code)
{
    static const int8_t values[8] = { 8, 25, 43, 0, -8, -25, -43, 0 };
    return 0.125f * d * (float)scale * (float)values[code];
}
void codes_iq1(uint32_t c[2], uint32_t index)
{
    for (uint32_t s = 0; s < 2; s++) c[s] = pairs_spread((uint32_t)grid_iq1[index] >> 8 * s);
}
float weight_iq1(float d, uint32_t scale, uint32_t code, uint32_t plus)
{
    const float step = d * (float)(2 * scale + 1);
    return step * ((float)code - 1 + (plus ? 0.125f : -0.125f));
}
const int8_t values_iq4[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
