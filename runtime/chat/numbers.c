/* numbers.c -- converts numbers to text and back like Python: the nearest double, and the shortest digits that give the same double. */
#include "value.h"

enum { LIMBS = 44 };                       /* 1408 bits: 2^1074 times the 17 digits of a double, or 10^19 * 10^343 */
struct big { uint32_t limb[LIMBS]; uint32_t n; };

static void big_set(struct big *b, uint64_t x)
{
    b->n = 0;
    for (; x; x >>= 32) b->limb[b->n++] = (uint32_t)x;
}

static void big_times(struct big *b, uint32_t factor)
{
    uint64_t carry = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        carry += (uint64_t)b->limb[i] * factor;
        b->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry && b->n < LIMBS) b->limb[b->n++] = (uint32_t)carry;
}

static void big_power10(struct big *b, int32_t power)
{
    for (; power >= 9; power -= 9) big_times(b, 1000000000);
    for (; power > 0; power--) big_times(b, 10);
}

static void big_shift(struct big *b, uint32_t bits)
{
    const uint32_t words = bits / 32, rest = bits % 32;
    if (!b->n) return;
    if (rest) big_times(b, 1u << rest);
    if (b->n + words > LIMBS) return;                          /* impossible: see LIMBS */
    memmove(b->limb + words, b->limb, b->n * sizeof b->limb[0]);
    memset(b->limb, 0, words * sizeof b->limb[0]);
    b->n += words;
}

