/* valu_convert.c -- conversions, rounding to integers, and the transcendental functions of the vector ALU.
 *
 * Sources: RDNA3 ISA 16.7 to 16.9 (VOP1 to VOP3), CDNA3 ISA 12.7 to 12.9.  One line of the list is one instruction.
 *
 * v_exp, v_log, v_rcp, v_rsq, v_sqrt, v_sin, v_cos of f32 and f16: the chips promise 1 ULP (v_sin and v_cos less).  Here the result is
 * computed in f64 with an error of some 1e-13 and rounded, so it is correctly rounded except for about one argument in a million.  The f32
 * versions take denormal arguments as zero and flush denormal results whatever MODE says (LLVM, AMDGPUCodeGenPrepare: "v_rcp_f32 and
 * v_rsq_f32 do not support denormals").  v_rcp, v_rsq, v_sqrt of f64 promise 2^29 ULP: here their result has exactly 24 good bits, so
 * code that does not refine it gives visibly wrong results.
 *
 * Rounding is to nearest even: wave.c stops a launch in another mode.  v_cvt_pk_u8_f32, v_cvt_pk_fp8_f32 and the stochastic v_cvt_sr_* are
 * left out: no document says how the first one rounds, and clang emits none of these without a builtin. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"     /* sqrt may set errno: those loops stay scalar; the divider limits them anyway */
#else
#pragma GCC optimize("no-trapping-math")             /* floor and rint of rows vectorise only then; exception flags are not read */
#endif
#include "gfxsim.h"
#include "numbers.h"

/* ---- f32, f64 ---- */

static inline float flush(float f)                    /* a denormal becomes zero with its sign */
{
    uint32_t u = f32_bits(f);
    return bits_f32(u & (0x80000000u | ~less(u & 0x7fffffffu, 0x00800000u)));
}

static inline float flushed(double f)                 /* to f32 */
{
    return flush((float)f);
}

/* The 24 leading bits of the mantissa; denormals and NaN stay unchanged. */
static inline double approximate(double f)
{
    uint64_t u = f64_bits(f), x = u & 0x7fffffffffffffffull, keep = less64(0x7ff0000000000000ull, x) | less64(x, 1ull << 52);
    return bits_f64(choose64(keep, (u + ((1ull << 28) - 1) + (u >> 29 & 1)) & ~((1ull << 29) - 1), u));
}

/* 2^x: 2^k times the Taylor series of 2^r, |r| <= 1/2; the remainder is below 2e-13. */
static inline double exp2_near(double x)
{
    double low = x < -400.0 ? -400.0 : x, y = low > 400.0 ? 400.0 : low;           /* NaN stays */
    double t = y + 0x1.8p52, r = y - (t - 0x1.8p52);                               /* k is in the low bits of t */
    double scale = bits_f64((f64_bits(t) + 1023) << 52);
    double p = 7.0549116208011233e-09;                                             /* ln(2)^n / n!, n from 10 */
    p = fma(p, r, 1.0178086009239700e-07); p = fma(p, r, 1.3215486790144309e-06);
    p = fma(p, r, 1.5252733804059840e-05); p = fma(p, r, 1.5403530393381609e-04);
    p = fma(p, r, 1.3333558146428443e-03); p = fma(p, r, 9.6181291076284772e-03);
    p = fma(p, r, 5.5504108664821580e-02); p = fma(p, r, 2.4022650695910071e-01);
    p = fma(p, r, 6.9314718055994531e-01); p = fma(p, r, 1.0);
    return p * scale;
}

/* log2 of a normal f32: exponent plus 2 atanh(s) / ln 2, s = (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2)). */
static inline double log2_near(float f)
{
    float x = flush(f);
    uint32_t u = f32_bits(x);
    int32_t e = (int32_t)(u - 0x3f3504f3u) >> 23;
    double m = bits_f32(u - ((uint32_t)e << 23)), s = (m - 1.0) / (m + 1.0), q = s * s;
    double p = 1.0 / 15;
    p = fma(p, q, 1.0 / 13); p = fma(p, q, 1.0 / 11); p = fma(p, q, 1.0 / 9);
    p = fma(p, q, 1.0 / 7);  p = fma(p, q, 1.0 / 5);  p = fma(p, q, 1.0 / 3);
    p = fma(p, q, 1.0);
    double r = fma(2.8853900817779268, p * s, (double)e);                          /* 2 / ln 2 */
    r = x == 0.0f ? -INFINITY : r;
    r = x < 0.0f ? NAN : r;
    return x < INFINITY ? r : (double)x;                                            /* infinity, NaN */
}

