/* quantize.c -- see quantize.h.  Layouts: ggml-common.h (ggml-org/ggml); templates/ref/dequant.c has the inverse of each format. */
#include "quantize.h"
#include "compiler/format/grids.h"
#include <math.h>
#include <string.h>

/* ---- numbers ---- */

static int clamp(float x, int low, int high)
{
    const long r = lrintf(x);
    return r < low ? low : r > high ? high : (int)r;
}

static unsigned half_bits(float f)                   /* nearest, ties to even; f is finite and below 65504 */
{
    const unsigned sign = signbit(f) ? 0x8000u : 0;
    int exponent;
    const float mantissa = frexpf(fabsf(f), &exponent);      /* mantissa in [0.5, 1) */
    if (mantissa == 0) return sign;
    if (exponent < -13) return sign | (unsigned)lrintf(ldexpf(mantissa, exponent + 24));
    /* A mantissa that rounds up to 2048 carries into the exponent by itself. */
    return sign | (((unsigned)(exponent + 13) << 10) + (unsigned)lrintf(ldexpf(mantissa, 11)));
}

/* Writes f as f16 and returns the written value. */
static float put_half(uint8_t *p, float f)
{
    const unsigned h = half_bits(f);
    const int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
    const float magnitude = exponent ? ldexpf((float)(1024 + mantissa), exponent - 25) : ldexpf((float)mantissa, -24);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
    return h & 0x8000 ? -magnitude : magnitude;
}

static void put_bfloat(uint8_t *p, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    bits += 0x7fff + (bits >> 16 & 1);
    p[0] = (uint8_t)(bits >> 16);
    p[1] = (uint8_t)(bits >> 24);
}

static float inverse(float d) { return d != 0 ? 1 / d : 0; }
static void or_bits(uint8_t *p, int value, int shift) { *p = (uint8_t)(*p | value << shift); }
static void put_nibble(uint8_t *q, int i, int code) { or_bits(&q[i % 16], code, i < 16 ? 0 : 4); }      /* of 32 */

/* The value of largest magnitude, with its sign.  A variable keeps the magnitude: clang 19 at -O3 unrolls a loop with fabsf(best) and then
   compares with best itself where best is the first value or 0. */
static float extreme(const float *x, int n)
{
    float best = 0, most = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            best = x[i];
        }
    return best;
}

static void range(const float *x, int n, float *low, float *high)
{
    *low = *high = x[0];
    for (int i = 1; i < n; i++) {
        if (x[i] < *low) *low = x[i];
        if (x[i] > *high) *high = x[i];
    }
}

