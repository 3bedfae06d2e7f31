/* test_wasm.c -- WebAssembly objects with only their API visible and data appended, two objects in one module, and damaged objects.
 * tests/web tests their results. */
#include "compiler/build/cc.h"
#include "die_capture.h"
#include "compiler/build/link.h"
#include "compiler/product/wasm.h"
#include "scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs the above */
#include <cmocka.h>

enum { IMAGE = 70001 };
static uint8_t image[IMAGE];
static const uint8_t words[] = { 1, 2, 3, 4 };
static struct toolchain *tc;

/* Like a model's library: functions with a prefix, internal functions, tables with addresses, data from another object. */
static const char one[] =
    "typedef unsigned char u8; void *memcpy(void *, const void *, unsigned long);\n"
    "extern const u8 test_image[], test_words[];\nextern const u8 *const test_pointer; const u8 *const test_pointer = test_image;\n"
    "int helper(int); static int twice(int x) { return 2 * x; }\n"
    "struct row { int (*f)(int); const char *name; }; extern const struct row table[];\n"
    "const struct row table[] = { { twice, \"twice\" }, { helper, \"helper\" } };\n"
    "int NAME_get(unsigned); int NAME_get(unsigned i) { return test_pointer[i] + test_words[i % 4]; }\n"
    "int NAME_call(unsigned, int, char *, int);\n"
    "int NAME_call(unsigned k, int x, char *out, int n) { memcpy(out, table[k].name, n); return table[k].f(x); }\n";
static const char two[] =
    "int NAME_get(unsigned); int helper(int); static const int odd[] = { 7, 11, 13, 17 };\n"
    "int helper(int x) { return odd[x & 3] + NAME_get(1); }\n";
static const char *const needed[] = { "memcpy", "memmove", "memset", NULL };

static int setup(void **state)
{
    if (scratch_setup(state) != 0) return -1;
    const struct scratch *s = *state;
    tc = toolchain_open(s->arena, &(struct cc_options){ .spawn = { .jobs = 2 } });
    for (uint32_t i = 0; i < IMAGE; i++) image[i] = (uint8_t)(i * 2654435761u >> 13);
    return 0;
}

static struct bytes compile_one(struct arena *a, const char *source, const char *name)
{
    struct text t = { .arena = a };
    for (const char *at; (at = strstr(source, "NAME")); source = at + 4) {
        text_append(&t, source, (size_t)(at - source));
        text_puts(&t, name);
    }
    text_puts(&t, source);
    struct cc_job job = { .name = "one.c", .source = cc_hidden(a, bytes_of(text_str(&t))), .kind = CC_LIBRARY,
                          .target = target_load(a, "wasm32", NULL) };
    cc_compile(a, tc, &job, 1);
    return job.object;
}

static struct bytes joined(struct arena *a, const char *name)
{
    static const uint8_t placeholder[1];
    const struct link_object objects[] = {
        { "one.o", compile_one(a, one, name) }, { "two.o", compile_one(a, two, name) },
        { "words.o", wasm_data_object(a, "test_words", ".rodata.test_words", 64, (struct bytes){ words, sizeof words }) },
        { "image.o", wasm_data_object(a, "test_image", ".rodata.test_image", 64, (struct bytes){ placeholder, 1 }) } };
    return link_relocatable(a, tc, target_load(a, "wasm32", NULL), objects, COUNT_OF(objects));
}

static struct bytes rewrite(struct arena *a, struct bytes object, const char *name)
{
    const char *const exported[] = { arena_printf(a, "%s_get", name), arena_printf(a, "%s_call", name), NULL };
    const struct wasm_object o = wasm_rewrite(a, "test.o", object, exported, needed, IMAGE);
    uint8_t *file = arena_alloc(a, o.file_bytes);
    assert_int_equal(o.head.size + IMAGE + o.tail.size, o.file_bytes);
    memcpy(file, o.head.data, o.head.size);
    memcpy(file + o.head.size, image, IMAGE);
    memcpy(file + o.head.size + IMAGE, o.tail.data, o.tail.size);
    return (struct bytes){ file, o.file_bytes };
}

