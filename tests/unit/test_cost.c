/* test_cost.c -- the model of a kernel's time, term by term; tests/predict compares it with measured kernels. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/plan/cost.h"
#include "die_capture.h"
#include "scratch.h"
#include "tiny_model.h"
#include <math.h>

static void assert_near(double is, double expected)
{
    if (fabs(is - expected) > 1e-9 * fmax(1, fabs(expected))) fail_msg("%.12g where %.12g is right", is, expected);
}

/* 100 GB/s; products reach 50 GB/s: 1 MB in 20 us. */
static struct target chip(void)
{
    struct target t = { .bandwidth_gb_s = 100, .launch_us = 1 };
    t.prediction.latency_us = 2;
    t.prediction.stride_bytes = 2048;
    t.prediction.of[PREDICT_PRODUCTS] = (struct prediction){ .start_us = 3, .row_us = 0.5, .bandwidth_gb_s = 50, .strided = 0.8,
                                                             .error_percent = 5, .held_out = 4, .least_bytes = 1e6 };
    t.prediction.of[PREDICT_ATTENTION] = (struct prediction){ .chain_us = 30, .rate_tops = 2, .error_percent = 20, .held_out = 1 };
    t.prediction.of[PREDICT_PREFILL] = (struct prediction){ .clocks = 0.5, .copied = 0.25, .held_out = 1 };
    return t;
}

static void terms(void **state)
{
    (void)state;
    const struct target t = chip();
    static const struct { struct cost_work w; double us; } rows[] = {
        { { .kind = PREDICT_PRODUCTS, .bytes = 1e6 }, 3 + 20 },
        { { .kind = PREDICT_PRODUCTS, .bytes = 1e6, .cols = 4000 }, 3 + 2 + 20 },
        { { .kind = PREDICT_PRODUCTS, .bytes = 1e6, .uneven = 1.5 }, 3 + 30 },
        { { .kind = PREDICT_PRODUCTS, .bytes = 1e6, .stride = 4096 }, 3 + 25 },
        { { .kind = PREDICT_PRODUCTS, .bytes = 1e6, .stride = 4112 }, 3 + 20 },
        /* 2 us at 50 GB/s need 100,000 bytes */
        { { .kind = PREDICT_PRODUCTS, .bytes = 1e6, .in_flight = 25000 }, 3 + 80 },
        { { .kind = PREDICT_PRODUCTS, .bytes = 1e6, .in_flight = 1e6 }, 3 + 20 },
        { { .kind = PREDICT_PRODUCTS, .bytes = 1e6, .issue_us = 50 }, 3 + 50 },
        { { .kind = PREDICT_EXPERTS, .bytes = 1e6 }, 3 + 20 },                      /* constants of products */
        { { .kind = PREDICT_ATTENTION, .bytes = 1e6 }, 30 },                        /* the chain; bytes take 10 us */
        { { .kind = PREDICT_ATTENTION, .bytes = 1e6, .operations = 1e8 }, 50 },
        { { .kind = PREDICT_PREFILL, .bytes = 1e6, .clocks_us = 100 }, 50 },
        { { .kind = PREDICT_PREFILL, .bytes = 1e6, .clocks_us = 100, .copied = true }, 25 },
        { { .kind = PREDICT_OTHERS, .bytes = 1e6 }, 1 + 10 },                       /* no kernel was measured */
        /* fewer bytes than every measured kernel: proportional, after the time of the launch */
        { { .kind = PREDICT_PRODUCTS, .bytes = 0 }, 1 },
        { { .kind = PREDICT_PRODUCTS, .bytes = 5e5 }, 1 + 22 * 0.5 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) assert_near(cost_micros(&t, &rows[i].w), rows[i].us);
    struct target unknown = chip();
    unknown.bandwidth_gb_s = unknown.prediction.of[PREDICT_PRODUCTS].bandwidth_gb_s = 0;
    assert_near(cost_micros(&unknown, &rows[0].w), 0);
}

static void trust(void **state)
{
    (void)state;
    const struct target t = chip();
    const struct cost_work large = { .kind = PREDICT_PRODUCTS, .bytes = 2e6 }, small = { .kind = PREDICT_PRODUCTS, .bytes = 2e5 },
                           others = { .kind = PREDICT_OTHERS };
    assert_near(cost_trust(&t, &large).percent, 5);
    assert_false(cost_trust(&t, &large).outside);
    assert_true(cost_trust(&t, &small).outside);
    assert_true(cost_trust(&t, &others).percent < 0);
}

/* Constants of another memory are not used. */
static void inherited(void **state)
{
    struct scratch *s = *state;
    const char *path = arena_printf(s->arena, "%s/card.yaml", s->directory);
    static const char text[] = "inherits: gfx1100\nbandwidth: {value: 640, unit: GB/s, source: x}\n";
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, sizeof text - 1, f), sizeof text - 1);
    assert_int_equal(fclose(f), 0);
    const struct target *parent = target_load(s->arena, "gfx1100", NULL), *t = target_load(s->arena, path, NULL);
    assert_true(parent->prediction.of[PREDICT_PRODUCTS].held_out > 0);
    assert_int_equal(t->prediction.of[PREDICT_PRODUCTS].held_out, 0);
    const struct cost_work w = { .kind = PREDICT_PRODUCTS, .bytes = 64e6 };
    assert_near(cost_micros(t, &w), t->launch_us + 100);
}

/* The time of a step is the sum of its launches, with the work that the plan gives each kernel. */
static void steps(void **state)
{
    struct scratch *s = *state;
    struct arena *a = s->arena;
    const struct plan_options o = { .n_ctx = 64 };
    const struct plan *p = plan_make(a, graph_build(a, tiny_model(a, &tiny_llama)), FUSE_LAYER, target_load(a, "gfx1151", NULL), &o);
    const struct kernel_list *list = p->kernels;
    double sum = 0, bytes = 0;
    for (uint32_t i = 0; i < list->of[STEPS_DECODE].n; i++) {
        const struct kernel *k = &list->kernels[list->of[STEPS_DECODE].list[i].kernel];
        const struct cost_work w = cost_work_of(p, k, 1, 40);
        assert_true(cost_micros(p->target, &w) > 0);
        if (w.kind == PREDICT_PRODUCTS) assert_true(w.in_flight > 0 && w.uneven >= 1 && w.cols > 0 && w.bytes >= (double)k->weight_bytes);
        if (w.kind == PREDICT_ATTENTION) assert_near(w.operations, (double)k->attention * 41);
        sum += cost_kernel_micros(p, k, 1, 40);
        bytes += w.bytes;
    }
    sum += cost_kernel_micros(p, &list->kernels[list->sample.kernel], 1, 40);
    assert_near(cost_step_micros(p, false, 1, 40, NULL), sum);
    assert_true(bytes > (double)p->read_bytes);
    assert_true(cost_step_micros(p, false, 1, 40, NULL) >= cost_step_micros(p, false, 1, 0, NULL));
    assert_true(cost_step_micros(p, true, 32, 0, NULL) > cost_step_micros(p, true, 1, 0, NULL));
    double *issue_us = arena_array(a, double, list->n_kernels);
    for (uint32_t i = 0; i < list->n_kernels; i++) issue_us[i] = 1000;
    assert_true(cost_step_micros(p, false, 1, 40, issue_us) > sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terms),
        cmocka_unit_test(trust),
        cmocka_unit_test(inherited),
        cmocka_unit_test(steps),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
