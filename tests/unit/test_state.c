/* test_state.c -- the table of a program's states: what n positions have written of each, and when tokens can be forgotten. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "runtime/model/state.h"

enum { CONTEXT = 100, WINDOW = 32 };
static const struct forge_state kv = { FORGE_STATE_KV, 0, 64, 4 * 112 * 8 + 32, 4, 112, 8, 1 };
static const struct forge_state ring = { FORGE_STATE_RING, 1, 8192, 2 * WINDOW * 8, 2, WINDOW, 8, 1 };
static const struct forge_state recurrent = { FORGE_STATE_RECURRENT, 2, 16384, 1000, 0, 0, 0, 0 };
static const struct forge_state conv = { FORGE_STATE_CONV, 2, 20480, 24, 0, 0, 0, 0 };

static struct forge_program program_of(const struct forge_state *states, uint32_t n)
{
    return (struct forge_program){ .n_ctx = CONTEXT, .n_states = n, .states = states };
}

static void check_runs(const struct forge_state *s, uint32_t n_past, uint64_t n, uint64_t stride, uint64_t bytes)
{
    const struct state_runs r = state_runs(s, n_past);
    assert_int_equal(r.offset, s->offset);
    assert_int_equal(r.n, n);
    assert_int_equal(r.stride, stride);
    assert_int_equal(r.bytes, bytes);
}

static void runs(void **state)
{
    (void)state;
    check_runs(&kv, 0, 0, 0, 0);
    check_runs(&kv, 1, 4, 112 * 8, 16 * 8);
    check_runs(&kv, 16, 4, 112 * 8, 16 * 8);
    check_runs(&kv, 17, 4, 112 * 8, 32 * 8);
    check_runs(&kv, CONTEXT, 4, 112 * 8, 112 * 8);
    check_runs(&ring, 20, 2, WINDOW * 8, 32 * 8);
    check_runs(&ring, CONTEXT, 2, WINDOW * 8, WINDOW * 8);
    check_runs(&recurrent, 1, 1, 1000, 1000);
    /* rows of a GPU's context need not be whole groups */
    const struct forge_state odd = { FORGE_STATE_KV, 0, 0, 2 * CONTEXT * 8, 2, CONTEXT, 8, 1 };
    check_runs(&odd, 99, 2, CONTEXT * 8, CONTEXT * 8);
}

static void used(void **state)
{
    (void)state;
    const struct forge_state all[] = { kv, ring, recurrent, conv };
    const struct forge_program p = program_of(all, 4);
    assert_int_equal(state_used_bytes(&p, 0), 0);
    assert_int_equal(state_used_bytes(&p, 40), 4 * 48 * 8 + 2 * WINDOW * 8 + 1000 + 24);
}

static void rewinding(void **state)
{
    (void)state;
    const struct forge_state two[] = { kv, ring }, with_recurrent[] = { kv, recurrent };
    const struct forge_program rows = program_of(two, 1), rings = program_of(two, 2), layers = program_of(with_recurrent, 2);
    assert_true(state_rewinds(&rows, 90, 1) && state_rewinds(&rows, 90, 90) && state_rewinds(&rows, 90, 0) &&
                !state_rewinds(&rows, 90, 91));
    /* before the ring has gone round all is there, after that only the last token can be taken back */
    assert_true(state_rewinds(&rings, WINDOW, 1) && !state_rewinds(&rings, WINDOW + 1, 1) && !state_rewinds(&rings, 90, 88));
    assert_true(state_rewinds(&rings, 90, 89) && state_rewinds(&rings, 90, 90) && state_rewinds(&rings, 90, 0));
    assert_true(state_rewinds(&layers, 90, 90) && state_rewinds(&layers, 90, 0) && !state_rewinds(&layers, 90, 89));
}

static void beginnings(void **state)
{
    (void)state;
    assert_true(state_begins_zero(&recurrent) && state_begins_zero(&conv) && !state_begins_zero(&kv) && !state_begins_zero(&ring));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(runs), cmocka_unit_test(used), cmocka_unit_test(rewinding),
                                        cmocka_unit_test(beginnings) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
