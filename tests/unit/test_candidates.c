/* test_candidates.c -- the programs that lists of values describe, and their names. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "compiler/cli/candidates.h"

/* words: "MODEL", then NAME VALUE for each option; names: of the programs, separated by ';'. */
static void check(const char *const *models, const char *const words[][2], const char *names)
{
    struct arena *a = arena_create();
    struct values given[N_DIMENSIONS] = { { 0 } };
    for (; *models; models++) assert_true(values_add(a, &given[DIM_MODEL], DIM_MODEL, *models));
    for (; words && (*words)[0]; words++)
        for (enum dimension d = 0; d < N_DIMENSIONS; d++)
            if (dimension_kinds[d].option && strcmp(dimension_kinds[d].option, (*words)[0]) == 0)
                assert_true(values_add(a, &given[d], d, (*words)[1]));
    uint32_t n;
    const struct combination *c = combinations(a, given, &n);
    assert_non_null(c);
    struct text all = { .arena = a };
    for (uint32_t i = 0; i < n; i++) text_printf(&all, "%s%s", i ? "; " : "", c[i].name);
    assert_string_equal(text_str(&all), names);
    arena_destroy(a);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const one[] = { "m/a.gguf", NULL }, *const two[] = { "m/a.gguf", "b.gguf", NULL },
                      *const same[] = { "a.gguf", "a.gguf", "a.gguf", NULL }, *const folders[] = { "x/a.gguf", "y/a.gguf", NULL },
                      *const odd[] = { "a\n.gguf", ".gguf", NULL };
    static const char *const fused[][2] = { { "--fuse", "layer" }, { NULL, NULL } },
                      *const levels[][2] = { { "--fuse", "layer,none" }, { NULL, NULL } },
                      *const kv[][2] = { { "--kv", "f16,q8_0" }, { "--ctx", "64" }, { NULL, NULL } },
                      *const grid[][2] = { { "--ctx", "64" }, { "--ctx", "128" }, { "--target", "portable,native" }, { NULL, NULL } },
                      *const plans[][2] = { { "--plan", "default" }, { "--plan", "p/own,1.plan" }, { "--source", "default" },
                                            { NULL, NULL } };
    check(one, NULL, "fuse none; fuse layer");
    check(one, fused, "fuse layer");
    check(one, levels, "fuse layer; fuse none");
    check(one, kv, "kv f16; kv q8_0");
    check(two, NULL, "a; b");
    check(two, levels, "a, fuse layer; a, fuse none; b, fuse layer; b, fuse none");
    check(same, NULL, "a; a (2); a (3)");
    check(folders, NULL, "x/a.gguf; y/a.gguf");
    check(odd, NULL, "a\\x0A; .gguf");
    check(one, grid, "portable, ctx 64; portable, ctx 128; native, ctx 64; native, ctx 128");
    check(one, plans, "plan default; plan own,1.plan");
}

static void test_limits(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    struct values given[N_DIMENSIONS] = { { 0 } };
    uint32_t n;
    assert_true(values_add(a, &given[DIM_MODEL], DIM_MODEL, "a.gguf"));
    assert_true(values_add(a, &given[DIM_CTX], DIM_CTX, "1,2,3,4"));
    assert_true(values_add(a, &given[DIM_TARGET], DIM_TARGET, "a,b,c,d"));
    assert_non_null(combinations(a, given, &n));
    assert_int_equal(n, CANDIDATES_MOST);
    assert_true(values_add(a, &given[DIM_CTX], DIM_CTX, "5"));
    assert_null(combinations(a, given, &n));
    assert_int_equal(n, 20);
    static const char *const empty[] = { "", ",", "1,", ",1", "1,,2" };
    for (size_t i = 0; i < COUNT_OF(empty); i++) assert_false(values_add(a, &given[DIM_KV], DIM_KV, empty[i]));
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_names), cmocka_unit_test(test_limits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
