/* test_web_plan.c -- a plan for WebGPU: launches that share a kernel have the same text, matrices begin where bindings may begin and fit
 * into one binding, and choices of a plan that is read back are used or refused. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/gpu/report.h"
#include "compiler/plan/text.h"
#include "compiler/web/choose.h"
#include "compiler/web/kernels.h"
#include "die_capture.h"
#include "tiny_model.h"
#include <glob.h>
#include <stdlib.h>
#include <string.h>

static struct arena *a;

static int setup(void **state) { (void)state; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

static struct plan *plan_of(const struct model *m, enum fuse_level level, struct plan_options o)
{
    return plan_make(a, graph_build(a, m), level, target_load(a, "webgpu", NULL), &o);
}

static void check_launches(const struct plan *p, enum kernel_steps steps, const char **texts)
{
    const struct launches of = p->kernels->of[steps];
    for (uint32_t i = 0; i < of.n; i++) {
        const struct launch *l = &of.list[i];
        const char *text = web_launch_kernel(a, p, l, false, NULL), **first = &texts[l->kernel];
        if (!*first) *first = text;
        assert_string_equal(text, *first);
        for (uint32_t k = 0; k < l->n_bindings; k++) {
            const struct binding *b = &l->bindings[k];
            if (!b->is_matrix) continue;
            assert_int_equal(b->offset % 256, 0);
            assert_int_equal(b->bytes % 16, 0);
            assert_true(b->offset + b->bytes <= p->image_hashes);
        }
    }
}

/* With $FORGEC_TEST_FEW only every seventh of a list.  Modes, fusion and formats repeat after two, three and four items, so each occurs. */
static uint32_t step(void) { return getenv("FORGEC_TEST_FEW") ? 7 : 1; }

static void launches_have_their_kernels_text(void **state)
{
    (void)state;
    static const char *const architectures[] = { "llama", "qwen2", "qwen3" };
    static const uint32_t formats[] = { QUANT_F32, QUANT_F16, QUANT_Q8_0, QUANT_Q4_0 }, contexts[] = { 64, 100, 512 };
    for (uint32_t i = 0; i < COUNT_OF(architectures) * COUNT_OF(formats) * COUNT_OF(contexts); i += step()) {
        struct tiny s = tiny_llama;
        s.arch = architectures[i % 3];
        s.matrix = formats[i / 3 % 4];
        s.n_layer = 3;
        const struct plan *p = plan_of(tiny_model(a, &s), i % 5 ? FUSE_LAYER : FUSE_NONE,
                                       (struct plan_options){ .n_ctx = contexts[i / 12], .exact = i % 2 });
        const char **texts = arena_array(a, const char *, p->kernels->n_kernels);
        check_launches(p, STEPS_DECODE, texts);
        check_launches(p, STEPS_PREFILL, texts);
        assert_true(p->kernels->n_kernels < p->kernels->of[STEPS_DECODE].n + p->kernels->of[STEPS_PREFILL].n);
        assert_non_null(strstr(web_kernel(a, p, p->kernels->sample.kernel, true, NULL), "fn main("));
    }
}

/* Few tokens use decode's products, more tokens use tiles, and each number of tokens has exactly one product. */
static void steps_of_all_sizes_have_products(void **state)
{
    (void)state;
    const struct plan *p = plan_of(tiny_model(a, &tiny_llama), FUSE_LAYER, (struct plan_options){ .n_ctx = 64 });
    const struct launches of = p->kernels->of[STEPS_PREFILL];
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

/* ---- bindings ---- */

struct piece { const struct weight *weight; uint64_t offset, bytes; };

static int by_weight_and_offset(const void *x, const void *y)
{
    const struct piece *a_ = x, *b = y;
    if (a_->weight != b->weight) return a_->weight < b->weight ? -1 : 1;
    return a_->offset < b->offset ? -1 : a_->offset > b->offset;
}

/* The pieces of a group's matrices, also of a run, are contiguous from the first row to the last. */
static void check_pieces(const struct plan *p, uint32_t group, struct piece *pieces, uint32_t n)
{
    const struct web_group *wg = &p->web->groups[group];
    qsort(pieces, n, sizeof *pieces, by_weight_and_offset);
    for (uint32_t i = 0; i < n; i++) {
        const struct piece *one = &pieces[i];
        uint64_t bytes = plan_weight_bytes(p, one->weight);
        for (uint32_t k = 0; k < wg->n_runs; k++)
            for (uint32_t b = wg->runs[k].first + 1; wg->runs[k].weight == one->weight && b < wg->runs[k].last; b++)
                bytes += plan_weight_bytes(p, p->fused->groups[group].branches[b].matmul->weight);
        const bool first = i == 0 || one[-1].weight != one->weight, last = i + 1 == n || one[1].weight != one->weight;
        const uint64_t begins = p->weight_offset[one->weight->index];
        assert_true(one->offset == (first ? begins : one[-1].offset + one[-1].bytes));
        if (last) assert_true(one->offset + one->bytes == begins + bytes);
    }
}

static uint32_t buffers_of(const char *text)
{
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, "var<storage")); at++) n++;
    return n;
}

