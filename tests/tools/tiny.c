/* tiny.c -- random models of a few layers, at least one for each architecture without a larger golden model: together they have everything
 * that its wiring can read. */
#include "recipes.h"

/* 64 columns, 4 heads of 16, 2 for keys and values; 96 columns in between */
#define SIZES(ff) \
    "%.context_length=1024\n%.embedding_length=64\n%.feed_forward_length=" ff "\n%.attention.head_count=4\n"
#define LAYERNORM  "%.attention.head_count_kv=2\n%.attention.layer_norm_epsilon=0.00001\n"
#define RMSNORM    "%.attention.head_count_kv=2\n%.attention.layer_norm_rms_epsilon=0.000001\n"
#define HEADS(dim) "%.attention.key_length=" dim "\n%.attention.value_length=" dim "\n"

#define EMBD     "token_embd.weight 64xV\noutput_norm.weight 64\n"
#define OUTPUT   "output.weight 64xV\n"
#define QKV(q, k) "blk.*.attn_q.weight 64x" q "\nblk.*.attn_k.weight 64x" k "\nblk.*.attn_v.weight 64x" k "\n" \
    "blk.*.attn_output.weight " q "x64\n"
#define QKV_BIAS(q, k) "blk.*.attn_q.bias " q " bias\nblk.*.attn_k.bias " k " bias\nblk.*.attn_v.bias " k " bias\n"
#define FUSED(rows) "blk.*.attn_qkv.weight 64x" rows "\nblk.*.attn_output.weight 64x64\n"
#define FUSED_BIAS(rows) "blk.*.attn_qkv.bias " rows " bias\nblk.*.attn_output.bias 64 bias\n"
#define UP_DOWN  "blk.*.ffn_up.weight 64x96\nblk.*.ffn_down.weight 96x64\n"
#define UP_DOWN_BIAS "blk.*.ffn_up.bias 96 bias\nblk.*.ffn_down.bias 64 bias\n"
#define GATED(ff, where) "blk.*.ffn_gate.weight 64x" ff where "\nblk.*.ffn_up.weight 64x" ff where "\n" \
    "blk.*.ffn_down.weight " ff "x64" where "\n"
#define NORM(name) "blk.*." name ".weight 64\n"
#define NORM_BIAS(name) NORM(name) "blk.*." name ".bias 64 bias\n"
#define ROUTER(n, where) "blk.*.ffn_gate_inp.weight 64x" n " F32" where "\n"
#define EXPERTS(ff, n, where) ROUTER(n, where) \
    "blk.*.ffn_gate_exps.weight 64x" ff "x" n where "\nblk.*.ffn_up_exps.weight 64x" ff "x" n where "\n" \
    "blk.*.ffn_down_exps.weight " ff "x64x" n where "\n"
#define SHARED(ff, where) "blk.*.ffn_gate_shexp.weight 64x" ff where "\nblk.*.ffn_up_shexp.weight 64x" ff where "\n" \
    "blk.*.ffn_down_shexp.weight " ff "x64" where "\n"
#define ENCODER "%.context_length=96\n%.embedding_length=64\n%.feed_forward_length=96\n%.attention.head_count=4\n" \
    "%.attention.layer_norm_epsilon=0.00001\n%.attention.causal=false\n"
#define ENCODER_EMBD "token_embd.weight 64xV\ntoken_embd_norm.weight 64\ntoken_embd_norm.bias 64 bias\ntoken_types.weight 64x2 F32 bias\n"
#define SANDWICH NORM("attn_norm") NORM("post_attention_norm") NORM("ffn_norm") NORM("post_ffw_norm")

/* %ARCH, layers, columns of the vocabulary, heads */
#define TINY(arch, layers) "golden-" arch, arch, layers, 256, 4, 2, false
#define TINY_AS(name, arch, layers) "golden-" name, arch, layers, 256, 4, 2, false