static int big_order(const struct big *a, const struct big *b)
{
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (uint32_t i = a->n; i-- > 0; ) if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

static void big_subtract(struct big *a, const struct big *b)     /* a >= b */
{
    int64_t borrow = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        borrow += (int64_t)a->limb[i] - (i < b->n ? b->limb[i] : 0);
        a->limb[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
    while (a->n && !a->limb[a->n - 1]) a->n--;
}

/* |f| = mantissa * 2^exponent. */
static void split(double f, uint64_t *mantissa, int32_t *exponent)
{
    uint64_t bits;
    memcpy(&bits, &f, 8);
    *exponent = (int32_t)(bits >> 52 & 0x7ff);
    *mantissa = bits & 0xfffffffffffffu;
    if (*exponent) *mantissa |= 1ull << 52;
    else *exponent = 1;
    *exponent -= 1075;
}

static double join(uint64_t mantissa, int32_t exponent)        /* mantissa < 2^53, normal or with the smallest exponent */
{
    const uint64_t bits = mantissa >> 52 ? (uint64_t)(exponent + 1075) << 52 | (mantissa & 0xfffffffffffffu) : mantissa;
    double f;
    memcpy(&f, &bits, 8);
    return f;
}

/* Compares digits * 10^power with (2 mantissa + 1) * 2^(exponent - 1), the middle between two doubles; more: slightly more than digits. */
static int against_middle(uint64_t digits, bool more, int32_t power, uint64_t mantissa, int32_t exponent)
{
    struct big a, b;
    big_set(&a, digits);
    big_set(&b, 2 * mantissa + 1);
    exponent--;
    if (power > 0) big_power10(&a, power); else big_power10(&b, -power);
    if (exponent > 0) big_shift(&b, (uint32_t)exponent); else big_shift(&a, (uint32_t)-exponent);
    const int order = big_order(&a, &b);
    return order ? order : more;
}

/* digits * 10^power, approximately. */
static double estimate(uint64_t digits, int32_t power)
{
    double x = (double)digits, ten = 10;
    for (uint32_t p = (uint32_t)(power < 0 ? -power : power); p; p >>= 1, ten *= ten)
        if (p & 1) { if (power < 0) x /= ten; else x *= ten; }
    return x;
}

static double nearest(uint64_t digits, bool more, int32_t power)
{
    uint64_t m;
    int32_t e;
    const double most = 1.7976931348623157e308;
    if (!digits || power < -345) return 0;
    if (power > 310) return most * 10;
    double x = power < -290 ? estimate(digits, power + 60) / 1e60 : estimate(digits, power);
    if (x > most) x = most;
    for (;;) {                                                 /* the estimate is at most a few units off */
        split(x, &m, &e);
        const int above = against_middle(digits, more, power, m, e);
        if (above > 0 || (above == 0 && m & 1)) {
            if (x >= most) return most * 10;
            if (++m == 1ull << 53) { m >>= 1; e++; }
            x = join(m, e);
            if (above == 0) return x;
            continue;
        }
        if (m == 0) return 0;
        const bool first = m == 1ull << 52 && e > -1074;      /* the next lower double has the smaller exponent */
        const uint64_t lower = first ? (1ull << 53) - 1 : m - 1;
        const int32_t lower_e = first ? e - 1 : e;
        const int below = against_middle(digits, more, power, lower, lower_e);
        if (below > 0 || (below == 0 && !(m & 1))) return x;
        x = join(lower, lower_e);
        if (below == 0) return x;
    }
}

double number_read(const char *text, size_t n)
{
    const char *p = text, *const end = text + n;
    const bool minus = p < end && *p == '-';
    uint64_t digits = 0;
    int64_t power = 0, e = 0;
    bool point = false, more = false;
    for (p += minus; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') { point = true; continue; }
        if (digits < 1000000000000000000u) { digits = digits * 10 + (uint64_t)(*p - '0'); power -= point; }
        else { more |= *p != '0'; power += !point; }
    }
    if (p < end) {
        const bool down = p[1] == '-';
        for (p += 1 + (p[1] == '-' || p[1] == '+'); p < end; p++) if (e < 100000) e = e * 10 + (*p - '0');
        power += down ? -e : e;
    }
    const double x = nearest(digits, more, power > 100000 ? 100000 : power < -100000 ? -100000 : (int32_t)power);
    return minus ? -x : x;
}

/* The first `count` digits of f > 0, rounded half to even; returns the power of ten of the first digit. */
static int32_t first_digits(double f, uint32_t count, char *digits)
{
    struct big a, b;
    uint64_t m;
    int32_t e, power = 0;
    split(f, &m, &e);
    for (double x = f; x >= 10 && power < 308; x /= 10) power++;       /* approximate; corrected below */
    for (double x = f; x < 1 && power > -330; x *= 10) power--;
    for (;; power++) {
        big_set(&a, m);
        big_set(&b, 1);
        if (e > 0) big_shift(&a, (uint32_t)e); else big_shift(&b, (uint32_t)-e);
        if (power > 0) big_power10(&b, power); else big_power10(&a, -power);
        if (big_order(&a, &b) < 0) { power -= 2; continue; }            /* f < 10^power */
        struct big ten = b;
        big_times(&ten, 10);
        if (big_order(&a, &ten) < 0) break;
    }
    for (uint32_t i = 0; i < count; i++) {
        for (digits[i] = '0'; big_order(&a, &b) >= 0; digits[i]++) big_subtract(&a, &b);
        big_times(&a, 10);
        while (a.n && !a.limb[a.n - 1]) a.n--;
    }
    big_times(&b, 5);                                          /* a is ten times the remainder */
    const int half = big_order(&a, &b);
    if (half < 0 || (half == 0 && !(digits[count - 1] & 1))) return power;
    uint32_t i = count;
    while (i > 0 && digits[i - 1] == '9') digits[--i] = '0';
    if (i > 0) digits[i - 1]++;
    else { digits[0] = '1'; power++; }
    return power;
}

/* Writes "e+05". */
static void put_exponent(struct text_out *t, int32_t power)
{
    char e[24];
    const size_t n = integer_text(power < 0 ? -power : power, e);
    text_out_char(t, 'e');
    text_out_char(t, power < 0 ? '-' : '+');
    if (n < 2) text_out_char(t, '0');
    text_out_put(t, e, n);
}

size_t number_exponent(double f, uint32_t places, char out[NUMBER_BYTES])
{
    char digits[64];
    uint64_t bits;
    int32_t power = 0;
    struct text_out t = { out, NUMBER_BYTES, 0, false };
    memcpy(&bits, &f, 8);
    if (bits >> 63) { text_out_char(&t, '-'); f = -f; }
    if (f == 0) memset(digits, '0', sizeof digits);
    else power = first_digits(f, places + 1, digits);
    text_out_char(&t, digits[0]);
    if (places) text_out_char(&t, '.');
    text_out_put(&t, digits + 1, places);
    put_exponent(&t, power);
    return t.n;
}

size_t integer_text(int64_t i, char out[24])
{
    char digits[24];
    size_t n = 0, at = 0;
    uint64_t x = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    do digits[n++] = (char)('0' + x % 10); while (x /= 10);
    if (i < 0) out[at++] = '-';
    while (n) out[at++] = digits[--n];
    return at;
}

size_t number_repr(double f, char out[NUMBER_BYTES])
{
    char digits[20];
    uint32_t count = 0;
    int32_t power = 0;
    uint64_t bits;
    memcpy(&bits, &f, 8);
    struct text_out t = { out, NUMBER_BYTES, 0, false };
    if (f != f) { TEXT_OUT_WORDS(&t, "nan"); return t.n; }
    if (bits >> 63) { text_out_char(&t, '-'); f = -f; }
    if (f - f != 0) { TEXT_OUT_WORDS(&t, "inf"); return t.n; }
    if (f == 0) { TEXT_OUT_WORDS(&t, "0.0"); return t.n; }
    /* the shortest digits: up to 15 digits they are those of 15, except with the fewer bits of small numbers */
    for (count = f < 2.2250738585072014e-308 ? 1 : 15; count <= 17; count++) {
        power = first_digits(f, count, digits);
        uint64_t value = 0;
        for (uint32_t i = 0; i < count; i++) value = value * 10 + (uint64_t)(digits[i] - '0');
        if (nearest(value, false, power - (int32_t)count + 1) == f) break;
    }
    if (count > 17) count = 17;
    while (count > 1 && digits[count - 1] == '0') count--;
    if (power >= 16 || power < -4) {
        text_out_char(&t, digits[0]);
        if (count > 1) text_out_char(&t, '.');
        text_out_put(&t, digits + 1, count - 1);
        put_exponent(&t, power);
        return t.n;
    }
    if (power < 0) TEXT_OUT_WORDS(&t, "0.");
    for (int32_t i = power + 1; i < 0; i++) text_out_char(&t, '0');
    for (uint32_t i = 0; i < count || (int32_t)i <= power; i++) {
        if (power >= 0 && (int32_t)i == power + 1) text_out_char(&t, '.');
        text_out_char(&t, i < count ? digits[i] : '0');
    }
    if ((int32_t)count <= power + 1) TEXT_OUT_WORDS(&t, ".0");
    return t.n;
}

/* b / 2^bits, rounded half to even. */
static void big_unshift(struct big *b, uint32_t bits)
{
    const uint32_t words = (bits - 1) / 32, rest = (bits - 1) % 32;
    bool more = false;
    if (words >= b->n) { b->n = 0; return; }
    for (uint32_t i = 0; i < words; i++) more |= b->limb[i] != 0;
    more |= (b->limb[words] & ((1u << rest) - 1)) != 0;
    const bool half = b->limb[words] >> rest & 1;
    const uint32_t at = bits / 32, shift = bits % 32, n = b->n > at ? b->n - at : 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t high = at + i + 1 < b->n ? b->limb[at + i + 1] : 0;
        b->limb[i] = (uint32_t)((high << 32 | b->limb[at + i]) >> shift);
    }
    b->n = n;
    if (half && (more || (n && b->limb[0] & 1))) {
        uint32_t i = 0;
        while (i < n && ++b->limb[i] == 0) i++;
        if (i == n) b->limb[b->n++] = 1;
    }
    while (b->n && !b->limb[b->n - 1]) b->n--;
}

static uint32_t big_digit(struct big *b)                       /* removes and returns the last digit; b becomes b / 10 */
{
    uint64_t rest = 0;
    for (uint32_t i = b->n; i-- > 0; ) {
        rest = rest << 32 | b->limb[i];
        b->limb[i] = (uint32_t)(rest / 10);
        rest %= 10;
    }
    while (b->n && !b->limb[b->n - 1]) b->n--;
    return (uint32_t)rest;
}

size_t number_fixed(double f, uint32_t places, char out[NUMBER_BYTES])
{
    char digits[NUMBER_BYTES];
    struct text_out t = { out, NUMBER_BYTES, 0, false };
    struct big b;
    uint64_t m, bits;
    int32_t e;
    uint32_t n = 0;
    if (f - f != 0) return number_repr(f, out);
    memcpy(&bits, &f, 8);
    if (bits >> 63) text_out_char(&t, '-');
    split(f, &m, &e);
    big_set(&b, m);
    big_power10(&b, (int32_t)places);
    if (e > 0) big_shift(&b, (uint32_t)e); else if (e < 0) big_unshift(&b, (uint32_t)-e);
    while (b.n || n <= places) digits[n++] = (char)('0' + big_digit(&b));
    while (n > 0) {
        text_out_char(&t, digits[--n]);
        if (n == places && n > 0) text_out_char(&t, '.');
    }
    return t.n;
}

/* ---- remainders and powers ---- */

double number_remainder(double x, double y)
{
    uint64_t a, b, bits;
    int32_t e, f;
    if (x != x || y != y || x - x != 0) return x - x;                 /* nan */
    memcpy(&bits, &x, 8);
    split(x, &a, &e);
    split(y, &b, &f);
    if (y - y != 0 || a == 0 || (e == f ? a < b : e < f && a >> 52 <= b >> 52)) return x;
    for (; e > f && a; e -= e - f < 11 ? e - f : 11) a = (a << (e - f < 11 ? e - f : 11)) % b;
    a %= b;
    while (a && a >> 52 == 0 && f > -1074) { a <<= 1; f--; }
    const double rest = a ? join(a, f) : 0;
    return bits >> 63 ? -rest : rest;
}

/* 2^exponent times the 128 bits of `limb`, lowest first, of which the highest is 1: to rounding errors of 2^-127 an operation. */
struct wide { uint32_t limb[4]; int64_t exponent; };

static struct wide wide_times(const struct wide *a, const struct wide *b)
{
    uint32_t product[8] = { 0 };
    struct wide out;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t carry = 0;
        for (uint32_t k = 0; k < 4; k++) {
            carry += (uint64_t)a->limb[i] * b->limb[k] + product[i + k];
            product[i + k] = (uint32_t)carry;
            carry >>= 32;
        }
        product[i + 4] = (uint32_t)carry;
    }
    const uint32_t up = product[7] >> 31 ? 0 : 1;
    out.exponent = a->exponent + b->exponent + 128 - up;
    for (uint32_t i = 0; i < 4; i++) out.limb[i] = up ? product[i + 4] << 1 | product[i + 3] >> 31 : product[i + 4];
    return out;
}

