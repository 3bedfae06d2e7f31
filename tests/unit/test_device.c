/* test_device.c -- the table of driver functions: its messages if a driver is missing or wrong, and every operation on the emulator of
 * lanes (tests/lanes/libsimt.c), which replaces libamdhip64. */
#include "compiler/build/cc.h"
#include "compiler/build/spawn.h"
#include "runtime/device/device.h"
#include "runtime/device/gpu_state.h"
#include "scratch.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka.h needs the above */
#include <cmocka.h>

static const char module_source[] =
    "#include \"templates/gpu/launch.h\"\n"
    "extern __attribute__((visibility(\"default\"))) const uint32_t forge_simt_wave; const uint32_t forge_simt_wave = 32;\n"
    /* one word for each thread of each workgroup: its number and the launch's argument */
    "KERNEL(64, 1) count(const struct forge_kernel_args a)\n"
    "{ ((uint32_t *)a.arena)[(group_y() * 3 + group_x()) * 64 + thread_x()] += "
    "1000 * a.mark + 100 * group_y() + 10 * group_x() + (thread_x() == 63 ? a.weight[11] : 0); }\n";

/* The engine refers to the link table of a program; these tests link no program. */
const struct forge_program *const forge_programs[] = { NULL };
const uint32_t forge_n_programs = 0;
const char *const forge_edited_source = NULL;
const uint8_t *const forge_weights = NULL;

static const char *library;
static uint8_t *module_image;

