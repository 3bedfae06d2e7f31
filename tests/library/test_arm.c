/* test_arm.c -- compares the arithmetic of runtime/library/arm.c for 32-bit ARM with this machine's. */
#define LIBRARY_TEST_ARM
#include "runtime/library/arm.c"
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 88172645463325252u;
static uint64_t random_64(void) { state ^= state << 13; state ^= state >> 7; return state ^= state << 17; }
static uint64_t bits_of(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
static double value_of(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }
static uint32_t bits_of_f(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
static float value_of_f(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }

static void same(const char *what, uint64_t a, uint64_t b, uint64_t got, uint64_t want)
{
    const bool nan = (want & ~SIGN) > INFINITE && (got & ~SIGN) > INFINITE;
    if (got == want || nan) return;
    fprintf(stderr, "%s of %016llx, %016llx is %016llx, not %016llx\n", what, (unsigned long long)a, (unsigned long long)b,
            (unsigned long long)got, (unsigned long long)want);
    exit(1);
}

/* Extreme values, then numbers near each other and near the ends of the range. */
static uint64_t draw_double(uint32_t round)
{
    static const uint64_t edges[] = { 0, 1, 2, HIDDEN - 1, HIDDEN, HIDDEN + 1, 0x3ff0000000000000u, 0x3fefffffffffffffu,
                                      0x3ff0000000000001u, INFINITE - 1, INFINITE, NAN_BITS };
    const uint64_t r = random_64(), sign = random_64() & SIGN;
    if (round % 4 == 0) return edges[r % (sizeof edges / sizeof *edges)] | sign;
    if (round % 4 == 1) return r;
    if (round % 4 == 2) return ((r & (HIDDEN - 1)) | (1000 + random_64() % 60) << 52) | sign;
    return (r >> (random_64() % 60) & (HIDDEN - 1)) | (random_64() % 3 ? random_64() % 120 : 1990 + random_64() % 57) << 52 | sign;
}

int main(void)
{
    for (uint32_t i = 0; i < 2000000; i++) {
        const uint64_t a = draw_double((uint32_t)random_64()), b = draw_double((uint32_t)random_64());
        same("sum", a, b, __aeabi_dadd(a, b), bits_of(value_of(a) + value_of(b)));
        same("difference", a, b, __aeabi_dsub(a, b), bits_of(value_of(a) - value_of(b)));
        same("product", a, b, __aeabi_dmul(a, b), bits_of(value_of(a) * value_of(b)));
        same("quotient", a, b, __aeabi_ddiv(a, b), bits_of(value_of(a) / value_of(b)));
        const double x = value_of(a), y = value_of(b);
        const int compared = (x == y) | (x < y) << 1 | (x <= y) << 2 | (x > y) << 3 | (x >= y) << 4 | (x != x || y != y) << 5;
        same("comparison", a, b, (uint64_t)(__aeabi_dcmpeq(a, b) | __aeabi_dcmplt(a, b) << 1 | __aeabi_dcmple(a, b) << 2 |
                                            __aeabi_dcmpgt(a, b) << 3 | __aeabi_dcmpge(a, b) << 4 | __aeabi_dcmpun(a, b) << 5),
             (uint64_t)compared);
        same("double of unsigned", a, 0, __aeabi_ul2d(a), bits_of((double)a));
        same("double of signed", a, 0, __aeabi_l2d(a), bits_of((double)(int64_t)a));
        same("double of a word", a, 0, __aeabi_i2d((uint32_t)a), bits_of((double)(int32_t)a));
        if (x > -0x1p63 && x < 0x1p63) same("integer", a, 0, __aeabi_d2lz(a), (uint64_t)(int64_t)x);
        if (x > -1 && x < 0x1p64) same("unsigned integer", a, 0, __aeabi_d2ulz(a), (uint64_t)x);
        const uint64_t f = i % 2 ? (random_64() % 90 + 850) << 52 | (a & (HIDDEN - 1)) : a;
        const uint32_t narrow = __aeabi_d2f(f), want = bits_of_f((float)value_of(f));
        same("float", f, 0, narrow, value_of_f(want) == value_of_f(want) ? want : narrow);
        const uint32_t g = (uint32_t)a;
        same("double", g, 0, __aeabi_f2d(g), bits_of((double)value_of_f(g)));
    }
    for (uint32_t i = 0; i < 200000; i++) {
        const uint64_t n = random_64() >> random_64() % 64, d = (random_64() >> random_64() % 64) | 1;
        const int by = (int)(random_64() % 64);
        uint64_t rest;
        same("quotient", n, d, arm_udivmod(n, d, &rest), n / d);
        same("remainder", n, d, rest, n % d);
        const int64_t sn = (int64_t)random_64() >> by, sd = (int64_t)((random_64() >> by) | 1);
        same("signed quotient", (uint64_t)sn, (uint64_t)sd, arm_divmod((uint64_t)sn, (uint64_t)sd, &rest),
             (uint64_t)(sd == -1 ? -(uint64_t)sn : (uint64_t)(sn / sd)));
        same("signed remainder", (uint64_t)sn, (uint64_t)sd, rest, sd == -1 ? 0 : (uint64_t)(sn % sd));
        same("left", n, 0, __aeabi_llsl(n, by), n << by);
        same("right", n, 0, __aeabi_llsr(n, by), n >> by);
        same("right, signed", n, 0, __aeabi_lasr(~n, by), (uint64_t)((int64_t)~n >> by));
        const uint32_t m = (uint32_t)n, e = (uint32_t)d;
        same("words", m, e, __aeabi_uidivmod(m, e), words(m % e, m / e));
        if (e != UINT32_MAX)
            same("signed words", m, e, __aeabi_idivmod(m, e),
                 words((uint32_t)((int32_t)m % (int32_t)e), (uint32_t)((int32_t)m / (int32_t)e)));
    }
    puts("test_arm: ok");
    return 0;
}
