/* test_plan_gemm.c -- the tiles of prefill's products: idle compute units, and that every step runs each product once. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/plan/kernel.h"
#include "compiler/plan/plan.h"
#include "compiler/gpu/choose.h"
#include "compiler/gpu/tiles.h"
#include "die_capture.h"
#include "tiny_model.h"

static struct arena *a;

static int setup(void **state) { (void)state; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

/* Products of Llama 3.1 8B, then of Llama 3.2 1B; Q4_K_M keeps v apart. */
static const struct { const char *name; uint64_t rows, more; bool pair; uint32_t cols; } products[] = {
    { "8B qkv", 6144, 0, false, 4096 }, { "8B qk, v", 5120, 1024, false, 4096 }, { "8B output", 4096, 0, false, 4096 },
    { "8B gate, up", 14336, 0, true, 4096 }, { "8B down", 4096, 0, false, 14336 },
    { "1B qkv", 3072, 0, false, 2048 }, { "1B output", 2048, 0, false, 2048 },
    { "1B gate, up", 8192, 0, true, 2048 }, { "1B down", 2048, 0, false, 8192 },
};
static const struct { const char *name; bool copied; double bytes; uint32_t digits; } formats[] = {
    { "Q4_K", false, 0.5625, 1 }, { "Q8_0", false, 1.0625, 1 }, { "BF16", true, 2, 1 },
};
static const char *const chips[] = { "gfx942", "gfx1100", "gfx1151" };

static struct gemm_product product_of(uint32_t i, uint32_t format)
{
    struct gemm_part *parts = arena_array(a, struct gemm_part, 2);
    parts[0] = (struct gemm_part){ products[i].rows, products[i].pair, formats[format].copied, formats[format].digits };
    parts[1] = (struct gemm_part){ products[i].more, false, formats[format].copied, formats[format].digits };
    const double rows = (double)(products[i].rows + products[i].more) * (products[i].pair ? 2 : 1);
    return (struct gemm_product){ parts, products[i].more ? 2 : 1, products[i].cols,
                                  (uint64_t)(rows * products[i].cols * formats[format].bytes), false };
}

static const struct gemm_range *range_of(const struct gemm_range *ranges, uint32_t n, uint32_t tokens)
{
    const struct gemm_range *found = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (tokens < ranges[i].least || tokens > ranges[i].most) continue;
        assert_null(found);
        found = &ranges[i];
    }
    assert_non_null(found);
    return found;
}

/* Whole micro-batches and the rest. */
static double fill_of(const struct target *t, const struct gemm_product *p, const struct gemm_range *ranges, uint32_t n, uint32_t tokens)
{
    const uint32_t step = tokens < t->gpu.prefill_chunk ? tokens : t->gpu.prefill_chunk;
    assert_int_equal(tokens % step, 0);
    return gemm_fill(t, p, &range_of(ranges, n, step)->shape, step);
}

static void test_fill(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < COUNT_OF(chips); c++) {
        const struct target *t = target_load(a, chips[c], NULL);
        for (uint32_t i = 0; i < COUNT_OF(products); i++)
            for (uint32_t f = 0; f < COUNT_OF(formats); f++) {
                const struct gemm_product p = product_of(i, f);
                struct gemm_range ranges[GEMM_RANGES];
                const uint32_t n = gemm_plan(ranges, t, &p, t->gpu.prefill_chunk, NULL);
                const double least = fill_of(t, &p, ranges, n, 16), few = fill_of(t, &p, ranges, n, 128),
                             some = fill_of(t, &p, ranges, n, 512), many = fill_of(t, &p, ranges, n, 2048);
                const bool large = products[i].name[0] == '8';
                print_message("%-8s %-5s %-12s 16 tokens %.2f, 128 %.2f, 512 %.2f, 2048 %.2f\n", chips[c], formats[f].name,
                              products[i].name, least, few, some, many);
                if (some < (large ? 0.8 : 0.5) || many < (large ? 0.9 : 0.8)) fail_msg("compute units are left idle");
                for (uint32_t k = 0; k < n; k++) assert_true(gemm_shape_works(t, &p, &ranges[k].shape));
            }
    }
}

