/* test_schema.c -- JSON schemas: documents that satisfy them and documents that do not, errors with their place, and random texts drawn by
 * masks, which the test's own validator checks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "compiler/product/vocab.h"
#include "runtime/chat/mask.h"
#include "runtime/chat/schema.h"
#include "runtime/text/tokenize.h"

enum { ROOM = 32 << 20, MOST = 12 };
static uint8_t *block;                                       /* [ROOM], freed as a whole before each grammar */

#define REF_TREE \
    "{\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":4},\"children\":" \
    "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/node\"},\"maxItems\":2}},\"required\":[\"name\"],\"additionalProperties\":false}}," \
    "\"$ref\":\"#/$defs/node\"}"

static const struct { const char *schema, *valid[MOST], *invalid[MOST]; } cases[] = {
    { "true", { "1", "{\"a\":[]}", "null", "\"x\"" }, { "", "{", "nul" } },
    { "{\"type\":\"object\"}", { "{}", "{\"a\":1,\"b\":{\"c\":[1, 2]}}", "{\n  \"a\": \"\\ud83d\\ude00\"\n}" }, { "[]", "1",
      "{\"a\":\"\\ud83d\"}" } },
    { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"},\"c\":{\"type\":\"boolean\"}},"
      "\"required\":[\"b\"]}",
      { "{\"b\":\"\"}", "{\"a\":1,\"b\":\"x\"}", "{\"a\": -5, \"b\": \"x\", \"c\": true}", "{\"b\":\"x\",\"c\":false}" },
      { "{}", "{\"a\":1}", "{\"b\":1}", "{\"b\":\"x\",\"d\":1}", "{\"b\":\"x\",}", "{\"a\":1.5,\"b\":\"\"}", "{\"b\":\"\",\"b\":\"\"}" } },
    { "{\"type\":\"object\",\"properties\":{\"a\":{},\"ab\":{\"type\":\"null\"},\"\xc3\xa9\\\"\":{\"type\":\"null\"}},"
      "\"additionalProperties\":{\"type\":\"integer\"}}",
      { "{}", "{\"a\":\"x\",\"c\":1}", "{\"b\":2}", "{\"ab\":null,\"abc\":1,\"\":4}", "{\"b\\u0061\":1}", "{\"\xc3\xa9\\\"\":null}",
      "{\"\xc3\xa9\":1}" },
      { "{\"ab\":1}", "{\"c\":\"x\"}", "{\"\\u0061\":1}", "{\"a\\u0062\":1}", "{\"c\":1,\"a\":1}", "{\"\xc3\xa9\\\"\":1}" } },
    { "{\"type\":\"object\",\"required\":[\"x\",\"y\"],\"additionalProperties\":{\"type\":\"integer\"}}",
      { "{\"x\":1,\"y\":2}", "{\"x\":1,\"y\":2,\"z\":3}" }, { "{\"x\":1}", "{}", "{\"x\":1,\"y\":\"\"}", "{\"x\":1,\"y\":2,\"x\":3}" } },
    { "{\"properties\":{\"a\":{\"const\":1}},\"additionalProperties\":false}", { "{}", "{\"a\":1}", "{ }" }, { "{\"b\":1}", "{\"a\":2}" } },
    { "{\"type\":\"object\",\"additionalProperties\":false}", { "{}", "{ }", "{\n}" }, { "{\"a\":1}" } },
    { "{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", { "[]", "[1]", "[1, 2,3]", "[\n  1\n]" }, { "[1,]", "[\"x\"]", "[,1]",
      "[1 2]" } },
    { "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":3}", { "[1,2]", "[1,2,3]" }, { "[]", "[1]",
      "[1,2,3,4]" } },
    { "{\"type\":\"array\",\"maxItems\":0}", { "[]" }, { "[1]" } },
    { "{\"type\":\"array\",\"minItems\":1}", { "[1]", "[{},\"x\"]" }, { "[]" } },
    { "{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":false}", { "[1,\"a\"]" }, { "[]", "[1]", "[1,2]",
      "[1,\"a\",2]" } },
    { "{\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"type\":\"string\"},\"minItems\":2,\"maxItems\":3}",
      { "[1,\"a\"]", "[1,\"a\",\"b\"]" }, { "[1]", "[1,2]", "[1,\"a\",\"b\",\"c\"]" } },
    { "{\"type\":\"string\"}", { "\"\"", "\"a\\n\xc3\xa9\xf0\x9f\x98\x80\"", "\"\\/\\u00e9\"" }, { "\"\n\"", "\"", "\"\\x\"",
      "\"\\udc00\"", "\"\\ud800\"" } },
    { "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", { "\"ab\"", "\"\xc3\xa9\xc3\xa9\xc3\xa9\"", "\"a\\n\"",
      "\"\\ud83d\\ude00x\"" },
      { "\"a\"", "\"abcd\"", "\"\\n\"", "\"\\ud83d\\ude00\"" } },
    { "{\"type\":\"string\",\"maxLength\":500}", { "\"\"", "\"abc\"" }, { "1" } },
    { "{\"enum\":[\"red\",\"gr\\\"een\",1,null,{\"a\":[1]}]}", { "\"red\"", "\"gr\\\"een\"", "1", "null", "{\"a\":[1]}" }, { "\"re\"",
      "2", "{}" } },
    { "{\"type\":\"string\",\"enum\":[\"a\",1]}", { "\"a\"" }, { "1" } },
    { "{\"const\":\"x\"}", { "\"x\"" }, { "\"y\"", "" } },
    { "{\"type\":[\"string\",\"null\"]}", { "null", "\"x\"" }, { "1" } },
    { "{\"type\":\"integer\",\"nullable\":true}", { "null", "0" }, { "\"\"" } },
    { "{\"type\":\"boolean\"}", { "true", "false" }, { "null", "tru" } },
    { "{\"type\":\"integer\"}", { "0", "-1", "1234567890123456" }, { "01", "-0", "1.0", "1e5", "", "-", "+1" } },
    { "{\"type\":\"number\"}", { "0", "-1.5", "1e-9", "0.001", "12E+20" }, { "01", "1.", ".5", "1e999", "-" } },
    { "{\"type\":\"integer\",\"minimum\":0}", { "0", "7", "1234" }, { "-1", "01" } },
    { "{\"type\":\"integer\",\"minimum\":13,\"maximum\":2047}", { "13", "99", "100", "999", "1000", "1999", "2047" }, { "12", "2048",
      "9", "0013", "-13", "20470" } },
    { "{\"type\":\"integer\",\"exclusiveMinimum\":-10,\"exclusiveMaximum\":10}", { "-9", "0", "9" }, { "-10", "10", "-0", "99" } },
    { "{\"type\":\"integer\",\"minimum\":-250,\"maximum\":-17}", { "-17", "-99", "-100", "-250" }, { "-16", "-251", "17", "0" } },
    { "{\"type\":\"integer\",\"minimum\":0.5,\"maximum\":3.5}", { "1", "3" }, { "0", "4" } },
    { "{\"type\":\"integer\",\"maximum\":5}", { "5", "0", "-100000" }, { "6", "10" } },
    { "{\"type\":\"number\",\"minimum\":0,\"maximum\":1}", { "0", "1", "0.5", "0.999", "1.0", "0.0" }, { "1.5", "-0.5", "2", "1.01",
      "1e5" } },
    { "{\"type\":\"number\",\"exclusiveMinimum\":0}", { "0.5", "1", "12.25" }, { "0", "-1", "0.0", "-0.5" } },
    { "{\"type\":\"number\",\"minimum\":-2,\"exclusiveMaximum\":1}", { "-2", "-1.5", "-0.5", "0.75", "0" }, { "-2.5", "1", "1.5", "-3" } },
    { "{\"type\":\"number\",\"minimum\":-5,\"maximum\":-2}", { "-5", "-3.5", "-2", "-2.0" }, { "-1.5", "-5.5", "3.5", "-1" } },
    { "{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1}]}", { "1", "\"a\"" }, { "\"ab\"", "true" } },
    { "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"a\"},\"v\":{\"type\":\"integer\"}},\"required\":[\"k\",\"v\"]},"
      "{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"b\"}},\"required\":[\"k\"]}]}", { "{\"k\":\"a\",\"v\":1}",
      "{\"k\":\"b\"}" }, { "{\"k\":\"a\"}", "{\"k\":\"c\"}" } },
    { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"}},"
      "\"anyOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}",
      { "{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":2}" }, { "{}" } },
    { "{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":3}},"
      "\"required\":[\"a\"]},{\"properties\":{\"a\":{\"maximum\":5},\"b\":{\"type\":\"null\"}}}]}",
      { "{\"a\":3}", "{\"a\":5,\"b\":null}" }, { "{\"a\":2}", "{\"a\":6}", "{}", "{\"a\":4,\"b\":1}" } },
    { "{\"definitions\":{\"p\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"integer\"}},\"required\":[\"x\"]}},"
      "\"$ref\":\"#/definitions/p\",\"properties\":{\"y\":{\"type\":\"integer\"}}}",
      { "{\"x\":1}", "{\"x\":1,\"y\":2}" }, { "{\"y\":2}", "{}" } },
    { REF_TREE, { "{\"name\":\"a\"}", "{\"name\":\"a\",\"children\":[{\"name\":\"b\",\"children\":[]}]}" },
      { "{}", "{\"name\":\"a\",\"children\":[1]}", "{\"name\":\"abcde\"}",
      "{\"name\":\"a\",\"children\":[{\"name\":\"b\"},{\"name\":\"b\"},{\"name\":\"b\"}]}" } },
    { "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"integer\"},{\"$ref\":\"#\"}]}}", { "[]", "[1,[2,[]]]" }, { "[\"\"]", "1" } },
    { "{\"type\":\"string\",\"pattern\":\"^[A-Z]{2}-\\\\d+$\"}", { "\"AB-1\"", "\"XY-123\"" }, { "\"A-1\"", "\"AB-\"", "\"AB-1x\"",
      "\"xAB-1\"" } },
    { "{\"type\":\"string\",\"pattern\":\"b+\"}", { "\"b\"", "\"abc\"", "\"\\nbb\"" }, { "\"\"", "\"ac\"" } },
    { "{\"type\":\"string\",\"pattern\":\"^(a|b.)*?[^\\\\w\\\"]$|^\\\\\\\\x\\\\u00e9$\"}", { "\"aab-!\"", "\" \"", "\"\\\\x\xc3\xa9\"",
      "\"b\\\"-\"", "\"\\n\"" },
      { "\"a\"", "\"b\"", "\"\\\"\"", "\"x\"" } },
    { "{\"type\":\"string\",\"pattern\":\"^\\\\uD834\\\\uDD1E$\"}", { "\"\xf0\x9d\x84\x9e\"" }, { "\"\xf0\x9d\x90\x9e\"", "\"\"" } },
    { "{\"format\":\"date\"}", { "\"2024-02-28\"", "\"1999-12-31\"" }, { "\"2024-13-01\"", "\"2024-04-31\"", "\"2024-1-1\"" } },
    { "{\"type\":\"string\",\"format\":\"date-time\"}", { "\"2024-02-01T23:59:59Z\"", "\"2024-02-01T00:00:00.5+01:30\"" },
      { "\"2024-02-01\"", "\"2024-02-01T24:00:00Z\"" } },
    { "{\"type\":\"string\",\"format\":\"uuid\"}", { "\"01234567-89ab-cdef-0123-456789abcdef\"",
        "\"01234567-89AB-CDEF-0123-456789ABCDEF\"" }, { "\"0123\"",
      "\"01234567-89ab-cdef-0123-456789abcdeg\"" } },
    { "{\"type\":\"string\",\"format\":\"ipv4\"}", { "\"1.2.3.4\"", "\"255.255.255.0\"" }, { "\"256.1.1.1\"", "\"1.2.3\"",
      "\"01.2.3.4\"" } },
    { "{\"type\":\"string\",\"format\":\"regex\",\"minLength\":2}", { "\"http://a\"", "\"ab\"" }, { "\"a\"", "1" } },
    { "{\"type\":\"string\",\"format\":\"uri\"}", { "\"https://example.com:80/a/b%20c?x=1#y\"", "\"urn:isbn:1\"" }, { "\"a\"",
        "\"http://a b\"" } },
    { "{\"type\":\"string\",\"format\":\"hostname\"}", { "\"a-b.example.com\"" }, { "\"-a\"", "\"a..b\"", "\"\"" } },
    { "{\"type\":\"string\",\"format\":\"ipv6\"}", { "\"::\"", "\"::1\"", "\"fe80::1:2\"", "\"1:2:3:4:5:6:7:8\"", "\"1:2:3:4:5:6:7::\"" },
      { "\"1:2:3\"", "\"1::2::3\"", "\":1\"" } },
    { "{\"type\":\"string\",\"format\":\"duration\"}", { "\"P1D\"", "\"P1Y2M3DT4H5M6S\"", "\"PT5S\"", "\"P3W\"" }, { "\"P\"",
        "\"PT\"", "\"P1\"" } },
    { "{\"type\":\"string\",\"format\":\"byte\"}", { "\"\"", "\"QUI=\"", "\"QQ==\"" }, { "\"Q\"", "\"QQ\"" } },
    /* keywords of strings together */
    { "{\"type\":\"string\",\"format\":\"date\",\"pattern\":\"^\\\\d{4}-\\\\d\\\\d-\\\\d\\\\d$\"}", { "\"2024-02-28\"" },
        { "\"2024-13-01\"", "\"2024\"" } },
    { "{\"type\":\"string\",\"format\":\"date\",\"pattern\":\"^2\"}", { "\"2024-02-28\"" }, { "\"1999-12-31\"" } },
    { "{\"type\":\"string\",\"pattern\":\"^[a-z]+$\",\"minLength\":2,\"maxLength\":3}", { "\"ab\"", "\"abc\"" }, { "\"a\"",
        "\"abcd\"", "\"a1\"" } },
    { "{\"type\":\"string\",\"format\":\"email\",\"maxLength\":10}", { "\"abc@de.com\"" }, { "\"abcd@de.com\"", "\"abc\"" } },
    { "{\"type\":\"string\",\"format\":\"email\",\"maxLength\":255}", { "\"abc@de.com\"" }, { "\"abc\"" } },
    { "{\"allOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"b$\"},{\"maxLength\":3}],\"type\":\"string\"}", { "\"ab\"", "\"axb\"" },
        { "\"a\"", "\"b\"", "\"axxb\"" } },
    { "{\"type\":\"string\",\"pattern\":\"^(?=.*\\\\d)(?!.*x)[a-z0-9]{2,4}$\"}", { "\"a1\"", "\"1abc\"" }, { "\"ab\"", "\"x1\"",
        "\"1\"" } },
    { "{\"type\":\"string\",\"pattern\":\"^(^a|b$)$\"}", { "\"a\"", "\"b\"" }, { "\"ab\"", "\"\"" } },
    { "{\"type\":\"string\",\"pattern\":\"\\\\bfoo\\\\b\"}", { "\"foo\"", "\"a foo.\"" }, { "\"afoo\"", "\"foo_\"" } },
    { "{\"type\":\"string\",\"pattern\":\"(?i)^ab[^c]$\"}", { "\"aB1\"", "\"ABx\"" }, { "\"abC\"", "\"abc\"" } },
    { "{\"type\":\"string\",\"pattern\":\"\\\\A(?P<y>\\\\d{2}|x)\\\\Z\"}", { "\"12\"", "\"x\"" }, { "\"1\"", "\"xx\"" } },
    { "{\"type\":\"string\",\"pattern\":\"^(\\\\w* ?){0,4}$\"}", { "\"a b c\"", "\"\"" }, { "\"-\"" } },
    { "{\"type\":\"string\",\"pattern\":\"(?<=a)b(?<!x)$\"}", { "\"ab\"" }, { "\"b\"", "\"xb\"" } },
    { "{\"type\":\"string\"}", { "\"\x7f\"" }, { "\"\x1f\"" } },
    /* numbers */
    { "{\"type\":\"number\",\"minimum\":0.5,\"exclusiveMaximum\":1.25}", { "0.5", "1", "1.2499", "0.50" }, { "0.49", "1.25", "0",
        "1.3", "-1", "1e0" } },
    { "{\"type\":\"number\",\"minimum\":-0.75,\"maximum\":-0.5}", { "-0.5", "-0.75", "-0.6" }, { "-0.4", "-0.76", "0.6", "-1" } },
    { "{\"type\":\"number\",\"minimum\":1e3}", { "1000", "1000.5", "20000" }, { "999", "999.9" } },
    { "{\"type\":\"integer\",\"minimum\":3,\"exclusiveMinimum\":5,\"maximum\":9,\"exclusiveMaximum\":20}",
        { "6", "9" }, { "3", "5", "10", "19" } },
    { "{\"type\":\"integer\",\"minimum\":7,\"exclusiveMinimum\":5,\"maximum\":9,\"exclusiveMaximum\":9}",
        { "7", "8" }, { "5", "6", "9" } },
    { "{\"type\":\"number\",\"minimum\":0,\"exclusiveMinimum\":true}", { "0.5", "1" }, { "0", "0.0", "-1" } },
    { "{\"type\":\"integer\",\"multipleOf\":5,\"minimum\":-10,\"maximum\":120}", { "0", "5", "-10", "115", "120" }, { "-15", "3",
        "125", "-0" } },
    { "{\"type\":\"number\",\"multipleOf\":0.25}", { "0", "0.25", "1.5", "-3.75", "10" }, { "0.3", "0.125", "1e1" } },
    { "{\"allOf\":[{\"multipleOf\":4},{\"multipleOf\":6}],\"type\":\"integer\"}", { "0", "12", "-24" }, { "4", "6", "18" } },
    /* arrays and objects */
    { "{\"type\":\"array\",\"items\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}", { "[\"a\",1]" }, { "[1,1]", "[\"a\",1,2]" } },
    { "{\"type\":\"array\",\"items\":[{\"type\":\"string\"}],\"additionalItems\":{\"type\":\"integer\"}}", { "[\"a\"]",
        "[\"a\",1,2]" }, { "[1]",
      "[\"a\",\"b\"]" } },
    { "{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-z]+$\"},\"additionalProperties\":{\"type\":\"integer\"}}", { "{}",
        "{\"ab\":1}" },
      { "{\"A\":1}", "{\"ab\":\"\"}" } },
    { "{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"b\"]},\"additionalProperties\":{\"type\":\"integer\"},\"required\":"
        "[\"a\"]}",
      { "{\"a\":1}", "{\"a\":1,\"b\":2}" }, { "{}", "{\"a\":1,\"c\":2}", "{\"b\":1}" } },
    { "{\"type\":\"object\",\"properties\":{\"x1\":{\"type\":\"string\"}},\"patternProperties\":{\"^x\":{\"minLength\":2},\"y$\":{\""
        "type\":\"string\"}},"
      "\"additionalProperties\":false}",
      { "{}", "{\"x1\":\"ab\",\"x2\":\"ab\",\"y\":\"\"}", "{\"xy\":\"ab\"}" }, { "{\"x1\":\"a\"}", "{\"x2\":\"a\"}", "{\"xy\":\"\"}",
          "{\"z\":1}" } },
    { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"},\"c\":{\"type\":\"integer\"}},"
        "\"minProperties\":2}",
      { "{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}" }, { "{}", "{\"a\":1}", "{\"c\":1}" } },
    { "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"},\"minProperties\":1,\"maxProperties\":2}",
      { "{\"a\":1}", "{\"a\":1,\"b\":2}" }, { "{}", "{\"a\":1,\"b\":2,\"c\":3}" } },
    { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"],\"additionalProperties\":true,\"maxPr"
        "operties\":1}",
      { "{\"a\":1}" }, { "{}", "{\"a\":1,\"b\":2}" } },
    /* values with keywords beside them; combined values; impossible alternatives; annotations; absent members */
    { "{\"type\":\"integer\",\"enum\":[1,5,9],\"minimum\":3,\"exclusiveMaximum\":9}", { "5" }, { "1", "9" } },
    { "{\"enum\":[\"a\",\"abc\",1],\"maxLength\":2}", { "\"a\"", "1" }, { "\"abc\"" } },
    { "{\"allOf\":[{\"enum\":[\"a\",\"b\",\"c\"]},{\"enum\":[\"b\",\"c\",\"d\"]}]}", { "\"b\"", "\"c\"" }, { "\"a\"", "\"d\"" } },
    { "{\"const\":{\"a\":[1,2],\"b\":{}}}", { "{\"a\":[1,2],\"b\":{}}", "{ \"a\": [1, 2], \"b\": {} }" }, { "{\"a\":[1,2]}",
        "{\"a\":[2,1],\"b\":{}}" } },
    { "{\"anyOf\":[{\"type\":\"string\"},{\"not\":{}}]}", { "\"a\"" }, { "1" } },
    { "{\"type\":\"string\",\"maxLength\":1,\"minLength\":null,\"discriminator\":{\"propertyName\":\"k\"},\"optional\":true,\"xml\":"
        "{}}", { "\"\"", "\"a\"" },
      { "\"ab\"" } },
    { "{\"$id\":\"https://x.y/s\",\"items\":{\"anyOf\":[{\"$ref\":\"#one\"},{\"$ref\":\"https://x.y/s#/$defs/b\"}]},\"$defs\":{\"a\""
        ":{\"$anchor\":\"one\","
      "\"const\":1},\"b\":{\"const\":2}}}", { "[1,2]" }, { "[3]" } },
    { "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"format\":\"int32\"},\"uniqueItems\":false}", { "[]", "[1,1]" }, { "[\"\"]" } },
    { "{\"type\":\"object\",\"minProperties\":0,\"patternProperties\":{},\"propertyNames\":{},"
      "\"additionalProperties\":{\"type\":\"integer\"}}",
      { "{}", "{\"a\":1}" }, { "{\"a\":\"\"}" } },
    { "{\"type\":\"string\",\"format\":\"email\"}", { "\"a.b@c.de\"", "\"x+y@sub.example.com\"" }, { "\"a\"", "\"a@b\"", "\"@b.c\"" } },
    { "{\"type\":\"object\",\"properties\":{\"a]-^[\\\\\":{\"type\":\"integer\"}},\"additionalProperties\":true,\"title\":\"t\","
      "\"description\":\"d\",\"x-any\":1}",
      { "{\"a]-^[\\\\\":1}", "{\"a]-^x\":\"\"}", "{\"a]\":1}" }, { "{\"a]-^[\\\\\":\"\"}" } },
};

