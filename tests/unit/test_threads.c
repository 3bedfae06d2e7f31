/* Every thread passes every barrier together, however many there are and whoever is late. Run under TSan, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <unistd.h>

#include "runtime/device/threads.h"

enum { MOST = 9, BARRIERS = 300 };

struct job { struct forge_pool *pool; uint32_t cells[MOST * 64]; uint32_t errors[MOST * 64]; uint32_t late; };

/* Plain memory: TSan sees it when the barrier does not order. */
static void job(void *context, uint32_t thread, uint32_t n)
{
    struct job *j = context;
    for (uint32_t i = 1; i <= BARRIERS; i++) {
        if (j->late == thread && i % 50 == 0) usleep(2000);          /* the others fall asleep */
        j->cells[thread * 64]++;
        pool_barrier(j->pool, thread);
        for (uint32_t t = 0; t < n; t++) j->errors[thread * 64] += j->cells[t * 64] % BARRIERS != i % BARRIERS;
        pool_barrier(j->pool, thread);
    }
}

static void test_barrier(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= MOST; n = n < 5 ? n + 1 : n + 4) {
        static struct job j;
        j = (struct job){ .late = n - 1 };
        struct forge_error error;
        assert_int_equal(pool_open(&j.pool, n, &error), FORGE_OK);
        assert_int_equal(pool_threads(j.pool), n);
        for (int run = 0; run < 5; run++) {
            if (run == 3) usleep(3000);                              /* workers asleep between two jobs */
            pool_run(j.pool, job, &j);
        }
        for (uint32_t t = 0; t < n; t++) {
            assert_int_equal(j.errors[t * 64], 0);
            assert_int_equal(j.cells[t * 64], 5 * BARRIERS);
        }
        pool_close(j.pool);
    }
}

static void test_limits(void **state)
{
    (void)state;
    struct forge_pool *pool;
    struct forge_error error;
    assert_int_equal(pool_open(&pool, 0, &error), FORGE_USAGE);
    assert_int_equal(pool_open(&pool, FORGE_MAX_THREADS + 1, &error), FORGE_USAGE);
    assert_int_equal(threads_default(1), 1);
    assert_in_range(threads_default(64), 1, 64);
    assert_int_equal(pool_open(&pool, 3, &error), FORGE_OK);
    pool_close(pool);                                                /* never used */
    pool_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_barrier), cmocka_unit_test(test_limits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
