/* test_pairs.c -- decides whether rates of programs that were measured in turns differ: noise of the machine must never be reported. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>

#include "compiler/base/base.h"
#include "compiler/cli/pairs.h"

static struct pairs of(const double *x, uint32_t n, uint32_t comparisons)
{
    double ones[PAIRS_ROUNDS_MOST];
    for (uint32_t i = 0; i < n; i++) ones[i] = 1;
    return pairs_of(x, ones, n, comparisons);
}

static void test_numbers(void **state)
{
    (void)state;
    const double x[] = { 30, 10, 24, 12 }, first[] = { 10, 10, 20, 10 }, one[] = { 3 };
    /* logarithms of 3, 1, 1.2, 1.2: the median of the ten means is that of 1.2 with itself and of 1.2 with the other 1.2 */
    const struct pairs p = pairs_of(x, first, 4, 1);
    assert_float_equal(p.ratio, 1.2, 1e-12);
    assert_float_equal(p.least, 0, 0);
    assert_true(isinf(p.most));
    assert_float_equal(of(one, 1, 1).ratio, 3, 1e-12);
    assert_float_equal(of(one, 0, 1).ratio, 0, 0);
    assert_string_equal(pairs_verdict(&p), "not distinguishable");
}

/* Tables of the signed-rank test: two-sided, at most 5 % for one comparison: with n rounds the sum of ranks on one side is at most
 * 6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 15: 25, 20: 52, 25: 89 (Wilcoxon 1945; McCornack 1965). */
static void test_critical(void **state)
{
    (void)state;
    static const struct { uint32_t n, sum; } table[] = {
        { 6, 0 }, { 7, 2 }, { 8, 3 }, { 9, 5 }, { 10, 8 }, { 15, 25 }, { 20, 52 }, { 25, 89 },
    };
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        /* the number of means outside must fit the sum of ranks */
        const uint32_t n = table[i].n;
        double x[25], means[25 * 26 / 2];
        uint32_t n_means = 0;
        for (uint32_t k = 0; k < n; k++) {
            x[k] = exp(sqrt(k + 2.0));
            for (uint32_t j = 0; j <= k; j++) means[n_means++] = exp((sqrt(k + 2.0) + sqrt(j + 2.0)) / 2);
        }
        median_of(means, n_means);
        const struct pairs p = of(x, n, 1);
        assert_float_equal(p.least, means[table[i].sum], 1e-9);
        assert_float_equal(p.most, means[n_means - 1 - table[i].sum], 1e-9);
    }
}

static void test_least(void **state)
{
    (void)state;
    double x[PAIRS_ROUNDS_MOST];
    for (uint32_t i = 0; i < PAIRS_ROUNDS_MOST; i++) x[i] = 1.02 + 0.0001 * i;
    for (uint32_t comparisons = 1; comparisons <= 30; comparisons++) {
        const uint32_t n = pairs_least(comparisons);
        assert_true(isinf(of(x, n - 1, comparisons).most));
        const struct pairs p = of(x, n, comparisons);
        assert_float_equal(p.least, x[0], 1e-9);
        assert_float_equal(p.most, x[n - 1], 1e-9);
        assert_string_equal(pairs_verdict(&p), "faster");
    }
    assert_int_equal(pairs_least(1), 6);
    assert_int_equal(pairs_least(2), 7);
    assert_int_equal(pairs_least(30), 11);
}

static void test_verdict(void **state)
{
    (void)state;
    static const double faster[] = { 1.02, 1.03, 1.02, 1.03, 1.04, 1.02, 1.03 }, slower[] = { 0.98, 0.97, 0.98, 0.97, 0.96, 0.98, 0.97 },
        neither[] = { 1.02, 0.97, 1.02, 1.03, 0.96, 1.02, 1.03 }, tiny[] = { 1.004, 1.003, 1.004, 1.004, 1.003, 1.004, 1.003 };
    const struct { const double *x; const char *verdict; } cases[] = { { faster, "faster" }, { slower, "slower" },
                                                                     { neither, "not distinguishable" }, { tiny, "not distinguishable" } };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct pairs p = of(cases[i].x, 7, 2);
        assert_string_equal(pairs_verdict(&p), cases[i].verdict);
    }
}