static bool is_shape(const struct gemm_shape *s, uint32_t tokens, uint32_t rows, uint32_t threads, uint32_t groups)
{
    return s->tokens == tokens && s->rows == rows && s->threads == threads && s->groups == groups;
}

/* The tile measured on an H200 is kept in long steps that fill half of the GPU; with wgmma in all steps. */
static void test_measured(void **state)
{
    (void)state;
    const struct target *t = target_load(a, "sm_90", NULL), *joined = target_load(a, "sm_90a", NULL);
    for (uint32_t i = 0; i < COUNT_OF(products); i++) {
        const struct gemm_product p = product_of(i, 0);
        struct gemm_range ranges[GEMM_RANGES];
        const uint32_t n = gemm_plan(ranges, t, &p, 512, NULL);
        const struct gemm_shape tile = { 128, 128, 128, 2 };
        const bool many = gemm_row_tiles(&p, &tile) * 4 > t->compute_units;
        const bool fills = gemm_fill(t, &p, &tile, 512) >= 0.5;
        for (uint32_t size = 129; size <= 512; size += 383)
            assert_int_equal(is_shape(&range_of(ranges, n, size)->shape, 128, 128, many ? 128 : 256, many ? 2 : 1), fills);
        for (uint32_t k = 0; k < n && !fills; k++)
            assert_true(gemm_fill(t, &p, &ranges[k].shape, ranges[k].most) > gemm_fill(t, &p, &tile, ranges[k].most));
        assert_int_equal(gemm_plan(ranges, joined, &p, 512, NULL), 1);
        assert_true(is_shape(&ranges[0].shape, 128, 128, many ? 128 : 256, many ? 2 : 1));
        assert_true(ranges[0].least <= 1 && ranges[0].most == 512);
    }
}

/* Experts have few tokens each: on a measured target the same tile in all steps, elsewhere a tile for their share of tokens. */
static void test_experts(void **state)
{
    (void)state;
    const struct target *measured = target_load(a, "sm_90", NULL), *other = target_load(a, "gfx1151", NULL);
    const struct gemm_part parts[] = { { 128 * 768, true, false, 1 } };
    const struct gemm_product p = { parts, 1, 2048, 128ull * 2 * 768 * 1152, true };
    for (uint32_t mean = 1; mean <= 128; mean *= 2) {
        struct gemm_range ranges[GEMM_RANGES];
        assert_int_equal(gemm_plan(ranges, measured, &p, mean, NULL), 1);
        assert_true(is_shape(&ranges[0].shape, 128, 128, 128, 2));
        gemm_plan(ranges, other, &p, mean, NULL);
        assert_true(ranges[0].shape.tokens < 128);
    }
}

/* The ranges of all products, also with widths that fit no tile, cover each step exactly once. */
static void test_ranges(void **state)
{
    (void)state;
    static const char *const targets[] = { "gfx942", "gfx1100", "gfx1151", "sm_90", "sm_90a" };
    static const uint32_t chunks[] = { 1, 15, 16, 17, 100, 512, 2048 };
    for (uint32_t c = 0; c < COUNT_OF(targets); c++) {
        const struct target *t = target_load(a, targets[c], NULL);
        for (uint32_t k = 0; k < COUNT_OF(chunks); k++)
            for (uint32_t rows = 1; rows < 3000; rows += 611) {
                const struct gemm_part parts[] = { { rows, rows % 2, false, 1 }, { 100, false, true, 1 } };
                const struct gemm_product p = { parts, 2, 288, rows * 300, false };
                struct gemm_range ranges[GEMM_RANGES];
                const uint32_t n = gemm_plan(ranges, t, &p, chunks[k], NULL);
                assert_in_range(n, 1, GEMM_RANGES);
                for (uint32_t tokens = 1; tokens <= chunks[k]; tokens++) range_of(ranges, n, tokens);
                assert_int_equal(ranges[n - 1].most, chunks[k]);
            }
    }
}