static struct lexicon lexicon_of(struct arena *a, const char *name)
{
    struct lexicon x;
    const uint8_t *vocab = vocab_build(a, gguf_open(a, arena_printf(a, FORGEC_UNPACKED "/tokenizers/%s.gguf", name), true), 0).data;
    const size_t bytes = lexicon_room(vocab, forge_vocab_n_tokens(vocab));
    struct room r = room_of(arena_alloc(a, bytes), bytes);
    assert_true(lexicon_make(&x, vocab, forge_vocab_n_tokens(vocab), &r));
    return x;
}

static const struct grammar *grammar_of(const char *schema)
{
    struct room r = room_of(block, ROOM);
    struct grammar_error error;
    const size_t n = strlen(schema);
    char *exact = malloc(n ? n : 1);
    memcpy(exact, schema, n);
    const struct grammar *g = grammar_of_schema(&r, exact, n, NULL, &error);
    if (!g) fail_msg("%s\n%u:%u: %s", schema, error.line, error.column, error.text);
    free(exact);
    return g;
}

static bool accepts(struct mask *m, const char *text)
{
    assert_int_equal(mask_restart(m), MASK_OK);
    return mask_text(m, text, strlen(text), NULL) == MASK_OK && mask_may_end(m);
}

/* ---- a validator ---- */

