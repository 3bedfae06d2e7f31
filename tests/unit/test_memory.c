/* test_memory.c -- free memory and large pages, as the kernel reports them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/device/memory.h"

static char root[64];

static void put(const char *name, const char *text)
{
    char command[512];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s/%s')\" && printf '%%s' '%s' > '%s/%s'", root, name, text, root, name);
    assert_int_equal(system(command), 0);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/test_memory.XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void test_room(void **state)
{
    (void)state;
    assert_int_equal(memory_room(root), 0);
    put("proc/meminfo", "MemTotal:  4000 kB\nMemFree:   1000 kB\n");
    assert_int_equal(memory_room(root), 0);
    put("proc/meminfo", "MemTotal:  4000 kB\nMemFree:   1000 kB\nMemAvailable:    3000 kB\n");
    assert_int_equal(memory_room(root), 3000 * 1024);
    put("sys/fs/cgroup/memory.max", "max\n");
    put("sys/fs/cgroup/memory.current", "1000\n");
    assert_int_equal(memory_room(root), 3000 * 1024);
    put("sys/fs/cgroup/memory.max", "5000\n");
    assert_int_equal(memory_room(root), 4000);
    put("sys/fs/cgroup/memory.current", "6000\n");
    assert_int_equal(memory_room(root), 0);
    put("sys/fs/cgroup/memory.max", "500000000\n");
    assert_int_equal(memory_room(root), 3000 * 1024);
}

static void test_large_pages(void **state)
{
    static const char enabled[] = "sys/kernel/mm/transparent_hugepage/enabled";
    (void)state;
    assert_false(memory_has_large_pages(root));
    put(enabled, "always madvise [never]\n");
    assert_false(memory_has_large_pages(root));
    put(enabled, "always [madvise] never\n");
    assert_true(memory_has_large_pages(root));
    put(enabled, "[always] madvise never\n");
    assert_true(memory_has_large_pages(root));
    put(enabled, "");
    assert_false(memory_has_large_pages(root));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large_pages, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
