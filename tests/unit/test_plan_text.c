/* test_plan_text.c -- plans as text: choices, errors with their place, and that a plan that is read back is the same plan. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/plan/text.h"
#include "die_capture.h"
#include "tiny_model.h"

static struct arena *a;

static int setup(void **state) { (void)state; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

#define HEAD "plan 1\ntarget gfx1151\noptions --fuse layer --ctx 64 --kv f16\nchunk 32\n"

static void choices(void **state)
{
    (void)state;
    const struct plan_text *t = plan_text_read(a, "p",
        "# a comment\n" HEAD "\ndecode\n  gemv attn_qkv rows=4 groups=1,6   # lanes stay\n    # rmsnorm\n"
        "prefill\n  gemm x tokens=64 rows=32 threads=128 least=1 most=16 groups=1\n  gemm y tokens=128 groups=1,2\n");
    assert_string_equal(t->target, "gfx1151");
    assert_string_equal(t->options, "--fuse layer --ctx 64 --kv f16");
    assert_int_equal(t->chunk, 32);
    assert_int_equal(t->choices.n, 3);
    const struct kernel_choice *c = kernel_choice(&t->choices, TEMPLATE_gemv, false, 6, 0);
    assert_non_null(c);
    assert_int_equal(kernel_chosen(c, PARAM_ROWS, 1), 4);
    assert_int_equal(kernel_chosen(c, PARAM_LANES, 16), 16);
    assert_int_equal(c->at.line, 8);
    assert_null(kernel_choice(&t->choices, TEMPLATE_gemv, false, 6, 1));
    assert_null(kernel_choice(&t->choices, TEMPLATE_gemv, true, 6, 0));
    assert_null(kernel_choice(&t->choices, TEMPLATE_gemv, false, 2, 0));
    assert_null(kernel_choice(NULL, TEMPLATE_gemv, false, 6, 0));
    assert_int_equal(kernel_choice(&t->choices, TEMPLATE_gemm, true, 1, 0)->param[PARAM_MOST], 16);
    assert_int_equal(kernel_choice(&t->choices, TEMPLATE_gemm, true, 1, 1)->param[PARAM_TOKENS], 128);
    assert_int_equal(kernel_choice(&t->choices, TEMPLATE_gemm, true, 2, 0)->param[PARAM_TOKENS], 128);
    assert_int_equal(kernel_chosen(NULL, PARAM_ROWS, 3), 3);
}

static void refused(void **state)
{
    (void)state;
    static const struct { const char *text, *why; } rows[] = {
        { "", "target NAME" },
        { "plan 2\n", "1:1: this forgec reads only plans of version 1" },
        { "plan 1 x\n", "1:8: expected the end of the line" },
        { "prefill_chunk 3\n", "1:1: expected plan, target" },
        { "chunk 0\n", "1:1: a chunk must have 1 to 4096 tokens" },
        { "chunk 4097\n", "1:1: a chunk must have 1 to 4096 tokens" },
        { "chunk many\n", "1:7: expected a number" },
        { "chunk 99999999999999999999\n", "is too large" },
        { HEAD "decode now\n", "5:8: expected the end of the line" },
        { HEAD "decode\n  gemw x groups=1\n", "6:3: unknown template gemw" },
        { HEAD "decode\n  gemv x rows=2\n", "6:3: groups=list is missing" },
        { HEAD "decode\n  gemv x rows=2 rows=3 groups=1\n", "6:17: rows is given twice" },
        { HEAD "decode\n  gemv x groups=1 groups=1\n", "groups is given twice" },
        { HEAD "decode\n  gemv x digits=2 groups=1\n", "digits of a gemv follows from other settings" },
        { HEAD "decode\n  gemv x row=2 groups=1\n", "6:10: unknown parameter row" },
        { HEAD "decode\n  gemv x rows 2 groups=1\n", "6:10: expected rows=number" },
        { HEAD "decode\n  gemv x rows=-2 groups=1\n", "6:15: expected a number" },
        { HEAD "decode\n  gemv x groups=1,,2\n", "expected a number" },
        { HEAD "decode\n  gemv\n", "expected the kernel's name" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) assert_dies(plan_text_read(a, "p", rows[i].text), rows[i].why);
}

static struct plan *plan_for(const struct model *m, const char *target, enum fuse_level level, const struct plan_text *text)
{
    const struct plan_options o = { .n_ctx = 64, .chunk = text ? text->chunk : 0, .choices = text ? &text->choices : NULL };
    return plan_make(a, graph_build(a, m), level, target_load(a, target, NULL), &o);
}

static const char *text_of(const struct plan *p)
{
    struct text t = { .arena = a };
    plan_text_print(&t, p, "-");
    return text_str(&t);
}

/* A plan that is printed, read and planned again is identical to the byte. */
static void read_back(void **state)
{
    (void)state;
    static const char *const targets[] = { "portable", "x86-64-v4", "gfx1151", "gfx942", "sm_90" };
    for (size_t i = 0; i < COUNT_OF(targets); i++)
        for (enum fuse_level level = FUSE_NONE; level <= FUSE_LAYER; level++) {
            const struct model *m = tiny_model(a, &tiny_llama);
            const char *first = text_of(plan_for(m, targets[i], level, NULL));
            const struct plan_text *t = plan_text_read(a, "p", first);
            const struct plan *again = plan_for(m, targets[i], level, t);
            assert_true(t->choices.n > 3);
            plan_text_check(again, t);
            assert_string_equal(text_of(again), first);
        }
}

static void of_another_model(void **state)
{
    (void)state;
    const struct model *m = tiny_model(a, &tiny_llama);
    const struct plan_text *t = plan_text_read(a, "p", "target portable\ndecode\n  embed e groups=1\n");
    assert_dies(plan_text_check(plan_for(m, "portable", FUSE_LAYER, t), t), "p:3:3: group 1 has no embed kernel in decode");
    t = plan_text_read(a, "p", "target gfx1151\nchunk 32\ndecode\n  gemv x rows=2 groups=1\n  gemv y lanes=16 groups=1\n");
    assert_dies(plan_text_check(plan_for(m, "gfx1151", FUSE_LAYER, t), t),
                "p:5:3: group 1 stands in more gemv lines of decode than it has kernels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(choices, setup, teardown),
        cmocka_unit_test_setup_teardown(refused, setup, teardown),
        cmocka_unit_test_setup_teardown(read_back, setup, teardown),
        cmocka_unit_test_setup_teardown(of_another_model, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
