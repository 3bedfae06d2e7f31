/* test_objfile.c -- objects of clang for four machines: only their API stays visible, data are appended, and two objects fit into one
 * program.  Also damaged objects. */
#include "compiler/build/cc.h"
#include "die_capture.h"
#include "compiler/build/link.h"
#include "compiler/product/objfile.h"
#include "scratch.h"
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka.h needs the above */
#include <cmocka.h>

/* A library of two sources that use each other's functions and tables; NAME is the prefix. */
static const char one[] =
    "#include <stddef.h>\n#include <stdint.h>\n"
    "void *memcpy(void *, const void *, size_t);\n"
    "extern const uint8_t test_image[], test_words[];\n"
    "const uint8_t *const test_pointer = test_image;\n"
    "int helper(int); static int twice(int x) { return 2 * x; }\n"
    "struct row { int (*f)(int); const char *name; };\n"
    "const struct row table[] = { { twice, \"twice\" }, { helper, \"helper\" } };\n"
    "int NAME_get(uint32_t i) { return test_pointer[i] + test_words[i % 4]; }\n"
    "int NAME_call(unsigned k, int x, char *out) { memcpy(out, table[k].name, 3); return table[k].f(x); }\n";
static const char two[] =
    "int NAME_get(unsigned); int helper(int); static const int odd[] = { 7, 11, 13, 17 };\n"
    "int helper(int x) { return odd[x & 3] + NAME_get(1); }\n";

enum { IMAGE = 70001 };
static uint8_t image[IMAGE];
static const uint8_t words[] = { 1, 2, 3, 4 };

static struct toolchain *tc;

static int setup(void **state)
{
    if (scratch_setup(state) != 0) return -1;
    const struct scratch *s = *state;
    tc = toolchain_open(s->arena, &(struct cc_options){ .spawn = { .jobs = 2 } });
    for (uint32_t i = 0; i < IMAGE; i++) image[i] = (uint8_t)(i * 2654435761u >> 13);
    return 0;
}

static struct bytes replaced(struct arena *a, const char *source, const char *name)
{
    struct text t = { .arena = a };
    for (const char *at; (at = strstr(source, "NAME")); source = at + 4) {
        text_append(&t, source, (size_t)(at - source));
        text_puts(&t, name);
    }
    text_puts(&t, source);
    return cc_hidden(a, bytes_of(text_str(&t)));
}

static struct bytes compile(struct scratch *s, const char *target, const char *name)
{
    struct arena *a = s->arena;
    const struct target *p = target_load(a, target, NULL);
    struct cc_job jobs[] = { { .name = "one.c", .source = replaced(a, one, name), .kind = CC_LIBRARY, .target = p },
                             { .name = "two.c", .source = replaced(a, two, name), .kind = CC_LIBRARY_KERNELS, .target = p } };
    cc_compile(a, tc, jobs, COUNT_OF(jobs));
    const struct link_object objects[] = { { "one.o", jobs[0].object }, { "two.o", jobs[1].object } };
    return link_relocatable(a, tc, p, objects, COUNT_OF(objects));
}

static const struct objfile_data data_of[] = { { "test_words", ".rodata.test_words", sizeof words, 64, words },
                                               { "test_image", ".rodata.test_image", IMAGE, 64, NULL } };
static const char *const needed[] = { "memcpy", "memmove", "memset", NULL };

static struct bytes rewrite(struct scratch *s, struct bytes object, const char *name)
{
    struct arena *a = s->arena;
    const char *const exported[] = { arena_printf(a, "%s_get", name), arena_printf(a, "%s_call", name), NULL };
    const struct objfile_edit edit = { .exported = exported, .needed = needed, .data = data_of, .n_data = 2 };
    const struct objfile result = objfile_rewrite(a, "test.o", object, &edit);
    uint8_t *file = arena_alloc(a, result.file_bytes);
    assert_int_equal(result.head.size + IMAGE, result.file_bytes);
    memcpy(file, result.head.data, result.head.size);
    memcpy(file + result.head.size, image, IMAGE);
    return (struct bytes){ file, result.file_bytes };
}

