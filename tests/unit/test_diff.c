/* test_diff.c -- differences of texts: they transform one text into the other, and their number is minimal. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "compiler/cli/diff.h"

static const char *shown(struct arena *a, const char *old, const char *new, uint32_t context)
{
    const struct diff d = diff_of(a, bytes_of(old), bytes_of(new), 100, context);
    struct text t = { .arena = a };
    assert_false(d.too_far);
    for (uint32_t i = 0; i < d.n_lines; i++) {
        const struct diff_line *l = &d.lines[i];
        if (l->kind == '@') text_printf(&t, "@%u,%u;", l->old_line, l->new_line);
        else text_printf(&t, "%c%.*s;", l->kind, (int)l->size, l->text);
    }
    return text_str(&t);
}

static void test_lines(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    static const struct { const char *old, *new; uint32_t context; const char *shown; } cases[] = {
        { "", "", 3, "" }, { "a\nb\n", "a\nb\n", 3, "" }, { "a\nb", "a\nb\n", 3, "" },
        { "", "a\n", 3, "+a;" }, { "a\n", "", 3, "-a;" }, { "a\n", "b\n", 3, "-a;+b;" },
        { "a\nb\nc\nd\ne\nf\n", "a\nb\nc\nX\ne\nf\n", 1, "@3,3; c;-d;+X; e;" },
        { "a\nb\nc\nd\ne\nf\n", "a\nb\nc\nX\ne\nf\n", 0, "@4,4;-d;+X;" },
        { "a\nb\nc\nd\ne\nf\ng\n", "X\nb\nc\nd\ne\nf\nY\n", 1, "-a;+X; b;@6,6; f;-g;+Y;" },
        { "a\nb\nc\nd\n", "X\nb\nc\nY\n", 1, "-a;+X; b; c;-d;+Y;" },
        { "a\nb\nc\na\nb\nb\na\n", "c\nb\na\nb\na\nc\n", 9, "-a;-b; c;+b; a; b;-b; a;+c;" },      /* the paper's example: five steps */
        { "x\ny\n", "x\nnew\ny\n", 9, " x;+new; y;" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_string_equal(shown(a, cases[i].old, cases[i].new, cases[i].context), cases[i].shown);
    arena_destroy(a);
}

static void test_most(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    const char *old = "a\nb\nc\n", *new = "x\ny\nz\n";
    assert_true(diff_of(a, bytes_of(old), bytes_of(new), 5, 3).too_far);
    const struct diff d = diff_of(a, bytes_of(old), bytes_of(new), 6, 3);
    assert_false(d.too_far);
    assert_int_equal(d.n_removed, 3);
    assert_int_equal(d.n_added, 3);
    arena_destroy(a);
}

/* The length of the longest common subsequence, by the table of all prefixes: the maximum number of unchanged lines. */
static uint32_t common(const char *x, uint32_t n, const char *y, uint32_t m)
{
    uint32_t best[41][41] = { { 0 } };
    for (uint32_t i = 1; i <= n; i++)
        for (uint32_t k = 1; k <= m; k++)
            best[i][k] = x[i - 1] == y[k - 1] ? best[i - 1][k - 1] + 1 : best[i - 1][k] > best[i][k - 1] ? best[i - 1][k] : best[i][k - 1];
    return best[n][m];
}

static void test_random(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (uint32_t round = 0; round < 3000; round++) {
        struct arena *a = arena_create();
        struct text t[2] = { { .arena = a }, { .arena = a } };
        char letters[2][40];
        uint32_t n[2];
        for (int side = 0; side < 2; side++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            n[side] = (uint32_t)(random >> 33) % 41;
            for (uint32_t i = 0; i < n[side]; i++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                letters[side][i] = (char)('a' + (random >> 33) % 4);
                text_printf(&t[side], "%c\n", letters[side][i]);
            }
        }
        const struct diff d = diff_of(a, bytes_of(text_str(&t[0])), bytes_of(text_str(&t[1])), 80, 100);
        struct text sides[2] = { { .arena = a }, { .arena = a } };
        for (uint32_t i = 0; i < d.n_lines; i++) {
            if (d.lines[i].kind != '+') text_printf(&sides[0], "%.1s\n", d.lines[i].text);
            if (d.lines[i].kind != '-') text_printf(&sides[1], "%.1s\n", d.lines[i].text);
        }
        const bool equal = n[0] == n[1] && memcmp(letters[0], letters[1], n[0]) == 0;
        if (equal) assert_int_equal(d.n_lines, 0);
        else for (int side = 0; side < 2; side++) assert_string_equal(text_str(&sides[side]), text_str(&t[side]));
        assert_int_equal(d.n_removed, n[0] - common(letters[0], n[0], letters[1], n[1]));
        assert_int_equal(d.n_added, n[1] - common(letters[0], n[0], letters[1], n[1]));
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines), cmocka_unit_test(test_most), cmocka_unit_test(test_random) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
