/* test_least_times.c -- computes least times from the simulator's counters: known numbers give known times; damaged files; targets without
 * rates. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include "compiler/cli/least_times.h"
#include "die_capture.h"

/* The constant part of a kernel's counters. */
#define REST \
    "\"lanes_idle\": {\"valu\": 0, \"trans\": 0, \"dot\": 0, \"matrix\": 0, \"lds\": 0, \"global_load\": 0, \"global_store\": 0}, "        \
    "\"static_lds\": 1024, "                                                                                                               \
    "\"dynamic_lds\": 31744, \"scratch_bytes\": 0, \"loaded_bytes\": 0, \"load_lines\": 0, \"lds_loads\": 0, \"lds_stores\": 0, "          \
    "\"lds_moves\": 0, "                                                                                                                   \
    "\"channels\": 0, \"channel_bytes\": 0, \"channel_busiest\": 0, "                                                                     \
    "\"loads_in_flight_most\": 3, \"loop_loads_in_flight_most\": 2, \"loops\": {\"instructions\": 0, \"matrix\": 0, \"nops\": 0, "         \
    "\"acc_moves\": 0, \"scratch\": 0}"
#define KINDS "\"kinds\": {\"mul32\": %u, \"f64\": %u, \"acc_move\": 0, \"nop\": 0}"
#define FLOP "\"matrix_flop\": {\"f16\": %.0f, \"f8\": 0, \"f32\": 0, \"i8\": %.0f, \"i4\": 0}"

/* The counters that cases change. */
struct kernel_text {
    uint32_t wave, threads, groups, launches, registers, valu, trans, mul32, f64;   /* groups: per launch; instructions: per wave */
    double   f16, i8, lds_cycles, lds_conflicts, unique, stored;              /* FLOP and cycles per wave; bytes per launch */
    bool     pair;
    uint32_t run;                        /* groups of a launch that ran */
};

/* Some versions of cmocka compare only floats. */
static void near(double x, double expected)
{
    if (!(fabs(x - expected) <= 1e-9 * fmax(1, fabs(expected)))) fail_msg("%.12g is not %.12g", x, expected);
}

static char path[] = "/tmp/least_times.XXXXXX";

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void write_kernel(const struct kernel_text *k)
{
    const uint32_t waves = k->groups * k->launches * (k->threads / k->wave);
    char text[4096];
    const int n = snprintf(text, sizeof text,
        "{\"kernels\": [{\"name\": \"one\", \"launches\": %u, \"threads\": [%u, 1, 1], \"wave\": %u, \"pair\": %s, \"registers\": %u, "
        "\"launches_of\": [[%u, %u]], "
        "\"instructions\": {\"wait\": %u, \"barrier\": 0, \"valu\": %u, \"trans\": %u, \"dot\": 0, \"matrix\": 0, \"lds\": 0, "
        "\"global_load\": 0, \"global_store\": 0, "
        "\"scratch\": 0}, " KINDS ", " FLOP ", \"lds_cycles\": %.0f, \"lds_conflicts\": %.0f, \"unique_bytes\": %.0f, \"stored_bytes\": "
                                            "%.0f, \"barriers\": 0, "
        "\"waves\": %u, \"groups\": %u, \"groups_run\": %u, " REST "}]}\n",
        k->launches, k->threads, k->wave, k->pair ? "true" : "false", k->registers, k->groups, k->launches, 2 * waves, k->valu * waves,
        k->trans * waves, k->mul32 * waves,
        k->f64 * waves, k->f16 * waves, k->i8 * waves, k->lds_cycles * waves, k->lds_conflicts * waves, k->unique * k->launches,
        k->stored * k->launches, waves,
        k->groups * k->launches, (k->run ? k->run : k->groups) * k->launches);
    assert_true(n > 0 && (size_t)n < sizeof text);
    write_file(text);
}

static struct step_times times_of(struct arena *a, const char *target, const struct kernel_text *k, double steps)
{
    struct counters *c = arena_new(a, struct counters);
    write_kernel(k);
    *c = counters_read(a, path);
    return least_times(a, target_load(a, target, NULL), c, steps);
}

static struct arena *arena;
/* cJSON allocates from the arena too, because die() jumps out of it. */
static void *json_alloc(size_t bytes) { return arena_alloc(arena, bytes); }
static void json_free(void *p)        { (void)p; }

static int set_up(void **state)
{
    (void)state;
    arena = arena_create();
    cJSON_InitHooks(&(cJSON_Hooks){ json_alloc, json_free });
    return 0;
}
static int tear_down(void **state) { (void)state; arena_destroy(arena); return 0; }

