/* dequant.c -- scalar oracle: GGUF blocks to floats, one weight at a time.  It shares nothing with the kernels or the packer.
 * Layouts: ggml-common.h; formulas and their order of rounding: dequantize_row_* in ggml-quants.c (ggml-org/ggml). */
#include "dequant.h"
#include <math.h>
#include <string.h>

enum { F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q2_K = 10, Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14,
       IQ4_NL = 20, IQ4_XS = 23, BF16 = 30, MXFP4 = 39 };      /* enum ggml_type in ggml.h */

static float half(const uint8_t *p)
{
    const unsigned h = p[0] | (unsigned)p[1] << 8;
    const int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
    const float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY) : exponent ? ldexpf((float)(1024 + mantissa), exponent - 25) : ldexpf((float)mantissa, -24);
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

/* Weight i of a block. */
static float weight(uint32_t type, const uint8_t *b, int i)
{
    const int j = i / 32, k = i % 32;                     /* K formats: sub-block of 32, place in it */
    switch (type) {
    case F32:    { float f; memcpy(&f, b, 4); return f; }
    case F16:    return half(b);
    case BF16:   return bfloat(b);
    case Q8_0:   return half(b) * (float)(int8_t)b[2 + i];
    case Q4_0:   return half(b) * (float)(nibble(b + 2, i) - 8);
    case Q5_0:   return half(b) * (float)((nibble(b + 6, i) | bit(b + 2, i) << 4) - 16);
    case IQ4_NL: return half(b) * (float)iq4[nibble(b + 2, i)];
    case MXFP4:  return ldexpf(1.0f, b[0] - 128) * (float)fp4[nibble(b + 1, i)];
    case Q4_1:   { const float t = half(b) * (float)nibble(b + 4, i);                          return t + half(b + 2); }
    case Q5_1:   { const float t = half(b) * (float)(nibble(b + 8, i) | bit(b + 4, i) << 4);   return t + half(b + 2); }
    case Q2_K: {
        const int s = b[i / 16], q = b[16 + 32 * (i / 128) + k] >> 2 * (j % 4) & 3;
        const float d = half(b + 80) * (float)(s & 15), m = half(b + 82) * (float)(s >> 4), t = d * (float)q;
        return t - m;
    }
    case Q3_K: {
        const int q = (b[32 + 32 * (i / 128) + k] >> 2 * (j % 4) & 3) - (b[k] >> j & 1 ? 0 : 4);
        const float d = half(b + 108) * (float)q3_scale(b + 96, i / 16);
        return d * (float)q;
    }
    case Q4_K: {
        const int q = b[16 + 32 * (j / 2) + k] >> 4 * (j % 2) & 15;
        const float d = half(b) * (float)k4_scale(b + 4, j), m = half(b + 2) * (float)k4_min(b + 4, j), t = d * (float)q;
        return t - m;
    }
    case Q5_K: {
        const int q = (b[48 + 32 * (j / 2) + k] >> 4 * (j % 2) & 15) + (b[16 + k] >> j & 1) * 16;
        const float d = half(b) * (float)k4_scale(b + 4, j), m = half(b + 2) * (float)k4_min(b + 4, j), t = d * (float)q;
        return t - m;
    }
    case Q6_K: {
        const int h = i / 128, quarter = j % 4;
        const int low = b[64 * h + 32 * (quarter % 2) + k] >> (quarter < 2 ? 0 : 4) & 15, high = b[128 + 32 * h + k] >> 2 * quarter & 3;
        const float d = half(b + 208) * (float)(int8_t)b[192 + i / 16];
        return d * (float)((low | high << 4) - 32);
    }
    case IQ4_XS: {
        const int scale = (b[4 + j / 2] >> 4 * (j % 2) & 15) | ((b[2] | b[3] << 8) >> 2 * j & 3) << 4;
        const float d = half(b) * (float)(scale - 32);
        return d * (float)iq4[nibble(b + 8 + 16 * j, k)];
    }
    default: return 0;
    }
}
int dequantize_row_ref(uint32_t quant_id, float *out, const uint8_t *blocks, uint64_t n)
{
    int weights = 32, bytes;
    switch (quant_id) {
    case F32:  weights = 1; bytes = 4; break;
    case F16:
    case BF16: weights = 1; bytes = 2; break;
    case Q4_0: case IQ4_NL: bytes = 18; break;
    case Q4_1: bytes = 20; break;
    case Q5_0: bytes = 22; break;
    case Q5_1: bytes = 24; break;
    case Q8_0: bytes = 34; break;
    case MXFP4: bytes = 17; break;
    case Q2_K: weights = 256; bytes = 84; break;
    case Q3_K: weights = 256; bytes = 110; break;
    case Q4_K: weights = 256; bytes = 144; break;
    case Q5_K: weights = 256; bytes = 176; break;
    case Q6_K: weights = 256; bytes = 210; break;
    case IQ4_XS: weights = 256; bytes = 136; break;
    default: return 0;
    }
    for (uint64_t b = 0; b < n / (uint64_t)weights; b++)
        for (int i = 0; i < weights; i++) out[b * (uint64_t)weights + (uint64_t)i] = weight(quant_id, blocks + b * (uint64_t)bytes, i);
    return 1;
}