static const char *write_file(struct scratch *s, const char *name, const char *text)
{
    const char *path = arena_printf(s->arena, "%s/%s", s->directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return path;
}

static void compile_shared(struct scratch *s, const char *out, const char *source, const char *second)
{
    struct toolchain *tc = toolchain_open(s->arena, &(struct cc_options){ .spawn = { .jobs = 1 } });
    const char *const argv[] = { tc->clang, "-std=c11", "-D_GNU_SOURCE", "-O1", "-fPIC", "-shared", "-I", FORGEC_SOURCE_DIR, "-o", out,
                                 source, second, NULL };
    struct spawn_job job = { .argv = argv };
    spawn_run(s->arena, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    if (job.status != 0) fail_msg("%s: %s", source, job.messages);
}

static int setup(void **state)
{
    if (scratch_setup(state) != 0) return -1;
    struct scratch *s = *state;
    library = arena_printf(s->arena, "%s/libsimt.so", s->directory);
    compile_shared(s, library, FORGEC_SOURCE_DIR "/tests/lanes/libsimt.c", FORGEC_SOURCE_DIR "/tests/lanes/simt.c");
    const char *object = arena_printf(s->arena, "%s/module.so", s->directory);
    compile_shared(s, object, write_file(s, "module.c", module_source), NULL);
    module_image = (uint8_t *)(uintptr_t)file_read(s->arena, object).data;
    return 0;
}

static void names_of_amd(void **state)
{
    struct scratch *s = *state;
    char gfx[32];
    const char *nodes = arena_printf(s->arena, "%s/nodes", s->directory);
    static const char *const properties[] = {
        "cpu_cores_count 16\nsimd_count 0\ngfx_target_version 0\nlocation_id 0\ndomain 0\n",
        "simd_count 80\ngfx_target_version 110501\nlocation_id 50432\ndomain 0\n",                  /* c5:00.0 */
        "simd_count 192\nlocation_id 768\ngfx_target_version 110000\ndomain 0\n",                   /* 03:00.0 */
        "gfx_target_version 90402\nlocation_id 768\ndomain 2\n",
        "gfx_target_version 90010\nlocation_id 1280\n",                                          /* 05:00.0, an old kernel without domain */
    };
    mkdir(nodes, 0700);
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        mkdir(arena_printf(s->arena, "%s/%zu", nodes, i), 0700);
        write_file(s, arena_printf(s->arena, "nodes/%zu/properties", i), properties[i]);
    }
    device_gfx_at(gfx, sizeof gfx, nodes, 0, 0xc5, 0);
    assert_string_equal(gfx, "gfx1151");
    device_gfx_at(gfx, sizeof gfx, nodes, 0, 3, 0);
    assert_string_equal(gfx, "gfx1100");
    device_gfx_at(gfx, sizeof gfx, nodes, 2, 3, 0);
    assert_string_equal(gfx, "gfx942");
    device_gfx_at(gfx, sizeof gfx, nodes, 0, 5, 0);
    assert_string_equal(gfx, "gfx90a");
    device_gfx_at(gfx, sizeof gfx, nodes, 0, 3, 1);
    assert_string_equal(gfx, "");
    device_gfx_at(gfx, sizeof gfx, "/nonexistent", 0, 3, 0);
    assert_string_equal(gfx, "");
}

static void wants(enum forge_status wanted, const char *variable, const char *value, const char *sentence)
{
    struct forge_device device;
    struct forge_error error = { "" };
    const bool cuda = strstr(variable, "CUDA") != NULL;
    char *before = getenv(variable) != NULL ? strdup(getenv(variable)) : NULL;
    setenv(variable, value, 1);
    assert_int_equal(device_library(&device, cuda ? FORGE_GPU_CUDA : FORGE_GPU_HIP, &error), wanted);
    if (strstr(error.text, sentence) == NULL) fail_msg("'%s' lacks '%s'", error.text, sentence);
    device_close(&device);
    if (before != NULL) setenv(variable, before, 1);
    else unsetenv(variable);
    free(before);
}

static void what_is_missing(void **state)
{
    (void)state;
    setenv("FORGE_HIP_LIBRARY", library, 1);
    wants(FORGE_NO_DEVICE, "FORGE_HIP_LIBRARY", "/nonexistent/libamdhip64.so", "/nonexistent/libamdhip64.so");
    wants(FORGE_NO_DEVICE, "FORGE_CUDA_LIBRARY", "/nonexistent/libcuda.so", "NVIDIA");
    wants(FORGE_NO_DEVICE, "FORGE_HIP_LIBRARY", "libm.so.6", "libm.so.6 has no hipInit");
    wants(FORGE_NO_DEVICE, "FORGE_CUDA_LIBRARY", library, "has no cuInit");
    wants(FORGE_NO_DEVICE, "FORGE_SIMT_VERSION", "40500000", "HIP 4.5.0, which is too old");
    wants(FORGE_NO_DEVICE, "FORGE_SIMT_DEVICES", "0", "no AMD GPU found");
    wants(FORGE_OK, "FORGE_SIMT_VERSION", "70100000", "");
}

static void open_device(struct forge_device *d)
{
    struct forge_error error = { "" };
    setenv("FORGE_HIP_LIBRARY", library, 1);
    if (device_library(d, FORGE_GPU_HIP, &error) != FORGE_OK || device_select(d, "simt", DEVICE_ANY, NULL, &error) != FORGE_OK)
        fail_msg("%s", error.text);
    assert_string_equal(d->version_text, "HIP 6.2.0");
    assert_string_equal(d->name, "emulator of lanes");
}

static void wait_for(struct forge_device *d)
{
    struct forge_error error = { "" };
    for (bool idle = false; !idle;) assert_int_equal(device_idle(d, &idle, &error), FORGE_OK);
}

#define WORKS(expression) do { if ((expression) != FORGE_OK) fail_msg("%s: %s", #expression, error.text); } while (0)

static void memory_and_order(void **state)
{
    (void)state;
    struct forge_device d;
    struct forge_error error = { "" };
    uint8_t *a, *b, *host, *seen;
    void *first, *last;
    uint64_t free_before, free_after, total;
    double seconds;
    open_device(&d);
    WORKS(device_memory(&d, &free_before, &total, &error));
    WORKS(device_alloc(&d, &a, 5000, "test", &error));
    WORKS(device_alloc(&d, &b, 5000, "test", &error));
    WORKS(device_memory(&d, &free_after, &total, &error));
    assert_int_equal(free_before - free_after, 10000);
    assert_int_equal(device_alloc(&d, &host, total, "a large thing", &error), FORGE_NO_MEMORY);
    assert_non_null(strstr(error.text, "a large thing: out of memory"));
    WORKS(device_host_alloc(&d, &host, &seen, 10000, "test", &error));
    WORKS(device_event(&d, &first, &error));
    WORKS(device_event(&d, &last, &error));

    for (int deferred = 0; deferred < 2; deferred++) {
        setenv("FORGE_SIMT_DEFER", deferred ? "1" : "0", 1);
        for (int i = 0; i < 5000; i++) host[i] = (uint8_t)(i * 7 + 3 + deferred);
        memset(host + 5000, 0, 5000);
        WORKS(device_record(&d, first, &error));
        WORKS(device_upload(&d, a, host, 5000, &error));
        WORKS(device_copy(&d, b, a + 1000, 4000, &error));
        WORKS(device_clear(&d, b + 100, 50, &error));
        WORKS(device_download(&d, host + 5000, b, 4000, &error));
        WORKS(device_record(&d, last, &error));
        bool passed = false;
        if (deferred) assert_int_equal(host[5000], 0);               /* nothing has run yet */
        while (!passed) WORKS(device_passed(&d, last, &passed, &error));
        for (int i = 0; i < 4000; i++) assert_int_equal(host[5000 + i], i >= 100 && i < 150 ? 0 : host[1000 + i]);
        WORKS(device_seconds(&d, first, last, &seconds, &error));
        assert_true(seconds >= 0);
    }
    setenv("FORGE_SIMT_DEFER", "0", 1);
    assert_int_equal(device_upload(&d, a, host, 5001, &error), FORGE_DEVICE_FAULT);      /* beyond the allocation */
    assert_int_equal(device_upload(&d, host, a, 10, &error), FORGE_DEVICE_FAULT);        /* the wrong way round */
    device_event_free(&d, first);
    device_event_free(&d, last);
    device_host_free(&d, host);
    device_free(&d, a);
    device_free(&d, b);
    WORKS(device_memory(&d, &free_after, &total, &error));
    assert_int_equal(free_before, free_after);
    device_close(&d);
}

enum { WORDS = 64 * 6 };

static void read_words(struct forge_device *d, uint32_t *host, const uint8_t *arena)
{
    struct forge_error error = { "" };
    WORKS(device_download(d, host, arena, WORDS * 4, &error));
    wait_for(d);
}

static void code_and_graphs(void **state)
{
    (void)state;
    struct forge_device d;
    struct forge_error error = { "" };
    uint8_t *arena, *seen;
    uint32_t *host;
    void *module, *function, *graph;
    open_device(&d);
    static const uint8_t other[64] = { 0x7f, 'E', 'L', 'F', 2, 1, 1, 64 };
    assert_int_equal(device_module(&d, &module, other, &error), FORGE_WRONG_GPU);
    WORKS(device_module(&d, &module, module_image, &error));
    assert_int_equal(device_function(&d, &function, module, "no_such_kernel", 0, &error), FORGE_DEVICE_FAULT);
    assert_non_null(strstr(error.text, "no_such_kernel"));
    WORKS(device_function(&d, &function, module, "count", 60000, &error));
    WORKS(device_alloc(&d, &arena, WORDS * 4, "test", &error));
    WORKS(device_host_alloc(&d, &host, &seen, WORDS * 4, "test", &error));
    WORKS(device_clear(&d, arena, WORDS * 4, &error));

    struct forge_kernel_args args = { .arena = arena, .mark = 2 };
    args.weight[11] = 5;
    WORKS(device_launch(&d, function, 3, 2, 64, 512, &args, true, 3, &error));
    read_words(&d, host, arena);
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(host[i], 2000 + i / 192 * 100 + i / 64 % 3 * 10 + (i % 64 == 63 ? 5 : 0));

    /* The graph keeps the arguments of its capture. */
    WORKS(device_clear(&d, arena, WORDS * 4, &error));
    WORKS(device_capture_begin(&d, &error));
    args.mark = 1;
    args.weight[11] = 0;
    WORKS(device_launch(&d, function, 3, 2, 64, 0, &args, false, 0, &error));
    args.mark = 3;
    WORKS(device_launch(&d, function, 3, 2, 64, 0, &args, false, 0, &error));
    WORKS(device_capture_end(&d, &graph, &error));
    args.mark = 7;
    read_words(&d, host, arena);
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(host[i], 0);
    for (int i = 0; i < 3; i++) WORKS(device_graph_launch(&d, graph, &error));
    read_words(&d, host, arena);
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(host[i], 3 * (4000 + 2 * (i / 192 * 100 + i / 64 % 3 * 10)));
    device_graph_free(&d, graph);
    device_host_free(&d, host);
    device_free(&d, arena);
    device_module_free(&d, module);
    device_close(&d);
}

/* The versions of bad_graphs.def: from the first bad one until before the next good one, on the named architecture only. */
static void drivers_that_replay_wrongly(void **state)
{
    (void)state;
    static const struct { int version; bool bad; } versions[] = {
        { 60200000, false }, { 70199999, false }, { 70200000, true }, { 70251234, true }, { 70299999, true }, { 70300000, false },
        { 80000000, false },
    };
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        const struct forge_device hip = { .api = FORGE_GPU_HIP, .version = versions[i].version },
                                  cuda = { .api = FORGE_GPU_CUDA, .version = versions[i].version };
        const char *bad = gpu_bad_graphs(&hip, "gfx942");
        assert_int_equal(bad != NULL, versions[i].bad);
        if (bad) assert_non_null(strstr(bad, "ROCm 7.2 replays graphs wrong"));
        assert_null(gpu_bad_graphs(&hip, "gfx1151"));
        assert_null(gpu_bad_graphs(&cuda, "gfx942"));
    }
}

