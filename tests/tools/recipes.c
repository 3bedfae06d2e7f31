/* recipes.c -- sizes are from the config.json of each model's first release, keys as llama.cpp's converter (v0.4.0) writes them. */
#include "recipes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPERTS(embd, ff, n) \
    "blk.*.ffn_gate_inp.weight " embd "x" n " F32\n" \
    "blk.*.ffn_gate_exps.weight " embd "x" ff "x" n "\n" \
    "blk.*.ffn_up_exps.weight " embd "x" ff "x" n "\n" \
    "blk.*.ffn_down_exps.weight " ff "x" embd "x" n "\n"
#define HEAD(embd) "token_embd.weight " embd "xV\n" "output_norm.weight " embd "\n"

const struct recipe recipes[] = {
    /* Qwen/Qwen3-30B-A3B */
    { "qwen3-30b-a3b", "qwen3moe", 48, 151936, 32, 4, false,
      "%.context_length=40960\n%.embedding_length=2048\n%.feed_forward_length=6144\n%.attention.head_count=32\n"
      "%.attention.head_count_kv=4\n%.attention.key_length=128\n%.attention.value_length=128\n%.rope.freq_base=1000000.0\n"
      "%.attention.layer_norm_rms_epsilon=0.000001\n%.expert_count=128\n%.expert_used_count=8\n%.expert_feed_forward_length=768\n",
      HEAD("2048") "output.weight 2048xV\n"
      "blk.*.attn_norm.weight 2048\nblk.*.attn_q.weight 2048x4096\nblk.*.attn_k.weight 2048x512\nblk.*.attn_v.weight 2048x512\n"
      "blk.*.attn_q_norm.weight 128\nblk.*.attn_k_norm.weight 128\nblk.*.attn_output.weight 4096x2048\nblk.*.ffn_norm.weight 2048\n"
      EXPERTS("2048", "768", "128") },
    /* Qwen/Qwen3.5-35B-A3B and Qwen3.6-35B-A3B, without and with the draft block; at: layers with attention */
#define QWEN36(name, layers, at, keys, tensors) \
    { name, "qwen35moe", layers, 248320, 16, 2, false, \
      "%.context_length=262144\n%.embedding_length=2048\n%.attention.head_count=16\n%.attention.head_count_kv=2\n" \
      "%.attention.key_length=256\n%.attention.value_length=256\n%.rope.dimension_count=64\n%.rope.freq_base=10000000.0\n" \
      "%.rope.dimension_sections=[11,11,10,0]\n%.attention.layer_norm_rms_epsilon=0.000001\n%.full_attention_interval=4\n" \
      "%.ssm.conv_kernel=4\n%.ssm.state_size=128\n%.ssm.group_count=16\n%.ssm.time_step_rank=32\n%.ssm.inner_size=4096\n" \
      "%.expert_count=256\n%.expert_used_count=8\n%.expert_feed_forward_length=512\n%.expert_shared_feed_forward_length=512\n" keys, \
      HEAD("2048") "output.weight 2048xV\n" \
      "blk.*.attn_norm.weight 2048\n" \
      "blk.*.attn_q.weight 2048x8192 @" at "\nblk.*.attn_k.weight 2048x512 @" at "\nblk.*.attn_v.weight 2048x512 @" at "\n" \
      "blk.*.attn_q_norm.weight 256 @" at "\nblk.*.attn_k_norm.weight 256 @" at "\nblk.*.attn_output.weight 4096x2048 @" at "\n" \
      "blk.*.attn_qkv.weight 2048x8192 @!" at "\nblk.*.attn_gate.weight 2048x4096 @!" at "\nblk.*.ssm_conv1d.weight 4x8192 F32 @!" at "\n" \
      "blk.*.ssm_dt.bias 32 bias @!" at "\nblk.*.ssm_a 32 decay @!" at "\nblk.*.ssm_beta.weight 2048x32 @!" at "\n" \
      "blk.*.ssm_alpha.weight 2048x32 @!" at "\nblk.*.ssm_norm.weight 128 @!" at "\nblk.*.ssm_out.weight 4096x2048 @!" at "\n" \
      "blk.*.post_attention_norm.weight 2048\n" \
      EXPERTS("2048", "512", "256") \
      "blk.*.ffn_gate_shexp.weight 2048x512\nblk.*.ffn_up_shexp.weight 2048x512\nblk.*.ffn_down_shexp.weight 512x2048\n" \
      "blk.*.ffn_gate_inp_shexp.weight 2048 bias\n" tensors }
    QWEN36("qwen3.6-35b-a3b", 40, "3%4", "", ""),
    QWEN36("qwen3.6-35b-a3b-mtp", 41, "3,7,11,15,19,23,27,31,35,39,40", "%.nextn_predict_layers=1\n",
           "blk.*.nextn.eh_proj.weight 4096x2048 @40\nblk.*.nextn.enorm.weight 2048 @40\nblk.*.nextn.hnorm.weight 2048 @40\n"
           "blk.*.nextn.shared_head_norm.weight 2048 @40\n"),
#define GPT_OSS(name, layers, n) \
    { name, "gpt-oss", layers, 201088, 64, 8, false, \
      "%.context_length=131072\n%.embedding_length=2880\n%.feed_forward_length=2880\n%.expert_feed_forward_length=2880\n" \
      "%.attention.head_count=64\n%.attention.head_count_kv=8\n%.attention.key_length=64\n%.attention.value_length=64\n" \
      "%.rope.freq_base=150000.0\n%.attention.layer_norm_rms_epsilon=0.00001\n%.attention.sliding_window=128\n" \
      "%.rope.scaling.type=yarn\n%.rope.scaling.factor=32.0\n%.rope.scaling.original_context_length=4096\n" \
      "%.expert_count=" n "\n%.expert_used_count=4\n", \
      HEAD("2880") "output.weight 2880xV\n" \
      "blk.*.attn_norm.weight 2880\nblk.*.attn_q.weight 2880x4096\nblk.*.attn_q.bias 4096 bias\nblk.*.attn_k.weight 2880x512\n" \
      "blk.*.attn_k.bias 512 bias\nblk.*.attn_v.weight 2880x512\nblk.*.attn_v.bias 512 bias\nblk.*.attn_sinks.weight 64 bias\n" \
      "blk.*.attn_output.weight 4096x2880\nblk.*.attn_output.bias 2880 bias\nblk.*.post_attention_norm.weight 2880\n" \
      EXPERTS("2880", "2880", n) \
      "blk.*.ffn_gate_inp.bias " n " bias\nblk.*.ffn_gate_exps.bias 2880x" n " F32\nblk.*.ffn_up_exps.bias 2880x" n " F32\n" \
      "blk.*.ffn_down_exps.bias 2880x" n " F32\n" }
    /* openai/gpt-oss-20b, openai/gpt-oss-120b */
    GPT_OSS("gpt-oss-20b", 24, "32"),
    GPT_OSS("gpt-oss-120b", 36, "128"),
    /* google/gemma-4-26B-A4B (text) */
    { "gemma-4-26b-a4b", "gemma4", 30, 262144, 16, 8, true,
      "%.context_length=262144\n%.embedding_length=2816\n%.feed_forward_length=2112\n%.attention.head_count=16\n"
      "%.attention.head_count_kv=[8,8,8,8,8,2,...]\n%.attention.key_length=512\n%.attention.value_length=512\n"
      "%.attention.key_length_swa=256\n%.attention.value_length_swa=256\n%.rope.dimension_count=512\n%.rope.dimension_count_swa=256\n"
      "%.rope.freq_base=1000000.0\n%.rope.freq_base_swa=10000.0\n%.attention.layer_norm_rms_epsilon=0.000001\n"
      "%.attention.sliding_window=1024\n%.attention.sliding_window_pattern=[true,true,true,true,true,false,...]\n"
      "%.final_logit_softcapping=30.0\n%.expert_count=128\n%.expert_used_count=8\n%.expert_feed_forward_length=704\n"
      "%.attention.shared_kv_layers=0\n%.embedding_length_per_layer_input=0\n",
      HEAD("2816") "rope_freqs.weight 256\n"
      "blk.*.attn_norm.weight 2816\nblk.*.attn_q.weight 2816x4096 @!5%6\nblk.*.attn_q.weight 2816x8192 @5%6\n"
      "blk.*.attn_q_norm.weight 256 @!5%6\nblk.*.attn_q_norm.weight 512 @5%6\nblk.*.attn_k.weight 2816x2048 @!5%6\n"
      "blk.*.attn_k.weight 2816x1024 @5%6\nblk.*.attn_k_norm.weight 256 @!5%6\nblk.*.attn_k_norm.weight 512 @5%6\n"
      "blk.*.attn_v.weight 2816x2048 @!5%6\nblk.*.attn_output.weight 4096x2816 @!5%6\nblk.*.attn_output.weight 8192x2816 @5%6\n"
      "blk.*.post_attention_norm.weight 2816\nblk.*.ffn_norm.weight 2816\nblk.*.ffn_gate.weight 2816x2112\n"
      "blk.*.ffn_up.weight 2816x2112\nblk.*.ffn_down.weight 2112x2816\nblk.*.post_ffw_norm.weight 2816\n"
      "blk.*.layer_output_scale.weight 1\nblk.*.ffn_gate_inp.weight 2816x128 F32\nblk.*.ffn_gate_inp.scale 2816\n"
      "blk.*.ffn_gate_up_exps.weight 2816x1408x128\nblk.*.ffn_down_exps.weight 704x2816x128\nblk.*.ffn_down_exps.scale 128\n"
      "blk.*.pre_ffw_norm_2.weight 2816\nblk.*.post_ffw_norm_1.weight 2816\nblk.*.post_ffw_norm_2.weight 2816\n" },
    /* zai-org/GLM-4.7-Flash, without the draft block */
    { "glm-4.7-flash", "deepseek2", 47, 154880, 20, 1, false,
      "%.context_length=202752\n%.embedding_length=2048\n%.feed_forward_length=10240\n%.attention.head_count=20\n"
      "%.attention.head_count_kv=1\n%.attention.key_length=576\n%.attention.value_length=512\n%.attention.key_length_mla=256\n"
      "%.attention.value_length_mla=256\n%.attention.q_lora_rank=768\n%.attention.kv_lora_rank=512\n%.rope.dimension_count=64\n"
      "%.rope.freq_base=1000000.0\n%.attention.layer_norm_rms_epsilon=0.00001\n%.leading_dense_block_count=1\n%.expert_count=64\n"
      "%.expert_used_count=4\n%.expert_shared_count=1\n%.expert_feed_forward_length=1536\n%.expert_weights_scale=1.8\n"
      "%.expert_weights_norm=true\n%.expert_gating_func=2\n%.expert_group_count=1\n%.expert_group_used_count=1\n%.vocab_size=V\n",
      HEAD("2048") "output.weight 2048xV\n"
      "blk.*.attn_norm.weight 2048\nblk.*.attn_q_a.weight 2048x768\nblk.*.attn_q_a_norm.weight 768\nblk.*.attn_q_b.weight 768x5120\n"
      "blk.*.attn_kv_a_mqa.weight 2048x576\nblk.*.attn_kv_a_norm.weight 512\nblk.*.attn_k_b.weight 192x512x20\n"
      "blk.*.attn_v_b.weight 512x256x20\nblk.*.attn_output.weight 5120x2048\nblk.*.ffn_norm.weight 2048\n"
      "blk.*.ffn_gate.weight 2048x10240 @<1\nblk.*.ffn_up.weight 2048x10240 @<1\nblk.*.ffn_down.weight 10240x2048 @<1\n"
      "blk.*.ffn_gate_inp.weight 2048x64 F32 @>0\nblk.*.exp_probs_b.bias 64 bias @>0\nblk.*.ffn_gate_exps.weight 2048x1536x64 @>0\n"
      "blk.*.ffn_up_exps.weight 2048x1536x64 @>0\nblk.*.ffn_down_exps.weight 1536x2048x64 @>0\n"
      "blk.*.ffn_gate_shexp.weight 2048x1536 @>0\nblk.*.ffn_up_shexp.weight 2048x1536 @>0\nblk.*.ffn_down_shexp.weight 1536x2048 @>0\n" },
    /* LiquidAI/LFM2-8B-A1B: attention in layers 2, 6, 10, 14, 18 and 21 of 24 */
    { "lfm2-8b-a1b", "lfm2moe", 24, 65536, 32, 8, true,
      "%.context_length=128000\n%.embedding_length=2048\n%.feed_forward_length=7168\n%.attention.head_count=32\n"
      "%.attention.head_count_kv=[0,0,8,0,0,0,8,0,0,0,8,0,0,0,8,0,0,0,8,0,0,8,0,0,...]\n%.rope.freq_base=1000000.0\n"
      "%.attention.layer_norm_rms_epsilon=0.00001\n%.shortconv.l_cache=3\n%.leading_dense_block_count=2\n%.expert_gating_func=2\n"
      "%.expert_count=32\n%.expert_used_count=4\n%.expert_feed_forward_length=1792\n%.vocab_size=V\n",
      "token_embd.weight 2048xV\ntoken_embd_norm.weight 2048\nblk.*.attn_norm.weight 2048\n"
      "blk.*.shortconv.in_proj.weight 2048x6144 @!2,6,10,14,18,21\nblk.*.shortconv.conv.weight 3x2048 F32 @!2,6,10,14,18,21\n"
      "blk.*.shortconv.out_proj.weight 2048x2048 @!2,6,10,14,18,21\n"
      "blk.*.attn_q.weight 2048x2048 @2,6,10,14,18,21\nblk.*.attn_k.weight 2048x512 @2,6,10,14,18,21\n"
      "blk.*.attn_v.weight 2048x512 @2,6,10,14,18,21\nblk.*.attn_output.weight 2048x2048 @2,6,10,14,18,21\n"
      "blk.*.attn_q_norm.weight 64 @2,6,10,14,18,21\nblk.*.attn_k_norm.weight 64 @2,6,10,14,18,21\nblk.*.ffn_norm.weight 2048\n"
      "blk.*.ffn_gate.weight 2048x7168 @<2\nblk.*.ffn_up.weight 2048x7168 @<2\nblk.*.ffn_down.weight 7168x2048 @<2\n"
      "blk.*.ffn_gate_inp.weight 2048x32 F32 @>1\nblk.*.exp_probs_b.bias 32 bias @>1\nblk.*.ffn_gate_exps.weight 2048x1792x32 @>1\n"
      "blk.*.ffn_up_exps.weight 2048x1792x32 @>1\nblk.*.ffn_down_exps.weight 1792x2048x32 @>1\n" },
    /* not a real model: 3 billion weights, 0.6 billion of them per token, for measurements where a real model does not fit */
    { "3b-a0.6b", "qwen3moe", 24, 65536, 16, 4, false,
      "%.context_length=40960\n%.embedding_length=1024\n%.feed_forward_length=3072\n%.attention.head_count=16\n"
      "%.attention.head_count_kv=4\n%.attention.key_length=128\n%.attention.value_length=128\n%.rope.freq_base=1000000.0\n"
      "%.attention.layer_norm_rms_epsilon=0.000001\n%.expert_count=64\n%.expert_used_count=8\n%.expert_feed_forward_length=512\n",
      HEAD("1024") "output.weight 1024xV\n"
      "blk.*.attn_norm.weight 1024\nblk.*.attn_q.weight 1024x2048\nblk.*.attn_k.weight 1024x512\nblk.*.attn_v.weight 1024x512\n"
      "blk.*.attn_q_norm.weight 128\nblk.*.attn_k_norm.weight 128\nblk.*.attn_output.weight 2048x1024\nblk.*.ffn_norm.weight 1024\n"
      EXPERTS("1024", "512", "64") },
    /* not real models: two layers with experts, for tests; with and without biases of experts */
#define TINY(name, arch, ff, keys, layer) \
    { name, arch, 2, 300, 4, 2, false, \
      "%.context_length=512\n%.embedding_length=128\n%.feed_forward_length=" ff "\n%.attention.head_count=4\n" \
      "%.attention.head_count_kv=2\n%.attention.key_length=32\n%.attention.value_length=32\n" \
      "%.attention.layer_norm_rms_epsilon=0.00001\n%.expert_count=6\n%.expert_used_count=2\n%.expert_feed_forward_length=" ff "\n" keys, \
      HEAD("128") "output.weight 128xV\n" \
      "blk.*.attn_norm.weight 128\nblk.*.attn_q.weight 128x128\nblk.*.attn_k.weight 128x64\nblk.*.attn_v.weight 128x64\n" \
      "blk.*.attn_output.weight 128x128\n" EXPERTS("128", ff, "6") layer }
#define TINY_GPT_OSS(name, ff) \
    TINY(name, "gpt-oss", ff, "%.attention.sliding_window=128\n", \
         "blk.*.attn_q.bias 128 bias\nblk.*.attn_k.bias 64 bias\nblk.*.attn_v.bias 64 bias\nblk.*.attn_sinks.weight 4 bias\n" \
         "blk.*.attn_output.bias 128 bias\nblk.*.post_attention_norm.weight 128\nblk.*.ffn_gate_inp.bias 6 bias\n" \
         "blk.*.ffn_gate_exps.bias " ff "x6 F32\nblk.*.ffn_up_exps.bias " ff "x6 F32\nblk.*.ffn_down_exps.bias 128x6 F32\n")
    TINY_GPT_OSS("tiny-gpt-oss", "64"),
    TINY_GPT_OSS("tiny-gpt-oss-wide", "192"),            /* two or three GPUs can divide the experts */
    TINY("tiny-qwen3moe", "qwen3moe", "64", "",
         "blk.*.attn_q_norm.weight 32\nblk.*.attn_k_norm.weight 32\nblk.*.ffn_norm.weight 128\n"),
    /* attention and feed-forward part in parallel, biases everywhere, for two GPUs */
    { "tiny-phi2-wide", "phi2", 2, 300, 4, 4, false,
      "%.context_length=512\n%.embedding_length=128\n%.feed_forward_length=192\n%.attention.head_count=4\n%.attention.head_count_kv=4\n"
      "%.attention.layer_norm_epsilon=0.00001\n%.rope.dimension_count=16\n",
      HEAD("128") "output.weight 128xV\noutput.bias 300 bias\noutput_norm.bias 128 bias\n"
      "blk.*.attn_norm.weight 128\nblk.*.attn_norm.bias 128 bias\nblk.*.attn_q.weight 128x128\nblk.*.attn_k.weight 128x128\n"
      "blk.*.attn_v.weight 128x128\nblk.*.attn_q.bias 128 bias\nblk.*.attn_k.bias 128 bias\nblk.*.attn_v.bias 128 bias\n"
      "blk.*.attn_output.weight 128x128\nblk.*.attn_output.bias 128 bias\nblk.*.ffn_up.weight 128x192\nblk.*.ffn_up.bias 192 bias\n"
      "blk.*.ffn_down.weight 192x128\nblk.*.ffn_down.bias 128 bias\n" },
    /* with an MTP block: layers add little to the embedding, which the block passes on, so drafts are often accepted */
#define NEXTN "blk.*.nextn.eh_proj.weight 128x64 F32 eye @3\nblk.*.nextn.enorm.weight 64 @3\nblk.*.nextn.hnorm.weight 64 @3\n"
#define SMALL_EXPERTS(where) "blk.*.ffn_gate_inp.weight 64x6 F32" where "\n" \
    "blk.*.ffn_gate_exps.weight 64x32x6" where "\nblk.*.ffn_up_exps.weight 64x32x6" where "\n" \
    "blk.*.ffn_down_exps.weight 32x64x6 small" where "\nblk.*.ffn_gate_shexp.weight 64x32" where "\n" \
    "blk.*.ffn_up_shexp.weight 64x32" where "\nblk.*.ffn_down_shexp.weight 32x64 small" where "\n"
    { "tiny-draft-qwen35moe", "qwen35moe", 4, 300, 4, 2, false,
      "%.context_length=512\n%.embedding_length=64\n%.attention.head_count=4\n%.attention.head_count_kv=2\n"
      "%.attention.key_length=32\n%.attention.value_length=32\n%.attention.layer_norm_rms_epsilon=0.000001\n%.rope.dimension_count=16\n"
      "%.rope.freq_base=10000000.0\n%.ssm.conv_kernel=4\n%.ssm.inner_size=64\n%.ssm.state_size=16\n%.ssm.time_step_rank=4\n"
      "%.ssm.group_count=2\n%.rope.dimension_sections=[3,3,2,0]\n%.full_attention_interval=3\n%.expert_count=6\n%.expert_used_count=2\n"
      "%.expert_feed_forward_length=32\n%.expert_shared_feed_forward_length=32\n%.nextn_predict_layers=1\n",
      HEAD("64") "output.weight 64xV\nblk.*.attn_norm.weight 64\n"
      "blk.*.attn_q.weight 64x256 @>1\nblk.*.attn_k.weight 64x64 @>1\nblk.*.attn_v.weight 64x64 @>1\n"
      "blk.*.attn_q_norm.weight 32 @>1\nblk.*.attn_k_norm.weight 32 @>1\nblk.*.attn_output.weight 128x64 small @>1\n"
      "blk.*.attn_qkv.weight 64x128 @<2\nblk.*.attn_gate.weight 64x64 @<2\nblk.*.ssm_conv1d.weight 4x128 F32 @<2\n"
      "blk.*.ssm_dt.bias 4 bias @<2\nblk.*.ssm_a 4 decay @<2\nblk.*.ssm_beta.weight 64x4 @<2\nblk.*.ssm_alpha.weight 64x4 @<2\n"
      "blk.*.ssm_norm.weight 16 @<2\nblk.*.ssm_out.weight 64x64 small @<2\nblk.*.post_attention_norm.weight 64\n"
      SMALL_EXPERTS("") "blk.*.ffn_gate_inp_shexp.weight 64\n" NEXTN "blk.*.nextn.shared_head_norm.weight 64 @3\n" },
    /* latent attention; the block has the trunk's last norm */
    { "tiny-draft-deepseek2", "deepseek2", 4, 300, 4, 1, false,
      "%.context_length=512\n%.embedding_length=64\n%.feed_forward_length=64\n%.attention.head_count=4\n%.attention.head_count_kv=1\n"
      "%.attention.key_length=48\n%.attention.value_length=40\n%.attention.key_length_mla=24\n%.attention.value_length_mla=16\n"
      "%.attention.q_lora_rank=32\n%.attention.kv_lora_rank=40\n%.rope.dimension_count=8\n%.attention.layer_norm_rms_epsilon=0.000001\n"
      "%.leading_dense_block_count=1\n%.expert_count=6\n%.expert_used_count=2\n%.expert_shared_count=1\n"
      "%.expert_feed_forward_length=32\n%.expert_weights_norm=true\n%.expert_gating_func=2\n%.nextn_predict_layers=1\n",
      HEAD("64") "output.weight 64xV\nblk.*.attn_norm.weight 64\nblk.*.attn_q_a.weight 64x32\nblk.*.attn_q_a_norm.weight 32\n"
      "blk.*.attn_q_b.weight 32x96\nblk.*.attn_kv_a_mqa.weight 64x48\nblk.*.attn_kv_a_norm.weight 40\nblk.*.attn_k_b.weight 16x40x4\n"
      "blk.*.attn_v_b.weight 40x16x4\nblk.*.attn_output.weight 64x64 small\nblk.*.ffn_norm.weight 64\n"
      "blk.*.ffn_gate.weight 64x64 @<1\nblk.*.ffn_up.weight 64x64 @<1\nblk.*.ffn_down.weight 64x64 small @<1\n"
      "blk.*.exp_probs_b.bias 6 bias @>0\n" SMALL_EXPERTS(" @>0") NEXTN },
    /* the block has its own embedding and output matrix */
    { "tiny-draft-glm4moe", "glm4moe", 4, 300, 4, 2, false,
      "%.context_length=512\n%.embedding_length=64\n%.feed_forward_length=64\n%.attention.head_count=4\n%.attention.head_count_kv=2\n"
      "%.attention.key_length=16\n%.attention.value_length=16\n%.attention.layer_norm_rms_epsilon=0.00001\n%.rope.dimension_count=8\n"
      "%.leading_dense_block_count=0\n%.expert_count=6\n%.expert_used_count=2\n%.expert_shared_count=1\n"
      "%.expert_feed_forward_length=32\n%.expert_weights_norm=true\n%.expert_gating_func=2\n%.nextn_predict_layers=1\n",
      HEAD("64") "output.weight 64xV\nblk.*.attn_norm.weight 64\nblk.*.attn_q.weight 64x64\nblk.*.attn_k.weight 64x32\n"
      "blk.*.attn_v.weight 64x32\nblk.*.attn_output.weight 64x64\nblk.*.post_attention_norm.weight 64\n"
      "blk.*.exp_probs_b.bias 6 bias\n" SMALL_EXPERTS("") NEXTN "blk.*.nextn.shared_head_norm.weight 64 @3\n"
      "blk.*.nextn.embed_tokens.weight 64xV @3\nblk.*.nextn.shared_head_head.weight 64xV @3\n" },
};
const uint32_t n_recipes = sizeof recipes / sizeof *recipes;