const struct recipe tiny_recipes[] = {
    { TINY("gpt2", 3), SIZES("96") "%.attention.layer_norm_epsilon=0.00001\n",
      EMBD "output_norm.bias 64 bias\nposition_embd.weight 64x1024 F32\n" NORM_BIAS("attn_norm") FUSED("192") FUSED_BIAS("192")
      NORM_BIAS("ffn_norm") UP_DOWN UP_DOWN_BIAS },
    { TINY("starcoder2", 3), SIZES("96") LAYERNORM "%.rope.freq_base=100000.0\n",
      EMBD OUTPUT "output_norm.bias 64 bias\n" NORM_BIAS("attn_norm") QKV("64", "32") QKV_BIAS("64", "32")
      "blk.*.attn_output.bias 64 bias\n" NORM_BIAS("ffn_norm") UP_DOWN UP_DOWN_BIAS },
    { TINY("gptneox", 3), SIZES("96") "%.attention.layer_norm_epsilon=0.00001\n%.rope.dimension_count=4\n%.use_parallel_residual=true\n",
      EMBD OUTPUT "output_norm.bias 64 bias\n" NORM_BIAS("attn_norm") FUSED("192") FUSED_BIAS("192") NORM_BIAS("ffn_norm")
      UP_DOWN UP_DOWN_BIAS },
    { TINY_AS("gptneox-serial", "gptneox", 2),
      SIZES("96") "%.attention.layer_norm_epsilon=0.00001\n%.rope.dimension_count=16\n%.use_parallel_residual=false\n",
      EMBD OUTPUT "output_norm.bias 64 bias\n" NORM_BIAS("attn_norm") FUSED("192") FUSED_BIAS("192") NORM_BIAS("ffn_norm")
      UP_DOWN UP_DOWN_BIAS },
    { TINY("phi2", 3), SIZES("96") "%.attention.head_count_kv=4\n%.attention.layer_norm_epsilon=0.00001\n%.rope.dimension_count=8\n",
      EMBD OUTPUT "output.bias 256 bias\noutput_norm.bias 64 bias\n" NORM_BIAS("attn_norm") QKV("64", "64") QKV_BIAS("64", "64")
      "blk.*.attn_output.bias 64 bias\n" UP_DOWN UP_DOWN_BIAS },
    /* 7B: one key and value, one norm; 40B: two norms */
    { TINY("falcon", 3), SIZES("96") "%.attention.head_count_kv=1\n%.attention.layer_norm_epsilon=0.00001\n%.tensor_data_layout=jploski\n",
      EMBD OUTPUT "output_norm.bias 64 bias\n" NORM_BIAS("attn_norm") FUSED("96") UP_DOWN },
    { TINY_AS("falcon-40b", "falcon", 3), SIZES("96") LAYERNORM "%.tensor_data_layout=jploski\n",
      EMBD OUTPUT "output_norm.bias 64 bias\n" NORM_BIAS("attn_norm") NORM_BIAS("attn_norm_2") FUSED("128") UP_DOWN },
    /* 1.6B: biases; 12B: norms of heads, the feed-forward part beside attention */
    { TINY("stablelm", 3), SIZES("96") LAYERNORM "%.rope.dimension_count=4\n%.use_parallel_residual=true\n",
      EMBD OUTPUT "output_norm.bias 64 bias\n" NORM_BIAS("attn_norm") QKV("64", "32") QKV_BIAS("64", "32") NORM_BIAS("ffn_norm")
      GATED("96", "") },
    { TINY_AS("stablelm-12b", "stablelm", 3), SIZES("96") LAYERNORM "%.rope.dimension_count=4\n%.use_parallel_residual=true\n",
      EMBD OUTPUT "output_norm.bias 64 bias\n" NORM_BIAS("attn_norm") QKV("64", "32") "blk.*.attn_q_norm.weight 16x4 F32 norm\n"
      "blk.*.attn_k_norm.weight 16x2 F32 norm\n" GATED("96", "") },
    { TINY_AS("command-r-plus", "command-r", 3),
      SIZES("96") LAYERNORM "%.logit_scale=0.8333\n%.rope.freq_base=75000000.0\n%.rope.scaling.type=none\n",
      EMBD NORM("attn_norm") QKV("64", "32") "blk.*.attn_q_norm.weight 16x4 F32 norm\nblk.*.attn_k_norm.weight 16x2 F32 norm\n"
      GATED("96", "") },
    { TINY("granitemoe", 3), SIZES("32") RMSNORM "%.rope.dimension_count=16\n%.expert_count=6\n%.expert_used_count=2\n"
      "%.embedding_scale=2.0\n%.residual_scale=0.22\n%.attention.scale=0.1\n%.logit_scale=0.25\n",
      EMBD NORM("attn_norm") QKV("64", "32") NORM("ffn_norm") EXPERTS("32", "6", "") },
    { TINY_AS("granitemoe-shared", "granitemoe", 2),
      SIZES("32") RMSNORM "%.rope.dimension_count=16\n%.expert_count=6\n%.expert_used_count=2\n"
      "%.expert_shared_feed_forward_length=40\n%.embedding_scale=2.0\n%.residual_scale=0.22\n%.attention.scale=0.1\n%.logit_scale=0.25\n",
      EMBD NORM("attn_norm") QKV("64", "32") NORM("ffn_norm") EXPERTS("32", "6", "") SHARED("40", "") },
    /* long context: YaRN in the layers without a window */
    { TINY_AS("olmo3", "olmo2", 4), SIZES("96") RMSNORM "%.rope.freq_base=500000.0\n%.attention.sliding_window=16\n"
      "%.attention.sliding_window_pattern=[true,true,true,false,...]\n%.rope.scaling.type=yarn\n%.rope.scaling.factor=8.0\n"
      "%.rope.scaling.original_context_length=128\n%.rope.scaling.yarn_attn_factor=1.2079441541679836\n"
      "%.rope.scaling.yarn_beta_fast=32.0\n%.rope.scaling.yarn_beta_slow=1.0\n",
      EMBD OUTPUT QKV("64", "32") "blk.*.attn_q_norm.weight 64\nblk.*.attn_k_norm.weight 32\n" NORM("post_attention_norm") GATED("96", "")
      NORM("post_ffw_norm") },

    { TINY("gpt-oss", 2), SIZES("32") RMSNORM HEADS("32") "%.rope.dimension_count=32\n%.rope.freq_base=150000.0\n%.expert_count=4\n"
      "%.expert_used_count=2\n%.expert_feed_forward_length=32\n%.attention.sliding_window=16\n%.rope.scaling.type=yarn\n"
      "%.rope.scaling.factor=4.0\n%.rope.scaling.original_context_length=32\n",
      EMBD OUTPUT NORM("attn_norm") QKV("128", "64") QKV_BIAS("128", "64")
      "blk.*.attn_output.bias 64 bias\nblk.*.attn_sinks.weight 4 bias\n"
      NORM("post_attention_norm") EXPERTS("32", "4", "") "blk.*.ffn_gate_inp.bias 4 bias\nblk.*.ffn_gate_exps.bias 32x4 F32\n"
      "blk.*.ffn_up_exps.bias 32x4 F32\nblk.*.ffn_down_exps.bias 64x4 F32\n" },
    { TINY("gemma2", 3), SIZES("96") RMSNORM HEADS("32") "%.attention.sliding_window=20\n%.attn_logit_softcapping=5.0\n"
      "%.final_logit_softcapping=10.0\n", EMBD SANDWICH QKV("128", "64") GATED("96", "") },
    { TINY("gemma3", 3), SIZES("96") RMSNORM HEADS("32") "%.rope.freq_base=1000000.0\n%.attention.sliding_window=16\n"
      "%.attention.sliding_window_pattern=3\n%.rope.freq_base_swa=5000.0\n%.rope.scaling.type=linear\n%.rope.scaling.factor=8.0\n",
      EMBD SANDWICH QKV("128", "64") "blk.*.attn_q_norm.weight 32\nblk.*.attn_k_norm.weight 32\n" GATED("96", "") },
    { TINY("cohere2", 5), SIZES("96") LAYERNORM "%.rope.dimension_count=16\n%.rope.freq_base=50000.0\n%.logit_scale=0.25\n"
      "%.attention.sliding_window=16\n", EMBD NORM("attn_norm") QKV("64", "32") GATED("96", "") },
    { TINY("mistral3", 2),
      SIZES("96") RMSNORM HEADS("32") "%.rope.dimension_count=32\n%.rope.freq_base=1000000.0\n%.rope.scaling.type=yarn\n"
      "%.rope.scaling.factor=4.0\n%.rope.scaling.original_context_length=24\n%.rope.scaling.yarn_beta_fast=16.0\n"
      "%.rope.scaling.yarn_beta_slow=2.0\n%.rope.scaling.yarn_log_multiplier=1.0\n%.attention.temperature_scale=0.1\n",
      EMBD OUTPUT NORM("attn_norm") QKV("128", "64") NORM("ffn_norm") GATED("96", "") },
    { TINY("phi3", 2), SIZES("96") RMSNORM "%.rope.dimension_count=16\n%.rope.scaling.attn_factor=1.19\n"
      "%.rope.scaling.original_context_length=16\n",
      EMBD OUTPUT "rope_factors_long.weight 8\nrope_factors_short.weight 8\n" NORM("attn_norm") FUSED("128") NORM("ffn_norm")
      "blk.*.ffn_up.weight 64x192\nblk.*.ffn_down.weight 96x64\n" },
    { TINY("exaone4", 3), SIZES("96") RMSNORM "%.rope.freq_base=1000000.0\n",
      EMBD "rope_freqs.weight 8\n" QKV("64", "32") "blk.*.attn_q_norm.weight 16\nblk.*.attn_k_norm.weight 16\n" NORM("post_attention_norm")
      NORM("post_ffw_norm") GATED("96", "") },
    { TINY("seed_oss", 2), SIZES("96") RMSNORM HEADS("24") "%.rope.freq_base=10000000.0\n",
      EMBD OUTPUT NORM("attn_norm") QKV("96", "48") QKV_BIAS("96", "48") NORM("post_attention_norm") GATED("96", "") },
    { TINY("minimax-m2", 2), SIZES("24") RMSNORM HEADS("32") "%.rope.dimension_count=16\n%.rope.freq_base=5000000.0\n%.expert_count=6\n"
      "%.expert_used_count=2\n%.expert_feed_forward_length=24\n%.expert_gating_func=2\n",
      EMBD OUTPUT NORM("attn_norm") QKV("128", "64") "blk.*.attn_q_norm.weight 128\nblk.*.attn_k_norm.weight 64\n" NORM("ffn_norm")
      EXPERTS("24", "6", "") "blk.*.exp_probs_b.bias 6 bias\n" },
    { TINY("ernie4_5-moe", 3), SIZES("96") RMSNORM HEADS("24") "%.rope.freq_base=500000.0\n%.expert_count=6\n%.expert_used_count=3\n"
      "%.expert_feed_forward_length=16\n%.expert_shared_feed_forward_length=32\n%.leading_dense_block_count=1\n"
      "%.interleave_moe_layer_step=1\n",
      EMBD NORM("attn_norm") QKV("96", "48") NORM("ffn_norm") GATED("96", " @<1") EXPERTS("16", "6", " @>0")
      "blk.*.exp_probs_b.bias 6 bias @>0\n" SHARED("32", " @>0") },
    { TINY("qwen35", 4), SIZES("96") RMSNORM HEADS("32") "%.rope.dimension_count=16\n%.rope.freq_base=10000000.0\n%.ssm.conv_kernel=4\n"
      "%.ssm.inner_size=64\n%.ssm.state_size=16\n%.ssm.time_step_rank=4\n%.ssm.group_count=2\n%.rope.dimension_sections=[3,3,2,0]\n"
      "%.full_attention_interval=3\n",
      EMBD NORM("attn_norm") "blk.*.attn_q.weight 64x256 @2%3\nblk.*.attn_k.weight 64x64 @2%3\nblk.*.attn_v.weight 64x64 @2%3\n"
      "blk.*.attn_q_norm.weight 32 @2%3\nblk.*.attn_k_norm.weight 32 @2%3\nblk.*.attn_output.weight 128x64 @2%3\n"
      "blk.*.attn_qkv.weight 64x128 @!2%3\nblk.*.attn_gate.weight 64x64 @!2%3\nblk.*.ssm_conv1d.weight 4x128 F32 @!2%3\n"
      "blk.*.ssm_dt.bias 4 bias @!2%3\nblk.*.ssm_a 4 decay @!2%3\nblk.*.ssm_beta.weight 64x4 @!2%3\nblk.*.ssm_alpha.weight 64x4 @!2%3\n"
      "blk.*.ssm_norm.weight 16 @!2%3\nblk.*.ssm_out.weight 64x64 @!2%3\n" NORM("post_attention_norm") GATED("96", "") },
    { TINY("olmo2", 2), SIZES("96") RMSNORM "%.rope.freq_base=500000.0\n",
      EMBD OUTPUT QKV("64", "32") "blk.*.attn_q_norm.weight 64\nblk.*.attn_k_norm.weight 32\n" NORM("post_attention_norm") GATED("96", "")
      NORM("post_ffw_norm") },
    { TINY("ernie4_5", 2), SIZES("96") RMSNORM "%.rope.freq_base=500000.0\n",
      EMBD NORM("attn_norm") QKV("64", "32") NORM("ffn_norm") GATED("96", "") },
    { TINY("glm4", 2), SIZES("96") RMSNORM "%.rope.dimension_count=8\n",
      EMBD OUTPUT SANDWICH QKV("64", "32") QKV_BIAS("64", "32") "blk.*.ffn_up.weight 64x192\nblk.*.ffn_down.weight 96x64\n" },
    { TINY("smollm3", 4), SIZES("96") RMSNORM "%.rope.dimension_count=16\n%.rope.freq_base=2000000.0\n",
      EMBD NORM("attn_norm") QKV("64", "32") NORM("ffn_norm") GATED("96", "") },
    { TINY("granite", 3), SIZES("96") RMSNORM "%.rope.dimension_count=16\n%.embedding_scale=2.0\n%.residual_scale=0.5\n"
      "%.attention.scale=0.09\n%.logit_scale=2.0\n",
      EMBD NORM("attn_norm") QKV("64", "32") NORM("ffn_norm") GATED("96", "") },
    { TINY("qwen3moe", 2), SIZES("96") RMSNORM HEADS("32") "%.rope.dimension_count=32\n%.rope.freq_base=1000000.0\n%.expert_count=6\n"
      "%.expert_used_count=2\n%.expert_feed_forward_length=32\n",
      EMBD OUTPUT NORM("attn_norm") QKV("128", "64") "blk.*.attn_q_norm.weight 32\nblk.*.attn_k_norm.weight 32\n" NORM("ffn_norm")
      EXPERTS("32", "6", "") },
    { TINY("lfm2", 4), SIZES("96") "%.attention.head_count_kv=[0,2,...]\n%.attention.layer_norm_rms_epsilon=0.000001\n"
      "%.rope.freq_base=1000000.0\n%.shortconv.l_cache=3\n",
      "token_embd.weight 64xV\ntoken_embd_norm.weight 64\n" NORM("attn_norm") "blk.*.shortconv.in_proj.weight 64x192 @0,2\n"
      "blk.*.shortconv.conv.weight 3x64 F32 @0,2\nblk.*.shortconv.out_proj.weight 64x64 @0,2\nblk.*.attn_q.weight 64x64 @1,3\n"
      "blk.*.attn_k.weight 64x32 @1,3\nblk.*.attn_v.weight 64x32 @1,3\nblk.*.attn_output.weight 64x64 @1,3\n"
      "blk.*.attn_q_norm.weight 16 @1,3\nblk.*.attn_k_norm.weight 16 @1,3\n" NORM("ffn_norm") GATED("96", "") },
    { TINY("nemotron_h", 6), SIZES("[0,96,0,0,96,0,...]") HEADS("16") "%.attention.head_count_kv=[0,0,0,2,0,0,...]\n"
      "%.attention.layer_norm_rms_epsilon=0.000001\n%.ssm.conv_kernel=4\n%.ssm.inner_size=96\n%.ssm.state_size=16\n"
      "%.ssm.time_step_rank=6\n%.ssm.group_count=2\n",
      EMBD OUTPUT NORM("attn_norm") "blk.*.ssm_in.weight 64x262 @0,2,5\nblk.*.ssm_conv1d.weight 4x160 F32 @0,2,5\n"
      "blk.*.ssm_conv1d.bias 160 bias @0,2,5\nblk.*.ssm_dt.bias 6 bias @0,2,5\nblk.*.ssm_a 6 decay @0,2,5\nblk.*.ssm_d 6 @0,2,5\n"
      "blk.*.ssm_norm.weight 48x2 F32 norm @0,2,5\nblk.*.ssm_out.weight 96x64 @0,2,5\nblk.*.attn_q.weight 64x64 @3\n"
      "blk.*.attn_k.weight 64x32 @3\nblk.*.attn_v.weight 64x32 @3\nblk.*.attn_output.weight 64x64 @3\nblk.*.ffn_up.weight 64x96 @1,4\n"
      "blk.*.ffn_down.weight 96x64 @1,4\n" },
    /* encoders: tests/cli/run_embed.sh has their vectors */
    { TINY("bert", 3), ENCODER "%.pooling_type=2\n",
      ENCODER_EMBD "position_embd.weight 64x96 F32\n" QKV("64", "64") QKV_BIAS("64", "64") "blk.*.attn_output.bias 64 bias\n"
      NORM_BIAS("attn_output_norm") UP_DOWN UP_DOWN_BIAS NORM_BIAS("layer_output_norm") },
    { TINY("nomic-bert", 2), ENCODER "%.pooling_type=1\n%.rope.freq_base=1000.0\n",
      ENCODER_EMBD FUSED("192") NORM_BIAS("attn_output_norm") GATED("96", "") NORM_BIAS("layer_output_norm") },
};
const uint32_t n_tiny_recipes = sizeof tiny_recipes / sizeof *tiny_recipes;
