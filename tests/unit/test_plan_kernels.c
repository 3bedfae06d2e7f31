/* test_plan_kernels.c -- the list of kernels of a plan for a GPU: launches that share a kernel have the same text.  Choices of a plan that
 * is read back are used, or refused with the possible choices. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/gpu/kernels.h"
#include "compiler/gpu/report.h"
#include "compiler/gpu/work.h"
#include "die_capture.h"
#include "tiny_model.h"
#include <math.h>

static struct arena *a;

static int setup(void **state) { (void)state; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

static const char *const targets[] = { "gfx942", "gfx1151", "sm_90", "sm_90a" };

static struct plan *plan_of(const struct model *m, const char *target, enum fuse_level level, struct plan_options o)
{
    return plan_make(a, graph_build(a, m), level, target_load(a, target, NULL), &o);
}

/* ---- one text ---- */

static void check_launch(const struct plan *p, const struct launch *l, const char **texts)
{
    const char *text = emit_gpu_kernel(a, p, l), **first = &texts[l->kernel];
    if (!*first) *first = text;
    assert_string_equal(text, *first);
}

/* Returns the mean number of launches per kernel. */
static double check_texts(const struct plan *p)
{
    const struct kernel_list *k = p->kernels;
    const char **texts = arena_array(a, const char *, k->n_kernels);
    uint32_t launches = 0;
    for (enum kernel_steps steps = STEPS_DECODE; steps <= STEPS_PREFILL; steps++)
        for (uint32_t i = 0; i < k->of[steps].n; i++) check_launch(p, &k->of[steps].list[i], texts);
    check_launch(p, &k->sample, texts);
    for (uint32_t i = 0; i < k->n_kernels; i++) launches += k->kernels[i].n_launches;
    assert_int_equal(launches, k->of[STEPS_DECODE].n + k->of[STEPS_PREFILL].n + 1);
    return (double)launches / k->n_kernels;
}

static void launches_have_their_kernels_text(void **state)
{
    (void)state;
    static const char *const architectures[] = { "llama", "qwen2", "qwen3" };
    static const uint32_t formats[] = { QUANT_F32, QUANT_F16, QUANT_Q8_0, QUANT_Q4_0 };
    for (uint32_t i = 0; i < COUNT_OF(architectures) * COUNT_OF(formats) * COUNT_OF(targets) * 4; i++) {
        struct tiny s = tiny_llama;
        s.arch = architectures[i % 3];
        s.matrix = formats[i / 3 % 4];
        s.n_layer = 4;
        const struct plan *p = plan_of(tiny_model(a, &s), targets[i / 12 % 4], i / 48 & 1 ? FUSE_LAYER : FUSE_NONE,
                                       (struct plan_options){ .exact = i / 96 & 1 });
        assert_true(check_texts(p) > 1.5);
    }
}

/* A norm and a residual that layers and products share, heads that a separate kernel finishes. */
static void other_wirings(void **state)
{
    (void)state;
    static const char *const layers[] = {
        "%n = rmsnorm attn_norm, %x\n" TINY_ATTENTION("%n") TINY_FFN("%n") "%s = add %d, %x\n%x = add %s, %ao\n",
        "%q = matmul attn_q, %x\n%qr = rope %q\n%k = matmul attn_k, %x\n%kc = store_k %k\n%v = matmul attn_v, %x\n%vc = store_v %v\n"
        "%kqv = attention %qr, %kc, %vc\n%x = matmul attn_output, %kqv\n",
        "%k = matmul attn_k, %x\n%kr = rope %k\n%kc = store_k %kr\n%v = matmul attn_v, %x\n%vc = store_v %v\n%h = rmsnorm attn_norm, %x\n"
        "%q = matmul attn_q, %h\n%qr = rope %q\n%kqv = attention %qr, %kc, %vc\n%ao = matmul attn_output, %kqv\n%x = add %ao, %h\n",
    };
    for (uint32_t i = 0; i < COUNT_OF(layers) * COUNT_OF(targets) * 2; i++)
        check_texts(plan_of(tiny_layers(a, layers[i % 3]), targets[i / 3 % 4], i / 12 ? FUSE_LAYER : FUSE_NONE,
                            (struct plan_options){ 0 }));
}

/* ---- slices and states ---- */

enum { EXPERTS = 6, EXPERT_ROWS = 96, USED = 2 };