/* Checks the matrices of the launches of these steps; returns the number of matrices that are cut into pieces. */
static uint32_t check_bindings(const struct plan *p, enum kernel_steps steps, enum kernel_template template)
{
    enum { PIECES = 1024 };
    const struct launches of = p->kernels->of[steps];
    uint32_t parted = 0;
    for (uint32_t group = 0; group < p->fused->n_groups; group++) {
        struct piece pieces[PIECES];
        uint32_t n = 0;
        for (uint32_t i = 0; i < of.n; i++) {
            const struct launch *l = &of.list[i];
            if (l->group != group || p->kernels->kernels[l->kernel].template != template) continue;
            for (uint32_t k = 0; k < 2 * p->web->groups[group].n_parts; k++) {
                const struct web_part *part = &p->web->groups[group].parts[k / 2];
                const struct weight *w = web_part_weight(p, &p->fused->groups[group], part, k % 2);
                for (uint32_t s = 0; w && s < l->n_bindings; s++) {
                    const struct binding *b = &l->bindings[s];
                    if (b->offset != web_part_offset(p, &p->fused->groups[group], part, w)) continue;
                    assert_true(b->is_matrix && n < PIECES);
                    assert_true(b->bytes <= p->target->binding_bytes);
                    assert_int_equal(b->offset % 256, 0);
                    pieces[n++] = (struct piece){ w, b->offset, b->bytes };
                    parted += !web_part_is_whole(p, &p->fused->groups[group], part);
                }
            }
        }
        check_pieces(p, group, pieces, n);
    }
    return parted;
}

/* For all golden models: no binding exceeds the target's limit, no kernel has more bindings than WebGPU guarantees, and together they have
 * all rows. */