static void test_order(void **state)
{
    (void)state;
    uint64_t chance = 7;
    uint32_t count[4][4] = { { 0 } }, order[4];
    for (int i = 0; i < 40000; i++) {
        uint32_t seen = 0;
        pairs_order(order, 4, &chance);
        for (uint32_t k = 0; k < 4; k++) { count[k][order[k]]++; seen |= 1u << order[k]; }
        assert_int_equal(seen, 15);
    }
    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t j = 0; j < 4; j++) assert_in_range(count[k][j], 9500, 10500);
}

/* ---- reports of simulated machines ---- */

enum machine { CALM, DRIFT, RHYTHM, BURSTS, PLACES, N_MACHINES };
enum { PROGRAMS_MOST = 5 };
#define REPORTS 1500u
static uint64_t noise_state;

static double uniform(void)
{
    noise_state = noise_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(noise_state >> 11) * 0x1p-53;
}
static double normal(void)                        /* Box and Muller 1958 */
{
    const double r = sqrt(-2 * log(1 - uniform()));
    return r * cos(6.283185307179586 * uniform());
}

/* The machine's speed at run t; again: the same program ran before. */
static double load(enum machine m, uint32_t t, uint32_t n, bool again, double *level)
{
    switch (m) {
    case CALM:   return 1 + 0.01 * normal();
    case DRIFT:  *level += 0.05 * normal(); return exp(*level + 0.02 * normal());          /* a random walk: similar neighbours */
    case RHYTHM: return ((t + 1) % 4 < 2 ? 1 : 0.7) + 0.01 * uniform();                      /* favours the first of a round of two */
    case BURSTS: *level = uniform() < 0.1 ? 0 : *level + 1;
                 return *level < 3 ? 0.3 + 0.3 * uniform() : 1 + 0.001 * normal();
    default:     return (again ? 1.1 : 1) * (t % (2 * n) == 0 ? 0.8 : 1) * (1 + 0.01 * normal());   /* first of a round, twice in a row */
    }
}

/* Does a report of n programs, with the last `faster` times as fast, call any of them faster or slower? */
static bool claims(enum machine m, uint32_t n, double faster, uint32_t seed)
{
    double rates[PROGRAMS_MOST][32], level = 0;
    const uint32_t comparisons = 2 * (n - 1), rounds = pairs_least(comparisons) + 1;
    uint64_t chance = seed;
    uint32_t before = n, order[PROGRAMS_MOST];
    noise_state = seed * 977u;
    for (uint32_t round = 0; round < rounds; round++) {
        pairs_order(order, n, &chance);
        for (uint32_t i = 0; i < 2 * n; i++) {
            const uint32_t k = order[i < n ? i : 2 * n - 1 - i];
            const double rate = load(m, round * 2 * n + i, n, k == before, &level) * (k == n - 1 ? faster : 1);
            rates[k][round] = i < n ? rate : sqrt(rates[k][round] * rate);
            before = k;
        }
    }
    for (uint32_t k = 1; k < n; k++) {
        const struct pairs p = pairs_of(rates[k], rates[0], rounds, comparisons);
        if (pairs_verdict(&p)[0] != 'n') return true;
    }
    return false;
}

/* A report has two speeds; this test uses one, so its share is half of the level.  The bound of the count is the expected number plus four
 * standard deviations. */
static void test_equal(void **state)
{
    (void)state;
    const double mean = REPORTS * PAIRS_LEVEL / 2, most = mean + 4 * sqrt(mean);
    for (enum machine m = 0; m < N_MACHINES; m++)
        for (uint32_t n = 2; n <= PROGRAMS_MOST; n += 3) {
            uint32_t false_claims = 0;
            for (uint32_t i = 0; i < REPORTS; i++) false_claims += claims(m, n, 1, i + 1);
            if (false_claims > most)
                fail_msg("machine %d, %u programs: %u of %u reports tell equal programs apart", m, n, false_claims, REPORTS);
        }
}

/* Differences of 3 % are found if runs scatter by 1 %, and differences of 10 % on a machine with a random walk of 5 % per run. */
static void test_different(void **state)
{
    (void)state;
    uint32_t walking = 0, calm = 0;
    for (uint32_t i = 0; i < REPORTS; i++) {
        walking += claims(DRIFT, 2, 1.1, i + 1);
        calm += claims(CALM, 2, 1.03, i + 1);
    }
    assert_true(walking > 0.8 * REPORTS);
    assert_true(calm > 0.8 * REPORTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_critical), cmocka_unit_test(test_least), cmocka_unit_test(test_verdict),
        cmocka_unit_test(test_order), cmocka_unit_test(test_equal), cmocka_unit_test(test_different),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
