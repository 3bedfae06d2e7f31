/* tiny_plans.h -- tiny_plans(arena, check): calls check for small models in every kind of plan for a CPU, for rules that hold for any
 * plan. */
#ifndef FORGEC_TINY_PLANS_H
#define FORGEC_TINY_PLANS_H
#include "compiler/plan/plan.h"
#include "tiny_model.h"

static void tiny_plans_of(struct arena *a, const struct model *m, void (*check)(const struct plan *))
{
    const struct graph *g = graph_build(a, m);
    const struct target *target = target_load(a, "portable", NULL);
    for (uint32_t i = 0; i < 2 * 2 * 3; i++) {
        const struct plan_options o = { .exact = i & 2, .kv = (enum kv_type)(i / 4), .max_threads = 3 };
        check(plan_make(a, g, i & 1 ? FUSE_LAYER : FUSE_NONE, target, &o));
    }
}

static void tiny_plans(struct arena *a, void (*check)(const struct plan *))
{
    static const char *const architectures[] = { "llama", "qwen2", "qwen3" };
    static const enum quant formats[] = { QUANT_F32, QUANT_F16, QUANT_Q8_0, QUANT_Q4_0 };
    static const char *const layers[] = {
        "%n = rmsnorm attn_norm, %x\n" TINY_ATTENTION("%n") TINY_FFN("%n") "%s = add %d, %x\n%x = add %s, %ao\n",
        /* The input of q, k and v is dead after they are computed: attention may start in one thread while another thread still reads
         * it. */
        "%m = rmsnorm attn_norm, %x\n%n = rmsnorm ffn_norm, %m\n" TINY_ATTENTION("%n") "%x = add %ao, %x\n",
        TINY_ATTENTION("%x") "%n = rmsnorm attn_norm, %ao\n%h = add %x, %n\n" TINY_FFN("%h") "%o = rmsnorm ffn_norm, %d\n%x = add %h, %o\n",
        TINY_ATTENTION("%x") "%b = add %ao, %ao\n%c = add %b, %ao\n%x = add %c, %b\n",
        "%q = matmul attn_q, %x\n%k = matmul attn_k, %x\n%kc = store_k %k\n%v = matmul attn_v, %x\n%vc = store_v %v\n"
        "%near = attention window=20 cap=30 %q, %kc, %vc\n%far = attention %q, %kc, %vc\n%kqv = add %near, %far\n"
        "%x = matmul attn_output, %kqv\n",
        TURNS("%q1 = rope %q\n%q2 = rope base=500 %q1\n%qr = rope base=500 n_rot=8 neox=true %q2\n"),
    };
    for (size_t i = 0; i < COUNT_OF(architectures) * COUNT_OF(formats); i++) {
        struct tiny s = tiny_llama;
        s.arch = architectures[i / COUNT_OF(formats)];
        s.matrix = formats[i % COUNT_OF(formats)];
        s.n_layer = 3;
        tiny_plans_of(a, tiny_model(a, &s), check);
    }
    for (size_t i = 0; i < COUNT_OF(layers); i++) tiny_plans_of(a, tiny_layers(a, layers[i]), check);
}
#endif