/* sin(2 pi r), |r| <= 1/4: Taylor series to r^21. */
static inline double sin_quarter(double r)
{
    double t = r * 6.2831853071795865, q = t * t;
    double p = 1.0 / 51090942171709440000.0;
    p = fma(p, q, -1.0 / 121645100408832000.0); p = fma(p, q, 1.0 / 355687428096000.0); p = fma(p, q, -1.0 / 1307674368000.0);
    p = fma(p, q, 1.0 / 6227020800.0);          p = fma(p, q, -1.0 / 39916800.0);       p = fma(p, q, 1.0 / 362880.0);
    p = fma(p, q, -1.0 / 5040.0);               p = fma(p, q, 1.0 / 120.0);             p = fma(p, q, -1.0 / 6.0);
    return fma(t * q, p, t);
}

/* The argument is in revolutions.  The reduction is exact for every finite f32. */
static inline double sin_turns(double x)
{
    double r = x - rint(x), half = r < 0.0 ? -0.5 : 0.5;
    return sin_quarter(fabs(r) > 0.25 ? half - r : r);
}
static inline double cos_turns(double x)
{
    return sin_quarter(0.25 - fabs(x - rint(x)));
}

/* x less its floor; below 1 even if the subtraction rounds up: LLVM makes v_fract of min(x - floor(x), the largest number below 1). */
static inline float fract_f32(float x, float most)
{
    float r = x - floorf(x);
    return r > most ? most : r;
}
static inline double fract_f64(double x)
{
    double r = x - floor(x);
    return r > 0x1.fffffffffffffp-1 ? 0x1.fffffffffffffp-1 : r;
}

/* ---- integers ---- */

static inline int32_t clamp_i32(int32_t x, int32_t low, int32_t high) { return x < low ? low : x > high ? high : x; }
static inline uint32_t pack(uint32_t low, uint32_t high) { return (low & 0xffffu) | high << 16; }

static inline uint32_t sat_i16(int32_t x)   { return (uint32_t)clamp_i32(x, -32768, 32767) & 0xffffu; }
static inline uint32_t sat_u16(uint32_t x)  { return x > 0xffffu ? 0xffffu : x; }
static inline uint32_t f32_to_i16(float f)  { return sat_i16((int32_t)f32_to_i32(f)); }
static inline uint32_t f32_to_u16(float f)  { return sat_u16(f32_to_u32(f)); }
static inline uint32_t f32_to_snorm(float f) { return f32_to_i16(rintf(f < -1.0f ? -32767.0f : f * 32767.0f)); }
static inline uint32_t f32_to_unorm(float f) { return f32_to_u16(rintf(f * 65535.0f)); }
static inline uint32_t i16_to_u8(int32_t x) { return (uint32_t)clamp_i32(x, 0, 255); }
static inline int32_t  i4_of(uint32_t x)    { return (int32_t)(x << 28) >> 28; }

/* ---- the list ----
 * OP(name, class, type of the result, types of x, y, z, result).  f16 is computed as f32. */