/* Two libraries with the same internal names in one module: no name is defined twice, and both weight images are in it. */
static void two_in_one_module(void **state)
{
    struct arena *a = ((const struct scratch *)*state)->arena;
    static const char start[] =
        "int m_call(unsigned, int, char *, int), n_call(unsigned, int, char *, int), m_get(unsigned), n_get(unsigned);\n"
        "void *memcpy(void *to, const void *from, unsigned long n) { return __builtin_memcpy(to, from, n); }\n"
        "__attribute__((export_name(\"start\"))) int start(char *p)\n"
        "{ return m_call(0, 1, p, 3) + n_call(1, 2, p, 3) + m_get(5) + n_get(6); }\n";
    const struct link_object objects[] = { { "start.o", compile_one(a, start, "") }, { "m.o", rewrite(a, joined(a, "m"), "m") },
                                           { "n.o", rewrite(a, joined(a, "n"), "n") } };
    const struct bytes module = link_module(a, tc, objects, COUNT_OF(objects), 65536);
    const uint8_t *first = memmem(module.data, module.size, image, IMAGE);
    assert_non_null(first);
    assert_non_null(memmem(first + IMAGE, module.size - (size_t)(first + IMAGE - module.data), image, IMAGE));
}

static void same_bytes_twice(void **state)
{
    struct arena *a = ((const struct scratch *)*state)->arena;
    const struct bytes x = rewrite(a, joined(a, "m"), "m"), y = rewrite(a, joined(a, "m"), "m");
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
}

static void broken_promises(void **state)
{
    struct arena *a = ((const struct scratch *)*state)->arena;
    static const char *const exported[] = { "f", NULL };
    static const struct { const char *source, *said; } rows[] = {
        { "int g(void); int g(void) { return 1; }", "x.o: f is not defined in it" },
        { "int g(void); int f(void); int f(void) { return g(); }", "it needs g but does not define it" },
        { "extern int n; int f(void); int f(void) { return n; }", "it needs n but does not define it" },
        { "int n; int f(void); int f(void) { return ++n; }", "segment .bss.n holds variables" },
        { "int n = 5; int f(void); int f(void) { return ++n; }", "segment .data.n holds variables" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_dies(wasm_rewrite(a, "x.o", compile_one(a, rows[i].source, ""), exported, needed, 0), rows[i].said);
    const struct bytes without = compile_one(a, "int f(void); int f(void) { return 1; }", "");
    assert_dies(wasm_rewrite(a, "x.o", without, exported, needed, 5), "data is damaged");
    assert_dies(wasm_rewrite(a, "x.o", bytes_of("\177ELF\2\1\1 and so on"), exported, needed, 0), "head is damaged");
}

/* Numbers with seven bits per byte (128 is the first that needs two bytes); alignments as powers of two. */
static void numbers_of_objects(void **state)
{
    struct arena *a = ((const struct scratch *)*state)->arena;
    for (uint32_t align = 1, power = 0; align <= 64; align *= 2, power++) {
        const struct bytes x = wasm_data_object(a, "data", ".rodata.data", align, (struct bytes){ image, 128 });
        const uint8_t *name = memmem(x.data, x.size, "\014.rodata.data", 13);
        assert_non_null(name);
        assert_int_equal(name[13], power);
        assert_memory_equal(x.data + x.size - 2, "\200\001", 2);                    /* the size is last */
    }
}

/* Any prefix and any changed byte give an error message or a result, never a crash (tests/checks.sh runs this under ASan). */
static void damaged_anywhere(void **state)
{
    struct arena *outer = ((const struct scratch *)*state)->arena;
    static const char *const exported[] = { "m_get", "m_call", NULL };
    const struct bytes good = joined(outer, "m");
    static uint32_t died;
    for (volatile size_t i = 0; i < good.size; i++) {
        struct arena *a = arena_create();
        uint8_t *copy = malloc(good.size), *cut = malloc(i ? i : 1);               /* of exactly its size, for ASan */
        assert_non_null(copy);
        assert_non_null(cut);
        memcpy(cut, good.data, i);
        if (DIES(wasm_rewrite(a, "cut.o", ((struct bytes){ cut, i }), exported, needed, IMAGE))) died++;
        memcpy(copy, good.data, good.size);
        copy[i] ^= (uint8_t)(0x80u >> i % 8);
        if (DIES(wasm_rewrite(a, "bit.o", ((struct bytes){ copy, good.size }), exported, needed, IMAGE))) died++;
        copy[i] = 0xff;
        if (DIES(wasm_rewrite(a, "byte.o", ((struct bytes){ copy, good.size }), exported, needed, IMAGE))) died++;
        free(cut);
        free(copy);
        arena_destroy(a);
    }
    assert_true(died > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_in_one_module), cmocka_unit_test(same_bytes_twice), cmocka_unit_test(broken_promises),
        cmocka_unit_test(numbers_of_objects), cmocka_unit_test(damaged_anywhere),
    };
    return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
