/* test_out.c -- the server's output: any bytes become a JSON string. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "runtime/serve/out.c"

#define U "\xef\xbf\xbd"                                       /* U+FFFD */

static void check(const char *text, size_t n, const char *json)
{
    struct out o = { 0 };
    out_string(&o, text, n);
    assert_false(o.failed);
    assert_int_equal(o.n, strlen(json));
    assert_memory_equal(o.bytes, json, o.n);
    out_free(&o);
}
#define STRING(text, json) check(text, sizeof text - 1, "\"" json "\"")

static void characters(void **state)
{
    (void)state;
    STRING("", "");
    STRING("a\"\\/\n\t\x01\0\x7f", "a\\\"\\\\/\\n\\t\\u0001\\u0000\x7f");
#define FOUR "\xc3\xa9\xe2\x82\xac\xf0\x9f\xa6\x94\xf4\x8f\xbf\xbf"
    STRING(FOUR, FOUR);
}

/* The Unicode Standard 16, section 3.9, tables 3-8 to 3-11: forms that are not the shortest, surrogates, other wrong bytes, and
 * characters without their end; then the ends of the range of surrogates and the end of a text. */
static void wrong_characters(void **state)
{
    (void)state;
    STRING("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", U U U U U U U U "A");
    STRING("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", U U U U U U U U "A");
    STRING("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", U U U U U "A" U U "B");
    STRING("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", U U U U "A");
    STRING("\xed\x9f\xbf\xed\x9f\x41\xee\x80\x80\xee\xbf\x41", "\xed\x9f\xbf" U "A\xee\x80\x80" U "A");
    STRING("a\xf0\x9f\xa6", "a" U);
    STRING("\xe2\x82", U);
    STRING("\xc3", U);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(characters), cmocka_unit_test(wrong_characters) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