static const cJSON *schema_root;

static bool matches(const char *pattern, const char *text)
{
    regex_t r;
    assert_int_equal(regcomp(&r, pattern, REG_EXTENDED | REG_NOSUB), 0);
    const bool found = regexec(&r, text, 0, NULL, 0) == 0;
    regfree(&r);
    return found;
}

static size_t codepoints(const char *s)
{
    size_t n = 0;
    for (; *s; s++) n += ((uint8_t)*s & 0xc0) != 0x80;
    return n;
}

static bool of_type(const char *t, const cJSON *v)
{
    if (strcmp(t, "null") == 0) return cJSON_IsNull(v);
    if (strcmp(t, "boolean") == 0) return cJSON_IsBool(v);
    if (strcmp(t, "string") == 0) return cJSON_IsString(v);
    if (strcmp(t, "number") == 0) return cJSON_IsNumber(v);
    if (strcmp(t, "integer") == 0) return cJSON_IsNumber(v) && v->valuedouble == floor(v->valuedouble);
    if (strcmp(t, "array") == 0) return cJSON_IsArray(v);
    return strcmp(t, "object") == 0 && cJSON_IsObject(v);
}

static bool validates(const cJSON *s, const cJSON *v);

static const cJSON *referred(const char *ref)
{
    const cJSON *at = schema_root;
    char copy[200];
    snprintf(copy, sizeof copy, "%s", ref);
    for (char *step = strtok(copy + 1, "/"); step; step = strtok(NULL, "/")) at = cJSON_GetObjectItemCaseSensitive(at, step);
    assert_non_null(at);
    return at;
}

