/* test_code_object.c -- compiles kernels with cc_compile for every GPU target, and reads the whole and damaged results with
 * code_object.c. */
#include "compiler/build/cc.h"
#include "compiler/build/code_object.h"
#include "compiler/build/issues.h"
#include "runtime/model/abi_gpu.h"
#include "die_capture.h"
#include <elf.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka.h needs the above */
#include <cmocka.h>

static const char *const gpus[] = { "gfx1100", "gfx1151", "gfx942", "sm_90" };

/* After launch.h: two kernels that fit into registers and one with an array on the stack. */
static const char fitting[] =
    "KERNEL(256, 1) add_one(const struct forge_kernel_args a)\n{\n    pdl_launch();\n    pdl_wait();\n    FLOATS(0)[thread_x() + 256 * "
    "group_x()] += 1.0f;\n}\n"
    "KERNEL(128, 1) turn(const struct forge_kernel_args a)\n{\n    float *x = FLOATS(0), *y = (float *)(void *)lds();\n    pdl_launch();\n "
    "   pdl_wait();\n"
    "    y[thread_x()] = x[thread_x()];\n    barrier();\n    x[thread_x()] = y[127 - thread_x()];\n}\n";
static const char stacked[] =
    "KERNEL(64, 1) on_stack(const struct forge_kernel_args a)\n{\n    volatile float x[100];\n    for (uint32_t i = 0; i < 100; i++) x[i] "
    "= FLOATS(0)[i];\n"
    "    FLOATS(0)[thread_x()] = x[(uint32_t)FLOATS(0)[thread_x()] % 100];\n}\n";

static struct toolchain *tools(struct arena *a, const char *save_temps)
{
    return toolchain_open(a, &(struct cc_options){ .spawn = { .jobs = 2 }, .save_temps = save_temps });
}

static struct cc_job device_job(struct arena *a, const struct target *p, const char *name, const char *text, const char *const *flags)
{
    const struct bytes header = cc_expand(a, "templates/gpu/launch.h");
    const char *source = arena_printf(a, "%.*s%s", (int)header.size, (const char *)header.data, text);
    return (struct cc_job){ .name = name, .source = bytes_of(source), .kind = CC_DEVICE, .target = p, .flags = flags };
}

static struct bytes compile(struct arena *a, const char *target, const char *text, const char *const *flags)
{
    struct cc_job job = device_job(a, target_load(a, target, NULL), "kernels.c", text, flags);
    cc_compile(a, tools(a, NULL), &job, 1);
    return job.object;
}

/* The tools to link a target's programs may be missing here. */
static void need_tools(struct arena *a)
{
    if (tools(a, NULL)->lld && !cc_target_missing(a, target_load(a, "gfx1151", NULL))) return;
    arena_destroy(a);
    skip();
}

static void kernels_are_found(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    need_tools(a);
    for (size_t g = 0; g < COUNT_OF(gpus); g++) {
        const struct target *p = target_load(a, gpus[g], NULL);
        const struct bytes object = compile(a, gpus[g], fitting, NULL);
        size_t n;
        struct kernel_resources *k = code_object_read(a, object, &n);
        assert_non_null(k);
        assert_int_equal(n, 2);
        assert_string_equal(k[0].name, "add_one");
        assert_string_equal(k[1].name, "turn");
        assert_int_equal(k[0].threads, 256);
        assert_int_equal(k[1].threads, 128);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(k[i].wave, p->wave);
            assert_int_equal(k[i].kernarg_bytes, sizeof(struct forge_kernel_args));
            assert_int_equal(k[i].scratch_bytes + k[i].vgpr_spills + k[i].lds_bytes + k[i].dynamic_stack, 0);
            if (strcmp(p->api, "cuda")) assert_in_range(k[i].vgprs, 1, 32);
        }
        code_object_check(a, p, k, n, false);
        const char *why;
        const bool counted = issues_count(a, p, object, k, n, &why);
        assert_int_equal(counted, strcmp(p->api, "hip") == 0);
        for (size_t i = 0; counted && i < n; i++) {
            assert_in_range(k[i].issues.outside, 1, 100);
            assert_int_equal(k[i].issues.n_loops, 0);
        }
        /* no paths or times */
        const struct bytes again = compile(a, gpus[g], fitting, (const char *const[]){ "-DANOTHER_CACHE_KEY", NULL });
        assert_int_equal(object.size, again.size);
        assert_memory_equal(object.data, again.data, again.size);
    }
    arena_destroy(a);
}