static void more_tensors(void)
{
    for (uint32_t l = 0; l < 2; l++) {
        static const struct { const char *name; uint32_t slices, rows, cols; enum quant quant; } rows[] = {
            { "router", 0, EXPERTS, 64, QUANT_F32 }, { "prefer", 0, 0, EXPERTS, QUANT_F32 },
            { "gate_exps", EXPERTS, EXPERT_ROWS, 64, QUANT_Q8_0 }, { "up_exps", EXPERTS, EXPERT_ROWS, 64, QUANT_Q8_0 },
            { "down_exps", EXPERTS, 64, EXPERT_ROWS, QUANT_Q4_0 }, { "gate_bias", 0, EXPERTS, EXPERT_ROWS, QUANT_F32 },
            { "down_bias", 0, EXPERTS, 64, QUANT_F32 }, { "down_scale", 0, 0, EXPERTS, QUANT_F32 },
            { "heads", 4, 16, 32, QUANT_F16 }, { "taps", 0, 128, 3, QUANT_F32 },
        };
        for (size_t i = 0; i < COUNT_OF(rows); i++)
            tiny_slices(arena_printf(a, "blk.%u.%s", l, rows[i].name), rows[i].quant, rows[i].slices, rows[i].rows, rows[i].cols);
    }
}

/* Layers with attention, a convolution, a recurrence, products of heads, and experts. */
static struct model *sliced_model(uint32_t used)
{
    static const char *const text =
        "architecture: llama\ninherits: transformer\nparameters: {rope_neox: false}\ntensors:\n"
        "  router:     {name: \"blk.{l}.router\", shape: [6, n_embd]}\n"
        "  prefer:     {name: \"blk.{l}.prefer\", shape: [6]}\n"
        "  gate_exps:  {name: \"blk.{l}.gate_exps\", shape: [6, n_ff, n_embd]}\n"
        "  up_exps:    {name: \"blk.{l}.up_exps\", shape: [6, n_ff, n_embd]}\n"
        "  down_exps:  {name: \"blk.{l}.down_exps\", shape: [6, n_embd, n_ff]}\n"
        "  gate_bias:  {name: \"blk.{l}.gate_bias\", shape: [6, n_ff]}\n"
        "  down_bias:  {name: \"blk.{l}.down_bias\", shape: [6, n_embd]}\n"
        "  down_scale: {name: \"blk.{l}.down_scale\", shape: [6]}\n"
        "  heads:      {name: \"blk.{l}.heads\", shape: [n_head, 16, head_dim]}\n"
        "  taps:       {name: \"blk.{l}.taps\", shape: [n_q, 3]}\n"
        "graph: |\n";
    static const char *const wiring =
        TINY_INPUT "layer:\n%n = rmsnorm attn_norm, %x\n" TINY_ATTENTION("%n")
        "%p = matmul attn_q, %n\n%pc = conv taps, %p\n%pa = silu %pc\n%pu = l2norm head_dim=32 %pa\n%ps = scale by=0.5 %pu\n"
        "%g = part first=0 count=4 %p\n%gs = softplus %g\n%b = part first=4 count=4 %p\n%bs = sigmoid %b\n%w = matmul attn_v, %n\n"
        "%o = recur head_dim=32 value_dim=16 %ps, %pu, %w, %gs, %bs\n%h = matmul_heads heads, %pa\n%oh = mul %o, %h\n"
        "%x1 = add %x, %ao\n%x2 = add %x1, %oh\n%f = rmsnorm ffn_norm, %x2\n%r = matmul router, %f\n"
        "%c = route used=USED gating=2 norm=true by=2 prefer, %r\n%eg = expert_matmul gate_exps, %f, %c\n"
        "%egb = expert_bias gate_bias, %eg, %c\n"
        "%eu = expert_matmul up_exps, %f, %c\n%ea = glu_oai %egb, %eu\n%ed = expert_matmul each=true down_exps, %ea, %c\n"
        "%edb = expert_bias down_bias, %ed, %c\n%edt = expert_times down_scale, %edb, %c\n%es = expert_sum %edt, %c\n"
        "%x = add %x2, %es\n" TINY_OUTPUT;
    struct text t = { .arena = a };
    text_puts(&t, text);
    const char *mark = strstr(wiring, "USED"), *all = arena_printf(a, "%.*s%u%s", (int)(mark - wiring), wiring, used, mark + 4);
    for (const char *p = all; *p; p += strcspn(p, "\n"), p += *p == '\n') text_printf(&t, "  %.*s\n", (int)strcspn(p, "\n"), p);
    tiny_more = more_tensors;
    struct model *m = tiny_yaml(a, &tiny_llama, text_str(&t));
    tiny_more = NULL;
    return m;
}

static const struct kernel *named(const struct plan *p, const char *name)
{
    for (uint32_t i = 0; i < p->kernels->n_kernels; i++) if (strcmp(p->kernels->kernels[i].name, name) == 0) return &p->kernels->kernels[i];
    fail_msg("no kernel %s", name);
    return NULL;
}

static uint32_t count_launches(const struct plan *p, enum kernel_steps steps, enum group_kind kind)
{
    const struct launches *of = &p->kernels->of[steps];
    uint32_t found = 0;
    for (uint32_t i = 0; i < of->n; i++) found += p->fused->groups[of->list[i].group].kind == kind;
    return found;
}

