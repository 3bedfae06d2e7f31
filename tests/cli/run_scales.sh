#!/bin/sh
# run_scales.sh FORGEC MAKE_GGUF LIBSIMT -- NVFP4 with a scale for each tensor or expert: programs multiply their products by it,
# before biases and in gates.  tests/unit/test_operations.c compares the reference with plain sums.
forgec=$1 make=$2 FORGE_HIP_LIBRARY=$3
export FORGE_HIP_LIBRARY
. "$(dirname "$0")/../harness.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
lanes=$root/tests/lanes/simt32.yaml
cd "$tmp" || exit 1
biases=attn_q_bias,attn_k_bias,attn_v_bias,attn_output_bias,ffn_gate_bias,ffn_up_bias,ffn_down_bias,attn_q_norm,attn_k_norm
"$make" --layers 2 --embd 128 --heads 4 --kv-heads 2 --ff 192 --vocab 300 --untied --ctx 256 --type NVFP4 --pure --scales --with $biases -o dense.gguf || exit 1
"$make" --shape tiny-gpt-oss --type NVFP4 --pure --scales -o biased.gguf || exit 1
"$make" --shape tiny-qwen3moe --type NVFP4 --pure --scales -o plain.gguf || exit 1
for model in dense biased plain; do
    check "$model graph" 0 "$forgec" build $model.gguf --emit graph -o -
    [ "$(grep -c 'times [01.]*[a-z_]*_scale' "$tmp/out")" -eq 15 ] || bad "not 15 scales"
    [ -n "$full" ] || [ $model != plain ] || continue                      # biased has its experts, too
    check "$model" 0 "$forgec" verify $model.gguf --ctx 64 --tokens 24 --exact
    [ -n "$full" ] || [ $model = biased ] || continue                      # which has all that scales stand beside
    check "$model on lanes, rounded" 0 "$forgec" verify $model.gguf --ctx 64 --tokens 40 -t "$lanes"
    [ -n "$full" ] || continue
    check "$model rounded" 0 "$forgec" verify $model.gguf --ctx 64 --tokens 24
    check "$model unfused" 0 "$forgec" verify $model.gguf --ctx 64 --tokens 24 --exact --fuse none
    check "$model on lanes" 0 "$forgec" verify $model.gguf --ctx 64 --tokens 20 --exact -t "$lanes"
    check "$model on lanes, unfused" 0 "$forgec" verify $model.gguf --ctx 64 --tokens 20 --exact --fuse none -t "$lanes"
done
# The results of gate and up are scaled in the kernel that has both.
check plan 0 "$forgec" build dense.gguf --emit plan -o -
out_has "ffn_gate_up: rmsnorm matmul(ffn_gate) times bias glu_silu matmul(ffn_up) times bias"
check plan 0 "$forgec" build biased.gguf --emit plan -o -
out_has "expert_matmul(ffn_gate_exps) expert_times expert_bias glu_oai expert_matmul(ffn_up_exps) expert_times expert_bias"
summary