static int run(struct scratch *s, const char *const *argv, const char **said)
{
    struct spawn_job job = { .argv = argv };
    spawn_run(s->arena, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    *said = job.status ? job.messages : arena_strndup(s->arena, (const char *)job.output.data, job.output.size);
    return job.status;
}

/* ---- results ---- */

static const char *const targets[] = { "x86-64-v3", "aarch64-none", "riscv64", "cortex-m7" };

/* nm's list of one kind: "T", "U". */
static const char *symbols_of(struct scratch *s, const char *path, const char *kind)
{
    const char *said, *line;
    const char *nm = spawn_find(s->arena, "llvm-nm-19") ? "llvm-nm-19" : "llvm-nm";
    assert_int_equal(run(s, (const char *const[]){ nm, "-P", path, NULL }, &said), 0);
    struct text t = { .arena = s->arena };
    for (line = said; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char name[128], type[2];
        if (sscanf(line, "%127s %1s", name, type) == 2 && !strcmp(type, kind)) text_printf(&t, "%s%s", t.size ? " " : "", name);
    }
    return text_str(&t);
}

static void only_the_api_is_left(void **state)
{
    struct scratch *s = *state;
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        const char *path = arena_printf(s->arena, "%s/%s.o", s->directory, targets[i]);
        file_write(s->arena, path, rewrite(s, compile(s, targets[i], "m"), "m"));
        if (!spawn_find(s->arena, "llvm-nm-19") && !spawn_find(s->arena, "llvm-nm")) skip();
        assert_string_equal(symbols_of(s, path, "T"), "m_call m_get");
        assert_string_equal(symbols_of(s, path, "U"), "memcpy");
        for (const char *const *kind = (const char *const[]){ "D", "R", "B", "C", "W", "V", NULL }; *kind; kind++)
            assert_string_equal(symbols_of(s, path, *kind), "");
    }
}

/* Two libraries with the same internal names are linked into one image for each machine: no name is defined twice, and both weight images
 * are present. */
static void two_in_one_link(void **state)
{
    struct scratch *s = *state;
    struct arena   *a = s->arena;
    static const char start[] =
        "#include <stddef.h>\nint m_call(unsigned, int, char *), n_call(unsigned, int, char *), m_get(unsigned), n_get(unsigned);\n"
        "void *memcpy(void *to, const void *from, size_t n) { char *t = to; const volatile char *f = from; while (n--) *t++ = *f++; return "
        "to; }\n"
        "int start(char *p); int start(char *p) { return m_call(0, 1, p) + n_call(1, 2, p) + m_get(5) + n_get(6); }\n";
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        struct cc_job job = { .name = "start.c", .source = bytes_of(start), .kind = CC_LIBRARY,
                              .target = target_load(a, targets[i], NULL) };
        cc_compile(a, tc, &job, 1);
        const char *paths[] = { arena_printf(a, "%s/start.o", s->directory), arena_printf(a, "%s/m.o", s->directory),
                                arena_printf(a, "%s/n.o", s->directory) };
        const char *out = arena_printf(a, "%s/image", s->directory), *said;
        file_write(a, paths[0], job.object);
        file_write(a, paths[1], rewrite(s, compile(s, targets[i], "m"), "m"));
        file_write(a, paths[2], rewrite(s, compile(s, targets[i], "n"), "n"));
        const char *const argv[] = { tc->lld, "-static", "-e", "start", "-z", "defs", "--fatal-warnings", paths[0], paths[1], paths[2],
                                     "-o", out, NULL };
        if (run(s, argv, &said)) fail_msg("%s: %s", targets[i], said);
        const struct bytes linked = file_read(a, out);
        const uint8_t *first = memmem(linked.data, linked.size, image, IMAGE);
        assert_non_null(first);
        const size_t rest = linked.size - (size_t)(first + IMAGE - linked.data);
        assert_non_null(memmem(first + IMAGE, rest, image, IMAGE));
    }
}