/* ---- lines ---- */

static _Noreturn void bad_line(const struct recipe *r, const char *line)
{
    fprintf(stderr, "make_gguf: recipe %s: \"%s\" is not a tensor\n", r->name, line);
    exit(1);
}

/* "3%4", "<2", ">1", "2,6,10"; "!" before it selects all other layers. */
static bool holds(const char *where, int64_t layer)
{
    const bool others = *where == '!';
    if (others) where++;
    char *end;
    bool is = false;
    if (*where == '<' || *where == '>') {
        const long n = strtol(where + 1, &end, 10);
        is = *where == '<' ? layer < n : layer > n;
    }
    else {
        const long first = strtol(where, &end, 10);
        if (*end == '%') is = layer % strtol(end + 1, NULL, 10) == first;
        else {
            is = first == layer;
            while (*end == ',') is |= strtol(end + 1, &end, 10) == layer;
        }
    }
    return is != others;
}

static uint64_t read_size(const char **p, uint32_t n_vocab)
{
    char *end;
    uint64_t n = n_vocab;
    if (**p == 'V') end = (char *)(uintptr_t)(*p + 1);
    else n = strtoull(*p, &end, 10);
    *p = *end == 'x' ? end + 1 : end;
    return n;
}

/* "blk.3.attn_q.weight" -> "attn_q" */
static void set_role(struct recipe_tensor *t)
{
    const char *from = t->name;
    if (t->layer >= 0) from = strchr(from + 4, '.') + 1;
    snprintf(t->role, sizeof t->role, "%s", from);
    char *ending = strstr(t->role, ".weight");
    if (ending) *ending = 0;
}