static void a_stack_is_refused(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    need_tools(a);
    for (size_t g = 0; g < COUNT_OF(gpus); g++) {
        const struct target *p = target_load(a, gpus[g], NULL);
        size_t n;
        struct kernel_resources *k = code_object_read(a, compile(a, gpus[g], stacked, NULL), &n);
        assert_non_null(k);
        assert_int_equal(n, 1);
        assert_in_range(k->scratch_bytes, 400, 1000);
        code_object_check(a, p, k, n, true);
        assert_dies(code_object_check(a, p, k, n, false), "kernel on_stack does not fit the registers");
        k->scratch_bytes = k->dynamic_stack = 0;
        k->vgpr_spills = 1;
        if (strcmp(p->api, "cuda")) code_object_check(a, p, k, n, false);
        else assert_dies(code_object_check(a, p, k, n, false), "kernel on_stack does not fit the registers");
        k->wave = 96 - p->wave;
        assert_dies(code_object_check(a, p, k, n, true), "has waves of");
    }
    arena_destroy(a);
}

static void assembly_shows_the_kernel(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    need_tools(a);
    static const char *const flags[] = { "-S", NULL };
    for (size_t g = 0; g < COUNT_OF(gpus); g++) {
        const struct bytes text = compile(a, gpus[g], fitting, flags);
        assert_non_null(memmem(text.data, text.size, "add_one", 7));
        assert_null(memchr(text.data, 0, text.size));
    }
    arena_destroy(a);
}

/* The host's kernels are a shared object that defines its number of lanes of a wave. */
static void host_object(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    need_tools(a);
    for (uint32_t wave = 32; wave <= 64; wave += 32) {
        const char *target = arena_printf(a, "%s/tests/lanes/simt%u.yaml", FORGEC_SOURCE_DIR, wave);
        const char *text = arena_printf(a, "%suint32_t forge_simt_wave = WAVE;\nSTATIC_ASSERT(WAVE == %u, \"wave\");\n", fitting, wave);
        const struct bytes object = compile(a, target, text, NULL);
        Elf64_Ehdr ehdr;
        assert_true(object.size > sizeof ehdr);
        memcpy(&ehdr, object.data, sizeof ehdr);
        assert_memory_equal(ehdr.e_ident, ELFMAG, SELFMAG);
        assert_int_equal(ehdr.e_type, ET_DYN);
        assert_non_null(memmem(object.data, object.size, "forge_simt_wave", 15));
        size_t n = 1;
        assert_null(code_object_read(a, object, &n));
        assert_int_equal(n, 0);
    }
    arena_destroy(a);
}

static void several_at_once_and_kept(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    need_tools(a);
    char directory[] = "/tmp/forgec-test-XXXXXX";
    assert_non_null(mkdtemp(directory));
    struct cc_job jobs[COUNT_OF(gpus)];
    for (size_t g = 0; g < COUNT_OF(gpus); g++)
        jobs[g] = device_job(a, target_load(a, gpus[g], NULL), arena_printf(a, "kernels-%s.c", gpus[g]), fitting, NULL);
    cc_compile(a, tools(a, directory), jobs, COUNT_OF(jobs));
    for (size_t g = 0; g < COUNT_OF(gpus); g++) {
        const char *ending = g == 3 ? "ptx" : "co", *object = arena_printf(a, "%s/kernels-%s.%s", directory, gpus[g], ending);
        const struct bytes kept = file_read(a, object);
        assert_int_equal(kept.size, jobs[g].object.size);
        assert_memory_equal(kept.data, jobs[g].object.data, kept.size);
        unlink(object);
        unlink(arena_printf(a, "%s/kernels-%s.c", directory, gpus[g]));
    }
    assert_int_equal(rmdir(directory), 0);
    arena_destroy(a);
}

