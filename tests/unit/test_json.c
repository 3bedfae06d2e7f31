/* test_json.c -- reads and writes JSON: text that RFC 8259 allows and does not allow, and rooms that are too small. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/chat/json.h"

static uint8_t block[1 << 20];
static struct json_error error;

/* The text in a block of exactly its size, so that sanitizers find a read past the end; it lives until the next call. */
static struct json *read_n(const char *text, size_t n)
{
    static char *exact;
    struct room r = room_of(block, sizeof block);
    free(exact);
    exact = malloc(n ? n : 1);
    memcpy(exact, text, n);
    return json_read(&r, exact, n, &error);
}
static struct json *read_text(const char *text) { return read_n(text, strlen(text)); }

static void comes_back_as(const char *text, const char *wanted, bool spaces)
{
    char bytes[4096];
    struct text_out out = { bytes, sizeof bytes - 1, 0, false };
    const struct json *v = read_text(text);
    if (!v) fail_msg("%s: %s at %zu", text, error.why, error.at);
    json_put(&out, v, spaces);
    assert_false(out.full);
    bytes[out.n] = 0;
    assert_string_equal(bytes, wanted);
}

static void values(void **state)
{
    (void)state;
    comes_back_as(" { \"a\" : [ 1.0 , -0 , 1e+9 , true , false , null , { } , [ ] ] , \"\" : \"x\" } ",
                  "{\"a\":[1.0,-0,1e+9,true,false,null,{},[]],\"\":\"x\"}", false);
    comes_back_as("[1,{\"a\":2,\"b\":[3,4]}]", "[1, {\"a\": 2, \"b\": [3, 4]}]", true);
    comes_back_as("\"\\u00e9\\ud83d\\ude00\\ud83d\\u0041\\udc00\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001\"",
                  "\"\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbd" "A\xef\xbf\xbd\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\"", false);
    comes_back_as("123456789012345678901234567890", "123456789012345678901234567890", false);
    comes_back_as("{\"a\":1,\"b\":2,\"a\":3,\"c\":4,\"b\":5,\"a\":6}", "{\"a\":6,\"b\":5,\"c\":4}", false);
    const struct json *v = read_text("\"a\\u0000b\"");
    assert_true(v->n == 3 && memcmp(v->text, "a\0b", 3) == 0);
}

static void refused(void **state)
{
    (void)state;
    static const struct { const char *text; size_t at; } wrong[] = {
        { "", 0 }, { " ", 1 }, { "tru", 0 }, { "nul", 0 }, { "[1,]", 3 }, { "[1 2]", 3 }, { "[", 1 }, { "{", 1 }, { "{\"a\"}", 4 },
        { "{\"a\":}", 5 }, { "{a:1}", 1 }, { "{\"a\":1,}", 7 }, { "01", 0 }, { "-", 0 }, { "1.", 0 }, { ".5", 0 }, { "+1", 0 }, { "1e", 0 },
        { "1e+", 0 }, { "0x1", 1 }, { "\"", 1 }, { "\"\\", 2 }, { "\"\\x\"", 1 }, { "\"\\u12g4\"", 3 }, { "\"\n\"", 1 }, { "\"\xff\"", 1 },
        { "\"\xc0\xaf\"", 1 }, { "\"\xed\xa0\x80\"", 1 }, { "\"\xf4\x90\x80\x80\"", 1 }, { "\"\xe2\x82\"", 1 }, { "1 1", 2 }, { "NaN", 0 },
        { "'a'", 0 }, { "[1]]", 3 },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (read_text(wrong[i].text)) fail_msg("%s was read", wrong[i].text);
        assert_non_null(error.why);
        if (error.at != wrong[i].at) fail_msg("%s: '%s' at %zu", wrong[i].text, error.why, error.at);
    }
    assert_null(read_n("\"a\0b\"", 5));
    char deep[2 * JSON_DEPTH + 3] = { 0 };
    memset(deep, '[', JSON_DEPTH);
    memset(deep + JSON_DEPTH, ']', JSON_DEPTH);
    assert_non_null(read_text(deep));
    memset(deep, '[', JSON_DEPTH + 1);
    memset(deep + JSON_DEPTH + 1, ']', JSON_DEPTH + 1);
    assert_null(read_text(deep));
}

