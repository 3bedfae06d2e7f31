/* test_web_plan.c -- a plan for WebGPU: launches that share a kernel have its text, matrices lie where bindings may begin, and what a plan
 * that is read back sets is planned, or refused. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/plan/text.h"
#include "compiler/web/choose.h"
#include "compiler/web/kernels.h"
#include "die_capture.h"
#include "tiny_model.h"
#include <string.h>

static struct arena *a;

static int setup(void **state) { (void)state; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

static struct plan *plan_of(const struct model *m, enum fuse_level level, struct plan_options o)
{
    return plan_make(a, graph_build(a, m), level, profile_load(a, "webgpu", NULL), &o);
}

static void check_launches(const struct plan *p, enum kernel_steps steps, const char **texts)
{
    const struct launches of = kernel_launches_of(p->kernels, steps);
    for (uint32_t i = 0; i < of.n; i++) {
        const struct launch *l = &of.list[i];
        const char *text = web_launch_kernel(a, p, l, false, NULL), **first = &texts[l->kernel];
        if (!*first) *first = text;
        assert_string_equal(text, *first);
        for (uint32_t k = 0; k < l->n_weights; k++) {
            const struct web_slot slot = web_slot(p, l, k);
            if (!slot.matrix) continue;
            assert_int_equal(slot.offset % 256, 0);
            assert_int_equal(slot.bytes % 16, 0);
            assert_true(slot.offset + slot.bytes <= p->image_hashes);
        }
    }
}

static void launches_have_their_kernels_text(void **state)
{
    (void)state;
    static const char *const architectures[] = { "llama", "qwen2", "qwen3" };
    static const uint32_t formats[] = { QUANT_F32, QUANT_F16, QUANT_Q8_0, QUANT_Q4_0 }, contexts[] = { 64, 100, 512 };
    for (uint32_t i = 0; i < COUNT_OF(architectures) * COUNT_OF(formats) * COUNT_OF(contexts); i++) {
        struct tiny s = tiny_llama;
        s.arch = architectures[i % 3];
        s.matrix = formats[i / 3 % 4];
        s.n_layer = 3;
        const struct plan *p = plan_of(tiny_model(a, &s), i % 5 ? FUSE_LAYER : FUSE_NONE,
                                       (struct plan_options){ .n_ctx = contexts[i / 12], .exact = i % 2 });
        const char **texts = arena_array(a, const char *, p->kernels->n_kernels);
        check_launches(p, STEPS_DECODE, texts);
        check_launches(p, STEPS_PREFILL, texts);
        assert_true(p->kernels->n_kernels < p->kernels->n_decode + p->kernels->n_prefill);
        assert_non_null(strstr(web_kernel(a, p, p->kernels->sample.kernel, true, NULL), "fn main("));
    }
}

/* Few tokens have decode's products, more of them tiles, and each number of them has one. */
static void steps_of_all_sizes_have_products(void **state)
{
    (void)state;
    const struct plan *p = plan_of(tiny_model(a, &tiny_llama), FUSE_LAYER, (struct plan_options){ .n_ctx = 64 });
    const struct launches of = kernel_launches_of(p->kernels, STEPS_PREFILL);
    for (uint32_t tokens = 1; tokens <= p->chunk; tokens++) {
        uint32_t products = 0, groups = 0;
        for (uint32_t i = 0; i < of.n; i++) {
            const struct kernel *k = &p->kernels->kernels[of.list[i].kernel];
            const bool runs = kernel_runs(k, tokens) && (!of.list[i].most || tokens <= of.list[i].most);
            products += runs && (k->template == TEMPLATE_gemv || k->template == TEMPLATE_gemm);
        }
        for (uint32_t i = 0; i < p->fused->n_groups; i++) groups += p->fused->groups[i].kind == GROUP_LINEAR;
        assert_int_equal(products, groups);
    }
}

static struct plan *plan_with(const struct model *m, const char *text)
{
    const struct plan_text *read = plan_text_read(a, "plan", text);
    return plan_of(m, FUSE_LAYER, (struct plan_options){ .n_ctx = 64, .chunk = read->chunk, .choices = &read->choices });
}

static void choices_are_taken_or_refused(void **state)
{
    (void)state;
    static const char head[] = "plan 1\ntarget webgpu\nchunk 64\n\ndecode\n  ";
    const struct model *m = tiny_model(a, &tiny_llama);
    const struct plan *p = plan_with(m, arena_printf(a, "%sgemv attn_qkv rows=4 lanes=16 threads=128 groups=1\n", head));
    const struct launches of = kernel_launches_of(p->kernels, STEPS_DECODE);
    for (uint32_t i = 0; i < of.n; i++) {
        if (of.list[i].group != 1) continue;
        const uint32_t *param = p->kernels->kernels[of.list[i].kernel].param;
        assert_int_equal(param[PARAM_ROWS], 4);
        assert_int_equal(param[PARAM_LANES], 16);
        assert_int_equal(param[PARAM_THREADS], 128);
    }
    assert_dies(plan_with(m, arena_printf(a, "%sgemv attn_qkv lanes=12 groups=1\n", head)),
                "a power of two of the group's 256 can share a row");
    assert_dies(plan_with(m, arena_printf(a, "%sgemv attn_qkv rows=0 groups=1\n", head)), "lanes work on 1 to 16 of them");
    assert_dies(plan_with(m, arena_printf(a, "%sgemv attn_qkv threads=96 groups=1\n", head)), "a power of two");
    assert_dies(plan_with(m, arena_printf(a, "%sgemv attn_qkv depth=3 groups=1\n", head)), "has 0, and no other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(launches_have_their_kernels_text, setup, teardown),
        cmocka_unit_test_setup_teardown(steps_of_all_sizes_have_products, setup, teardown),
        cmocka_unit_test_setup_teardown(choices_are_taken_or_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
