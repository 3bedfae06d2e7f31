/* test_schema.c -- JSON schemas: documents that satisfy them and that do not, what is refused and where, and random texts by masks, held
 * against a validator of the test's own. */
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
static uint8_t *block;                                       /* [ROOM], all of it given back before each grammar */

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
    { "{\"format\":\"date\"}", { "\"2024-02-28\"", "\"1999-12-31\"" }, { "\"2024-13-01\"", "\"2024-04-31\"", "\"2024-1-1\"" } },
    { "{\"type\":\"string\",\"format\":\"date-time\"}", { "\"2024-02-01T23:59:59Z\"", "\"2024-02-01T00:00:00.5+01:30\"" },
      { "\"2024-02-01\"", "\"2024-02-01T24:00:00Z\"" } },
    { "{\"type\":\"string\",\"format\":\"uuid\"}", { "\"01234567-89ab-cdef-0123-456789abcdef\"" }, { "\"0123\"",
      "\"01234567-89ab-cdef-0123-456789abcdeg\"" } },
    { "{\"type\":\"string\",\"format\":\"ipv4\"}", { "\"1.2.3.4\"", "\"255.255.255.0\"" }, { "\"256.1.1.1\"", "\"1.2.3\"",
      "\"01.2.3.4\"" } },
    { "{\"type\":\"string\",\"format\":\"email\"}", { "\"a.b@c.de\"", "\"x+y@sub.example.com\"" }, { "\"a\"", "\"a@b\"", "\"@b.c\"" } },
    { "{\"type\":\"object\",\"properties\":{\"a]-^[\\\\\":{\"type\":\"integer\"}},\"additionalProperties\":true,\"title\":\"t\","
      "\"description\":\"d\",\"x-any\":1}",
      { "{\"a]-^[\\\\\":1}", "{\"a]-^x\":\"\"}", "{\"a]\":1}" }, { "{\"a]-^[\\\\\":\"\"}" } },
};

static struct lexicon lexicon_of(struct arena *a, const char *name)
{
    struct lexicon x;
    const uint8_t *vocab = vocab_build(a, gguf_open(a, arena_printf(a, FORGEC_TEST_DATA "/tokenizers/%s.gguf", name), true), 0).data;
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
    const struct grammar *g = grammar_of_schema(&r, exact, n, &error);
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
    const char *p = strcmp(format, "date") == 0 ? "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
                  : strcmp(format,
      "date-time") == 0 ? "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3])(:[0-5][0-9]){2}"
                                                       "(\\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
                  : strcmp(format, "uuid") == 0 ? "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
                  : strcmp(format,
      "ipv4") == 0 ? "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(\\.|$)){4}$" : "^[^@ ]+@[^@ ]+\\.[^@ ]+$";
    return matches(p, text);
}