/* The launches of a program: every size of step has the same number, and each launch of a product is for one range of steps. */
static void test_launches(void **state)
{
    (void)state;
    static const char *const targets[] = { "gfx942", "gfx1151", "sm_90" };
    const struct tiny shape = { "llama", 2048, 8192, 32, 8, 64, 1000, QUANT_Q8_0, 2, NULL, 0, NULL, false };
    const struct model *m = tiny_model(a, &shape);
    for (uint32_t c = 0; c < COUNT_OF(targets); c++)
        for (uint32_t level = 0; level < 2; level++) {
            const struct target *t = target_load(a, targets[c], NULL);
            const struct plan *p = plan_make(a, graph_build(a, m), level ? FUSE_LAYER : FUSE_NONE, t,
                                             &(struct plan_options){ .n_ctx = 4096 });
            const struct kernel_list *k = p->kernels;
            const struct launches *decode = &k->of[STEPS_DECODE], *prefill = &k->of[STEPS_PREFILL];
            const uint32_t usual = kernel_launches(k, STEPS_PREFILL, p->chunk);
            uint32_t ranged = 0;
            for (uint32_t tokens = 1; tokens <= p->chunk; tokens++) {
                /* one row of logits uses decode's product, which stages nothing */
                assert_int_equal(kernel_launches(k, STEPS_PREFILL, tokens), tokens == 1 ? usual - 1 : usual);
                uint64_t flops = 0, decoded = 0;
                for (uint32_t i = 0; i < prefill->n; i++) {
                    const struct kernel *launched = &k->kernels[prefill->list[i].kernel];
                    const uint32_t *param = launched->param;
                    if (param[PARAM_MOST] && (tokens < param[PARAM_LEAST] || tokens > param[PARAM_MOST])) continue;
                    flops += launched->operations;
                }
                for (uint32_t i = 0; i < decode->n; i++) decoded += k->kernels[decode->list[i].kernel].operations;
                assert_true(flops == decoded);
            }
            for (uint32_t i = 0; i < k->n_kernels; i++)
                ranged += k->kernels[i].param[PARAM_MOST] && k->kernels[i].param[PARAM_MOST] < p->chunk;
            assert_true(ranged > 0);
        }
}

/* With a large vocabulary a step returns logits of only some tokens.  The arena has room for the logits of 64 tokens, or of a shorter
 * micro-batch, and only launches of the head write them. */
static void test_logits(void **state)
{
    (void)state;
    const struct target *t = target_load(a, "gfx942", NULL);
    static const struct { uint32_t n_vocab, logits; } cases[] = { { 1000, 2048 }, { 40000, 1677 }, { 128256, 523 }, { 262144, 512 } };
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        const struct tiny shape = { "llama", 64, 96, 4, 2, 32, cases[i].n_vocab, QUANT_Q8_0, 1, NULL, 0, NULL, false };
        const struct plan *p = plan_make(a, graph_build(a, tiny_model(a, &shape)), FUSE_LAYER, t, &(struct plan_options){ .n_ctx = 4096 });
        assert_int_equal(p->chunk, 2048);
        assert_int_equal(p->max_logits, cases[i].logits);
        assert_int_equal(p->gpu->logits_rows, 64);
        assert_in_range(p->arena_bytes - p->gpu->logits, 64 * 4 * cases[i].n_vocab, 64 * 4 * cases[i].n_vocab + 255);
        const struct launches *prefill = &p->kernels->of[STEPS_PREFILL];
        for (uint32_t k = 0; k < prefill->n; k++)
            assert_int_equal(prefill->list[k].logits, prefill->list[k].group == p->fused->n_groups - 1);
        p = plan_make(a, graph_build(a, tiny_model(a, &shape)), FUSE_LAYER, t, &(struct plan_options){ .n_ctx = 40 });
        assert_int_equal(p->gpu->logits_rows, 40);
    }
}

/* A target may lack its bandwidth: then the weights give no lower bound of the time, and the other bounds still hold. */
static void test_no_bandwidth(void **state)
{
    (void)state;
    struct target t = *target_load(a, "gfx942", NULL);
    t.bandwidth_gb_s = 0;
    for (uint32_t i = 0; i < COUNT_OF(products); i++) {
        const struct gemm_product p = product_of(i, 0);
        struct gemm_range ranges[GEMM_RANGES];
        const uint32_t n = gemm_plan(ranges, &t, &p, t.gpu.prefill_chunk, NULL);
        if (products[i].name[0] == '8') assert_true(fill_of(&t, &p, ranges, n, 512) >= 0.8 && fill_of(&t, &p, ranges, n, 2048) >= 0.9);
        assert_true(ranges[n - 1].shape.tokens * ranges[n - 1].shape.rows >= 64 * 64);
    }
}

