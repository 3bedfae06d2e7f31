/* test_link.c -- compiles and links small programs with a weight image: all link modes, both machines, reproducible bytes. */
#include "compiler/build/cc.h"
#include "compiler/build/link.h"
#include "compiler/build/weights_file.h"
#include "runtime/model/abi.h"
#include "scratch.h"
#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka.h needs the above */
#include <cmocka.h>

/* Prints sums over the image, its size on the command line, and a piece of the vocabulary; checks .bss beside the weights. */
static const char program[] =
    "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
    "extern const uint8_t *const forge_weights; extern const uint8_t forge_vocab[];\n"
    "static char zeros[100000]; static int seven = 7;\n"
    "int main(int argc, char **argv) {\n"
    "    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, sum = 0, nonzero = 0;\n"
    "    if (!forge_weights) return printf(\"no weights %c\\n\", forge_vocab[0]) < 0;\n"
    "    for (uint64_t i = 0; i < n; i += n > 1000000 ? 100000007 : 1) sum += forge_weights[i] * (i + 1);\n"
    "    for (int i = 0; i < 100000; i++) nonzero += zeros[i] != 0;\n"
    "    zeros[99999] = 1; seven++;\n"
    "    char *heap = malloc(1 << 22); heap[(1 << 22) - 1] = 1;\n"
    "    printf(\"%llu %d %d %d %c %.3f\\n\", (unsigned long long)sum, (int)nonzero, seven, (int)((uintptr_t)forge_weights % 4096),\n"
    "           forge_vocab[3], sqrt((double)argc)); return 0; }\n";

enum { SMALL = 100001 };

static uint8_t byte_at(uint64_t i)
{
    return (uint8_t)(i * 2654435761u >> 13);
}

static void write_pattern(struct outfile *f, void *context)
{
    uint8_t buffer[4096];
    for (uint64_t at = 0, n = *(uint64_t *)context; at < n;) {
        const size_t part = n - at < sizeof buffer ? (size_t)(n - at) : sizeof buffer;
        for (size_t i = 0; i < part; i++) buffer[i] = byte_at(at + i);
        outfile_write(f, buffer, part);
        at += part;
    }
}

static const char *expected_line(struct arena *a, uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += byte_at(i) * (i + 1);
    return arena_printf(a, "%llu 0 8 0 a 1.414\n", (unsigned long long)sum);
}

static struct toolchain *tools(struct arena *a)
{
    return toolchain_open(a, &(struct cc_options){ .spawn = { .jobs = 2 } });
}

static struct link_object compile(struct arena *a, struct toolchain *tc, const struct target *p)
{
    struct cc_job job = { .name = "program.c", .source = { (const uint8_t *)program, sizeof program - 1 }, .kind = CC_RUNTIME,
                          .target = p };
    cc_compile(a, tc, &job, 1);
    return (struct link_object){ "program.o", job.object };
}

static void link_one(struct arena *a, struct toolchain *tc, const struct link_input *input, const char *out, link_write_weights *write,
                     void *context)
{
    struct outset set = { .n = 0 };
    link_executable(a, tc, input, &set, out, write, context);
    outset_commit(a, &set);
}

static void build(struct arena *a, const char *target, bool is_static, uint64_t n, const char *out)
{
    struct toolchain *tc = tools(a);
    struct target   *p = target_load(a, target, NULL);
    const struct link_object objects[] = { compile(a, tc, p),
                                           link_data_object(a, p, "forge_vocab", (struct bytes){ (const uint8_t *)"vocab", 5 }) };
    const struct link_input  input = { .target = p, .objects = objects, .n_objects = 2, .is_static = is_static, .weights_bytes = n };
    link_one(a, tc, &input, out, write_pattern, &n);
}

static const char *run_program(struct arena *a, const char *const *argv)
{
    struct spawn_job job = { .argv = argv };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    if (job.status) return arena_printf(a, "exit code %d: %s", job.status, job.messages);
    return (const char *)job.output.data;
}

static void dynamic_and_static(void **state)
{
    struct scratch *s = *state;
    struct arena   *a = s->arena;
    for (int is_static = 0; is_static < 2; is_static++) {
        const char *out = arena_printf(a, "%s/program%d", s->directory, is_static);
        build(a, "portable", is_static, SMALL, out);
        assert_string_equal(run_program(a, (const char *const[]){ out, "100001", NULL }), expected_line(a, SMALL));
        build(a, "portable", is_static, 0, out);
        assert_string_equal(run_program(a, (const char *const[]){ out, NULL }), "no weights v\n");
    }
}