/* Two kernels compute a token's experts; the first also chooses the experts.  They read only the weights of the chosen experts. */
static void experts_of_a_token(void **state)
{
    (void)state;
    const struct plan *p = plan_of(sliced_model(USED), "gfx1151", FUSE_LAYER, (struct plan_options){ 0 });
    const struct kernel *up = named(p, "gate_exps_up_exps"), *down = named(p, "down_exps");
    const uint64_t row_q8 = 64 + 16, row_q4 = 2 * 32 + 16;           /* a unit and its scales; two units and theirs */
    assert_int_equal(up->weight_bytes, USED * 2ull * EXPERT_ROWS * row_q8 + 4ull * USED * EXPERT_ROWS + 4 * 64 + 4 * 16);
    assert_int_equal(up->operations, 2ull * USED * 2 * EXPERT_ROWS * 64);
    assert_int_equal(down->operations, 2ull * USED * EXPERT_ROWS * 64);
    assert_int_equal(down->weight_bytes, USED * 64 * row_q4 + 4ull * USED * 64 + 4 * 16 / EXPERTS * USED);      /* biases, factors */
    assert_int_equal(count_launches(p, STEPS_DECODE, GROUP_SLICES), 2 * 3);         /* per layer: gate and up, down, heads */
    assert_int_equal(count_launches(p, STEPS_DECODE, GROUP_ROUTE), 0);
    assert_int_equal(count_launches(p, STEPS_PREFILL, GROUP_ROUTE), 2 * 2);        /* and the tokens of each expert */
    const char *text = emit_gpu_kernel(a, p, &p->kernels->of[STEPS_DECODE].list[0]);
    assert_non_null(text);
    for (uint32_t i = 0; i < p->kernels->of[STEPS_DECODE].n; i++) {
        const struct launch *l = &p->kernels->of[STEPS_DECODE].list[i];
        if (&p->kernels->kernels[l->kernel] == up) text = emit_gpu_kernel(a, p, l);
    }
    assert_non_null(strstr(text, "gemv_pair_each_q8_0_"));
    assert_non_null(strstr(text, "route_group("));
    const struct plan *unfused = plan_of(sliced_model(USED), "gfx1151", FUSE_NONE, (struct plan_options){ 0 });
    assert_int_equal(count_launches(unfused, STEPS_DECODE, GROUP_ROUTE), 2);
}

/* The operations and the bytes of states of the layers' attention, convolution and recurrence, in any number of kernels. */
static void states_of_a_token(void **state)
{
    (void)state;
    enum { N_CTX = 64, LAYERS = 2, N_HEAD = 4, N_HEAD_KV = 2, HEAD = 32, TAPS = 3, VALUE = 16, N_Q = N_HEAD * HEAD };
    for (uint32_t i = 0; i < 4 * (COUNT_OF(targets) + 1); i++) {
        const char *target = i / 4 < COUNT_OF(targets) ? targets[i / 4] : "portable";
        const struct plan *p = plan_of(sliced_model(USED), target, i & 1 ? FUSE_LAYER : FUSE_NONE, (struct plan_options){ .n_ctx = N_CTX });
        const struct kernel_list *k = p->kernels;
        const struct launches *of = &k->of[i & 2 ? STEPS_PREFILL : STEPS_DECODE];
        const struct launch *list = of->list;
        struct kernel attention = { 0 }, sequence = { 0 };
        for (uint32_t n = 0; n < of->n; n++) {
            const struct kernel *one = &k->kernels[list[n].kernel];
            const enum group_kind kind = p->fused->groups[list[n].group].kind;
            struct kernel *sum = kind == GROUP_SEQUENCE ? &sequence : &attention;
            if (kind != GROUP_SEQUENCE && kind != GROUP_ATTENTION) assert_true(one->attention == 0 && one->state_bytes == 0);
            else sum->operations += one->operations;
            sum->attention += one->attention;
            sum->state_bytes += one->state_bytes;
        }
        assert_int_equal(attention.attention, LAYERS * 2 * 2 * N_Q);
        assert_int_equal(attention.operations, 0);
        assert_int_equal(attention.state_bytes, LAYERS * 2 * N_HEAD_KV * HEAD * 2 * N_CTX);
        assert_int_equal(sequence.attention, 0);
        assert_int_equal(sequence.operations, LAYERS * (2 * TAPS * N_Q + 7 * N_HEAD * VALUE * HEAD));
        assert_in_range(sequence.state_bytes, LAYERS * 4 * ((TAPS - 1) * N_Q + N_HEAD * VALUE * HEAD), UINT32_MAX);
    }
    const struct model *near = tiny_layers(a,
        "%q = matmul attn_q, %x\n%k = matmul attn_k, %x\n%kc = store_k %k\n%v = matmul attn_v, %x\n"
        "%vc = store_v %v\n%a = attention window=20 %q, %kc, %vc\n%x = matmul attn_output, %a\n");
    const struct plan *p = plan_of(near, "gfx1151", FUSE_LAYER, (struct plan_options){ .n_ctx = N_CTX, .chunk = 8 });
    for (uint32_t i = 0; i < p->kernels->n_kernels; i++) {
        const struct kernel *k = &p->kernels->kernels[i];
        assert_int_equal(k->window, k->attention ? 20 : 0);
        assert_int_equal(k->state_bytes, k->attention ? 2 * N_HEAD_KV * HEAD * 2 * 20 : 0);
    }
}