static void no_binding_is_too_large(void **state)
{
    (void)state;
    enum { KIB_64 = 65536, BUFFERS = 8 };
    static const char *const patterns[] = { FORGEC_TEST_DATA "/golden/*.gguf", FORGEC_UNPACKED "/golden/*.gguf",
                                            FORGEC_UNPACKED "/tiny/*.gguf" };
    glob_t found = { 0 };
    uint32_t parted = 0, models = 0;
    for (uint32_t i = 0; i < COUNT_OF(patterns); i++) assert_int_equal(glob(patterns[i], i ? GLOB_APPEND : 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i += step()) {
        const char *shard = strstr(found.gl_pathv[i], "-of-");
        if (shard && strncmp(shard - 5, "00001", 5)) continue;
        struct arena *mine = arena_create(), *others = a;
        a = mine;
        struct target *target = target_load(a, "webgpu", NULL);
        target->binding_bytes = KIB_64;
        const struct model *m = model_describe(a, gguf_open(a, found.gl_pathv[i], true), NULL);
        if (!m->pooling) {
            const struct plan_options o = { .n_ctx = 64, .exact = i % 2 };
            const struct plan *p = plan_make(a, graph_build(a, m), i % 3 ? FUSE_LAYER : FUSE_NONE, target, &o);
            for (enum kernel_steps steps = STEPS_DECODE; steps <= STEPS_PREFILL; steps++) {
                parted += check_bindings(p, steps, TEMPLATE_embed);
                parted += check_bindings(p, steps, TEMPLATE_gemv);
                parted += check_bindings(p, steps, TEMPLATE_gemm);
            }
            for (uint32_t k = 0; k < p->kernels->n_kernels; k++)
                assert_true(buffers_of(web_kernel(a, p, k, false, NULL)) <= BUFFERS);
            models++;
        }
        a = others;
        arena_destroy(mine);
    }
    globfree(&found);
    assert_true(models > 50 / step() && parted > (step() == 1 ? 300 : 30));
}

/* Gate and up in four parts each: one kernel binds at most three pairs of parts. */
static void kernels_bind_eight_buffers(void **state)
{
    (void)state;
    struct target *target = target_load(a, "webgpu", NULL);
    target->binding_bytes = 65536;
    struct tiny s = tiny_llama;
    s.matrix = QUANT_F32;
    s.n_embd = s.n_ff = 256;
    const struct plan *p = plan_make(a, graph_build(a, tiny_model(a, &s)), FUSE_LAYER, target, &(struct plan_options){ .n_ctx = 64 });
    uint32_t most = 0;
    for (uint32_t k = 0; k < p->kernels->n_kernels; k++) {
        const uint32_t n = buffers_of(web_kernel(a, p, k, false, NULL));
        if (n > most) most = n;
    }
    assert_int_equal(most, 8);
}

/* ---- a stack of experts ---- */

enum { EXPERTS = 6, EXPERT_ROWS = 100, UP_BYTES = EXPERT_ROWS * (64 + 16) };      /* a unit of Q8_0 and its scales */

static void stack_tensors(void)
{
    for (uint32_t l = 0; l < 2; l++) {
        tiny_slices(arena_printf(a, "blk.%u.router", l), QUANT_F32, 0, EXPERTS, 64);
        tiny_slices(arena_printf(a, "blk.%u.up_exps", l), QUANT_Q8_0, EXPERTS, EXPERT_ROWS, 64);
        tiny_slices(arena_printf(a, "blk.%u.down_exps", l), QUANT_F32, EXPERTS, 64, EXPERT_ROWS);
    }
}

/* Each part of a stack begins at a multiple of 256 bytes, as a binding must.  A matrix has 31.25 times 256 bytes here, so a part has four
 * of the five that fit a binding. */
static void parts_of_stacks_are_aligned(void **state)
{
    (void)state;
    static const char text[] =
        "architecture: llama\ninherits: transformer\nparameters: {rope_neox: false}\ntensors:\n"
        "  router:    {name: \"blk.{l}.router\", shape: [6, n_embd]}\n"
        "  up_exps:   {name: \"blk.{l}.up_exps\", shape: [6, 100, n_embd]}\n"
        "  down_exps: {name: \"blk.{l}.down_exps\", shape: [6, n_embd, 100]}\n"
        "graph: |\n  input:\n  %x = embed token_embd\n  layer:\n  %f = rmsnorm ffn_norm, %x\n  %r = matmul router, %f\n"
        "  %c = route used=2 gating=2 norm=true %r\n  %u = expert_matmul up_exps, %f, %c\n  %s = silu %u\n"
        "  %d = expert_matmul each=true down_exps, %s, %c\n  %e = expert_sum %d, %c\n  %x = add %x, %e\n"
        "  output:\n  %norm = rmsnorm output_norm, %x\n  %logits = matmul output, %norm\n";
    struct target *target = target_load(a, "webgpu", NULL);
    target->binding_bytes = 5 * UP_BYTES;
    tiny_more = stack_tensors;
    const struct model *m = tiny_yaml(a, &tiny_llama, text);
    tiny_more = NULL;
    const struct plan *p = plan_make(a, graph_build(a, m), FUSE_LAYER, target, &(struct plan_options){ .n_ctx = 64 });
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        const struct web_group *wg = &p->web->groups[i];
        if (g->kind != GROUP_SLICES || strcmp(g->name, "up_exps")) continue;
        assert_int_equal(plan_slice_bytes(p, g->branches[0].matmul->weight), UP_BYTES);
        assert_int_equal(wg->n_parts, 2);
        assert_true(wg->parts[0].n == 4 && wg->parts[1].first == 4 && wg->parts[1].n == 2);
    }
    assert_int_equal(check_bindings(p, STEPS_DECODE, TEMPLATE_gemv), 2 * (2 + EXPERTS));      /* of down_exps one matrix fits */
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
    const struct launches of = p->kernels->of[STEPS_DECODE];
    for (uint32_t i = 0; i < of.n; i++) {
        if (of.list[i].group != 1) continue;
        const uint32_t *param = p->kernels->kernels[of.list[i].kernel].param;
        assert_int_equal(param[PARAM_ROWS], 4);
        assert_int_equal(param[PARAM_LANES], 16);
        assert_int_equal(param[PARAM_THREADS], 128);
    }
    assert_dies(plan_with(m, arena_printf(a, "%sgemv attn_qkv lanes=12 groups=1\n", head)),
                "it must be a power of two, at most the group's 256 threads");
    assert_dies(plan_with(m, arena_printf(a, "%sgemv attn_qkv rows=0 groups=1\n", head)), "it must be from 1 to 16");
    assert_dies(plan_with(m, arena_printf(a, "%sgemv attn_qkv threads=96 groups=1\n", head)), "a power of two");
    assert_dies(plan_with(m, arena_printf(a, "%sgemv attn_qkv depth=3 groups=1\n", head)), "it must be 0");
}