static bool formatted(const char *format, const char *text)
{
    static const char *const known[] = { "date", "date-time", "uuid", "ipv4", "email" };
    bool checked = false;
    for (size_t i = 0; i < COUNT_OF(known); i++) checked |= strcmp(format, known[i]) == 0;
    if (!checked) return true;
    const char *p = strcmp(format, "date") == 0 ? "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
                  : strcmp(format,
      "date-time") == 0 ? "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3])(:[0-5][0-9]){2}"
                                                       "(\\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
                  : strcmp(format, "uuid") == 0 ? "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
                  : strcmp(format,
      "ipv4") == 0 ? "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(\\.|$)){4}$" : "^[^@ ]+@[^@ ]+\\.[^@ ]+$";
    return matches(p, text);
}

/* POSIX expressions for the ECMA classes of the patterns here. */
static const char *posix_of(const char *pattern)
{
    if (strcmp(pattern, "^[A-Z]{2}-\\d+$") == 0) return "^[A-Z]{2}-[0-9]+$";
    return strcmp(pattern, "b+") == 0 ? pattern : NULL;
}

static bool object_validates(const cJSON *s, const cJSON *v)
{
    const cJSON *properties = cJSON_GetObjectItemCaseSensitive(s, "properties"), *additional = cJSON_GetObjectItemCaseSensitive(s,
      "additionalProperties");
    const cJSON *required, *m;
    cJSON_ArrayForEach(required, cJSON_GetObjectItemCaseSensitive(s, "required"))
        if (!cJSON_GetObjectItemCaseSensitive(v, required->valuestring)) return false;
    cJSON_ArrayForEach(m, v) {
        const cJSON *own = cJSON_GetObjectItemCaseSensitive(properties, m->string);
        const bool other = additional && !cJSON_GetObjectItemCaseSensitive(s, "patternProperties");
        if (own ? !validates(own, m) : other && !validates(additional, m)) return false;
    }
    return true;
}