#define CONVERT_LIST(OP) \
    OP(v_cvt_f32_i32, VALU, F32, I32, NONE, NONE, (float)x) \
    OP(v_cvt_f32_u32, VALU, F32, U32, NONE, NONE, (float)x) \
    OP(v_cvt_i32_f32, VALU, I32, F32, NONE, NONE, f32_to_i32(x)) \
    OP(v_cvt_u32_f32, VALU, U32, F32, NONE, NONE, f32_to_u32(x)) \
    OP(v_cvt_f64_f32, VALU, F64, F32, NONE, NONE, (double)x) \
    OP(v_cvt_f32_f64, VALU, F32, F64, NONE, NONE, (float)x) \
    OP(v_cvt_f64_i32, VALU, F64, I32, NONE, NONE, (double)x) \
    OP(v_cvt_f64_u32, VALU, F64, U32, NONE, NONE, u32_to_f64(x)) \
    OP(v_cvt_i32_f64, VALU, I32, F64, NONE, NONE, f64_to_i32(x)) \
    OP(v_cvt_u32_f64, VALU, U32, F64, NONE, NONE, f64_to_u32(x)) \
    OP(v_cvt_f16_f32, VALU, F16, F32, NONE, NONE, x) \
    OP(v_cvt_f32_f16, VALU, F32, F16, NONE, NONE, x) \
    OP(v_cvt_f16_i16, VALU, F16, I16, NONE, NONE, (float)x) \
    OP(v_cvt_f16_u16, VALU, F16, U16, NONE, NONE, (float)x) \
    OP(v_cvt_i16_f16, VALU, I16, F16, NONE, NONE, f32_to_i16(x)) \
    OP(v_cvt_u16_f16, VALU, U16, F16, NONE, NONE, f32_to_u16(x)) \
    OP(v_cvt_i32_i16, VALU, I32, I16, NONE, NONE, x) \
    OP(v_cvt_u32_u16, VALU, U32, U16, NONE, NONE, x) \
    OP(v_cvt_f32_ubyte0, VALU, F32, U32, NONE, NONE, (float)(int32_t)(x & 255u)) \
    OP(v_cvt_f32_ubyte1, VALU, F32, U32, NONE, NONE, (float)(int32_t)(x >> 8 & 255u)) \
    OP(v_cvt_f32_ubyte2, VALU, F32, U32, NONE, NONE, (float)(int32_t)(x >> 16 & 255u)) \
    OP(v_cvt_f32_ubyte3, VALU, F32, U32, NONE, NONE, (float)(int32_t)(x >> 24)) \
    OP(v_cvt_off_f32_i4, VALU, F32, U32, NONE, NONE, (float)i4_of(x) * 0.0625f) \
    OP(v_cvt_nearest_i32_f32, VALU, I32, F32, NONE, NONE, f32_to_i32(floorf(x + 0.5f))) /* RDNA3 */ \
    OP(v_cvt_rpi_i32_f32, VALU, I32, F32, NONE, NONE, f32_to_i32(floorf(x + 0.5f)))     /* CDNA3 */ \
    OP(v_cvt_floor_i32_f32, VALU, I32, F32, NONE, NONE, f32_to_i32(floorf(x)))          /* RDNA3 */ \
    OP(v_cvt_flr_i32_f32, VALU, I32, F32, NONE, NONE, f32_to_i32(floorf(x)))            /* CDNA3 */ \
    OP(v_cvt_pk_rtz_f16_f32, VALU, PKF16, F32, F32, NONE, pack(f32_to_f16_rtz(x), f32_to_f16_rtz(y))) \
    OP(v_cvt_pkrtz_f16_f32, VALU, PKF16, F32, F32, NONE, pack(f32_to_f16_rtz(x), f32_to_f16_rtz(y))) \
    OP(v_cvt_pk_i16_i32, VALU, PK16, I32, I32, NONE, pack(sat_i16(x), sat_i16(y))) \
    OP(v_cvt_pk_u16_u32, VALU, PK16, U32, U32, NONE, pack(sat_u16(x), sat_u16(y))) \
    OP(v_cvt_pk_i16_f32, VALU, PK16, F32, F32, NONE, pack(f32_to_i16(x), f32_to_i16(y))) \
    OP(v_cvt_pk_u16_f32, VALU, PK16, F32, F32, NONE, pack(f32_to_u16(x), f32_to_u16(y))) \
    OP(v_cvt_pk_norm_i16_f32, VALU, PK16, F32, F32, NONE, pack(f32_to_snorm(x), f32_to_snorm(y))) \
    OP(v_cvt_pk_norm_u16_f32, VALU, PK16, F32, F32, NONE, pack(f32_to_unorm(x), f32_to_unorm(y))) \
    OP(v_cvt_pk_norm_i16_f16, VALU, PK16, F16, F16, NONE, pack(f32_to_snorm(x), f32_to_snorm(y))) \
    OP(v_cvt_pk_norm_u16_f16, VALU, PK16, F16, F16, NONE, pack(f32_to_unorm(x), f32_to_unorm(y))) \
    OP(v_cvt_pknorm_i16_f32, VALU, PK16, F32, F32, NONE, pack(f32_to_snorm(x), f32_to_snorm(y))) \
    OP(v_cvt_pknorm_u16_f32, VALU, PK16, F32, F32, NONE, pack(f32_to_unorm(x), f32_to_unorm(y))) \
    OP(v_cvt_pknorm_i16_f16, VALU, PK16, F16, F16, NONE, pack(f32_to_snorm(x), f32_to_snorm(y))) \
    OP(v_cvt_pknorm_u16_f16, VALU, PK16, F16, F16, NONE, pack(f32_to_unorm(x), f32_to_unorm(y))) \
    OP(v_cvt_norm_i16_f16, VALU, I16, F16, NONE, NONE, f32_to_snorm(x)) \
    OP(v_cvt_norm_u16_f16, VALU, U16, F16, NONE, NONE, f32_to_unorm(x)) \
    OP(v_sat_pk_u8_i16, VALU, U16, PK16, NONE, NONE, i16_to_u8((int16_t)x) | i16_to_u8((int32_t)x >> 16) << 8) \
    OP(v_cvt_f32_fp8, VALU, F32, U32, NONE, NONE, fp8_to_f32(x)) \
    OP(v_cvt_f32_bf8, VALU, F32, U32, NONE, NONE, bf8_to_f32(x)) \
    OP(v_cvt_pk_f32_fp8, VALU, PKF32, U32, NONE, NONE, ((struct pair){ fp8_to_f32(x), fp8_to_f32(x >> 8) })) \
    OP(v_cvt_pk_f32_bf8, VALU, PKF32, U32, NONE, NONE, ((struct pair){ bf8_to_f32(x), bf8_to_f32(x >> 8) })) \
    OP(v_trunc_f32, VALU, F32, F32, NONE, NONE, truncf(x)) \
    OP(v_ceil_f32, VALU, F32, F32, NONE, NONE, ceilf(x)) \
    OP(v_rndne_f32, VALU, F32, F32, NONE, NONE, rintf(x)) \
    OP(v_floor_f32, VALU, F32, F32, NONE, NONE, floorf(x)) \
    OP(v_fract_f32, VALU, F32, F32, NONE, NONE, fract_f32(x, 0x1.fffffep-1f)) \
    OP(v_trunc_f64, VALU, F64, F64, NONE, NONE, trunc(x)) \
    OP(v_ceil_f64, VALU, F64, F64, NONE, NONE, ceil(x)) \
    OP(v_rndne_f64, VALU, F64, F64, NONE, NONE, rint(x)) \
    OP(v_floor_f64, VALU, F64, F64, NONE, NONE, floor(x)) \
    OP(v_fract_f64, VALU, F64, F64, NONE, NONE, fract_f64(x)) \
    OP(v_trunc_f16, VALU, F16, F16, NONE, NONE, truncf(x)) \
    OP(v_ceil_f16, VALU, F16, F16, NONE, NONE, ceilf(x)) \
    OP(v_rndne_f16, VALU, F16, F16, NONE, NONE, rintf(x)) \
    OP(v_floor_f16, VALU, F16, F16, NONE, NONE, floorf(x)) \
    OP(v_fract_f16, VALU, F16, F16, NONE, NONE, fract_f32(x, 0x1.ffcp-1f)) \
    OP(v_exp_f32, TRANS, F32, F32, NONE, NONE, flushed(exp2_near((double)x))) \
    OP(v_log_f32, TRANS, F32, F32, NONE, NONE, flushed(log2_near(x))) \
    OP(v_rcp_f32, TRANS, F32, F32, NONE, NONE, flush(1.0f / flush(x))) \
    OP(v_rcp_iflag_f32, TRANS, F32, F32, NONE, NONE, flush(1.0f / flush(x))) \
    OP(v_rsq_f32, TRANS, F32, F32, NONE, NONE, (float)(1.0 / sqrt((double)flush(x)))) \
    OP(v_sqrt_f32, TRANS, F32, F32, NONE, NONE, sqrtf(flush(x))) \
    OP(v_sin_f32, TRANS, F32, F32, NONE, NONE, flushed(sin_turns((double)flush(x)))) \
    OP(v_cos_f32, TRANS, F32, F32, NONE, NONE, flushed(cos_turns((double)flush(x)))) \
    OP(v_exp_f16, TRANS, F16, F16, NONE, NONE, (float)exp2_near((double)x)) \
    OP(v_log_f16, TRANS, F16, F16, NONE, NONE, (float)log2_near(x)) \
    OP(v_rcp_f16, TRANS, F16, F16, NONE, NONE, 1.0f / x) \
    OP(v_rsq_f16, TRANS, F16, F16, NONE, NONE, (float)(1.0 / sqrt((double)x))) \
    OP(v_sqrt_f16, TRANS, F16, F16, NONE, NONE, sqrtf(x)) \
    OP(v_sin_f16, TRANS, F16, F16, NONE, NONE, (float)sin_turns((double)x)) \
    OP(v_cos_f16, TRANS, F16, F16, NONE, NONE, (float)cos_turns((double)x)) \
    OP(v_rcp_f64, TRANS, F64, F64, NONE, NONE, approximate(1.0 / x)) \
    OP(v_rsq_f64, TRANS, F64, F64, NONE, NONE, approximate(1.0 / sqrt(x))) \
    OP(v_sqrt_f64, TRANS, F64, F64, NONE, NONE, approximate(sqrt(x)))