/* ---- attention ---- */

/* The text of main() in the kernel of a decode launch. */
static const char *main_of(const struct plan *p, const struct launch *l)
{
    const char *text = strstr(web_launch_kernel(a, p, l, false, NULL), "fn main(");
    assert_non_null(text);
    return text;
}

/* The same for the first launch of this template. */
static const char *main_of_first(const struct plan *p, enum kernel_template template)
{
    const struct launches of = p->kernels->of[STEPS_DECODE];
    for (uint32_t i = 0; i < of.n; i++)
        if (p->kernels->kernels[of.list[i].kernel].template == template) return main_of(p, &of.list[i]);
    fail_msg("no such kernel");
    return NULL;
}

/* A kernel of its own stores K into the first plane of the state, and V into the plane behind it. */
static void keys_and_values_have_planes(void **state)
{
    (void)state;
    const struct plan *p = plan_of(tiny_model(a, &tiny_llama), FUSE_NONE, (struct plan_options){ .n_ctx = 64 });
    const struct launches of = p->kernels->of[STEPS_DECODE];
    uint32_t stores = 0;
    for (uint32_t i = 0; i < of.n; i++) {
        const struct group *g = &p->fused->groups[of.list[i].group];
        if (g->kind != GROUP_MAP) continue;
        const enum op op = g->branches[0].chain[0]->op;
        if (op != OP_store_k && op != OP_store_v) continue;
        const char *at = strstr(main_of(p, &of.list[i]), "kv_plane(");
        assert_non_null(at);
        assert_int_equal(strncmp(at, "kv_plane(0u, 2u, 64u, 32u)", 26) == 0, op == OP_store_k);
        assert_int_equal(strncmp(at, "kv_plane(kv_words_f16(2u, 64u, 32u), 2u, 64u, 32u)", 50) == 0, op == OP_store_v);
        stores++;
    }
    assert_int_equal(stores, 2 * 2);
}

/* The parts of the splits are merged for each of six query heads; three share a KV head. */
static void parts_are_merged(void **state)
{
    (void)state;
    struct tiny s = tiny_llama;
    s.n_head = 6;
    const struct plan *p = plan_of(tiny_model(a, &s), FUSE_LAYER, (struct plan_options){ .n_ctx = 512 });
    const char *at = strstr(main_of_first(p, TEMPLATE_attention_merge), "attention_merge(");
    assert_non_null(at);
    assert_non_null(strstr(at, arena_printf(a, ", %uu, %uu, 6u, 2u, 8u, group.x, thread);", (uint32_t)(p->parts_offset / 4),
                                            (uint32_t)(p->web->maxima / 4))));
}

/* The workgroup that attends with all query heads of a KV head also stores the token's key and value.  It has at most eight query heads:
 * of more heads several workgroups have a part each, after another kernel has stored the key and value. */
