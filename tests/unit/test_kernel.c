/* test_kernel.c -- the list of kernels: which launches share a kernel, names, places of weights, choices of a plan that is read back; and
 * that the description of a CPU's kernel identifies its text exactly. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/cpu/kernels.h"
#include "compiler/plan/lifetimes.h"
#include "compiler/plan/plan.h"
#include "die_capture.h"
#include "tiny_plans.h"
#include <string.h>

static struct arena *a;

static int setup(void **state) { (void)state; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

/* ---- kernel.c ---- */

static const struct group groups[2] = { { .name = "one", .layer = 3 }, { .name = "two", .layer = NO_LAYER } };
static const struct fused fused = { .groups = (struct group *)groups, .n_groups = 2 };

static struct kernel_draft draft(struct kernel_list *list, const char *name, const char *does, bool prefill)
{
    struct kernel_draft d = kernel_begin(list, TEMPLATE_map, name, &fused, &groups[0], prefill, false);
    kernel_does(&d, "%s", does);
    return d;
}

static uint32_t add(struct kernel_list *list, const char *name, const char *does)
{
    struct kernel_draft d = draft(list, name, does, false);
    return kernel_end(list, &d);
}

static void equal_kernels_are_one(void **state)
{
    (void)state;
    struct kernel_list *list = kernel_list_new(a);
    assert_int_equal(add(list, "k", "adds"), 0);
    assert_int_equal(add(list, "other", "adds"), 0);
    assert_int_equal(add(list, "k", "norms"), 1);
    assert_int_equal(add(list, "k", "copies"), 2);
    assert_int_equal(add(list, "k_2", "counts"), 3);
    assert_int_equal(list->n_kernels, 4);
    assert_int_equal(list->of[STEPS_DECODE].n, 5);
    assert_int_equal(list->kernels[0].n_launches, 2);
    static const char *const names[] = { "k", "k_2", "k_3", "k_2_2" };
    for (uint32_t i = 0; i < 4; i++) assert_string_equal(list->kernels[i].name, names[i]);
}

static void any_size_makes_two(void **state)
{
    (void)state;
    struct kernel_list *list = kernel_list_new(a);
    add(list, "k", "adds");
    enum { SIZES = 7 };
    for (uint32_t i = 0; i < PARAM_COUNT + SIZES + 2; i++) {
        struct kernel_draft d = draft(list, "k", "adds", i == PARAM_COUNT + SIZES + 1);
        uint32_t *const sizes[SIZES] = { &d.kernel.lds_bytes,      &d.kernel.grid_x,         &d.kernel.grid_tokens,  &d.kernel.tokens_first,
                                         &d.kernel.unless_divides, &d.kernel.from_positions, &d.kernel.joins_divides };
        if (i < PARAM_COUNT) d.kernel.param[i] = 7;
        else if (i < PARAM_COUNT + SIZES) *sizes[i - PARAM_COUNT] += 7;
        else if (i == PARAM_COUNT + SIZES) d.kernel.template = TEMPLATE_norm;
        assert_int_equal(kernel_end(list, &d), i + 1);
    }
}

/* A kernel that serves decode and prefill is one, in both lists. */
static void decode_and_prefill(void **state)
{
    (void)state;
    struct kernel_list *list = kernel_list_new(a);
    add(list, "k", "adds");
    struct kernel_draft d = draft(list, "k", "adds", true);
    d.kernel.prefill = false;
    assert_int_equal(kernel_end(list, &d), 0);
    d = draft(list, "k", "adds", true);
    assert_int_equal(kernel_end(list, &d), 1);
    assert_int_equal(list->of[STEPS_DECODE].n, 1);
    assert_int_equal(list->of[STEPS_PREFILL].n, 2);
    assert_int_equal(list->of[STEPS_PREFILL].list[0].group, 0);
    assert_int_equal(list->of[STEPS_PREFILL].list[0].layer, 3);
    assert_string_equal(list->of[STEPS_PREFILL].list[0].name, "one");
}

static void many_kernels(void **state)
{
    (void)state;
    struct kernel_list *list = kernel_list_new(a);
    for (uint32_t i = 0; i < 300; i++) assert_int_equal(add(list, "k", arena_printf(a, "%u", i % 200)), i % 200);
    assert_int_equal(list->of[STEPS_DECODE].n, 300);
    assert_string_equal(list->kernels[199].does, "199\n");
}