/* With one chosen expert, its rows have as many columns as a single input for all experts, but they are still separate pieces. */
static void one_expert_of_a_token(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT_OF(targets); i++) {
        const struct plan *p = plan_of(sliced_model(1), targets[i], FUSE_LAYER, (struct plan_options){ 0 });
        check_texts(p);
        if (p->gpu) assert_int_equal(named(p, "down_exps")->operations, 2ull * EXPERT_ROWS * 64);
    }
}

static void slices_and_states(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT_OF(targets) * 4; i++) {
        const struct plan *p = plan_of(sliced_model(USED), targets[i % 4], i / 4 & 1 ? FUSE_LAYER : FUSE_NONE,
                                       (struct plan_options){ .exact = i / 8 & 1 });
        assert_true(check_texts(p) > 1.4);
    }
}

/* A product's work has the row groups of all its matrices: those of a token's experts, and those of all heads.  uneven: the row groups of
 * the busiest compute unit divided by the mean of all compute units. */
static void work_of_all_matrices(void **state)
{
    (void)state;
    static const struct { const char *name; uint32_t rows, matrices; } products[] = {
        { "gate_exps_up_exps", 2 * EXPERT_ROWS, USED }, { "heads", 16, 4 },
    };
    for (uint32_t i = 0; i < COUNT_OF(targets) * COUNT_OF(products); i++) {
        const struct plan *p = plan_of(sliced_model(USED), targets[i / 2], FUSE_LAYER, (struct plan_options){ 0 });
        const struct kernel *k = named(p, products[i % 2].name);
        const double units = p->target->compute_units,
                     groups = ceil((double)products[i % 2].rows / k->param[PARAM_ROWS]) * products[i % 2].matrices;
        assert_true(fabs(gpu_work(p, k, 1, 0).uneven - ceil(groups / units) * units / groups) < 1e-9);
    }
}

static enum quant second_quant;

static void more_outputs(void)
{
    for (uint32_t l = 0; l < 2; l++) tiny_tensor(arena_printf(a, "blk.%u.second", l), second_quant, 64, 128);
}

/* A value that two products read is kept in 16 bits for prefill only if both read the same form: products of BF16 read bf16, others f16. */
static void forms_of_two_readers(void **state)
{
    (void)state;
    static const char yaml[] =
        "architecture: llama\ninherits: transformer\nparameters: {rope_neox: false}\ntensors:\n"
        "  second: {name: \"blk.{l}.second\", shape: [n_embd, n_q]}\n"
        "graph: |\n  input:\n  %x = embed token_embd\n  layer:\n  %h = matmul attn_q, %x\n  %o = matmul attn_output, %h\n"
        "  %p = matmul second, %h\n  %s = add %o, %p\n  %x = add %x, %s\n"
        "  output:\n  %norm = rmsnorm output_norm, %x\n  %logits = matmul output, %norm\n";
    static const struct { enum quant first, second; bool f16, bf16; } rows[] = {
        { QUANT_Q8_0, QUANT_Q8_0, true, false }, { QUANT_Q8_0, QUANT_BF16, false, false }, { QUANT_BF16, QUANT_Q8_0, false, false },
        { QUANT_BF16, QUANT_BF16, false, true },
    };
    for (uint32_t i = 0; i < COUNT_OF(rows) * COUNT_OF(targets); i++) {
        struct tiny s = tiny_llama;
        s.matrix = rows[i % 4].first;
        second_quant = rows[i % 4].second;
        tiny_more = more_outputs;
        const struct model *m = tiny_yaml(a, &s, yaml);
        tiny_more = NULL;
        const struct plan *p = plan_of(m, targets[i / 4], FUSE_LAYER, (struct plan_options){ .n_ctx = 64 });
        uint32_t values = 0;
        for (uint32_t k = 0; k < p->fused->graph->n_nodes; k++) {
            const struct node *n = p->fused->graph->nodes[k];
            if (n->op != OP_matmul || n->n_readers != 2) continue;
            assert_int_equal(p->gpu->f16[n->index].exists, rows[i % 4].f16);
            assert_int_equal(p->gpu->bf16[n->index].exists, rows[i % 4].bf16);
            values++;
        }
        assert_int_equal(values, 2);
    }
}

/* ---- choices ---- */

static const struct tiny wide = { "llama", 256, 512, 4, 2, 64, 1000, QUANT_Q8_0, 2, NULL, 0, NULL, false };
static const struct model *model;

struct set { enum kernel_param param; uint32_t value; };