static bool validates(const cJSON *s, const cJSON *v)
{
    if (cJSON_IsTrue(s)) return true;
    if (cJSON_IsFalse(s)) return false;
    const cJSON *k, *x;
    cJSON_ArrayForEach(k, s) {
        const char *name = k->string;
        const double number = k->valuedouble;
        bool good = true;
        if (strcmp(name, "$ref") == 0) good = strncmp(k->valuestring, "#/", 2) != 0 || validates(referred(k->valuestring), v);
        else if (strcmp(name, "type") == 0 && cJSON_IsString(k)) {
            const cJSON *nullable = cJSON_GetObjectItemCaseSensitive(s, "nullable");
            good = of_type(k->valuestring, v) || (cJSON_IsTrue(nullable) && cJSON_IsNull(v));
        } else if (strcmp(name, "type") == 0) { good = false; cJSON_ArrayForEach(x, k) good |= of_type(x->valuestring, v); }
        else if (strcmp(name, "enum") == 0) { good = false; cJSON_ArrayForEach(x, k) good |= cJSON_Compare(x, v, true); }
        else if (strcmp(name, "const") == 0) good = cJSON_Compare(k, v, true);
        else if (strcmp(name, "anyOf") == 0 || strcmp(name, "oneOf") == 0) { good = false; cJSON_ArrayForEach(x, k) good |= validates(x,
      v); }
        else if (strcmp(name, "allOf") == 0) { cJSON_ArrayForEach(x, k) good &= validates(x, v); }
        else if (cJSON_IsString(v)) {
            if (strcmp(name, "minLength") == 0) good = (double)codepoints(v->valuestring) >= number;
            if (strcmp(name, "maxLength") == 0) good = (double)codepoints(v->valuestring) <= number;
            if (strcmp(name, "format") == 0) good = formatted(k->valuestring, v->valuestring);
            if (strcmp(name, "pattern") == 0) good = !posix_of(k->valuestring) || matches(posix_of(k->valuestring), v->valuestring);
        } else if (cJSON_IsNumber(v)) {
            if (strcmp(name, "minimum") == 0) good = v->valuedouble >= number;
            if (strcmp(name, "multipleOf") == 0) good = fabs(fmod(v->valuedouble, number)) < 1e-6;      /* of powers of two and integers */
            if (strcmp(name, "maximum") == 0) good = v->valuedouble <= number;
            if (strcmp(name, "exclusiveMinimum") == 0) good = v->valuedouble > (cJSON_IsTrue(k) ? 0 : number);
            if (strcmp(name, "exclusiveMaximum") == 0) good = v->valuedouble < number;
        } else if (cJSON_IsArray(v)) {
            const int n_prefix = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(s, "prefixItems"));
            if (strcmp(name, "minItems") == 0) good = cJSON_GetArraySize(v) >= number;
            if (strcmp(name, "maxItems") == 0) good = cJSON_GetArraySize(v) <= number;
            if (strcmp(name, "prefixItems") == 0)
                for (int i = 0; i < n_prefix && i < cJSON_GetArraySize(v); i++) good &= validates(cJSON_GetArrayItem(k, i),
      cJSON_GetArrayItem(v, i));
            if (strcmp(name, "items") == 0 && !cJSON_IsArray(k))
                for (int i = n_prefix; i < cJSON_GetArraySize(v); i++) good &= validates(k, cJSON_GetArrayItem(v, i));
        }
        if (!good) return false;
    }
    return !cJSON_IsObject(v) || object_validates(s, v);
}

