/* test_numa.c -- NUMA nodes as the kernel reports them, distribution of threads to nodes, and memory on nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/device/numa.h"

static char directory[64];

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    for (char *slash = strchr(path + strlen(directory) + 1, '/'); slash; slash = NULL) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/test_numa.XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static bool has(const struct numa *n, uint32_t node, uint32_t cpu) { return n->node[node].cpus[cpu / NUMA_WORD] >> cpu % NUMA_WORD & 1; }

/* The first processor this process may use. */
static uint32_t first_cpu(void)
{
    static struct numa n;
    numa_read(&n, "/nowhere");
    for (uint32_t i = 0; i < FORGE_MAX_CPUS; i++) if (has(&n, 0, i)) return i;
    fail();
    return 0;
}

/* Nodes without processors, or without processors that this process may use, do not count. */
static void nodes(void **state)
{
    (void)state;
    static struct numa n;
    const uint32_t cpu = first_cpu();
    char ours[64], others[64];
    snprintf(ours, sizeof ours, "%u,8000-8191\n", cpu);
    snprintf(others, sizeof others, "%u-%u\n", 8100, 8191);
    put("online", "0-2,5\n");
    put("node0/cpulist", ours);
    put("node1/cpulist", "\n");                                  /* only memory */
    put("node2/cpulist", others);
    put("node5/cpulist", ours);
    numa_read(&n, directory);
    assert_int_equal(n.n, 2);
    assert_int_equal(n.node[0].id, 0);
    assert_int_equal(n.node[1].id, 5);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(has(&n, i, cpu));
        assert_false(has(&n, i, 8191));
    }
    put("online", "nonsense\n");
    numa_read(&n, directory);
    assert_int_equal(n.n, 1);
    assert_true(has(&n, 0, cpu));
}

static void threads(void **state)
{
    (void)state;
    static struct numa n = { .n = 2 };
    const uint32_t of_four[] = { 0, 0, 1, 1 }, of_three[] = { 0, 0, 1 };
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(numa_node_of(&n, i, 4), of_four[i]);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(numa_node_of(&n, i, 3), of_three[i]);
    numa_read(&n, "/nowhere");
    assert_true(numa_stay(&n, 0));
}

static void memory(void **state)
{
    (void)state;
    static struct numa n;
    numa_read(&n, "/sys/devices/system/node");
    assert_in_range(n.n, 1, NUMA_MOST_NODES);
    for (uint32_t node = 0; node <= n.n; node++) {                /* the last value: all nodes */
        const size_t bytes = 5 << 20;
        struct forge_error error;
        void *base = NULL;
        assert_int_equal(numa_map(&base, bytes, &n, node, "a test", &error), FORGE_OK);
        for (size_t i = 0; i < bytes; i += 4096) {
            assert_int_equal(((uint8_t *)base)[i], 0);
            ((uint8_t *)base)[i] = 1;
        }
        munmap(base, bytes);
    }
    /* A node that the machine does not have. */
    struct forge_error error;
    void *base = NULL;
    n.node[0].id = 1000;
    n.n = 1;
    assert_int_equal(numa_map(&base, 4096, &n, 0, "a test", &error), FORGE_FAILED);
    assert_null(base);
    assert_non_null(strstr(error.text, "a test cannot be placed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(nodes, set_up, tear_down), cmocka_unit_test(threads),
                                        cmocka_unit_test(memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