/* A choice for the group of that name in layer 0. */
static struct kernel_choice choice_of(const struct plan *p, enum kernel_template template, const char *group, const struct set *sets,
                                      uint32_t n)
{
    struct kernel_choice c = { .template = template, .steps = template == TEMPLATE_gemm ? STEPS_PREFILL : STEPS_DECODE, .n_groups = 1,
                               .at = { "edited.plan", 7, 3 } };
    uint32_t *index = arena_new(a, uint32_t);
    while (strcmp(p->fused->groups[*index].name, group)) ++*index;
    c.groups = index;
    for (uint32_t i = 0; i < n; i++) {
        c.given |= 1u << sets[i].param;
        c.param[sets[i].param] = sets[i].value;
    }
    return c;
}

static struct plan *planned_with(struct kernel_choice *list, uint32_t n)
{
    struct kernel_choices *choices = arena_new(a, struct kernel_choices);
    *choices = (struct kernel_choices){ .list = list, .n = n };
    return plan_of(model, "gfx1151", FUSE_LAYER, (struct plan_options){ .n_ctx = 512, .choices = choices });
}

static const struct kernel *kernel_of(const struct plan *p, const struct kernel_choice *c, uint32_t nth)
{
    const struct launch *list = p->kernels->of[c->steps].list;
    for (uint32_t i = 0; i < p->kernels->of[c->steps].n; i++) {
        const struct kernel *k = &p->kernels->kernels[list[i].kernel];
        if (list[i].group == c->groups[0] && k->template == c->template && nth-- == 0) return k;
    }
    fail_msg("no such launch");
    return NULL;
}

static void choices_are_taken(void **state)
{
    (void)state;
    model = tiny_model(a, &wide);
    const struct plan *p = planned_with(NULL, 0);
    struct kernel_choice list[] = {
        choice_of(p, TEMPLATE_gemv, "ffn_gate_up", (struct set[]){ { PARAM_ROWS, 4 }, { PARAM_LANES, 8 } }, 2),
        choice_of(p, TEMPLATE_attention_decode, "attention",
                  (struct set[]){ { PARAM_SPLITS, 7 }, { PARAM_SPANS, 3 }, { PARAM_SPAN, 150 }, { PARAM_ROWS, 4 }, { PARAM_THREADS, 64 } },
                  5),
        choice_of(p, TEMPLATE_gemm, "ffn_down",
                  (struct set[]){ { PARAM_MOST, 100 }, { PARAM_TOKENS, 16 }, { PARAM_ROWS, 64 }, { PARAM_THREADS, 64 } }, 4),
        choice_of(p, TEMPLATE_gemm, "ffn_down", (struct set[]){ { PARAM_TOKENS, 64 }, { PARAM_ROWS, 64 }, { PARAM_THREADS, 128 } }, 3),
    };
    const struct plan *edited = planned_with(list, COUNT_OF(list));
    const struct kernel *gemv = kernel_of(edited, &list[0], 0), *attention = kernel_of(edited, &list[1], 0),
                        *few = kernel_of(edited, &list[2], 0), *many = kernel_of(edited, &list[2], 1);
    assert_true(gemv->param[PARAM_ROWS] == 4 && gemv->param[PARAM_LANES] == 8);
    assert_int_equal(attention->param[PARAM_SPLITS], 7);
    assert_true(attention->param[PARAM_SPANS] == 3 && attention->param[PARAM_SPAN] == 150 && attention->param[PARAM_ROWS] == 4);
    assert_int_equal(attention->grid_x, 2 * 7 * 3);
    assert_true(few->param[PARAM_LEAST] == 1 && few->param[PARAM_MOST] == 100 && few->param[PARAM_TOKENS] == 16 &&
                few->param[PARAM_ROWS] == 64 && few->param[PARAM_THREADS] == 64);
    assert_true(many->param[PARAM_LEAST] == 101 && many->param[PARAM_MOST] == edited->chunk && many->param[PARAM_THREADS] == 128);
    assert_int_equal(few->grid_x, 256 / 64);
    assert_non_null(strstr(emit_gpu_kernel(a, edited, &edited->kernels->of[STEPS_DECODE].list[list[0].groups[0]]), "gemv_pair_q8_0_4x8("));
    check_texts(edited);
}

/* The plan as it is, given back, is the same plan. */
static void what_was_planned_is_taken(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < COUNT_OF(targets); t++) {
        model = tiny_model(a, &wide);
        const struct plan *p = plan_of(model, targets[t], FUSE_LAYER, (struct plan_options){ .n_ctx = 512 });
        const struct kernel_list *k = p->kernels;
        const struct launches *decode = &k->of[STEPS_DECODE], *prefill = &k->of[STEPS_PREFILL];
        struct kernel_choices choices = { .list = arena_array(a, struct kernel_choice, decode->n + prefill->n) };
        for (uint32_t i = 0; i < decode->n + prefill->n; i++) {
            const struct launch *l = i < decode->n ? &decode->list[i] : &prefill->list[i - decode->n];
            const struct kernel *of = &k->kernels[l->kernel];
            struct kernel_choice c = { .template = of->template, .steps = i >= decode->n ? STEPS_PREFILL : STEPS_DECODE,
                                       .groups = &l->group, .n_groups = 1,
                                       .given = template_info[of->template].free };
            memcpy(c.param, of->param, sizeof c.param);
            choices.list[choices.n++] = c;
        }
        const struct plan *again = plan_of(model, targets[t], FUSE_LAYER, (struct plan_options){ .n_ctx = 512, .choices = &choices });
        assert_int_equal(again->kernels->n_kernels, k->n_kernels);
        for (uint32_t i = 0; i < k->n_kernels; i++) {
            assert_memory_equal(again->kernels->kernels[i].param, k->kernels[i].param, sizeof k->kernels[i].param);
            assert_string_equal(again->kernels->kernels[i].does, k->kernels[i].does);
        }
    }
}