/* Last: the emulator, like a device, does not recover. */
static void faults(void **state)
{
    (void)state;
    struct forge_device d;
    struct forge_error error = { "" };
    uint8_t *arena;
    void *module, *function;
    bool idle;
    open_device(&d);
    WORKS(device_module(&d, &module, module_image, &error));
    WORKS(device_function(&d, &function, module, "count", 0, &error));
    WORKS(device_alloc(&d, &arena, WORDS * 4, "test", &error));
    const struct forge_kernel_args args = { .arena = arena };
    setenv("FORGE_SIMT_FAULT", "9", 1);                              /* 7 launches ran in the tests before */
    WORKS(device_launch(&d, function, 3, 2, 64, 0, &args, false, 0, &error));
    assert_int_equal(device_launch(&d, function, 3, 2, 64, 0, &args, false, 0, &error), FORGE_DEVICE_FAULT);
    assert_non_null(strstr(error.text, "launching a kernel: unspecified launch failure (719)"));
    assert_int_equal(device_idle(&d, &idle, &error), FORGE_DEVICE_FAULT);
    assert_int_equal(device_clear(&d, arena, 4, &error), FORGE_DEVICE_FAULT);
    device_free(&d, arena);
    device_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_amd),     cmocka_unit_test(drivers_that_replay_wrongly), cmocka_unit_test(what_is_missing),
        cmocka_unit_test(memory_and_order), cmocka_unit_test(code_and_graphs),             cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
