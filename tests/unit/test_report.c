/* test_report.c -- parts of reports: escaped text, readable numbers, tables, and a program's --profile. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compiler/cli/html.h"
#include "compiler/cli/kernel_profile.h"
#include "compiler/cli/table.h"
#include "die_capture.h"
#include <cjson/cJSON.h>

static void test_html(void **state)
{
    (void)state;
    static const struct { const char *text, *html; } cases[] = {
        { "", "" }, { "plain ä €", "plain ä €" }, { "<b a=\"x\" c='y'>&amp;", "&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp;amp;" },
        { "a\tb\nc", "a\tb\nc" }, { "\x01\x1b[0m", "\xef\xbf\xbd\xef\xbf\xbd[0m" }, { "\xff\xc3", "\xef\xbf\xbd\xef\xbf\xbd" },
        { "\xe2\x80\xae" "abc", "\xef\xbf\xbd" "abc" },                     /* right-to-left override */
    };
    struct arena *a = arena_create();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct text t = { .arena = a };
        html_text(&t, cases[i].text);
        assert_string_equal(text_str(&t), cases[i].html);
    }
    static const struct { double x; const char *text; } numbers[] = {
        { 0, "0" }, { 14, "14" }, { 999, "999" }, { 0.03121, "0.0312" }, { 1.8694, "1.869" }, { 43.126, "43.13" }, { 431.26, "431.3" },
        { 1000, "1,000" }, { 21602.4, "21,602" }, { 1234567.8, "1,234,568" }, { -2.5, "-2.500" }, { -54321, "-54,321" },
    };
    for (size_t i = 0; i < COUNT_OF(numbers); i++) assert_string_equal(html_number(a, numbers[i].x), numbers[i].text);
    arena_destroy(a);
}

/* The output of a function, which must fit into a pipe. */
static const char *printed(struct arena *a, const struct table *t)
{
    int ends[2];
    char text[4096];
    fflush(stdout);
    const int saved = dup(1);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], 1);
    table_print(t);
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    close(ends[1]);
    const ssize_t n = read(ends[0], text, sizeof text);
    close(ends[0]);
    assert_true(n > 0);
    return arena_strndup(a, text, (size_t)n);
}

static void test_table(void **state)
{
    (void)state;
    static const char *const heads[] = { "name", ">n", "x" };
    struct arena *a = arena_create();
    struct table t = table_of(a, heads, 3);
    table_cell(&t, "é");
    table_cell(&t, "%d", 12345);
    table_cell(&t, "%s", "a|b");
    table_cell(&t, "longer");
    table_cell(&t, "%d", 7);
    table_cell(&t, "c");
    assert_string_equal(printed(a, &t), "| name   |     n | x    |\n| ------ | ----: | ---- |\n"
                                        "| é      | 12345 | a\\|b |\n| longer |     7 | c    |\n");
    arena_destroy(a);
}

static struct kernel_profile profile_of(struct arena *a, double us, double other)
{
    const char *json = arena_printf(a, "{\"steps\": [{\"kind\": \"decode\", \"n_tokens\": 1, \"step_us\": %g, \"sum_us\": %g, "
                                    "\"kernels\": ["
                                    "{\"name\": \"a\", \"launches\": 2, \"us\": %g, \"bytes\": 100, \"operations\": 200}, "
                                    "{\"name\": \"b\", \"launches\": 1, \"us\": %g, \"bytes\": 0, \"operations\": 0}]}]}", us + other + 1,
                                    us + other, us, other);
    return kernel_profile_read(a, bytes_of(json));
}

/* The JSON of a reader that dies is freed with the test's arena. */
static struct arena *of_json;
static void *take(size_t bytes) { return arena_alloc(of_json, bytes); }
static void give(void *p) { (void)p; }

static void test_target(void **state)
{
    (void)state;
    struct arena *a = of_json = arena_create();
    cJSON_InitHooks(&(cJSON_Hooks){ take, give });
    const struct kernel_profile three[] = { profile_of(a, 5, 30), profile_of(a, 7, 10), profile_of(a, 90, 20) };
    const struct kernel_profile m = kernel_profile_median(three, 3);
    const struct profiled_step *s = &m.steps[STEP_DECODE];
    assert_int_equal(s->n_kernels, 2);
    assert_int_equal(m.steps[STEP_PREFILL].n_kernels, 0);
    assert_true(profiled_kernel_find(s, "a")->us == 7 && profiled_kernel_find(s, "b")->us == 20 && !profiled_kernel_find(s, "c"));
    assert_true(s->sum_us == 27 && s->us == 36 && profiled_kernel_find(s, "a")->launches == 2);
    assert_dies(kernel_profile_read(a, bytes_of("{\"steps\": [{}]}")), "no kind");
    assert_dies(kernel_profile_read(a, bytes_of("no JSON")), "no steps");
    cJSON_InitHooks(NULL);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_html), cmocka_unit_test(test_table), cmocka_unit_test(test_target) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