/* A wave of gfx942 issues a vector instruction in 4 clocks of its SIMD; 2.1 GHz. */
static void test_gfx942(void **state)
{
    (void)state;
    const struct kernel_text k = { .wave = 64, .threads = 256, .groups = 304, .launches = 2, .registers = 128, .valu = 1000, .trans = 10,
                                   .mul32 = 100, .f64 = 100, .f16 = 20 * 8192, .lds_cycles = 40, .lds_conflicts = 8, .unique = 3943e3,
                                   .stored = 0 };
    const struct step_times t = times_of(arena, "gfx942", &k, 2);
    assert_null(t.missing);
    assert_int_equal(t.n_kernels, 1);
    const struct kernel_times *one = &t.kernels[0];
    near(one->launches, 1);
    near(one->groups, 304);
    near(one->fill, 1);
    near(one->us[PIPE_VECTOR], (1000 + 4 * 10) * 4 / 2100.0);
    near(one->us[PIPE_MATRIX], 20 * 16 / 2100.0);                    /* 16 clocks each */
    near(one->us[PIPE_LDS], 4 * 48 / 2100.0);                        /* four waves share it */
    near(one->us[PIPE_MEMORY], 1);
    near(one->us[PIPE_LAUNCH], 2.6);
    assert_int_equal(one->bound, PIPE_LAUNCH);
    near(t.least_us, 2.6);
    assert_int_equal(one->simd_waves, 4);
    assert_int_equal(one->resident, 2);                                                  /* 32 KiB of 64 */
}

/* The busiest SIMD: workgroups are distributed in turn, and waves of small workgroups share compute units. */
static void test_fill(void **state)
{
    (void)state;
    const struct { uint32_t threads, groups; double fill, waves; } cases[] = {
        { 256, 128, 128 / 304.0, 1 }, { 256, 305, 305 / 608.0, 2 }, { 256, 608, 1, 2 }, { 64, 304, 0.25, 1 }, { 64, 1216, 1, 1 },
        { 64, 1217, 1217 / 2432.0, 2 },
        { 128, 608, 1, 1 }, { 512, 304, 1, 2 }, { 192, 304, 0.75, 1 }, { 256, 1, 1 / 304.0, 1 },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct kernel_text k = { .wave = 64, .threads = cases[i].threads, .groups = cases[i].groups, .launches = 1, .registers = 64,
                                       .valu = 2100 };
        const struct step_times t = times_of(arena, "gfx942", &k, 1);
        near(t.kernels[0].fill, cases[i].fill);
        near(t.kernels[0].us[PIPE_VECTOR], 4 * cases[i].waves);
    }
}

/* gfx1100: 48 pairs of compute units with 4 SIMDs each, one vector instruction per clock; 2.5 GHz. */
static void test_rdna(void **state)
{
    (void)state;
    struct kernel_text k = { .wave = 32, .threads = 256, .groups = 48, .launches = 1, .registers = 48, .valu = 900, .trans = 100,
                             .mul32 = 50, .f64 = 2, .i8 = 25 * 8192, .lds_cycles = 100, .pair = true };
    struct step_times t = times_of(arena, "gfx1100", &k, 1);
    near(t.kernels[0].fill, 1);
    near(t.kernels[0].us[PIPE_VECTOR], 2 * (1000 + 3 * 50 + 15 * 2) / 2500.0);
    near(t.kernels[0].us[PIPE_MATRIX], 2 * 25 * 32 / 2500.0);
    near(t.kernels[0].us[PIPE_LDS], 8 * 100 / 2.0 / 2500.0);         /* both halves of the WGP's LDS */
    assert_int_equal(t.kernels[0].simd_waves, 16);
    k = (struct kernel_text){ .wave = 32, .threads = 256, .groups = 96, .launches = 1, .registers = 48, .trans = 1000, .pair = false };
    t = times_of(arena, "gfx1100", &k, 1);
    near(t.kernels[0].fill, 1);
    near(t.kernels[0].us[PIPE_VECTOR], 4 * 4 * 1000 / 2500.0);       /* their own unit is slower */
}