/* POSIX's words for what the patterns here have of ECMA's. */
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
        if (own ? !validates(own, m) : additional && !validates(additional, m)) return false;
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
        if (strcmp(name, "$ref") == 0) good = validates(referred(k->valuestring), v);
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
            if (strcmp(name, "maximum") == 0) good = v->valuedouble <= number;
            if (strcmp(name, "exclusiveMinimum") == 0) good = v->valuedouble > number;
            if (strcmp(name, "exclusiveMaximum") == 0) good = v->valuedouble < number;
        } else if (cJSON_IsArray(v)) {
            const int n_prefix = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(s, "prefixItems"));
            if (strcmp(name, "minItems") == 0) good = cJSON_GetArraySize(v) >= number;
            if (strcmp(name, "maxItems") == 0) good = cJSON_GetArraySize(v) <= number;
            if (strcmp(name, "prefixItems") == 0)
                for (int i = 0; i < n_prefix && i < cJSON_GetArraySize(v); i++) good &= validates(cJSON_GetArrayItem(k, i),
      cJSON_GetArrayItem(v, i));
            if (strcmp(name, "items") == 0)
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
    { "{", "1:2" }, { "{\"type\":\"objekt\"}", "#: 'objekt' is no type" }, { "3", "no schema" },
    { "{\"properties\":{\"a\":{\"not\":{}}}}", "#/properties/a: 'not' is a keyword that is not enforced" },
    { "{\"items\":{\"properties\":{\"b\":{\"uniqueItems\":true}}}}", "#/items/properties/b: 'uniqueItems'" },
    { "{\"$defs\":{\"d\":{\"if\":{}}},\"items\":{\"$ref\":\"#/$defs/d\"}}", "#/$defs/d: 'if'" },
    { "{\"patternProperties\":{}}", "patternProperties" }, { "{\"multipleOf\":2}", "multipleOf" }, { "{\"minProperties\":1}",
      "minProperties" },
    { "{\"$ref\":\"other.json\"}", "refers to somewhere else" }, { "{\"$ref\":\"#/$defs/none\"}", "refers to what" },
    { "{\"$ref\":\"#\"}", "begins with itself" }, { "{\"allOf\":[{\"$ref\":\"#\"}],\"type\":\"object\"}", "back to itself" },
    { "{\"type\":\"string\",\"format\":\"hostname\"}", "'hostname' is a format" }, { "{\"pattern\":\"(?=a)\"}", "'pattern' looks ahead" },
    { "{\"pattern\":\"(a\"}", "'pattern' has a group without" }, { "{\"pattern\":\"a**\"}", "repetition" }, { "{\"pattern\":\"\\\\1\"}",
      "back" },
    { "{\"pattern\":\"a\",\"maxLength\":3}", "only one" }, { "{\"type\":\"number\",\"minimum\":0.5}", "fraction" },
    { "{\"minLength\":3,\"maxLength\":2}", "more than the most" }, { "{\"minItems\":-1}", "'minItems' is no length" },
    { "{\"required\":[\"a\"],\"additionalProperties\":false}", "'a' is required" }, { "{\"required\":\"a\"}", "no list" },
    { "{\"allOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}", "exclude each other" },
    { "{\"allOf\":[{\"properties\":{\"a\":{}},\"additionalProperties\":false},{\"properties\":{\"b\":{}}}]}", "excludes properties" },
    { "{\"enum\":[\"a\"],\"type\":\"integer\"}", "no value of the type" }, { "{\"enum\":[\"a\"],\"minLength\":2}", "beside enum" },
    { "{\"type\":\"integer\",\"minimum\":5,\"maximum\":4}", "leaves no number" }, { "{\"items\":[{}]}", "prefixItems" },
    { "false", "no text satisfies" }, { "{\"properties\":{\"a\":false},\"required\":[\"a\"]}", "no text satisfies" },
    { "{\"maxLength\":2000000}", "1048576" }, { "{\"anyOf\":[]}", "'anyOf' is no list" }, { "{\"nullable\":1,\"type\":\"string\"}",
      "nullable" },
};

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct room r = room_of(block, ROOM);
        struct grammar_error error;
        char told[400];
        if (grammar_of_schema(&r, wrong[i].schema, strlen(wrong[i].schema), &error)) fail_msg("%s was read", wrong[i].schema);
        assert_int_equal(r.used, 0);
        snprintf(told, sizeof told, "%u:%u %s", error.line, error.column, error.text);
        if (!strstr(told, wrong[i].why)) fail_msg("%s\n%s", wrong[i].schema, told);
    }
}

static uint32_t random_next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* Texts drawn by chance from what the masks allow parse and satisfy the schema.  So that they end, tokens that end are taken at once, and
 * from the middle on short tokens of no letters. */
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
                if (strstr(text, "\\u0000")) continue;        /* cJSON's strings end there */
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
        read = grammar_of_schema(&r, REF_TREE, sizeof REF_TREE - 1, &error) != NULL;
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
    /* Each part twice what it is made of. */
    at = text + sprintf(text, "{\"$defs\":{\"d0\":{\"type\":\"object\"}");
    for (int i = 1; i < 60; i++) at += sprintf(at, ",\"d%d\":{\"allOf\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]}", i,
      i - 1, i - 1);
    sprintf(at, "},\"$ref\":\"#/$defs/d59\"}");
    struct room r = room_of(block, ROOM);
    assert_null(grammar_of_schema(&r, text, strlen(text), &error));
    at = strstr(text, "#/$defs/d59");
    memcpy(at, "#/$defs/d28", 11);                           /* not too deep, but too much */
    assert_null(grammar_of_schema(&r, text, strlen(text), &error));
    assert_non_null(strstr(error.text, "too much"));
    at = text + sprintf(text, "{\"required\":[\"a\"");
    for (int i = 0; i < 5000; i++) at += sprintf(at, ",\"n%d\"", i);
    sprintf(at, "]}");
    assert_null(grammar_of_schema(&r, text, strlen(text), &error));
    free(text);
}

int main(void)
{
    block = malloc(ROOM);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents), cmocka_unit_test(refused), cmocka_unit_test(random_texts), cmocka_unit_test(bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