/* The weights are the last, page-aligned, read-only segment and a section of the same extent. */
static void elf_is_sound(void **state)
{
    struct scratch *s = *state;
    struct arena   *a = s->arena;
    const char     *out = arena_printf(a, "%s/sound", s->directory);
    build(a, "portable", false, SMALL, out);
    const struct bytes file = file_read(a, out);
    Elf64_Ehdr ehdr;
    memcpy(&ehdr, file.data, sizeof ehdr);
    bool found = false;
    for (uint32_t i = 0; i < ehdr.e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, file.data + ehdr.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_size != SMALL) continue;
        found = true;
        assert_int_equal(section.sh_offset % 65536, 0);
        assert_int_equal(section.sh_offset + SMALL, file.size);
        assert_int_equal(section.sh_flags, SHF_ALLOC);
        for (uint32_t k = 0; k < ehdr.e_phnum; k++) {
            Elf64_Phdr segment;
            memcpy(&segment, file.data + ehdr.e_phoff + k * sizeof segment, sizeof segment);
            if (segment.p_type != PT_LOAD || segment.p_vaddr != section.sh_addr) continue;
            assert_int_equal(segment.p_offset, section.sh_offset);
            assert_int_equal(segment.p_filesz, SMALL);
            assert_int_equal(segment.p_memsz, SMALL);
            assert_int_equal(segment.p_flags, PF_R);
        }
    }
    assert_true(found);
    /* every weight once */
    assert_memory_equal(file.data + file.size - 3, ((uint8_t[]){ byte_at(SMALL - 3), byte_at(SMALL - 2), byte_at(SMALL - 1) }), 3);
}

static void same_bytes_twice(void **state)
{
    struct scratch *s = *state;
    struct arena   *a = s->arena;
    const char *one = arena_printf(a, "%s/one", s->directory), *two = arena_printf(a, "%s/two", s->directory);
    build(a, "portable", false, SMALL, one);
    setenv("XDG_CACHE_HOME", arena_printf(a, "%s/other-cache", s->directory), 1);
    build(a, "portable", false, SMALL, two);
    setenv("XDG_CACHE_HOME", arena_printf(a, "%s/cache", s->directory), 1);
    const struct bytes x = file_read(a, one), y = file_read(a, two);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    struct stat st;
    assert_int_equal(stat(one, &st), 0);
    assert_true(st.st_mode & S_IXUSR);
}

static void other_machine(void **state)
{
    struct scratch *s = *state;
    struct arena   *a = s->arena;
    struct target *p = target_load(a, "aarch64", NULL);
    struct spawn_job probe = { .argv = (const char *const[]){ "qemu-aarch64", "--version", NULL } };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &probe, 1);
    if (cc_target_missing(a, p) || probe.status) skip();
    for (int is_static = 0; is_static < 2; is_static++) {
        const char *out = arena_printf(a, "%s/arm%d", s->directory, is_static);
        build(a, "aarch64", is_static, SMALL, out);
        assert_string_equal(run_program(a, (const char *const[]){ "qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", out, "100001", NULL }),
                            expected_line(a, SMALL));
    }
}

/* Beyond 4 GiB: the file is sparse, so it needs no disk space. */
static void write_huge(struct outfile *f, void *context)
{
    outfile_pad(f, f->offset + *(uint64_t *)context - 1);
    outfile_write(f, "\5", 1);
}

static void six_gigabytes(void **state)
{
    struct scratch *s = *state;
    struct arena   *a = s->arena;
    uint64_t        n = 6000000000u / 100000007 * 100000007 + 1;  /* the program reads every 100000007th byte, the last one too */
    const char     *out = arena_printf(a, "%s/huge", s->directory);
    struct toolchain *tc = tools(a);
    struct target   *p = target_load(a, "portable", NULL);
    const struct link_object objects[] = { compile(a, tc, p),
                                           link_data_object(a, p, "forge_vocab", (struct bytes){ (const uint8_t *)"vocab", 5 }) };
    for (int is_static = 0; is_static < 2; is_static++) {
        const struct link_input input = { .target = p, .objects = objects, .n_objects = 2, .is_static = is_static, .weights_bytes = n };
        link_one(a, tc, &input, out, write_huge, &n);
        assert_string_equal(run_program(a, (const char *const[]){ out, arena_printf(a, "%llu", (unsigned long long)n), NULL }),
                            arena_printf(a, "%llu 0 8 0 a 1.414\n", (unsigned long long)(5 * n)));
        unlink(out);
    }
}

static jmp_buf escape;
static char    message[1024];
static void on_die(const char *text)
{
    snprintf(message, sizeof message, "%s", text);
    longjmp(escape, 1);
}

static void write_too_little(struct outfile *f, void *context)
{
    (void)context;
    outfile_write(f, "x", 1);
}