/* ---- tests ---- */

static void documents(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    const struct lexicon x = lexicon_of(a, "tiny-llama-a");
    void *memory = malloc(mask_usual(&x));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct mask m;
        assert_int_equal(mask_open(&m, grammar_of(cases[i].schema), &x, memory, mask_usual(&x)), MASK_OK);
        cJSON *schema = cJSON_Parse(cases[i].schema);
        schema_root = schema;
        for (size_t k = 0; k < MOST && cases[i].valid[k]; k++) {
            if (!accepts(&m, cases[i].valid[k])) fail_msg("%s\nrefuses %s", cases[i].schema, cases[i].valid[k]);
            cJSON *v = cJSON_Parse(cases[i].valid[k]);
            if (!v || !validates(schema, v)) fail_msg("%s\nis not satisfied by %s", cases[i].schema, cases[i].valid[k]);
            cJSON_Delete(v);
        }
        for (size_t k = 0; k < MOST && cases[i].invalid[k]; k++)
            if (accepts(&m, cases[i].invalid[k])) fail_msg("%s\naccepts %s", cases[i].schema, cases[i].invalid[k]);
        cJSON_Delete(schema);
    }
    free(memory);
    arena_destroy(a);
}

static const struct { const char *schema, *why; } wrong[] = {
    { "{", "1:2" }, { "{\"type\":\"objekt\"}", "#: 'objekt' is not a type" }, { "3", "must be an object" },
    { "{\"properties\":{\"a\":{\"not\":{\"const\":1}}}}", "#/properties/a: 'not' is a keyword that is not enforced" },
    { "{\"items\":{\"properties\":{\"b\":{\"uniqueItems\":true}}}}", "#/items/properties/b: 'uniqueItems'" },
    { "{\"$defs\":{\"d\":{\"if\":{}}},\"items\":{\"$ref\":\"#/$defs/d\"}}", "#/$defs/d: 'if'" },
    { "{\"patternProperties\":{\"(\":{}}}", "patternProperties" }, { "{\"multipleOf\":12345}", "'multipleOf' is too large" },
    { "{\"maxProperties\":100000}", "'maxProperties' is too large" }, { "{\"dependentRequired\":{\"a\":[\"b\"]}}", "dependentRequired" },
    { "{\"$ref\":\"other.json\"}", "refers to another place" }, { "{\"$ref\":\"#/$defs/none\"}", "refers to a part" },
    { "{\"$ref\":\"#\"}", "reference to itself" }, { "{\"allOf\":[{\"$ref\":\"#\"}],\"type\":\"object\"}", "back to itself" },
    { "{\"type\":\"string\",\"format\":3}", "'format' is not a string" }, { "{\"pattern\":\"(?=a)*\"}", "'pattern' has ^, $, \\b" },
    { "{\"pattern\":\"(a\"}", "'pattern' has a group without" }, { "{\"pattern\":\"a**\"}", "repetition" }, { "{\"pattern\":\"\\\\1\"}",
      "back" },
    { "{\"pattern\":\"(a|b)*a(a|b){20}\",\"maxLength\":99}", "'maxLength' is too large, or too large together" },
    { "{\"format\":\"date\",\"pattern\":\"^x\"}", "'format' and the pattern beside it exclude each other" },
    { "{\"minLength\":3,\"maxLength\":2}", "more than the maximum" }, { "{\"minItems\":-1}", "'minItems' is not a valid length" },
    { "{\"required\":[\"a\"],\"additionalProperties\":false}", "'a' is required" }, { "{\"required\":\"a\"}", "not an array" },
    { "{\"allOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}", "exclude each other" },
    { "{\"allOf\":[{\"properties\":{\"a\":{}},\"additionalProperties\":false},{\"properties\":{\"b\":{}}}]}", "excludes properties" },
    { "{\"enum\":[\"a\"],\"type\":\"integer\"}", "no value of the type" }, { "{\"enum\":[\"a\"],\"minLength\":2}",
        "no value of the type, or none" },
    { "{\"enum\":[[1]],\"minItems\":2}", "'minItems' beside enum" }, { "{\"allOf\":[{\"enum\":[1]},{\"enum\":[2]}]}",
        "'enum' has no value" },
    { "{\"type\":\"integer\",\"minimum\":5,\"maximum\":4}", "leaves no number" }, { "{\"items\":[{}],\"prefixItems\":[]}", "prefixItems" },
    { "false", "no text satisfies" }, { "{\"properties\":{\"a\":false},\"required\":[\"a\"]}", "no text satisfies" },
    { "{\"maxLength\":2000000}", "1048576" }, { "{\"anyOf\":[]}", "'anyOf' is not an array" }, { "{\"nullable\":1,\"type\":\"string\"}",
      "nullable" },
};

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct room r = room_of(block, ROOM);
        struct grammar_error error;
        char told[400];
        if (grammar_of_schema(&r, wrong[i].schema, strlen(wrong[i].schema), NULL, &error)) fail_msg("%s was read", wrong[i].schema);
        assert_int_equal(r.used, 0);
        snprintf(told, sizeof told, "%u:%u %s", error.line, error.column, error.text);
        if (!strstr(told, wrong[i].why)) fail_msg("%s\n%s", wrong[i].schema, told);
    }
}