/* The nearest double to a, or to 1 / a. */
static double wide_round(const struct wide *a, bool inverse)
{
    uint64_t m = (uint64_t)a->limb[3] << 32 | a->limb[2];
    int64_t e = a->exponent + 64;                                      /* m * 2^e, and more below it */
    bool more = a->limb[1] || a->limb[0];
    if (inverse) {                                                     /* 2^127 / limb: 64 bits of it by long division */
        struct big rest, by = { .n = 4 };
        memcpy(by.limb, a->limb, sizeof a->limb);
        big_set(&rest, 1);
        big_shift(&rest, 127);
        const bool whole = big_order(&rest, &by) == 0;                 /* a power of two */
        m = 0;
        for (uint32_t i = 0; i < 64; i++) {
            const bool one = whole ? i == 0 : (big_times(&rest, 2), big_order(&rest, &by) >= 0);
            if (one && !whole) big_subtract(&rest, &by);
            m = m << 1 | one;
        }
        more = !whole && rest.n > 0;
        e = -a->exponent - 127 - (whole ? 63 : 64);
    }
    if (e > 1024) return 1.7976931348623157e308 * 10;
    const int64_t cut = e < -1074 - 11 ? -1074 - e : 11;               /* bits that a double has no place for */
    if (cut > 64) return 0;
    const uint64_t half = 1ull << (cut - 1), low = cut == 64 ? m : m & (2 * half - 1);
    uint64_t high = cut == 64 ? 0 : m >> cut;
    high += low > half || (low == half && (more || (high & 1)));
    e += cut;
    if (high >> 53) { high >>= 1; e++; }
    if (high >> 52 && e > 971) return 1.7976931348623157e308 * 10;
    return join(high, (int32_t)e);
}

double number_power(double x, int64_t n)
{
    uint64_t m, count = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    int32_t e;
    memcpy(&m, &x, 8);
    const bool minus = m >> 63 && (n & 1);
    if (n == 0) return 1;
    if (x != x) return x;
    if (x == 0 || x - x != 0) {                                        /* infinite, or zero to a positive power */
        const double large = x == 0 ? 0 : n < 0 ? 0 : 1.7976931348623157e308 * 10;
        return minus ? -large : large;
    }
    split(x, &m, &e);
    while (!(m >> 63)) { m <<= 1; e--; }
    struct wide square = { { 0, 0, (uint32_t)m, (uint32_t)(m >> 32) }, e - 64 }, product = square;
    for (count--; count; count >>= 1) {
        if (count & 1) product = wide_times(&product, &square);
        square = wide_times(&square, &square);
    }
    const double y = wide_round(&product, n < 0);
    return minus ? -y : y;
}
