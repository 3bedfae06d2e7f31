/* test_judge.c -- verify's judgement of logits when routers nearly tie: the reference itself computes the logits of a program that chooses
 * the other expert. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>

#include "compiler/cli/judge.h"
#include "die_capture.h"
#include "tiny_model.h"

/* Two layers of attention and 6 experts, with two used per token. */
enum { N = 400, VOCAB = 100, EMBD = 32, EXPERTS = 6, USED = 2, LAYERS = 2 };
static struct arena *a;
static const struct graph *graph;
static int32_t tokens[N];
static float truth[N * VOCAB], logits[N * VOCAB];
static const struct routes *best;
static const struct bound bound = { .name = "f16", .rounding = { .halves = true, .cache = true, .kv = KV_TYPE_F16 },
                                    .most = 6e-3, .least = 6e-3, .mean_kl = 1.5e-5 };

struct tie { uint32_t position, router, dropped, taken; double margin; };
static struct tie ties[N * LAYERS];       /* between the last chosen and first rejected expert; narrowest first */

static void more_tensors(void)
{
    for (uint32_t l = 0; l < LAYERS; l++) {
        tiny_slices(arena_printf(a, "blk.%u.router", l), QUANT_F32, 0, EXPERTS, EMBD);
        tiny_slices(arena_printf(a, "blk.%u.up_exps", l), QUANT_F32, EXPERTS, EMBD, EMBD);
        tiny_slices(arena_printf(a, "blk.%u.down_exps", l), QUANT_F32, EXPERTS, EMBD, EMBD);
    }
}

static const char *const yaml =
    "architecture: llama\ninherits: transformer\nparameters:\n  rope_neox: false\ntensors:\n"
    "  router:     {name: \"blk.{l}.router\", shape: [6, n_embd]}\n"
    "  up_exps:    {name: \"blk.{l}.up_exps\", shape: [6, n_embd, n_embd]}\n"
    "  down_exps:  {name: \"blk.{l}.down_exps\", shape: [6, n_embd, n_embd]}\n"
    "graph: |\n"
    "  input:\n  %x = embed token_embd\n  layer:\n  %n = rmsnorm attn_norm, %x\n"
    "  %q = matmul attn_q, %n\n  %qr = rope %q\n  %k = matmul attn_k, %n\n  %kr = rope %k\n  %kc = store_k %kr\n"
    "  %v = matmul attn_v, %n\n  %vc = store_v %v\n  %kqv = attention %qr, %kc, %vc\n  %ao = matmul attn_output, %kqv\n  %y = add %x, %ao\n"
    "  %m = rmsnorm ffn_norm, %y\n  %r = matmul router, %m\n  %c = route used=2 norm=true %r\n"
    "  %u = expert_matmul up_exps, %m, %c\n  %w = silu %u\n  %d = expert_matmul each=true down_exps, %w, %c\n  %s = expert_sum %d, %c\n"
    "  %x = add %y, %s\n  output:\n  %norm = rmsnorm output_norm, %x\n  %logits = matmul output, %norm\n";

static int narrower(const void *x, const void *y)
{
    const double m = ((const struct tie *)x)->margin, n = ((const struct tie *)y)->margin;
    return m < n ? -1 : m > n;
}

static int setup(void **state)
{
    (void)state;
    static const struct tiny s = { "llama", EMBD, 96, 4, 2, 8, VOCAB, QUANT_F32, LAYERS, NULL, 0, NULL, true };
    uint64_t seed = 1;
    a = arena_create();
    tiny_more = more_tensors;
    graph = graph_build(a, tiny_yaml(a, &s, yaml));
    for (uint32_t t = 0; t < N; t++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        tokens[t] = (int32_t)((seed >> 33) % VOCAB);
    }
    best = reference_routed(a, graph, &bound.rounding, tokens, N, NULL, 0, truth);
    for (uint32_t i = 0; i < N * LAYERS; i++) {
        struct tie *tie = &ties[i];
        *tie = (struct tie){ .position = i / LAYERS, .router = i % LAYERS, .taken = EXPERTS };
        const double *select = best->routers[tie->router].select + tie->position * EXPERTS;
        const uint32_t *chosen = best->routers[tie->router].chosen + tie->position * USED;
        tie->dropped = chosen[USED - 1];
        for (uint32_t e = 0; e < EXPERTS; e++)
            if (e != chosen[0] && e != chosen[1] && (tie->taken == EXPERTS || select[e] > select[tie->taken])) tie->taken = e;
        tie->margin = select[tie->dropped] - select[tie->taken];
    }
    qsort(ties, N * LAYERS, sizeof *ties, narrower);
    return 0;
}
static int teardown(void **state) { (void)state; tiny_more = NULL; arena_destroy(a); return 0; }

