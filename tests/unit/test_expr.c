/* test_expr.c -- arithmetic in the YAML: values, precedence, and errors with their place. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "compiler/front/expr.h"
#include "die_capture.h"

static const struct place place = { "t", 3, 7 };

/* x is 5, half 0.5, not_half 2, order 3. */
static bool find(void *context, struct place at, const char *name, double *out)
{
    static const struct { const char *name; double value; } names[] = { { "x", 5 }, { "half", 0.5 }, { "not_half", 2 }, { "order", 3 } };
    assert_ptr_equal(context, &place);
    assert_int_equal(at.line, 3);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(names[i].name, name) == 0) { *out = names[i].value; return true; }
    return false;
}

/* In memory of exactly its size, so that a sanitizer finds a read past the end. */
static double value(const char *text)
{
    const size_t n = strlen(text) + 1;
    char *exact = malloc(n);
    assert_non_null(exact);
    memcpy(exact, text, n);
    const double x = expr_value(place, exact, find, (void *)(uintptr_t)&place);
    free(exact);
    return x;
}

static void values(void **state)
{
    (void)state;
    static const struct { const char *text; double value; } rows[] = {
        { "1", 1 }, { " 2 ", 2 }, { "2.", 2 }, { ".5", 0.5 }, { "1e3", 1000 }, { "1.5e-2", 0.015 }, { "2E+1", 20 }, { "x", 5 },
        { "2 + 3 * 4", 14 }, { "(2 + 3) * 4", 20 }, { "7 - 2 - 1", 4 }, { "8 / 4 / 2", 1 }, { "2 * 3 % 4", 2 }, { "1+x*2", 11 },
        { "7 % 3", 1 }, { "-1 % 3", 2 }, { "7 % -4", -1 }, { "5.5 % 2", 1.5 },               /* floored: the sign of the divisor */
        { "-2 * 3", -6 }, { "2 * -3", -6 }, { "--2", 2 }, { "- -2", 2 }, { "2--3", 5 }, { "-(x)", -5 },
        { "sqrt(16)", 4 }, { "ln(1)", 0 }, { "floor(-1.5)", -2 }, { "floor(1.5)", 1 }, { "min(3, 2)", 2 }, { "max(min(1,7), -2)", 1 },
        { "sqrt (x + 4) / 3", 1 }, { "min(x, half)", 0.5 }, { "pow(2, x) + pow(4, half)", 34 },
        { "1 < 2", 1 }, { "2 < 2", 0 }, { "2 <= 2", 1 }, { "2 > 2", 0 }, { "2 >= 2", 1 }, { "x == 5", 1 }, { "x != 5", 0 }, { "x<6", 1 },
        { "1 + 1 == 2", 1 }, { "(1 < 2) + (2 < 1) + true", 2 }, { "true", 1 }, { "false", 0 },
        { "not 0", 1 }, { "not 3", 0 }, { "not not 3", 1 }, { "not 1 == 2", 1 }, { "not x > 3", 0 }, { "(not 0) + 1", 2 },
        { "1 and 0 or 1", 1 }, { "1 or 1 and 0", 1 }, { "(1 or 1) and 0", 0 }, { "2 and 3", 1 }, { "0 or 0.5", 1 }, { "not 1 or 1", 1 },
        { "not 0 and 0", 0 }, { "x > 4 and x < 6", 1 },
        { "not_half", 2 }, { "order", 3 }, { "half or order", 1 },                            /* names that begin with words */
        { "1 +\n\t2", 3 }, { "(x + 1) % 4 != 0", 1 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (value(rows[i].text) != rows[i].value) fail_msg("%s is %.17g, not %.17g", rows[i].text, value(rows[i].text), rows[i].value);
    assert_true(value("ln(x)") == log(5) && value("sqrt(half)") == sqrt(0.5) && value("1 / x") == 1.0 / 5);
}

static void refused(void **state)
{
    (void)state;
    static const struct { const char *text, *expected; } rows[] = {
        { "", "t:3:7: \"\": expected a number or a name at \"its end\"" },
        { "1 +", "\"1 +\": expected a number or a name at \"its end\"" },
        { "1 2", "\"1 2\": expected an operator at \"2\"" },
        { "(1", "expected ) at \"its end\"" }, { "1)", "expected an operator at \")\"" }, { "()", "expected a number or a name at \")\"" },
        { "sqrt", "expected ( at" }, { "sqrt 4", "expected ( at \"4\"" }, { "sqrt(1", "expected ) at" },
        { "min(1)", "expected , at \")\"" },
        { "min(1 2)", "expected , at \"2)\"" }, { "max(1, 2, 3)", "expected ) at \", 3)\"" }, { "sqrt(1, 2)", "expected ) at" },
        { "x + zzz", "t:3:7: \"x + zzz\": there is no parameter zzz" }, { "max", "expected (" }, { "maxi", "there is no parameter maxi" },
        { "1e", "no number at \"1e\"" }, { "2 * 1e", "no number at \"1e\"" }, { "1e+", "no number" }, { "2 * 1e-", "no number" },
        { "1.2.3", "no number" }, { "1x", "no number at \"1x\"" }, { "1e5x", "no number" }, { ".", "no number" }, { "0x10", "no number" },
        { "$", "expected a number or a name at \"$\"" }, { "1 = 1", "expected an operator at \"= 1\"" },
        { "1 & 1", "expected an operator" },
        { "1 < 2 < 3", "expected an operator at \"< 3\"" }, { "not", "expected a number or a name" }, { "1 or", "expected a number" },
        { "1 not 2", "expected an operator at \"not 2\"" }, { "* 2", "expected a number or a name at \"* 2\"" },
        { "1 / 0", "\"1 / 0\" is not a finite number" }, { "0 / 0", "is not a finite number" }, { "1 % 0", "is not a finite number" },
        { "ln(0)", "is not a finite number" }, { "sqrt(-1)", "is not a finite number" }, { "1e308 * 10", "is not a finite number" },
        { "1e999", "is not a finite number" },
        { "a234567890123456789012345678901234567890123456789012345678901234", "a name too long" },
        { "1234567890123456789012345678901234567890123456789012345678901234", "a number too long" },
        { "\xff", "expected a number or a name" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) assert_dies(value(rows[i].text), rows[i].expected);
    /* One less of each is accepted. */
    assert_dies(value("a23456789012345678901234567890123456789012345678901234567890123"), "there is no parameter a2345");
    assert_true(value("123456789012345678901234567890123456789012345678901234567890123") > 1e62);
}

/* n times `open`, then middle, then n times `close`. */
static const char *nested(struct arena *a, uint32_t n, const char *open, const char *middle, const char *close)
{
    struct text t = { .arena = a };
    for (uint32_t i = 0; i < n; i++) text_puts(&t, open);
    text_puts(&t, middle);
    for (uint32_t i = 0; i < n; i++) text_puts(&t, close);
    return text_str(&t);
}

static void nesting(void **state)
{
    (void)state;
    static struct arena *a;
    a = arena_create();
    assert_true(value(nested(a, 31, "(", "7", ")")) == 7);
    assert_true(value(nested(a, 20, "max(1, ", "7", ")")) == 7);
    assert_dies(value(nested(a, 32, "(", "7", ")")), "nested too deep");
    assert_dies(value(nested(a, 1000000, "(", "7", ")")), "nested too deep");
    assert_dies(value(nested(a, 1000000, "-", "7", "")), "nested too deep");
    assert_dies(value(nested(a, 1000000, "sqrt(", "7", ")")), "nested too deep");
    /* Text without nesting may be long. */
    assert_true(value(nested(a, 100000, "", "0", " + 1")) == 100000);
    assert_true(value(nested(a, 100001, "not ", "7", "")) == 0);
    assert_true(value(nested(a, 1000, "(1) + ", "0", "")) == 1000);
    arena_destroy(a);
}

/* Plain words and numbers stay YAML; all other text is an expression. */
static void compound(void **state)
{
    (void)state;
    static const char *const plain[] = { "", "x", "n_head", "1", "-1", "1.5", "1e-5", "-1e+5", ".5", "true", "left", "1x", "not", "x  " };
    static const char *const more[] = { "x + 1", "x+1", "-x", "(1)", "1 / 2", "2*x", "not x", "1 2", "1-x", "sqrt(2)", "x == 1", "1 e" };
    for (size_t i = 0; i < COUNT_OF(plain); i++) if (expr_is_compound(plain[i])) fail_msg("%s is said to be compound", plain[i]);
    for (size_t i = 0; i < COUNT_OF(more); i++) if (!expr_is_compound(more[i])) fail_msg("%s is said to be plain", more[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(refused),
        cmocka_unit_test(nesting),
        cmocka_unit_test(compound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