bool recipe_tensor(const struct recipe *r, uint32_t n_vocab, const char **text, int64_t layer, struct recipe_tensor *t, bool *wanted)
{
    char line[128], name[48], size[40], more[3][40] = { "", "", "" };
    const size_t n = strcspn(*text, "\n");
    if (!**text) return false;
    snprintf(line, sizeof line, "%.*s", (int)n, *text);
    *text += n + 1;
    if (n >= sizeof line || sscanf(line, "%47s %39s %39s %39s %39s", name, size, more[0], more[1], more[2]) < 2) bad_line(r, line);
    *t = (struct recipe_tensor){ .layer = layer, .fill = RECIPE_WEIGHTS };
    const char *star = strchr(name, '*'), *p = size;
    *wanted = (star != NULL) == (layer >= 0);
    if (star && layer >= 0) snprintf(t->name, sizeof t->name, "%.*s%d%s", (int)(star - name), name, (int)layer, star + 1);
    else snprintf(t->name, sizeof t->name, "%s", name);
    t->cols = read_size(&p, n_vocab);
    t->rows = *p ? read_size(&p, n_vocab) : 0;
    t->slices = *p ? read_size(&p, n_vocab) : 0;
    if (*p || !t->cols) bad_line(r, line);
    if (!t->rows) t->fill = RECIPE_NORM;
    for (int i = 0; i < 3 && *more[i]; i++) {
        if (*more[i] == '@') *wanted = *wanted && holds(more[i] + 1, layer);
        else if (strcmp(more[i], "F32") == 0) t->f32 = true;
        else if (strcmp(more[i], "norm") == 0) t->fill = RECIPE_NORM;
        else if (strcmp(more[i], "bias") == 0) t->fill = RECIPE_BIAS;
        else if (strcmp(more[i], "decay") == 0) t->fill = RECIPE_DECAY;
        else if (strcmp(more[i], "small") == 0) t->fill = RECIPE_SMALL;
        else if (strcmp(more[i], "eye") == 0) t->fill = RECIPE_EYE;
        else bad_line(r, line);
    }
    if (*wanted) set_role(t);
    return true;
}
