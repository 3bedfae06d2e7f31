/* test_state.c -- the table of a program's states: the bytes that n positions have written of each, and when tokens can be forgotten; and
 * the launches that a step needs for its positions. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "runtime/model/cost.h"
#include "runtime/model/state.h"

enum { CONTEXT = 100, ROWS = 32, WINDOW = 20 };
static const struct forge_state kv = { FORGE_STATE_KV, 0, 64, 4 * 112 * 8 + 32, 4, 112, 8, UINT32_MAX };
static const struct forge_state ring = { FORGE_STATE_RING, 1, 8192, 2 * ROWS * 8, 2, ROWS, 8, ROWS - WINDOW + 1 };
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
    check_runs(&ring, 10, 2, ROWS * 8, 16 * 8);
    check_runs(&ring, CONTEXT, 2, ROWS * 8, ROWS * 8);
    check_runs(&recurrent, 1, 1, 1000, 1000);
    /* the rows of a GPU's context need not be a multiple of a group */
    const struct forge_state odd = { FORGE_STATE_KV, 0, 0, 2 * CONTEXT * 8, 2, CONTEXT, 8, UINT32_MAX };
    check_runs(&odd, 99, 2, CONTEXT * 8, CONTEXT * 8);
}

static void used(void **state)
{
    (void)state;
    const struct forge_state all[] = { kv, ring, recurrent, conv };
    const struct forge_program p = program_of(all, 4);
    assert_int_equal(state_used_bytes(&p, 0), 0);
    assert_int_equal(state_used_bytes(&p, 40), 4 * 48 * 8 + 2 * ROWS * 8 + 1000 + 24);
}

static void rewinding(void **state)
{
    (void)state;
    const struct forge_state two[] = { kv, ring }, with_recurrent[] = { kv, recurrent };
    const struct forge_program rows = program_of(two, 1), rings = program_of(two, 2), layers = program_of(with_recurrent, 2);
    assert_true(state_rewinds(&rows, 90, 90, 1) && state_rewinds(&rows, 90, 90, 90) && state_rewinds(&rows, 90, 90, 0) &&
                !state_rewinds(&rows, 90, 90, 91) && !state_rewinds(&rows, 100, 90, 91));
    assert_true(state_rewinds(&layers, 90, 90, 90) && state_rewinds(&layers, 90, 90, 0) && !state_rewinds(&layers, 90, 90, 89));
    /* steps that went further: the layer's state includes them */
    assert_true(state_rewinds(&rows, 95, 90, 90) && !state_rewinds(&layers, 91, 90, 90) && state_rewinds(&layers, 91, 90, 0));
    assert_true(state_back(&rows) == UINT32_MAX && state_back(&rings) == ROWS - WINDOW + 1 && state_back(&layers) == 0);
}

/* Compares with a simulated ring: position p can be computed while the window before it is still in the ring's rows. */
static void rings(void **state)
{
    (void)state;
    const struct forge_state two[] = { kv, ring };
    const struct forge_program p = program_of(two, 2);
    uint32_t row[ROWS], checked = 0;
    for (uint32_t n_written = 1; n_written <= CONTEXT; n_written++) {
        row[(n_written - 1) % ROWS] = n_written - 1;
        for (uint32_t n_past = 0; n_past <= n_written; n_past++)
            for (uint32_t to = 0; to <= n_past + 1; to++) {
                bool there = to <= n_past;
                for (uint32_t at = to < WINDOW ? 0 : to - WINDOW + 1; at < to; at++) there &= row[at % ROWS] == at;
                if (to > n_written) there = false;
                assert_int_equal(state_rewinds(&p, n_written, n_past, to), there);
                checked += to > 0 && there;
            }
    }
    assert_true(checked > 1000);
}

static void beginnings(void **state)
{
    (void)state;
    assert_true(state_begins_zero(&recurrent) && state_begins_zero(&conv) && !state_begins_zero(&kv) && !state_begins_zero(&ring));
}

/* Position by position. */
static void check_cost(const struct forge_program *p, const struct forge_cost *c, uint32_t n_past, uint32_t n)
{
    uint64_t pairs = 0, read = 0;
    for (uint32_t at = 0; at < n_past + n; at++) {
        bool met = false;
        for (uint32_t i = n_past; i < n_past + n; i++) {
            const bool attends = cost_whole(p) || (at <= i && (c->window == 0 || i - at < c->window));
            pairs += attends;
            met |= attends;
        }
        read += met;
    }
    const struct cost_tokens t = cost_tokens(n_past, n, 1, 0);
    assert_int_equal(cost_operations(p, c, t), 7 * n + 3 * pairs);
    assert_int_equal(cost_bytes(p, c, t), 1000 + 8 * read);
}

static void costs(void **state)
{
    (void)state;
    const struct forge_embedding whole = { .whole = 1 }, causal = { .whole = 0 };
    struct forge_program p = { .n_ctx = CONTEXT };
    const struct forge_cost far = { 1000, 8 * CONTEXT, 7, 3, 0 }, near = { 1000, 8 * WINDOW, 7, 3, WINDOW };
    for (uint32_t n_past = 0; n_past < 50; n_past++)
        for (uint32_t n = 1; n <= 50; n++) {
            check_cost(&p, &far, n_past, n);
            check_cost(&p, &near, n_past, n);
        }
    p.embedding = &causal;
    check_cost(&p, &near, 0, 30);
    p.embedding = &whole;
    check_cost(&p, &far, 0, 30);
    /* without attention the state is read completely; the last tokens of a step, or none, are left to a tail */
    const struct forge_cost product = { 1000, 0, 7, 0, 0 }, recur = { 0, 600, 7, 0, 0 };
    assert_int_equal(cost_bytes(&p, &recur, cost_tokens(5, 10, 1, 0)), 600);
    assert_int_equal(cost_operations(&p, &product, cost_tokens(5, 10, 3, 1)), 3 * 7);
    p.embedding = NULL;
    assert_int_equal(cost_operations(&p, &far, cost_tokens(5, 10, 1, 1)), 7 + 3 * 15);
    assert_int_equal(cost_operations(&p, &far, cost_tokens(5, 10, 0, 1)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(runs), cmocka_unit_test(used), cmocka_unit_test(rewinding),
                                        cmocka_unit_test(rings), cmocka_unit_test(beginnings), cmocka_unit_test(costs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