static void refuse(enum kernel_template template, const char *group, const struct set *sets, uint32_t n, const char *why)
{
    static struct kernel_choice c;
    c = choice_of(planned_with(NULL, 0), template, group, sets, n);
    assert_dies(planned_with(&c, 1), why);
    assert_non_null(strstr(die_text, "edited.plan:7:3"));
}

static void choices_are_refused(void **state)
{
    (void)state;
    model = tiny_model(a, &wide);
#define SET(...) (struct set[]){ __VA_ARGS__ }, sizeof((struct set[]){ __VA_ARGS__ }) / sizeof(struct set)
    refuse(TEMPLATE_gemv, "attn_output", SET({ PARAM_LANES, 12 }), "a power of two from 8");
    refuse(TEMPLATE_gemv, "attn_output", SET({ PARAM_LANES, 64 }), "32 lanes of a wave of gfx1151");
    refuse(TEMPLATE_gemv, "attn_output", SET({ PARAM_LANES, 16 }, { PARAM_ROWS, 17 }), "1 to 16 rows at once");
    refuse(TEMPLATE_gemv, "ffn_gate_up", SET({ PARAM_ROWS, 3 }), "ffn_gate_up is a pair of matrices");
    refuse(TEMPLATE_attention_decode, "attention", SET({ PARAM_SPLITS, 0 }), "1 to 32 parts");
    refuse(TEMPLATE_attention_decode, "attention", SET({ PARAM_SPLITS, 33 }), "1 to 32 parts");
    refuse(TEMPLATE_attention_decode, "attention", SET({ PARAM_SPANS, 0 }), "1 to 256");
    refuse(TEMPLATE_attention_decode, "attention", SET({ PARAM_SPLITS, 2 }, { PARAM_SPANS, 2 }, { PARAM_SPAN, 127 }),
           "128 positions or more");
    refuse(TEMPLATE_attention_decode, "attention", SET({ PARAM_DIGITS, 2 }), "it is 0, or on NVIDIA 2");
    refuse(TEMPLATE_attention_decode, "attention", SET({ PARAM_ROWS, 3 }), "2, 4 or 8");
    refuse(TEMPLATE_attention_decode, "attention", SET({ PARAM_RESIDENT, 5 }), "holds 1 to 4 groups of 256 threads");
    refuse(TEMPLATE_gemm, "ffn_down", SET({ PARAM_TOKENS, 24 }), "no tile of 24 tokens");
    refuse(TEMPLATE_gemm, "ffn_down", SET({ PARAM_TOKENS, 512 }, { PARAM_ROWS, 512 }, { PARAM_THREADS, 256 }), "65536 bytes of LDS");
    refuse(TEMPLATE_gemm, "ffn_down", SET({ PARAM_THREADS, 48 }), "a multiple of the wave");
    refuse(TEMPLATE_gemm, "ffn_down", SET({ PARAM_LEAST, 2 }), "must begin with 1");
    refuse(TEMPLATE_gemm, "ffn_down", SET({ PARAM_MOST, 513 }), "end with at most 512");
    refuse(TEMPLATE_gemm, "ffn_down", SET({ PARAM_MOST, 511 }), "steps of 512 .. 512 tokens");
#undef SET
}