/* What cannot be enforced is passed over with a line each, and everything else is enforced. */
static void warnings(void **state)
{
    static const struct { const char *schema, *valid, *invalid, *lines; } lenient[] = {
        { "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"uniqueItems\":true,\"maxItems\":2}", "[1,1]", "[1,2,3]",
          "#: 'uniqueItems' is a keyword that is not enforced\n" },
        { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"(a)\\\\1\",\"if\":{},\"maxLength\":1},\"b\""
            ":{\"const\":1}},"
          "\"required\":[\"a\"]}", "{\"a\":\"x\",\"b\":1}", "{\"a\":\"xy\"}",
          "#/properties/a: 'if' is a keyword that is not enforced\n#/properties/a: 'pattern' has a reference back, which cannot be e"
              "nforced\n" },
        { "{\"items\":{\"$ref\":\"other.json#/x\"},\"minItems\":1}", "[{}]", "[]",
          "#/items: '$ref' refers to another place; only references inside the schema are followed\n" },
        { "{\"type\":\"string\",\"format\":\"regex\"}", "\"a\"", "1", "#: 'format' is one that is not enforced\n" },
        { "{\"type\":\"string\",\"format\":\"date\",\"pattern\":\"^x$\"}", "\"x\"", "\"y\"",
            "#: 'format' and the pattern beside it exclude each other\n" },
        { "{\"allOf\":[{\"contains\":{}},{\"type\":\"array\",\"maxItems\":1}]}", "[1]", "[1,2]",
            "#: 'contains' is a keyword that is not enforced\n" },
        { "{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "1", "true",
          "#: 'oneOf' is enforced like anyOf: more than one of its schemas may hold\n" },
        { "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},"
          "{\"$ref\":\"#/$defs/b\"},{\"type\":\"null\"}],\"$defs\":{\"b\":{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[2,3]}},"
          "\"required\":[\"k\"]}}}", "{\"k\":3}", "{\"k\":4}", "" },
        { "{\"type\":\"integer\"}", "1", "1.5", "" },
    };
    (void)state;
    struct arena *a = arena_create();
    const struct lexicon x = lexicon_of(a, "tiny-llama-a");
    void *memory = malloc(mask_usual(&x));
    for (size_t i = 0; i < COUNT_OF(lenient); i++) {
        char lines[1000], few[20];
        struct text_out out = { lines, sizeof lines, 0, false }, small = { few, sizeof few, 0, false };
        struct room r = room_of(block, ROOM);
        struct grammar_error error;
        struct mask m;
        const struct grammar *g = grammar_of_schema(&r, lenient[i].schema, strlen(lenient[i].schema), &out, &error);
        if (!g) fail_msg("%s\n%s", lenient[i].schema, error.text);
        assert_int_equal(mask_open(&m, g, &x, memory, mask_usual(&x)), MASK_OK);
        if (!accepts(&m, lenient[i].valid) || accepts(&m, lenient[i].invalid)) fail_msg("%s", lenient[i].schema);
        lines[out.n] = 0;
        assert_string_equal(lines, lenient[i].lines);
        struct room again = room_of(block, ROOM);
        assert_non_null(grammar_of_schema(&again, lenient[i].schema, strlen(lenient[i].schema), &small, &error));
        assert_int_equal(small.n, 0);                        /* there is no room for a warning, or no warning */
    }
    free(memory);
    arena_destroy(a);
}

static uint32_t random_next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* Random texts that the masks allow must parse and satisfy the schema.  So that texts end, an end token is chosen as soon as it is allowed,
 * and from the middle on short tokens without letters. */