static void numbers(void **state)
{
    (void)state;
    int64_t i;
    double x;
    assert_true(json_integer(read_text("-9007199254740993"), INT64_MIN, INT64_MAX, &i) && i == -9007199254740993);
    assert_false(json_integer(read_text("1.0"), 0, 9, &i));
    assert_false(json_integer(read_text("10"), 0, 9, &i));
    assert_false(json_integer(read_text("99999999999999999999"), INT64_MIN, INT64_MAX, &i));
    assert_false(json_integer(read_text("\"1\""), 0, 9, &i));
    static const char *const reals[] = { "0.1", "-2.5e-3", "1e22", "1e300", "4.9e-300", "123456789.123456789", "0.00000000000000000001",
                                         "3.14159265358979323846264338327950288", "179769313486231570000000000000000e276" };
    for (size_t k = 0; k < sizeof reals / sizeof *reals; k++) {
        assert_true(json_real(read_text(reals[k]), &x));
        const double want = strtod(reals[k], NULL);
        if (fabs(x - want) > 32 * 2.3e-16 * fabs(want)) fail_msg("%s is read as %.17g", reals[k], x);
    }
    assert_false(json_real(read_text("1e999999999999"), &x));
    assert_true(json_real(read_text("0e999999999999"), &x) && x == 0);
    assert_true(json_real(read_text("1e-999999999999"), &x) && x == 0);
}

/* In every room that is too small, reading fails with an error and writes nothing outside. */
static void small_rooms(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1,\"b\\n\",{\"c\":null}],\"d\":2,\"a\":3}";
    for (size_t size = 0; ; size += 3) {
        uint8_t *exact = malloc(size ? size : 1);
        struct room r = room_of(exact, size);
        const struct json *v = json_read(&r, text, sizeof text - 1, &error);
        if (!v) assert_true(r.full && !error.why);
        else assert_true(json_member(v, "a")->n == 1);
        free(exact);
        if (v) break;
        assert_true(size < 4096);
    }
    for (size_t size = 0; size < 9; size++) {
        char bytes[9] = "........";
        struct text_out out = { bytes, size, 0, false };
        json_put_string(&out, "a\nb\x01", 4);
        assert_true(out.full && bytes[size] == (size < 8 ? '.' : 0));
    }
}

/* Random trees, written by cJSON, come back the same. */
static void random_trees(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed < 300; seed++) {
        srand(seed);
        cJSON *stack[64] = { cJSON_CreateArray() };
        uint32_t depth = 1;
        for (int i = 0; i < 60; i++) {
            char name[16], string[24];
            for (int k = 0; k < 15; k++) string[k] = (char)(1 + rand() % 126);
            string[rand() % 16] = 0;
            snprintf(name, sizeof name, "%.3s%d", string, i);
            const int kind = rand() % 7;
            cJSON *v = kind == 0 ? cJSON_CreateArray() : kind == 1 ? cJSON_CreateObject() : kind == 2 ? cJSON_CreateString(string)
                     : kind == 3 ? cJSON_CreateNumber(rand() / 7.0) : kind == 4 ? cJSON_CreateBool(rand() & 1) : cJSON_CreateNull();
            cJSON *in = stack[depth - 1];
            if (cJSON_IsObject(in)) cJSON_AddItemToObject(in, name, v);
            else cJSON_AddItemToArray(in, v);
            if (kind < 2 && depth < 60) stack[depth++] = v;
            else if (rand() % 4 == 0 && depth > 1) depth--;
        }
        char *text = cJSON_Print(stack[0]), *plain = cJSON_PrintUnformatted(stack[0]);
        comes_back_as(text, plain, false);
        free(text);
        free(plain);
        cJSON_Delete(stack[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values), cmocka_unit_test(refused), cmocka_unit_test(numbers), cmocka_unit_test(small_rooms),
        cmocka_unit_test(random_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