static void weights(void **state)
{
    (void)state;
    static struct kernel_list *list;
    static struct kernel_draft d;
    static char line[2000];
    list = kernel_list_new(a);
    d = draft(list, "k", "reads", false);
    assert_dies(kernel_bind(&d, (struct binding){ .offset = UINT64_MAX }, "w", 1), "which has no place among the weights");
    for (uint32_t i = 0; i < FORGE_MAX_WEIGHTS; i++)
        assert_string_equal(kernel_bind(&d, (struct binding){ .offset = 100 + i, .bytes = i }, "w", 10),
                            i ? arena_printf(a, "W_W_%u", i + 1) : "W_W");
    assert_string_equal(kernel_bind(&d, (struct binding){ .offset = 101 }, "other", 10), "W_W_2");
    assert_int_equal(d.launch.n_bindings, FORGE_MAX_WEIGHTS);
    assert_int_equal(d.kernel.weight_bytes, 10 * FORGE_MAX_WEIGHTS);
    assert_int_equal(kernel_bound(&d.launch, 103), 3);
    assert_int_equal(d.launch.bindings[3].bytes, 3);
    assert_dies(kernel_bound(&d.launch, 99), "does not bind a tensor");
    assert_dies(kernel_bind(&d, (struct binding){ .offset = 7 }, "w", 10), "kernel k reads more than");
    memset(line, 'x', sizeof line - 1);
    assert_dies(kernel_does(&d, "%s", line), "a line of 1999 characters");
}

/* Each place and stride has one symbol, and no two symbols are equal. */
static void places_have_symbols(void **state)
{
    (void)state;
    struct arena_plan ap = { .arena = a, .align = 64 };
    struct buffer b[6] = { { .stride = 64 }, { .stride = 64 }, { .stride = 128 }, { .stride = 64 }, { .stride = 64 }, { .stride = 128 } };
    const char *const names[] = { "glu in q8", "glu in q8", "glu in q8", "glu_in_q8", "GLU in q8", "glu in q8" };
    const char *const symbols[] = { "GLU_IN_Q8", "GLU_IN_Q8", "GLU_IN_Q8_128", "GLU_IN_Q8_2", "GLU_IN_Q8_3", "GLU_IN_Q8_128" };
    for (uint32_t i = 0; i < COUNT_OF(b); i++) {
        arena_add(&ap, names[i], &b[i], i, i, 1);
        assert_string_equal(b[i].symbol, symbols[i]);
    }
    assert_int_equal(ap.n, 3);
    assert_int_equal(ap.n_symbols, 4);
}

static void launches_of_a_step(void **state)
{
    (void)state;
    struct kernel_list *list = kernel_list_new(a);
    static const uint32_t ranges[][2] = { { 0, 0 }, { 1, 16 }, { 17, 512 } };
    for (uint32_t i = 0; i < 3; i++) {
        struct kernel_draft d = draft(list, "k", "adds", false);
        d.kernel.param[PARAM_LEAST] = ranges[i][0];
        d.kernel.param[PARAM_MOST] = ranges[i][1];
        kernel_end(list, &d);
    }
    assert_int_equal(kernel_launches(list, STEPS_DECODE, 16), 2);
    assert_int_equal(kernel_launches(list, STEPS_DECODE, 17), 2);
    assert_int_equal(kernel_launches(list, STEPS_DECODE, 513), 1);
    assert_int_equal(kernel_launches(list, STEPS_PREFILL, 1), 0);
}

static void choices(void **state)
{
    (void)state;
    static const uint32_t first[] = { 1, 4 }, second[] = { 4 };
    struct kernel_choice list[] = {
        { .template = TEMPLATE_gemv, .groups = first, .n_groups = 2, .given = 1u << PARAM_ROWS,
          .param = { [PARAM_ROWS] = 3, [PARAM_LANES] = 9 } },
        { .template = TEMPLATE_gemm, .steps = STEPS_PREFILL, .groups = first, .n_groups = 2, .given = 1u << PARAM_TOKENS },
        { .template = TEMPLATE_gemm, .steps = STEPS_PREFILL, .groups = second, .n_groups = 1 },
    };
    const struct kernel_choices c = { .list = list, .n = COUNT_OF(list) }, none = { .behind = &c };
    assert_ptr_equal(kernel_choice(&none, TEMPLATE_gemv, false, 4, 0), &list[0]);
    assert_ptr_equal(kernel_choice(&c, TEMPLATE_gemv, false, 4, 0), &list[0]);
    assert_null(kernel_choice(&c, TEMPLATE_gemv, false, 2, 0));
    assert_null(kernel_choice(&c, TEMPLATE_gemv, true, 4, 0));
    assert_null(kernel_choice(&c, TEMPLATE_gemv, false, 4, 1));
    assert_ptr_equal(kernel_choice(&c, TEMPLATE_gemm, true, 4, 0), &list[1]);
    assert_ptr_equal(kernel_choice(&c, TEMPLATE_gemm, true, 4, 1), &list[2]);
    assert_null(kernel_choice(&c, TEMPLATE_gemm, true, 1, 1));
    assert_null(kernel_choice(NULL, TEMPLATE_gemm, true, 1, 0));
    assert_int_equal(kernel_chosen(&list[0], PARAM_ROWS, 5), 3);
    assert_int_equal(kernel_chosen(&list[0], PARAM_LANES, 5), 5);
    assert_int_equal(kernel_chosen(NULL, PARAM_ROWS, 5), 5);
}