static void random_texts(void **state)
{
    (void)state;
    static const char *const names[] = { "tiny-llama-a", "tiny-gemma3-a", "fairytale" };
    const char *again = getenv("SEED");
    uint32_t whole = 0, all = 0, seed = again ? (uint32_t)strtoul(again, NULL, 10) : (uint32_t)time(NULL);
    print_message("seed %u\n", seed);
    for (size_t v = 0; v < COUNT_OF(names); v++) {
        struct arena *a = arena_create();
        const struct lexicon x = lexicon_of(a, names[v]);
        void *memory = malloc(mask_usual(&x));
        uint32_t *bits = malloc(x.n_words * 4), *allowed = malloc(x.n_vocab * sizeof *allowed);
        for (size_t i = 0; i < COUNT_OF(cases); i++) {
            const struct grammar *g = grammar_of(cases[i].schema);
            cJSON *schema = cJSON_Parse(cases[i].schema);
            schema_root = schema;
            for (int run = 0; run < 6; run++) {
                struct mask m;
                char text[1 << 14];
                size_t n = 0;
                assert_int_equal(mask_open(&m, g, &x, memory, mask_usual(&x)), MASK_OK);
                for (int step = 0; step < 150 && !m.ended && n < sizeof text - 600; step++) {
                    const enum mask_status status = mask_fill(&m, bits);
                    if (status != MASK_OK) fail_msg("%s\nstatus %d behind %.*s", cases[i].schema, status, (int)n, text);
                    uint32_t n_allowed = 0;
                    int32_t id = -1;
                    for (uint32_t t = 0; t < x.n_vocab; t++) if (bits[t / 32] >> t % 32 & 1) allowed[n_allowed++] = t;
                    if (mask_may_end(&m) && random_next(&seed) % 2) id = (int32_t)x.ends[0];
                    for (int attempt = 0; id < 0 && attempt < 40; attempt++) {
                        char piece[300];
                        const int32_t t = (int32_t)allowed[random_next(&seed) % n_allowed];
                        const size_t n_piece = forge_token_text(x.vocab, t, false, piece, sizeof piece);
                        if (attempt == 39 || step < 20 || (n_piece == 1 && strchr("\"}],:0.\\", *piece))) id = t;
                    }
                    assert_int_equal(mask_token(&m, id), MASK_OK);
                    n += forge_token_text(x.vocab, id, false, text + n, sizeof text - n);
                }
                text[n] = 0;
                all++;
                if (!m.ended) continue;
                whole++;
                struct room r = room_of(block + ROOM / 2, ROOM / 2);
                struct json_error error;
                if (!json_read(&r, text, n, &error)) fail_msg("%s\nno JSON at %zu: %s", cases[i].schema, error.at, text);
                if (strstr(text, "\\u0000")) continue;        /* cJSON's strings end at \u0000 */
                cJSON *value = cJSON_Parse(text);
                if (!value || !validates(schema, value)) fail_msg("%s\nis not satisfied by %s", cases[i].schema, text);
                cJSON_Delete(value);
            }
            cJSON_Delete(schema);
        }
        free(bits);
        free(allowed);
        free(memory);
        arena_destroy(a);
    }
    print_message("%u of %u texts ended\n", whole, all);
    assert_true(whole > all / 3);
}

/* Small rooms and large schemas. */
static void bounds(void **state)
{
    (void)state;
    struct grammar_error error;
    bool read = false;
    for (size_t size = 0; !read; size += size / 12 + 64) {
        uint8_t *exact = malloc(size ? size : 1);
        struct room r = room_of(exact, size);
        read = grammar_of_schema(&r, REF_TREE, sizeof REF_TREE - 1, NULL, &error) != NULL;
        if (!read) assert_non_null(strstr(error.text, "memory"));
        free(exact);
        assert_true(size < 2 << 20);
    }
    char *text = malloc(1 << 20), *at = text;
    at += sprintf(at, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < 400; i++) at += sprintf(at, "%s\"property%d\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}",
      i ? "," : "", i * 7919 % 400);
    at += sprintf(at, "},\"additionalProperties\":true}");
    assert_non_null(grammar_of(text));
    at = text + sprintf(text, "{\"enum\":[");
    for (int i = 0; i < 1000; i++) at += sprintf(at, "%s\"value%d\"", i ? "," : "", i);
    sprintf(at, "]}");
    assert_non_null(grammar_of(text));
    at = text;
    for (int i = 0; i < 60; i++) at += sprintf(at, "{\"items\":");
    at += sprintf(at, "true");
    for (int i = 0; i < 60; i++) *at++ = '}';
    *at = 0;
    assert_non_null(grammar_of(text));
    /* Each part is twice the previous part. */
    at = text + sprintf(text, "{\"$defs\":{\"d0\":{\"type\":\"object\"}");
    for (int i = 1; i < 60; i++) at += sprintf(at, ",\"d%d\":{\"allOf\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]}", i,
      i - 1, i - 1);
    sprintf(at, "},\"$ref\":\"#/$defs/d59\"}");
    struct room r = room_of(block, ROOM);
    assert_null(grammar_of_schema(&r, text, strlen(text), NULL, &error));
    at = strstr(text, "#/$defs/d59");
    memcpy(at, "#/$defs/d28", 11);                           /* not too deep, but too large */
    assert_null(grammar_of_schema(&r, text, strlen(text), NULL, &error));
    assert_non_null(strstr(error.text, "too much"));
    at = text + sprintf(text, "{\"required\":[\"a\"");
    for (int i = 0; i < 5000; i++) at += sprintf(at, ",\"n%d\"", i);
    sprintf(at, "]}");
    assert_null(grammar_of_schema(&r, text, strlen(text), NULL, &error));
    free(text);
}

int main(void)
{
    block = malloc(ROOM);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents), cmocka_unit_test(refused), cmocka_unit_test(warnings), cmocka_unit_test(random_texts),
            cmocka_unit_test(bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
