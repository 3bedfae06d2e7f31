/* arm.c -- the functions that clang calls on 32-bit ARM and rv32 instead of emitting the code, so that an object needs neither
 * compiler-rt nor libgcc.  They are hidden; forgec makes them local.  (Run-time ABI for the Arm Architecture, IHI 0043, sections 4.2 to
 * 4.3.4.)  There is no arithmetic in float, because cores without it are not a target.  There is arithmetic in double, for cores with a
 * single-precision FPU (Cortex-M4).  These functions take the bits of doubles, because the base calling convention passes doubles that
 * way whatever the target's own convention is. */
#include "instance.h"
#include "freestanding.h"

#if defined(__riscv) && __riscv_xlen == 32
#define RV32
#endif
#if defined(__arm__) || defined(LIBRARY_TEST_ARM) || defined(RV32)

#define HELPER __attribute__((visibility("hidden"), used))
#define UP32(x) ((uint32_t)((x) >> 32))

/* ---- memory ---- */

#define MEMORY_FUNCTION(name, parameters, body) HELPER void name parameters; HELPER void name parameters { body; }
#define MEMORY(suffix) \
MEMORY_FUNCTION(__aeabi_memcpy##suffix, (void *to, const void *from, size_t n), memcpy(to, from, n)) \
MEMORY_FUNCTION(__aeabi_memmove##suffix, (void *to, const void *from, size_t n), memmove(to, from, n)) \
MEMORY_FUNCTION(__aeabi_memset##suffix, (void *to, size_t n, int byte), memset(to, byte, n)) \
MEMORY_FUNCTION(__aeabi_memclr##suffix, (void *to, size_t n), memset(to, 0, n))
MEMORY()
MEMORY(4)
MEMORY(8)

/* ---- 64-bit integers, word by word: a shift of the whole could become a call of the function itself ---- */

static uint64_t words(uint32_t high, uint32_t low)
{
    union { uint32_t w[2]; uint64_t all; } u = { { low, high } };
    return u.all;
}

HELPER uint64_t __aeabi_llsl(uint64_t x, int by);
HELPER uint64_t __aeabi_llsl(uint64_t x, int by)
{
    const uint32_t low = (uint32_t)x, high = UP32(x), n = (uint32_t)by & 63;
    if (n == 0) return x;
    return n >= 32 ? words(low << (n - 32), 0) : words(high << n | low >> (32 - n), low << n);
}

HELPER uint64_t __aeabi_llsr(uint64_t x, int by);
HELPER uint64_t __aeabi_llsr(uint64_t x, int by)
{
    const uint32_t low = (uint32_t)x, high = UP32(x), n = (uint32_t)by & 63;
    if (n == 0) return x;
    return n >= 32 ? words(0, high >> (n - 32)) : words(high >> n, low >> n | high << (32 - n));
}

HELPER uint64_t __aeabi_lasr(uint64_t x, int by);
HELPER uint64_t __aeabi_lasr(uint64_t x, int by)
{
    const uint64_t flip = UP32(x) >> 31 ? UINT64_MAX : 0;
    return __aeabi_llsr(x ^ flip, by) ^ flip;
}

struct divided { uint64_t quotient, remainder; };

/* One bit per step, from the dividend's highest bit.  Division by zero gives quotient 0 and the dividend as remainder. */
static struct divided divide(uint64_t n, uint64_t d)
{
    struct divided r = { 0, 0 };
    if (d == 0) return (struct divided){ 0, n };
    for (int bit = n == 0 ? -1 : 63 - __builtin_clzll(n); bit >= 0; bit--) {
        const uint64_t carry = r.remainder >> 63;
        r.remainder = r.remainder << 1 | (n >> bit & 1);
        r.quotient <<= 1;
        if (carry || r.remainder >= d) {
            r.remainder -= d;
            r.quotient |= 1;
        }
    }
    return r;
}

HELPER uint64_t arm_udivmod(uint64_t n, uint64_t d, uint64_t *remainder);
HELPER uint64_t arm_udivmod(uint64_t n, uint64_t d, uint64_t *remainder)
{
    const struct divided r = divide(n, d);
    *remainder = r.remainder;
    return r.quotient;
}

HELPER uint64_t arm_divmod(uint64_t n, uint64_t d, uint64_t *remainder);
HELPER uint64_t arm_divmod(uint64_t n, uint64_t d, uint64_t *remainder)
{
    const bool below = UP32(n) >> 31, other = UP32(d) >> 31;
    const struct divided r = divide(below ? 0 - n : n, other ? 0 - d : d);
    *remainder = below ? 0 - r.remainder : r.remainder;
    return below != other ? 0 - r.quotient : r.quotient;
}

#ifdef __arm__
/* Returns the quotient in r0:r1 and the remainder in r2:r3, which C cannot express.  Restores the stack; uses low registers only
 * (Thumb-1). */
#define DIVISION(name, function) \
HELPER __attribute__((naked)) void name(void); \
HELPER __attribute__((naked)) void name(void) \
{ \
    __asm__("push {r6, lr}\n\tsub sp, #16\n\tadd r6, sp, #8\n\tstr r6, [sp]\n\tbl " #function "\n\t" \
            "ldr r2, [sp, #8]\n\tldr r3, [sp, #12]\n\tadd sp, #16\n\tpop {r6, pc}"); \
}
DIVISION(__aeabi_uldivmod, arm_udivmod)
DIVISION(__aeabi_ldivmod, arm_divmod)
#endif

/* For cores without division of words (ARMv7-A without its extension).  Quotient and remainder are one 64-bit value in r0:r1. */
static uint64_t divide_words(uint32_t n, uint32_t d)
{
    uint32_t q = 0, r = 0;
    if (d == 0) return words(n, 0);
    for (int bit = 31; bit >= 0; bit--) {
        const uint32_t carry = r >> 31;
        r = r << 1 | (n >> bit & 1);
        q <<= 1;
        if (carry || r >= d) { r -= d; q |= 1; }
    }
    return words(r, q);
}

HELPER uint32_t __aeabi_uidiv(uint32_t n, uint32_t d);
HELPER uint32_t __aeabi_uidiv(uint32_t n, uint32_t d) { return (uint32_t)divide_words(n, d); }
HELPER uint64_t __aeabi_uidivmod(uint32_t n, uint32_t d);
HELPER uint64_t __aeabi_uidivmod(uint32_t n, uint32_t d) { return divide_words(n, d); }
HELPER uint64_t __aeabi_idivmod(uint32_t n, uint32_t d);
HELPER uint64_t __aeabi_idivmod(uint32_t n, uint32_t d)
{
    const bool below = n >> 31, other = d >> 31;
    const uint64_t r = divide_words(below ? 0 - n : n, other ? 0 - d : d);
    const uint32_t q = (uint32_t)r, rest = UP32(r);
    return words(below ? 0 - rest : rest, below != other ? 0 - q : q);
}
HELPER uint32_t __aeabi_idiv(uint32_t n, uint32_t d);
HELPER uint32_t __aeabi_idiv(uint32_t n, uint32_t d) { return (uint32_t)__aeabi_idivmod(n, d); }

/* ---- double, rounded to nearest, ties to even; subnormals are correct ---- */

#define SIGN     0x8000000000000000u
#define INFINITE 0x7ff0000000000000u
#define NAN_BITS 0x7ff8000000000000u
#define HIDDEN   0x0010000000000000u             /* the leading 1 of a normal number */

/* x >> n; the lowest bit is set if any 1 was shifted out. */
static uint64_t shift_sticky(uint64_t x, uint32_t n)
{
    if (n == 0) return x;
    return n >= 64 ? x != 0 : x >> n | ((x << (64 - n)) != 0);
}

/* m: a mantissa of 1 + 52 + 10 bits with its leading 1 at bit 62 or below; exponent: the one for a leading 1 at bit 62. */
static uint64_t pack(uint64_t sign, int32_t exponent, uint64_t m)
{
    if (m == 0) return sign;
    const int up = __builtin_clzll(m) - 1;
    m <<= up;
    exponent -= up;
    if (exponent >= 0x7ff) return sign | INFINITE;
    if (exponent <= 0) { m = shift_sticky(m, (uint32_t)(1 - exponent)); exponent = 0; } else exponent--;
    const uint64_t rest = m & 1023, whole = m >> 10;
    /* a carry correctly increments the exponent */
    return sign + ((uint64_t)(uint32_t)exponent << 52) + whole + (rest > 512 || (rest == 512 && (whole & 1)));
}

struct number { int32_t exponent; uint64_t m; };           /* m: 53 bits, or fewer for a subnormal, whose exponent is 1 */

static struct number unpack(uint64_t bits)
{
    const int32_t e = (int32_t)(UP32(bits) >> 20 & 0x7ff);
    const uint64_t m = bits & (HIDDEN - 1);
    return e == 0 ? (struct number){ 1, m } : (struct number){ e, m | HIDDEN };
}

HELPER uint64_t __aeabi_dadd(uint64_t a, uint64_t b);
HELPER uint64_t __aeabi_dadd(uint64_t a, uint64_t b)
{
    uint64_t x = a & ~SIGN, y = b & ~SIGN;
    if (x > INFINITE || y > INFINITE) return NAN_BITS;
    if (x < y) {                                 /* the larger first */
        uint64_t t = a; a = b; b = t;
        t = x; x = y; y = t;
    }
    if (x == INFINITE) return y == INFINITE && a != b ? NAN_BITS : a;
    if (y == 0) return x == 0 ? a & b : a;
    const struct number p = unpack(x), q = unpack(y);
    const uint64_t large = p.m << 9, small = shift_sticky(q.m << 9, (uint32_t)(p.exponent - q.exponent));
    if ((a ^ b) & SIGN) return large == small ? 0 : pack(a & SIGN, p.exponent + 1, large - small);
    return pack(a & SIGN, p.exponent + 1, large + small);
}

HELPER uint64_t __aeabi_dsub(uint64_t a, uint64_t b);
HELPER uint64_t __aeabi_dsub(uint64_t a, uint64_t b) { return __aeabi_dadd(a, b ^ SIGN); }

HELPER uint64_t __aeabi_dmul(uint64_t a, uint64_t b);
HELPER uint64_t __aeabi_dmul(uint64_t a, uint64_t b)
{
    const uint64_t sign = (a ^ b) & SIGN, x = a & ~SIGN, y = b & ~SIGN;
    if (x > INFINITE || y > INFINITE) return NAN_BITS;
    if (x == INFINITE || y == INFINITE) return x == 0 || y == 0 ? NAN_BITS : sign | INFINITE;
    if (x == 0 || y == 0) return sign;
    struct number p = unpack(x), q = unpack(y);
    const int up_p = __builtin_clzll(p.m), up_q = __builtin_clzll(q.m);
    p.m <<= up_p;                                /* leading 1 at bit 63, so in the upper half of the product it is at bit 63 or 62 */
    q.m <<= up_q;
    const uint64_t p0 = (uint32_t)p.m, p1 = p.m >> 32, q0 = (uint32_t)q.m, q1 = q.m >> 32;
    const uint64_t low = p0 * q0, cross = (low >> 32) + (uint32_t)(p1 * q0) + p0 * q1;
    const uint64_t high = (p1 * q0 >> 32) + (cross >> 32) + p1 * q1, rest = cross << 32 | (uint32_t)low;
    return pack(sign, p.exponent + q.exponent - up_p - up_q - 1000, shift_sticky(high, 1) | (rest != 0));
}

HELPER uint64_t __aeabi_f2d(uint32_t f);
HELPER uint64_t __aeabi_f2d(uint32_t f)
{
    const uint64_t sign = (uint64_t)(f >> 31) << 63, m = f & 0x7fffff;
    const int32_t e = (int32_t)(f >> 23 & 255);
    if (e == 255) return sign | (m ? NAN_BITS : INFINITE);
    if (e == 0) return pack(sign, 1 + 1023 - 127, m << 39);
    return sign | (uint64_t)(uint32_t)(e + 1023 - 127) << 52 | m << 29;
}

HELPER uint32_t __aeabi_d2f(uint64_t d);
HELPER uint32_t __aeabi_d2f(uint64_t d)
{
    const uint32_t sign = UP32(d) & 0x80000000u;
    const uint64_t x = d & ~SIGN;
    if (x > INFINITE) return 0x7fc00000u;
    const struct number n = unpack(x);
    int32_t exponent = n.exponent - 1023 + 127;
    if (exponent >= 255) return sign | 0x7f800000u;
    uint64_t m = n.m << 10;                      /* leading 1 at bit 62; a subnormal double is far below any subnormal float */
    if (exponent <= 0) { m = shift_sticky(m, (uint32_t)(1 - exponent)); exponent = 0; } else exponent--;
    const uint64_t rest = m & ((1ull << 39) - 1), half = 1ull << 38;
    const uint32_t whole = (uint32_t)(m >> 39);
    return sign + ((uint32_t)exponent << 23) + whole + (rest > half || (rest == half && (whole & 1)));
}

HELPER uint64_t __aeabi_ddiv(uint64_t a, uint64_t b);
HELPER uint64_t __aeabi_ddiv(uint64_t a, uint64_t b)
{
    const uint64_t sign = (a ^ b) & SIGN, x = a & ~SIGN, y = b & ~SIGN;
    if (x > INFINITE || y > INFINITE || (x == 0 && y == 0) || (x == INFINITE && y == INFINITE)) return NAN_BITS;
    if (x == INFINITE || y == 0) return sign | INFINITE;
    if (x == 0 || y == INFINITE) return sign;
    struct number p = unpack(x), q = unpack(y);
    const int up_p = __builtin_clzll(p.m), up_q = __builtin_clzll(q.m);
    p.m <<= up_p;
    q.m <<= up_q;
    uint64_t quotient = p.m >= q.m, rest = p.m - (quotient ? q.m : 0);
    for (int i = 0; i < 62; i++) {               /* moves the leading 1 of a quotient >= 1 to bit 62 */
        const uint64_t carry = rest >> 63;
        rest <<= 1;
        quotient <<= 1;
        if (carry || rest >= q.m) { rest -= q.m; quotient |= 1; }
    }
    return pack(sign, p.exponent - q.exponent - up_p + up_q + 1023, quotient | (rest != 0));
}

/* -1, 0, 1 for a <, =, > b; 2 if one of them is NaN. */
static int order(uint64_t a, uint64_t b)
{
    if ((a & ~SIGN) > INFINITE || (b & ~SIGN) > INFINITE) return 2;
    if (((a | b) & ~SIGN) == 0) return 0;
    const uint64_t x = a & SIGN ? ~a : a | SIGN, y = b & SIGN ? ~b : b | SIGN;
    return x < y ? -1 : x > y;
}

#define COMPARISON(name, is) HELPER int name(uint64_t a, uint64_t b); HELPER int name(uint64_t a, uint64_t b) { return order(a, b) is; }
COMPARISON(__aeabi_dcmpeq, == 0)
COMPARISON(__aeabi_dcmplt, == -1)
COMPARISON(__aeabi_dcmple, <= 0)
COMPARISON(__aeabi_dcmpgt, == 1)
COMPARISON(__aeabi_dcmpge, % 2 >= 0 && order(a, b) < 2)
COMPARISON(__aeabi_dcmpun, == 2)

HELPER uint64_t __aeabi_ul2d(uint64_t x);
HELPER uint64_t __aeabi_ul2d(uint64_t x)
{
    return x >> 63 ? pack(0, 1023 + 63, shift_sticky(x, 1)) : pack(0, 1023 + 62, x);
}
HELPER uint64_t __aeabi_l2d(uint64_t x);
HELPER uint64_t __aeabi_l2d(uint64_t x) { return x & SIGN ? SIGN | __aeabi_ul2d(0 - x) : __aeabi_ul2d(x); }
HELPER uint64_t __aeabi_ui2d(uint32_t x);
HELPER uint64_t __aeabi_ui2d(uint32_t x) { return __aeabi_ul2d(x); }
HELPER uint64_t __aeabi_i2d(uint32_t x);
HELPER uint64_t __aeabi_i2d(uint32_t x) { return __aeabi_l2d(x >> 31 ? (uint64_t)x | 0xffffffff00000000u : x); }

/* Rounds towards zero; values that do not fit give an undefined result. */
HELPER uint64_t __aeabi_d2lz(uint64_t d);
HELPER uint64_t __aeabi_d2lz(uint64_t d)
{
    const struct number n = unpack(d & ~SIGN);
    const int32_t up = n.exponent - 1075;
    const uint64_t x = up <= -64 || up >= 64 ? 0 : up < 0 ? n.m >> -up : n.m << up;
    return d & SIGN ? 0 - x : x;
}
HELPER uint64_t __aeabi_d2ulz(uint64_t d);
HELPER uint64_t __aeabi_d2ulz(uint64_t d) { return __aeabi_d2lz(d); }
HELPER uint32_t __aeabi_d2iz(uint64_t d);
HELPER uint32_t __aeabi_d2iz(uint64_t d) { return (uint32_t)__aeabi_d2lz(d); }
HELPER uint32_t __aeabi_d2uiz(uint64_t d);
HELPER uint32_t __aeabi_d2uiz(uint64_t d) { return (uint32_t)__aeabi_d2lz(d); }
#endif

#ifdef RV32
/* libgcc's names, which rv32 calls: 64-bit divisions, conversions between them and doubles, and, for cores without the D extension, all
 * arithmetic in double.  A double is passed by the calling convention of the target. */
static uint64_t bits_of(double x)
{
    uint64_t u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}
static double double_of(uint64_t u)
{
    double x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}

#define NAMED(result, name, parameters, value) HELPER result name parameters; HELPER result name parameters { return value; }
NAMED(uint64_t, __udivdi3, (uint64_t n, uint64_t d), divide(n, d).quotient)
NAMED(uint64_t, __umoddi3, (uint64_t n, uint64_t d), divide(n, d).remainder)
NAMED(uint64_t, __divdi3, (uint64_t n, uint64_t d), arm_divmod(n, d, &n))
HELPER uint64_t __moddi3(uint64_t n, uint64_t d);
HELPER uint64_t __moddi3(uint64_t n, uint64_t d)
{
    uint64_t rest;
    arm_divmod(n, d, &rest);
    return rest;
}
NAMED(uint64_t, __fixdfdi, (double x), __aeabi_d2lz(bits_of(x)))
NAMED(uint64_t, __fixunsdfdi, (double x), __aeabi_d2ulz(bits_of(x)))
NAMED(double, __floatdidf, (uint64_t x), double_of(__aeabi_l2d(x)))
NAMED(double, __floatundidf, (uint64_t x), double_of(__aeabi_ul2d(x)))
#ifndef __riscv_d
static uint32_t float_bits(float x)
{
    uint32_t u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}
static float float_of(uint32_t u)
{
    float x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}
NAMED(double, __adddf3, (double a, double b), double_of(__aeabi_dadd(bits_of(a), bits_of(b))))
NAMED(double, __subdf3, (double a, double b), double_of(__aeabi_dsub(bits_of(a), bits_of(b))))
NAMED(double, __muldf3, (double a, double b), double_of(__aeabi_dmul(bits_of(a), bits_of(b))))
NAMED(double, __divdf3, (double a, double b), double_of(__aeabi_ddiv(bits_of(a), bits_of(b))))
NAMED(double, __floatsidf, (uint32_t x), double_of(__aeabi_i2d(x)))
NAMED(double, __floatunsidf, (uint32_t x), double_of(__aeabi_ui2d(x)))
NAMED(uint32_t, __fixdfsi, (double x), __aeabi_d2iz(bits_of(x)))
NAMED(uint32_t, __fixunsdfsi, (double x), __aeabi_d2uiz(bits_of(x)))
NAMED(int, __unorddf2, (double a, double b), order(bits_of(a), bits_of(b)) == 2)
NAMED(int, __eqdf2, (double a, double b), order(bits_of(a), bits_of(b)))
NAMED(int, __nedf2, (double a, double b), order(bits_of(a), bits_of(b)))
NAMED(int, __ltdf2, (double a, double b), order(bits_of(a), bits_of(b)))
NAMED(int, __ledf2, (double a, double b), order(bits_of(a), bits_of(b)))
NAMED(int, __gtdf2, (double a, double b), order(bits_of(a), bits_of(b)) == 2 ? -1 : order(bits_of(a), bits_of(b)))
NAMED(int, __gedf2, (double a, double b), order(bits_of(a), bits_of(b)) == 2 ? -1 : order(bits_of(a), bits_of(b)))
NAMED(double, __extendsfdf2, (float x), double_of(__aeabi_f2d(float_bits(x))))
NAMED(float, __truncdfsf2, (double x), float_of(__aeabi_d2f(bits_of(x))))
#endif
#endif