/* ---- lanes: how each type is read and written ---- */

struct pair { float low, high; };
static inline double get_f64(const uint32_t *a, uint32_t i, uint32_t n) { return bits_f64((uint64_t)a[n + i] << 32 | a[i]); }
static inline void put_f64(uint32_t *d, uint32_t i, uint32_t n, double r)
{
    uint64_t u = f64_bits(r);
    d[i] = (uint32_t)u;
    d[n + i] = (uint32_t)(u >> 32);
}

#define GET_F64(v, p)  const double   v = get_f64(p, i, n);
#define GET_F32(v, p)  const float    v = bits_f32((p)[i]);
#define GET_F16(v, p)  const float    v = f16_to_f32((p)[i]);
#define GET_I32(v, p)  const int32_t  v = (int32_t)(p)[i];
#define GET_U32(v, p)  const uint32_t v = (p)[i];
#define GET_PK16(v, p) const uint32_t v = (p)[i];
#define GET_I16(v, p)  const int16_t  v = (int16_t)(p)[i];
#define GET_U16(v, p)  const uint16_t v = (uint16_t)(p)[i];
#define GET_NONE(v, p) (void)(p);

#define PUT_F64(r)   put_f64(d, i, n, r);
#define PUT_F32(r)   d[i] = f32_bits(r);
#define PUT_F16(r)   d[i] = f32_to_f16(r);
#define PUT_I32(r)   d[i] = (uint32_t)(r);
#define PUT_U32(r)   d[i] = (uint32_t)(r);
#define PUT_I16(r)   d[i] = (r) & 0xffffu;
#define PUT_U16(r)   d[i] = (r) & 0xffffu;
#define PUT_PK16(r)  d[i] = (r);
#define PUT_PKF16(r) d[i] = (r);
#define PUT_PKF32(r) const struct pair both = (r); d[i] = f32_bits(both.low); d[n + i] = f32_bits(both.high);

/* A lane reads and writes its own column only, so lanes are independent even if source and result are the same rows. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define LANES(NAME, CLASS, D, X, Y, Z, RESULT) \
    static inline __attribute__((always_inline)) void NAME##_n(uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c,       \
                                                               const uint32_t n)                                                           \
    { \
        INDEPENDENT for (uint32_t i = 0; i < n; i++) { GET_##X(x, a) GET_##Y(y, b) GET_##Z(z, c) PUT_##D(RESULT) } \
    } \
    static void NAME##_lanes(uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t n) \
    { \
        if (n == 64) NAME##_n(d, a, b, c, 64); else NAME##_n(d, a, b, c, 32); \
    }
CONVERT_LIST(LANES)

#define ROW(NAME, CLASS, D, X, Y, Z, RESULT) \
    { .name = #NAME, .run = run_valu, .lanes = NAME##_lanes, .class = CLASS_##CLASS, .dst = T_##D, .src = { T_##X, T_##Y, T_##Z } },
const struct op_info convert_ops[] = { CONVERT_LIST(ROW) };
const uint32_t n_convert_ops = sizeof convert_ops / sizeof convert_ops[0];