/* ---- a CPU's kernels: equal descriptions have equal texts, different descriptions different texts ---- */

static void add_texts(const struct plan *p, const char **texts, enum kernel_steps steps)
{
    const struct launch *list = p->kernels->of[steps].list;
    for (uint32_t i = 0; i < p->kernels->of[steps].n; i++) {
        const struct kernel *k = &p->kernels->kernels[list[i].kernel];
        const char *text = emit_cpu_body(a, p, &list[i]), **known = &texts[list[i].kernel];
        if (*known && strcmp(*known, text)) fail_msg("%s has two texts:\n%s%s", k->name, *known, text);
        *known = text;
    }
}

static void check_texts(const struct plan *p)
{
    const struct kernel_list *k = p->kernels;
    const char **texts = arena_array(a, const char *, k->n_kernels);
    add_texts(p, texts, STEPS_DECODE);
    add_texts(p, texts, STEPS_PREFILL);
    for (uint32_t i = 0; i < k->n_kernels; i++) {
        assert_non_null(texts[i]);
        for (uint32_t n = 0; n < i; n++) {
            const struct kernel *x = &k->kernels[i], *y = &k->kernels[n];
            if (x->joins_divides != y->joins_divides || x->unless_divides != y->unless_divides || strcmp(texts[i], texts[n])) continue;
            fail_msg("%s and %s are one text:\n%s%s%s", x->name, y->name, x->does, y->does, texts[i]);
        }
    }
}

static void texts(void **state)
{
    (void)state;
    tiny_plans(a, check_texts);
}

/* The expected kernels of a llama: their inputs and names. */
static void kernels_of_a_llama(void **state)
{
    (void)state;
    const struct plan_options o = { .max_threads = 3 };
    const struct model *m = tiny_model(a, &tiny_llama);
    const struct plan *p = plan_make(a, graph_build(a, m), FUSE_LAYER, target_load(a, "portable", NULL), &o);
    static const struct { const char *name; uint32_t unless, joins; uint64_t bytes; } decode[] = {
        { "embed_rows", 0, 0, 64 + 64 / 32 * 2 + 2 * 32 * 4 }, { "attn_qkv_decode", 0, 0, 64 * 4 + 2 * 128 * 68 },
        { "attention_decode", 0, 2, 0 }, { "attention_decode_merge", 2, 0, 0 }, { "attn_output_decode", 0, 0, 64 * 136 },
        { "ffn_gate_up_decode", 0, 0, 64 * 4 + 2 * 96 * 68 }, { "ffn_down_decode", 0, 0, 4 * (16 * 102 + 32) },
    };
    for (uint32_t i = 0; i < COUNT_OF(decode); i++) {
        const struct launch *l = &p->kernels->of[STEPS_DECODE].list[i];
        const struct kernel *k = &p->kernels->kernels[l->kernel];
        assert_string_equal(k->name, decode[i].name);
        assert_int_equal(k->unless_divides, decode[i].unless);
        assert_int_equal(k->joins_divides, decode[i].joins);
        assert_int_equal(k->weight_bytes, decode[i].bytes);
        assert_int_equal(l->layer, i ? 0 : NO_LAYER);
        assert_int_equal(k->n_launches, 2);
    }
    assert_int_equal(p->kernels->of[STEPS_DECODE].list[8].state, p->states[1].offset);
    assert_int_equal(p->kernels->kernels[p->kernels->of[STEPS_DECODE].list[2].kernel].state_bytes, 2 * 2 * 2 * 32 * 64);
    assert_true(p->kernels->of[STEPS_DECODE].list[p->kernels->of[STEPS_DECODE].n - 1].tail && !p->kernels->of[STEPS_DECODE].list[7].tail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_kernels_are_one, setup, teardown),
        cmocka_unit_test_setup_teardown(any_size_makes_two, setup, teardown),
        cmocka_unit_test_setup_teardown(decode_and_prefill, setup, teardown),
        cmocka_unit_test_setup_teardown(many_kernels, setup, teardown),
        cmocka_unit_test_setup_teardown(weights, setup, teardown),
        cmocka_unit_test_setup_teardown(places_have_symbols, setup, teardown),
        cmocka_unit_test_setup_teardown(launches_of_a_step, setup, teardown),
        cmocka_unit_test_setup_teardown(choices, setup, teardown),
        cmocka_unit_test_setup_teardown(texts, setup, teardown),
        cmocka_unit_test_setup_teardown(kernels_of_a_llama, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