static const int8_t iq4[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
static const int8_t fp4[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

static int nearest(const int8_t *table, float x)
{
    int best = 0;
    for (int i = 1; i < 16; i++) if (fabsf(x - (float)table[i]) < fabsf(x - (float)table[best])) best = i;
    return best;
}

/* ---- a block, named by its format; b must be zero before ---- */

static void F32(uint8_t *b, const float *x)  { memcpy(b, x, 4); }
static void F16(uint8_t *b, const float *x)  { put_half(b, *x); }
static void BF16(uint8_t *b, const float *x) { put_bfloat(b, *x); }

static void Q8_0(uint8_t *b, const float *x)
{
    const float inv = inverse(put_half(b, fabsf(extreme(x, 32)) / 127));
    for (int i = 0; i < 32; i++) b[2 + i] = (uint8_t)(int8_t)clamp(x[i] * inv, -127, 127);
}
static void Q4_0(uint8_t *b, const float *x)
{
    const float inv = inverse(put_half(b, extreme(x, 32) / -8));
    for (int i = 0; i < 32; i++) put_nibble(b + 2, i, clamp(x[i] * inv + 8, 0, 15));
}
/* Scale and minimum of codes up to `levels`. */
struct affine { float inv, m; };
static struct affine put_affine(uint8_t *b, const float *x, int levels)
{
    float low, high;
    range(x, 32, &low, &high);
    const float inv = inverse(put_half(b, (high - low) / (float)levels));
    return (struct affine){ inv, put_half(b + 2, low) };
}
static void Q4_1(uint8_t *b, const float *x)
{
    const struct affine a = put_affine(b, x, 15);
    for (int i = 0; i < 32; i++) put_nibble(b + 4, i, clamp((x[i] - a.m) * a.inv, 0, 15));
}
static void put_five_bits(uint8_t *low, uint8_t *high, int i, int code)
{
    put_nibble(low, i, code & 15);
    or_bits(&high[i / 8], code >> 4, i % 8);
}
static void Q5_0(uint8_t *b, const float *x)
{
    const float inv = inverse(put_half(b, extreme(x, 32) / -16));
    for (int i = 0; i < 32; i++) put_five_bits(b + 6, b + 2, i, clamp(x[i] * inv + 16, 0, 31));
}
static void Q5_1(uint8_t *b, const float *x)
{
    const struct affine a = put_affine(b, x, 31);
    for (int i = 0; i < 32; i++) put_five_bits(b + 8, b + 4, i, clamp((x[i] - a.m) * a.inv, 0, 31));
}
static void IQ4_NL(uint8_t *b, const float *x)
{
    const float inv = inverse(put_half(b, extreme(x, 32) / -127));
    for (int i = 0; i < 32; i++) put_nibble(b + 2, i, nearest(iq4, x[i] * inv));
}
static void MXFP4(uint8_t *b, const float *x)
{
    int exponent = 0;
    const float most = fabsf(extreme(x, 32));
    if (most > 0) frexpf(most, &exponent);               /* most = 0.5..1 * 2^exponent; the largest code is 6 = 1.5 * 2^2 */
    const int e = exponent - 3 + 127;
    b[0] = (uint8_t)(e < 0 ? 0 : e > 254 ? 254 : e);
    for (int i = 0; i < 32; i++) put_nibble(b + 1, i, nearest(fp4, ldexpf(x[i], 128 - b[0])));
}

/* ---- blocks of 256: sub-blocks whose scales are themselves quantised ---- */

/* x ~ scale * q - min, q in 0 .. levels, for n_sub sub-blocks; scales and mins are integers 0 .. most, multiplied by d and dmin. */
static void affine_scales(const float *x, int n_sub, int levels, int most, float *d, float *dmin, int *scale, int *min, uint8_t *half_d,
                          uint8_t *half_dmin)
{
    const int size = 256 / n_sub;
    float s[16], m[16], most_s = 0, most_m = 0;
    for (int j = 0; j < n_sub; j++) {
        float low, high;
        range(x + j * size, size, &low, &high);
        if (low > 0) low = 0;
        if (high < low) high = low;
        s[j] = (high - low) / (float)levels;
        m[j] = -low;
        if (s[j] > most_s) most_s = s[j];
        if (m[j] > most_m) most_m = m[j];
    }
    *d = put_half(half_d, most_s / (float)most);
    *dmin = put_half(half_dmin, most_m / (float)most);
    for (int j = 0; j < n_sub; j++) {
        scale[j] = clamp(s[j] * inverse(*d), 0, most);
        min[j] = clamp(m[j] * inverse(*dmin), 0, most);
    }
}

/* x ~ d * scale * q with q >= -levels: the extreme value of each sub-block becomes -levels; d is written as f16. */
static float signed_scales(const float *x, int n_sub, int levels, int most, int *scale, uint8_t *half_d)
{
    const int size = 256 / n_sub;
    float s[16];
    for (int j = 0; j < n_sub; j++) s[j] = extreme(x + j * size, size) / (float)-levels;
    const float d = put_half(half_d, extreme(s, n_sub) / (float)-most);
    for (int j = 0; j < n_sub; j++) scale[j] = clamp(s[j] * inverse(d), -most, most - 1);
    return d;
}

static void put_k4_scales(uint8_t *s, const int *scale, const int *min)
{
    for (int j = 0; j < 4; j++) {
        s[j] = (uint8_t)(scale[j] | scale[j + 4] >> 4 << 6);
        s[j + 4] = (uint8_t)(min[j] | min[j + 4] >> 4 << 6);
        s[j + 8] = (uint8_t)((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
    }
}

static void Q2_K(uint8_t *b, const float *x)
{
    int scale[16], min[16];
    float d, dmin;
    affine_scales(x, 16, 3, 15, &d, &dmin, scale, min, b + 80, b + 82);
    for (int j = 0; j < 16; j++) b[j] = (uint8_t)(scale[j] | min[j] << 4);
    for (int i = 0; i < 256; i++) {
        const int j = i / 16, q = clamp((x[i] + dmin * (float)min[j]) * inverse(d * (float)scale[j]), 0, 3);
        or_bits(&b[16 + 32 * (i / 128) + i % 32], q, 2 * (i / 32 % 4));
    }
}
static void Q3_K(uint8_t *b, const float *x)
{
    int scale[16];
    const float d = signed_scales(x, 16, 4, 32, scale, b + 108);
    for (int j = 0; j < 16; j++) {
        const int code = scale[j] + 32;
        or_bits(&b[96 + j % 8], code & 15, j < 8 ? 0 : 4);
        or_bits(&b[104 + j % 4], code >> 4, 2 * (j / 4));
    }
    for (int i = 0; i < 256; i++) {
        const int q = clamp(x[i] * inverse(d * (float)scale[i / 16]), -4, 3) + 4;
        or_bits(&b[32 + 32 * (i / 128) + i % 32], q & 3, 2 * (i / 32 % 4));
        or_bits(&b[i % 32], q >> 2, i / 32);
    }
}
/* Computes the codes of a block of Q4_K or Q5_K and writes its scales. */
static void k4_codes(int *code, uint8_t *b, const float *x, int levels)
{
    int scale[16], min[16];
    float d, dmin;
    affine_scales(x, 8, levels, 63, &d, &dmin, scale, min, b, b + 2);
    put_k4_scales(b + 4, scale, min);
    for (int i = 0; i < 256; i++) code[i] = clamp((x[i] + dmin * (float)min[i / 32]) * inverse(d * (float)scale[i / 32]), 0, levels);
}
static void Q4_K(uint8_t *b, const float *x)
{
    int code[256];
    k4_codes(code, b, x, 15);
    for (int i = 0; i < 256; i++) or_bits(&b[16 + 32 * (i / 64) + i % 32], code[i], 4 * (i / 32 % 2));
}
static void Q5_K(uint8_t *b, const float *x)
{
    int code[256];
    k4_codes(code, b, x, 31);
    for (int i = 0; i < 256; i++) {
        or_bits(&b[48 + 32 * (i / 64) + i % 32], code[i] & 15, 4 * (i / 32 % 2));
        or_bits(&b[16 + i % 32], code[i] >> 4, i / 32);
    }
}
static void Q6_K(uint8_t *b, const float *x)
{
    int scale[16];
    const float d = signed_scales(x, 16, 32, 128, scale, b + 208);
    for (int j = 0; j < 16; j++) b[192 + j] = (uint8_t)(int8_t)scale[j];
    for (int i = 0; i < 256; i++) {
        const int q = clamp(x[i] * inverse(d * (float)scale[i / 16]), -32, 31) + 32, h = i / 128, quarter = i / 32 % 4;
        or_bits(&b[64 * h + 32 * (quarter % 2) + i % 32], q & 15, quarter < 2 ? 0 : 4);
        or_bits(&b[128 + 32 * h + i % 32], q >> 4, 2 * quarter);
    }
}
static void IQ4_XS(uint8_t *b, const float *x)
{
    int scale[16];
    const float d = signed_scales(x, 8, 127, 32, scale, b);
    for (int j = 0; j < 8; j++) {
        const int code = scale[j] + 32;
        or_bits(&b[4 + j / 2], code & 15, 4 * (j % 2));
        or_bits(&b[2 + j / 4], code >> 4, 2 * (j % 4));
    }
    for (int i = 0; i < 256; i++) put_nibble(b + 8 + 16 * (i / 32), i % 32, nearest(iq4, x[i] * inverse(d * (float)scale[i / 32])));
}
/* The grid entry nearest to |x| * inv; an entry has n columns (4 or 8), and the digit of a column selects a level. */
static int nearest_of_grid(const float *x, float inv, const uint16_t *grid, int entries, int n, const float *levels)
{
    float square[8][16], least = INFINITY;               /* squared distance to each level */
    int best = 0;
    for (int k = 0; k < n; k++)
        for (int v = 0; v < (n == 8 ? 3 : 8); v++) square[k][v] = (fabsf(x[k]) * inv - levels[v]) * (fabsf(x[k]) * inv - levels[v]);
    for (int g = 0; g < entries; g++) {
        float error = 0;
        for (int k = 0; k < n; k++) error += square[k][grid[g] >> 16 / n * k & ((1 << 16 / n) - 1)];
        if (error < least) best = g, least = error;
    }
    return best;
}
static int minus_bits(const float *x)                    /* sign bits of eight values */
{
    int bits = 0;
    for (int k = 0; k < 8; k++) bits |= (signbit(x[k]) ? 1 : 0) << k;
    return bits;
}
/* Seven of eight signs; parity gives the eighth.  If an odd number of signs are minus, the value of smallest magnitude gets the wrong
 * sign. */
static unsigned seven_signs(const float *x)
{
    int bits = minus_bits(x), smallest = 0, odd = 0;
    for (int k = 0; k < 8; k++) {
        odd ^= bits >> k & 1;
        if (fabsf(x[k]) < fabsf(x[smallest])) smallest = k;
    }
    return (unsigned)(bits ^ odd << smallest) & 127;
}
static void or_word(uint8_t *p, unsigned value)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(p[i] | value >> 8 * i);
}
/* Scales 2 s + 1 with s of four bits: the s for n values with a largest magnitude of `top` steps. */
static int odd_scale(const float *x, int n, float d, float top) { return clamp((fabsf(extreme(x, n)) / top * inverse(d) - 1) / 2, 0, 15); }

static const float levels2[3] = { 1, 25 / 8.0f, 43 / 8.0f }, levels3[8] = { 1, 3, 5, 7, 9, 11, 13, 15.5f },
                   odd_levels[8] = { 1, 3, 5, 7, 9, 11, 13, 15 };

static void IQ2_XXS(uint8_t *b, const float *x)
{
    const float d = put_half(b, fabsf(extreme(x, 256)) / (levels2[2] * 31));
    for (int j = 0; j < 8; j++, x += 32) {
        const int s = odd_scale(x, 32, d, levels2[2]);
        unsigned signs = (unsigned)s << 28;
        for (int k = 0; k < 4; k++) {
            b[2 + 8 * j + k] = (uint8_t)nearest_of_grid(x + 8 * k, inverse(d * (float)(1 + 2 * s)), grid_iq2_xxs, 256, 8, levels2);
            signs |= seven_signs(x + 8 * k) << 7 * k;
        }
        or_word(b + 2 + 8 * j + 4, signs);
    }
}
static void IQ2_XS(uint8_t *b, const float *x)
{
    const float d = put_half(b, fabsf(extreme(x, 256)) / (levels2[2] * 31));
    for (int i = 0; i < 32; i++, x += 8) {
        const int s = odd_scale(x - i % 2 * 8, 16, d, levels2[2]);
        const int g = nearest_of_grid(x, inverse(d * (float)(1 + 2 * s)), grid_iq2_xs, 512, 8, levels2);
        const unsigned word = (unsigned)g | seven_signs(x) << 9;
        b[2 + 2 * i] = (uint8_t)word;
        b[3 + 2 * i] = (uint8_t)(word >> 8);
        if (i % 2 == 0) or_bits(&b[66 + i / 4], s, i / 2 % 2 * 4);
    }
}
static void IQ2_S(uint8_t *b, const float *x)
{
    const float d = put_half(b, fabsf(extreme(x, 256)) / (levels2[2] * 31));
    for (int i = 0; i < 32; i++, x += 8) {
        const int s = odd_scale(x - i % 2 * 8, 16, d, levels2[2]);
        const int g = nearest_of_grid(x, inverse(d * (float)(1 + 2 * s)), grid_iq2_s, 1024, 8, levels2);
        b[2 + i] = (uint8_t)g;
        b[34 + i] = (uint8_t)minus_bits(x);
        or_bits(&b[66 + i / 4], g >> 8, i % 4 * 2);
        if (i % 2 == 0) or_bits(&b[74 + i / 4], s, i / 2 % 2 * 4);
    }
}
static void IQ3_XXS(uint8_t *b, const float *x)
{
    const float d = put_half(b, fabsf(extreme(x, 256)) / (levels3[7] * 31));
    for (int j = 0; j < 8; j++, x += 32) {
        const int s = odd_scale(x, 32, d, levels3[7]);
        unsigned signs = (unsigned)s << 28;
        for (int k = 0; k < 8; k++)
            b[2 + 8 * j + k] = (uint8_t)nearest_of_grid(x + 4 * k, inverse(d * (float)(1 + 2 * s)), grid_iq3_xxs, 256, 4, levels3);
        for (int k = 0; k < 4; k++) signs |= seven_signs(x + 8 * k) << 7 * k;
        or_word(b + 66 + 4 * j, signs);
    }
}
static void IQ3_S(uint8_t *b, const float *x)
{
    const float d = put_half(b, fabsf(extreme(x, 256)) / (15 * 31));
    for (int i = 0; i < 256; i += 4) {
        const int j = i / 32, s = odd_scale(x + 32 * j, 32, d, 15);
        const int g = nearest_of_grid(x + i, inverse(d * (float)(1 + 2 * s)), grid_iq3_s, 512, 4, odd_levels);
        b[2 + i / 4] = (uint8_t)g;
        or_bits(&b[66 + j], g >> 8, i / 4 % 8);
        for (int k = i; k < i + 4; k++) or_bits(&b[74 + k / 8], signbit(x[k]) ? 1 : 0, k % 8);
        if (i % 32 == 0) or_bits(&b[106 + j / 2], s, 4 * (j % 2));
    }
}

/* ---- levels -1, 0, 1: a step is most of the extreme value ---- */

static const float levels1[3] = { -1, 0, 1 };
/* The grid entry of eight columns (-1, 0, 1) that, shifted by +1/8 or -1/8, is nearest to x * inv; *minus: the shift is -1/8. */
static int nearest_of_iq1(const float *x, float inv, int *minus)
{
    float least = INFINITY;
    int best = 0;
    for (int m = 0; m < 2; m++) {
        float square[8][3];
        for (int k = 0; k < 8; k++)
            for (int v = 0; v < 3; v++) {
                const float e = x[k] * inv - (levels1[v] + (m ? -0.125f : 0.125f));
                square[k][v] = e * e;
            }
        for (int g = 0; g < 2048; g++) {
            float error = 0;
            for (int k = 0; k < 8; k++) error += square[k][grid_iq1[g] >> 2 * k & 3];
            if (error < least) best = g, least = error, *minus = m;
        }
    }
    return best;
}
/* Scales 2 s + 1 with s of three bits. */
static int iq1_scale(const float *x, int n, float d) { return clamp((0.6f * fabsf(extreme(x, n)) * inverse(d) - 1) / 2, 0, 7); }

static void IQ1_S(uint8_t *b, const float *x)
{
    const float d = put_half(b, 0.6f * fabsf(extreme(x, 256)) / 15);
    for (int j = 0; j < 8; j++, x += 32) {
        const int s = iq1_scale(x, 32, d);
        int index[4], minus[4], n_minus = 0, word = s << 12;
        for (int k = 0; k < 4; k++) {
            index[k] = nearest_of_iq1(x + 8 * k, inverse(d * (float)(2 * s + 1)), &minus[k]);
            n_minus += minus[k];
            b[2 + 4 * j + k] = (uint8_t)index[k];
            word |= index[k] >> 8 << 3 * k;
        }
        if (n_minus > 2) word |= 0x8000;                 /* all four share a sign */
        b[34 + 2 * j] = (uint8_t)word;
        b[35 + 2 * j] = (uint8_t)(word >> 8);
    }
}
static void IQ1_M(uint8_t *b, const float *x)
{
    uint8_t half[2];
    const float d = put_half(half, 0.6f * fabsf(extreme(x, 256)) / 15);
    for (int j = 0; j < 4; j++) or_bits(&b[49 + 2 * j], half[j / 2] >> 4 * (j % 2) & 15, 4);
    for (int i = 0; i < 32; i++, x += 8) {
        const int s = iq1_scale(x - i % 2 * 8, 16, d), at = 3 * (i / 2 % 4);
        int minus = 0;
        const int index = nearest_of_iq1(x, inverse(d * (float)(2 * s + 1)), &minus);
        b[i] = (uint8_t)index;
        or_bits(&b[32 + i / 2], index >> 8 | minus << 3, 4 * (i % 2));
        if (i % 2) continue;
        b[48 + i / 8 * 2] = (uint8_t)(b[48 + i / 8 * 2] | s << at);
        b[49 + i / 8 * 2] = (uint8_t)(b[49 + i / 8 * 2] | s << at >> 8);
    }
}
/* -1, 0, 1 coded as 0, 1, 2. */
static int ternary(float x, float d) { return clamp(x * inverse(d), -1, 1) + 1; }
static void TQ2_0(uint8_t *b, const float *x)
{
    const float d = put_half(b + 64, 0.5f * fabsf(extreme(x, 256)));
    for (int i = 0; i < 256; i++) or_bits(&b[32 * (i / 128) + i % 32], ternary(x[i], d), 2 * (i / 32 % 4));
}
/* A byte with n digits to base 3: the smallest byte b for which b / 256 is at least the fraction of the digits. */
static uint8_t digits_byte(const int *digit, int n)
{
    int number = 0;
    for (int k = 0; k < 5; k++) number = 3 * number + (k < n ? digit[k] : 0);
    return (uint8_t)((number * 256 + 242) / 243);
}
static void TQ1_0(uint8_t *b, const float *x)
{
    static const struct { int first, bytes, digits; } part[3] = { { 0, 32, 5 }, { 160, 16, 5 }, { 240, 4, 4 } };
    const float d = put_half(b + 52, 0.5f * fabsf(extreme(x, 256)));
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < part[p].bytes; i++, b++) {
            int digit[5] = { 0 };
            for (int k = 0; k < part[p].digits; k++) digit[k] = ternary(x[part[p].first + part[p].bytes * k + i], d);
            *b = digits_byte(digit, part[p].digits);
        }
}
static void Q1_0(uint8_t *b, const float *x)
{
    float sum = 0;
    for (int i = 0; i < 128; i++) sum += fabsf(x[i]);
    put_half(b, sum / 128);
    for (int i = 0; i < 128; i++) or_bits(&b[2 + i / 8], x[i] > 0, i % 8);
}
static void Q2_0(uint8_t *b, const float *x)             /* levels -1 .. 2 */
{
    const float d = put_half(b, extreme(x, 64) * 0.5f);
    for (int i = 0; i < 64; i++) or_bits(&b[2 + i / 4], clamp(x[i] * inverse(d), -1, 2) + 1, 2 * (i % 4));
}
static void NVFP4(uint8_t *b, const float *x)
{
    for (int j = 0; j < 4; j++, x += 16) {
        const float most = fabsf(extreme(x, 16)) / 6;    /* the largest code is 6 */
        int e = 0, scale = 0;
        if (most > 0) {
            frexpf(most, &e);                            /* most = 0.5..1 * 2^e */
            scale = e < -5 ? clamp(ldexpf(most, 9), 0, 7) : clamp(ldexpf(most, 4 - e), 8, 16) + 8 * (e + 5);
        }
        b[j] = (uint8_t)(scale > 0x7e ? 0x7e : scale);
        const float d = scale < 8 ? ldexpf((float)scale, -9) : ldexpf((float)(8 + b[j] % 8), b[j] / 8 - 10);
        for (int k = 0; k < 16; k++) or_bits(&b[4 + 8 * j + k % 8], nearest(fp4, x[k] * inverse(0.5f * d)), 4 * (k / 8));
    }
}

void quantize_row(enum quant quant, uint8_t *blocks, const float *x, uint64_t n)
{
    static const struct { uint32_t weights, bytes; void (*put)(uint8_t *block, const float *x); } all[QUANT_IDS] = {
#define QUANT(name, file, id, weights, bytes, number, at, at2) [id] = { weights, bytes, name },
#include "compiler/format/format.def"
    };
    const uint32_t weights = all[quant].weights, bytes = all[quant].bytes;
    memset(blocks, 0, n / weights * bytes);
    for (uint64_t i = 0; i < n; i += weights, blocks += bytes) all[quant].put(blocks, x + i);
}