/* A tile that does not fit into clang's registers is replaced by another; at least one tile always fits. */
static void test_refused(void **state)
{
    (void)state;
    const struct target *t = target_load(a, "gfx1151", NULL);
    const struct gemm_product p = product_of(1, 0);
    struct gemm_refused refused = { .n = 0 };
    for (uint32_t turn = 0; turn < GEMM_REFUSED; turn++) {
        struct gemm_range ranges[GEMM_RANGES];
        const uint32_t n = gemm_plan(ranges, t, &p, t->gpu.prefill_chunk, &refused);
        assert_true(n > 0 && ranges[0].least == 1 && ranges[n - 1].most == t->gpu.prefill_chunk);
        for (uint32_t k = 0; k < n; k++)
            for (uint32_t i = 0; i < refused.n; i++)
                if (ranges[k].shape.tokens == refused.shapes[i].tokens && ranges[k].shape.rows == refused.shapes[i].rows)
                    assert_int_not_equal(ranges[k].shape.threads, refused.shapes[i].threads);
        const struct gemm_shape *s = &ranges[n - 1].shape;
        assert_true(gemm_refuse(&refused, s->tokens, s->rows, s->threads));
        assert_false(gemm_refuse(&refused, s->tokens, s->rows, s->threads));
    }
    assert_false(gemm_refuse(&refused, 16, 16, 16));
}

/* The rows of a tile are shared by both matrices of a pair: 128 rows are 64 of each. */
static void test_tiles(void **state)
{
    (void)state;
    const struct gemm_part parts[] = { { 1000, true, false, 1 }, { 1000, false, false, 1 } };
    const struct gemm_product both = { parts, 2, 4096, 1 << 20, false };
    const struct gemm_shape s = { 64, 128, 128, 1 };
    assert_int_equal(gemm_part_tiles(&parts[0], 128), 16);
    assert_int_equal(gemm_part_tiles(&parts[1], 128), 8);
    assert_int_equal(gemm_row_tiles(&both, &s), 24);
}

/* A kernel has the LDS of the part that needs most, wherever it is in the list, and a shape works if exactly this much is there. */
static void test_lds(void **state)
{
    (void)state;
    const struct gemm_shape s = { 64, 64, 128, 1 };
    for (uint32_t c = 0; c < COUNT_OF(chips); c++) {
        struct target t = *target_load(a, chips[c], NULL);
        const struct gemm_part parts[] = { { 512, false, false, 2 }, { 512, false, false, 1 }, { 512, false, false, 2 } };
        const struct gemm_product few = { parts + 1, 1, 4096, 1 << 20, false }, many = { parts, 1, 4096, 1 << 20, false },
                                  falls = { parts, 2, 4096, 1 << 20, false }, rises = { parts + 1, 2, 4096, 1 << 20, false };
        const uint32_t least = gemm_lds(&t, &few, &s), most = gemm_lds(&t, &many, &s);
        assert_true(least < most);
        assert_int_equal(gemm_lds(&t, &falls, &s), most);
        assert_int_equal(gemm_lds(&t, &rises, &s), most);
        t.lds_bytes = most;
        assert_true(gemm_shape_works(&t, &falls, &s) && gemm_shape_works(&t, &rises, &s));
        t.lds_bytes = most - 1;
        assert_false(gemm_shape_works(&t, &falls, &s) || gemm_shape_works(&t, &rises, &s));
        assert_true(gemm_shape_works(&t, &few, &s));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fill, setup, teardown),   cmocka_unit_test_setup_teardown(test_measured, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ranges, setup, teardown), cmocka_unit_test_setup_teardown(test_launches, setup, teardown),
        cmocka_unit_test_setup_teardown(test_logits, setup, teardown), cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_bandwidth, setup, teardown), cmocka_unit_test_setup_teardown(test_experts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tiles, setup, teardown),  cmocka_unit_test_setup_teardown(test_lds, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