static void test_bound(void **state)
{
    (void)state;
    const struct kernel_text base = { .wave = 64, .threads = 256, .groups = 304, .launches = 1, .registers = 64 };
    struct kernel_text k[N_PIPES] = { base, base, base, base, base };
    k[PIPE_MATRIX].f16 = 1e9, k[PIPE_VECTOR].valu = 1000000, k[PIPE_LDS].lds_cycles = 1e6, k[PIPE_MEMORY].stored = 1e9;
    static const char *const words[N_PIPES] = { "matrix", "vector", "LDS", "memory", "launch" };
    for (size_t i = 0; i < N_PIPES; i++) {
        const struct step_times t = times_of(arena, "gfx942", &k[i], 1);
        assert_string_equal(pipe_name[t.kernels[0].bound], words[i]);
        near(t.kernels[0].us[i], t.kernels[0].least_us);
    }
}

/* Bytes that workgroups share count once. */
static void test_sample(void **state)
{
    (void)state;
    const struct kernel_text k = { .wave = 64, .threads = 256, .groups = 304, .launches = 1, .registers = 64, .unique = 304e6, .run = 8 };
    const struct step_times t = times_of(arena, "gfx942", &k, 1);
    assert_true(t.kernels[0].counted->sampled);
    near(t.kernels[0].counted->unique_bytes, 8e6);
}

static void test_damaged(void **state)
{
    (void)state;
    static const struct { const char *text, *message; } cases[] = {
        { "", "the list \"kernels\"" }, { "{", "the list \"kernels\"" }, { "[]", "the list \"kernels\"" },
        { "{\"kernels\": 1}", "the list \"kernels\"" },
        { "{\"kernels\": [1]}", "the number \"launches\" is missing" },
        { "{\"kernels\": [{\"launches\": \"1\"}]}", "the number \"launches\" is missing" },
        { "{\"kernels\": [{\"launches\": 1, \"groups\": 1, \"waves\": 1}]}", "the number \"valu\" is missing" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        write_file(cases[i].text);
        assert_dies(counters_read(arena, path), cases[i].message);
    }
    /* a whole file, one word of it changed */
    static const struct { const char *word, *instead, *message; } changes[] = {
        { "\"wave\": 64", "\"wave\": 63", "a wave has 63 lanes instead of 32 or 64" },
        { "\"threads\": [256, 1, 1]", "\"threads\": []x", "the list \"kernels\" is missing" },
        { "\"threads\": [256, 1, 1]", "\"threads\": [0, 1, 1]", "a group has 0 threads instead of 1 to 1024" },
        { "[[304, 1]]", "[[304]]  ", "array of pairs" },
        { "[[304, 1]]", "[7]      ", "array of pairs" },
        { "\"name\": \"one\"", "\"name\": 1", "a kernel has no name" }, { "\"registers\": 64", "\"registers\": -4", "out of range" },
        { "\"mul32\"", "\"mul33\"", "the number \"mul32\" is missing" },
    };
    const struct kernel_text k = { .wave = 64, .threads = 256, .groups = 304, .launches = 1, .registers = 64 };
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        write_kernel(&k);
        const struct bytes whole = file_read(arena, path);
        char *text = arena_strndup(arena, (const char *)whole.data, whole.size), *at = strstr(text, changes[i].word);
        assert_non_null(at);
        write_file(arena_printf(arena, "%.*s%s%s", (int)(at - text), text, changes[i].instead, at + strlen(changes[i].word)));
        assert_dies(counters_read(arena, path), changes[i].message);
    }
}

/* sm_90 has no rates, because there is no simulator for it.  A kernel with a format for which a chip has no rate reports this. */
static void test_missing(void **state)
{
    (void)state;
    assert_string_equal(target_missing_rate(target_load(arena, "sm_90", NULL)), "rates: clock");
    for (size_t i = 0; i < 3; i++)
        assert_null(target_missing_rate(target_load(arena, (const char *const[]){ "gfx942", "gfx1100", "gfx1151" }[i], NULL)));
    struct kernel_text k = { .wave = 64, .threads = 256, .groups = 304, .launches = 1, .registers = 64, .i8 = 1 };
    write_kernel(&k);
    struct counters c = counters_read(arena, path);
    struct target p = *target_load(arena, "gfx942", NULL);
    p.rates.matrix[MATRIX_I8] = 0;
    assert_string_equal(least_times(arena, &p, &c, 1).missing, "rates: matrix_i8");
    p.rates.lds_bytes = 0;
    assert_string_equal(least_times(arena, &p, &c, 1).missing, "rates: lds");
}

int main(void)
{
    const int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_gfx942, set_up, tear_down), cmocka_unit_test_setup_teardown(test_fill, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rdna, set_up, tear_down), cmocka_unit_test_setup_teardown(test_bound, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sample, set_up, tear_down), cmocka_unit_test_setup_teardown(test_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing, set_up, tear_down),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
