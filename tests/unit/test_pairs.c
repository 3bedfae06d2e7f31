/* test_pairs.c -- when rates of two programs, measured in turns, tell them apart. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/base/base.h"
#include "compiler/cli/pairs.h"

enum { MOST = 100 };

static struct pairs of_signs(const char *signs)
{
    double x[MOST], ones[MOST];
    uint32_t n = 0;
    for (; signs[n]; n++) {
        x[n] = signs[n] == '+' ? 1.01 : signs[n] == '-' ? 0.5 : 1;
        ones[n] = 1;
    }
    return pairs_of(x, ones, n);
}

static void test_numbers(void **state)
{
    (void)state;
    const double x[] = { 30, 10, 24, 12 }, first[] = { 10, 10, 20, 10 };
    const struct pairs p = pairs_of(x, first, 4);
    assert_float_equal(p.median, 1.2, 1e-12);
    assert_float_equal(p.least, 1, 0);
    assert_float_equal(p.most, 3, 0);
    assert_float_equal(pairs_of(x, first, 1).median, 3, 0);
    assert_float_equal(pairs_of(x, first, 0).median, 0, 0);
    assert_false(pairs_of(x, first, 0).distinguishable);
}

static void test_sign(void **state)
{
    (void)state;
    /* two-sided 5 %: six of six (3.1 %), eight of nine (3.9 %), fifteen of twenty (4.1 %) */
    static const struct { const char *signs; bool distinguishable; } cases[] = {
        { "+", false }, { "-", false }, { "+++++", false }, { "++++++", true }, { "------", true }, { "+++++-", false },
        { "-+++++++", false },
        { "++++++++-", true }, { "+++++++--", false }, { "+++++++++++++++-----", true }, { "++++++++++++++------", false },
        { "+-+-+-+-", false },
        { "++++++====", true }, { "=====+", false }, { "==========", false },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) assert_int_equal(of_signs(cases[i].signs).distinguishable, cases[i].distinguishable);
    char all[PAIRS_LEAST + 1] = { 0 };
    for (int n = 0; n < PAIRS_LEAST; n++) {
        assert_false(of_signs(all).distinguishable);
        all[n] = '+';
    }
    assert_true(of_signs(all).distinguishable);
}

static void test_verdict(void **state)
{
    (void)state;
    const struct pairs faster = of_signs("+++++++"), slower = of_signs("-------"), neither = of_signs("+-+-+++"), one = of_signs("+");
    assert_string_equal(pairs_verdict(&faster), "faster");
    assert_string_equal(pairs_verdict(&slower), "slower");
    assert_string_equal(pairs_verdict(&neither), "not distinguishable");
    assert_string_equal(pairs_verdict(&one), "not distinguishable");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_numbers), cmocka_unit_test(test_sign), cmocka_unit_test(test_verdict) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