/* The judgement of a program that chooses the other expert in n ties. */
static struct judged judged(const struct tie *other, uint32_t n)
{
    struct routes given = { LAYERS, arena_array(a, struct router, LAYERS) };
    for (uint32_t l = 0; l < LAYERS; l++) {
        given.routers[l].chosen = arena_array(a, uint32_t, N * USED);
        for (uint32_t t = 0; t < N; t++) given.routers[l].chosen[t * USED] = ROUTE_BEST;
        for (uint32_t i = 0; i < n; i++) {
            if (other[i].router != l) continue;
            uint32_t *chosen = given.routers[l].chosen + other[i].position * USED;
            chosen[0] = best->routers[l].chosen[other[i].position * USED];
            chosen[1] = other[i].taken;
        }
    }
    reference_routed(a, graph, &bound.rounding, tokens, N, &given, 0, logits);
    return judge(a, graph, &bound, tokens, N, logits);
}

static void narrow_ties(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 2; n++) {
        assert_true(n == 1 || ties[0].position != ties[1].position);
        const struct judged j = judged(ties, n);
        const struct logits_difference d = logits_compare(a, truth, logits, N, VOCAB);
        assert_false(bound_holds(&bound, &d));
        assert_true(j.holds);
        assert_int_equal(j.n_otherwise, n);
        assert_int_equal(j.n_positions, n);
        for (uint32_t i = 0; i < n; i++) {
            const struct otherwise *o = &j.otherwise[i];
            const struct tie *tie = &ties[o->position == ties[0].position ? 0 : 1];
            assert_int_equal(o->position, tie->position);
            assert_int_equal(o->router, tie->router);
            assert_int_equal(o->dropped, tie->dropped);
            assert_int_equal(o->taken, tie->taken);
            assert_true(o->margin == tie->margin && o->margin <= o->moves);
        }
        assert_true(j.difference.max_abs == 0);
        assert_memory_equal(j.truth, logits, sizeof logits);
    }
}

/* Margins wider than rounding: the router is wrong. */
static void wide_margins(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        const struct tie *tie = &ties[N * LAYERS - 1 - i];
        const struct judged j = judged(tie, 1);
        assert_false(j.holds);
        assert_int_equal(j.n_otherwise, 0);
    }
}

/* A narrow tie does not excuse other errors at its position. */
static void other_faults(void **state)
{
    (void)state;
    (void)judged(ties, 1);
    logits[ties[0].position * VOCAB + 7] += 1;
    const struct judged j = judge(a, graph, &bound, tokens, N, logits);
    assert_false(j.holds);
}

static void noise(void **state)
{
    (void)state;
    for (uint64_t dither = 100; dither < 102; dither++) {
        reference_routed(a, graph, &bound.rounding, tokens, N, NULL, dither, logits);
        const struct judged j = judge(a, graph, &bound, tokens, N, logits);
        assert_true(j.holds);
        for (uint32_t i = 0; i < j.n_otherwise; i++) assert_true(j.otherwise[i].margin <= j.otherwise[i].moves);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(narrow_ties, setup, teardown),
        cmocka_unit_test_setup_teardown(wide_margins, setup, teardown),
        cmocka_unit_test_setup_teardown(other_faults, setup, teardown),
        cmocka_unit_test_setup_teardown(noise, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
