/* test_driver_library.c -- the search for GPU libraries: the layouts of ROCm's and of Python's packages, the newest first, in a folder that
 * replaces the system's root. */
#include "runtime/device/driver_library.h"
#include "scratch.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
/* cmocka.h needs the above */
#include <cmocka.h>

struct found { struct arena *arena; const char *root, *files; };

static bool take(void *context, const char *file)
{
    struct found *f = context;
    const size_t n = strlen(f->root);
    assert_true(strncmp(file, f->root, n) == 0);
    f->files = arena_printf(f->arena, "%s%s%s", f->files, *f->files ? "\n" : "", file + n);
    return false;
}

static void make_file(struct scratch *s, const char *path)
{
    const char *full = arena_printf(s->arena, "%s%s", s->directory, path);
    for (const char *slash = full + strlen(s->directory) + 1; (slash = strchr(slash, '/')); slash++)
        mkdir(arena_strndup(s->arena, full, (size_t)(slash - full)), 0755);
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fclose(f);
}

static void assert_found(struct scratch *s, enum driver_library which, const char *files)
{
    struct found f = { s->arena, s->directory, "" };
    driver_files(which, s->directory, take, &f);
    assert_string_equal(f.files, files);
}

static void forget(void)
{
    static const char *const names[] = { "ROCM_PATH", "HIP_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "HOME" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
}

static void test_packages(void **state)
{
    struct scratch *s = *state;
    forget();
    assert_found(s, DRIVER_HIP, "");
    make_file(s, "/opt/rocm/core-7.2/lib/libamdhip64.so.7");
    make_file(s, "/opt/rocm/core-10.0/lib/libamdhip64.so.7");
    make_file(s, "/opt/rocm/core-10.0/lib/librccl.so.1");
    make_file(s, "/opt/rocm/core-7.14/lib/libamdhip64.so.7");
    make_file(s, "/opt/rocm-6.4.1/lib/libamdhip64.so.6");
    make_file(s, "/opt/rocm-6.10.0/lib/libamdhip64.so.6");
    make_file(s, "/opt/rocm-6.4.1/lib/librccl.so.1");
    assert_found(s, DRIVER_HIP, "/opt/rocm/core-10.0/lib/libamdhip64.so.7\n/opt/rocm/core-7.14/lib/libamdhip64.so.7\n"
                 "/opt/rocm/core-7.2/lib/libamdhip64.so.7\n/opt/rocm-6.10.0/lib/libamdhip64.so.6\n"
                 "/opt/rocm-6.4.1/lib/libamdhip64.so.6");
    assert_found(s, DRIVER_RCCL, "/opt/rocm/core-10.0/lib/librccl.so.1\n/opt/rocm-6.4.1/lib/librccl.so.1");
    assert_found(s, DRIVER_CUDA, "");
}

static void test_environment(void **state)
{
    struct scratch *s = *state;
    forget();
    make_file(s, "/opt/rocm/lib/libamdhip64.so");
    make_file(s, "/sdk/lib/libamdhip64.so.8");
    make_file(s, "/sdk64/lib64/libamdhip64.so.5");
    setenv("ROCM_PATH", "/sdk", 1);
    setenv("HIP_PATH", "/sdk64", 1);
    assert_found(s, DRIVER_HIP, "/sdk/lib/libamdhip64.so.8\n/sdk64/lib64/libamdhip64.so.5\n/opt/rocm/lib/libamdhip64.so");
}

static void test_wheels(void **state)
{
    struct scratch *s = *state;
    forget();
    make_file(s, "/venv/lib/python3.13/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7.15.26333");
    make_file(s, "/venv/lib/python3.13/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7.9.1");
    make_file(s, "/venv/lib/python3.9/site-packages/_rocm_sdk_core/lib/libamdhip64.so.6");
    make_file(s, "/usr/lib/python3/dist-packages/_rocm_sdk_core/lib/libamdhip64.so.5");
    make_file(s, "/venv/lib/python3.13/site-packages/nvidia/nccl/lib/libnccl.so.2");
    setenv("VIRTUAL_ENV", "/venv", 1);
    assert_found(s, DRIVER_HIP, "/venv/lib/python3.13/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7.15.26333\n"
                 "/venv/lib/python3.13/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7.9.1\n"
                 "/venv/lib/python3.9/site-packages/_rocm_sdk_core/lib/libamdhip64.so.6\n"
                 "/usr/lib/python3/dist-packages/_rocm_sdk_core/lib/libamdhip64.so.5");
    assert_found(s, DRIVER_NCCL, "/venv/lib/python3.13/site-packages/nvidia/nccl/lib/libnccl.so.2");
}

/* A library that cannot be loaded gives another message than a missing library. */
static void test_opening(void **state)
{
    struct scratch *s = *state;
    char name[256], why[300];
    forget();
    setenv("FORGE_HIP_LIBRARY", "libm.so.6", 1);
    assert_non_null(driver_open(DRIVER_HIP, name, sizeof name, why, sizeof why));
    assert_string_equal(name, "libm.so.6");
    setenv("FORGE_HIP_LIBRARY", "/nowhere/libamdhip64.so", 1);
    assert_null(driver_open(DRIVER_HIP, name, sizeof name, why, sizeof why));
    assert_non_null(strstr(why, "/nowhere/libamdhip64.so"));
    unsetenv("FORGE_HIP_LIBRARY");
    make_file(s, "/lib/librccl.so.1");
    setenv("ROCM_PATH", s->directory, 1);
    if (!driver_open(DRIVER_RCCL, name, sizeof name, why, sizeof why)) assert_non_null(strstr(why, "lib/librccl.so.1: file too short"));
    assert_non_null(strstr(driver_missing(DRIVER_HIP), "amdrocm-runtime"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_packages, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_environment, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_wheels, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_opening, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