static void cut_heads_are_stored_before(void **state)
{
    (void)state;
    for (uint32_t heads = 7; heads <= 17; heads++) {
        struct tiny s = tiny_llama;
        s.n_head = heads;
        s.n_head_kv = 1;
        const struct plan *p = plan_of(tiny_model(a, &s), FUSE_LAYER, (struct plan_options){ .n_ctx = 64 });
        const char *text = main_of_first(p, TEMPLATE_attention_decode);
        assert_int_equal(strstr(text, "attention_whole_") != NULL, heads <= 8);
        assert_int_equal(strstr(text, "attention_decode_") != NULL, heads > 8);
    }
}

/* Fused attention takes heads of up to 576 columns; those of 288 to 544 in the 16,384 bytes of workgroup memory that every WebGPU has.
 * Wider heads have no fused kernel, and the build says so. */
static void wide_heads_are_fused(void **state)
{
    (void)state;
    struct tiny s = { "llama", 64, 96, 6, 2, 0, 100, QUANT_F16, 2, NULL, 0, NULL, false };
    for (s.head_dim = 32; s.head_dim <= 576; s.head_dim += 32) {
        const struct plan *p = plan_of(tiny_model(a, &s), FUSE_LAYER, (struct plan_options){ .n_ctx = 512 });
        uint32_t n = 0;
        assert_null(report_unfused(a, p));
        for (uint32_t i = 0; i < p->kernels->n_kernels; i++) {
            const struct kernel *k = &p->kernels->kernels[i];
            if (k->template != TEMPLATE_attention_decode && k->template != TEMPLATE_attention_prefill) continue;
            assert_in_range(k->lds_bytes, 4096, s.head_dim > 256 && s.head_dim < 576 ? 16384 : p->target->lds_bytes);
            n++;
        }
        assert_int_equal(n, 2);
    }
    s.head_dim = 640;
    const char *told = report_unfused(a, plan_of(tiny_model(a, &s), FUSE_LAYER, (struct plan_options){ .n_ctx = 64 }));
    assert_non_null(told);
    assert_string_equal(told, "attention of 2 layers, with heads of 640 and 640 and a cache of f16, is not fused on webgpu: it takes four "
                        "kernels");
}

/* Heads of V that are wider than those of K have no fused kernel either: 64 and 32 columns. */
static void wider_values_are_named(void **state)
{
    (void)state;
    struct tiny s = tiny_llama;
    s.n_ff = 256;                        /* as wide as attention's result */
    const struct model *m = tiny_wired(a, &s, TINY_INPUT "layer:\n%q = matmul attn_q, %x\n%k = matmul attn_k, %x\n%kc = store_k %k\n"
                                       "%v = matmul attn_q, %x\n%vc = store_v head_dim=64 %v\n%a = attention  %q, %kc, %vc\n"
                                       "%x = matmul ffn_down, %a\n" TINY_OUTPUT);
    const char *told = report_unfused(a, plan_of(m, FUSE_LAYER, (struct plan_options){ .n_ctx = 64 }));
    assert_non_null(told);
    assert_non_null(strstr(told, "with heads of 32 and 64 and a cache of f16, is not fused on webgpu"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(launches_have_their_kernels_text, setup, teardown),
        cmocka_unit_test_setup_teardown(steps_of_all_sizes_have_products, setup, teardown),
        cmocka_unit_test_setup_teardown(no_binding_is_too_large, setup, teardown),
        cmocka_unit_test_setup_teardown(kernels_bind_eight_buffers, setup, teardown),
        cmocka_unit_test_setup_teardown(parts_of_stacks_are_aligned, setup, teardown),
        cmocka_unit_test_setup_teardown(choices_are_taken_or_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_and_values_have_planes, setup, teardown),
        cmocka_unit_test_setup_teardown(parts_are_merged, setup, teardown),
        cmocka_unit_test_setup_teardown(cut_heads_are_stored_before, setup, teardown),
        cmocka_unit_test_setup_teardown(wide_heads_are_fused, setup, teardown),
        cmocka_unit_test_setup_teardown(wider_values_are_named, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