static void failures_leave_nothing(void **state)
{
    struct scratch *s = *state;
    struct arena   *a = s->arena;
    struct toolchain *tc = tools(a);
    struct target   *p = target_load(a, "portable", NULL);
    const struct link_object objects[] = { compile(a, tc, p),
                                           link_data_object(a, p, "forge_vocab", (struct bytes){ (const uint8_t *)"vocab", 5 }) };
    struct link_input input = { .target = p, .objects = objects, .n_objects = 2, .weights_bytes = 10 };
    const char *out = arena_printf(a, "%s/absent", s->directory);
    die_handler = on_die;
    if (!setjmp(escape)) link_one(a, tc, &input, out, write_too_little, NULL);
    assert_non_null(strstr(message, "10 bytes of weights were announced, 1 written"));
    assert_false(file_exists(out));
    if (!setjmp(escape)) toolchain_open(a, &(struct cc_options){ .clang = "/bin/true" });
    assert_non_null(strstr(message, "apt-get install clang-19 lld-19"));
    die_handler = NULL;
}

/* If clang cannot report its linker, that is an error and must not mean a clang without lld: the bytes would differ. */
static void no_answer_is_an_error(void **state)
{
    struct scratch *s = *state;
    struct arena   *a = s->arena;
    static const char *const ends[][2] = { { "kill -9 $$", "ended by signal 9" }, { "exit 3", "exit code 3" } };
    const char *clang = tools(a)->clang;
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        const char *wrapper = arena_printf(a, "%s/clang%zu", s->directory, i);
        file_write(a, wrapper, bytes_of(arena_printf(a, "#!/bin/sh\n[ \"$1\" = --version ] || %s\nexec %s \"$@\"\n", ends[i][0], clang)));
        assert_int_equal(chmod(wrapper, 0755), 0);
        die_handler = on_die;
        message[0] = 0;
        if (!setjmp(escape)) toolchain_open(a, &(struct cc_options){ .clang = wrapper });
        die_handler = NULL;
        assert_non_null(strstr(message, ends[i][1]));
    }
}

static void external_weights(void **state)
{
    struct scratch *s = *state;
    struct arena   *a = s->arena;
    uint64_t        n = SMALL;
    const char     *path = weights_file_path(a, arena_printf(a, "%s/model", s->directory));
    struct outset   set = { .n = 0 };
    weights_file_write(a, &set, path, "0123456789abcdef0123456789abcdef", n, write_pattern, &n);
    assert_false(file_exists(path));
    outset_commit(a, &set);
    const struct bytes file = file_read(a, path);
    struct forge_weights_header header;
    assert_int_equal(file.size, 4096 + SMALL);
    memcpy(&header, file.data, sizeof header);
    assert_memory_equal(header.magic, FORGE_WEIGHTS_MAGIC, 8);
    assert_int_equal(header.image_bytes, SMALL);
    assert_string_equal(header.weights_hash, "0123456789abcdef0123456789abcdef");
    assert_int_equal(file.data[4096 + 77], byte_at(77));
}

static void includes_are_pasted(void **state)
{
    struct scratch *s = *state;
    const struct bytes text = cc_expand(s->arena, "runtime/device/cpu_features.c");
    const char *at = (const char *)text.data;
    assert_non_null(strstr(at, "#line 1 \"runtime/device/cpu_features.h\""));
    assert_non_null(strstr(at, "#include <stdio.h>"));
    assert_null(strstr(at, "#include \""));
}

/* Every source of the runtime compiles for every target with a C library here; with a cache for all tests it is compiled only once. */
static void runtime_compiles(void **state)
{
    struct scratch *s = *state;
    struct arena   *a = s->arena;
    if (getenv("FORGEC_TEST_CACHE")) setenv("XDG_CACHE_HOME", getenv("FORGEC_TEST_CACHE"), 1);
    struct toolchain *tc = tools(a);
    for (const char **name = target_names(a, NULL); *name; name++) {
        struct target *p = target_load(a, *name, NULL);
        if (cc_target_missing(a, p)) continue;
        size_t n;
        struct cc_job *jobs = cc_runtime_jobs(a, p, (struct cc_parts){ false, true }, 0, &n);
        assert_true(n > 0);
        cc_compile(a, tc, jobs, n);
        for (size_t i = 0; i < n; i++) assert_memory_equal(jobs[i].object.data, ELFMAG, SELFMAG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dynamic_and_static),
        cmocka_unit_test(elf_is_sound),
        cmocka_unit_test(same_bytes_twice),
        cmocka_unit_test(other_machine),
        cmocka_unit_test(six_gigabytes),
        cmocka_unit_test(failures_leave_nothing),
        cmocka_unit_test(no_answer_is_an_error),
        cmocka_unit_test(external_weights),
        cmocka_unit_test(includes_are_pasted),
        cmocka_unit_test(runtime_compiles),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
