/* test_yaml.c -- the tree, its places, and every error. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/base/yaml.h"
#include "die_capture.h"

static struct arena *a;

static int setup(void **state) { (void)state; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

static struct yaml *parse(const char *text) { return yaml_parse(a, "t.yaml", text, strlen(text)); }

static void tree_and_places(void **state)
{
    (void)state;
    const struct yaml *y = parse("name: x86-64-v4\n"
                                 "tile:\n"
                                 "  tokens: 8   # per tile\n"
                                 "flags: [-O2, \"-g\"]\n"
                                 "empty:\n"
                                 "text: |\n"
                                 "  line one\n"
                                 "    line two\n");
    assert_int_equal(y->kind, YAML_MAP);
    assert_int_equal(y->count, 5);
    assert_string_equal(y->keys[1], "tile");
    assert_int_equal(y->key_places[1].line, 2);
    assert_string_equal(yaml_string(yaml_get(y, "name")), "x86-64-v4");
    const struct yaml *tokens = yaml_need(yaml_need(y, "tile"), "tokens");
    assert_int_equal(yaml_u64(tokens), 8);
    assert_string_equal(tokens->at.file, "t.yaml");
    assert_int_equal(tokens->at.line, 3);
    assert_int_equal(tokens->at.column, 11);
    const struct yaml *flags = yaml_get(y, "flags");
    assert_int_equal(flags->kind, YAML_LIST);
    assert_int_equal(flags->count, 2);
    assert_string_equal(flags->items[0]->scalar, "-O2");
    assert_true(!flags->items[0]->quoted && flags->items[1]->quoted);
    assert_int_equal(yaml_get(y, "empty")->kind, YAML_NULL);
    const struct yaml *text = yaml_get(y, "text");
    assert_string_equal(text->scalar, "line one\n  line two\n");
    assert_int_equal(text->at.line, 6);                /* line of the '|': the text starts on the next line */
    assert_null(yaml_get(y, "absent"));
    assert_null(yaml_get(flags, "x"));
    assert_null(yaml_get(NULL, "x"));
}

static void empty_files_are_null(void **state)
{
    (void)state;
    assert_int_equal(parse("")->kind, YAML_NULL);
    assert_int_equal(parse("# only a comment\n")->kind, YAML_NULL);
    assert_int_equal(parse("---\n")->kind, YAML_NULL);
    assert_int_equal(parse("--- 5\n...\n")->kind, YAML_SCALAR);
    assert_int_equal(parse("\xef\xbb\xbf" "a: 1\n")->kind, YAML_MAP);
}

static void long_lists_and_maps(void **state)
{
    (void)state;
    struct text t = { .arena = a };
    text_puts(&t, "list:\n");
    for (int i = 0; i < 1000; i++) text_printf(&t, "  - %d\n", i);
    text_puts(&t, "map:\n");
    for (int i = 0; i < 1000; i++) text_printf(&t, "  k%d: %d\n", i, i);
    const struct yaml *y = parse(text_str(&t)), *list = yaml_get(y, "list"), *map = yaml_get(y, "map");
    assert_int_equal(list->count, 1000);
    assert_int_equal(map->count, 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(yaml_u64(list->items[i]), i);
        assert_int_equal(yaml_u64(map->items[i]), i);
        assert_string_equal(map->keys[i], arena_printf(a, "k%u", i));
    }
}

static void refusals_name_the_place(void **state)
{
    (void)state;
    assert_dies(parse("a: 1\nb: 2\na: 3\n"), "t.yaml:3:1: key \"a\" was already given in line 1");
    assert_dies(parse("a: &x 1\n"), "t.yaml:1:4: anchors (&x)");
    assert_dies(parse("a: &x [1]\n"), "anchors");
    assert_dies(parse("a: &x {b: 1}\n"), "anchors");
    assert_dies(parse("&x a: 1\n"), "anchors");
    assert_dies(parse("a: 1\nb: *x\n"), "t.yaml:2:4: aliases (*x)");
    assert_dies(parse("*x : 2\n"), "aliases");
    assert_dies(parse("a: !!int 5\n"), "t.yaml:1:4: tags");
    assert_dies(parse("a: !x [5]\n"), "tags");
    assert_dies(parse("a: ! {b: 5}\n"), "tags");
    assert_dies(parse("%TAG ! tag:x,2000:\n---\na: 1\n"), "directives");
    assert_dies(parse("%YAML 1.1\n---\na: 1\n"), "directives");
    assert_dies(parse("a: 1\n---\nb: 2\n"), "t.yaml:2:1: a second document");
    assert_dies(parse("[1, 2]: 3\n"), "t.yaml:1:1: a key must be a word");
    assert_dies(parse("\"\": 3\n"), "this key is empty");
    assert_dies(parse("a: [1, 2\n"), "t.yaml:2:1: not valid YAML");
    assert_dies(parse("a: b: c\n"), "t.yaml:1:5: not valid YAML");
    assert_dies(parse("a: \"x\\0y\"\n"), "t.yaml:1:4: this text contains U+0000, a control");
    assert_dies(parse("\"a\\x9b31m\": 1\n"), "t.yaml:1:1: this text contains U+009B");
    assert_dies(parse("a\xe2\x80\xaez: 1\n"), "t.yaml:1:1: this text contains U+202E");
    assert_dies(parse("a: [x, \xe2\x80\x8b]\n"), "t.yaml:1:8: this text contains U+200B");
    assert_dies(parse("\"a\\nb\": 1\n"), "t.yaml:1:1: this text contains U+000A");
    assert_string_equal(yaml_get(parse("a: \"x\\n\\ty B\xc3\xa4r\"\n"), "a")->scalar, "x\n\ty B\xc3\xa4r");
    assert_dies(parse("a: \xff\n"), "UTF-8");
    assert_dies(yaml_parse(a, "t.yaml", "a: \0", 4), "t.yaml");
}