static const char program[] =
    "#include <stdio.h>\n"
    "int m_call(unsigned, int, char *), n_call(unsigned, int, char *), m_get(unsigned), n_get(unsigned);\n"
    "int main(void) { char t[4] = { 0 }; unsigned long sum = 0;\n"
    "    for (unsigned i = 0; i < 70001; i++) sum += (unsigned)(m_get(i) * 3 + n_get(70000 - i));\n"
    "    int x = m_call(0, 21, t), y = n_call(1, 2, t); printf(\"%lu %d %d %s\\n\", sum, x, y, t); return 0; }\n";

static void runs_with_two(void **state)
{
    struct scratch *s = *state;
    struct arena   *a = s->arena;
    const struct target *p = target_load(a, "portable", NULL);
    if (cc_target_missing(a, p)) skip();
    const char *paths[] = { arena_printf(a, "%s/main.c", s->directory), arena_printf(a, "%s/hm.o", s->directory),
                            arena_printf(a, "%s/hn.o", s->directory) };
    const char *out = arena_printf(a, "%s/two", s->directory), *said;
    file_write(a, paths[0], bytes_of(program));
    file_write(a, paths[1], rewrite(s, compile(s, "portable", "m"), "m"));
    file_write(a, paths[2], rewrite(s, compile(s, "portable", "n"), "n"));
    unsigned long sum = 0;
    for (unsigned i = 0; i < IMAGE; i++)
        sum += (unsigned)((image[i] + words[i % 4]) * 3 + image[IMAGE - 1 - i] + words[(IMAGE - 1 - i) % 4]);
    const char *const argv[] = { tc->clang, paths[0], paths[1], paths[2], "-o", out, NULL };
    if (run(s, argv, &said)) fail_msg("%s", said);
    assert_int_equal(run(s, (const char *const[]){ out, NULL }, &said), 0);
    assert_string_equal(said, arena_printf(a, "%lu 42 %d hel\n", sum, 13 + image[1] + words[1]));
}

static void same_bytes_twice(void **state)
{
    struct scratch *s = *state;
    const struct bytes x = rewrite(s, compile(s, "riscv64", "m"), "m"), y = rewrite(s, compile(s, "riscv64", "m"), "m");
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    assert_null(memmem(x.data, x.size, "/tmp", 4));
}

/* ---- refused objects ---- */

static struct bytes compile_one(struct scratch *s, const char *target, const char *source)
{
    struct cc_job job = { .name = "bad.c", .source = bytes_of(source), .kind = CC_LIBRARY,
                          .target = target_load(s->arena, target, NULL) };
    cc_compile(s->arena, tc, &job, 1);
    return job.object;
}

static void broken_promises(void **state)
{
    struct scratch *s = *state;
    struct arena   *a = s->arena;
    static const char *const exported[] = { "f", NULL }, *const nothing[] = { NULL };
    static const struct objfile_data image_data[] = { { "test_image", ".rodata.x", IMAGE, 64, NULL } },
        large[] = { { "test_image", ".rodata.x", 3000000000u, 64, NULL } };
    const struct objfile_edit plain = { .exported = exported, .needed = nothing },
    with_data = { .exported = exported, .needed = nothing, .data = image_data, .n_data = 1 },
                              with_large = { .exported = exported, .needed = nothing, .data = large, .n_data = 1 };
    static const char refers[] = "extern const char test_image[]; const char *f(void); const char *f(void) { return test_image; }";
    assert_dies(objfile_rewrite(a, "x.o", compile_one(s, "portable", "int g(void); int g(void) { return 1; }"), &plain),
                "x.o: f is not defined in it");
    assert_dies(objfile_rewrite(a, "x.o", compile_one(s, "portable", "int (*g(void))(void); static int f(void) { return 1; } "
                                                                     "int (*g(void))(void) { return f; }"), &plain),
                "x.o: f is not defined in it");
    assert_dies(objfile_rewrite(a, "x.o", compile_one(s, "portable", "int g(void); int f(void); int f(void) { return g(); }"), &plain),
                "it needs g but does not define it");
    assert_dies(objfile_rewrite(a, "x.o", compile_one(s, "portable", "int n; int f(void); int f(void) { return ++n; }"), &plain),
                "section .bss.n holds 4 bytes of variables");
    assert_dies(objfile_rewrite(a, "x.o", compile_one(s, "portable", "int n = 5; int f(void); int f(void) { return ++n; }"), &plain),
                "section .data.n holds 4 bytes of variables");
    assert_dies(objfile_rewrite(a, "x.o", compile_one(s, "portable", "int f(void); int f(void) { return 1; }"), &with_data),
                "nothing in it refers to test_image");
    assert_dies(objfile_rewrite(a, "x.o", compile_one(s, "portable", "const char test_image[1]; int f(void); int f(void) { return 1; }"),
                                &with_data), "test_image is defined in it already");
    assert_dies(objfile_rewrite(a, "x.o", compile_one(s, "cortex-m7", refers), &with_large), "--weights external");
    assert_int_equal(objfile_rewrite(a, "x.o", compile_one(s, "portable", refers), &with_large).file_bytes > 3000000000u, true);
}