static void compile_lines(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    static const struct { const char *target, *begin, *end; } rows[] = {
        { "gfx1151", "clang --target=x86_64-linux-gnu -x hip ",
          " --offload-arch=gfx1151 -Xclang -target-feature -Xclang -real-true16 -DFORGE_NO_PDL -o model.co model.c" },
        { "sm_90", "clang --target=x86_64-linux-gnu -x cuda ", " --cuda-gpu-arch=sm_90 -o model.ptx model.c" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *line = cc_line(a, target_load(a, rows[i].target, NULL), CC_DEVICE, "model.c");
        assert_memory_equal(line, rows[i].begin, strlen(rows[i].begin));
        assert_true(strlen(line) > strlen(rows[i].end));
        assert_string_equal(line + strlen(line) - strlen(rows[i].end), rows[i].end);
    }
    arena_destroy(a);
}

/* docs/gpu_internals.md: numbers of registers at which the number of waves changes, and one more; from clang 19's remarks. */
static void occupancy(void **state)
{
    (void)state;
    static const struct { const char *target; uint32_t vgprs, waves; } rows[] = {
        { "gfx1100", 96, 16 }, { "gfx1100", 97, 12 }, { "gfx1100", 120, 12 }, { "gfx1100", 121, 10 }, { "gfx1100", 144, 10 },
        { "gfx1100", 168, 9 },
        { "gfx1100", 192, 8 }, { "gfx1100", 216, 7 }, { "gfx1100", 240, 6 }, { "gfx1100", 241, 5 }, { "gfx1100", 256, 5 },
        { "gfx1151", 1, 16 },
        { "gfx942", 64, 8 }, { "gfx942", 65, 7 }, { "gfx942", 72, 7 }, { "gfx942", 80, 6 }, { "gfx942", 96, 5 }, { "gfx942", 128, 4 },
        { "gfx942", 129, 3 }, { "gfx942", 168, 3 }, { "gfx942", 169, 2 }, { "gfx942", 256, 2 }, { "gfx942", 257, 1 }, { "gfx942", 512, 1 },
        { "sm_90", 32, 16 }, { "sm_90", 128, 4 }, { "sm_90", 255, 2 }, { "sm_90", 0, 0 },
    };
    struct arena *a = arena_create();
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(code_object_waves(target_load(a, rows[i].target, NULL), rows[i].vgprs), rows[i].waves);
    arena_destroy(a);
}

static void ptxas_knows_more(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    need_tools(a);
    const struct target *p = target_load(a, "sm_90", NULL);
    const struct bytes ptx = compile(a, "sm_90", arena_printf(a, "%s%s", fitting, stacked), NULL);
    size_t n;
    const char *messages;
    struct kernel_resources *k = code_object_read(a, ptx, &n);
    assert_int_equal(n, 3);
    const bool there = code_object_ptxas(a, &(struct spawn_options){ .jobs = 1 }, p, ptx, k, n, &messages);
    assert_true(messages[0]);
    if (!there) {
        arena_destroy(a);
        skip();
    }
    for (size_t i = 0; i < n; i++) assert_in_range(k[i].vgprs, 4, 64);
    assert_int_equal(k[0].scratch_bytes, 0);
    assert_int_equal(k[2].scratch_bytes, 400);
    assert_string_equal(k[2].name, "on_stack");
    const struct bytes wrong = bytes_of(".version 8.5\n.target sm_90\n.address_size 64\nnonsense\n");
    assert_false(code_object_ptxas(a, &(struct spawn_options){ .jobs = 1 }, p, wrong, k, n, &messages));
    assert_non_null(strstr(messages, "error"));
    arena_destroy(a);
}

/* A copy of exactly size bytes on the heap, so that a sanitizer sees a read past the end. */
static void read_copy(const uint8_t *data, size_t size)
{
    struct arena *a = arena_create();
    uint8_t *copy = malloc(size + !size);
    assert_non_null(copy);
    memcpy(copy, data, size);
    size_t n = 1;
    struct kernel_resources *k = code_object_read(a, (struct bytes){ copy, size }, &n);
    if (!k) assert_int_equal(n, 0);
    for (size_t i = 0; k && i < n; i++) assert_true(k[i].name[0]);
    static uint32_t calls;
    const char *why;
    if (k && calls++ % 16 == 0) issues_count(a, target_load(a, "gfx942", NULL), (struct bytes){ copy, size }, k, n, &why);
    free(copy);
    arena_destroy(a);
}

static uint32_t draw(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static void damage(struct bytes object, uint32_t rounds)
{
    for (size_t size = 0; size < object.size; size += size < 2048 || object.size < 4096 ? 1 : 17) read_copy(object.data, size);
    uint8_t *copy = malloc(object.size);
    uint32_t seed = 20240607;
    assert_non_null(copy);
    for (uint32_t i = 0; i < rounds; i++) {
        memcpy(copy, object.data, object.size);
        const uint32_t changes = 1 + draw(&seed) % 4, span = i % 2 ? (uint32_t)object.size : 2048 < object.size ? 2048
            : (uint32_t)object.size;
        for (uint32_t k = 0; k < changes; k++) copy[draw(&seed) % span] = i % 3 ? (uint8_t)draw(&seed) : 0xff;
        read_copy(copy, object.size);
    }
    free(copy);
}

static void damaged_objects(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    need_tools(a);
    damage(compile(a, "gfx942", fitting, NULL), 20000);
    damage(compile(a, "sm_90", fitting, NULL), 5000);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_found),
        cmocka_unit_test(a_stack_is_refused),
        cmocka_unit_test(assembly_shows_the_kernel),
        cmocka_unit_test(host_object),
        cmocka_unit_test(several_at_once_and_kept),
        cmocka_unit_test(compile_lines),
        cmocka_unit_test(occupancy),
        cmocka_unit_test(ptxas_knows_more),
        cmocka_unit_test(damaged_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