/* A row that one slot reads alone is loaded in two steps, if the format would need several steps and registers can hold half of the row. */
static void lone_rows_in_two_steps(void **state)
{
    (void)state;
    static const struct { enum quant quant; uint32_t cols, n_embd, depth; } rows[] = {
        { QUANT_F32, 512, 64, 0 }, { QUANT_F32, 2048, 64, 8 }, { QUANT_F32, 4096, 64, 0 },
        { QUANT_Q4_K, 4096, 256, 1 }, { QUANT_Q4_K, 2048, 256, 0 }, { QUANT_Q8_0, 4096, 64, 0 }, { QUANT_Q4_K, 4096, 4096, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct tiny s = { "llama", rows[i].n_embd, rows[i].cols, 4, 2, 64, 100, rows[i].quant, 1, NULL, 0, NULL, false };
        const struct plan *p = plan_of(tiny_model(a, &s), "sm_90", FUSE_LAYER, (struct plan_options){ .n_ctx = 64 });
        assert_int_equal(named(p, "ffn_down")->param[PARAM_DEPTH], rows[i].depth);
    }
}

/* ---- wide heads ---- */

static bool has_kernel(const struct plan *p, enum kernel_template template)
{
    for (uint32_t i = 0; i < p->kernels->n_kernels; i++) if (p->kernels->kernels[i].template == template) return true;
    return false;
}

/* Heads of more than 256 items are attended in one kernel, but in four steps without fusion, with --exact and with a cache of f32; the
 * report names the latter two. Only splits and spans can be chosen. */
static void wide_heads(void **state)
{
    (void)state;
    static const struct tiny s = { "llama", 64, 96, 6, 2, 320, 100, QUANT_Q8_0, 2, NULL, 0, NULL, false };
    static const struct { enum fuse_level level; struct plan_options options; bool steps, told; } plans[] = {
        { FUSE_LAYER, { .n_ctx = 4096 }, false, false }, { FUSE_LAYER, { .n_ctx = 4096, .kv = KV_TYPE_Q8_0 }, false, false },
        { FUSE_LAYER, { .n_ctx = 4096, .kv = KV_TYPE_F32 }, true, true }, { FUSE_LAYER, { .n_ctx = 4096, .exact = true }, true, true },
        { FUSE_NONE, { .n_ctx = 4096 }, true, false },
    };
    model = tiny_model(a, &s);
    for (uint32_t i = 0; i < COUNT_OF(plans) * COUNT_OF(targets); i++) {
        const struct plan *p = plan_of(model, targets[i % 4], plans[i / 4].level, plans[i / 4].options);
        const char *told = report_unfused(a, p);
        check_texts(p);
        assert_int_equal(has_kernel(p, TEMPLATE_scores), plans[i / 4].steps);
        assert_int_equal(has_kernel(p, TEMPLATE_attention_decode), !plans[i / 4].steps);
        assert_int_equal(told != NULL, plans[i / 4].told);
        if (told) assert_non_null(strstr(told, "attention of 2 layers, with heads of 320 and 320"));
    }
    const struct plan *p = planned_with(NULL, 0);
    struct kernel_choice list[] = { choice_of(p, TEMPLATE_attention_decode, "attention",
                                              (struct set[]){ { PARAM_SPLITS, 5 }, { PARAM_SPANS, 2 }, { PARAM_SPAN, 400 } }, 3) };
    assert_int_equal(kernel_of(planned_with(list, 1), &list[0], 0)->grid_x, 2 * 5 * 1);      /* 512 positions have one such span */
    refuse(TEMPLATE_attention_decode, "attention", (struct set[]){ { PARAM_THREADS, 128 } }, 1,
           "heads of 320 and 320 has rows=16 digits=2 threads=256 resident=1");
}

/* If V is the first part of K's one head, it has neither a state nor a store, on a GPU; and a token reads it with K. */
static void values_in_keys(void **state)
{
    (void)state;
    static const char *const layer =
        "%q = matmul attn_q, %x\n%k = matmul attn_k, %x\n%c = part first=0 count=16 %k\n%t = part first=16 count=16 %k\n"
        "%kj = join head_dim=16 %c, %t\n%kc = store_k head_dim=32 %kj\n%vc = store_v head_dim=16 %c\n"
        "%kqv = attention head_dim=32 %q, %kc, %vc\n%two = join head_dim=64 %kqv, %kqv\n%x = matmul attn_output, %two\n";
    static const char *const names[] = { "gfx942", "sm_90", "portable" };
    struct tiny s = tiny_llama;
    s.n_head_kv = 1;
    struct text t = { .arena = a };
    text_puts(&t, TINY_INPUT "layer:\n");
    text_puts(&t, layer);
    text_puts(&t, TINY_OUTPUT);
    const struct model *m = tiny_wired(a, &s, text_str(&t));
    for (uint32_t i = 0; i < 2 * COUNT_OF(names); i++) {
        const bool gpu = i % 3 < 2;
        const struct plan *p = plan_of(m, names[i % 3], i / 3 ? FUSE_LAYER : FUSE_NONE, (struct plan_options){ .n_ctx = 128 });
        assert_int_equal(p->n_states, gpu ? 2 : 4);
        assert_int_equal(p->state_bytes_per_token, 2 * 2 * (gpu ? 32 : 48));
        const struct launches *decode = &p->kernels->of[STEPS_DECODE];
        for (uint32_t k = 0; gpu && k < decode->n; k++) assert_null(strstr(decode->list[k].name, "store_v"));
        if (gpu && i / 3) assert_int_equal(named(p, "attention")->state_bytes, 128 * 32 * 2);
    }
}

/* ---- series ---- */

/* Values that groups first .. last make or read lie in different places, because strands run side by side. */
static void check_places(const struct plan *p, uint32_t first, uint32_t last)
{
    const struct graph *g = p->fused->graph;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->n_nodes; k++) {
            const struct buffer *x = &p->f32[i], *y = &p->f32[k];
            const uint32_t by = fuse_group(p->fused, g->nodes[i]), other = fuse_group(p->fused, g->nodes[k]);
            if (i == k || by < first || by > last || other > last || other == NO_GROUP || !x->exists || !y->exists) continue;
            if (plan_last_reader(p, g->nodes[k]) < first || fuse_is_view(g->nodes[i]) || fuse_is_view(g->nodes[k])) continue;
            assert_true(x->offset + p->chunk * x->stride <= y->offset || y->offset + p->chunk * y->stride <= x->offset);
        }
}

