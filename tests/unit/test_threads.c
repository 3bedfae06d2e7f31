/* test_threads.c -- all threads pass every barrier together, for any number of threads and delays; every piece of work runs once.  Also
 * runs under TSan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <unistd.h>

#include "compiler/plan/plan.h"
#include "runtime/device/threads.h"
#include "templates/cpu/launch.h"

enum { MOST = 9, BARRIERS = 300 };

struct job { struct forge_pool *pool; uint32_t cells[MOST * 64]; uint32_t errors[MOST * 64]; uint32_t late; };

/* Plain memory: TSan reports it if the barrier does not order its accesses. */
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

/* ---- shared work ---- */

enum { PIECES = 200, LAUNCHES = 600 };

struct turns {
    struct forge_pool *pool;
    struct forge_args args;
    struct forge_launch launch;
    uint8_t  done[LAUNCHES][PIECES];
    uint32_t helped[MOST];
};

static uint32_t pieces_of(uint32_t launch, uint32_t n) { return launch % 3 == 0 ? launch % n : launch * 7 % PIECES + 1; }

static void turns_job(void *context, uint32_t thread, uint32_t n)
{
    struct turns *j = context;
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        const uint32_t total = pieces_of(i, n);
        const struct span own = share(total, thread, n);
        struct work todo = i % 5 == 4 ? work_alone(total, thread, n) : work_of(&j->args, &j->launch, total, thread, n);
        while (work_next(&todo))
            for (uint32_t k = todo.span.first; k < todo.span.last; k++) {
                j->done[i][k]++;
                if (k < own.first || k >= own.last) j->helped[thread]++;
                if (thread == 0 && i % 20 == 0) usleep(200);             /* the others have something to help with */
            }
        pool_barrier(j->pool, thread);
    }
}

/* Every piece of every launch runs once, with any slow threads, any number of pieces and any distribution of the previous launch. */
static void test_turns(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= MOST; n = n < 5 ? n + 1 : n + 4) {
        static struct turns j;
        j = (struct turns){ .args.n_tokens = TURN_TOKENS };
        struct forge_error error;
        assert_int_equal(pool_open(&j.pool, n, &error), FORGE_OK);
        j.args.turns = pool_turns(j.pool);
        assert_non_null(j.args.turns);
        pool_run(j.pool, turns_job, &j);
        uint32_t helped = 0;
        for (uint32_t i = 0; i < LAUNCHES; i++)
            for (uint32_t k = 0; k < PIECES; k++) assert_int_equal(j.done[i][k], k < pieces_of(i, n));
        for (uint32_t t = 0; t < n; t++) helped += j.helped[t];
        assert_true(helped > 0);
        pool_close(j.pool);
    }
}

/* Without sharing, or if sharing is not worth it, a thread does its whole share at once. */
static void test_alone(void **state)
{
    (void)state;
    struct forge_turn turns[3] = { { 0 } };
    const struct forge_launch small = { .cost.weight_bytes = 1 };
    const struct forge_args args[2] = { { .n_tokens = TURN_TOKENS }, { .n_tokens = 1, .turns = turns } };
    for (uint32_t i = 0; i < 2; i++) {
        struct work todo = work_of(&args[i], &small, 10, 2, 3);
        assert_true(work_next(&todo));
        assert_int_equal(todo.span.first, 6);
        assert_int_equal(todo.span.last, 10);
        assert_false(work_next(&todo));
    }
}

/* The runtime leaves out a launch (struct forge_launch.from_positions) exactly when the kernel does not use parts. */
static void test_parts(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < ATTENTION_PARTS_FROM; n++) assert_int_equal(attention_parts(n, 3, 64), 1);
    assert_int_equal(attention_parts(ATTENTION_PARTS_FROM, 3, 64), 2);
    assert_int_equal(attention_parts(1 << 20, 3, 64), ATTENTION_PARTS);
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_barrier), cmocka_unit_test(test_turns), cmocka_unit_test(test_alone),
                                        cmocka_unit_test(test_parts),
                                        cmocka_unit_test(test_limits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
