/* Static libraries: their bytes, and reading them with ar and a linker. */
#include "compiler/product/archive.h"
#include "die_capture.h"
#include "scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka.h needs the above */
#include <cmocka.h>

static int run(struct scratch *s, const char *const *argv, struct bytes *out)
{
    struct spawn_job job = { .argv = argv };
    spawn_run(s->arena, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    *out = job.output;
    return job.status;
}

static const char *write_archive(struct scratch *s, const char *member, struct bytes object, const char *const *symbols)
{
    const char *path = arena_printf(s->arena, "%s/lib.a", s->directory);
    struct outfile f = outfile_open(s->arena, path, 0666);
    archive_begin(&f, s->arena, member, object.size, symbols);
    outfile_write(&f, object.data, object.size);
    archive_end(&f);
    outfile_commit(&f);
    return path;
}

static const char *const f_g[] = { "f", "gg", NULL };

static void bytes_of_a_small_one(void **state)
{
    struct scratch *s = *state;
    const struct bytes file = file_read(s->arena, write_archive(s, "m.o", bytes_of("abc"), f_g));
    static const char expected[] = "!<arch>\n"
        "/               0           0     0     644     18        `\n"
        "\0\0\0\2" "\0\0\0\126" "\0\0\0\126" "f\0gg\0" "\0"
        "m.o/            0           0     0     644     3         `\n"
        "abc\n";
    assert_int_equal(file.size, sizeof expected - 1);
    assert_memory_equal(file.data, expected, file.size);
}

/* ar extracts the original members, for names of all lengths around the length of the header's field. */
static void ar_reads_it(void **state)
{
    struct scratch *s = *state;
    struct bytes out;
    if (!spawn_find(s->arena, "ar")) skip();
    static const char *const names[] = { "a.o", "fourteen-cha.o", "fifteen-chara.o", "sixteen-charac.o",
                                         "a-name-of-very-many-characters-indeed.o" };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        for (size_t n = 0; n < 4; n++) {
            const struct bytes object = { (const uint8_t *)"wxyz", n };
            const char *path = write_archive(s, names[i], object, f_g);
            assert_int_equal(run(s, (const char *const[]){ "ar", "t", path, NULL }, &out), 0);
            assert_int_equal(out.size, strlen(names[i]) + 1);
            assert_memory_equal(out.data, names[i], strlen(names[i]));
            assert_int_equal(run(s, (const char *const[]){ "ar", "p", path, names[i], NULL }, &out), 0);
            assert_int_equal(out.size, n);
            if (n) assert_memory_equal(out.data, object.data, n);
        }
}

/* The linker finds the member by the index. */
static void linker_finds_the_symbol(void **state)
{
    struct scratch *s = *state;
    struct arena   *a = s->arena;
    struct bytes out;
    if (!spawn_find(a, "cc")) skip();
    const char *source = arena_printf(a, "%s/f.c", s->directory), *object = arena_printf(a, "%s/f.o", s->directory),
    *user = arena_printf(a, "%s/u.c", s->directory),
               *program = arena_printf(a, "%s/u", s->directory);
    file_write(a, source, bytes_of("int f(void); int f(void) { return 41; }\nint gg(void); int gg(void) { return 1; }\n"));
    file_write(a, user, bytes_of("int f(void), gg(void); int main(void) { return f() + gg() == 42 ? 0 : 3; }\n"));
    assert_int_equal(run(s, (const char *const[]){ "cc", "-c", source, "-o", object, NULL }, &out), 0);
    const char *path = write_archive(s, "a-long-name-for-an-object.o", file_read(a, object), f_g);
    assert_int_equal(run(s, (const char *const[]){ "cc", user, path, "-o", program, NULL }, &out), 0);
    assert_int_equal(run(s, (const char *const[]){ program, NULL }, &out), 0);
}

static void too_large(void **state)
{
    struct scratch *s = *state;
    static struct outfile f;
    f = outfile_open(s->arena, arena_printf(s->arena, "%s/large.a", s->directory), 0666);
    assert_dies(archive_begin(&f, s->arena, "m.o", 10000000000u, f_g), "does not fit a static library");
    archive_begin(&f, s->arena, "m.o", 9999999999u, f_g);
    outfile_discard(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_a_small_one), cmocka_unit_test(ar_reads_it), cmocka_unit_test(linker_finds_the_symbol),
        cmocka_unit_test(too_large),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