static uint32_t count_of(const char *text, const char *word)
{
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, word)); at++) n++;
    return n;
}

/* Small operations between two products are one kernel; operations that do not read each other's values have workgroups of their own.
 * Without fusion each is a kernel. */
static void series_of_small_operations(void **state)
{
    (void)state;
    static const char *const layer =
        "%q = matmul attn_q, %x\n%k = matmul attn_k, %x\n%v = matmul attn_v, %x\n"
        "%qa = l2norm head_dim=32 eps=1e-6 %q\n%qr = scale by=0.5 %qa\n"
        "%ka = l2norm head_dim=32 eps=1e-6 %k\n%kr = rope head_dim=32 n_rot=32 %ka\n"
        "%kc = store_k head_dim=32 %kr\n%vc = store_v head_dim=32 %v\n"
        "%kqv = attention head_dim=32 %qr, %kc, %vc\n%ao = matmul attn_output, %kqv\n%x = add %ao, %x\n";
    struct tiny s = tiny_llama;
    struct text t = { .arena = a };
    text_puts(&t, TINY_INPUT "layer:\n");
    text_puts(&t, layer);
    text_puts(&t, TINY_OUTPUT);
    const struct model *m = tiny_wired(a, &s, text_str(&t));
    for (uint32_t i = 0; i < 2 * COUNT_OF(targets); i++) {
        const enum fuse_level level = i % 2 ? FUSE_LAYER : FUSE_NONE;
        const struct plan *p = plan_of(m, targets[i / 2], level, (struct plan_options){ .n_ctx = 64 });
        uint32_t n = 0;
        check_texts(p);
        for (uint32_t k = 0; k < p->kernels->of[STEPS_DECODE].n; k++) {
            const struct launch *l = &p->kernels->of[STEPS_DECODE].list[k];
            if (p->kernels->kernels[l->kernel].template != TEMPLATE_series) continue;
            assert_string_equal(l->name, "l2norm_qa_to_store_v_vc");
            assert_int_equal(p->kernels->kernels[l->kernel].grid_x, 3);          /* of Q, of K and of V */
            assert_int_equal(count_of(emit_gpu_kernel(a, p, l), "memory_barrier();"), 2);
            check_places(p, l->group, p->gpu->groups[l->group].series_last);
            n++;
        }
        assert_int_equal(n, level == FUSE_LAYER ? s.n_layer : 0);
    }
}

/* ---- bytes read per token ---- */

/* A token reads every tensor of the image once; tied embeddings count as a matrix.  It also reads one row of the embedding, and one row of
 * the rotation's two tables for each launch that rotates: on a CPU one launch, on a GPU one per layer. */
static void every_weight_is_read_once(void **state)
{
    (void)state;
    static const char *const names[] = { "portable", "gfx942", "sm_90" };
    const struct model *m = tiny_model(a, &tiny_llama);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct plan *p = plan_of(m, names[i], FUSE_LAYER, (struct plan_options){ .n_ctx = 64 });
        const struct plan_tensor *tensors = plan_tensors(a, p);
        const struct weight *embed = p->fused->graph->nodes[0]->weight;
        const uint64_t angles = 2 * 4ull * p->rotations[0].n_rot;
        uint64_t all = packing_row_bytes(plan_packing(p, embed), embed->cols) + (p->gpu ? m->n_layer : 1) * angles;
        for (uint32_t k = 0; k < p->n_tensors; k++) if (tensors[k].weight) all += tensors[k].bytes;
        assert_int_equal(p->read_bytes, all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(launches_have_their_kernels_text, setup, teardown),
        cmocka_unit_test_setup_teardown(other_wirings, setup, teardown),
        cmocka_unit_test_setup_teardown(experts_of_a_token, setup, teardown),
        cmocka_unit_test_setup_teardown(states_of_a_token, setup, teardown),
        cmocka_unit_test_setup_teardown(one_expert_of_a_token, setup, teardown),
        cmocka_unit_test_setup_teardown(slices_and_states, setup, teardown),
        cmocka_unit_test_setup_teardown(work_of_all_matrices, setup, teardown),
        cmocka_unit_test_setup_teardown(forms_of_two_readers, setup, teardown),
        cmocka_unit_test_setup_teardown(choices_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_planned_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(choices_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(lone_rows_in_two_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(wide_heads, setup, teardown),
        cmocka_unit_test_setup_teardown(values_in_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(series_of_small_operations, setup, teardown),
        cmocka_unit_test_setup_teardown(every_weight_is_read_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
