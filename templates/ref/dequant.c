/* dequant.c -- scalar oracle: GGUF blocks to floats, one weight at a time.  It shares nothing with the kernels or the packer.
 * Layouts: ggml-common.h; formulas and their order of rounding: dequantize_row_* in ggml-quants.c (ggml-org/ggml). */
#include "dequant.h"
#include "compiler/format/grids.h"
#include <math.h>
#include <string.h>

static float half(const uint8_t *p)
{
    const unsigned h = p[0] | (unsigned)p[1] << 8;
    const int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
    const float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                          : exponent ? ldexpf((float)(1024 + mantissa), exponent - 25) : ldexpf((float)mantissa, -24);
    return h & 0x8000 ? -magnitude : magnitude;
}
static float bfloat(const uint8_t *p)
{
    const uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 24;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static int bit(const uint8_t *p, int i)      { return p[i / 8] >> i % 8 & 1; }
static int nibble(const uint8_t *q, int i)   { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }       /* of 32 */

static const int8_t iq4[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };      /* kvalues_iq4nl */
static const int8_t fp4[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };                        /* kvalues_mxfp4 */

/* Q4_K, Q5_K: get_scale_min_k4. */
static int k4_scale(const uint8_t *s, int j) { return j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4; }
static int k4_min(const uint8_t *s, int j)   { return j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4; }
static int q3_scale(const uint8_t *s, int j)
{
    const int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
    return (low | (s[8 + j % 4] >> 2 * (j / 4) & 3) << 4) - 32;
}

/* ---- weight i of a block, by the name of its format; K formats: sub-block j of 32, place k in it ---- */

static float F32(const uint8_t *b, int i)    { (void)i; float f; memcpy(&f, b, 4); return f; }
static float F16(const uint8_t *b, int i)    { (void)i; return half(b); }
static float BF16(const uint8_t *b, int i)   { (void)i; return bfloat(b); }
static float Q8_0(const uint8_t *b, int i)   { return half(b) * (float)(int8_t)b[2 + i]; }
static float Q4_0(const uint8_t *b, int i)   { return half(b) * (float)(nibble(b + 2, i) - 8); }
static float Q5_0(const uint8_t *b, int i)   { return half(b) * (float)((nibble(b + 6, i) | bit(b + 2, i) << 4) - 16); }
static float IQ4_NL(const uint8_t *b, int i) { return half(b) * (float)iq4[nibble(b + 2, i)]; }
static float MXFP4(const uint8_t *b, int i)  { return ldexpf(1.0f, b[0] - 128) * (float)fp4[nibble(b + 1, i)]; }
static float Q4_1(const uint8_t *b, int i)
{
    const float t = half(b) * (float)nibble(b + 4, i);
    return t + half(b + 2);
}
static float Q5_1(const uint8_t *b, int i)
{
    const float t = half(b) * (float)(nibble(b + 8, i) | bit(b + 4, i) << 4);
    return t + half(b + 2);
}
static float Q2_K(const uint8_t *b, int i)
{
    const int s = b[i / 16], q = b[16 + 32 * (i / 128) + i % 32] >> 2 * (i / 32 % 4) & 3;
    const float d = half(b + 80) * (float)(s & 15), m = half(b + 82) * (float)(s >> 4), t = d * (float)q;
    return t - m;
}
static float Q3_K(const uint8_t *b, int i)
{
    const int j = i / 32, k = i % 32, q = (b[32 + 32 * (i / 128) + k] >> 2 * (j % 4) & 3) - (b[k] >> j & 1 ? 0 : 4);
    const float d = half(b + 108) * (float)q3_scale(b + 96, i / 16);
    return d * (float)q;
}
static float Q4_K(const uint8_t *b, int i)
{
    const int j = i / 32, q = b[16 + 32 * (j / 2) + i % 32] >> 4 * (j % 2) & 15;
    const float d = half(b) * (float)k4_scale(b + 4, j), m = half(b + 2) * (float)k4_min(b + 4, j), t = d * (float)q;
    return t - m;
}
static float Q5_K(const uint8_t *b, int i)
{
    const int j = i / 32, k = i % 32, q = (b[48 + 32 * (j / 2) + k] >> 4 * (j % 2) & 15) + (b[16 + k] >> j & 1) * 16;
    const float d = half(b) * (float)k4_scale(b + 4, j), m = half(b + 2) * (float)k4_min(b + 4, j), t = d * (float)q;
    return t - m;
}
static float Q6_K(const uint8_t *b, int i)
{
    const int h = i / 128, quarter = i / 32 % 4, k = i % 32;
    const int low = b[64 * h + 32 * (quarter % 2) + k] >> (quarter < 2 ? 0 : 4) & 15, high = b[128 + 32 * h + k] >> 2 * quarter & 3;
    const float d = half(b + 208) * (float)(int8_t)b[192 + i / 16];
    return d * (float)((low | high << 4) - 32);
}
static float IQ4_XS(const uint8_t *b, int i)
{
    const int j = i / 32, scale = (b[4 + j / 2] >> 4 * (j % 2) & 15) | ((b[2] | b[3] << 8) >> 2 * j & 3) << 4;
    const float d = half(b) * (float)(scale - 32);
    return d * (float)iq4[nibble(b + 8 + 16 * j, i % 32)];
}

/* ---- IQ formats: magnitudes from a grid, of four (IQ3) or eight columns at a time; k7_sign: ksigns_iq2xs of seven signs ---- */
static unsigned word(const uint8_t *p)  { return p[0] | (unsigned)p[1] << 8 | (unsigned)p[2] << 16 | (unsigned)p[3] << 24; }
static int k7_sign(unsigned seven, int i)
{
    const int parity = (int)((0x6996u >> (seven & 15) ^ 0x6996u >> (seven >> 4 & 7)) & 1);
    return i < 7 ? (int)(seven >> i & 1) : parity;
}
static float iq2(float d, int scale, int digits, int i, int minus)
{
    static const float level[3] = { 8, 25, 43 };
    const float db = d * (0.5f + (float)scale) * 0.25f, magnitude = level[digits >> 2 * (i % 8) & 3];
    return minus ? db * -magnitude : db * magnitude;
}
static float IQ2_XXS(const uint8_t *b, int i)
{
    const uint8_t *p = b + 2 + 8 * (i / 32);
    const int eight = i / 8 % 4;
    return iq2(half(b), (int)(word(p + 4) >> 28), grid_iq2_xxs[p[eight]], i, k7_sign(word(p + 4) >> 7 * eight & 127, i % 8));
}
static float IQ2_XS(const uint8_t *b, int i)
{
    const int q = b[2 + 2 * (i / 8)] | b[3 + 2 * (i / 8)] << 8, scale = b[66 + i / 32] >> 4 * (i / 16 % 2) & 15;
    return iq2(half(b), scale, grid_iq2_xs[q & 511], i, k7_sign((unsigned)q >> 9, i % 8));
}
static float IQ2_S(const uint8_t *b, int i)
{
    const int index = b[2 + i / 8] | (b[66 + i / 32] >> 2 * (i / 8 % 4) & 3) << 8, scale = b[74 + i / 32] >> 4 * (i / 16 % 2) & 15;
    return iq2(half(b), scale, grid_iq2_s[index], i, bit(b + 34, i));
}
static float IQ3_XXS(const uint8_t *b, int i)
{
    static const float level[8] = { 4, 12, 20, 28, 36, 44, 52, 62 };
    const unsigned signs = word(b + 66 + 4 * (i / 32));
    const float d = half(b) * (0.5f + (float)(signs >> 28)) * 0.5f, magnitude = level[grid_iq3_xxs[b[2 + i / 4]] >> 4 * (i % 4) & 15];
    return k7_sign(signs >> 7 * (i / 8 % 4) & 127, i % 8) ? d * -magnitude : d * magnitude;
}
static float IQ3_S(const uint8_t *b, int i)
{
    const int j = i / 32, four = i / 4, index = b[2 + four] | bit(b + 66, four) << 8, scale = b[106 + j / 2] >> 4 * (j % 2) & 15;
    const float d = half(b) * (float)(1 + 2 * scale), magnitude = (float)(2 * (grid_iq3_s[index] >> 4 * (i % 4) & 15) + 1);
    return bit(b + 74, i) ? d * -magnitude : d * magnitude;
}

/* ---- -1, 0, 1 and the constant that is added to them: IQ1S_DELTA ---- */
static float iq1(float d, int scale, int index, int i, int minus)
{
    const float dl = d * (float)(2 * scale + 1);
    return dl * ((float)((grid_iq1[index] >> 2 * (i % 8) & 3) - 1) + (minus ? -0.125f : 0.125f));
}
static float IQ1_S(const uint8_t *b, int i)
{
    const int h = b[34 + 2 * (i / 32)] | b[35 + 2 * (i / 32)] << 8;
    return iq1(half(b), h >> 12 & 7, b[2 + i / 8] | (h >> 3 * (i / 8 % 4) & 7) << 8, i, h >> 15);
}
static float IQ1_M(const uint8_t *b, int i)
{
    uint8_t d[2];
    for (int k = 0; k < 2; k++) d[k] = (uint8_t)(b[49 + 4 * k] >> 4 | (b[51 + 4 * k] & 0xf0));
    const int h = b[32 + i / 16] >> 4 * (i / 8 % 2) & 15, s = b[48 + 2 * (i / 64)] | b[49 + 2 * (i / 64)] << 8;
    return iq1(half(d), s >> 3 * (i / 16 % 4) & 7, b[i / 8] | (h & 7) << 8, i, h >> 3);
}
/* ---- small sets of values ---- */
static float TQ1_0(const uint8_t *b, int i)
{
    static const int power[5] = { 1, 3, 9, 27, 81 };
    const int byte  = i < 160 ? b[i % 32] : i < 240 ? b[32 + i % 16] : b[48 + i % 4];
    const int place = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
    return (float)(((byte * power[place] & 255) * 3 >> 8) - 1) * half(b + 52);
}
static float TQ2_0(const uint8_t *b, int i) { return (float)((b[32 * (i / 128) + i % 32] >> 2 * (i / 32 % 4) & 3) - 1) * half(b + 64); }
static float Q1_0(const uint8_t *b, int i)  { return bit(b + 2, i) ? half(b) : -half(b); }
static float Q2_0(const uint8_t *b, int i)  { return (float)((b[2 + i / 4] >> 2 * (i % 4) & 3) - 1) * half(b); }
static float NVFP4(const uint8_t *b, int i)
{
    const int e = b[i / 16] >> 3 & 15, m = b[i / 16] & 7, q = b[4 + 8 * (i / 16) + i % 8] >> 4 * (i / 8 % 2) & 15;
    const float scale = b[i / 16] == 0x7f ? 0 : e ? ldexpf(1 + (float)m / 8, e - 7) : ldexpf((float)m, -9);
    return scale * 0.5f * (float)fp4[q];
}

void dequantize_row_ref(enum quant quant, float *out, const uint8_t *blocks, uint64_t n)
{
    static const struct { uint32_t weights, bytes; float (*weight)(const uint8_t *block, int i); } all[QUANT_IDS] = {
#define QUANT(name, file, id, weights, bytes, number, at, at2) [id] = { weights, bytes, name },
#include "compiler/format/format.def"
    };
    const uint32_t weights = all[quant].weights;
    for (uint64_t b = 0; b < n / weights; b++)
        for (uint32_t i = 0; i < weights; i++) out[b * weights + i] = all[quant].weight(blocks + b * all[quant].bytes, (int)i);
}
