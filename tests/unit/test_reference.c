/* test_reference.c -- the meaning of attributes in the reference: an equivalent graph, or equivalent tokens, must give the same bits. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/front/reference.h"
#include "die_capture.h"
#include "tiny_model.h"

enum { VOCAB = 100 };
static struct arena *a;
static const int32_t tokens[] = { 5, 7, 9, 11, 3, 2 };

static int setup(void **state) { (void)state; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

/* Logits [n][VOCAB] of a model of one layer with random weights: 4 heads of 32, n_ff 256. */
static const float *logits_of(uint32_t n_head_kv, const char *layer, const int32_t *t, uint32_t n)
{
    struct tiny s = tiny_llama;
    s.has_data = true;
    s.matrix = QUANT_F32;
    s.n_layer = 1;
    s.n_head_kv = n_head_kv;
    s.n_ff = 256;
    const struct graph *g = graph_build(a, tiny_wired(a, &s, arena_printf(a, "%slayer:\n%s%s", TINY_INPUT, layer, TINY_OUTPUT)));
    float *logits = arena_array(a, float, n * VOCAB);
    reference_logits(a, g, &(struct rounding){ 0 }, t, n, logits);
    return logits;
}

static bool same(const float *x, const float *y) { return memcmp(x, y, VOCAB * sizeof *x) == 0; }

/* A layer with only attention, with rotation if rope is given. */
static const char *attention(const char *attributes, const char *rope)
{
    const char *q = *rope ? "%qr" : "%q", *k = *rope ? "%kr" : "%k";
    const char *turned = *rope ? arena_printf(a, "%%qr = %s %%q\n%%kr = %s %%k\n", rope, rope) : "";
    return arena_printf(a, "%%n = rmsnorm attn_norm, %%x\n%%q = matmul attn_q, %%n\n%%k = matmul attn_k, %%n\n%s%%kc = store_k %s\n"
                        "%%v = matmul attn_v, %%n\n%%vc = store_v %%v\n%%a = attention %s %s, %%kc, %%vc\n"
                        "%%o = matmul attn_output, %%a\n%%x = add %%x, %%o\n", turned, k, attributes, q);
}

/* With a window of w a token sees what the last of w tokens alone would see. */
static void windows(void **state)
{
    (void)state;
    const float *open = logits_of(2, attention("", ""), tokens, 6);
    for (uint32_t w = 1; w <= 3; w++) {
        const float *all = logits_of(2, attention(arena_printf(a, "window=%u", w), ""), tokens, 6);
        for (uint32_t t = w - 1; t < 6; t++) {
            const float *last = logits_of(2, attention("", ""), tokens + t + 1 - w, w) + (w - 1) * VOCAB;
            assert_true(same(all + t * VOCAB, last));
        }
        for (uint32_t t = 0; t < 6; t++) assert_int_equal(same(all + t * VOCAB, open + t * VOCAB), t < w);
    }
}

/* A token that sees only itself gets its own V, for any size of heads. */
static void heads_of_v(void **state)
{
    (void)state;
    static const char *const narrow = "%q = matmul ffn_gate, %x\n%k = matmul ffn_up, %x\n%kc = store_k head_dim=64 %k\n"
                                      "%v = matmul attn_q, %x\n%vc = store_v head_dim=32 %v\n"
                                      "%a = attention head_dim=64 window=1 %q, %kc, %vc\n%x = matmul attn_output, %a\n";
    static const char *const wide = "%q = matmul attn_q, %x\n%k = matmul attn_k, %x\n%kc = store_k %k\n"
                                    "%v = matmul ffn_gate, %x\n%vc = store_v head_dim=64 %v\n"
                                    "%a = attention window=1 %q, %kc, %vc\n%x = matmul ffn_down, %a\n";
    const float *small = logits_of(4, narrow, tokens, 3), *large = logits_of(4, wide, tokens, 3);
    const float *v_small = logits_of(4, "%v = matmul attn_q, %x\n%x = matmul attn_output, %v\n", tokens, 3);
    const float *v_large = logits_of(4, "%v = matmul ffn_gate, %x\n%x = matmul ffn_down, %v\n", tokens, 3);
    for (uint32_t t = 0; t < 3; t++) {
        assert_true(same(small + t * VOCAB, v_small + t * VOCAB));
        assert_true(same(large + t * VOCAB, v_large + t * VOCAB));
    }
}

/* If scores are scaled or capped to 0, all positions have the same weight. */
static void scales_and_caps(void **state)
{
    (void)state;
    const float *plain = logits_of(2, attention("", ""), tokens, 6) + 5 * VOCAB;
    const float *scaled = logits_of(2, attention("scale=1e-30", ""), tokens, 6) + 5 * VOCAB;
    const float *capped = logits_of(2, attention("cap=1e-30", ""), tokens, 6) + 5 * VOCAB;
    const float *usual = logits_of(2, attention("scale=0.17677669529663687 cap=0", ""), tokens, 6) + 5 * VOCAB;
    assert_true(same(scaled, capped) && !same(scaled, plain) && same(usual, plain));
}

/* Every number of a norm and of a rotation has an effect; a written default has the same effect as no number. */
static void norms_and_rotations(void **state)
{
    (void)state;
    static const char *const other[] = { "rope base=500", "rope n_rot=16", "rope neox=true", "rope factor=2", "rope factor=4 ext_factor=1",
                                         "rope attn_factor=1.5" };
    const float *plain = logits_of(2, attention("", "rope"), tokens, 6) + 5 * VOCAB;
    assert_true(same(plain, logits_of(2, attention("", "rope base=rope_base n_rot=32 neox=false factor=1"), tokens, 6) + 5 * VOCAB));
    for (size_t i = 0; i < COUNT_OF(other); i++) assert_false(same(plain, logits_of(2, attention("", other[i]), tokens, 6) + 5 * VOCAB));
    const float *norm = logits_of(2, "%x = rmsnorm attn_norm, %x\n", tokens, 1);
    assert_true(same(norm, logits_of(2, "%x = rmsnorm eps=norm_eps attn_norm, %x\n", tokens, 1)));
    assert_false(same(norm, logits_of(2, "%x = rmsnorm eps=0.5 attn_norm, %x\n", tokens, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(windows, setup, teardown),
        cmocka_unit_test_setup_teardown(heads_of_v, setup, teardown),
        cmocka_unit_test_setup_teardown(scales_and_caps, setup, teardown),
        cmocka_unit_test_setup_teardown(norms_and_rotations, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