static void depth_and_size_are_bounded(void **state)
{
    (void)state;
    char deep[200];
    memset(deep, '[', 32);
    memset(deep + 32, ']', 32);
    deep[64] = '\0';
    assert_int_equal(parse(deep)->kind, YAML_LIST);
    memset(deep, '[', 100);
    memset(deep + 100, ']', 99);
    deep[199] = '\0';
    assert_dies(parse(deep), "nested more than 32 deep");
    static char large[(1 << 20) + 1];
    memset(large, ' ', sizeof large);
    assert_int_equal(yaml_parse(a, "large", large, sizeof large - 1)->kind, YAML_NULL);
    assert_dies(yaml_parse(a, "large", large, sizeof large), "large: the file has 1048577 bytes");
}

static void numbers(void **state)
{
    (void)state;
    assert_int_equal(yaml_u64(parse("0")), 0);
    assert_int_equal(yaml_u64(parse("0x1F")), 31);
    assert_true(yaml_u64(parse("18446744073709551615")) == UINT64_MAX);
    assert_dies(yaml_u64(parse("18446744073709551616")), "larger than");
    assert_dies(yaml_u64(parse("-1")), "not a whole number");
    assert_dies(yaml_u64(parse("1.0")), "not a whole number");
    assert_dies(yaml_u64(parse("0x")), "not a whole number");
    assert_dies(yaml_u64(parse("0x-1")), "not a whole number");
    assert_dies(yaml_u64(parse("010")), "starts with a zero");
    assert_dies(yaml_u64(parse("\"1\"")), "quoted");
    assert_dies(yaml_u64(parse("[1]")), "a list stands here");
    assert_dies(yaml_u64(parse("~")), "nothing stands here");
    assert_true(yaml_f64(parse("-2.5e3")) == -2500.0);
    assert_true(yaml_f64(parse("4")) == 4.0);
    assert_dies(yaml_f64(parse("1e999")), "too large");
    assert_dies(yaml_f64(parse("nan")), "not a number");
    assert_dies(yaml_f64(parse("0x10")), "not a number");
    assert_dies(yaml_f64(parse("1.5x")), "not a number");
    assert_dies(yaml_f64(parse("--5")), "not a number");
    assert_true(yaml_bool(parse("true")));
    assert_false(yaml_bool(parse("false")));
    assert_dies(yaml_bool(parse("yes")), "t.yaml:1:1: \"yes\" is neither true nor false");
    assert_string_equal(yaml_string(parse("12")), "12");
    assert_string_equal(yaml_string(parse("\"\"")), "");
    assert_dies(yaml_string(parse("{a: 1}")), "a map stands here; a text");
}

static void keys_needed_and_allowed(void **state)
{
    (void)state;
    static const char *const allowed[] = { "a", "bee", NULL };
    const struct yaml *y = parse("x:\n  a: 1\n  bie: 2\n");
    assert_dies(yaml_need(y, "y"), "t.yaml:1:1: key \"y\" is missing");
    assert_dies(yaml_need(yaml_get(yaml_get(y, "x"), "a"), "y"), "a map with the key \"y\"");
    assert_dies(yaml_only(yaml_get(y, "x"), allowed), "t.yaml:3:3: key \"bie\" is unknown here; the known keys are: a, bee");
    yaml_only(parse("bee: 1\n"), allowed);
    assert_dies(yaml_only(parse("5"), allowed), "a map is needed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_and_places),         cmocka_unit_test(empty_files_are_null), cmocka_unit_test(long_lists_and_maps),
        cmocka_unit_test(refusals_name_the_place), cmocka_unit_test(depth_and_size_are_bounded),
        cmocka_unit_test(numbers),                 cmocka_unit_test(keys_needed_and_allowed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