static void patch(struct scratch *s, struct bytes good, size_t at, uint8_t value, const char *part)
{
    uint8_t *copy = arena_alloc(s->arena, good.size);
    memcpy(copy, good.data, good.size);
    copy[at] = value;
    assert_dies(rewrite(s, ((struct bytes){ copy, good.size }), "m"), part);
}

static void damaged_headers(void **state)
{
    struct scratch *s = *state;
    const struct bytes good = compile(s, "portable", "m");
    assert_dies(rewrite(s, bytes_of("!<arch>\n"), "m"), "not an ELF object");
    assert_dies(rewrite(s, (struct bytes){ good.data, 60 }, "m"), "cut short");
    patch(s, good, EI_CLASS, 3, "neither 32 nor 64 bits");
    patch(s, good, EI_DATA, ELFDATA2MSB, "not little-endian");
    patch(s, good, 16, ET_EXEC, "not a relocatable object");
    patch(s, good, 18, EM_SPARC, "forgec does not write objects for");
    patch(s, good, 40 + 5, 1, "table of sections is damaged");
    patch(s, good, 62, 200, "table of sections is damaged");
}

/* Any prefix and any changed byte give an error message or a result, never a crash (tests/checks.sh runs this under ASan). */
static void damaged_anywhere(void **state)
{
    struct scratch *s = *state;
    static const char *const two_classes[] = { "portable", "cortex-m7" };
    static const char *const exported[] = { "m_get", "m_call", NULL };
    static uint32_t died;
    for (size_t t = 0; t < COUNT_OF(two_classes); t++) {
        const struct bytes good = compile(s, two_classes[t], "m");
        const struct objfile_edit edit = { .exported = exported, .needed = needed, .data = data_of, .n_data = 2 };
        uint8_t *copy = malloc(good.size);
        assert_non_null(copy);
        for (volatile size_t i = 0; i < good.size; i++) {
            struct arena *a = arena_create();
            uint8_t *cut = malloc(i ? i : 1);             /* of exactly its size, for ASan */
            memcpy(cut, good.data, i);
            assert_true(DIES(objfile_rewrite(a, "cut.o", ((struct bytes){ cut, i }), &edit)));
            free(cut);
            memcpy(copy, good.data, good.size);
            copy[i] ^= (uint8_t)(0x80u >> i % 8);
            if (DIES(objfile_rewrite(a, "bit.o", ((struct bytes){ copy, good.size }), &edit))) died++;
            copy[i] = 0xff;
            if (DIES(objfile_rewrite(a, "byte.o", ((struct bytes){ copy, good.size }), &edit))) died++;
            arena_destroy(a);
        }
        free(copy);
    }
    assert_true(died > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_api_is_left), cmocka_unit_test(two_in_one_link), cmocka_unit_test(runs_with_two),
        cmocka_unit_test(same_bytes_twice),
        cmocka_unit_test(broken_promises), cmocka_unit_test(damaged_headers), cmocka_unit_test(damaged_anywhere),
    };
    return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
